//! The available sandboxes, and the choice of one.

use std::collections::{BTreeMap, BTreeSet};
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

/// Inputs of the base policy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicyInputs {
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The Watchfire home, hidden from every agent.
    pub watchfire_home: Option<PathBuf>,
    /// The root of the project.
    pub project_root: Option<PathBuf>,
    /// The person's settings of the sandbox, with the restrictions of the project applied.
    pub settings: SandboxSettings,
    /// Paths that the project denies its agents.
    pub project_deny: Vec<PathBuf>,
    /// Folder of the project's own package caches, if it has any. The caller creates the parts that a policy shows from
    /// there.
    pub own_caches: Option<PathBuf>,
    /// The person's variables, some of which name the folders in which tools keep their files.
    pub environment: BTreeMap<OsString, OsString>,
}

impl PolicyInputs {
    /// Creates empty inputs. Set them on the fields.
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
    elsewhere: Vec<&'static str>,
    base: Arc<BasePolicy>,
}

/// A requested sandbox.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
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
    /// Writes the name that [`SandboxSet::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Named(name) => name,
            Self::None => "none",
        })
    }
}

impl From<&str> for SandboxChoice {
    /// Reads a name without checking that the sandbox exists; [`SandboxSet::choose`] does.
    ///
    /// `sandbox-exec`, from files of the old Watchfire, means `auto`.
    fn from(name: &str) -> Self {
        match name {
            "auto" | "sandbox-exec" => Self::Auto,
            "none" => Self::None,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl SandboxSet {
    /// Creates a set in which `auto` tries `ladder` in order, and every session starts from the policy that `base`
    /// returns. Sandboxes that share a name are the steps of that name, best first.
    pub fn new(
        ladder: Vec<Arc<dyn Sandbox>>,
        base: impl Fn(&PolicyInputs) -> Result<SandboxPolicyBuilder> + Send + Sync + 'static,
    ) -> Self {
        Self { ladder, none: Arc::new(NoSandbox), elsewhere: Vec::new(), base: Arc::new(base) }
    }

    /// Creates a set with no sandbox but `none`, which must be asked for; `auto` is an error. The base policy allows
    /// everything to be read.
    #[must_use]
    pub fn none_only() -> Self {
        Self::new(Vec::new(), |_| Ok(SandboxPolicy::builder()))
    }

    /// Adds the names of sandboxes that exist on other platforms only. Asking for one is `sandbox_unavailable`, so that
    /// settings shared between machines are not mistaken for a typo.
    #[must_use]
    pub fn with_elsewhere(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.elsewhere.extend(names);
        self
    }

    /// Reads the name of a sandbox from a flag or a file. An empty name is `None`: the next level decides.
    ///
    /// # Errors
    /// `unknown_sandbox` for a name that no sandbox here has, listing those that exist.
    pub fn parse(&self, text: &str) -> Result<Option<SandboxChoice>> {
        match text.trim() {
            "" => Ok(None),
            name => {
                let choice = SandboxChoice::from(name);
                self.check(&choice)?;
                Ok(Some(choice))
            }
        }
    }

    fn check(&self, choice: &SandboxChoice) -> Result<()> {
        let SandboxChoice::Named(name) = choice else { return Ok(()) };
        let mut known = vec!["auto"];
        known.extend(self.ladder.iter().map(|sandbox| sandbox.name()));
        known.extend(&self.elsewhere);
        known.push("none");
        // The steps of one sandbox share its name, which is listed once.
        let mut seen = BTreeSet::new();
        known.retain(|known| seen.insert(*known));
        if known.contains(&name.as_str()) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::UnknownSandbox, "unknown sandbox")
            .with("name", name)
            .with("known", known.join(", "));
        // Not guessed, even when it is obvious: a slip must not run an agent without its sandbox. Nor is that proposed.
        known.pop();
        Err(match (name.as_str(), closest(name, &known)) {
            ("off" | "false" | "no", _) => error.with("hint", "to run without a sandbox write none"),
            (_, Some(meant)) => error.with("hint", format_args!("did you mean {meant}?")),
            (_, None) => error,
        })
    }

    /// Returns the policy that sessions start from.
    ///
    /// # Errors
    /// `invalid_input` for unusable inputs, such as a relative path in the settings.
    pub fn base_policy(&self, inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
        (self.base)(inputs)
    }

    /// Returns the sandbox for a choice: never another one in its place, and never `none` unless asked for.
    ///
    /// # Errors
    /// `unknown_sandbox` as [`parse`](Self::parse); `sandbox_unavailable` when the named one does not work here or
    /// `auto` finds none.
    pub fn choose(&self, choice: &SandboxChoice) -> Result<Arc<dyn Sandbox>> {
        self.check(choice)?;
        let usable = |sandbox: &&Arc<dyn Sandbox>| sandbox.probe().available;
        match choice {
            SandboxChoice::None => Ok(Arc::clone(&self.none)),
            SandboxChoice::Auto => self.ladder.iter().find(usable).map(Arc::clone).ok_or_else(|| {
                // Every step with its own reason, so that a person sees which of them could be made to work.
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
                // `check` knows the name, so if no sandbox here has it, one of another platform does.
                let message = match why.is_empty() {
                    true => "this sandbox belongs to another platform",
                    false => "this sandbox does not work on this machine",
                };
                let error = Error::new(ErrorKind::SandboxUnavailable, message).with("name", name);
                Err(if why.is_empty() { error } else { error.with("why", why) })
            }
        }
    }

    /// Prepares a command in the sandbox for a choice, after creating the folders that the policy wants created and lets
    /// the command write. Those still empty are removed when the command has ended. Without a sandbox none are created:
    /// the command can do that itself.
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
        if *choice == SandboxChoice::None {
            return sandbox.prepare(policy, command);
        }
        let wanted = policy.make.iter().filter(|folder| policy.allows(folder, Access::Write));
        let made = Made::make(wanted);
        Ok(made.kept_by(sandbox.prepare(policy, command)?))
    }

    /// Yields all sandboxes, `none` last.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Sandbox>> {
        self.ladder.iter().chain(std::iter::once(&self.none))
    }
}

/// Describes what each sandbox lacks on this machine.
fn lacking(sandboxes: &mut dyn Iterator<Item = &Arc<dyn Sandbox>>) -> String {
    let why = sandboxes.map(|sandbox| sandbox.probe());
    why.map(|probe| format!("{}: {}", probe.title(), probe.lacking())).collect::<Vec<_>>().join("; ")
}

/// Returns the known name that one or two slips of the keyboard turn into `name`.
fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|known| (distance(&name.to_lowercase(), known), *known));
    // Short names are two edits away from anything.
    distances.filter(|(edits, known)| edits * 3 <= known.len()).min().map(|(_, known)| known)
}

/// Returns the number of bytes to insert, remove or replace to turn one name into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        // Levenshtein's table with one row kept: `diagonal` is the cell above and to the left.
        let mut diagonal = i;
        let mut last = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let above = *cell;
            last = (diagonal + usize::from(a != b)).min(above + 1).min(last + 1);
            diagonal = above;
            *cell = last;
        }
    }
    row.last().copied().unwrap_or_default()
}

impl fmt::Debug for SandboxSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|sandbox| sandbox.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::CommandSpec;
    use crate::sandbox::{Confined, PolicyReport, Probe};

    /// A sandbox of another crate.
    #[derive(Debug)]
    struct Firejail;

    impl Sandbox for Firejail {
        fn name(&self) -> &'static str {
            "firejail"
        }

        fn probe(&self) -> Probe {
            Probe::new(self.name(), true, Vec::new())
        }

        fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
            Ok(PolicyReport::new(self.name(), policy.enforcement))
        }

        fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
            NoSandbox.prepare(policy, command)
        }
    }

    fn set() -> SandboxSet {
        SandboxSet::new(vec![Arc::new(Firejail)], |_| Ok(SandboxPolicy::builder()))
            .with_elsewhere(["seatbelt"])
    }

    #[test]
    fn none_never_stands_in() {
        let set = SandboxSet::none_only();
        assert_eq!(set.choose(&SandboxChoice::Auto).unwrap_err().code(), "sandbox_unavailable");
        assert_eq!(set.choose(&"bwrap".into()).unwrap_err().code(), "unknown_sandbox");
        assert_eq!(set.choose(&SandboxChoice::None).unwrap().name(), "none");
    }

    #[test]
    fn names_are_those_of_the_set() {
        let set = set();
        assert_eq!(set.parse("").unwrap(), None);
        assert_eq!(set.parse("sandbox-exec").unwrap(), Some(SandboxChoice::Auto));
        let choice = set.parse(" firejail ").unwrap().unwrap();
        assert_eq!(set.choose(&choice).unwrap().name(), "firejail");
        assert_eq!(SandboxChoice::from(choice.to_string().as_str()), choice);
        let other = set.parse("seatbelt").unwrap().unwrap();
        assert_eq!(set.choose(&other).unwrap_err().code(), "sandbox_unavailable");
        assert_eq!(SandboxSet::none_only().parse("firejail").unwrap_err().code(), "unknown_sandbox");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_one() {
        for (wrong, hint) in [
            ("off", Some("to run without a sandbox write none")),
            ("firejial", Some("did you mean firejail?")),
            ("Firejail", Some("did you mean firejail?")),
            ("nono", None),
            ("docker", None),
            ("a-long-name-that-is-like-no-other", None),
        ] {
            let error = set().parse(wrong).unwrap_err();
            assert_eq!(error.code(), "unknown_sandbox");
            assert_eq!(error.detail("known"), Some("auto, firejail, seatbelt, none"));
            assert_eq!(error.detail("hint"), hint, "{wrong}");
        }
    }
}
