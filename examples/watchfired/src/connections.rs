//! Connections of clients: how many there are, bounds for their number and for those without a token, because an agent that can
//! reach the port must neither use up the daemon's descriptors nor keep others out, and a socket that stays where clients look for
//! it.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Sleep, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;

/// Pause between two looks for the socket's file.
const LOOK: Duration = Duration::from_secs(2);
/// Time that a connection to a port has for its first request with the token.
const TOKEN: Duration = Duration::from_secs(10);

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    connection: C,
    admission: Admission,
    /// The end of its time for a request with the token, until it had one.
    limit: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

impl<C> Counted<C> {
    pub(crate) fn get_mut(&mut self) -> &mut C {
        &mut self.connection
    }
}

/// Admission of a connection as a client's, which it counts as from then on.
#[derive(Clone, Debug)]
pub(crate) struct Admission(Arc<Admitted>);

#[derive(Debug)]
struct Admitted {
    clients: Clients,
    present: OnceLock<Present>,
}

impl Admission {
    fn new(clients: &Clients) -> Self {
        Self(Arc::new(Admitted { clients: clients.clone(), present: OnceLock::new() }))
    }

    pub(crate) fn admit(&self) {
        self.0.present.get_or_init(|| Present::new(&self.0.clients));
    }

    fn is_admitted(&self) -> bool {
        self.0.present.get().is_some()
    }
}

/// The way by which connections come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Entrance {
    /// The person's programs alone.
    Socket,
    /// Any program of the machine, so that each connection must show the token in time.
    Port,
}

/// The number of clients that are connected.
pub(crate) type Clients = watch::Sender<usize>;

/// A client, until it is dropped.
#[derive(Debug)]
struct Present(Clients);

impl Present {
    fn new(clients: &Clients) -> Self {
        clients.send_modify(|count| *count += 1);
        Self(clients.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Passes on at most `most` connections at a time, closes further ones at once, and counts `clients`.
pub(crate) fn bounded<C>(
    connections: impl Stream<Item = io::Result<C>>,
    most: usize,
    entrance: Entrance,
    clients: Clients,
) -> impl Stream<Item = io::Result<Counted<C>>> {
    let permits = Arc::new(Semaphore::new(most));
    let mut is_full = false;
    connections.filter_map(move |connection| {
        let connection = match connection {
            Ok(connection) => connection,
            Err(error) => return Some(Err(error)),
        };
        let permit = Arc::clone(&permits).try_acquire_owned().ok();
        if permit.is_none() && !is_full {
            tracing::warn!("{most} connections are open; further ones are closed");
        }
        is_full = permit.is_none();
        let admission = Admission::new(&clients);
        let limit = match entrance {
            Entrance::Socket => {
                admission.admit();
                None
            }
            Entrance::Port => Some(Box::pin(sleep(TOKEN))),
        };
        permit.map(|permit| Ok(Counted { connection, admission, limit, _permit: permit }))
    })
}

/// Takes connections to the socket of the daemon of `home`, until the result is dropped. If its file is lost, it is made again:
/// otherwise no client would find the daemon.
pub(crate) fn on_socket(
    home: PathBuf,
    mut socket: UnixListener,
) -> impl Stream<Item = io::Result<UnixStream>> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let path = watchfire_api::daemon_socket(&home);
        let mut looks = tokio::time::interval(LOOK);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted.map(|(connection, _)| connection),
                _ = looks.tick() => {
                    if let Ok(false) = path.try_exists() {
                        match watchfire_api::listen_as_daemon(&home) {
                            Ok(again) => socket = again,
                            Err(error) => tracing::warn!("the socket is lost: {error}"),
                        }
                    }
                    continue;
                }
                () = send.closed() => return,
            };
            if send.send(accepted).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(receive)
}

impl<C> Connected for Counted<C> {
    type ConnectInfo = Admission;

    fn connect_info(&self) -> Admission {
        self.admission.clone()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Counted<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.admission.is_admitted() {
            self.limit = None;
        }
        if self.limit.as_mut().is_some_and(|limit| limit.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no request with the token in time",
            )));
        }
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Counted<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
