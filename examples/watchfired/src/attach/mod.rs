//! The terminals that clients hand over, see [`watchfire_api::attach`].

mod client;
mod scroll;
mod shown;
mod terminal;
mod typing;
mod viewer;

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use watchfire_api::attach::{ATTACH, encode_error, receive_terminal};
use watchfire_api::daemon_proto::{RequestMeta, SubscribeScreenRequest};
use watchfire_api::status;
use watchfire_api::work_proto::AttachEnd;
use watchfire_core::Result;

use self::client::{Client, other_release};
use self::terminal::Terminal;
use self::viewer::Viewer;
use crate::Daemon;
use crate::connections::Counted;
use crate::service::Screen;

/// Time that a connection has for its first request.
const SILENT: Duration = Duration::from_secs(10);

type Connection = Counted<UnixStream>;

/// Serves the connections that begin with [`ATTACH`], and passes on the others. The task ends after the daemon, with its last terminal.
pub(crate) fn serve(
    daemon: Daemon,
    connections: impl Stream<Item = io::Result<Connection>> + Send + 'static,
) -> (ReceiverStream<io::Result<Connection>>, JoinHandle<()>) {
    let (send, receive) = mpsc::channel(1);
    let serving = tokio::spawn(async move {
        let mut connections = pin!(connections);
        let mut begun = JoinSet::new();
        loop {
            tokio::select! {
                connection = connections.next() => match connection {
                    Some(Ok(connection)) => drop(begun.spawn(begin(daemon.clone(), connection, send.clone()))),
                    Some(Err(error)) => drop(send.send(Err(error)).await),
                    None => break,
                },
                Some(_) = begun.join_next() => {}
                () = daemon.ended() => break,
            }
        }
        begun.join_all().await;
    });
    (ReceiverStream::new(receive), serving)
}

async fn begin(daemon: Daemon, mut connection: Connection, others: mpsc::Sender<io::Result<Connection>>) {
    let first = tokio::select! {
        first = timeout(SILENT, first_byte(connection.get_mut())) => first.unwrap_or(Ok(None)),
        () = daemon.ended() => return,
    };
    match first {
        Ok(Some(first)) if first == ATTACH[0] => attach(&daemon, connection.get_mut()).await,
        Ok(Some(_)) => drop(others.send(Ok(connection)).await),
        // Closed already, or silent.
        Ok(None) | Err(_) => {}
    }
}

/// Returns the first byte of a connection, and leaves it there.
async fn first_byte(connection: &UnixStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let peek = || Ok(recv(connection, &mut first, RecvFlags::PEEK)?.0);
    let count = connection.async_io(Interest::READABLE, peek).await?;
    Ok(first.first().copied().filter(|_| count > 0))
}

/// Shows an agent in the terminal that comes with a connection, until the session ends, the client leaves, or the daemon ends.
async fn attach(daemon: &Daemon, connection: &mut UnixStream) {
    let terminal = tokio::select! {
        terminal = timeout(SILENT, receive_terminal(connection)) => terminal,
        () = daemon.ended() => return,
    };
    let terminal = terminal.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let mut client = Client::new(connection);
    let mut viewer = None;
    let end = tokio::select! {
        end = follow(daemon, terminal, &mut client, &mut viewer) => end.map_err(|error| status(&error)),
        () = daemon.ended() => Err(Status::unavailable("the daemon is shutting down")),
    };
    let mut end =
        end.unwrap_or_else(|error| AttachEnd { status: encode_error(&error), ..AttachEnd::default() });
    // The terminal is closed with it, before the client hears of it.
    end.typed = viewer.map(Viewer::into_rest).unwrap_or_default();
    client.end(end).await;
}

async fn follow(
    daemon: &Daemon,
    terminal: io::Result<OwnedFd>,
    client: &mut Client<'_>,
    viewer: &mut Option<Viewer>,
) -> Result<AttachEnd> {
    let terminal = terminal.and_then(Terminal::new);
    let terminal =
        terminal.map_err(|error| other_release("no terminal that can be drawn on").with_source(error))?;
    let request = timeout(SILENT, client.request()).await;
    let request = request.unwrap_or_else(|_| Err(other_release("no request in time")))?;
    let follow = SubscribeScreenRequest {
        project_id: request.project_id.clone(),
        session_id: request.session_id.clone(),
        meta: Some(RequestMeta {
            origin: "cli".to_owned(),
            client_id: request.client_id.clone(),
            version: request.version.clone(),
        }),
        ..SubscribeScreenRequest::default()
    };
    // First: it has keys, which an error gives back.
    let viewer = viewer.insert(Viewer::new(daemon, terminal, request).await);
    viewer.show(Screen::follow(daemon, &follow).await?, client).await
}
