//! What people say about sandboxes: `sandbox` in `settings.yaml`, and `sandbox_rules` in `project.yaml`, which can only
//! tighten it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Extra;
use super::lenient::{map_or_default, or_default};

/// The person's grants and denials, and what agents' machine is like. A denial wins over a grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxSettings {
    /// Paths that agents may read although the base policy hides them. `~` is the home folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub read: Vec<PathBuf>,
    /// Paths that agents may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub write: Vec<PathBuf>,
    /// Paths that no agent may touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub deny: Vec<PathBuf>,
    /// Variables of ours that agents may have: names, or prefixes that end in `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub pass_env: Vec<String>,
    /// Variables that all agents get. Not for secrets: the file is no safe.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub env: BTreeMap<String, String>,
    /// Whether agents have the network; missing: they do, for they talk to their models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// TCP ports that agents cannot connect to, on any machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub deny_ports: Vec<u16>,
    /// Whether each session has a `/tmp` of its own; missing: it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<Sharing>,
    /// Whether the caches of package managers are the person's or the project's own; missing: the person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<Sharing>,
    /// What one session may use up.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_none", deserialize_with = "or_default")]
    pub limits: ResourceLimits,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a project adds: it can only tighten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectSandbox {
    /// Paths that its agents may not touch. `~` is the home folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub deny: Vec<PathBuf>,
    /// `closed`, or what the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// TCP ports that its agents cannot connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub deny_ports: Vec<u16>,
    /// `private`, or what the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<Sharing>,
    /// `private`, or what the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<Sharing>,
    /// The lower limit holds.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_none", deserialize_with = "or_default")]
    pub limits: ResourceLimits,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ProjectSandbox {
    /// The names of the fields that there are; whatever else is said becomes `extra`.
    pub const FIELDS: &[&str] = &["deny", "network", "deny_ports", "tmp", "caches", "limits"];

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether there is a network.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSetting {
    /// There is.
    Open,
    /// There is none.
    Closed,
}

/// Whether something is shared with the person.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// It is the person's.
    Shared,
    /// It is the agents' own.
    Private,
}

/// What one session may use up; missing: what the machine gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceLimits {
    /// How many processes and threads at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// How many files each process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// How large one file may grow, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_mb: Option<u64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ResourceLimits {
    /// The names of the fields that there are; whatever else is said becomes `extra`.
    pub const FIELDS: &[&str] = &["processes", "open_files", "file_size_mb"];

    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl SandboxSettings {
    /// The names of the fields that there are; whatever else is said becomes `extra`.
    pub const FIELDS: &[&str] =
        &["read", "write", "deny", "pass_env", "env", "network", "deny_ports", "tmp", "caches", "limits"];

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The settings for a project: of two values the stricter one. The project's denials are not among them, so that
    /// whoever is denied something can be told by whom.
    #[must_use]
    pub fn tightened_by(&self, project: &ProjectSandbox) -> Self {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let mut tight = self.clone();
        tight.network = self.network.max(project.network);
        // Missing means private there, so that only one of the two can say shared.
        tight.tmp = if project.tmp == Some(Sharing::Private) { project.tmp } else { self.tmp };
        tight.caches = self.caches.max(project.caches);
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
    use serde_json::{Value, from_value, json, to_value};

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
        let said = ProjectSandbox { tmp: Some(Sharing::Shared), ..ProjectSandbox::default() };
        assert_eq!(SandboxSettings::default().tightened_by(&said).tmp, None);
    }

    fn fields(value: impl Serialize) -> Vec<String> {
        let Value::Object(fields) = to_value(value).unwrap() else { panic!("no fields") };
        fields.keys().cloned().collect()
    }

    fn sorted(fields: &[&str]) -> Vec<String> {
        let mut fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
        fields.sort();
        fields
    }

    #[test]
    fn the_fields_that_are_named_are_those_that_there_are() {
        let limits = json!({"processes": 1, "open_files": 1, "file_size_mb": 1});
        let mut all = json!({
            "deny": ["/a"], "network": "closed", "deny_ports": [1], "tmp": "private", "caches": "private", "limits": limits,
        });
        let limits: ResourceLimits = from_value(limits).unwrap();
        let project: ProjectSandbox = from_value(all.clone()).unwrap();
        for (name, value) in [
            ("read", json!(["/a"])),
            ("write", json!(["/a"])),
            ("pass_env", json!(["A"])),
            ("env", json!({"A": "b"})),
        ] {
            all[name] = value;
        }
        let settings: SandboxSettings = from_value(all).unwrap();
        assert!(limits.extra.is_empty() && project.extra.is_empty() && settings.extra.is_empty());
        assert_eq!(fields(limits), sorted(ResourceLimits::FIELDS));
        assert_eq!(fields(project), sorted(ProjectSandbox::FIELDS));
        assert_eq!(fields(settings), sorted(SandboxSettings::FIELDS));
    }
}
