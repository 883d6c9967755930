//! Chats that have ended and can be gone on with.

use super::ProjectHandle;
use crate::Result;
use crate::model::{BackendName, SessionId, Timestamp};
use crate::orchestrator::compose::resume::{self, Kept};
use crate::schedule::ChatPlace;

/// A chat that has ended, and that [`ChatRequest::with_resume`](super::ChatRequest::with_resume) can go on with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedChat {
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: BackendName,
    /// Time of its end.
    pub ended_at: Timestamp,
    /// The place in which it worked.
    pub place: ChatPlace,
    /// A line of what its agent said last, or an empty text.
    pub last_words: String,
}

impl ProjectHandle {
    /// Returns the last twenty chats that can be gone on with, the last one first. Those whose agents cannot resume are not among
    /// them.
    ///
    /// # Errors
    /// `internal` if the disk could not be asked.
    pub async fn ended_chats(&self) -> Result<Vec<EndedChat>> {
        Ok(resume::chats(self.shared()).await?.into_iter().map(|kept| self.ended(&kept)).collect())
    }

    /// Returns one of them.
    ///
    /// # Errors
    /// `not_found` if it is not kept.
    pub(super) async fn ended_chat(&self, session: &SessionId) -> Result<EndedChat> {
        Ok(self.ended(&resume::chat(self.shared(), session).await?))
    }

    fn ended(&self, kept: &Kept) -> EndedChat {
        EndedChat {
            session: kept.session().clone(),
            agent: kept.backend().clone(),
            ended_at: kept.at().clone(),
            place: if kept.cwd() == self.shared().root { ChatPlace::Root } else { ChatPlace::Worktree },
            last_words: kept.last_words().to_owned(),
        }
    }
}
