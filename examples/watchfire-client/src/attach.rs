//! A terminal in the hands of the daemon, see [`watchfire_api::attach`].

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_stream::StreamExt as _;
use tokio_util::bytes::{Buf as _, BytesMut};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use tonic::Status;
use watchfire_api::attach::{ATTACH, frames, put, send_terminal};
use watchfire_api::work_proto::{AttachEvent, AttachRequest};
use watchfire_api::{ApiError, connect, daemon_socket};

use crate::client::LARGEST;

/// Upper bound for what waits for a daemon.
const WAITING: usize = 1 << 20;

/// A terminal in the hands of the daemon.
#[derive(Debug)]
pub struct Attached {
    events: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    write: OwnedWriteHalf,
    /// What the daemon has not taken yet.
    out: BytesMut,
}

impl Attached {
    /// Hands `terminal` to the daemon of `home`, which draws there and reads its keys until it says otherwise. The description of the
    /// open file must be this attachment's own and must not block.
    ///
    /// # Errors
    /// `app_not_running` if none runs. What is wrong with the request is told by the first event.
    pub async fn new(
        home: &Path,
        request: &AttachRequest,
        terminal: BorrowedFd<'_>,
    ) -> Result<Self, ApiError> {
        let connection = connect(&daemon_socket(home)).await.map_err(gone)?;
        let mut out = BytesMut::from(&ATTACH[..]);
        put(&request.encode_to_vec(), &mut out);
        let sent = send_terminal(&connection, &out, terminal).await.map_err(gone)?;
        out.advance(sent);
        let (read, write) = connection.into_split();
        Ok(Self { events: FramedRead::new(read, frames(LARGEST)), write, out })
    }

    /// Waits for the next event. Cancel safe.
    ///
    /// # Errors
    /// The connection has ended: the daemon has gone.
    pub async fn next(&mut self) -> Result<AttachEvent, ApiError> {
        loop {
            tokio::select! {
                event = self.events.next() => {
                    let frame = event.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into())).map_err(gone)?;
                    let unknown = |error| Status::internal(format!("a daemon of another release: {error}"));
                    return Ok(AttachEvent::decode(frame).map_err(unknown)?);
                }
                sent = self.write.write_buf(&mut self.out), if !self.out.is_empty() => {
                    sent.map_err(gone)?;
                }
            }
        }
    }

    /// Says that the terminal has another size.
    pub fn resized(&mut self) {
        put(&[], &mut self.out);
    }

    /// Types what this program has read from the terminal. It is dropped while a daemon that does not answer has not taken much else.
    pub fn typed(&mut self, typed: &[u8]) {
        // An empty one would say something else.
        if !typed.is_empty() && self.out.len() < WAITING {
            put(typed, &mut self.out);
        }
    }

    /// Asks for the terminal, and waits until the daemon has let go of it.
    pub async fn leave(mut self) {
        let _ = self.write.shutdown().await;
        while self.events.next().await.is_some_and(|event| event.is_ok()) {}
    }
}

fn gone(error: io::Error) -> ApiError {
    Status::from_error(Box::new(error)).into()
}
