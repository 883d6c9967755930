//! A chat: in the root beside its person, where what each does in the repository is carried over to the other, or apart in a
//! folder of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::workspace::open_workspace;
use crate::model::{Attempt, Mode, SessionId};
use crate::orchestrator::compose::{SessionRequest, isolates_root};
use crate::orchestrator::effects::outcome::tell_kept;
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{ChatPlace, NoticeCode, RunOptions};
use crate::workspace::{CaptureRequest, Exchanged, MergeGuard, RemoveRequest, Removed, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// Pause between two exchanges: a change is on the other side within a second.
const PAUSE: Duration = Duration::from_millis(500);

/// Requests a chat in the place that its options name.
pub(crate) async fn enter_chat(
    shared: &Arc<ProjectShared>,
    attempt: Attempt,
    options: RunOptions,
) -> Result<SessionRequest> {
    if options.place.is_root() {
        return enter_root(shared, options).await;
    }
    // What was merged meanwhile is not gone on with. Other work stays.
    let left = shared.workspace.remove(&RemoveRequest::new(WorkspaceKey::Chat)).await;
    if let Err(error) = left
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let opened = open_workspace(shared, WorkspaceKey::Chat, attempt, &options).await?;
    if opened.cwd == shared.root {
        let message = "a chat has a folder of its own only in a repository";
        return Err(Error::new(ErrorKind::NotSupported, message).with_path(&shared.root));
    }
    let request = SessionRequest::in_root(shared, Mode::Chat, options);
    Ok(SessionRequest { session: Some(SessionId::random()), opened, ..request })
}

/// Requests a chat in the root, with a repository of its own if its sandbox can show one.
async fn enter_root(shared: &Arc<ProjectShared>, options: RunOptions) -> Result<SessionRequest> {
    let (project, settings) = shared.settings().await?;
    // As for a merge, but for files of other tools: those are named at the end.
    let guard = MergeGuard::default()
        .with_protected(project.protected.clone())
        .with_wiring(!settings.git.allow_git_wiring);
    let (of, asked) = (Arc::clone(shared), options.clone());
    let ask = move || isolates_root(&of, &project, &settings, &asked);
    let isolated = blocking("asking the sandbox", ask).await?;
    let session = SessionId::random();
    let opened = shared.workspace.enter(&session, isolated, &guard).await?;
    for line in &opened.attention {
        shared.notice(NoticeCode::Workspace, None, line.clone());
    }
    let request = SessionRequest::in_root(shared, Mode::Chat, options);
    Ok(SessionRequest { session: Some(session), opened, ..request })
}

/// A chat in its place.
pub(crate) struct Visit {
    shared: Arc<ProjectShared>,
    session: SessionId,
    place: ChatPlace,
    /// Remarks for the person, where the project is not open and has no log for them.
    kept: Option<Mutex<Vec<String>>>,
}

impl Visit {
    pub(crate) fn new(shared: &Arc<ProjectShared>, session: SessionId, place: ChatPlace) -> Self {
        Self { shared: Arc::clone(shared), session, place, kept: None }
    }

    /// Keeps remarks for the person until the chat is left.
    pub(crate) fn keeping_remarks(self) -> Self {
        Self { kept: Some(Mutex::default()), ..self }
    }

    /// Waits for `work`, and makes exchanges meanwhile in the root.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.place.is_root() {
            return work.await;
        }
        tokio::select! {
            done = work => done,
            never = self.exchange() => match never {},
        }
    }

    async fn exchange(&self) -> std::convert::Infallible {
        let clock = &self.shared.inner.clock;
        let mut last = None;
        loop {
            clock.sleep_until(clock.boot_time() + PAUSE).await;
            match self.shared.workspace.exchange(&self.session).await {
                Ok(exchanged) => {
                    last = None;
                    self.tell_all(exchanged);
                }
                // The same trouble is told once.
                Err(error) => {
                    let report = error.report();
                    if last.as_ref() != Some(&report) {
                        let message =
                            format!("a chat's work in the repository is not carried over: {report}");
                        self.tell(NoticeCode::Workspace, message);
                    }
                    last = Some(report);
                }
            }
        }
    }

    /// Carries over or captures the last work of the session, of which nothing may run any more. Returns the remarks that it
    /// kept.
    pub(crate) async fn leave(self) -> Vec<String> {
        if self.place.is_root() {
            self.leave_root().await;
        } else {
            self.leave_folder().await;
        }
        self.kept.map(Mutex::into_inner).and_then(std::result::Result::ok).unwrap_or_default()
    }

    async fn leave_root(&self) {
        match self.shared.workspace.leave(&self.session).await {
            Ok(exchanged) => self.tell_all(exchanged),
            // The copies stay, and are carried over when the session is recovered.
            Err(error) => {
                let message =
                    format!("a chat's last work in the repository is not carried over: {}", error.report());
                self.tell(NoticeCode::Workspace, message);
            }
        }
    }

    /// Commits what the chat left in its folder, and removes folder and branch if there is no work in them.
    async fn leave_folder(&self) {
        let shared = &self.shared;
        let message = "Uncommitted work of a chat\n\nCaptured when the chat ended.";
        let capture = CaptureRequest::new(WorkspaceKey::Chat, message)
            .with_trailer("Watchfire-Session", self.session.to_string());
        let left = async {
            let captured = shared.workspace.capture(&capture).await?;
            tell_kept(shared, None, &captured);
            match shared.workspace.remove(&RemoveRequest::new(WorkspaceKey::Chat)).await? {
                Removed::Gone { .. } => Ok(None),
                Removed::Kept { .. } => Ok::<_, Error>(Some(captured.commits)),
            }
        };
        let (code, message) = match left.await {
            Ok(None) => return,
            Ok(Some(commits)) => {
                let (branch, commits) = (format!("watchfire/{}", WorkspaceKey::Chat), counted(commits));
                let message =
                    format!("the chat's work is on {branch} ({commits}); to take it: git merge {branch}");
                (NoticeCode::WorkKept, message)
            }
            Err(error) => {
                (NoticeCode::Workspace, format!("the chat's work stays in its folder: {}", error.report()))
            }
        };
        self.tell(code, message);
    }

    fn tell_all(&self, exchanged: Exchanged) {
        exchanged.told.into_iter().for_each(|told| self.tell(NoticeCode::Workspace, told));
    }

    fn tell(&self, code: NoticeCode, message: String) {
        match &self.kept {
            Some(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).push(message),
            None => self.shared.notice(code, None, message),
        }
    }
}

fn counted(commits: usize) -> String {
    if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") }
}
