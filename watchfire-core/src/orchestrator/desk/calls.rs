//! The calls of agents.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::peers::{ask, find, party};
use super::wait::{end_of, until};
use crate::endpoint::{AgentAction, AgentCall};
use crate::inquiry::{Awaiting, Book, Inquiry, InquiryState, Item};
use crate::model::{AgentsMay, SessionId};
use crate::orchestrator::shared::{Names, ProjectShared};
use crate::session::{Desk, Reply, Session};
use crate::{Error, ErrorKind, Result, prompt};

/// Longest wait of one call.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest text, in bytes, that a call returns. Longer ones go by file.
const INLINE: usize = 4 << 10;

/// Time within which an agent that asks begins to await the answer.
const EXPECTED: Duration = Duration::from_secs(5);

/// Name of the wait of a session for anything.
pub(super) fn listening(session: &SessionId) -> String {
    format!("session {session}")
}

/// Name of the wait for an inquiry.
pub(super) fn waiting(inquiry: &str) -> String {
    format!("inquiry {inquiry}")
}

/// Name of the giving of an item: from the reply that has it until that is known to have arrived, no other gives it.
pub(super) fn giving(item: &Item) -> String {
    match item {
        Item::Question(inquiry) => format!("giving question {}", inquiry.id),
        Item::End(inquiry) => format!("giving end {}", inquiry.id),
    }
}

/// The desk of a project for one of its sessions.
pub(crate) struct ProjectDesk {
    shared: Arc<ProjectShared>,
    may: AgentsMay,
}

impl ProjectDesk {
    pub(crate) fn new(shared: &Arc<ProjectShared>, may: AgentsMay) -> Self {
        Self { shared: Arc::clone(shared), may }
    }

    /// Refuses what the project does not let agents do. The only place where this is decided.
    fn allow(&self, action: &AgentAction) -> Result<()> {
        let needed = match action {
            AgentAction::List => vec![("see_peers", self.may.see_peers)],
            AgentAction::Ask { .. } => {
                vec![("see_peers", self.may.see_peers), ("message_peers", self.may.message_peers)]
            }
            AgentAction::AskPerson { .. } => vec![("ask_person", self.may.ask_person)],
            // What an agent is asked by the person it can always hear and answer, and its own work it can always end.
            AgentAction::Answer { .. }
            | AgentAction::Await { .. }
            | AgentAction::Finish { .. }
            | AgentAction::Listen { .. } => Vec::new(),
        };
        match needed.into_iter().find(|(_, may)| *may == Some(false)) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::new(ErrorKind::Unauthorized, "the project does not let its agents do this")
                    .with("may", format!("agents_may.{name}: false")))
            }
        }
    }

    async fn list(&self, session: &Session) -> Result<Value> {
        let names = Names::of(&self.shared).await?;
        let peers = self.shared.sessions();
        let peers = peers.iter().filter(|peer| peer.info().id != session.info().id);
        let agents: Vec<_> = peers
            .map(|peer| {
                let info = peer.info();
                json!({
                    "alias": info.alias, "task": info.task, "title": names.title(info.task), "mode": info.mode,
                    "backend": info.backend, "status": peer.status(),
                })
            })
            .collect();
        Ok(json!({ "agents": agents }))
    }

    /// Keeps an answer that comes at once for the call that is about to await it.
    fn expect_await(&self, inquiry: &Inquiry) {
        let (awaiting, clock) =
            (self.shared.inquiries.awaiting(waiting(&inquiry.id)), Arc::clone(&self.shared.inner.clock));
        tokio::spawn(async move {
            clock.sleep_until(clock.boot_time() + EXPECTED).await;
            drop(awaiting);
        });
    }

    /// Returns a reply, after which the item counts as given. Until then `given` keeps others from giving it: a call that comes at
    /// once, and the typing.
    fn reply(&self, result: Value, item: Item, given: Awaiting) -> Reply {
        let room = Arc::clone(&self.shared.inquiries);
        let after = async move {
            // Without a room to write it down, it is given once more.
            let _ = room.note(move |book| book.given(&item)).await;
            drop(given);
        };
        Reply { result, after: Some(Box::pin(after)) }
    }

    async fn await_end(&self, session: &Session, id: &str, wait: Duration) -> Result<Option<Reply>> {
        let asked = self.shared.inquiries.book().await?.find(id)?.clone();
        if asked.from != party(session) {
            return Err(Error::new(ErrorKind::Unauthorized, "another asked this").with("id", id));
        }
        let awaiting = self.shared.inquiries.awaiting(waiting(id));
        let inquiry = tokio::select! {
            inquiry = end_of(&self.shared, id) => inquiry?,
            () = self.pass(wait) => asked,
            _ = session.ended() => return Ok(None),
        };
        let result = end(&by_file(session, inquiry.clone()).await?);
        if inquiry.is_pending() {
            return Ok(Some(result.into()));
        }
        session.record_inquiry(&inquiry);
        let item = Item::End(inquiry);
        let given = self.shared.inquiries.awaiting(giving(&item));
        // Only now, so that the end is not typed in between.
        drop(awaiting);
        Ok(Some(self.reply(result, item, given)))
    }

    async fn listen(&self, session: &Session, wait: Duration) -> Result<Option<Reply>> {
        let room = &self.shared.inquiries;
        let awaiting = room.awaiting(listening(&session.info().id));
        let passed = self.pass(wait);
        tokio::pin!(passed);
        let mut changes = room.changes();
        loop {
            changes.borrow_and_update();
            let book = room.book().await?;
            let item = book.items(&session.info().id, true).find(|item| !room.is_awaited(&giving(item)));
            if let Some(item) = item {
                let given = room.awaiting(giving(&item));
                let heard = match &item {
                    Item::Question(inquiry) => question(&by_file(session, inquiry.clone()).await?),
                    Item::End(inquiry) => {
                        session.record_inquiry(inquiry);
                        end(&by_file(session, inquiry.clone()).await?)
                    }
                };
                drop(awaiting);
                return Ok(Some(self.reply(heard, item, given)));
            }
            tokio::select! {
                _ = changes.changed() => {}
                // Something may expire.
                () = until(&self.shared, None) => {}
                () = &mut passed => return Ok(Some(Value::Null.into())),
                _ = session.ended() => return Ok(None),
            }
        }
    }

    async fn pass(&self, wait: Duration) {
        let clock = &self.shared.inner.clock;
        clock.sleep_until(clock.boot_time() + wait.min(LONGEST)).await;
    }
}

#[async_trait]
impl Desk for ProjectDesk {
    async fn call(&self, session: &Session, call: &AgentCall) -> Result<Option<Reply>> {
        self.allow(&call.action)?;
        match call.action.clone() {
            AgentAction::Answer { inquiry, text, status } => {
                let me = party(session);
                let answer = move |book: &mut Book| book.answer_as(&me, &inquiry, &text, status);
                let answered = self.shared.inquiries.with(answer).await?;
                Ok(Some(json!({ "conversationId": answered.id, "status": "answered" }).into()))
            }
            AgentAction::Ask { target, text, within_ms } => {
                let (me, id) = (party(session), call.id.clone());
                let known =
                    self.shared.inquiries.with(move |book| Ok(book.of_call(&me, &id).cloned())).await?;
                let asked = match known {
                    // Taken before a restart. The one that was asked may have ended since, and its state says so.
                    Some(known) => known,
                    None => {
                        let to = find(&self.shared, &target).await?;
                        let within = within_ms.map(Duration::from_millis);
                        ask(&self.shared, party(session), &to, text, within, Some(call.id.clone())).await?
                    }
                };
                session.record_inquiry(&asked);
                self.expect_await(&asked);
                let to = asked.to.to_string();
                Ok(Some(json!({ "id": asked.id, "to": to, "deadline": asked.deadline }).into()))
            }
            AgentAction::AskPerson { text } => {
                Ok(Some(json!({ "question": session.ask_person(&call.id, &text)? }).into()))
            }
            AgentAction::Await { inquiry, wait_ms } => {
                self.await_end(session, &inquiry, Duration::from_millis(wait_ms)).await
            }
            AgentAction::Finish { success, reason } => {
                session.finish(success, reason).await?;
                Ok(Some(json!({ "status": "finished" }).into()))
            }
            AgentAction::List => Ok(Some(self.list(session).await?.into())),
            AgentAction::Listen { wait_ms } => self.listen(session, Duration::from_millis(wait_ms)).await,
        }
    }
}

/// Puts texts that are long into files of the session, and returns the inquiry with their names in their places: what an agent
/// hears by a call stands in its context as a whole.
async fn by_file(session: &Session, mut inquiry: Inquiry) -> Result<Inquiry> {
    let id = inquiry.id.clone();
    let texts = [
        ("question", Some(&mut inquiry.text)),
        (
            "answer",
            match &mut inquiry.state {
                InquiryState::Answered { text, .. } => Some(text),
                _ => None,
            },
        ),
    ];
    for (what, text) in texts {
        if let Some(text) = text.filter(|text| text.len() > INLINE) {
            let path = session.put_in_inbox(format!("{what}-{id}.md"), text.as_bytes().to_vec()).await?;
            *text = format!("The text is {} bytes long. It is in the file {}", text.len(), path.display());
        }
    }
    Ok(inquiry)
}

/// Returns a question as the one that is asked hears it.
fn question(inquiry: &Inquiry) -> Value {
    json!({
        "conversationId": inquiry.id, "fromAgentId": inquiry.from.session(), "from": inquiry.from.to_string(),
        "taskId": inquiry.from.task(),
        "question": inquiry.text, "deadline": inquiry.deadline, "message": prompt::asked(inquiry),
    })
}

/// Returns an inquiry as the one that asked hears of its end.
fn end(inquiry: &Inquiry) -> Value {
    let (answer, status) = match &inquiry.state {
        InquiryState::Answered { text, status, .. } => (Some(text), Some(status)),
        _ => (None, None),
    };
    json!({
        "id": inquiry.id, "to": inquiry.to.to_string(), "state": inquiry.state.as_str(), "answer": answer, "status": status,
        "message": prompt::ended(inquiry),
    })
}
