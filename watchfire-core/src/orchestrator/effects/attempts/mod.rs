//! One attempt of a life: claim, open, set up, start, watch, judge, capture.

mod account;
mod answer;
mod attempt;
mod launch;
mod purse;
mod session;
mod setup;
mod started;
mod steps;
mod verdict;
mod visit;
mod workspace;

pub(crate) use answer::{deliver, go_on};
pub(crate) use attempt::attempt;
pub(super) use attempt::go_on_with;
pub(super) use launch::{chosen, find_agent, stall_after, time_limit, watch_signals};
pub(super) use purse::Purse;
pub(super) use session::stamp;
pub(super) use started::{Assembly, Started};
pub(crate) use steps::{create, proposal};
pub(super) use verdict::claimed;
pub(crate) use visit::{Visit, enter_chat};
pub(crate) use workspace::open_workspace;
