//! A home with a daemon.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::{World, until};

/// A home with a daemon, which ends with the test.
pub(crate) struct WithDaemon(pub(crate) World);

impl WithDaemon {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let home = world.empty("watchfire-home");
        // The sandboxes have tests of their own.
        let settings = "version: 1\ndefaults:\n  default_sandbox: none\n  auto_start_tasks: false\n";
        fs::write(home.join("settings.yaml"), settings).unwrap();
        Self(world)
    }

    pub(crate) fn shop(&self) -> PathBuf {
        self.0.project("shop", "")
    }

    pub(crate) fn started(&self, root: &Path) -> serde_json::Value {
        self.0.run(root, ["daemon", "start", "--json"]).good().json()
    }

    pub(crate) fn pid(&self, root: &Path) -> Pid {
        let pid = self.started(root)["pid"].as_u64().unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    /// Kills the daemon, and waits until it is gone: its socket takes connections up to its last moment.
    pub(crate) fn kill(&self, root: &Path) {
        let pid = self.pid(root);
        kill_process(pid, Signal::KILL).unwrap();
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        // A zombie has closed its files.
        let has_left =
            |stat: String| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
        until("the daemon is gone", || fs::read_to_string(&stat).map_or(true, has_left));
    }

    pub(crate) fn is_running(&self, root: &Path, task: u64) -> bool {
        let status = self.0.run(root, ["agent", "status", "--json"]).good().json();
        let agents = status["agents"].as_array().unwrap().clone();
        agents.iter().any(|agent| agent["task"] == task && agent["running"] == true)
    }
}

impl Drop for WithDaemon {
    fn drop(&mut self) {
        // It may have ended.
        let stop = self.0.command(self.0.folder.path(), ["daemon", "stop", "--agents"]).output();
        drop(stop);
    }
}
