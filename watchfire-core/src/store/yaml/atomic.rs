//! Replacing a file that others write at the same time.
//!
//! Our writers queue at a lock. Others (people, agents, the Go edition) know no lock, so a replacement is an
//! exchange: the new text takes the place of the current file in one step, and the displaced file is checked
//! afterwards. If it is not the one on which the change was based, it is merged with the change, field by field, and
//! exchanged again. No reader sees half a file, and no complete edit is lost.
//!
//! One window remains open: a program that opened the file before the exchange, did not empty it, and writes *into*
//! it writes into the displaced file, and that text is lost. Where the system cannot exchange (`renameat2` and
//! `renamex_np` are missing on some file systems), the file is compared right before a plain rename, and an edit in
//! the microseconds between is lost.

use rustix::fs::{RawMode, RenameFlags};
use rustix::io::Errno;

use super::document::{Fault, Record, compose, decode, edit, merge};
use super::{already_exists, revision};
use crate::files::{self, Dir, Staged, Stamp, failure};
use crate::store::{Malformed, Revision};
use crate::{Error, ErrorKind, Result};

/// Size limit of a file that is read.
pub(in crate::store) const LIMIT: u64 = 32 << 20;

/// Upper bound for foreign edits in a row that are merged.
const ROUNDS: usize = 64;

/// The reason why a record could not be read.
#[derive(Debug)]
pub(in crate::store) enum Unread {
    Missing,
    Fault(Fault),
    Error(Error),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<files::Unread> for Unread {
    fn from(unread: files::Unread) -> Self {
        match unread {
            files::Unread::Missing => Self::Missing,
            files::Unread::Refused(reason) => Self::Fault(Fault::new(reason)),
            files::Unread::Error(error) => Self::Error(error),
        }
    }
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub(in crate::store) struct Stored<T> {
    pub(in crate::store) value: T,
    pub(in crate::store) revision: Revision,
    pub(in crate::store) stamp: Option<Stamp>,
    bytes: Vec<u8>,
}

/// Reads a record.
pub(in crate::store) fn load<T: Record>(dir: &Dir, name: &str) -> Result<Stored<T>, Unread> {
    let (bytes, stamp) = dir.read(name, LIMIT)?;
    let value = decode(&bytes)?;
    Ok(Stored { value, revision: revision(&bytes), stamp: Some(stamp), bytes })
}

/// Writes a new file. Fails with `already_exists` if the name is taken. The caller holds the lock.
pub(in crate::store) fn create<T: Record>(
    dir: &Dir,
    name: &str,
    value: &T,
    mode: RawMode,
) -> Result<Stored<T>> {
    create_below(dir, name, "", value, mode)
}

/// The same below some lines of comment.
pub(in crate::store) fn create_below<T: Record>(
    dir: &Dir,
    name: &str,
    comment: &str,
    value: &T,
    mode: RawMode,
) -> Result<Stored<T>> {
    let (text, value) = compose(value).map_err(|fault| malformed(dir, name, fault))?;
    let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    let text = comment + &text;
    create_text(dir, name, &text, mode)?;
    let (bytes, stamp) = (text.into_bytes(), dir.stamp(name));
    Ok(Stored { value, revision: revision(&bytes), stamp, bytes })
}

/// Writes a new file with any text. Fails with `already_exists` if the name is taken.
pub(in crate::store) fn create_text(dir: &Dir, name: &str, text: &str, mode: RawMode) -> Result<()> {
    let staged = dir.stage(&label(name, b"", text.as_bytes()), text.as_bytes(), mode)?;
    dir.rename_new(staged.name(), name)
        .map_err(|error| failure("creating the file", dir.path().join(name), error))?;
    staged.keep();
    dir.sync()
}

/// Writes a file with any text. Fails with `conflict` if the `expected` revision is not the stored one. The caller
/// holds the lock.
///
/// Without an expected revision, the text replaces any other.
pub(in crate::store) fn write_text(
    dir: &Dir,
    name: &str,
    text: &str,
    expected: Option<&Revision>,
    mode: RawMode,
) -> Result<Revision> {
    let new = revision(text.as_bytes());
    for _ in 0..ROUNDS {
        let believed = match dir.read(name, LIMIT) {
            Ok((bytes, _)) => Some(bytes),
            Err(files::Unread::Missing) => None,
            Err(unread) => return Err(unreadable(dir, name, unread.into())),
        };
        let stored = believed.as_deref().map_or_else(Revision::absent, revision);
        if expected.is_some_and(|expected| *expected != stored) {
            return Err(conflict(dir, name));
        }
        let Some(believed) = believed else {
            match create_text(dir, name, text, mode) {
                // Another program created it just now.
                Err(error) if already_exists(&error) => continue,
                other => return other.map(|()| new),
            }
        };
        // A replacement is a new file, so it has to take over the mode that the person gave the old one.
        let mode = dir.mode(name).unwrap_or(mode);
        let staged = dir.stage(&label(name, &believed, text.as_bytes()), text.as_bytes(), mode)?;
        match swap(dir, name, staged, &believed)? {
            // The edit came between the comparison above and the exchange.
            Swap::Displaced(_, holder) if expected.is_some() => {
                let displaced = put_back(dir, name, holder, text.as_bytes())?;
                return Err(displaced.map_or_else(|| conflict(dir, name), |edit| kept(dir, edit)));
            }
            // Without an expected revision the last writer wins, so an edit that was displaced goes with its
            // guard.
            Swap::Done | Swap::Displaced(..) => return dir.sync().map(|()| new),
            // Nothing was written, so the next round decides on the text that is stored now.
            Swap::Differs(_) => {}
        }
    }
    Err(Error::new(ErrorKind::Busy, "others change the file faster than it can be changed")
        .with_path(dir.path().join(name)))
}

/// Changes a record. Returns the stored record, and whether anything changed. The caller holds the lock.
///
/// With an `expected` revision, any other state is a `conflict`. Without one, concurrent edits by others are merged.
pub(in crate::store) fn update<T: Record>(
    dir: &Dir,
    name: &str,
    expected: Option<&Revision>,
    change: impl FnOnce(&mut T) -> Result<bool>,
) -> Result<(Stored<T>, bool)> {
    let base: Stored<T> = load(dir, name).map_err(|unread| unreadable(dir, name, unread))?;
    if expected.is_some_and(|expected| *expected != base.revision) {
        return Err(conflict(dir, name));
    }
    let mut ours = base.value.clone();
    // Without a difference nothing is written, so the file's stamp stays and no watcher wakes.
    if !change(&mut ours)? {
        return Ok((base, false));
    }
    let (text, ours) = edit(&base.bytes, &base.value, &ours).map_err(|fault| malformed(dir, name, fault))?;
    replace(dir, name, &base, ours, text, expected.is_some()).map(|stored| (stored, true))
}

fn replace<T: Record>(
    dir: &Dir,
    name: &str,
    base: &Stored<T>,
    mut ours: T,
    mut text: String,
    strict: bool,
) -> Result<Stored<T>> {
    // The text that is believed to be stored, and the displaced edits of others, which stay on disk until
    // they are merged.
    let (mut believed, mut displaced) = (base.bytes.clone(), Vec::new());
    for round in 1..=ROUNDS {
        // Read each time: the person may have changed it.
        let mode = dir.mode(name).unwrap_or(0o644);
        let staged = dir.stage(&label(name, &believed, text.as_bytes()), text.as_bytes(), mode)?;
        let swapped = swap(dir, name, staged, &believed)?;
        let (theirs, holder) = match swapped {
            Swap::Done => {
                dir.sync()?;
                let (bytes, stamp) = (text.into_bytes(), dir.stamp(name));
                return Ok(Stored { value: ours, revision: revision(&bytes), stamp, bytes });
            }
            Swap::Differs(bytes) => (Ok(bytes), None),
            Swap::Displaced(read, holder) => (read, Some(holder)),
        };
        let merged = theirs.and_then(|theirs| {
            let value: T = decode(&theirs)?;
            let merged = merge(&base.value, &ours, &value)?;
            // Their text is the base, so that their comments and order survive.
            let (text, merged) = edit(&theirs, &value, &merged)?;
            Ok((text, merged, theirs))
        });
        match merged {
            // Not in the last round: no exchange would follow that puts the merged text in place.
            Ok((new, value, theirs)) if !strict && round < ROUNDS => {
                // After an exchange our text is stored and the merged one comes next. Without one, their text
                // still is stored.
                believed = if holder.is_some() {
                    std::mem::replace(&mut text, new).into_bytes()
                } else {
                    text = new;
                    theirs
                };
                // From here on the merged value is ours: another edit is merged with it in the next round.
                ours = value;
                displaced.extend(holder);
            }
            outcome => {
                let undone = holder.map(|holder| put_back(dir, name, holder, text.as_bytes()));
                // A program that has changed the file in every round has replaced its own edit.
                if let Some(displaced) = undone.transpose()?.flatten()
                    && (strict || outcome.is_err())
                {
                    return Err(kept(dir, displaced));
                }
                return Err(match outcome {
                    Ok(_) if strict => conflict(dir, name),
                    Ok(_) => break,
                    Err(fault) => malformed(dir, name, fault),
                });
            }
        }
    }
    Err(Error::new(ErrorKind::Busy, "others change the file faster than it can be changed")
        .with_path(dir.path().join(name)))
}

enum Swap<'a> {
    /// The new text is in place, and displaced the believed one.
    Done,
    /// The new text is in place, but displaced something else, which the staged file holds now.
    Displaced(Result<Vec<u8>, Fault>, Staged<'a>),
    /// The new text is not in place, because something else is stored than believed.
    Differs(Vec<u8>),
}

fn swap<'a>(dir: &Dir, name: &str, staged: Staged<'a>, believed: &[u8]) -> Result<Swap<'a>> {
    // Exchange first, compare afterwards: the reverse order would leave a window in which an edit is lost.
    match dir.rename(staged.name(), name, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(match dir.read(staged.name(), LIMIT) {
            // The guard holds only the text that was replaced, and removes it.
            Ok((bytes, _)) if bytes == believed => Swap::Done,
            Ok((bytes, _)) => Swap::Displaced(Ok(bytes), staged),
            Err(files::Unread::Refused(reason)) => Swap::Displaced(Err(Fault::new(reason)), staged),
            Err(unread) => {
                // What was displaced cannot be compared or merged, so it goes back as it is.
                let displaced = put_back(dir, name, staged, &[])?;
                let why = || unreadable(dir, name, unread.into());
                return Err(displaced.map_or_else(why, |edit| kept(dir, edit)));
            }
        }),
        // The answers of kernels and file systems that cannot exchange two names.
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
            let (bytes, _) = dir.read(name, LIMIT).map_err(|unread| unreadable(dir, name, unread.into()))?;
            if bytes != believed {
                return Ok(Swap::Differs(bytes));
            }
            dir.rename(staged.name(), name, RenameFlags::empty())
                .map_err(|error| failure("replacing the file", dir.path().join(name), error))?;
            staged.keep();
            Ok(Swap::Done)
        }
        Err(error) => Err(failure("replacing the file", dir.path().join(name), error)),
    }
}

/// Undoes an exchange. A file that others have put there in the meantime stays; then the displaced edit is returned.
fn put_back<'a>(dir: &Dir, name: &str, holder: Staged<'a>, ours: &[u8]) -> Result<Option<Staged<'a>>> {
    let exchange = || dir.rename(holder.name(), name, RenameFlags::EXCHANGE);
    let undone = exchange().map(|()| dir.read(holder.name(), LIMIT));
    match undone {
        Ok(Ok((bytes, _))) if bytes == ours || ours.is_empty() => Ok(None),
        // Another program has removed our text since.
        Ok(Err(files::Unread::Missing)) => Ok(None),
        // Another program has replaced our text since. Its file is the newest, so it returns to its place.
        Ok(_) => match exchange() {
            Ok(()) => Ok(Some(holder)),
            Err(error) => {
                holder.keep();
                Err(failure("putting the file back", dir.path().join(name), error))
            }
        },
        Err(error) => {
            // Dropping the guard would delete another program's work.
            let path = dir.path().join(holder.name());
            holder.keep();
            Err(failure("putting the file back", path, error))
        }
    }
}

/// Keeps an edit that could not be put back, and returns the error that names it.
fn kept(dir: &Dir, displaced: Staged<'_>) -> Error {
    let path = dir.path().join(displaced.name());
    displaced.keep();
    let message = "others change the file at the same time; an edit that could not be put back is kept";
    Error::new(ErrorKind::Conflict, message).with_path(path)
}

/// Removes leftovers of a killed writer in the folder. The caller holds the lock.
///
/// A staged file that holds neither the old nor the new text of its change, beside a file that holds the new one, is
/// an edit by another program that was displaced and never merged. It goes back to its place. Ambiguous files stay as
/// they are.
pub(in crate::store) fn recover(dir: &Dir) -> Result<()> {
    for staged in dir.names()? {
        if staged.strip_suffix(".part").is_some_and(|whole| parse_label(&format!("{whole}.tmp")).is_some()) {
            dir.remove(&staged)?;
            continue;
        }
        let Some((name, believed, new)) = parse_label(&staged) else { continue };
        let at = |name: &str| dir.read(name, LIMIT).ok().map(|(bytes, _)| bytes);
        let content = at(&staged);
        let (held, stored) = (content.as_deref().map(revision), at(name).as_deref().map(revision));
        let is =
            |revision: &Option<Revision>, text: &str| revision.as_ref().is_some_and(|r| r.as_str() == text);
        // The change was to create the file, and did not come to its rename.
        let unborn = stored.is_none() && believed == revision(b"").as_str();
        // A copy of the replaced text, or a new text that did not get to its exchange: nothing of anyone else.
        // Nor is an empty file, or the half of a text that an earlier release left beside the old one.
        let is_empty = content.as_ref().is_none_or(Vec::is_empty);
        let is_half =
            || content.is_none_or(|text| serde_yaml::from_slice::<serde_yaml::Mapping>(&text).is_err());
        let is_ours = is(&held, believed) || is(&held, new) || (is(&stored, believed) && is_half());
        if is_ours || is_empty || unborn {
            dir.remove(&staged)?;
        } else if is(&stored, new) {
            // Our change is given up with it: its writer was killed before it could report success.
            dir.rename(&staged, name, RenameFlags::EXCHANGE)
                .map_err(|error| failure("putting the file back", dir.path().join(name), error))?;
            dir.remove(&staged)?;
        }
    }
    Ok(())
}

/// Returns the label of a staged file. The revisions in it let [`recover`] distinguish the texts after a kill.
fn label(name: &str, believed: &[u8], new: &[u8]) -> String {
    format!("{name}.{}.{}", revision(believed).as_str(), revision(new).as_str())
}

fn parse_label(staged: &str) -> Option<(&str, &str, &str)> {
    let mut parts = staged.strip_prefix('.')?.strip_suffix(".tmp")?.rsplitn(4, '.');
    let (_, new, believed, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Revisions have 32 hex digits. Temporary files of other writers in this folder are left alone.
    (new.len() == 32 && believed.len() == 32).then_some((name, believed, new))
}

fn conflict(dir: &Dir, name: &str) -> Error {
    Error::new(ErrorKind::Conflict, "the file has changed since it was read").with_path(dir.path().join(name))
}

pub(in crate::store) fn malformed(dir: &Dir, name: &str, fault: Fault) -> Error {
    let mut malformed = Malformed::new(dir.path().join(name), fault.reason.clone());
    malformed.line = fault.line;
    further(malformed.into(), fault)
}

/// Adds what an error has no field for yet: the column, and the words of the parser.
fn further(error: Error, fault: Fault) -> Error {
    let error = match fault.column {
        Some(column) => error.with("column", column),
        None => error,
    };
    match fault.said {
        Some(said) => error.with_source(said),
        None => error,
    }
}

/// Returns an error without a path, for text that is not in a file.
pub(super) fn error(fault: Fault) -> Error {
    let error = Error::new(ErrorKind::Malformed, fault.reason.clone());
    let error = match fault.line {
        Some(line) => error.with("line", line),
        None => error,
    };
    further(error, fault)
}

pub(in crate::store) fn unreadable(dir: &Dir, name: &str, unread: Unread) -> Error {
    match unread {
        Unread::Missing => Error::new(ErrorKind::NotFound, "no such file").with_path(dir.path().join(name)),
        Unread::Fault(fault) => malformed(dir, name, fault),
        Unread::Error(error) => error,
    }
}

/// Returns a name under which a file waits to be removed. [`recover`] completes the removal.
pub(in crate::store) fn hidden_name<T>(name: &str, stored: &Stored<T>) -> String {
    format!(".{}.{}.tmp", label(name, &stored.bytes, &stored.bytes), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Task, TaskNumber};

    const NAME: &str = "0001.yaml";

    fn fixture() -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let task = Task::new("k7xm2nq9".parse().unwrap(), TaskNumber::new(1).unwrap(), "t");
        create(&dir, NAME, &task, 0o640).unwrap();
        (temp, dir)
    }

    fn read(dir: &Dir) -> String {
        std::fs::read_to_string(dir.path().join(NAME)).unwrap()
    }

    /// Sets the position while another program replaces the content of the file by the result of `foreign`.
    fn set(
        dir: &Dir,
        expected: Option<&Revision>,
        foreign: impl FnOnce(String) -> Option<String>,
    ) -> Result<Stored<Task>> {
        let path = dir.path().join(NAME);
        update::<Task>(dir, NAME, expected, |task| {
            match foreign(read(dir)) {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            task.position = 5;
            task.title = "ours".to_owned();
            Ok(true)
        })
        .map(|(stored, _)| stored)
    }

    fn alone(dir: &Dir) -> bool {
        dir.names().unwrap().iter().all(|name| [".", "..", NAME].contains(&name.as_str()))
    }

    #[test]
    fn a_foreign_edit_in_between_is_merged() {
        let (_temp, dir) = fixture();
        let edit = |text: String| Some(text.replace("\"t\"", "theirs # why") + "x: 1\n");
        let stored = set(&dir, None, edit).unwrap();
        assert_eq!((stored.value.position, stored.value.title.as_str()), (5, "theirs"));
        assert!(read(&dir).contains("title: theirs # why\n") && read(&dir).ends_with("x: 1\n"));
        assert_eq!(stored.revision, load::<Task>(&dir, NAME).unwrap().revision);
        assert!(alone(&dir));
    }

    #[test]
    fn with_an_expected_revision_a_foreign_edit_is_a_conflict() {
        let (_temp, dir) = fixture();
        let revision = load::<Task>(&dir, NAME).unwrap().revision;
        let error = set(&dir, Some(&revision), |text| Some(text + "x: 1\n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(read(&dir).ends_with("x: 1\n") && read(&dir).contains("title: \"t\""));
        assert!(alone(&dir));
    }

    #[test]
    fn half_a_foreign_edit_goes_back_to_its_place() {
        let (_temp, dir) = fixture();
        let error = set(&dir, None, |_| Some("version: 1\nti".to_owned())).unwrap_err();
        assert_eq!((error.kind(), read(&dir).as_str()), (ErrorKind::Malformed, "version: 1\nti"));
        assert!(alone(&dir));
        let (_temp, dir) = fixture();
        assert_eq!(set(&dir, None, |_| None).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!dir.path().join(NAME).exists() && alone(&dir));
    }

    #[test]
    fn what_a_killed_writer_displaced_comes_back() {
        let (_temp, dir) = fixture();
        let old = read(&dir);
        let (new, theirs) = (old.replace("\"t\"", "new"), old.replace("\"t\"", "theirs"));
        for (stored, staged, expected) in [
            // Before the exchange: whole, half, or not begun.
            (&old, new.as_str(), &old),
            (&old, "ver", &old),
            (&old, "", &old),
            // The same, and then the next start has made the same change.
            (&new, "", &new),
            // After it: nothing but ours was displaced, or another's edit was.
            (&new, old.as_str(), &new),
            (&new, theirs.as_str(), &theirs),
        ] {
            std::fs::write(dir.path().join(NAME), stored).unwrap();
            let name = format!(".{}.77-0.tmp", label(NAME, old.as_bytes(), new.as_bytes()));
            std::fs::write(dir.path().join(name), staged).unwrap();
            recover(&dir).unwrap();
            assert_eq!(&read(&dir), expected);
            assert!(alone(&dir));
        }
    }

    /// Displaced by a writer that was killed, and then a person brought the old text back, from a backup perhaps.
    #[test]
    fn a_displaced_edit_beside_the_old_text_is_kept() {
        let (_temp, dir) = fixture();
        let old = read(&dir);
        let staged = format!(".{}.77-0.tmp", label(NAME, old.as_bytes(), b"new"));
        let theirs = old.replace("\"t\"", "theirs");
        std::fs::write(dir.path().join(&staged), &theirs).unwrap();
        recover(&dir).unwrap();
        assert_eq!(read(&dir), old);
        assert_eq!(std::fs::read_to_string(dir.path().join(&staged)).unwrap(), theirs);
    }

    /// A beginning of a text can be valid by itself.
    #[test]
    fn a_text_that_was_cut_off_is_removed() {
        let (_temp, dir) = fixture();
        let old = read(&dir);
        for stored in [&*old, "new"] {
            std::fs::write(dir.path().join(NAME), stored).unwrap();
            let staged = format!(".{}.77-0.part", label(NAME, old.as_bytes(), b"new"));
            std::fs::write(dir.path().join(staged), "version: 1\n").unwrap();
            recover(&dir).unwrap();
            assert!(alone(&dir) && read(&dir) == stored);
        }
    }

    #[test]
    fn an_edit_that_cannot_be_put_back_is_kept() {
        let (_temp, dir) = fixture();
        // Ours displaced one edit, and another program has replaced ours since.
        let holder = dir.stage(&label(NAME, b"old", b"ours"), b"displaced", 0o644).unwrap();
        std::fs::write(dir.path().join(NAME), "newest").unwrap();
        let displaced = put_back(&dir, NAME, holder, b"ours").unwrap().unwrap();
        let error = kept(&dir, displaced);
        assert_eq!((error.kind(), read(&dir).as_str()), (ErrorKind::Conflict, "newest"));
        let left: Vec<_> = dir.names().unwrap().into_iter().filter(|name| name.ends_with(".tmp")).collect();
        assert_eq!(left.len(), 1);
        assert!(error.report().contains(&left[0]), "{}", error.report());
        recover(&dir).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join(&left[0])).unwrap(), "displaced");
        assert_eq!(read(&dir), "newest");
    }

    #[test]
    fn without_exchanges_it_compares_and_renames() {
        let (_temp, mut dir) = fixture();
        dir.plain = true;
        let stored = set(&dir, None, |text| Some(text + "x: 1\n")).unwrap();
        assert_eq!((stored.value.position, stored.value.title.as_str()), (5, "ours"));
        assert!(read(&dir).ends_with("x: 1\n") && alone(&dir));
        let error = set(&dir, Some(&stored.revision), |text| Some(text + "y: 1\n")).unwrap_err();
        assert!(error.kind() == ErrorKind::Conflict && read(&dir).ends_with("y: 1\n") && alone(&dir));
        let task = load::<Task>(&dir, NAME).unwrap().value;
        assert!(crate::store::yaml::already_exists(&create(&dir, NAME, &task, 0o644).unwrap_err()));
        assert!(create(&dir, "0002.yaml", &task, 0o644).is_ok());
    }

    #[test]
    fn permissions_stay_and_nothing_is_overwritten() {
        let (_temp, dir) = fixture();
        std::fs::set_permissions(dir.path().join(NAME), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        set(&dir, None, Some).unwrap();
        assert_eq!(dir.mode(NAME), Some(0o600));
        let before = read(&dir);
        let error = create_text(&dir, NAME, "x", 0o644).unwrap_err();
        assert!(crate::store::yaml::already_exists(&error));
        assert!(read(&dir) == before && alone(&dir));
    }
}
