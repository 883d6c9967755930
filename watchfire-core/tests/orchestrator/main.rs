//! The orchestrator with real processes. This program is its own helper, so it has a `main` of its own.

mod attach;
mod budgets;
mod crowd;
mod deliver;
mod ends;
mod faulty;
mod foreign;
mod hosted;
mod limits;
mod lives;
mod panics;
mod peers;
mod prune;
mod recovery;
mod resume;
mod runs;
mod sandboxes;
mod setup;
mod shared_slots;
mod silent;
mod stops;
mod support;
mod talks;
mod told;
mod watching;
mod wildfire;

use std::future::Future;

use libtest_mimic::{Arguments, Trial};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let mut trials = runs::trials();
    trials.extend(attach::trials());
    trials.extend(ends::trials());
    trials.extend(foreign::trials());
    trials.extend(hosted::trials());
    trials.extend(limits::trials());
    trials.extend(lives::trials());
    trials.extend(panics::trials());
    trials.extend(peers::trials());
    trials.extend(prune::trials());
    trials.extend(recovery::trials());
    trials.extend(stops::trials());
    trials.extend(talks::trials());
    trials.extend(told::trials());
    trials.extend(watching::trials());
    trials.extend(crowd::trials());
    trials.extend(deliver::trials());
    trials.extend(resume::trials());
    trials.extend(sandboxes::trials());
    trials.extend(setup::trials());
    trials.extend(shared_slots::trials());
    trials.extend(silent::trials());
    trials.extend(budgets::trials());
    trials.extend(wildfire::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A test on a runtime of its own.
fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}
