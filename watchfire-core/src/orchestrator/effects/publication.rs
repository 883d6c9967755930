//! The question whether its targets contain a candidate.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::model::TaskNumber;
use crate::orchestrator::shared::{ProjectShared, caught};
use crate::schedule::{Fact, LifeId, NoticeCode};
use crate::workspace::{Candidate, InTargets};

/// Interval at which the targets are asked again whether they contain a candidate.
const AGAIN: Duration = Duration::from_secs(5);

/// Asks the targets whether they contain a candidate. An error is no answer, and is reported.
pub(super) async fn found_in_targets(
    shared: &ProjectShared,
    task: Option<TaskNumber>,
    candidate: &Candidate,
) -> Result<InTargets> {
    let asked = ask(shared, candidate).await;
    if let Err(error) = &asked {
        let message = format!("whether its work was published is not known: {}", error.report());
        shared.notice(NoticeCode::Workspace, task, message);
    }
    asked
}

/// Asks the workspace, which may panic.
pub(super) async fn ask(shared: &ProjectShared, candidate: &Candidate) -> Result<InTargets> {
    let (workspace, candidate) = (Arc::clone(&shared.workspace), candidate.clone());
    let asking = async move { workspace.found_in_targets(&candidate).await };
    caught("asking what was published", asking).await
}

/// Returns the answer about the candidate of a life as a fact.
pub(super) fn answer(life: LifeId, found: InTargets) -> Fact {
    match found {
        InTargets::All => Fact::Published { life, contained: true },
        InTargets::None => Fact::Published { life, contained: false },
        InTargets::Some(by) => Fact::HalfPublished { life, by },
    }
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
        if let Ok(found) = ask(&shared, &candidate).await {
            return shared.report(answer(life, found));
        }
    }
}
