//! From a policy to what the helper shall do, and what to say about it.

use std::path::{Path, PathBuf};

use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::{Network, SandboxPolicy, Tmp};

use super::config::{Config, Limits, Mounts, RawPath, View};
use super::enumerate::{Enumerated, Rights, device, enumerate, reading, writing};
use super::facts::Facts;
use super::listings::Listings;
use super::places::places;
use super::sandbox::Means;
use super::tree::Tree;
use super::trial::Trial;

/// What the helper shall do, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) facts: Facts,
    /// What birdcage shows.
    pub(super) caged: Option<Enumerated>,
}

impl Plan {
    /// The plan for `policy` with what works here. The program of `command` is never hidden by a private `/tmp`.
    pub(super) fn new(
        policy: &SandboxPolicy,
        trial: &Trial,
        means: Means,
        command: Option<&CommandSpec>,
        listings: &Listings,
    ) -> Self {
        let namespaces = trial.namespaces.is_ok();
        let root = rustix::process::geteuid().is_root();
        let view = namespaces && means != Means::Birdcage;
        let tree = Tree::new(policy, command.map(CommandSpec::program), view, listings);
        let (mounts, enumerated) = match view {
            true => {
                let mounts = places(&tree);
                let rules = rules_over(&mounts);
                (Some(mounts), Enumerated { rules, ..Enumerated::default() })
            }
            false => (None, enumerate(&tree)),
        };
        let config = Config {
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
                Network::OpenExceptPorts(ports) => ports.clone(),
                _ => Vec::new(),
            },
            no_network: policy.network == Network::Closed,
            limits: Limits {
                // Elsewhere than in a user namespace all processes of the person would count, and root's never do.
                processes: policy.limits.processes.filter(|_| namespaces && !root),
                open_files: policy.limits.open_files,
                file_size: policy.limits.file_size_mb.map(|size| size.saturating_mul(1 << 20)),
            },
        };
        let caged = (means == Means::Birdcage).then(|| enumerated.clone());
        let facts = Facts {
            enforcement: policy.enforcement,
            namespaces,
            means,
            no_namespaces: trial.namespaces.clone().err(),
            abi: trial.landlock.as_ref().copied().unwrap_or_default(),
            seccomp: trial.seccomp.clone().err(),
            network: policy.network.clone(),
            private_tmp: policy.tmp == Tmp::Private,
            limits: (!policy.limits.is_none()).then(|| {
                match config.limits.processes == policy.limits.processes {
                    true => String::new(),
                    false if root => "root's processes are not counted".to_owned(),
                    false => {
                        "processes are not: only a user namespace counts those of one session".to_owned()
                    }
                }
            }),
            binds: policy.binds.len(),
            has_names: !policy.patterns.is_empty(),
            names_incomplete: tree.names_incomplete,
            open_names: enumerated.open_names,
            open_writes: enumerated.open_writes,
            unlistable: enumerated.unlistable,
            closed: enumerated.closed,
            missing: tree.missing,
            creatable: tree.creatable,
            notes: tree.notes.into_iter().chain(policy.notes.iter().cloned()).collect(),
        };
        Self { config, facts, caged }
    }

    /// Allows the folder that stands for `/tmp`.
    pub(super) fn allow_tmp(&mut self, path: &Path) {
        let real = crate::resolve::resolve(path);
        self.config.rules.push((RawPath(real), writing().bits()));
    }
}

/// Landlock's part in a view that hides what is to be hidden: nothing is written but where the view is meant to be
/// written, whatever becomes of the mounts.
fn rules_over(mounts: &Mounts) -> Vec<(PathBuf, Rights)> {
    let mut rules: Vec<(PathBuf, Rights)> =
        vec![("/".into(), reading()), ("/dev".into(), device() | reading()), ("/dev/shm".into(), writing())];
    let writable = mounts.places.iter().filter(|place| matches!(place.view, View::Writable | View::Fresh));
    rules.extend(writable.map(|place| (place.path.as_path().to_owned(), writing())));
    rules
}
