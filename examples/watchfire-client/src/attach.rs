//! A terminal that is attached to an agent by the short way, see [`watchfire_api::attach`].

use std::io;
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_stream::StreamExt as _;
use tokio_util::bytes::{Buf as _, BytesMut};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use tonic::Status;
use watchfire_api::attach::{ATTACH, frames, put, read};
use watchfire_api::daemon_proto::{ScreenBuffer, SubscribeScreenRequest};
use watchfire_api::work_proto::AttachInput;
use watchfire_api::{ApiError, connect, daemon_socket};

use crate::client::LARGEST;

/// Attaches to a session of the daemon of `home`.
///
/// # Errors
/// `app_not_running` if none runs. What is wrong with the request is told in place of the first screen.
pub async fn attach(home: &Path, request: &SubscribeScreenRequest) -> Result<(Screens, Typing), ApiError> {
    let connection = connect(&daemon_socket(home)).await.map_err(gone)?;
    let (read, write) = connection.into_split();
    let mut typing = Typing { write, out: BytesMut::from(&ATTACH[..]) };
    put(request, &mut typing.out);
    typing.flush().await;
    Ok((Screens(FramedRead::new(read, frames(LARGEST))), typing))
}

/// The screens of an agent.
#[derive(Debug)]
pub struct Screens(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl Screens {
    /// Waits for the next screen. Cancel safe. Returns `None` once the daemon has ended the stream without an error.
    ///
    /// # Errors
    /// As `AgentService.SubscribeScreen`.
    pub async fn next(&mut self) -> Result<Option<ScreenBuffer>, ApiError> {
        match self.0.next().await {
            Some(Ok(frame)) => Ok(read(frame.freeze())?),
            Some(Err(error)) => Err(gone(error)),
            None => Err(gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// What the person types.
#[derive(Debug)]
pub struct Typing {
    write: OwnedWriteHalf,
    /// What the daemon has not taken yet.
    out: BytesMut,
}

impl Typing {
    /// Sends a message, as far as the daemon takes it now. [`flush`](Self::flush) sends the rest.
    pub fn send(&mut self, input: &AttachInput) {
        put(input, &mut self.out);
        if let Ok(sent) = self.write.try_write(&self.out) {
            self.out.advance(sent);
        }
    }

    /// Returns true while the daemon has not taken everything: its agent reads nothing.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Waits until the daemon has taken everything. Cancel safe. If the connection ends, [`Screens`] says so.
    pub async fn flush(&mut self) {
        if self.write.write_all_buf(&mut self.out).await.is_err() {
            self.out.clear();
        }
    }

    /// Waits until the agent has taken what was typed.
    pub async fn finish(mut self, mut screens: Screens) {
        self.flush().await;
        let _ = self.write.shutdown().await;
        while let Ok(Some(_)) = screens.next().await {}
    }
}

fn gone(error: io::Error) -> ApiError {
    Status::from_error(Box::new(error)).into()
}
