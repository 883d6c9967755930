//! A checkout of a person: finds out whether a publication can be brought there without touching an edit.
//!
//! Every step looks at the file as it is at that moment, so that the step may be repeated. A file that is as
//! before the merge becomes what the merge says. A file that is so already stays. Anything else is an edit
//! and is left alone.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::{Access, AtFlags, CWD, accessat, lstat};
use rustix::io::Errno;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{Obstacle, ObstacleKind};
use watchfire_core::{Error, Result};

use crate::files;
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::objects::tree::Node;
use crate::objects::tree_diff::Change;
use crate::publish::bring::Bringing;
use crate::publish::convert::{self, Conversion};
use crate::publish::swap;
use crate::publish::view::{Brought, Disk, View, hash};
use crate::repository::admin::{self, Owner};
use crate::repository::ownership::{self, Link};
use crate::repository::project::{Kind, Project};

/// Prefix of files that are about to replace another file.
const NEW: &str = ".wf-new-";

/// A checkout: its own git directory, and its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Checkout {
    pub(crate) git: PathBuf,
    pub(crate) files: PathBuf,
}

/// Returns all checkouts except the agents' own.
pub(crate) fn all(project: &Project) -> Result<Vec<Checkout>> {
    let mut all = Vec::new();
    if project.git == project.common {
        all.push(Checkout { git: project.git.clone(), files: project.root.clone() });
    } else if let Ok(main) = Repository::open(&project.common)
        && let Some(files) = main.workdir()
    {
        all.push(Checkout { git: project.common.clone(), files: files.to_path_buf() });
    }
    all.extend(linked(project, Link::Here)?);
    Ok(all)
}

/// Returns the linked checkouts of persons that cannot be read now. git, too, keeps their branches from being moved: one that
/// comes back with the index of before would take back what its branch has got meanwhile.
pub(crate) fn away(project: &Project) -> Result<Vec<Checkout>> {
    linked(project, Link::Away)
}

/// Returns the linked checkouts of persons that have this relation to their administration.
fn linked(project: &Project, wanted: Link) -> Result<Vec<Checkout>> {
    let mut linked = Vec::new();
    for (_, git) in files::entries(&project.common.join("worktrees"))? {
        if admin::owner(&git)? != Owner::Person {
            continue;
        }
        if let Some(files) = admin::checkout(&git)?.filter(|files| ownership::link(files, &git) == wanted) {
            linked.push(Checkout { git, files });
        }
    }
    Ok(linked)
}

impl Checkout {
    /// Makes an obstacle of something in this checkout.
    pub(crate) fn obstructed(
        &self,
        kind: ObstacleKind,
        message: impl Into<String>,
        files: Vec<RepoPath>,
    ) -> Obstacle {
        Obstacle::new(kind, message).with_checkout(&self.files).with_files(files)
    }

    /// Returns true if the branch with the full name `name` is checked out here.
    pub(crate) fn is_on(&self, name: &str) -> Result<bool> {
        let head = files::read(&self.git.join("HEAD"))?.unwrap_or_default();
        Ok(head.strip_prefix(b"ref:").is_some_and(|branch| branch.trim_ascii() == name.as_bytes()))
    }

    /// Returns the git operation that is under way here, if it concerns the branch `name`.
    pub(crate) fn underway(&self, name: &str) -> Result<Option<&'static str>> {
        // HEAD is detached during these. git notes the branch, a bisection by its short name.
        for (file, what) in [
            ("rebase-merge/head-name", "a rebase is under way (`git rebase --continue` or `--abort`)"),
            ("rebase-apply/head-name", "a rebase is under way (`git rebase --continue` or `--abort`)"),
            ("BISECT_START", "a bisection is under way (`git bisect reset` ends it)"),
        ] {
            let branch = files::read(&self.git.join(file))?.unwrap_or_default();
            let branch = branch.trim_ascii();
            if branch == name.as_bytes()
                || name.strip_prefix("refs/heads/").map(str::as_bytes) == Some(branch)
            {
                return Ok(Some(what));
            }
        }
        if !self.is_on(name)? {
            return Ok(None);
        }
        let signs = [
            ("MERGE_HEAD", "a merge is under way (`git merge --continue` or `--abort`)"),
            ("CHERRY_PICK_HEAD", "a cherry-pick is under way (`git cherry-pick --continue` or `--abort`)"),
            ("REVERT_HEAD", "a revert is under way (`git revert --continue` or `--abort`)"),
            ("rebase-apply", "patches are being applied (`git am --continue` or `--abort`)"),
        ];
        Ok(signs.into_iter().find(|(file, _)| self.git.join(file).exists()).map(|(_, what)| what))
    }

    /// Returns the obstacle to `changes` here, if there is one. The files that need it were converted into
    /// `converted`.
    pub(crate) fn obstacle(
        &self,
        index: &IndexFile,
        changes: &[Change],
        converted: &Path,
    ) -> Result<Option<Obstacle>> {
        let view = View::new(self, index, changes, converted)?;
        let mut edited = BTreeSet::new();
        for change in changes {
            view.check(change, &mut edited)?;
        }
        if !edited.is_empty() {
            let files = edited.into_iter().map(RepoPath::new).collect();
            return Ok(Some(self.obstructed(ObstacleKind::LocalEdits, "local edits are in the way", files)));
        }
        // Many changes share a folder.
        let mut folders: HashMap<PathBuf, bool> = HashMap::new();
        let mut can_write = |change: &&Change| {
            let path = self.files.join(OsStr::from_bytes(&change.path));
            let Some(folder) = path.parent() else { return true };
            *folders.entry(folder.to_path_buf()).or_insert_with(|| self.can_write(folder))
        };
        let locked: Vec<_> = changes.iter().filter(|change| !can_write(change)).collect();
        if !locked.is_empty() {
            let message = "folders or files cannot be written";
            let files = locked.into_iter().map(|change| RepoPath::new(change.path.clone())).collect();
            return Ok(Some(self.obstructed(ObstacleKind::ReadOnly, message, files)));
        }
        Ok(None)
    }

    /// Has git convert those files of `changes` that need it into the folder `to`. Returns the obstacle to
    /// that, if there is one.
    pub(crate) fn convert(
        &self,
        project: &Project,
        index: &IndexFile,
        changes: &[Change],
        to: &Path,
    ) -> Result<Option<Obstacle>> {
        if project.kind == Kind::Plain {
            // Snapshots take files as they are, so they come back as they are.
            return Ok(None);
        }
        let view = View::new(self, index, changes, to)?;
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        let mut drivers = BTreeSet::new();
        for change in files_of(changes) {
            match view.conversion(change)? {
                Conversion::None => continue,
                Conversion::Driver(name) if !project.options.filters.contains(&name) => {
                    drivers.insert(name);
                    refused.push(RepoPath::new(change.path.clone()));
                }
                _ => wanted.extend(change.new.map(|node| (change.path.as_slice(), node))),
            }
        }
        if !refused.is_empty() {
            let names: Vec<_> = drivers.into_iter().collect();
            let message =
                format!("files need the filter {} of your git, which is not allowed", names.join(", "));
            return Ok(Some(self.obstructed(ObstacleKind::FilterNotAllowed, message, refused)));
        }
        let written = match wanted.is_empty() {
            true => Ok(()),
            false => {
                let attributes = convert::replaced(&view.repo, changes, |change| change.new)?;
                convert::write(project, self, index, &wanted, &attributes, to)
            }
        };
        let written = written.and_then(|()| self.convert_old(project, &view, index, changes, to));
        let Err(error) = written else { return Ok(None) };
        let message = format!("git cannot convert files that it brings ({})", error.report());
        let files = wanted.into_iter().map(|(path, _)| RepoPath::new(path)).collect();
        Ok(Some(self.obstructed(ObstacleKind::ConversionFailed, message, files)))
    }

    /// Has git convert the old side of files that look edited. Right after a clone, or a copy of the checkout, the index
    /// cannot say that they are not, and a converted file is never the blob.
    fn convert_old(
        &self,
        project: &Project,
        view: &View<'_>,
        index: &IndexFile,
        changes: &[Change],
        to: &Path,
    ) -> Result<()> {
        let mut wanted = Vec::new();
        for change in changes {
            let Some(node) = change.old.filter(Node::is_file) else { continue };
            let Disk::Here(stat) = view.disk(&change.path)? else { continue };
            if view.is(&change.path, change.old, &stat)? || view.is(&change.path, change.new, &stat)? {
                continue;
            }
            match view.conversion_before(change)? {
                Conversion::None => {}
                Conversion::Driver(name) if !project.options.filters.contains(&name) => {}
                _ => wanted.push((change.path.as_slice(), node)),
            }
        }
        match wanted.is_empty() {
            true => Ok(()),
            false => {
                let attributes = convert::replaced(&view.repo, changes, |change| change.old)?;
                convert::write(project, self, index, &wanted, &attributes, &convert::old(to))
            }
        }
    }

    /// Looks for edits that a killed publication left in its stage, and beside the files that it was
    /// replacing. A file that holds neither side of a change is an edit of a person. Moves those in the stage
    /// to `aside`, and returns where all of them are.
    pub(crate) fn sweep(
        &self,
        index: &IndexFile,
        changes: &[Change],
        converted: &Path,
        stage: &Path,
        aside: &Path,
    ) -> Result<Vec<PathBuf>> {
        let mut known: BTreeSet<Oid> =
            changes.iter().flat_map(|c| [c.old, c.new]).flatten().map(|node| node.id).collect();
        // Converted contents have ids of their own.
        for change in changes {
            known.extend(hash(&convert::at(converted, &change.path))?);
        }
        let name = |change: &Change| {
            let name = change.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let mut left = Vec::new();
        for (n, change) in changes.iter().enumerate() {
            let staged = Bringing::staged(stage, n);
            let path = self.files.join(OsStr::from_bytes(&change.path));
            // The kill came while the file was away, on a file system that cannot exchange two names.
            let kept = swap::kept(&staged);
            if let Some(id) = hash(&kept)?
                && !swap::put_new(&kept, &path)?
                && !known.contains(&id)
            {
                left.push(files::set_aside(&kept, aside, &name(change))?);
            }
            let Some(id) = hash(&staged)? else { continue };
            // The displaced file may be the old side as the checkout has it, with other line endings for
            // instance.
            let was_entered = || {
                let stat = lstat(&staged).ok()?;
                Some(index.entry(&change.path)?.is_of_but_for_renames(&stat))
            };
            if !known.contains(&id) && was_entered() != Some(true) {
                left.push(files::set_aside(&staged, aside, &name(change))?);
            }
        }
        let at = |change: &Change| self.files.join(OsStr::from_bytes(&change.path));
        let folders: BTreeSet<PathBuf> =
            changes.iter().filter_map(|c| at(c).parent().map(Path::to_path_buf)).collect();
        for folder in folders {
            for (name, path) in files::entries(&folder)? {
                if !name.as_encoded_bytes().starts_with(NEW.as_bytes()) {
                    continue;
                }
                if hash(&path)?.is_none_or(|id| known.contains(&id)) {
                    fs::remove_file(&path).map_err(|e| Error::io("removing a file", e).with_path(&path))?;
                } else {
                    left.push(path);
                }
            }
        }
        Ok(left)
    }

    /// Returns true if the user may create and remove files in `folder`, or in the nearest folder above it
    /// that exists.
    fn can_write(&self, folder: &Path) -> bool {
        let mut above = folder.ancestors().take_while(|above| above.starts_with(&self.files));
        let Some(folder) = above.find(|above| above.is_dir()) else { return true };
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        match accessat(CWD, folder, wanted, AtFlags::EACCESS) {
            Ok(()) => true,
            // Old kernels do not know the flags of this call.
            Err(Errno::NOSYS | Errno::INVAL) => accessat(CWD, folder, wanted, AtFlags::empty()).is_ok(),
            Err(_) => false,
        }
    }

    /// Returns `index` with `changes` entered. `brought` has the outcome of each change.
    pub(crate) fn enter(
        &self,
        mut index: IndexFile,
        changes: &[Change],
        brought: Vec<Option<Brought>>,
    ) -> IndexFile {
        // The index gets a new time, and git believes entries that are older than their index.
        index.settle(&self.files);
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (change, brought) in changes.iter().zip(brought) {
            let Some((at, stat)) = brought else { continue };
            let there = index.entry(&change.path);
            // Staged otherwise by now, or entered already: the entry stays as it is.
            if there.is_some_and(|entry| Some(entry.node) != change.old)
                || (there.is_none() && change.old.is_some())
            {
                continue;
            }
            match at {
                Some(node) => {
                    let mut entry = Entry::new(&change.path, node, stat.as_ref());
                    // A path outside of a sparse checkout stays outside.
                    entry.extended =
                        there.filter(|there| there.is_sparse()).map_or(0, |there| there.extended);
                    set.push(entry);
                }
                None => removed.push(change.path.as_slice()),
            }
        }
        index.change(set, &removed);
        index
    }
}

/// Yields the changes that bring files.
fn files_of(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| change.new.is_some_and(|node| node.is_file()))
}
