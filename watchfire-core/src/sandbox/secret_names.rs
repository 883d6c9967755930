//! The usual names of secrets that projects keep beside their code.

use std::path::PathBuf;

use super::NamePattern;

/// Names of files with secrets beside code.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".env.*",
    ".env-*",
    ".env_*",
    "*.env",
    ".envrc",
    ".envrc.*",
    ".dev.vars",
    ".dev.vars.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.tfstate",
    "*.tfstate.backup",
    "*credentials*.json",
    "service-account*.json",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Names of their public twins.
const PUBLIC_NAMES: &[&str] = &[
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.pub.pem",
    ".env-example",
    ".env_example",
    ".env-sample",
    ".env_sample",
    ".env-template",
    ".env_template",
    "*example.env",
    "*sample.env",
    "*template.env",
];

impl NamePattern {
    /// Returns the pattern of the usual names below `root`, without their public twins such as `.env.example`.
    #[must_use]
    pub fn secrets(root: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            root: root.into(),
            names: owned(SECRET_NAMES),
            except: owned(PUBLIC_NAMES),
            origin: origin.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    fn pattern(name: &str) -> NamePattern {
        NamePattern { names: vec![name.to_owned()], ..NamePattern::secrets("/", "test") }
    }

    #[test]
    fn names_match_in_any_case_and_their_public_twins_do_not() {
        let secrets = NamePattern::secrets("/", "test");
        for name in [".env", ".ENV", "Prod.Env", ".env.local", "my-Credentials-2.JSON", "id_rsa", "x.pem"] {
            assert!(secrets.matches_name(OsStr::new(name)), "{name}");
        }
        for name in ["env", ".env.Example", "id_rsa2", "credentials.jso", "my.pub.pem", "", "key", ".envx"] {
            assert!(!secrets.matches_name(OsStr::new(name)), "{name}");
        }
        assert!(pattern("*").matches_name(OsStr::new("")) && pattern("a**b").matches_name(OsStr::new("ab")));
    }

    /// Says the same by trying every length for the first `*`.
    fn plainly(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|at| plainly(rest, &name[at..])),
            [first, rest @ ..] => {
                name.first().is_some_and(|there| there.eq_ignore_ascii_case(first))
                    && plainly(rest, &name[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn a_star_stands_for_anything(of in "[aAb*]{0,6}", name in "[aAb]{0,8}") {
            let found = pattern(&of).matches_name(OsStr::new(&name));
            prop_assert_eq!(found, plainly(of.as_bytes(), name.as_bytes()));
        }
    }
}
