//! The socket of a session that can outlive its orchestrator.
//!
//! It lies in a private folder, and takes only connections of our own user. The kernel bounds the path of a socket to about
//! 100 bytes, so on Linux it is named through a descriptor of its folder. A connection begins with a descriptor: our side
//! of the agent's terminal, or its input.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::files::socket_path;

/// Name of the socket in its folder.
const NAME: &str = "socket";
/// Time limit for a write to an orchestrator that reads nothing. After it the connection counts as lost.
const STALLED: Duration = Duration::from_secs(5);

/// Makes the socket. The folder exists, is private, and has none.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let (path, _folder) = socket_path(folder, NAME)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(folder.join(NAME), Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the socket in `folder`. Returns at once, whether or not anyone answers.
pub(super) fn connect(folder: &Path) -> io::Result<UnixStream> {
    let (path, _folder) = socket_path(folder, NAME)?;
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(STALLED))?;
    Ok(stream)
}

/// Returns the number of the process that made the socket at the other end.
pub(super) fn peer(stream: &UnixStream) -> io::Result<u32> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::net::sockopt::socket_peercred(stream)?.pid.as_raw_pid().cast_unsigned());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Accepts a connection, if one of our own user waits.
pub(super) fn accept(listener: &UnixListener) -> Option<UnixStream> {
    let (stream, _) = listener.accept().ok()?;
    #[cfg(target_os = "linux")]
    if rustix::net::sockopt::socket_peercred(&stream).ok()?.uid != rustix::process::geteuid() {
        return None;
    }
    stream.set_write_timeout(Some(STALLED)).ok()?;
    Some(stream)
}

/// Writes the first bytes of a connection, together with a descriptor.
pub(super) fn send_first(
    mut stream: &UnixStream,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?;
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Reads the first bytes of a connection, and its descriptor. Returns no bytes if it was closed.
pub(super) fn receive_first(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = loop {
        match recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    bytes.truncate(received.bytes);
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last();
        }
    }
    #[cfg(not(target_os = "linux"))]
    if let Some(descriptor) = &descriptor {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok((bytes, descriptor))
}
