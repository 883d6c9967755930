//! Projects.

use std::path::{Path, PathBuf};

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::project_service_server::ProjectService;
use watchfire_core::model::{ProjectEntry, ProjectStatus};
use watchfire_core::store::{Home, NewProject, ProjectPatch};
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_git::GitOptions;
use watchfire_git::init::Earlier;

use super::answer;
use super::convert::{self, some};
use super::events::Events;
use crate::Daemon;

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    async fn list_all(&self) -> Result<proto::ProjectList> {
        let mut projects = Vec::new();
        for entry in self.home().projects().await? {
            // One whose file is broken or away is listed with the others.
            projects.push(self.told_project(&entry).await.unwrap_or_else(|error| proto::Project {
                project_id: entry.project_id.to_string(),
                name: entry.name.clone(),
                path: entry.path.display().to_string(),
                position: entry.position,
                problem: error.report(),
                ..proto::Project::default()
            }));
        }
        Ok(proto::ProjectList { projects })
    }

    async fn told_project(&self, entry: &ProjectEntry) -> Result<proto::Project> {
        let project = self.store_at(entry).await?.project().await?.value;
        Ok(convert::project(entry, project, &self.orchestrator().settings().defaults))
    }

    async fn told_by_id(&self, id: &str) -> Result<proto::Project> {
        self.told_project(&self.entry(id).await?).await
    }

    async fn create_project_at(&self, request: proto::CreateProjectRequest) -> Result<proto::Project> {
        let root = PathBuf::from(&request.path);
        if !root.is_absolute() {
            return Err(Error::new(ErrorKind::InvalidInput, "the path of a project is absolute")
                .with("path", format_args!("{:?}", request.path)));
        }
        if root.join(".watchfire/project.yaml").is_file() {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the folder is a project already").with_path(root)
            );
        }
        convert::check_line("name", &request.name)?;
        // No call can say that it means the home folder.
        self.home().check_root(&root, false)?;
        let earlier = earlier(self.home(), &root, false).await?;
        let root = prepared(root).await?;
        let mut new = NewProject::new()
            .with_after(earlier.highest)
            .with_name(some(&request.name).map(str::to_owned))
            .with_color(some(&request.color).map(str::to_owned))
            .with_definition(request.definition)
            .with_default_branch(request.default_branch);
        new.auto_merge = request.auto_merge;
        new.auto_delete_branch = request.auto_delete_branch;
        new.auto_start_tasks = request.auto_start_tasks;
        let project = self.home().init_project(&root, new).await?;
        let id = project.project_id.to_string();
        self.project(&id).await?;
        self.told_by_id(&id).await
    }

    async fn change_project(&self, request: proto::UpdateProjectRequest) -> Result<proto::Project> {
        let mut patch = ProjectPatch::new();
        convert::check_line("name", request.name.as_deref().unwrap_or_default())?;
        patch.name = request.name;
        patch.color = request.color;
        patch.default_branch = request.default_branch;
        patch.definition = request.definition;
        if let Some(agent) = request.default_agent {
            patch = patch.with_default_agent(self.agent("default_agent", &agent).await?);
        }
        patch.auto_merge = request.auto_merge.map_or(patch.auto_merge, |on| Some(on).into());
        patch.auto_delete_branch =
            request.auto_delete_branch.map_or(patch.auto_delete_branch, |on| Some(on).into());
        patch.auto_start_tasks =
            request.auto_start_tasks.map_or(patch.auto_start_tasks, |on| Some(on).into());
        patch.status = match request.status.as_deref() {
            None => None,
            Some("active") => Some(ProjectStatus::Active),
            Some("archived") => Some(ProjectStatus::Archived),
            Some(other) => {
                return Err(Error::new(ErrorKind::InvalidInput, "not a status, expected active or archived")
                    .with("status", format_args!("{other:?}")));
            }
        };
        let entry = self.entry(&request.project_id).await?;
        let archived = patch.status == Some(ProjectStatus::Archived);
        self.store(&request.project_id).await?.update_project(patch, None, None).await?;
        if archived {
            self.archive(&entry.project_id).await;
        } else {
            // One that became active again is at work at once. A failure is told by the next call that needs it.
            let _ = self.project(&request.project_id).await;
        }
        self.told_by_id(&request.project_id).await
    }
}

/// Makes the folder if there is none, and a repository in it.
/// Returns what earlier projects have left in the repository of a folder that is to be a new one.
///
/// # Errors
/// `already_exists` if the files of the folder's last project are gone and a backup has them, unless a new one is wanted.
pub async fn earlier(home: &Home, root: &Path, anew: bool) -> Result<Earlier> {
    let folder = root.to_path_buf();
    let earlier = super::blocking(move || Earlier::of(folder)).await?;
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let entries = if anew || earlier.backup.is_none() { Vec::new() } else { home.projects().await? };
    let is_its =
        |entry: &ProjectEntry| Some(&entry.project_id) == earlier.backup.as_ref() && entry.path == root;
    if entries.iter().any(is_its) {
        let message = "the files of this folder's project are gone, and the repository has a backup of them";
        let hint = "watchfire restore brings them back; watchfire init --fresh begins a new project";
        return Err(Error::new(ErrorKind::AlreadyExists, message).with("hint", hint).with_path(root));
    }
    Ok(earlier)
}

async fn prepared(root: PathBuf) -> Result<PathBuf> {
    let prepare = move || {
        let failed = |error| Error::io("making the folder of the project", error).with_path(&root);
        std::fs::create_dir_all(&root).map_err(failed)?;
        // One name for each folder: projects are registered by their path.
        let root = Path::canonicalize(&root).map_err(failed)?;
        watchfire_git::init::init(&root, true, &GitOptions::default())?;
        Ok(root)
    };
    tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, "preparing the folder").with_source(error))?
}

#[tonic::async_trait]
impl ProjectService for Daemon {
    type SubscribeStream = Events;

    async fn list_projects(&self, _: Request<()>) -> Answer<proto::ProjectList> {
        answer(self.list_all().await)
    }

    async fn get_project(&self, request: Request<proto::ProjectId>) -> Answer<proto::Project> {
        answer(self.told_by_id(&request.get_ref().project_id).await)
    }

    async fn create_project(&self, request: Request<proto::CreateProjectRequest>) -> Answer<proto::Project> {
        answer(self.create_project_at(request.into_inner()).await)
    }

    async fn update_project(&self, request: Request<proto::UpdateProjectRequest>) -> Answer<proto::Project> {
        answer(self.change_project(request.into_inner()).await)
    }

    async fn delete_project(&self, request: Request<proto::ProjectId>) -> Answer<()> {
        let delete = async {
            let entry = self.entry(&request.get_ref().project_id).await?;
            self.home().unregister(entry.project_id.clone()).await?;
            self.leave(&entry.project_id).await;
            Ok(())
        };
        answer(delete.await)
    }

    async fn subscribe(&self, request: Request<proto::SubscribeRequest>) -> Answer<Events> {
        answer(self.events(request.into_inner()).await)
    }
}
