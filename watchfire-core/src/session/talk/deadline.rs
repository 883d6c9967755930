//! The end of a session's time limit.

use std::time::Duration;

/// End of a time limit, in boot time. The limit stands still while the agent waits for a person or for an issue to end.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Deadline {
    at: Duration,
    /// Time since which the agent waits. Kept here and not in a future, because each phase of the end of a session drops
    /// the future that waits for the deadline, and begins another.
    waits_since: Option<Duration>,
}

impl Deadline {
    pub(in crate::session) fn new(at: Duration) -> Self {
        Self { at, waits_since: None }
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
