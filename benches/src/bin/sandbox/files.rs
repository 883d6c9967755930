//! Work with many files, outside and inside a sandbox, measured in processor time, so that other load on the machine
//! does not count.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use watchfire_benches::Report;
use watchfire_core::Result;
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::sandbox::{Network, NoSandbox, Sandbox, SandboxPolicy};
use watchfire_sandbox::LinuxSandbox;

use crate::world::{World, run_confined};

const ROLE: &str = "bench-files";
const SECTION: &str = "work with files, processor time, measured inside";

watchfire_core::register_helper_role!(ROLE, work);

/// Number of files to make.
const MADE: usize = 2_000;

/// Works in the current folder and prints the milliseconds of each part, then their sum. Starting the process is not
/// counted.
fn work(_: RoleArgs) -> i32 {
    let timed = |work: fn() -> std::io::Result<()>| {
        let start = spent()?;
        work()?;
        Ok(spent()? - start)
    };
    let parts: std::io::Result<Vec<f64>> =
        [make, look, remove, read, search, status].into_iter().map(timed).collect();
    match parts {
        Ok(mut parts) => {
            parts.push(parts.iter().sum());
            println!("{}", parts.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
            0
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// Returns the processor time used by this process and the children it waited for, in milliseconds.
fn spent() -> std::io::Result<f64> {
    let mut micros = 0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        micros += usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    }
    Ok(micros as f64 / 1e3)
}

const PARTS: [&str; 7] = [
    "make 2,000 files",
    "stat and rename them",
    "remove them",
    "list and read 2,000 files",
    "grep -r",
    "git status",
    "all of it",
];

fn names() -> impl Iterator<Item = String> {
    (0..MADE).map(|n| format!("made/f{n}"))
}

fn make() -> std::io::Result<()> {
    std::fs::create_dir_all("made")?;
    names().try_for_each(|name| std::fs::write(name, "some text"))
}

fn look() -> std::io::Result<()> {
    names().try_for_each(|name| {
        std::fs::metadata(&name)?;
        std::fs::rename(&name, format!("{name}.new"))
    })
}

fn remove() -> std::io::Result<()> {
    names().try_for_each(|name| std::fs::remove_file(format!("{name}.new")))?;
    std::fs::remove_dir("made")
}

fn read() -> std::io::Result<()> {
    for folder in std::fs::read_dir("src")? {
        for file in std::fs::read_dir(folder?.path())? {
            std::fs::read(file?.path())?;
        }
    }
    Ok(())
}

/// Finds nothing, so `grep` exits with 1.
fn search() -> std::io::Result<()> {
    run("grep", &["-r", "not in there", "src"], 1)
}

fn status() -> std::io::Result<()> {
    run("git", &["status", "--porcelain"], 0)
}

fn run(program: &str, args: &[&str], code: i32) -> std::io::Result<()> {
    let status = std::process::Command::new(program).args(args).output()?.status;
    let failed = || std::io::Error::other(format!("{program}: {status}"));
    (status.code() == Some(code)).then_some(()).ok_or_else(failed)
}

pub(crate) fn measure(world: &World, rounds: usize, report: &mut Report) -> Result<()> {
    let helper = Helper::current()?;
    let policy = world.policy(Network::Open)?;
    let own = LinuxSandbox::new(helper.clone());
    let bwrap = LinuxSandbox::bwrap(helper.clone());
    let alone = own.clone().without_namespaces();
    let sandboxes: [(&str, &dyn Sandbox); 4] = [
        ("outside", &NoSandbox),
        ("landlock", &own),
        ("landlock, without namespaces", &alone),
        ("bwrap", &bwrap),
    ];
    let usable: Vec<_> = sandboxes.into_iter().filter(|(_, sandbox)| sandbox.probe().available).collect();
    let mut times = vec![vec![Vec::new(); PARTS.len()]; usable.len()];
    for round in 0..=rounds {
        for ((_, sandbox), times) in usable.iter().zip(&mut times) {
            let parts = inside(world, &helper, *sandbox, &policy)?;
            // The first round fills the kernel's caches.
            if round > 0 {
                times.iter_mut().zip(parts).for_each(|(times, part)| times.push(part));
            }
        }
    }
    let Some((outside, inside)) = times.split_first() else { return Ok(()) };
    for (part, outside) in PARTS.into_iter().zip(outside) {
        report.add(SECTION, format!("{part}, outside"), "ms", outside.clone());
    }
    for ((name, _), times) in usable.iter().skip(1).zip(inside) {
        for ((part, times), outside) in PARTS.into_iter().zip(times).zip(outside) {
            report.compare(SECTION, format!("{part}, {name}"), "ms", times.clone(), "outside", outside);
        }
    }
    Ok(())
}

/// Each part's time.
fn inside(world: &World, helper: &Helper, sandbox: &dyn Sandbox, policy: &SandboxPolicy) -> Result<Vec<f64>> {
    let mut words = helper.command_line_inside().into_iter();
    let command = CommandSpec::new(words.next().unwrap_or_default()).with_args(words).with_arg(ROLE);
    let said = run_confined(sandbox.prepare(policy, world.in_worktree(command))?, || ())?;
    Ok(said.split_whitespace().filter_map(|part| part.parse().ok()).collect())
}
