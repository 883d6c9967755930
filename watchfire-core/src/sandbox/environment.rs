//! Selection of the variables that a confined command gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use super::policy::glob;

/// Selects the variables of this process that a confined command gets: those that match `allow` or `usual`, and not `deny`.
///
/// Patterns are literal names, or have one `*` that stands for anything. The default allows none.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentPolicy {
    /// Patterns of names that pass.
    pub allow: Vec<String>,
    /// Patterns of names that pass unless the value has a secret in it: an address with a login, such as a proxy with its
    /// password, a token, or an option that sets one.
    #[serde(default)]
    pub usual: Vec<String>,
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
        literal || ((matches(&self.allow) || matches(&self.usual)) && !matches(&self.deny))
    }

    /// Returns true if the variable passes with this value.
    #[must_use]
    pub fn passes_with(&self, name: &OsStr, value: &OsStr) -> bool {
        // The user who names a variable has decided about its value too.
        let is_named = name.to_str().is_some_and(|name| self.allow.iter().any(|pattern| pattern == name));
        is_named || (self.passes(name) && !value_has_secret(&value.to_string_lossy()))
    }

    /// Returns the variables that pass.
    #[must_use]
    pub fn filter(&self, environment: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        let passing = environment.iter().filter(|(name, value)| self.passes_with(name, value));
        passing.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Beginnings of values that are secrets, wherever they stand.
const TOKENS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "npm_",
    "pypi-",
    "xoxb-",
    "xoxp-",
    "sk-",
    "akia",
];

/// Length from which what begins so is more than a word.
const LONG: usize = 16;

/// Names of options and properties that set a secret, at the end of their own name: `--auth-token=`, `-Ddb.password=`.
const SETTING: &[&str] =
    &["token=", "password=", "passwd=", "passphrase=", "secret=", "apikey=", "api_key=", "api-key="];

/// Returns true if `value` is a token of a known service.
#[must_use]
pub fn is_token(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    value.len() >= LONG && TOKENS.iter().any(|begin| value.starts_with(begin))
}

fn value_has_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    // Anaconda's servers take a token as a part of the path.
    value_has_login(value)
        || value.split(['"', '\'', ' ', '=', ',', ';']).any(is_token)
        || SETTING.iter().any(|name| lower.contains(name))
        || (lower.contains("://") && lower.contains("/t/"))
}

/// Returns true if the value of a variable is or holds an address with a login, in any spelling that programs take.
fn value_has_login(value: &str) -> bool {
    // curl and Python also take a proxy without its scheme: `user:password@host:port`.
    let bare = value.strip_prefix("//").unwrap_or(value);
    let is_login =
        bare.rsplit_once('@').and_then(|(login, _)| login.split_once(':')).is_some_and(|(user, _)| {
            // The `:` of a list of folders stands after a `/`. A `:` before `//` ends the name of a scheme, and
            // `has_login` looks at what follows.
            !user.contains('/') && !bare.contains("://")
        });
    is_login || has_login(value)
}

/// Returns true if `text` holds an address with a user name or a password: `https://user:password@host/`.
#[must_use]
pub fn has_login(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        // A comma is legal in a password, and Python takes `?` and `#` in one too.
        let authority = rest.split(['/', '"', '\\', ' ']).next().unwrap_or_default();
        // A name without a password counts too, since some services take a token in its place.
        authority.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_login_passes_by_name_alone() {
        let with_login = "http://me:secret@proxy.invalid:3128/";
        let environment = [
            ("HTTP_PROXY", with_login),
            ("HTTPS_PROXY", "http://proxy.invalid:3128/"),
            ("CARGO_REGISTRIES_X_INDEX", "sparse+https://token@example.invalid/index/"),
            ("NAMED_PROXY", with_login),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
        let policy = EnvironmentPolicy {
            allow: vec!["NAMED_PROXY".to_owned()],
            usual: ["HTTP_PROXY", "HTTPS_PROXY", "CARGO_*"].map(str::to_owned).into(),
            deny: Vec::new(),
        };
        let passed: Vec<_> = policy.filter(&environment).into_keys().collect();
        assert_eq!(passed, ["HTTPS_PROXY", "NAMED_PROXY"]);
    }

    #[test]
    fn a_secret_among_options_is_seen() {
        for secret in [
            "https://conda.invalid/t/tk-123-abc/x",
            "ghp_0123456789abcdefghij",
            "--cfg key=\"sk-0123456789abcdefghij\"",
            "-Xmx1g -Dpassword=hunter2",
            "code --token=abc",
        ] {
            assert!(value_has_secret(secret), "{secret}");
        }
        for plain in [
            "/usr/bin:/home/me/.password-store/bin:/opt/token",
            "-C target-cpu=native",
            "sk-short",
            "code --wait",
            "https://proxy.invalid:3128/",
        ] {
            assert!(!value_has_secret(plain), "{plain}");
        }
    }

    #[test]
    fn a_login_is_seen_in_every_spelling_that_programs_take() {
        for login in [
            "http://me:secret@proxy.invalid:3128/",
            "https://token@example.invalid/index/",
            "http://me:se,cret@proxy.invalid:3128/",
            "http://me:se?cret@proxy.invalid:3128/",
            "http://me:se#cret@proxy.invalid:3128/",
            "me:secret@proxy.invalid:3128",
            "//me:se/cret@proxy.invalid:3128",
            "https://first.invalid,http://me:secret@second.invalid",
        ] {
            assert!(value_has_login(login), "{login}");
        }
        for plain in [
            "http://proxy.invalid:3128/",
            "proxy.invalid:3128",
            "https://proxy.golang.org,direct",
            "https://registry.invalid/@scope/pkg",
            "git@example.invalid:me/project.git",
            "/opt/a:/home/u/x@y/bin",
            "me@example.invalid",
            "unix:path=/run/user/1000/bus",
        ] {
            assert!(!value_has_login(plain), "{plain}");
        }
    }

    #[test]
    fn a_denial_beats_a_pattern_but_not_a_name() {
        let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let policy = EnvironmentPolicy {
            allow: strings(&["LC_*", "CARGO_*", "MY_TOKEN"]),
            usual: Vec::new(),
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
