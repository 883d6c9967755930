//! From the request to the first byte, and to the end.

use std::time::Instant;

use watchfire_benches::{Report, millis};
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{Enforcement, Network, NoSandbox, Sandbox};
use watchfire_core::{Error, Result};
use watchfire_sandbox::LinuxSandbox;

use crate::bwrap;
use crate::world::{World, run, run_confined};

/// Runs the program, and calls what it is given when the first byte has come.
type Start<'a> = dyn FnMut(&mut dyn FnMut()) -> Result<()> + 'a;

/// One way to start the same program, with its times: to the first byte, and in total.
struct Way<'a> {
    name: &'static str,
    start: Box<Start<'a>>,
    first: Vec<f64>,
    whole: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new(name: &'static str, start: impl FnMut(&mut dyn FnMut()) -> Result<()> + 'a) -> Self {
        Self { name, start: Box::new(start), first: Vec::new(), whole: Vec::new() }
    }

    fn measure(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut first = f64::NAN;
        (self.start)(&mut || first = millis(start))?;
        self.whole.push(millis(start));
        self.first.push(first);
        Ok(())
    }
}

const BWRAP: &str = "bwrap by itself, same namespaces";

pub(crate) fn measure(world: &World, rounds: usize, report: &mut Report) -> Result<()> {
    let helper = Helper::current()?;
    let own = LinuxSandbox::new(helper.clone());
    let policy = world.policy(Network::Open)?;
    let command = || CommandSpec::new("/bin/echo").with_arg("x").with_cwd(&world.worktree);
    let sandboxes: [(&'static str, Box<dyn Sandbox>); 5] = [
        ("none", Box::new(NoSandbox)),
        ("landlock", Box::new(own.clone())),
        ("landlock, without namespaces", Box::new(own.without_namespaces())),
        ("bwrap with our helper inside", Box::new(LinuxSandbox::bwrap(helper.clone()))),
        ("birdcage with our helper inside", Box::new(LinuxSandbox::birdcage(helper))),
    ];
    let mut ways = Vec::new();
    match bwrap::around(&policy, &[world.project.join(".env")]) {
        Some(around) => {
            let echo = around.with_args(["/bin/echo", "x"]).with_cwd(&world.worktree);
            ways.push(Way::new(BWRAP, move |first| run(&echo, Vec::new(), first).map(drop)));
        }
        None => report.skip(BWRAP, "not installed"),
    }
    for (name, sandbox) in &sandboxes {
        let probe = sandbox.probe();
        if !probe.available {
            report.skip(name, &probe.lacking());
            continue;
        }
        // What cannot hold all of it is measured with what it holds.
        let policy = match sandbox.explain(&policy) {
            Ok(_) => policy.clone(),
            Err(_) => policy.to_builder().enforcement(Enforcement::BestEffort).build()?,
        };
        ways.push(Way::new(name, move |first| {
            run_confined(sandbox.prepare(&policy, command())?, first).map(drop)
        }));
    }
    // Told apart from the rest: a sandbox that has searched nowhere yet but knows what works here, as each call of a
    // program has, and our own side, before anything is started.
    let own = &sandboxes[1].1;
    let memory = tempfile::tempdir().map_err(|error| Error::io("making a folder", error))?;
    if own.probe().available {
        let (policy, helper) = (&policy, Helper::current()?);
        let new = move || LinuxSandbox::new(helper.clone()).remembering(memory.path());
        ways.push(Way::new("landlock, nothing searched before", move |first| {
            run_confined(new().prepare(policy, command())?, first).map(drop)
        }));
        let before = move || own.prepare(policy, command()).map(drop);
        ways.push(Way::new("landlock, before anything starts", move |_| before()));
        let ports = world.policy(Network::OpenExceptPorts(vec![7777]))?;
        ways.push(Way::new("landlock, one tcp port denied", move |first| {
            run_confined(own.prepare(&ports, command())?, first).map(drop)
        }));
    }
    for _ in 0..rounds {
        ways.iter_mut().try_for_each(Way::measure)?;
    }
    type Samples = for<'a> fn(&'a Way<'_>) -> &'a [f64];
    let sections: [(&'static str, Samples); 2] =
        [("start to the first byte", |way| &way.first), ("start to the end", |way| &way.whole)];
    for (section, samples) in sections {
        let base = ways.iter().find(|way| way.name == BWRAP);
        for way in ways.iter().filter(|way| !samples(way).iter().any(|sample| sample.is_nan())) {
            match base {
                Some(base) if base.name != way.name => {
                    report.compare(section, way.name, "ms", samples(way).to_vec(), "bwrap", samples(base));
                }
                _ => report.add(section, way.name, "ms", samples(way).to_vec()),
            }
        }
    }
    Ok(())
}
