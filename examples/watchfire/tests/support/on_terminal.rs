//! The program on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;

use super::{World, until};

/// The program on a terminal of its own.
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    pub(crate) keys: File,
    /// Our own handle of the terminal, to look at its modes.
    pub(crate) terminal: OwnedFd,
    painted: Arc<Mutex<Vec<u8>>>,
    /// While this is locked, the terminal takes no output beyond what the kernel buffers.
    pub(crate) stalled: Arc<Mutex<()>>,
    reader: std::thread::JoinHandle<()>,
}

impl OnTerminal {
    /// Starts the program on a terminal that says nothing of itself.
    pub(crate) fn start(world: &World, at: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::begin(world, at, args, variables, None)
    }

    /// Starts the program on a terminal that answers what it is asked, as our emulator does.
    pub(crate) fn answering(world: &World, at: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::begin(world, at, args, variables, Some(Emulator::new(Size::new(100, 30))))
    }

    fn begin(
        world: &World,
        at: &Path,
        args: &[&str],
        variables: &[(&str, &str)],
        mut answering: Option<Emulator>,
    ) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let open = || {
            use rustix::fs::OFlags;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let terminal = open();
        tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = world.command(at, args);
        command.envs(variables.iter().copied()).stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().unwrap();
        let mut screen = File::from(ours);
        let keys = screen.try_clone().unwrap();
        let mut answers = screen.try_clone().unwrap();
        let painted = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&painted);
        let stalled = Arc::new(Mutex::new(()));
        let stall = Arc::clone(&stalled);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
                if let Some(terminal) = &mut answering {
                    terminal.process(&buffer[..read]);
                    // The program may be gone.
                    let _ = answers.write_all(&terminal.take_replies());
                }
                drop(stall.lock().unwrap());
            }
        });
        Self { child, keys, terminal, painted, stalled, reader }
    }

    pub(crate) fn painted(&self) -> String {
        String::from_utf8_lossy(&self.painted.lock().unwrap()).into_owned()
    }

    /// Returns what is painted, as it grows.
    pub(crate) fn tap(&self) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(&self.painted)
    }

    pub(crate) fn wait_for(&self, part: &str) {
        until(part, || self.painted().contains(part));
    }

    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end: everything that was painted, and the exit code.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(self.echoes(), "the terminal is as it was");
        // What it wrote before its end is on its way. Nothing more comes once no one has the terminal open.
        drop(self.terminal);
        let reader = self.reader;
        until("all is read", || reader.is_finished());
        let painted = String::from_utf8_lossy(&self.painted.lock().unwrap()).into_owned();
        (painted, status.and_then(|status| status.code()))
    }
}
