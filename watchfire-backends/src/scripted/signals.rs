//! Handles the signals to the scripted agent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use signal_hook::consts::signal::{SIGINT, SIGWINCH};
use signal_hook::iterator::Signals;

use super::screen;

/// Watcher of resizes and interrupts.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    interrupts: Arc<AtomicU64>,
    /// Number of signals that an action has answered.
    answered: Arc<AtomicU64>,
}

impl Watch {
    /// Starts to watch. Every SIGWINCH prints the new size. SIGINT interrupts the running action, and twice within a
    /// second it ends the program.
    pub(super) fn start() -> io::Result<Self> {
        let watch = Self::default();
        let interrupts = Arc::clone(&watch.interrupts);
        let mut signals = Signals::new([SIGINT, SIGWINCH])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut last: Option<Instant> = None;
            for signal in signals.forever() {
                if signal == SIGWINCH {
                    if let Some((cols, rows)) = screen::size() {
                        let _ = screen::say(&format!("\r\x1b[2Ksize: {cols}x{rows}"));
                    }
                } else {
                    if last.is_some_and(|last| last.elapsed().as_secs() < 1) {
                        // 128 + SIGINT, as shells report it.
                        std::process::exit(130);
                    }
                    last = Some(Instant::now());
                    interrupts.fetch_add(1, Ordering::SeqCst);
                    let _ = screen::say("interrupted");
                }
            }
        })?;
        Ok(watch)
    }

    /// Returns a function that is true while an interrupt is not answered. An interrupt between two actions counts
    /// for the next action that waits.
    pub(super) fn interrupted(&self) -> impl Fn() -> bool + use<> {
        let Self { interrupts, answered } = self.clone();
        move || interrupts.load(Ordering::SeqCst) != answered.load(Ordering::SeqCst)
    }

    /// Marks the interrupts until now as answered.
    pub(super) fn answer(&self) {
        self.answered.store(self.interrupts.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// Ignores `signal` from now on. SIGKILL is rejected.
pub(super) fn ignore(signal: i32) -> io::Result<()> {
    // A handler that only sets a flag replaces the deadly default. It ends with this program; children would
    // inherit SIG_IGN.
    signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map(|_| ())
}
