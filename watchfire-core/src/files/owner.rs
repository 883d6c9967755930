//! Owners and modes that follow the parent folder.
//!
//! A run as root in the repository of a user must not leave files there that lock the user out. In a repository that
//! a group shares, the same holds for its members.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use crate::{Error, Result};

/// Creates a folder and missing folders above it, each with the owner and mode of its parent. An existing folder stays
/// as it is.
///
/// # Errors
/// Errors of the system.
pub fn make_shared(path: &Path) -> Result<()> {
    make(path).map_err(|error| Error::io("making the folder", error).with_path(path))
}

fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // From the top: each folder copies owner and mode of its parent, which must be right by then.
    make(parent)?;
    match fs::create_dir(path) {
        Ok(()) => {}
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    // Set explicitly: the umask of this process must not narrow what the folder above allows.
    let mode = fs::metadata(parent)?.permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
    give(&File::open(path)?, parent)
}

/// Gives a file that root has just created to the owner of `folder`. Does nothing for other users.
pub(super) fn give(file: &File, folder: &Path) -> io::Result<()> {
    // Only root may give files away, and only files of root would lock the user out.
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (made, above) = (file.metadata()?, fs::metadata(folder)?);
    if (made.uid(), made.gid()) != (above.uid(), above.gid()) {
        fchown(file, Some(above.uid()), Some(above.gid()))?;
    }
    Ok(())
}

/// Gives a new file the owner of `folder`, and its read and write permissions.
pub(super) fn follow(file: &File, folder: &Path) -> io::Result<()> {
    // Without the execute bits: on a folder they permit to search, on a file they would make a program.
    let mode = fs::metadata(folder)?.permissions().mode() & 0o666;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    give(file, folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{DirLock, FileLock, Replace};

    #[test]
    fn folders_and_files_take_owner_and_mode_of_their_parent() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o2770)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(dir.path(), Some(12_345), Some(54_321)).unwrap();
        } else {
            eprintln!("SKIPPED in part: only root can give files away");
        }
        let at = |name: &str| dir.path().join(name);
        make_shared(&at("a/b")).unwrap();
        Replace::new().like_folder().write(&at("a/b/file"), b"").unwrap();
        let _lock = FileLock::try_acquire(&at("a/lock")).unwrap().unwrap();
        let _lock = DirLock::acquire(&at("a/dir_lock")).unwrap();
        for (name, mode) in
            [("a", 0o2770), ("a/b", 0o2770), ("a/b/file", 0o660), ("a/lock", 0o660), ("a/dir_lock", 0o660)]
        {
            let made = fs::metadata(at(name)).unwrap();
            assert_eq!(made.mode() & 0o7777, mode, "{name}: {:o}", made.mode());
            assert!(!is_root || (made.uid(), made.gid()) == (12_345, 54_321), "{name}");
        }
    }
}
