//! Which sandboxes there are, and which one is used.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "runtime")]
use super::made::Made;
#[cfg(feature = "runtime")]
use super::{Access, Confined};
use super::{NoSandbox, Sandbox, SandboxPolicy, SandboxPolicyBuilder};
use crate::model::SandboxSettings;
#[cfg(feature = "runtime")]
use crate::process::CommandSpec;
use crate::{Error, ErrorKind, Result};

/// What a base policy depends on.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicyInputs {
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The Watchfire home, hidden from every agent.
    pub watchfire_home: Option<PathBuf>,
    /// The root of the project.
    pub project_root: Option<PathBuf>,
    /// The person's own grants and denials, and what their machine is to agents; the project has tightened them.
    pub settings: SandboxSettings,
    /// What the project denies its agents.
    pub project_deny: Vec<PathBuf>,
    /// The folder of the project's own package caches, where it shall have such. What a policy shows from it is made by
    /// whoever asks for the policy.
    pub own_caches: Option<PathBuf>,
    /// The person's variables, some of which say where tools keep their things.
    pub environment: BTreeMap<OsString, OsString>,
}

impl PolicyInputs {
    /// No inputs; set them on the fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

type BasePolicy = dyn Fn(&PolicyInputs) -> Result<SandboxPolicyBuilder> + Send + Sync;

/// The sandboxes that an orchestrator may use, in the order in which `auto` tries them, and the policy that all
/// sessions start from.
#[derive(Clone)]
pub struct SandboxSet {
    ladder: Vec<Arc<dyn Sandbox>>,
    none: Arc<dyn Sandbox>,
    base: Arc<BasePolicy>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum SandboxChoice {
    /// The first of the ladder that works here.
    #[default]
    Auto,
    /// This one and no other.
    Named(String),
    /// Explicitly none.
    None,
}

impl fmt::Display for SandboxChoice {
    /// The name that [`parse`](Self::parse) reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Named(name) => name,
            Self::None => "none",
        })
    }
}

/// Every name that files and flags may use.
const NAMES: &[&str] = &["auto", "seatbelt", "landlock", "bwrap", "birdcage", "none"];

impl SandboxChoice {
    /// Reads a name from a flag or a file; an empty one is `None`, deferring to the next level.
    ///
    /// `sandbox-exec`, from files of the old Watchfire, means `auto`.
    ///
    /// # Errors
    /// `unknown_sandbox`, with the names that there are; for `off` it suggests `none`.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        match text.trim() {
            "" => Ok(None),
            "auto" | "sandbox-exec" => Ok(Some(Self::Auto)),
            "none" => Ok(Some(Self::None)),
            name if NAMES.contains(&name) => Ok(Some(Self::Named(name.to_owned()))),
            name => {
                let error = Error::new(ErrorKind::UnknownSandbox, "unknown sandbox")
                    .with("name", name)
                    .with("known", NAMES.join(", "));
                Err(match name {
                    "off" | "false" | "no" => error.with("hint", "to run without a sandbox write none"),
                    _ => error,
                })
            }
        }
    }
}

impl SandboxSet {
    /// A set in which `auto` tries `ladder` in this order (several of one name are tried for that name too), and every session starts from what `base` makes.
    pub fn new(
        ladder: Vec<Arc<dyn Sandbox>>,
        base: impl Fn(&PolicyInputs) -> Result<SandboxPolicyBuilder> + Send + Sync + 'static,
    ) -> Self {
        Self { ladder, none: Arc::new(NoSandbox), base: Arc::new(base) }
    }

    /// No sandbox but `none`, which must be asked for; `auto` is an error. The base policy allows everything to be
    /// read.
    #[must_use]
    pub fn none_only() -> Self {
        Self::new(Vec::new(), |_| Ok(SandboxPolicy::builder()))
    }

    /// The policy that sessions start from.
    ///
    /// # Errors
    /// What makes the inputs unusable, such as a relative path in the settings.
    pub fn base_policy(&self, inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
        (self.base)(inputs)
    }

    /// The sandbox for a choice.
    ///
    /// # Errors
    /// `sandbox_unavailable` when the named one is missing or does not work here, or `auto` finds none. Never
    /// another one in its place, and never `none` unless asked for.
    pub fn choose(&self, choice: &SandboxChoice) -> Result<Arc<dyn Sandbox>> {
        let usable = |sandbox: &&Arc<dyn Sandbox>| sandbox.probe().available;
        match choice {
            SandboxChoice::None => Ok(Arc::clone(&self.none)),
            SandboxChoice::Auto => self.ladder.iter().find(usable).map(Arc::clone).ok_or_else(|| {
                let tried = lacking(&mut self.ladder.iter());
                Error::new(ErrorKind::SandboxUnavailable, "no sandbox works on this machine")
                    .with("tried", if tried.is_empty() { "none is built in" } else { &tried })
                    .with("hint", "to run without a sandbox ask for none explicitly")
            }),
            SandboxChoice::Named(name) => {
                // One name may stand for several steps, best first.
                let known = || self.ladder.iter().filter(|sandbox| sandbox.name() == name);
                if let Some(sandbox) = known().find(usable) {
                    return Ok(Arc::clone(sandbox));
                }
                let why = lacking(&mut known());
                let message = match why.is_empty() {
                    true => "this sandbox is not built in here",
                    false => "this sandbox does not work on this machine",
                };
                let error = Error::new(ErrorKind::SandboxUnavailable, message).with("name", name);
                Err(if why.is_empty() { error } else { error.with("why", why) })
            }
        }
    }

    /// Prepares a command in the sandbox for a choice, and makes what the policy wants made and lets the command write. Of
    /// that, what is still empty goes with the guard.
    ///
    /// # Errors
    /// As [`choose`](Self::choose) and [`Sandbox::prepare`].
    #[cfg(feature = "runtime")]
    pub fn prepare(
        &self,
        choice: &SandboxChoice,
        policy: &SandboxPolicy,
        command: CommandSpec,
    ) -> Result<Confined> {
        let sandbox = self.choose(choice)?;
        let wanted = policy.make.iter().filter(|folder| policy.allows(folder, Access::Write));
        let made = Made::make(wanted);
        Ok(made.kept_by(sandbox.prepare(policy, command)?))
    }

    /// All of them, `none` last.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Sandbox>> {
        self.ladder.iter().chain(std::iter::once(&self.none))
    }
}

/// What each of them lacks here.
fn lacking(sandboxes: &mut dyn Iterator<Item = &Arc<dyn Sandbox>>) -> String {
    let why = sandboxes.map(|sandbox| sandbox.probe());
    why.map(|probe| format!("{}: {}", probe.title(), probe.lacking())).collect::<Vec<_>>().join("; ")
}

impl fmt::Debug for SandboxSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|sandbox| sandbox.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_never_stands_in() {
        let set = SandboxSet::none_only();
        assert_eq!(set.choose(&SandboxChoice::Auto).unwrap_err().code(), "sandbox_unavailable");
        assert_eq!(
            set.choose(&SandboxChoice::Named("bwrap".into())).unwrap_err().code(),
            "sandbox_unavailable"
        );
        assert_eq!(set.choose(&SandboxChoice::None).unwrap().name(), "none");
    }

    #[test]
    fn names_are_read_as_decided() {
        assert_eq!(SandboxChoice::parse("").unwrap(), None);
        assert_eq!(SandboxChoice::parse("sandbox-exec").unwrap(), Some(SandboxChoice::Auto));
        let error = SandboxChoice::parse("off").unwrap_err();
        assert_eq!(error.code(), "unknown_sandbox");
        assert!(error.to_string().contains("write none"), "{error}");
        assert!(SandboxChoice::parse("firejail").is_err());
    }
}
