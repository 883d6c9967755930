//! Brings changes to the files of a person's checkout, in a way that can be taken back.
//!
//! First all new contents are written into a folder beside the checkout, where nothing shows. Then only
//! renames are left. They need no room on the disk. Each rename puts the displaced file in the place of the
//! new one, so the same renames in reverse undo everything. A publication that fails half-way leaves the
//! files as they were.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Repository, RepositoryOpenFlags};
use rustix::fs::{CWD, FileType, Stat};
use watchfire_core::{Error, Result};

use crate::error::{During, broken};
use crate::failpoint::{failing, reached};
use crate::files::{self, unique};
use crate::index::entry::Entry;
use crate::objects::tree::{EXECUTABLE, Node, SUBMODULE};
use crate::objects::tree_diff::Change;
use crate::parts::in_parts;
use crate::publish::swap;
use crate::publish::view::{Brought, Disk, View};
use crate::worktree::materialize::write_file;

/// The changes that are on their way to one checkout.
#[derive(Debug)]
pub(crate) struct Bringing {
    /// Folder of the new and the displaced files, one for each change.
    stage: PathBuf,
    /// Folder for displaced edits that cannot go back to their place.
    aside: PathBuf,
    done: Vec<Step>,
    /// Existing folders of the checkout. True if renames from the stage reach them.
    folders: HashMap<PathBuf, bool>,
}

/// A file that was changed, as far as undoing it needs.
#[derive(Debug)]
struct Step {
    at: PathBuf,
    staged: PathBuf,
    kind: Kind,
    /// State of the file that was displaced.
    displaced: Option<Stat>,
    /// State of the file that was put at `at`. Shows whether a person has edited it since.
    put: Option<Stat>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Added,
    Replaced,
    Removed,
}

impl Bringing {
    /// Prepares to bring changes by way of the folder `stage`. Edits that cannot stay where they are are moved
    /// to the folder `aside`.
    pub(crate) fn new(stage: PathBuf, aside: PathBuf) -> Self {
        Self { stage, aside, done: Vec::new(), folders: HashMap::new() }
    }

    /// Returns the place in which the new content of change `n` waits, and afterwards the old content.
    pub(crate) fn staged(stage: &Path, n: usize) -> PathBuf {
        stage.join(n.to_string())
    }

    /// Writes the new contents of all changes into the stage, and nothing into the checkout.
    pub(crate) fn stage(&self, view: &View<'_>, changes: &[Change]) -> Result<()> {
        let failed = |e| Error::io("creating a folder", e).with_path(&self.stage);
        files::remove_tree(&self.stage).and_then(|()| fs::create_dir_all(&self.stage)).map_err(failed)?;
        let mut wanted = Vec::new();
        for (n, change) in changes.iter().enumerate() {
            let Some(node) = change.new.filter(|node| node.mode != SUBMODULE) else { continue };
            // If git's mode does not change, the file keeps the permissions that the person gave it.
            let keeps_mode = change.old.is_some_and(|old| old.mode == node.mode) && node.is_file();
            wanted.push(Wanted {
                staged: Self::staged(&self.stage, n),
                node,
                path: &change.path,
                converted: view.converted(&change.path).filter(|_| node.is_file()),
                like: keeps_mode.then(|| view.at(&change.path)),
            });
        }
        let git = view.repo.path();
        in_parts(wanted, MANY, |part| {
            let repo = open(git)?;
            part.iter().try_for_each(|wanted| wanted.write(&repo))
        })
        .map(drop)
    }

    /// Brings change `n` to its file, if the file is as it was before.
    pub(crate) fn bring(&mut self, view: &View<'_>, n: usize, change: &Change) -> Result<Brought> {
        reached("file: next");
        failing(if self.done.is_empty() { "bring" } else { "bring last" })?;
        let path = &change.path;
        let sparse = view.entry(path).is_some_and(Entry::is_sparse);
        let stat = match (view.disk(path)?, change.new) {
            (disk, Some(new)) if new.mode == SUBMODULE => {
                if let Disk::Here(stat) = disk
                    && view.is(path, change.old, &stat)?
                {
                    self.remove(view, n, path, &stat)?;
                }
                // git has an empty folder in place of a submodule. What is in it is the person's.
                _ = fs::create_dir_all(view.at(path));
                None
            }
            // Already there: the step is repeated, or the person made the same change.
            (Disk::Here(stat), Some(new)) if view.is(path, Some(new), &stat)? => Some(stat),
            (Disk::Here(stat), Some(_)) if view.is(path, change.old, &stat)? => {
                self.replace(view, n, path, &stat)?
            }
            // All files in this folder go with the merge, or the check would have held the publication.
            (Disk::Here(stat), Some(_)) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                remove_empty(&view.at(path));
                self.add(view, n, path)?
            }
            // A file that the person deleted is not brought back, and nothing is added outside of a sparse
            // checkout.
            (Disk::Absent, Some(_)) if !sparse && change.old.is_none_or(|old| old.mode == SUBMODULE) => {
                self.add(view, n, path)?
            }
            (Disk::Here(stat), None) if view.is(path, change.old, &stat)? => {
                self.remove(view, n, path, &stat)?;
                prune_parents(view, path);
                // A parent that was noted as existing may be gone.
                self.folders.clear();
                None
            }
            _ => None,
        };
        Ok((change.new, stat))
    }

    /// Puts a file where there is none. If something is there by now, that stays.
    fn add(&mut self, view: &View<'_>, n: usize, path: &[u8]) -> Result<Option<Stat>> {
        let at = view.at(path);
        let parent = parent(&at);
        if !self.folders.contains_key(parent) {
            fs::create_dir_all(parent).map_err(|e| Error::io("creating a folder", e).with_path(parent))?;
        }
        let staged = self.near(n, parent)?;
        reached("file: written");
        if !swap::put_new(&staged, &at)? {
            self.discard(&staged);
            return Ok(None);
        }
        reached("file: linked");
        let put = swap::stat(&at)?;
        self.done.push(Step { at, staged, kind: Kind::Added, displaced: None, put: Some(put) });
        Ok(Some(put))
    }

    /// Replaces the file that is in the state `old`. If the file was edited since, the edit stays.
    fn replace(&mut self, view: &View<'_>, n: usize, path: &[u8], old: &Stat) -> Result<Option<Stat>> {
        let at = view.at(path);
        let staged = self.near(n, parent(&at))?;
        if !swap::swap(&staged, &at, old, &self.aside)? {
            self.discard(&staged);
            return Ok(None);
        }
        let put = swap::stat(&at)?;
        self.done.push(Step { at, staged, kind: Kind::Replaced, displaced: Some(*old), put: Some(put) });
        Ok(Some(put))
    }

    /// Moves the file that is in the state `old` away. If the file was edited since, the edit stays.
    fn remove(&mut self, view: &View<'_>, n: usize, path: &[u8], old: &Stat) -> Result<()> {
        let at = view.at(path);
        let staged = self.near(n, parent(&at))?;
        if swap::withdraw(&at, &staged, old, &self.aside)? {
            self.done.push(Step { at, staged, kind: Kind::Removed, displaced: Some(*old), put: None });
        }
        Ok(())
    }

    /// Returns the staged file of change `n`, on the file system of `folder`: a rename does not cross file
    /// systems.
    fn near(&mut self, n: usize, folder: &Path) -> Result<PathBuf> {
        let staged = Self::staged(&self.stage, n);
        let is_near = match self.folders.get(folder) {
            Some(is_near) => *is_near,
            None => {
                let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
                let reading = |e| Error::io("reading a folder", e).with_path(folder);
                let is_near = device(&self.stage).map_err(reading)? == device(folder).map_err(reading)?;
                self.folders.insert(folder.to_path_buf(), is_near);
                is_near
            }
        };
        if is_near {
            return Ok(staged);
        }
        let near = folder.join(unique("new"));
        let copied = match fs::symlink_metadata(&staged) {
            Ok(metadata) if metadata.is_symlink() => fs::read_link(&staged).and_then(|to| symlink(to, &near)),
            Ok(_) => fs::copy(&staged, &near).map(drop),
            // A removal has nothing staged.
            Err(_) => Ok(()),
        };
        copied.map_err(|e| Error::io("writing a file", e).with_path(&near))?;
        Ok(near)
    }

    /// Takes everything back, the last step first.
    ///
    /// # Errors
    /// Errors of the disk, and `workspace_broken` if a person has edited a file that was brought.
    pub(crate) fn undo(&mut self, view: &View<'_>) -> Result<()> {
        while let Some(step) = self.done.pop() {
            reached("undo: next");
            failing("undo")?;
            let is_back = match (step.kind, step.put) {
                (Kind::Added, Some(put)) => swap::withdraw(&step.at, &step.staged, &put, &self.aside)?,
                (Kind::Replaced, Some(put)) => swap::swap(&step.staged, &step.at, &put, &self.aside)?,
                _ => {
                    let failed = |e| Error::io("taking a file back", e).with_path(&step.at);
                    fs::create_dir_all(parent(&step.at)).map_err(failed)?;
                    swap::put_new(&step.staged, &step.at)?
                }
            };
            // Undoing an edited file would lose the edit.
            if !is_back {
                return Err(broken("a file was edited while it was taken back").with_path(&step.at));
            }
            if matches!(step.kind, Kind::Added) {
                let root = view.at(&[]);
                let above = step.at.ancestors().skip(1).take_while(|above| *above != root);
                // Stops at the first folder that is not empty.
                _ = above.map(fs::remove_dir).find(std::result::Result::is_err);
            }
            self.discard(&step.staged);
        }
        Ok(())
    }

    /// Removes the displaced files that lie outside of the stage. The stage itself is removed as a whole.
    ///
    /// # Errors
    /// Errors of the disk. Then a displaced file may hold an edit, and the stage must stay.
    pub(crate) fn finish(self) -> Result<()> {
        for step in &self.done {
            // An editor that had the file open may have written to it since.
            if let Some(displaced) = &step.displaced
                && !swap::is_in_state(&step.staged, displaced)
            {
                swap::set_aside(&step.staged, &step.at, &self.aside)?;
            }
            self.discard(&step.staged);
        }
        Ok(())
    }

    fn discard(&self, staged: &Path) {
        // On another file system than the stage, beside the file itself.
        if !staged.starts_with(&self.stage) {
            _ = fs::remove_file(staged);
        }
    }
}

/// Number of files from which on several threads write.
const MANY: usize = 400;

/// A content that is to be written into the stage.
struct Wanted<'a> {
    staged: PathBuf,
    node: Node,
    path: &'a [u8],
    /// The file with git's conversion of the content.
    converted: Option<PathBuf>,
    /// The file that hands down its permissions.
    like: Option<PathBuf>,
}

impl Wanted<'_> {
    fn write(&self, repo: &Repository) -> Result<()> {
        match &self.converted {
            Some(converted) => self.copy(converted)?,
            None => {
                let name = self.staged.as_os_str().as_bytes();
                write_file(repo, CWD, name, self.node, self.path, Duration::ZERO)?;
            }
        }
        // Not the permissions of a link or folder that is there by now.
        if let Some(like) = &self.like
            && let Some(there) = fs::symlink_metadata(like).ok().filter(fs::Metadata::is_file)
        {
            _ = fs::set_permissions(&self.staged, there.permissions());
        }
        reached("stage: written");
        Ok(())
    }

    fn copy(&self, converted: &Path) -> Result<()> {
        // The modes that git asks for. The process's umask takes away its part.
        let mode = if self.node.mode == EXECUTABLE { 0o777 } else { 0o666 };
        let written = (|| {
            let mut from = fs::File::open(converted)?;
            let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&self.staged)?;
            std::io::copy(&mut from, &mut to)
        })();
        written.map(drop).map_err(|e| Error::io("writing a file", e).with_path(&self.staged))
    }
}

/// Opens the git directory of a checkout for one thread.
fn open(git: &Path) -> Result<Repository> {
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
    let none: [&Path; 0] = [];
    Repository::open_ext(git, flags, none).during("opening a checkout")
}

/// Removes the folders above `path` that a removal has left empty.
fn prune_parents(view: &View<'_>, path: &[u8]) {
    let mut end = path.len();
    while let Some(slash) = path.get(..end).and_then(|p| p.iter().rposition(|byte| *byte == b'/')) {
        end = slash;
        if fs::remove_dir(view.at(path.get(..end).unwrap_or_default())).is_err() {
            break;
        }
    }
}

/// Removes a folder and the empty folders in it. A folder with a file in it stays.
fn remove_empty(folder: &Path) {
    let mut folders = vec![folder.to_path_buf()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        let subfolders = files::entries(&folder).unwrap_or_default();
        let paths = subfolders.into_iter().map(|(_, path)| path);
        folders.extend(paths.filter(|path| path.is_dir() && !path.is_symlink()));
        next += 1;
    }
    // Children come after their parents in the list.
    for folder in folders.iter().rev() {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

fn parent(at: &Path) -> &Path {
    at.parent().unwrap_or(Path::new("/"))
}
