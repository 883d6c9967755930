//! Reading files that an agent may have replaced.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, ErrorKind, Result};

// NONBLOCK: opening a FIFO would wait for a writer. NOCTTY: a terminal must not become ours.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// Reads the regular file at `path`, or returns `None` if nothing is there.
///
/// No component of `path` may be a symbolic link, so the part that the caller trusts must be canonical already.
///
/// # Errors
/// `malformed` for a link, for anything but a regular file and for more than `limit` bytes; `io` and its relatives for
/// errors of the system.
pub(crate) fn read_untrusted(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_untrusted(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    // The size is counted while reading: the file can grow after any check.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("reading the file", error).with_path(path))?;
    if bytes.len() as u64 > limit {
        return Err(Error::new(ErrorKind::Malformed, "the file is too large")
            .with("limit", limit)
            .with_path(path));
    }
    Ok(Some(bytes))
}

/// Opens the regular file at `path` for reading, or returns `None` if nothing is there. Follows no link in any
/// component and never blocks.
///
/// # Errors
/// As with `read_untrusted`; the size is not checked.
pub fn open_untrusted(path: &Path) -> Result<Option<File>> {
    let opening = |error| Error::io("opening the file", error).with_path(path);
    let refused = || Error::new(ErrorKind::Malformed, "not a regular file").with_path(path);
    let file = match open(path) {
        Ok(fd) => File::from(fd),
        // NOTDIR: a file stands where the path has a folder, so there is nothing at the path either.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        // A symbolic link; a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Err(refused()),
        Err(errno) => return Err(opening(errno.into())),
    };
    if file.metadata().map_err(opening)?.is_file() { Ok(Some(file)) } else { Err(refused()) }
}

#[cfg(target_os = "linux")]
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    match openat2(CWD, path, FLAGS, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS) {
        // Kernels before 5.6; seccomp filters that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    walk(path)
}

/// Opens one component after the other, each without following a link.
fn walk(path: &Path) -> rustix::io::Result<OwnedFd> {
    let folder = FLAGS | OFlags::DIRECTORY;
    // Folders that may be searched but not listed can still be passed through.
    #[cfg(target_os = "linux")]
    let folder = folder | OFlags::PATH;
    let start = if path.is_absolute() { "/" } else { "." };
    let mut at = rustix::fs::open(start, folder, Mode::empty())?;
    let mut parts =
        path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() { folder } else { FLAGS };
        at = match rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty()) {
            // `O_DIRECTORY` reports a link as "not a directory", which would pass for a missing file.
            Err(Errno::NOTDIR) if is_link(&at, part) => return Err(Errno::LOOP),
            opened => opened?,
        };
    }
    Ok(at)
}

fn is_link(at: &OwnedFd, name: Component<'_>) -> bool {
    rustix::fs::statat(at, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
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
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_untrusted(&at("file"), 5).unwrap().as_deref(), Some(&b"hello"[..]));
        assert_eq!(read_untrusted(&at("gone"), 5).unwrap(), None);
        assert_eq!(read_untrusted(&at("file/below"), 5).unwrap(), None);
        std::os::unix::fs::symlink(temp.path(), at("folder")).unwrap();
        for (name, limit) in
            [("folder/file", 9), ("file", 4), ("link", 9), ("fifo", 9), (".", 9), ("socket", 9)]
        {
            assert_eq!(read_untrusted(&at(name), limit).unwrap_err().code(), "malformed", "{name}");
        }
        assert!(read_untrusted(Path::new("/dev/zero"), 9).is_err());
    }

    #[test]
    fn without_the_system_call_no_link_is_followed_either() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::fs::write(at("real/file"), "hello").unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("real/file"), at("file")).unwrap();
        let error = |name: &str| walk(&at(name)).err();
        assert_eq!(error("real/file"), None);
        assert_eq!(error("real/./../real/file"), None);
        assert_eq!(error("link/file"), Some(Errno::LOOP));
        assert_eq!(error("file"), Some(Errno::LOOP));
        assert_eq!(error("none/file"), Some(Errno::NOENT));
        assert_eq!(error("real/file/below"), Some(Errno::NOTDIR));
    }
}
