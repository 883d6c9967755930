//! Says what a person should know before agents work in a folder.

use std::path::Path;

use crate::commands::doctor;
use crate::{compose, git, text};
use watchfire_core::model::{KeyFile, Project, Settings, unknown_keys};

/// Largest number of files to name.
const NAMED: usize = 3;

/// Returns what hinders the work in a project, or will surprise its person.
pub(super) async fn of(root: &Path, project: &Project, settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    for (name, why) in doctor::problems(settings, root, project).await {
        found.push(format!("{}: {why}", name.replace('_', " ")));
    }
    let unseen = unseen(root);
    if !unseen.is_empty() {
        let mut names: Vec<_> = unseen.iter().take(NAMED).map(String::as_str).collect();
        names.extend((unseen.len() > NAMED).then_some("…"));
        let count = text::count(unseen.len(), "file");
        found.push(format!("{count} not committed, so not seen by agents: {}", names.join(", ")));
    }
    let keys = compose::unknown_settings(settings).into_iter().chain(unknown_keys(KeyFile::Project, project));
    found.extend(keys.map(|key| text::line(&key.to_string())));
    found
}

/// Returns the files of the checkout whose content is not in a commit.
fn unseen(root: &Path) -> Vec<String> {
    // A monitor that the repository names is a program, which nobody has asked for here.
    let status = ["-c", "core.fsmonitor=false", "status", "--porcelain", "--no-renames", "--", "."];
    let listed = git::git(root, &status).unwrap_or_default();
    let files = listed.lines().filter_map(|line| line.get(3..));
    files.filter(|file| *file != ".gitignore").map(text::line).collect()
}
