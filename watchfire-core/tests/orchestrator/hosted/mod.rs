//! Agents that outlive their orchestrator.

mod killable;
mod limits;
mod lives;

use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = lives::trials();
    trials.extend(limits::trials());
    trials
}
