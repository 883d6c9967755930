//! A session in the root beside its person: what each does in the repository is carried over to the other.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::model::{Mode, SessionId};
use crate::orchestrator::compose::{SessionRequest, isolates};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{NoticeCode, RunOptions};
use crate::workspace::Exchanged;

/// Pause between two exchanges: a change is on the other side within a second.
const PAUSE: Duration = Duration::from_millis(500);

/// Requests a chat in the root, with a repository of its own if its sandbox can show one.
pub(crate) async fn enter_root(shared: &Arc<ProjectShared>, options: RunOptions) -> Result<SessionRequest> {
    let (project, settings) = shared.settings().await?;
    let (of, asked) = (Arc::clone(shared), options.clone());
    let ask = move || isolates(&of, &project, &settings, &asked);
    let isolated = blocking("asking the sandbox", ask).await?;
    let session = SessionId::random();
    let opened = shared.workspace.enter(&session, isolated).await?;
    for line in &opened.attention {
        shared.notice(NoticeCode::Workspace, None, line.clone());
    }
    let request = SessionRequest::in_root(shared, Mode::Chat, options);
    Ok(SessionRequest { session: Some(session), opened, ..request })
}

/// A session that entered the root.
pub(crate) struct Visit {
    shared: Arc<ProjectShared>,
    session: SessionId,
}

impl Visit {
    pub(crate) fn new(shared: &Arc<ProjectShared>, session: SessionId) -> Self {
        Self { shared: Arc::clone(shared), session }
    }

    /// Waits for `work`, and makes exchanges meanwhile.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
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
                    self.tell(exchanged);
                }
                // The same trouble is told once.
                Err(error) => {
                    let report = error.report();
                    if last.as_ref() != Some(&report) {
                        let message =
                            format!("a chat's work in the repository is not carried over: {report}");
                        self.shared.notice(NoticeCode::Workspace, None, message);
                    }
                    last = Some(report);
                }
            }
        }
    }

    /// Carries over what the session did last. Nothing of it may run any more.
    pub(crate) async fn leave(self) {
        match self.shared.workspace.leave(&self.session).await {
            Ok(exchanged) => self.tell(exchanged),
            // The copies stay, and are carried over when the session is recovered.
            Err(error) => {
                let message =
                    format!("a chat's last work in the repository is not carried over: {}", error.report());
                self.shared.notice(NoticeCode::Workspace, None, message);
            }
        }
    }

    fn tell(&self, exchanged: Exchanged) {
        for told in exchanged.told {
            self.shared.notice(NoticeCode::Workspace, None, told);
        }
    }
}
