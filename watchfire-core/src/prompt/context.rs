//! The input of the composer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::model::{AgentsMay, Attempt, Mode, Phase, Project, PromptSection, SessionId, Task, TaskNumber};
use crate::{Error, ErrorKind, Result};

/// The work of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Assignment {
    /// Talk with the user.
    Chat,
    /// Do the work of a task.
    Execute(Box<Task>),
    /// Find work that remains, and write it as tasks.
    Generate,
    /// Write the project's definition.
    GenerateDefinition,
    /// Write tasks from the definition.
    GenerateTasks,
    /// Turn a draft into a ready task.
    Refine(Box<Task>),
}

impl Assignment {
    /// Returns the assignment for a mode and phase.
    ///
    /// # Errors
    /// `invalid_input` if the mode works on a task and `task` is `None`.
    pub(crate) fn new(mode: Mode, phase: Option<Phase>, task: Option<&Task>) -> Result<Self> {
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
            // Wildfire's other phases are handled above, so this is its work on a task.
            (Mode::Task | Mode::StartAll | Mode::Wildfire, _) => Ok(Self::Execute(task()?)),
        }
    }

    /// Returns the task of the assignment, if it has one.
    #[must_use]
    pub(crate) fn task(&self) -> Option<&Task> {
        match self {
            Self::Execute(task) | Self::Refine(task) => Some(task),
            _ => None,
        }
    }

    /// Returns the name of the empty file by which the agent reports that it is finished. `None` if the task file does.
    #[must_use]
    pub(crate) fn done_file(&self) -> Option<&'static str> {
        match self {
            Self::Chat | Self::Execute(_) => None,
            Self::Generate => Some("generate_done.yaml"),
            Self::GenerateDefinition => Some("definition_done.yaml"),
            Self::GenerateTasks => Some("tasks_done.yaml"),
            Self::Refine(_) => Some("refine_done.yaml"),
        }
    }
}

/// Paths of a session, as the agent sees them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SessionPaths {
    /// Working directory of the agent.
    pub(crate) cwd: PathBuf,
    /// Root of the project.
    pub(crate) project_root: PathBuf,
    /// Folder with the session's copies of the project's files.
    pub(crate) session_dir: PathBuf,
    /// Set if the sandbox shows that folder as `.watchfire` in the project root, where the agent expects it.
    pub(crate) bound: bool,
}

impl SessionPaths {
    /// Creates the paths of a session whose folder is not bound to `.watchfire`.
    pub(crate) fn new(
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

    /// Returns the folder with the session's copies.
    #[must_use]
    pub(crate) fn files(&self) -> PathBuf {
        if self.bound { self.project_root.join(".watchfire") } else { self.session_dir.clone() }
    }

    /// Returns the folder of task files.
    #[must_use]
    pub(crate) fn tasks(&self) -> PathBuf {
        self.files().join("tasks")
    }

    /// Returns the path of a task file.
    #[must_use]
    pub(crate) fn task_file(&self, task: TaskNumber) -> PathBuf {
        self.tasks().join(format!("{task}.yaml"))
    }

    /// Returns the path of the notes that agents leave for later agents.
    #[must_use]
    pub(crate) fn memory(&self) -> PathBuf {
        self.files().join("memory.md")
    }

    /// Returns the path of the project's definition, for sessions that may write it.
    #[must_use]
    pub(crate) fn definition(&self) -> PathBuf {
        self.files().join("definition.md")
    }

    /// Returns the path of the agent's notes on its progress.
    #[must_use]
    pub(crate) fn progress(&self) -> PathBuf {
        self.files().join("progress.md")
    }

    /// Returns the path of the file by which the agent reports that it is blocked.
    #[must_use]
    pub(crate) fn signal(&self) -> PathBuf {
        self.files().join("signal.json")
    }

    /// Returns true if the agent works outside the project root.
    #[must_use]
    pub(crate) fn in_worktree(&self) -> bool {
        self.cwd != self.project_root
    }
}

/// The attempt before this one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PreviousAttempt {
    /// Number of the attempt.
    pub(crate) attempt: Attempt,
    /// Reason why it did not succeed.
    pub(crate) setback: Setback,
    /// Set if its work is in the agent's folder. Otherwise the agent starts from the target.
    pub(crate) work_kept: bool,
    /// A person's words about its work.
    pub(crate) note: Option<String>,
}

impl PreviousAttempt {
    /// Creates an attempt that ended in `setback` and whose work is in the agent's folder.
    #[must_use]
    pub(crate) fn new(attempt: Attempt, setback: Setback) -> Self {
        Self { attempt, setback, work_kept: true, note: None }
    }

    /// Sets a person's words about its work.
    #[must_use]
    pub(crate) fn with_note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// Sets whether its work is in the agent's folder.
    #[must_use]
    pub(crate) fn with_work_kept(mut self, work_kept: bool) -> Self {
        self.work_kept = work_kept;
        self
    }
}

/// The reason why an attempt did not succeed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub(crate) enum Setback {
    /// It asked, and was answered.
    Asked {
        /// Each question with its answer.
        answers: Vec<(String, String)>,
    },
    /// It did not merge.
    Conflict {
        /// Branch it was to be merged into.
        target: String,
        /// Conflicting paths, with their hunks if they are text.
        files: Vec<(String, Option<String>)>,
    },
    /// The agent ended without a claim.
    Crashed,
    /// The agent claimed failure.
    Failed {
        /// Reason in the agent's words.
        reason: String,
    },
    /// The user set the task back to ready.
    Reopened,
    /// The attempt took longer than allowed.
    TimedOut,
    /// The agent's turn ended, and with it its session, without a claim. This is the same attempt.
    Unclaimed,
    /// Verification of the merged result failed.
    VerifyFailed {
        /// Command that failed.
        command: String,
        /// Output of the command.
        output: String,
    },
}

/// The input of the composer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PromptContext {
    /// Id of the session. The agent repeats it in `signal.json`, so that a stale file is recognised.
    pub(crate) session: SessionId,
    /// Work of the session.
    pub(crate) assignment: Assignment,
    /// Name of the project.
    pub(crate) project_name: String,
    /// Definition of the project, or empty.
    pub(crate) definition: String,
    /// Number of this attempt.
    pub(crate) attempt: Attempt,
    /// Previous attempt, if the agent should know about one.
    pub(crate) previous: Option<PreviousAttempt>,
    /// Paths of the session.
    pub(crate) paths: SessionPaths,
    /// Branch that the agent works on; `None` without a repository.
    pub(crate) branch: Option<String>,
    /// Branch that the work is merged into.
    pub(crate) target: Option<String>,
    /// The agent's folders in other repositories.
    pub(crate) others: Vec<OtherFolder>,
    /// Commands that the merged result must pass.
    pub(crate) verify: Vec<String>,
    /// The user's standing instructions for this project, or empty.
    pub(crate) instructions: String,
    /// Notes of earlier agents, or empty.
    pub(crate) memory: String,
    /// Texts in place of the built-in ones. An empty text leaves its section out.
    pub(crate) wording: BTreeMap<PromptSection, String>,
    /// The commands by which the agent speaks with others, if it has them.
    pub(crate) commands: Option<Commands>,
}

/// An agent's folder in another repository than the project's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OtherFolder {
    /// The repository, relative to the project's root.
    pub(crate) repository: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) branch: Option<String>,
}

/// The commands by which an agent speaks with others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Commands {
    /// Path of the program, as the agent sees it.
    pub(crate) program: PathBuf,
    /// Permissions of the agent.
    pub(crate) may: AgentsMay,
}

impl PromptContext {
    /// Creates the context of a first attempt in `project`. Set the other parts with `with_*`.
    #[must_use]
    pub(crate) fn new(
        session: SessionId,
        assignment: Assignment,
        project: &Project,
        paths: SessionPaths,
    ) -> Self {
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
            others: Vec::new(),
            verify: project.verify.clone(),
            instructions: String::new(),
            memory: String::new(),
            wording: BTreeMap::new(),
            commands: None,
        }
    }

    /// Sets the commands that the agent has.
    #[must_use]
    pub(crate) fn with_commands(mut self, commands: Commands) -> Self {
        self.commands = Some(commands);
        self
    }

    /// Sets the number of this attempt, and the previous attempt.
    #[must_use]
    pub(crate) fn with_attempt(mut self, attempt: Attempt, previous: Option<PreviousAttempt>) -> Self {
        (self.attempt, self.previous) = (attempt, previous);
        self
    }

    /// Sets the agent's folders in other repositories.
    #[must_use]
    pub(crate) fn with_others(mut self, others: Vec<OtherFolder>) -> Self {
        self.others = others;
        self
    }

    /// Sets the agent's branch and the branch that it is merged into.
    #[must_use]
    pub(crate) fn with_branches(mut self, branch: Option<String>, target: Option<String>) -> Self {
        (self.branch, self.target) = (branch, target);
        self
    }

    /// Sets the text of `secrets/instructions.md`, which counts as instructions.
    #[must_use]
    pub(crate) fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Sets texts in place of the built-in ones.
    #[must_use]
    pub(crate) fn with_wording(mut self, wording: BTreeMap<PromptSection, String>) -> Self {
        self.wording = wording;
        self
    }

    /// Sets the text of `memory.md`, which counts as data.
    #[must_use]
    pub(crate) fn with_memory(mut self, memory: impl Into<String>) -> Self {
        self.memory = memory.into();
        self
    }
}
