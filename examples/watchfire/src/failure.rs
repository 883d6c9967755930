//! Ends of commands: exit codes, and the report of a failure for people and for programs.

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Map, Value, json};
use watchfire_client::ApiError;
use watchfire_core::Error;

use crate::style::Style;
use crate::text;

/// The end of a command that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// All is well.
    Good,
    /// A person has to look: a task failed, conflicts, is held, or waits.
    NeedsPerson,
    /// Ctrl+C or SIGTERM.
    Interrupted,
    /// The exit code of a command that was run.
    Of(u8),
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::NeedsPerson => 3,
            // 128 + SIGINT, as shells report it.
            Self::Interrupted => 130,
            Self::Of(code) => code,
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library.
    Error(Error),
    /// An error of the library, from a command whose exit codes have a meaning of their own.
    Command { error: Error, code: u8 },
    /// An error of the program that runs the agents, and further details.
    Remote { error: ApiError, more: Vec<(&'static str, Value)> },
    /// An error that keeps a terminal from being attached, whose exit codes have a meaning of their own.
    Attach { error: ApiError, code: u8 },
    /// A command line that makes no sense as a whole. clap reports other mistakes.
    Usage { message: String, hint: String },
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Remote { error, more: Vec::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Error(_) | Self::Remote { .. } => 1,
            Self::Command { code, .. } | Self::Attach { code, .. } => *code,
            // The code that clap uses for its own mistakes.
            Self::Usage { .. } => 2,
        }
    }

    /// Returns the failure in one line.
    pub(crate) fn line(&self) -> String {
        let Told { message, facts, because, hint } = self.told();
        let facts = facts.into_iter().chain(hint.map(|hint| ("hint".to_owned(), hint)));
        let facts: Vec<_> = facts.map(|(name, value)| format!("{name}: {value}")).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let because: String = because.iter().map(|source| format!(": {source}")).collect();
        format!("{message}{facts}{because}")
    }

    /// Writes the failure to stderr.
    pub(crate) fn print(&self, as_json: bool) {
        let text = if as_json {
            format!("{}\n", self.json())
        } else {
            // stderr decides, because stdout may be redirected without it.
            let is_terminal = std::io::stderr().is_terminal();
            let mut text = self.text(Style::new(is_terminal));
            if is_terminal {
                text = crate::fit::fitted(&text, usize::from(crate::terminal::size().cols()));
            }
            watchfire_tui::ascii::shown(&text).into_owned()
        };
        // If stderr cannot be written, there is no place left to report that.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn text(&self, style: Style) -> String {
        let Told { message, facts, because, hint } = self.told();
        let mut lines = vec![format!("{} {}", style.red("error:"), text::line(&message))];
        // Every part may hold text from files, with escape sequences in it.
        // A fact that the message has is not repeated.
        let facts = facts.iter().filter(|(name, value)| !message.ends_with(&format!("({name} {value})")));
        lines.extend(facts.map(|(name, value)| format!("  {name}: {}", text::line(value))));
        lines.extend(because.iter().map(|source| format!("  because: {}", text::line(source))));
        lines.extend(hint.map(|hint| format!("{} {}", style.cyan("hint:"), text::line(&hint))));
        lines.push(String::new());
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let Told { message, facts, because, hint } = self.told();
        let code = match self {
            Self::Error(error) | Self::Command { error, .. } => error.code(),
            Self::Remote { error, .. } | Self::Attach { error, .. } => &error.code,
            Self::Usage { .. } => "usage",
        };
        let mut details: Map<_, _> = facts.into_iter().map(|(name, value)| (name, value.into())).collect();
        if !because.is_empty() {
            details.insert("because".to_owned(), because.into());
        }
        if let Self::Remote { more, .. } = self {
            details.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        json!({ "schema": 1, "ok": false, "error": { "code": code, "message": message, "hint": hint, "details": details } })
    }

    fn told(&self) -> Told {
        let error = match self {
            Self::Error(error) | Self::Command { error, .. } => error,
            Self::Remote { error, .. } | Self::Attach { error, .. } => {
                let mut facts = error.details.clone();
                return Told {
                    message: message(&error.message, error.details.get("pid").map(String::as_str)),
                    because: facts.remove("because").into_iter().collect(),
                    facts: facts.into_iter().collect(),
                    hint: error.hint.clone().or_else(|| {
                        hint(&error.code, &error.message, error.details.get("task").map(String::as_str))
                    }),
                };
            }
            Self::Usage { message, hint } => {
                return Told { message: message.clone(), hint: Some(hint.clone()), ..Told::default() };
            }
        };
        // The hint has a line of its own.
        let facts = error.context().filter(|(name, _)| *name != "hint");
        let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
        Told {
            message: message(error.message(), error.detail("pid")),
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            because: sources.map(ToString::to_string).collect(),
            hint: error
                .detail("hint")
                .map(str::to_owned)
                .or_else(|| hint(error.code(), error.message(), error.detail("task"))),
        }
    }
}

/// The parts of a failure.
#[derive(Default)]
struct Told {
    message: String,
    facts: Vec<(String, String)>,
    because: Vec<String>,
    hint: Option<String>,
}

/// Returns the message in the words of the command line: the library does not know our program.
fn message(message: &str, pid: Option<&str>) -> String {
    match (message, pid) {
        ("another orchestrator works on this project", Some(pid)) => {
            format!("another watchfire works on this project (pid {pid})")
        }
        _ => message.to_owned(),
    }
}

/// Returns a hint for an error that has none: the library does not know our commands.
fn hint(code: &str, message: &str, task: Option<&str>) -> Option<String> {
    Some(match code {
        "invalid_input" if message == "the task is done; set it back to ready first" => {
            let number = task?.trim_start_matches('0');
            format!(
                "watchfire task ready {number}; or, if it is done and not merged, watchfire branches merge {number}"
            )
        }
        "not_found" if message == "no such task" => {
            "watchfire task list shows them, and watchfire task list-deleted those in the trash".to_owned()
        }
        "malformed" => "mend the file; watchfire doctor looks at all of them".to_owned(),
        "locked" => {
            "`watchfire sessions` shows its agents; wait for its end, or stop it with Ctrl+C where it runs"
                .to_owned()
        }
        "policy_unenforceable" | "sandbox_unavailable" => {
            "watchfire doctor shows what this machine can enforce; --no-sandbox runs without".to_owned()
        }
        "program_missing" | "unknown_backend" => {
            "watchfire doctor lists the agents of this machine".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::ErrorKind;

    #[test]
    fn people_get_lines_and_programs_get_json() {
        let error =
            Error::new(ErrorKind::Locked, "the project is in use").with("pid", 7).with("hint", "wait");
        let failure = Failure::from(error);
        assert_eq!(failure.text(Style::new(false)), "error: the project is in use\n  pid: 7\nhint: wait\n");
        assert_eq!(
            failure.json(),
            json!({"schema": 1, "ok": false, "error": {
                "code": "locked", "message": "the project is in use", "hint": "wait", "details": {"pid": "7"}
            }})
        );
        assert_eq!(Failure::usage("no", "try").code(), 2);
    }

    #[test]
    fn what_comes_from_files_cannot_paint_the_terminal() {
        let error = Error::new(ErrorKind::Malformed, "bad").with("value", "\x1b[31mred\x07");
        assert!(!Failure::from(error).text(Style::new(false)).contains('\x1b'));
    }
}
