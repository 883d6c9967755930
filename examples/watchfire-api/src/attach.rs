//! A person's terminal in the hands of the daemon, which draws an agent's screen there and types the person's keys: of the time from a key
//! to its echo, a program in between would take the larger part.
//!
//! A connection to the daemon's socket begins with [`ATTACH`], where gRPC has `PRI`, and has the terminal as a descriptor with it. After
//! that both sides send frames, each a length of four bytes and so many bytes. The client's first one is an `AttachRequest`; each other
//! one has keys that the client has read itself, or is empty if its terminal has another size. The daemon's are `AttachEvent`s.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use prost::Message;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio_util::bytes::{BufMut as _, BytesMut};
use tokio_util::codec::LengthDelimitedCodec;
use tonic::{Code, Status};

/// What a connection begins with.
pub const ATTACH: &[u8; 8] = b"WFATTACH";

/// Reads frames of at most so many bytes.
#[must_use]
pub fn frames(largest: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(largest).new_codec()
}

/// Appends a frame.
pub fn put(frame: &[u8], out: &mut BytesMut) {
    // No frame of ours is longer: a reader takes no such one either.
    out.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX));
    out.put_slice(frame);
}

/// Sends a terminal with the first of `bytes`. Returns the number of those that were sent.
///
/// # Errors
/// I/O errors.
pub async fn send_terminal(
    connection: &UnixStream,
    bytes: &[u8],
    terminal: BorrowedFd<'_>,
) -> io::Result<usize> {
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let terminal = [terminal];
        control.push(SendAncillaryMessage::ScmRights(&terminal));
        Ok(sendmsg(connection, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?)
    };
    connection.async_io(Interest::WRITABLE, send).await
}

/// Reads [`ATTACH`], and the terminal that comes with it.
///
/// # Errors
/// I/O errors; `InvalidData` for anything else.
pub async fn receive_terminal(connection: &UnixStream) -> io::Result<OwnedFd> {
    let (mut begin, mut read, mut terminal) = ([0; ATTACH.len()], 0, None);
    while read < begin.len() {
        let receive = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut rest = [IoSliceMut::new(&mut begin[read..])];
            let received = recvmsg(connection, &mut rest, &mut control, CLOSED_ON_EXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    terminal = descriptors.last().or(terminal.take());
                }
            }
            Ok(received.bytes)
        };
        match connection.async_io(Interest::READABLE, receive).await? {
            0 => break,
            more => read += more,
        }
    }
    let terminal = terminal.filter(|_| begin == *ATTACH).ok_or(io::ErrorKind::InvalidData)?;
    fcntl_setfd(&terminal, FdFlags::CLOEXEC)?;
    Ok(terminal)
}

/// macOS has no such flag; it is set afterwards there.
#[cfg(not(target_vendor = "apple"))]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(target_vendor = "apple")]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Encodes an error.
#[must_use]
pub fn encode_error(error: &Status) -> Vec<u8> {
    // Where there are details, they are the whole.
    match tonic_types::Status::decode(error.details()) {
        Ok(whole) if whole.code != 0 => error.details().to_vec(),
        _ => tonic_types::Status {
            code: error.code().into(),
            message: error.message().to_owned(),
            details: Vec::new(),
        }
        .encode_to_vec(),
    }
}

/// Decodes an error. `internal` if it is none.
#[must_use]
pub fn decode_error(bytes: Vec<u8>) -> Status {
    match tonic_types::Status::decode(&bytes[..]) {
        Ok(error) => Status::with_details(Code::from_i32(error.code), error.message, bytes.into()),
        Err(error) => Status::internal(format!("a daemon of another release: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use tokio::io::AsyncWriteExt as _;
    use watchfire_core::{Error, ErrorKind};

    use super::*;
    use crate::ApiError;

    #[test]
    fn errors_arrive_whole() {
        let error = Error::new(ErrorKind::TargetOff, "the session has ended").with("session", "3");
        let told = ApiError::from(decode_error(encode_error(&crate::status(&error))));
        assert_eq!(told, ApiError::from(error));
        let end = Status::unavailable("the daemon is shutting down");
        assert!(ApiError::from(decode_error(encode_error(&end))).is_shutdown());
        assert_eq!(ApiError::from(decode_error(vec![255])).code, "internal");
    }

    #[tokio::test]
    async fn a_terminal_comes_with_the_first_bytes() {
        let (null, other) = (std::fs::File::open("/dev/null").unwrap(), std::io::stdin());
        let (here, mut there) = UnixStream::pair().unwrap();
        assert_eq!(send_terminal(&here, ATTACH, null.as_fd()).await.unwrap(), ATTACH.len());
        let got = receive_terminal(&there).await.unwrap();
        let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_rdev;
        assert_eq!(device(got.as_fd()), device(null.as_fd()));
        // Something else, one without a terminal, and one that has gone in the middle.
        send_terminal(&there, b"WFTERMIN", other.as_fd()).await.unwrap();
        assert!(receive_terminal(&here).await.is_err());
        there.write_all(ATTACH).await.unwrap();
        assert!(receive_terminal(&here).await.is_err());
        send_terminal(&there, b"WF", null.as_fd()).await.unwrap();
        drop(there);
        assert!(receive_terminal(&here).await.is_err());
    }
}
