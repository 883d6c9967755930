//! Reports of what a sandbox enforces, as data, JSON and text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Enforcement, SandboxPolicy};

/// The state of each control when a sandbox enforces a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PolicyReport {
    /// Name of the sandbox.
    pub sandbox: String,
    /// Difference from a better sandbox of the same name: see [`Probe::step`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// One sentence for people: what the command can write, read and reach. Empty if the sandbox has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Enforcement that the policy asks for.
    pub enforcement: Enforcement,
    /// The controls.
    pub controls: Vec<Control>,
    /// Remarks: paths that did not exist, steps down, known residuals.
    pub notes: Vec<String>,
}

impl PolicyReport {
    /// Creates an empty report of `sandbox`.
    #[must_use]
    pub fn new(sandbox: impl Into<String>, enforcement: Enforcement) -> Self {
        Self {
            sandbox: sandbox.into(),
            step: String::new(),
            summary: String::new(),
            enforcement,
            controls: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the difference from a better sandbox of the same name.
    #[must_use]
    pub fn with_step(mut self, step: impl Into<String>) -> Self {
        self.step = step.into();
        self
    }

    /// Sets the sentence for people.
    #[must_use]
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Returns the name together with the step: `landlock, without namespaces`.
    #[must_use]
    pub fn title(&self) -> String {
        title(&self.sandbox, &self.step)
    }

    /// Adds a control.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.controls.push(control);
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds the policy's own remarks.
    #[must_use]
    pub fn with_notes_of(mut self, policy: &SandboxPolicy) -> Self {
        self.notes.extend(policy.notes.iter().cloned());
        self
    }

    /// Returns true if everything that the policy asks for is enforced.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.controls.iter().all(|control| control.state == ControlState::Enforced || !control.asked)
    }

    /// Returns the state of a control, or `None` if the report does not have it.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<ControlState> {
        self.controls.iter().find(|control| control.name == name).map(|control| control.state)
    }

    /// Yields the controls that the policy asks for and that are not fully enforced.
    pub fn open(&self) -> impl Iterator<Item = &Control> {
        self.controls.iter().filter(|control| control.asked && control.state != ControlState::Enforced)
    }
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.summary.is_empty() {
            writeln!(f, "{}", self.summary)?;
        }
        writeln!(f, "sandbox: {}", self.title())?;
        for control in &self.controls {
            let by =
                if control.by.is_empty() { String::new() } else { format!(" by {}", control.by.join(", ")) };
            let why = if control.why.is_empty() { String::new() } else { format!(": {}", control.why) };
            writeln!(f, "  {:<9} {}{by}{why}", control.state.as_str(), control.name)?;
        }
        for note in &self.notes {
            writeln!(f, "  note      {note}")?;
        }
        Ok(())
    }
}

/// A guarantee that a sandbox may enforce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Control {
    /// Name of the control: `credentials are hidden`, `writes outside the workspace are refused`, …
    pub name: String,
    /// True if the policy asks for it.
    pub asked: bool,
    /// State on this machine.
    pub state: ControlState,
    /// Mechanisms that enforce it: `landlock abi 7`, `mount namespace`, …
    pub by: Vec<String>,
    /// Reason if it is open or partial.
    pub why: String,
}

impl Control {
    /// The name under which a sandbox reports that denied paths can be neither read nor written.
    pub const HIDDEN: &'static str = "denied paths are hidden";
    /// The name under which a sandbox reports that only granted paths can be written.
    pub const WRITES: &'static str = "writes outside of grants are refused";
    /// The name under which a sandbox reports on [`NamePattern`](super::NamePattern)s.
    pub const NAMES: &'static str = "secret names beside code are hidden";
    /// The name under which a sandbox reports on rules that forbid writing inside of a folder that can be written.
    pub const READ_ONLY: &'static str = "read-only places inside of writable folders";

    /// The name under which a sandbox reports on [`Bind`](super::Bind)s.
    pub const BINDS: &'static str = "private copies show at their usual places";

    /// The name under which a sandbox reports on [replaced](SandboxPolicy::replaced) folders.
    pub const LAYERS: &'static str = "home, toolchains and caches are written without changing yours";

    /// The name under which a sandbox reports on [`ResourceLimits`](crate::model::ResourceLimits).
    pub const LIMITS: &'static str = "processes, open files and file sizes are limited";

    /// Creates a control that the policy asks for.
    #[must_use]
    pub fn new(name: impl Into<String>, state: ControlState) -> Self {
        Self { name: name.into(), asked: true, state, by: Vec::new(), why: String::new() }
    }

    /// Marks the control as one that the policy does not ask for.
    #[must_use]
    pub fn not_asked(mut self) -> Self {
        self.asked = false;
        self
    }

    /// Adds a mechanism that enforces it.
    #[must_use]
    pub fn by(mut self, mechanism: impl Into<String>) -> Self {
        self.by.push(mechanism.into());
        self
    }

    /// Sets the reason why the control is open or partial.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }
}

/// State of a control.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum ControlState {
    /// The control holds.
    Enforced,
    /// The control holds in part, for the reason in [`Control::why`].
    Partial,
    /// The control does not hold.
    Open,
}

impl ControlState {
    /// Returns the word that reports use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial => "partial",
            Self::Open => "open",
        }
    }
}

/// The mechanisms that one sandbox can use on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Probe {
    /// Name of the sandbox.
    pub sandbox: String,
    /// Difference from a better sandbox of the same name, such as `without namespaces`, or a reservation; empty for the best.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// True if the sandbox can be used at all.
    pub available: bool,
    /// Mechanisms that it would use, not all that the machine has.
    pub mechanisms: Vec<Mechanism>,
}

impl Probe {
    /// Creates a probe with these findings.
    #[must_use]
    pub fn new(sandbox: impl Into<String>, available: bool, mechanisms: Vec<Mechanism>) -> Self {
        Self { sandbox: sandbox.into(), step: String::new(), available, mechanisms }
    }

    /// Sets the difference from a better sandbox of the same name.
    #[must_use]
    pub fn with_step(mut self, step: impl Into<String>) -> Self {
        self.step = step.into();
        self
    }

    /// Returns the name together with the step: `landlock, without namespaces`.
    #[must_use]
    pub fn title(&self) -> String {
        title(&self.sandbox, &self.step)
    }

    /// Describes the mechanisms that are missing on this machine.
    #[must_use]
    pub fn lacking(&self) -> String {
        let lacking = self.mechanisms.iter().filter(|mechanism| !mechanism.available);
        lacking.map(|found| format!("{}: {}", found.name, found.detail)).collect::<Vec<_>>().join("; ")
    }
}

fn title(name: &str, step: &str) -> String {
    if step.is_empty() { name.to_owned() } else { format!("{name}, {step}") }
}

/// One mechanism of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mechanism {
    /// Its name: `landlock`, `user namespaces`, …
    pub name: String,
    /// True if it works on this machine.
    pub available: bool,
    /// Version, or the reason why it does not work.
    pub detail: String,
}

impl Mechanism {
    /// Creates a mechanism. `detail` is its version, or the reason why it does not work.
    #[must_use]
    pub fn new(name: impl Into<String>, available: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), available, detail: detail.into() }
    }
}
