//! Carries the person's work into a guest's copies: references, HEAD, index and stash.
//!
//! The guest may be at work in them, and may be hostile. So nothing is written by a path that it could have made a
//! link of, git's own locks are kept, and a copy that changed meanwhile waits for the next exchange.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use git2::Oid;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use watchfire_core::{Error, Result};

use crate::files;
use crate::guest::copies::Guest;
use crate::guest::state::{State, is_carried};
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::objects::id::hex;
use crate::private::agent_refs::to_packed;
use crate::private::copies::{STASH, small};
use crate::repository::index_lock::IndexLock;
use crate::repository::project::Project;

/// Brings the copies up to what the person has. Returns false if the guest's git is at work at this moment.
pub(crate) fn refresh(project: &Project, guest: &Guest, base: &State, theirs: &State) -> Result<bool> {
    let ours = State::of_person(project)?;
    let index = files::read(&project.git.join("index"))?.unwrap_or_default();
    let stash = files::read(&project.git.join("logs").join(STASH))?.unwrap_or_default();
    let wanted = wanted(base, &ours, theirs);
    if wanted.refs != theirs.refs && !put_references(guest, &wanted, theirs)? {
        return Ok(false);
    }
    if wanted.head != theirs.head {
        put(&guest.top(), &[], "HEAD", wanted.head.to_line().as_bytes())?;
    }
    // What the guest staged on the commit that it lost is staged against another one now.
    let is_lost = theirs.head != base.head && wanted.head != theirs.head
        || theirs.commit() != base.commit() && wanted.commit() != theirs.commit();
    if !put_index(guest, &index, is_lost)? {
        return Ok(false);
    }
    let top = guest.top();
    if files::read_plain(&top.join("logs").join(STASH), 1 << 20)?.unwrap_or_default() != stash {
        put(&top, &["logs", "refs"], "stash", &stash)?;
        match files::read(&project.git.join(STASH))? {
            Some(newest) => put(&top, &["refs"], "stash", &newest)?,
            None => drop(remove(&top, &["refs"], "stash")?),
        }
    }
    guest.set_base(&ours, &index, &stash)?;
    Ok(true)
}

/// Returns the state that the guest is to have: the person's, with the references that the guest fetched itself.
fn wanted(base: &State, ours: &State, theirs: &State) -> State {
    let mut wanted = ours.clone();
    let names: BTreeSet<_> = base.refs.keys().chain(theirs.refs.keys()).collect();
    for name in names.into_iter().filter(|name| !is_carried(name)) {
        let (before, now) = (base.refs.get(name), theirs.refs.get(name));
        match now {
            _ if before == now || name == STASH => {}
            Some(id) => drop(wanted.refs.insert(name.clone(), *id)),
            None => drop(wanted.refs.remove(name)),
        }
    }
    if let Some(stash) = theirs.refs.get(STASH) {
        wanted.refs.insert(STASH.to_owned(), *stash);
    }
    wanted
}

/// Writes the references of `wanted` into the copies, all packed, and removes loose ones that differ. Returns false if
/// the guest's git is at work.
fn put_references(guest: &Guest, wanted: &State, theirs: &State) -> Result<bool> {
    let top = guest.top();
    let Some(_lock) = Lock::take(&top, &[], "packed-refs")? else { return Ok(false) };
    let mut packed = wanted.refs.clone();
    packed.remove(STASH);
    put(&top, &[], "packed-refs", &to_packed(&packed))?;
    for (name, id) in &theirs.refs {
        if wanted.refs.get(name) != Some(id) && !remove_loose(&top, name, *id)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the loose reference `name` if it is at `id`. Returns false if it is locked or has moved.
fn remove_loose(top: &Path, name: &str, id: Oid) -> Result<bool> {
    let mut folders: Vec<_> = name.split('/').collect();
    let Some(file) = folders.pop() else { return Ok(true) };
    if small(&top.join(name))?.is_none() {
        // It was packed alone.
        return Ok(true);
    }
    let Some(_lock) = Lock::take(top, &folders, file)? else { return Ok(false) };
    if small(&top.join(name))?.and_then(|text| hex(text.trim_ascii())) != Some(id) {
        return Ok(false);
    }
    remove(top, &folders, file)
}

/// Brings the person's staging into the guest's index. What the guest staged itself stays, unless `anew`.
fn put_index(guest: &Guest, ours: &[u8], anew: bool) -> Result<bool> {
    let top = guest.top();
    let path = top.join("index");
    let (base, person) = (guest.base_index()?, IndexFile::from_bytes(ours)?);
    let theirs = IndexFile::read(&path).ok().filter(|_| !anew);
    // A stash that could not be applied whole leaves nothing else to tell it by.
    if person.has_conflicts() || theirs.as_ref().is_some_and(IndexFile::has_conflicts) {
        return Ok(false);
    }
    let merged = theirs.as_ref().map(|theirs| carry(&base, &person, theirs));
    let same = |a: &[Entry], b: &[Entry]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.path == b.path && a.node == b.node)
    };
    let bytes = match (&theirs, merged) {
        (Some(theirs), Some(merged)) if same(&merged, theirs.entries()) => return Ok(true),
        (_, Some(merged)) if !same(&merged, person.entries()) => person.with(merged).to_bytes(),
        // A repository without an index has no file to copy.
        _ if ours.is_empty() => person.to_bytes(),
        _ => ours.to_vec(),
    };
    // Taken after the guest's index was read: if that has changed since, the next exchange looks again.
    let Some(lock) = IndexLock::take(&top)? else { return Ok(false) };
    let nodes = |index: IndexFile| index.entries().iter().map(|entry| entry.node).collect::<Vec<_>>();
    let now = IndexFile::read(&path).ok().filter(|_| !anew);
    if now.map(nodes) != theirs.map(nodes) {
        return Ok(false);
    }
    lock.put(&bytes)?;
    Ok(true)
}

/// Returns the entries of `theirs` with what `ours` changed since `base`. Where both changed one, it stays as it is.
fn carry(base: &IndexFile, ours: &IndexFile, theirs: &IndexFile) -> Vec<Entry> {
    let paths: BTreeSet<_> =
        [base, ours, theirs].iter().flat_map(|index| index.entries()).map(|entry| &entry.path).collect();
    let node = |index: &IndexFile, path: &[u8]| index.entry(path).map(|entry| entry.node);
    let kept = |path: &Vec<u8>| {
        let is_theirs = node(theirs, path) != node(base, path);
        (if is_theirs { theirs } else { ours }).entry(path).cloned()
    };
    paths.into_iter().filter_map(kept).collect()
}

/// A lock of git's on a file in the copies. Released when it is dropped.
struct Lock {
    folder: OwnedFd,
    name: String,
}

impl Lock {
    fn take(top: &Path, folders: &[&str], name: &str) -> Result<Option<Self>> {
        let Some(folder) = open(top, folders, false)? else { return Ok(None) };
        let name = format!("{name}.lock");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => Ok(Some(Self { folder, name })),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(failed(top, error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Opens a folder in the copies, following no link. Returns `None` if it is not there.
fn open(top: &Path, folders: &[&str], make: bool) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(CWD, top, flags, Mode::empty()).map_err(|error| failed(top, error))?;
    for name in folders {
        if make {
            match mkdirat(&folder, *name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(top, error)),
            }
        }
        folder = match openat(&folder, *name, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(top, error)),
        };
    }
    Ok(Some(folder))
}

/// Replaces a file in the copies.
fn put(top: &Path, folders: &[&str], name: &str, content: &[u8]) -> Result<()> {
    let Some(folder) = open(top, folders, true)? else { return Ok(()) };
    let fresh = files::unique("put");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = openat(&folder, &fresh, flags, Mode::from_raw_mode(0o644)).map_err(std::io::Error::from);
    let written = written.and_then(|file| std::io::Write::write_all(&mut std::fs::File::from(file), content));
    let put = written.and_then(|()| renameat(&folder, &fresh, &folder, name).map_err(Into::into));
    put.inspect_err(|_| _ = unlinkat(&folder, &fresh, AtFlags::empty()))
        .map_err(|error| Error::io("writing a private copy", error).with_path(top.join(name)))
}

/// Removes a file in the copies, if it is there. Returns true once it is gone.
fn remove(top: &Path, folders: &[&str], name: &str) -> Result<bool> {
    let Some(folder) = open(top, folders, false)? else { return Ok(true) };
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(failed(top, error)),
    }
}

fn failed(top: &Path, error: Errno) -> Error {
    Error::io("writing a private copy", error.into()).with_path(top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::tree::{FILE, Node};

    fn index(entries: &[(&str, u8)]) -> IndexFile {
        let node = |n: u8| Node { mode: FILE, id: Oid::from_bytes(&[n; 20]).unwrap() };
        IndexFile::of(entries.iter().map(|(path, n)| Entry::new(path.as_bytes(), node(*n), None)).collect())
    }

    #[test]
    fn each_side_keeps_what_it_staged() {
        let base = index(&[("both", 1), ("gone", 1), ("person", 1), ("same", 1), ("theirs", 1)]);
        let person = index(&[("both", 2), ("made", 2), ("person", 2), ("same", 1), ("theirs", 1)]);
        let theirs =
            index(&[("both", 3), ("gone", 1), ("new", 3), ("person", 1), ("same", 1), ("theirs", 3)]);
        let wanted =
            index(&[("both", 3), ("made", 2), ("new", 3), ("person", 2), ("same", 1), ("theirs", 3)]);
        assert_eq!(carry(&base, &person, &theirs), wanted.entries());
    }
}
