//! Real agent CLIs against the model server: `bash .ci/agents` installs them and runs this, which is `WATCHFIRE_AGENTS=<folders
//! with the programs> cargo test -p watchfire-model-server --features acp,tls --test real_agents`. What cannot run is
//! reported as ignored, with the reason; at the end stands a table of agents, transports and checks.
//!
//! `WATCHFIRE_SECONDS=1 bash .ci/agents FOLDER ::takes_seconds --test-threads=1` measures, and checks nothing else.

mod accounts;
mod agents;
mod blocked;
mod chats;
mod checks;
mod harness;
mod killed;
mod logins;
mod modes;
mod orchestrated;
mod seconds;
mod servers;
mod stage;
mod table;
mod together;
mod tools;

use std::process::ExitCode;
use std::sync::Arc;

use agents::{AGENTS, Agent};
use checks::CHECKS;
use harness::search_path;
use libtest_mimic::{Arguments, Failed, Trial};
use table::{Outcome, Table};
use watchfire_backends as _;
use watchfire_core::backend::{Backend, Backends, LocatedProgram, ProgramSearch};

fn main() -> ExitCode {
    // Hooks run this program.
    watchfire_core::process::helper::run_if_asked();
    killed::run_if_asked();
    let args = Arguments::from_args();
    let backends = match Backends::linked() {
        Ok(backends) => backends,
        Err(error) => {
            eprintln!("{}", error.report());
            return ExitCode::FAILURE;
        }
    };
    let table = Table::default();
    let mut trials = Vec::new();
    for agent in AGENTS {
        let Ok(backend) = backends.get(agent.name) else { continue };
        for transport in agent.transports.iter().copied() {
            trials.extend(of(agent, &backend, transport, &table));
        }
    }
    for login in logins::LOGINS {
        for (name, way) in logins::Way::ALL {
            let case = format!("{}::keeps_a_login_renewed_{name}", login.agent);
            trials.push(Trial::test(case, move || Ok(logins::renews(login, way)?)));
        }
    }
    trials.push(together(&backends));
    let listed = args.list;
    let done = libtest_mimic::run(&args, trials);
    if !listed {
        println!("{}\n{}\n{}", table.print(), blocked::print(), seconds::print());
    }
    done.exit_code()
}

/// The four that work together, where all of them can be tried.
fn together(backends: &Backends) -> Trial {
    let missing = together::agents().find_map(|(agent, transport)| {
        let backend = backends.get(agent.name).map_err(|error| error.report());
        let found = backend.and_then(|backend| found(&*backend, transport));
        found.err().map(|reason| format!("{}: {reason}", agent.name))
    });
    if let Some(reason) = &missing {
        eprintln!("SKIPPED four_agents_work_on_one_project: {reason}");
    }
    let trial = Trial::test("four_agents_work_on_one_project", || {
        together::run().inspect_err(|error| eprintln!("{error}")).map_err(Failed::from)
    });
    trial.with_ignored_flag(missing.is_some())
}

/// The checks of an agent that is reached in one way.
fn of(
    agent: &'static Agent,
    backend: &Arc<dyn Backend>,
    transport: &'static str,
    table: &Table,
) -> Vec<Trial> {
    let found = found(&**backend, transport);
    let version = found.as_ref().ok().and_then(|found| found.version.clone());
    let title = [Some(agent.name.to_owned()), version].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let title: Arc<str> = title.into();
    if let Err(reason) = &found {
        eprintln!("SKIPPED {}::{transport}: {reason}", agent.name);
    }
    let trial = |check: &'static checks::Check| {
        let before = match (check.lack(agent, transport), &found, check.missing()) {
            (Some(reason), ..) => Outcome::NotOffered(reason.to_owned()),
            (None, Err(reason), _) => Outcome::Skipped(reason.clone()),
            (None, Ok(_), Some(reason)) => Outcome::Skipped(reason.to_owned()),
            (None, Ok(_), None) => Outcome::NotRun,
        };
        let ignored = before != Outcome::NotRun;
        table.note(&title, transport, check.name, before);
        let (backend, table, title) = (Arc::clone(backend), table.clone(), Arc::clone(&title));
        let run = move || {
            let came = (check.run)(agent, backend, transport);
            let outcome = if came.is_ok() { Outcome::Ok } else { Outcome::Failed };
            table.note(&title, transport, check.name, outcome);
            came.inspect_err(|error| eprintln!("{error}")).map_err(Failed::from)
        };
        Trial::test(format!("{}::{transport}::{}", agent.name, check.name), run).with_ignored_flag(ignored)
    };
    let no_program = found.is_err();
    let blocked = blocked::of(agent).map(|way| {
        let run = move || {
            blocked::run(agent, transport, way)
                .inspect_err(|error| eprintln!("{error}"))
                .map_err(Failed::from)
        };
        Trial::test(format!("{}::{transport}::{}", agent.name, way.check), run).with_ignored_flag(no_program)
    });
    // Beside others, a measurement means nothing.
    let seconds = std::env::var_os("WATCHFIRE_SECONDS").map(|_| {
        let backend = Arc::clone(backend);
        let run = move || seconds::measure(agent, &backend, transport).map_err(Failed::from);
        Trial::test(format!("{}::{transport}::takes_seconds", agent.name), run).with_ignored_flag(no_program)
    });
    CHECKS.iter().map(trial).chain(blocked).chain(seconds).collect()
}

/// The program, or why it cannot be tried here.
fn found(backend: &dyn Backend, transport: &str) -> Result<LocatedProgram, String> {
    if transport == "acp" && cfg!(not(feature = "acp")) {
        return Err("built without the feature acp".to_owned());
    }
    if std::env::var_os("WATCHFIRE_AGENTS").is_none() {
        return Err("WATCHFIRE_AGENTS is not set".to_owned());
    }
    let settings = serde_json::from_value(serde_json::json!({ "transport": transport })).unwrap_or_default();
    let search = ProgramSearch::new(Some(search_path()), None).with_settings(settings);
    backend.locate(&search).map_err(|error| error.report())
}
