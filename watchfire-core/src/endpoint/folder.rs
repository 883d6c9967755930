//! File access in a folder that an agent can write.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::model::Timestamp;
use crate::{Error, Result};

/// A folder, held open by descriptor. Renaming it or replacing its path does not redirect later calls.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum Read {
    Missing,
    Refused(String),
    /// Content of the file, and the time of its last change.
    Bytes(Vec<u8>, Timestamp),
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        open(path, FOLDER, Mode::empty())
            .map(Self)
            .map_err(|error| Error::io("opening a session's folder", error.into()).with_path(path))
    }

    /// Opens the folder `name` in this one, creating it if it does not exist. A link of that name is refused.
    pub(super) fn child(&self, name: &str) -> Result<Self> {
        let failed =
            |error: Errno| Error::io("opening a session's folder", error.into()).with("folder", name);
        // Made without a check before it: the agent could act between the two.
        match mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        openat(&self.0, name, FOLDER, Mode::empty()).map(Self).map_err(failed)
    }

    /// Returns inode and change time of `name`, or `None` if it cannot be examined.
    pub(super) fn stamp(&self, name: impl Arg) -> Option<(u64, i64, u64)> {
        // The change time of a folder moves with every entry that is added or removed.
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        #[expect(clippy::useless_conversion, reason = "the fields have other types on other systems")]
        Some((
            stat.st_ino.into(),
            stat.st_ctime.into(),
            u64::try_from(stat.st_ctime_nsec).unwrap_or_default(),
        ))
    }

    /// Returns at most `limit` names in no particular order, and true if there are more.
    pub(super) fn names(&self, limit: usize) -> Result<(Vec<std::ffi::CString>, bool)> {
        let failed = |error: Errno| Error::io("listing a session's folder", error.into());
        // A listing moves the offset of its open file, so each one needs a file of its own.
        let again = openat(&self.0, c".", FOLDER, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::new(again).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() == c"." || entry.file_name() == c".." {
                continue;
            }
            // Stops there: an agent can make more names than fit into memory.
            if names.len() == limit {
                return Ok((names, true));
            }
            names.push(entry.file_name().to_owned());
        }
        Ok((names, false))
    }

    /// Reads the regular file `name` of at most `limit` bytes. Follows no link and never blocks.
    pub(super) fn read(&self, name: &CStr, limit: u64) -> Read {
        // NONBLOCK: opening a FIFO would wait for a writer. NOCTTY: a terminal must not become ours.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Read::Missing,
            Err(Errno::LOOP) => return Read::Refused("it is a link".to_owned()),
            // Such as a socket. Refused rather than an error: one odd file must not stop the intake of the
            // others.
            Err(error) => return Read::Refused(format!("it cannot be opened: {error}")),
        };
        let stat = match fstat(&file) {
            Ok(stat) => stat,
            Err(error) => return Read::Refused(format!("it cannot be examined: {error}")),
        };
        // On the open file, not on the path: the agent could exchange the two in between.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Read::Refused("it is not a regular file".to_owned());
        }
        let too_long = || Read::Refused(format!("it is longer than the limit of {limit} bytes"));
        if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > limit {
            return too_long();
        }
        let mut bytes = Vec::new();
        // The file may grow after `fstat`, so the read is bounded too.
        if let Err(error) = File::from(file).take(limit + 1).read_to_end(&mut bytes) {
            return Read::Refused(format!("it cannot be read: {error}"));
        }
        if bytes.len() as u64 > limit {
            return too_long();
        }
        let millis = i128::from(stat.st_mtime) * 1000 + i128::from(stat.st_mtime_nsec) / 1_000_000;
        Read::Bytes(bytes, Timestamp::from_unix_millis(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Writes the file `name` atomically: to a temporary file first, then by rename.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let failed =
            |error: std::io::Error| Error::io("writing into a session's folder", error).with("file", name);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Counted, because two threads may put files of one name.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{name}.{}.{count}.new", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match openat(&self.0, &*temporary, flags, mode) {
            Err(Errno::EXIST) => {
                // Left by a killed process that had the same pid.
                let _ = unlinkat(&self.0, &*temporary, AtFlags::empty());
                openat(&self.0, &*temporary, flags, mode)
            }
            file => file,
        }
        .map_err(|error| failed(error.into()))?;
        File::from(file)
            .write_all(bytes)
            .and_then(|()| Ok(renameat(&self.0, &*temporary, &self.0, name)?))
            .map_err(|error| {
                // Hidden files in an outbox count against its limit of names, and a flood of them is swept.
                let _ = unlinkat(&self.0, &*temporary, AtFlags::empty());
                failed(error)
            })
    }

    /// Removes `name` unless it is a folder that is not empty. Returns true if it is gone.
    pub(super) fn remove(&self, name: &CStr) -> bool {
        // A folder needs another call; which of the two it is may change at any moment.
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => true,
            Err(_) => unlinkat(&self.0, name, AtFlags::REMOVEDIR).is_ok(),
        }
    }

    /// Removes the file `name`, if it is there.
    pub(super) fn remove_named(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Moves `name` to `new` in `other`, and returns true on success.
    pub(super) fn rename(&self, name: &CStr, other: &Self, new: &str) -> bool {
        renameat(&self.0, name, &other.0, new).is_ok()
    }

    /// Moves `name` into `other` under a unique name that begins with `prefix`; of two, the later one sorts last.
    /// Returns true on success.
    pub(super) fn move_aside(&self, name: &CStr, other: &Self, prefix: &str) -> bool {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let aside = format!("{prefix}{now:013}-{process}-{count:010}.json");
        renameat(&self.0, name, &other.0, &*aside).is_ok()
    }
}

/// Returns true if `name` is safe as a file's name: letters, digits, `-`, `_` and `.`, and neither hidden nor an option.
pub(super) fn is_plain(name: &str) -> bool {
    // Short enough that the longer name of the temporary file also fits into the 255 bytes of a file name.
    (1..=128).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
