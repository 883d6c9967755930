//! A workspace without git.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::model::{Attempt, RepoPath, TaskNumber};
use crate::sandbox::{Rule, RuleAccess};
use crate::workspace::{
    BranchInfo, BranchStatus, Candidate, CaptureRequest, Captured, Commit, Conflict, Merge, MergeRequest,
    Obstacle, OpenRequest, Opened, Pruned, PublishRequest, Published, Recovery, RemoveRequest, Removed,
    RescueRef, Scratch, Workspace, WorkspaceKey,
};
use crate::{Error, Result};

/// A [`Workspace`] without git: each task works in a plain folder below `.watchfire/worktrees`, and publishing copies
/// its files into the root.
///
/// It keeps no history, notices no conflict by itself, and forgets at its end what was merged. The test says how merges end.
#[derive(Debug)]
pub struct FakeWorkspace {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    conflicts: BTreeMap<TaskNumber, RepoPath>,
    obstacles: BTreeMap<TaskNumber, Obstacle>,
    published: BTreeSet<String>,
}

impl FakeWorkspace {
    /// Returns a workspace for the project in `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), state: Mutex::default() }
    }

    /// Lets merges of a task conflict in this file.
    pub fn conflict(&self, task: TaskNumber, file: impl Into<Vec<u8>>) {
        self.lock().conflicts.insert(task, RepoPath::new(file.into()));
    }

    /// Lets publications of a task be held by this obstacle.
    pub fn hold(&self, task: TaskNumber, obstacle: Obstacle) {
        self.lock().obstacles.insert(task, obstacle);
    }

    /// Takes conflict and obstacle of a task away.
    pub fn release(&self, task: TaskNumber) {
        let mut state = self.lock();
        state.conflicts.remove(&task);
        state.obstacles.remove(&task);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, key: &WorkspaceKey) -> PathBuf {
        self.root.join(".watchfire/worktrees").join(key.to_string())
    }
}

#[async_trait]
impl Workspace for FakeWorkspace {
    fn root(&self) -> &Path {
        &self.root
    }

    fn shared_dir(&self) -> Option<PathBuf> {
        None
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opened> {
        let folder = self.folder(&request.key);
        let reused = folder.exists();
        fs::create_dir_all(&folder).map_err(|error| Error::io("making a task's folder", error))?;
        let mut opened = Opened::at(&folder);
        opened.policy_rules.push(Rule::new(folder, RuleAccess::Write, "workspace"));
        opened.reused = reused;
        opened.target = Some(request.target.clone().unwrap_or_else(|| "main".to_owned()));
        opened.branch = Some(format!("watchfire/{}", request.key));
        Ok(opened)
    }

    /// Everything that was opened counts as one commit.
    async fn capture(&self, _: &CaptureRequest) -> Result<Captured> {
        Ok(Captured { commits: 1, ..Captured::default() })
    }

    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge> {
        let key = &request.key;
        if let Some(path) = key.task().and_then(|task| self.lock().conflicts.get(&task).cloned()) {
            return Ok(Merge::Conflicts(vec![Conflict::new(path, None)]));
        }
        let below = request.onto.as_ref().map_or("merge", |onto| onto.commit.as_str());
        Ok(Merge::Ready(Candidate::new(
            key.clone(),
            &request.target,
            None,
            Commit::new(format!("{below}-{key}")),
            "tree",
            Commit::new(format!("work-{key}")),
        )))
    }

    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch> {
        let folder = self.folder(&candidate.key);
        let rules = vec![Rule::new(&folder, RuleAccess::Write, "scratch")];
        Ok(Scratch::new(folder, |_| {}).with_policy_rules(rules))
    }

    async fn publish(&self, candidate: &Candidate, _: &PublishRequest) -> Result<Published> {
        let obstacle = candidate.key.task().and_then(|task| self.lock().obstacles.get(&task).cloned());
        if let Some(obstacle) = obstacle {
            return Ok(Published::Held(obstacle));
        }
        copy(&self.folder(&candidate.key), &self.root).map_err(|error| Error::io("publishing", error))?;
        self.lock().published.insert(candidate.commit.as_str().to_owned());
        Ok(Published::done(Vec::new()))
    }

    async fn is_published(&self, _: &str, commit: &Commit) -> Result<bool> {
        Ok(self.lock().published.contains(commit.as_str()))
    }

    async fn rescue(&self, _: &WorkspaceKey, _: Attempt) -> Result<Option<RescueRef>> {
        Ok(None)
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<Removed> {
        match fs::remove_dir_all(self.folder(&request.key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("removing a task's folder", error))
            }
            _ => Ok(Removed::gone(None)),
        }
    }

    async fn list(&self) -> Result<Vec<BranchInfo>> {
        let folders = fs::read_dir(self.root.join(".watchfire/worktrees")).into_iter().flatten().flatten();
        let info = |key: String| BranchInfo::new(format!("watchfire/{key}"), key, BranchStatus::Unmerged);
        Ok(folders.map(|folder| info(folder.file_name().to_string_lossy().into_owned())).collect())
    }

    async fn prune(&self) -> Result<Pruned> {
        Ok(Pruned::default())
    }

    async fn recover(&self) -> Result<Recovery> {
        Ok(Recovery::default())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
