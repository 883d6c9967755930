//! What the person asks agents, and answers in their place.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::ProjectHandle;
use crate::inquiry::{Inquiry, Party};
use crate::model::SessionId;
use crate::orchestrator::desk;
use crate::{Error, ErrorKind, Result};

impl ProjectHandle {
    /// Asks the agent of a session, in the person's name, and waits for the end of that: an answer, or none `within` the time.
    /// Default: 10 minutes. The question is withdrawn when the future is dropped.
    ///
    /// # Errors
    /// `target_off` if it does not run; `busy` if too many questions to it are open; `invalid_input` for a text that is empty
    /// or too long; I/O errors.
    pub async fn ask(
        &self,
        session: &SessionId,
        text: impl Into<String>,
        within: Option<Duration>,
    ) -> Result<Inquiry> {
        let running = self.shared().session(session).filter(|it| !it.has_ended());
        let to = running.ok_or_else(|| {
            Error::new(ErrorKind::TargetOff, "the session has ended").with("session", session)
        })?;
        let (shared, text) = (Arc::clone(self.shared()), text.into());
        let (mut reply, ended) = oneshot::channel();
        // In a task of its own, which sees that nobody waits any more, whenever that is.
        tokio::spawn(async move {
            let asked = match desk::ask(&shared, Party::Person, &to, text, within, None).await {
                Ok(asked) => asked,
                Err(error) => return drop(reply.send(Err(error))),
            };
            tokio::select! {
                ended = desk::end_of(&shared, &asked.id) => drop(reply.send(ended)),
                () = reply.closed() => {
                    if let Err(error) = shared.inquiries.note(move |book| book.withdraw(&asked.id)).await {
                        tracing::warn!("withdrawing a question: {}", error.report());
                    }
                }
            }
        });
        let gone = |_| Error::new(ErrorKind::Cancelled, "the orchestrator has shut down");
        ended.await.map_err(gone)?
    }

    /// Returns the open inquiries, oldest first.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn inquiries(&self) -> Result<Vec<Inquiry>> {
        Ok(self.shared().inquiries.book().await?.pending().cloned().collect())
    }

    /// Returns a channel that reports every change of an inquiry.
    #[must_use]
    pub fn inquiry_changes(&self) -> watch::Receiver<u64> {
        self.shared().inquiries.changes()
    }

    /// Answers an inquiry in place of the session that was asked.
    ///
    /// # Errors
    /// `not_found`; `already_answered`; `expired` or `target_off` when nobody waits for it any more; I/O errors.
    pub async fn answer_inquiry(&self, id: &str, text: impl Into<String>) -> Result<Inquiry> {
        let (id, text) = (id.to_owned(), text.into());
        self.shared().inquiries.with(move |book| book.answer(&Party::Person, &id, &text)).await
    }
}
