//! Streams about the agents of a project. Each is a task that ends when its client has gone or the daemon ends.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use watchfire_api::daemon_proto as proto;
use watchfire_api::status;
use watchfire_core::model::{ProjectId, SessionId};
use watchfire_core::orchestrator::{ProjectHandle, SessionLog, SessionOutcome};
use watchfire_core::session::{AttachRequest, Attachment, ScreenUpdate, Session};
use watchfire_core::terminal::Snapshot;
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_term::{diff, wire};

use super::agents::current;
use super::blocking;
use super::status::of;
use crate::Daemon;
use crate::watchers::Watching;

/// Pause between two looks for the next agent of a project.
const NEXT: Duration = Duration::from_millis(100);
/// Pause between two looks at the issues of a project.
const LOOK: Duration = Duration::from_millis(500);

pub(super) type Out<T> = ReceiverStream<std::result::Result<T, Status>>;
pub(super) type Screens = Out<proto::ScreenBuffer>;
pub(super) type RawOutput = Out<proto::RawOutputChunk>;
pub(super) type Issues = Out<proto::AgentIssue>;
pub(super) type Sender<T> = mpsc::Sender<std::result::Result<T, Status>>;

/// Runs `work` until it ends, its client has gone, or the daemon ends. What waits to be sent is bounded to one item, so that a
/// slow client gets the newest. `watching` is dropped then.
pub(super) fn stream<T: Send + 'static>(
    daemon: &Daemon,
    watching: Option<Watching>,
    work: impl FnOnce(Sender<T>) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + 'static,
) -> Out<T> {
    let (send, receive) = mpsc::channel(1);
    let daemon = daemon.clone();
    tokio::spawn(async move {
        let _watching = watching;
        tokio::select! {
            done = work(send.clone()) => {
                if let Err(error) = done {
                    // An error means that the client has gone.
                    let _ = send.send(Err(status(&error))).await;
                }
            }
            () = send.closed() => {}
            () = daemon.ended() => {
                let _ = send.send(Err(Status::unavailable("the daemon is shutting down"))).await;
            }
        }
    });
    ReceiverStream::new(receive)
}

/// Returns the end of a stream about one project that was closed.
pub(super) fn closed(project: &str) -> Error {
    Error::new(ErrorKind::TargetOff, "the project was closed").with("project", project)
}

/// The projects that are open, and those that are opened later.
pub(super) struct Opened {
    daemon: Daemon,
    turns: watch::Receiver<u64>,
    known: BTreeSet<ProjectId>,
}

impl Opened {
    pub(super) fn of(daemon: &Daemon) -> Self {
        Self { daemon: daemon.clone(), turns: daemon.turns(), known: BTreeSet::new() }
    }

    /// Returns those that were not returned before, at least one, or `None` once the daemon has gone.
    pub(super) async fn next(&mut self) -> Option<Vec<ProjectHandle>> {
        loop {
            self.turns.mark_unchanged();
            let open = self.daemon.projects();
            // One that was closed may come again.
            self.known.retain(|id| open.iter().any(|project| project.id() == id));
            let new: Vec<_> =
                open.into_iter().filter(|project| self.known.insert(project.id().clone())).collect();
            if !new.is_empty() {
                return Some(new);
            }
            self.turns.changed().await.ok()?;
        }
    }
}

/// The sessions that a stream follows: the named one, or each of the project, one after the other.
struct Walk {
    daemon: Daemon,
    project: ProjectHandle,
    /// The session of the request; empty for each of the project.
    named: String,
    /// Number of sessions of the project that were seen to begin.
    seen: u64,
    /// The sessions that have begun since, and wait their turn.
    later: VecDeque<Session>,
    /// The sessions that were followed and that the project still knows.
    done: BTreeSet<SessionId>,
    last: Option<Session>,
}

impl Walk {
    /// # Errors
    /// `target_off` for a name that means nothing.
    fn new(daemon: &Daemon, project: ProjectHandle, named: &str) -> Result<Self> {
        current(&project, named)?;
        let seen = project.sessions_begun();
        let (daemon, named) = (daemon.clone(), named.to_owned());
        Ok(Self { daemon, project, named, seen, later: VecDeque::new(), done: BTreeSet::new(), last: None })
    }

    /// Returns the next session: the one that runs, then those that began after it, also if they have ended by now.
    ///
    /// # Errors
    /// `cursor_expired` if more have ended than are kept; those of a project that is archived or gone.
    async fn next(&mut self) -> Result<Option<Session>> {
        if !self.named.is_empty() {
            let first = self.done.is_empty();
            let session = if first { current(&self.project, &self.named)? } else { None };
            return Ok(session.map(|session| self.follow(session)));
        }
        loop {
            self.look().await?;
            let running = if self.done.is_empty() { current(&self.project, "")? } else { None };
            let next = running.or_else(|| self.later.pop_front()).or(current(&self.project, "")?);
            if let Some(session) = next.filter(|session| !self.done.contains(&session.info().id)) {
                return Ok(Some(self.follow(session)));
            }
            if self.later.is_empty() {
                tokio::time::sleep(NEXT).await;
            }
        }
    }

    fn follow(&mut self, session: Session) -> Session {
        self.done.insert(session.info().id.clone());
        self.last = Some(session.clone());
        session
    }

    /// Looks for sessions that have begun, where the project is by now: it may have been closed and opened again.
    async fn look(&mut self) -> Result<()> {
        let project = self.daemon.project(self.project.id().as_str()).await?;
        if project != self.project {
            (self.project, self.seen) = (project, 0);
            // An agent that goes on is taken over under its name.
            if let Some(left) = self.last.take().filter(|last| !last.has_ended()) {
                self.done.remove(&left.info().id);
            }
        }
        let Some(begun) = self.project.sessions_since(self.seen) else {
            return Err(Error::new(
                ErrorKind::CursorExpired,
                "more sessions have ended than are kept for a slow reader",
            )
            .with("hint", "watchfire logs shows them"));
        };
        self.seen = begun.last().map_or(self.seen, |(number, _)| *number);
        self.later.extend(begun.into_iter().map(|(_, session)| session));
        self.done.retain(|id| self.project.session(id).is_some());
        Ok(())
    }
}

/// The screens of a project's sessions, one after the other, or of one of them.
pub(crate) struct Screen {
    sessions: Sessions,
    /// The session that is followed now.
    now: Option<(Session, Attachment)>,
    _watching: Watching,
}

enum Sessions {
    Walk(Walk),
    /// The end of one that ended under an earlier daemon, whose client was told of none.
    Past(Option<(String, Update)>),
}

/// A new screen of a session, or its end.
pub(crate) enum Update {
    Changed(Arc<Snapshot>),
    Over { exit_code: i32, outcome: SessionOutcome },
}

impl Screen {
    /// # Errors
    /// `target_off` for a session that does not exist; errors of the project.
    pub(crate) async fn follow(daemon: &Daemon, request: &proto::SubscribeScreenRequest) -> Result<Self> {
        let project = daemon.project(&request.project_id).await?;
        let logs = project.logs_dir().to_owned();
        let sessions = match Walk::new(daemon, project, &request.session_id) {
            Err(error) if error.kind() == ErrorKind::TargetOff => {
                let last = past(logs, request.session_id.clone()).await?;
                Sessions::Past(Some((request.session_id.clone(), last.ok_or(error)?)))
            }
            walk => Sessions::Walk(walk?),
        };
        let watching = daemon.watchers().add(request.meta.clone(), &request.project_id);
        Ok(Self { sessions, now: None, _watching: watching })
    }

    /// Waits for what becomes of a session next. `None`: the one that was named has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Update)>> {
        loop {
            let (session, screen) = match (&mut self.now, &mut self.sessions) {
                (Some(now), _) => now,
                (None, Sessions::Past(last)) => return Ok(last.take()),
                (None, Sessions::Walk(walk)) => {
                    let Some(session) = walk.next().await? else { return Ok(None) };
                    let screen = session.attach(&AttachRequest::screen())?;
                    self.now.insert((session, screen))
                }
            };
            let update = match screen.next().await {
                Some(ScreenUpdate::Changed(change)) => Update::Changed(change.snapshot),
                Some(_) => continue,
                None => {
                    let ended = session.ended().await;
                    over(ended.exit_code(), SessionOutcome::of(&ended))
                }
            };
            let id = session.info().id.to_string();
            if matches!(update, Update::Over { .. }) {
                self.now = None;
            }
            return Ok(Some((id, update)));
        }
    }
}

pub(super) async fn screens(daemon: &Daemon, request: proto::SubscribeScreenRequest) -> Result<Screens> {
    let mut screen = Screen::follow(daemon, &request).await?;
    Ok(stream(daemon, None, move |send| {
        Box::pin(async move {
            let mut shown = None;
            while let Some((session, update)) = screen.next().await? {
                let buffer = buffer(session, &update, request.format(), shown.as_deref());
                shown = match update {
                    Update::Changed(snapshot) => Some(snapshot),
                    Update::Over { .. } => None,
                };
                if send.send(Ok(buffer)).await.is_err() {
                    break;
                }
            }
            Ok(())
        })
    }))
}

fn over(exit_code: Option<i32>, outcome: SessionOutcome) -> Update {
    Update::Over { exit_code: exit_code.unwrap_or(255), outcome }
}

/// Returns the end of a session that has ended, from its log. `None` if it has no log, or its end is not known.
async fn past(logs: PathBuf, session: String) -> Result<Option<Update>> {
    let find = move || {
        let is_it = |log: &SessionLog| log.session.as_ref().is_some_and(|id| id.as_str() == session);
        let log = SessionLog::list(&logs)?.into_iter().find(is_it).filter(|log| !log.is_running());
        Ok(log.and_then(|log| Some(over(log.spent.as_ref()?.exit_code, log.outcome()?))))
    };
    blocking(find).await
}

fn buffer(
    session_id: String,
    update: &Update,
    format: proto::ScreenFormat,
    shown: Option<&Snapshot>,
) -> proto::ScreenBuffer {
    let snapshot = match update {
        Update::Changed(snapshot) => snapshot,
        Update::Over { exit_code, outcome } => {
            let end = proto::SessionEnd { exit_code: *exit_code, outcome: outcome.as_str().to_owned() };
            return proto::ScreenBuffer { session_id, end: Some(end), ..proto::ScreenBuffer::default() };
        }
    };
    let (lines, cells) = match format {
        proto::ScreenFormat::Unspecified => {
            (snapshot.lines.iter().map(|line| diff::line(line)).collect(), Vec::new())
        }
        proto::ScreenFormat::Cells => (Vec::new(), wire::encode(snapshot)),
        proto::ScreenFormat::Changes => {
            let cells = shown.map_or_else(|| wire::encode(snapshot), |it| wire::encode_change(it, snapshot));
            (Vec::new(), cells)
        }
    };
    proto::ScreenBuffer {
        session_id,
        rows: snapshot.size.rows().into(),
        cols: snapshot.size.cols().into(),
        cursor_row: snapshot.cursor.row.into(),
        cursor_col: snapshot.cursor.col.into(),
        cursor_visible: !snapshot.cursor.hidden,
        lines,
        cells,
        title: snapshot.title.as_deref().unwrap_or_default().to_owned(),
        scrolled: snapshot.scrollback.end,
        end: None,
    }
}

pub(super) fn raw_output(
    daemon: &Daemon,
    project: ProjectHandle,
    request: proto::SubscribeRawOutputRequest,
) -> Result<RawOutput> {
    let mut since = some_offset(&request)?;
    let mut walk = Walk::new(daemon, project, &request.session_id)?;
    let watching = daemon.watchers().add(request.meta.clone(), &request.project_id);
    Ok(stream(daemon, Some(watching), move |send| {
        Box::pin(async move {
            while let Some(session) = walk.next().await? {
                let mut attach = AttachRequest::output();
                if let Some(since) = since.take() {
                    attach = attach.with_since(since);
                }
                let mut output = session.attach(&attach)?;
                while let Some(update) = output.next().await {
                    let Some(chunk) = chunk(&session, update) else { continue };
                    if send.send(Ok(chunk)).await.is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }))
}

/// Returns the offset to go on from. It is one of a session, which must be named.
fn some_offset(request: &proto::SubscribeRawOutputRequest) -> Result<Option<u64>> {
    let since = Some(request.bytes_received).filter(|since| *since > 0);
    if since.is_some() && request.session_id.is_empty() {
        let error = Error::new(ErrorKind::InvalidInput, "an offset is one of a session, and none is named");
        return Err(error.with("hint", "set session_id to that of the chunk with this offset"));
    }
    Ok(since)
}

fn chunk(session: &Session, update: ScreenUpdate) -> Option<proto::RawOutputChunk> {
    let of = proto::RawOutputChunk { session_id: session.info().id.to_string(), ..Default::default() };
    match update {
        ScreenUpdate::Output { offset, bytes, .. } => {
            let offset = offset + bytes.len() as u64;
            Some(proto::RawOutputChunk { data: bytes.to_vec(), offset, ..of })
        }
        ScreenUpdate::Redraw { lost, snapshot, bytes, .. } => Some(proto::RawOutputChunk {
            data: bytes.to_vec(),
            offset: lost.end,
            skipped: lost.end - lost.start,
            rows: snapshot.size.rows().into(),
            cols: snapshot.size.cols().into(),
            redraw: true,
            ..of
        }),
        ScreenUpdate::Resized(size) => {
            Some(proto::RawOutputChunk { rows: size.rows().into(), cols: size.cols().into(), ..of })
        }
        _ => None,
    }
}

/// Follows the issue of a project: as it is now, and each change.
pub(super) async fn issues(
    daemon: &Daemon,
    project: ProjectHandle,
    meta: Option<proto::RequestMeta>,
) -> Result<Issues> {
    // What keeps the project from being looked at is an error of the call.
    let mut told = of(&project).await?.issue;
    let (id, looked) = (project.id().to_string(), daemon.clone());
    let watching = daemon.watchers().add(meta, &id);
    Ok(stream(daemon, Some(watching), move |send| {
        let daemon = looked;
        Box::pin(async move {
            let mut now = told.clone();
            loop {
                if send.send(Ok(now.clone().unwrap_or_default())).await.is_err() {
                    return Ok(());
                }
                told.clone_from(&now);
                while now == told {
                    tokio::time::sleep(LOOK).await;
                    // It may have been closed and opened again.
                    now = of(&daemon.project(&id).await?).await?.issue;
                }
            }
        })
    }))
}
