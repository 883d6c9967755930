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
    let ways: [(&str, Box<dyn Sandbox>); 4] = [
        ("none", Box::new(NoSandbox)),
        ("landlock and seccomp alone", Box::new(full.clone().without_namespaces())),
        ("namespaces, landlock, seccomp", Box::new(full.clone())),
        ("bwrap, landlock, seccomp", Box::new(LinuxSandbox::bwrap(helper))),
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
    println!("{:<32} {:>8} {:>8}", "ms", "median", "best");
    for (name, mut all) in times {
        all.sort_unstable();
        let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        println!("{name:<32} {:>8.2} {:>8.2}", ms(all.get(all.len() / 2)), ms(all.first()));
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
