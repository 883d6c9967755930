//! Files of one directory, reached through its descriptor. No symbolic link is followed and no call blocks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, RenameFlags, Stat};
use rustix::io::Errno;

use super::failure;
use crate::{Error, ErrorKind, Result};

/// An open directory. It stays the same directory when its path is renamed or replaced.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// Makes `rename` behave as on a file system without exchanges.
    #[cfg(test)]
    pub(crate) plain: bool,
}

/// Identity and times of a file, which distinguish two of its states without reading the content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The reason why a file could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    Missing,
    /// Not a regular file, or too large.
    Refused(String),
    Error(Error),
}

impl Dir {
    fn of(fd: OwnedFd, path: PathBuf) -> Self {
        Self {
            fd,
            path,
            #[cfg(test)]
            plain: false,
        }
    }

    /// Opens the directory at `path`. Links are followed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failure("opening the folder", path, error))?;
        Ok(Self::of(fd, path.to_owned()))
    }

    /// Opens the directory `name` in this one, or returns `None` if nothing is there. A link is `malformed`.
    pub(crate) fn child(&self, name: &str) -> Result<Option<Self>> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self::of(fd, path))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(Error::new(
                ErrorKind::Malformed,
                "not a folder; links are not followed: put a real folder in its place",
            )
            .with_path(path)),
            Err(error) => Err(failure("opening the folder", path, error)),
        }
    }

    /// Opens the directory `name` in this one, and creates it if missing.
    pub(crate) fn make_child(&self, name: &str, mode: RawMode) -> Result<Self> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failure("making the folder", self.path.join(name), error)),
        }
        // Opened even if it existed before: what lies at the name may be a link.
        self.child(name)?.ok_or_else(|| failure("opening the folder", self.path.join(name), Errno::NOENT))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the stamp of `name`, or `None` if nothing is there.
    pub(crate) fn stamp(&self, name: &str) -> Option<Stamp> {
        self.stat(name).ok().map(|stat| stamp(&stat))
    }

    /// Returns device and inode of the directory itself.
    pub(crate) fn own_stamp(&self) -> Option<(u64, u64)> {
        rustix::fs::fstat(&self.fd).ok().map(|stat| stamp(&stat)).map(|stamp| (stamp.device, stamp.inode))
    }

    fn stat(&self, name: &str) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the names in the directory that are valid UTF-8.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let listing = |error| failure("listing the folder", &self.path, error);
        let mut names = Vec::new();
        // A directory stream of its own; one descriptor shared by two readers would share the position, too.
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(listing)? {
            let name = OsString::from_vec(entry.map_err(listing)?.file_name().to_bytes().to_vec());
            names.extend(name.into_string());
        }
        Ok(names)
    }

    /// Reads the regular file `name` of at most `limit` bytes. Follows no link and never blocks.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<(Vec<u8>, Stamp), Unread> {
        let failed = |error| match error {
            Errno::NOENT => Unread::Missing,
            Errno::LOOP => Unread::Refused("a symbolic link, expected a regular file".to_owned()),
            error => Unread::Error(failure("reading the file", self.path.join(name), error)),
        };
        // Before `open`: opening a device can have effects, such as rewinding a tape.
        regular(&self.stat(name).map_err(failed)?, limit)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        // Again on the descriptor: the name may have been replaced between `stat` and `open`.
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        regular(&stat, limit)?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp(&stat).size.min(limit)).unwrap_or(0));
        // One byte more than the limit tells a file that grew since from one of exactly this size.
        File::from(fd).take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| {
            Unread::Error(Error::io("reading the file", error).with_path(self.path.join(name)))
        })?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64, limit));
        }
        Ok((bytes, stamp(&stat)))
    }

    /// Removes the file `name`. A missing file is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            // Otherwise a removed file could be back after a crash of the machine.
            Ok(()) => self.sync(),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failure("removing the file", self.path.join(name), error)),
        }
    }

    /// Writes `bytes` durably to a new hidden file whose name begins with `label`. It ends in `.part` until it is
    /// complete, and in `.tmp` from then on: what a kill cut off must never be taken for somebody's text.
    pub(crate) fn stage(&self, label: &str, bytes: &[u8], mode: RawMode) -> Result<Staged<'_>> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let whole = format!(".{label}.{}-{count}.tmp", std::process::id());
        let name = format!(".{label}.{}-{count}.part", std::process::id());
        let writing =
            |error: std::io::Error| Error::io("writing the file", error).with_path(self.path.join(label));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.fd, name.as_str(), flags, Mode::from_raw_mode(mode));
        let fd = match open() {
            // A killed process with the same id left the file behind.
            Err(Errno::EXIST) => {
                let _ = rustix::fs::unlinkat(&self.fd, name.as_str(), AtFlags::empty());
                open()
            }
            other => other,
        };
        let mut file = File::from(fd.map_err(|error| writing(error.into()))?);
        let mut staged = Staged { dir: self, name };
        // Synced before any rename, or a crash could leave an empty file under the final name.
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(writing)?;
        self.rename(&staged.name, &whole, RenameFlags::empty()).map_err(|error| writing(error.into()))?;
        staged.name = whole;
        Ok(staged)
    }

    /// Returns the permission bits of `name`.
    pub(crate) fn mode(&self, name: &str) -> Option<RawMode> {
        self.stat(name).ok().map(|stat| stat.st_mode & 0o777)
    }

    pub(crate) fn rename(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
        #[cfg(test)]
        if self.plain && !how.is_empty() {
            return Err(Errno::INVAL);
        }
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        return rustix::fs::renameat_with(&self.fd, from, &self.fd, to, how);
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        return if how.is_empty() {
            rustix::fs::renameat(&self.fd, from, &self.fd, to)
        } else {
            Err(Errno::NOSYS)
        };
    }

    /// Renames to a free name; fails with `EXIST` if it is taken.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        match self.rename(from, to, RenameFlags::NOREPLACE) {
            // Not every file system has the flag. A hard link also refuses a name that is taken.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
                // Link before unlink: a crash between the two leaves both names, never none.
                rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                rustix::fs::unlinkat(&self.fd, from, AtFlags::empty())
            }
            other => other,
        }
    }

    /// Makes renames and removals in the directory durable.
    pub(crate) fn sync(&self) -> Result<()> {
        match rustix::fs::fsync(self.fd.as_fd()) {
            // Some file systems cannot sync a directory.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(failure("syncing the folder", &self.path, error)),
        }
    }
}

/// Guard that removes a temporary file on drop, unless [`keep`](Self::keep) was called.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    dir: &'a Dir,
    name: String,
}

impl Staged<'_> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Ends the guard after the file was renamed.
    pub(crate) fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let _ = rustix::fs::unlinkat(&self.dir.fd, self.name.as_str(), AtFlags::empty());
    }
}

fn regular(stat: &Stat, limit: u64) -> Result<(), Unread> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stamp(stat).size > limit => return Err(too_large(stamp(stat).size, limit)),
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(Unread::Refused(format!("{what}, expected a regular file")))
}

fn too_large(size: u64, limit: u64) -> Unread {
    Unread::Refused(format!("{size} bytes or more, expected at most {limit}"))
}

#[expect(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the widths differ between systems")]
fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: stat.st_size as u64,
        modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    }
}

impl Stamp {
    /// Returns true if a later change could carry the same stamp, for a file that was read at `now` (Unix seconds).
    ///
    /// File systems store times in steps of up to two seconds.
    pub(crate) fn is_fresh(&self, now: i64) -> bool {
        // Both times, because either can be set back: `touch` for one, a clock that is corrected for the
        // other.
        self.changed.0.max(self.modified.0) + 2 > now
    }

    /// Returns true if the file system counts in fractions of a second. Two changes carry the same stamp only within one
    /// tick of the kernel's clock then, at most 10 ms.
    pub(crate) fn is_fine(&self) -> bool {
        self.changed.1 != 0
    }
}

/// Returns true if `name` begins with a dot.
pub(crate) fn is_hidden(name: &str) -> bool {
    OsStr::new(name).as_bytes().first() == Some(&b'.')
}
