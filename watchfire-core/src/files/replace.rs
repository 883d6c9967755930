//! Atomic replacement of files by path.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::io::Errno;

use super::{is_alive, owner};
use crate::{Error, ErrorKind, Result};

/// Prefix of every name from [`unique_name`].
pub const UNIQUE_PREFIX: &str = ".wf-";

/// Replaces the file at `path` atomically and durably, keeping its permissions. Shorthand for [`Replace::write`] with
/// the default options.
///
/// # Errors
/// Errors of the system; the old content stays then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    Replace::new().write(path, bytes)
}

/// Options of an atomic replacement.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Replace {
    mode: Option<u32>,
    like_folder: bool,
    modified: Option<SystemTime>,
    sync: bool,
}

impl Default for Replace {
    fn default() -> Self {
        Self { mode: None, like_folder: false, modified: None, sync: true }
    }
}

impl Replace {
    /// Durable, with the permissions of the file that is replaced, or 0644 for a new one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permissions of the new file. Without this, the old ones stay.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Gives the new file the read and write permissions of its folder.
    #[must_use]
    pub(crate) fn like_folder(mut self) -> Self {
        self.like_folder = true;
        self
    }

    /// Sets the modification time of the new file.
    #[must_use]
    pub fn with_modified(mut self, time: SystemTime) -> Self {
        self.modified = Some(time);
        self
    }

    /// Skips `fsync`: the replacement survives the process, but perhaps not a crash of the machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.sync = false;
        self
    }

    /// Writes `bytes` to a temporary file beside `path` and renames it into place. Readers see the old or the new
    /// content, never a mixture. A symbolic link at `path` is replaced, not followed. What root writes belongs to the
    /// owner of the folder.
    ///
    /// # Errors
    /// Errors of the system; the old content stays then.
    pub fn write(self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.write_with(path, |file| file.write_all(bytes))
    }

    /// Does the same as [`write`](Self::write) with bytes that `fill` writes piece by piece, so that a large file is
    /// never in memory as a whole.
    ///
    /// # Errors
    /// Errors of the system and of `fill`; the old content stays then.
    pub(crate) fn write_with(
        self,
        path: &Path,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<()> {
        let Some(parent) = path.parent().filter(|_| path.file_name().is_some()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "not the path of a file").with_path(path));
        };
        // In the same folder: a rename does not cross file systems.
        let temporary = parent.join(unique_name("tmp"));
        let written = self.write_through(parent, &temporary, path, fill);
        if written.is_err() {
            // The error of the write is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        written
            // The rename itself is durable only once the folder is synced.
            .and_then(|()| if self.sync { sync_folder(parent) } else { Ok(()) })
            .map_err(|error| Error::io("writing the file", error).with_path(path))
    }

    fn write_through(
        self,
        parent: &Path,
        temporary: &Path,
        path: &Path,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mode = self.mode.or_else(|| mode_of(path));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            // At creation too, so that a private file is not open to others even for a moment.
            .mode(mode.unwrap_or(0o644))
            .open(temporary)?;
        if let Some(mode) = mode {
            // The umask has no say in permissions that were there or were asked for.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        // The parent of a bare file name is the empty path, which the system does not take for a folder.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        if self.like_folder {
            owner::follow(&file, parent)?
        } else {
            owner::give(&file, parent)?
        }
        fill(&mut file)?;
        self.modified.map_or(Ok(()), |time| file.set_modified(time))?;
        // Before the rename. The other order can leave an empty file under the name after a crash.
        if self.sync {
            file.sync_all()?;
        }
        fs::rename(temporary, path)
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    // A link is replaced by a file and hands down nothing: its own mode is always 0777.
    let meta = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(meta.permissions().mode() & 0o777)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match rustix::fs::fsync(File::open(if path.as_os_str().is_empty() { Path::new(".") } else { path })?) {
        // Some file systems cannot sync a directory.
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Exchanges two files in one step. Returns false where the system or the file system cannot.
///
/// # Errors
/// Errors of the system.
pub fn exchange(a: &Path, b: &Path) -> Result<bool> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(true),
            // The kernel or the file system cannot exchange; the caller has another way.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(super::failure("replacing the file", b, error)),
        }
    }
    _ = (a, b);
    Ok(false)
}

/// Returns a file name that no other call in any process returns: `.wf-<what>-<pid>-<n>-<time>`.
#[must_use]
pub fn unique_name(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    // A process id is used again, also after a reboot; the time tells the two processes apart.
    let time = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("{UNIQUE_PREFIX}{what}-{}-{n}-{time:x}", std::process::id())
}

/// Returns true if `name` comes from [`unique_name`] and its process has ended.
#[must_use]
pub fn is_abandoned(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(UNIQUE_PREFIX)) else { return false };
    // The process id is the second field only because no caller gives a `what` with a dash.
    rest.split('-').nth(1).is_some_and(|pid| pid.parse::<u32>().is_ok() && !is_alive(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn permissions_stay_and_links_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        Replace::new().with_mode(0o600).without_sync().write(&file, b"a").unwrap();
        assert_eq!(mode(&file), 0o600);
        replace(&file, b"b").unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"b".to_vec(), 0o600));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"c").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_file() && fs::read(&file).unwrap() == b"b");
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(7);
        Replace::new().with_modified(old).write(&file, b"d").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), old);
        assert_eq!(replace(Path::new("/"), b"").unwrap_err().code(), "invalid_input");
    }

    #[test]
    fn a_failed_replacement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("x")).unwrap();
        assert!(replace(&dir.path().join("x"), b"").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// From anywhere else, a rename could cross file systems.
    #[test]
    fn a_file_is_replaced_from_its_own_folder() {
        let dir = tempfile::tempdir().unwrap();
        let written = Replace::new().write_with(&dir.path().join("x"), |_| {
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            Ok(())
        });
        written.unwrap();
    }

    #[test]
    fn two_files_are_exchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        if exchange(&a, &b).unwrap() {
            assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
        }
    }

    #[test]
    fn names_of_ended_processes_are_abandoned() {
        assert!(!is_abandoned(unique_name("x").as_ref()));
        assert!(!is_abandoned("index".as_ref()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(is_abandoned(format!("{UNIQUE_PREFIX}x-{}-0-1", child.id()).as_ref()));
    }
}
