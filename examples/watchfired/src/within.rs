//! The services within one process, for its own commands.

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle};

use crate::{Daemon, life, notify};

/// Bytes on their way in one direction.
const UNDER_WAY: usize = 64 << 10;

/// Serves `orchestrator` and its open `project` to this process alone. The client is trusted: it may start agents that are less
/// confined than the settings say, because the person at the command line asked for it.
#[must_use]
pub fn within(orchestrator: Orchestrator, project: &ProjectHandle) -> Within {
    let telling = tokio::spawn(tell(orchestrator.clone(), project.clone()));
    let daemon = Daemon::trusting(orchestrator, project);
    let (ours, theirs) = tokio::io::duplex(UNDER_WAY);
    let connection = tokio_stream::once(Ok::<_, std::io::Error>(theirs));
    // It ends when the client drops its end.
    let (following, of) = (daemon.clone(), project.clone());
    tokio::spawn(async move { following.follow(&of).await });
    tokio::spawn(async move {
        life::builder().add_routes(life::routes(&daemon)).serve_with_incoming(connection).await
    });
    Within { connection: ours, telling }
}

/// Services that run within this process.
#[derive(Debug)]
#[non_exhaustive]
pub struct Within {
    /// The client's end of the connection.
    pub connection: DuplexStream,
    /// Ends after the project is closed and all notifications are out.
    pub telling: JoinHandle<()>,
}

/// Notifies the person of everything since the project was opened.
async fn tell(orchestrator: Orchestrator, project: ProjectHandle) {
    let subscribed = async {
        let opened = project.subscribe(None).await?.snapshot.opened;
        project.subscribe(Some(opened)).await
    };
    // Without a log there is nothing to tell.
    if let Ok(subscription) = subscribed.await {
        notify::follow(orchestrator, project, subscription.changes).await;
    }
}
