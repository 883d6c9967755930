//! The store on YAML files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::documents::has_file;
use super::engine::Engine;
use super::follow::{Pace, Watched, follow};
use super::{Watching, YamlOptions};
use crate::clock::Clock;
use crate::model::{Project, Task, TaskNumber};
use crate::store::changes::lock;
use crate::store::document;
use crate::store::{
    Changes, Claim, DocumentName, Fence, Holder, NewTask, ProjectPatch, Revision, TaskList, TaskPatch,
    TaskQuery, TaskStore, Versioned,
};
use crate::{Error, ErrorKind, Result};

/// Time limit for a file to become readable for an update.
const PATCHING: Duration = Duration::from_secs(2);
/// Pause between two attempts to update.
const PAUSE: Duration = Duration::from_millis(50);

/// The tasks of a project in its `.watchfire/` folder, in the layout of the spec.
///
/// Reads files of Watchfire 10, and writes files that Watchfire 10 can load. An edit changes the lines of the changed
/// fields and no other byte. New files are written whole, in the spec's order. A file that cannot be read is reported
/// and never overwritten; its last good state stays in use while the store is open.
///
/// Several stores, in this process and in others, may be open on one project. A lock in the state folder serialises
/// their writes. Other programs need not know the lock: a task file is exchanged in one step with the current one,
/// and an edit that came in between is merged, field by field. Where both sides set a field, the other side wins,
/// except for fields that the store owns (`agent_sessions`, `started_at`, `completed_at`, `updated_at`,
/// `merge_failure_reason`). Two windows remain. A program that opened the file before the exchange, did not empty it,
/// and writes into it, writes into the displaced file. And where the file system cannot exchange, a plain rename
/// follows a last comparison within microseconds.
///
/// [`reorder`](TaskStore::reorder) writes one file after the other, so a crash in the middle leaves part of the new
/// order. Claims lie in [`shared_dir`](YamlOptions::shared_dir), where all homes see them, and expire by the wall
/// clock.
///
/// Dropping the store ends its streams and its watch. It needs a tokio runtime with time.
#[derive(Debug)]
pub struct YamlStore {
    engine: Arc<Engine>,
    signal: Arc<Notify>,
}

impl YamlStore {
    /// Opens the store of the project whose root is `project_root`.
    ///
    /// # Errors
    /// `not_found` when it contains no `.watchfire/` folder; `malformed` when something else is in its place; errors
    /// of the system. A malformed `project.yaml` is no error here.
    pub async fn open(
        project_root: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        options: YamlOptions,
    ) -> Result<Self> {
        let root = project_root.into();
        let (time, settings) = (Arc::clone(&clock), options.clone());
        let engine = blocking(move || Engine::open(&root, clock, &settings).map(Arc::new)).await?;
        let signal = Arc::new(Notify::new());
        tokio::spawn(follow(Arc::downgrade(&engine), Arc::clone(&signal), time, Pace::from(&options)));
        Ok(Self { engine, signal })
    }

    /// Returns the root of the project, without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.engine.root
    }

    /// Returns the current source of changes by other programs.
    #[must_use]
    pub fn watching(&self) -> Watching {
        lock(self.engine.watching()).clone()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        blocking(move || work(&engine)).await
    }
}

impl YamlStore {
    /// Runs `work` in turn with the other writers of this process.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.engine.queue.turn().await;
        self.run(move |engine| {
            // Moved in, so that the turn lasts as long as the work, even if the caller stops waiting.
            let _turn = turn;
            work(engine)
        })
        .await
    }
}

impl Drop for YamlStore {
    fn drop(&mut self) {
        // Wakes the follower, which then finds the engine gone and ends.
        self.signal.notify_one();
    }
}

#[async_trait]
impl TaskStore for YamlStore {
    async fn project(&self) -> Result<Versioned<Project>> {
        self.run(Engine::project).await
    }

    async fn update_project(
        &self,
        patch: ProjectPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Project>> {
        let expected = expected.cloned();
        self.write(move |engine| engine.update_project(&patch, expected.as_ref(), fence)).await
    }

    async fn list(&self, query: &TaskQuery) -> Result<TaskList> {
        let query = query.clone();
        self.run(move |engine| engine.list(&query)).await
    }

    async fn get(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        self.run(move |engine| engine.get(number)).await
    }

    async fn create(&self, task: NewTask, fence: Option<Fence>) -> Result<Versioned<Task>> {
        self.write(move |engine| engine.create(&task, fence)).await
    }

    async fn update(
        &self,
        number: TaskNumber,
        patch: TaskPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Task>> {
        let clock = &self.engine.clock;
        // The lock is not held while waiting: the other program's save may need another writer of ours.
        let deadline = clock.boot_time() + PATCHING;
        loop {
            let (patch, expected) = (patch.clone(), expected.cloned());
            let result =
                self.write(move |engine| engine.update(number, &patch, expected.as_ref(), fence)).await;
            let (Err(error), now) = (&result, clock.boot_time()) else { return result };
            // Half of a save by another program: the file is empty, cut off or missing for a moment.
            // A task that was never seen does not come back; its caller gets the error at once.
            let may_pass = matches!(error.kind(), ErrorKind::Malformed | ErrorKind::NotFound)
                && self.engine.knows(number);
            if !may_pass || now >= deadline {
                return result;
            }
            clock.sleep_until(now + PAUSE).await;
        }
    }

    async fn reorder(&self, order: &[TaskNumber], fence: Option<Fence>) -> Result<()> {
        let order = order.to_vec();
        self.write(move |engine| engine.reorder(&order, fence)).await
    }

    async fn purge(&self, number: TaskNumber) -> Result<()> {
        self.write(move |engine| engine.purge(number)).await
    }

    async fn document(&self, name: DocumentName) -> Result<Option<Versioned<String>>> {
        if !has_file(name) {
            return document::definition(self).await;
        }
        self.run(move |engine| engine.document(name)).await
    }

    async fn write_document(
        &self,
        name: DocumentName,
        text: &str,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<String>> {
        if !has_file(name) {
            return document::write_definition(self, text, expected, fence).await;
        }
        let (text, expected) = (text.to_owned(), expected.cloned());
        self.write(move |engine| engine.write_document(name, &text, expected.as_ref(), fence)).await
    }

    fn subscribe(&self) -> Changes {
        self.engine.feed.subscribe()
    }

    async fn claim(&self, number: TaskNumber, holder: &Holder, lease: Duration) -> Result<Claim> {
        let holder = holder.clone();
        self.write(move |engine| engine.claim(number, &holder, lease)).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Claim>> {
        let claims = claims.to_vec();
        self.write(move |engine| engine.renew(&claims, lease)).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let claim = claim.clone();
        self.write(move |engine| engine.release(&claim)).await
    }
}

/// Runs blocking work on a thread for such work.
pub(in crate::store) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Internal, "the store's work ended early").with_source(error))
    })
}
