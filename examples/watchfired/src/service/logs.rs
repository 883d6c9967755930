//! Logs of sessions.

use std::fmt::Write as _;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::log_service_server::LogService;
use watchfire_core::backend::{Message, Part, Role};
use watchfire_core::orchestrator::{SessionLog, SessionOutcome};
use watchfire_core::{Error, ErrorKind, Result};

use super::convert::{number, time, wire};
use super::{answer, blocking};
use crate::Daemon;

/// Largest content of an answer, in bytes. The file has everything.
const LARGEST: usize = 8 << 20;

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    async fn logs_of(&self, project: &str) -> Result<Vec<SessionLog>> {
        let folder = self.home().logs_dir(&self.entry(project).await?.project_id);
        blocking(move || SessionLog::list(&folder)).await
    }

    /// Returns a log by its name, which is compared and never joined to a path.
    async fn log(&self, project: &str, name: &str) -> Result<SessionLog> {
        let found = self.logs_of(project).await?.into_iter().find(|log| log.name() == name);
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no such log").with("log", format_args!("{name:?}"))
        })
    }

    async fn told_log(&self, project: &str, log: &SessionLog) -> proto::Log {
        // The session itself is asked first: the record of its end is written a moment after the end.
        let session =
            log.session.as_ref().and_then(|id| self.projects().iter().find_map(|it| it.session(id)));
        let status = match session {
            Some(session) if session.has_ended() => SessionOutcome::of(&session.ended().await).as_str(),
            Some(_) => "running",
            None => log.outcome().unwrap_or(SessionOutcome::Interrupted).as_str(),
        };
        proto::Log {
            log_id: log.name(),
            project_id: project.to_owned(),
            task_number: log.task.map_or(0, wire),
            session_number: i32::try_from(log.number).unwrap_or(i32::MAX),
            agent: log.agent.clone(),
            started_at: time(log.started_at.as_ref()),
            ended_at: time(log.ended_at()),
            content: String::new(),
            status: status.to_owned(),
            mode: log.mode.map(|mode| mode.to_string()).unwrap_or_default(),
            alias: log.alias.as_ref().map(ToString::to_string).unwrap_or_default(),
            truncated: false,
            wildfire_phase: log.phase.map(|phase| phase.to_string()).unwrap_or_default(),
        }
    }

    async fn one_log(&self, request: proto::LogId) -> Result<proto::Log> {
        let log = self.log(&request.project_id, &request.log_id).await?;
        let told = self.told_log(&request.project_id, &log).await;
        // Only the agent's backend knows the format of its conversation.
        let backend = self.orchestrator().backends().get(&log.agent).ok();
        let (content, truncated) = blocking(move || {
            let messages = backend.map(|backend| log.messages(&*backend)).transpose()?.unwrap_or_default();
            match conversation(&messages) {
                text if text.is_empty() => log.text(LARGEST as u64),
                mut text => {
                    let cut = text.len() > LARGEST;
                    text.truncate(boundary(&text, LARGEST));
                    Ok((text, cut))
                }
            }
        })
        .await?;
        Ok(proto::Log { content, truncated, ..told })
    }

    /// Deletes the logs that are meant, or none if one of their sessions runs.
    async fn delete_logs(
        &self,
        project: &str,
        meant: impl Fn(&SessionLog) -> bool + Send + 'static,
    ) -> Result<()> {
        let mut logs = self.logs_of(project).await?;
        blocking(move || {
            logs.retain(meant);
            // The first to be deleted is the one that refuses.
            logs.sort_by_cached_key(|log| !log.is_running());
            logs.iter().try_for_each(SessionLog::delete)
        })
        .await
    }
}

/// Returns the last place between two characters that is not after `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns a conversation as text: speakers, their words, and the tools that were used. Results of tools are left out.
fn conversation(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let who = match message.role {
            Role::Assistant => "Assistant",
            Role::User => "User",
            _ => "System",
        };
        for part in &message.parts {
            let _ = match part {
                Part::Text { text: said, .. } => writeln!(text, "## {who}\n\n{said}\n"),
                Part::ToolCall { name, .. } => writeln!(text, "[Tool: {name}]\n"),
                Part::Error { text: said, .. } => writeln!(text, "## Error\n\n{said}\n"),
                _ => Ok(()),
            };
        }
    }
    text
}

#[tonic::async_trait]
impl LogService for Daemon {
    async fn list_logs(&self, request: Request<proto::ListLogsRequest>) -> Answer<proto::LogList> {
        let request = request.into_inner();
        let list = async {
            let task = (request.task_number != 0).then(|| number(request.task_number)).transpose()?;
            let logs = self.logs_of(&request.project_id).await?;
            let mut told = Vec::new();
            for log in logs.iter().filter(|log| task.is_none() || log.task == task) {
                told.push(self.told_log(&request.project_id, log).await);
            }
            Ok(proto::LogList { logs: told })
        };
        answer(list.await)
    }

    async fn get_log(&self, request: Request<proto::LogId>) -> Answer<proto::Log> {
        answer(self.one_log(request.into_inner()).await)
    }

    async fn read_log(&self, request: Request<proto::LogId>) -> Answer<proto::Log> {
        answer(self.one_log(request.into_inner()).await)
    }

    async fn delete_log(&self, request: Request<proto::LogId>) -> Answer<()> {
        let request = request.into_inner();
        let delete = async {
            let log = self.log(&request.project_id, &request.log_id).await?;
            blocking(move || log.delete()).await
        };
        answer(delete.await)
    }

    async fn bulk_delete(&self, request: Request<proto::BulkLogRequest>) -> Answer<()> {
        let request = request.into_inner();
        let names = request.log_ids;
        answer(self.delete_logs(&request.project_id, move |log| names.contains(&log.name())).await)
    }

    async fn delete_all_for_task(&self, request: Request<proto::TaskId>) -> Answer<()> {
        let request = request.into_inner();
        let delete = async {
            let task = number(request.task_number)?;
            self.delete_logs(&request.project_id, move |log| log.task == Some(task)).await
        };
        answer(delete.await)
    }

    async fn delete_all_for_project(&self, request: Request<proto::ProjectId>) -> Answer<()> {
        answer(self.delete_logs(&request.get_ref().project_id, |log| !log.is_running()).await)
    }
}
