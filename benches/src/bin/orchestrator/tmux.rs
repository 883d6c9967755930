//! A tmux server of our own, to compare with.

use std::process::{Command, Stdio};
use std::time::Instant;

use watchfire_benches::millis;

use crate::world::IDLE;

/// A server under a socket name of its own; killed when it is dropped.
pub(crate) struct Tmux {
    socket: String,
}

impl Tmux {
    /// None where tmux is not installed.
    pub(crate) fn start() -> Option<Self> {
        // A name of its own each time: the server before may not be gone yet.
        let socket = format!("watchfire-bench-{}-{}", std::process::id(), crate::world::now_nanos());
        let tmux = Self { socket };
        // The first session starts the server, which is not what is measured.
        tmux.run(&["new-session", "-d", "-s", "keep", IDLE])?;
        Some(tmux)
    }

    /// From `new-session` to the first byte on its screen, in milliseconds.
    pub(crate) fn first_byte(&self) -> Option<f64> {
        let start = Instant::now();
        self.run(&["new-session", "-d", "-s", "one", IDLE])?;
        while self.run(&["capture-pane", "-p", "-t", "one"])?.trim().is_empty() {}
        let took = millis(start);
        self.run(&["kill-session", "-t", "one"])?;
        Some(took)
    }

    /// Starts idle sessions up to `count`.
    pub(crate) fn fill(&self, from: usize, count: usize) -> Option<()> {
        (from..count)
            .try_for_each(|n| self.run(&["new-session", "-d", "-s", &format!("idle-{n}"), IDLE]).map(|_| ()))
    }

    /// The process id of the server.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.run(&["display-message", "-p", "#{pid}"])?.trim().parse().ok()
    }

    fn run(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(words).stderr(Stdio::null());
        let output = command.output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}
