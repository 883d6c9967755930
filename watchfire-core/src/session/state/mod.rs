//! All that is known of one session, shared by the tasks that serve it: its agent's status, words, questions, tokens and claim, and
//! its end.
//!
//! Knows the process and its screen, and nothing of those tasks.

pub(in crate::session) mod blocks;
pub(in crate::session) mod claim;
pub(in crate::session) mod conversation;
pub(in crate::session) mod ended;
pub(in crate::session) mod failures;
pub(in crate::session) mod input;
pub(in crate::session) mod mailbox;
pub(in crate::session) mod note;
pub(in crate::session) mod notes;
pub(in crate::session) mod questions;
pub(in crate::session) mod reading;
pub(in crate::session) mod said;
mod shared;
pub(in crate::session) mod standing;
pub(in crate::session) mod tallies;

pub use blocks::Blocks;
pub use claim::{Claim, Completion};
pub use ended::{Cause, Ended};
pub use input::Receipt;
pub(crate) use mailbox::{Left, Mailbox};
pub(crate) use notes::Notes;
pub use shared::SessionInfo;
pub(in crate::session) use shared::{Activity, GRACE, Shared, in_words};
pub(crate) use tallies::Counted;
