//! Code that runs in a child between fork and exec, and signals of a process that has no other code than ours.

#![expect(unsafe_code, reason = "code between fork and exec, and signal dispositions, are the caller's duty")]

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};

/// Closes every descriptor from 3 up in the child, including those that this process inherited without close-on-exec.
/// Call it before descriptors are placed in the child.
pub(super) fn close_descriptors(command: &mut Command) {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(mark_descriptors) };
}

/// Marks descriptors close-on-exec. They cannot be closed yet: the standard library reports a failed exec through one.
fn mark_descriptors() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::libc::{CLOSE_RANGE_CLOEXEC, SYS_close_range, c_uint, syscall};
        // SAFETY: takes numbers and changes one flag of the descriptors of this child.
        // One call for all numbers. Listing `/proc/self/fd` would allocate, which is forbidden between fork
        // and exec.
        if unsafe { syscall(SYS_close_range, 3 as c_uint, c_uint::MAX, CLOSE_RANGE_CLOEXEC) } == 0 {
            return Ok(());
        }
    }
    /// Fallback for systems without `close_range` (Linux before 5.11): numbers up to the usual soft limit.
    const LIKELY: i32 = 1024;
    for number in 3..LIKELY {
        // SAFETY: borrowed for two calls that fail with EBADF when it is not open.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = rustix::io::fcntl_getfd(fd) {
            rustix::io::fcntl_setfd(fd, flags | rustix::io::FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

/// Makes the child the leader of a new session, with default signals. If `terminal` is set, its stdin becomes the
/// controlling terminal of the session.
pub(super) fn lead_session(command: &mut Command, terminal: bool) {
    let prepare = move || {
        // Before anything that a blocked signal could interrupt or keep from ending.
        reset_signals()?;
        rustix::process::setsid()?;
        if terminal {
            // SAFETY: std has placed the child's stdin at 0 by now, and nothing closes it during the call.
            // Only the leader of a session without a terminal may do this, so `setsid` comes first.
            rustix::process::ioctl_tiocsctty(unsafe { BorrowedFd::borrow_raw(0) })?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only; it neither allocates nor locks nor touches shared memory.
    unsafe { command.pre_exec(prepare) };
}

/// Starts the child with default signals.
pub(super) fn with_default_signals(command: &mut Command) {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(reset_signals) };
}

/// Lowers the child's priority by so many steps.
pub(super) fn stand_back(command: &mut Command, steps: i32) {
    let lower = move || {
        // A child that may not goes on as it is.
        let _ = rustix::process::nice(steps);
        Ok(())
    };
    // SAFETY: the closure makes a system call only.
    unsafe { command.pre_exec(lower) };
}

/// Resets ignored and blocked signals, which would otherwise survive exec: an agent that inherits an ignored SIGTERM
/// could not be asked to end.
fn reset_signals() -> io::Result<()> {
    for each in Signal::iterator() {
        // SAFETY: sets the default action, no handler. It fails for KILL and STOP, which have no other.
        let _ = unsafe { signal(each, SigHandler::SigDfl) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}

/// Wakes a single-threaded process of ours, such as the guardian, when a signal arrives or a child ends. Created once,
/// before anything else.
#[derive(Debug)]
pub(crate) struct Wakeups {
    #[cfg(target_os = "linux")]
    signals: Option<nix::sys::signalfd::SignalFd>,
}

impl Wakeups {
    /// Blocks SIGCHLD and the signals that usually end a process, so that they are read from a descriptor instead.
    pub(crate) fn new() -> Self {
        // An ignored SIGCHLD, inherited from the parent, would make the kernel reap our children and lose their status.
        // SAFETY: sets the default action, no handler.
        let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
        let blocked = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGTSTP,
            Signal::SIGUSR1,
            Signal::SIGUSR2,
            Signal::SIGCHLD,
        ];
        let blocked = blocked.into_iter().collect::<SigSet>();
        // Fails only for unknown signals.
        let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None);
        #[cfg(target_os = "linux")]
        {
            use nix::sys::signalfd::{SfdFlags, SignalFd};
            // Close-on-exec: the agent must not read our signals.
            let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
            Self { signals: SignalFd::with_flags(&blocked, flags).ok() }
        }
        #[cfg(not(target_os = "linux"))]
        Self {}
    }

    /// Returns a descriptor that becomes readable when a signal has arrived, where the system has one.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        #[cfg(target_os = "linux")]
        return self.signals.as_ref().map(std::os::fd::AsFd::as_fd);
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Returns the polling interval for ended children, where no descriptor reports them.
    pub(crate) fn tick(&self) -> Option<Duration> {
        self.fd().is_none().then_some(Duration::from_millis(20))
    }

    /// Takes the signals that have arrived, and returns true if one asked this process to end.
    pub(crate) fn clear(&mut self) -> bool {
        let mut is_asked = false;
        #[cfg(target_os = "linux")]
        // Pending signals merge, so one reading does not say how many children have ended. The caller reaps
        // all.
        while let Some(signals) = &self.signals
            && let Ok(Some(signal)) = signals.read_signal()
        {
            is_asked |= i32::try_from(signal.ssi_signo) == Ok(Signal::SIGTERM as i32);
        }
        is_asked
    }
}
