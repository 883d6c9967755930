//! The endings of a life.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{TaskNumber, Timestamp};
use crate::workspace::{Candidate, CandidatePart};

/// The end of a life.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "ending")]
pub enum Ending {
    /// Verified and merged.
    #[non_exhaustive]
    Merged {
        /// The merge commit; absent without a repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// The branch that moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// The repository that holds the commit, relative to the project's root, where the work changed only other
        /// repositories. Absent for the project's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<PathBuf>,
    },
    /// Done, with nothing to merge.
    Nothing,
    /// Done and, by configuration, not merged.
    Unmerged,
    /// The agent reported failure.
    #[non_exhaustive]
    Failed {
        /// The agent's reason.
        reason: String,
    },
    /// The agent's process ended before it claimed anything.
    #[non_exhaustive]
    Crashed {
        /// Exit status and last words.
        reason: String,
    },
    /// The agent ended by itself, well, and claimed nothing.
    #[non_exhaustive]
    Unclaimed {
        /// Its last words.
        reason: String,
    },
    /// A limit of the provider's plan was reached, where `on_limit` is `stop`, or a budget is used up.
    #[non_exhaustive]
    Limited {
        /// The agent's or provider's message.
        reason: String,
        /// The time at which the provider says that the limit ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The session exceeded its time limit.
    #[non_exhaustive]
    TimedOut {
        /// The limit and the last words.
        reason: String,
    },
    /// A setup command failed in the task's folder, before its agent started.
    #[non_exhaustive]
    SetupFailed {
        /// The command line.
        command: String,
        /// The exit status, in words.
        how: String,
        /// The end of its output.
        output: String,
    },
    /// A verify command failed on the merged tree, or a setup command before it.
    #[non_exhaustive]
    VerifyFailed {
        /// The command line.
        command: String,
        /// The exit status, in words.
        how: String,
        /// The end of its output.
        output: String,
    },
    /// Work and target changed the same places.
    #[non_exhaustive]
    Conflict {
        /// The files.
        reason: String,
    },
    /// Started too often in a row without progress.
    #[non_exhaustive]
    GaveUp {
        /// Number of starts.
        starts: u32,
        /// The ending of the last one.
        last: Box<Self>,
    },
    /// Stopped from outside. The work is captured and its branch kept.
    #[non_exhaustive]
    Stopped {
        /// The reason.
        by: StopReason,
    },
    /// The draft is ready now.
    Refined,
    /// The work that remains was written as these tasks. None: nothing remains.
    #[non_exhaustive]
    Generated {
        /// Their numbers.
        tasks: Vec<TaskNumber>,
    },
    /// A definition or drafts wait to be accepted.
    Proposed,
    /// The chat is over, or a step whose result is not needed any more.
    Closed,
    /// Something of ours failed.
    #[non_exhaustive]
    Error {
        /// The stable code of the error.
        code: String,
        /// The error, for people.
        message: String,
    },
}

impl Ending {
    /// Returns [`Merged`](Self::Merged).
    #[must_use]
    pub fn merged(commit: Option<String>, target: Option<String>) -> Self {
        Self::Merged { commit, target, repository: None }
    }

    /// Returns the ending of work whose candidate is published.
    pub(crate) fn published(candidate: &Candidate) -> Self {
        let target = Some(candidate.target.clone()).filter(|target| !target.is_empty());
        let own = candidate.own_commit().map(|commit| (commit.to_string(), None));
        let in_other = |part: &CandidatePart| {
            Some((part.candidate.own_commit()?.to_string(), Some(part.repository.clone())))
        };
        let (commit, repository) = own.or_else(|| candidate.others.iter().find_map(in_other)).unzip();
        Self::Merged { commit, target, repository: repository.flatten() }
    }

    /// Returns [`Generated`](Self::Generated).
    #[must_use]
    pub fn generated(tasks: Vec<TaskNumber>) -> Self {
        Self::Generated { tasks }
    }

    /// Returns [`TimedOut`](Self::TimedOut).
    #[must_use]
    pub fn timed_out(reason: impl Into<String>) -> Self {
        Self::TimedOut { reason: reason.into() }
    }

    /// Returns [`Stopped`](Self::Stopped).
    #[must_use]
    pub fn stopped(by: StopReason) -> Self {
        Self::Stopped { by }
    }

    /// Returns [`Failed`](Self::Failed).
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into() }
    }

    /// Returns [`Conflict`](Self::Conflict).
    #[must_use]
    pub fn conflict(reason: impl Into<String>) -> Self {
        Self::Conflict { reason: reason.into() }
    }

    /// Returns the stable word for this ending.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Merged { .. } => "merged",
            Self::Nothing => "nothing to merge",
            Self::Unmerged => "unmerged",
            Self::Failed { .. } => "failed",
            Self::Crashed { .. } => "crashed",
            Self::Unclaimed { .. } => "ended without saying so",
            Self::Limited { .. } => "limited",
            Self::TimedOut { .. } => "timed out",
            Self::SetupFailed { .. } => "setup failed",
            Self::VerifyFailed { .. } => "verify failed",
            Self::Conflict { .. } => "conflict",
            Self::GaveUp { .. } => "gave up",
            Self::Stopped { .. } => "stopped",
            Self::Refined => "refined",
            Self::Generated { .. } => "generated",
            Self::Proposed => "proposed",
            Self::Closed => "closed",
            Self::Error { .. } => "error",
        }
    }

    /// Returns the reason, for the endings that have one.
    #[must_use]
    pub fn reason(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Merged { .. }
            | Self::Nothing
            | Self::Unmerged
            | Self::Refined
            | Self::Proposed
            | Self::Closed => None,
            Self::Generated { tasks } if tasks.is_empty() => Some(Cow::Borrowed("nothing is left to do")),
            Self::Generated { tasks } => {
                let tasks: Vec<_> = tasks.iter().map(|task| format!("#{task}")).collect();
                Some(Cow::Owned(tasks.join(", ")))
            }
            Self::Stopped { by } => Some(Cow::Borrowed(by.note())),
            Self::Failed { reason }
            | Self::Crashed { reason }
            | Self::Unclaimed { reason }
            | Self::TimedOut { reason }
            | Self::Conflict { reason } => Some(Cow::Borrowed(reason)),
            Self::Limited { reason, until: None } => Some(Cow::Borrowed(reason)),
            Self::Limited { reason, until: Some(until) } => {
                Some(Cow::Owned(format!("{reason} (until {})", until.local())))
            }
            Self::SetupFailed { command, how, output } | Self::VerifyFailed { command, how, output } => {
                Some(Cow::Owned(format!("{command}: {how}\n{output}").trim_end().to_owned()))
            }
            Self::GaveUp { starts, last } => {
                Some(Cow::Owned(format!("started {starts} times without progress; the last start {last}")))
            }
            Self::Error { message, .. } => Some(Cow::Borrowed(message)),
        }
    }

    /// Returns the ending with at most the last two kilobytes of a long output, for places that hold many endings.
    #[must_use]
    pub(in crate::schedule) fn brief(&self) -> Self {
        const BYTES: usize = 2048;
        let mut brief = self.clone();
        if let Self::SetupFailed { output, .. } | Self::VerifyFailed { output, .. } = &mut brief
            && let Some(from) = output.len().checked_sub(BYTES)
        {
            // At most three bytes further lies the boundary of a character.
            *output = (from..from + 4).find_map(|at| output.get(at..)).unwrap_or_default().to_owned();
        }
        brief
    }

    /// Returns true if no person needs to look at this ending.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(
            self,
            Self::Merged { .. }
                | Self::Nothing
                | Self::Unmerged
                | Self::Refined
                | Self::Generated { .. }
                | Self::Proposed
                | Self::Closed
        )
    }

    /// Returns true if the work is in the target, where dependent tasks need it.
    #[must_use]
    pub(crate) fn is_integrated(&self) -> bool {
        matches!(self, Self::Merged { .. } | Self::Nothing)
    }

    /// Returns true if the automation must not start the task again after it.
    pub(in crate::schedule) fn parks(&self) -> bool {
        // A deleted task that comes back has no earlier card, so the schedule could not see that it was set
        // to ready again.
        !self.is_good() && !matches!(self, Self::Stopped { by: StopReason::Withdrawn })
    }

    /// Returns true if another attempt may help.
    pub(in crate::schedule) fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Crashed { .. }
                | Self::Unclaimed { .. }
                | Self::TimedOut { .. }
                | Self::VerifyFailed { .. }
                | Self::Conflict { .. }
        )
    }

    /// Returns true if a merge was tried and did not succeed.
    pub(in crate::schedule) fn is_merge_failure(&self) -> bool {
        matches!(self, Self::VerifyFailed { .. } | Self::Conflict { .. })
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// Reason for a stop from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person marked the task as done. Its work continues to the merge.
    DoneByHand,
    /// A person requested it.
    Requested,
    /// The task was set back to draft or deleted.
    Withdrawn,
    /// The orchestrator shuts down. The life continues at the next start.
    Suspended,
    /// The orchestrator went and left the session to its host. Its agent works on.
    Detached,
    /// Another orchestrator took over the task.
    ClaimLost,
    /// A budget is used up.
    Budget,
    /// The terminal or the backend of the session panicked.
    Broken,
}

impl StopReason {
    fn note(self) -> &'static str {
        match self {
            Self::DoneByHand => "the task was marked done by hand",
            Self::Requested => "on a person's request",
            Self::Withdrawn => "a person made its task a draft, or deleted it",
            Self::Suspended => "the orchestrator shut down",
            Self::Detached => "the orchestrator went, and its agent works on",
            Self::ClaimLost => "another orchestrator took over the task",
            Self::Budget => "a budget is used up",
            Self::Broken => "the terminal or the backend of its session panicked",
        }
    }
}
