//! The agent's side of a spool: the command that its hooks run inside the sandbox.
//!
//! The helper role [`ROLE`] writes one message into the outbox that [`OUTBOX`] names:
//!
//! ```text
//! agent-send hook Stop < payload      # what an agent's hook is configured to run
//! agent-send hook notify payload      # where the agent gives it as an argument
//! agent-send note < text
//! agent-send signal done
//! agent-send signal error < why
//! agent-send signal questions < questions, one a line
//! ```
//!
//! It exits with 0 if the message is in the outbox and with 1 and a line on stderr if not. It never exits with 2, which
//! agents take for a veto, and prints nothing on stdout, which agents read as an answer.

use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::folder::Folder;
use super::message::SpoolMessage;
use super::signal::Signal;
use crate::clock::{Clock as _, SystemClock};
use crate::model::Question;
use crate::process::helper::RoleArgs;
use crate::{Error, ErrorKind, Result};

/// Name of the helper role.
pub const ROLE: &str = "agent-send";

/// Variable with the path of the outbox, as the agent sees it.
pub const OUTBOX: &str = "WATCHFIRE_OUTBOX";

/// Maximum length of a text, in bytes. Longer ones are cut.
const LONGEST: usize = 1 << 20;

crate::register_helper_role!(ROLE, run);

/// Writes `message` into `outbox` atomically. Messages sent one after another are taken in that order.
///
/// # Errors
/// I/O errors.
pub fn send(outbox: &Path, message: &SpoolMessage) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        // Time first: the session takes messages in the order of their names.
        "{:012x}-{:08x}-{:08x}.json",
        SystemClock.now().unix_millis().max(0),
        // Hooks of one agent run at the same time, each in a process of its own.
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    Folder::open(outbox)?
        .put(&name, message.to_json().to_string().as_bytes())
        .map_err(|error| error.with_path(outbox))
}

fn run(args: RoleArgs) -> i32 {
    // An event's name is configured text, but a payload given as an argument may be any bytes.
    let words: Vec<String> = args.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let sent = std::env::var_os(OUTBOX)
        .filter(|outbox| !outbox.is_empty())
        .ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "no outbox, expected its path in the environment")
                .with("variable", OUTBOX)
        })
        .and_then(|outbox| send(Path::new(&outbox), &message(&words, std::io::stdin().lock())?));
    match sent {
        Ok(()) => 0,
        Err(error) => {
            // The agent shows the stderr of a failed hook to its user.
            eprintln!("watchfire {ROLE}: {}", error.report());
            1
        }
    }
}

fn message(words: &[&str], input: impl std::io::Read) -> Result<SpoolMessage> {
    match words {
        ["hook", event] => {
            let (payload, truncated) = text(input)?;
            Ok(SpoolMessage::Hook { event: (*event).to_owned(), payload, truncated })
        }
        // Some agents pass the payload as an argument.
        ["hook", event, payload] => Ok(SpoolMessage::hook(*event, *payload)),
        ["note"] => Ok(SpoolMessage::note(text(input)?.0)),
        ["signal", "done"] => Ok(SpoolMessage::Signal(Signal::Done { result: None })),
        ["signal", "questions"] => {
            let (text, _) = text(input)?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let questions = lines.enumerate().map(|(n, line)| Question::new((n + 1).to_string(), line));
            Ok(SpoolMessage::Signal(Signal::Questions(questions.collect())))
        }
        ["signal", "error"] => Ok(SpoolMessage::Signal(Signal::Error { error: text(input)?.0 })),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "expected hook EVENT, note, or signal done, questions or error, with the text on stdin",
        )),
    }
}

/// Reads the input up to [`LONGEST`] and returns true if it was cut. Reads and discards the rest, or the agent that
/// writes it would get SIGPIPE.
fn text(mut input: impl std::io::Read) -> Result<(String, bool)> {
    let failed = |error| Error::io("reading stdin", error);
    let mut bytes = Vec::new();
    input.by_ref().take(LONGEST as u64).read_to_end(&mut bytes).map_err(failed)?;
    let rest = std::io::copy(&mut input, &mut std::io::sink()).map_err(failed)?;
    if rest > 0
        && let Some(last) = bytes.utf8_chunks().last()
    {
        // The limit may have split a character.
        let cut = if last.invalid().len() < 4 { last.invalid().len() } else { 0 };
        bytes.truncate(bytes.len() - cut);
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_input_become_a_message() {
        let sent = |words: &[&str], input: &str| message(words, input.as_bytes());
        assert_eq!(sent(&["hook", "Stop"], "{}").unwrap(), SpoolMessage::hook("Stop", "{}"));
        assert_eq!(sent(&["hook", "notify", "{}"], "").unwrap(), SpoolMessage::hook("notify", "{}"));
        assert_eq!(sent(&["note"], "hi").unwrap(), SpoolMessage::note("hi"));
        assert_eq!(
            sent(&["signal", "done"], "").unwrap(),
            SpoolMessage::Signal(Signal::Done { result: None })
        );
        let questions = vec![Question::new("1", "a?"), Question::new("2", "b?")];
        assert_eq!(
            sent(&["signal", "questions"], "a?\n\n b?").unwrap(),
            SpoolMessage::Signal(Signal::Questions(questions))
        );
        for words in [&["hook"][..], &[], &["signal", "maybe"], &["rm", "-rf"]] {
            assert_eq!(sent(words, "").unwrap_err().code(), "invalid_input");
        }
    }

    #[test]
    fn a_long_payload_is_cut_between_characters_and_says_so() {
        let long = format!("x{}", "é".repeat(LONGEST));
        let SpoolMessage::Hook { payload, truncated, .. } =
            message(&["hook", "PostToolUse"], long.as_bytes()).unwrap()
        else {
            panic!("no hook")
        };
        assert!(truncated && payload.len() == LONGEST - 1 && long.starts_with(&payload));
    }
}
