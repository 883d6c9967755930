//! The inquiries of a project on disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Inquiry;
use super::book::{Book, LONGEST};
use crate::clock::Clock;
use crate::files::{is_abandoned, make_private, read_untrusted, replace};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the size of a file: a question and an answer, escaped.
const LARGEST: u64 = 16 * LONGEST as u64;
const ENDING: &str = "json";

/// The inquiries of a project, read at their first use.
pub(crate) struct Room {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    /// Held briefly; `None` until it was read.
    book: Mutex<Option<Arc<Book>>>,
    /// Held while files are written, which readers do not wait for.
    writing: Mutex<()>,
    changed: watch::Sender<u64>,
    /// Number of waiting calls by what they wait for.
    awaited: Mutex<BTreeMap<String, usize>>,
}

impl Room {
    pub(crate) fn new(folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self {
            folder,
            clock,
            book: Mutex::default(),
            writing: Mutex::default(),
            changed: watch::Sender::new(0),
            awaited: Mutex::default(),
        }
    }

    /// Changes the book. What it changes is on disk when this returns; after an error nothing has changed.
    ///
    /// # Errors
    /// Errors of `act` and of the disk.
    pub(crate) async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Book) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let room = Arc::clone(self);
        let failed = |error| Error::new(ErrorKind::Internal, "changing inquiries").with_source(error);
        tokio::task::spawn_blocking(move || room.change(act)).await.map_err(failed)?
    }

    /// Notes something in the book, as [`with`](Self::with) does.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) async fn note(self: &Arc<Self>, note: impl FnOnce(&mut Book) + Send + 'static) -> Result<()> {
        self.with(|book| {
            note(book);
            Ok(())
        })
        .await
    }

    /// Returns the current book, in which everything that is due has expired. Touches the disk only for the first read, and to
    /// expire an inquiry.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) async fn book(self: &Arc<Self>) -> Result<Arc<Book>> {
        // A question whose time is over must expire before it is shown.
        let known = self.known().filter(|book| !book.is_due(&self.clock.now()));
        match known {
            Some(book) => Ok(book),
            None => {
                self.note(|_| {}).await?;
                self.known().ok_or_else(|| Error::new(ErrorKind::Internal, "no inquiries were read"))
            }
        }
    }

    fn known(&self) -> Option<Arc<Book>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<T>(&self, act: impl FnOnce(&mut Book) -> Result<T>) -> Result<T> {
        // Over the whole change, so that two changes cannot start from the same book.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut book = match self.known() {
            Some(book) => Book::clone(&book),
            None => {
                let mut book = self.read()?;
                book.withdraw_of_person();
                book
            }
        };
        // Before the change: an answer that comes late must find its question expired.
        book.expire(&self.clock.now());
        let result = act(&mut book);
        let (changed, removed) = book.take_changes();
        for inquiry in &changed {
            let text = serde_json::to_vec(inquiry)
                .map_err(|error| Error::new(ErrorKind::Internal, "writing an inquiry").with_source(error))?;
            // Here and not at the start, because most projects never ask.
            make_private(&self.folder)?;
            replace(&self.path(&inquiry.id), &text)?;
        }
        for id in &removed {
            // Read again, it would be removed again.
            let _ = std::fs::remove_file(self.path(id));
        }
        // Only once it is on disk: no reader may act on a question that a kill would undo.
        *self.book.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(book));
        if !changed.is_empty() {
            self.changed.send_modify(|count| *count += 1);
        }
        result
    }

    /// Returns a channel that reports every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Notes that a call waits for `what` until the guard is dropped: it is then not given in another way.
    pub(crate) fn awaiting(self: &Arc<Self>, what: String) -> Awaiting {
        *self.waiters().entry(what.clone()).or_default() += 1;
        Awaiting { room: Arc::clone(self), what }
    }

    /// Returns true if a call waits for `what`.
    pub(crate) fn is_awaited(&self, what: &str) -> bool {
        self.waiters().contains_key(what)
    }

    fn waiters(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(id).with_extension(ENDING)
    }

    fn read(&self) -> Result<Book> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Book::default()),
            entries => {
                entries.map_err(|error| Error::io("reading the inquiries", error).with_path(&self.folder))?
            }
        };
        let mut kept = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if is_abandoned(&entry.file_name()) {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let Some(bytes) = read_untrusted(&path, LARGEST)? else { continue };
            match serde_json::from_slice::<Inquiry>(&bytes) {
                // Its name is where it is written to next.
                Ok(inquiry) if self.path(&inquiry.id) == path => kept.push(inquiry),
                // Files appear whole, so it is another program's, or a later release's.
                _ => tracing::warn!("{} is no inquiry", path.display()),
            }
        }
        Ok(Book::of(kept))
    }
}

/// Guard of a call that waits.
pub(crate) struct Awaiting {
    room: Arc<Room>,
    what: String,
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        let mut waiters = self.room.waiters();
        if let Some(count) = waiters.get_mut(&self.what) {
            *count -= 1;
            if *count == 0 {
                waiters.remove(&self.what);
            }
        }
        drop(waiters);
        // What came meanwhile may now be given in another way.
        self.room.changed.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::inquiry::{Ask, InquiryState, Party};
    use crate::model::Timestamp;

    fn ask(text: &str) -> Ask {
        let party = |session: &str| Party::Session {
            session: session.parse().unwrap(),
            alias: "brave-otter".parse().unwrap(),
            task: None,
        };
        let deadline = Timestamp::from_unix_millis(SystemClock.now().unix_millis() + 60_000);
        Ask { from: party("s0"), to: party("s1"), text: text.to_owned(), deadline, call: None, salt: 7 }
    }

    #[tokio::test]
    async fn what_was_accepted_is_on_disk() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("inquiries");
        let open = || Arc::new(Room::new(folder.clone(), Arc::new(SystemClock)));
        let room = open();
        let mut changes = room.changes();
        let id = room.with(|book| book.ask(&SystemClock.now(), ask("one"))).await.unwrap().id;
        changes.changed().await.unwrap();
        // Of the person, who waits in a program, nothing is left when that has ended.
        let person = Ask { from: Party::Person, ..ask("three") };
        let gone = room.with(|book| book.ask(&SystemClock.now(), person)).await.unwrap().id;
        std::fs::write(folder.join("q9-0000.json"), "{").unwrap();
        std::fs::write(folder.join("other.json"), std::fs::read(folder.join("q1-0007.json")).unwrap())
            .unwrap();
        let again = open();
        let found = id.clone();
        assert_eq!(again.with(move |book| book.find(&found).cloned()).await.unwrap().text, "one");
        assert_eq!(again.with(|book| Ok(book.pending().count())).await.unwrap(), 1);
        let withdrawn = again.with(move |book| book.find(&gone).cloned()).await.unwrap();
        assert_eq!(withdrawn.state, InquiryState::Withdrawn);
        assert_eq!(again.with(|book| book.ask(&SystemClock.now(), ask("two"))).await.unwrap().id, "q3-0007");
        // What cannot be written did not happen.
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "").unwrap();
        assert!(again.with(move |book| book.answer(&Party::Person, &id, "x")).await.is_err());
        assert_eq!(again.with(|book| Ok(book.pending().count())).await.unwrap(), 2);
    }
}
