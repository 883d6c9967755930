//! The sandbox of macOS: `sandbox-exec` with a profile made for the policy.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use watchfire_core::process::{CommandSpec, RunLimits, resolve_program, run_blocking};
use watchfire_core::sandbox::{
    Confined, Control, ControlState, Enforcement, Mechanism, Network, PolicyReport, Probe, Rule, RuleAccess,
    Sandbox, SandboxGuard, SandboxPolicy, Tmp,
};
use watchfire_core::{Error, ErrorKind, Result};

use super::profile::profile;
use crate::resolve::{leads_out, resolve};

/// Said wherever this sandbox is named: its profiles are made and evaluated by tests, and no Mac has run them yet.
const UNPROVED: &str = "not proved on a Mac";

/// Path of the program on macOS.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Ends each message about a denial in the system's log.
const TAG: &str = "watchfire-sandbox";

/// Confines with Seatbelt, the sandbox in macOS's kernel, through `sandbox-exec`.
///
/// The profile denies by default. Files follow the policy, names at any depth too, also ones that are made later.
/// Services of the system are a short list; sockets with a path are out of reach but in writable folders. A private
/// `/tmp` is a temporary folder named by `TMPDIR`, removed when the guard is dropped.
#[derive(Clone, Debug, Default)]
pub struct Seatbelt {
    works: Arc<OnceLock<std::result::Result<(), String>>>,
}

impl Seatbelt {
    /// The one of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of the profile for a policy, on any platform.
    ///
    /// # Errors
    /// `invalid_input` for a path that is not Unicode.
    pub fn profile(policy: &SandboxPolicy) -> Result<String> {
        profile(&resolved(policy)?, TAG)
    }

    /// Tried once, by running something harmless.
    fn works(&self) -> &std::result::Result<(), String> {
        self.works.get_or_init(|| {
            if !Path::new(PROGRAM).exists() {
                return Err(format!("there is no {PROGRAM}"));
            }
            let policy = SandboxPolicy::builder().build().map_err(|error| error.report())?;
            let text = Self::profile(&policy).map_err(|error| error.report())?;
            let spec = CommandSpec::new(PROGRAM).with_args(["-p", &text, "/usr/bin/true"]);
            match run_blocking(&spec, RunLimits::default()) {
                Ok(ran) if ran.success() => Ok(()),
                Ok(ran) => Err(format!("code {}: {}", ran.code(), ran.stderr.text().trim())),
                Err(error) => Err(error.report()),
            }
        })
    }
}

impl Sandbox for Seatbelt {
    fn name(&self) -> &'static str {
        "seatbelt"
    }

    fn probe(&self) -> Probe {
        let mechanism = match self.works() {
            Ok(()) => Mechanism::new("sandbox-exec", true, PROGRAM),
            Err(why) => Mechanism::new("sandbox-exec", false, why),
        };
        Probe::new(self.name(), mechanism.available, vec![mechanism]).with_step(UNPROVED)
    }

    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
        if let Err(why) = self.works() {
            return Err(Error::new(
                ErrorKind::SandboxUnavailable,
                "this sandbox does not work on this machine",
            )
            .with("name", self.name())
            .with("why", why));
        }
        Self::profile(policy)?;
        Ok(report(policy))
    }

    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
        let report = self.explain(policy)?;
        let program = resolve_program(command.program())?;
        let mut command = command.with_program(program);
        let mut policy = policy.clone();
        let mut tmp = None;
        if policy.tmp == Tmp::Private {
            let folder = tempfile::Builder::new().prefix("watchfire-").tempdir();
            let folder =
                folder.map_err(|error| Error::io("making a temporary folder for the sandbox", error))?;
            policy = policy.to_builder().write(folder.path(), "private tmp").build()?;
            command = command.with_env("TMPDIR", folder.path());
            tmp = Some(folder);
        }
        let text = Self::profile(&policy)?;
        Ok(Confined::new(command.wrapped_by(PROGRAM, ["-p", &text, "--"]), Guard { report, _tmp: tmp }))
    }
}

/// The same policy with links resolved: the kernel compares real paths.
fn resolved(policy: &SandboxPolicy) -> Result<SandboxPolicy> {
    let mut builder = SandboxPolicy::builder().network(policy.network.clone()).tmp(policy.tmp);
    for rule in &policy.rules {
        let real = resolve(&rule.path);
        if !leads_out(policy, &rule.path, &real) {
            builder = builder.rule(Rule::new(real, rule.access, &rule.origin));
        }
    }
    for pattern in &policy.patterns {
        let mut pattern = pattern.clone();
        pattern.root = resolve(&pattern.root);
        builder = builder.pattern(pattern);
    }
    builder.build()
}

fn report(policy: &SandboxPolicy) -> PolicyReport {
    let held = |name: &str| Control::new(name, ControlState::Enforced).by("seatbelt");
    let partial =
        |name: &str, why: &str| Control::new(name, ControlState::Partial).by("seatbelt").because(why);
    let mut report = PolicyReport::new("seatbelt", policy.enforcement)
        .with_step(UNPROVED)
        .with_control(held(Control::HIDDEN))
        .with_control(held(Control::WRITES))
        .with_control(match policy.patterns.is_empty() {
            true => held(Control::NAMES).not_asked(),
            false => held(Control::NAMES),
        })
        .with_control(held(Control::READ_ONLY));
    if policy.tmp == Tmp::Private {
        report = report.with_control(partial(
            "/tmp is private",
            "a folder of its own in TMPDIR; the shared one can be read and not written",
        ));
    }
    if !policy.binds.is_empty() {
        report = report.with_control(
            Control::new(Control::BINDS, ControlState::Open).because("macOS has no mount namespaces"),
        );
    }
    let network = match &policy.network {
        Network::Closed => held("the network is closed"),
        Network::OpenExceptPorts(_) => held("tcp ports of this machine are out of reach"),
        Network::Internet { .. } => partial(
            "nothing that listens on this machine is in reach",
            "link-local addresses, and this machine at its other addresses, can be reached",
        ),
        _ => Control::new("the network is limited", ControlState::Open)
            .not_asked()
            .because("the policy leaves it open"),
    };
    report = report
        .with_control(partial(
            "other processes are out of reach",
            "no signals and no inspection; services of the system can be asked for",
        ))
        .with_control(partial("sockets of other programs are out of reach", "but those in writable folders"))
        .with_control(
            Control::new("no process outlives the command", ControlState::Open)
                .because("the guardian does what it can"),
        )
        .with_control(Control::new("the environment is an allow-list", ControlState::Enforced).by("start"))
        .with_control(network);
    if policy.rules.iter().any(|rule| rule.access == RuleAccess::Write) {
        report = report.with_note(
            "files with several hard links, one of them in a writable folder, can be changed there",
        );
    }
    if !policy.limits.is_none() {
        let open = Control::new(Control::LIMITS, ControlState::Open);
        report = report.with_control(open.because("seatbelt limits no resources"));
    }
    report = report.with_notes_of(policy);
    if policy.enforcement == Enforcement::BestEffort {
        report = report.with_note("everything that seatbelt can hold is held, whatever was asked");
    }
    report
}

#[derive(Debug)]
struct Guard {
    report: PolicyReport,
    _tmp: Option<TempDir>,
}

impl SandboxGuard for Guard {
    fn report(&self) -> PolicyReport {
        self.report.clone()
    }
}
