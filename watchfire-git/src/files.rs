//! Small operations on files that stay safe when a process is killed or an agent interferes: replace, read,
//! lock, remove.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use git2::Oid;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sha1::{Digest, Sha1};
use watchfire_core::files::{Replace, open_untrusted};
use watchfire_core::{Error, ErrorKind, Result};

pub(crate) use watchfire_core::files::{
    FileLock, UNIQUE_PREFIX as PREFIX, exchange, is_abandoned, make_shared, unique_name as unique,
};

use crate::error::{During, broken};
use crate::failpoint::reached;

/// Replaces the file at `path` atomically, and waits until it is on disk.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> Result<()> {
    put(path, content, Replace::new())
}

/// Replaces the file at `path` atomically, without waiting for the disk: it survives the end of this process,
/// but perhaps not a power failure.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    put(path, content, Replace::new().without_sync())
}

/// Replaces a file as [`replace`] does, and sets its time of modification to `time`.
pub(crate) fn replace_as_of(path: &Path, content: &[u8], time: SystemTime) -> Result<()> {
    put(path, content, Replace::new().without_sync().with_modified(time))
}

fn put(path: &Path, content: &[u8], replacement: Replace) -> Result<()> {
    make_shared(path.parent().unwrap_or(Path::new("/")))?;
    reached("replace: begin");
    replacement.write(path, content)?;
    reached("replace: in place");
    Ok(())
}

/// Reads the file at `path`. Returns `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    absent(fs::read(path)).map_err(|e| Error::io("reading a file", e).with_path(path))
}

/// Opens a regular file in a folder that an agent writes. Returns `None` if there is nothing, or anything
/// else.
pub(crate) fn open_plain(path: &Path) -> Result<Option<File>> {
    match open_untrusted(path) {
        Err(error) if error.kind() == ErrorKind::Malformed => Ok(None),
        opened => opened,
    }
}

/// Reads a file that [`open_plain`] opens. Returns `None` also if it is longer than `limit`.
pub(crate) fn read_plain(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_plain(path)? else { return Ok(None) };
    let mut content = Vec::new();
    // One byte more than allowed shows that the file is too long. Its size could change between asking and
    // reading.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|e| Error::io("reading a file", e).with_path(path))?;
    Ok((content.len() as u64 <= limit).then_some(content))
}

/// Returns the id of the blob that a regular file would be, or `None` for anything else. Folders on the way
/// to the file may be links, because a checkout may lie behind one; the file itself may not.
pub(crate) fn hash_plain(path: &Path) -> Result<Option<Oid>> {
    let reading = |e| Error::io("reading a file", e).with_path(path);
    // NONBLOCK: opening a FIFO must not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match open(path, flags, Mode::empty()) {
        // ELOOP: the file is a link. ENXIO: it is a socket.
        Err(Errno::LOOP | Errno::NXIO) => None,
        opened => absent(opened.map_err(Into::into)).map_err(reading)?,
    };
    let Some(file) = opened.map(File::from) else { return Ok(None) };
    let metadata = file.metadata().map_err(reading)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let size = metadata.len();
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {size}\0"));
    // The id covers the size, so a file that grows while it is read gets no id that anything else has.
    io::copy(&mut file.take(size), &mut HashWriter(&mut hasher)).map_err(reading)?;
    Oid::from_bytes(&hasher.finalize()).map(Some).during("hashing a file")
}

struct HashWriter<'a>(&'a mut Sha1);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the whole lines in the last `limit` bytes of a file that [`open_plain`] opens.
pub(crate) fn read_tail(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(mut file) = open_plain(path)? else { return Ok(None) };
    let mut content = Vec::new();
    let read = (|| {
        let start = file.metadata()?.len().saturating_sub(limit);
        file.seek(SeekFrom::Start(start))?;
        file.take(limit).read_to_end(&mut content)?;
        Ok(start > 0)
    })();
    if read.map_err(|e| Error::io("reading a file", e).with_path(path))? {
        // The limit probably cut the first line.
        let end = content.iter().position(|byte| *byte == b'\n').map_or(content.len(), |at| at + 1);
        content.drain(..end);
    }
    Ok(Some(content))
}

/// Turns "not found" into `None`, also where a file stands in place of a parent folder.
pub(crate) fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns true if two paths name the same file. Follows no link.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

/// Removes a folder and everything below it, also where the agent took away our right to write. Never follows
/// a link.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    reached("remove: begin");
    watchfire_core::files::remove_tree(path)
}

/// Removes a checkout as [`remove_tree`] does, with several threads: nearly all of the time goes to single
/// files.
pub(crate) fn remove_checkout(path: &Path) -> io::Result<()> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        // The type of a directory entry does not follow links, so nothing outside of `path` becomes a part.
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
    };
    let parts: Vec<PathBuf> = folders(path).flat_map(|top| folders(&top).chain([top])).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    if parts.len() > 1 && threads > 1 {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // `remove_tree` below meets again what could not be removed here, and reports it.
                        _ = fs::remove_dir_all(part);
                    }
                });
            }
        });
    }
    remove_tree(path)
}

/// Moves `path` into the folder `aside` as `<name>-<n>`, for a person to look at. Returns the new path.
pub(crate) fn set_aside(path: &Path, aside: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(aside).map_err(|e| Error::io("creating a folder", e).with_path(aside))?;
    for n in 1..10_000 {
        let to = aside.join(format!("{name}-{n}"));
        // Looked at first, because a rename would replace a file or an empty folder.
        if absent(fs::symlink_metadata(&to)).during("reading a folder")?.is_none() {
            let moved = match fs::rename(path, &to) {
                Err(e) if e.kind() == io::ErrorKind::CrossesDevices => move_across(path, &to),
                moved => moved,
            };
            moved.map_err(|e| Error::io("moving something aside", e).with_path(path))?;
            return Ok(to);
        }
    }
    Err(broken("too much was set aside: look through it and remove what you do not need").with_path(aside))
}

/// Moves a file or link to another file system.
fn move_across(path: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(path)?, to)?;
    } else {
        fs::copy(path, to)?;
    }
    fs::remove_file(path)
}

/// Takes the lock at `path`. Creates its folder if it is missing, and waits up to `patience` for another
/// holder.
pub(crate) fn lock(path: &Path, patience: Duration) -> Result<FileLock> {
    make_shared(path.parent().unwrap_or(Path::new("/")))?;
    FileLock::acquire(path, patience)
}

/// Takes the lock at `path` if no other process holds it.
pub(crate) fn try_lock(path: &Path) -> Result<Option<FileLock>> {
    make_shared(path.parent().unwrap_or(Path::new("/")))?;
    FileLock::try_acquire(path)
}

/// Returns all entries of a folder, sorted by name, or none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>> {
    let failed = |e| Error::io("reading a folder", e).with_path(folder);
    let Some(listing) = absent(fs::read_dir(folder)).map_err(failed)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry.map_err(failed)?;
        entries.push((entry.file_name(), entry.path()));
    }
    entries.sort();
    Ok(entries)
}
