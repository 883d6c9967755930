//! Effects: each carries out a command of the schedule, and answers with facts.

mod adopt;
mod answer;
mod attempt;
mod board;
mod branches;
mod claims;
mod commands;
mod held;
mod launch;
mod merge;
mod mirror;
mod open;
mod prune;
mod purse;
mod recover;
mod release;
mod room;
mod setup;
mod started;
mod steps;
mod verdict;
mod verify;

pub(crate) use adopt::end_strangers;
pub(crate) use answer::{deliver, go_on};
pub(crate) use attempt::{attempt, open_workspace};
pub(crate) use board::{feed_board, load_board};
pub(crate) use branches::remove_branch;
pub(crate) use claims::{release_all, renew_claims};
pub(crate) use held::try_held;
pub(crate) use merge::merge;
pub(crate) use open::{Entered, OpenedJournal, Reserved, enter};
pub(crate) use prune::{prune, prune_periodically};
pub(crate) use recover::{Unrecovered, recover, report_recovery, sessions_left, sweep};
pub(crate) use release::{archived, name_targets, not_released, release, release_left, target};
pub(crate) use steps::{create, proposal};
