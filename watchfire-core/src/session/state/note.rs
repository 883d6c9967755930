//! The vendor's session id on disk, for a resume after a crash.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::files::replace;

/// File with the id of the vendor's session. The newest id is the one that stays.
#[derive(Clone, Debug)]
pub(in crate::session) struct Note(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    newest: Mutex<Option<String>>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

impl Note {
    pub(in crate::session) fn new(path: PathBuf) -> Self {
        Self(Arc::new(Inner { path, newest: Mutex::default(), writing: Mutex::default() }))
    }

    /// Writes the id on a thread for blocking work. If it is lost, a later start has one session less to resume.
    pub(in crate::session) fn put(&self, id: &str) {
        self.0.newest.lock().unwrap_or_else(PoisonError::into_inner).replace(id.to_owned());
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let _writing = inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
            // Threads start in any order: the first writes the newest id, and the others find nothing left.
            let newest = inner.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
            newest.map(|id| replace(&inner.path, id.as_bytes()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_id_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        for round in 0..50 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let note = Note::new(path.clone());
            runtime.block_on(async {
                for id in 0..4 {
                    note.put(&format!("{round}-{id}"));
                }
            });
            // Waits for the threads.
            drop(runtime);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{round}-3"));
        }
    }
}
