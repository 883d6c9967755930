//! The measuring itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use watchfire_core::Result;
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{CommandSpec, RunLimits, run_blocking};
use watchfire_core::sandbox::conformance::run;
use watchfire_core::sandbox::{Network, NoSandbox, PolicyInputs, Sandbox, SandboxPolicy};
use watchfire_sandbox::{LinuxSandbox, base_policy};

const ROUNDS: usize = 100;

pub(crate) fn measure() -> Result<()> {
    let helper = Helper::current()?;
    let full = LinuxSandbox::new(helper.clone());
    let ways: [(&str, Box<dyn Sandbox>); 5] = [
        ("none", Box::new(NoSandbox)),
        ("landlock and seccomp alone", Box::new(full.clone().without_namespaces())),
        ("namespaces, landlock, seccomp", Box::new(full.clone())),
        ("bwrap, landlock, seccomp", Box::new(LinuxSandbox::bwrap(helper.clone()))),
        ("birdcage, landlock, seccomp", Box::new(LinuxSandbox::birdcage(helper))),
    ];
    let policy = policy(Network::Open)?;
    let ports = self::policy(Network::OpenExceptPorts(vec![7777]))?;
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (name, sandbox) in ways.iter().filter(|(_, sandbox)| sandbox.probe().available) {
            let started = Instant::now();
            let confined = sandbox.prepare(&policy, CommandSpec::new("/bin/true"))?;
            let prepared = started.elapsed();
            run(confined)?;
            times.entry(*name).or_default().push(started.elapsed());
            if *name == "namespaces, landlock, seccomp" {
                times.entry("  of it before the start").or_default().push(prepared);
            }
        }
        if full.probe().available {
            let started = Instant::now();
            run(full.prepare(&ports, CommandSpec::new("/bin/true"))?)?;
            times.entry("namespaces …, one port denied").or_default().push(started.elapsed());
        }
        let started = Instant::now();
        if plain_bwrap(&policy).is_some_and(|ran| ran) {
            times.entry("bwrap, plain").or_default().push(started.elapsed());
        }
    }
    file_work(&full, &policy, &mut times)?;
    println!("{:<32} {:>8} {:>8}", "ms", "median", "best");
    for (name, mut all) in times {
        all.sort_unstable();
        let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        println!("{name:<32} {:>8.2} {:>8.2}", ms(all.get(all.len() / 2)), ms(all.first()));
    }
    Ok(())
}

/// Finding and reading a few thousand small files and writing some, inside and outside by turns.
fn file_work(
    full: &LinuxSandbox,
    policy: &SandboxPolicy,
    times: &mut BTreeMap<&str, Vec<Duration>>,
) -> Result<()> {
    let folder = std::env::current_dir().unwrap_or_default().join("target/bench-files");
    let script = "mkdir -p $0 && cd $0 && find /usr/include /usr/lib/python3* -name '*.[hp]*' -type f 2>/dev/null | head -3000 | \
                  xargs cat > all && for i in 1 2 3 4 5 6 7 8 9; do cp all copy; mv copy moved; done; rm -r $0";
    for _ in 0..ROUNDS / 10 {
        let none: &dyn Sandbox = &NoSandbox;
        for (name, sandbox) in [("file work outside", none), ("file work in landlock", full)] {
            let command = CommandSpec::new("/bin/sh").with_args(["-c", script]).with_arg(&folder);
            let command = command.with_env("PATH", "/usr/bin:/bin").with_cwd("/");
            let started = Instant::now();
            run(sandbox.prepare(policy, command)?)?;
            times.entry(name).or_default().push(started.elapsed());
        }
    }
    Ok(())
}

fn policy(network: Network) -> Result<SandboxPolicy> {
    let mut inputs = PolicyInputs::new();
    inputs.home = std::env::home_dir();
    let project = std::env::current_dir().unwrap_or_default();
    inputs.project_root = Some(project.clone());
    base_policy(&inputs)?.network(network).write(project, "workspace").build()
}

/// With what of the policy is there, by the same rules.
fn plain_bwrap(policy: &SandboxPolicy) -> Option<bool> {
    use watchfire_core::sandbox::RuleAccess;
    let mut spec = CommandSpec::new("bwrap")
        .with_args(["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--ro-bind", "/", "/"])
        .with_args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    for rule in policy.rules.iter().filter(|rule| rule.path.exists() && rule.path != Path::new("/tmp")) {
        let path = rule.path.canonicalize().ok()?;
        spec = match (rule.access, path.is_dir()) {
            (RuleAccess::Write, _) => spec.with_args([Path::new("--bind"), &path, &path]),
            (RuleAccess::Deny, true) => spec.with_args([Path::new("--tmpfs"), &path]),
            (RuleAccess::Deny, false) => {
                spec.with_args([Path::new("--ro-bind"), Path::new("/dev/null"), &path])
            }
            _ => spec,
        };
    }
    run_blocking(&spec.with_arg("/bin/true"), RunLimits::new()).ok().map(|ran| ran.success())
}
