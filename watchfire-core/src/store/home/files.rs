//! `settings.yaml` and `projects.yaml`. All functions block.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::HomeChange;
use crate::files::{Dir, FileLock, Unread};
use crate::store::Revision;
use crate::store::changes::{Feed, lock};
use crate::store::yaml::Watching;
use crate::store::yaml::atomic::{self, LIMIT, unreadable};
use crate::store::yaml::document::Record;
use crate::store::yaml::follow::Watched;
use crate::store::yaml::{PATIENCE, Queue, already_exists, revision};
use crate::{ErrorKind, Result};

pub(super) const SETTINGS: &str = "settings.yaml";
pub(super) const PROJECTS: &str = "projects.yaml";

/// Upper bound for attempts at a change that keeps meeting other changes.
const TRIES: usize = 32;

#[derive(Debug)]
pub(super) struct Files {
    pub(super) path: PathBuf,
    pub(super) feed: Feed<HomeChange>,
    pub(super) watching: Mutex<Watching>,
    /// Last known revisions of the settings and the index.
    seen: Mutex<[Option<Revision>; 2]>,
    /// Queue of this process's writers in front of the lock.
    pub(super) queue: Queue,
}

impl Files {
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        let files = Self {
            queue: Queue::of(&lock_file(&path)),
            path,
            feed: Feed::new(HomeChange::Everything),
            watching: Mutex::default(),
            seen: Mutex::default(),
        };
        let _lock = files.lock()?;
        // Best effort: a home that cannot be written can still be read.
        let _ = atomic::recover(&files.dir()?);
        *lock(&files.seen) = files.revisions()?;
        Ok(files)
    }

    /// Returns the record in the file `name`, or the default if the file is missing.
    pub(super) fn read<T: Record + Default>(&self, name: &str) -> Result<T> {
        let dir = self.dir()?;
        match atomic::load::<T>(&dir, name) {
            Ok(stored) => Ok(stored.value),
            Err(atomic::Unread::Missing) => Ok(T::default()),
            Err(unread) => Err(unreadable(&dir, name, unread)),
        }
    }

    /// Changes the record in the file `name`, and creates the file if missing. `change` may be called again, with
    /// another state, when others write at the same time.
    pub(super) fn change<T: Record + Default>(
        &self,
        name: &str,
        change: &mut dyn FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let _lock = self.lock()?;
        let dir = self.dir()?;
        for round in 1.. {
            let tried = match atomic::load::<T>(&dir, name) {
                Err(atomic::Unread::Missing) => {
                    let mut value = T::default();
                    change(&mut value)?;
                    atomic::create(&dir, name, &value, 0o600)
                }
                Err(unread) => return Err(unreadable(&dir, name, unread)),
                // Strict, so that `change` sees the state on which it decides; a merge could combine two
                // orders of projects.
                Ok(stored) => atomic::update::<T>(&dir, name, Some(&stored.revision), |value| {
                    let before = value.clone();
                    change(value)?;
                    Ok(*value != before)
                })
                .map(|(stored, _)| stored),
            };
            match tried {
                Ok(stored) => {
                    // Announces our own change at once; the watch would report it only later.
                    self.look()?;
                    return Ok(stored.value);
                }
                Err(error)
                    if round < TRIES && (error.kind() == ErrorKind::Conflict || already_exists(&error)) => {}
                Err(error) => return Err(error),
            }
        }
        // Never reached: each round returns or is followed by another, and the last one returns.
        self.read(name)
    }

    pub(super) fn dir(&self) -> Result<Dir> {
        Dir::open(&self.path)
    }

    fn lock(&self) -> Result<FileLock> {
        FileLock::acquire(&lock_file(&self.path), PATIENCE)
    }

    fn revisions(&self) -> Result<[Option<Revision>; 2]> {
        let dir = self.dir()?;
        Ok([SETTINGS, PROJECTS].map(|name| match dir.read(name, LIMIT) {
            Ok((bytes, _)) => Some(revision(&bytes)),
            Err(Unread::Missing) => None,
            // The reason stands for the revision, so that readers hear when a file breaks and when it is well
            // again.
            Err(Unread::Refused(reason)) => Some(Revision::new(reason)),
            Err(Unread::Error(error)) => Some(Revision::new(error.report())),
        }))
    }
}

fn lock_file(home: &Path) -> PathBuf {
    home.join("state").join("home.lock")
}

impl Watched for Files {
    fn folders(&self) -> Vec<Dir> {
        self.dir().into_iter().collect()
    }

    fn look(&self) -> Result<Option<std::time::Duration>> {
        let now = self.revisions()?;
        // Replaced in one step, so that two looks at the same time do not announce one change twice.
        let before = std::mem::replace(&mut *lock(&self.seen), now.clone());
        for ((old, new), change) in before.iter().zip(&now).zip([HomeChange::Settings, HomeChange::Projects])
        {
            if old != new {
                self.feed.send(&change);
            }
        }
        Ok(None)
    }

    fn watching(&self) -> &Mutex<Watching> {
        &self.watching
    }
}
