//! What the composer knows.

use std::path::PathBuf;

use crate::model::{Attempt, Mode, Phase, Project, SessionId, Task, TaskNumber};
use crate::{Error, ErrorKind, Result};

/// What a session is for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Assignment {
    /// Talk with a person.
    Chat,
    /// Do the work of a task.
    Execute(Box<Task>),
    /// Find work that remains, and write it as tasks.
    Generate,
    /// Write the project's definition.
    GenerateDefinition,
    /// Write tasks from the definition.
    GenerateTasks,
    /// Make a draft ready.
    Refine(Box<Task>),
}

impl Assignment {
    /// What a session of this mode and phase is for.
    ///
    /// # Errors
    /// `invalid_input` when the mode works on a task and there is none.
    pub fn new(mode: Mode, phase: Option<Phase>, task: Option<&Task>) -> Result<Self> {
        let task = || {
            task.cloned().map(Box::new).ok_or_else(|| {
                Error::new(ErrorKind::InvalidInput, "a session of this mode needs a task").with("mode", mode)
            })
        };
        match (mode, phase) {
            (Mode::Chat, _) => Ok(Self::Chat),
            (Mode::GenerateDefinition, _) => Ok(Self::GenerateDefinition),
            (Mode::GenerateTasks, _) => Ok(Self::GenerateTasks),
            (Mode::Wildfire, Some(Phase::Generate)) => Ok(Self::Generate),
            (Mode::Wildfire, Some(Phase::Refine)) => Ok(Self::Refine(task()?)),
            (Mode::Task | Mode::StartAll | Mode::Wildfire, _) => Ok(Self::Execute(task()?)),
        }
    }

    /// The task, where there is one.
    #[must_use]
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Execute(task) | Self::Refine(task) => Some(task),
            _ => None,
        }
    }

    /// The empty file that the agent makes when it is finished, where a file says so and not the task.
    #[must_use]
    pub fn done_file(&self) -> Option<&'static str> {
        match self {
            Self::Chat | Self::Execute(_) => None,
            Self::Generate => Some("generate_done.yaml"),
            Self::GenerateDefinition => Some("definition_done.yaml"),
            Self::GenerateTasks => Some("tasks_done.yaml"),
            Self::Refine(_) => Some("refine_done.yaml"),
        }
    }
}

/// Where things are, as the agent sees them.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SessionPaths {
    /// Where the agent works.
    pub cwd: PathBuf,
    /// The root of the project.
    pub project_root: PathBuf,
    /// The session's folder with its copies of the project's files.
    pub session_dir: PathBuf,
    /// Whether the sandbox shows that folder at its real place, `.watchfire` in the project root.
    pub bound: bool,
}

impl SessionPaths {
    /// A session in `cwd` whose copies are named by their own path.
    pub fn new(
        cwd: impl Into<PathBuf>,
        project_root: impl Into<PathBuf>,
        session_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            cwd: cwd.into(),
            project_root: project_root.into(),
            session_dir: session_dir.into(),
            bound: false,
        }
    }

    /// Says whether the sandbox shows the session's folder as `.watchfire` in the project root.
    #[must_use]
    pub fn with_bound(mut self, bound: bool) -> Self {
        self.bound = bound;
        self
    }

    /// The folder with the session's copies, as the agent sees it.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        if self.bound { self.project_root.join(".watchfire") } else { self.session_dir.clone() }
    }

    /// The folder of task files.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.files().join("tasks")
    }

    /// One task file.
    #[must_use]
    pub fn task_file(&self, task: TaskNumber) -> PathBuf {
        self.tasks().join(format!("{task}.yaml"))
    }

    /// What agents leave for later agents.
    #[must_use]
    pub fn memory(&self) -> PathBuf {
        self.files().join("memory.md")
    }

    /// The project's definition, where the session may write one.
    #[must_use]
    pub fn definition(&self) -> PathBuf {
        self.files().join("definition.md")
    }

    /// The agent's notes on how far it is.
    #[must_use]
    pub fn progress(&self) -> PathBuf {
        self.files().join("progress.md")
    }

    /// Where the agent says that it is blocked.
    #[must_use]
    pub fn signal(&self) -> PathBuf {
        self.files().join("signal.json")
    }

    /// Whether the agent works elsewhere than in the project root.
    #[must_use]
    pub fn in_worktree(&self) -> bool {
        self.cwd != self.project_root
    }
}

/// The attempt before this one, and what became of it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PreviousAttempt {
    /// Which one.
    pub attempt: Attempt,
    /// Why it did not succeed.
    pub setback: Setback,
    /// Whether its work is in the agent's folder; otherwise the agent starts again from the target.
    pub work_kept: bool,
}

impl PreviousAttempt {
    /// An attempt that ended in `setback` and whose work is still there.
    #[must_use]
    pub fn new(attempt: Attempt, setback: Setback) -> Self {
        Self { attempt, setback, work_kept: true }
    }

    /// Says whether its work is in the agent's folder.
    #[must_use]
    pub fn with_work_kept(mut self, work_kept: bool) -> Self {
        self.work_kept = work_kept;
        self
    }
}

/// Why an attempt did not succeed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Setback {
    /// It did not merge.
    Conflict {
        /// The branch it should have merged into.
        target: String,
        /// Each path with its conflicting hunks, where they are text.
        files: Vec<(String, Option<String>)>,
    },
    /// The agent ended without saying that it was done.
    Crashed,
    /// The agent said that it failed.
    Failed {
        /// In its words.
        reason: String,
    },
    /// A person set the task back to ready.
    Reopened,
    /// It took longer than allowed.
    TimedOut,
    /// The merged result did not pass.
    VerifyFailed {
        /// The command.
        command: String,
        /// What it wrote.
        output: String,
    },
}

/// Everything that goes into a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PromptContext {
    /// Which session; the agent repeats it in `signal.json`.
    pub session: SessionId,
    /// What the session is for.
    pub assignment: Assignment,
    /// The name of the project.
    pub project_name: String,
    /// What the project is; empty: not said.
    pub definition: String,
    /// Which try at the task this is.
    pub attempt: Attempt,
    /// The one before, where it matters.
    pub previous: Option<PreviousAttempt>,
    /// Where things are.
    pub paths: SessionPaths,
    /// The branch the agent works on, in a repository.
    pub branch: Option<String>,
    /// The branch its work goes to.
    pub target: Option<String>,
    /// The commands that its work must pass before it is merged.
    pub verify: Vec<String>,
    /// The person's standing instructions for this project; empty: none.
    pub instructions: String,
    /// What earlier agents left; empty: nothing.
    pub memory: String,
}

impl PromptContext {
    /// A first attempt in `project`; set the other parts with `with_*`.
    #[must_use]
    pub fn new(session: SessionId, assignment: Assignment, project: &Project, paths: SessionPaths) -> Self {
        Self {
            session,
            assignment,
            project_name: project.name.clone(),
            definition: project.definition.clone(),
            attempt: Attempt(1),
            previous: None,
            paths,
            branch: None,
            target: None,
            verify: project.verify.clone(),
            instructions: String::new(),
            memory: String::new(),
        }
    }

    /// Says which attempt this is, and what became of the one before.
    #[must_use]
    pub fn with_attempt(mut self, attempt: Attempt, previous: Option<PreviousAttempt>) -> Self {
        (self.attempt, self.previous) = (attempt, previous);
        self
    }

    /// Names the branch of the work and the branch it goes to.
    #[must_use]
    pub fn with_branches(mut self, branch: Option<String>, target: Option<String>) -> Self {
        (self.branch, self.target) = (branch, target);
        self
    }

    /// Adds the text of `secrets/instructions.md`: the person's own words.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Adds the text of `memory.md`: data, not instructions.
    #[must_use]
    pub fn with_memory(mut self, memory: impl Into<String>) -> Self {
        self.memory = memory.into();
        self
    }
}
