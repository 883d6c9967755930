//! The end of a session's time limit.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::files::{read_untrusted, replace};

/// End of a time limit, in boot time. The limit stands still while the agent waits for a person or for an issue to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deadline {
    at: Duration,
    /// Time since which the agent waits. Kept here and not in a future, because each phase of the end of a session drops
    /// the future that waits for the deadline, and begins another.
    waits_since: Option<Duration>,
}

impl Deadline {
    pub(crate) fn new(at: Duration) -> Self {
        Self { at, waits_since: None }
    }

    /// Reads the deadline of a session that an earlier program began since the machine started. Returns `None` without a
    /// file that can be read.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&read_untrusted(path, 4096).ok()??).ok()
    }

    /// Writes it for the program that takes the session over. Blocks.
    pub(in crate::session) fn write(&self, path: &Path) -> Result<()> {
        replace(path, serde_json::json!(self).to_string().as_bytes())
    }

    /// Returns true if it had passed at `moment`.
    pub(crate) fn had_passed(&self, moment: Duration) -> bool {
        self.waits_since.is_none() && moment >= self.at
    }

    /// Takes in whether the agent waits at `now`, and returns the deadline, or `None` while it stands still.
    pub(in crate::session) fn at(&mut self, waits: bool, now: Duration) -> Option<Duration> {
        match (waits, self.waits_since) {
            (true, None) => self.waits_since = Some(now),
            (true, Some(_)) => {}
            (false, since) => {
                self.at += since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
                self.waits_since = None;
            }
        }
        (!waits).then_some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deadline");
        assert_eq!(Deadline::read(&path), None);
        let mut deadline = Deadline::new(Duration::from_millis(10_500));
        deadline.at(true, Duration::from_secs(4));
        deadline.write(&path).unwrap();
        assert_eq!(Deadline::read(&path), Some(deadline));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Deadline::read(&path), None);
    }

    #[test]
    fn time_spent_waiting_does_not_count_whoever_asks() {
        let seconds = Duration::from_secs;
        let mut deadline = Deadline::new(seconds(10));
        assert_eq!(deadline.at(false, seconds(1)), Some(seconds(10)));
        assert_eq!(deadline.at(true, seconds(4)), None);
        // Another phase asks while the agent still waits.
        assert_eq!(deadline.at(true, seconds(20)), None);
        assert_eq!(deadline.at(false, seconds(34)), Some(seconds(40)));
        assert_eq!(deadline.at(false, seconds(35)), Some(seconds(40)));
    }
}
