//! The account of a session for a program that takes it over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::backend::Readiness;
use crate::files::{read_untrusted, replace};
use crate::model::{Mode, Phase, Timestamp};
use crate::session::{Completion, Deadline, Notes, SessionDirectory};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the size of a note: a resumed session may have brought along thousands of files.
const LIMIT: u64 = 64 << 20;

/// Everything about a session that neither the journal nor its host knows. Written before its agent starts, in the session's
/// folder, out of the agent's reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    /// The version of the format: 1.
    pub(crate) schema: u32,
    pub(crate) mode: Mode,
    pub(crate) phase: Option<Phase>,
    pub(crate) started_at: Timestamp,
    pub(crate) program: PathBuf,
    pub(crate) title: String,
    pub(crate) reach: Reached,
    pub(crate) readiness: Readiness,
    /// True if the prompt is typed: until it was, the session cannot be taken over.
    pub(crate) types_prompt: bool,
    pub(crate) completion: Completion,
    pub(crate) may_nudge: bool,
    /// The vendor's session that is resumed.
    pub(crate) resume: Option<String>,
    /// Files of that session, with their lengths.
    pub(crate) restored: BTreeMap<PathBuf, u64>,
    pub(crate) log_name: PathBuf,
    /// The end of its time limit, as it was at the start.
    pub(crate) deadline: Option<Deadline>,
}

/// Channel to an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reached {
    Terminal,
    Stream,
    Dialogue,
}

impl SessionNote {
    /// Reads the note of a session.
    ///
    /// # Errors
    /// `not_found`, `malformed`, and those of the disk.
    pub(crate) fn read(directory: &SessionDirectory) -> Result<Self> {
        let path = path(directory);
        let missing = || Error::new(ErrorKind::NotFound, "the session has no note").with_path(&path);
        let bytes = read_untrusted(&path, LIMIT)?.ok_or_else(missing)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::Malformed, "not a note of a session").with_source(error).with_path(path)
        })
    }

    /// Writes it.
    ///
    /// # Errors
    /// I/O errors; `invalid_input` for a path that is not text.
    pub(crate) fn write(&self, directory: &SessionDirectory) -> Result<()> {
        let failed = |error| Error::new(ErrorKind::InvalidInput, "a path is not text").with_source(error);
        replace(&path(directory), &serde_json::to_vec(self).map_err(failed)?)
    }
}

fn path(directory: &SessionDirectory) -> PathBuf {
    directory.root().join("session.json")
}

/// Returns the files that the session itself writes for a program that takes it over.
pub(crate) fn notes(directory: &SessionDirectory) -> Notes {
    let at = |name: &str| directory.root().join(name);
    Notes {
        prompted: at("prompted"),
        deadline: at("deadline.json"),
        nudged: at("nudged"),
        given: at("given"),
    }
}
