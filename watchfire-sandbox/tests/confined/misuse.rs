//! Whatever goes wrong, nothing unconfined is started.

use std::fs::File;
use std::io::{Seek as _, Write as _};

use landlock::{AccessFs, Ruleset, RulesetAttr as _};
use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{CommandSpec, RunLimits, run_blocking};
use watchfire_core::sandbox::conformance::{run, shell};
use watchfire_core::sandbox::{ControlState, Sandbox as _, SandboxChoice, SandboxPolicy};
use watchfire_sandbox::LinuxSandbox;

use crate::Bench;

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

fn policy(bench: Bench<'_>) -> Result<SandboxPolicy, NotPassed> {
    SandboxPolicy::builder().write(bench.scratch, "scratch").build().map_err(failed)
}

fn nothing_started(bench: Bench<'_>, what: &str) -> Outcome {
    match bench.scratch.join("started").exists() {
        true => Err(NotPassed::Failed(format!("{what}: the command was started"))),
        false => Ok(()),
    }
}

/// A helper that is some other program, or is replaced and deleted after it was opened.
pub(crate) fn a_lost_helper_starts_nothing(bench: Bench<'_>, _: Helper) -> Outcome {
    let other = LinuxSandbox::new(Helper::at("/bin/true").map_err(failed)?);
    if other.probe().available || other.prepare(&policy(bench)?, shell("true")).is_ok() {
        return Err(NotPassed::Failed("/bin/true passes for a helper".to_owned()));
    }
    let copy = bench.scratch.join("helper");
    // By another process: a child that we start meanwhile would hold our own copy open, and busy.
    let exe = std::env::current_exe().map_err(failed)?;
    let cp = CommandSpec::new("cp").with_arg(&exe).with_arg(&copy);
    run_blocking(&cp, RunLimits::default()).map_err(failed)?;
    let held = LinuxSandbox::new(Helper::at(&copy).map_err(failed)?);
    std::fs::remove_file(&copy).map_err(failed)?;
    std::fs::copy("/bin/true", &copy).map_err(failed)?;
    // A clone below a private `/tmp` does not show.
    let command = shell("exit 3").with_cwd("/");
    let confined = held.prepare(&policy(bench)?, command).map_err(|error| failed(error.report()))?;
    let ran = run(confined).map_err(failed)?;
    match ran.code {
        3 => Ok(()),
        code => {
            let said = format!("the opened helper was not the one that ran: code {code}: {}", ran.stderr);
            Err(NotPassed::Failed(said))
        }
    }
}

/// The configuration is changed before the helper reads it.
pub(crate) fn garbled_configuration_starts_nothing(bench: Bench<'_>, _: Helper) -> Outcome {
    let script = format!("echo x > '{}/started'", bench.scratch.display());
    let mut confined = bench.sandbox.prepare(&policy(bench)?, shell(&script)).map_err(failed)?;
    for descriptor in &mut confined.descriptors {
        if descriptor.target == 10 {
            let mut other =
                File::from(rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).map_err(failed)?);
            other.write_all(b"{\"landlock\":fals").and_then(|()| other.rewind()).map_err(failed)?;
            descriptor.fd = other.into();
        }
    }
    let ran = run(confined).map_err(failed)?;
    nothing_started(bench, "garbled")?;
    let told = ran.report.to_string();
    if ran.code == 126 && told.contains("nothing was started") && ran.stderr.contains("configuration") {
        return Ok(());
    }
    Err(NotPassed::Failed(format!("code {}, {}, {told}", ran.code, ran.stderr)))
}

/// A role that uses all layers that the kernel has, and then asks for one more.
const LAYERS: &str = "test-layers";

watchfire_core::register_helper_role!(LAYERS, |args| {
    let scratch = args.args().first().map(std::path::PathBuf::from).unwrap_or_default();
    match use_all_layers(&scratch) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why:?}");
            1
        }
    }
});

fn use_all_layers(scratch: &std::path::Path) -> Outcome {
    let helper = Helper::at(std::env::current_exe().map_err(failed)?).map_err(failed)?;
    let sandbox = LinuxSandbox::new(helper.clone()).without_namespaces();
    let bench = Bench { sandbox: &sandbox, scratch };
    let script = format!("echo x > '{}/started'", scratch.display());
    if !sandbox.probe().available {
        return Err(NotPassed::Failed("not available before the layers".to_owned()));
    }
    for _ in 0..16 {
        let layer = Ruleset::default().handle_access(AccessFs::MakeBlock).map_err(failed)?;
        layer.create().map_err(failed)?.restrict_self().map_err(failed)?;
    }
    let ran = run(sandbox.prepare(&policy(bench)?, shell(&script)).map_err(failed)?).map_err(failed)?;
    nothing_started(bench, "layers")?;
    let told = ran.report.to_string();
    if ran.code != 126 || !told.contains("too many sandboxes") {
        return Err(NotPassed::Failed(format!("code {}: {told}", ran.code)));
    }
    let late = LinuxSandbox::new(helper).without_namespaces();
    match late.prepare(&policy(bench)?, shell(&script)) {
        Err(error) if error.to_string().contains("too many sandboxes") => Ok(()),
        other => Err(NotPassed::Failed(format!("{other:?}"))),
    }
}

/// A sandbox in a sandbox, until the kernel has enough.
pub(crate) fn too_many_layers_start_nothing(bench: Bench<'_>, helper: Helper) -> Outcome {
    let exe = std::env::current_exe().map_err(failed)?;
    let spec = helper.command(LAYERS, [bench.scratch]).with_program(exe);
    let ran = run_blocking(&spec, RunLimits::default()).map_err(failed)?;
    match ran.code() {
        0 => Ok(()),
        code => Err(NotPassed::Failed(format!("code {code}: {}", ran.stderr.text()))),
    }
}

/// What is asked for by name is that or an error, and `auto` is the best that works.
pub(crate) fn the_ladder_is_climbed_from_the_top(bench: Bench<'_>, helper: Helper) -> Outcome {
    let (set, other) = (watchfire_sandbox::sandboxes(helper.clone()), helper);
    let usable = |name: &str| set.iter().any(|sandbox| sandbox.name() == name && sandbox.probe().available);
    for name in ["landlock", "bwrap", "seatbelt", "birdcage"] {
        match set.choose(&SandboxChoice::Named(name.to_owned())) {
            Ok(chosen) if usable(name) && chosen.name() == name => {}
            Err(error) if !usable(name) && error.code() == "sandbox_unavailable" => {}
            other => return Err(NotPassed::Failed(format!("{name}: {other:?}"))),
        }
    }
    let probes: Vec<_> = set.iter().map(|sandbox| sandbox.probe()).collect();
    let mut titles: Vec<_> = probes.iter().map(watchfire_core::sandbox::Probe::title).collect();
    titles.sort_unstable();
    titles.dedup();
    if titles.len() != probes.len() {
        return Err(NotPassed::Failed(format!("two steps of one title: {titles:?}")));
    }
    for probe in &probes {
        let uses = probe.mechanisms.iter().any(|found| found.name == "namespaces");
        if uses && probe.step.contains("without namespaces") {
            return Err(NotPassed::Failed(format!("claims what it does not use: {probe:?}")));
        }
    }
    let auto = set.choose(&SandboxChoice::Auto).map_err(failed)?;
    let policy = policy(bench)?;
    // Why it is not the one above.
    let lost = LinuxSandbox::new(Helper::at("/bin/true").map_err(failed)?);
    let below = LinuxSandbox::bwrap(other).below(&lost);
    let told = if below.probe().available {
        below.explain(&policy).map_err(failed)?.to_string()
    } else {
        String::new()
    };
    if !told.is_empty() && !told.contains("landlock with namespaces does not work here") {
        return Err(NotPassed::Failed(told));
    }
    let report = auto.explain(&policy).map_err(failed)?;
    let namespaces = set.iter().any(|sandbox| {
        sandbox.probe().mechanisms.iter().any(|found| found.name == "namespaces" && found.available)
    });
    match report.state("no process outlives the command") == Some(ControlState::Enforced) {
        held if held == namespaces => Ok(()),
        held => Err(NotPassed::Failed(format!("namespaces: {namespaces}, in use: {held}\n{report}"))),
    }
}

/// A role that finds itself where nothing can be had but Landlock, and later not even a filter of system calls.
const NARROW: &str = "test-narrow";

watchfire_core::register_helper_role!(NARROW, |args| {
    let scratch = args.args().first().map(std::path::PathBuf::from).unwrap_or_default();
    match step_down(&scratch) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why:?}");
            1
        }
    }
});

fn step_down(scratch: &std::path::Path) -> Outcome {
    let helper = Helper::at(std::env::current_exe().map_err(failed)?).map_err(failed)?;
    let best = LinuxSandbox::new(helper.clone());
    let bench = Bench { sandbox: &best, scratch };
    match best.prepare(&policy(bench)?, shell("true")) {
        Err(error) if error.code() == "sandbox_unavailable" && error.to_string().contains("namespaces") => {}
        other => return Err(NotPassed::Failed(format!("namespaces in a sandbox: {other:?}"))),
    }
    let confined = |sandbox: &LinuxSandbox, policy: &SandboxPolicy| {
        let script = format!("echo x > '{}/started' && echo x > /etc/watchfire-probe", scratch.display());
        sandbox.prepare(policy, shell(&script))
    };
    let auto = watchfire_sandbox::sandboxes(helper.clone()).choose(&SandboxChoice::Auto).map_err(failed)?;
    let report = auto.explain(&policy(bench)?).map_err(failed)?.to_string();
    if !report.contains("without namespaces") || !report.contains("stepped down from namespaces") {
        return Err(NotPassed::Failed(format!("an unreported step down:\n{report}")));
    }
    refuse_filters().map_err(failed)?;
    let alone = LinuxSandbox::new(helper).without_namespaces();
    let closed = policy(bench)?.to_builder().network(watchfire_core::sandbox::Network::Closed);
    match confined(&alone, &closed.build().map_err(failed)?) {
        Err(error) if error.code() == "policy_unenforceable" => {}
        other => return Err(NotPassed::Failed(format!("a closed network without filters: {other:?}"))),
    }
    nothing_started(bench, "no filters")?;
    let ran = run(confined(&alone, &policy(bench)?).map_err(failed)?).map_err(failed)?;
    let filtered = ran.report.state("dangerous system calls are refused");
    match ran.code != 0 && bench.scratch.join("started").exists() && filtered == Some(ControlState::Open) {
        true => Ok(()),
        false => Err(NotPassed::Failed(format!("code {}: {}\n{}", ran.code, ran.stderr, ran.report))),
    }
}

/// As a container's runtime that forbids its programs to filter system calls.
fn refuse_filters() -> Result<(), seccompiler::Error> {
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    const PR_SET_SECCOMP: u64 = 22;
    let by_prctl = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, PR_SET_SECCOMP)?;
    let rules = [(libc::SYS_seccomp, Vec::new()), (libc::SYS_prctl, vec![SeccompRule::new(vec![by_prctl])?])];
    let (refuse, arch) = (SeccompAction::Errno(1), std::env::consts::ARCH.try_into()?);
    let filter = SeccompFilter::new(rules.into(), SeccompAction::Allow, refuse, arch)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

/// In a sandbox there are no further namespaces: a step down, and it is said. Without filters too.
pub(crate) fn steps_down_are_said(bench: Bench<'_>, helper: Helper) -> Outcome {
    let probe = bench.sandbox.probe();
    if !probe.step.is_empty() || probe.sandbox == "birdcage" {
        return Err(NotPassed::Skipped(
            "in this one nothing can be enumerated, and nothing starts: the report says so".to_owned(),
        ));
    }
    let exe = std::env::current_exe().map_err(failed)?;
    let spec = helper.command(NARROW, [bench.scratch]).with_program(exe).with_cwd(bench.scratch);
    let ran = run(bench.sandbox.prepare(&policy(bench)?, spec).map_err(failed)?).map_err(failed)?;
    match ran.code {
        0 => Ok(()),
        code => Err(NotPassed::Failed(format!("code {code}: {}", ran.stderr))),
    }
}

/// What worked is believed until the machine starts again, and not when it was wrong.
pub(crate) fn what_works_is_remembered(bench: Bench<'_>, helper: Helper) -> Outcome {
    let folder = bench.scratch.join("trials");
    let sandbox = || LinuxSandbox::new(helper.clone()).without_namespaces().remembering(&folder);
    let landlock = || {
        let found = sandbox().probe().mechanisms.into_iter().find(|found| found.name == "landlock");
        found.map(|found| found.detail).unwrap_or_default()
    };
    let tried = landlock();
    let file = folder.join("neither.json");
    let text = std::fs::read_to_string(&file).map_err(failed)?;
    let write = |text: String| std::fs::write(&file, text).map_err(failed);
    let changed = text.replacen("\"landlock\":", "\"landlock\":9", 1);
    write(changed.clone())?;
    let believed = landlock();
    write(changed.replacen("\"about\":\"", "\"about\":\"another boot ", 1))?;
    let anew = landlock();
    if believed == tried || !believed.starts_with("abi 9") || anew != tried {
        return Err(NotPassed::Failed(format!("{tried}, then {believed}, then {anew}")));
    }
    let policy = policy(bench)?;
    let ran = run(sandbox().prepare(&policy, CommandSpec::new("/none/such")).map_err(failed)?);
    match ran.map_err(failed)?.code != 0 && !file.exists() {
        true => Ok(()),
        false => Err(NotPassed::Failed("it is remembered although nothing was started".to_owned())),
    }
}
