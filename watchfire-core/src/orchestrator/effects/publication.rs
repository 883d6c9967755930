//! The question whether a target contains a candidate.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::model::TaskNumber;
use crate::orchestrator::shared::{ProjectShared, caught};
use crate::schedule::{Fact, LifeId, NoticeCode};
use crate::workspace::Candidate;

/// Interval at which the target is asked again whether it contains a commit.
const AGAIN: Duration = Duration::from_secs(5);

/// Asks the target whether it contains a candidate. An error is no answer, and is reported.
pub(super) async fn is_published(
    shared: &ProjectShared,
    task: Option<TaskNumber>,
    candidate: &Candidate,
) -> Result<bool> {
    let asked = ask(shared, candidate).await;
    if let Err(error) = &asked {
        let message = format!("whether its work was published is not known: {}", error.report());
        shared.notice(NoticeCode::Workspace, task, message);
    }
    asked
}

/// Asks the workspace, which may panic.
pub(super) async fn ask(shared: &ProjectShared, candidate: &Candidate) -> Result<bool> {
    let (workspace, candidate) = (Arc::clone(&shared.workspace), candidate.clone());
    let asking = async move { workspace.is_published(&candidate.target, &candidate.commit).await };
    caught("asking what was published", asking).await
}

/// Asks until the answer is known, or the project is closed.
pub(super) async fn ask_again(shared: Arc<ProjectShared>, life: LifeId, candidate: Candidate) {
    let clock = Arc::clone(&shared.inner.clock);
    let mut closing = shared.closing.subscribe();
    loop {
        tokio::select! {
            () = clock.sleep_until(clock.boot_time() + AGAIN) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        if let Ok(contained) = ask(&shared, &candidate).await {
            return shared.report(Fact::Published { life, contained });
        }
    }
}
