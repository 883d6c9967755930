//! One checkout during a publication: git's own lock on its index, its files, and its new index.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::failpoint::{failing, reached};
use crate::files::{self, unique};
use crate::index::ahead::Ahead;
use crate::index::file::IndexFile;
use crate::objects::tree_diff::Change;
use crate::publish::bring::Bringing;
use crate::publish::user_checkout::Checkout;
use crate::publish::view::View;

/// Maximum time for which a publication waits for a git command of the person.
const PATIENCE: Duration = Duration::from_millis(500);

/// Upper bound for the room that a further file needs in an index, without its path.
const ENTRY: usize = 80;

/// A checkout that takes part in a publication.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Place {
    pub(crate) git: PathBuf,
    pub(crate) files: PathBuf,
    /// A file of ours. The lock is a second name for this file, which proves that the lock is ours.
    pub(crate) token: PathBuf,
    /// Folder in which contents wait, if that is not among our records. On another file system, renames from
    /// there would not reach the checkout.
    #[serde(default)]
    pub(crate) stage: Option<PathBuf>,
}

impl Place {
    /// Makes `checkout` part of a publication whose records lie in the folder `state`.
    pub(crate) fn new(checkout: &Checkout, state: &Path) -> Result<Self> {
        let device = |path: &Path| {
            let found = fs::metadata(path).map(|metadata| metadata.dev());
            found.map_err(|e| Error::io("reading a folder", e).with_path(path))
        };
        let is_near = device(state)? == device(&checkout.files)?;
        Ok(Self {
            git: checkout.git.clone(),
            files: checkout.files.clone(),
            token: checkout.git.join(unique("lock")),
            stage: (!is_near).then(|| Self::beside(&checkout.files).join(unique("stage"))),
        })
    }

    /// Returns the folder of a checkout on another disk in which contents wait. A kill leaves them there until
    /// the next start, so this is a folder that git ignores.
    fn beside(checkout: &Path) -> PathBuf {
        let ignored = checkout.join(".watchfire");
        // Not through a link that is there.
        match fs::symlink_metadata(&ignored) {
            Ok(metadata) if !metadata.is_dir() => checkout.to_path_buf(),
            _ => ignored,
        }
    }

    /// Removes the contents that wait in the folder `stage`.
    pub(crate) fn clear(&self, stage: &Path) -> Result<()> {
        files::remove_tree(stage).during("removing staged files")?;
        // Only if it is empty, as it is in a worktree that is not the project.
        if let Some(above) = self.stage.as_deref().and_then(Path::parent).filter(|it| **it != self.files) {
            _ = fs::remove_dir(above);
        }
        Ok(())
    }

    pub(crate) fn checkout(&self) -> Checkout {
        Checkout { git: self.git.clone(), files: self.files.clone() }
    }

    fn lock_path(&self) -> PathBuf {
        self.git.join("index.lock")
    }

    /// Takes git's own lock on the index. Returns false if another process has it.
    pub(crate) fn lock(&self) -> Result<bool> {
        // The token of an earlier lock may be a second name of the index by now. Writing to it would change
        // the index.
        let made = files::absent(fs::remove_file(&self.token))
            .and_then(|_| fs::OpenOptions::new().write(true).create_new(true).open(&self.token));
        made.map_err(|e| Error::io("locking the index", e).with_path(&self.token))?;
        reached("lock: token made");
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A link is made only where nothing is, so a git command that has the lock keeps it.
            match fs::hard_link(&self.token, self.lock_path()) {
                Ok(()) => {
                    reached("lock: taken");
                    return Ok(true);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("locking the index", e).with_path(self.lock_path())),
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns true if the lock exists and is ours.
    pub(crate) fn is_locked(&self) -> bool {
        files::is_same(&self.token, &self.lock_path())
    }

    /// Puts the index of before back, unless the complete one is in place.
    pub(crate) fn take_back_index(&self) -> Result<()> {
        self.ahead().take_back()
    }

    pub(crate) fn release(&self) {
        if let Err(error) = self.take_back_index() {
            tracing::warn!(error = %error.report(), "an index cannot be put back");
        }
        // The person may have removed our lock, and a git command may have taken it since.
        if self.is_locked() {
            _ = fs::remove_file(self.lock_path());
        }
        _ = fs::remove_file(&self.token);
    }

    /// Returns the index as it is without this publication.
    pub(crate) fn index(&self) -> Result<IndexFile> {
        self.ahead().read()
    }

    fn ahead(&self) -> Ahead {
        Ahead::new(&self.git, &self.token)
    }

    /// Enters `changes` into the index before the target moves. The lock stays.
    pub(crate) fn announce(&self, index: IndexFile, changes: &[Change]) -> Result<()> {
        let brought = changes.iter().map(|change| Some((change.new, None))).collect();
        let index = self.checkout().enter(index, changes, brought);
        self.ahead().put(&index.to_bytes())
    }

    /// Returns an upper bound for the length of the index with `changes`.
    fn length(index: &IndexFile, changes: &[Change]) -> usize {
        let added: usize = changes.iter().map(|change| change.path.len() + ENTRY).sum();
        index.to_bytes().len() + added
    }

    /// Reserves room on the disk for the new index, in the file that is the lock.
    /// A full disk must show before the target moves, when nothing has to be taken back.
    pub(crate) fn reserve(&self, index: &IndexFile, changes: &[Change]) -> Result<()> {
        let path = self.lock_path();
        let writing = |e| Error::io("writing the index", e).with_path(&path);
        let file = fs::OpenOptions::new().write(true).open(&path).map_err(writing)?;
        match fallocate(&file, FallocateFlags::empty(), 0, Self::length(index, changes) as u64) {
            // Not every file system can reserve room.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(writing(e.into())),
        }
    }

    /// Writes the contents that `changes` bring, and nothing into the checkout.
    pub(crate) fn stage(&self, changes: &[Change], converted: &Path, bringing: &Bringing) -> Result<()> {
        let (checkout, index) = (self.checkout(), self.index()?);
        bringing.stage(&View::new(&checkout, &index, changes, converted)?, changes)
    }

    /// Brings `changes` to the files, and returns the index that belongs to them.
    pub(crate) fn bring(
        &self,
        changes: &[Change],
        converted: &Path,
        bringing: &mut Bringing,
    ) -> Result<IndexFile> {
        let (checkout, index) = (self.checkout(), self.index()?);
        let mut brought: Vec<_> = changes.iter().map(|_| None).collect();
        {
            let view = View::new(&checkout, &index, changes, converted)?;
            // Removals first, so that a file can take the place of a folder, and a folder that of a file.
            let (gone, here): (Vec<_>, Vec<_>) = changes
                .iter()
                .zip(&mut brought)
                .enumerate()
                .partition(|(_, (change, _))| change.new.is_none());
            for (n, (change, brought)) in gone.into_iter().rev().chain(here) {
                *brought = Some(bringing.bring(&view, n, change)?);
            }
        }
        reached("publication: files brought");
        Ok(checkout.enter(index, changes, brought))
    }

    /// Takes the files back to their state before [`Place::bring`].
    pub(crate) fn take_back(
        &self,
        changes: &[Change],
        converted: &Path,
        bringing: &mut Bringing,
    ) -> Result<()> {
        let (checkout, index) = (self.checkout(), self.index()?);
        bringing.undo(&View::new(&checkout, &index, changes, converted)?)
    }

    /// Releases the lock by renaming the new index into its place.
    pub(crate) fn put(&self, index: &IndexFile) -> Result<()> {
        failing("index")?;
        let bytes = index.to_bytes();
        let path = self.lock_path();
        let written = (|| {
            // Without truncating first: the room that was reserved stays reserved.
            let mut file = fs::OpenOptions::new().write(true).open(&path)?;
            file.write_all(&bytes)?;
            file.set_len(bytes.len() as u64)?;
            // Before the rename, so that a power failure leaves no half index.
            file.sync_all()?;
            if let Ok(old) = fs::metadata(self.git.join("index")) {
                file.set_permissions(old.permissions())?;
            }
            reached("publication: index written");
            fs::rename(&path, self.git.join("index"))
        })();
        written.map_err(|e| Error::io("writing the index", e).with_path(&path))?;
        reached("publication: index in place");
        self.ahead().forget();
        // By now a second name of the index.
        _ = fs::remove_file(&self.token);
        Ok(())
    }
}
