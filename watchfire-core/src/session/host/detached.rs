//! A host whose sessions outlive this program.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::contract::{HostChannel, HostRequest, Hosted, HostedSession, SessionHost};
use super::in_process::{InProcess, end_left};
use crate::files::{create_private, make_private, read_untrusted, remove_tree, replace};
use crate::model::{ProcessIdentity, SessionId};
use crate::process::helper::Helper;
use crate::process::{Liveness, end_marked};
use crate::sandbox::{Denials, PolicyReport, SandboxGuard};
use crate::session::Recording;
use crate::session::process::{Exit, Guarded, Host};
use crate::{Error, ErrorKind, Result};

/// Default time without an orchestrator after which a session is ended.
const ALONE: Duration = Duration::from_secs(24 * 60 * 60);
/// Time limit for a guardian that does not answer to end: it may be at the end of its tree.
const ENDING: Duration = Duration::from_secs(10);
/// Name of the record of a session in its folder.
const RECORD: &str = "record.json";
/// Upper bound for the size of a record.
const LIMIT: u64 = 16 << 20;

/// A host for programs that are restarted while agents work: the guardian of each session goes on when this program ends,
/// however that happens, and waits for the next one in a folder of the host. It keeps the agent's terminal and its input,
/// records the output, and ends the agent at its time limit, or after a day in which nobody came.
///
/// Linux only: elsewhere a process that is no child of this one cannot be waited for.
#[derive(Debug)]
pub struct Detached {
    here: InProcess,
    folder: PathBuf,
    alone: Duration,
}

/// The facts about a session that the next program needs. Written before its launch, and again when that is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The version of the format: 1.
    schema: u32,
    recording: PathBuf,
    /// True for a terminal, false for pipes.
    terminal: bool,
    /// The agent and its guardian, once they are known.
    processes: Option<(ProcessIdentity, ProcessIdentity)>,
    /// Folders of the sandbox, to be removed at the end.
    folders: Vec<PathBuf>,
    /// The policy that the sandbox was to enforce.
    report: PolicyReport,
}

impl Detached {
    /// Returns a host with its folder, whose guardians are run by `helper`. The folder is made, and no agent may be able
    /// to reach it.
    ///
    /// # Errors
    /// I/O errors; `not_supported` on other systems than Linux.
    pub fn new(helper: Helper, folder: impl Into<PathBuf>) -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(Error::new(ErrorKind::NotSupported, "sessions outlive their program on Linux only"));
        }
        let folder = folder.into();
        make_private(&folder)?;
        Ok(Self { here: InProcess::new(helper), folder, alone: ALONE })
    }

    /// Sets the time without an orchestrator after which a session is ended. Default: a day.
    #[must_use]
    pub fn with_orphan_limit(mut self, limit: Duration) -> Self {
        self.alone = limit;
        self
    }

    fn folder(&self, session: &SessionId) -> PathBuf {
        self.folder.join(session.as_str())
    }

    fn record(&self, session: &SessionId) -> Result<Option<Record>> {
        let path = self.folder(session).join(RECORD);
        let Some(bytes) = read_untrusted(&path, LIMIT)? else { return Ok(None) };
        let malformed = |error| {
            Error::new(ErrorKind::Malformed, "not a record of a session").with_source(error).with_path(&path)
        };
        serde_json::from_slice(&bytes).map(Some).map_err(malformed)
    }

    /// Takes over a session, running or ended. Returns `None` for one whose launch was not completed.
    async fn take_over(&self, session: &SessionId, record: Record) -> Result<Option<Hosted>> {
        let Record { recording, terminal, processes, folders, report, .. } = record;
        let folder = self.folder(session);
        let guard: Arc<dyn SandboxGuard> = Arc::new(Left { report, folders, own: folder.clone() });
        let adopted = match Guarded::adopt(session, &folder, &recording, Arc::clone(&guard)).await? {
            Some(adopted) => adopted,
            None => {
                let Some((agent, guardian)) = processes else { return Ok(None) };
                wait_for_end(&guardian).await?;
                // A guardian that was killed leaves its tree.
                end_left(session).await?;
                let read = recording.clone();
                let failed =
                    |error| Error::new(ErrorKind::Internal, "reading a recording").with_source(error);
                let ending =
                    tokio::task::spawn_blocking(move || Recording::ending(&read)).await.map_err(failed)??;
                let exit = ending.code.map_or(Exit::Unknown, Exit::Code);
                Guarded::ended(agent, guardian, guard, &recording, ending.length, exit)
            }
        };
        self.here.take_over(session.clone(), adopted, terminal).map(Some)
    }
}

/// Waits until a guardian that does not answer has ended.
async fn wait_for_end(guardian: &ProcessIdentity) -> Result<()> {
    let deadline = tokio::time::Instant::now() + ENDING;
    while guardian.liveness() == Liveness::Alive {
        if tokio::time::Instant::now() > deadline {
            return Err(Error::new(ErrorKind::Busy, "the guardian of a session does not answer")
                .with("pid", guardian.pid));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[async_trait]
impl SessionHost for Detached {
    fn outlives(&self) -> bool {
        true
    }

    async fn launch(&self, mut request: HostRequest) -> Result<Hosted> {
        let (session, recording) = (request.session.clone(), request.recording.clone());
        let terminal = matches!(request.channel, HostChannel::Terminal(_));
        let folder = self.folder(&session);
        create_private(&folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Error::new(ErrorKind::AlreadyExists, "the session runs already").with("session", &session)
            }
            _ => error,
        })?;
        // Removed with the last process, which this program sees or the next one.
        let own = Own(Arc::new(Mutex::new(Some(folder.clone()))));
        let mut incomplete = Incomplete(Some((session, own.clone())));
        let lasting = request.confined.guard.lasting();
        let folders = lasting.folders;
        let mut held: Vec<OwnedFd> = std::mem::take(&mut request.held);
        held.extend(lasting.descriptors);
        request.confined.guard = Box::new(Launched { inner: request.confined.guard, own: own.clone() });
        let mut record = Record {
            schema: 1,
            recording,
            terminal,
            processes: None,
            folders,
            report: request.confined.guard.report(),
        };
        // Before the agent runs: this program may be killed as soon as it does.
        record.write(&folder)?;
        let mut host = Host::new(folder.clone(), held, self.alone);
        host.limit = request.limit;
        let launched = self.here.launch_in(request, Some(host)).await;
        // From here on it is not only begun.
        incomplete.0 = None;
        let hosted = launched.inspect_err(|_| own.remove())?;
        record.processes = hosted.guardian.clone().map(|guardian| (hosted.agent.clone(), guardian));
        record.report = hosted.guard.report();
        // Under the lock: an agent may have ended by now, and its folder be gone.
        let written = own.lock().as_ref().map_or(Ok(()), |folder| record.write(folder));
        if let Err(error) = written {
            hosted.process.terminate(Duration::ZERO).await?;
            return Err(error);
        }
        Ok(hosted)
    }

    async fn adopt(&self, session: &SessionId) -> Result<Option<Hosted>> {
        if self.here.find(session).await.is_some() {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the session runs here").with("session", session)
            );
        }
        match self.record(session)? {
            Some(record) => self.take_over(session, record).await,
            None => Ok(None),
        }
    }

    async fn list(&self) -> Result<Vec<HostedSession>> {
        let mut running = self.here.list().await?;
        let listing = |error| Error::io("listing the hosts of sessions", error).with_path(&self.folder);
        for entry in std::fs::read_dir(&self.folder).map_err(listing)?.flatten() {
            let Some(session) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if running.iter().any(|it| it.session == session) {
                continue;
            }
            // Without processes, its launch never came to its end.
            if let Some((agent, guardian)) = self.record(&session)?.and_then(|record| record.processes)
                && guardian.liveness() == Liveness::Alive
            {
                running.push(HostedSession { session, agent, guardian: Some(guardian) });
            }
        }
        Ok(running)
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        if self.here.find(session).await.is_none()
            && let Ok(Some(record)) = self.record(session)
            // Whatever is wrong with it, it is ended by force below.
            && let Ok(Some(hosted)) = self.take_over(session, record).await
        {
            hosted.process.terminate(Duration::ZERO).await?;
        }
        self.here.end(session).await?;
        remove(&self.folder(session))
    }
}

impl Record {
    fn write(&self, folder: &Path) -> Result<()> {
        let failed = |error| Error::new(ErrorKind::InvalidInput, "a path is not text").with_source(error);
        replace(&folder.join(RECORD), &serde_json::to_vec(self).map_err(failed)?)
    }
}

/// The guard of a session that was launched here, with the folder of its host.
#[derive(Debug)]
struct Launched {
    inner: Box<dyn SandboxGuard>,
    own: Own,
}

impl SandboxGuard for Launched {
    fn report(&self) -> PolicyReport {
        self.inner.report()
    }

    fn ended(&self) {
        self.inner.ended();
        self.own.remove();
    }

    fn denials(&self) -> Denials {
        self.inner.denials()
    }
}

/// The guard of a session that was taken over.
#[derive(Debug)]
struct Left {
    report: PolicyReport,
    folders: Vec<PathBuf>,
    own: PathBuf,
}

impl SandboxGuard for Left {
    fn report(&self) -> PolicyReport {
        self.report.clone().with_note("taken over by a later program: this was in force at its start")
    }

    fn ended(&self) {
        for folder in self.folders.iter().chain([&self.own]) {
            // The next session's sandbox finds what is left.
            let _ = remove(folder);
        }
    }
}

/// The folder of a session that was launched here. `None` once it is removed: after that, another launch may have one of
/// the same name.
#[derive(Clone, Debug)]
struct Own(Arc<Mutex<Option<PathBuf>>>);

impl Own {
    fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self) {
        // The next end or start finds what is left.
        let _ = self.lock().take().map(|folder| remove(&folder));
    }
}

/// A launch that is given up if it is dropped.
struct Incomplete(Option<(SessionId, Own)>);

impl Drop for Incomplete {
    fn drop(&mut self) {
        if let Some((session, own)) = self.0.take() {
            // Blocking, so that it takes nothing of another launch of this session. Its guardian would wait for the next program.
            let _ = end_marked(&session);
            own.remove();
        }
    }
}

fn remove(folder: &Path) -> Result<()> {
    remove_tree(folder).map_err(|error| Error::io("removing a folder of a session", error).with_path(folder))
}
