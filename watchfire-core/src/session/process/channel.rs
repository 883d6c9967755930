//! Our ends of an agent's terminal or pipes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::contract::Output;
use crate::process::wait::registered;
use crate::{Error, ErrorKind, Result};

/// The most that is read at once.
const CHUNK: usize = 64 * 1024;
/// How much room there is at least for one read; a terminal gives no more than this.
const READ: usize = 4096;
/// How long a write waits for an agent that reads nothing.
const STALLED: Duration = Duration::from_secs(10);
/// How long to wait before looking again at a terminal that nobody has open; readiness does not tell about it, for
/// once closed it counts as closed for good.
const HUNG_UP: Duration = Duration::from_millis(20);

/// A descriptor that never blocks, shared by reader and writer.
pub(super) type Channel = Arc<AsyncFd<OwnedFd>>;

/// Makes a channel of our end; to be called within a tokio runtime, which it belongs to.
pub(super) fn channel(fd: OwnedFd) -> Result<Channel> {
    let register = || {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        registered(fd)
    };
    register().map(Arc::new).map_err(|error| Error::io("opening the agent's input and output", error))
}

/// Reads what an agent writes. Nothing is kept: while nobody reads, the agent waits, in the end.
#[derive(Debug)]
pub(super) struct Reader {
    channel: Channel,
    /// How many bytes have been read, or none after the end; held by the one reader.
    position: Mutex<Position>,
}

#[derive(Debug, Default)]
struct Position {
    offset: u64,
    ended: bool,
}

impl Reader {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, position: Mutex::default() }
    }

    /// See [`SessionProcess::read_from`](super::SessionProcess::read_from). `over` comes true when no process is left
    /// that could write; whoever else holds the other end does not keep the output open.
    pub(super) async fn read_from(&self, offset: u64, over: impl Future<Output = ()>) -> Result<Output> {
        let mut position = self.position.lock().await;
        if offset > position.offset {
            return Err(Error::new(ErrorKind::InvalidInput, "an offset in the future")
                .with("offset", offset)
                .with("newest", position.offset));
        }
        let mut over = std::pin::pin!(over);
        let mut is_over = false;
        while !position.ended {
            let mut ready = None;
            if !is_over {
                // Once over, it is never polled again.
                tokio::select! {
                    it = self.channel.readable() => ready = Some(it.map_err(reading)?),
                    () = &mut over => is_over = true,
                }
            }
            let (bytes, state) = read_available(self.channel.get_ref()).map_err(reading)?;
            let hung_up = ready.is_some_and(|mut ready| {
                if matches!(state, State::Drained) {
                    ready.clear_ready();
                }
                ready.ready().is_read_closed()
            });
            position.ended = match state {
                State::More => false,
                State::Drained | State::HungUp => is_over,
                State::Closed => true,
            };
            if bytes.is_empty() && !is_over && (hung_up || matches!(state, State::HungUp)) {
                tokio::select! {
                    () = &mut over => is_over = true,
                    () = sleep(HUNG_UP) => {}
                }
            }
            if !bytes.is_empty() {
                let offset = position.offset;
                position.offset += bytes.len() as u64;
                return Ok(Output { offset, bytes: bytes.into(), ended: position.ended });
            }
        }
        Ok(Output { offset: position.offset, bytes: Bytes::new(), ended: true })
    }
}

enum State {
    /// There may be more.
    More,
    /// There is no more now.
    Drained,
    /// Nobody has the terminal's other end open; somebody may open it again.
    HungUp,
    /// There will be no more.
    Closed,
}

/// Reads until there is nothing, or enough. There is no await in it, so nothing read can be lost.
fn read_available(fd: &OwnedFd) -> io::Result<(Vec<u8>, State)> {
    let mut bytes = Vec::new();
    while bytes.len() < CHUNK {
        bytes.reserve(READ);
        match rustix::io::read(fd, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok((bytes, State::Closed)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok((bytes, State::Drained)),
            Err(Errno::IO) => return Ok((bytes, State::HungUp)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((bytes, State::More))
}

/// Writes input for an agent, one write after the other.
#[derive(Debug)]
pub(super) struct Writer(Mutex<Option<Channel>>);

impl Writer {
    pub(super) fn new(channel: Channel) -> Self {
        Self(Mutex::new(Some(channel)))
    }

    /// See [`SessionProcess::write`](super::SessionProcess::write).
    pub(super) async fn write(&self, bytes: &[u8], over: impl Future<Output = ()>) -> Result<()> {
        let channel = self.0.lock().await;
        let channel = channel
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::NoInputChannel, "the agent's input was closed"))?;
        let mut over = std::pin::pin!(over);
        let mut left = bytes;
        let mut deadline = Instant::now() + STALLED;
        while !left.is_empty() {
            let stalled = || {
                Error::new(ErrorKind::Timeout, "the agent does not read its input")
                    .with("written", bytes.len() - left.len())
                    .with("bytes", bytes.len())
            };
            let mut ready = tokio::select! {
                biased;
                () = &mut over => return Err(gone()),
                it = timeout_at(deadline, channel.writable()) => it.map_err(|_| stalled())?.map_err(writing)?,
            };
            match rustix::io::write(channel.get_ref().as_fd(), left) {
                Ok(count) => {
                    left = left.get(count..).unwrap_or_default();
                    deadline = Instant::now() + STALLED;
                }
                Err(Errno::AGAIN | Errno::IO) if Instant::now() > deadline => return Err(stalled()),
                Err(Errno::AGAIN) if !ready.ready().is_write_closed() => ready.clear_ready(),
                Err(Errno::AGAIN | Errno::IO) => sleep(HUNG_UP).await,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) => return Err(gone()),
                Err(error) => return Err(writing(error.into())),
            }
        }
        Ok(())
    }

    /// Closes it, for the agent to see the end of its input.
    pub(super) async fn close(&self) {
        self.0.lock().await.take();
    }
}

pub(super) fn gone() -> Error {
    Error::new(ErrorKind::TargetOff, "the agent's process has ended")
}

fn reading(error: io::Error) -> Error {
    Error::io("reading the agent's output", error)
}

fn writing(error: io::Error) -> Error {
    Error::io("writing the agent's input", error)
}
