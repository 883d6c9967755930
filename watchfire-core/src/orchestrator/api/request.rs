//! Requests for runs and chats.

use crate::model::{SessionId, TaskNumber};
use crate::schedule::{Accept, ChatPlace, CommandId, RunOptions, Scope};
use crate::terminal::Size;

/// The setters that every request has for its `options`.
macro_rules! overrides {
    () => {
        /// Chooses the backend, ahead of task, project and settings.
        #[must_use]
        pub fn with_agent(mut self, agent: $crate::model::BackendName) -> Self {
            self.options.agent = Some(agent);
            self
        }

        /// Chooses the sandbox, ahead of project and settings.
        #[must_use]
        pub fn with_sandbox(mut self, sandbox: $crate::sandbox::SandboxChoice) -> Self {
            self.options.sandbox = Some(sandbox);
            self
        }

        /// Chooses the reaction to a sandbox that cannot enforce the policy. By default nothing starts.
        #[must_use]
        pub fn with_enforcement(mut self, enforcement: $crate::sandbox::Enforcement) -> Self {
            self.options.enforcement = enforcement;
            self
        }

        /// Gives sessions what passes of these variables instead of the orchestrator's, and looks for agents in their `PATH`.
        #[must_use]
        pub fn with_environment(
            mut self,
            variables: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        ) -> Self {
            self.options.environment = Some($crate::schedule::CallerEnvironment::new(variables));
            self
        }
    };
}
pub(crate) use overrides;

/// A request to run tasks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunRequest {
    /// The tasks.
    pub scope: Scope,
    /// The overrides.
    pub options: RunOptions,
    /// The caller's id, which makes the request idempotent.
    pub command: Option<CommandId>,
}

impl RunRequest {
    /// Returns a request for all ready tasks in work order, including tasks that become ready during the run.
    #[must_use]
    pub fn all() -> Self {
        Self { scope: Scope::All, options: RunOptions::default(), command: None }
    }

    /// Returns a request for wildfire: as [`all`](Self::all), and when nothing is left to do, drafts are refined and
    /// further tasks generated, until none are.
    #[must_use]
    pub fn wildfire() -> Self {
        Self { scope: Scope::Wildfire, options: RunOptions::default(), command: None }
    }

    /// Returns a request for one task. A draft becomes ready first.
    #[must_use]
    pub fn task(number: TaskNumber) -> Self {
        Self { scope: Scope::Task(number), options: RunOptions::default(), command: None }
    }

    /// Returns a request for some tasks, which run in work order. Drafts become ready first.
    #[must_use]
    pub fn tasks(numbers: impl IntoIterator<Item = TaskNumber>) -> Self {
        Self {
            scope: Scope::Tasks(numbers.into_iter().collect()),
            options: RunOptions::default(),
            command: None,
        }
    }

    overrides!();

    /// Chooses whether work is merged, ahead of project and settings.
    #[must_use]
    pub fn with_merge(mut self, merge: bool) -> Self {
        self.options.merge = Some(merge);
        self
    }

    /// Sends work back: the agent of the next attempt gets the text. A done task becomes ready first.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.options.note = Some(note.into());
        self
    }

    /// Makes the request idempotent under `command`.
    #[must_use]
    pub fn with_command(mut self, command: CommandId) -> Self {
        self.command = Some(command);
        self
    }

    /// Chooses the size of the terminals.
    #[must_use]
    pub fn with_size(mut self, size: Size) -> Self {
        self.options.size = size;
        self
    }
}

/// A request for a chat.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The overrides; `merge` has no effect.
    pub options: RunOptions,
    /// The caller's id, which makes the request idempotent.
    pub command: Option<CommandId>,
}

impl ChatRequest {
    /// Returns a request with the defaults of project and settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    overrides!();

    /// Chooses where the chat works.
    #[must_use]
    pub fn with_place(mut self, place: ChatPlace) -> Self {
        self.options.place = place;
        self
    }

    /// Goes on with a chat that has ended, one of [`ProjectHandle::ended_chats`](super::ProjectHandle::ended_chats): with its agent and
    /// in its place, whatever else is chosen.
    #[must_use]
    pub fn with_resume(mut self, session: SessionId) -> Self {
        self.options.resume = Some(session);
        self
    }

    /// Chooses the size of the terminal.
    #[must_use]
    pub fn with_size(mut self, size: Size) -> Self {
        self.options.size = size;
        self
    }
}

/// Choices of a person for a merge that they ask for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Branch to merge into, where it is not the one that the task began at.
    pub into: Option<String>,
    /// The obstacles that do not hold the merge.
    pub accept: Accept,
}

impl MergeOptions {
    /// Merges into this branch.
    #[must_use]
    pub fn with_into(mut self, branch: Option<String>) -> Self {
        self.into = branch;
        self
    }

    /// Merges in spite of these obstacles.
    #[must_use]
    pub fn with_accept(mut self, accept: Accept) -> Self {
        self.accept = accept;
        self
    }
}
