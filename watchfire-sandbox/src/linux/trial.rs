//! What this machine can enforce, found out by doing it, in a child that ends right after.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{CommandSpec, SpawnOptions, spawn};
use watchfire_core::sandbox::Descriptor;

use crate::linux::config::{Config, Mounts, Place, RawPath, Status, View};
use crate::linux::inside::helper;
use crate::linux::look::enumerate::{Enumerated, reading};
use crate::linux::others::birdcage;
use crate::linux::others::birdcage::Cage;
use crate::linux::others::bwrap;
use crate::linux::sandbox;
use crate::linux::sandbox::Means;

/// The descriptor on which the program around the helper finds its arguments.
const AROUND_FD: i32 = bwrap::ARGS_FD;
const _: () = assert!(AROUND_FD == birdcage::CAGE_FD);

/// Time limit for one try.
const PATIENCE: Duration = Duration::from_secs(5);

/// The mechanisms that work here, each with a detail or the reason why it does not.
#[derive(Debug)]
pub(super) struct Trial {
    /// Landlock's version.
    pub(super) landlock: Result<i32, String>,
    pub(super) seccomp: Result<String, String>,
    pub(super) namespaces: Result<String, String>,
}

impl Trial {
    /// The reason why a sandbox that wants no namespaces has none.
    pub(super) const LEFT_OUT: &'static str = "left out by choice";

    pub(super) fn landlock_detail(&self) -> Result<String, String> {
        self.landlock.as_ref().map(|abi| format!("abi {abi}")).map_err(Clone::clone)
    }
}

/// Tries everything at once; where that fails, each mechanism by itself, so that each says why.
pub(super) fn run(helper: &Helper, means: &Means) -> Trial {
    let root = RawPath("/".into());
    let landlock = Config { landlock: true, rules: vec![(root, reading().bits())], ..Config::default() };
    let seccomp = Config { seccomp: true, ..Config::default() };
    let both = Config { landlock: true, seccomp: true, rules: landlock.rules.clone(), ..Config::default() };
    let filters = "filters".to_owned();
    let whole = match means {
        Means::Neither => attempt(helper, &both, None).map(|status| (status, None)),
        Means::Own | Means::Bwrap | Means::Birdcage => {
            entered(helper, means, both).map(|(status, how)| (status, Some(how)))
        }
    };
    let left_out = Trial::LEFT_OUT.to_owned();
    match whole {
        Ok((status, how)) => {
            Trial { landlock: Ok(status.abi), seccomp: Ok(filters), namespaces: how.ok_or(left_out) }
        }
        Err(_) => Trial {
            landlock: attempt(helper, &landlock, None).map(|status| status.abi),
            seccomp: attempt(helper, &seccomp, None).map(|_| filters),
            namespaces: match means {
                Means::Neither => Err(left_out),
                Means::Own | Means::Bwrap | Means::Birdcage => {
                    entered(helper, means, Config::default()).map(|(_, how)| how)
                }
            },
        },
    }
}

/// The same in namespaces; says how they were made.
fn entered(helper: &Helper, means: &Means, config: Config) -> Result<(Status, String), String> {
    // A place of each kind that every machine has.
    let places = [("/usr", View::Writable), ("/tmp", View::Fresh), ("/etc", View::EmptyFolder)];
    let places = places.map(|(path, view)| Place::new(Path::new(path), view));
    let mounts = Mounts { places: places.into(), ..Mounts::default() };
    let report = |error: watchfire_core::Error| error.report();
    if *means == Means::Bwrap {
        let program = bwrap::find().map_err(report)?;
        let args =
            bwrap::arguments(&mounts, Path::new("/dev/null"), &BTreeMap::new(), None).map_err(report)?;
        let how = format!("by {}", program.display());
        let args = Around { fd: args, wrap: Box::new(move |spec| bwrap::around(&program, spec)) };
        return attempt(helper, &config, Some(args)).map(|status| (status, how));
    }
    if *means == Means::Birdcage {
        let program = birdcage::find().map_err(report)?;
        let how = format!("by {}", program.display());
        let usr = Enumerated { rules: vec![("/usr".into(), reading())], ..Enumerated::default() };
        // A program that is not in what is shown is still found by its descriptor.
        let fd = Cage::new(&usr, &[], false).into_descriptor().map_err(report)?;
        let wrap = move |spec: CommandSpec| spec.wrapped_by(program, [birdcage::CAGE_FD.to_string()]);
        return attempt(helper, &config, Some(Around { fd, wrap: Box::new(wrap) }))
            .map(|status| (status, how));
    }
    let config = Config { mounts: Some(mounts), ..config };
    attempt(helper, &config, None).map(|status| (status, "mount, pid, ipc".to_owned()))
}

/// Another program around the helper, and what it finds at its number.
struct Around {
    fd: OwnedFd,
    wrap: Box<dyn FnOnce(CommandSpec) -> CommandSpec>,
}

fn attempt(helper: &Helper, config: &Config, around: Option<Around>) -> Result<Status, String> {
    let report = |error: watchfire_core::Error| error.report();
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
    let config = sandbox::in_memory(config).map_err(report)?;
    // Where we happen to stand says nothing about the machine, and may lie in what the trial hides.
    let mut spec = helper.command(helper::ROLE, ["10", "11", helper::TRIAL]).with_cwd("/");
    let mut descriptors = helper.descriptors().map_err(report)?;
    descriptors.push(Descriptor { target: 10, fd: config });
    descriptors.push(Descriptor { target: 11, fd: tell });
    if let Some(Around { fd, wrap }) = around {
        spec = wrap(spec);
        descriptors.push(Descriptor { target: AROUND_FD, fd });
    }
    let options = SpawnOptions::default().with_descriptors(descriptors);
    let mut child = spawn(&spec, options).map_err(report)?;

    let deadline = Instant::now() + PATIENCE;
    let mut told = std::fs::File::from(told);
    let mut text = Vec::new();
    let heard = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break Err(
                "the helper does not answer; is it a program that calls run_if_asked first?".to_owned()
            );
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let ready = poll(&mut [PollFd::new(&told, PollFlags::IN)], Some(&timeout));
        if matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
            continue;
        }
        let mut buffer = [0; 4096];
        match told.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(count) => text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) => break Err(error.to_string()),
        }
    };
    // It has ended or must; both calls fail only if it is gone already.
    let _ = child.kill();
    let _ = child.wait();
    heard?;
    let status = Status::last_of(&text).ok_or("the helper ended before it said anything")?;
    match status.error {
        Some(error) => Err(error),
        None => Ok(status),
    }
}
