//! A program on a terminal that our emulator plays, near or far.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use watchfire_benches::{millis, proc};
use watchfire_core::terminal::{Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;

use crate::world::Done;

const SIZE: Size = Size::new(120, 40);
/// The longest time for a key, or for words to appear.
const LONGEST: Duration = Duration::from_secs(60);

/// The line between the program and the terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line {
    /// None.
    Near,
    /// 50 KB a second from the program, and 100 ms each way.
    Far,
}

impl Line {
    const SPEED: f64 = 50_000.0;

    fn delay(self) -> Duration {
        if self == Self::Far { Duration::from_millis(100) } else { Duration::ZERO }
    }
}

/// The part of a picture in which the effect of a key is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Anywhere, looks included.
    Anywhere,
    /// The row of our selection mark.
    Pointer,
    /// Text of the first columns, without the last row.
    Left(usize),
}

impl Effect {
    fn of(self, picture: &Snapshot) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (row, line) in picture.lines.iter().enumerate() {
            match self {
                Self::Anywhere => {
                    for (run, text) in line.runs() {
                        (run.style, text).hash(&mut hasher);
                    }
                }
                Self::Pointer if line.text().chars().nth(1) == Some('▸') => row.hash(&mut hasher),
                Self::Pointer => {}
                Self::Left(_) if row + 1 == picture.lines.len() => {}
                Self::Left(columns) => {
                    line.text().chars().take(columns).collect::<String>().trim_end().hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

struct Seen {
    terminal: Emulator,
    bytes: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { terminal: Emulator::new(SIZE), bytes: 0 }
    }
}

/// A program.
pub(crate) struct Program {
    child: Child,
    keys: Sender<(Instant, Vec<u8>)>,
    line: Line,
    pub(crate) effect: Effect,
    shared: Arc<Shared>,
}

impl Program {
    /// Starts a program in a folder. `None`: there is no such program.
    pub(crate) fn start(argv: &[&str], at: &Path, line: Line) -> Option<Self> {
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(argv).current_dir(at);
        let has = |folder: &Path| folder.join(argv[0]).is_file();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        if !argv[0].contains('/') && !std::env::split_paths(&paths).any(|folder| has(&folder)) {
            return None;
        }
        Self::begin(command, line).ok()
    }

    /// Starts a command.
    pub(crate) fn begin(mut command: Command, line: Line) -> Done<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let open = || File::options().read(true).write(true).open(name.to_string_lossy().as_ref());
        let terminal = open()?;
        tcsetwinsize(&terminal, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })?;
        command.env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
        let child = command.stdin(open()?).stdout(open()?).stderr(open()?).spawn()?;
        let shared = Arc::new(Shared::default());
        let (mut output, mut input) = (File::from(ours.try_clone()?), File::from(ours));
        let (keys, typed) = channel::<(Instant, Vec<u8>)>();
        std::thread::spawn(move || {
            late(&typed, |bytes| {
                let _ = input.write_all(&bytes);
            });
        });
        let (sender, arriving) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                if line == Line::Far {
                    std::thread::sleep(Duration::from_secs_f64(read as f64 / Line::SPEED));
                }
                if sender.send((Instant::now() + line.delay(), buffer[..read].to_vec())).is_err() {
                    return;
                }
            }
        });
        let (showing, answers) = (Arc::clone(&shared), keys.clone());
        std::thread::spawn(move || {
            late(&arriving, |bytes| {
                let mut seen = showing.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.terminal.process(&bytes);
                seen.bytes += bytes.len() as u64;
                let replies = seen.terminal.take_replies();
                showing.changed.notify_all();
                drop(seen);
                let _ = answers.send((Instant::now() + line.delay(), replies));
            });
        });
        Ok(Self { child, keys, line, effect: Effect::Anywhere, shared })
    }

    /// Types.
    pub(crate) fn send(&self, text: &str) {
        let _ = self.keys.send((Instant::now() + self.line.delay(), text.as_bytes().to_vec()));
    }

    fn wait_until(&self, mut is_so: impl FnMut(&Snapshot) -> bool, what: &str) -> Done {
        let deadline = Instant::now() + LONGEST;
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_so(&seen.terminal.snapshot()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("never {what} in:\n{}", seen.terminal.snapshot().text()).into());
            }
            let (next, _) =
                self.shared.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner);
            seen = next;
        }
        Ok(())
    }

    /// Waits until words are on the screen.
    pub(crate) fn wait(&self, words: &str) -> Done {
        self.wait_until(|picture| picture.text().contains(words), words)
    }

    /// Waits until nothing has changed for half a second.
    pub(crate) fn settle(&self) {
        let bytes = || self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).bytes;
        let mut before = u64::MAX;
        while before != bytes() {
            before = bytes();
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Presses a key, and returns the milliseconds until its effect is seen.
    pub(crate) fn press(&mut self, key: &str) -> Done<f64> {
        // As people do, and not at the same place of every period.
        std::thread::sleep(Duration::from_millis(37));
        let effect = self.effect;
        let before =
            effect.of(&self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).terminal.snapshot());
        let began = Instant::now();
        self.send(key);
        self.wait_until(|picture| effect.of(picture) != before, key)?;
        Ok(millis(began))
    }

    /// Returns the CPU of one core, in percent, and the bytes a second over a time in which nothing is pressed.
    pub(crate) fn rest(&self, time: Duration) -> (f64, f64) {
        let now = || {
            let bytes = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).bytes;
            (proc::cpu(self.child.id()).unwrap_or_default(), bytes)
        };
        let (cpu, bytes) = now();
        std::thread::sleep(time);
        let (cpu_then, bytes_then) = now();
        let seconds = time.as_secs_f64();
        ((cpu_then - cpu) / seconds * 100.0, (bytes_then - bytes) as f64 / seconds)
    }
}

/// Hands on what comes, each at its time.
fn late(coming: &Receiver<(Instant, Vec<u8>)>, mut then: impl FnMut(Vec<u8>)) {
    while let Ok((at, bytes)) = coming.recv() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if !bytes.is_empty() {
            then(bytes);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
