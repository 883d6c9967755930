//! Effects: each carries out a command of the schedule, and answers with facts.
//!
//! `attempts/` makes an attempt of a life, `merges/` carries its work to the target, `recovery/` finds out at a start what became
//! of the lives of an earlier one. They use the files beside them, and a room only the rooms before it.

mod attempts;
mod board;
mod branches;
mod capture;
mod claims;
mod commands;
mod installed;
mod merges;
mod mirror;
mod open;
mod outcome;
mod preflight;
mod prune;
mod publication;
mod recovery;
mod release;
mod room;

pub(crate) use attempts::{Visit, attempt, create, deliver, enter_chat, go_on, open_workspace, proposal};
pub(crate) use board::{feed_board, load_board};
pub(crate) use branches::remove_branch;
pub(crate) use claims::{release_all, renew_claims};
pub use installed::check_commands;
pub(crate) use merges::{merge, try_held, withdraw, withdraw_others};
pub(crate) use open::{Entered, OpenedJournal, Reserved, enter};
pub(crate) use preflight::{preflight, preflight_session};
pub(crate) use prune::{prune, prune_periodically};
pub(crate) use recovery::{Unrecovered, end_strangers, recover, report_recovery, sessions_left, sweep};
pub(crate) use release::{name_targets, not_released, release, release_left, sweep_lives, target};
