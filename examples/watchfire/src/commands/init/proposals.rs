//! Proposes an agent and a verify command, from what is here.

use std::fs;
use std::path::Path;

use watchfire_core::model::Settings;

use crate::commands::doctor;
use crate::compose;

/// Returns the installed agents, each with its version, the preferred one first.
pub(super) fn agents(settings: &Settings) -> Vec<(String, String)> {
    let Ok(backends) = compose::backends(settings) else { return Vec::new() };
    let mut found: Vec<(String, String)> = backends
        .iter()
        .filter_map(|backend| {
            let located = doctor::locate(settings, backend.name()).ok()?;
            Some((backend.name().to_owned(), located.version.unwrap_or_default()))
        })
        .collect();
    // The agent without a model is the last resort.
    found.sort_by_key(|(name, _)| name == "scripted");
    found
}

/// Returns the command that tests such a project, if its files say what it is.
pub(super) fn verify(root: &Path) -> &'static str {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let has = |name: &str| root.join(name).is_file();
    if has("Cargo.toml") {
        "cargo test"
    } else if read("package.json").contains("\"test\":") {
        "npm test"
    } else if has("go.mod") {
        "go test ./..."
    } else if has("pytest.ini") || has("pyproject.toml") {
        "pytest"
    } else if ["Makefile", "makefile"]
        .iter()
        .any(|name| read(name).lines().any(|line| line.starts_with("test:")))
    {
        "make test"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_tested_by_its_own_tool() {
        for (name, content, command) in [
            ("Cargo.toml", "[package]", "cargo test"),
            ("package.json", r#"{"scripts": {"test": "vitest"}}"#, "npm test"),
            ("package.json", "{}", ""),
            ("go.mod", "module x", "go test ./..."),
            ("pyproject.toml", "[project]", "pytest"),
            ("Makefile", "all:\n\ntest: all\n", "make test"),
            ("Makefile", "all:\n", ""),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(name), content).unwrap();
            assert_eq!(verify(folder.path()), command, "{name}: {content}");
        }
    }
}
