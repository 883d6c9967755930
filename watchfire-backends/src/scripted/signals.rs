//! Signals to the scripted agent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use signal_hook::consts::signal::{SIGINT, SIGWINCH};
use signal_hook::iterator::Signals;

use super::screen;

/// Watches for resizes and interrupts, and remembers them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    interrupts: Arc<AtomicU64>,
    /// Number of signals that an action has answered.
    answered: Arc<AtomicU64>,
}

impl Watch {
    /// Starts to watch: every SIGWINCH prints the new size; SIGINT interrupts the running action, twice within a
    /// second ends the program.
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

    /// Returns a test for an interrupt that no action has answered. One that came between two
    /// actions is for the next that waits.
    pub(super) fn interrupted(&self) -> impl Fn() -> bool + use<> {
        let Self { interrupts, answered } = self.clone();
        move || interrupts.load(Ordering::SeqCst) != answered.load(Ordering::SeqCst)
    }

    /// Marks the interrupts until now as answered.
    pub(super) fn answer(&self) {
        self.answered.store(self.interrupts.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// From now on `signal` does nothing. SIGKILL is refused.
pub(super) fn ignore(signal: i32) -> io::Result<()> {
    // A handler that only sets a flag replaces the deadly default; it ends with this program, unlike SIG_IGN,
    // which children would inherit.
    signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map(|_| ())
}
