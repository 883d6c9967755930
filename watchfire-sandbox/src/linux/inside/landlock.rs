//! Landlock, in the process that is about to become the program.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::linux::config::{Config, Status};
use crate::linux::look::enumerate::{PINNED, Rights, on_files};

/// Why Landlock is not in force.
#[derive(Debug, thiserror::Error)]
pub(in crate::linux) enum Error {
    #[error("landlock refuses{}", depth_hint(.0))]
    Ruleset(#[from] landlock::RulesetError),
    #[error("opening {path} for a rule")]
    Open { path: String, source: Errno },
    #[error("a rule has rights that landlock does not know: {0:#x}")]
    Rights(u64),
    #[error("the kernel took the rules without enforcing them")]
    NotEnforced,
}

/// Restricts this thread for good by the rules of the configuration.
///
/// The rights of the first version must be there; those of later ones, up to the pinned one, are taken where they are.
pub(in crate::linux) fn restrict(config: &Config, status: &mut Status) -> Result<(), Error> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(PINNED))?
        .scope(Scope::AbstractUnixSocket)?
        .scope(Scope::Signal)?;
    if !config.denied_ports.is_empty() {
        ruleset = ruleset
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::ConnectTcp)?
            .set_compatibility(CompatLevel::BestEffort);
    }
    let mut ruleset = ruleset.create()?;
    for (path, bits) in &config.rules {
        let rights = BitFlags::from_bits(*bits).map_err(|_| Error::Rights(*bits))?;
        ruleset = add(ruleset, path.as_path(), rights, status)?;
    }
    if !config.denied_ports.is_empty() {
        // Landlock has no rules that deny, so all other ports are allowed one by one.
        for port in (0..=u16::MAX).filter(|port| !config.denied_ports.contains(port)) {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
    }
    let outcome = ruleset.restrict_self()?;
    if outcome.ruleset == landlock::RulesetStatus::NotEnforced || !outcome.no_new_privs {
        return Err(Error::NotEnforced);
    }
    if let LandlockStatus::Available { effective_abi, kernel_abi } = outcome.landlock {
        status.abi = kernel_abi.unwrap_or(effective_abi as i32);
    }
    status.scoped = status.abi >= 6;
    Ok(())
}

/// Adds a rule. A path that is not a folder gets only the rights that files have.
fn add(
    ruleset: RulesetCreated,
    path: &Path,
    rights: Rights,
    status: &mut Status,
) -> Result<RulesetCreated, Error> {
    let fd = match open(path) {
        Ok(fd) => fd,
        // Gone, replaced by a link, or beyond our reach and so beyond the program's: nothing is allowed there.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {
            status.skipped.push(path.display().to_string());
            return Ok(ruleset);
        }
        Err(source) => return Err(Error::Open { path: path.display().to_string(), source }),
    };
    let file = File::from(fd);
    let is_folder = file.metadata().is_ok_and(|found| found.is_dir());
    let rights = if is_folder { rights } else { rights & on_files() };
    if rights.is_empty() {
        return Ok(ruleset);
    }
    status.rules += 1;
    Ok(ruleset.add_rule(PathBeneath::new(file, rights))?)
}

/// Opens what the path names without following any link: links were resolved when the rules were made.
fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let strict = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    match strict {
        // Not known, or kept from us by an outer sandbox.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    }
}

/// The kernel says "too big" when 16 layers are in force already.
fn depth_hint(error: &landlock::RulesetError) -> &'static str {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        let too_big = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if too_big == Some(Errno::TOOBIG.raw_os_error()) {
            return ": this process is inside of too many sandboxes already (16 landlock layers)";
        }
        source = error.source();
    }
    ""
}
