//! Finds what is news for the person. Pure: no clock, no output.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use watchfire_core::schedule::{Change, Ending, Life, LifeId, LifeState, Subject};

/// Largest number of notifications of one kind within [`WHILE`]. A person who gets that many looks anyway.
const MOST: usize = 10;
const WHILE: Duration = Duration::from_secs(60);

/// Returns true for work that came to nothing, unless its person or the end of the program ended it: that is no news to them.
pub(crate) fn is_failure(how: &Ending) -> bool {
    !how.is_good() && !matches!(how, Ending::Stopped { .. } | Ending::Closed)
}

/// Something that the person should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct News {
    /// `asks`, `limited`, `held`, `failed` or `over`.
    pub(super) event: &'static str,
    /// Text for the person. It may quote an agent.
    pub(super) message: String,
}

/// Episodes that were announced. Each is announced once: a task that goes on asking is not news.
#[derive(Debug, Default)]
pub(super) struct Episodes {
    open: BTreeMap<LifeId, &'static str>,
    /// By kind, so that many failures keep no question and no end of a run from the person.
    told: BTreeMap<&'static str, VecDeque<Instant>>,
}

impl Episodes {
    /// Takes in a change, and returns the news in it, if there is any.
    pub(super) fn take_in(&mut self, change: &Change) -> Option<News> {
        match change {
            // The person is there.
            Change::Life(life) if life.subject == Subject::Chat => None,
            Change::Life(life) => self.life(life),
            Change::Run(run) => {
                let summary = run.summary()?;
                let good = summary.endings.values().filter(|ending| ending.is_good()).count();
                let bad = summary.endings.len() - good;
                let waiting = summary.open.len() + summary.waiting.len();
                let counts = [(good, "done"), (bad, "not done"), (waiting, "waiting")];
                let parts: Vec<_> = counts
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, what)| format!("{count} {what}"))
                    .collect();
                let message = if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") };
                Some(News { event: "over", message })
            }
            _ => None,
        }
    }

    fn life(&mut self, life: &Life) -> Option<News> {
        let event = match &life.state {
            LifeState::Asking { .. } => "asks",
            LifeState::Limited { .. } => "limited",
            LifeState::Held { .. } | LifeState::Incomplete { .. } => "held",
            LifeState::Ended { how, .. } => {
                self.open.remove(&life.id);
                let message = how.reason().map_or_else(|| how.word().to_owned(), Cow::into_owned);
                return is_failure(how).then_some(News { event: "failed", message });
            }
            // It goes on. In other states, such as that in which its work is captured, it still waits for the same.
            LifeState::Starting | LifeState::Running => {
                self.open.remove(&life.id);
                return None;
            }
            _ => return None,
        };
        let before = self.open.insert(life.id, event);
        let message = life.state.detail().unwrap_or_default();
        (before != Some(event)).then_some(News { event, message })
    }

    /// Returns true if one more of this kind may be announced now, and counts it.
    pub(super) fn may_tell(&mut self, event: &'static str, now: Instant) -> bool {
        let told = self.told.entry(event).or_default();
        while told.front().is_some_and(|first| now.saturating_duration_since(*first) > WHILE) {
            told.pop_front();
        }
        if told.len() >= MOST {
            return false;
        }
        told.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::model::{Question, TaskNumber, Timestamp};

    fn life(subject: Subject, state: LifeState) -> Change {
        let mut life = Life::new(LifeId(1), subject, Timestamp::from_unix_millis(0));
        life.state = state;
        Change::Life(Box::new(life))
    }

    #[test]
    fn each_episode_is_told_once() {
        let task = Subject::of_task(TaskNumber::new(3).unwrap());
        let asking = |text: &str| LifeState::asking(vec![Question::new("q", text)]);
        let mut episodes = Episodes::default();
        let mut events = |state| episodes.take_in(&life(task, state)).map(|news| (news.event, news.message));
        assert_eq!(events(LifeState::Running), None);
        assert_eq!(events(asking("Which port?")), Some(("asks", "Which port?".to_owned())));
        assert_eq!(events(asking("Which port?")), None);
        assert_eq!(events(LifeState::Running), None);
        assert_eq!(events(asking("And now?")).map(|it| it.0), Some("asks"));
        let failed = LifeState::ended(Ending::failed("no way"));
        assert_eq!(events(failed), Some(("failed", "no way".to_owned())));
        assert_eq!(events(LifeState::ended(Ending::Nothing)), None);
        assert_eq!(episodes.take_in(&life(Subject::Chat, asking("you there?"))), None);
    }

    #[test]
    fn a_flood_is_cut_off() {
        let (mut episodes, now) = (Episodes::default(), Instant::now());
        assert_eq!((0..30).filter(|_| episodes.may_tell("failed", now)).count(), MOST);
        assert!(episodes.may_tell("asks", now), "another kind");
        assert!(episodes.may_tell("failed", now + WHILE * 2));
    }
}
