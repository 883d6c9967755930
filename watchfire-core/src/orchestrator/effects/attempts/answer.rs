//! Texts to a running session.

use std::sync::Arc;

use crate::failpoint::reached;
use crate::model::Question;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Answer, NoticeCode};
use crate::session::Session;

/// Delivers an answer to the session that asked. If it has ended by now, its answer is part of the next prompt.
pub(crate) async fn deliver(shared: Arc<ProjectShared>, session: Session, answer: Answer) {
    reached(|| "delivering");
    let question = Question::new(answer.id, answer.question);
    if let Err(error) = session.answer_to(&question, &answer.text).await {
        let message = format!("delivering an answer: {}", error.report());
        shared.notice(NoticeCode::Session, session.info().task, message);
    }
}

/// Asks an agent to continue after the issue that stopped it has cleared.
pub(crate) async fn go_on(shared: Arc<ProjectShared>, session: impl Future<Output = Option<Session>>) {
    let Some(session) = session.await else { return };
    let detail = session.go_on().await;
    if let Some(error) = detail.error {
        let message = format!("asking the agent to go on: {}", error.message);
        shared.notice(NoticeCode::Session, session.info().task, message);
    }
}
