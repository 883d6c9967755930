//! What a session notes about itself for the program that takes it over.

use std::path::PathBuf;

use tokio::sync::oneshot;

use super::input::Typed;
use crate::Result;
use crate::endpoint::Answer;
use crate::files::{make_private, replace};
use crate::model::Question;

/// Files about a session, out of its agent's reach.
#[derive(Clone, Debug)]
pub(crate) struct Notes {
    /// Made once the prompt was typed.
    pub(crate) prompted: PathBuf,
    /// The end of the time limit.
    pub(crate) deadline: PathBuf,
    /// Made before the agent is asked how its task ended.
    pub(crate) nudged: PathBuf,
    /// Folder with an empty file for each answer that was typed.
    pub(crate) given: PathBuf,
}

impl Notes {
    /// Returns the note that the answer to a question was typed. An agent may use an id again for another question.
    pub(crate) fn given(&self, question: &Question) -> PathBuf {
        let text = crc32fast::hash(question.question.as_bytes());
        self.given.join(format!("{}.{text:08x}", Answer::new(&question.id, "").file_name()))
    }
}

/// Makes a note once a text was typed.
pub(in crate::session) async fn note_typed(typed: oneshot::Receiver<Result<Typed>>, path: PathBuf) {
    if let Ok(Ok(_)) = typed.await {
        // Without the note of the prompt, a later program starts another session; without that of an answer, it types the
        // answer again. Nothing is lost.
        note(path).await;
    }
}

/// Makes a note. Where the disk fails, there is none.
pub(in crate::session) async fn note(path: PathBuf) {
    let make = move || {
        path.parent().map_or(Ok(()), make_private)?;
        replace(&path, b"")
    };
    let _ = tokio::task::spawn_blocking(make).await;
}
