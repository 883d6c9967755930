//! The base policy over a home folder that looks like one: secrets stay secret, and work can be done.

use std::fs;
use std::path::Path;

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::model::StepDown;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::{run, shell};
use watchfire_core::sandbox::{Control, ControlState, NoSandbox, PolicyInputs, Sandbox as _, SandboxPolicy};
use watchfire_sandbox::base_policy;

use crate::Bench;

/// Files with secrets in them, below the home folder.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/key",
    ".netrc",
    ".npmrc",
    ".docker/config.json",
    ".cargo/credentials.toml",
    ".bash_history",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".watchfire/daemon.yaml",
    ".claude/.credentials.json",
    "Documents/taxes",
    "project/.env",
    "project/deep/a/b/.env.production",
    "project/.watchfire/secrets/instructions.md",
    "project/.watchfire/tasks/0002.yaml",
];

/// What must stay as it is.
const KEPT: &[&str] = &[
    ".bashrc",
    ".gitconfig",
    ".cargo/config.toml",
    ".cargo/bin/tool",
    ".local/bin/tool",
    ".config/systemd/user/x.service",
    "project/main.rs",
    "project/.git/config",
    "project/.git/hooks/post-merge",
];

/// What an agent must be able to do in its worktree, `$W`, one by one.
const WORK: &[&str] = &[
    "echo x > new && cat new && rm new",
    "test \"$(cat ../../../main.rs)\" = project/main.rs",
    "echo x > $HOME/.cache/x && echo x > $HOME/.cargo/registry/x && mkdir -p $HOME/.npm/_cacache/c/b",
    "export GIT_CONFIG_GLOBAL=/dev/null; git init -q . && git config user.email a@b && git config user.name n && echo a > f && git add -A && \
     git commit -qm one && git status --porcelain && git log --oneline | grep -q one",
    "printf '#!/bin/sh\\necho hi\\n' > run && chmod +x run && test \"$(./run)\" = hi",
    "ls /usr/lib > /dev/null && cat /etc/hosts > /dev/null && getent passwd root > /dev/null",
    "sleep 30 & kill $! && wait $! ; true",
    "d=$(mktemp -d) && echo x > $d/f && rm -r $d",
    "perl -e 'use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or exit 1; socketpair(my $a, my $b, AF_UNIX, \
     SOCK_STREAM, PF_UNSPEC) or exit 2'",
    "test -z \"$MY_SECRET_TOKEN\" && test -n \"$PATH\"",
];

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

fn make(home: &Path, names: &[&str]) -> Result<(), NotPassed> {
    for name in names {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap_or(home))
            .and_then(|()| fs::write(&path, name))
            .map_err(failed)?;
    }
    Ok(())
}

fn policy(home: &Path) -> Result<SandboxPolicy, NotPassed> {
    let mut inputs = PolicyInputs::new();
    inputs.home = Some(home.to_owned());
    inputs.watchfire_home = Some(home.join(".watchfire"));
    inputs.project_root = Some(home.join("project"));
    // Each step of the ladder is judged by itself.
    inputs.settings.step_down = Some(StepDown::Allow);
    let builder = base_policy(&inputs).map_err(failed)?;
    builder.write(home.join("project/.watchfire/worktrees/0001"), "the workspace").build().map_err(failed)
}

pub(crate) fn the_base_policy_keeps_secrets_and_lets_work(bench: Bench<'_>, _: Helper) -> Outcome {
    let home = bench.scratch.join("home");
    make(&home, SECRETS)?;
    make(&home, KEPT)?;
    make(
        &home,
        &["project/.watchfire/worktrees/0001/main.rs", ".cache/a", ".cargo/registry/a", ".npm/_cacache/a"],
    )?;
    let work = home.join("project/.watchfire/worktrees/0001");
    let policy = policy(&home)?;
    let command = |script: &str| {
        let command = shell(script).with_cwd(&work).with_env("HOME", &home).with_env("W", &work);
        command.with_env("GIT_CONFIG_NOSYSTEM", "1").with_env("GIT_CEILING_DIRECTORIES", &home)
    };
    let mut wrong = Vec::new();
    for name in SECRETS {
        let path = home.join(name);
        let script = "cat \"$1\" > /dev/null".to_owned();
        let control = NoSandbox.prepare(&policy, command(&script).with_arg("sh").with_arg(&path));
        if run(control.map_err(failed)?).map_err(failed)?.code != 0 {
            return Err(NotPassed::Skipped(format!("{name} cannot be read unconfined either")));
        }
        let script = "grep -q . \"$1\" && echo read; echo x >> \"$1\"; rm -f \"$1\"; mv \"$1\" x; true";
        let confined = bench.sandbox.prepare(&policy, command(script).with_arg("sh").with_arg(&path));
        let ran = run(confined.map_err(|error| failed(error.report()))?).map_err(failed)?;
        let changed = fs::read(&path).ok().as_deref() != Some(name.as_bytes());
        if ran.code != 0 || changed || ran.stdout.contains("read") {
            wrong.push(format!("{name}: changed: {changed}, {ran:?}"));
        }
    }
    for name in KEPT {
        let path = home.join(name);
        let script = "echo x >> \"$1\"; (: > \"$1\"); mv \"$1\" x; rm -f \"$1\"; true";
        let confined = bench.sandbox.prepare(&policy, command(script).with_arg("sh").with_arg(&path));
        let ran = run(confined.map_err(failed)?).map_err(failed)?;
        if ran.code != 0 || fs::read(&path).ok().as_deref() != Some(name.as_bytes()) {
            wrong.push(format!("{name}: changed, {ran:?}"));
        }
    }
    let report = bench.sandbox.explain(&policy).map_err(failed)?;
    // Without a view of its own, the home cannot be written.
    let in_place = report.state(Control::LAYERS) == Some(ControlState::Enforced);
    for script in WORK.iter().filter(|script| in_place || !script.contains(".cache/")) {
        let confined = bench.sandbox.prepare(&policy, command(script)).map_err(failed)?;
        let ran = run(confined).map_err(failed)?;
        if ran.code != 0 {
            wrong.push(format!("must work: {script}: code {}, {}", ran.code, ran.stderr));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(NotPassed::Failed(wrong.join("\n"))) }
}
