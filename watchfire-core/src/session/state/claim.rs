//! Claims of an agent about its work, read from the session's own copy of the task file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::endpoint::{Signal, SignalRead};
use crate::files::read_untrusted;
use crate::model::TaskStatus;
use crate::store;

/// Upper bound for the size of a task file.
const LIMIT: u64 = 32 << 20;

/// Way in which an agent reports that it has finished.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Completion {
    /// The agent reports nothing. The session ends with its process, or by a stop.
    Never,
    /// The agent sets `status: done` in this task file.
    TaskFile(PathBuf),
    /// The agent creates this file.
    SignalFile(PathBuf),
}

impl Completion {
    /// Returns how an agent reports it, as a clause of a sentence to it.
    pub(in crate::session) fn how(&self) -> Option<String> {
        Some(match self {
            Self::Never => return None,
            Self::TaskFile(path) => {
                format!("set `status: done`, with `success: true` or `success: false`, in {}", path.display())
            }
            Self::SignalFile(path) => format!("make the file {}", path.display()),
        })
    }
}

/// Statement of an agent that it has finished. Not a fact: the work has yet to be verified.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// True if the agent reports success, or does not say.
    pub success: bool,
    /// Reason for the failure, in the agent's words.
    pub failure_reason: Option<String>,
}

impl Claim {
    /// Returns a claim of success.
    #[must_use]
    pub fn success() -> Self {
        Self { success: true, failure_reason: None }
    }

    /// Returns a claim of failure.
    #[must_use]
    pub fn failure(reason: Option<String>) -> Self {
        Self { success: false, failure_reason: reason }
    }

    /// Combines the task file and `signal.json`. Where one reports success and the other an error, the error counts.
    /// Questions are no claim.
    pub(crate) fn together(file: Option<Self>, signal: &SignalRead) -> Option<Self> {
        match (file, signal) {
            (Some(file), SignalRead::Signal(Signal::Error { error })) if file.success => {
                Some(Self::failure(Some(format!("it says both done and: {error}"))))
            }
            (None, SignalRead::Signal(Signal::Error { error })) => Some(Self::failure(Some(error.clone()))),
            (None, SignalRead::Signal(Signal::Done { .. })) => Some(Self::success()),
            (file, _) => file,
        }
    }
}

impl Completion {
    /// Returns the folder in which to watch for it.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.file()?.parent()
    }

    /// Returns the completion file.
    pub(in crate::session) fn file(&self) -> Option<&Path> {
        match self {
            Self::Never => None,
            Self::TaskFile(path) | Self::SignalFile(path) => Some(path),
        }
    }

    /// Returns the agent's claim, if it has made one.
    ///
    /// # Errors
    /// `malformed` for a file that is half-written or broken.
    pub fn read(&self) -> Result<Option<Claim>> {
        match self {
            Self::Never => Ok(None),
            // The content does not matter: creating the file is the claim.
            Self::SignalFile(path) => Ok(read_untrusted(path, LIMIT)?.map(|_| Claim::success())),
            Self::TaskFile(path) => {
                let Some(bytes) = read_untrusted(path, LIMIT)? else { return Ok(None) };
                read_task(&bytes).map_err(|error| error.with_path(path))
            }
        }
    }
}

/// Reads status and outcome. Everything else that the agent changed in its copy is ignored.
fn read_task(bytes: &[u8]) -> Result<Option<Claim>> {
    let task = store::read_task(bytes)?;
    // An empty reason would show as a failure without one.
    let reason = task.failure_reason.clone().filter(|reason| !reason.trim().is_empty());
    let claim = || if task.claims_success() { Claim::success() } else { Claim::failure(reason) };
    Ok((task.status == TaskStatus::Done).then(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_disagree_are_an_error() {
        let signal = |signal| SignalRead::Signal(signal);
        let done = signal(Signal::Done { result: None });
        let error = signal(Signal::Error { error: "no disk".into() });
        let yes = || Some(Claim::success());
        assert_eq!(Claim::together(yes(), &SignalRead::Missing), yes());
        assert_eq!(Claim::together(None, &done), yes());
        assert_eq!(Claim::together(None, &error), Some(Claim::failure(Some("no disk".into()))));
        assert!(!Claim::together(yes(), &error).unwrap().success);
        assert_eq!(Claim::together(None, &signal(Signal::Questions(Vec::new()))), None);
        let no = || Some(Claim::failure(None));
        assert_eq!(Claim::together(no(), &done), no());
    }
}
