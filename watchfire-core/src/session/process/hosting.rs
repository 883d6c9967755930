//! What a guardian needs beside an agent that can outlive its orchestrator.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::socket::{accept, listen, peer};
use super::wire::HostIn;

/// Longest time from the end of a connection to the death of the process that had it: it may have slow files to close, on a
/// machine under load. The tree goes on meanwhile.
const DYING: Duration = Duration::from_secs(10);

/// The guardian's side of a host: its socket, and the descriptors that it holds for the next orchestrator.
pub(super) struct Hosting {
    listener: UnixListener,
    /// Copy of the agent's input, if that is a pipe: without it the agent would read the end of its input.
    input: Option<OwnedFd>,
    /// Held open and not used: locks that last as long as the agent.
    _held: Vec<OwnedFd>,
    /// Time without an orchestrator after which the tree is ended.
    alone: Duration,
    /// Time limit of the session while no orchestrator is attached.
    limit: Option<Instant>,
    owner: Owner,
    /// Time at which the last orchestrator's connection ended.
    left_at: Option<Instant>,
    answered: u64,
}

/// The orchestrator that is or was attached.
enum Owner {
    /// Its process, if it can be watched.
    Process(Option<OwnedFd>),
    /// It went and left the tree to the guardian.
    Gone,
}

impl Hosting {
    /// Opens the socket. `held` and `input` are the descriptors that the order names.
    pub(super) fn new(order: &HostIn, input: Option<OwnedFd>, held: Vec<OwnedFd>) -> io::Result<Self> {
        let mut hosting = Self {
            listener: listen(&order.folder)?,
            input,
            _held: held,
            alone: order.alone,
            limit: None,
            owner: Owner::Process(rustix::process::getppid().and_then(watched)),
            left_at: None,
            answered: 0,
        };
        hosting.end_in(order.limit);
        Ok(hosting)
    }

    /// Notes that the orchestrator goes and leaves the tree to the guardian.
    pub(super) fn leave(&mut self) {
        self.owner = Owner::Gone;
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

    /// Notes that no orchestrator is attached.
    pub(super) fn left(&mut self) {
        self.left_at.get_or_insert_with(Instant::now);
    }

    /// Returns the session's time limit, while no orchestrator is attached.
    pub(super) fn limit(&self) -> Option<Instant> {
        self.left_at.and(self.limit)
    }

    /// Returns the time until which another orchestrator is waited for. One whose connection has ended and that does not die
    /// has dropped the session.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        let left_at = self.left_at?;
        let is_left = match &self.owner {
            Owner::Process(owner) => has_died(owner.as_ref()),
            Owner::Gone => true,
        };
        left_at.checked_add(if is_left { self.alone } else { DYING.min(self.alone) })
    }

    /// Returns the descriptor to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.left_at.map(|_| self.listener.as_fd())
    }

    /// Accepts an orchestrator, if one waits and none is attached.
    pub(super) fn accept(&mut self) -> Option<UnixStream> {
        self.left_at?;
        let accepted = accept(&self.listener)?;
        let peer = peer(&accepted).ok().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        self.owner = Owner::Process(peer.and_then(watched));
        self.left_at = None;
        Some(accepted)
    }
}

/// Returns a descriptor by which the death of a process is seen.
fn watched(process: Pid) -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    return rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).ok();
    #[cfg(not(target_os = "linux"))]
    {
        let _ = process;
        None
    }
}

/// Returns true if the process has died.
fn has_died(process: Option<&OwnedFd>) -> bool {
    // One that was gone when it was to be watched.
    let Some(process) = process else { return true };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
