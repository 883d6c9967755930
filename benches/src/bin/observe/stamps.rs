//! Lines with the time at which they were printed.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The role of this program that prints.
pub(crate) const PRINT: &str = "print-lines";

/// What was measured of one run.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Milliseconds from the print of a line to its reader.
    pub(crate) delays: Vec<f64>,
    /// Seconds of CPU.
    pub(crate) cpu: f64,
    /// Lines that did not arrive.
    pub(crate) missing: usize,
}

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Prints `lines`, with a pause of so many microseconds after each.
pub(crate) fn print(lines: usize, pause: u64) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for _ in 0..lines {
        // Ends with a letter, so that half a number is none.
        let written = writeln!(out, "T{}E", now()).and_then(|()| out.flush());
        if written.is_err() {
            return ExitCode::FAILURE;
        }
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
    ExitCode::SUCCESS
}

/// Finds stamps in text that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    rest: String,
    pub(crate) delays: Vec<f64>,
}

impl Stamps {
    pub(crate) fn read(&mut self, text: &str) {
        let now = now();
        self.rest.push_str(text);
        let mut from = 0;
        while let Some(start) = self.rest[from..].find('T').map(|at| from + at) {
            let Some(end) = self.rest[start..].find('E').map(|at| start + at) else {
                from = start;
                break;
            };
            if let Ok(stamp) = self.rest[start + 1..end].parse::<u64>() {
                self.delays.push(now.saturating_sub(stamp) as f64 / 1e6);
            }
            from = end + 1;
        }
        self.rest.drain(..from);
    }
}
