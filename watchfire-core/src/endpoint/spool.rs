//! The session's side of a spool.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::call::AgentCall;
use super::folder::{Folder, Read, is_plain};
use super::message::SpoolMessage;
use super::signal::Signal;
use crate::model::Question;
use crate::{Error, ErrorKind, Result};

const OUTBOX: &str = "outbox";
const INBOX: &str = "inbox";
/// Holds the questions that were taken, and the calls that are under way.
const ASKED: &str = "asked";
/// Number of replies to calls that are kept. Agents cannot remove them, and each is read at once.
const REPLIES: usize = 128;

/// Limits of one intake. Everything beyond them waits for the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SpoolLimits {
    /// Maximum number of messages. 256 by default; hooks come in dozens.
    pub messages: usize,
    /// Maximum length of a message, in bytes. Longer ones are refused. 4 MiB by default, since the payload of a hook may
    /// contain a file.
    pub message_bytes: u64,
    /// Maximum length of all messages together, in bytes. 16 MiB by default.
    pub total_bytes: u64,
    /// Maximum number of names to list, of messages or other files. 4096 by default.
    pub names: usize,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self { messages: 256, message_bytes: 4 << 20, total_bytes: 16 << 20, names: 4096 }
    }
}

/// Inode and change time of a file.
type Stamp = (u64, i64, u64);

/// The messages taken from an outbox.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Intake {
    /// Messages, ordered by file name, and so by time.
    pub messages: Vec<SpoolMessage>,
    /// Files that are not messages. They are removed; a folder that is not empty is moved to `.refused-…` beside the
    /// outbox.
    pub refused: Vec<RefusedFile>,
    /// True if the limits left something behind: take again.
    pub more: bool,
    /// The files of `messages`, except of those that were moved aside, with their stamps.
    files: Vec<(CString, Option<Stamp>)>,
}

/// A file in an outbox that is not a message.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RefusedFile {
    /// Name of the file, escaped for display.
    pub name: String,
    /// Reason, as a fragment.
    pub reason: String,
}

/// A session's `outbox/` and `inbox/`.
///
/// Holds one descriptor, of the folder that has both in it. That folder is found by no path again, so that renaming it
/// redirects nothing.
#[derive(Debug)]
pub struct Spool {
    session: Folder,
    limits: SpoolLimits,
    /// Names of the replies in the inbox, oldest first.
    replies: Mutex<VecDeque<String>>,
}

impl Spool {
    /// Opens the spool in a session's folder, creating `outbox/` and `inbox/` (0700) if they do not exist.
    ///
    /// # Errors
    /// I/O errors, also if one of the two is a link.
    pub fn open(session_dir: &Path, limits: SpoolLimits) -> Result<Self> {
        let session = Folder::open(session_dir)?;
        let place = |error: Error| error.with_path(session_dir);
        for folder in [OUTBOX, INBOX] {
            // Opened as well as created, so that a link in place of one of them is found at once.
            session.child(folder).map_err(place)?;
        }
        Ok(Self { session, limits, replies: Mutex::default() })
    }

    /// Takes the messages in the outbox and removes their files. Cheap if there are none; never blocks. Questions can be
    /// read again with [`asked`](Self::asked).
    ///
    /// # Errors
    /// I/O errors of listing the outbox. A problem with a single file is reported in the intake.
    pub fn take(&self) -> Result<Intake> {
        let mut intake = self.read()?;
        self.remove(&mut intake)?;
        Ok(intake)
    }

    /// The same, but leaves the files of messages in the outbox until they are [removed](Self::remove): a program that is
    /// killed in between leaves them to the next one.
    pub(crate) fn read(&self) -> Result<Intake> {
        // By descriptor each time: the agent may have replaced the folder, and gets a new one then.
        let outbox = self.session.child(OUTBOX)?;
        let (names, mut more) = outbox.names(self.limits.names)?;
        let mut intake = Intake::default();
        let (mut candidates, mut odd) = (Vec::new(), Vec::new());
        for name in names {
            match classify(&name) {
                Name::Message => candidates.push(name),
                // A hidden file is normally renamed soon. Beyond the limit of names they are a flood, and would hide
                // the messages behind them for ever.
                Name::BeingWritten if !more => {}
                Name::BeingWritten => odd.push((name, "too many unfinished files".to_owned())),
                Name::Odd(reason) => odd.push((name, reason)),
            }
        }
        // Names begin with the time of sending.
        candidates.sort_unstable();
        let asked = self.session.child(ASKED).ok();
        let mut left = self.limits.total_bytes;
        for name in candidates {
            // Refused files count as well: each becomes a remark in the session's log.
            if intake.messages.len() + intake.refused.len() >= self.limits.messages || left == 0 {
                more = true;
                break;
            }
            let stamp = outbox.stamp(&*name);
            let refusal = match outbox.read(&name, self.limits.message_bytes) {
                // The agent may take back its own file.
                Read::Missing => continue,
                Read::Refused(reason) => Some(reason),
                Read::Bytes(bytes, _) => {
                    // Counted after reading, so that one message always passes.
                    left = left.saturating_sub(bytes.len() as u64);
                    match SpoolMessage::parse(&bytes) {
                        Ok(message) => {
                            // Its agent waits for the answer, perhaps longer than this program lives.
                            let is_kept = asked.as_ref().is_some_and(|to| match &message {
                                SpoolMessage::Signal(Signal::Questions(_)) => {
                                    outbox.move_aside(&name, to, "")
                                }
                                SpoolMessage::Call(call) => outbox.rename(&name, to, &call.file_name("call")),
                                _ => false,
                            });
                            intake.messages.push(message);
                            if !is_kept {
                                intake.files.push((name, stamp));
                            }
                            continue;
                        }
                        Err(reason) => Some(reason),
                    }
                }
            };
            self.dispose(&outbox, &name, refusal, &mut intake);
        }
        for (name, reason) in odd {
            self.dispose(&outbox, &name, Some(reason), &mut intake);
        }
        intake.more = more;
        Ok(intake)
    }

    /// Removes the files of the messages that were read, unless another was put in the place of one. What cannot be removed is
    /// added to the refused files.
    pub(crate) fn remove(&self, intake: &mut Intake) -> Result<()> {
        if !intake.files.is_empty() {
            let outbox = self.session.child(OUTBOX)?;
            for (name, stamp) in std::mem::take(&mut intake.files) {
                if outbox.stamp(&*name) == stamp {
                    self.dispose(&outbox, &name, None, intake);
                }
            }
        }
        Ok(())
    }

    /// Returns the questions that were taken by message or by call, answered or not, and the calls without a reply: for the
    /// program that takes the session over from one that was killed. Those beyond the limits are left out.
    ///
    /// # Errors
    /// I/O errors of listing the folder.
    pub fn asked(&self) -> Result<Vec<SpoolMessage>> {
        let folder = self.session.child(ASKED)?;
        let (mut names, _) = folder.names(self.limits.names)?;
        names.sort_unstable();
        let mut left = self.limits.total_bytes;
        let mut asked = Vec::new();
        for name in names {
            let Read::Bytes(bytes, _) = folder.read(&name, self.limits.message_bytes.min(left)) else {
                continue;
            };
            left = left.saturating_sub(bytes.len() as u64);
            match SpoolMessage::parse(&bytes) {
                Ok(message @ SpoolMessage::Signal(Signal::Questions(_))) => asked.push(message),
                Ok(SpoolMessage::Call(call)) if self.has_reply(&call)? => match call.question() {
                    Some(question) => asked.push(SpoolMessage::Signal(Signal::Questions(vec![question]))),
                    // After a kill between the two steps of a reply.
                    None => drop(folder.remove(&name)),
                },
                Ok(message @ SpoolMessage::Call(_)) => asked.push(message),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Returns the questions to the person of a session that has ended: those that were taken, answered or not, and those in
    /// the outbox.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take) and [`asked`](Self::asked).
    pub(crate) fn questions(&self) -> Result<Vec<Question>> {
        // An agent that has ended sends no more. It may have left files that cannot be removed, which come again each time.
        for _ in 0..16 {
            if !self.take()?.more {
                break;
            }
        }
        let mut questions = Vec::new();
        for message in self.asked()? {
            match message {
                SpoolMessage::Signal(Signal::Questions(asked)) => questions.extend(asked),
                SpoolMessage::Call(call) => questions.extend(call.question()),
                _ => {}
            }
        }
        Ok(questions)
    }

    fn has_reply(&self, call: &AgentCall) -> Result<bool> {
        Ok(self.session.child(INBOX)?.stamp(call.file_name("reply")).is_some())
    }

    /// Puts the reply to a call into the inbox. Removes the oldest replies beyond a limit.
    pub(crate) fn reply(&self, call: &AgentCall, reply: &Value) -> Result<()> {
        let inbox = self.session.child(INBOX)?;
        let name = call.file_name("reply");
        inbox.put(&name, reply.to_string().as_bytes())?;
        // Only then: a call that was replied to is not made again. A question is kept, as one in a message is.
        let is_asked = call.question().is_some() && reply["ok"] == true;
        if !is_asked {
            self.session.child(ASKED)?.remove_named(&call.file_name("call"));
        }
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.is_empty() {
            // Those that an earlier program has left.
            let (names, _) = inbox.names(self.limits.names)?;
            let names = names.into_iter().filter_map(|name| name.into_string().ok());
            replies.extend(names.filter(|other| other.starts_with("reply-") && *other != name));
        }
        replies.push_back(name);
        while replies.len() > REPLIES
            && let Some(oldest) = replies.pop_front()
        {
            inbox.remove_named(&oldest);
        }
        Ok(())
    }

    /// Writes a file of the agent's own, such as `signal.json`, in its place.
    pub(crate) fn put_own(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.session.put(name, bytes)
    }

    /// Returns a stamp that changes with every message that appears in the outbox. Costs one system call, so that a quiet
    /// outbox needs no listing.
    pub(crate) fn stamp(&self) -> Option<(u64, i64, u64)> {
        self.session.stamp(OUTBOX)
    }

    /// Writes a file into the inbox atomically.
    ///
    /// # Errors
    /// `invalid_input` for a name with other characters than letters, digits, `-`, `_` and `.`; I/O errors.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if !is_plain(name) {
            return Err(Error::new(ErrorKind::InvalidInput, "not a name for a file in the inbox")
                .with("name", format_args!("{name:?}")));
        }
        self.session.child(INBOX)?.put(name, bytes)
    }

    /// Removes a file that was taken or refused, or moves it out of the outbox. A file that cannot be removed is
    /// reported as refused, even if its message was taken: the next intake will find it again.
    fn dispose(&self, outbox: &Folder, name: &CStr, refusal: Option<String>, intake: &mut Intake) {
        // A folder with content cannot be removed by one call. Moved out of the outbox, it is not found
        // again.
        let gone = outbox.remove(name) || outbox.move_aside(name, &self.session, ".refused-");
        let reason = match (refusal, gone) {
            (None, true) => return,
            (None, false) => "it was taken but cannot be removed".to_owned(),
            (Some(reason), true) => reason,
            (Some(reason), false) => format!("{reason}, and it cannot be removed"),
        };
        // A file name can hold escape sequences, and this one is shown to people.
        let name: String = name.to_string_lossy().escape_default().take(200).collect();
        intake.refused.push(RefusedFile { name, reason });
    }
}

enum Name {
    Message,
    /// A hidden file, which its writer will rename.
    BeingWritten,
    Odd(String),
}

fn classify(name: &CStr) -> Name {
    match name.to_str() {
        Ok(name) if name.starts_with('.') => Name::BeingWritten,
        Ok(name) if is_plain(name) && name.ends_with(".json") => Name::Message,
        Ok(_) => Name::Odd("its name is not valid for a message, expected NAME.json".to_owned()),
        Err(_) => Name::Odd("its name is not UTF-8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::super::client;
    use super::*;

    fn spool(limits: SpoolLimits) -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), limits).unwrap();
        (folder, spool)
    }

    #[test]
    fn what_is_sent_is_taken_once_and_in_order() {
        let (folder, spool) = spool(SpoolLimits::default());
        let outbox = folder.path().join("outbox");
        let sent: Vec<SpoolMessage> = (0..20).map(|n| SpoolMessage::hook("Stop", n.to_string())).collect();
        for message in &sent {
            client::send(&outbox, message).unwrap();
        }
        let intake = spool.take().unwrap();
        assert_eq!((intake.messages, intake.refused, intake.more), (sent, vec![], false));
        assert_eq!(spool.take().unwrap(), Intake::default());
        assert_eq!(fs::read_dir(outbox).unwrap().count(), 0);
    }

    #[test]
    fn questions_can_be_read_again() {
        let (folder, spool) = spool(SpoolLimits::default());
        let outbox = folder.path().join("outbox");
        let ask = |id: &str| {
            let text = format!(
                r#"{{"kind":"signal","status":"questions","questions":[{{"id":"{id}","question":"a?"}}]}}"#
            );
            fs::write(outbox.join("0.json"), text).unwrap();
            client::send(&outbox, &SpoolMessage::note("x")).unwrap();
            spool.take().unwrap().messages
        };
        assert!(spool.asked().unwrap().is_empty());
        let (first, second) = (ask("a"), ask("b"));
        assert_eq!(fs::read_dir(&outbox).unwrap().count(), 0);
        let again = Spool::open(folder.path(), SpoolLimits::default()).unwrap();
        assert_eq!(
            again.asked().unwrap(),
            [first[0].clone(), second[0].clone()],
            "each, in its order, and no note"
        );
        symlink("/dev/zero", folder.path().join("asked/0.json")).unwrap();
        fs::write(folder.path().join("asked/1.json"), "{").unwrap();
        assert_eq!(again.asked().unwrap().len(), 2);
    }

    #[test]
    fn a_call_is_kept_until_it_has_its_reply() {
        let (folder, spool) = spool(SpoolLimits::default());
        let outbox = folder.path().join("outbox");
        let call = |id: &str| AgentCall::new(id, super::super::AgentAction::List);
        for id in ["1", "2"] {
            client::send(&outbox, &SpoolMessage::Call(call(id))).unwrap();
        }
        let taken = spool.take().unwrap().messages;
        assert_eq!(taken, [SpoolMessage::Call(call("1")), SpoolMessage::Call(call("2"))]);
        assert_eq!(spool.asked().unwrap(), taken, "for the next program");
        spool.reply(&call("1"), &serde_json::json!({ "ok": true })).unwrap();
        assert_eq!(spool.asked().unwrap(), taken[1..]);
        // A question was passed on: it is one as long as the session lives.
        let ask =
            |id: &str| AgentCall::new(id, super::super::AgentAction::AskPerson { text: "a?".to_owned() });
        for id in ["3", "4"] {
            client::send(&outbox, &SpoolMessage::Call(ask(id))).unwrap();
            spool.take().unwrap();
        }
        spool.reply(&ask("3"), &serde_json::json!({ "ok": true })).unwrap();
        spool.reply(&ask("4"), &serde_json::json!({ "ok": false })).unwrap();
        let question = Question::new("3", "a?");
        let passed_on = SpoolMessage::Signal(Signal::Questions(vec![question.clone()]));
        assert_eq!(spool.asked().unwrap(), [taken[1].clone(), passed_on.clone()]);
        client::send(&outbox, &SpoolMessage::Call(ask("5"))).unwrap();
        assert_eq!(spool.questions().unwrap(), [question, Question::new("5", "a?")]);
        spool.reply(&ask("5"), &serde_json::json!({ "ok": false })).unwrap();
        // Killed between the two steps of a reply.
        fs::write(folder.path().join("inbox/reply-2.json"), "{}").unwrap();
        let again = Spool::open(folder.path(), SpoolLimits::default()).unwrap();
        assert_eq!(again.asked().unwrap(), [passed_on]);
        for n in 0..2 * REPLIES {
            again.reply(&call(&format!("n{n}")), &Value::Null).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path().join("inbox")).unwrap().count(), REPLIES);
        assert!(folder.path().join(format!("inbox/reply-n{}.json", 2 * REPLIES - 1)).exists());
    }

    #[test]
    fn odd_things_are_neither_followed_nor_waited_for() {
        let (folder, spool) = spool(SpoolLimits { message_bytes: 1_000, ..SpoolLimits::default() });
        let outbox = folder.path().join("outbox");
        let secret = folder.path().join("secret.json");
        fs::write(&secret, r#"{"kind":"note","text":"secret"}"#).unwrap();
        symlink(&secret, outbox.join("1-link.json")).unwrap();
        symlink("/dev/zero", outbox.join("2-device.json")).unwrap();
        mknodat(CWD, outbox.join("3-pipe.json"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(outbox.join("4-socket.json")).unwrap();
        fs::create_dir(outbox.join("5-folder.json")).unwrap();
        fs::write(outbox.join("6-huge.json"), vec![b' '; 1_001]).unwrap();
        let sparse = fs::File::create(outbox.join("7-sparse.json")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        fs::write(outbox.join(OsStr::from_bytes(b"8-\xff.json")), "{}").unwrap();
        fs::write(outbox.join("9 with spaces\n.json"), "{}").unwrap();
        fs::write(outbox.join("a-half.json"), r#"{"kind":"no"#).unwrap();
        fs::write(outbox.join("b-good.json"), r#"{"kind":"note","text":"hello"}"#).unwrap();
        fs::write(outbox.join(".being-written"), "{").unwrap();
        fs::create_dir_all(outbox.join("c-full.json/inside")).unwrap();
        let intake = spool.take().unwrap();
        assert_eq!(intake.messages, [SpoolMessage::note("hello")]);
        assert_eq!(intake.refused.len(), 11, "{:#?}", intake.refused);
        assert!(intake.refused.iter().all(|refused| !refused.name.contains(['\n', '\u{fffd}'])));
        assert!(secret.exists());
        let mut left: Vec<_> =
            fs::read_dir(&outbox).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, [".being-written"]);
        assert_eq!(spool.take().unwrap(), Intake::default());
    }

    #[test]
    fn a_flood_is_taken_in_portions() {
        let (folder, spool) =
            spool(SpoolLimits { messages: 10, total_bytes: 1 << 20, ..SpoolLimits::default() });
        let outbox = folder.path().join("outbox");
        (0..25).for_each(|n| client::send(&outbox, &SpoolMessage::note(n.to_string())).unwrap());
        let mut texts = Vec::new();
        for (count, more) in [(10, true), (10, true), (5, false)] {
            let intake = spool.take().unwrap();
            assert_eq!((intake.messages.len(), intake.more), (count, more));
            texts.extend(intake.messages);
        }
        assert_eq!(texts, (0..25).map(|n| SpoolMessage::note(n.to_string())).collect::<Vec<_>>());
        let (folder, spool) =
            self::spool(SpoolLimits { messages: 100, total_bytes: 100, ..SpoolLimits::default() });
        let outbox = folder.path().join("outbox");
        (0..5).for_each(|_| client::send(&outbox, &SpoolMessage::note("x".repeat(60))).unwrap());
        assert_eq!(spool.take().unwrap().messages.len(), 2);
    }

    #[test]
    fn a_flood_of_unfinished_files_is_swept() {
        let limits = SpoolLimits { names: 10, ..SpoolLimits::default() };
        let (folder, spool) = spool(limits);
        let outbox = folder.path().join("outbox");
        (0..50).for_each(|n| fs::write(outbox.join(format!(".tmp{n}")), "").unwrap());
        client::send(&outbox, &SpoolMessage::note("here")).unwrap();
        let mut messages = Vec::new();
        for _ in 0..10 {
            let intake = spool.take().unwrap();
            messages.extend(intake.messages);
            if !intake.more {
                break;
            }
            assert!(!intake.refused.is_empty(), "no progress");
        }
        assert_eq!(messages, [SpoolMessage::note("here")]);
    }

    #[test]
    fn replacing_the_outbox_redirects_nothing() {
        let (folder, spool) = spool(SpoolLimits::default());
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("x.json"), r#"{"kind":"note","text":"other"}"#).unwrap();
        fs::rename(folder.path().join("outbox"), folder.path().join("moved")).unwrap();
        symlink(elsewhere.path(), folder.path().join("outbox")).unwrap();
        fs::remove_dir(folder.path().join("inbox")).unwrap();
        symlink(elsewhere.path(), folder.path().join("inbox")).unwrap();
        assert!(spool.take().is_err());
        assert!(spool.put("a.json", b"{}").is_err());
        assert!(Spool::open(folder.path(), SpoolLimits::default()).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_inbox_takes_plain_names_only() {
        let (folder, spool) = spool(SpoolLimits::default());
        spool.put("answer.json", b"1").unwrap();
        spool.put("answer.json", b"2").unwrap();
        assert_eq!(fs::read(folder.path().join("inbox/answer.json")).unwrap(), b"2");
        assert_eq!(fs::read_dir(folder.path().join("inbox")).unwrap().count(), 1);
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b"] {
            assert_eq!(spool.put(name, b"").unwrap_err().code(), "invalid_input", "{name:?}");
        }
    }
}
