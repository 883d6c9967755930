//! The variables of a request's caller.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The variables of the caller of a request, from which its sessions get theirs in place of the orchestrator's own. `HOME`
/// stays the orchestrator's, and what passes is what passes of its own: see `EnvironmentPolicy`.
///
/// They may hold secrets, so they are kept in memory only: the journal knows the names of those that look like one, and
/// `Debug` shows names. After a restart the sessions get the orchestrator's, unless a secret is missing there that the
/// agent would get: then its life is limited by [`VariablesGone`](crate::backend::IssueKind::VariablesGone).
#[derive(Clone, Eq, PartialEq)]
pub struct CallerEnvironment(Variables);

#[derive(Clone, Eq, PartialEq)]
enum Variables {
    Here(Arc<BTreeMap<OsString, OsString>>),
    /// Lost with a restart. Only the names of secrets among them are known.
    Lost(Vec<String>),
}

/// Length from which a value is masked, in bytes.
const SHORTEST: usize = 6;

/// The word in the journal that stands before the names.
const WRITTEN: &str = "caller";

impl CallerEnvironment {
    /// Takes these variables.
    #[must_use]
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Variables::Here(Arc::new(variables.into_iter().collect())))
    }

    /// Returns the variables, or `None` if a restart has lost them.
    #[must_use]
    pub fn variables(&self) -> Option<&BTreeMap<OsString, OsString>> {
        match &self.0 {
            Variables::Here(variables) => Some(variables),
            Variables::Lost(_) => None,
        }
    }

    /// Returns the names of the secrets that a restart has lost. Empty if nothing is lost.
    #[must_use]
    pub fn lost(&self) -> &[String] {
        match &self.0 {
            Variables::Here(_) => &[],
            Variables::Lost(secrets) => secrets,
        }
    }

    /// Returns `text` with `$NAME` in place of the value of each secret: an agent may repeat what it was given. Values of fewer than
    /// six bytes stay, because they stand in any text, and lost ones are not known.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let secrets = self.secrets().into_iter().filter_map(|name| {
            let value = self.variables()?.get(OsStr::new(name))?.to_str()?;
            (value.len() >= SHORTEST).then_some((value, name))
        });
        let mut secrets: Vec<_> = secrets.collect();
        // One may be a part of another.
        secrets.sort_unstable_by_key(|(value, _)| Reverse(value.len()));
        secrets.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, &format!("${name}")))
    }

    fn secrets(&self) -> Vec<&str> {
        match &self.0 {
            Variables::Here(all) => {
                // An empty one counts as missing wherever it is asked for.
                let set = all.iter().filter(|(_, value)| !value.is_empty());
                set.filter_map(|(name, _)| name.to_str()).filter(|name| is_secret(name)).collect()
            }
            Variables::Lost(secrets) => secrets.iter().map(String::as_str).collect(),
        }
    }
}

/// Returns true for the name of a variable that probably holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // One with a comma would be read as two.
    !name.contains(',')
        && ["KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH"].iter().any(|part| name.contains(part))
}

impl fmt::Debug for CallerEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Variables::Here(variables) => f.debug_set().entries(variables.keys()).finish(),
            Variables::Lost(secrets) => write!(f, "lost {secrets:?}"),
        }
    }
}

impl Serialize for CallerEnvironment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // One text, which programs read that knew only the word.
        let secrets = self.secrets();
        match secrets.is_empty() {
            true => WRITTEN.serialize(to),
            false => format!("{WRITTEN}:{}", secrets.join(",")).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for CallerEnvironment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let names = text.split_once(':').map_or("", |(_, names)| names);
        let secrets = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(Self(Variables::Lost(secrets)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_texts() {
        let variables =
            [("A_KEY", "sk-1234"), ("B_KEY", "sk-1234-5678"), ("C_KEY", "on"), ("LANG", "de_DE.UTF-8")];
        let environment = CallerEnvironment::new(variables.map(|(name, value)| (name.into(), value.into())));
        let said = "turn it on: sk-1234-5678, or sk-1234 in de_DE.UTF-8?";
        assert_eq!(environment.masked(said), "turn it on: $B_KEY, or $A_KEY in de_DE.UTF-8?");
        let lost: CallerEnvironment = serde_json::from_str("\"caller:A_KEY\"").unwrap();
        assert_eq!(lost.masked(said), said);
    }

    #[test]
    fn no_value_is_written_or_shown() {
        let environment =
            CallerEnvironment::new([("API_KEY".into(), "secret".into()), ("LANG".into(), "C".into())]);
        let (text, shown) = (serde_json::to_string(&environment).unwrap(), format!("{environment:?}"));
        assert_eq!((text.as_str(), shown.as_str()), ("\"caller:API_KEY\"", "{\"API_KEY\", \"LANG\"}"));
        assert_eq!((environment.variables().unwrap().len(), environment.lost().len()), (2, 0));
        let read: CallerEnvironment = serde_json::from_str(&text).unwrap();
        assert_eq!((read.variables(), read.lost()), (None, &["API_KEY".to_owned()][..]));
        assert_eq!(serde_json::to_string(&read).unwrap(), text, "a second restart knows as much");
        let plain = CallerEnvironment::new([("LANG".into(), "C".into())]);
        assert_eq!(serde_json::to_string(&plain).unwrap(), "\"caller\"");
        assert!(serde_json::from_str::<CallerEnvironment>("\"caller\"").unwrap().lost().is_empty());
    }
}
