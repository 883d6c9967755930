//! The sandbox of a session, recorded beside its log.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::FailedAccess;
use crate::backend::SessionContext;
use crate::files::{Replace, read_untrusted};
use crate::model::{Mode, SessionId, TaskNumber};
use crate::orchestrator::shared::ProjectShared;
use crate::sandbox::{Denials, PolicyReport, Refusal, Refusals, SandboxPolicy};
use crate::schedule::NoticeCode;
use crate::{Error, ErrorKind, Result};

/// The rules of a session, the part that is or was in force, and the denials.
///
/// Lies beside the session's log as `<log>.sandbox.json`. From the start of the session it holds what will be in
/// force, from its end what was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxRecord {
    /// The version of the format: 1.
    pub schema: u32,
    /// The session.
    pub session: SessionId,
    /// Its mode.
    pub mode: Mode,
    /// Its task.
    pub task: Option<TaskNumber>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// True if it has ended.
    pub ended: bool,
    /// The rules that were requested.
    pub policy: SandboxPolicy,
    /// The rules that were in force.
    pub report: PolicyReport,
    /// The denials, as far as the kernel reports them on this machine.
    pub denials: Denials,
    /// Refusals that failed tools of the agent reported. There may be more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
}

/// Ending of its file name.
const SUFFIX: &str = "sandbox.json";
/// Upper bound for the size of a record that is read.
const LIMIT: u64 = 16 << 20;

impl SandboxRecord {
    pub(crate) fn new(
        context: &SessionContext,
        task: Option<TaskNumber>,
        policy: SandboxPolicy,
        report: PolicyReport,
    ) -> Self {
        Self {
            schema: 1,
            session: context.session.clone(),
            mode: context.mode,
            task,
            cwd: context.cwd.clone(),
            ended: false,
            policy,
            report,
            denials: Denials::Unknown,
            refused: Vec::new(),
        }
    }

    /// Returns the record of the latest session of `task`, or of the latest chat, in a folder of logs.
    ///
    /// # Errors
    /// I/O errors; `malformed`. A missing record is no error.
    pub fn latest(logs: &Path, task: Option<TaskNumber>) -> Result<Option<Self>> {
        let what = task.map_or_else(|| Mode::Chat.to_string(), |task| task.to_string());
        let time = |path: &PathBuf| {
            let name =
                path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.strip_prefix(&what)?.strip_prefix('-')?;
            name.split_once('-').map(|(_, time)| time.to_owned())
        };
        let entries = match std::fs::read_dir(logs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("listing the logs", error).with_path(logs)),
        };
        let found = entries.flatten().map(|entry| entry.path()).filter_map(|path| Some((time(&path)?, path)));
        let Some((_, path)) = found.max() else { return Ok(None) };
        // By the time in the name, since that of the file changes with a copy.
        Self::read(&path).map(Some)
    }

    fn read(path: &Path) -> Result<Self> {
        let malformed = |error| {
            Error::new(ErrorKind::Malformed, "not a record of a sandbox").with_source(error).with_path(path)
        };
        let bytes = read_untrusted(path, LIMIT)?.unwrap_or_default();
        let mut record = serde_json::from_slice(&bytes).map_err(malformed)?;
        ungroup(&mut record);
        serde_json::from_value(record).map_err(malformed)
    }
}

/// The rules of a policy in a record.
const RULES: &str = "/policy/rules";

/// Puts rules that are alike but for their paths into one entry, with the names of the paths by folder: a policy has hundreds
/// of rules, of few kinds and in few folders.
fn group(record: &mut Value) {
    let Some(Value::Array(rules)) = record.pointer_mut(RULES) else { return };
    let mut kinds: BTreeMap<String, Value> = BTreeMap::new();
    for mut rule in rules.drain(..) {
        let Some(Value::String(path)) = rule.as_object_mut().and_then(|rule| rule.remove("path")) else {
            continue;
        };
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) if !name.is_empty() => (folder, name),
            _ => ("", path.as_str()),
        };
        let kind = kinds.entry(rule.to_string()).or_insert(rule);
        match &mut kind["in"][folder] {
            Value::Array(names) => names.push(name.into()),
            names => *names = vec![name].into(),
        }
    }
    rules.extend(kinds.into_values());
}

/// Takes entries with several paths apart. Records of earlier releases have none.
fn ungroup(record: &mut Value) {
    let Some(Value::Array(rules)) = record.pointer_mut(RULES) else { return };
    for mut rule in std::mem::take(rules) {
        let Some(Value::Object(folders)) = rule.as_object_mut().and_then(|rule| rule.remove("in")) else {
            rules.push(rule);
            continue;
        };
        for (folder, names) in folders {
            for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
                let path = if name.starts_with('/') { name.to_owned() } else { format!("{folder}/{name}") };
                rule["path"] = path.into();
                rules.push(rule.clone());
            }
        }
    }
    // As a policy has them.
    let path = |rule: &Value| PathBuf::from(rule["path"].as_str().unwrap_or_default());
    rules.sort_by_cached_key(path);
}

/// The record of a running session. Once written, it is on disk only: policy and report would be the largest part of
/// a session in memory, and are needed only when a tool fails and at the end.
#[derive(Debug)]
pub(crate) struct LiveRecord {
    path: PathBuf,
    task: Option<TaskNumber>,
    /// The record until it is on disk.
    held: Mutex<Option<SandboxRecord>>,
}

impl LiveRecord {
    /// Returns the record to be kept beside the log.
    pub(crate) fn new(record: SandboxRecord, log: &Path) -> Self {
        Self { path: log.with_extension(SUFFIX), task: record.task, held: Mutex::new(Some(record)) }
    }

    /// Returns the record that an earlier program has written beside the log.
    pub(crate) fn written(task: Option<TaskNumber>, log: &Path) -> Self {
        Self { path: log.with_extension(SUFFIX), task, held: Mutex::default() }
    }

    /// Writes the record of the start. A failure is a notice, and the record stays in memory. Blocks.
    pub(crate) fn write(&self, shared: &ProjectShared) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = &*held else { return };
        match self.replace(record) {
            // From now on it is read from the file when it is needed.
            Ok(()) => *held = None,
            Err(error) => self.notice(shared, &error),
        }
    }

    /// Writes the record of the end. A failure is a notice. Blocks.
    pub(crate) fn end(&self, shared: &ProjectShared, ended: (PolicyReport, Denials, Vec<Refusal>)) {
        let (report, denials, refused) = ended;
        let written = self.get().and_then(|record| {
            self.replace(&SandboxRecord { ended: true, report, denials, refused, ..record })
        });
        if let Err(error) = written {
            self.notice(shared, &error);
        }
    }

    /// Returns the refusals in the output of a failed program, in which the backend has found the accesses `failed`. Blocks.
    pub(crate) fn refusals(&self, output: &str, failed: Vec<FailedAccess>) -> Vec<Refusal> {
        let known = self
            .get()
            .and_then(|SandboxRecord { policy, report, cwd, .. }| Refusals::new(&policy, report, cwd));
        known.map(|known| known.find(output, failed)).unwrap_or_default()
    }

    fn get(&self) -> Result<SandboxRecord> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().map_or_else(|| SandboxRecord::read(&self.path), Ok)
    }

    fn replace(&self, record: &SandboxRecord) -> Result<()> {
        Replace::new().write_with(&self.path, |file| {
            let mut file = BufWriter::new(file);
            let mut record = serde_json::to_value(record)?;
            group(&mut record);
            serde_json::to_writer(&mut file, &record)?;
            file.flush()
        })
    }

    fn notice(&self, shared: &ProjectShared, error: &Error) {
        let message = format!("keeping the record of its sandbox: {}", error.report());
        shared.notice(NoticeCode::Session, self.task, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_alike_are_one_entry_in_the_file() {
        let rule = |n: u32, access: &str| {
            let origin = format!("base policy: kind {}", n % 7);
            serde_json::json!({ "path": format!("/a/folder {}/{n:04}", n / 100), "access": access, "origin": origin })
        };
        let mut rules: Vec<_> = (0..800).map(|n| rule(n, if n % 2 == 0 { "deny" } else { "read" })).collect();
        for (at, path) in ["/", "/a", "/a/folder 0"].into_iter().enumerate() {
            rules.insert(
                at,
                serde_json::json!({ "path": path, "access": "read", "origin": "base policy: kind 0" }),
            );
        }
        let plain = serde_json::json!({ "schema": 1, "policy": { "rules": rules, "tmp": "private" } });
        let mut record = plain.clone();
        // As earlier releases wrote it.
        ungroup(&mut record);
        assert_eq!(record, plain);
        group(&mut record);
        assert_eq!(record["policy"]["rules"].as_array().unwrap().len(), 14);
        let (before, after) = (plain.to_string().len(), record.to_string().len());
        assert!(after * 5 < before, "{after} of {before} bytes");
        ungroup(&mut record);
        assert_eq!(record, plain);
    }
}
