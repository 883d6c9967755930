//! The locks by which a repository knows of agents that outlive their program: one file for each home, which each of its
//! hosts holds locked.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::files::{FileLock, make_shared, read_untrusted};
use crate::{Error, ErrorKind, Result};

/// Takes the lock of `home` in the private folder of a repository. It is held as long as a copy of the descriptor is open.
///
/// # Errors
/// I/O errors.
pub(crate) fn hold(shared_dir: &Path, home: &Path) -> Result<OwnedFd> {
    make_shared(&folder(shared_dir))?;
    let path = path(shared_dir, home);
    let failed = |error| Error::io("locking a repository for an agent", error).with_path(&path);
    let mut file = File::options().append(true).create(true).open(&path).map_err(failed)?;
    // Only for the words of the refusal.
    if file.metadata().map_err(failed)?.len() == 0 {
        file.write_all(home.as_os_str().as_bytes()).map_err(failed)?;
    }
    flock(&file, FlockOperation::NonBlockingLockShared).map_err(|error| failed(error.into()))?;
    Ok(file.into())
}

/// Refuses a repository in which agents of another home still run.
///
/// # Errors
/// `locked`, with that home; I/O errors.
pub(crate) fn check(shared_dir: &Path, home: &Path) -> Result<()> {
    let own = path(shared_dir, home);
    let entries = fs::read_dir(folder(shared_dir)).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| *path != own) {
        if FileLock::try_acquire(&path)?.is_some() {
            continue;
        }
        let other = read_untrusted(&path, 1 << 16)?.unwrap_or_default();
        let other = String::from_utf8_lossy(&other).into_owned();
        let sessions = fs::read_dir(Path::new(&other).join("hosts")).into_iter().flatten().flatten();
        let sessions: Vec<_> =
            sessions.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        return Err(Error::new(ErrorKind::Locked, "agents of another home still work on this project")
            .with("home", other)
            .with("sessions", sessions.join(", "))
            .with("hint", "end them there, or wait until they have ended"));
    }
    Ok(())
}

fn folder(shared_dir: &Path) -> PathBuf {
    shared_dir.join("hosts")
}

fn path(shared_dir: &Path, home: &Path) -> PathBuf {
    // A path may be longer than a name.
    folder(shared_dir).join(format!("{:08x}", crc32fast::hash(home.as_os_str().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_home_learns_who_works_here() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, home, other) =
            (temp.path().join("shared"), temp.path().join("home"), temp.path().join("other"));
        fs::create_dir_all(home.join("hosts/s1")).unwrap();
        check(&dir, &other).unwrap();
        let held = [hold(&dir, &home).unwrap(), hold(&dir, &home).unwrap()];
        check(&dir, &home).unwrap();
        let error = check(&dir, &other).unwrap_err();
        assert_eq!((error.code(), error.detail("home")), ("locked", home.to_str()));
        assert_eq!(error.detail("sessions"), Some("s1"));
        let [one, two] = held;
        drop(one);
        assert_eq!(check(&dir, &other).unwrap_err().code(), "locked", "one is left");
        drop(two);
        check(&dir, &other).unwrap();
    }
}
