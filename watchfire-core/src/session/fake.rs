//! Sessions without a process.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::host::{HostChannel, HostRequest, Hosted, HostedSession, SessionHost};
use super::process::{Exit, Output, SessionProcess};
use super::recording::Recorder;
use crate::files::replace;
use crate::model::{ProcessIdentity, SessionId};
use crate::process::CommandSpec;
use crate::terminal::Size;
use crate::{Error, ErrorKind, Result};

/// A [`SessionHost`] that starts no process: the test plays the agent. Copies are the same host.
///
/// A backend still prepares each session and reads what its agent prints. Hooks and verify commands run as they always do.
#[derive(Clone, Debug)]
pub struct FakeHost(watch::Sender<Launched>);

#[derive(Debug, Default)]
struct Launched {
    /// Agents that no test has asked for yet.
    new: VecDeque<FakeAgent>,
    all: BTreeMap<SessionId, FakeAgent>,
}

impl FakeHost {
    /// Returns a host without sessions.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a host that no test holds would start agents that never end"
    )]
    pub fn new() -> Self {
        Self(watch::Sender::new(Launched::default()))
    }

    /// Waits for the next session that is launched, and returns its agent. Each is returned once, in the order of their
    /// start.
    pub async fn launched(&self) -> FakeAgent {
        let mut launched = self.0.subscribe();
        loop {
            let mut next = None;
            self.0.send_if_modified(|launched| {
                next = launched.new.pop_front();
                false
            });
            if let Some(agent) = next {
                return agent;
            }
            // The sender is ours, so that it cannot be gone.
            let _ = launched.changed().await;
        }
    }
}

#[async_trait]
impl SessionHost for FakeHost {
    async fn launch(&self, request: HostRequest) -> Result<Hosted> {
        let HostRequest { session, confined, channel, recording, .. } = request;
        let size = match channel {
            HostChannel::Terminal(size) => Some(size),
            HostChannel::Pipes => None,
        };
        if self.0.borrow().all.get(&session).is_some_and(|it| it.lock().exit.is_none()) {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the session runs already").with("session", session)
            );
        }
        let recorder = Recorder::create(&recording, size)
            .map_err(|error| Error::io("recording a session", error).with_path(&recording))?;
        let state = State { recorder: Some(recorder), ..State::default() };
        let agent = FakeAgent(Arc::new(Agent {
            session: session.clone(),
            command: confined.command,
            identity: nobody(),
            on_terminal: size.is_some(),
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
        }));
        self.0.send_modify(|launched| {
            launched.new.push_back(agent.clone());
            launched.all.insert(session, agent.clone());
        });
        Ok(Hosted::new(Arc::new(Handle(agent)), Arc::from(confined.guard)))
    }

    async fn adopt(&self, _: &SessionId) -> Result<Option<Hosted>> {
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<HostedSession>> {
        let launched = self.0.borrow();
        let running = launched.all.values().filter(|it| it.lock().exit.is_none());
        Ok(running
            .map(|it| HostedSession {
                session: it.0.session.clone(),
                agent: it.0.identity.clone(),
                guardian: None,
            })
            .collect())
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        if let Some(agent) = self.0.borrow().all.get(session) {
            agent.end(Exit::Signal(KILLED));
        }
        Ok(())
    }
}

const TERMINATED: i32 = 15;
const KILLED: i32 = 9;

/// Returns the identity of a process that does not exist.
fn nobody() -> ProcessIdentity {
    // Larger than any process id that Linux or macOS gives, so that nobody is signalled by mistake.
    ProcessIdentity { pid: i32::MAX.unsigned_abs(), start_time: 0, boot_id: String::new() }
}

/// The agent of a session on a [`FakeHost`]. Copies are the same agent.
#[derive(Clone)]
pub struct FakeAgent(Arc<Agent>);

struct Agent {
    session: SessionId,
    command: CommandSpec,
    identity: ProcessIdentity,
    on_terminal: bool,
    state: Mutex<State>,
    /// Wakes those who wait for output, input or the end.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    printed: Vec<u8>,
    typed: Vec<u8>,
    exit: Option<Exit>,
    /// `None` once the agent has ended.
    recorder: Option<Recorder>,
}

impl FakeAgent {
    /// Returns the session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }

    /// Returns the command that a real host would run, with its environment.
    #[must_use]
    pub fn command(&self) -> &CommandSpec {
        &self.0.command
    }

    /// Returns the folder in which the agent works.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.command.cwd().unwrap_or(Path::new("/"))
    }

    /// Prints to the terminal, or to stdout. Nothing comes of it after the end.
    pub fn print(&self, output: impl AsRef<[u8]>) {
        let mut state = self.lock();
        if let Some(recorder) = &mut state.recorder {
            recorder.push(output.as_ref());
            state.printed.extend_from_slice(output.as_ref());
        }
        drop(state);
        self.0.changed.send_replace(());
    }

    /// Waits until something was typed, and returns all that came since the last call. An interrupt is the byte 3. Returns
    /// nothing once the agent has ended.
    pub async fn typed(&self) -> Vec<u8> {
        self.wait_for(|state| {
            let typed = std::mem::take(&mut state.typed);
            (!typed.is_empty() || state.exit.is_some()).then_some(typed)
        })
        .await
    }

    /// Says that the task is done, as agents do in `signal.json`. The agent still has to [`exit`](Self::exit), unless
    /// its backend says that it never does by itself.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn done(&self) -> Result<()> {
        self.signal(&serde_json::json!({ "status": "done" }))
    }

    /// Says that the task failed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn failed(&self, reason: &str) -> Result<()> {
        self.signal(&serde_json::json!({ "status": "error", "error": reason }))
    }

    /// Asks its person.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn ask(&self, id: &str, question: &str) -> Result<()> {
        let questions = [serde_json::json!({ "id": id, "question": question })];
        self.signal(&serde_json::json!({ "status": "questions", "questions": questions }))
    }

    fn signal(&self, signal: &serde_json::Value) -> Result<()> {
        let folder = self.variable("WATCHFIRE_SESSION_DIR").map(PathBuf::from).unwrap_or_default();
        replace(&folder.join("signal.json"), signal.to_string().as_bytes())
    }

    fn variable(&self, wanted: &str) -> Option<&OsStr> {
        self.0.command.env().find_map(|(name, value)| (name == wanted).then_some(value))
    }

    /// Ends with this exit code, unless it has ended.
    pub fn exit(&self, code: i32) {
        self.end(Exit::Code(code));
    }

    fn end(&self, exit: Exit) -> Exit {
        let mut state = self.lock();
        let exit = *state.exit.get_or_insert(exit);
        if let Some(recorder) = state.recorder.take() {
            recorder.finish(exit.code());
        }
        drop(state);
        self.0.changed.send_replace(());
        exit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        // Before the first look, so that no change is missed.
        let mut changed = self.0.changed.subscribe();
        loop {
            if let Some(it) = ready(&mut self.lock()) {
                return it;
            }
            // The sender is ours, so that it cannot be gone.
            let _ = changed.changed().await;
        }
    }
}

impl fmt::Debug for FakeAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeAgent").field("session", &self.0.session).finish_non_exhaustive()
    }
}

/// The session's side. Its end is the agent's.
#[derive(Debug)]
struct Handle(FakeAgent);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end(Exit::Signal(KILLED));
    }
}

#[async_trait]
impl SessionProcess for Handle {
    async fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.lock();
        if state.exit.is_some() {
            return Err(Error::new(ErrorKind::TargetOff, "the agent has ended"));
        }
        state.typed.extend_from_slice(bytes);
        drop(state);
        self.0.0.changed.send_replace(());
        Ok(())
    }

    async fn resize(&self, size: Size) -> Result<()> {
        if !self.0.0.on_terminal {
            return Err(Error::new(ErrorKind::NotSupported, "the agent has no terminal"));
        }
        if let Some(recorder) = &mut self.0.lock().recorder {
            recorder.resize(size);
        }
        Ok(())
    }

    async fn read_from(&self, offset: u64) -> Result<Output> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        self.0
            .wait_for(|state| {
                let Some(rest) = state.printed.get(from..) else {
                    return Some(Err(Error::new(ErrorKind::InvalidInput, "an offset in the future")
                        .with("offset", offset)
                        .with("newest", state.printed.len())));
                };
                let ended = rest.is_empty() && state.exit.is_some();
                (ended || !rest.is_empty())
                    .then(|| Ok(Output { offset, bytes: Bytes::copy_from_slice(rest), ended }))
            })
            .await
    }

    async fn interrupt(&self) -> Result<()> {
        self.write(b"\x03").await
    }

    async fn terminate(&self, _: Duration) -> Result<Exit> {
        Ok(self.0.end(Exit::Signal(TERMINATED)))
    }

    async fn wait(&self) -> Exit {
        self.0.wait_for(|state| state.exit).await
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.0.0.identity
    }
}
