//! Finding the session that is asked, and asking it.

use std::sync::Arc;
use std::time::Duration;

use crate::inquiry::{Ask, Inquiry, Party};
use crate::observe::{Candidate, Target};
use crate::orchestrator::shared::{ProjectShared, candidates};
use crate::session::Session;
use crate::{Error, ErrorKind, Result};

/// Time for an answer, where none is given, and the longest.
const WITHIN: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(24 * 60 * 60)];

/// Returns a session as one that asks or is asked.
pub(crate) fn party(session: &Session) -> Party {
    let info = session.info();
    Party::Session { session: info.id.clone(), alias: info.alias.clone(), task: info.task }
}

/// Returns the running session that `target` means.
///
/// # Errors
/// `not_found` and `ambiguous_target`, with what there is; `target_off` for one that has ended.
pub(super) async fn find(shared: &ProjectShared, target: &str) -> Result<Session> {
    let target: Target = target.parse()?;
    let running = candidates(shared, false).await?;
    let off = |candidate: &Candidate| {
        Error::new(ErrorKind::TargetOff, "the session has ended").with("target", candidate)
    };
    match target.resolve_one(&running, Some(&shared.id)) {
        Ok(found) => shared.session(&found.session).ok_or_else(|| off(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match target.resolve_one(&candidates(shared, true).await?, Some(&shared.id)) {
                Ok(ended) => Err(off(ended)),
                // Its list of those that can be asked is the better one.
                Err(_) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Opens an inquiry to a session, whose attendant or call to listen then delivers it.
pub(crate) async fn ask(
    shared: &Arc<ProjectShared>,
    from: Party,
    to: &Session,
    text: String,
    within: Option<Duration>,
    call: Option<String>,
) -> Result<Inquiry> {
    let now = shared.inner.clock.now();
    let deadline = now.plus(within.unwrap_or(WITHIN[0]).min(WITHIN[1]));
    let salt = u16::from_be_bytes(random());
    let asked = Ask { from, to: party(to), text, deadline, call, salt };
    let inquiry = shared.inquiries.with(move |book| book.ask(&now, asked)).await?;
    to.record_inquiry(&inquiry);
    if to.has_ended() {
        // It may have ended before the inquiry was there for its attendant to end.
        let session = to.info().id.clone();
        shared.inquiries.note(move |book| book.ended(|it| it.session() == Some(&session))).await?;
    }
    Ok(inquiry)
}

fn random() -> [u8; 2] {
    let [first, second, ..] = uuid::Uuid::new_v4().into_bytes();
    [first, second]
}
