//! The end of a session.

use crate::backend::{Issue, Usage};
use crate::endpoint::Question;
use crate::sandbox::Refusal;
use crate::session::StopReason;
use crate::session::{Claim, Exit};

/// The end of a session. Its whole process tree has ended with it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// Exit of its process.
    pub exit: Exit,
    /// Why.
    pub cause: Cause,
    /// True if it was seen at work at any time. Otherwise it never came to its task.
    pub worked: bool,
    /// The last lines that it wrote, to where errors go or on its screen; empty where there were none.
    pub last_words: String,
    /// Last claim of the agent about its work.
    pub claim: Option<Claim>,
    /// Why what it said cannot be understood, if so.
    pub unclear: Option<String>,
    /// The blocking issue that was open at the end, if any; the latest of several.
    pub issue: Option<Issue>,
    /// Questions that were asked, in a message or in `signal.json`, and not answered.
    pub questions: Vec<Question>,
    /// The vendor's session id, by which it could go on later.
    pub vendor_session: Option<String>,
    /// The tokens that its provider counted.
    pub usage: Usage,
    /// Their cost, in millionths of a US dollar, where all prices are known.
    pub cost: Option<u64>,
    /// Denials by the sandbox that its failed tools reported. There may be more.
    pub refused: Vec<Refusal>,
}

impl Ended {
    /// With nothing known but that.
    pub(in crate::session) fn new(exit: Exit, cause: Cause) -> Self {
        Self {
            exit,
            cause,
            worked: false,
            last_words: String::new(),
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

/// Why a session ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The agent said that it is finished.
    Claimed,
    /// Its process ended by itself.
    Exited,
    /// Someone stopped it.
    Stopped(StopReason),
    /// It took longer than allowed.
    TimedOut,
}

impl Cause {
    /// The word for it in journals and logs.
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
