//! Streams about the agents of a project. Each is a task that ends when its client has gone or the daemon ends.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use watchfire_api::daemon_proto as proto;
use watchfire_api::status;
use watchfire_core::Result;
use watchfire_core::model::ProjectId;
use watchfire_core::orchestrator::{ProjectHandle, SessionOutcome};
use watchfire_core::session::{AttachRequest, Cause, Ended, Exit, ScreenChange, ScreenUpdate, Session};
use watchfire_core::terminal::Snapshot;
use watchfire_term::{diff, wire};

use super::agents::current;
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

/// Returns the next session to follow: the named one, once, or each that is the current one of the project.
async fn next(project: &ProjectHandle, named: &str, before: Option<&Session>) -> Result<Option<Session>> {
    if !named.is_empty() {
        return if before.is_some() { Ok(None) } else { current(project, named) };
    }
    loop {
        if let Some(session) = current(project, "")?
            && before.is_none_or(|before| before.info().id != session.info().id)
        {
            return Ok(Some(session));
        }
        tokio::time::sleep(NEXT).await;
    }
}

pub(super) fn screens(
    daemon: &Daemon,
    project: ProjectHandle,
    request: proto::SubscribeScreenRequest,
) -> Result<Screens> {
    // A name that means nothing is an error of the call.
    current(&project, &request.session_id)?;
    let format = request.format();
    let watching = daemon.watchers().add(request.meta.clone(), &request.project_id);
    Ok(stream(daemon, Some(watching), move |send| {
        Box::pin(async move {
            let mut before: Option<Session> = None;
            while let Some(session) = next(&project, &request.session_id, before.as_ref()).await? {
                let mut screen = session.attach(&AttachRequest::screen())?;
                let mut shown: Option<Arc<Snapshot>> = None;
                while let Some(update) = screen.next().await {
                    let ScreenUpdate::Changed(change) = update else { continue };
                    let buffer = buffer(&session, &change, format, shown.as_deref());
                    shown = Some(change.snapshot);
                    if send.send(Ok(buffer)).await.is_err() {
                        return Ok(());
                    }
                }
                let last = proto::ScreenBuffer {
                    session_id: session.info().id.to_string(),
                    end: Some(end(&session.ended().await)),
                    ..proto::ScreenBuffer::default()
                };
                if send.send(Ok(last)).await.is_err() {
                    return Ok(());
                }
                before = Some(session);
            }
            Ok(())
        })
    }))
}

fn end(ended: &Ended) -> proto::SessionEnd {
    let outcome = SessionOutcome::of(ended);
    let exit_code = match ended.exit {
        // It was ended by us, because terminal programs do not end by themselves.
        _ if ended.cause == Cause::Claimed && outcome == SessionOutcome::Completed => 0,
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128_i32.saturating_add(signal),
        _ => 255,
    };
    proto::SessionEnd { exit_code, outcome: outcome.as_str().to_owned() }
}

fn buffer(
    session: &Session,
    change: &ScreenChange,
    format: proto::ScreenFormat,
    shown: Option<&Snapshot>,
) -> proto::ScreenBuffer {
    let snapshot = &change.snapshot;
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
        session_id: session.info().id.to_string(),
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
    current(&project, &request.session_id)?;
    let watching = daemon.watchers().add(request.meta.clone(), &request.project_id);
    Ok(stream(daemon, Some(watching), move |send| {
        Box::pin(async move {
            let mut before: Option<Session> = None;
            while let Some(session) = next(&project, &request.session_id, before.as_ref()).await? {
                let mut attach = AttachRequest::output();
                // An offset is of the session that the client has followed.
                if before.is_none() && request.bytes_received > 0 {
                    attach = attach.with_since(request.bytes_received);
                }
                let mut output = session.attach(&attach)?;
                while let Some(update) = output.next().await {
                    let Some(chunk) = chunk(&session, update) else { continue };
                    if send.send(Ok(chunk)).await.is_err() {
                        return Ok(());
                    }
                }
                before = Some(session);
            }
            Ok(())
        })
    }))
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
    let watching = daemon.watchers().add(meta, project.id().as_str());
    Ok(stream(daemon, Some(watching), move |send| {
        Box::pin(async move {
            let mut now = told.clone();
            loop {
                if send.send(Ok(now.clone().unwrap_or_default())).await.is_err() {
                    return Ok(());
                }
                told.clone_from(&now);
                while now == told {
                    tokio::time::sleep(LOOK).await;
                    now = of(&project).await?.issue;
                }
            }
        })
    }))
}
