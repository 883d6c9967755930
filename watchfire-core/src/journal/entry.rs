//! The records of the journal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;
use crate::schedule::{Change, Ledger};
use crate::{Error, ErrorKind};

/// One change with its place in the journal. Unknown content is an error and never skipped: it may be a publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its place, which grows by one with each entry.
    pub seq: u64,
    /// The time of the change.
    pub at: Timestamp,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

impl Entry {
    /// Returns the entry of `change` at place `seq`.
    #[must_use]
    pub fn new(seq: u64, at: Timestamp, change: Change) -> Self {
        Self { seq, at, change }
    }
}

/// State to which the entries so far fold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The place of the last entry; 0 before the first.
    #[serde(default)]
    pub seq: u64,
    /// The lives, runs and what they compete for.
    #[serde(default)]
    pub ledger: Ledger,
}

impl State {
    /// Brings the state up to date with `entry`.
    pub fn apply(&mut self, entry: &Entry) {
        // `max`: a checkpoint may already cover entries that are read again after it.
        self.seq = self.seq.max(entry.seq);
        self.ledger.apply(&entry.change);
    }
}

/// A place in the log of a project: the journal's id and the sequence number of an entry. The same after a restart.
///
/// ```
/// # use watchfire_core::journal::Cursor;
/// let cursor: Cursor = "0a1b2c3d:42".parse()?;
/// assert_eq!(cursor.to_string(), "0a1b2c3d:42");
/// # Ok::<(), watchfire_core::Error>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    pub(crate) journal: Box<str>,
    pub(crate) seq: u64,
}

impl Cursor {
    #[cfg(feature = "runtime")]
    pub(crate) fn new(journal: &str, seq: u64) -> Self {
        Self { journal: journal.into(), seq }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.journal, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || {
            Error::new(ErrorKind::InvalidCursor, "not a cursor of a project's log")
                .with("value", format_args!("{text:?}"))
        };
        let (journal, seq) = text.split_once(':').ok_or_else(malformed)?;
        // Strict, because a cursor comes back from outside.
        let is_id = (1..=64).contains(&journal.len()) && journal.bytes().all(|b| b.is_ascii_alphanumeric());
        let seq = seq.parse().ok().filter(|_| is_id).ok_or_else(malformed)?;
        Ok(Self { journal: journal.into(), seq })
    }
}

impl TryFrom<String> for Cursor {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Attempt, TaskNumber};
    use crate::schedule::{
        Ending, Life, LifeId, LifeState, Notice, NoticeCode, Run, RunEnd, RunId, RunOptions, Scope, Subject,
    };

    pub(in super::super) fn notice(seq: u64, text: &str) -> Entry {
        let change = Change::Notice(Notice::new(NoticeCode::Recovered, text));
        Entry::new(seq, Timestamp::from_unix_millis(0), change)
    }

    /// A run with one task, from its request to its end.
    pub(in super::super) fn story() -> Vec<Entry> {
        let at = Timestamp::from_unix_millis(0);
        let task = TaskNumber::new(1).unwrap();
        let run = Run::new(RunId(1), Scope::All, RunOptions::default(), at.clone());
        let mut life = Life::new(LifeId(1), Subject::Task { task }, at.clone());
        (life.run, life.attempt) = (Some(run.id), Attempt(1));
        let how = Ending::merged(Some("c2".into()), Some("main".into()));
        let states = [
            LifeState::Starting,
            LifeState::Running,
            LifeState::Capturing,
            LifeState::Queued,
            LifeState::Merging,
            LifeState::Verifying { command: "make check".into() },
            LifeState::Ended { how: how.clone() },
        ];
        let mut changes = vec![Change::Run(Box::new(run.clone()))];
        changes.extend(states.map(|state| {
            life.state = state;
            Change::Life(Box::new(life.clone()))
        }));
        let mut ended = run;
        ended.ended = Some(RunEnd::default());
        ended.endings.insert(task, how);
        changes.push(Change::Run(Box::new(ended)));
        changes.into_iter().zip(1..).map(|(change, seq)| Entry::new(seq, at.clone(), change)).collect()
    }

    pub(in super::super) fn folded(entries: &[Entry]) -> State {
        let mut state = State::default();
        entries.iter().for_each(|entry| state.apply(entry));
        state
    }

    #[test]
    fn every_entry_and_state_survives_its_json() {
        for entry in story() {
            let json = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry, "{json}");
        }
        for end in 0..=story().len() {
            let state = folded(&story()[..end]);
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state, "{json}");
        }
    }

    #[test]
    fn cursors_survive_their_text_and_nothing_else_is_one() {
        let cursor: Cursor = "0a1b:7".parse().unwrap();
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for text in ["", "7", ":7", "a:", "a:x", "a b:7", "../x:1"] {
            assert_eq!(text.parse::<Cursor>().unwrap_err().code(), "invalid_cursor", "{text}");
        }
    }

    #[test]
    fn an_unknown_change_is_refused() {
        let json = r#"{"seq":1,"at":"2026-01-01T00:00:00Z","change":"merged_twice"}"#;
        assert!(serde_json::from_str::<Entry>(json).is_err());
    }
}
