//! Logs of sessions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind as IoKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::records::OutputOf;
use super::{SessionOutcome, Spent, SpentRecord};
use crate::backend::{Backend, Message, Source, Status};
use crate::clock::Clock;
use crate::files::{open_untrusted, read_untrusted, remove_tree};
use crate::model::{Alias, Mode, Phase, SessionId, TaskNumber, Timestamp};
use crate::observe::{Body, Log, LogSubject, present};
use crate::session::{Recorded, Recording};
use crate::{Error, ErrorKind, Result};

/// Epoch of the cursors of records that no program has written to the log, and that are made of the conversation and the
/// recording. Programs that run sessions have epochs of their own, which are never 0.
const REPLAYED: u64 = 0;
/// Maximum length of a header, in bytes and in lines.
const HEADER: (u64, usize) = (64 << 10, 40);
/// Upper bound for a transcript that is read.
const TRANSCRIPT: u64 = 256 << 20;
/// Ending of the folder with the recording.
pub(crate) const RECORDING: &str = "recording";
/// Ending of the file with the records.
pub(crate) const EVENTS: &str = "events";
/// Endings of the files and folders that a log consists of. What the session spent is kept for the sums.
pub(crate) const LOG_FILES: [&str; 5] = ["log", "jsonl", "sandbox.json", EVENTS, RECORDING];

/// The log of one session: the output of its agent as text and as a recording, its conversation, its sandbox and its
/// spending. The log stays when the session and its worktree are gone.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionLog {
    /// The file with the output of the agent. The others lie beside it.
    pub path: PathBuf,
    /// The task, for sessions that had one.
    pub task: Option<TaskNumber>,
    /// Number of the session among the sessions of its task, or of its mode if it has no task. The first
    /// is 1.
    pub number: u32,
    /// The session.
    pub session: Option<SessionId>,
    /// Its name for people. Logs of earlier releases have none.
    pub alias: Option<Alias>,
    /// The name of its backend.
    pub agent: String,
    /// Its mode.
    pub mode: Option<Mode>,
    /// The phase of wildfire that it belonged to.
    pub phase: Option<Phase>,
    /// The sandbox in which it ran.
    pub sandbox: String,
    /// The time at which it started.
    pub started_at: Option<Timestamp>,
    /// Tokens, cost and exit status. Absent before the first count.
    pub spent: Option<SpentRecord>,
}

impl SessionLog {
    /// Returns all logs in a project's folder of logs, newest first. Skips files that are no logs.
    ///
    /// # Errors
    /// I/O errors. A missing folder has no logs.
    pub fn list(folder: &Path) -> Result<Vec<Self>> {
        let failed = |e| Error::io("listing the logs", e).with_path(folder);
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "log") {
                logs.extend(Self::read(&path)?);
            }
        }
        // From the oldest on, so that a newer log does not change the numbers before it.
        logs.sort_by_cached_key(|log| (log.started_at.clone(), parts(&log.path)));
        let mut numbers: BTreeMap<(Option<TaskNumber>, String), u32> = BTreeMap::new();
        for log in &mut logs {
            let mode = log.mode.filter(|_| log.task.is_none()).map(|mode| mode.to_string());
            let number = numbers.entry((log.task, mode.unwrap_or_default())).or_default();
            // Earlier releases gave several logs one number.
            *number = log.number.max(*number + 1);
            log.number = *number;
        }
        logs.reverse();
        Ok(logs)
    }

    /// Reads the header of a log, or returns `None` if the file has none.
    fn read(path: &Path) -> Result<Option<Self>> {
        let Some(file) = open_untrusted(path)? else { return Ok(None) };
        let mut lines = BufReader::new(file.take(HEADER.0)).lines().map_while(std::io::Result::ok);
        if lines.next().as_deref() != Some("---") {
            return Ok(None);
        }
        let mut header = BTreeMap::new();
        for line in lines.take(HEADER.1) {
            if line == "---" {
                return Ok(Some(Self::of(path, &header)));
            }
            if let Some((key, value)) = line.split_once(": ") {
                header.insert(key.to_owned(), value.to_owned());
            }
        }
        Ok(None)
    }

    fn of(path: &Path, header: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| header.get(key).map(String::as_str).unwrap_or_default();
        Self {
            path: path.to_owned(),
            task: text("task_number").parse().ok().and_then(TaskNumber::new),
            number: text("session_number").parse().unwrap_or(0),
            session: text("session_id").parse().ok(),
            alias: text("alias").parse().ok(),
            agent: text("agent").to_owned(),
            mode: serde_json::from_value(text("mode").into()).ok(),
            phase: serde_json::from_value(text("phase").into()).ok(),
            sandbox: text("sandbox").to_owned(),
            started_at: text("started_at").parse().ok(),
            // A log whose other half cannot be read is still a log.
            spent: Spent::record_of_log(path).ok().flatten(),
        }
    }

    /// Returns the name of the log file.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the time at which the session ended, if its end was recorded.
    #[must_use]
    pub fn ended_at(&self) -> Option<&Timestamp> {
        self.spent.as_ref().filter(|record| record.exit.is_some())?.at.as_ref()
    }

    /// Returns how the agent's work ended. A session whose end was not recorded was interrupted, or still runs.
    #[must_use]
    pub fn outcome(&self) -> Option<SessionOutcome> {
        let record = self.spent.as_ref()?;
        record.outcome.or_else(|| match record.exit.as_deref()? {
            // Of an older version.
            "exit code 0" => Some(SessionOutcome::Completed),
            _ => Some(SessionOutcome::Failed),
        })
    }

    /// Returns the output of the agent as plain text, at most `limit` bytes, and true if there is more.
    ///
    /// # Errors
    /// I/O errors; `not_found` if it was removed.
    pub fn text(&self, limit: u64) -> Result<(String, bool)> {
        let failed = |e| Error::io("reading a log", e).with_path(&self.path);
        let file = open_untrusted(&self.path)?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the log is gone").with_path(&self.path))?;
        let more = file.metadata().map_err(failed)?.len() > limit;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        // Three parts at most: the agent's output may contain the mark itself.
        let body = text.splitn(3, "---\n").nth(2).unwrap_or_default();
        Ok((present(body), more))
    }

    /// Returns the conversation, as the session's backend reads it. Empty if its agent keeps none.
    ///
    /// # Errors
    /// I/O errors.
    pub fn messages(&self, backend: &dyn Backend) -> Result<Vec<Message>> {
        let bytes = read_untrusted(&self.path.with_extension("jsonl"), TRANSCRIPT)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let by_line: Vec<Message> = text.lines().flat_map(|line| backend.normalize(line)).collect();
        // Some agents keep one document instead of lines.
        Ok(if by_line.is_empty() { backend.normalize(&text) } else { by_line })
    }

    /// Reads its records from disk into a closed log, in which cursors from the time when the session ran are valid. What its
    /// orchestrator could not write, because it was killed, is added from the output and the conversation; that records may be missing
    /// there, of what hooks and the screen reported, is told as a gap.
    ///
    /// # Errors
    /// I/O errors.
    pub fn replay(&self, backend: &dyn Backend, clock: &Arc<dyn Clock>) -> Result<Log> {
        let scope = self.session.as_ref().map_or_else(|| self.name(), ToString::to_string);
        let name = self.alias.as_ref().map_or_else(|| scope.clone(), ToString::to_string);
        let subject = LogSubject::new(name, &self.agent).with_work(self.mode, self.phase, self.task);
        let mut output = OutputOf::new(self.recording()?);
        let events = self.path.with_extension(EVENTS);
        let (log, is_over) = Log::reread(scope, REPLAYED, subject, Arc::clone(clock), &events, &mut output)?;
        if is_over {
            log.close();
            return Ok(log);
        }
        let started = self.started_at.clone().unwrap_or_else(|| clock.now());
        // Nothing was written: a log of an earlier release.
        if log.latest() == log.beginning() {
            log.push_at(
                started.clone(),
                Source::Process,
                Body::lifecycle("replayed", serde_json::Value::Null),
            );
        }
        let mut messages = self.messages(backend)?.into_iter().peekable();
        let (mut ended, mut exit) = (started, None);
        for part in self.recording()?.into_iter().flat_map(|recording| recording.read()) {
            let (at, body) = match part? {
                Recorded::Output { at, bytes, .. } => {
                    (at, Body::Output { bytes: bytes.into(), text: Box::default(), lead: 0 })
                }
                Recorded::Missing { offset, length } => {
                    log.skip_output(length);
                    let gone = serde_json::json!({ "offset": offset, "length": length });
                    (ended.clone(), Body::lifecycle("output_missing", gone))
                }
                Recorded::End { at, code } => {
                    (ended, exit) = (at, code);
                    break;
                }
                Recorded::Resize { .. } => continue,
            };
            // In the order of their times, as far as the agent wrote any down.
            while let Some(message) = messages.next_if(|it| it.at.as_ref().is_some_and(|said| *said <= at)) {
                log.push_at(at.clone(), Source::Transcript, Body::Transcript(message));
            }
            ended.clone_from(&at);
            log.push_at(at, Source::Process, body);
        }
        for message in messages {
            let at = message.at.clone().unwrap_or_else(|| ended.clone());
            log.push_at(at, Source::Transcript, Body::Transcript(message));
        }
        let payload = serde_json::json!({ "exit": exit });
        log.push_at(ended.clone(), Source::Process, Body::lifecycle("ended", payload));
        log.push_at(ended, Source::Process, Body::Status(Status::Off));
        log.close();
        Ok(log)
    }

    /// Returns the recording of the output, or `None` if there is none. A session that still runs is recorded so far.
    ///
    /// # Errors
    /// I/O errors.
    pub fn recording(&self) -> Result<Option<Recording>> {
        Recording::open(&self.path.with_extension(RECORDING))
    }

    /// Returns true if the session runs, in any process: its output is being recorded.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.recording().is_ok_and(|recording| recording.is_some_and(|it| it.is_written()))
    }

    /// Removes the log, the recording and the conversation. The record of spending stays, for the sums.
    ///
    /// # Errors
    /// `busy` if the session [runs](Self::is_running): its log would be lost while it is written; I/O errors. A file that is gone
    /// already is no error.
    pub fn delete(&self) -> Result<()> {
        if self.is_running() {
            let error = Error::new(ErrorKind::Busy, "the session of this log runs");
            return Err(error
                .with("log", self.name())
                .with("hint", "stop it first, or wait until it has ended"));
        }
        for ending in LOG_FILES {
            let path = self.path.with_extension(ending);
            remove_tree(&path).map_err(|error| Error::io("removing a log", error).with_path(path))?;
        }
        Ok(())
    }
}

/// Splits the name of a log, without its ending, into numbers and what follows them: sessions that began within the same
/// second are called `NAME`, `NAME.2` and so on.
fn parts(path: &Path) -> Vec<(u64, String)> {
    let is_digit = |it: char| it.is_ascii_digit();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let parts = name.split_inclusive(|it| !is_digit(it)).map(|part| {
        let text = part.trim_start_matches(is_digit);
        (part[..part.len() - text.len()].parse().unwrap_or(0), text.to_owned())
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_numbered_read_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        let header = |more: &str| format!("---\nagent: fake\nmode: task\n{more}\n---\nhi\n---\nmore\n");
        write("0001-1-b.log", &header("task_number: 1\nstarted_at: 2026-02-03T13:05:00Z"));
        write("0001-1-c.log", &header("task_number: 1\nstarted_at: 2026-02-03T14:05:00Z"));
        write("0002-1-a.log", &header("task_number: 2"));
        write("0001-1-c.jsonl", "x");
        write("0001-1-c.events", "x");
        write("0001-1-c.spent.json", "{");
        assert_eq!(SessionLog::list(folder.path()).unwrap()[0].recording().unwrap(), None);
        fs::create_dir(at("0001-1-c.recording")).unwrap();
        write("0001-1-c.recording/0000000000000000.out", "x");
        write("daemon.log", "no header\n");
        write("endless.log", "---\nno end\n");
        let logs = SessionLog::list(folder.path()).unwrap();
        let found: Vec<_> = logs.iter().map(|log| (log.name(), log.number)).collect();
        let expected = [("0001-1-c.log", 2), ("0001-1-b.log", 1), ("0002-1-a.log", 1)];
        assert_eq!(found, expected.map(|(name, number)| (name.to_owned(), number)));
        assert_eq!((logs[0].agent.as_str(), logs[0].mode), ("fake", Some(Mode::Task)));
        assert!(
            logs[0].text(1 << 20).unwrap() == ("hi\n---\nmore\n".to_owned(), false),
            "{:?}",
            logs[0].text(99)
        );
        assert!(logs[0].text(80).unwrap().1);
        assert!(logs[0].recording().unwrap().is_some());
        logs[0].delete().unwrap();
        logs[0].delete().unwrap();
        assert!(!at("0001-1-c.recording").exists());
        assert!(!at("0001-1-c.log").exists() && !at("0001-1-c.jsonl").exists());
        assert!(!at("0001-1-c.events").exists());
        assert!(at("0001-1-c.spent.json").exists(), "for the sums");
        assert_eq!(logs[0].text(9).unwrap_err().code(), "not_found");
        assert!(SessionLog::list(&at("nowhere")).unwrap().is_empty());
    }

    #[test]
    fn a_log_keeps_its_number_when_those_before_it_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        for (number, minute) in [(1, 1), (2, 2), (2, 3), (7, 4)] {
            let text = format!(
                "---\nmode: chat\nsession_number: {number}\nstarted_at: 2026-02-03T13:0{minute}:00Z\n---\n"
            );
            fs::write(folder.path().join(format!("chat-{number}-{minute}.log")), text).unwrap();
        }
        let numbers = || {
            let logs = SessionLog::list(folder.path()).unwrap();
            logs.iter().map(|log| log.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(), [7, 3, 2, 1], "an earlier release gave two of them one number");
        SessionLog::list(folder.path()).unwrap().pop().unwrap().delete().unwrap();
        assert_eq!(numbers(), [7, 3, 2]);
    }

    /// Their names differ in a number alone then.
    #[test]
    fn sessions_that_began_within_a_second_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["0001-1-x.log", "0001-1-x.2.log", "0001-1-x.9.log", "0001-1-x.10.log", "0001-2-x.log"];
        for name in names {
            let text = "---\ntask_number: 1\nstarted_at: 2026-02-03T13:05:00Z\n---\n";
            fs::write(folder.path().join(name), text).unwrap();
        }
        let found: Vec<_> =
            SessionLog::list(folder.path()).unwrap().iter().rev().map(SessionLog::name).collect();
        assert_eq!(found, names);
    }
}
