//! The variables of a request's caller.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The variables of the caller of a request, from which its sessions get theirs in place of the orchestrator's own. `HOME`
/// stays the orchestrator's, and what passes is what passes of its own: see `EnvironmentPolicy`.
///
/// They may hold secrets, so they are kept in memory only: the journal knows that there were some, `Debug` shows their names, and
/// after a restart the sessions get the orchestrator's, and a notice says so.
#[derive(Clone, Eq, PartialEq)]
pub struct CallerEnvironment(Option<Arc<BTreeMap<OsString, OsString>>>);

impl CallerEnvironment {
    /// Takes these variables.
    #[must_use]
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Some(Arc::new(variables.into_iter().collect())))
    }

    /// Returns the variables, or `None` if a restart has lost them.
    #[must_use]
    pub fn variables(&self) -> Option<&BTreeMap<OsString, OsString>> {
        self.0.as_deref()
    }
}

impl fmt::Debug for CallerEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variables() {
            Some(variables) => f.debug_set().entries(variables.keys()).finish(),
            None => f.write_str("lost"),
        }
    }
}

impl Serialize for CallerEnvironment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        "caller".serialize(to)
    }
}

impl<'de> Deserialize<'de> for CallerEnvironment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|_| Self(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_written_or_shown() {
        let environment = CallerEnvironment::new([("API_KEY".into(), "secret".into())]);
        let (text, shown) = (serde_json::to_string(&environment).unwrap(), format!("{environment:?}"));
        assert_eq!((text.as_str(), shown.as_str()), ("\"caller\"", "{\"API_KEY\"}"));
        let read: CallerEnvironment = serde_json::from_str(&text).unwrap();
        assert_eq!(read.variables(), None);
        assert_eq!(environment.variables().unwrap().len(), 1);
    }
}
