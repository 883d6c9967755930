//! Reads and changes the person's terminal, and puts it back as it was, even if the program ends in between.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _, stdin, stdout};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::getsid;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, tcgetattr, tcgetsid, tcgetwinsize, tcsetattr, ttyname,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use watchfire_core::terminal::Size;
use watchfire_core::{Error, Result};

/// State of the terminal before we changed it, and the bytes that restore the rest.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    /// `None` if the input is not a terminal.
    modes: Option<Termios>,
    undo: &'static str,
}

/// Sequence that resets everything that a full-screen program may have left: alternate screen, hidden cursor, mouse,
/// paste, key and colour modes.
const RESET: &str = "\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\
    \x1b[<u\x1b[>4;0m\x1b[?1049l\x1b[?25h\x1b[0 q\x1b[0m\r\n";
/// The same of a terminal that was lent to the daemon, which may have been killed in the middle of a sequence, while it drew in a part of the
/// screen and without wrapping.
const TAKE_BACK: &str = "\x18\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b[?5l\x1b[?66l\x1b>\
    \x1b[=0u\x1b[>4;0m\x1b[r\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0 q\x1b[0m\r\n";
const SHOW_CURSOR: &str = "\x1b[0m\x1b[?25h";
const HIDE_CURSOR: &str = "\x1b[?25l";

/// Returns the size of the terminal that we print to, or 80 by 24 if it does not report one.
pub(crate) fn size() -> Size {
    match tcgetwinsize(stdout()) {
        // A pseudo-terminal without a size reports 0 by 0.
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
        _ => Size::default(),
    }
}

/// Returns the number of columns to print in: of the terminal; in a pipe `$COLUMNS`, or else those of the terminal that started us,
/// or else 80.
pub(crate) fn columns() -> usize {
    let of = |terminal: BorrowedFd<'_>| {
        tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    of(stdout().as_fd())
        .or_else(told)
        .or_else(|| of(stdin().as_fd()))
        .or_else(|| of(std::io::stderr().as_fd()))
        .or_else(|| of(std::fs::File::open("/dev/tty").ok()?.as_fd()))
        .unwrap_or(80)
}

/// Returns true for a terminal that cannot place a cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Returns true if a person can type and read here.
pub(crate) fn is_interactive() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Asks a question on stderr. Returns true if the person says yes.
pub(crate) async fn ask(question: &str) -> Result<bool> {
    Ok(matches!(read(question).await?.trim(), "y" | "Y" | "yes"))
}

/// Asks a question on stderr, and returns the line that the person types.
pub(crate) async fn read(question: &str) -> Result<String> {
    let mut out = std::io::stderr();
    // If stderr cannot be written, there is no place left to report that.
    let _ = out.write_all(question.as_bytes()).and_then(|()| out.flush());
    let (send, answer) = oneshot::channel();
    // In a thread of its own, which nothing waits for: no signal ends a read from a terminal.
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = stdin().lock().read_line(&mut answer);
        send.send(read.map(|_| answer))
    });
    let answer = answer.await.unwrap_or_else(|_| Ok(String::new()));
    answer.map_err(|error| Error::io("reading the answer", error))
}

/// Guard that puts the terminal back when dropped.
#[derive(Debug)]
pub(crate) struct Changed(());

impl Drop for Changed {
    fn drop(&mut self) {
        restore();
    }
}

/// Switches to raw mode: every key reaches the program at once, without an echo, and no key becomes a signal.
pub(crate) fn raw() -> Result<Changed> {
    // A terminal that knows no sequences gets what its agent says, and none of ours.
    change(if is_dumb() { "\r\n" } else { RESET }, Termios::make_raw)
}

/// Switches to raw mode, for a terminal that is lent to the daemon.
pub(crate) fn raw_to_lend() -> Result<Changed> {
    change(TAKE_BACK, Termios::make_raw)
}

/// Turns off the echo and hides the cursor, for drawing. Ctrl+C still sends a signal.
pub(crate) fn quiet() -> Result<Changed> {
    let changed = change(SHOW_CURSOR, |modes| modes.local_modes.remove(LocalModes::ECHO))?;
    write(HIDE_CURSOR);
    Ok(changed)
}

/// Puts the terminal back as it was. Does nothing if it was not changed.
pub(crate) fn restore() {
    // `take`, so that the second caller, such as a destructor after a signal, does nothing.
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Before { modes, undo }) = before {
        write(undo);
        if let Some(modes) = modes {
            // A failure is ignored: it means that the terminal is gone.
            // `Drain` waits until the terminal has taken the sequence above.
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &modes);
        }
    }
}

fn change(undo: &'static str, edit: impl FnOnce(&mut Termios)) -> Result<Changed> {
    let failed = |error: rustix::io::Errno| Error::io("changing the terminal's modes", error.into());
    let modes = stdin().is_terminal().then(|| tcgetattr(stdin()).map_err(failed)).transpose()?;
    // Stored before the change: a signal in between must find it.
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { modes: modes.clone(), undo });
    let changed = Changed(());
    if let Some(mut wanted) = modes {
        edit(&mut wanted);
        tcsetattr(stdin(), OptionalActions::Now, &wanted).map_err(failed)?;
    }
    Ok(changed)
}

fn write(sequence: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
}

/// Opens the person's terminal once more: a description of its own, which does not block, while that of the shell stays as it is.
///
/// # Errors
/// I/O errors of the last way that was tried.
pub(crate) fn own() -> io::Result<OwnedFd> {
    let device = |fd: BorrowedFd<'_>| fstat(fd).map(|stat| stat.st_rdev);
    // One may be known as `/dev/tty`: a session has but one terminal.
    let is_one = device(stdin().as_fd())? == device(stdout().as_fd())?
        || tcgetsid(stdin()).is_ok_and(|session| tcgetsid(stdout()) == Ok(session));
    if !is_one {
        return Err(io::Error::other("standard input and output are two terminals"));
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let by_name = || open(ttyname(stdin(), Vec::new())?, flags, Mode::empty());
    // In a container the name may mean nothing; and after `su` the terminal is another person's, but still ours to use.
    let by_descriptor = || open("/proc/self/fd/0", flags, Mode::empty());
    let by_session = || match tcgetsid(stdin()) == getsid(None) {
        true => open("/dev/tty", flags, Mode::empty()),
        false => Err(Errno::NOTTY),
    };
    Ok(by_name().or_else(|_| by_descriptor()).or_else(|_| by_session())?)
}

/// Returns the number of bytes that were typed and that nobody has read yet.
pub(crate) fn waiting() -> u64 {
    ioctl_fionread(stdin()).unwrap_or_default()
}

/// Reader of the keys that a person types.
#[derive(Debug)]
pub(crate) struct Keyboard(AsyncFd<OwnedFd>);

impl Keyboard {
    /// # Errors
    /// I/O errors, where the input is no terminal.
    pub(crate) fn open() -> io::Result<Self> {
        let own = stdin().as_fd().try_clone_to_owned()?;
        #[expect(deprecated, reason = "sound for an OwnedFd, which is open for as long as it is registered")]
        AsyncFd::with_interest(own, Interest::READABLE).map(Self)
    }

    /// Waits for the next bytes. Cancel safe. Returns `None` once the terminal is gone. Until this is called, the kernel keeps what is
    /// typed.
    pub(crate) async fn recv(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut ready = self.0.readable().await.ok()?;
            // The descriptor is the shell's too, and must stay one that blocks: only what is there is read.
            if !has_input(self.0.get_ref()) {
                ready.clear_ready();
                continue;
            }
            let mut typed = vec![0; 4096];
            let read = rustix::io::read(self.0.get_ref(), &mut typed).ok().filter(|read| *read > 0)?;
            typed.truncate(read);
            return Some(typed);
        }
    }
}

/// Returns true if a read would not wait, also where it would fail.
fn has_input(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use watchfire_core::terminal::Modes;
    use watchfire_term::diff;

    use super::*;

    #[test]
    fn what_a_daemon_turns_on_is_turned_off() {
        let modes = diff::modes(Modes::from_bits(u16::MAX), Modes::default());
        for sequence in modes.split_inclusive(|last: char| last.is_ascii_alphabetic()) {
            assert!(TAKE_BACK.contains(sequence), "{sequence:?}");
        }
    }
}
