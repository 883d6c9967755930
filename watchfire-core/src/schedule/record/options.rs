//! Overrides of a request.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::BackendName;
use crate::sandbox::{Enforcement, SandboxChoice};
use crate::terminal::Size;

/// Overrides of one request. They hold for every session of every life that it owns, also after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOptions {
    /// The backend, ahead of task, project and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<BackendName>,
    /// The sandbox, ahead of project and settings.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_sandbox",
        deserialize_with = "read_sandbox"
    )]
    pub sandbox: Option<SandboxChoice>,
    /// The reaction to a sandbox that cannot enforce the policy.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// True to merge, false to keep the branch; ahead of project and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<bool>,
    /// Merge also work with conflict marks that its agent left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_marks: bool,
    /// The size of the terminals.
    #[serde(default, with = "size")]
    pub size: Size,
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn write_sandbox<S: Serializer>(choice: &Option<SandboxChoice>, to: S) -> Result<S::Ok, S::Error> {
    choice.as_ref().map(ToString::to_string).serialize(to)
}

/// Accepts any name. It was checked when the request came, and whether the sandbox still exists shows at the next
/// start.
fn read_sandbox<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SandboxChoice>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.map(|name| match name.as_str() {
        "auto" => SandboxChoice::Auto,
        "none" => SandboxChoice::None,
        _ => SandboxChoice::Named(name),
    }))
}

mod size {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Size};

    pub(in crate::schedule) fn serialize<S: Serializer>(size: &Size, to: S) -> Result<S::Ok, S::Error> {
        (size.cols(), size.rows()).serialize(to)
    }

    pub(in crate::schedule) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        <(u16, u16)>::deserialize(from).map(|(cols, rows)| Size::new(cols, rows))
    }
}
