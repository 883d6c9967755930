//! The guardian's reading of an agent's output, straight into the recording.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::session::recording::Recorder;
use crate::terminal::Size;

/// Size of the buffer for reads: as much as a terminal gives at once. The pages of a larger one would stay with each guardian.
const READ: usize = 4096;
/// Number of bytes that are fewer than a program prints at full speed.
const FEW: usize = 64;
/// Upper bound for one round, after which children and orders get their turn.
const ROUND: u64 = 256 * 1024;
/// Lead over an orchestrator that reads. Beyond it the agent has to wait: its output would otherwise leave the
/// recording, which is bounded, before anyone has seen it.
const LEAD: u64 = 4 << 20;
/// Pause before the next look at a terminal that no process has open. The kernel reports a hang-up at once, again
/// and again, also after another process has opened the terminal again.
const HUNG_UP: Duration = Duration::from_millis(20);

/// Reader of an agent's output.
pub(super) struct Intake {
    /// Our side of the terminal, or of the pipe. `None` after the end of the output.
    fd: Option<OwnedFd>,
    recorder: Recorder,
    on_terminal: bool,
    /// Offset up to which the orchestrator has read. `None` while there is none.
    taken: Option<u64>,
    /// Set while no process has the terminal open.
    resume_at: Option<Instant>,
}

impl Intake {
    /// Starts the recording in `folder`. A pipe has no size.
    pub(super) fn new(fd: OwnedFd, folder: &Path, size: Option<Size>) -> std::io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        let recorder = Recorder::create(folder, size)?;
        Ok(Self { fd: Some(fd), recorder, on_terminal: size.is_some(), taken: Some(0), resume_at: None })
    }

    /// Returns the length of the output so far.
    pub(super) fn end(&self) -> u64 {
        self.recorder.end()
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.on_terminal
    }

    /// Returns our side of the terminal or the pipe, until the end of the output.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn take(&mut self, offset: u64) {
        self.taken = self.taken.map(|taken| taken.max(offset));
    }

    /// Notes whether an orchestrator is attached. Without one, the agent never waits; a new one reads what was recorded by
    /// then.
    pub(super) fn attend(&mut self, attended: bool) {
        self.taken = attended.then(|| self.end());
    }

    /// Returns the descriptor to wait for, or `None` while nothing may be read from it.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // macOS does not poll terminals; there the guardian looks at children and output every few milliseconds.
        let is_polled = cfg!(target_os = "linux") || !self.on_terminal;
        self.fd.as_ref().filter(|_| is_polled && self.may_read()).map(AsFd::as_fd)
    }

    fn may_read(&self) -> bool {
        self.resume_at.is_none() && self.taken.is_none_or(|taken| self.end() < taken.saturating_add(LEAD))
    }

    /// Returns the time until the next look at a terminal that no process has open.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.resume_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Records what the agent has written, if it may be read now.
    pub(super) fn read(&mut self) {
        if self.resume_at.is_some_and(|at| at <= Instant::now()) {
            self.resume_at = None;
        }
        if self.may_read() {
            self.read_round(false);
        }
    }

    /// Records the rest of the output after the last process of the agent, and the exit code. Returns the length of the whole
    /// output.
    pub(super) fn finish(mut self, code: Option<i32>) -> u64 {
        // The kernel's buffers are empty after a round. A stranger that still has the terminal open may write for ever.
        self.read_round(true);
        let end = self.end();
        self.recorder.finish(code);
        end
    }

    fn read_round(&mut self, is_last: bool) {
        let until = self.end().saturating_add(ROUND);
        let mut buffer = [0; READ];
        while let Some(fd) = &self.fd
            && self.end() < until
        {
            match rustix::io::read(fd, &mut buffer) {
                Ok(0) => self.fd = None,
                Ok(count) => {
                    self.recorder.push(buffer.get(..count).unwrap_or_default());
                    // An echo, most likely, after which there is nothing: it is reported sooner without a look.
                    if count < FEW && !is_last {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // A terminal, while no process has its other side open. One may open it again.
                Err(Errno::IO) => return self.resume_at = Some(Instant::now() + HUNG_UP),
                Err(_) => self.fd = None,
            }
        }
    }

    /// Changes the size of the terminal. The kernel delivers SIGWINCH to its foreground process group.
    pub(super) fn resize(&mut self, size: Size) {
        // Before the recording: whatever the program draws for the new size comes after the entry.
        self.recorder.resize(size);
        if let Some(fd) = &self.fd {
            // Fails for pipes, which are never asked.
            let _ = tcsetwinsize(fd, winsize(size));
        }
    }
}

pub(super) fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 }
}
