//! What a guardian needs beside an agent that can outlive its orchestrator.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::socket::{accept, listen};
use super::wire::HostIn;

/// The guardian's side of a host: its socket, and the descriptors that it holds for the next orchestrator.
pub(super) struct Hosting {
    listener: UnixListener,
    /// Copy of the agent's input, if that is a pipe: without it the agent would read the end of its input.
    input: Option<OwnedFd>,
    /// Held open and not used: locks that last as long as the agent.
    _held: Vec<OwnedFd>,
    /// Time without an orchestrator after which the tree is ended. `None` until the launch is complete.
    alone: Option<Duration>,
    /// Time limit of the session, while nobody is attached.
    limit: Option<Instant>,
    /// Time at which the last orchestrator went.
    left_at: Option<Instant>,
    answered: u64,
}

impl Hosting {
    /// Opens the socket. `held` and `input` are the descriptors that the order names.
    pub(super) fn new(order: &HostIn, input: Option<OwnedFd>, held: Vec<OwnedFd>) -> io::Result<Self> {
        let listener = listen(&order.folder)?;
        Ok(Self { listener, input, _held: held, alone: None, limit: None, left_at: None, answered: 0 })
    }

    /// Completes the launch: from now on the tree outlives its orchestrator.
    pub(super) fn keep(&mut self, alone: Duration) {
        self.alone = Some(alone);
    }

    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    pub(super) fn end_in(&mut self, left: Option<Duration>) {
        self.limit = left.and_then(|left| Instant::now().checked_add(left));
    }

    pub(super) fn answered(&mut self, offset: u64) {
        self.answered = self.answered.max(offset);
    }

    /// Returns the offset before which all queries are answered.
    pub(super) fn answered_to(&self) -> u64 {
        self.answered
    }

    /// Returns the agent's input, as long as it is open.
    pub(super) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(|input| input.as_fd())
    }

    /// Notes that nobody is attached, and returns true if the tree goes on all the same.
    pub(super) fn is_left(&mut self) -> bool {
        let goes_on = self.alone.is_some();
        if goes_on {
            self.left_at.get_or_insert_with(Instant::now);
        }
        goes_on
    }

    /// Returns the time at which the tree has to end, if nobody attaches before.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        let alone = self.left_at?.checked_add(self.alone?);
        alone.into_iter().chain(self.limit).min()
    }

    /// Returns the descriptor to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.left_at.map(|_| self.listener.as_fd())
    }

    /// Accepts an orchestrator, if one waits and none is attached.
    pub(super) fn accept(&mut self) -> Option<UnixStream> {
        self.left_at?;
        let accepted = accept(&self.listener)?;
        self.left_at = None;
        Some(accepted)
    }
}
