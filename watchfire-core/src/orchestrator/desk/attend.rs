//! What a session is given of inquiries while it runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{giving, listening, waiting};
use super::peers::party;
use super::wait::until;
use crate::inquiry::Item;
use crate::model::Timestamp;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::StopReason;
use crate::session::{Cause, Session};
use crate::{Result, prompt};

/// Pause after trouble of the disk.
const AGAIN: Duration = Duration::from_secs(30);

/// Gives a session what it is asked, and how its own inquiries ended, by its queue of texts; once it has ended, ends what it was
/// asked. A session that is suspended or left to its host is only away.
pub(crate) async fn attend(shared: Arc<ProjectShared>, session: Session) {
    let ended = tokio::select! {
        ended = session.ended() => ended,
        never = keep_giving(&shared, &session) => match never {},
    };
    if matches!(ended.cause, Cause::Stopped(StopReason::Suspended | StopReason::Detached)) {
        return;
    }
    let id = session.info().id.clone();
    // Without a room to write it down, the others wait until their deadlines.
    let _ = shared.inquiries.note(move |book| book.ended(|it| it.session() == Some(&id))).await;
}

/// Gives, and after trouble of the disk tries again.
async fn keep_giving(shared: &Arc<ProjectShared>, session: &Session) -> Infallible {
    let clock = &shared.inner.clock;
    let mut told = false;
    loop {
        match give(shared, session).await {
            Ok(never) => match never {},
            // Told once: a disk may be full for long.
            Err(error) if !std::mem::replace(&mut told, true) => {
                session.remark(format!("giving the agent what others say: {}", error.report()));
            }
            Err(_) => {}
        }
        clock.sleep_until(clock.boot_time() + AGAIN).await;
    }
}

async fn give(shared: &Arc<ProjectShared>, session: &Session) -> Result<Infallible> {
    let room = &shared.inquiries;
    let me = party(session);
    room.note(move |book| book.began(&me)).await?;
    let mut changes = room.changes();
    // The one that could not be given, of which the person is told once.
    let mut refused = None;
    loop {
        changes.borrow_and_update();
        let (item, deadline) = next(shared, session).await?;
        let Some(item) = item else {
            tokio::select! {
                _ = changes.changed() => {}
                () = until(shared, deadline.as_ref()) => {}
            }
            continue;
        };
        // Not queued before: while the agent is busy, it may answer by a call, or the question may be given up.
        tokio::select! {
            () = session.ready() => {}
            _ = changes.changed() => continue,
        }
        let text = match &item {
            Item::Question(inquiry) => prompt::asked(inquiry),
            Item::End(inquiry) => {
                session.record_inquiry(inquiry);
                prompt::ended(inquiry)
            }
        };
        let mut saying = std::pin::pin!(session.say(text));
        let said = loop {
            tokio::select! {
                said = &mut saying => break Some(said),
                _ = changes.changed() => {
                    // Taken back, if it is in line still: it was answered, given by a call, or is over.
                    if next(shared, session).await?.0.as_ref() != Some(&item) {
                        break None;
                    }
                }
            }
        };
        match said {
            None => continue,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                if session.has_ended() {
                    // The one that takes its place is given it.
                    std::future::pending::<()>().await;
                }
                let id = item.inquiry().id.clone();
                if refused.as_ref() != Some(&id) {
                    session.remark(format!("the agent was not given {id} yet: {}", error.report()));
                    refused = Some(id);
                }
                // Once more then: to hear it twice costs less than not to hear it.
                tokio::select! {
                    _ = changes.changed() => {}
                    () = shared.inner.clock.sleep_until(shared.inner.clock.boot_time() + AGAIN) => {}
                }
                continue;
            }
        }
        room.note(move |book| book.given(&item)).await?;
    }
}

/// Returns what the session is to be given next, and the deadline of the first inquiry that it waits for.
async fn next(shared: &Arc<ProjectShared>, session: &Session) -> Result<(Option<Item>, Option<Timestamp>)> {
    let (room, id) = (&shared.inquiries, &session.info().id);
    let book = room.book().await?;
    let own = book.pending().filter(|it| it.from.session() == Some(id));
    let deadline = own.map(|it| it.deadline.clone()).min();
    if !session.takes_texts() || room.is_awaited(&listening(id)) {
        return Ok((None, deadline));
    }
    // The end of what it asked is given by its own call, where one waits for it.
    let by_a_call = |item: &Item| match item {
        Item::Question(_) => false,
        Item::End(inquiry) => room.is_awaited(&waiting(&inquiry.id)),
    };
    let item = book.items(id, false).find(|item| !by_a_call(item) && !room.is_awaited(&giving(item)));
    Ok((item, deadline))
}
