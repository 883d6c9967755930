//! `signal.json`: done, questions, or an error.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::folder::{Folder, Read};
use crate::model::{SessionId, Timestamp};

/// Maximum length of `signal.json`, in bytes.
const LONGEST: u64 = 1 << 20;
/// Maximum length of a question's id, in bytes. Written in hexadecimal it still fits into a file name.
const LONGEST_ID: usize = 48;
/// Tolerance for a file that seems older than its session: file systems take timestamps from a coarse clock that lags
/// behind by up to a tick.
const SLACK_MILLIS: i64 = 100;

/// An agent's claim about its work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// The work is done.
    #[non_exhaustive]
    Done {
        /// Result in the agent's words.
        result: Option<Value>,
    },
    /// The agent cannot go on.
    #[non_exhaustive]
    Error {
        /// Reason in the agent's words.
        error: String,
    },
    /// The agent needs answers before it can go on.
    Questions(Vec<Question>),
}

use crate::model::Question;

impl Signal {
    /// Parses the fields of a signal. A signal that claims success and names an error counts as an error.
    pub(super) fn parse(object: &Map<String, Value>) -> Result<Self, String> {
        // A null or blank error is none, as in `{"status": "done", "error": null}`.
        let error = object.get("error").map(shown).filter(|error| !error.trim().is_empty());
        match (object.get("status").and_then(Value::as_str), error) {
            // An agent that reports both has not finished its work.
            (Some("done" | "error"), Some(error)) => Ok(Self::Error { error }),
            (Some("error"), None) => Ok(Self::Error { error: "the agent did not say what".to_owned() }),
            (Some("done"), None) => {
                Ok(Self::Done { result: object.get("result").filter(|result| !result.is_null()).cloned() })
            }
            (Some("questions"), _) => {
                let values = object.get("questions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let questions = questions(values);
                if questions.is_empty() {
                    return Err("the field questions holds none, expected {id, question}".to_owned());
                }
                Ok(Self::Questions(questions))
            }
            (Some(other), _) => Err(format!("unknown status {other:?}, expected done, questions or error")),
            (None, _) => Err("the field status is missing".to_owned()),
        }
    }

    /// Returns the signal as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Done { result: None } => json!({"status": "done"}),
            Self::Done { result } => json!({"status": "done", "result": result}),
            Self::Error { error } => json!({"status": "error", "error": error}),
            Self::Questions(questions) => {
                let questions: Vec<Value> = questions
                    .iter()
                    .map(|question| json!({"id": question.id, "question": question.question}))
                    .collect();
                json!({"status": "questions", "questions": questions})
            }
        }
    }
}

/// Parses questions. Agents write them with an id, without one, or as bare text. An entry that is no question is skipped: the
/// others still wait for a person.
fn questions(values: &[Value]) -> Vec<Question> {
    let id = |value: &Value| value.get("id").map(shown).filter(|id| (1..=LONGEST_ID).contains(&id.len()));
    let mut taken: HashSet<String> = values.iter().filter_map(id).collect();
    let mut questions = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let Some(text) = value.as_str().or_else(|| value.get("question")?.as_str()) else { continue };
        // Numbered by its place, so that it can be answered at all. Questions with one id would replace each other.
        let numbered = || (index + 1..).map(|n| n.to_string()).find(|id| taken.insert(id.clone()));
        let Some(id) = id(value).or_else(numbered) else { continue };
        if !text.trim().is_empty() {
            questions.push(Question::new(id, text));
        }
    }
    questions
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The content of `signal.json`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SignalRead {
    /// There is no file.
    Missing,
    /// The file ends too early: the agent is still writing it, or was killed. Read it again later.
    Incomplete,
    /// The file belongs to another session and is ignored.
    Stale {
        /// Reason, as a fragment.
        reason: String,
    },
    /// The file is not a signal, and waiting will not make it one.
    Invalid {
        /// Reason, as a fragment.
        reason: String,
    },
    /// The agent's claim.
    Signal(Signal),
}

/// Reads `signal.json` in the folder of `session`, which started at `started`.
///
/// The file counts if it names this session or, without a name, is not older than the session. Never blocks, and follows
/// no link.
#[must_use]
pub(crate) fn read_signal(folder: &Path, session: &SessionId, started: &Timestamp) -> SignalRead {
    let invalid = |reason: String| SignalRead::Invalid { reason };
    let folder = match Folder::open(folder) {
        Ok(folder) => folder,
        Err(error) => return invalid(error.report()),
    };
    let (bytes, modified) = match folder.read(c"signal.json", LONGEST) {
        Read::Missing => return SignalRead::Missing,
        Read::Refused(reason) => return invalid(reason),
        Read::Bytes(bytes, modified) => (bytes, modified),
    };
    // The agent is asked to rename a complete file into place, but it may write in place all the same.
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        // The only fault that more bytes can repair.
        Err(error) if error.is_eof() => return SignalRead::Incomplete,
        Err(error) => return invalid(format!("not JSON: {error}")),
    };
    let Some(object) = value.as_object() else { return invalid("not a JSON object".to_owned()) };
    // A file of an earlier attempt may lie in a worktree that is used again.
    match object.get("session").and_then(Value::as_str) {
        Some(named) if named != session.as_str() => {
            // The name comes from the agent and goes into a message for people.
            let named: String = named.chars().take(100).collect();
            return SignalRead::Stale { reason: format!("it names the session {named:?}") };
        }
        None if modified.unix_millis().saturating_add(SLACK_MILLIS) < started.unix_millis() => {
            return SignalRead::Stale { reason: "it is older than the session and names none".to_owned() };
        }
        _ => {}
    }
    match Signal::parse(object) {
        Ok(signal) => SignalRead::Signal(signal),
        Err(reason) => invalid(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, started: i64) -> SignalRead {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("signal.json"), json).unwrap();
        read_signal(folder.path(), &"s1".parse().unwrap(), &Timestamp::from_unix_millis(started))
    }

    #[test]
    fn done_questions_and_error() {
        let done = SignalRead::Signal(Signal::Done { result: None });
        assert_eq!(read(r#"{"status":"done"}"#, 0), done);
        let SignalRead::Signal(Signal::Questions(questions)) = read(
            r#"{"status":"questions","questions":["a?",{"id":7,"question":"b?"},{"question":""},3]}"#,
            0,
        ) else {
            panic!("no questions")
        };
        assert_eq!(questions, [Question::new("1", "a?"), Question::new("7", "b?")]);
        let SignalRead::Signal(Signal::Questions(questions)) =
            read(r#"{"status":"questions","questions":[{"id":"2","question":"a?"},"b?","c?"]}"#, 0)
        else {
            panic!("no questions")
        };
        let ids: Vec<_> = questions.iter().map(|question| question.id.as_str()).collect();
        assert_eq!(ids, ["2", "3", "4"], "each has an id of its own");
        let error = SignalRead::Signal(Signal::Error { error: "it broke".into() });
        assert_eq!(read(r#"{"status":"error","error":"it broke"}"#, 0), error);
        assert_eq!(read(r#"{"status":"done","error":"it broke"}"#, 0), error);
        assert_eq!(read(r#"{"status":"done","error":null}"#, 0), done);
    }

    #[test]
    fn half_written_is_told_from_wrong() {
        let whole = r#"{"session":"s1","status":"done"}"#;
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], 0), SignalRead::Incomplete, "{}", &whole[..end]);
        }
        for json in ["nonsense", "[]", "{}", r#"{"status":"later"}"#, r#"{"status":"questions"}"#, "{}}"] {
            assert!(matches!(read(json, 0), SignalRead::Invalid { .. }), "{json}");
        }
        let long = format!(r#"{{"status":"done","result":"{}"}}"#, "x".repeat(2 << 20));
        assert!(matches!(read(&long, 0), SignalRead::Invalid { reason } if reason.contains("limit")));
    }

    #[test]
    fn of_another_session_or_an_earlier_time_it_counts_nothing() {
        let future = i64::MAX / 2;
        assert!(matches!(read(r#"{"session":"s2","status":"done"}"#, 0), SignalRead::Stale { .. }));
        assert!(matches!(read(r#"{"status":"done"}"#, future), SignalRead::Stale { .. }));
        assert!(matches!(read(r#"{"session":"s1","status":"done"}"#, future), SignalRead::Signal(_)));
    }

    #[test]
    fn what_is_no_file_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signal.json");
        let now = || read_signal(folder.path(), &"s1".parse().unwrap(), &Timestamp::from_unix_millis(0));
        assert_eq!(now(), SignalRead::Missing);
        let secret = folder.path().join("secret");
        std::fs::write(&secret, r#"{"status":"done"}"#).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(matches!(now(), SignalRead::Invalid { .. }));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(matches!(now(), SignalRead::Invalid { .. }));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(now(), SignalRead::Invalid { .. }));
    }
}
