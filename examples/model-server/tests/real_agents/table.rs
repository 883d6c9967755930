//! The table of a run: agents and transports down, checks across.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// What came of each check, filled in while the checks run.
#[derive(Clone, Default)]
pub(crate) struct Table(Arc<Mutex<Found>>);

#[derive(Default)]
struct Found {
    /// In the order in which they were asked for: an agent with its version, and a transport.
    rows: Vec<(String, &'static str)>,
    columns: Vec<&'static str>,
    cells: BTreeMap<(usize, usize), Outcome>,
}

/// What came of a check.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// It was asked for and has not come to an end.
    NotRun,
    Ok,
    Failed,
    /// It cannot run here.
    Skipped(String),
    /// The agent, or the way to reach it, has nothing to check.
    NotOffered(String),
}

impl Table {
    /// Notes what came of a check.
    pub(crate) fn note(&self, agent: &str, transport: &'static str, check: &'static str, outcome: Outcome) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = place(&mut found.rows, (agent.to_owned(), transport));
        let column = place(&mut found.columns, check);
        found.cells.insert((row, column), outcome);
    }

    /// The table, with the reasons below it; nothing if nothing ran.
    pub(crate) fn print(&self) -> String {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.cells.values().any(|outcome| matches!(outcome, Outcome::Ok | Outcome::Failed)) {
            return String::new();
        }
        let mut reasons: Vec<&str> = Vec::new();
        let mut text = String::from("| agent | by |");
        for column in &found.columns {
            let _ = write!(text, " {} |", column.replace('_', " "));
        }
        let _ = write!(text, "\n|{}\n", "---|".repeat(found.columns.len() + 2));
        for (row, (agent, transport)) in found.rows.iter().enumerate() {
            let mut all = (0..found.columns.len()).filter_map(|column| found.cells.get(&(row, column)));
            if all.all(|outcome| matches!(outcome, Outcome::NotRun | Outcome::NotOffered(_))) {
                continue; // Nobody asked for it.
            }
            let _ = write!(text, "| {agent} | {transport} |");
            for column in 0..found.columns.len() {
                let (word, reason) = match found.cells.get(&(row, column)) {
                    None => ("", None),
                    Some(Outcome::NotRun) => ("not run", None),
                    Some(Outcome::Ok) => ("ok", None),
                    Some(Outcome::Failed) => ("FAILED", None),
                    Some(Outcome::Skipped(reason)) => ("SKIPPED", Some(reason.as_str())),
                    Some(Outcome::NotOffered(reason)) => ("not offered", Some(reason.as_str())),
                };
                let note = reason.map(|reason| format!(" ({})", place(&mut reasons, reason) + 1));
                let _ = write!(text, " {word}{} |", note.unwrap_or_default());
            }
            text.push('\n');
        }
        text.push('\n');
        for (number, reason) in reasons.iter().enumerate() {
            let _ = writeln!(text, "{}. {reason}", number + 1);
        }
        text
    }
}

/// The place of an item in a list, at the end if it was not there.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|other| *other == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}
