//! The client that has handed its terminal over, on its connection.

use std::io;
use std::time::Duration;

use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use watchfire_api::attach::{frames, put};
use watchfire_api::work_proto::{AttachEnd, AttachEvent, AttachRequest};
use watchfire_core::{Error, ErrorKind, Result};

/// Upper bound for a message of a client.
const LARGEST: usize = 2 << 20;
/// Time that a client has to take a message.
const SHORTLY: Duration = Duration::from_secs(1);

/// A client.
pub(super) struct Client<'a> {
    said: FramedRead<ReadHalf<'a>, LengthDelimitedCodec>,
    write: WriteHalf<'a>,
    /// What it was told last: true if the agent has the size of its terminal.
    told: Option<bool>,
}

/// A message from the client.
pub(super) enum Said {
    /// Its terminal has another size.
    Resized,
    /// It has read keys itself.
    Typed(BytesMut),
}

impl<'a> Client<'a> {
    pub(super) fn new(connection: &'a mut UnixStream) -> Self {
        let (read, write) = connection.split();
        Self { said: FramedRead::new(read, frames(LARGEST)), write, told: None }
    }

    /// Reads the request.
    ///
    /// # Errors
    /// `invalid_input` for anything else.
    pub(super) async fn request(&mut self) -> Result<AttachRequest> {
        let frame = self.said.next().await.ok_or_else(|| other_release("no request"))?;
        let frame = frame.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => other_release("a message that is too long"),
            _ => other_release("half a request"),
        })?;
        AttachRequest::decode(frame).map_err(|_| other_release("a message that is none"))
    }

    /// Waits for what it says next. Cancel safe. `None`: it has gone, or wants its terminal back.
    pub(super) async fn next(&mut self) -> Option<Said> {
        let frame = self.said.next().await?.ok()?;
        Some(if frame.is_empty() { Said::Resized } else { Said::Typed(frame) })
    }

    /// Tells it whether the agent has the size of its terminal, if that has changed.
    pub(super) async fn tell(&mut self, size_is_ours: bool) {
        if self.told.replace(size_is_ours) != Some(size_is_ours) {
            self.send(AttachEvent { size_is_ours, end: None }).await;
        }
    }

    /// Tells it that its terminal is its own again.
    pub(super) async fn end(&mut self, end: AttachEnd) {
        self.send(AttachEvent { size_is_ours: self.told.unwrap_or_default(), end: Some(end) }).await;
    }

    async fn send(&mut self, event: AttachEvent) {
        let mut out = BytesMut::new();
        put(&event.encode_to_vec(), &mut out);
        // Whether it has gone is said by what it says.
        let _ = timeout(SHORTLY, self.write.write_all(&out)).await;
    }
}

pub(super) fn other_release(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, what).with("hint", "is the client of another release?")
}
