//! What a sandbox refused, as far as the output of failed programs shows it.

mod judge;
mod usual;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use judge::Refusals;

use super::Access;

/// Maximum length of a repeated line, in characters.
const REPEATED: usize = 300;

/// Something that the sandbox denied, as the output of a program shows.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The file or the service.
    #[serde(flatten)]
    pub what: Refused,
    /// Message of the program, cut after 300 characters.
    pub line: String,
}

/// The thing that a sandbox denied.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(untagged)]
pub enum Refused {
    /// An access to a file or folder.
    #[non_exhaustive]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// Access that was tried.
        access: Access,
        /// Rule that denies the access. `None` if no rule covers the path, which may then be read and not written.
        rule: Option<String>,
    },
    /// Something that programs report in words of their own, such as docker's socket or a login of git's.
    #[non_exhaustive]
    Usual {
        /// Why it is denied, and what a person can do.
        advice: String,
    },
}

impl Refusal {
    /// Makes a refusal of a line from an agent's program, which is shown to people.
    fn new(line: &str, what: Refused) -> Self {
        Self { what, line: line.chars().filter(|c| !c.is_control()).take(REPEATED).collect() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, line } = self;
        let (path, access, rule) = match what {
            Refused::Path { path, access, rule } => (path, access, rule),
            Refused::Usual { advice } => return write!(f, "{line}: {advice}"),
        };
        let what = match access {
            Access::Read => "reading",
            Access::Write => "writing",
        };
        let shown = path.display().to_string();
        // Most programs name the path in the line itself.
        let shown = if line.contains(&shown) { "it" } else { &shown };
        let why = rule.as_deref().unwrap_or("no rule allows it");
        write!(f, "{line}: the sandbox denies {what} {shown} ({why})")?;
        match access.setting(path, rule.as_deref()) {
            Some(setting) => write!(f, "; to allow it, in settings.yaml: {setting}"),
            None => Ok(()),
        }
    }
}

impl Access {
    /// Returns true if `settings.yaml` can give an access that `rule` denies. Rules of the project, and those that
    /// protect the repository, are not its to open.
    #[must_use]
    pub fn can_be_set(rule: Option<&str>) -> bool {
        // It opens what the base policy denies, and what it opened itself for reading only.
        let theirs = ["(base policy", "(settings: sandbox.read)", "(the main checkout is not the task's)"];
        rule.is_none_or(|rule| theirs.iter().any(|part| rule.contains(part)))
    }

    /// Returns the line of `settings.yaml` that gives this access to a path, which `rule` denies. Returns `None` if the
    /// settings [cannot](Self::can_be_set).
    #[must_use]
    pub fn setting(self, path: &Path, rule: Option<&str>) -> Option<String> {
        let key = match self {
            Self::Read => "read",
            Self::Write => "write",
        };
        // JSON is valid YAML, so the quotes of the path are right.
        Self::can_be_set(rule).then(|| format!("sandbox: {{{key}: [{}]}}", serde_json::json!(path)))
    }
}
