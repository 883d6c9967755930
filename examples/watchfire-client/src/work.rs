//! The log of a project, from the daemon that has it.

use std::collections::HashMap;

use serde::Deserialize;
use tonic::Streaming;
use watchfire_api::ApiError;
use watchfire_api::daemon_proto::RequestMeta;
use watchfire_api::work_proto::follow_response::What;
use watchfire_api::work_proto::{self as proto, FollowResponse};
use watchfire_core::orchestrator::Record;
use watchfire_core::schedule::{Life, Run};

use crate::Daemon;
use crate::daemon::meta;

/// A project at one place in its log.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// Its place in the log.
    pub cursor: String,
    /// The place at which its program opened the project.
    pub opened: String,
    /// The lives that go on.
    pub lives: Vec<Life>,
    /// The runs that go on, and the last that ended.
    pub runs: Vec<Run>,
}

/// An item of a [`ProjectLog`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Followed {
    /// A change.
    Record(Box<Record>),
    /// Changes that are no longer available: the numbers of the first and the last, or 0. Follow again for the state.
    Missed(u64, u64),
    /// The activity of each agent, by the id of its session.
    Activity(HashMap<String, String>),
}

/// The changes of a project.
#[derive(Debug)]
pub struct ProjectLog(Streaming<FollowResponse>);

impl Daemon {
    /// Follows the log of a project after the place `since`, or from now on, as a client of it. With `activity`, also what its agents do.
    ///
    /// # Errors
    /// `not_found`, `invalid_cursor`; `app_not_running` if the daemon has gone.
    pub async fn follow(
        &self,
        project: &str,
        since: Option<&str>,
        activity: bool,
    ) -> Result<(State, ProjectLog), ApiError> {
        let RequestMeta { origin, client_id, version } = meta("cli");
        let request = proto::FollowRequest {
            project_id: project.to_owned(),
            cursor: since.unwrap_or_default().to_owned(),
            activity,
            client: Some(proto::Client { origin, client_id, version }),
            ..proto::FollowRequest::default()
        };
        let mut changes = self.work().follow(request).await?.into_inner();
        match changes.message().await?.and_then(|first| first.what) {
            Some(What::State(state)) => Ok((parse(&state.json)?, ProjectLog(changes))),
            _ => Err(ApiError::new("internal", "the log does not begin with a state")),
        }
    }
}

impl ProjectLog {
    /// Returns the next item, or `None` once the project is closed.
    ///
    /// # Errors
    /// `app_not_running` if the daemon has gone.
    pub async fn next(&mut self) -> Result<Option<Followed>, ApiError> {
        while let Some(item) = self.0.message().await? {
            return Ok(Some(match item.what {
                Some(What::Record(record)) => Followed::Record(parse(&record.json)?),
                Some(What::Missed(missed)) => Followed::Missed(missed.first, missed.last),
                Some(What::Activity(activity)) => Followed::Activity(activity.doing),
                // Of a later release.
                _ => continue,
            }));
        }
        Ok(None)
    }
}

fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, ApiError> {
    serde_json::from_str(json).map_err(|error| {
        ApiError::new("not_supported", format!("the daemon is of another release: {error}"))
            .with_hint("run watchfire daemon restart; agents go on meanwhile")
    })
}
