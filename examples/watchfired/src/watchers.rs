//! Which clients follow which projects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use watchfire_api::daemon_proto::{RequestMeta, Watcher};

/// The longest that a client's word for itself is kept, in characters.
const LONGEST: usize = 64;

/// The streams that are open now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    streams: Mutex<Streams>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, (RequestMeta, String)>,
}

impl Watchers {
    /// Notes a client that follows `project`, all where that is empty, until the result is dropped. One that does not say who it
    /// is counts too.
    pub(crate) fn add(&self, meta: Option<RequestMeta>, project: &str) -> Watching {
        let short = |text: String| text.chars().take(LONGEST).collect();
        let RequestMeta { origin, client_id, version } = meta.unwrap_or_default();
        let (origin, client_id, version) = (short(origin), short(client_id), short(version));
        let mut streams = self.lock();
        let id = streams.next;
        streams.next += 1;
        streams.open.insert(id, (RequestMeta { origin, client_id, version }, project.to_owned()));
        self.0.changes.send_replace(());
        Watching { watchers: self.clone(), id }
    }

    /// Returns each client once for each project that it follows.
    pub(crate) fn list(&self) -> Vec<Watcher> {
        let streams = self.lock();
        let key = |(meta, project): &(RequestMeta, String)| {
            let RequestMeta { origin, client_id, version } = meta.clone();
            (project.clone(), origin, client_id, version)
        };
        let known: BTreeSet<_> = streams.open.values().map(key).collect();
        let watcher = |(project_id, origin, client_id, version)| {
            let meta = Some(RequestMeta { origin, client_id, version });
            Watcher { meta, project_id }
        };
        known.into_iter().map(watcher).collect()
    }

    /// Returns true if a stream follows the project, or all.
    pub(crate) fn follow(&self, project: &str) -> bool {
        self.lock().open.values().any(|(_, followed)| followed.is_empty() || followed == project)
    }

    /// Changes with each stream that begins or ends.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of a client, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watchers: Watchers,
    id: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watchers.lock().open.remove(&self.id);
        self.watchers.0.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_there_once_for_each_project_until_its_last_stream_ends() {
        let watchers = Watchers::default();
        let meta = |id: &str| RequestMeta { origin: "tui".into(), client_id: id.into(), version: "1".into() };
        let first = [watchers.add(Some(meta("a")), "shop"), watchers.add(Some(meta("a")), "")];
        let second = watchers.add(Some(meta("a")), "shop");
        let stranger = watchers.add(Some(meta(&"x".repeat(1000))), "shop");
        let told = || {
            let of = |watcher: Watcher| (watcher.project_id, watcher.meta.unwrap().client_id);
            watchers.list().into_iter().map(of).collect::<Vec<_>>()
        };
        let pair = |project: &str, id: &str| (project.to_owned(), id.to_owned());
        assert_eq!(told(), [pair("", "a"), pair("shop", "a"), pair("shop", &"x".repeat(64))]);
        drop((first, stranger));
        assert_eq!(told(), [pair("shop", "a")]);
        drop(second);
        assert_eq!(told(), []);
    }
}
