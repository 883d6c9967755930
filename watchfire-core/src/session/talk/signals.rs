//! Immediate notice of changes in a session's folders.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::files::FolderWatch;

/// Folders under watch. Where the system has no watch to give, readers find changes by polling.
pub(crate) struct SignalWatch {
    changed: Arc<Notify>,
    watches: Vec<FolderWatch>,
}

impl SignalWatch {
    /// Watches `folders`.
    pub(crate) fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let changed = Arc::new(Notify::new());
        let watch = |folder: PathBuf| {
            FolderWatch::new(&folder, &changed)
                // Watches are a scarce resource of the system; without one the session is slower, not broken.
                .inspect_err(|error| tracing::warn!("watching a session by polling: {}", error.report()))
                .ok()
        };
        let watches = folders.into_iter().filter_map(watch).collect();
        Self { changed, watches }
    }

    /// Returns the notification that fires on every change.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }
}

impl fmt::Debug for SignalWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalWatch").field("watches", &self.watches.len()).finish_non_exhaustive()
    }
}
