//! An agent under its guardian, seen from the session.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, watch};

use super::channel::gone;
use super::contract::Exit;
use super::guardian::{CONTROL_FD, OUTPUT_FD, ROLE, STDERR_FD, STDIN_FD, STDOUT_FD};
use super::output::OutputReader;
use super::tree;
use super::wire::{Frames, Order, RecordIn, Report, Ties, VERSION};
use crate::model::ProcessIdentity;
use crate::process::helper::Helper;
use crate::process::spawn::{explain, resolve_program, spawn};
use crate::process::wait::AsyncChild;
use crate::process::{CommandSpec, Liveness, SESSION_MARK, SpawnOptions};
use crate::sandbox::{Confined, Descriptor, SandboxGuard};
use crate::terminal::Size;
use crate::{Error, ErrorKind, Result};

/// Time limit for the first report. A program that sends none is not a helper, and is killed then.
const HELLO: Duration = Duration::from_secs(5);

/// Time beyond the grace after which a guardian that has not ended its tree counts as stuck.
const SLACK: Duration = Duration::from_secs(3);

/// The child's ends of what an agent reads and writes.
#[derive(Debug)]
pub(super) enum Streams {
    /// The slave side of a pseudo-terminal.
    Terminal(OwnedFd),
    /// stdin, stdout and stderr.
    Pipes([OwnedFd; 3]),
    /// Our own stdin, stdout and stderr. The agent stays in our session, so that a terminal works as it does
    /// for us.
    Ours([OwnedFd; 3]),
}

/// Output that the guardian records.
#[derive(Debug)]
pub(super) struct Record {
    /// Our side of the terminal, or the end of stdout that is read.
    pub(super) output: OwnedFd,
    pub(super) to: RecordIn,
}

/// A running agent and its guardian. Dropping it closes the lifeline, which ends them.
#[derive(Debug)]
pub(super) struct Guarded {
    identity: ProcessIdentity,
    guardian: ProcessIdentity,
    orders: Mutex<OwnedWriteHalf>,
    state: watch::Receiver<State>,
    guard: Arc<dyn SandboxGuard>,
}

/// All reports of the guardian so far.
#[derive(Clone, Debug, Default)]
struct State {
    hello: Option<u64>,
    started: Option<ProcessIdentity>,
    failed: Option<i32>,
    unrecorded: Option<i32>,
    exit: Option<Exit>,
    over: bool,
}

impl Guarded {
    /// Starts a guardian and under it the command.
    pub(super) async fn start(helper: &Helper, confined: Confined, streams: Streams) -> Result<Self> {
        let (ends, _) = watch::channel(0);
        Self::launch(helper, confined, streams, None, ends).await
    }

    /// Starts a guardian that records the output of the command.
    pub(super) async fn start_recorded(
        helper: &Helper,
        confined: Confined,
        streams: Streams,
        record: Record,
    ) -> Result<(Self, OutputReader)> {
        let (sender, ends) = watch::channel(0);
        let reader = OutputReader::new(record.to.folder.clone(), ends);
        Ok((Self::launch(helper, confined, streams, Some(record), sender).await?, reader))
    }

    /// `ends` gets the length of the recorded output, and is closed at its end.
    async fn launch(
        helper: &Helper,
        confined: Confined,
        streams: Streams,
        record: Option<Record>,
        ends: watch::Sender<u64>,
    ) -> Result<Self> {
        let Confined { command, descriptors, guard } = confined;
        let command = resolved(command)?;
        let guard: Arc<dyn SandboxGuard> = Arc::from(guard);
        let ties = streams.ties();
        let passed: Vec<i32> = descriptors.iter().map(|it| it.target).collect();
        // Below that number the guardian's own control socket and the agent's streams are placed.
        if let Some(target) = passed.iter().find(|target| **target <= OUTPUT_FD) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a descriptor's number is taken by the guardian",
            )
            .with("number", target));
        }
        let failed = |error| Error::io("making a control socket", error);
        let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
        // Only our end: the guardian reads its own with blocking calls between two polls.
        ours.set_nonblocking(true).map_err(failed)?;
        let (reports, mut orders) = UnixStream::from_std(ours).map_err(failed)?.into_split();
        let (output, recording) = record.map(|it| (it.output, it.to)).unzip();
        let folder = recording.as_ref().map(|recording| recording.folder.clone());
        let options = SpawnOptions::default()
            .with_descriptors([Descriptor { target: CONTROL_FD, fd: theirs.into() }])
            .with_descriptors(output.map(|fd| Descriptor { target: OUTPUT_FD, fd }))
            .with_descriptors(streams.into_descriptors())
            .with_descriptors(descriptors);
        // The guardian must not keep a mounted disk busy or a worktree from being removed.
        let mut role = helper.direct_command(ROLE, [""; 0]).with_cwd("/");
        // The mark lets recovery find the guardian by its environment after this program was killed.
        if let Some((_, session)) = command.env().find(|(name, _)| *name == SESSION_MARK) {
            role = role.with_env(SESSION_MARK, session);
        }
        let child = spawn(&role, options)?;
        // The child is not reaped yet, so its number cannot belong to another process.
        let guardian = ProcessIdentity::of(child.id())?;
        let child = AsyncChild::new(child).map_err(|error| Error::io("watching the guardian", error))?;
        let (sender, mut state) = watch::channel(State::default());
        // From here on the guardian is followed to its end, even if this future is dropped.
        tokio::spawn(follow(child, reports, sender, ends, Arc::clone(&guard)));
        // `over` as well: a program that is no helper ends, or is killed, without a first report.
        wait_for(&mut state, |state| state.hello.is_some() || state.over).await;
        // Before the order: a helper of another release would misread it, or run a command that it only half
        // understood.
        greeted(state.borrow().hello).map_err(|error| error.with_path(helper.path()))?;
        let start = Order::Start { command: command.clone(), ties, descriptors: passed, recording };
        // A write that fails means that the guardian is gone; the state below reports it.
        let _ = orders.write_all(&start.encode()).await;
        let is_known = |state: &State| {
            state.started.is_some() || state.failed.is_some() || state.unrecorded.is_some() || state.over
        };
        wait_for(&mut state, is_known).await;
        let errno = std::io::Error::from_raw_os_error;
        let State { started, failed, unrecorded, .. } = state.borrow().clone();
        match (started, failed, unrecorded) {
            (Some(identity), ..) => Ok(Self { identity, guardian, orders: Mutex::new(orders), state, guard }),
            (None, Some(failed), _) => Err(explain(&command, errno(failed))),
            (None, None, Some(failed)) => {
                let folder = folder.unwrap_or_default();
                Err(Error::io("recording the agent's output", errno(failed)).with_path(folder))
            }
            (None, None, None) => Err(Error::new(ErrorKind::Io, "the guardian was killed")),
        }
    }

    pub(super) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    pub(super) fn processor_time(&self) -> Option<Duration> {
        tree::processor_time(self.guardian.pid)
    }

    pub(super) fn guardian(&self) -> &ProcessIdentity {
        &self.guardian
    }

    pub(super) fn guard(&self) -> &Arc<dyn SandboxGuard> {
        &self.guard
    }

    /// Resolves when no process of the agent is left.
    pub(super) fn over(&self) -> impl Future<Output = ()> + use<> {
        self.end().over()
    }

    /// Returns a handle for that wait which does not hold the lifeline open.
    pub(super) fn end(&self) -> End {
        End(self.state.clone())
    }

    pub(super) async fn wait(&self) -> Exit {
        self.over().await;
        self.state.borrow().exit.unwrap_or(Exit::Unknown)
    }

    pub(super) async fn signal(&self, signal: Signal) -> Result<()> {
        let State { exit, over, .. } = *self.state.borrow();
        // The guardian would signal a group whose number may have been reused since.
        if over || exit.is_some() {
            return Err(gone());
        }
        self.order(&Order::Signal(signal.as_raw())).await
    }

    /// Changes the size of a recorded terminal.
    pub(super) async fn resize(&self, size: Size) -> Result<()> {
        self.order(&Order::Resize(size)).await
    }

    /// Reports to the guardian how far the recorded output was read.
    pub(super) async fn taken(&self, offset: u64) {
        // A guardian that takes no more orders needs no room either.
        let _ = self.order(&Order::Taken(offset)).await;
    }

    pub(super) async fn terminate(&self, grace: Duration) -> Result<Exit> {
        if !self.state.borrow().over {
            // A guardian that no longer takes orders is already ending its tree.
            let _ = self.order(&Order::Terminate { grace }).await;
        }
        // The guardian keeps the grace itself. The extra time is for a machine under load, before a kill that
        // it cannot answer.
        let limit = grace.saturating_add(SLACK);
        if tokio::time::timeout(limit, self.over()).await.is_err() {
            tracing::warn!(pid = self.guardian.pid, "a guardian does not end its tree; killing both");
            let guardian = self.guardian.clone();
            // If the blocking thread is lost, the wait below continues until the guardian ends.
            let _ = tokio::task::spawn_blocking(move || tree::kill_with_root(&guardian)).await;
        }
        Ok(self.wait().await)
    }

    /// Sends one order. Orders are short and few, so the socket's buffer always has room for a whole one, and
    /// a dropped future never leaves half of it.
    async fn order(&self, order: &Order) -> Result<()> {
        self.orders.lock().await.write_all(&order.encode()).await.map_err(|_| gone())
    }
}

/// Handle to wait for the end of an agent's process tree.
#[derive(Clone, Debug)]
pub(super) struct End(watch::Receiver<State>);

impl End {
    pub(super) fn over(&self) -> impl Future<Output = ()> + use<> {
        let mut state = self.0.clone();
        async move { wait_for(&mut state, |state| state.over).await }
    }
}

impl Streams {
    fn ties(&self) -> Ties {
        match self {
            Self::Terminal(_) => Ties::Terminal,
            Self::Pipes(_) => Ties::Streams,
            Self::Ours(_) => Ties::Caller,
        }
    }

    fn into_descriptors(self) -> Vec<Descriptor> {
        match self {
            Self::Terminal(fd) => vec![Descriptor { target: STDIN_FD, fd }],
            Self::Pipes([stdin, stdout, stderr]) | Self::Ours([stdin, stdout, stderr]) => vec![
                Descriptor { target: STDIN_FD, fd: stdin },
                Descriptor { target: STDOUT_FD, fd: stdout },
                Descriptor { target: STDERR_FD, fd: stderr },
            ],
        }
    }
}

/// Checks the first report of a helper. A helper that fails the check gets no order and ends when its
/// lifeline closes.
fn greeted(hello: Option<u64>) -> Result<()> {
    match hello {
        Some(VERSION) => Ok(()),
        Some(version) => {
            Err(Error::new(ErrorKind::NotSupported, "the helper program is of another release of Watchfire")
                .with("its protocol", version)
                .with("expected", VERSION))
        }
        None => Err(Error::new(ErrorKind::HelperMissing, "the helper program did not say hello")
            .with("hint", "its main must call watchfire_core::process::helper::run_if_asked() first")),
    }
}

/// Adds the program's full path and a folder: the guardian has neither our `PATH` nor our working directory.
fn resolved(command: CommandSpec) -> Result<CommandSpec> {
    let program = resolve_program(command.program())?;
    let command = command.with_program(program);
    if command.cwd().is_some() {
        return Ok(command);
    }
    let cwd = std::env::current_dir().map_err(|error| Error::io("finding the working directory", error))?;
    Ok(command.with_cwd(cwd))
}

async fn wait_for(state: &mut watch::Receiver<State>, condition: impl FnMut(&State) -> bool) {
    // Without a sender the runtime is shutting down, and no further report will come.
    let _ = state.wait_for(condition).await;
}

/// Follows a guardian until it has ended, then lets the sandbox clean up.
async fn follow(
    mut child: AsyncChild,
    mut reports: OwnedReadHalf,
    sender: watch::Sender<State>,
    ends: watch::Sender<u64>,
    guard: Arc<dyn SandboxGuard>,
) {
    let mut frames = Frames::default();
    // Only the first report is bounded in time. An agent may run for days without a report.
    let hello = tokio::time::timeout(HELLO, next(&mut reports, &mut frames)).await;
    if let Ok(Some(Report::Hello { version })) = hello {
        sender.send_modify(|state| state.hello = Some(version));
        while let Some(report) = next(&mut reports, &mut frames).await {
            match report {
                Report::Ended => break,
                // Apart from the state, which has waiters that output must not wake.
                Report::Output { end } => drop(ends.send_replace(end)),
                report => sender.send_modify(|state| state.note(report)),
            }
        }
    } else {
        // No helper, or one that hangs. It may have ended by now.
        let _ = child.kill();
    }
    // The output has ended. Its readers need not wait for the sandbox.
    drop(ends);
    // Nothing can be done about a child that cannot be waited for; it counts as killed.
    let ended = child.wait().await.is_ok_and(|status| status.code() == Some(0));
    let agent = sender.borrow().started.clone();
    // Any other end means that the guardian did not finish its work, so the agent may still run.
    if let (false, Some(agent)) = (ended, agent) {
        kill_orphan(&agent);
    }
    // Blocking: the sandbox removes mounts and folders. Other holders of the guard keep it for its report.
    let _ = tokio::task::spawn_blocking(move || guard.ended()).await;
    // Last, so that a reader who sees `over` also finds the sandbox's final report.
    sender.send_modify(|state| state.over = true);
}

/// Kills the group of an agent whose guardian was killed from outside. Its other descendants are no longer
/// known.
fn kill_orphan(agent: &ProcessIdentity) {
    if agent.liveness() != Liveness::Dead
        && let Ok(pid) = agent.rustix_pid()
    {
        tracing::warn!(pid = agent.pid, "the guardian of this agent was killed; killing the agent's group");
        // It may have ended by now.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Returns the next report, or `None` after the last one.
async fn next(reports: &mut OwnedReadHalf, frames: &mut Frames) -> Option<Report> {
    let mut buffer = [0; 256];
    loop {
        if let Some(body) = frames.next().ok()? {
            return Report::decode(&body);
        }
        let count = reports.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        frames.push(buffer.get(..count)?);
    }
}

impl State {
    fn note(&mut self, report: Report) {
        match report {
            Report::Started { pid, start_time } => {
                self.started = Some(ProcessIdentity::with_start_time(pid, start_time));
            }
            Report::Failed { errno } => self.failed = Some(errno),
            Report::Unrecorded { errno } => self.unrecorded = Some(errno),
            Report::Exited { code } => self.exit = Some(Exit::Code(code)),
            Report::Signalled { signal } => self.exit = Some(Exit::Signal(signal)),
            Report::Hello { .. } | Report::Output { .. } | Report::Ended => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_of_another_release_is_refused_with_both_versions() {
        assert!(greeted(Some(VERSION)).is_ok());
        let error = greeted(Some(0)).unwrap_err();
        assert_eq!((error.code(), error.detail("its protocol")), ("not_supported", Some("0")));
        assert_eq!(greeted(None).unwrap_err().code(), "helper_missing");
    }
}
