//! Words to a running session.

use std::sync::Arc;

use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Answer, NoticeCode};
use crate::session::Session;

/// Delivers an answer to the session that asked. A session that has ended meanwhile reads it in its next prompt.
pub(crate) async fn deliver(shared: Arc<ProjectShared>, session: Session, answer: Answer) {
    if let Err(error) = session.answer(&answer.id, &answer.text).await {
        let message = format!("delivering an answer: {}", error.report());
        shared.notice(NoticeCode::Session, session.info().task, message);
    }
}

/// Asks an agent to go on after the issue that stopped it.
pub(crate) async fn go_on(shared: Arc<ProjectShared>, session: Session) {
    if let Err(error) = session.send("Go on.").await {
        let message = format!("asking the agent to go on: {}", error.report());
        shared.notice(NoticeCode::Session, session.info().task, message);
    }
}
