//! Removing folders that an agent has filled.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};

use super::unique_name;

/// Removes a folder with all its content, also below folders without write permission (Go's module cache makes such).
/// Links are removed, not followed, and so is anything else at `path`; a missing path is no error.
///
/// # Errors
/// Errors of the system.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    // The standard function first: it is safe against links that are exchanged during the walk, and fast.
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_level_by_level(path),
        Ok(_) => missing_ok(fs::remove_file(path)),
        Err(error) => missing_ok(Err(error)),
    }
}

/// Removes a tree that is nested more deeply than descriptors or the longest path allow: moves folders two levels
/// down up by one, until a single level is left. By descriptors, since an agent may exchange a folder for a link at any
/// moment.
fn remove_level_by_level(path: &Path) -> io::Result<()> {
    let root = open_up(CWD, path.as_os_str())?;
    while let entries @ [_, ..] = &names(&root)?[..] {
        for name in entries {
            if !is_folder(&root, name)? {
                missing_ok(unlinkat(&root, name, AtFlags::empty()).map_err(Into::into))?;
                continue;
            }
            let folder = open_up(&root, name)?;
            for child in names(&folder)? {
                if is_folder(&folder, &child)? {
                    // Renaming a folder rewrites its `..`, which needs write permission on the folder itself.
                    open_up(&folder, &child)?;
                    renameat(&folder, &child, &root, unique_name("up"))?;
                } else {
                    missing_ok(unlinkat(&folder, &child, AtFlags::empty()).map_err(Into::into))?;
                }
            }
            missing_ok(unlinkat(&root, name, AtFlags::REMOVEDIR).map_err(Into::into))?;
        }
    }
    missing_ok(fs::remove_dir(path))
}

/// Opens a folder, which its owner may read and write from then on. Fails for a link.
fn open_up(parent: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        // Pinned without read permission, which the folder may lack. The name in `/proc` is that of this very folder.
        let pinned = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&pinned)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pinned));
            rustix::fs::chmod(name, mode | Mode::RWXU)?;
        }
        Ok(openat(&pinned, ".", flags | OFlags::RDONLY, Mode::empty())?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let mode = Mode::from_raw_mode(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            rustix::fs::chmodat(&parent, name, mode | Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(openat(parent, name, flags | OFlags::RDONLY, Mode::empty())?)
    }
}

fn names(folder: &OwnedFd) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

fn is_folder(parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn missing_ok(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// As where the folder around it cannot be written, and the standard function gives up.
    #[test]
    fn a_link_is_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (precious, root) = (dir.path().join("precious"), dir.path().join("x"));
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("work"), "").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o500)).unwrap();
        symlink(&precious, &root).unwrap();
        assert!(remove_level_by_level(&root).is_err());
        remove_tree(&root).unwrap();
        assert!(fs::symlink_metadata(&root).is_err());

        fs::create_dir_all(root.join("a/b")).unwrap();
        for at in ["link", "a/link", "a/b/link"] {
            symlink(&precious, root.join(at)).unwrap();
        }
        remove_level_by_level(&root).unwrap();
        assert!(!root.exists() && precious.join("work").exists());
        assert_eq!(fs::metadata(&precious).unwrap().permissions().mode() & 0o777, 0o500);
    }

    #[test]
    fn what_is_no_folder_is_removed_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        remove_tree(&file.join("below")).unwrap();
        assert!(file.exists());
        remove_tree(&file).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn trees_deeper_than_a_path_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("x");
        fs::create_dir(&root).unwrap();
        for n in 0..3000 {
            let next = dir.path().join(format!("{n}"));
            fs::create_dir(&next).unwrap();
            fs::write(next.join("file"), "").unwrap();
            fs::rename(&root, next.join("a long name so that the whole is longer than any path")).unwrap();
            fs::rename(&next, &root).unwrap();
        }
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        remove_tree(&root).unwrap();
    }

    #[test]
    fn folders_without_write_permission_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("x");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c"), "").unwrap();
        fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        remove_level_by_level(&root).unwrap();
        assert!(!root.exists());
    }
}
