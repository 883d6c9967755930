//! The agent's side: what its hooks run, inside of the sandbox.
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
//! It exits 0 when the message is in the outbox, 1 with a line on stderr when not, and 2 never: agents take that for a
//! veto by a hook. It prints nothing on stdout, which agents read as an answer.

use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::folder::Folder;
use super::message::Message;
use super::signal::{Question, Signal};
use crate::clock::{Clock as _, SystemClock};
use crate::process::helper::RoleArgs;
use crate::{Error, ErrorKind, Result};

/// The name of the helper role.
pub const ROLE: &str = "agent-send";

/// The variable that names the outbox, as the agent sees it.
pub const OUTBOX: &str = "WATCHFIRE_OUTBOX";

/// The longest text that is sent, in bytes; of a longer one the end is missing.
const LONGEST: usize = 1 << 20;

crate::register_helper_role!(ROLE, run);

/// Writes `message` into `outbox`, whole or not at all. Messages sent one after the other are taken in that order.
///
/// # Errors
/// Those of the disk.
pub fn send(outbox: &Path, message: &Message) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "{:012x}-{:08x}-{:08x}.json",
        SystemClock.now().unix_millis().max(0),
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    Folder::open(outbox)?
        .put(&name, message.to_json().to_string().as_bytes())
        .map_err(|error| error.with_path(outbox))
}

fn run(args: RoleArgs) -> i32 {
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
            eprintln!("watchfire {ROLE}: {}", error.report());
            1
        }
    }
}

fn message(words: &[&str], input: impl std::io::Read) -> Result<Message> {
    match words {
        ["hook", event] => {
            let (payload, truncated) = text(input)?;
            Ok(Message::Hook { event: (*event).to_owned(), payload, truncated })
        }
        ["hook", event, payload] => Ok(Message::hook(*event, *payload)),
        ["note"] => Ok(Message::note(text(input)?.0)),
        ["signal", "done"] => Ok(Message::Signal(Signal::Done { result: None })),
        ["signal", "questions"] => {
            let (text, _) = text(input)?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let questions = lines.enumerate().map(|(n, line)| Question::new((n + 1).to_string(), line));
            Ok(Message::Signal(Signal::Questions(questions.collect())))
        }
        ["signal", "error"] => Ok(Message::Signal(Signal::Error { error: text(input)?.0 })),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "expected hook EVENT, note, or signal done, questions or error, with the text on stdin",
        )),
    }
}

/// All of the input up to a limit, and whether there was more, which is read too: who writes it must not be stopped.
fn text(mut input: impl std::io::Read) -> Result<(String, bool)> {
    let failed = |error| Error::io("reading stdin", error);
    let mut bytes = Vec::new();
    input.by_ref().take(LONGEST as u64).read_to_end(&mut bytes).map_err(failed)?;
    let rest = std::io::copy(&mut input, &mut std::io::sink()).map_err(failed)?;
    if rest > 0
        && let Some(last) = bytes.utf8_chunks().last()
    {
        // Not half a character.
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
        assert_eq!(sent(&["hook", "Stop"], "{}").unwrap(), Message::hook("Stop", "{}"));
        assert_eq!(sent(&["hook", "notify", "{}"], "").unwrap(), Message::hook("notify", "{}"));
        assert_eq!(sent(&["note"], "hi").unwrap(), Message::note("hi"));
        assert_eq!(sent(&["signal", "done"], "").unwrap(), Message::Signal(Signal::Done { result: None }));
        let questions = vec![Question::new("1", "a?"), Question::new("2", "b?")];
        assert_eq!(
            sent(&["signal", "questions"], "a?\n\n b?").unwrap(),
            Message::Signal(Signal::Questions(questions))
        );
        for words in [&["hook"][..], &[], &["signal", "maybe"], &["rm", "-rf"]] {
            assert_eq!(sent(words, "").unwrap_err().code(), "invalid_input");
        }
    }

    #[test]
    fn a_long_payload_is_cut_between_characters_and_says_so() {
        let long = format!("x{}", "é".repeat(LONGEST));
        let Message::Hook { payload, truncated, .. } =
            message(&["hook", "PostToolUse"], long.as_bytes()).unwrap()
        else {
            panic!("no hook")
        };
        assert!(truncated && payload.len() == LONGEST - 1 && long.starts_with(&payload));
    }
}
