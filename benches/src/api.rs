//! All that is used of the orchestrator: a project with tasks, opened, run and stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use watchfire_core::clock::SystemClock;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, Run, RunRequest};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::store::{Home, NewProject};
use watchfire_core::terminal::Size;
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfire_term::Emulator;

use crate::agent::Agent;

/// A runtime as programs have it, and as many descriptors as the machine allows.
///
/// # Errors
/// Errors of the system.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all)
        .map_err(|e| Error::io("raising the limit of descriptors", e.into()))?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the runtime", e))
}

/// A repository with a project of `tasks` ready tasks, all with the same prompt.
#[derive(Debug)]
pub struct World {
    /// The folder of the project.
    pub root: PathBuf,
    home: PathBuf,
    _temp: tempfile::TempDir,
}

impl World {
    /// Makes it.
    ///
    /// # Errors
    /// I/O errors and of git.
    pub async fn new(tasks: usize, parallel: usize, prompt: &str) -> Result<Self> {
        // Not below `/tmp`, which sandboxes replace and which may be memory.
        let builds = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        let temp = tempfile::Builder::new().prefix("sessions-").tempdir_in(builds);
        let temp = temp.map_err(|e| Error::io("making a scratch folder", e))?;
        let base = temp.path().canonicalize().map_err(|e| Error::io("finding the scratch folder", e))?;
        let (root, home) = (base.join("project"), base.join("home"));
        let made = make_repository(&root);
        made.map_err(|e| Error::io("making a repository", e))?;
        let store = Home::open(&home, Arc::new(SystemClock)).await?;
        store.init_project(&root, NewProject::default()).await?;
        let written = write_tasks(&root, tasks, parallel, prompt);
        written.map_err(|e| Error::io("writing tasks", e))?;
        Ok(Self { root, home, _temp: temp })
    }

    /// Starts an orchestrator.
    ///
    /// # Errors
    /// Errors of its start.
    pub async fn orchestrator(&self) -> Result<Orchestrator> {
        self.start(false).await
    }

    /// Starts an orchestrator that takes over the agents of the one before, and that its own outlive.
    ///
    /// # Errors
    /// Errors of its start.
    pub async fn hosted(&self) -> Result<Orchestrator> {
        self.start(true).await
    }

    async fn start(&self, hosted: bool) -> Result<Orchestrator> {
        Orchestrator::builder()
            .hosted(hosted)
            .home(&self.home)
            .linked_backends(false)
            .backend(Agent)
            .default_backend("bench")
            .automation(false)
            // Enough for a hundred readers of one session.
            .watchers(128, 1024)
            .sandboxes(watchfire_sandbox::sandboxes(Helper::current()?))
            .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, GitOptions::default())?)))
            .terminals(|size| Box::new(Emulator::new(size)))
            .start()
            .await
    }

    /// The task files.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(".watchfire/tasks")).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}

/// Runs all ready tasks, or only `task`.
///
/// # Errors
/// Errors of the run.
pub async fn run(project: &ProjectHandle, task: Option<usize>, sandbox: SandboxChoice) -> Result<Run> {
    let request = match task {
        Some(number) => RunRequest::task(number.to_string().parse()?),
        None => RunRequest::all(),
    };
    project.run(request.with_sandbox(sandbox).with_size(Size::new(120, 40))).await
}

/// Waits until `count` sessions have filled their screens.
///
/// # Errors
/// `timeout`.
pub async fn wait_for_screens(project: &ProjectHandle, count: usize) -> Result<()> {
    let deadline = std::time::Instant::now() + Duration::from_secs(600);
    let mut printed = 0;
    while printed < count {
        if std::time::Instant::now() > deadline {
            return Err(
                Error::new(ErrorKind::Timeout, "not all sessions have printed").with("printed", printed)
            );
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        // The last row holds the cursor.
        let is_full = |row: &str| row.trim_end().len() == 118;
        let sessions = project.sessions();
        printed = sessions.iter().filter(|session| is_full(session.snapshot().row_text(38))).count();
    }
    Ok(())
}

fn write_tasks(root: &Path, tasks: usize, parallel: usize, prompt: &str) -> std::io::Result<()> {
    let project = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&project)?;
    fs::write(&project, format!("{text}max_parallel: {parallel}\n"))?;
    let folder = root.join(".watchfire/tasks");
    fs::create_dir_all(&folder)?;
    let prompt = prompt.replace('\n', "\n  ");
    for n in 1..=tasks {
        let text = format!(
            "version: 1\ntask_id: \"{n:08}\"\ntask_number: {n}\ntitle: \"Task {n}\"\nprompt: |-\n  {prompt}\n\
             status: \"ready\"\nposition: {n}\nagent_sessions: 0\ncreated_at: \"2026-01-01T00:00:00Z\"\n\
             updated_at: \"2026-01-01T00:00:00Z\"\n"
        );
        fs::write(folder.join(format!("{n:04}.yaml")), text)?;
    }
    Ok(())
}

fn make_repository(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root)?;
    fs::write(root.join("file.txt"), "one\n")?;
    fs::write(root.join(".gitignore"), ".watchfire/\n")?;
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "bench"],
        &["config", "user.email", "bench@example.invalid"],
        &["add", "-A"],
        &["commit", "-q", "-m", "start"],
    ] {
        let status = Command::new("git").arg("-C").arg(root).args(words).status()?;
        if !status.success() {
            return Err(std::io::Error::other(format!("git {words:?} failed")));
        }
    }
    Ok(())
}
