//! Says what a person should know before agents work in a folder.

use std::path::Path;

use watchfire_core::model::{KeyFile, Project, Settings, unknown_keys};
use watchfire_core::{Error, ErrorKind, Result};

use crate::commands::doctor;
use crate::{compose, git, text};

/// Largest number of files to name.
const NAMED: usize = 3;

/// Refuses the home folder and `/`: a project there would hold everything that the person has.
pub(super) fn refuse_everything(root: &Path) -> Result<()> {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let is_home = home.is_some_and(|home| home == root);
    if root.parent().is_some() && !is_home {
        return Ok(());
    }
    let what = if is_home { "this is your home folder" } else { "this is the root of the file system" };
    Err(Error::new(ErrorKind::InvalidInput, format!("{what}, and a project is what agents may change"))
        .with_path(root)
        .with("hint", "make the project in a folder of its own, or say --force"))
}

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
