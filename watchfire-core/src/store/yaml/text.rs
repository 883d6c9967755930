//! Task files as text, for the copies that agents work on, and the lines of keys in files.

use std::path::Path;

use super::atomic::{LIMIT, error};
use super::document::{compose, decode, line_of};
use serde_json::{Value, json};

use crate::files::Dir;
use crate::model::{Task, TaskId, TaskNumber};
use crate::{Error, ErrorKind, Result};

/// Returns the line of a key, such as `agents.codex.model`, in the file `name` of a folder.
pub(crate) fn line_of_key(folder: &Path, name: &str, key: &str) -> Option<usize> {
    let (bytes, _) = Dir::open(folder).ok()?.read(name, LIMIT).ok()?;
    let path: Vec<_> = key.split('.').collect();
    line_of(std::str::from_utf8(&bytes).ok()?, &path)
}

/// Returns the text of a task file that holds `task`.
pub(crate) fn render_task(task: &Task) -> Result<String> {
    compose(task).map(|(text, _)| text).map_err(error)
}

/// Parses an agent's copy of its task file.
///
/// # Errors
/// `malformed`, with the line if known.
pub(crate) fn read_task(bytes: &[u8]) -> Result<Task> {
    decode(bytes).map_err(error)
}

/// Parses a task file that an agent wrote itself. Agents leave out fields that only we need, and write the acceptance
/// criteria as a list.
///
/// # Errors
/// `malformed`, with the line if known.
pub(crate) fn read_written_task(bytes: &[u8], number: TaskNumber) -> Result<Task> {
    let malformed = |reason: String| Error::new(ErrorKind::Malformed, reason);
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("the file is not UTF-8 text".to_owned()))?;
    let fields: serde_yaml::Mapping =
        serde_yaml::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let Ok(Value::Object(mut fields)) = serde_json::to_value(fields) else {
        return Err(malformed("a key is no text".to_owned()));
    };
    let id = TaskId::random().to_string();
    for (name, usual) in
        [("version", json!(1)), ("task_id", json!(id)), ("title", json!("")), ("status", json!("draft"))]
    {
        fields.entry(name).or_insert(usual);
    }
    // The name of the file decides, whatever number the agent wrote into it.
    fields.insert("task_number".to_owned(), json!(number));
    for name in ["prompt", "acceptance_criteria"] {
        if let Some(Value::Array(items)) = fields.get(name) {
            let line = |item: &Value| match item {
                Value::String(text) => format!("- {text}\n"),
                other => format!("- {other}\n"),
            };
            let text: String = items.iter().map(line).collect();
            fields.insert(name.to_owned(), json!(text));
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_write_is_read() {
        let number = TaskNumber::new(7).unwrap();
        let text =
            "title: Port\nprompt: |\n  Say which.\nacceptance_criteria:\n  - it listens\n  - 8080: yes\n";
        let task = read_written_task(text.as_bytes(), number).unwrap();
        assert_eq!((task.title.as_str(), task.prompt.as_str()), ("Port", "Say which.\n"));
        assert_eq!(task.acceptance_criteria, "- it listens\n- {\"8080\":\"yes\"}\n");
        assert_eq!((task.status, task.task_number), (crate::model::TaskStatus::Draft, number));
        for bad in ["title: [1]\n", "- 1\n", "status: soon\n", "\u{1}"] {
            assert_eq!(
                read_written_task(bad.as_bytes(), number).unwrap_err().kind(),
                ErrorKind::Malformed,
                "{bad}"
            );
        }
    }
}
