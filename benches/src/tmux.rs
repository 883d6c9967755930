//! A tmux server of our own, to compare with.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server under a socket name of its own; killed when it is dropped.
#[derive(Debug)]
pub struct Tmux {
    socket: String,
}

impl Tmux {
    /// Starts a server with one session that only keeps it. Returns `None` where tmux is not installed.
    #[must_use]
    pub fn start() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // A name of its own each time: the server before may not be gone yet.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { socket: format!("watchfire-bench-{}-{count}", std::process::id()) };
        // The first session starts the server, which is not what is measured.
        tmux.run(&["new-session", "-d", "-s", "keep", "sleep 1000000"])?;
        Some(tmux)
    }

    /// Returns the process id of the server.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.run(&["display-message", "-p", "#{pid}"])?.trim().parse().ok()
    }

    /// Runs a command, and returns what it printed, if it went well.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Option<String> {
        let output = self.command(words).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns a command for the server.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(words);
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}
