//! Turns a policy into the configuration of the helper, and into the facts for the report.

use std::path::{Path, PathBuf};

use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::{Network, SandboxPolicy, Tmp};

use crate::linux::config::{Config, Instead, Limits, Mounts, RawPath, View};
use crate::linux::kept::Generation;
use crate::linux::look::enumerate::{Enumerated, Rights, device, enumerate, reading, writing};
use crate::linux::look::internet;
use crate::linux::look::listings::Listings;
use crate::linux::look::places::places;
use crate::linux::look::tree::Tree;
use crate::linux::others::bwrap_layers::Overlays;
use crate::linux::report::facts::Facts;
use crate::linux::report::summary;
use crate::linux::sandbox::Means;
use crate::linux::trial::Trial;

/// The configuration of the helper, and the facts for the report.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) facts: Facts,
    /// The paths that birdcage shows.
    pub(super) caged: Option<Enumerated>,
    /// Reasons why the policy makes no sense on this machine.
    pub(super) refusals: Vec<String>,
}

impl Plan {
    /// Makes a plan for `policy` with the means that work on this machine. A private `/tmp` never hides the program of
    /// `command`. Kept entries of caches show as in `seen`.
    pub(super) fn new(
        policy: &SandboxPolicy,
        trial: &Trial,
        means: Means,
        command: Option<&CommandSpec>,
        listings: &Listings,
        seen: Option<&Generation>,
    ) -> Self {
        let namespaces = trial.namespaces.is_ok();
        let root = rustix::process::geteuid().is_root();
        let view = namespaces && means != Means::Birdcage;
        let tree = Tree::new(policy, command.map(CommandSpec::program), view, listings);
        let (mounts, enumerated) = match view {
            true => {
                let mut mounts = places(&tree);
                mounts.files = own_files(policy);
                seen.iter().for_each(|seen| seen.show(&mut mounts));
                let rules = rules_over(&mounts);
                (Some(mounts), Enumerated { rules, ..Enumerated::default() })
            }
            false => (None, enumerate(&tree)),
        };
        let internet = match &policy.network {
            Network::Internet { .. } => Some(internet::of(means, namespaces)),
            _ => None,
        };
        let mut mounts = mounts;
        if let (Some(Ok(_)), Some(mounts)) = (&internet, &mut mounts) {
            mounts.rewritten.extend(internet::names());
        }
        let config = Config {
            internet: internet.as_ref().and_then(|it| it.as_ref().ok()).cloned(),
            mounts,
            lead_group: matches!(means, Means::Bwrap | Means::Birdcage),
            landlock: trial.landlock.is_ok(),
            seccomp: trial.seccomp.is_ok(),
            rules: enumerated
                .rules
                .iter()
                .map(|(path, rights)| (RawPath(path.clone()), rights.bits()))
                .collect(),
            denied_ports: match &policy.network {
                Network::OpenExceptPorts(ports) | Network::Internet { closed_ports: ports, .. } => {
                    ports.clone()
                }
                _ => Vec::new(),
            },
            no_network: policy.network == Network::Closed,
            no_local: means == Means::Neither,
            limits: Limits {
                // Elsewhere than in a user namespace all processes of the person would count, and root's never do.
                processes: policy.limits.processes.or(Some(PROCESSES)).filter(|_| namespaces && !root),
                // `bwrap` makes the namespace, and our helper inside it may not change its size.
                numbers: (root && means == Means::Own && has_own_process_numbers())
                    .then(|| policy.limits.processes.unwrap_or(PROCESSES).saturating_add(RESERVED)),
                open_files: policy.limits.open_files,
                file_size: policy.limits.file_size_mb.map(|size| size.saturating_mul(1 << 20)),
            },
        };
        let caged = (means == Means::Birdcage).then(|| enumerated.clone());
        let facts = Facts {
            enforcement: policy.enforcement,
            summary: String::new(),
            namespaces,
            means,
            no_namespaces: trial.namespaces.clone().err(),
            abi: trial.landlock.as_ref().copied().unwrap_or_default(),
            seccomp: trial.seccomp.clone().err(),
            network: policy.network.clone(),
            no_internet: internet.and_then(Result::err),
            private_tmp: policy.tmp == Tmp::Private,
            limits: (!policy.limits.is_none()).then(|| {
                match policy.limits.processes.is_none() || config.limits.processes == policy.limits.processes
                {
                    true => String::new(),
                    false if root => "root's processes are not counted".to_owned(),
                    false => {
                        "processes are not: only a user namespace counts those of one session".to_owned()
                    }
                }
            }),
            apart: policy.apart,
            binds: policy.binds.len(),
            replaced: policy.replaced.len(),
            overlays: Overlays::OnDisk,
            instead: Instead::default(),
            has_names: !policy.patterns.is_empty(),
            names_incomplete: tree.names_incomplete,
            open_names: enumerated.open_names,
            open_writes: enumerated.open_writes,
            unlistable: enumerated.unlistable,
            closed: enumerated.closed,
            creatable: tree.creatable,
            notes: tree.notes.into_iter().chain(policy.notes.iter().cloned()).collect(),
        };
        let facts =
            Facts { summary: summary::of(policy, facts.is_apart(), facts.no_internet.is_none()), ..facts };
        Self { config, facts, caged, refusals: tree.refusals }
    }

    /// Allows the folder that stands for `/tmp`.
    pub(super) fn allow_tmp(&mut self, path: &Path) {
        let real = crate::resolve::resolve(path);
        self.config.rules.push((RawPath(real), writing().bits()));
    }
}

/// Upper bound for the processes and threads of a session when the settings have none. A fork bomb meets it; a large
/// build does not.
const PROCESSES: u64 = 8192;

/// Process numbers that the kernel gives once only: after the highest it begins again behind them. A smaller namespace
/// is refused.
const RESERVED: u64 = 300;

/// Returns true if each process namespace has a `pid_max` of its own. Before Linux 6.14 there is one for the machine, and
/// to write it inside would limit everybody.
fn has_own_process_numbers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    has_own_process_numbers_in(&release)
}

fn has_own_process_numbers_in(release: &str) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0_u32));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 14)
}

fn own_files(policy: &SandboxPolicy) -> Vec<(RawPath, String)> {
    let files = policy.files.iter().filter_map(|file| {
        // The link of a home folder is followed, a link at the very place is replaced.
        let path = crate::resolve::resolve(file.path.parent()?).join(file.path.file_name()?);
        Some((RawPath(path), file.text.clone()))
    });
    files.collect()
}

/// Returns Landlock's rules beside a view that hides what must be hidden: writes only where the view is meant to be
/// writable, even if a mount is lost.
fn rules_over(mounts: &Mounts) -> Vec<(PathBuf, Rights)> {
    let mut rules: Vec<(PathBuf, Rights)> =
        vec![("/".into(), reading()), ("/dev".into(), device() | reading()), ("/dev/shm".into(), writing())];
    let writable = mounts
        .places
        .iter()
        .filter(|place| matches!(place.view, View::Writable | View::Fresh | View::Own | View::Layer));
    rules.extend(writable.map(|place| (place.path.as_path().to_owned(), writing())));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_has_one_pid_max_for_the_machine() {
        for (release, own) in [
            ("6.18.44-fc-v669\n", true),
            ("6.14.0", true),
            ("7.0", true),
            ("6.13.9", false),
            ("5.15.0-91", false),
            ("", false),
        ] {
            assert_eq!(has_own_process_numbers_in(release), own, "{release}");
        }
    }
}
