//! Edits the agent's copy of the task file: only the lines that are meant, replaced atomically.

use std::fs;
use std::io;
use std::path::Path;

/// Marks the task in `path` as done: with success, or with the reason of its failure.
pub(super) fn finish(path: &Path, failure: Option<&str>) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let mut text = set(&text, "status", "done");
    text = set(&text, "success", if failure.is_none() { "true" } else { "false" });
    if let Some(reason) = failure {
        text = set(&text, "failure_reason", &serde_json::Value::from(reason).to_string());
    }
    replace(path, text.as_bytes())
}

/// Makes the task file invalid YAML, as a careless agent might.
pub(super) fn spoil(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    replace(path, format!("{text}\nstatus: [done\n\tsuccess: yes: no\n").as_bytes())
}

/// Writes the first half of the task file in place, like a writer that dies half way.
pub(super) fn halve(path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    fs::write(path, bytes.get(..bytes.len() / 2).unwrap_or_default())
}

/// Returns `text` with the top-level `key` set to `value`, which must be valid YAML on one line.
fn set(text: &str, key: &str, value: &str) -> String {
    // The person's editor may have written the file; its line ends are kept.
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut result = String::with_capacity(text.len() + 32);
    let mut found = false;
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        // Indented lines belong to the old value, such as a block of text.
        if inside && line.starts_with([' ', '\t']) {
            continue;
        }
        inside = line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        if !inside {
            result.push_str(line);
        } else if !found {
            result.push_str(&format!("{key}: {value}{end}"));
            found = true;
        }
    }
    if !found {
        if !result.is_empty() && !result.ends_with('\n') {
            result.push_str(end);
        }
        result.push_str(&format!("{key}: {value}{end}"));
    }
    result
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let sibling = path.with_file_name(name);
    fs::write(&sibling, bytes)?;
    fs::rename(&sibling, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_only_its_lines() {
        let text = "version: 1\r\nstatus: ready # mine\r\nprompt: |\r\n  status: x\r\nfailure_reason: >\r\n  old\r\n  words\r\nposition: 3";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001.yaml");
        fs::write(&path, text).unwrap();
        finish(&path, Some("it's \"hard\"\nvery")).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "version: 1\r\nstatus: done\r\nprompt: |\r\n  status: x\r\nfailure_reason: \"it's \\\"hard\\\"\\nvery\"\r\nposition: 3\r\nsuccess: false\r\n"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
