//! The result of a session.

use crate::backend::{Issue, Usage};
use crate::model::Question;
use crate::sandbox::Refusal;
use crate::schedule::StopReason;
use crate::session::{Claim, Exit};

/// Result of a session. Its whole process tree has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// Exit of its process.
    pub exit: Exit,
    /// Cause of the end.
    pub cause: Cause,
    /// True if the agent was seen at work at any time. Otherwise it never began its task.
    pub worked: bool,
    /// Last words of the agent: the last text or error of its conversation, else the last lines on stderr, else the
    /// last lines on the screen. Empty if it said nothing.
    pub last_words: String,
    /// The agent's last message whole, for a person to answer. Never empty.
    pub(crate) last_message: String,
    /// True if the session has not yet asked the agent how its task ended.
    pub(crate) may_nudge: bool,
    /// Last claim of the agent about its work.
    pub claim: Option<Claim>,
    /// Error in the agent's claim, if it could not be understood.
    pub unclear: Option<String>,
    /// The blocking issue that was open at the end, if any; the latest of several.
    pub issue: Option<Issue>,
    /// Questions that were asked, in a message or in `signal.json`, and not answered.
    pub questions: Vec<Question>,
    /// The vendor's session id, for a later resume.
    pub vendor_session: Option<String>,
    /// Tokens that the provider counted.
    pub usage: Usage,
    /// Their cost in millionths of a US dollar, if all prices are known.
    pub cost: Option<u64>,
    /// Denials by the sandbox that its failed tools reported. There may be more.
    pub refused: Vec<Refusal>,
}

impl Ended {
    /// Returns the exit code of its process, or 128 plus the number of the signal. It is 0 if the agent had finished and was ended
    /// therefore, because terminal programs do not end by themselves. `None` if it is not known.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        let is_done = self.cause == Cause::Claimed && self.claim.as_ref().is_some_and(|claim| claim.success);
        if is_done { Some(0) } else { self.exit.code() }
    }

    /// Returns true if the agent worked and ended successfully by itself, without a claim, a question or an issue.
    pub(crate) fn is_silent(&self) -> bool {
        let is_blocked = self.issue.is_some() || !self.questions.is_empty();
        self.cause == Cause::Exited
            && self.exit.success()
            && self.worked
            && self.claim.is_none()
            && !is_blocked
    }

    /// Returns a result in which only exit and cause are known.
    pub(in crate::session) fn new(exit: Exit, cause: Cause) -> Self {
        Self {
            exit,
            cause,
            worked: false,
            last_words: String::new(),
            last_message: String::new(),
            may_nudge: false,
            claim: None,
            unclear: None,
            issue: None,
            questions: Vec::new(),
            vendor_session: None,
            usage: Usage::default(),
            cost: None,
            refused: Vec::new(),
        }
    }
}

/// Cause of a session's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The agent reported that it had finished.
    Claimed,
    /// The process ended by itself.
    Exited,
    /// A request stopped the session.
    Stopped(StopReason),
    /// The session exceeded its time limit.
    TimedOut,
}

impl Cause {
    /// Returns its word in journals and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Exited => "exited",
            Self::Stopped(_) => "stopped",
            Self::TimedOut => "timed out",
        }
    }
}
