//! Files in one directory, reached through its descriptor: no symbolic link is followed, nothing hangs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::document::Fault;
use crate::store::Revision;
use crate::{Error, ErrorKind, Result};

/// The largest file that is read.
pub(in crate::store) const LIMIT: u64 = 32 << 20;

/// An open directory.
#[derive(Debug)]
pub(in crate::store) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// What a file system without exchanges does.
    #[cfg(test)]
    pub(in crate::store) plain: bool,
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::store) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Why a file gives no bytes.
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

impl Dir {
    fn of(fd: OwnedFd, path: PathBuf) -> Self {
        Self {
            fd,
            path,
            #[cfg(test)]
            plain: false,
        }
    }

    /// The directory at `path`, wherever its links lead.
    pub(in crate::store) fn open(path: &Path) -> Result<Self> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failure("opening the folder", path, error))?;
        Ok(Self::of(fd, path.to_owned()))
    }

    /// The directory `name` in this one; none where there is nothing.
    pub(in crate::store) fn child(&self, name: &str) -> Result<Option<Self>> {
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

    /// The directory `name` in this one, made where it is missing.
    pub(in crate::store) fn make_child(&self, name: &str, mode: u32) -> Result<Self> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failure("making the folder", self.path.join(name), error)),
        }
        self.child(name)?.ok_or_else(|| failure("opening the folder", self.path.join(name), Errno::NOENT))
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of `name`; none where there is nothing.
    pub(in crate::store) fn stamp(&self, name: &str) -> Option<Stamp> {
        self.stat(name).ok().map(|stat| stamp(&stat))
    }

    /// The stamp of the directory itself.
    pub(in crate::store) fn own_stamp(&self) -> Option<(u64, u64)> {
        rustix::fs::fstat(&self.fd).ok().map(|stat| stamp(&stat)).map(|stamp| (stamp.device, stamp.inode))
    }

    fn stat(&self, name: &str) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The names in it that are text.
    pub(in crate::store) fn names(&self) -> Result<Vec<String>> {
        let listing = |error| failure("listing the folder", &self.path, error);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(listing)? {
            let name = OsString::from_vec(entry.map_err(listing)?.file_name().to_bytes().to_vec());
            names.extend(name.into_string());
        }
        Ok(names)
    }

    /// The bytes of the regular file `name`, if it is no larger than [`LIMIT`].
    pub(in crate::store) fn read(&self, name: &str) -> Result<(Vec<u8>, Stamp), Unread> {
        let failed = |error| match error {
            Errno::NOENT => Unread::Missing,
            Errno::LOOP => Unread::Fault(Fault::new("a symbolic link, expected a regular file")),
            error => Unread::Error(failure("reading the file", self.path.join(name), error)),
        };
        regular(&self.stat(name).map_err(failed)?)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        regular(&stat)?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp(&stat).size.min(LIMIT)).unwrap_or(0));
        File::from(fd).take(LIMIT + 1).read_to_end(&mut bytes).map_err(|error| {
            Unread::Error(Error::io("reading the file", error).with_path(self.path.join(name)))
        })?;
        if bytes.len() as u64 > LIMIT {
            return Err(too_large(bytes.len() as u64).into());
        }
        Ok((bytes, stamp(&stat)))
    }

    /// Removes the file `name`; nothing happens where there is none.
    pub(in crate::store) fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => self.sync(),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failure("removing the file", self.path.join(name), error)),
        }
    }

    /// A file beside the others that holds `bytes`, on the disk, under a name that nobody reads.
    pub(in crate::store) fn stage(&self, label: &str, bytes: &[u8], mode: u32) -> Result<Staged<'_>> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{label}.{}-{count}.tmp", std::process::id());
        let writing =
            |error: std::io::Error| Error::io("writing the file", error).with_path(self.path.join(label));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.fd, name.as_str(), flags, Mode::from_raw_mode(mode));
        let fd = match open() {
            // Left by a process that had our id before us.
            Err(Errno::EXIST) => {
                let _ = rustix::fs::unlinkat(&self.fd, name.as_str(), AtFlags::empty());
                open()
            }
            other => other,
        };
        let mut file = File::from(fd.map_err(|error| writing(error.into()))?);
        let staged = Staged { dir: self, name };
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(writing)?;
        Ok(staged)
    }

    /// The permission bits of `name`.
    pub(in crate::store) fn mode(&self, name: &str) -> Option<u32> {
        self.stat(name).ok().map(|stat| stat.st_mode & 0o777)
    }

    pub(in crate::store) fn rename(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
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

    /// Renames to a name that is free; `EXIST` where it is not.
    pub(in crate::store) fn rename_new(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        match self.rename(from, to, RenameFlags::NOREPLACE) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
                rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                rustix::fs::unlinkat(&self.fd, from, AtFlags::empty())
            }
            other => other,
        }
    }

    /// Makes what was renamed or removed in it last.
    pub(in crate::store) fn sync(&self) -> Result<()> {
        match rustix::fs::fsync(self.fd.as_fd()) {
            // Some file systems have no such thing for directories.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(failure("syncing the folder", &self.path, error)),
        }
    }
}

/// A file that goes away unless it is renamed.
#[derive(Debug)]
pub(in crate::store) struct Staged<'a> {
    dir: &'a Dir,
    name: String,
}

impl Staged<'_> {
    pub(in crate::store) fn name(&self) -> &str {
        &self.name
    }

    /// It has been renamed: there is nothing to remove.
    pub(in crate::store) fn keep(mut self) {
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

/// The name of the state that these bytes are.
pub(in crate::store) fn revision(bytes: &[u8]) -> Revision {
    // In the manner of FNV-1a, 16 bytes a step: the same in every process, and it need not withstand an attacker.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128 ^ bytes.len() as u128;
    for chunk in bytes.chunks(16) {
        let mut word = [0; 16];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        hash =
            (hash ^ u128::from_le_bytes(word)).wrapping_mul(0x0100_0000_0000_0000_0000_013b).rotate_left(61);
    }
    Revision::new(format!("{hash:032x}"))
}

pub(in crate::store) fn failure(action: &'static str, path: impl AsRef<Path>, error: Errno) -> Error {
    Error::io(action, error.into()).with_path(path)
}

fn regular(stat: &Stat) -> Result<(), Fault> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stamp(stat).size > LIMIT => return Err(too_large(stamp(stat).size)),
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(Fault::new(format!("{what}, expected a regular file")))
}

fn too_large(size: u64) -> Fault {
    Fault::new(format!("{size} bytes or more, expected at most {LIMIT}"))
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
    /// Whether a later change could carry the same stamp, for a file that was read at `now` (Unix seconds).
    pub(in crate::store) fn is_fresh(&self, now: i64) -> bool {
        self.changed.0.max(self.modified.0) + 2 > now
    }
}

/// The name as it stands in the file system.
pub(in crate::store) fn is_hidden(name: &str) -> bool {
    OsStr::new(name).as_bytes().first() == Some(&b'.')
}
