//! Tasks in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::changes::{Feed, lock};
use super::document;
use super::ledger::Ledger;
use super::plan::{self, no_such_task};
use super::{
    Change, Changes, Claim, DocumentName, Fence, Holder, NewTask, ProjectPatch, Revision, TaskList,
    TaskPatch, TaskQuery, TaskStore, Versioned,
};
use crate::clock::Clock;
use crate::model::{Project, Task, TaskId, TaskNumber};
use crate::{Error, ErrorKind, Result};

/// A [`TaskStore`] in memory: the reference for the trait's guarantees, for tests and for embedders whose tasks live
/// for one run.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    feed: Feed<Change>,
}

#[derive(Debug)]
struct State {
    project: Versioned<Project>,
    tasks: BTreeMap<TaskNumber, Versioned<Task>>,
    documents: BTreeMap<DocumentName, Versioned<String>>,
    ledger: Ledger,
    writes: u64,
}

impl State {
    fn next_revision(&mut self) -> Revision {
        self.writes += 1;
        Revision::new(self.writes.to_string())
    }

    fn put(&mut self, task: Task) -> Versioned<Task> {
        let stored = Versioned { revision: self.next_revision(), value: task };
        self.tasks.insert(stored.value.task_number, stored.clone());
        stored
    }
}

impl MemoryStore {
    /// Returns a store without tasks.
    pub fn new(project: Project, clock: Arc<dyn Clock>) -> Self {
        let project = Versioned { value: project, revision: Revision::new("0") };
        let (tasks, ledger) = (BTreeMap::new(), Ledger::default());
        let state = Mutex::new(State { project, tasks, documents: BTreeMap::new(), ledger, writes: 0 });
        Self { clock, state, feed: Feed::new(Change::Everything) }
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn project(&self) -> Result<Versioned<Project>> {
        Ok(lock(&self.state).project.clone())
    }

    async fn update_project(
        &self,
        patch: ProjectPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Project>> {
        plan::check_project(&patch)?;
        let mut state = lock(&self.state);
        fence.map_or(Ok(()), |fence| state.ledger.check(fence))?;
        check(&state.project.revision, expected)?;
        let mut project = state.project.value.clone();
        if patch.apply(&mut project, &self.clock.now()) {
            state.project = Versioned { revision: state.next_revision(), value: project };
            self.feed.send(&Change::Project);
        }
        Ok(state.project.clone())
    }

    async fn list(&self, query: &TaskQuery) -> Result<TaskList> {
        let state = lock(&self.state);
        Ok(TaskList::new(
            state.tasks.values().filter(|task| query.matches(&task.value)).cloned().collect(),
            Vec::new(),
        ))
    }

    async fn get(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        lock(&self.state).tasks.get(&number).cloned().ok_or_else(|| no_such_task(number))
    }

    async fn create(&self, new: NewTask, fence: Option<Fence>) -> Result<Versioned<Task>> {
        let mut state = lock(&self.state);
        fence.map_or(Ok(()), |fence| state.ledger.check(fence))?;
        if let Some(known) = plan::created(&new, state.tasks.values()) {
            return Ok(known);
        }
        plan::check_new(&new, |number| state.tasks.contains_key(&number))?;
        // An empty `next_task_number` in a file reads as 0, which is no task's number.
        let next = state.project.value.next_task_number.max(1);
        let number = TaskNumber::try_from(next)?;
        let id: TaskId = format!("m{next:07}").parse()?;
        let task = {
            let others = state.tasks.values().map(|task| &task.value);
            plan::new_task(new, id, number, others, &self.clock.now())
        };
        state.project.value.next_task_number = next.saturating_add(1);
        // The counter is a field of the project, so the project has another revision, too.
        state.project.revision = state.next_revision();
        let stored = state.put(task);
        self.feed.send(&Change::Task(number));
        self.feed.send(&Change::Project);
        Ok(stored)
    }

    async fn update(
        &self,
        number: TaskNumber,
        patch: TaskPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Task>> {
        let mut state = lock(&self.state);
        fence.map_or(Ok(()), |fence| state.ledger.check_task(number, fence))?;
        let depends_on = |task: &Versioned<Task>| task.value.depends_on.clone();
        plan::check_patch(number, &patch, |number| state.tasks.get(&number).map(depends_on))?;
        let mut stored = state.tasks.get(&number).cloned().ok_or_else(|| no_such_task(number))?;
        check(&stored.revision, expected)?;
        if patch.apply(&mut stored.value, &self.clock.now()) {
            stored = state.put(stored.value);
            self.feed.send(&Change::Task(number));
        }
        Ok(stored)
    }

    async fn reorder(&self, order: &[TaskNumber], fence: Option<Fence>) -> Result<()> {
        let mut state = lock(&self.state);
        fence.map_or(Ok(()), |fence| state.ledger.check(fence))?;
        let tasks: Vec<Task> = state.tasks.values().map(|task| task.value.clone()).collect();
        // All checks come before the first write, so that an error leaves every task in its place.
        for (number, position) in plan::reorder(&tasks, order)? {
            if let Some(task) = tasks.iter().find(|task| task.task_number == number) {
                let mut task = task.clone();
                TaskPatch::new().with_position(position).apply(&mut task, &self.clock.now());
                state.put(task);
                self.feed.send(&Change::Task(number));
            }
        }
        Ok(())
    }

    async fn purge(&self, number: TaskNumber) -> Result<()> {
        let mut state = lock(&self.state);
        match state.tasks.get(&number) {
            None => return Err(no_such_task(number)),
            Some(task) if !task.value.is_deleted() => return Err(plan::not_in_trash(number)),
            Some(_) => {}
        }
        state.tasks.remove(&number);
        state.ledger.forget(number);
        self.feed.send(&Change::Task(number));
        Ok(())
    }

    async fn document(&self, name: DocumentName) -> Result<Option<Versioned<String>>> {
        match name {
            DocumentName::Definition => document::definition(self).await,
            name => Ok(lock(&self.state).documents.get(&name).cloned()),
        }
    }

    async fn write_document(
        &self,
        name: DocumentName,
        text: &str,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<String>> {
        if name == DocumentName::Definition {
            return document::write_definition(self, text, expected, fence).await;
        }
        let mut state = lock(&self.state);
        fence.map_or(Ok(()), |fence| state.ledger.check(fence))?;
        let absent = Revision::absent();
        check(state.documents.get(&name).map_or(&absent, |stored| &stored.revision), expected)?;
        let written = Versioned { value: text.to_owned(), revision: state.next_revision() };
        state.documents.insert(name, written.clone());
        Ok(written)
    }

    fn subscribe(&self) -> Changes {
        self.feed.subscribe()
    }

    async fn claim(&self, number: TaskNumber, holder: &Holder, lease: Duration) -> Result<Claim> {
        let mut state = lock(&self.state);
        if !state.tasks.contains_key(&number) {
            return Err(no_such_task(number));
        }
        state.ledger.claim(number, holder, lease, &self.clock.now())
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Claim>> {
        Ok(lock(&self.state).ledger.renew(claims, lease, &self.clock.now()))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        lock(&self.state).ledger.release(claim);
        Ok(())
    }
}

fn check(stored: &Revision, expected: Option<&Revision>) -> Result<()> {
    match expected {
        Some(expected) if expected != stored => {
            Err(Error::new(ErrorKind::Conflict, "it has changed since it was read"))
        }
        _ => Ok(()),
    }
}
