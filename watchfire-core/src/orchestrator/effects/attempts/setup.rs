//! The project's setup commands in the folder of a task, before its agent starts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::files::{make_private, read_untrusted, replace};
use crate::model::{Mode, Task, TaskNumber, Timestamp};
use crate::orchestrator::compose::files;
use crate::orchestrator::effects::commands::{Commands, Failure, Place, check_secrets};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{Life, NoticeCode};
use crate::session::LogFile;
use crate::workspace::Opened;

/// Upper bound for the size of a note.
const NOTE: u64 = 1 << 20;

/// Runs the setup commands in a task's folder, unless they have run there. Returns the commands and their output for the
/// session's log, or the command that failed.
///
/// No session follows a setup that failed, so its output gets a log of its own.
pub(in crate::orchestrator::effects) async fn run(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: &Task,
    opened: &Opened,
) -> Result<std::result::Result<String, Failure>> {
    let (project, settings) = shared.settings().await?;
    let mut log = String::new();
    if project.setup.is_empty() {
        return Ok(Ok(log));
    }
    let (options, started_at) = (&life.options, shared.inner.clock.now());
    let number = task.task_number;
    let note = Note::new(&shared.state_dir, number, &opened.cwd, &project.setup)?;
    if note.is_written()? {
        return Ok(Ok(log));
    }
    check_secrets(shared, &settings, options)?;
    let place = Place {
        path: opened.cwd.clone(),
        rules: opened.policy_rules.clone(),
        binds: opened.binds.clone(),
        is_workspace: true,
        others: opened.others.clone(),
    };
    let commands = Commands::new(shared, &project, &settings, options, place).await?;
    for line in &project.setup {
        shared.notice(NoticeCode::Workspace, Some(number), format!("setting up: {line}"));
        let ran = commands.run(line).await?;
        let (output, how) = match &ran {
            Ok(output) => (output, None),
            Err(failure) => (&failure.output, Some(&failure.how)),
        };
        log.push_str(&format!("setup: {line}\n"));
        for text in Some(output).into_iter().chain(how).filter(|text| !text.is_empty()) {
            log.push_str(&format!("{text}\n"));
        }
        if let Err(failure) = ran {
            keep(shared, task, &started_at, &log).await;
            return Ok(Err(failure));
        }
    }
    // After the last command: a setup that was killed half-way runs again as a whole.
    blocking("noting that a folder is set up", move || note.write()).await?;
    Ok(Ok(log))
}

/// Writes the output of a setup that failed into a log of the task, in which no session is named.
async fn keep(shared: &Arc<ProjectShared>, task: &Task, started_at: &Timestamp, log: &str) {
    let (log, logs, id) = (log.to_owned(), shared.logs_dir.clone(), shared.id.to_string());
    let (of, started_at) = (task.clone(), started_at.clone());
    let write = move || {
        let (number, path) = files::next_log(&logs, Some(&of), Mode::Task, &started_at)?;
        let header = [
            ("project_id", id),
            ("task_number", of.task_number.value().to_string()),
            ("session_number", number.to_string()),
            ("agent", "setup".to_owned()),
            ("mode", Mode::Task.to_string()),
            ("started_at", started_at.to_string()),
        ];
        LogFile::create(&path, &header, &log).map(drop)
    };
    let written = blocking("keeping the output of a setup", write).await;
    if let Err(error) = written {
        let message = format!("no log of the setup: {}", error.report());
        shared.notice(NoticeCode::Session, Some(task.task_number), message);
    }
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
