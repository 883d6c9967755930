//! Sums of what sessions spent.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::spent::{Spent, SpentRecord};
use crate::model::Dollars;

/// A way to group sessions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CostsBy {
    /// By their tasks.
    Task,
    /// By the days of their last counts.
    Day,
    /// By their agents.
    Agent,
    /// By their runs.
    Run,
    /// Each by itself.
    Session,
}

/// The cost of some sessions, shown as `$1.20`, `at least $1.20` or `not known`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Costs {
    /// Number of sessions.
    pub sessions: usize,
    /// Number of sessions whose cost is not known.
    pub unknown: usize,
    /// The known cost in millionths of a US dollar.
    pub micros: u64,
    /// The tokens.
    pub spent: Spent,
}

impl Costs {
    /// Returns the cost of some sessions.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a SpentRecord>) -> Self {
        let mut sum = Self::default();
        records.into_iter().for_each(|record| sum.add(record));
        sum
    }

    /// Returns the costs of groups of sessions, by the names of the groups.
    #[must_use]
    pub fn grouped(records: &[SpentRecord], by: CostsBy) -> BTreeMap<String, Self> {
        let mut sums = BTreeMap::<_, Self>::new();
        records.iter().for_each(|record| sums.entry(group(record, by)).or_default().add(record));
        sums
    }

    /// Returns the known cost.
    #[must_use]
    pub fn dollars(&self) -> Dollars {
        Dollars::from_micros(self.micros)
    }

    /// Returns true if it may have been more.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.unknown > 0
    }

    fn add(&mut self, record: &SpentRecord) {
        self.sessions += 1;
        // An agent that reported nothing cannot be told from one that cost nothing, so it counts as unknown.
        self.unknown += usize::from(record.spent.is_nothing() || record.spent.cost.is_none());
        self.micros = self.micros.saturating_add(record.known_cost());
        self.spent = self.spent.plus(record.spent);
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unknown {
            0 => write!(f, "{}", self.dollars()),
            unknown if unknown == self.sessions && self.micros == 0 => f.write_str("not known"),
            _ => write!(f, "at least {}", self.dollars()),
        }
    }
}

fn group(record: &SpentRecord, by: CostsBy) -> String {
    let unknown = || "not known".to_owned();
    match by {
        CostsBy::Task => record.task.map_or_else(|| "no task".to_owned(), |task| format!("#{task}")),
        CostsBy::Day => record.at.as_ref().map_or_else(unknown, |at| at.date()),
        CostsBy::Agent => record.agent.as_ref().map_or_else(unknown, ToString::to_string),
        // Numbers are padded to one length, so that the map sorts them.
        CostsBy::Run => record.run.map_or_else(|| "no run".to_owned(), |run| format!("run {:>5}", run.0)),
        CostsBy::Session => record.log.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}
