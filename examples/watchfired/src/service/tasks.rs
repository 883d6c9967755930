//! Tasks.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::task_service_server::TaskService;
use watchfire_core::model::{Task, TaskNumber};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::store::{NewTask, TaskPatch, TaskQuery, TaskStore, TaskStoreExt as _, Versioned};
use watchfire_core::{Error, ErrorKind, Result};

use super::answer;
use super::convert::{self, number, numbers, some, task_status};
use crate::Daemon;

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    /// Returns tasks as messages, with their states where the project is open.
    async fn told(&self, project: &str, tasks: Vec<Task>) -> Result<Vec<proto::Task>> {
        let infos = match self.project(project).await {
            Ok(project) => project.infos(tasks).await?,
            Err(_) => tasks.into_iter().map(TaskInfo::new).collect(),
        };
        Ok(infos.into_iter().map(|info| convert::task(info, project)).collect())
    }

    pub(super) async fn told_one(&self, project: &str, task: Task) -> Result<proto::Task> {
        let told = self.told(project, vec![task]).await?;
        told.into_iter().next().ok_or_else(|| Error::new(ErrorKind::Internal, "a task without an answer"))
    }

    /// Changes one task by `change`.
    async fn changed(&self, id: proto::TaskId, patch: TaskPatch) -> Result<proto::Task> {
        let store = self.store(&id.project_id).await?;
        let task = store.update(number(id.task_number)?, patch, None, None).await?;
        self.told_one(&id.project_id, task.value).await
    }

    /// Changes several tasks by one patch, and returns those that could be changed.
    async fn changed_all(&self, project: &str, of: &[i32], patch: TaskPatch) -> Result<proto::TaskList> {
        let (store, of) = (self.store(project).await?, numbers(of)?);
        let (mut changed, mut failure) = (Vec::new(), None);
        for (_, result) in store.update_all(&of, &patch).await {
            match result {
                Ok(task) => changed.push(task.value),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if changed.is_empty() => Err(error),
            _ => Ok(proto::TaskList { tasks: self.told(project, changed).await?, malformed: Vec::new() }),
        }
    }

    async fn create(&self, request: proto::CreateTaskRequest) -> Result<proto::Task> {
        convert::check_line("title", &request.title)?;
        let store = self.store(&request.project_id).await?;
        let ready = match some(&request.status).map(task_status).transpose()? {
            Some(watchfire_core::model::TaskStatus::Done) => {
                return Err(Error::new(ErrorKind::InvalidInput, "a new task is a draft or ready"));
            }
            status => status == Some(watchfire_core::model::TaskStatus::Ready),
        };
        let mut new = NewTask::new(request.title)
            .with_prompt(request.prompt)
            .with_acceptance_criteria(request.acceptance_criteria)
            .with_ready(ready)
            .with_depends_on(numbers(&request.depends_on)?)
            .with_labels(request.labels);
        if let Some(agent) = self.agent("agent", &request.agent).await? {
            new = new.with_agent(agent);
        }
        new.request_id = some(&request.idempotency_key).map(str::to_owned);
        let task = store.create(new, None).await?.value;
        self.told_one(&request.project_id, task).await
    }

    async fn update(&self, request: proto::UpdateTaskRequest) -> Result<proto::Task> {
        let mut patch = TaskPatch::new();
        convert::check_line("title", request.title.as_deref().unwrap_or_default())?;
        patch.title = request.title;
        patch.prompt = request.prompt;
        patch.acceptance_criteria = request.acceptance_criteria;
        patch.status = request.status.as_deref().map(task_status).transpose()?;
        patch.position = request.position;
        patch.labels = request.labels.map(|given| given.labels);
        patch.depends_on = request.depends_on.map(|given| numbers(&given.task_numbers)).transpose()?;
        if let Some(success) = request.success {
            patch = patch.with_success(Some(success));
        }
        if let Some(reason) = request.failure_reason {
            patch = patch.with_failure_reason(Some(reason).filter(|reason| !reason.is_empty()));
        }
        if let Some(agent) = request.agent {
            patch = patch.with_agent(self.agent("agent", &agent).await?);
        }
        let id =
            proto::TaskId { meta: None, project_id: request.project_id, task_number: request.task_number };
        self.changed(id, patch).await
    }

    async fn list(&self, request: proto::ListTasksRequest) -> Result<proto::TaskList> {
        let store = self.store(&request.project_id).await?;
        let mut query = TaskQuery::new();
        if let Some(status) = some(&request.status) {
            query = query.with_status(task_status(status)?);
        }
        let mut list = store.list(&query).await?;
        if request.include_deleted {
            let deleted = store.list(&query.deleted_only()).await?;
            list.tasks.extend(deleted.tasks);
            list.tasks.sort_by_key(|task| task.value.work_order());
        }
        let malformed = list.malformed.iter().map(|it| proto::MalformedTask {
            path: it.path.display().to_string(),
            reason: it.reason.clone(),
        });
        let malformed = malformed.collect();
        let tasks = list.tasks.into_iter().map(|task| task.value).collect();
        Ok(proto::TaskList { tasks: self.told(&request.project_id, tasks).await?, malformed })
    }

    async fn get(&self, id: proto::TaskId) -> Result<proto::Task> {
        let store = self.store(&id.project_id).await?;
        self.told_one(&id.project_id, store.get(number(id.task_number)?).await?.value).await
    }

    async fn reorder(&self, request: proto::ReorderTasksRequest) -> Result<proto::TaskList> {
        let (store, order) = (self.store(&request.project_id).await?, numbers(&request.task_numbers)?);
        store.reorder(&order, None).await?;
        let tasks = all_of(&store, &order).await?.into_iter().map(|task| task.value).collect();
        Ok(proto::TaskList { tasks: self.told(&request.project_id, tasks).await?, malformed: Vec::new() })
    }
}

async fn all_of(store: &Arc<dyn TaskStore>, numbers: &[TaskNumber]) -> Result<Vec<Versioned<Task>>> {
    let mut tasks = Vec::with_capacity(numbers.len());
    for number in numbers {
        tasks.push(store.get(*number).await?);
    }
    Ok(tasks)
}

#[tonic::async_trait]
impl TaskService for Daemon {
    async fn list_tasks(&self, request: Request<proto::ListTasksRequest>) -> Answer<proto::TaskList> {
        answer(self.list(request.into_inner()).await)
    }

    async fn get_task(&self, request: Request<proto::TaskId>) -> Answer<proto::Task> {
        answer(self.get(request.into_inner()).await)
    }

    async fn create_task(&self, request: Request<proto::CreateTaskRequest>) -> Answer<proto::Task> {
        answer(self.create(request.into_inner()).await)
    }

    async fn update_task(&self, request: Request<proto::UpdateTaskRequest>) -> Answer<proto::Task> {
        answer(self.update(request.into_inner()).await)
    }

    async fn delete_task(&self, request: Request<proto::TaskId>) -> Answer<proto::Task> {
        answer(self.changed(request.into_inner(), TaskPatch::new().with_deleted(true)).await)
    }

    async fn restore_task(&self, request: Request<proto::TaskId>) -> Answer<proto::Task> {
        answer(self.changed(request.into_inner(), TaskPatch::new().with_deleted(false)).await)
    }

    async fn empty_trash(&self, request: Request<proto::ProjectId>) -> Answer<()> {
        let empty = async { self.store(&request.get_ref().project_id).await?.empty_trash().await.map(drop) };
        answer(empty.await)
    }

    async fn bulk_update_status(
        &self,
        request: Request<proto::BulkUpdateStatusRequest>,
    ) -> Answer<proto::TaskList> {
        let request = request.into_inner();
        let change = async {
            let patch = TaskPatch::new().with_status(task_status(&request.new_status)?);
            self.changed_all(&request.project_id, &request.task_numbers, patch).await
        };
        answer(change.await)
    }

    async fn bulk_delete(&self, request: Request<proto::BulkDeleteRequest>) -> Answer<proto::TaskList> {
        let (request, patch) = (request.into_inner(), TaskPatch::new().with_deleted(true));
        answer(self.changed_all(&request.project_id, &request.task_numbers, patch).await)
    }

    async fn bulk_restore(&self, request: Request<proto::BulkRestoreRequest>) -> Answer<proto::TaskList> {
        let (request, patch) = (request.into_inner(), TaskPatch::new().with_deleted(false));
        answer(self.changed_all(&request.project_id, &request.task_numbers, patch).await)
    }

    async fn reorder_tasks(&self, request: Request<proto::ReorderTasksRequest>) -> Answer<proto::TaskList> {
        answer(self.reorder(request.into_inner()).await)
    }
}
