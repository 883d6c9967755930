//! The orchestrator's reading of an agent's output, from the recording that the guardian writes.

use std::future::poll_fn;
use std::pin::pin;

use tokio::sync::{Mutex, watch};

use super::contract::Output;
use super::guarded::Guarded;
use crate::session::recording::Tail;
use crate::{Error, ErrorKind, Result};

/// Upper bound for one read: what all work of a session on one part of its output may keep others of this runtime from.
const CHUNK: u64 = 16 * 1024;
/// Number of bytes after which the guardian learns how far they were read: well below its lead.
const TELL: u64 = 1 << 20;

/// Reader of recorded output. The same bytes can be read again for as long as the recording keeps them.
#[derive(Debug)]
pub(super) struct OutputReader {
    /// Length of the output so far. Closed at its end.
    ends: watch::Receiver<u64>,
    /// Its lock admits one reader at a time.
    position: Mutex<Position>,
}

#[derive(Debug)]
struct Position {
    tail: Tail,
    /// Offset up to which the guardian knows that the output was read.
    told: u64,
}

impl OutputReader {
    pub(super) fn new(recording: std::path::PathBuf, ends: watch::Receiver<u64>) -> Self {
        Self { ends, position: Mutex::new(Position { tail: Tail::new(recording), told: 0 }) }
    }

    /// See [`SessionProcess::read_from`](super::SessionProcess::read_from). A dropped future changes nothing.
    pub(super) async fn read_from(&self, mut offset: u64, guarded: &Guarded) -> Result<Output> {
        let mut position = self.position.lock().await;
        let mut ends = self.ends.clone();
        if offset > *ends.borrow() {
            return Err(Error::new(ErrorKind::InvalidInput, "an offset in the future")
                .with("offset", offset)
                .with("newest", *ends.borrow()));
        }
        let mut has_waited = false;
        loop {
            // In this order: if the channel was closed by then, the length that is read next is the last.
            let ended = ends.has_changed().is_err();
            let end = *ends.borrow_and_update();
            if offset < end {
                if !has_waited {
                    // A reader that never has to wait would take a thread of the runtime for itself.
                    tokio::task::yield_now().await;
                }
                let limit = usize::try_from(CHUNK.min(end - offset)).unwrap_or(usize::MAX);
                // Not in a blocking thread: the bytes were written a moment ago and are in the page cache.
                if let Some((offset, bytes)) = position.tail.read(offset, limit)? {
                    let output = Output { offset, bytes: bytes.into(), ended: false };
                    position.tell(output.next_offset(), guarded).await;
                    return Ok(output);
                }
                // Nothing from `offset` on was kept. It counts as read: the guardian would wait for ever, and with it the agent.
                offset = end;
                position.tell(end, guarded).await;
            }
            if ended {
                return Ok(Output { offset, bytes: bytes::Bytes::new(), ended });
            }
            let mut changed = pin!(ends.changed());
            poll_fn(|context| {
                // An error is the end of the output, which the next round sees.
                let changed = changed.as_mut().poll(context).map(drop);
                has_waited |= changed.is_pending();
                changed
            })
            .await;
        }
    }
}

impl Position {
    async fn tell(&mut self, read: u64, guarded: &Guarded) {
        if read >= self.told.saturating_add(TELL) {
            guarded.taken(read).await;
            self.told = read;
        }
    }
}
