//! The process of a session, as a trait.

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::model::ProcessIdentity;
use crate::terminal::Size;

/// The process of one agent with all its descendants, as the owner of its terminal sees it.
///
/// **Implementers ensure** that
/// - [`wait`](Self::wait) and [`terminate`](Self::terminate) never depend on a reader or a writer;
/// - when `wait` returns, no process of the agent is left, and what it wrote can still be read to the end;
/// - a future that is dropped loses no output; a dropped `write` has written some beginning of its bytes;
/// - dropping the last handle ends the process with all its descendants, unless a host keeps them by its contract.
///
/// **Callers may not assume** that two readers each see everything, that bytes before the newest offset can be read
/// again, that input was read because it was written, or that an agent heeds an interrupt.
#[async_trait]
pub trait SessionProcess: Debug + Send + Sync {
    /// Writes input. Concurrent writes do not interleave, and none delays a reader.
    ///
    /// # Errors
    /// `timeout` when the agent reads nothing for too long, with the bytes `written`; `target_off` when it has
    /// ended; `no_input_channel` when its input was closed.
    async fn write(&self, bytes: &[u8]) -> Result<()>;

    /// Closes the input, so that the agent reads its end. Does nothing to a terminal.
    async fn close_input(&self) {}

    /// Changes the size of the terminal. The kernel delivers SIGWINCH to its foreground process group.
    ///
    /// # Errors
    /// `not_supported` when it has no terminal.
    async fn resize(&self, size: Size) -> Result<()>;

    /// Reads output from byte `offset`, counted from the start of the process. Waits until at least one byte is available or
    /// the output has ended.
    ///
    /// One reader at a time. Reading on from `offset` allows the process to forget everything before it: the
    /// output then begins at a later offset. While no reader drains it, the agent blocks once the buffers are
    /// full.
    ///
    /// # Errors
    /// `invalid_input` for an offset in the future; what the system refused.
    async fn read_from(&self, offset: u64) -> Result<Output>;

    /// Interrupts what it is doing, as Ctrl+C would.
    ///
    /// # Errors
    /// `target_off` when it has ended.
    async fn interrupt(&self) -> Result<()>;

    /// Ends the agent with all its descendants: hangs up, then asks to terminate, then kills after `grace`.
    /// Returns when no process is left. Continues if the future is dropped. A second call can only shorten
    /// the grace.
    ///
    /// # Errors
    /// Errors of the request itself.
    async fn terminate(&self, grace: Duration) -> Result<Exit>;

    /// Waits until no process of the agent is left.
    async fn wait(&self) -> Exit;

    /// Returns the text written to stderr, where that is not the terminal: its beginning and its end.
    fn complaints(&self) -> String {
        String::new()
    }

    /// Waits until more was written to stderr since the last call. Never resolves where there is no separate
    /// stderr.
    async fn complained(&self) {
        std::future::pending().await
    }

    /// Notes that the queries in the output before `offset` are answered. The program that takes the session over
    /// answers those after it. Does nothing where that cannot happen.
    async fn answered(&self, _offset: u64) {}

    /// Has its host end it after this time unless a program is attached; `None` takes that back. Does nothing without a host
    /// that outlives this program.
    async fn end_in(&self, _left: Option<Duration>) {}

    /// Leaves it to its host, for another program to take over. It reads and takes no more orders from here. Does nothing
    /// without a host that outlives this program.
    async fn detach(&self) {}

    /// Returns the processor time that its processes have used so far, if it is known. Takes well under a millisecond.
    fn processor_time(&self) -> Option<Duration> {
        None
    }

    /// Returns the identity of the agent's process.
    fn identity(&self) -> &ProcessIdentity;
}

/// Bytes that a process wrote.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Output {
    /// Offset of the first byte, counted from the start of the process.
    pub offset: u64,
    /// The bytes; empty only at the end.
    pub bytes: Bytes,
    /// True if nothing will follow.
    pub ended: bool,
}

impl Output {
    /// Returns the offset from which to read on.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

/// The end of an agent's process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Unknown, because its guardian was killed.
    Unknown,
}

impl Exit {
    /// Returns the exit code, or 128 plus the number of the signal, as shells do.
    #[must_use]
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(signal) => Some(128 + signal),
            Self::Unknown => None,
        }
    }

    /// Returns true if it exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown, its guardian was killed"),
        }
    }
}
