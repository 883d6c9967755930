//! Events of the file system, as hints to look again.
//!
//! One watcher (one inotify instance, of which a user has 128) serves the whole process. An event says only that
//! something in a folder has changed, so lost and duplicate events do no harm to a reader that also polls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::Dir;
use crate::{Error, ErrorKind, Result};

/// The signals of each watched folder.
///
/// Never locked while the watcher is called: that call waits for the watcher's thread, which locks this map.
type Routes = Mutex<HashMap<PathBuf, Vec<Weak<Notify>>>>;

static ROUTES: OnceLock<Routes> = OnceLock::new();
/// The watcher, once it could be created. Locked before [`ROUTES`] where both are held.
static WATCHER: Mutex<Option<RecommendedWatcher>> = Mutex::new(None);

fn routes() -> &'static Routes {
    ROUTES.get_or_init(Routes::default)
}

/// A watch on one folder, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    path: PathBuf,
    /// Device and inode: another folder can take the place at the same path.
    identity: (u64, u64),
    signal: Arc<Notify>,
}

impl FolderWatch {
    /// Notifies `signal` of every event in `folder` itself, not in folders below.
    ///
    /// # Errors
    /// `not_supported` if the system has no watch left to give, or none at all; errors of opening the folder.
    pub(crate) fn new(folder: &Path, signal: &Arc<Notify>) -> Result<Self> {
        Self::of(&Dir::open(folder)?, signal)
    }

    /// Notifies `signal` of every event in `dir` itself.
    pub(crate) fn of(dir: &Dir, signal: &Arc<Notify>) -> Result<Self> {
        let path = dir.path().to_owned();
        let mut watcher = lock(&WATCHER);
        // The route before the watch: the first event can arrive before `start` returns.
        lock(routes()).entry(path.clone()).or_default().push(Arc::downgrade(signal));
        let started = start(&mut watcher, &path);
        // Before an error can drop the new `FolderWatch`, whose `drop` takes this lock again.
        drop(watcher);
        let identity = dir.own_stamp().unwrap_or_default();
        let watch = Self { path, identity, signal: Arc::clone(signal) };
        started.map(|()| watch).map_err(|error| {
            Error::new(ErrorKind::NotSupported, "the system gives no file watch")
                .with_path(dir.path())
                .with_source(error)
        })
    }

    /// Returns true if this watch is on `dir` and the same folder is still at its path.
    #[cfg(feature = "yaml")]
    pub(crate) fn is_of(&self, dir: &Dir) -> bool {
        dir.path() == self.path && dir.own_stamp() == Some(self.identity)
    }
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        let mut watcher = lock(&WATCHER);
        let mut routes = lock(routes());
        let Some(signals) = routes.get_mut(&self.path) else { return };
        // Several watches may share one signal, and only one of their entries is ours.
        let mut found = false;
        signals.retain(|signal| {
            let ours = !found && signal.as_ptr() == Arc::as_ptr(&self.signal);
            found |= ours;
            !ours && signal.strong_count() > 0
        });
        if signals.is_empty() {
            routes.remove(&self.path);
            // Before `unwatch`, which waits for the watcher's thread, and that thread may be waiting for this
            // lock.
            drop(routes);
            if let Some(watcher) = watcher.as_mut() {
                // Fails if the folder is gone, and its watch with it.
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
        // Reading is no change, and our own reads would wake us without end.
        Ok(event) if matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)) =>
        {
            return;
        }
        Ok(event) => {
            // The kernel's queue has overflowed, or the event names no folder: every reader looks again.
            let all = event.need_rescan() || event.paths.is_empty();
            (event.paths, all)
        }
        Err(error) => (error.paths, true),
    };
    let routes = lock(routes());
    let notify = |dir: &Path| {
        for signal in routes.get(dir).into_iter().flatten().filter_map(Weak::upgrade) {
            signal.notify_one();
        }
    };
    if all {
        routes.keys().for_each(|dir| notify(dir));
    }
    // An event names either the watched folder itself or an entry of it.
    for path in paths {
        notify(&path);
        if let Some(parent) = path.parent() {
            notify(parent);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
