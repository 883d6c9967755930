//! `watchfire backup` and `watchfire restore`: settings and tasks, kept in the repository.

use serde_json::json;
use watchfire_git::GitOptions;

use crate::context::{Context, workspace};
use crate::failure::{Exit, Result};
use crate::text;

/// Warning about the usual command that removes `.watchfire/`.
pub(crate) const WARNING: &str =
    "git clean -fdx deletes .watchfire/ with all tasks and settings; watchfire restore brings them back";

pub(crate) async fn save(context: &Context) -> Result<Exit> {
    let root = context.project().await?.root;
    let saved = workspace(&root, GitOptions::default()).await?.back_up().await?;
    context.out.report(json!({ "commit": saved.as_ref().map(|commit| commit.as_str()) }), |_| match &saved {
        Some(commit) => format!("saved settings and tasks as {} (refs/watchfire/backup)\n", commit.short()),
        None => "nothing has changed since the last backup\n".to_owned(),
    });
    Ok(Exit::Good)
}

/// Restores the files of the backup that are missing. No project is opened, because its own files may be gone.
pub(crate) async fn restore(context: &Context) -> Result<Exit> {
    // Not the project around the folder: without project.yaml none can be found.
    let root = context.directory()?;
    let restored = workspace(&root, GitOptions::default()).await?.restore_backup().await?;
    let restored: Vec<_> = restored.iter().map(|path| format!(".watchfire/{path}")).collect();
    context.out.report(json!({ "restored": restored }), |_| match restored.is_empty() {
        true => "nothing is missing that a backup has\n".to_owned(),
        false => restored.iter().map(|path| format!("restored {}\n", text::line(path))).collect(),
    });
    Ok(Exit::Good)
}
