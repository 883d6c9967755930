//! What an agent says about its work, in its session's own copy of the task file.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::endpoint::{Signal, SignalRead};
use crate::files::read_untrusted;
use crate::model::TaskStatus;
use crate::store;

/// The largest task file that is read.
const LIMIT: u64 = 32 << 20;

/// How an agent says that it is finished.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Completion {
    /// It does not: the session ends when someone ends it.
    Never,
    /// It sets `status: done` in this task file.
    TaskFile(PathBuf),
    /// It makes this file.
    SignalFile(PathBuf),
}

/// That the agent says it is finished. A claim, no more.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// Whether it says that it succeeded. Saying nothing counts as a yes.
    pub success: bool,
    /// Why not.
    pub failure_reason: Option<String>,
}

impl Claim {
    /// That it succeeded.
    #[must_use]
    pub fn success() -> Self {
        Self { success: true, failure_reason: None }
    }

    /// That it failed.
    #[must_use]
    pub fn failure(reason: Option<String>) -> Self {
        Self { success: false, failure_reason: reason }
    }

    /// What the file and `signal.json` say together: where one says done and the other error, it is an error. Questions
    /// are no claim.
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

    /// Returns the file that says so.
    pub(in crate::session) fn file(&self) -> Option<&Path> {
        match self {
            Self::Never => None,
            Self::TaskFile(path) | Self::SignalFile(path) => Some(path),
        }
    }

    /// Whether the agent says that it is finished by now.
    ///
    /// # Errors
    /// `malformed` for a file that is there and says nothing clear: half-written, or broken for good.
    pub fn read(&self) -> Result<Option<Claim>> {
        match self {
            Self::Never => Ok(None),
            Self::SignalFile(path) => Ok(read_untrusted(path, LIMIT)?.map(|_| Claim::success())),
            Self::TaskFile(path) => {
                let Some(bytes) = read_untrusted(path, LIMIT)? else { return Ok(None) };
                read_task(&bytes).map_err(|error| error.with_path(path))
            }
        }
    }
}

/// Of all that an agent may have changed in its copy, this is what is looked at.
fn read_task(bytes: &[u8]) -> Result<Option<Claim>> {
    let task = store::read_task(bytes)?;
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
