//! A folder for what one command writes to replaced folders, removed when the command has ended.

use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::files::{FileLock, make_private, remove_tree, unique_name};
use watchfire_core::sandbox::Lasting;
use watchfire_core::{Error, Result};

use crate::linux::kept::Left;
use crate::linux::sandbox::private_tmp;

/// Attempts to create a folder that no other process takes for an abandoned one.
const TRIES: usize = 8;

/// The folder for the writes of one command. It is removed on drop, except for new entries of caches, which [`Left`]
/// takes. A lock beside the folder shows that it is in use, so the next command can remove the folders of killed
/// processes.
#[derive(Debug)]
pub(super) struct Area {
    path: PathBuf,
    lock: Option<(PathBuf, FileLock)>,
    /// The caches whose new entries are kept.
    left: Option<Left>,
}

impl Area {
    /// Creates a folder in `parent`, after removing abandoned ones; or below the folder for temporary files.
    pub(super) fn new(parent: Option<&Path>, left: Option<Left>) -> Result<Self> {
        let Some(parent) = parent else {
            return Ok(Self { path: private_tmp()?.keep(), lock: None, left: None });
        };
        make_private(parent)?;
        remove_abandoned(parent);
        for _ in 0..TRIES {
            let path = parent.join(unique_name("layers").trim_start_matches('.'));
            let lock = path.with_extension("lock");
            // Between creation and locking, another process may take it for abandoned.
            if let Some(held) = FileLock::try_acquire(&lock)?.filter(|_| lock.exists()) {
                make_private(&path)?;
                return Ok(Self { path, lock: Some((lock, held)), left });
            }
        }
        let busy = std::io::ErrorKind::ResourceBusy.into();
        Err(Error::io("making a folder for the layers of a session", busy).with_path(parent))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what a process needs that keeps the command after this one has ended.
    pub(super) fn add_to(&self, lasting: &mut Lasting) {
        lasting.folders.push(self.path.clone());
        self.left.iter().for_each(|left| left.add_to(lasting));
        if let Some((path, lock)) = &self.lock {
            lasting.folders.push(path.clone());
            // Without a copy the folder counts as abandoned once this process has ended.
            lasting.descriptors.extend(lock.copy());
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if let Some(mut left) = self.left.take() {
            left.take_from(&self.path);
        }
        remove_unused(&self.path);
        // What cannot be removed now is removed with the next one.
        if remove_tree(&self.path).is_ok()
            && let Some((path, _)) = &self.lock
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the layers in which nothing was written. Most layers are empty, and a bare `rmdir` is several times as fast
/// as looking into each.
fn remove_unused(area: &Path) {
    for layer in fs::read_dir(area).into_iter().flatten().flatten() {
        for folder in ["upper", "work/work", "work", ""] {
            _ = fs::remove_dir(layer.path().join(folder));
        }
    }
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // A free lock: its owner has ended, or has not locked it yet and will try another name.
        if let Ok(Some(_held)) = FileLock::try_acquire(&lock)
            && remove_tree(&lock.with_extension("")).is_ok()
        {
            let _ = fs::remove_file(&lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_with_the_next() {
        let temp = tempfile::tempdir().unwrap();
        let parent = temp.path().join("layers");
        let first = Area::new(Some(&parent), None).unwrap();
        let left = first.path().join("0/work/work");
        fs::create_dir_all(&left).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o000)).unwrap();
        let second = Area::new(Some(&parent), None).unwrap();
        assert!(first.path().exists() && second.path() != first.path());
        // As the kernel does it when a process is killed: the lock goes, and nothing else happens.
        let abandoned = first.path().to_owned();
        let mut first = std::mem::ManuallyDrop::new(first);
        drop(first.lock.take());
        let third = Area::new(Some(&parent), None).unwrap();
        assert!(!abandoned.exists());
        drop((second, third));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }
}
