//! An agent under its guardian, seen from the session.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, watch};

use super::channel::gone;
use super::complaints::Complaints;
use super::contract::Exit;
use super::guardian::{CONTROL_FD, ERRORS_FD, INPUT_FD, OUTPUT_FD, ROLE, STDERR_FD, STDIN_FD, STDOUT_FD};
use super::output::OutputReader;
use super::socket::{connect, peer, receive_first};
use super::tree;
use super::wire::{Frames, HostIn, OLDEST, Order, RecordIn, Report, Ties, VERSION};
use crate::model::{ProcessIdentity, SessionId};
use crate::process::helper::Helper;
use crate::process::spawn::{explain, resolve_program, spawn};
use crate::process::wait::Awaited;
use crate::process::{CommandSpec, Liveness, SESSION_MARK, SpawnOptions, end_marked};
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
    /// The end of stderr that is read, if that is not the terminal.
    pub(super) errors: Option<OwnedFd>,
    pub(super) to: RecordIn,
    /// Set if the session can outlive this process.
    pub(super) host: Option<Host>,
}

/// Needs of a session that can outlive this process.
#[derive(Debug)]
pub(in crate::session) struct Host {
    /// Private folder for the socket.
    pub(in crate::session) folder: PathBuf,
    /// Descriptors that have to stay open as long as the agent runs.
    pub(in crate::session) kept: Vec<OwnedFd>,
    /// Time without an orchestrator after which it is ended.
    pub(in crate::session) alone: Duration,
    /// Time after which it is ended unless an orchestrator is attached.
    pub(in crate::session) limit: Option<Duration>,
    /// Copy of our end of the agent's stdin, if that is a pipe. Set by the session.
    pub(super) input: Option<OwnedFd>,
}

impl Host {
    pub(in crate::session) fn new(folder: PathBuf, kept: Vec<OwnedFd>, alone: Duration) -> Self {
        Self { folder, kept, alone, limit: None, input: None }
    }
}

/// Channels for reports of the guardian, beside the state.
#[derive(Debug)]
struct Told {
    /// Length of the recorded output. Closed at its end.
    ends: watch::Sender<u64>,
    complaints: Arc<Complaints>,
}

/// A session that was taken over from an earlier process.
#[derive(Debug)]
pub(in crate::session) struct Adopted {
    pub(in crate::session) guarded: Guarded,
    pub(super) output: OutputReader,
    pub(super) complaints: Arc<Complaints>,
    /// Our side of the terminal, or of the agent's stdin as long as that is open.
    pub(super) input: Option<OwnedFd>,
    /// The queries in the output before this offset are answered.
    pub(in crate::session) answered: u64,
}

/// A running agent and its guardian. Dropping it closes the lifeline, which ends them, unless they are hosted.
#[derive(Debug)]
pub(in crate::session) struct Guarded {
    identity: ProcessIdentity,
    guardian: ProcessIdentity,
    /// `None` for a session that ended before it was taken over.
    orders: Mutex<Option<OwnedWriteHalf>>,
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
    unhosted: Option<i32>,
    /// Set once everything before an adoption was reported: the offset before which queries are answered, and true if the
    /// agent's input is open.
    attached: Option<(u64, bool)>,
    exit: Option<Exit>,
    over: bool,
}

impl Guarded {
    /// Starts a guardian and under it the command.
    pub(super) async fn start(helper: &Helper, confined: Confined, streams: Streams) -> Result<Self> {
        let (ends, _) = watch::channel(0);
        let told = Told { ends, complaints: Arc::default() };
        Self::launch(helper, confined, streams, None, told).await
    }

    /// Starts a guardian that records the output of the command.
    pub(super) async fn start_recorded(
        helper: &Helper,
        confined: Confined,
        streams: Streams,
        record: Record,
    ) -> Result<(Self, OutputReader, Arc<Complaints>)> {
        let (told, output) = Told::new(&record.to.folder);
        let complaints = Arc::clone(&told.complaints);
        Ok((Self::launch(helper, confined, streams, Some(record), told).await?, output, complaints))
    }

    async fn launch(
        helper: &Helper,
        confined: Confined,
        streams: Streams,
        record: Option<Record>,
        told: Told,
    ) -> Result<Self> {
        let Confined { command, descriptors, guard } = confined;
        let command = resolved(command)?;
        let guard: Arc<dyn SandboxGuard> = Arc::from(guard);
        let ties = streams.ties();
        let passed: Vec<i32> = descriptors.iter().map(|it| it.target).collect();
        // The numbers of the guardian's control socket, of the agent's streams, and of what the guardian holds.
        if let Some(target) = passed.iter().find(|target| !(INPUT_FD + 1..ERRORS_FD).contains(*target)) {
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
        let folder = record.as_ref().map(|record| record.to.folder.clone());
        let (recording, host, own) = record.map_or_else(Default::default, Record::into_parts);
        let options = SpawnOptions::default()
            .with_descriptors([Descriptor { target: CONTROL_FD, fd: theirs.into() }])
            .with_descriptors(own)
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
        let child = Awaited::child(child).map_err(|error| Error::io("watching the guardian", error))?;
        let (sender, mut state) = watch::channel(State::default());
        let session = command.env().find(|(name, _)| *name == SESSION_MARK);
        let session = session.and_then(|(_, id)| id.to_str()?.parse().ok());
        let follower = Follower { reports, frames: Frames::default(), sender, told, session };
        // From here on the guardian is followed to its end, even if this future is dropped.
        tokio::spawn(follower.follow(child, Arc::clone(&guard)));
        // `over` as well: a program that is no helper ends, or is killed, without a first report.
        wait_for(&mut state, |state| state.hello.is_some() || state.over).await;
        // Before the order: a helper of another release would misread it, or run a command that it only half
        // understood.
        greeted(state.borrow().hello).map_err(|error| error.with_path(helper.path()))?;
        let host = host.map(Box::new);
        let start = Order::Start { command: command.clone(), ties, descriptors: passed, recording, host };
        // A write that fails means that the guardian is gone; the state below reports it.
        let _ = orders.write_all(&start.encode()).await;
        wait_for(&mut state, |it| it.started.is_some() || it.refusal().is_some() || it.over).await;
        let errno = io::Error::from_raw_os_error;
        let now = state.borrow().clone();
        match (now.started, now.failed, now.unrecorded, now.unhosted) {
            (Some(identity), ..) => {
                Ok(Self { identity, guardian, orders: Mutex::new(Some(orders)), state, guard })
            }
            (None, Some(failed), ..) => Err(explain(&command, errno(failed))),
            (None, None, Some(failed), _) => {
                let folder = folder.unwrap_or_default();
                Err(Error::io("recording the agent's output", errno(failed)).with_path(folder))
            }
            (None, None, None, Some(failed)) => {
                Err(Error::io("making a socket for the session", errno(failed)))
            }
            (None, None, None, None) => Err(Error::new(ErrorKind::Io, "the guardian was killed")),
        }
    }

    /// Takes over a session from the guardian whose socket is in `folder`, or returns `None` if that does not answer.
    ///
    /// # Errors
    /// `not_supported` for a guardian of another release, with which nothing was begun.
    pub(in crate::session) async fn adopt(
        session: &SessionId,
        folder: &Path,
        recording: &Path,
        guard: Arc<dyn SandboxGuard>,
    ) -> Result<Option<Adopted>> {
        let at = folder.to_owned();
        // Blocking, with a time limit: the guardian may be busy with the end of its tree.
        let greeting = tokio::task::spawn_blocking(move || -> io::Result<_> {
            let stream = connect(&at)?;
            let (bytes, input) = receive_first(&stream)?;
            stream.set_nonblocking(true)?;
            Ok((peer(&stream)?, stream, bytes, input))
        });
        // Refused, reset or silent: nobody answers.
        let Ok(Ok((guardian, stream, bytes, input))) = greeting.await else { return Ok(None) };
        if bytes.is_empty() {
            return Ok(None);
        }
        let guardian = ProcessIdentity::of(guardian)?;
        let failed = |error| Error::io("attaching to a session", error);
        let (reports, orders) = UnixStream::from_std(stream).map_err(failed)?.into_split();
        let watched = Awaited::other(&guardian).map_err(failed)?;
        let (told, output) = Told::new(recording);
        let complaints = Arc::clone(&told.complaints);
        let (sender, mut state) = watch::channel(State::default());
        let mut frames = Frames::default();
        frames.push(&bytes);
        let follower = Follower { reports, frames, sender, told, session: Some(session.clone()) };
        tokio::spawn(follower.follow(watched, Arc::clone(&guard)));
        let known = |state: &State| {
            state.attached.is_some()
                || state.over
                || state.hello.is_some_and(|it| !(OLDEST..=VERSION).contains(&it))
        };
        wait_for(&mut state, known).await;
        let now = state.borrow().clone();
        let (Some(identity), Some((answered, is_open))) = (now.started, now.attached) else {
            return match now.hello {
                Some(version) if !(OLDEST..=VERSION).contains(&version) => Err(other_release(version)),
                _ => Ok(None),
            };
        };
        let guarded = Self { identity, guardian, orders: Mutex::new(Some(orders)), state, guard };
        let input = input.filter(|_| is_open);
        Ok(Some(Adopted { guarded, output, complaints, input, answered }))
    }

    /// Returns a session that ended while no process of ours was attached, with its whole output of `length` bytes.
    pub(in crate::session) fn ended(
        identity: ProcessIdentity,
        guardian: ProcessIdentity,
        guard: Arc<dyn SandboxGuard>,
        recording: &Path,
        length: u64,
        exit: Exit,
    ) -> Adopted {
        let (told, output) = Told::new(recording);
        told.ends.send_replace(length);
        let complaints = Arc::clone(&told.complaints);
        let (_, state) = watch::channel(State { exit: Some(exit), over: true, ..State::default() });
        let guarded = Self { identity, guardian, orders: Mutex::default(), state, guard };
        Adopted { guarded, output, complaints, input: None, answered: length }
    }

    pub(in crate::session) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    pub(super) fn processor_time(&self) -> Option<Duration> {
        tree::processor_time(self.guardian.pid)
    }

    pub(in crate::session) fn guardian(&self) -> &ProcessIdentity {
        &self.guardian
    }

    pub(in crate::session) fn guard(&self) -> &Arc<dyn SandboxGuard> {
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

    /// Lets a hosted session go on without this process.
    pub(super) async fn detach(&self) {
        // Never dropped: what the sandbox keeps must stay as long as the agent runs.
        std::mem::forget(Arc::clone(&self.guard));
        // One that is gone has ended its tree.
        let _ = self.order(&Order::Leave).await;
        self.orders.lock().await.take();
    }

    /// Closes the guardian's copy of the agent's input.
    pub(super) async fn close_input(&self) {
        // A guardian that is gone has none.
        let _ = self.order(&Order::CloseInput).await;
    }

    /// Reports to the guardian that the queries in the output before `offset` are answered.
    pub(super) async fn answered(&self, offset: u64) {
        // Without a guardian, nobody will ask.
        let _ = self.order(&Order::Answered(offset)).await;
    }

    /// Has the guardian end the tree after this time unless an orchestrator is attached.
    pub(super) async fn end_in(&self, left: Option<Duration>) {
        // A guardian that is gone has ended its tree.
        let _ = self.order(&Order::EndIn(left)).await;
    }

    pub(in crate::session) async fn terminate(&self, grace: Duration) -> Result<Exit> {
        let ending = async {
            if !self.state.borrow().over {
                // A guardian that no longer takes orders is already ending its tree.
                let _ = self.order(&Order::Terminate { grace }).await;
            }
            self.over().await;
        };
        // The guardian keeps the grace itself. The extra time is for a machine under load, before a kill that
        // it cannot answer. The order is within it: a guardian that is stopped empties its socket no more.
        let limit = grace.saturating_add(SLACK);
        if tokio::time::timeout(limit, ending).await.is_err() {
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
        let mut orders = self.orders.lock().await;
        let orders = orders.as_mut().ok_or_else(gone)?;
        orders.write_all(&order.encode()).await.map_err(|_| gone())
    }
}

impl Told {
    /// Returns it with the reader of the output that is recorded in `recording`.
    fn new(recording: &Path) -> (Self, OutputReader) {
        let (ends, length) = watch::channel(0);
        (Self { ends, complaints: Arc::default() }, OutputReader::new(recording.to_owned(), length))
    }
}

impl Record {
    /// Returns the parts of the order, and the guardian's descriptors.
    fn into_parts(self) -> (Option<RecordIn>, Option<HostIn>, Vec<Descriptor>) {
        let Self { output, errors, to, host } = self;
        let mut own = vec![Descriptor { target: OUTPUT_FD, fd: output }];
        own.extend(errors.map(|fd| Descriptor { target: ERRORS_FD, fd }));
        let host = host.map(|Host { folder, kept, alone, limit, input }| {
            let numbers = (ERRORS_FD + 1..).take(kept.len()).collect();
            let host = HostIn { folder, input: input.is_some(), kept: numbers, alone, limit };
            own.extend(input.map(|fd| Descriptor { target: INPUT_FD, fd }));
            own.extend((ERRORS_FD + 1..).zip(kept).map(|(target, fd)| Descriptor { target, fd }));
            host
        });
        (Some(to), host, own)
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
        Some(version) => Err(other_release(version)),
        None => Err(Error::new(ErrorKind::HelperMissing, "the helper program did not say hello")
            .with("hint", "its main must call watchfire_core::process::helper::run_if_asked() first")),
    }
}

fn other_release(version: u64) -> Error {
    Error::new(ErrorKind::NotSupported, "the helper program is of another release of Watchfire")
        .with("its protocol", version)
        .with("expected", VERSION)
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

/// Reader of a guardian's reports.
struct Follower {
    reports: OwnedReadHalf,
    frames: Frames,
    sender: watch::Sender<State>,
    told: Told,
    /// The session whose mark the tree carries.
    session: Option<SessionId>,
}

impl Follower {
    /// Follows a guardian until it has ended, then lets the sandbox clean up.
    async fn follow(mut self, mut guardian: Awaited, guard: Arc<dyn SandboxGuard>) {
        let mut is_complete = false;
        // Only the first report is bounded in time. An agent may run for days without a report.
        if let Ok(Some(Report::Hello { version })) = tokio::time::timeout(HELLO, self.next()).await {
            self.sender.send_modify(|state| state.hello = Some(version));
            while let Some(report) = self.next().await {
                match report {
                    Report::Ended => {
                        is_complete = true;
                        break;
                    }
                    // Apart from the state, which has waiters that output must not wake.
                    Report::Output { end } => drop(self.told.ends.send_replace(end)),
                    Report::Complaint(bytes) => self.told.complaints.push(&bytes),
                    report => self.sender.send_modify(|state| state.note(report)),
                }
            }
        } else {
            // No helper, or one that hangs. It may have ended by now.
            let _ = guardian.kill();
        }
        let Self { sender, told, session, .. } = self;
        // No more output is reported. Its readers need not wait for the sandbox, or for a session that was left to its host.
        drop(told);
        // Nothing can be done about a process that cannot be waited for; it counts as killed.
        let ended = guardian.wait().await.is_ok_and(|done| done.unwrap_or(is_complete));
        let agent = sender.borrow().started.clone();
        // Any other end means that the guardian did not finish its work, so the agent may still run.
        if let (false, Some(agent)) = (ended, agent) {
            // Blocking: it reads /proc, and waits until the killed processes are gone.
            let _ = tokio::task::spawn_blocking(move || kill_orphans(&agent, session.as_ref())).await;
        }
        // Blocking: the sandbox removes mounts and folders. Other holders of the guard keep it for its report.
        let _ = tokio::task::spawn_blocking(move || guard.ended()).await;
        // Last, so that a reader who sees `over` also finds the sandbox's final report.
        sender.send_modify(|state| state.over = true);
    }

    /// Returns the next report, or `None` after the last one.
    async fn next(&mut self) -> Option<Report> {
        let mut buffer = [0; 256];
        loop {
            if let Some(body) = self.frames.next().ok()? {
                return Report::decode(&body);
            }
            let count = self.reports.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
            self.frames.push(buffer.get(..count)?);
        }
    }
}

/// Kills what an agent leaves whose guardian was killed from outside: its group, and its descendants that left the group, by the
/// mark in their environment. They must not go on writing while their work is captured.
fn kill_orphans(agent: &ProcessIdentity, session: Option<&SessionId>) {
    if agent.liveness() != Liveness::Dead
        && let Ok(pid) = agent.rustix_pid()
    {
        tracing::warn!(pid = agent.pid, "the guardian of this agent was killed; killing the agent's group");
        // It may have ended by now.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    if let Some(session) = session {
        let _ = end_marked(session);
    }
}

impl State {
    /// Returns the reason why no agent was started.
    fn refusal(&self) -> Option<i32> {
        self.failed.or(self.unrecorded).or(self.unhosted)
    }

    fn note(&mut self, report: Report) {
        match report {
            Report::Started { pid, start_time } => {
                self.started = Some(ProcessIdentity::with_start_time(pid, start_time));
            }
            Report::Failed { errno } => self.failed = Some(errno),
            Report::Unrecorded { errno } => self.unrecorded = Some(errno),
            Report::Unhosted { errno } => self.unhosted = Some(errno),
            Report::Attached { answered, input } => self.attached = Some((answered, input)),
            Report::Exited { code } => self.exit = Some(Exit::Code(code)),
            Report::Signalled { signal } => self.exit = Some(Exit::Signal(signal)),
            Report::Hello { .. } | Report::Output { .. } | Report::Complaint(_) | Report::Ended => {}
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
