//! What is said about a plan before it is carried out, and after.

use std::path::PathBuf;

use watchfire_core::sandbox::{Control, ControlState, Enforcement, Network, PolicyReport};

use crate::linux::config::Status;
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
    pub(in crate::linux) private_tmp: bool,
    /// Limits are asked for; not empty: why not all hold.
    pub(in crate::linux) limits: Option<String>,
    /// Other programs must be out of reach.
    pub(in crate::linux) apart: bool,
    pub(in crate::linux) binds: usize,
    /// Number of folders that the command writes apart.
    pub(in crate::linux) replaced: usize,
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

const TMP: &str = "/tmp is private";
const DEVICES: &str = "devices are the usual few";
const ATTRIBUTES: &str = "modes, times and attributes of outside files are kept";
const PROCESSES: &str = "other processes are out of reach";
const SURVIVORS: &str = "no process outlives the command";
const SOCKETS: &str = "sockets of other programs are out of reach";

/// Landlock sees `truncate` from this version on.
const TRUNCATE: i32 = 3;

/// Landlock scopes signals and abstract sockets from this version on.
const SCOPES: i32 = 6;

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
            Network::OpenExceptPorts(_) if self.abi < 4 => {
                open.push(format!("ports stay open: landlock abi {} is older than 4", self.abi));
            }
            _ => {}
        }
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
        for control in self.controls() {
            report = report.with_control(control);
        }
        for note in self.notes.iter().cloned().chain(self.remarks()) {
            report = report.with_note(note);
        }
        if let Some(flat) = told.map(|status| &status.flat).filter(|flat| !flat.is_empty()) {
            let places = listed(flat.iter().cloned());
            report =
                report.with_note(format!("can be read only, since no layer could be made over it: {places}"));
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

    fn controls(&self) -> Vec<Control> {
        let mut controls = match self.means {
            Means::Birdcage => self.with_birdcage(),
            _ if self.namespaces => self.with_namespaces(),
            _ => self.with_landlock_alone(),
        };
        controls.push(match &self.seccomp {
            None => Control::new("dangerous system calls are refused", ControlState::Enforced).by("seccomp"),
            Some(why) => Control::new("dangerous system calls are refused", ControlState::Open).because(why),
        });
        controls.push(Control::new("capabilities are dropped", ControlState::Enforced).by("capability sets"));
        controls.push(Control::new("the environment is an allow-list", ControlState::Enforced).by("start"));
        controls.push(self.network());
        controls.extend(self.limits.as_ref().map(|why| match why.is_empty() {
            true => Control::new(Control::LIMITS, ControlState::Enforced).by("rlimits"),
            false => Control::new(Control::LIMITS, ControlState::Partial).by("rlimits").because(why),
        }));
        controls
    }

    fn landlock(&self) -> String {
        format!("landlock abi {}", self.abi)
    }

    fn with_namespaces(&self) -> Vec<Control> {
        let namespace = if self.bwrap() { "bwrap" } else { "mount namespace" };
        let by = |name: &str, what: &str| Control::new(name, ControlState::Enforced).by(what);
        let view = |name: &str| by(name, namespace);
        let both = |name: &str| if self.abi > 0 { view(name).by(self.landlock()) } else { view(name) };
        let mut controls = vec![view(Control::HIDDEN), both(Control::WRITES), self.names(namespace)];
        controls.push(match self.creatable.is_empty() {
            true => view(Control::READ_ONLY),
            false => {
                let fate = if self.bwrap() {
                    "so it can be made"
                } else {
                    "hidden or removed moments after it is made"
                };
                let why = format!("not there yet, {fate}: {}", listed(shown(&self.creatable)));
                Control::new(Control::READ_ONLY, ControlState::Partial).by(namespace).because(why)
            }
        });
        if self.private_tmp {
            controls.push(view(TMP));
        }
        if self.binds > 0 {
            controls.push(view(Control::BINDS));
        }
        if self.replaced > 0 {
            let layers = Control::new(Control::LAYERS, ControlState::Partial).by(namespace);
            controls.push(match self.bwrap() {
                true => layers.because("toolchains and caches can only be read"),
                false => view(Control::LAYERS),
            });
        }
        controls.push(view(DEVICES));
        controls.push(view(ATTRIBUTES));
        controls.push(by(PROCESSES, if self.bwrap() { namespace } else { "process and ipc namespaces" }));
        controls.push(by(SURVIVORS, if self.bwrap() { namespace } else { "process namespace" }));
        let sockets = Control::new(SOCKETS, ControlState::Partial).by(namespace);
        let covered = "those in hidden folders are, and those that were there at the start in the home folder and the \
                       project, but not in writable folders";
        controls.push(match self.abi < SCOPES {
            true => sockets.because(format!("{covered}; others can be connected to, abstract ones too")),
            false => sockets
                .by(self.landlock())
                .because(format!("{covered}, and abstract ones; others can be connected to")),
        });
        controls
    }

    fn with_landlock_alone(&self) -> Vec<Control> {
        let enforced = |name: &str| Control::new(name, ControlState::Enforced).by(self.landlock());
        let partial = |name: &str, why: &str| {
            Control::new(name, ControlState::Partial).by(self.landlock()).because(why)
        };
        let open = |name: &str, why: &str| Control::new(name, ControlState::Open).because(why);
        let mut controls = vec![enforced(Control::HIDDEN)];
        controls.push(match self.abi < TRUNCATE {
            true => partial(Control::WRITES, "files can be truncated"),
            false => enforced(Control::WRITES),
        });
        controls.push(self.names(&self.landlock()));
        let writable: Vec<_> = self.open_writes.iter().chain(&self.creatable).cloned().collect();
        if !writable.is_empty() {
            controls.push(open(Control::READ_ONLY, &format!("writable: {}", listed(shown(&writable)))));
        }
        if self.private_tmp {
            let why = "a folder of its own in TMPDIR; the shared one is hidden, /dev/shm is read-only";
            controls.push(partial(TMP, why));
        }
        if self.binds > 0 {
            controls.push(open(Control::BINDS, "only a mount namespace can show them there"));
        }
        if self.replaced > 0 {
            controls.push(partial(
                Control::LAYERS,
                "the home cannot be written, toolchains and caches can only be read",
            ));
        }
        controls.push(enforced(DEVICES));
        controls.push(open(ATTRIBUTES, "only a mount namespace holds chmod, utime and setxattr"));
        controls.push(partial(
            PROCESSES,
            match self.abi < SCOPES {
                true => "no tracing; but signals, their arguments and priorities",
                false => "no signals, no tracing; their arguments can be read, priorities changed",
            },
        ));
        controls
            .push(open(SURVIVORS, "only a process namespace ends them all; the guardian does what it can"));
        controls.push(match &self.seccomp {
            None => Control::new(SOCKETS, ControlState::Enforced).by("seccomp"),
            Some(_) if self.abi < SCOPES => {
                open(SOCKETS, "landlock is too old, and there is no system call filter")
            }
            Some(_) => partial(SOCKETS, "abstract ones are; those with a path can be connected to"),
        });
        controls
    }

    fn with_birdcage(&self) -> Vec<Control> {
        let name = Means::Birdcage.name();
        let held = |control: &str| Control::new(control, ControlState::Enforced).by(name);
        let both =
            |control: &str| if self.abi > 0 { held(control).by(self.landlock()) } else { held(control) };
        let partial =
            |control: &str, why: &str| Control::new(control, ControlState::Partial).by(name).because(why);
        let mut controls = vec![held(Control::HIDDEN), both(Control::WRITES), self.names(name)];
        controls.push(match self.creatable.is_empty() {
            true => held(Control::READ_ONLY),
            false => {
                let why = format!("not there yet, so it can be made: {}", listed(shown(&self.creatable)));
                partial(Control::READ_ONLY, &why)
            }
        });
        if self.private_tmp {
            let why = "a folder of its own in TMPDIR; the shared one is hidden, and there is no /dev/shm";
            controls.push(partial(TMP, why));
        }
        if self.binds > 0 {
            let open = Control::new(Control::BINDS, ControlState::Open);
            controls.push(open.because("birdcage shows things at their own places only"));
        }
        if self.replaced > 0 {
            controls.push(partial(
                Control::LAYERS,
                "the home cannot be written, toolchains and caches can only be read",
            ));
        }
        controls
            .push(partial(DEVICES, "other terminals of the same user can be opened, new ones not be made"));
        controls.push(held(ATTRIBUTES));
        controls.push(held(PROCESSES));
        controls.push(partial(
            SURVIVORS,
            "what runs when birdcage's own process is killed is left to the guardian",
        ));
        controls.push(match self.abi < SCOPES {
            true => partial(SOCKETS, "those in hidden folders are; abstract ones are not"),
            false => {
                partial(SOCKETS, "those in hidden folders and abstract ones are; others can be connected to")
            }
        });
        controls
    }

    fn bwrap(&self) -> bool {
        self.means == Means::Bwrap
    }

    fn names(&self, by: &str) -> Control {
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

    fn network(&self) -> Control {
        match &self.network {
            Network::OpenExceptPorts(ports) => {
                let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
                let name = format!("tcp ports {} are out of reach", ports.join(", "));
                match self.abi < 4 {
                    true => Control::new(name, ControlState::Open).because("landlock is too old"),
                    false => Control::new(name, ControlState::Enforced)
                        .by(self.landlock())
                        .because("not by udp, nor through a connection that another process passes on"),
                }
            }
            Network::Closed => match &self.seccomp {
                None => Control::new("the network is closed", ControlState::Enforced).by("seccomp"),
                Some(why) => Control::new("the network is closed", ControlState::Open).because(why),
            },
            _ => Control::new("the network is limited", ControlState::Open)
                .not_asked()
                .because("the policy leaves it open"),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(why) = &self.no_namespaces {
            remarks.push(match self.means {
                Means::Own | Means::Neither => format!("stepped down from namespaces: {why}"),
                Means::Bwrap | Means::Birdcage => {
                    format!("landlock with namespaces does not work here: {why}")
                }
            });
        }
        if self.bwrap() {
            remarks.push("a signal to the command ends it at once: bwrap hands none on".to_owned());
            remarks.push("read-only files that are replaced outside can be written".to_owned());
        }
        if self.means == Means::Birdcage {
            let what = [
                "read-only files that are replaced outside can be written",
                "programs cannot be traced: strace and debuggers do not work",
                "nothing starts where something beside a hidden place goes away at that moment",
                "a signal to the command ends birdcage's own process at once, and job control does not work",
                "links in folders that show in part do not show, but those in / that lead to /usr",
            ];
            remarks.extend(what.map(str::to_owned));
        }
        if self.abi == 0 {
            remarks.push("without landlock: the view alone holds".to_owned());
        }
        if !self.unlistable.is_empty() {
            remarks.push(format!(
                "cannot be listed, and what is made there later cannot be read: {}",
                listed(shown(&self.unlistable))
            ));
        }
        if !self.closed.is_empty() {
            remarks.push(format!(
                "writable, but nothing new can be made directly in it: {}",
                listed(shown(&self.closed))
            ));
        }
        remarks.push(
            "files with several hard links, one of them in a writable folder, can be changed there"
                .to_owned(),
        );
        remarks
    }
}

fn shown(paths: &[PathBuf]) -> impl Iterator<Item = String> {
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
            private_tmp: true,
            limits: None,
            apart: false,
            binds: 0,
            replaced: 0,
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
