//! Calls of an agent, from its side: by the socket, or else through the spool.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::Answer;
use super::call::{AgentAction, AgentCall};
use super::client::send;
use super::folder::{Folder, Read};
use super::message::SpoolMessage;
use super::socket;
use crate::clock::{Clock as _, SystemClock};
use crate::{Error, ErrorKind, Result};

/// Maximum length of a reply: a list of inquiries with their texts.
const LONGEST: u64 = 64 << 20;
/// Time limit for a reply beyond what the call itself waits for. A program that takes the session over needs some.
const GRACE: Duration = Duration::from_secs(60);
/// Longest wait of one call by the spool, in milliseconds. Nobody notices there when a caller goes away, and what it is given
/// then is lost.
const BY_SPOOL: u64 = 5_000;
/// The first and the longest pause between two looks for a reply. The inbox cannot be watched everywhere, and watches are
/// scarce.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// The way of one agent to its session.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    folder: PathBuf,
}

/// Returns a new id for a call. A later call has a later one.
pub(super) fn new_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (now, pid) = (SystemClock.now().unix_millis().max(0), std::process::id());
    format!("{now:012x}-{pid:x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Caller {
    /// Returns the way through the spool in a session's folder.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Sends a message that has no reply.
    pub(super) fn tell(&self, message: &SpoolMessage) -> Result<()> {
        send(&self.folder.join("outbox"), message)
    }

    /// Makes a call, and returns its result.
    ///
    /// # Errors
    /// The error of the reply, as it came; `timeout` if there is none.
    pub(super) fn call(&self, mut action: AgentAction) -> Result<Value> {
        let began = Instant::now();
        let waits = action.wait_ms().copied().unwrap_or_default();
        let mut call = AgentCall::new(new_id(), action);
        // A question to the person is kept in the spool until the session ends.
        let by_socket = !matches!(call.action, AgentAction::AskPerson { .. });
        let limit = GRACE + Duration::from_millis(waits);
        if by_socket && let Some(reply) = socket::call(&self.folder, &call, limit) {
            return result(reply);
        }
        loop {
            let left = waits.saturating_sub(millis(began.elapsed()));
            call.action.wait_ms().into_iter().for_each(|wait| *wait = left.min(BY_SPOOL));
            let name = call.file_name("reply");
            self.tell(&SpoolMessage::Call(call.clone()))?;
            // However long its program is away: the one that takes the session over replies.
            let reply = self.wait_for(GRACE + Duration::from_millis(left), || self.read(&name))?;
            let Some(reply) = reply else {
                return Err(Error::new(ErrorKind::Timeout, "no reply from the session"));
            };
            let told = result(reply)?;
            let is_over = !told.is_null() && told.get("state") != Some(&json!("pending"));
            if is_over || left <= BY_SPOOL {
                return Ok(told);
            }
            call.id = new_id();
        }
    }

    /// Asks another session, and waits up to `wait` for the answer. Returns the inquiry as it is then.
    pub(super) fn ask(&self, target: &str, text: &str, within: Duration, wait: Duration) -> Result<Value> {
        let (target, text) = (target.to_owned(), text.to_owned());
        let asked = self.call(AgentAction::Ask { target, text, within_ms: Some(millis(within)) })?;
        let inquiry = asked.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.call(AgentAction::Await { inquiry, wait_ms: millis(wait) })
    }

    /// Asks the person, and waits up to `wait` for the answer. Returns `None` if there is none yet.
    pub(super) fn ask_person(&self, text: &str, wait: Duration) -> Result<Option<String>> {
        let asked = self.call(AgentAction::AskPerson { text: text.to_owned() })?;
        let question = asked.get("question").and_then(Value::as_str).unwrap_or_default().to_owned();
        let inbox = self.folder.join("inbox");
        self.wait_for(wait, || Ok(Answer::read(&inbox, &question)?.map(|answer| answer.text)))
    }

    fn read(&self, name: &str) -> Result<Option<Value>> {
        let malformed = |reason: String| {
            Err(Error::new(ErrorKind::Malformed, "not a reply").with("file", name).with("reason", reason))
        };
        let Ok(file) = std::ffi::CString::new(name) else { return malformed("its name".to_owned()) };
        match Folder::open(&self.folder.join("inbox"))?.read(&file, LONGEST) {
            Read::Missing => Ok(None),
            Read::Refused(reason) => malformed(reason),
            Read::Bytes(bytes, _) => match serde_json::from_slice(&bytes) {
                Ok(value) => Ok(Some(value)),
                Err(error) => malformed(error.to_string()),
            },
        }
    }

    /// Looks again and again until there is something, or `limit` has passed.
    fn wait_for<T>(&self, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        let [mut pause, longest] = PAUSES;
        let began = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            if began.elapsed() >= limit {
                return Ok(None);
            }
            sleep(pause.min(limit.saturating_sub(began.elapsed())));
            pause = (pause * 2).min(longest);
        }
    }
}

/// Returns the result in a reply, or its error.
fn result(mut reply: Value) -> Result<Value> {
    if reply.get("ok") == Some(&json!(true)) {
        return Ok(reply.get_mut("result").map(Value::take).unwrap_or_default());
    }
    let error = reply.get("error").cloned().unwrap_or_default();
    let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut told = Error::from_code(&text("code"), text("message"));
    // Names of facts are static in an error, so those that calls have are listed.
    for name in ["cycle", "there_are", "candidates", "target", "id", "limit", "may", "file", "session"] {
        if let Some(fact) = error.pointer(&format!("/details/{name}")).and_then(Value::as_str) {
            told = told.with(name, fact);
        }
    }
    match error.get("hint").and_then(Value::as_str) {
        Some(hint) => Err(told.with("hint", hint)),
        None => Err(told),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody notices when a caller by the spool goes away, so it waits in short calls.
    #[test]
    fn a_wait_by_the_spool_is_many_short_ones() {
        let temp = tempfile::tempdir().unwrap();
        let (outbox, inbox) = (temp.path().join("outbox"), temp.path().join("inbox"));
        std::fs::create_dir(&outbox).unwrap();
        std::fs::create_dir(&inbox).unwrap();
        let caller = Caller::new(temp.path());
        let listening = std::thread::spawn(move || caller.call(AgentAction::Listen { wait_ms: 600_000 }));
        let took = || loop {
            for entry in std::fs::read_dir(&outbox).unwrap().flatten() {
                if entry.path().extension().is_some_and(|it| it == "json") {
                    let message = SpoolMessage::parse(&std::fs::read(entry.path()).unwrap()).unwrap();
                    std::fs::remove_file(entry.path()).unwrap();
                    let SpoolMessage::Call(call) = message else { panic!("{message:?}") };
                    return call;
                }
            }
            sleep(Duration::from_millis(1));
        };
        let reply = |call: &AgentCall, result: Value| {
            let at = inbox.join(call.file_name("reply"));
            std::fs::write(inbox.join("new"), json!({ "ok": true, "result": result }).to_string()).unwrap();
            std::fs::rename(inbox.join("new"), at).unwrap();
        };
        let (first, nothing) = (took(), Value::Null);
        reply(&first, nothing);
        let second = took();
        assert_ne!(first.id, second.id);
        for call in [&first, &second] {
            assert_eq!(call.action, AgentAction::Listen { wait_ms: BY_SPOOL });
        }
        reply(&second, json!({ "question": "?" }));
        assert_eq!(listening.join().unwrap().unwrap(), json!({ "question": "?" }));
    }
}
