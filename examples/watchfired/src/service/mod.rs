//! The services of the API, over the library. Each is thin: it reads a request, asks the library, and writes the answer.

mod agents;
mod branches;
mod convert;
mod events;
mod follow;
mod logs;
mod projects;
mod report;
mod settings;
pub(crate) mod status;
mod tasks;
mod work;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::daemon_service_server::DaemonService;
use watchfire_api::status;
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::{Error, ErrorKind, Result};

use crate::Daemon;

pub(crate) use agents::size;
pub(crate) use follow::{Screen, Update};
pub use projects::earlier;
pub use report::{history, queue};

/// Returns the answer to a call.
fn answer<T>(result: Result<T>) -> std::result::Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| status(&error))
}

/// Does work on files in a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, "reading files").with_source(error))?
}

#[tonic::async_trait]
impl DaemonService for Daemon {
    async fn get_status(&self, _: Request<()>) -> std::result::Result<Response<proto::DaemonStatus>, Status> {
        let asked = async {
            let projects = self.projects();
            let mut active = Vec::new();
            for project in &projects {
                active.extend(status::all(project).await?);
            }
            let up = SystemClock.now().unix_millis() - self.started().unix_millis();
            Ok(proto::DaemonStatus {
                host: self.address().map(|it| it.ip().to_string()).unwrap_or_default(),
                port: self.address().map_or(0, |it| it.port().into()),
                pid: std::process::id(),
                started_at: self.started().to_string(),
                uptime_seconds: u64::try_from(up / 1000).unwrap_or(0),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                active_agents: active,
                projects: u32::try_from(projects.len()).unwrap_or(u32::MAX),
                watchers: self.watchers().list(),
            })
        };
        answer(asked.await)
    }

    async fn shutdown(&self, _: Request<()>) -> std::result::Result<Response<()>, Status> {
        self.end();
        Ok(Response::new(()))
    }

    async fn ping(&self, _: Request<()>) -> std::result::Result<Response<()>, Status> {
        Ok(Response::new(()))
    }
}
