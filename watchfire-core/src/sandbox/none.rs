//! The reference implementation: no sandbox, and it says so.

use super::{
    Confined, Control, ControlState, Enforcement, Mechanism, PolicyReport, Probe, Sandbox, SandboxGuard,
    SandboxPolicy,
};
use crate::Result;
use crate::process::CommandSpec;

/// Runs commands as they are. Every control of its report is open.
///
/// It is the explicit choice of a person (`--no-sandbox`, `sandbox: none` in the settings) and never stands in for
/// another one; [`SandboxSet::choose`](super::SandboxSet::choose) sees to that. Hence it does not refuse
/// [`Enforcement::Required`]: the person who names it requires nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSandbox;

#[derive(Debug)]
struct Guard(PolicyReport);

impl SandboxGuard for Guard {
    fn report(&self) -> PolicyReport {
        self.0.clone()
    }
}

impl Sandbox for NoSandbox {
    fn name(&self) -> &'static str {
        "none"
    }

    fn probe(&self) -> Probe {
        Probe::new(self.name(), true, vec![Mechanism::new("none", true, "enforces nothing")])
    }

    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
        let open = |name| Control::new(name, ControlState::Open).because("no sandbox");
        let mut report = PolicyReport::new(self.name(), policy.enforcement)
            .with_control(open(Control::HIDDEN))
            .with_control(open(Control::WRITES))
            .with_control(open(Control::NAMES))
            .with_control(open(Control::READ_ONLY))
            .with_control(match policy.binds.is_empty() {
                // A control that is asked for and open is shown as a gap, but this policy wants no binds.
                true => open(Control::BINDS).not_asked(),
                false => open(Control::BINDS),
            })
            .with_control(open("other processes are out of reach"))
            .with_control(
                // A command gets only the variables of its specification, with and without a sandbox.
                Control::new("the environment is an allow-list", ControlState::Enforced).by("start"),
            );
        if !policy.limits.is_none() {
            report = report.with_control(open(Control::LIMITS));
        }
        report = report.with_notes_of(policy);
        if policy.enforcement == Enforcement::Required {
            report = report.with_note("the agent runs unsandboxed because that was asked for explicitly");
        }
        Ok(report)
    }

    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
        Ok(Confined::new(command, Guard(self.explain(policy)?)))
    }
}
