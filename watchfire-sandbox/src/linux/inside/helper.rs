//! The helper role `sandbox`: it confines itself and becomes the program.
//!
//! `sandbox <config> <status> <program> <args…>`, the first two being descriptors. Its configuration comes through the
//! first; through the second goes one [`Status`], just before the program is started or when it cannot be. Whatever
//! fails ends it before the program is started.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use watchfire_core::process::helper::RoleArgs;

use crate::linux::config::{Config, Limits, Status};
use crate::linux::inside::capabilities;
use crate::linux::inside::internet::Carrier;
use crate::linux::inside::keeper::Keeper;
use crate::linux::inside::landlock;
use crate::linux::inside::mounts;
use crate::linux::inside::namespaces;
use crate::linux::inside::seccomp;
use crate::linux::inside::sys;

/// The role's name.
pub(in crate::linux) const ROLE: &str = "sandbox";

/// In place of a program: confine, report and end.
pub(in crate::linux) const TRIAL: &str = "--trial";

/// The exit code when nothing was started.
const REFUSED: i32 = 126;
/// The exit code when there is no such program.
const MISSING: i32 = 127;

watchfire_core::register_helper_role!(ROLE, run);

fn run(args: RoleArgs) -> i32 {
    let mut status = Status::default();
    match start(args, &mut status) {
        Ok(()) => 0,
        // Whoever started us sees this on the terminal, and in the report.
        Err(Failure { error, code, status: told }) => {
            eprintln!("watchfire sandbox: {error}; nothing was started");
            status.error = Some(error);
            if let Some(mut told) = told {
                tell(&mut told, &status);
            }
            code
        }
    }
}

/// An error, and the descriptor to report it on.
struct Failure {
    error: String,
    code: i32,
    status: Option<File>,
}

/// Returns only when this was a trial.
fn start(mut args: RoleArgs, status: &mut Status) -> Result<(), Failure> {
    let untold = |error: String| Failure { error, code: REFUSED, status: None };
    let number = |index: usize| {
        let text = args.args().get(index).and_then(|text| text.to_str());
        text.and_then(|text| text.parse::<RawFd>().ok()).ok_or_else(|| untold("wrong arguments".to_owned()))
    };
    let (config_fd, status_fd) = (number(0)?, number(1)?);
    let command: Vec<OsString> = args.args().get(2..).unwrap_or_default().to_vec();
    let told = args.take_fd(status_fd).map_err(|error| untold(error.report()))?;
    let mut told = Some(File::from(told));
    let config = args.take_fd(config_fd).map_err(|error| error.report()).and_then(read);
    let mut code = REFUSED;
    let outcome = config.and_then(|config| {
        let (program, args) = command.split_first().ok_or("no program to start")?;
        confine(&config, status, &mut told)?;
        if let Some(told) = &mut told {
            tell(told, status);
        }
        if program == TRIAL {
            return Ok(());
        }
        let error = Command::new(program).args(args).exec();
        code = if error.kind() == std::io::ErrorKind::NotFound { MISSING } else { REFUSED };
        Err(format!("starting {}: {error}", program.display()))
    });
    outcome.map_err(|error| Failure { error, code, status: told })
}

fn read(fd: std::os::fd::OwnedFd) -> Result<Config, String> {
    let mut text = String::new();
    File::from(fd)
        .read_to_string(&mut text)
        .map_err(|error| format!("reading the configuration: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("reading the configuration: {error}"))
}

/// In this order: each step needs what the next one takes away. Returns in the process that is to become the program;
/// others that come to be on the way end in here, without `told`.
fn confine(config: &Config, status: &mut Status, told: &mut Option<File>) -> Result<(), String> {
    let failed = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    sys::close_others_on_exec().map_err(|error| format!("closing descriptors: {error}"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(failed("switching core dumps off"))?;
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    if let Some(mounts) = &config.mounts {
        let internet = config.internet.as_ref();
        let carrier = internet.map(|it| Carrier::prepare(it, config.landlock)).transpose()?;
        let watched = |error: rustix::io::Errno| {
            format!("watching hidden files (see fs.inotify.max_user_instances): {error}")
        };
        let is_kept = Keeper::is_needed(mounts);
        // Made out here, the watches count for the person alone; those that the program makes count for its namespace too,
        // which has fewer.
        let mut watcher = if is_kept { Keeper::watcher().map_err(watched)? } else { None };
        let mut before = namespaces::enter(carrier, watcher.is_some(), || {
            *told = None;
            watcher = None;
        })?;
        // The kernel never counts root's processes against a limit of resources. Where /proc is read-only, as in docker,
        // the numbers stay unbounded, and the report has no word of them.
        status.numbers = config.limits.numbers.filter(|numbers| {
            // Before the new view, in which the machine's settings cannot be written.
            std::fs::write("/proc/sys/kernel/pid_max", numbers.to_string()).is_ok()
        });
        mounts::arrange(mounts, before.terminal.as_deref(), config.landlock, status)
            .map_err(|error| error.to_string())?;
        if let (Some(internet), Some(carrier)) = (internet, before.carrier.take()) {
            carrier.finish(internet)?;
        }
        let keeper = is_kept.then(|| Keeper::new(mounts, watcher.take(), told.as_ref()));
        let mut keeper = keeper.transpose().map_err(watched)?;
        status.kept = is_kept;
        namespaces::become_second(&before, keeper.as_mut(), || *told = None)?;
        drop(keeper);
        status.namespaces = true;
    }
    if config.lead_group {
        namespaces::lead_group()?;
    }
    limit(config.limits).map_err(failed("limiting resources"))?;
    let root = rustix::process::geteuid().is_root();
    capabilities::drop(root).map_err(failed("dropping capabilities"))?;
    status.capabilities = true;
    if config.landlock {
        landlock::restrict(config, status).map_err(|error| report(&error))?;
    }
    if config.seccomp {
        seccomp::restrict(config.no_network, config.no_local)
            .map_err(|error| format!("filtering system calls: {error}"))?;
        status.seccomp = true;
    }
    Ok(())
}

/// Sets limits, soft and hard alike, so that the program cannot raise them. Never raises a limit that is in force
/// already.
fn limit(limits: Limits) -> Result<(), rustix::io::Errno> {
    let wanted = [
        (Resource::Nproc, limits.processes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
    ];
    for (resource, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Sends one line of status. Without a reader there is nothing else to do.
fn tell(to: &mut File, status: &Status) {
    let mut line = serde_json::to_vec(status).unwrap_or_default();
    line.push(b'\n');
    let _ = to.write_all(&line);
}
