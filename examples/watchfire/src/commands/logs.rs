//! `watchfire logs`

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use watchfire_core::model::TaskNumber;
use watchfire_core::observe::present;
use watchfire_core::orchestrator::Spent;
use watchfire_core::{Error, ErrorKind, Result as CoreResult};

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

/// How much of a log is shown; the file has it all.
const SHOWN: u64 = 8 << 20;
/// How many lines a header may have.
const HEADER: usize = 40;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire logs                      list all sessions, newest first
  watchfire logs 3                    show the last session of task 3
  watchfire logs 3 --list             list the sessions of task 3
  watchfire logs 0003-1-2026-02-03T14-30-00.log")]
pub(crate) struct LogsArgs {
    /// A task's number, or the name of a log
    #[arg(value_name = "N|NAME")]
    which: Option<String>,
    /// List, also when a task is named
    #[arg(long)]
    list: bool,
}

/// A session's log.
struct Log {
    path: PathBuf,
    name: String,
    header: Vec<(String, String)>,
    /// What it spent; nothing where nobody wrote that down.
    spent: Spent,
}

impl Log {
    fn field(&self, name: &str) -> &str {
        self.header.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn is_of(&self, number: TaskNumber) -> bool {
        self.field("task_number").parse() == Ok(number.value())
    }

    fn json(&self) -> Value {
        let fields: Map<_, _> =
            self.header.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        json!({ "name": self.name, "path": self.path.display().to_string(), "header": fields, "spent": self.spent })
    }
}

pub(crate) async fn run(context: &Context, args: LogsArgs) -> Result<Exit> {
    let project = context.project().await?;
    let mut logs = read_all(&project.home.logs_dir(&project.id))?;
    let number = args.which.as_deref().and_then(|which| which.parse::<TaskNumber>().ok());
    if let Some(number) = number {
        logs.retain(|log| log.is_of(number));
    }
    if args.list || args.which.is_none() {
        context.out.report(json!({ "logs": logs.iter().map(Log::json).collect::<Vec<_>>() }), |out| {
            list(out, &logs)
        });
        return Ok(Exit::Good);
    }
    // A name is looked up, never joined to a path.
    let named = |log: &&Log| number.is_some() || args.which.as_deref() == Some(log.name.as_str());
    let log = logs.iter().find(named).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no such log")
            .with("which", args.which.as_deref().unwrap_or_default())
            .with("hint", "watchfire logs lists them")
    })?;
    let body = body(&log.path)?;
    let mut value = log.json();
    if let Value::Object(fields) = &mut value {
        fields.insert("text".to_owned(), body.as_str().into());
    }
    context.out.report(json!({ "log": value }), |out| {
        let mut header: Vec<_> = log.header.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        header.extend((!log.spent.is_nothing()).then(|| format!("spent: {}", log.spent)));
        let header: Vec<_> = header.iter().map(|line| out.style.dim(line)).collect();
        format!("{}\n\n{body}\n", header.join("\n"))
    });
    Ok(Exit::Good)
}

/// All logs in a folder, newest first. A missing folder has none; what is no log is passed over.
fn read_all(folder: &Path) -> CoreResult<Vec<Log>> {
    let failed = |e| Error::io("reading the logs", e).with_path(folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut logs = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "log")
            && let Some(header) = header(&path).map_err(failed)?
        {
            let name = path.file_name().map(|name| text::line(&name.to_string_lossy())).unwrap_or_default();
            // A log whose other half is broken is still a log.
            let spent = Spent::of_log(&path).ok().flatten().unwrap_or_default();
            logs.push(Log { path, name, header, spent });
        }
    }
    let when = |log: &Log| (log.field("started_at").to_owned(), log.name.clone());
    logs.sort_by_key(|log| std::cmp::Reverse(when(log)));
    Ok(logs)
}

/// The lines between the two `---` at the beginning; none if there are no such lines.
fn header(path: &Path) -> std::io::Result<Option<Vec<(String, String)>>> {
    let reader = BufReader::new(File::open(path)?.take(64 << 10));
    let mut lines = reader.lines().map_while(Result::<_, std::io::Error>::ok);
    if lines.next().as_deref() != Some("---") {
        return Ok(None);
    }
    let mut header = Vec::new();
    for line in lines.take(HEADER) {
        if line == "---" {
            return Ok(Some(header));
        }
        if let Some((key, value)) = line.split_once(": ") {
            header.push((text::line(key), text::line(value)));
        }
    }
    Ok(None)
}

/// What stands behind the header, without anything that could change the reader's terminal.
fn body(path: &Path) -> CoreResult<String> {
    let failed = |e| Error::io("reading the log", e).with_path(path);
    let mut file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.by_ref().take(SHOWN).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let body = text.splitn(3, "---\n").nth(2).unwrap_or_default();
    let mut shown = text::lines(&present(body));
    if file.metadata().map_err(failed)?.len() > SHOWN {
        shown.push_str(&format!("\n… the rest is in {}", path.display()));
    }
    Ok(shown)
}

fn list(out: Out, logs: &[Log]) -> String {
    if logs.is_empty() {
        return "no sessions yet\n".to_owned();
    }
    let mut text = String::new();
    for log in logs {
        let what = match log.field("task_number") {
            "" | "0" => log.field("mode").to_owned(),
            number => format!("#{number:0>4}"),
        };
        text.push_str(&format!(
            "{}  {}  {}  {}{}\n",
            text::pad(&what, 6),
            text::pad(log.field("agent"), 12),
            text::pad(log.field("started_at"), 24),
            out.style.dim(&log.name),
            if log.spent.is_nothing() { String::new() } else { format!("  {}", log.spent) },
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read_and_made_safe() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "0001-1.log",
            "---\ntask_number: 0001\nstarted_at: 2026-01-01\n---\n\x1b[31mhi\x1b[0m\n---\nmore\n",
        );
        write("0001-2.log", "---\ntask_number: 0001\nstarted_at: 2026-01-02\n---\nlater\n");
        write(
            "0001-2.spent.json",
            r#"{"schema":1,"task":1,"usage":{"input_tokens":9,"output_tokens":2},"cost":null}"#,
        );
        write("0001-1.spent.json", "{");
        write("daemon.log", "no header\n");
        write("endless.log", "---\nno end\n");
        let logs = read_all(folder.path()).unwrap();
        let names: Vec<_> = logs.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["0001-2.log", "0001-1.log"]);
        let spent = logs.iter().map(|log| log.spent.to_string()).collect::<Vec<_>>();
        assert_eq!(spent, ["9 tokens in, 2 out", ""]);
        assert!(logs[0].is_of(TaskNumber::new(1).unwrap()));
        assert_eq!(body(&logs[1].path).unwrap(), "hi\n---\nmore");
        assert!(read_all(&folder.path().join("none")).unwrap().is_empty());
    }
}
