//! The trait [`TaskStore`] and its types.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};

use super::document;
use super::{Claim, DocumentName, Fence, Holder, NewTask, ProjectPatch, TaskPatch};
use crate::model::{Project, Task, TaskNumber, TaskStatus};
use crate::{Error, ErrorKind, Result};

/// The tasks of one project.
///
/// **Implementers ensure** that
/// - every write is atomic: a reader sees the old state or the new one, never a mixture, also after a crash;
/// - a write with an expected [`Revision`] happens only if that is still the stored one, else it is a `conflict`;
///   without one it is applied to the stored state, field by field;
/// - unpatched fields, unknown ones among them, stay as they are;
/// - numbers are never given twice, also by several processes at once and after a purge;
/// - one unreadable task hides no other: it is reported in [`TaskList::malformed`], and stays in its last good state
///   where there is one. So does, for some seconds, a task that vanishes without having been deleted;
/// - every change, by any program, reaches every subscriber. Many changes at once arrive as one [`Change::Everything`];
/// - the store owns `created_at`, `updated_at` and, on the change to `done`, `completed_at`;
/// - fences only grow, also when the clock is set back and over deleted leases;
/// - a write with a [`Fence`] happens only while no later claim exists: [`update`](Self::update) of a task fails with
///   `claim_lost` if a higher fence was given for that task, any other write if the fence's own task was taken over.
///   The check and the write are one step. A write without a fence is a person's and is always allowed.
///
/// **Callers may not assume** that a task read a moment ago is unchanged, that a change arrives only once or only
/// for real differences, or that a claim holds longer than its lease.
#[async_trait]
pub trait TaskStore: Debug + Send + Sync + 'static {
    /// Returns the project.
    ///
    /// # Errors
    /// `malformed` without a last good state; `not_found`.
    async fn project(&self) -> Result<Versioned<Project>>;

    /// Changes the project.
    ///
    /// # Errors
    /// `conflict` when `expected` is not the stored revision; `claim_lost`.
    async fn update_project(
        &self,
        patch: ProjectPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Project>>;

    /// Returns the tasks that match, in work order, and the files that could not be read.
    ///
    /// # Errors
    /// Only when nothing at all can be listed.
    async fn list(&self, query: &TaskQuery) -> Result<TaskList>;

    /// Returns one task, in the trash or not. A task that is malformed or missing right now is returned in its last
    /// good state.
    ///
    /// # Errors
    /// `not_found`; `malformed` when there is no good state.
    async fn get(&self, number: TaskNumber) -> Result<Versioned<Task>>;

    /// Creates a task with the next free number. It comes last in the work order unless it has a position. A request whose
    /// [id](NewTask::request_id) created a task before, by any handle, changes nothing and returns that task as it is now,
    /// as long as it is not purged.
    ///
    /// # Errors
    /// `invalid_input` for an empty title, a dependency that does not exist, or an impossible id; `claim_lost`.
    async fn create(&self, task: NewTask, fence: Option<Fence>) -> Result<Versioned<Task>>;

    /// Changes a task.
    ///
    /// Setting `ready` or `draft` on a done task clears success, failure reasons and `completed_at`.
    ///
    /// # Errors
    /// `invalid_input` for an empty title or a task that depends on itself; `not_found`; `conflict` when `expected` is
    /// not the stored revision; `malformed` when the stored file cannot be edited without losing something;
    /// `claim_lost`.
    async fn update(
        &self,
        number: TaskNumber,
        patch: TaskPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Task>>;

    /// Sets the positions of these tasks to 1, 2, …, in this order, before all others.
    ///
    /// # Errors
    /// `not_found`, before anything is changed; `invalid_input` for a number twice; `claim_lost`.
    async fn reorder(&self, order: &[TaskNumber], fence: Option<Fence>) -> Result<()>;

    /// Removes a task in the trash for good.
    ///
    /// # Errors
    /// `not_found`; `invalid_input` when it is not in the trash.
    async fn purge(&self, number: TaskNumber) -> Result<()>;

    /// Returns a document, or `None` if the project has none of that name. The default implementation knows only the
    /// definition.
    ///
    /// # Errors
    /// `malformed` for anything but a text file; errors of the storage.
    async fn document(&self, name: DocumentName) -> Result<Option<Versioned<String>>> {
        match name {
            DocumentName::Definition => document::definition(self).await,
            _ => Ok(None),
        }
    }

    /// Replaces a document. For a document that does not exist yet, the expected revision is [`Revision::absent`].
    /// The default implementation knows only the definition.
    ///
    /// # Errors
    /// `conflict` when `expected` is not the stored revision; `claim_lost`; `not_supported`.
    async fn write_document(
        &self,
        name: DocumentName,
        text: &str,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<String>> {
        match name {
            DocumentName::Definition => document::write_definition(self, text, expected, fence).await,
            _ => Err(Error::new(ErrorKind::NotSupported, "the store keeps no such document")
                .with("document", name)),
        }
    }

    /// Returns a stream of changes from now on. Ends when the store is dropped.
    fn subscribe(&self) -> Changes;

    /// Claims a task for `holder`. At most one home holds a task at a time.
    ///
    /// Claiming again under the same holder extends the lease and keeps the fence. A claim of another start of the
    /// same home is taken over at once, with a higher fence: the caller holds the locks of its home and its
    /// repository, so that start has ended. A claim of another home is taken over once its lease has expired.
    ///
    /// # Errors
    /// `busy`, with the `holder`, while another home holds the task; `not_found`.
    async fn claim(&self, number: TaskNumber, holder: &Holder, lease: Duration) -> Result<Claim>;

    /// Extends claims by `lease` from now, all in one write, and returns those that were lost to another holder. A
    /// claim that has expired and that no other holder took is extended, as after the machine has slept.
    ///
    /// # Errors
    /// Errors of the storage; no claim is lost by them.
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Claim>>;

    /// Releases a claim. A claim that was lost stays with its new holder.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn release(&self, claim: &Claim) -> Result<()>;
}

/// Conveniences on top of the trait.
#[async_trait]
pub trait TaskStoreExt: TaskStore {
    /// Puts a task in the trash.
    ///
    /// # Errors
    /// `not_found`.
    async fn delete(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        self.update(number, TaskPatch::new().with_deleted(true), None, None).await
    }

    /// Takes a task out of the trash.
    ///
    /// # Errors
    /// `not_found`.
    async fn restore(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        self.update(number, TaskPatch::new().with_deleted(false), None, None).await
    }

    /// Removes all tasks in the trash for good, and returns their numbers. Continues after a failure, which it
    /// returns at the end.
    ///
    /// # Errors
    /// The first failure.
    async fn empty_trash(&self) -> Result<Vec<TaskNumber>> {
        let list = self.list(&TaskQuery::new().deleted_only()).await?;
        let (mut purged, mut failure) = (Vec::new(), None);
        for task in list.tasks {
            match self.purge(task.value.task_number).await {
                Ok(()) => purged.push(task.value.task_number),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(purged), Err)
    }

    /// Applies one patch to several tasks, continues after failures, and returns the result of each.
    async fn update_all(
        &self,
        numbers: &[TaskNumber],
        patch: &TaskPatch,
    ) -> Vec<(TaskNumber, Result<Versioned<Task>>)> {
        let mut results = Vec::with_capacity(numbers.len());
        for number in numbers {
            results.push((*number, self.update(*number, patch.clone(), None, None).await));
        }
        results
    }
}

impl<S: TaskStore + ?Sized> TaskStoreExt for S {}

/// A value and its revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// Its revision.
    pub revision: Revision,
}

/// A state of a stored thing. Opaque: compare for equality, or pass it back.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(Box<str>);

impl Revision {
    /// Returns the revision with the store's name `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the revision of a document that does not exist.
    #[must_use]
    pub fn absent() -> Self {
        Self::new("absent")
    }

    /// Returns the store's name for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Filter for tasks. The default selects all that are not in the trash.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TaskQuery {
    /// Selects this status only.
    pub status: Option<TaskStatus>,
    /// True to select the tasks in the trash, false to select the others.
    pub deleted: bool,
    /// Selects this label only.
    pub label: Option<String>,
}

impl TaskQuery {
    /// Selects all tasks that are not in the trash.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects this status only.
    #[must_use]
    pub fn with_status(mut self, status: TaskStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Selects this label only.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Selects the tasks in the trash instead.
    #[must_use]
    pub fn deleted_only(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Returns true if `task` matches.
    #[must_use]
    pub fn matches(&self, task: &Task) -> bool {
        task.is_deleted() == self.deleted
            && self.status.is_none_or(|status| task.status == status)
            && self.label.as_ref().is_none_or(|label| task.labels.contains(label))
    }
}

/// The tasks that match a query.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskList {
    /// The tasks in work order: position, then number.
    pub tasks: Vec<Versioned<Task>>,
    /// Files that could not be read.
    pub malformed: Vec<Malformed>,
}

impl TaskList {
    /// Returns a list of these tasks, sorted in work order.
    #[must_use]
    pub fn new(mut tasks: Vec<Versioned<Task>>, malformed: Vec<Malformed>) -> Self {
        tasks.sort_by_key(|task| task.value.work_order());
        Self { tasks, malformed }
    }
}

/// A file that does not follow its format.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Malformed {
    /// The file.
    pub path: PathBuf,
    /// The number of the task, if the name shows it.
    pub number: Option<TaskNumber>,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// The problem and the expected form.
    pub reason: String,
    /// True if the last good state is still in use.
    pub last_good_kept: bool,
}

impl Malformed {
    /// Returns a malformed file.
    pub fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), number: None, line: None, reason: reason.into(), last_good_kept: false }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        let error = Self::new(ErrorKind::Malformed, malformed.reason).with_path(malformed.path);
        match malformed.line {
            Some(line) => error.with("line", line),
            None => error,
        }
    }
}

/// Stream of changes. Changes coalesce while the reader is slow; none is lost.
pub type Changes = Pin<Box<dyn Stream<Item = Change> + Send>>;

/// A changed item, to be read again.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Change {
    /// The project.
    Project,
    /// A task: created, changed, deleted, malformed or well again.
    Task(TaskNumber),
    /// Anything. Everything has to be read again.
    Everything,
}
