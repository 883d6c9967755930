//! What a session costs: run with `cargo test -p watchfire-core --test process -- --ignored --nocapture`.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use watchfire_core::session::SessionProcess;

use crate::support::{Flavour, parent_of, read_until};

const RUNS: usize = 50;

pub(crate) fn trial() -> Trial {
    let measured = Flavour::Current.trial("measure", async |mark| {
        let mut latencies = Vec::new();
        let mut sessions = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let session = mark.pty("echo x; read line").await;
            read_until(&session, &mut 0, "x").await;
            latencies.push(begun.elapsed());
            sessions.push(session);
        }
        latencies.sort_unstable();
        let memory = |session: &Arc<dyn SessionProcess>, field: &str| {
            let guardian = parent_of(session.identity().pid).unwrap();
            let rollup = fs::read_to_string(format!("/proc/{guardian}/smaps_rollup")).unwrap();
            let line = rollup.lines().find(|line| line.starts_with(field)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        println!("start to first byte: median {:?}, best {:?}", latencies[RUNS / 2], latencies[0]);
        let session = &sessions[RUNS / 2];
        for field in ["Rss:", "Pss:", "Private_Clean:", "Private_Dirty:"] {
            println!("guardian, {RUNS} at once: {field} {} KiB", memory(session, field));
        }
        for session in &sessions {
            session.terminate(Duration::ZERO).await.unwrap();
        }
    });
    measured.with_ignored_flag(true)
}
