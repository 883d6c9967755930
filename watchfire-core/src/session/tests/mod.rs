//! Sessions over a process that is played by the test.

mod blocks;
mod calls;
mod checkpoints;
mod deliver;
mod nudge;
mod silence;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::{
    Cause, Completion, Exit, Output, Reach, RefusalReporter, Session, SessionInfo, SessionParts,
    SessionProcess, Sinks,
};
use crate::backend::{
    Backend, Capabilities, Fact, Issue, IssueKind, Launch, LocatedProgram, Observation, ProgramSearch,
    PromptDelivery, Readiness, SessionContext, Status, Transcript, TranscriptFormat,
};
use crate::clock::{Clock, SystemClock};
use crate::model::{Alias, Mode, ProcessIdentity, SessionId, Timestamp};
use crate::observe::{Log, LogOptions, LogSubject};
use crate::schedule::StopReason;
use crate::terminal::{PlainTerminal, Size};
use crate::{Error, ErrorKind, Result};

/// Longest time that anything may take before the test fails.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// A process whose output the test writes, and whose input it reads.
#[derive(Debug)]
pub(super) struct Played {
    output: watch::Sender<Vec<u8>>,
    /// Offset of the oldest output that is kept. Reading fails if none was printed there.
    oldest: usize,
    input: Mutex<Vec<u8>>,
    exit: watch::Sender<Option<Exit>>,
    identity: ProcessIdentity,
    worked: Mutex<Duration>,
    deaf: AtomicBool,
    /// Offset before which its queries are answered.
    answered: watch::Sender<u64>,
}

impl Played {
    /// Takes no input any more.
    pub(super) fn turn_deaf(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    /// Uses processor time.
    pub(super) fn work(&self, time: Duration) {
        *self.worked.lock().unwrap() += time;
    }

    pub(super) fn print(&self, text: &str) {
        self.output.send_modify(|output| output.extend_from_slice(text.as_bytes()));
    }

    pub(super) fn exit(&self, code: i32) {
        self.exit.send_replace(Some(Exit::Code(code)));
        // Wakes the reader, which looks for the end after the output.
        self.output.send_modify(|_| {});
    }

    pub(super) fn typed(&self) -> String {
        String::from_utf8_lossy(&self.input.lock().unwrap()).into_owned()
    }
}

#[async_trait]
impl SessionProcess for Played {
    async fn write(&self, bytes: &[u8]) -> Result<()> {
        if self.deaf.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "it takes no input"));
        }
        self.input.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    async fn resize(&self, _: Size) -> Result<()> {
        Ok(())
    }

    async fn read_from(&self, offset: u64) -> Result<Output> {
        let from = usize::try_from(offset).unwrap().max(self.oldest);
        let mut output = self.output.subscribe();
        let more = |output: &Vec<u8>| output.len() > from || self.exit.borrow().is_some();
        let bytes = output.wait_for(more).await.unwrap().get(from..).map(Bytes::copy_from_slice);
        let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::Io, "it cannot be read"))?;
        Ok(Output { offset: from as u64, ended: bytes.is_empty(), bytes })
    }

    async fn interrupt(&self) -> Result<()> {
        Ok(())
    }

    async fn terminate(&self, _: Duration) -> Result<Exit> {
        if self.exit.borrow().is_none() {
            self.exit(143);
        }
        Ok(self.wait().await)
    }

    async fn wait(&self) -> Exit {
        self.exit.subscribe().wait_for(Option::is_some).await.unwrap().unwrap()
    }

    async fn answered(&self, offset: u64) {
        self.answered.send_replace(offset);
    }

    fn processor_time(&self) -> Option<Duration> {
        Some(*self.worked.lock().unwrap())
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }
}

/// A clock that goes this many times as fast.
#[derive(Debug)]
struct Fast(u32);

impl Clock for Fast {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn boot_time(&self) -> Duration {
        SystemClock.boot_time() * self.0
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep_until(until / self.0)
    }
}

/// An agent the last line of whose screen is `busy`, `idle`, `asks`, or an issue, as `KIND WORDS`, or `over KIND`. With hooks,
/// `Stop` ends a turn, and it keeps a transcript.
#[derive(Debug)]
struct Blunt(bool);

impl Backend for Blunt {
    fn name(&self) -> &str {
        "blunt"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { chat: true, paste_limit: Some(1000), hooks: self.0, ..Capabilities::default() }
    }

    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        self.0.then(|| Transcript { path: context.home.join("t.jsonl"), format: TranscriptFormat::JsonLines })
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        Ok(LocatedProgram::new("/bin/true"))
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        Ok(Launch::new(&context.program))
    }

    /// Reads `until MILLIS`, counted from 1970.
    fn reset_at(&self, issue: &Issue, _: &Timestamp) -> Option<Timestamp> {
        let millis = issue.message.strip_prefix("until ")?.parse().ok()?;
        Some(Timestamp::from_unix_millis(millis))
    }

    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let text = match observation {
            Observation::Screen(text) => text,
            Observation::Hook { event: "Stop", .. } => return vec![Fact::TurnCompleted],
            _ => return Vec::new(),
        };
        let last = text.trim_end().lines().last().unwrap_or_default();
        match last {
            "busy" => return vec![Fact::Status(Status::Processing)],
            "idle" => return vec![Fact::Status(Status::Idle)],
            "asks" => return vec![Fact::Status(Status::ActionRequired)],
            _ => {}
        }
        let kind = |name: &str| serde_json::from_value::<IssueKind>(name.into());
        match last.split_once(' ') {
            Some(("over", name)) => kind(name).map(Fact::IssueCleared).into_iter().collect(),
            Some((name, words)) => {
                kind(name).map(|kind| Fact::Issue(Issue::new(kind, words))).into_iter().collect()
            }
            None => Vec::new(),
        }
    }
}

/// A session in a folder of its own.
pub(super) struct Stage {
    pub(super) session: Session,
    pub(super) process: Arc<Played>,
    pub(super) folder: tempfile::TempDir,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::printing("")
    }

    /// With an agent that has printed `text` before its session is watched.
    pub(super) fn printing(text: &str) -> Self {
        Self::start(text, Arc::new(SystemClock), |_, _| {})
    }

    fn start(text: &str, clock: Arc<dyn Clock>, change: impl FnOnce(&mut SessionParts, &Path)) -> Self {
        Self::keeping(0, text, clock, change)
    }

    /// With an agent of whose output only what follows `oldest` is kept.
    fn keeping(
        oldest: usize,
        text: &str,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut SessionParts, &Path),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Arc::new(Played {
            output: watch::Sender::new(text.as_bytes().to_vec()),
            oldest,
            input: Mutex::default(),
            exit: watch::Sender::default(),
            identity: ProcessIdentity::current().unwrap(),
            worked: Mutex::default(),
            deaf: AtomicBool::default(),
            answered: watch::Sender::default(),
        });
        let clock = || Arc::clone(&clock);
        let id: SessionId = "s1".parse().unwrap();
        let mut parts = SessionParts {
            info: SessionInfo {
                id: id.clone(),
                alias: Alias::random(),
                project: "p1".parse().unwrap(),
                mode: Mode::Chat,
                phase: None,
                task: None,
                backend: "blunt".parse().unwrap(),
                started_at: Timestamp::from_unix_millis(0),
            },
            process: Arc::clone(&process) as Arc<dyn SessionProcess>,
            backend: Arc::new(Blunt(false)),
            context: Arc::new(SessionContext::new(
                id,
                "blunt".parse().unwrap(),
                Mode::Chat,
                "/bin/true",
                folder.path(),
                folder.path(),
            )),
            reach: Reach::Terminal,
            vendor_session: None,
            terminal: Box::new(PlainTerminal::new(Size::default())),
            log: Log::new("s1", 1, LogSubject::new("s1", "blunt"), &LogOptions::default(), clock()),
            sinks: Sinks::default(),
            readiness: Readiness::Immediate,
            prompt: PromptDelivery::None,
            completion: Completion::Never,
            desk: None,
            may_ask: true,
            uncommitted: None,
            meter: None,
            restored: std::collections::BTreeMap::new(),
            may_nudge: true,
            files: folder.path().to_path_buf(),
            note: folder.path().join("vendor-session"),
            changed: Arc::new(Notify::new()),
            refusals: RefusalReporter { find: Arc::new(|_| Vec::new()), report: Box::new(|_| {}) },
            deadline: None,
            stall_after: crate::session::STALL_AFTER,
            notes: None,
            mailbox: None,
            taken: None,
            clock: clock(),
        };
        change(&mut parts, folder.path());
        Self { session: Session::start(parts), process, folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A person's program sees the end of the output at the same time as we do, and stops the session then.
#[tokio::test]
async fn a_stop_after_the_end_is_no_cause() {
    for ends_first in [true, false] {
        let stage = Stage::new();
        stage.process.print("bye");
        if ends_first {
            stage.process.exit(0);
        }
        stage.session.stop();
        let ended = within(stage.session.ended()).await;
        let expected = if ends_first { Cause::Exited } else { Cause::Stopped(StopReason::Requested) };
        assert_eq!(ended.cause, expected);
    }
}

pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it took too long")
}
