//! What happens in a child between fork and exec, and the signals of a process that is ours alone.

#![expect(unsafe_code, reason = "code between fork and exec, and signal dispositions, are the caller's duty")]

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};

/// Keeps every descriptor from 3 up out of the child, also those that this process inherited itself. To be called
/// before any are placed there.
pub(super) fn close_descriptors(command: &mut Command) {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(mark_descriptors) };
}

/// Marks them close-on-exec, for the standard library still needs its own.
fn mark_descriptors() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::libc::{CLOSE_RANGE_CLOEXEC, SYS_close_range, c_uint, syscall};
        // SAFETY: takes numbers and changes one flag of the descriptors of this child.
        if unsafe { syscall(SYS_close_range, 3 as c_uint, c_uint::MAX, CLOSE_RANGE_CLOEXEC) } == 0 {
            return Ok(());
        }
    }
    /// Where the system cannot do it at once: as far as usual limits let the numbers go.
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

/// Makes the child the leader of a new session, with default signals; its stdin, a terminal, becomes the session's
/// controlling terminal if `terminal`.
pub(super) fn lead_session(command: &mut Command, terminal: bool) {
    let prepare = move || {
        reset_signals()?;
        rustix::process::setsid()?;
        if terminal {
            // SAFETY: std has placed the child's stdin at 0 by now, and nothing closes it during the call.
            rustix::process::ioctl_tiocsctty(unsafe { BorrowedFd::borrow_raw(0) })?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only; it neither allocates nor locks nor touches shared memory.
    unsafe { command.pre_exec(prepare) };
}

/// Lets the child start with default signals.
pub(super) fn with_default_signals(command: &mut Command) {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(reset_signals) };
}

/// Ignored and blocked signals pass through exec; a child of ours starts with none.
fn reset_signals() -> io::Result<()> {
    for each in Signal::iterator() {
        // SAFETY: sets the default action, no handler. It fails for KILL and STOP, which have no other.
        let _ = unsafe { signal(each, SigHandler::SigDfl) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}

/// Tells a process of ours, of one thread, that a child may have ended; made once, first.
#[derive(Debug)]
pub(crate) struct Wakeups {
    #[cfg(target_os = "linux")]
    signals: Option<nix::sys::signalfd::SignalFd>,
}

impl Wakeups {
    /// Blocks the signals by which such a process is usually ended, and that of its children.
    pub(crate) fn new() -> Self {
        // An ignored SIGCHLD, inherited from whoever started us, would make the kernel reap our children.
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
        // Fails for unknown signals only.
        let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None);
        #[cfg(target_os = "linux")]
        {
            use nix::sys::signalfd::{SfdFlags, SignalFd};
            let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
            Self { signals: SignalFd::with_flags(&blocked, flags).ok() }
        }
        #[cfg(not(target_os = "linux"))]
        Self {}
    }

    /// Readable when a signal has come.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        #[cfg(target_os = "linux")]
        return self.signals.as_ref().map(std::os::fd::AsFd::as_fd);
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// How often to look for ended children where nothing tells.
    pub(crate) fn tick(&self) -> Option<Duration> {
        self.fd().is_none().then_some(Duration::from_millis(20))
    }

    /// Takes the signals that have come.
    pub(crate) fn clear(&mut self) {
        #[cfg(target_os = "linux")]
        while let Some(signals) = &self.signals
            && let Ok(Some(_)) = signals.read_signal()
        {}
    }
}
