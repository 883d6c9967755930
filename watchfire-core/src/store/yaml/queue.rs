//! Fair queue of the writers of one process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use crate::store::changes::lock;

/// Fair queue in front of a lock file. All queues of one process for the same file are one.
///
/// The kernel grants a file lock to any waiter, so without the queue one of many writers could wait for ever. The
/// queue also keeps waiting writers off the threads for blocking work.
#[derive(Clone, Debug)]
pub(in crate::store) struct Queue(Arc<Turns<()>>);

impl Queue {
    /// Returns the queue of the lock file at `path`.
    pub(in crate::store) fn of(path: &Path) -> Self {
        static QUEUES: Mutex<Option<HashMap<PathBuf, Weak<Turns<()>>>>> = Mutex::new(None);
        let mut queues = lock(&QUEUES);
        let queues = queues.get_or_insert_default();
        if let Some(queue) = queues.get(path).and_then(Weak::upgrade) {
            return Self(queue);
        }
        // Cleaned up here, since a queue that is dropped does not remove its entry.
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Turns::new(()));
        queues.insert(path.to_owned(), Arc::downgrade(&queue));
        Self(queue)
    }

    /// Waits for its turn, which ends when the guard is dropped.
    pub(in crate::store) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0).lock_owned().await
    }
}
