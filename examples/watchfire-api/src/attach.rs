//! The short way between a person's terminal and an agent's, on the daemon's socket: of the time from a key to its echo, gRPC would take
//! the larger part.
//!
//! A connection begins with [`ATTACH`], where gRPC has `PRI`. After that both sides send frames, each a length of four bytes and
//! so many bytes. The client's first one is a `SubscribeScreenRequest`, the others are `AttachInput`s. The daemon's begin with a byte
//! for what follows: a `ScreenBuffer`, or the `google.rpc.Status` with which it ends.

use prost::Message;
use tokio_util::bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio_util::codec::LengthDelimitedCodec;
use tonic::{Code, Status};

use crate::daemon_proto::ScreenBuffer;

/// What a connection begins with.
pub const ATTACH: &[u8; 8] = b"WFATTACH";

const SCREEN: u8 = 0;
const END: u8 = 1;

/// Reads frames of at most so many bytes.
#[must_use]
pub fn frames(largest: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(largest).new_codec()
}

/// Appends a message of a client.
pub fn put(message: &impl Message, out: &mut BytesMut) {
    put_frame(None, message, out);
}

/// Appends a screen.
pub fn put_screen(screen: &ScreenBuffer, out: &mut BytesMut) {
    put_frame(Some(SCREEN), screen, out);
}

/// Appends the end.
pub fn put_end(status: &Status, out: &mut BytesMut) {
    // Where there are details, they are the whole.
    let end = match tonic_types::Status::decode(status.details()) {
        Ok(end) if end.code != 0 => end,
        _ => tonic_types::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: Vec::new(),
        },
    };
    put_frame(Some(END), &end, out);
}

fn put_frame(kind: Option<u8>, message: &impl Message, out: &mut BytesMut) {
    let length = message.encoded_len() + usize::from(kind.is_some());
    // No message of ours is longer: a reader takes no such frame either.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.extend(kind);
    out.reserve(length);
    out.put_slice(&message.encode_to_vec());
}

/// Reads a frame of the daemon. `None`: it has ended as the client wished.
///
/// # Errors
/// The status with which it ended; `internal` for a frame that is none.
pub fn read(mut frame: Bytes) -> Result<Option<ScreenBuffer>, Status> {
    let unknown =
        |error: prost::DecodeError| Status::internal(format!("a daemon of another release: {error}"));
    match frame.try_get_u8() {
        Ok(SCREEN) => ScreenBuffer::decode(frame).map(Some).map_err(unknown),
        Ok(END) => {
            let end = tonic_types::Status::decode(frame.clone()).map_err(unknown)?;
            match Code::from_i32(end.code) {
                Code::Ok => Ok(None),
                code => Err(Status::with_details(code, end.message, frame)),
            }
        }
        _ => Err(Status::internal("a daemon of another release")),
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::codec::Decoder as _;
    use watchfire_core::{Error, ErrorKind};

    use super::*;
    use crate::ApiError;

    fn sent(put: impl FnOnce(&mut BytesMut)) -> Result<Option<ScreenBuffer>, ApiError> {
        let mut bytes = BytesMut::new();
        put(&mut bytes);
        let frame = frames(1000).decode(&mut bytes).unwrap().unwrap();
        assert!(bytes.is_empty());
        read(frame.freeze()).map_err(ApiError::from)
    }

    #[test]
    fn what_is_sent_arrives() {
        let screen = ScreenBuffer { rows: 3, title: "x".to_owned(), ..ScreenBuffer::default() };
        assert_eq!(sent(|out| put_screen(&screen, out)), Ok(Some(screen)));
        assert_eq!(sent(|out| put_end(&Status::ok(""), out)), Ok(None));
        let error = Error::new(ErrorKind::TargetOff, "the session has ended").with("session", "3");
        let told = sent(|out| put_end(&crate::status(&error), out));
        assert_eq!(told, Err(ApiError::from(error)));
        let told = sent(|out| put_end(&Status::unavailable("the daemon is shutting down"), out)).unwrap_err();
        assert!(told.is_shutdown());
        assert_eq!(sent(|out| put(&screen_of_another_kind(), out)).unwrap_err().code, "internal");
    }

    fn screen_of_another_kind() -> ScreenBuffer {
        ScreenBuffer { session_id: "x".to_owned(), ..ScreenBuffer::default() }
    }
}
