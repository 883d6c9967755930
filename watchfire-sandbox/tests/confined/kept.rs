//! What commands add to caches is there for the next ones of the project, and for nobody else.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{SpawnOptions, spawn};
use watchfire_core::sandbox::conformance::run;
use watchfire_core::sandbox::{Control, ControlState};

use crate::Bench;
use crate::closed_home::Home;

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

const OVERLAY: u64 = 0x794c_7630;

pub(crate) fn caches_are_kept_for_the_project(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut home = Home::new(bench.scratch.join("home"))?;
    home.plant(".cargo/registry/src/itoa-1/build.rs", "fn main() {}")?;
    home.plant(".cache/pip/x", "x")?;
    fs::create_dir_all(home.at(".local/bin")).map_err(failed)?;
    let caches = bench.scratch.join("state/caches");
    fs::create_dir_all(&caches).map_err(failed)?;
    home.inputs.own_caches = Some(caches.clone());
    let report = bench.sandbox.explain(&home.policy()?).map_err(|error| failed(error.report()))?;
    let system = rustix::fs::statfs(&caches).map_err(failed)?.f_type;
    if report.state(Control::LAYERS) != Some(ControlState::Enforced) || u64::try_from(system) == Ok(OVERLAY) {
        return Err(NotPassed::Skipped("not available here: no layers on a disk".to_owned()));
    }
    // Each line must hold: `!` alone does not end a shell with `set -e`.
    let good = |lines: &str| {
        let script: Vec<_> = lines.lines().map(str::trim).collect();
        let ran = home.run(bench.sandbox, home.command(&script.join(" && ")))?;
        if ran.code == 0 { Ok(()) } else { Err(failed(format!("{lines}: {ran:?}"))) }
    };
    good(
        "cd ~/.cargo/registry/src
        echo evil >> itoa-1/build.rs
        mkdir serde-1
        echo new > serde-1/lib.rs
        ln -s /etc out
        ln -s serde-1 inner
        mkfifo fifo
        mkdir -p ~/.npm/_cacache ~/go/pkg/mod
        echo a > ~/.npm/_cacache/a
        echo b > ~/go/pkg/mod/b
        echo y > ~/.cache/pip/y
        rm ~/.cache/pip/x
        echo tool > ~/.local/bin/tool
        echo x > ~/.cache/other",
    )?;
    let there = "cd ~/.cargo/registry/src
        test \"$(cat serde-1/lib.rs inner/lib.rs)\" = \"$(printf 'new\\nnew')\"
        test \"$(cat itoa-1/build.rs)\" = 'fn main() {}'
        test -e ~/.cache/pip/x
        test \"$(cat ~/.npm/_cacache/a ~/go/pkg/mod/b ~/.cache/pip/y | tr -d '\\n')\" = aby
        ! test -e out
        ! test -e fifo
        ! test -e ~/.local/bin/tool
        ! test -e ~/.cache/other";
    good(&format!(
        "{there}
        echo evil > serde-1/lib.rs
        echo evil > ~/.npm/_cacache/a
        rm ~/go/pkg/mod/b
        echo c > ~/go/pkg/mod/c"
    ))?;
    // Neither is what was kept changed, nor what is the person's.
    good(&format!("{there}\ngrep -q c ~/go/pkg/mod/c"))?;
    let reached = [".npm", "go", ".cache/pip/y", ".cargo/registry/src/serde-1"];
    if let Some(name) = reached.iter().find(|name| home.at(name).exists()) {
        return Err(failed(format!("{name} reached the home")));
    }
    // The person's own comes first, as soon as there is one.
    home.plant(".npm/_cacache/a", "mine")?;
    good("grep -q mine ~/.npm/_cacache/a\ngrep -q c ~/go/pkg/mod/c")?;

    // Tests of the project see nothing of it.
    let policy = home.policy()?.to_builder().keep(None).build().map_err(failed)?;
    let command =
        home.command("! test -e ~/.cargo/registry/src/serde-1 && ! test -e ~/.cache/pip/y && ! test -e ~/go");
    let confined = bench.sandbox.prepare(&policy, command).map_err(|error| failed(error.report()))?;
    let ran = run(confined).map_err(failed)?;
    let left = fs::read_dir(caches.join("layers")).map_err(failed)?.count();
    match ran.code == 0 && left == 0 {
        true => Ok(()),
        false => Err(failed(format!("{left} layers left; {ran:?}"))),
    }
}

/// Sessions that run at once have upper and work folders of their own: the kernel would take two mounts of one, and leaves
/// their outcome undefined.
pub(crate) fn sessions_at_once_share_no_layer(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut home = Home::new(bench.scratch.join("home"))?;
    home.plant(".cargo/registry/there", "x")?;
    let caches = bench.scratch.join("state/caches");
    fs::create_dir_all(&caches).map_err(failed)?;
    home.inputs.own_caches = Some(caches.clone());
    let report = bench.sandbox.explain(&home.policy()?).map_err(|error| failed(error.report()))?;
    let system = rustix::fs::statfs(&caches).map_err(failed)?.f_type;
    if report.state(Control::LAYERS) != Some(ControlState::Enforced) || u64::try_from(system) == Ok(OVERLAY) {
        return Err(NotPassed::Skipped("not available here: no layers on a disk".to_owned()));
    }
    let mut sessions = Vec::new();
    for name in ["one", "two", "three"] {
        let script = format!("cd ~/.cargo/registry && echo {name} > {name} && echo $(ls) && read end");
        let confined = bench.sandbox.prepare(&home.policy()?, home.command(&script));
        let confined = confined.map_err(|error| failed(error.report()))?;
        let options = SpawnOptions::default().with_stdin(Stdio::piped()).with_stdout(Stdio::piped());
        let mut child =
            spawn(&confined.command, options.with_descriptors(confined.descriptors)).map_err(failed)?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        let mut seen: Vec<_> = line.split_whitespace().collect();
        seen.sort_unstable();
        let mut own = ["there", name];
        own.sort_unstable();
        if seen != own {
            return Err(failed(format!("{name} sees {line}")));
        }
        sessions.push((child, confined.guard));
    }
    // By number: which session made the file, in each folder of layers.
    let mut uppers = Vec::new();
    for area in fs::read_dir(caches.join("layers")).map_err(failed)?.flatten() {
        for layer in fs::read_dir(area.path()).into_iter().flatten().flatten() {
            let names = ["one", "two", "three"].into_iter();
            let made: Vec<_> = names.filter(|name| layer.path().join("upper").join(name).exists()).collect();
            uppers.extend((!made.is_empty()).then_some(made));
        }
    }
    for (mut child, guard) in sessions {
        drop(child.stdin.take());
        child.wait().map_err(failed)?;
        guard.ended();
    }
    uppers.sort();
    match uppers == [["one"], ["three"], ["two"]] {
        true => Ok(()),
        false => Err(failed(format!("upper folders: {uppers:?}"))),
    }
}
