//! The vocabulary of the journal: lives, runs, requests and notices, and the ledger that their changes add up to.

mod ending;
mod environment;
mod ledger;
mod life;
mod notice;
mod options;
mod request;
mod run;
mod session;

pub use ending::{Ending, StopReason};
pub use environment::CallerEnvironment;
pub use ledger::{CommandRecord, Ledger, MergeRecord, TaskRecord};
pub use life::{Life, LifeId, LifeState, Subject, Wait};
pub use notice::{Notice, NoticeCode};
pub use options::{Accept, ChatPlace, RunOptions};
pub use request::{Accepted, CommandId, Refusal, Request, ResumeTarget};
pub use run::{Course, Run, RunEnd, RunId, RunSummary, Scope};
pub use session::{Answer, SessionRef};
