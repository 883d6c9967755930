//! `watchfire-agent`: the command by which an agent speaks with its session, other agents and the person.
//!
//! ```text
//! watchfire-agent list                              the agents that run beside this one
//! watchfire-agent ask TARGET [TEXT] [--timeout 10m] asks one, or the person, and waits for the answer
//! watchfire-agent listen [--timeout 0s]             the oldest question to this agent, or waits for one
//! watchfire-agent answer ID [TEXT] [--blocked|--failed]
//!                                                   answers it, or says why what it asks for cannot be done
//! watchfire-agent note [TEXT]                       reports progress
//! watchfire-agent finish [--failed] [TEXT]          ends the work
//! watchfire-agent signal done|error|questions [TEXT]
//! watchfire-agent mcp [--without TOOL,TOOL]         the same as tools, over the Model Context Protocol on stdio
//! ```
//!
//! A text that is missing is read from stdin. It prints what it was asked for on stdout and exits with 0; an error is one
//! line of JSON on stderr, with its stable code, and exit code 1. What another agent said is marked as its words.

#[cfg(any(test, feature = "orchestrator"))]
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

use super::call::{AgentAction, envelope};
use super::caller::Caller;
use super::mcp;
use super::message::SpoolMessage;
use super::signal::Signal;
use crate::inquiry::AnswerStatus;
#[cfg(any(test, feature = "orchestrator"))]
use crate::model::AgentsMay;
use crate::model::Question;
use crate::process::helper::RoleArgs;
use crate::schedule::resolve;
use crate::{Error, ErrorKind, Result};

/// Name of the command in the agent's `PATH`.
pub(crate) const NAME: &str = "watchfire-agent";
/// Name of the helper role, whose first argument is the session's folder.
pub(crate) const ROLE: &str = "agent";
/// Name under which an agent asks the person.
pub(super) const PERSON: &str = "person";
/// Word that starts the server of tools.
const SERVER: &str = "mcp";
/// Option of the server: the tools that it does not list, separated by commas.
const WITHOUT: &str = "--without";
/// Time for an answer, where none is given.
pub(super) const WITHIN: Duration = Duration::from_secs(600);

crate::register_helper_role!(ROLE, run);

fn run(args: RoleArgs) -> i32 {
    let words: Vec<String> = args.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let done = match words.split_first() {
        Some((folder, words)) => {
            let caller = Caller::new(folder);
            match words {
                [word, options @ ..] if word == SERVER => {
                    let served = left_out(options).and_then(|without| mcp::serve(&caller, &without));
                    served.map(|()| String::new())
                }
                words => carry_out(&caller, words),
            }
        }
        None => Err(usage()),
    };
    let printed = done.and_then(|text| {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| Error::io("writing to stdout", error))
    });
    match printed {
        Ok(()) => 0,
        Err(error) => {
            // Never 2, which agents take for a veto where this runs as a hook.
            eprintln!("{}", envelope(&Err(error)));
            1
        }
    }
}

/// Returns the words of the command line that serve the tools to an agent with these permissions.
#[cfg(any(test, feature = "orchestrator"))]
pub(crate) fn server_words(may: &AgentsMay, in_a_chat: bool) -> Vec<OsString> {
    let without = mcp::tools_without_use(may, in_a_chat);
    let mut words = vec![SERVER.into()];
    if !without.is_empty() {
        words.extend([WITHOUT.into(), without.join(",").into()]);
    }
    words
}

/// Returns the tools that the server is not to list.
fn left_out(options: &[String]) -> Result<Vec<&str>> {
    match options {
        [] => Ok(Vec::new()),
        [option, tools] if option == WITHOUT => Ok(tools.split(',').collect()),
        _ => Err(usage()),
    }
}

/// Options and words of a command line.
#[derive(Debug, Default)]
struct Line {
    words: Vec<String>,
    timeout: Option<Duration>,
    json: bool,
    failed: bool,
    blocked: bool,
}

impl Line {
    fn of(args: &[String]) -> Result<Self> {
        let mut line = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--json" => line.json = true,
                "--failed" => line.failed = true,
                "--blocked" => line.blocked = true,
                "--timeout" => {
                    let text = args.next().ok_or_else(usage)?;
                    // Not to wait at all makes no sense for a time limit, which the other durations are.
                    let is_zero = matches!(text.as_str(), "0" | "0s" | "0ms");
                    line.timeout = Some(if is_zero { Duration::ZERO } else { resolve::duration(text)? });
                }
                // Everything after it is text, whatever it looks like.
                "--" => line.words.extend(args.by_ref().cloned()),
                option if option.starts_with("--") => return Err(usage().with("option", option)),
                word => line.words.push(word.to_owned()),
            }
        }
        Ok(line)
    }

    /// Returns the words from `at` on, or stdin where there are none.
    fn text(&self, at: usize) -> Result<String> {
        match self.words.get(at..) {
            Some(words @ [_, ..]) => Ok(words.join(" ")),
            _ => {
                let mut text = String::new();
                let read = std::io::stdin().lock().take(1 << 20).read_to_string(&mut text);
                read.map_err(|error| Error::io("reading stdin", error))?;
                Ok(text)
            }
        }
    }
}

fn carry_out(caller: &Caller, words: &[String]) -> Result<String> {
    let line = Line::of(words)?;
    let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            let listed = caller.call(AgentAction::List)?;
            Ok(if line.json { printed(&listed) } else { mcp::list(&listed) })
        }
        ["ask", PERSON, ..] => {
            let asked = caller.ask_person(&line.text(2)?, line.timeout.unwrap_or(Duration::MAX))?;
            let answer = asked.ok_or_else(|| Error::new(ErrorKind::Timeout, "no answer yet"))?;
            Ok(if line.json { printed(&json!({ "answer": answer })) } else { format!("{answer}\n") })
        }
        ["ask", target, ..] => {
            let within = line.timeout.unwrap_or(WITHIN);
            // It ends by itself at its deadline.
            let wait = within.saturating_add(Duration::from_secs(5));
            let ended = caller.ask(target, &line.text(2)?, within, wait)?;
            let answer = mcp::answer(&ended)?;
            Ok(if line.json { printed(&ended) } else { format!("{answer}\n") })
        }
        ["answer", id, ..] => {
            let (inquiry, text) = ((*id).to_owned(), line.text(2)?);
            let status = match (line.failed, line.blocked) {
                (true, true) => return Err(usage()),
                (true, false) => AnswerStatus::Failed,
                (false, true) => AnswerStatus::Blocked,
                (false, false) => AnswerStatus::Done,
            };
            Ok(printed(&caller.call(AgentAction::Answer { inquiry, text, status })?))
        }
        ["listen"] => {
            let wait = line.timeout.unwrap_or(WITHIN);
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let heard = caller.call(AgentAction::Listen { wait_ms })?;
            // Nothing is no error: an agent looks between two steps of its work.
            Ok(if heard.is_null() { String::new() } else { printed(&heard) })
        }
        ["note", ..] => caller.tell(&SpoolMessage::note(line.text(1)?)).map(|()| String::new()),
        ["finish", ..] => {
            // Done needs no words. Stdin may be a terminal that nobody types into.
            let reason = match (line.failed, words.len()) {
                (false, 1) => None,
                _ => Some(line.text(1)?),
            };
            Ok(printed(&caller.call(AgentAction::Finish { success: !line.failed, reason })?))
        }
        ["signal", "done"] => Ok(printed(&caller.call(AgentAction::Finish { success: true, reason: None })?)),
        ["signal", "error", ..] => {
            let reason = Some(line.text(2)?);
            Ok(printed(&caller.call(AgentAction::Finish { success: false, reason })?))
        }
        ["signal", "questions", ..] => {
            let text = line.text(2)?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let questions = lines.enumerate().map(|(n, line)| Question::new((n + 1).to_string(), line));
            let signal = Signal::Questions(questions.collect());
            caller.tell(&SpoolMessage::Signal(signal)).map(|()| String::new())
        }
        _ => Err(usage()),
    }
}

fn printed(value: &Value) -> String {
    format!("{value}\n")
}

fn usage() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "expected list, ask TARGET TEXT, listen, answer ID TEXT [--blocked|--failed], note TEXT, finish [--failed] [TEXT] or \
         signal done|error|questions [TEXT]",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_what_to_leave_out() {
        let of = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            left_out(&words)
                .map(|tools| tools.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(|error| error.code())
        };
        assert_eq!(of(&[]), Ok(Vec::new()));
        assert_eq!(of(&["--without", "finish,ask_agent"]), Ok(vec!["finish".into(), "ask_agent".into()]));
        let mut may = AgentsMay::default();
        assert_eq!(server_words(&may, false), ["mcp"]);
        may.see_peers = Some(false);
        assert_eq!(server_words(&may, true), ["mcp", "--without", "ask_agent,finish,list_agents"]);
        assert_eq!(of(&["--without"]), Err("invalid_input"));
        assert_eq!(of(&["--with", "finish"]), Err("invalid_input"));
    }

    #[test]
    fn options_stand_anywhere_and_text_is_joined() {
        let line = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            Line::of(&words)
        };
        assert_eq!(line("listen --timeout 0s").unwrap().timeout, Some(Duration::ZERO));
        let asked = line("ask 3 which port? --timeout 2m --json").unwrap();
        assert_eq!((asked.timeout, asked.json), (Some(Duration::from_secs(120)), true));
        assert_eq!(asked.text(2).unwrap(), "which port?");
        assert_eq!(line("note -- --json is on").unwrap().text(1).unwrap(), "--json is on");
        for wrong in ["list --fast", "ask 3 x --timeout", "ask 3 x --timeout soon"] {
            assert_eq!(line(wrong).unwrap_err().code(), "invalid_input", "{wrong}");
        }
    }
}
