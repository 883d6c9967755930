//! `cargo run -p xtask`: the commands of those who work on Watchfire, each with the time that it takes.
//!
//! Nothing is done here that the command printed before it does not do; this only knows the names.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A command: its name, its arguments, about how long it takes on two cores once all is built, and what it is for.
struct Task {
    name: &'static str,
    takes: &'static str,
    time: &'static str,
    does: &'static str,
    steps: fn(&[String]) -> Result<Vec<Step>, String>,
}

/// A program, its arguments, and variables for it.
type Step = (Vec<String>, Vec<(&'static str, &'static str)>);

const TASKS: &[Task] = &[
    Task {
        name: "check",
        takes: "",
        time: "15 min",
        does: "everything that must hold before a change lands: .ci/run",
        steps: |_| Ok(vec![step(&[".ci/run"])]),
    },
    Task {
        name: "lint",
        takes: "",
        time: "1 min",
        does: "format and clippy, as .ci/run has them first",
        steps: |_| {
            Ok(vec![
                step(&["cargo", "fmt", "--all", "--check"]),
                step(&[
                    "cargo",
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--all-features",
                    "--locked",
                    "--",
                    "-D",
                    "warnings",
                ]),
            ])
        },
    },
    Task {
        name: "test",
        takes: "CRATE [ROOM]",
        time: "seconds to 2 min",
        does: "the tests of one crate (core, git, sandbox, term, backends, watchfire, …), or those with a word in their name",
        steps: |args| {
            let [name, rest @ ..] = args else { return Err("test wants the name of a crate".to_owned()) };
            let mut step = step(&["cargo", "test", "--package", &package(name)]);
            step.0.extend(rest.iter().cloned());
            Ok(vec![step])
        },
    },
    Task {
        name: "long",
        takes: "CRATE [ROOM]",
        time: "minutes to hours",
        does: "the same in their long forms: every place of a kill, thousands of random cases",
        steps: |args| {
            let [name, rest @ ..] = args else { return Err("long wants the name of a crate".to_owned()) };
            let mut step = step(&["cargo", "test", "--release", "--package", &package(name)]);
            step.0.extend(rest.iter().cloned());
            step.1.push(("WATCHFIRE_LONG", "1"));
            Ok(vec![step])
        },
    },
    Task {
        name: "bench",
        takes: "NAME",
        time: "1 to 20 min",
        does: "one of the benches: daemon, git, orchestrator, sandbox, sessions, terminal, tui",
        steps: |args| {
            let [name, rest @ ..] = args else { return Err("bench wants a name".to_owned()) };
            let mut step =
                step(&["cargo", "run", "--release", "--package", "watchfire-benches", "--bin", name, "--"]);
            step.0.extend(rest.iter().cloned());
            Ok(vec![step])
        },
    },
    Task {
        name: "agents",
        takes: "",
        time: "an hour",
        does: "the real agents, where they can be installed, against a model on this machine: .ci/agents",
        steps: |args| {
            let mut step = step(&[".ci/agents"]);
            step.0.extend(args.iter().cloned());
            Ok(vec![step])
        },
    },
    Task {
        name: "docs",
        takes: "",
        time: "1 min",
        does: "the documentation, with warnings denied, and the tests of the pages in docs/",
        steps: |_| {
            let mut doc = step(&["cargo", "doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
            doc.1.push(("RUSTDOCFLAGS", "-D warnings"));
            let pages = ["cargo", "test", "--package", "watchfire", "--test", "docs", "--test", "book"];
            Ok(vec![doc, step(&pages)])
        },
    },
    Task {
        name: "bless",
        takes: "",
        time: "2 min",
        does: "writes anew what tests compare with: the screens of the interface, lists and tables in docs/",
        steps: |_| {
            let bless = |args: &[&str]| {
                let mut step = step(args);
                step.1.push(("WATCHFIRE_BLESS", "1"));
                step
            };
            Ok(vec![
                bless(&["cargo", "test", "--package", "watchfire-core", "--lib", "keys"]),
                bless(&["cargo", "test", "--package", "watchfire-tui"]),
            ])
        },
    },
    Task {
        name: "picture",
        takes: "",
        time: "20 s",
        does: "records the moving picture of the README: docs/tui.svg and docs/tui.cast",
        steps: |_| {
            let mut step = step(&["cargo", "test", "--package", "watchfire", "--test", "picture"]);
            step.1.push(("WATCHFIRE_BLESS", "1"));
            Ok(vec![step])
        },
    },
    Task {
        name: "size",
        takes: "",
        time: "2 min",
        does: "lines of code and public items of core, beside where they began",
        steps: |_| Ok(vec![step(&[".ci/count-lines"]), step(&[".ci/count-public"])]),
    },
    Task {
        name: "public",
        takes: "[--write]",
        time: "3 min",
        does: "what the crates make public beside docs/public, and beside the last tag: .ci/public",
        steps: |args| {
            let mut step = step(&[".ci/public"]);
            step.0.extend(args.iter().cloned());
            Ok(vec![step])
        },
    },
    Task {
        name: "dist",
        takes: "",
        time: "10 min",
        does: "the archive that people install, with manual pages and completions, unpacked and tried: .ci/dist",
        steps: |_| Ok(vec![step(&[".ci/dist"])]),
    },
    Task {
        name: "package",
        takes: "",
        time: "10 min",
        does: "the crates as a registry would get them, built from their packaged files alone: .ci/package",
        steps: |_| Ok(vec![step(&[".ci/package"])]),
    },
];

fn step(words: &[&str]) -> Step {
    (words.iter().map(|word| (*word).to_owned()).collect(), Vec::new())
}

/// Returns the package of a short name: `core` is `watchfire-core`.
fn package(name: &str) -> String {
    let short = ["core", "git", "sandbox", "term", "backends", "api", "client", "tui", "benches"];
    if short.contains(&name) { format!("watchfire-{name}") } else { name.to_owned() }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let found = args.first().and_then(|name| TASKS.iter().find(|task| task.name == name));
    let Some(task) = found else {
        println!("cargo run -p xtask -- COMMAND\n");
        for Task { name, takes, time, does, .. } in TASKS {
            println!("  {:<20} {time:<18} {does}", format!("{name} {takes}").trim_end());
        }
        println!("\nTimes are of two cores, once all is built.");
        return if args.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) };
    };
    let steps = match (task.steps)(&args[1..]) {
        Ok(steps) => steps,
        Err(problem) => {
            eprintln!("xtask {}: {problem}", task.name);
            return ExitCode::from(2);
        }
    };
    // Paths here are those of the workspace, wherever it is called from.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    for (words, variables) in steps {
        let shown: Vec<_> = variables.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        eprintln!("== {}", [shown, words.clone()].concat().join(" "));
        let [program, args @ ..] = &words[..] else { continue };
        let program = if program.starts_with(".ci/") { root.join(program) } else { program.into() };
        let began = Instant::now();
        let status = Command::new(&program).args(args).envs(variables).current_dir(root).status();
        eprintln!("-- {} s", began.elapsed().as_secs());
        match status {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask {}: {}: {error}", task.name, program.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (at, task) in TASKS.iter().enumerate() {
            assert!(TASKS.iter().skip(at + 1).all(|other| other.name != task.name), "{} twice", task.name);
            let args = if task.takes.is_empty() { Vec::new() } else { vec!["core".to_owned()] };
            for (words, _) in (task.steps)(&args).unwrap() {
                assert!(!words[0].starts_with(".ci/") || root.join(&words[0]).is_file(), "{words:?}");
            }
        }
        assert_eq!(package("core"), "watchfire-core");
        assert_eq!(package("watchfired"), "watchfired");
    }
}
