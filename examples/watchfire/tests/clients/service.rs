//! The daemon, which is killed, and replaced by another copy of the program.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use watchfire_client::DaemonFile;

use crate::clock::Clock;
use crate::support::{World, program, until};

pub(crate) struct Service<'a> {
    world: &'a World,
    /// Two copies of the program: the first one is started next.
    programs: [PathBuf; 2],
    clock: Clock,
}

impl<'a> Service<'a> {
    pub(crate) fn start(world: &'a World) -> Self {
        let copy = world.empty("new").join("watchfire");
        fs::copy(program(), &copy).unwrap();
        let service = Self { world, programs: [program(), copy], clock: Clock::new(world) };
        service.run("start");
        service
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Kills it, and starts it again.
    pub(crate) fn kill(&self) {
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::KILL).unwrap();
        }
        self.run("start");
    }

    /// Has the other copy of the program take its place.
    pub(crate) fn upgrade(&mut self) {
        self.programs.reverse();
        self.run("restart");
    }

    /// Its memory in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let pid = self.pid().unwrap().as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    fn pid(&self) -> Option<Pid> {
        let file = DaemonFile::read(&self.home()).ok()??;
        let pid = i32::try_from(file.pid).unwrap();
        // The file of one that was killed stays, and its number may be another's by now.
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        command.windows(6).any(|part| part == b"daemon").then(|| Pid::from_raw(pid).unwrap())
    }

    fn home(&self) -> PathBuf {
        self.world.path("watchfire-home")
    }

    fn run(&self, word: &str) {
        // Somebody may start it at the same time, or kill it.
        until("the daemon starts", || {
            let at = self.world.folder.path();
            let mut command = self.world.command_of(&self.programs[0], at, ["daemon", word, "--json"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.envs(self.clock.variables()).status().unwrap().success()
        });
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.world.command(self.world.folder.path(), ["daemon", "stop", "--agents"]).output();
    }
}

/// Waits until `done` says so. Returns false if that takes longer than `time`.
pub(crate) fn within(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    true
}
