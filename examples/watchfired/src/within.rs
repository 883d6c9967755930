//! The services within one process, for its own commands.

use tokio::io::DuplexStream;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle};

use crate::{Daemon, life};

/// Bytes on their way in one direction.
const UNDER_WAY: usize = 64 << 10;

/// Serves `orchestrator` with its open `project` to this process alone, and returns the client's end of the connection. The client
/// is trusted: it may start agents that are less confined than the settings say, because the person asks it to.
#[must_use]
pub fn within(orchestrator: Orchestrator, project: &ProjectHandle) -> DuplexStream {
    let daemon = Daemon::trusting(orchestrator, project);
    let (ours, theirs) = tokio::io::duplex(UNDER_WAY);
    let connection = tokio_stream::once(Ok::<_, std::io::Error>(theirs));
    // It ends when the client drops its end.
    tokio::spawn(async move {
        life::builder().add_routes(life::routes(&daemon)).serve_with_incoming(connection).await
    });
    ours
}
