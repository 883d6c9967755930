//! Reading what an agent may have put there: never follows, never blocks, never reads without end.

use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::{Error, ErrorKind, Result};

/// The bytes of a regular file of at most `limit` bytes; none when there is nothing at `path`.
///
/// No part of the path is followed when it is a symbolic link: an agent can put one in place of a folder, too. Kernels
/// that cannot promise that look at the last part alone.
///
/// # Errors
/// `malformed` for anything that is no regular file, or is larger; those of the disk.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_file(path)? else { return Ok(None) };
    let read = || {
        let meta = file.metadata()?;
        let mut bytes = Vec::new();
        if meta.is_file() {
            (&file).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        }
        std::io::Result::Ok((meta.is_file(), bytes))
    };
    let (regular, bytes) = read().map_err(|e| Error::io("reading a file of the agent", e).with_path(path))?;
    if !regular {
        return Err(Error::new(ErrorKind::Malformed, "not a regular file").with_path(path));
    }
    if bytes.len() as u64 > limit {
        return Err(Error::new(ErrorKind::Malformed, "the file is too large")
            .with("limit", limit)
            .with_path(path));
    }
    Ok(Some(bytes))
}

/// What is at `path`, opened to be read, as [`read_file`] does; what kind of file it is is for the caller to see.
///
/// # Errors
/// As with [`read_file`].
pub(crate) fn open_file(path: &Path) -> Result<Option<std::fs::File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match open(path, flags) {
        Ok(fd) => Ok(Some(fd.into())),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => {
            Err(Error::new(ErrorKind::Malformed, "not a regular file").with_path(path))
        }
        Err(errno) => Err(Error::io("opening a file of the agent", errno.into()).with_path(path)),
    }
}

#[cfg(target_os = "linux")]
fn open(path: &Path, flags: OFlags) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS) {
        Err(rustix::io::Errno::NOSYS) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path, flags: OFlags) -> rustix::io::Result<std::os::fd::OwnedFd> {
    rustix::fs::open(path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_files_are_refused_without_waiting() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::write(at("file"), "hello").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(read_file(&at("file"), 5).unwrap().as_deref(), Some(&b"hello"[..]));
        assert_eq!(read_file(&at("gone"), 5).unwrap(), None);
        std::os::unix::fs::symlink(temp.path(), at("folder")).unwrap();
        for (name, limit) in [("folder/file", 9), ("file", 4), ("link", 9), ("fifo", 9), (".", 9)] {
            assert_eq!(read_file(&at(name), limit).unwrap_err().code(), "malformed", "{name}");
        }
        assert!(read_file(Path::new("/dev/zero"), 9).is_err());
    }
}
