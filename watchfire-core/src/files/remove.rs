//! Removing folders that an agent has filled.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::unique_name;

/// Removes a folder with all its content, also below folders without write permission (Go's module cache makes such).
/// Links are removed, not followed; a missing folder is no error.
///
/// # Errors
/// Errors of the system.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    // The standard function first: it is safe against links that are exchanged during the walk, and fast.
    match missing_ok(fs::remove_dir_all(path)) {
        Ok(()) => Ok(()),
        Err(_) => remove_level_by_level(path),
    }
}

/// Removes a tree that is nested more deeply than descriptors or the longest path allow: moves folders two levels
/// down up by one, until a single level is left.
fn remove_level_by_level(path: &Path) -> io::Result<()> {
    // Go's module cache, for example, makes folders without write permission.
    let open_up = |folder: &Path| {
        let mode = fs::symlink_metadata(folder)?.permissions().mode();
        fs::set_permissions(folder, PermissionsExt::from_mode(mode | 0o700))
    };
    open_up(path)?;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(path)? {
            is_empty = false;
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                missing_ok(fs::remove_file(entry.path()))?;
                continue;
            }
            open_up(&entry.path())?;
            for child in fs::read_dir(entry.path())? {
                let child = child?;
                if child.file_type()?.is_dir() {
                    // Renaming a folder rewrites its `..`, which needs write permission on the folder itself.
                    open_up(&child.path())?;
                    fs::rename(child.path(), path.join(unique_name("up")))?;
                } else {
                    missing_ok(fs::remove_file(child.path()))?;
                }
            }
            missing_ok(fs::remove_dir(entry.path()))?;
        }
        if is_empty {
            return missing_ok(fs::remove_dir(path));
        }
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
    use super::*;

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
        fs::set_permissions(root.join("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }
}
