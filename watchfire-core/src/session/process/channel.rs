//! Our ends of an agent's terminal or pipes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::contract::Output;
use crate::process::wait::registered;
use crate::{Error, ErrorKind, Result};

/// Upper bound for one read from a channel.
const CHUNK: usize = 64 * 1024;
/// Room for one `read`. The kernel's line discipline hands out at most this much of a terminal at once.
const READ: usize = 4096;
/// Time limit for a write to an agent that reads nothing.
const STALLED: Duration = Duration::from_secs(10);
/// Pause before the next look at a terminal that no process has open. epoll cannot replace it: a hang-up
/// stays readable for good, also after another process has opened the terminal again.
const HUNG_UP: Duration = Duration::from_millis(20);

/// A descriptor that never blocks, shared by reader and writer.
pub(super) type Channel = Arc<AsyncFd<OwnedFd>>;

/// Makes a channel of our end. It belongs to the tokio runtime of the caller.
pub(super) fn channel(fd: OwnedFd, interest: Interest) -> Result<Channel> {
    let register = || {
        // On the descriptor's open file, so a copy of ours that another process held would become
        // non-blocking, too. Our ends are never passed on.
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        registered(fd, interest)
    };
    register().map(Arc::new).map_err(|error| Error::io("opening the agent's input and output", error))
}

/// Reader of an agent's output. Keeps nothing: while no reader drains it, the kernel's buffer fills and the
/// agent blocks.
#[derive(Debug)]
pub(super) struct Reader {
    channel: Channel,
    /// Number of bytes read, and whether the end was seen. Its lock admits one reader at a time.
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

    /// See [`SessionProcess::read_from`](super::SessionProcess::read_from). `over` resolves when no process
    /// of the agent is left to write; a stranger that still holds the other end does not keep the output
    /// open.
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
                // A future that has resolved must not be polled again, so this branch is entered only before
                // the end.
                tokio::select! {
                    it = self.channel.readable() => ready = Some(it.map_err(reading)?),
                    () = &mut over => is_over = true,
                }
            }
            // Read without a readiness event as well: after the end, the kernel's buffer may still hold the
            // last output.
            let (bytes, state) = read_available(self.channel.get_ref()).map_err(reading)?;
            // Clear readiness only on `AGAIN`. Clearing it with bytes left would wait for an edge that never
            // comes.
            let hung_up = ready.is_some_and(|mut ready| {
                if matches!(state, State::Drained) {
                    ready.clear_ready();
                }
                ready.ready().is_read_closed()
            });
            // The agent is gone, but the buffer decides: only an empty one after the last process means the
            // end of the output.
            position.ended = match state {
                State::More => false,
                State::Drained | State::HungUp => is_over,
                State::Closed => true,
            };
            // Between two programs that open the terminal, it reports a hang-up at once, for ever. Poll
            // slowly instead of spinning.
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
    /// More bytes may be available now.
    More,
    /// No more bytes are available now.
    Drained,
    /// No process has the other end of the terminal open. One may open it again.
    HungUp,
    /// The end of the output.
    Closed,
}

/// Reads until the channel is empty or `CHUNK` is reached. Contains no await, so a dropped future cannot lose
/// bytes.
fn read_available(fd: &OwnedFd) -> io::Result<(Vec<u8>, State)> {
    let mut bytes = Vec::new();
    while bytes.len() < CHUNK {
        bytes.reserve(READ);
        match rustix::io::read(fd, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok((bytes, State::Closed)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok((bytes, State::Drained)),
            // A terminal, while no process has its slave side open. A pipe without writers gives 0 bytes.
            Err(Errno::IO) => return Ok((bytes, State::HungUp)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((bytes, State::More))
}

/// Writer of input for an agent. Admits one write at a time.
#[derive(Debug)]
pub(super) struct Writer(Mutex<Option<Channel>>);

impl Writer {
    /// Without a channel, the input is closed.
    pub(super) fn new(channel: Option<Channel>) -> Self {
        Self(Mutex::new(channel))
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
                // In this order: an agent that is gone leaves its terminal writable, and the bytes would go
                // nowhere.
                biased;
                () = &mut over => return Err(gone()),
                it = timeout_at(deadline, channel.writable()) => it.map_err(|_| stalled())?.map_err(writing)?,
            };
            match rustix::io::write(channel.get_ref().as_fd(), left) {
                Ok(count) => {
                    left = left.get(count..).unwrap_or_default();
                    // Progress renews the deadline: a slow reader of a long text is not a stalled one.
                    deadline = Instant::now() + STALLED;
                }
                Err(Errno::AGAIN | Errno::IO) if Instant::now() > deadline => return Err(stalled()),
                Err(Errno::AGAIN) if !ready.ready().is_write_closed() => ready.clear_ready(),
                // `AGAIN` together with a closed end, or `EIO`: no process has the terminal open just now.
                // Another may open it.
                Err(Errno::AGAIN | Errno::IO) => sleep(HUNG_UP).await,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) => return Err(gone()),
                Err(error) => return Err(writing(error.into())),
            }
        }
        Ok(())
    }

    /// Closes the input, so that the agent reads its end.
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
