//! Selection of the variables that a confined command gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use super::policy::glob;

/// Selects the variables of this process that a confined command gets: those that match `allow` and not `deny`.
///
/// Patterns are literal names, or have one `*` that stands for anything. The default allows none.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentPolicy {
    /// Patterns of names that pass.
    pub allow: Vec<String>,
    /// Patterns of names that do not pass, even if a pattern in `allow` matches. A literal name in `allow` is stronger.
    pub deny: Vec<String>,
}

impl EnvironmentPolicy {
    /// Returns true if the variable passes. Names that are not UTF-8 never do.
    #[must_use]
    pub fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        let literal = self.allow.iter().any(|pattern| pattern == name);
        let matches = |patterns: &[String]| patterns.iter().any(|pattern| glob(pattern, name));
        literal || (matches(&self.allow) && !matches(&self.deny))
    }

    /// Returns the variables that pass.
    #[must_use]
    pub fn filter(&self, environment: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        let passing = environment.iter().filter(|(name, _)| self.passes(name));
        passing.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_beats_a_pattern_but_not_a_name() {
        let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let policy = EnvironmentPolicy {
            allow: strings(&["LC_*", "CARGO_*", "MY_TOKEN"]),
            deny: strings(&["*_TOKEN"]),
        };
        for (name, passes) in [
            ("LC_ALL", true),
            ("CARGO_HOME", true),
            ("CARGO_REGISTRY_TOKEN", false),
            ("MY_TOKEN", true),
            ("X", false),
        ] {
            assert_eq!(policy.passes(OsStr::new(name)), passes, "{name}");
        }
    }
}
