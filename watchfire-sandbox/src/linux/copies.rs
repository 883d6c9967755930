//! Copies of folders, where no layer can be put over them.
//!
//! A file system with reflinks (btrfs, xfs) copies a file without its content; elsewhere the content counts, and a start
//! would be the slower the fuller a cache is. So a folder is measured first, and only a small one is copied.
//!
//! Other processes may change the folder meanwhile. No link is followed, so that none leads the copy elsewhere.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

/// Upper bounds for one folder.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    entries: usize,
    /// Size of the content.
    bytes: u64,
}

/// A folder in which files can be reflinks.
const REFLINKS: Bounds = Bounds { entries: 5_000, bytes: u64::MAX };

/// Elsewhere.
const CONTENT: Bounds = Bounds { entries: 1_000, bytes: 8 << 20 };

/// Upper bound for the entries of all folders that one start copies: less than half a second on a slow machine.
const ALL_ENTRIES: usize = 10_000;

/// Maximum depth of folders. One that is deeper is not copied.
const DEPTH: usize = 64;

/// Copies folders until it has done as much as a start may take.
#[derive(Debug)]
pub(in crate::linux) struct Copier {
    left: usize,
    /// For each device, true if its files can be reflinks in the folders of the command.
    reflinks: BTreeMap<u64, bool>,
    /// Only root can give files to others.
    keeps_owners: bool,
}

/// The size of a folder so far.
#[derive(Debug, Default)]
struct Size {
    entries: usize,
    bytes: u64,
}

impl Copier {
    pub(in crate::linux) fn new() -> Self {
        let keeps_owners = rustix::process::geteuid().is_root();
        Self { left: ALL_ENTRIES, reflinks: BTreeMap::new(), keeps_owners }
    }

    /// Copies what is in the folder `from` to the empty folder `to`, with modes and times.
    ///
    /// # Errors
    /// `TOOBIG` if the folder is too large to be copied. Files that cannot be read, and those that are neither files nor folders
    /// nor links, are left out.
    pub(in crate::linux) fn copy(&mut self, from: impl AsFd, to: impl AsFd) -> Result<(), Errno> {
        let from = rustix::fs::openat(from, c".", FOLDER, Mode::empty())?;
        let to = rustix::fs::openat(to, c".", FOLDER, Mode::empty())?;
        let mut size = Size::default();
        self.measure(&from, &to, &mut size, 0)?;
        self.left = self.left.checked_sub(size.entries).ok_or(Errno::TOOBIG)?;
        // It may grow while it is copied.
        let mut most = Size { entries: size.entries * 2 + 16, bytes: CONTENT.bytes * 2 };
        self.folder(&from, &to, &mut most, 0)
    }

    /// Adds what is in a folder to `size`, up to the bound.
    fn measure(
        &mut self,
        folder: &OwnedFd,
        to: &OwnedFd,
        size: &mut Size,
        depth: usize,
    ) -> Result<(), Errno> {
        if depth > DEPTH {
            return Err(Errno::TOOBIG);
        }
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(found) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            size.entries += 1;
            let mut bounds = REFLINKS;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    size.bytes = size.bytes.saturating_add(u64::try_from(found.st_size).unwrap_or(u64::MAX));
                    if !self.has_reflinks(found.st_dev, folder, name, to) {
                        bounds = CONTENT;
                    }
                }
                FileType::Directory => match rustix::fs::openat(folder, name, FOLDER, Mode::empty()) {
                    Ok(inner) => self.measure(&inner, to, size, depth + 1)?,
                    Err(_) => continue,
                },
                _ => {}
            }
            if size.entries > bounds.entries || size.bytes > bounds.bytes {
                return Err(Errno::TOOBIG);
            }
        }
        Ok(())
    }

    /// Returns true if files of this device can be reflinks in the folder `to`. Tries it with the first one.
    fn has_reflinks(&mut self, device: u64, folder: &OwnedFd, name: &CStr, to: &OwnedFd) -> bool {
        const TRIED: &CStr = c".watchfire-reflink";
        let attempt = || {
            let from = rustix::fs::openat(folder, name, FILE, Mode::empty())?;
            let made = rustix::fs::openat(to, TRIED, NEW, Mode::RUSR | Mode::WUSR)?;
            let cloned = rustix::fs::ioctl_ficlone(&made, &from);
            rustix::fs::unlinkat(to, TRIED, AtFlags::empty())?;
            cloned
        };
        *self.reflinks.entry(device).or_insert_with(|| attempt().is_ok())
    }

    fn folder(&self, from: &OwnedFd, to: &OwnedFd, most: &mut Size, depth: usize) -> Result<(), Errno> {
        if depth > DEPTH {
            return Err(Errno::TOOBIG);
        }
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            most.entries = most.entries.checked_sub(1).ok_or(Errno::TOOBIG)?;
            match self.entry(from, to, name, most, depth) {
                // Gone again, or not ours to read.
                Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => {}
                copied => copied?,
            }
        }
        let found = rustix::fs::fstat(from)?;
        self.finish(to, &found)
    }

    fn entry(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &CStr,
        most: &mut Size,
        depth: usize,
    ) -> Result<(), Errno> {
        let found = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let from = rustix::fs::openat(from, name, FOLDER, Mode::empty())?;
                rustix::fs::mkdirat(to, name, Mode::RWXU)?;
                let to = rustix::fs::openat(to, name, FOLDER, Mode::empty())?;
                self.folder(&from, &to, most, depth + 1)
            }
            FileType::RegularFile => {
                let from = rustix::fs::openat(from, name, FILE, Mode::empty())?;
                let found = rustix::fs::fstat(&from)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                    return Ok(());
                }
                let to = rustix::fs::openat(to, name, NEW, Mode::RUSR | Mode::WUSR)?;
                if rustix::fs::ioctl_ficlone(&to, &from).is_err() {
                    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
                    most.bytes = most.bytes.checked_sub(size).ok_or(Errno::TOOBIG)?;
                    copy_content(&from, &to, size)?;
                }
                self.finish(&to, &found)
            }
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(text, to, name)
            }
            _ => Ok(()),
        }
    }

    /// Gives a copy what its content does not say.
    fn finish(&self, to: &OwnedFd, found: &Stat) -> Result<(), Errno> {
        if self.keeps_owners {
            // Not all owners exist where root is root of a container only.
            _ = rustix::fs::fchown(to, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)));
        }
        // Without the bits by which a program runs as its owner.
        rustix::fs::fchmod(to, Mode::from_raw_mode(found.st_mode & 0o777))?;
        let time = |seconds: i64, nanos: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: i64::try_from(nanos).unwrap_or_default(),
        };
        // Build tools compare them.
        rustix::fs::futimens(
            to,
            &Timestamps {
                last_access: time(found.st_atime, found.st_atime_nsec),
                last_modification: time(found.st_mtime, found.st_mtime_nsec),
            },
        )
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file may be a pipe by now, whose other end nobody opens.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// Copies up to `size` bytes, so that a file that grows meanwhile is no more than it was counted for.
fn copy_content(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left.min(1 << 20)).unwrap_or(1 << 20);
        match rustix::fs::sendfile(to, from, None, most) {
            Ok(0) => break,
            Ok(count) => left = left.saturating_sub(u64::try_from(count).unwrap_or(left)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn copy(copier: &mut Copier, from: &Path, to: &Path) -> Result<(), Errno> {
        fs::create_dir(to).unwrap();
        copier.copy(fs::File::open(from).unwrap(), fs::File::open(to).unwrap())
    }

    #[test]
    fn a_copy_has_files_folders_and_links_with_modes_and_times() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("from/a/b")).unwrap();
        fs::write(at("from/a/b/file"), "x".repeat(3_000_000)).unwrap();
        fs::set_permissions(at("from/a/b/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        symlink("/etc/passwd", at("from/a/link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("from/fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        fs::File::open(at("from/a/b/file")).unwrap().set_modified(old).unwrap();
        fs::File::open(at("from/a")).unwrap().set_modified(old).unwrap();
        fs::set_permissions(at("from/a"), fs::Permissions::from_mode(0o555)).unwrap();
        copy(&mut Copier::new(), &at("from"), &at("to")).unwrap();
        assert_eq!(fs::read(at("to/a/b/file")).unwrap().len(), 3_000_000);
        assert_eq!(fs::read_link(at("to/a/link")).unwrap(), Path::new("/etc/passwd"));
        assert!(!at("to/fifo").exists());
        let found = fs::metadata(at("to/a/b/file")).unwrap();
        assert_eq!((found.permissions().mode() & 0o7777, found.modified().unwrap()), (0o751, old));
        let found = fs::metadata(at("to/a")).unwrap();
        assert_eq!((found.permissions().mode() & 0o7777, found.modified().unwrap()), (0o555, old));
        // To be removed by an ordinary user.
        for name in ["from/a", "to/a"] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn what_is_too_large_is_not_copied() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for (name, count, size) in
            [("few", 3, 4), ("many", CONTENT.entries + 1, 1), ("large", 1, CONTENT.bytes + 1)]
        {
            fs::create_dir(at(name)).unwrap();
            for number in 0..count {
                fs::File::create(at(name).join(number.to_string())).unwrap().set_len(size).unwrap();
            }
        }
        let mut copier = Copier { left: 5, ..Copier::new() };
        copy(&mut copier, &at("few"), &at("one")).unwrap();
        assert_eq!(copy(&mut copier, &at("few"), &at("two")), Err(Errno::TOOBIG), "five in all");
        let mut copier = Copier::new();
        for name in ["many", "large"] {
            let copied = copy(&mut copier, &at(name), &at(&format!("copy of {name}")));
            // Where files are reflinks, their content does not count.
            assert_eq!(copied.is_ok(), copier.reflinks.values().all(|works| *works), "{name}: {copied:?}");
        }
        assert!(fs::read_dir(at("copy of large")).unwrap().count() <= 1, "the trial is left");
    }
}
