//! The trait.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{PolicyReport, Probe, SandboxPolicy};
use crate::Result;
use crate::process::CommandSpec;

/// A mechanism that confines commands. Synchronous: callers use a thread that may block.
///
/// **Implementers ensure** that
/// - nothing fails open: what [`Enforcement::Required`](super::Enforcement) demands is in force when the confined
///   command's program starts, or it does not start at all;
/// - whatever the policy's [`decide`](SandboxPolicy::decide) denies is denied, or named in the report as open;
/// - `explain` promises no more than `prepare` does;
/// - a rule on a file is a rule on that file, never on its folder, and never an error that ends confinement;
/// - descriptors are placed in the child and never inheritable in the parent;
/// - nothing is changed in the file system but below paths that the policy grants for writing, and in a temporary
///   folder of the guard's own.
///
/// **Callers may not assume** that a probe today holds after a reboot, that denials are known, or that a mechanism
/// by the same name enforces the same on another machine: read the report.
pub trait Sandbox: Debug + Send + Sync + 'static {
    /// Returns the name in settings and flags: `landlock`, `none`, …
    fn name(&self) -> &'static str;

    /// Tries which mechanisms of this sandbox work on this machine.
    fn probe(&self) -> Probe;

    /// Returns the report that `prepare` would lead to.
    ///
    /// # Errors
    /// `sandbox_unavailable` when it cannot work here at all, `invalid_input` for a policy that makes no sense.
    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport>;

    /// Wraps `command` so that it runs confined.
    ///
    /// # Errors
    /// As [`explain`](Self::explain), and `policy_unenforceable` when enforcement is required and something in the
    /// policy cannot be enforced here.
    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined>;
}

/// A command that starts confined, or not at all.
#[derive(Debug)]
#[non_exhaustive]
pub struct Confined {
    /// Command to start in place of the original.
    pub command: CommandSpec,
    /// Descriptors that the command expects at fixed numbers.
    pub descriptors: Vec<Descriptor>,
    /// Owner of the resources of the confinement; drop it after the last process has ended.
    pub guard: Box<dyn SandboxGuard>,
}

impl Confined {
    /// Creates a confined command that needs no descriptors.
    pub fn new(command: CommandSpec, guard: impl SandboxGuard) -> Self {
        Self { command, descriptors: Vec::new(), guard: Box::new(guard) }
    }

    /// Places `fd` in the child as number `target`.
    #[must_use]
    pub fn with_descriptor(mut self, target: i32, fd: OwnedFd) -> Self {
        self.descriptors.push(Descriptor { target, fd });
        self
    }
}

/// A descriptor to place in a child.
#[derive(Debug)]
pub struct Descriptor {
    /// Number in the child: 10 or more. Lower numbers belong to the code that starts processes.
    pub target: i32,
    /// The descriptor in this process, closed on exec.
    pub fd: OwnedFd,
}

/// Resources that this process holds while a confined command runs. Dropping it cleans up.
pub trait SandboxGuard: Debug + Send + Sync + 'static {
    /// Returns the controls in force, or, before the command has started, those that will be.
    fn report(&self) -> PolicyReport;

    /// Releases resources after the last process has ended. The report stays available. Blocks.
    fn ended(&self) {}

    /// Returns the resources for a command that may outlive this process: its host then holds the descriptors and removes
    /// the folders in the place of this guard.
    fn lasting(&self) -> Lasting {
        Lasting::default()
    }

    /// Returns the denials that the kernel reported.
    fn denials(&self) -> Denials {
        Denials::Unknown
    }
}

/// Resources of a confined command, in a form that another process can keep.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Lasting {
    /// Copies of the descriptors that must stay open while the command runs: locks, for example.
    pub descriptors: Vec<OwnedFd>,
    /// Folders and files to remove after the last process has ended.
    pub folders: Vec<PathBuf>,
}

/// Accesses of a confined command that the sandbox denied.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Denials {
    /// The kernel does not report denials on this machine.
    #[default]
    Unknown,
    /// The denials, one line each. Empty if nothing was denied.
    Known(Vec<String>),
}
