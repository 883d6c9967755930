//! Branches of tasks.

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::branch_service_server::BranchService;
use watchfire_api::work_proto;
use watchfire_core::model::{TaskNumber, Timestamp};
use watchfire_core::orchestrator::{MergeOptions, ProjectHandle};
use watchfire_core::schedule::{Ending, LifeState};
use watchfire_core::workspace::{BranchInfo, BranchPart, BranchStatus, Removed};
use watchfire_core::{Error, ErrorKind, Result};

use super::answer;
use super::convert::{some, wire};
use crate::Daemon;

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    async fn branches_of(&self, project: &str) -> Result<proto::BranchList> {
        let project = self.project(project).await?;
        Ok(proto::BranchList { branches: listed(&project).await? })
    }

    async fn branch(&self, project: &str, name: &str) -> Result<proto::Branch> {
        one(&self.project(project).await?, name).await
    }

    /// Merges a branch; of a merge that is held or failed, the answer says why.
    async fn merged(&self, project: &str, name: &str, target: &str) -> Result<proto::Branch> {
        let project = self.project(project).await?;
        let task = task_of(name)?;
        let options = MergeOptions::default().with_into(some(target).map(str::to_owned));
        let state = project.merge_with(task, options).await?;
        match is_merged(&state) {
            true => {
                // A merged branch may be gone.
                let gone = proto::Branch {
                    name: name.to_owned(),
                    task_number: wire(task),
                    project_id: project.id().to_string(),
                    status: "merged".to_owned(),
                    ..proto::Branch::default()
                };
                Ok(one(&project, name).await.unwrap_or(gone))
            }
            false => Ok(proto::Branch { problem: state.to_string(), ..one(&project, name).await? }),
        }
    }

    async fn removed(&self, project: &str, name: &str, discard: bool) -> Result<()> {
        let project = self.project(project).await?;
        match project.remove_branch(task_of(name)?, discard).await? {
            Removed::Kept { reason, .. } => {
                Err(Error::new(ErrorKind::Conflict, "the branch has work that is not merged")
                    .with("branch", name)
                    .with("reason", reason)
                    .with("hint", "discard removes it; the work stays under a rescue ref"))
            }
            _ => Ok(()),
        }
    }

    async fn merged_all(&self, request: proto::BulkBranchRequest) -> Result<proto::BranchList> {
        let mut branches = Vec::new();
        // One after the other: each merge starts from the target that the one before it left.
        for name in &request.names {
            branches.push(match self.merged(&request.project_id, name, "").await {
                Ok(branch) => branch,
                Err(error) => proto::Branch {
                    name: name.clone(),
                    project_id: request.project_id.clone(),
                    problem: error.report(),
                    ..proto::Branch::default()
                },
            });
        }
        Ok(proto::BranchList { branches })
    }

    async fn removed_all(&self, request: proto::BulkBranchRequest) -> Result<()> {
        let mut failure = None;
        for name in &request.names {
            if let Err(error) = self.removed(&request.project_id, name, request.discard).await {
                failure = failure.or(Some(error));
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn pruned(&self, project: &str) -> Result<proto::BranchList> {
        let project = self.project(project).await?;
        project.prune().await?;
        Ok(proto::BranchList { branches: listed(&project).await? })
    }
}

/// Returns whether a merge has ended well. Everything else, such as a conflict or work that is held, needs a person.
pub(super) fn is_merged(state: &LifeState) -> bool {
    matches!(state, LifeState::Ended { how: Ending::Merged { .. } | Ending::Nothing, .. })
}

/// Returns the task that a branch belongs to.
fn task_of(name: &str) -> Result<TaskNumber> {
    let number = name.strip_prefix("watchfire/").and_then(|key| key.parse().ok());
    number.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "not the branch of a task, expected watchfire/0003")
            .with("branch", format_args!("{name:?}"))
    })
}

async fn listed(project: &ProjectHandle) -> Result<Vec<proto::Branch>> {
    let branches = project.workspace().list().await?;
    let ledger = project.ledger().await?;
    let in_use = |task: TaskNumber| ledger.lives.values().any(|life| life.subject.task() == Some(task));
    Ok(branches.into_iter().map(|branch| told(project, branch, &in_use)).collect())
}

async fn one(project: &ProjectHandle, name: &str) -> Result<proto::Branch> {
    let found = listed(project).await?.into_iter().find(|branch| branch.name == name);
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such branch of a task").with("branch", name))
}

fn told(project: &ProjectHandle, branch: BranchInfo, in_use: &impl Fn(TaskNumber) -> bool) -> proto::Branch {
    let task: Option<TaskNumber> = branch.key.parse().ok();
    let status = if task.is_some_and(in_use) { "in_use" } else { word(branch.status) };
    let committed = branch.committed_at.map(|at| Timestamp::from_unix_millis(at.saturating_mul(1000)));
    proto::Branch {
        name: branch.branch,
        task_number: task.map_or(0, wire),
        project_id: project.id().to_string(),
        status: status.to_owned(),
        worktree_path: branch.worktree.map(|path| path.display().to_string()).unwrap_or_default(),
        committed_at: super::convert::time(committed.as_ref()),
        tip: branch.tip.map(|tip| tip.as_str().to_owned()).unwrap_or_default(),
        target: branch.target.unwrap_or_default(),
        ahead: count(branch.ahead),
        behind: count(branch.behind),
        subject: branch.subject.unwrap_or_default(),
        problem: String::new(),
    }
}

fn word(status: BranchStatus) -> &'static str {
    match status {
        BranchStatus::Empty => "empty",
        BranchStatus::Merged => "merged",
        BranchStatus::Orphaned => "orphaned",
        _ => "unmerged",
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the branches that tasks have in other repositories than the project's own.
pub(super) async fn in_others(project: &ProjectHandle) -> Result<Vec<work_proto::OtherBranch>> {
    let mut all = Vec::new();
    for branch in project.workspace().list().await? {
        let Ok(task) = branch.key.parse::<TaskNumber>() else { continue };
        all.extend(branch.others.into_iter().map(|BranchPart { repository, branch, .. }| {
            work_proto::OtherBranch {
                task_number: wire(task),
                repository: repository.display().to_string(),
                name: branch.branch,
                status: word(branch.status).to_owned(),
                worktree_path: branch.worktree.map(|path| path.display().to_string()).unwrap_or_default(),
                target: branch.target.unwrap_or_default(),
                ahead: count(branch.ahead),
                behind: count(branch.behind),
            }
        }));
    }
    Ok(all)
}

#[tonic::async_trait]
impl BranchService for Daemon {
    async fn list_branches(&self, request: Request<proto::ProjectId>) -> Answer<proto::BranchList> {
        answer(self.branches_of(&request.get_ref().project_id).await)
    }

    async fn get_branch(&self, request: Request<proto::BranchId>) -> Answer<proto::Branch> {
        let request = request.into_inner();
        answer(self.branch(&request.project_id, &request.name).await)
    }

    async fn merge_branch(&self, request: Request<proto::MergeBranchRequest>) -> Answer<proto::Branch> {
        let request = request.into_inner();
        answer(self.merged(&request.project_id, &request.name, &request.target).await)
    }

    async fn delete_branch(&self, request: Request<proto::BranchId>) -> Answer<()> {
        let request = request.into_inner();
        answer(self.removed(&request.project_id, &request.name, request.discard).await)
    }

    async fn prune_branches(&self, request: Request<proto::ProjectId>) -> Answer<proto::BranchList> {
        answer(self.pruned(&request.get_ref().project_id).await)
    }

    async fn bulk_merge(&self, request: Request<proto::BulkBranchRequest>) -> Answer<proto::BranchList> {
        answer(self.merged_all(request.into_inner()).await)
    }

    async fn bulk_delete(&self, request: Request<proto::BulkBranchRequest>) -> Answer<()> {
        answer(self.removed_all(request.into_inner()).await)
    }
}
