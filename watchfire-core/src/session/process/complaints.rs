//! What an agent on pipes wrote to stderr.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::process::BoundedBytes;

/// Number of bytes that are kept.
const KEPT: usize = 64 * 1024;

/// The kept part of stderr, its beginning and its end, and a notification for every write.
#[derive(Debug)]
pub(super) struct Complaints {
    kept: Mutex<BoundedBytes>,
    more: Notify,
}

impl Default for Complaints {
    fn default() -> Self {
        Self { kept: Mutex::new(BoundedBytes::new(KEPT)), more: Notify::new() }
    }
}

impl Complaints {
    pub(super) fn push(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.lock().push(bytes);
            self.more.notify_one();
        }
    }

    pub(super) fn text(&self) -> String {
        self.lock().text()
    }

    /// Waits until more was written since the last call.
    pub(super) async fn more(&self) {
        self.more.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BoundedBytes> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
