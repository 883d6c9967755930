//! The project's setup commands in the folder of a task, before its agent starts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::files::{make_private, read_untrusted, replace};
use crate::model::TaskNumber;
use crate::orchestrator::effects::commands::{Commands, Failure, Place};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{NoticeCode, RunOptions};
use crate::workspace::Opened;

/// Upper bound for the size of a note.
const NOTE: u64 = 1 << 20;

/// Runs the setup commands in a task's folder, unless they have run there. Returns the one that failed.
pub(in crate::orchestrator::effects) async fn run(
    shared: &Arc<ProjectShared>,
    task: TaskNumber,
    opened: &Opened,
    options: &RunOptions,
) -> Result<Option<Failure>> {
    let (project, settings) = shared.settings().await?;
    if project.setup.is_empty() {
        return Ok(None);
    }
    let note = Note::new(&shared.state_dir, task, &opened.cwd, &project.setup)?;
    if note.is_written()? {
        return Ok(None);
    }
    let place = Place {
        path: opened.cwd.clone(),
        rules: opened.policy_rules.clone(),
        binds: opened.binds.clone(),
        is_workspace: true,
    };
    let commands = Commands::new(shared, &project, &settings, options, place).await?;
    for line in &project.setup {
        shared.notice(NoticeCode::Workspace, Some(task), format!("setting up: {line}"));
        if let Some(failure) = commands.run(line).await? {
            return Ok(Some(failure));
        }
    }
    // After the last command: a setup that was killed half-way runs again as a whole.
    blocking("noting that a folder is set up", move || note.write()).await?;
    Ok(None)
}

/// The note that the commands have run in a folder: with its identity, since a new attempt may have a new folder.
struct Note {
    path: PathBuf,
    text: String,
}

impl Note {
    fn new(state: &Path, task: TaskNumber, folder: &Path, lines: &[String]) -> Result<Self> {
        let failed = |error| crate::Error::io("looking at a task's folder", error).with_path(folder);
        let found = fs::metadata(folder).map_err(failed)?;
        // An inode is used again, so the time of creation is part of the identity.
        let made = found.created().ok();
        let text = format!("{} {} {made:?}\n{}", found.dev(), found.ino(), lines.join("\n"));
        Ok(Self { path: state.join("setup").join(task.to_string()), text })
    }

    fn is_written(&self) -> Result<bool> {
        Ok(read_untrusted(&self.path, NOTE)?.is_some_and(|note| note == self.text.as_bytes()))
    }

    fn write(&self) -> Result<()> {
        if let Some(folder) = self.path.parent() {
            make_private(folder)?;
        }
        replace(&self.path, self.text.as_bytes())
    }
}
