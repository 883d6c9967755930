//! Replaces and removes single files of a person, who may save them at the same moment.
//!
//! A look at a file says nothing about the moment after. So each step moves the file away first, by a rename,
//! and looks at what it has moved. An edit goes back to its place. If another file is there by then, the edit
//! is set aside. Only a file that is in the expected state is ever given up.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, Stat, lstat, renameat_with};
use rustix::io::Errno;
use watchfire_core::{Error, ErrorKind, Result};

use crate::failpoint::{failing, reached};
use crate::files;
use crate::index::entry::mode_of;
use crate::objects::tree::LINK;

/// Puts the file `new` in the place of `at`, which should be in the state `old`. Afterwards `new` is the
/// displaced file. Returns false if a person has changed `at`, which then stays.
pub(crate) fn swap(new: &Path, at: &Path, old: &Stat, aside: &Path) -> Result<bool> {
    let ours = stat(new)?;
    reached("file: replacing");
    match try_exchange(new, at) {
        Ok(true) => {}
        Ok(false) => return swap_in_steps(new, at, old, aside),
        // Removed by the person.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    reached("file: displaced");
    if is_in_state(new, old) {
        return Ok(true);
    }
    // An edit came between. It goes back.
    match try_exchange(new, at) {
        Ok(_) if is_in_state(new, &ours) => return Ok(false),
        // The person has saved once more, and the newer file was moved away by the exchange.
        Ok(_) => _ = try_exchange(new, at)?,
        // The person has removed our file, and not the edit.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    set_aside(new, at, aside)?;
    Ok(false)
}

/// Does the same where the file system cannot exchange two names. For a moment there is no file at `at`.
fn swap_in_steps(new: &Path, at: &Path, old: &Stat, aside: &Path) -> Result<bool> {
    let failed = |e| Error::io("replacing a file", e).with_path(at);
    let kept = kept(new);
    if files::absent(fs::rename(at, &kept)).map_err(failed)?.is_none() {
        return Ok(false);
    }
    reached("file: displaced");
    if !is_in_state(&kept, old) {
        put_back(&kept, at, aside)?;
        return Ok(false);
    }
    if !put_new(new, at)? {
        // The person has saved another file. Nobody needs the old one: it is in the repository.
        _ = fs::remove_file(&kept);
        return Ok(false);
    }
    reached("file: replaced");
    fs::rename(&kept, new).map_err(failed)?;
    Ok(true)
}

/// Returns the place in which [`swap`] keeps the displaced file until `new` is in its place.
pub(crate) fn kept(new: &Path) -> std::path::PathBuf {
    new.with_extension("old")
}

/// Moves the file `at`, which should be in the state `old`, to `to`. Returns false if a person has changed
/// it, in which case it stays, or has removed it.
pub(crate) fn withdraw(at: &Path, to: &Path, old: &Stat, aside: &Path) -> Result<bool> {
    reached("file: removing");
    let moved = files::absent(fs::rename(at, to));
    if moved.map_err(|e| Error::io("removing a file", e).with_path(at))?.is_none() {
        return Ok(false);
    }
    reached("file: removed");
    if !is_in_state(to, old) {
        put_back(to, at, aside)?;
        return Ok(false);
    }
    Ok(true)
}

/// Moves `from` to `to` if nothing is there. Returns false if something is.
pub(crate) fn put_new(from: &Path, to: &Path) -> Result<bool> {
    let failed = |e: io::Error| Error::io("writing a file", e).with_path(to);
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => return Ok(false),
        // The kernel or the file system does not know the flag. A hard link refuses an existing name, too.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        Err(e) => return Err(failed(e.into())),
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from).map(|()| true).map_err(failed),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // Not every file system has hard links. Then only a look protects what is there.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to).map(|()| true).map_err(failed),
        Err(e) => Err(failed(e)),
    }
}

/// Moves a displaced edit back to `at`, or aside if another file is there.
fn put_back(edit: &Path, at: &Path, aside: &Path) -> Result<()> {
    if put_new(edit, at)? { Ok(()) } else { set_aside(edit, at, aside) }
}

/// Moves a displaced edit of `at` to the folder `aside`, for a person to look at.
pub(crate) fn set_aside(edit: &Path, at: &Path, aside: &Path) -> Result<()> {
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    let to = files::set_aside(edit, aside, &name)?;
    tracing::warn!(path = %at.display(), to = %to.display(), "an edit was set aside");
    Ok(())
}

/// Exchanges two names. Returns false where that is not possible.
fn try_exchange(a: &Path, b: &Path) -> Result<bool> {
    if failing("exchange").is_ok() { files::exchange(a, b) } else { Ok(false) }
}

/// Returns true if the file at `path` is in the state `state`.
pub(crate) fn is_in_state(path: &Path, state: &Stat) -> bool {
    lstat(path).is_ok_and(|now| is_same(&now, state))
}

/// Returns true if both describe the same file in the same state. The time of its last rename does not count.
fn is_same(a: &Stat, b: &Stat) -> bool {
    // No `ctime`: a rename changes it.
    let state = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    state(a) == state(b) && mode_of(a).map(|mode| mode == LINK) == mode_of(b).map(|mode| mode == LINK)
}

/// Returns the state of the file or link at `at`.
pub(crate) fn stat(at: &Path) -> Result<Stat> {
    lstat(at).map_err(|e| Error::io("reading a file", e.into()).with_path(at))
}
