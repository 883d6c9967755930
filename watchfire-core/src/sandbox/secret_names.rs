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
