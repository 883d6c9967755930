//! Following the screen of a session.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::follower::Follower;
use super::state::Screen;
use crate::Result;
use crate::terminal::{Line, Size, Snapshot};

/// Options of an [`Attachment`].
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// True for raw output, false for changes of the screen.
    pub(super) output: bool,
    /// Offset of the output from which on raw output is delivered. Default: now, after a redraw.
    pub(super) since: Option<u64>,
    /// True if the reader's terminal answers the agent's queries, in place of the session's.
    pub(super) answers: bool,
}

impl AttachRequest {
    /// Asks for the screen and then for its changes: [`ScreenUpdate::Changed`].
    #[must_use]
    pub fn screen() -> Self {
        Self { output: false, since: None, answers: false }
    }

    /// Asks for bytes to be fed to another terminal: [`ScreenUpdate::Redraw`], then [`ScreenUpdate::Output`].
    #[must_use]
    pub fn output() -> Self {
        Self { output: true, since: None, answers: false }
    }

    /// Delivers raw output from byte `offset` of the session on. If that is no longer retained, a redraw comes first.
    #[must_use]
    pub fn with_since(mut self, offset: u64) -> Self {
        self.since = Some(offset);
        self
    }

    /// Leaves the agent's queries to the reader's terminal, which is fed the raw output. The session's own terminal
    /// stops answering at exactly the offset of the first redraw, and starts again when the attachment is dropped.
    #[must_use]
    pub fn with_answers(mut self) -> Self {
        self.answers = true;
        self
    }
}

/// Item of an [`Attachment`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScreenUpdate {
    /// The screen changed. The first update of an attachment is the whole screen.
    Changed(ScreenChange),
    /// The agent wrote output.
    #[non_exhaustive]
    Output {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes, never empty.
        bytes: Bytes,
    },
    /// Raw output continues at `lost.end`, because the reader is new or fell behind the retained output.
    #[non_exhaustive]
    Redraw {
        /// Offsets of output that is not delivered; empty if nothing is missing.
        lost: Range<u64>,
        /// The screen at `lost.end`.
        snapshot: Arc<Snapshot>,
        /// Bytes that reset a terminal of the snapshot's size and bring it to the state at `lost.end`. They contain no
        /// queries.
        bytes: Bytes,
    },
    /// The terminal has another size for the raw output that follows.
    Resized(Size),
}

/// Difference between the screen of the previous update and the screen at `offset`.
///
/// A reader that draws rows moves its rows up by [`shifted`](Self::shifted), filling with blank ones, and then replaces
/// [`rows`](Self::rows). Cursor, title, modes, palette and size are taken from the snapshot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScreenChange {
    /// Bytes of the session's output that the snapshot shows.
    pub offset: u64,
    /// The whole screen.
    pub snapshot: Arc<Snapshot>,
    /// True if this is the first update or the size changed. All rows count as changed then, and the scrollback has to be
    /// read anew with [`Session::scrollback`](crate::session::Session::scrollback).
    pub full: bool,
    /// Number of rows by which the screen moved up.
    pub shifted: u16,
    /// Rows that differ from the update before after the move, ascending.
    pub rows: Vec<u16>,
    /// Lines that went from the screen into the scrollback, oldest first. Their numbers end with the snapshot's
    /// [`scrollback`](Snapshot::scrollback). At most 1,000, the newest.
    pub scrolled: Vec<Line>,
    /// Number of older lines that went into the scrollback and are not in `scrolled`.
    pub skipped: u64,
}

/// Stream of a session's screen, at the reader's own pace.
///
/// Updates come at most 60 times a second. Changes merge while the reader is slow; raw output that is no longer retained
/// is replaced by a redraw that names the gap. The stream ends when the session's output has ended and everything was
/// delivered. An attachment holds no thread and no task, and nothing of the session waits for it.
pub struct Attachment(State);

enum State {
    Idle(Box<Follower>),
    Waiting(Waiting),
    Ended,
}

/// A follower on its way to the next update, which comes back with it.
type Waiting = Pin<Box<dyn Future<Output = (Box<Follower>, Option<ScreenUpdate>)> + Send>>;

impl Attachment {
    pub(in crate::session) fn new(screen: &Arc<Screen>, request: &AttachRequest) -> Result<Self> {
        Follower::new(screen, request).map(|follower| Self(State::Idle(Box::new(follower))))
    }

    /// Waits for the next update; `None` at the end.
    pub async fn next(&mut self) -> Option<ScreenUpdate> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Attachment {
    /// Writes raw output to `to`, for example a person's terminal, until the session's output ends. Missed output is replaced
    /// by the screen that resulted from it.
    ///
    /// # Errors
    /// Errors of the writer.
    pub async fn copy_to(mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while let Some(update) = self.next().await {
            let bytes = match update {
                // Nothing was printed yet, so there is nothing to redraw.
                ScreenUpdate::Redraw { lost, .. } if lost.end == 0 => continue,
                ScreenUpdate::Redraw { bytes, .. } | ScreenUpdate::Output { bytes, .. } => bytes,
                ScreenUpdate::Changed(_) | ScreenUpdate::Resized(_) => continue,
            };
            to.write_all(&bytes).await?;
            // Each update, since the next one may take hours.
            to.flush().await?;
        }
        Ok(())
    }
}

impl Stream for Attachment {
    type Item = ScreenUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ScreenUpdate>> {
        // The follower moves into the future and back with each update, so the future borrows nothing and the
        // stream is `Unpin`.
        let mut waiting = match std::mem::replace(&mut self.0, State::Ended) {
            State::Idle(follower) => Box::pin(follower.advance()),
            State::Waiting(waiting) => waiting,
            State::Ended => return Poll::Ready(None),
        };
        match waiting.as_mut().poll(cx) {
            Poll::Pending => {
                self.0 = State::Waiting(waiting);
                Poll::Pending
            }
            Poll::Ready((_, None)) => Poll::Ready(None),
            Poll::Ready((follower, update)) => {
                self.0 = State::Idle(follower);
                Poll::Ready(update)
            }
        }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").finish_non_exhaustive()
    }
}
