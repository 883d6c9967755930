//! A bound for the connections to a listener: an agent that can reach the port must not use up the daemon's descriptors. And
//! their number.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    connection: C,
    _permit: OwnedSemaphorePermit,
    _present: Present,
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
    clients: Clients,
) -> impl Stream<Item = io::Result<Counted<C>>> {
    let permits = Arc::new(Semaphore::new(most));
    connections.filter_map(move |connection| match connection {
        Ok(connection) => {
            let permit = Arc::clone(&permits).try_acquire_owned().ok()?;
            Some(Ok(Counted { connection, _permit: permit, _present: Present::new(&clients) }))
        }
        Err(error) => Some(Err(error)),
    })
}

impl<C: Connected> Connected for Counted<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Counted<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
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
