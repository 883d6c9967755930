//! What is said about a plan before it is carried out, and after.

use std::path::PathBuf;

use watchfire_core::sandbox::{Control, ControlState, Enforcement, Network, PolicyReport};

use crate::linux::config::{Instead, Status};
use crate::linux::others::bwrap_layers::Overlays;
use crate::linux::sandbox::Means;

/// The facts that a report is made from.
#[derive(Clone, Debug)]
pub(in crate::linux) struct Facts {
    pub(in crate::linux) enforcement: Enforcement,
    /// The sentence for people.
    pub(in crate::linux) summary: String,
    pub(in crate::linux) namespaces: bool,
    /// The program that makes the namespaces.
    pub(in crate::linux) means: Means,
    /// Why there are none.
    pub(in crate::linux) no_namespaces: Option<String>,
    /// Landlock's version; 0: none.
    pub(in crate::linux) abi: i32,
    /// Why system calls cannot be filtered.
    pub(in crate::linux) seccomp: Option<String>,
    pub(in crate::linux) network: Network,
    /// The reason why there is no network of the command's own, where one is asked for.
    pub(in crate::linux) no_internet: Option<String>,
    pub(in crate::linux) private_tmp: bool,
    /// Limits are asked for; not empty: why not all hold.
    pub(in crate::linux) limits: Option<String>,
    /// Other programs must be out of reach.
    pub(in crate::linux) apart: bool,
    pub(in crate::linux) binds: usize,
    /// Number of folders that the command writes apart.
    pub(in crate::linux) replaced: usize,
    /// The overlays that can be made, as far as it is known before a start.
    pub(in crate::linux) overlays: Overlays,
    /// The replacement for layers, if it is known before the start.
    pub(in crate::linux) instead: Instead,
    pub(in crate::linux) has_names: bool,
    pub(in crate::linux) names_incomplete: bool,
    pub(in crate::linux) open_names: Vec<PathBuf>,
    pub(in crate::linux) open_writes: Vec<PathBuf>,
    pub(in crate::linux) unlistable: Vec<PathBuf>,
    pub(in crate::linux) closed: Vec<PathBuf>,
    /// Missing paths that the command could create itself.
    pub(in crate::linux) creatable: Vec<PathBuf>,
    pub(in crate::linux) notes: Vec<String>,
}

pub(super) const TMP: &str = "/tmp is private";
pub(super) const DEVICES: &str = "devices are the usual few";
pub(super) const ATTRIBUTES: &str = "modes, times and attributes of outside files are kept";
pub(super) const PROCESSES: &str = "other processes are out of reach";
pub(super) const SURVIVORS: &str = "no process outlives the command";
pub(super) const SOCKETS: &str = "sockets of other programs are out of reach";

/// Landlock sees `truncate` from this version on.
pub(super) const TRUNCATE: i32 = 3;

/// Landlock scopes signals and abstract sockets from this version on.
pub(super) const SCOPES: i32 = 6;

impl Facts {
    /// Why the core of the policy is not held: nothing if it is.
    ///
    /// The core is what `Required` insists on: denied paths are hidden, writes stay where they are granted, and the
    /// network is what was asked for. Everything else is reported where it does not hold.
    pub(in crate::linux) fn open_core(&self) -> Vec<String> {
        let mut open = Vec::new();
        if !self.namespaces && self.abi < TRUNCATE {
            open.push(format!(
                "files outside of the writable folders could be emptied: landlock abi {} is older than {TRUNCATE}, \
                 and there are no namespaces",
                self.abi
            ));
        }
        if self.apart && !self.is_apart() {
            let why = match (self.means, &self.seccomp) {
                (Means::Neither, Some(why)) => format!("their sockets: no system call filter: {why}"),
                (Means::Neither, None) => format!("signals: landlock abi {} is older than {SCOPES}", self.abi),
                _ => "their sockets (docker, D-Bus, ssh-agent, tmux), since there are no namespaces to part from them"
                    .to_owned(),
            };
            open.push(format!("other programs of yours could be reached through {why}"));
        }
        // What makes tools outside run something lies there.
        let writable: Vec<_> = self.open_writes.iter().chain(&self.creatable).cloned().collect();
        if self.apart && self.means == Means::Neither && !writable.is_empty() {
            open.push(format!(
                "your own tools could be made to run its code, since without namespaces nothing inside a writable folder \
                 is read-only: {}",
                listed(shown(&writable))
            ));
        }
        match &self.network {
            Network::Closed => open.extend(
                self.seccomp
                    .iter()
                    .map(|why| format!("the network stays open: no system call filter: {why}")),
            ),
            Network::OpenExceptPorts(ports) | Network::Internet { closed_ports: ports, .. }
                if self.abi < 4 && !ports.is_empty() =>
            {
                open.push(format!("ports stay open: landlock abi {} is older than 4", self.abi));
            }
            _ => {}
        }
        open.extend(
            self.no_internet
                .iter()
                .map(|why| format!("this machine could be reached over the network: {why}")),
        );
        open
    }

    /// Returns true if other programs of the user are out of reach, except over TCP and UDP.
    pub(in crate::linux) fn is_apart(&self) -> bool {
        match self.means {
            Means::Own | Means::Bwrap => self.namespaces,
            Means::Neither => self.seccomp.is_none() && self.abi >= SCOPES,
            Means::Birdcage => false,
        }
    }

    /// Returns the report: of the plan, or of the status that the helper sent.
    pub(in crate::linux) fn report(&self, told: Option<&Status>) -> PolicyReport {
        let report = PolicyReport::new(self.means.name(), self.enforcement).with_step(if self.namespaces {
            ""
        } else {
            "without namespaces"
        });
        if let Some(error) = told.and_then(|status| status.error.as_ref()) {
            return report
                .with_control(
                    Control::new("the command is confined", ControlState::Open).because("it was not started"),
                )
                .with_note(format!("nothing was started: {error}"));
        }
        let mut report = report.with_summary(&self.summary);
        let instead = match self.means {
            Means::Own => told.map_or(&self.instead, |status| &status.instead),
            Means::Bwrap | Means::Birdcage | Means::Neither => &self.instead,
        };
        for control in self.controls(instead) {
            report = report.with_control(control);
        }
        for note in self.notes.iter().cloned().chain(self.remarks()) {
            report = report.with_note(note);
        }
        for note in notes_of(instead) {
            report = report.with_note(note);
        }
        if let Some(numbers) = told.and_then(|status| status.numbers) {
            report = report.with_note(format!("all that it starts shares {numbers} process numbers"));
        }
        if let Some(why) = told.and_then(|status| status.ended.as_ref()) {
            report = report.with_note(format!("everything in it was ended: {why}"));
        }
        match told {
            Some(status) if !status.skipped.is_empty() => report.with_note(format!(
                "gone before the start, so not reachable: {}",
                listed(status.skipped.iter().cloned())
            )),
            _ => report,
        }
    }

    fn controls(&self, instead: &Instead) -> Vec<Control> {
        let mut controls = match self.means {
            Means::Birdcage => self.with_birdcage(),
            _ if self.namespaces => self.with_namespaces(instead),
            _ => self.with_landlock_alone(),
        };
        controls.push(match &self.seccomp {
            None => Control::new("dangerous system calls are refused", ControlState::Enforced).by("seccomp"),
            Some(why) => Control::new("dangerous system calls are refused", ControlState::Open).because(why),
        });
        controls.push(Control::new("capabilities are dropped", ControlState::Enforced).by("capability sets"));
        controls.push(Control::new("the environment is an allow-list", ControlState::Enforced).by("start"));
        controls.extend(self.network());
        controls.extend(self.limits.as_ref().map(|why| match why.is_empty() {
            true => Control::new(Control::LIMITS, ControlState::Enforced).by("rlimits"),
            false => Control::new(Control::LIMITS, ControlState::Partial).by("rlimits").because(why),
        }));
        controls
    }

    pub(super) fn landlock(&self) -> String {
        format!("landlock abi {}", self.abi)
    }

    pub(super) fn bwrap(&self) -> bool {
        self.means == Means::Bwrap
    }

    pub(super) fn names(&self, by: &str) -> Control {
        if !self.has_names {
            return Control::new(Control::NAMES, ControlState::Enforced).not_asked();
        }
        let mut why = Vec::new();
        why.push(match self.namespaces {
            true if self.means == Means::Birdcage => {
                "ones made later in writable folders stay readable".to_owned()
            }
            true if self.bwrap() => "ones made or replaced during the session are not".to_owned(),
            true => "ones made or replaced during the session show for a moment, and those made where the command \
                     writes or outside of the project stay readable"
                .to_owned(),
            false => "ones made later in writable folders stay readable".to_owned(),
        });
        if !self.open_names.is_empty() {
            why.push(format!("readable in writable folders: {}", listed(shown(&self.open_names))));
        }
        if self.names_incomplete {
            why.push("the search stopped before its end".to_owned());
        }
        Control::new(Control::NAMES, ControlState::Partial).by(by).because(why.join("; "))
    }

    fn network(&self) -> Vec<Control> {
        let ports = |ports: &[u16]| {
            let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
            let name = format!("tcp ports {} are out of reach", ports.join(", "));
            match self.abi < 4 {
                true => Control::new(name, ControlState::Open).because("landlock is too old"),
                false => Control::new(name, ControlState::Enforced)
                    .by(self.landlock())
                    .because("not by udp, nor through a connection that another process passes on"),
            }
        };
        match &self.network {
            Network::OpenExceptPorts(closed) => vec![ports(closed)],
            Network::Internet { closed_ports, .. } => {
                let name = "nothing that listens on this machine is in reach";
                let machine = match &self.no_internet {
                    None => Control::new(name, ControlState::Enforced)
                        .by("network namespace, slirp4netns")
                        .because("but addresses that this machine gets later"),
                    Some(why) => Control::new(name, ControlState::Open).because(why),
                };
                let closed = (!closed_ports.is_empty()).then(|| ports(closed_ports));
                std::iter::once(machine).chain(closed).collect()
            }
            Network::Closed => vec![match &self.seccomp {
                None => Control::new("the network is closed", ControlState::Enforced).by("seccomp"),
                Some(why) => Control::new("the network is closed", ControlState::Open).because(why),
            }],
            _ => vec![
                Control::new("the network is limited", ControlState::Open)
                    .not_asked()
                    .because("the policy leaves it open"),
            ],
        }
    }
}

/// Describes what shows where layers should be.
fn notes_of(instead: &Instead) -> impl Iterator<Item = String> {
    let memory = instead.in_memory.then(|| {
        "what it writes to toolchains and caches lies in memory, since the disk cannot hold layers".to_owned()
    });
    let places = [
        ("copies, which it can write, since no layer could be made over them", &instead.copied),
        (
            "empty, since no layer could be made over them and a copy would take too long: tools get again what was in them",
            &instead.cold,
        ),
        ("can be read only, since no layer could be made over it", &instead.flat),
    ];
    let places = places.into_iter().filter(|(_, places)| !places.is_empty());
    memory
        .into_iter()
        .chain(places.map(|(what, places)| format!("{what}: {}", listed(places.iter().cloned()))))
}

pub(super) fn shown(paths: &[PathBuf]) -> impl Iterator<Item = String> {
    paths.iter().map(|path| path.display().to_string())
}

/// The first few, and how many more.
pub(in crate::linux) fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    let first: Vec<_> = items.iter().take(6).map(String::as_str).collect();
    let more = items.len().saturating_sub(6);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(namespaces: bool, abi: i32, seccomp: bool, network: Network) -> Facts {
        Facts {
            enforcement: Enforcement::Required,
            summary: String::new(),
            namespaces,
            means: if namespaces { Means::Own } else { Means::Neither },
            no_namespaces: (!namespaces).then(|| "refused".to_owned()),
            abi,
            seccomp: (!seccomp).then(|| "refused".to_owned()),
            network,
            no_internet: None,
            private_tmp: true,
            limits: None,
            apart: false,
            binds: 0,
            replaced: 0,
            overlays: Overlays::OnDisk,
            instead: Instead::default(),
            has_names: true,
            names_incomplete: false,
            open_names: Vec::new(),
            open_writes: Vec::new(),
            unlistable: Vec::new(),
            closed: Vec::new(),
            creatable: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_core_is_files_and_the_network_that_was_asked() {
        let ports = || Network::OpenExceptPorts(vec![1]);
        for (facts, held) in [
            (facts(true, 7, true, Network::Open), true),
            (facts(true, 0, false, Network::Open), true),
            (facts(false, 7, false, Network::Open), true),
            (facts(false, 3, true, Network::Open), true),
            (facts(false, 2, true, Network::Open), false),
            (facts(true, 7, false, Network::Closed), false),
            (facts(false, 4, true, ports()), true),
            (facts(true, 3, true, ports()), false),
        ] {
            assert_eq!(facts.open_core().is_empty(), held, "{facts:?}");
            assert!(facts.report(None).open().next().is_some(), "there is always a residual");
        }
    }

    #[test]
    fn the_other_programs_are_parted_from_without_namespaces_too() {
        let apart = |facts: Facts| Facts { apart: true, ..facts };
        let held = apart(facts(false, SCOPES, true, Network::Open));
        assert!(held.is_apart() && held.open_core().is_empty());
        assert_eq!(held.report(None).state(SOCKETS), Some(ControlState::Enforced));
        for (facts, why) in [
            (facts(false, SCOPES - 1, true, Network::Open), "signals"),
            (facts(false, SCOPES, false, Network::Open), "their sockets"),
        ] {
            let open = apart(facts).open_core().join("; ");
            assert!(open.contains("other programs of yours") && open.contains(why), "{open}");
        }
        let writable = Facts { open_writes: vec!["/p/.git".into()], ..held };
        assert!(writable.open_core().join("; ").contains("your own tools"), "{:?}", writable.open_core());
    }

    #[test]
    fn what_did_not_start_is_not_confined() {
        let told = Status { error: Some("no such thing".to_owned()), ..Status::default() };
        let report = facts(true, 7, true, Network::Open).report(Some(&told));
        assert!(!report.is_complete() && report.to_string().contains("nothing was started: no such thing"));
        assert_eq!(report.state(Control::HIDDEN), None);
    }

    #[test]
    fn a_step_down_is_named() {
        let report = facts(false, 5, true, Network::Open).report(None).to_string();
        assert!(report.contains("stepped down from namespaces: refused"), "{report}");
        assert!(report.contains("signals"), "{report}");
    }
}
