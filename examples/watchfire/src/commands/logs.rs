//! `watchfire logs`: lists, shows, follows and removes the logs of sessions.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use watchfire_client::work;
use watchfire_core::backend::{Message, Part, Role};
use watchfire_core::model::{Settings, TaskNumber};
use watchfire_core::orchestrator::{SessionLog, SessionOutcome, Spent};
use watchfire_core::session::{Asciicast, AsciicastVersion, Recorded, Recording};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_core::{Error, ErrorKind};
use watchfire_term::Emulator;

use crate::compose;
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

/// Largest part of a log that is shown, in bytes. The file has everything.
const SHOWN: u64 = 8 << 20;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  watchfire logs                      list all sessions, newest first
  watchfire logs 3                    show the last session of task 3: what was said, and the tools that were used
  watchfire logs 3 --text             show what it printed; so is a session without a conversation shown anyway
  watchfire logs 3 --screen           show the screen of its terminal, as it is now if it runs
  watchfire logs 3 --list             list the sessions of task 3
  watchfire logs 3 --follow           print what its session prints, also while it runs, until it ends
  watchfire logs 3 --raw > 3.cast     its recording for asciinema: asciinema play 3.cast
  watchfire logs delete 3             remove the logs of task 3; what they cost stays in the sums
  watchfire logs chat-1               show a session without a task, by the beginning of its log's name
  watchfire logs 0003-1-2026-02-03T14-30-00.log"
)]
pub(crate) struct LogsArgs {
    #[command(subcommand)]
    command: Option<LogsCommand>,
    /// A task's number, or the name of a log
    #[arg(value_name = "N|NAME")]
    which: Option<String>,
    /// List the logs, also when a task is named
    #[arg(long, conflicts_with_all = ["text", "raw", "follow"])]
    list: bool,
    /// Show the printed text instead of the conversation
    #[arg(long, requires = "which", conflicts_with_all = ["raw", "follow"])]
    text: bool,
    /// Show the screen of its terminal, as it is now or was at the end
    #[arg(long, requires = "which", conflicts_with_all = ["list", "text", "raw", "follow"])]
    screen: bool,
    /// Print the recording of the terminal as an asciicast, in version 2 or 3 of the format
    #[arg(
        long,
        alias = "cast",
        requires = "which",
        value_name = "VERSION",
        num_args = 0..=1,
        // In `logs --raw 3` the 3 is the task, not the version.
        require_equals = true,
        default_missing_value = "2",
    )]
    raw: Option<CastVersion>,
    /// Keep printing while the session runs: line by line, or event by event with `--raw`
    #[arg(long, short, requires = "which")]
    follow: bool,
}

#[derive(Debug, Subcommand)]
enum LogsCommand {
    /// Remove the logs of a task, one log, or all of the project, except for those of running sessions
    #[command(after_help = "\
Examples:
  watchfire logs delete 3
  watchfire logs delete chat-1
  watchfire logs delete 0003-1-2026-02-03T14-30-00.log
  watchfire logs delete --all")]
    Delete {
        /// A task's number, or the name of a log
        #[arg(value_name = "N|NAME", required_unless_present = "all")]
        which: Option<String>,
        /// All logs of the project
        #[arg(long, conflicts_with = "which")]
        all: bool,
    },
}

/// The version of an asciicast.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CastVersion {
    #[value(name = "2")]
    V2,
    #[value(name = "3")]
    V3,
}

pub(crate) async fn run(context: &Context, args: LogsArgs) -> Result<Exit> {
    let project = context.project().await?;
    let (which, deletes) = match args.command {
        Some(LogsCommand::Delete { which, .. }) => (which, true),
        None => (args.which, false),
    };
    let mut logs = SessionLog::list(&project.home.logs_dir(&project.id))?;
    let number = which.as_deref().and_then(|which| which.parse::<TaskNumber>().ok());
    // A name is only compared, never joined to a path, so `../x` names nothing.
    let is_named = |log: &SessionLog| match (&which, number) {
        (None, _) => true,
        (_, Some(number)) => log.task == Some(number),
        (Some(name), None) => log.name() == *name || short(log).is_some_and(|short| short == *name),
    };
    logs.retain(is_named);
    if deletes {
        return delete(context, &logs, which.as_deref());
    }
    if args.list || which.is_none() {
        let outcomes = outcomes(&logs);
        let listed: Vec<_> = logs.iter().zip(&outcomes).map(|(log, outcome)| about(log, *outcome)).collect();
        context.out.report(json!({ "logs": listed }), |out| list(out, &logs, &outcomes));
        return Ok(Exit::Good);
    }
    // Newest first: the last session of a task.
    let log = logs.first().ok_or_else(|| no_such_log(which.as_deref()))?;
    if let Some(version) = args.raw {
        return cast(log, version, args.follow).await;
    }
    if args.follow {
        return follow(context.out, log).await;
    }
    if args.screen {
        return screen(context.out, log);
    }
    let mut value = about(log, log.outcome());
    let messages = if args.text { Vec::new() } else { said(log, &project.home.settings().await?) };
    let body = if messages.is_empty() {
        let (body, more) = log.text(SHOWN)?;
        let mut body = text::lines(&body);
        if more {
            let _ = write!(body, "\n… the rest is in {}", log.path.display());
        }
        value["text"] = json!(body);
        body
    } else {
        value["messages"] = json!(messages);
        conversation(context.out, &messages)
    };
    context.out.report(json!({ "log": value }), |out| {
        let header: Vec<_> = header(log).iter().map(|line| out.style.dim(line)).collect();
        format!("{}\n\n{}\n", header.join("\n"), body.trim_end())
    });
    Ok(Exit::Good)
}

/// Returns what was said in a session. Nothing if its agent keeps no conversation, or the settings do not know it any more:
/// only its backend can read the format.
fn said(log: &SessionLog, settings: &Settings) -> Vec<Message> {
    let backend = compose::backends(settings).and_then(|backends| backends.get(&log.agent));
    let messages = backend.and_then(|backend| log.messages(&*backend)).unwrap_or_default();
    messages.into_iter().filter(|message| !message.parts.is_empty()).collect()
}

fn recording(log: &SessionLog) -> Result<Recording> {
    let found = log.recording()?;
    Ok(found.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "the session has no recording").with_path(log.path.clone())
    })?)
}

/// Prints a recording. It is not wrapped in a report, because the format is asciinema's.
async fn cast(log: &SessionLog, version: CastVersion, follow: bool) -> Result<Exit> {
    let version = match version {
        CastVersion::V2 => AsciicastVersion::V2,
        CastVersion::V3 => AsciicastVersion::V3,
    };
    let (recording, out) = (recording(log)?, std::io::stdout());
    let written = async {
        if !follow {
            return recording.write_asciicast(version, &log.name(), out);
        }
        let mut cast = Asciicast::new(version, &log.name(), out);
        let mut parts = recording.follow();
        while let Some(part) = parts.next().await? {
            cast.write(&part)?;
        }
        cast.finish()
    };
    match written.await {
        // The player was quit, which ends the pipe.
        Err(error) if is_broken_pipe(&error) => Ok(Exit::Good),
        written => Ok(written.map(|()| Exit::Good)?),
    }
}

/// Shows what the recording has on the screen at its end.
fn screen(out: Out, log: &SessionLog) -> Result<Exit> {
    let mut terminal = Emulator::new(Size::default());
    for part in recording(log)?.read() {
        match part? {
            Recorded::Resize { size, .. } => terminal.resize(size),
            Recorded::Output { bytes, .. } => terminal.feed(&bytes),
            _ => {}
        }
    }
    let screen = terminal.snapshot();
    let shown = text::lines(&screen.text());
    out.report(
        json!({ "screen": { "size": [screen.size.cols(), screen.size.rows()], "text": shown } }),
        |_| {
            // A screen of blank lines is none that anybody wants to see.
            format!("{}\n", shown.trim_end())
        },
    );
    Ok(Exit::Good)
}

/// Prints the text of a session, as lines or as JSON objects with lines, until the session ends or the reader of our
/// output is gone.
async fn follow(out: Out, log: &SessionLog) -> Result<Exit> {
    let mut lines = recording(log)?.follow().lines();
    while let Some(text) = lines.next().await? {
        let text = match out.json {
            true => json!({ "schema": 1, "log": log.name(), "text": text }).to_string(),
            false => text::lines(&text),
        };
        // The reader of a pipe has gone. `println!` would panic.
        if writeln!(std::io::stdout(), "{text}").is_err() {
            break;
        }
    }
    Ok(Exit::Good)
}

fn is_broken_pipe(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::BrokenPipe)
}

fn no_such_log(which: Option<&str>) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such log")
        .with("which", which.unwrap_or_default())
        .with("hint", "watchfire logs lists them")
}

fn delete(context: &Context, logs: &[SessionLog], which: Option<&str>) -> Result<Exit> {
    // `--all` of nothing is fine; a name without a log is probably a mistake.
    if logs.is_empty() && which.is_some() {
        return Err(no_such_log(which).into());
    }
    let (running, ended): (Vec<_>, Vec<_>) = logs.iter().partition(|log| log.is_running());
    if let Some(log) = running.first().filter(|_| which.is_some()) {
        // Refused by the log itself, before any other is gone.
        log.delete()?;
    }
    ended.iter().try_for_each(|log| log.delete())?;
    let names = |logs: &[&SessionLog]| logs.iter().map(|log| log.name()).collect::<Vec<_>>();
    context.out.report(json!({ "deleted": names(&ended), "running": names(&running) }), |_| {
        let kept = match running.len() {
            0 => String::new(),
            count => format!(", kept {} of running sessions", text::count(count, "log")),
        };
        format!("removed {}{kept}\n", text::count(ended.len(), "log"))
    });
    Ok(Exit::Good)
}

fn spent(log: &SessionLog) -> Spent {
    log.spent.as_ref().map(|record| record.spent).unwrap_or_default()
}

/// Returns how these sessions ended, newest first. One whose end was not recorded runs, or was lost with its program; it was lost if
/// a later one did the same work.
fn outcomes(logs: &[SessionLog]) -> Vec<Option<SessionOutcome>> {
    let mut later = BTreeSet::new();
    let outcome = |log: &SessionLog| {
        let is_followed = !later.insert(what(log));
        log.outcome().or(is_followed.then_some(SessionOutcome::Interrupted))
    };
    logs.iter().map(outcome).collect()
}

fn about(log: &SessionLog, outcome: Option<SessionOutcome>) -> Value {
    json!({
        "name": text::line(&log.name()),
        "path": log.path.display().to_string(),
        "task": log.task,
        "number": log.number,
        "session": log.session.as_ref().map(ToString::to_string),
        "agent": text::line(&log.agent),
        "mode": log.mode,
        "phase": log.phase,
        "sandbox": text::line(&log.sandbox),
        "started_at": log.started_at,
        "ended_at": log.ended_at(),
        "outcome": outcome.map(SessionOutcome::as_str),
        "exit": log.spent.as_ref().and_then(|record| record.exit.as_deref()),
        "spent": spent(log),
    })
}

/// Returns the beginning of the log's name, which says enough: `chat-1`, `0003-2`.
fn short(log: &SessionLog) -> Option<String> {
    let of = log.task.map(|task| task.to_string()).or_else(|| log.mode.map(|mode| mode.to_string()))?;
    let name = log.name();
    // Not the number in the log, which in logs of earlier releases may be another than the one that the list shows.
    let (number, _) = name.strip_prefix(&of)?.strip_prefix('-')?.split_once('-')?;
    Some(format!("{of}-{number}"))
}

/// Returns what the session worked on.
fn what(log: &SessionLog) -> String {
    let word = |word: Option<String>| word.unwrap_or_default();
    let (mode, phase) = (log.mode.map(|mode| mode.to_string()), log.phase.map(|phase| phase.to_string()));
    work(&word(mode), &word(phase), log.task.map_or(0, |task| task.value()))
}

fn header(log: &SessionLog) -> Vec<String> {
    let what = match what(log) {
        what if what.is_empty() => "a session".to_owned(),
        what if what.starts_with('#') => format!("task {what}"),
        what => what,
    };
    let mut lines = vec![
        format!("{what}, session {}", log.number),
        // Of a setup that failed: no agent was started.
        text::line(&match log.sandbox.as_str() {
            "" => log.agent.clone(),
            sandbox => format!("{} in {sandbox}", log.agent),
        }),
    ];
    lines.extend(log.started_at.as_ref().map(|at| format!("started {}", at.local())));
    let exit = log.spent.as_ref().and_then(|record| record.exit.as_deref()).unwrap_or_default();
    let outcome = log.outcome().map_or("", SessionOutcome::as_str);
    // A program on a terminal is ended once its work is done, which says nothing of the work.
    let is_ended = log.outcome() == Some(SessionOutcome::Completed) && exit != "exit code 0";
    let exit = if is_ended { String::new() } else { format!(", {exit}") };
    lines.extend(log.ended_at().map(|at| text::line(&format!("{outcome} {}{exit}", at.local()))));
    lines.extend(Some(spent(log)).filter(|spent| !spent.is_nothing()).map(|spent| format!("spent: {spent}")));
    lines
}

fn list(out: Out, logs: &[SessionLog], outcomes: &[Option<SessionOutcome>]) -> String {
    if logs.is_empty() {
        return "no sessions yet\n".to_owned();
    }
    let mut lines = String::new();
    for (log, outcome) in logs.iter().zip(outcomes) {
        let spent = spent(log);
        let _ = writeln!(
            lines,
            "{}  {}  {}  {}  {}{}",
            text::pad(&what(log), 6),
            text::pad(&text::line(&log.agent), 12),
            text::pad(&log.started_at.as_ref().map(text::minute).unwrap_or_default(), 16),
            text::pad(outcome.map_or("", SessionOutcome::as_str), 11),
            out.style.dim(&text::line(&log.name())),
            if spent.is_nothing() { String::new() } else { format!("  {spent}") },
        );
    }
    lines
}

/// Returns the conversation: the texts with their speakers, and the tools that were used.
fn conversation(out: Out, messages: &[Message]) -> String {
    let mut shown = String::new();
    for message in messages {
        let who = match message.role {
            Role::Assistant => "Assistant",
            Role::User => "User",
            _ => "System",
        };
        for part in &message.parts {
            let line = match part {
                Part::Text { text, .. } => format!("{}\n{}\n", out.style.dim(who), text::lines(text)),
                Part::ToolCall { name, input, .. } => {
                    out.style.dim(&text::line(&format!("→ {name} {input}")))
                }
                Part::ToolResult { text, .. } => {
                    // One line each: results of tools are long, and the file has them.
                    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    out.style.dim(&text::clip(&text::line(&format!("← {first}")), 160))
                }
                Part::Error { text, .. } => out.style.red(&text::line(text)),
                _ => continue,
            };
            let _ = writeln!(shown, "{line}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Style;

    #[test]
    fn a_conversation_names_its_speakers_and_tools() {
        let out = Out { json: false, terminal: false, style: Style::new(false) };
        let messages: Vec<Message> = serde_json::from_value(json!([
            { "role": "user", "parts": [{ "type": "text", "text": "Implement it." }] },
            { "role": "assistant", "parts": [
                { "type": "text", "text": "I look." },
                { "type": "tool_call", "name": "Read", "input": "a.txt" },
            ] },
            { "role": "user", "parts": [{ "type": "tool_result", "text": "\nfirst\nsecond", "failed": false }] },
            { "role": "assistant", "parts": [{ "type": "text", "text": "\u{1b}[31mDone." }] },
        ]))
        .unwrap();
        let shown = conversation(out, &messages);
        assert_eq!(
            shown,
            "User\nImplement it.\n\nAssistant\nI look.\n\n→ Read a.txt\n← first\nAssistant\nDone.\n\n"
        );
    }
}
