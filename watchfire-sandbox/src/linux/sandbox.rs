//! The sandbox of Linux that needs no other program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Serialize;
use tempfile::TempDir;
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{CommandSpec, resolve_program};
use watchfire_core::sandbox::{
    Bind, Confined, Descriptor, Enforcement, Lasting, Mechanism, Network, PolicyReport, Probe, Sandbox,
    SandboxGuard, SandboxPolicy, Tmp,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::linux::area::Area;
use crate::linux::config::{Place, Status, View};
use crate::linux::inside::helper;
use crate::linux::kept::{self, Generation, Left};
use crate::linux::look::listings::Listings;
use crate::linux::memory::Memory;
use crate::linux::others::birdcage;
use crate::linux::others::birdcage::Cage;
use crate::linux::others::bwrap;
use crate::linux::others::bwrap_layers::{self, Tried};
use crate::linux::plan::Plan;
use crate::linux::report::advice;
use crate::linux::report::facts::Facts;
use crate::linux::trial;
use crate::linux::trial::Trial;
use crate::resolve::{leads_out, resolve};

/// The descriptors on which the helper finds its configuration and sends its status.
const CONFIG_FD: i32 = 10;
const STATUS_FD: i32 = 11;

/// Confines with what the kernel has: namespaces, Landlock and a filter of system calls where the machine allows all
/// of them, and fewer where it does not. The report says which.
///
/// Each confined command starts as the helper program in the role `sandbox`, which confines itself and becomes the
/// command. If any step of that fails, the helper ends with exit code 126, a line on stderr and the reason in the
/// guard's report; the command is never started.
///
/// Without namespaces a private `/tmp` is a temporary folder named by `TMPDIR`, removed when the guard is dropped.
#[derive(Clone, Debug)]
pub struct LinuxSandbox {
    helper: Helper,
    means: Means,
    trial: Arc<OnceLock<Trial>>,
    /// The better sandbox that this one stands in for.
    better: Option<Arc<Self>>,
    /// The folder in which the result of the trial is remembered.
    memory: Option<Arc<Path>>,
    /// Listings from earlier searches for names.
    listings: Arc<Listings>,
    /// The overlays that `bwrap` makes.
    tried: Arc<Tried>,
}

/// The program that makes the namespaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Means {
    /// The helper.
    Own,
    /// Bubblewrap, around the helper.
    Bwrap,
    /// birdcage, around the helper.
    Birdcage,
    /// No program: there are none.
    Neither,
}

impl Means {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Own | Self::Neither => "landlock",
            Self::Bwrap => "bwrap",
            Self::Birdcage => "birdcage",
        }
    }
}

impl LinuxSandbox {
    /// Creates a sandbox whose commands start as `helper`. It does not work where there are no namespaces.
    #[must_use]
    pub fn new(helper: Helper) -> Self {
        Self {
            helper,
            means: Means::Own,
            trial: Arc::default(),
            better: None,
            memory: None,
            listings: Arc::default(),
            tried: Arc::default(),
        }
    }

    /// Creates the sandbox in which the program `bwrap` makes the namespaces, with `helper` inside for everything
    /// else. Its trial fails if that program is missing or does not work.
    #[must_use]
    pub fn bwrap(helper: Helper) -> Self {
        Self { means: Means::Bwrap, ..Self::new(helper) }
    }

    /// Creates the one that lets birdcage make the namespaces, through the program `watchfire-birdcage-helper`, with `helper` inside
    /// of it for all the rest. Without that program, beside ours or in `PATH`, it does not work.
    #[must_use]
    pub fn birdcage(helper: Helper) -> Self {
        Self { means: Means::Birdcage, ..Self::new(helper) }
    }

    /// Makes it a step down from another one: its report says why that one does not work, if it does not.
    #[must_use]
    pub fn below(self, better: &Self) -> Self {
        Self { better: Some(Arc::new(better.clone())), ..self }
    }

    /// Returns the step down from this one for machines without namespaces, where there are some too: Landlock and the filter
    /// of system calls alone. Its report says why this one does not work, if it does not.
    #[must_use]
    pub fn without_namespaces(self) -> Self {
        let new = Self { memory: self.memory.clone(), ..Self::new(self.helper.clone()) };
        Self { means: Means::Neither, better: Some(Arc::new(self)), ..new }
    }

    /// Remembers in `folder` which mechanisms work here, until the machine starts again. No agent may be able to
    /// write there. The folder is created if only its last component is missing.
    #[must_use]
    pub fn remembering(mut self, folder: impl AsRef<Path>) -> Self {
        self.memory = Some(Arc::from(folder.as_ref()));
        self
    }

    fn memory(&self) -> Option<Memory> {
        Memory::new(self.memory.as_deref()?, &self.helper, self.means)
    }

    fn trial(&self) -> &Trial {
        self.trial.get_or_init(|| {
            let memory = self.memory();
            memory.as_ref().and_then(Memory::recall).unwrap_or_else(|| {
                let trial = trial::run(&self.helper, &self.means);
                memory.iter().for_each(|memory| memory.keep(&trial));
                trial
            })
        })
    }

    /// Returns the words that distinguish it from a better sandbox of the same name.
    fn step(&self) -> &'static str {
        if self.means == Means::Neither { "without namespaces" } else { "" }
    }

    /// Why there are no namespaces, or others must make them.
    fn no_namespaces(&self) -> Option<String> {
        let better = self.better.as_ref().and_then(|better| better.trial().namespaces.clone().err());
        better.or_else(|| self.trial().namespaces.clone().err())
    }

    /// Why it cannot be used at all.
    fn unusable(&self) -> Option<String> {
        let trial = self.trial();
        match self.means {
            Means::Own | Means::Bwrap | Means::Birdcage => {
                trial.namespaces.as_ref().err().map(|why| format!("namespaces: {why}"))
            }
            Means::Neither => trial.landlock.as_ref().err().map(|why| format!("landlock: {why}")),
        }
    }

    fn plan(
        &self,
        policy: &SandboxPolicy,
        command: Option<&CommandSpec>,
        seen: Option<&Generation>,
    ) -> Result<(Plan, PolicyReport)> {
        let trial = self.trial();
        if let Some(why) = self.unusable() {
            return Err(Error::new(
                ErrorKind::SandboxUnavailable,
                "this sandbox does not work on this machine",
            )
            .with("name", self.probe().title())
            .with("why", why));
        }
        let out = |bind: &&Bind| leads_out(policy, &bind.target, &resolve(&bind.target));
        if let Some(bind) = policy.binds.iter().find(out) {
            let error =
                Error::new(ErrorKind::PolicyUnenforceable, "a link leads out of the folder that it is in");
            return Err(error.with("rule", &bind.origin).with_path(&bind.target));
        }
        let mut plan = Plan::new(policy, trial, self.means, command, &self.listings, seen);
        if let Some(why) = policy.refusals.iter().chain(&plan.refusals).next() {
            let error = Error::new(ErrorKind::PolicyUnenforceable, "no sandbox can hold this policy");
            return Err(error.with("why", why));
        }
        plan.facts.no_namespaces = self.no_namespaces();
        if self.means == Means::Bwrap && !policy.replaced.is_empty() {
            plan.facts.overlays = self.tried.overlays(&bwrap::find()?, private_tmp()?.path(), &[]);
        }
        let report = plan.facts.report(None);
        let open = plan.facts.open_core();
        if policy.enforcement == Enforcement::Required && !open.is_empty() {
            // Namespaces would not help: it has them.
            let hint = match self.means == Means::Own && plan.facts.no_internet.is_some() {
                true => "install slirp4netns, or set `sandbox: {network: open}` in settings.yaml".to_owned(),
                false => advice::for_namespaces(!policy.apart),
            };
            return Err(Error::new(
                ErrorKind::PolicyUnenforceable,
                "this machine cannot enforce what is required",
            )
            .with("sandbox", self.name())
            .with("why", open.join("; "))
            .with("hint", hint));
        }
        Ok((plan, report))
    }
}

impl Sandbox for LinuxSandbox {
    fn name(&self) -> &'static str {
        self.means.name()
    }

    fn probe(&self) -> Probe {
        let trial = self.trial();
        let mechanism = |name: &str, found: &std::result::Result<String, String>| match found {
            Ok(detail) => Mechanism::new(name, true, detail),
            Err(why) => Mechanism::new(name, false, why),
        };
        let mut mechanisms = Vec::new();
        if self.means != Means::Neither {
            mechanisms.push(mechanism("namespaces", &trial.namespaces));
        }
        mechanisms.push(mechanism("landlock", &trial.landlock_detail()));
        mechanisms.push(mechanism("seccomp", &trial.seccomp));
        Probe::new(self.name(), self.unusable().is_none(), mechanisms).with_step(self.step())
    }

    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
        self.plan(policy, None, None).map(|(_, report)| report)
    }

    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
        let program = resolve_program(command.program())?;
        // The program was looked up in our PATH; the helper must not look again in the command's.
        let mut command = command.with_program(program);
        let kept = if matches!(self.means, Means::Own | Means::Bwrap) { kept::of(policy) } else { None };
        let seen = kept.as_ref().and_then(Generation::newest);
        let (mut plan, _) = self.plan(policy, Some(&command), seen.as_ref())?;
        let mut folder = None;
        if policy.tmp == Tmp::Private {
            if plan.config.mounts.is_some() {
                command = command.with_env("TMPDIR", "/tmp");
            } else {
                let tmp = private_tmp()?;
                plan.allow_tmp(tmp.path());
                command = command.with_env("TMPDIR", tmp.path());
                for (index, file) in policy.files.iter().enumerate() {
                    let path = tmp.path().join(format!(".watchfire-{index}"));
                    std::fs::write(&path, &file.text).map_err(|error| {
                        Error::io("writing a file for the session", error).with_path(&path)
                    })?;
                    if let Some(variable) = &file.variable {
                        command = command.with_env(variable, path);
                    }
                }
                folder = Some(tmp);
            }
        }
        let start = self.helper.command(helper::ROLE, [CONFIG_FD.to_string(), STATUS_FD.to_string()]);
        let mut command = command.wrapped_by(start.program(), start.args().to_vec());
        let mut descriptors: Vec<Descriptor> = self.helper.descriptors()?;
        let mut area = None;
        if let Some(mounts) = plan.config.mounts.as_mut().filter(|mounts| mounts.need_layers()) {
            let left = kept.as_ref().map(|kept| Left::new(kept, mounts, seen));
            let made = Area::new(policy.layers.as_deref(), left)?;
            mounts.layers = Some(made.path().into());
            area = Some(made);
        }
        if self.means == Means::Bwrap {
            let (mut stands, covers) = (BTreeMap::new(), private_tmp()?);
            if let (Some(mounts), Some(area)) = (&plan.config.mounts, &area) {
                let overlays = self.tried.overlays(&bwrap::find()?, area.path(), &mounts.places);
                (stands, plan.facts.instead) = bwrap_layers::stands(mounts, area.path(), overlays)?;
                plan.facts.overlays = overlays;
            }
            let cover = bwrap::make_cover(covers.path())?;
            let mut mounts = plan.config.mounts.take().unwrap_or_default();
            for (index, (path, text)) in std::mem::take(&mut mounts.files).into_iter().enumerate() {
                let own = bwrap_layers::in_own(&mounts, &stands, path.as_path());
                let is_own = own.is_some();
                let source = own.unwrap_or_else(|| covers.path().join(format!("file-{index}")));
                let folder = source.parent().unwrap_or(&source);
                std::fs::create_dir_all(folder)
                    .and_then(|()| std::fs::write(&source, text))
                    .map_err(|error| Error::io("writing a file for the session", error).with_path(&source))?;
                // A tool replaces the file, which it could not if it were mounted there.
                if is_own {
                    continue;
                }
                mounts.places.push(Place { source: Some(source.into()), ..Place::new(path, View::Writable) });
            }
            let args = bwrap::arguments(&mounts, &cover, &stands, command.cwd())?;
            descriptors.push(Descriptor { target: bwrap::ARGS_FD, fd: args });
            command = bwrap::around(&bwrap::find()?, command);
            folder = Some(covers);
        }
        if let Some(enumerated) = &plan.caged {
            let own: Vec<_> = folder.iter().map(|folder| resolve(folder.path())).collect();
            let cage = Cage::new(enumerated, &own, policy.network != Network::Closed);
            descriptors.push(Descriptor { target: birdcage::CAGE_FD, fd: cage.into_descriptor()? });
            command = command.wrapped_by(birdcage::find()?, [birdcage::CAGE_FD.to_string()]);
        }
        let (told, tell) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|error| Error::io("making a pipe for the sandbox's helper", error.into()))?;
        let config = in_memory(&plan.config)?;
        let (facts, memory) = (plan.facts, self.memory());
        let told = Mutex::new(Told::new(told));
        let guard = Guard { facts, told, memory, folder, area: Mutex::new(area) };
        let mut confined =
            Confined::new(command, guard).with_descriptor(CONFIG_FD, config).with_descriptor(STATUS_FD, tell);
        confined.descriptors.extend(descriptors);
        Ok(confined)
    }
}

pub(super) fn private_tmp() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("watchfire-")
        .tempdir()
        .map_err(|error| Error::io("making a temporary folder for the sandbox", error))
}

/// Writes the configuration to a file in memory that only its descriptor leads to, so that no other process can
/// change it.
pub(super) fn in_memory(config: &impl Serialize) -> Result<OwnedFd> {
    let failed = |error| Error::io("writing the configuration of the sandbox", error);
    let fd = rustix::fs::memfd_create("watchfire-sandbox", MemfdFlags::CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let mut file = File::from(fd);
    let text = serde_json::to_vec(config).map_err(|error| failed(error.into()))?;
    file.write_all(&text).map_err(failed)?;
    std::io::Seek::rewind(&mut file).map_err(failed)?;
    Ok(file.into())
}

/// Guard of a command: keeps its temporary folder, if it has one, and reads the helper's status.
#[derive(Debug)]
struct Guard {
    facts: Facts,
    told: Mutex<Told>,
    memory: Option<Memory>,
    folder: Option<TempDir>,
    area: Mutex<Option<Area>>,
}

impl SandboxGuard for Guard {
    fn ended(&self) {
        drop(self.area.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn lasting(&self) -> Lasting {
        let mut lasting = Lasting::default();
        lasting.folders.extend(self.folder.iter().map(|folder| folder.path().to_owned()));
        if let Some(area) = &*self.area.lock().unwrap_or_else(PoisonError::into_inner) {
            area.add_to(&mut lasting);
        }
        lasting
    }

    fn report(&self) -> PolicyReport {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.listen();
        match (told.status(), told.from.is_none()) {
            (Some(status), _) => {
                // Perhaps something does not work any more.
                self.memory.iter().filter(|_| status.error.is_some()).for_each(Memory::forget);
                self.facts.report(Some(&status))
            }
            (None, false) => {
                self.facts.report(None).with_note("not started yet: this is what will be in force")
            }
            (None, true) => {
                let who = match self.facts.means {
                    Means::Bwrap => "bwrap, or our helper in it,",
                    Means::Birdcage => "birdcage, or our helper in it,",
                    Means::Own | Means::Neither => "the helper",
                };
                let error =
                    Some(format!("{who} ended before it said anything here; stderr may have the reason"));
                self.facts.report(Some(&Status { error, ..Status::default() }))
            }
        }
    }
}

/// The helper's reports so far.
#[derive(Debug)]
struct Told {
    /// Closed at its end, so that a session that runs for long holds no descriptor for it.
    from: Option<OwnedFd>,
    text: Vec<u8>,
}

impl Told {
    fn new(from: OwnedFd) -> Self {
        Self { from: Some(from), text: Vec::new() }
    }

    /// Reads the status that has arrived, without waiting.
    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(from) = &self.from {
            match rustix::io::read(from, &mut buffer) {
                Ok(0) => self.from = None,
                Ok(count) => self.text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    fn status(&self) -> Option<Status> {
        Status::last_of(&self.text)
    }
}
