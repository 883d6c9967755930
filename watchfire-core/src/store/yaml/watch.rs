//! Events of the file system, as mere hints to look again.
//!
//! One watcher (one inotify instance) serves the whole process. An event says only that something in a folder has
//! changed; what changed is found by comparing revisions, so lost and doubled events do no harm, and polling stands
//! behind them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::files::Dir;
use crate::store::changes::lock;
use crate::{Error, ErrorKind, Result};

/// Who is told of events in which folder. Never held while the watcher is called, which waits for its own thread.
type Routes = Mutex<HashMap<PathBuf, Vec<Weak<Notify>>>>;

static ROUTES: OnceLock<Routes> = OnceLock::new();
/// The watcher, once it could be made.
///
/// Whoever holds this and [`ROUTES`] has taken this first.
static WATCHER: Mutex<Option<RecommendedWatcher>> = Mutex::new(None);

fn routes() -> &'static Routes {
    ROUTES.get_or_init(Routes::default)
}

/// A folder under watch, until it is dropped.
#[derive(Debug)]
pub(in crate::store) struct Watch {
    path: PathBuf,
    /// Which folder it was: another may come to stand under the same path.
    identity: (u64, u64),
    signal: Arc<Notify>,
}

impl Watch {
    /// Has `signal` notified of every event in `dir` itself, not below.
    ///
    /// # Errors
    /// When the system has no watcher to give: too many instances, too many watches, none at all.
    pub(in crate::store) fn new(dir: &Dir, signal: &Arc<Notify>) -> Result<Self> {
        let path = dir.path().to_owned();
        let mut watcher = lock(&WATCHER);
        lock(routes()).entry(path.clone()).or_default().push(Arc::downgrade(signal));
        let started = start(&mut watcher, &path);
        drop(watcher);
        let identity = dir.own_stamp().unwrap_or_default();
        let watch = Self { path, identity, signal: Arc::clone(signal) };
        started.map(|()| watch).map_err(|error| {
            Error::new(ErrorKind::NotSupported, "the system gives no file watch")
                .with_path(dir.path())
                .with_source(error)
        })
    }

    /// Whether it still watches what stands at its path.
    pub(in crate::store) fn is_of(&self, dir: &Dir) -> bool {
        dir.path() == self.path && dir.own_stamp() == Some(self.identity)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watcher = lock(&WATCHER);
        let mut routes = lock(routes());
        let Some(signals) = routes.get_mut(&self.path) else { return };
        let mut found = false;
        signals.retain(|signal| {
            let ours = !found && signal.as_ptr() == Arc::as_ptr(&self.signal);
            found |= ours;
            !ours && signal.strong_count() > 0
        });
        if signals.is_empty() {
            routes.remove(&self.path);
            drop(routes);
            if let Some(watcher) = watcher.as_mut() {
                // It fails where the folder is gone, and its watch with it.
                let _ = watcher.unwatch(&self.path);
            }
        }
    }
}

fn start(watcher: &mut Option<RecommendedWatcher>, path: &Path) -> notify::Result<()> {
    let watcher = match watcher {
        Some(watcher) => watcher,
        none => none.insert(notify::recommended_watcher(dispatch)?),
    };
    watcher.watch(path, RecursiveMode::NonRecursive)
}

fn dispatch(event: notify::Result<notify::Event>) {
    let (paths, all) = match event {
        // Reading is no change, and our own reading would wake us for ever.
        Ok(event) if matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)) =>
        {
            return;
        }
        Ok(event) => {
            let all = event.need_rescan() || event.paths.is_empty();
            (event.paths, all)
        }
        Err(error) => (error.paths, true),
    };
    let routes = lock(routes());
    let told = |dir: &Path| {
        for signal in routes.get(dir).into_iter().flatten().filter_map(Weak::upgrade) {
            signal.notify_one();
        }
    };
    if all {
        routes.keys().for_each(|dir| told(dir));
    }
    for path in paths {
        told(&path);
        if let Some(parent) = path.parent() {
            told(parent);
        }
    }
}
