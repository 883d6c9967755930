//! The terminals that are attached by the short way, see [`watchfire_api::attach`].

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use tonic::Status;
use watchfire_api::attach::{ATTACH, frames, put_end, put_screen};
use watchfire_api::daemon_proto::SubscribeScreenRequest;
use watchfire_api::status;
use watchfire_api::work_proto::AttachInput;
use watchfire_core::session::Session;
use watchfire_core::{Error, ErrorKind};

use crate::Daemon;
use crate::connections::Counted;
use crate::service::{Screen, size};

/// Upper bound for a message of a client.
const LARGEST: usize = 1 << 20;
/// Bytes of screens that may be on their way, twice which the kernel counts: a terminal behind a slow line is late by these at most.
const WINDOW: usize = 32 << 10;
/// Time that a connection has for its first request.
const SILENT: Duration = Duration::from_secs(10);
/// Pause between two looks whether a client is still there.
const LOOK: Duration = Duration::from_secs(1);
/// Time that a client has to take the last message.
const FAREWELL: Duration = Duration::from_secs(1);

type Connection = Counted<UnixStream>;
type Frames<'a> = FramedRead<ReadHalf<'a>, LengthDelimitedCodec>;

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

/// Carries keys and screens until the session ends, the client leaves, or the daemon ends.
async fn attach(daemon: &Daemon, connection: &mut UnixStream) {
    // Without it, it is the kernel's own size.
    let _ = set_socket_send_buffer_size(&*connection, WINDOW);
    let Ok(closed) = connection.as_fd().try_clone_to_owned() else { return };
    let (read, mut write) = connection.split();
    // Kept where a message is only half sent, which the end must not follow.
    let mut out = BytesMut::new();
    let end = tokio::select! {
        end = follow(daemon, (read, closed), &mut write, &mut out) => end,
        () = daemon.ended() => Err(Status::unavailable("the daemon is shutting down")),
    };
    put_end(&end.err().unwrap_or_else(|| Status::ok("")), &mut out);
    // An error means that the client has gone.
    let _ = timeout(FAREWELL, write.write_all_buf(&mut out)).await;
}

async fn follow(
    daemon: &Daemon,
    (read, closed): (ReadHalf<'_>, OwnedFd),
    write: &mut WriteHalf<'_>,
    out: &mut BytesMut,
) -> Result<(), Status> {
    let mut begin = [0; ATTACH.len()];
    let mut inputs = FramedRead::new(read, frames(LARGEST));
    let request = async {
        if inputs.get_mut().read_exact(&mut begin).await.is_err() || begin != *ATTACH {
            return Err(other_release("a terminal of another release"));
        }
        next::<SubscribeScreenRequest>(&mut inputs).await
    };
    let request = timeout(SILENT, request).await;
    let Some(request) = request.unwrap_or_else(|_| Err(other_release("no request in time")))? else {
        return Ok(());
    };
    let mut screen = Screen::follow(daemon, &request).await.map_err(|error| status(&error))?;
    let mut gone = pin!(gone(closed));
    let typing = async {
        let mut session = None;
        while let Some(input) = next::<AttachInput>(&mut inputs).await? {
            if session.is_none() {
                // One that has ended takes nothing more, and its end is told by its screen.
                session = daemon.session(&request.project_id, &request.session_id).await.ok();
            }
            if let Some(session) = &session {
                tokio::select! {
                    () = type_into(session, input) => {}
                    // While the agent reads nothing, nobody reads what the client says.
                    () = &mut gone => return Ok(()),
                }
            }
        }
        Ok(())
    };
    let showing = async {
        while let Some(buffer) = screen.next().await.map_err(|error| status(&error))? {
            put_screen(&buffer, out);
            // An error means that the client has gone.
            if write.write_all_buf(out).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    tokio::select! {
        typed = typing => typed,
        shown = showing => shown,
    }
}

/// Types all of a message, however long the agent reads nothing. What its session refuses is told by the session's end.
async fn type_into(session: &Session, AttachInput { rows, cols, mut data }: AttachInput) {
    if let Some(size) = (rows > 0 || cols > 0).then(|| size(rows, cols).ok()).flatten() {
        let _ = session.resize(size).await;
    }
    while !data.is_empty() {
        let Err(error) = session.write(data.clone()).await else { return };
        let written = error.detail("written").and_then(|written| written.parse().ok());
        let Some(written) = written.filter(|_| error.kind() == ErrorKind::Timeout) else { return };
        data.drain(..data.len().min(written));
    }
}

/// Waits until the other side has closed its end of a connection.
async fn gone(connection: OwnedFd) {
    loop {
        tokio::time::sleep(LOOK).await;
        let mut fds = [PollFd::new(&connection, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&Timespec::default()));
        if fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)) {
            return;
        }
    }
}

/// Returns the next message. `None`: the client sends no more.
async fn next<M: prost::Message + Default>(frames: &mut Frames<'_>) -> Result<Option<M>, Status> {
    let Some(frame) = frames.next().await else { return Ok(None) };
    let unknown = |_| other_release("a message that is none");
    let frame = frame.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => other_release("a message that is too long"),
        // It has gone in the middle of one.
        _ => Status::cancelled("the client has gone"),
    })?;
    M::decode(frame).map(Some).map_err(unknown)
}

fn other_release(what: &'static str) -> Status {
    status(&Error::new(ErrorKind::InvalidInput, what))
}
