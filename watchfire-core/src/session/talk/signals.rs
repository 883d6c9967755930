//! Being told when something changes in a session's folder, at once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::files::FolderWatch;

/// A folder under watch, or nothing where the system has no watch to give: whoever waits also looks by itself.
pub(crate) struct SignalWatch {
    changed: Arc<Notify>,
    watch: Option<FolderWatch>,
}

impl SignalWatch {
    /// Watches `folder`, if there is one.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        let changed = Arc::new(Notify::new());
        let watch = folder.and_then(|folder| {
            FolderWatch::new(folder, &changed)
                .inspect_err(|error| tracing::warn!("watching a session by polling: {}", error.report()))
                .ok()
        });
        Self { changed, watch }
    }

    /// Fires on every change.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }
}

impl fmt::Debug for SignalWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalWatch").field("watching", &self.watch.is_some()).finish_non_exhaustive()
    }
}
