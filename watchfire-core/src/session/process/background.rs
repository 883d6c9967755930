//! The priority of an agent and its guardian, which stand back behind the orchestrator: it shows many of them to people at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use rustix::io::Errno;

/// Niceness of a guardian, as the program `nice` counts it.
pub(super) const GUARDIAN: i32 = 10;
/// Niceness of its agent beyond that. Twenty agents that print, with twenty guardians at the same step, would leave an orchestrator a third of
/// the machine.
pub(super) const AGENT: i32 = 5;
/// Pause between two tries: Linux takes ten of these changes a second, of all programs together.
const AGAIN: Duration = Duration::from_millis(110);

/// Sets the priority of whole sessions. Linux may weigh each session (`setsid`) as one against all others, whatever the priority of its
/// processes: see *the autogroup feature* in `sched(7)`. Where it does not, nothing changes.
#[derive(Debug, Default)]
pub(super) struct Autogroups(VecDeque<(u32, i32)>);

impl Autogroups {
    /// Has the session of a process stand back by `steps` in all.
    pub(super) fn add(&mut self, pid: u32, steps: i32) {
        self.0.push_back((pid, steps));
    }

    /// Makes the next changes. Not awaited, so that nothing starts later because of many others.
    pub(super) fn step(&mut self) {
        while let Some((pid, steps)) = self.0.front() {
            let file = File::options().write(true).open(format!("/proc/{pid}/autogroup"));
            let written = file.and_then(|mut file| file.write_all(steps.to_string().as_bytes()));
            if written.is_err_and(|error| error.raw_os_error() == Some(Errno::AGAIN.raw_os_error())) {
                return;
            }
            // Done, or this system has no such groups.
            self.0.pop_front();
        }
    }

    /// Returns the time until the next try, if one is left.
    pub(super) fn pause(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(AGAIN)
    }
}
