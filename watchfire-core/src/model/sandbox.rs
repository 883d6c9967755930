//! Sandbox settings: `sandbox` in `settings.yaml`, and `sandbox_rules` in `project.yaml`, which can only tighten them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Extra;
use super::form::{places, ports, variables};
use super::lenient::{map_or_default, or_default};

/// Sandbox settings of the user. A denial wins over a grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxSettings {
    /// Paths that agents may read although the base policy hides them. `~` stands for the home folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "places")]
    pub read: Vec<PathBuf>,
    /// Paths that agents may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "places")]
    pub write: Vec<PathBuf>,
    /// Paths that agents may neither read nor write.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "places")]
    pub deny: Vec<PathBuf>,
    /// Environment variables that agents get from our environment: names, or prefixes that end in `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "variables")]
    pub pass_env: Vec<String>,
    /// Environment variables that all agents get. Not for secrets, which this file does not protect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub env: BTreeMap<String, String>,
    /// The network of agents. Missing: open, because agents talk to their models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// TCP ports that agents cannot connect to, on any host.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "ports")]
    pub deny_ports: Vec<u16>,
    /// The `/tmp` of sessions. Missing: private.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<Sharing>,
    /// The caches of package managers. Missing: the user's, with what a session writes kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<Sharing>,
    /// Maximum size of what a project's sessions add to the user's caches and keep for the next ones, in MiB. Missing: 2048;
    /// 0 keeps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches_max_mb: Option<u64>,
    /// `allow` accepts a sandbox that leaves other programs of the user within reach, on machines without namespaces.
    /// Missing: nothing starts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_down: Option<StepDown>,
    /// Limits of one session.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_none", deserialize_with = "or_default")]
    pub limits: ResourceLimits,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Sandbox rules of a project. They can only tighten the settings of the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectSandbox {
    /// Paths that its agents may neither read nor write. `~` stands for the home folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "places")]
    pub deny: Vec<PathBuf>,
    /// `internet` keeps agents from what listens on this machine, `closed` closes the network; `open` changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// TCP ports that its agents cannot connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "ports")]
    pub deny_ports: Vec<u16>,
    /// `private` tightens; `shared` changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<Sharing>,
    /// `private` tightens; `shared` changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<Sharing>,
    /// Limits of one session. The lower of two limits holds.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_none", deserialize_with = "or_default")]
    pub limits: ResourceLimits,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ProjectSandbox {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The network of agents. The stricter value is the greater one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum NetworkSetting {
    /// Agents reach any host.
    Open,
    /// Agents reach other machines, and nothing that listens on this one.
    Internet,
    /// Agents reach no host.
    Closed,
}

/// The owner of a resource that agents use. The stricter value is the greater one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// The user's own.
    Shared,
    /// A separate one for agents.
    Private,
}

/// Behaviour where a machine cannot hold the core of the sandbox. A project cannot set it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum StepDown {
    /// Nothing starts.
    Refuse,
    /// A weaker sandbox is used, and its report names what it does not hold.
    Allow,
}

/// Limits of one session. Without one, the machine's own holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceLimits {
    /// Maximum number of processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Maximum number of open files of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Maximum size of a file, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_mb: Option<u64>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ResourceLimits {
    /// Returns true if no limit is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl SandboxSettings {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings for a project: of two values the stricter one.
    ///
    /// The denied paths of the project are not added, because the report of a policy names the file that a rule is from.
    #[must_use]
    pub fn tightened_by(&self, project: &ProjectSandbox) -> Self {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let mut tight = self.clone();
        // The enums are ordered by strictness, so the maximum is the stricter one.
        tight.network = self.network.max(project.network);
        // Missing is stricter than shared, so the maximum would let a project loosen what is built in.
        let tighter =
            |own: Option<Sharing>, project| if project == Some(Sharing::Private) { project } else { own };
        tight.tmp = tighter(self.tmp, project.tmp);
        tight.caches = tighter(self.caches, project.caches);
        // Both lists hold: a denial of either side stays.
        tight.deny_ports.extend(&project.deny_ports);
        tight.deny_ports.sort_unstable();
        tight.deny_ports.dedup();
        tight.limits.processes = lower(self.limits.processes, project.limits.processes);
        tight.limits.open_files = lower(self.limits.open_files, project.limits.open_files);
        tight.limits.file_size_mb = lower(self.limits.file_size_mb, project.limits.file_size_mb);
        tight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_can_only_tighten() {
        let mut settings = SandboxSettings {
            network: Some(NetworkSetting::Closed),
            tmp: Some(Sharing::Private),
            caches: Some(Sharing::Private),
            deny_ports: vec![1, 2],
            ..SandboxSettings::default()
        };
        settings.limits.processes = Some(10);
        let mut project = ProjectSandbox {
            network: Some(NetworkSetting::Open),
            tmp: Some(Sharing::Shared),
            caches: Some(Sharing::Shared),
            deny_ports: vec![2, 3],
            ..ProjectSandbox::default()
        };
        project.limits.processes = Some(20);
        let tight = settings.tightened_by(&project);
        assert_eq!(
            (tight.network, tight.tmp, tight.caches),
            (settings.network, settings.tmp, settings.caches)
        );
        assert_eq!((tight.deny_ports, tight.limits.processes), (vec![1, 2, 3], Some(10)));

        let loose = SandboxSettings { tmp: Some(Sharing::Shared), ..SandboxSettings::default() };
        project = ProjectSandbox {
            network: Some(NetworkSetting::Closed),
            tmp: Some(Sharing::Private),
            caches: Some(Sharing::Private),
            ..ProjectSandbox::default()
        };
        project.limits.open_files = Some(5);
        let tight = loose.tightened_by(&project);
        assert_eq!((tight.network, tight.tmp, tight.caches), (project.network, project.tmp, project.caches));
        assert_eq!(tight.limits.open_files, Some(5));
        // What a project says when the settings say nothing cannot loosen what is built in.
        let shared = Some(Sharing::Shared);
        let said = ProjectSandbox { tmp: shared, caches: shared, ..ProjectSandbox::default() };
        let tight = SandboxSettings::default().tightened_by(&said);
        assert_eq!((tight.tmp, tight.caches), (None, None));
    }
}
