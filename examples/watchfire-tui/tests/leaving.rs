//! However it ends, the terminal is as it was: after a panic, while it is stopped, and when the terminal itself is gone.

use std::fs::File;
use std::future::Future;
use std::io::Read as _;
use std::pin::Pin;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use watchfire_core::terminal::{Modes, Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;
use watchfire_tui::{Connect, Options, run};

/// The program on a terminal of 100 by 30.
struct OnTerminal {
    child: Child,
    /// The end that programs have.
    terminal: File,
    /// The person's end. `None` once it is let go.
    ours: Option<File>,
    painted: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts one of the tests below, and reads all that it paints.
    fn start(test: &str) -> Self {
        let shown = Self::unread(test);
        let (mut output, painted) =
            (shown.ours.as_ref().unwrap().try_clone().unwrap(), Arc::clone(&shown.painted));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                painted.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        shown
    }

    fn unread(test: &str) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let terminal = open();
        tcsetwinsize(&terminal, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", test]).env("RUST_BACKTRACE", "0");
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        Self { child, terminal, ours: Some(File::from(ours)), painted: Arc::default() }
    }

    fn screen(&self) -> Arc<Snapshot> {
        let mut shown = Emulator::new(Size::new(100, 30));
        shown.process(&self.painted.lock().unwrap());
        shown.snapshot()
    }

    fn is_as_it_was(&self) -> bool {
        let (left, modes) = (self.screen(), tcgetattr(&self.terminal).unwrap().local_modes);
        let is_cooked = modes.contains(LocalModes::ECHO | LocalModes::ICANON);
        is_cooked && (left.modes, left.cursor.hidden) == (Modes::default(), false)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn shown(connect: Connect) -> std::io::Result<()> {
    let mut options = Options::new("p".to_owned(), connect);
    // What is asked of the terminal nobody answers here.
    options.dark = Some(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(options)).map(drop)
}

#[test]
#[ignore = "started by the other tests, on a terminal"]
fn child_that_panics() {
    println!("ended: {}", shown(Arc::new(|| panic!("on purpose"))).unwrap_err());
}

#[test]
#[ignore = "started by the other tests, on a terminal"]
fn child_that_waits() {
    let connect = || Box::pin(std::future::pending()) as Pin<Box<dyn Future<Output = _> + Send>>;
    // Writing to a terminal that is gone fails, too.
    drop(shown(Arc::new(connect)));
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let mut shown = OnTerminal::start("child_that_panics");
    assert!(shown.child.wait().unwrap().success());
    for words in ["on purpose", "ended: a part of the program failed"] {
        until(words, || shown.screen().text().contains(words));
    }
    assert!(shown.is_as_it_was(), "{:?}", shown.screen().modes);
}

/// `kill -TSTP`, and the shell's `fg`.
#[test]
fn a_stopped_program_gives_the_terminal_back() {
    let shown = OnTerminal::start("child_that_waits");
    until("a picture", || shown.screen().text().contains("Starting daemon"));
    let (pid, options) = (Pid::from_child(&shown.child), WaitOptions::UNTRACED | WaitOptions::NOHANG);
    for _ in 0..2 {
        kill_process(pid, Signal::TSTP).unwrap();
        until("stopped", || waitpid(Some(pid), options).unwrap().is_some_and(|(_, status)| status.stopped()));
        until("the terminal as it was", || shown.is_as_it_was());
        kill_process(pid, Signal::CONT).unwrap();
        until("the picture again", || {
            let screen = shown.screen();
            screen.modes.contains(Modes::ALTERNATE_SCREEN) && screen.text().contains("Starting daemon")
        });
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let mut shown = OnTerminal::unread("child_that_waits");
    // It has the terminal once it has drawn.
    let (mut screen, mut painted) = (shown.ours.take().unwrap(), Vec::new());
    while !String::from_utf8_lossy(&painted).contains("Starting daemon") {
        let mut buffer = [0; 4096];
        let read = screen.read(&mut buffer).unwrap();
        painted.extend_from_slice(&buffer[..read]);
    }
    drop(screen);
    until("the end, without a terminal", || shown.child.try_wait().unwrap().is_some());
}
