//! Takes snapshots: commits of a plain folder as it is, without what is not the tasks' business.
//!
//! Left out are `.watchfire/`, what ignore files say, repositories in the folder, sockets and the like, and files with the usual
//! names of secrets. What is left out is not in the tree, so no publication removes it. A file that is in the tree already,
//! because a task made it, stays there as it was, if its name is a secret's: a person may have filled it in since.
//!
//! A kill between commit and index leaves an index that is older than its commit. The next snapshot renews it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::Repository;
use rustix::fs::Stat;
use watchfire_core::model::RepoPath;
use watchfire_core::sandbox::NamePattern;
use watchfire_core::workspace::{Obstacle, ObstacleKind};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::identity;
use crate::index::file::IndexFile;
use crate::index::hidden::Hidden;
use crate::names;
use crate::objects::tree;
use crate::objects::tree_edit;
use crate::plain::store::BRANCH;
use crate::publish::publication::{self, Completed};
use crate::repository::project::{Kind, Project, move_ref, tip};
use crate::worktree::capture::renewed;
use crate::worktree::folder::Look;
use crate::worktree::ignore::Ignore;

/// Smallest age of a file whose time proves that it has not changed since it was read. Clocks of file systems tick every few
/// milliseconds, and on old ones every two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// Largest number of repositories that are named.
const NAMED: usize = 5;

/// A snapshot that was taken.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// True if the target or its index had to follow the folder.
    pub(crate) is_new: bool,
    /// Repositories in the folder, which are left out.
    pub(crate) nested: Vec<RepoPath>,
}

impl Snapshot {
    /// Names the repositories that are left out, for a person.
    pub(crate) fn remark(&self) -> Option<String> {
        let names: Vec<_> = self.nested.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if self.nested.len() > NAMED { ", …" } else { "" };
        let remark = || format!("git repositories in the folder are left out: {}{more}", names.join(", "));
        (!names.is_empty()).then(remark)
    }
}

/// Takes a snapshot of a plain folder, if anything has changed. Does nothing in a repository of a person's.
///
/// # Errors
/// `not_supported` for a folder beyond the limits; errors of the disk.
pub(crate) fn take(project: &Project) -> Result<Snapshot> {
    if project.kind != Kind::Plain {
        return Ok(Snapshot::default());
    }
    let _lock = project.lock()?;
    // A publication that was killed has moved the target, and not all files: a snapshot would take its work back.
    for note in publication::pending(project)? {
        if let Completed::Incomplete(_) = publication::complete(project, &note)? {
            return Ok(Snapshot::default());
        }
    }
    take_locked(project, &project.open()?)
}

/// Takes a snapshot as [`take`] does, for work that is finished: a folder that has grown beyond the limits does not keep it
/// from being merged.
pub(crate) fn refresh(project: &Project) -> Result<Snapshot> {
    within_limits(take(project))
}

/// Takes a snapshot as [`refresh`] does. The caller holds the project's lock, and no publication is under way.
pub(crate) fn refresh_locked(project: &Project, repo: &Repository) -> Result<Snapshot> {
    match project.kind {
        Kind::Plain => within_limits(take_locked(project, repo)),
        Kind::Git | Kind::Past => Ok(Snapshot::default()),
    }
}

/// Says of an obstacle what keeps it out of snapshots.
pub(crate) fn explained(project: &Project, mut obstacle: Obstacle) -> Obstacle {
    if project.kind == Kind::Plain && obstacle.kind == ObstacleKind::LocalEdits {
        obstacle.message =
            "files that snapshots leave out (ignored ones, secrets) are in the way: move them away"
                .to_owned();
    }
    obstacle
}

fn within_limits(taken: Result<Snapshot>) -> Result<Snapshot> {
    match taken {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            tracing::warn!(error = %error.report(), "no snapshot is taken");
            Ok(Snapshot::default())
        }
        taken => taken,
    }
}

/// Checks that the folder `root`, of which no snapshot is there, is within the limits.
pub(super) fn measure(root: &Path) -> Result<()> {
    let during = "measuring the folder";
    // Nothing is written, so a repository that is nowhere will do.
    let repo = git2::Odb::new().and_then(Repository::from_odb).during(during)?;
    let ignore = Ignore::with(git2::Config::open_default().during(during)?, None)?;
    let look = Look {
        repo: &repo,
        tree: &BTreeMap::new(),
        index: &IndexFile::default(),
        ignore: &ignore,
        hidden: &secrets(root),
        nested: false,
        scratch: root,
    };
    look.measure(root)
}

/// Returns the names of which no content goes into a snapshot.
pub(crate) fn secrets(root: &Path) -> Hidden {
    Hidden::new(&[NamePattern::secrets(root, "snapshots: secrets")], root)
}

fn take_locked(project: &Project, repo: &Repository) -> Result<Snapshot> {
    let (root, name, path) = (&project.root, names::head(BRANCH), project.git.join("index"));
    let last = tip(repo, &name)?;
    let tree = tree::of_commit(repo, last)?;
    let flat = tree::flatten(repo, tree)?;
    // Without an index every file is read.
    let index = IndexFile::read(&path).unwrap_or_default();
    let began = SystemTime::now();
    let look = Look {
        repo,
        tree: &flat,
        index: &index,
        ignore: &Ignore::of(repo)?,
        hidden: &secrets(root),
        nested: false,
        scratch: &project.state().join("tmp"),
    };
    look.measure(root)?;
    let mut scan = look.scan(root)?;
    // The person works in the folder meanwhile, so a young file may have changed again in the instant in which it was read.
    for (_, stat) in scan.files.values_mut() {
        *stat = stat.filter(|stat| is_settled(stat, began));
    }
    let mut commit = last;
    if !scan.edits.is_empty() || last.is_none() {
        let tree = tree_edit::edit(repo, tree, &scan.edits)?.map_or_else(|| tree_edit::empty(repo), Ok)?;
        let tree = repo.find_tree(tree).during("reading a tree")?;
        let parent = last.map(|last| repo.find_commit(last)).transpose().during("reading a commit")?;
        let who = identity::agent(&project.options.fallback)?;
        let parents: Vec<_> = parent.iter().collect();
        let made =
            repo.commit(None, &who, &who, "Snapshot\n", &tree, &parents).during("taking a snapshot")?;
        reached("snapshot: committed");
        if !move_ref(repo, &name, last, made, "watchfire: snapshot")? {
            return Err(Error::new(ErrorKind::Busy, "another process moves the branch of the snapshots")
                .with("snapshots", project.git.display()));
        }
        commit = Some(made);
    }
    let nodes: BTreeMap<_, _> = scan.files.iter().map(|(path, (node, _))| (path.clone(), *node)).collect();
    let is_new = commit != last || !index.is_of(&nodes);
    if let Some(index) = renewed(repo, &index, &scan, commit)? {
        files::replace(&path, &index.to_bytes())?;
    }
    reached("snapshot: taken");
    Ok(Snapshot { is_new, nested: scan.nested.into_iter().map(RepoPath::new).collect() })
}

fn is_settled(stat: &Stat, began: SystemTime) -> bool {
    let began = began.checked_sub(SETTLED).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    began.is_some_and(|began| u64::try_from(stat.st_mtime).is_ok_and(|seconds| seconds < began.as_secs()))
}
