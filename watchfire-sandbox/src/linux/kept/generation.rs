//! What new commands see of earlier ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use watchfire_core::Result;
use watchfire_core::files::FileLock;
use watchfire_core::sandbox::{Kept, Lasting};

use crate::linux::config::{Mounts, Place, RawPath, View};
use crate::linux::kept::left::settle;

/// Maximum time that a start waits for what just ended to be merged. After it, the caches are cold.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time that a start waits for a generation that is changed right now.
const CHANGE: Duration = Duration::from_millis(200);

/// A generation that does not change as long as this is held.
#[derive(Debug)]
pub(in crate::linux) struct Generation {
    folder: PathBuf,
    /// The caches in which it shows.
    places: Vec<PathBuf>,
    lock: FileLock,
}

impl Generation {
    /// Takes hold of the newest one, if there is one.
    pub(in crate::linux) fn newest(kept: &Kept) -> Option<Self> {
        if !kept.folder.exists() {
            return None;
        }
        settle(kept, PATIENCE);
        let folder = numbered(&kept.folder).pop()?.1;
        let begin = Instant::now();
        loop {
            match FileLock::try_share(&lock_of(&folder)) {
                // Removed by now, because another came after it.
                Ok(Some(_)) if !files_of(&folder).is_dir() => return None,
                Ok(Some(lock)) => return Some(Self { folder, places: kept.places.clone(), lock }),
                Ok(None) if begin.elapsed() < CHANGE => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Shows this generation in the caches, below their real content.
    pub(in crate::linux) fn show(&self, mounts: &mut Mounts) {
        for path in &self.places {
            let own = mirrored(&files_of(&self.folder), path);
            if !own.is_dir() {
                continue;
            }
            let own = RawPath::from(own.as_path());
            if let Some(place) = mounts.places.iter_mut().find(|place| place.path.as_path() == path.as_path())
            {
                if place.view == View::Layer {
                    place.beneath = Some(own);
                }
                continue;
            }
            let is_there = path.symlink_metadata().is_ok();
            let around = mounts.view_of(path);
            if around == View::Layer || (around == View::Own && !is_there) {
                let (source, beneath) = if is_there { (None, Some(own)) } else { (Some(own), None) };
                let place =
                    Place { source, beneath, is_cache: true, ..Place::new(path.as_path(), View::Layer) };
                let at = mounts.places.partition_point(|other| other.path.as_path() < path.as_path());
                mounts.places.insert(at, place);
            }
        }
    }

    /// Adds what keeps it unchanged after this process has ended.
    pub(in crate::linux) fn add_to(&self, lasting: &mut Lasting) -> Result<()> {
        lasting.descriptors.push(self.lock.copy()?);
        Ok(())
    }
}

/// Returns the generations in a folder, the newest last.
pub(super) fn numbered(folder: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
    let mut found: Vec<_> = entries.filter_map(number).collect();
    found.sort();
    found
}

pub(super) fn lock_of(generation: &Path) -> PathBuf {
    generation.join("lock")
}

pub(super) fn files_of(generation: &Path) -> PathBuf {
    generation.join("files")
}

/// Returns the path below `folder` that stands for an absolute one.
pub(super) fn mirrored(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}
