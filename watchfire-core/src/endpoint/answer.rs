//! Answers to an agent's questions, as files in its inbox.

use std::path::Path;

use serde_json::{Value, json};

use super::folder::{Folder, Read, is_plain};
use crate::{Error, ErrorKind, Result};

/// The longest answer that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// An answer to one question of an agent.
///
/// In the inbox it is the file [`file_name`](Self::file_name): `answer-ID.json`, or `answer-x` and the id in hexadecimal
/// where the id is not letters, digits, `-`, `_` and `.` alone. An answer to the same question replaces the one before.
///
/// ```
/// # use watchfire_core::endpoint::Answer;
/// let answer = Answer::new("port", "8080");
/// assert_eq!(answer.file_name(), "answer-port.json");
/// let json = r#"{"kind":"answer","question":"port","text":"8080"}"#;
/// assert_eq!(answer.to_json().to_string(), json);
/// assert_eq!(Answer::new("a b", "yes").file_name(), "answer-x612062.json");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The id of the question.
    pub question: String,
    /// The answer.
    pub text: String,
}

impl Answer {
    /// Returns an answer to the question with this id.
    pub fn new(question: impl Into<String>, text: impl Into<String>) -> Self {
        Self { question: question.into(), text: text.into() }
    }

    /// Returns the name of the answer's file in the inbox.
    #[must_use]
    pub fn file_name(&self) -> String {
        file_name(&self.question)
    }

    /// Returns the content of that file, a message of the spool.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"kind": "answer", "question": self.question, "text": self.text})
    }

    /// Reads the answer to `question` from an inbox, or `None` while there is none. For the agent's side.
    ///
    /// # Errors
    /// `malformed` for a file that is not an answer; errors of the disk.
    pub fn read(inbox: &Path, question: &str) -> Result<Option<Self>> {
        let malformed = |reason: String| {
            Error::new(ErrorKind::Malformed, "not an answer")
                .with_path(inbox.join(file_name(question)))
                .with("reason", reason)
        };
        // Never fails: an id that holds a NUL is written in hexadecimal.
        let name = std::ffi::CString::new(file_name(question)).map_err(|e| malformed(e.to_string()))?;
        let bytes = match Folder::open(inbox)?.read(&name, LONGEST) {
            Read::Missing => return Ok(None),
            Read::Refused(reason) => return Err(malformed(reason)),
            Read::Bytes(bytes, _) => bytes,
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        let text = value.get("text").and_then(Value::as_str);
        let text = text.ok_or_else(|| malformed("the field text is missing".to_owned()))?;
        Ok(Some(Self::new(question, text)))
    }
}

fn file_name(question: &str) -> String {
    let name = format!("answer-{question}.json");
    // A plain id that begins like an encoded one is encoded too, so that no two ids share a name.
    if is_plain(&name) && !question.starts_with('x') && !question.is_empty() {
        return name;
    }
    let hex: String = question.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("answer-x{hex}.json")
}

#[cfg(test)]
mod tests {
    use super::super::{Spool, SpoolLimits};
    use super::*;

    #[test]
    fn an_answer_is_found_by_its_question() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, inbox) =
            (Spool::open(folder.path(), SpoolLimits::default()).unwrap(), folder.path().join("inbox"));
        for id in ["1", "x31", "", "../up", "größe", &"é".repeat(24)] {
            assert_eq!(Answer::read(&inbox, id).unwrap(), None);
            let answer = Answer::new(id, format!("to {id}"));
            spool.put(&answer.file_name(), answer.to_json().to_string().as_bytes()).unwrap();
            assert_eq!(Answer::read(&inbox, id).unwrap(), Some(answer));
        }
        std::fs::write(inbox.join("answer-2.json"), "{}").unwrap();
        assert_eq!(Answer::read(&inbox, "2").unwrap_err().code(), "malformed");
    }
}
