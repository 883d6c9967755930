//! The tokens that a session spent, recorded beside its log.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backend::Usage;
use crate::files::{read_untrusted, replace};
use crate::model::{BackendName, Dollars, TaskNumber, Timestamp};
use crate::schedule::RunId;
use crate::session::{Cause, Ended, Exit};
use crate::{Error, ErrorKind, Result};

/// The tokens of one or more sessions, as far as their providers counted them, and their cost.
///
/// A session's own record, [`SpentRecord`], lies beside its log as `<log>.spent.json`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spent {
    /// The tokens.
    pub usage: Usage,
    /// Their cost in millionths of a US dollar, if all prices are known.
    pub cost: Option<u64>,
}

/// The record of one session's spending, beside its log. Written at most every few seconds while the session
/// runs, and at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SpentRecord {
    /// The session's log.
    #[serde(skip)]
    pub log: PathBuf,
    /// Version of the format: 1.
    schema: u32,
    /// The session's task.
    pub task: Option<TaskNumber>,
    /// The run to which its life belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<BackendName>,
    /// The time of the last count. Absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The tokens and their cost.
    #[serde(flatten)]
    pub spent: Spent,
    /// The cost in millionths of a US dollar of what has a known price, where not all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<u64>,
    /// Exit status of its process, in words. Absent while the session runs, and if it was lost with its
    /// orchestrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// The exit code of [`Ended::exit_code`]. Absent if it is not known, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How its agent's work ended. Absent as `exit` is, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SessionOutcome>,
}

/// How an agent's work ended, as far as its session knows. Whether the work was merged says its task.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// The agent said that it had finished, or ended successfully in a session that asks for no such word.
    Completed,
    /// The agent said that it had failed, ended with an error, or took too long.
    Failed,
    /// It was stopped, or lost.
    Interrupted,
}

impl SessionOutcome {
    /// Returns the outcome of a session that ended.
    #[must_use]
    pub fn of(ended: &Ended) -> Self {
        match (ended.cause, &ended.claim) {
            (_, Some(claim)) if claim.success => Self::Completed,
            (_, Some(_)) | (Cause::TimedOut, _) => Self::Failed,
            (Cause::Stopped(_), _) => Self::Interrupted,
            _ if ended.exit.success() => Self::Completed,
            _ if ended.exit == Exit::Unknown => Self::Interrupted,
            _ => Self::Failed,
        }
    }

    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

const SUFFIX: &str = "spent.json";
/// Upper bound for the size of a record that is read.
const LIMIT: u64 = 64 << 10;

impl Spent {
    /// Returns `usage` and its cost.
    #[must_use]
    pub fn new(usage: Usage, cost: Option<u64>) -> Self {
        Self { usage, cost }
    }

    /// Returns true if no tokens were counted.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.usage == Usage::default()
    }

    /// Returns the sum. Its cost is known only if both costs are.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // A session without tokens has no price, and must not make that of the others unknown.
        let cost = match (self.is_nothing(), other.is_nothing()) {
            (true, _) => other.cost,
            (_, true) => self.cost,
            _ => self.cost.zip(other.cost).map(|(one, two)| one.saturating_add(two)),
        };
        Self { usage: self.usage.plus(other.usage), cost }
    }

    /// Returns the record of the session with this log, or `None` if nothing was counted yet.
    pub(crate) fn record_of_log(log: &Path) -> Result<Option<SpentRecord>> {
        read(&log.with_extension(SUFFIX))
    }

    /// Returns the sum for all sessions of a task, from the logs in a folder.
    ///
    /// # Errors
    /// I/O errors, and `malformed`.
    pub fn of_task(logs: &Path, task: TaskNumber) -> Result<Self> {
        let mut records = list(logs, &format!("{task}-"))?;
        records.retain(|record| record.task == Some(task));
        Ok(records.iter().fold(Self::default(), |sum, record| sum.plus(record.spent)))
    }

    /// Returns the records of all sessions in a folder of logs, oldest first.
    ///
    /// # Errors
    /// I/O errors, and `malformed`.
    pub fn records(logs: &Path) -> Result<Vec<SpentRecord>> {
        let mut records = list(logs, "")?;
        records.sort_by(|a, b| (&a.at, &a.log).cmp(&(&b.at, &b.log)));
        Ok(records)
    }

    /// Returns the records of the sessions of all projects, from the folder with all logs of a home. Unreadable ones are left
    /// out.
    #[must_use]
    pub fn records_of_home(logs: &Path) -> Vec<SpentRecord> {
        let projects = std::fs::read_dir(logs).into_iter().flatten().flatten();
        projects.flat_map(|project| SpentRecord::readable(&project.path(), "")).collect()
    }
}

impl SpentRecord {
    pub(crate) fn new(log: &Path, task: Option<TaskNumber>, run: Option<RunId>, agent: BackendName) -> Self {
        let agent = Some(agent);
        Self {
            log: log.to_owned(),
            schema: 1,
            task,
            run,
            agent,
            at: None,
            spent: Spent::default(),
            known: None,
            exit: None,
            exit_code: None,
            outcome: None,
        }
    }

    /// Returns the cost in millionths of a US dollar, as far as it is known.
    #[must_use]
    pub fn known_cost(&self) -> u64 {
        self.spent.cost.or(self.known).unwrap_or_default()
    }

    /// Returns the records of a folder whose names begin with `start`, without those that cannot be read.
    pub(crate) fn readable(logs: &Path, start: &str) -> Vec<Self> {
        let unreadable = |error: &Error| tracing::warn!("what a session spent: {}", error.report());
        let paths = paths(logs, start).inspect_err(unreadable).unwrap_or_default();
        paths.iter().filter_map(|path| read(path).inspect_err(unreadable).ok()?).collect()
    }

    /// Writes the record beside the session's log.
    pub(crate) fn save(&self) -> Result<()> {
        let failed = |e| Error::new(ErrorKind::Internal, "writing down what was spent").with_source(e);
        replace(&self.log.with_extension(SUFFIX), &serde_json::to_vec(self).map_err(failed)?)
    }
}

/// Reads the records of a folder whose names begin with `start`.
fn list(logs: &Path, start: &str) -> Result<Vec<SpentRecord>> {
    paths(logs, start)?.iter().filter_map(|path| read(path).transpose()).collect()
}

fn paths(logs: &Path, start: &str) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(logs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("listing the logs", error).with_path(logs)),
    };
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(start) && name.ends_with(SUFFIX)
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_one).collect())
}

fn read(path: &Path) -> Result<Option<SpentRecord>> {
    let malformed = |error| {
        Error::new(ErrorKind::Malformed, "not a record of token usage").with_source(error).with_path(path)
    };
    let Some(bytes) = read_untrusted(path, LIMIT)? else { return Ok(None) };
    let record: SpentRecord = serde_json::from_slice(&bytes).map_err(malformed)?;
    let log = path.to_string_lossy().strip_suffix(SUFFIX).map(|stem| PathBuf::from(format!("{stem}log")));
    Ok(Some(SpentRecord { log: log.unwrap_or_default(), ..record }))
}

/// Writes, for example, `1500 tokens in, 30 out, $0.0246`. Omits an unknown cost; writes nothing without tokens.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return Ok(());
        }
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = self.usage;
        let input = input_tokens.saturating_add(cache_read_tokens).saturating_add(cache_write_tokens);
        write!(f, "{input} tokens in, {output_tokens} out")?;
        match self.cost {
            Some(cost) if cost > 0 => write!(f, ", {}", Dollars::from_micros(cost)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(input: u64, cost: Option<u64>) -> Spent {
        let mut usage = Usage::default();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) = (input, input / 2, input / 10);
        Spent::new(usage, cost)
    }

    #[test]
    fn what_one_costs_that_has_no_price_is_not_known() {
        let (one, two, free) = (spent(100, Some(12_345)), spent(40, None), Spent::default());
        assert_eq!(one.plus(one).to_string(), "300 tokens in, 20 out, $0.0246");
        assert_eq!(one.plus(two).to_string(), "210 tokens in, 14 out");
        assert_eq!([free.plus(one), one.plus(free)], [one, one]);
        assert_eq!(free.to_string(), "");
    }

    #[test]
    fn the_sessions_of_a_task_are_added_up() {
        let logs = tempfile::tempdir().unwrap();
        let task = |number| TaskNumber::new(number).unwrap();
        let log = |name: &str| logs.path().join(name);
        for (name, number) in [("0001-1-a.log", 1), ("0001-2-b.log", 1), ("0002-1-c.log", 2)] {
            let mut record = SpentRecord::new(&log(name), Some(task(number)), None, "fake".parse().unwrap());
            record.spent = spent(100, Some(5));
            record.save().unwrap();
            assert!(Spent::records(logs.path()).unwrap().contains(&record));
        }
        let of_log = |name| Spent::record_of_log(&log(name)).unwrap().map(|record| record.spent);
        assert_eq!(of_log("0002-1-c.log"), Some(spent(100, Some(5))));
        assert_eq!(of_log("0003-1-d.log"), None);
        assert_eq!(
            Spent::of_task(logs.path(), task(1)).unwrap().to_string(),
            "300 tokens in, 20 out, $0.0000"
        );
        assert!(Spent::of_task(logs.path(), task(3)).unwrap().is_nothing());
        assert!(Spent::of_task(&log("nowhere"), task(1)).unwrap().is_nothing());

        std::fs::write(log("0001-2-b.spent.json"), "{").unwrap();
        assert_eq!(Spent::of_task(logs.path(), task(1)).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
