//! The texts that wait for an agent, on disk: they outlive the program that took them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::{make_private, remove_tree, replace};
use crate::{Error, ErrorKind, Result};

/// The text that asks an agent to go on once its limit is over.
pub(in crate::session) const GO_ON: &str = "Go on.";
/// Maximum number of texts that wait.
const WAITING: usize = 256;
/// Extension of a text that waits.
const TEXT: &str = "txt";
/// Extension of a text that is being typed.
const TYPED: &str = "typed";

/// A folder with a file for each text that was accepted for the agent of a life and not delivered. Their names are in the order
/// of acceptance.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Number of the next text.
    next: AtomicU64,
}

/// The file of one text.
#[derive(Clone, Debug)]
pub(in crate::session) struct Letter(PathBuf);

/// Texts that an earlier program left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Texts that were not typed, or may be typed again, oldest first.
    pub(in crate::session) waiting: Vec<(Letter, String)>,
    /// Texts that may have been typed in part. They stay until the person is told.
    pub(in crate::session) interrupted: Vec<Letter>,
}

impl Mailbox {
    /// Opens the mailbox in this folder, which may be missing, and takes what an earlier program left. Blocks.
    pub(crate) fn open(folder: PathBuf) -> (Self, Left) {
        let last = names(&folder).filter_map(|name| number(&name)).max();
        let left = Left::take(&folder);
        (Self(Arc::new(Inner { folder, next: AtomicU64::new(last.map_or(0, |last| last + 1)) })), left)
    }

    /// Removes a mailbox, and returns the number of texts in it that are not known to have been submitted. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn close(folder: &Path) -> Result<usize> {
        let left = names(folder).filter(|name| is_letter(name)).count();
        remove_tree(folder).map_err(|e| Error::io("removing a mailbox", e).with_path(folder))?;
        Ok(left)
    }

    /// Puts a text in. It is durable when this returns. Blocks.
    ///
    /// # Errors
    /// `busy` if too many wait; I/O errors.
    pub(in crate::session) fn put(&self, text: &str) -> Result<Letter> {
        let folder = &self.0.folder;
        if names(folder).filter(|name| is_letter(name)).count() >= WAITING {
            return Err(
                Error::new(ErrorKind::Busy, "too many texts wait for the agent").with("limit", WAITING)
            );
        }
        make_private(folder)?;
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{number:010}.{TEXT}"));
        replace(&path, text.as_bytes())?;
        Ok(Letter(path))
    }
}

impl Left {
    fn take(folder: &Path) -> Self {
        let mut left = Self::default();
        let mut files: Vec<_> = names(folder).collect();
        files.sort_unstable();
        for path in files {
            match path.extension().and_then(|it| it.to_str()) {
                Some(TEXT) => {
                    // One that cannot be read stays where it is.
                    let Ok(text) = fs::read_to_string(&path) else { continue };
                    left.waiting.push((Letter(path), text));
                }
                // Said twice it does no harm, and not at all it leaves an agent that waits for it.
                Some(TYPED) if fs::read_to_string(&path).is_ok_and(|text| text == GO_ON) => {
                    left.waiting.push((Letter(path), GO_ON.to_owned()));
                }
                Some(TYPED) => left.interrupted.push(Letter(path)),
                _ => {}
            }
        }
        left
    }
}

impl Letter {
    /// Notes that the text is being typed: from now on no other program types it. Blocks.
    ///
    /// # Errors
    /// I/O errors; then it must not be typed.
    pub(in crate::session) fn begin(&mut self) -> Result<()> {
        let typed = self.0.with_extension(TYPED);
        let renamed = fs::rename(&self.0, &typed);
        renamed.map_err(|e| Error::io("noting that a text is typed", e).with_path(&self.0))?;
        self.0 = typed;
        Ok(())
    }

    /// Removes the text, once its sender is told of the outcome. Blocks.
    pub(in crate::session) fn remove(self) {
        // Left behind, it is one that was interrupted.
        let _ = fs::remove_file(self.0.with_extension(TEXT));
        let _ = fs::remove_file(self.0.with_extension(TYPED));
    }
}

fn names(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// False for what a write that was killed left.
fn is_letter(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == TEXT || it == TYPED)
}

fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(left: &Left) -> Vec<&str> {
        left.waiting.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn texts_keep_their_order_over_programs() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("1");
        let (first, left) = Mailbox::open(folder.clone());
        assert!(left.waiting.is_empty() && !folder.exists());
        let letters: Vec<_> = ["a", "b", "c", "d"].iter().map(|text| first.put(text).unwrap()).collect();
        let [a, mut b, c, _] = letters.try_into().unwrap();
        a.remove();
        b.begin().unwrap();
        drop((b, c));
        let (second, left) = Mailbox::open(folder.clone());
        assert_eq!((texts(&left), left.interrupted.len()), (vec!["c", "d"], 1));
        second.put("e").unwrap();
        let (_, left) = Mailbox::open(folder.clone());
        assert_eq!((texts(&left), left.interrupted.len()), (vec!["c", "d", "e"], 1), "nobody was told yet");
        left.interrupted.into_iter().for_each(Letter::remove);
        let (_, mut left) = Mailbox::open(folder.clone());
        assert_eq!((texts(&left), left.interrupted.len()), (vec!["c", "d", "e"], 0), "told once");
        left.waiting[0].0.begin().unwrap();
        std::fs::write(folder.join("0000000009.txt.tmp"), "torn").unwrap();
        assert_eq!(Mailbox::close(&folder).unwrap(), 3, "whether it arrived or not");
        assert!(!folder.exists());
        assert_eq!(Mailbox::close(&folder).unwrap(), 0);
    }

    /// The person was told that the agent goes on.
    #[test]
    fn an_agent_is_asked_again_to_go_on() {
        let temp = tempfile::tempdir().unwrap();
        let (mailbox, _) = Mailbox::open(temp.path().to_owned());
        for text in [GO_ON, "else"] {
            mailbox.put(text).unwrap().begin().unwrap();
        }
        let (_, mut left) = Mailbox::open(temp.path().to_owned());
        assert_eq!((texts(&left), left.interrupted.len()), (vec![GO_ON], 1));
        left.waiting[0].0.begin().unwrap();
        assert_eq!(texts(&Mailbox::open(temp.path().to_owned()).1), [GO_ON]);
        left.waiting.remove(0).0.remove();
        assert_eq!(texts(&Mailbox::open(temp.path().to_owned()).1), [""; 0]);
    }

    #[test]
    fn a_mailbox_has_a_bound() {
        let temp = tempfile::tempdir().unwrap();
        let (mailbox, _) = Mailbox::open(temp.path().to_owned());
        for _ in 0..WAITING {
            mailbox.put("x").unwrap();
        }
        assert_eq!(mailbox.put("x").unwrap_err().code(), "busy");
    }
}
