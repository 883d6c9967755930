//! Foreign parts that fail when they are told to.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use watchfire_core::model::{Project, Task, TaskNumber};
use watchfire_core::orchestrator::OrchestratorBuilder;
use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::{Confined, NoSandbox, PolicyReport, Probe, Sandbox, SandboxPolicy, SandboxSet};
use watchfire_core::store::{
    Changes, Claim, DocumentName, Fence, Holder, NewTask, ProjectPatch, Revision, TaskList, TaskPatch,
    TaskQuery, TaskStore, Versioned,
};
use watchfire_core::terminal::{Line, PlainTerminal, Size, Snapshot, Terminal};
use watchfire_core::{Error, ErrorKind, Result};

/// What a call does that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Panics,
    Fails(ErrorKind),
    /// Another orchestrator has taken the claims.
    Loses,
    /// Nothing goes wrong; it is only counted.
    Passes,
}

/// A call that goes wrong: its name, its task if it is about one, how, and how often.
#[derive(Debug)]
struct Fault(&'static str, Option<TaskNumber>, How, usize);

/// The faults of a store, and the number of calls that met one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Vec<Fault>>>, Arc<AtomicUsize>, Listing, Listing);

/// Keeps tasks from being listed, while a test holds it.
pub(crate) type Listing = Arc<tokio::sync::Mutex<()>>;

impl Faults {
    /// Lets the next `times` calls of this name about this task go wrong.
    pub(crate) fn add(&self, call: &'static str, task: Option<TaskNumber>, how: How, times: usize) {
        self.0.lock().unwrap().push(Fault(call, task, how, times));
    }

    pub(crate) fn listing(&self) -> Listing {
        Arc::clone(&self.2)
    }

    /// While a test holds it, it keeps a list that was read from being returned.
    pub(crate) fn listed(&self) -> Listing {
        Arc::clone(&self.3)
    }

    pub(crate) fn met(&self) -> usize {
        self.1.load(Ordering::Acquire)
    }

    /// Returns true if the next call of this name loses its claims.
    fn loses(&self, call: &str) -> bool {
        let faults = self.0.lock().unwrap();
        faults.iter().find(|it| it.0 == call && it.3 > 0).is_some_and(|it| matches!(it.2, How::Loses))
    }

    fn meet(&self, call: &str, task: Option<TaskNumber>) -> Result<()> {
        let how = {
            let mut faults = self.0.lock().unwrap();
            let fault = faults.iter_mut().find(|it| it.0 == call && it.1 == task && it.3 > 0);
            fault.map(|fault| {
                fault.3 -= 1;
                fault.2
            })
        };
        let Some(how) = how else { return Ok(()) };
        self.1.fetch_add(1, Ordering::AcqRel);
        match how {
            How::Loses | How::Passes => Ok(()),
            How::Panics => panic!("the test wants {call} to panic"),
            How::Fails(kind) => Err(Error::new(kind, format!("the test wants {call} to fail"))),
        }
    }

    /// Puts a store with these faults over that of the files.
    pub(crate) fn build(&self, builder: OrchestratorBuilder) -> OrchestratorBuilder {
        let faults = self.clone();
        builder.stores(move |project| {
            let faults = faults.clone();
            async move {
                let inner = project.home.open_store(project.root, project.shared_dir).await?;
                Ok(Arc::new(Faulty { inner: Arc::new(inner), faults }) as Arc<dyn TaskStore>)
            }
        })
    }
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn TaskStore>,
    faults: Faults,
}

/// A stream that panics as its store is told.
struct Stream(Changes, Faults);

impl futures_core::Stream for Stream {
    type Item = watchfire_core::store::Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.0.as_mut().poll_next(context);
        if polled.is_ready() {
            self.1.meet("changes", None).unwrap();
        }
        polled
    }
}

#[async_trait]
impl TaskStore for Faulty {
    async fn project(&self) -> Result<Versioned<Project>> {
        self.inner.project().await
    }

    async fn update_project(
        &self,
        patch: ProjectPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Project>> {
        self.inner.update_project(patch, expected, fence).await
    }

    async fn list(&self, query: &TaskQuery) -> Result<TaskList> {
        self.faults.meet("list", None)?;
        let list = {
            let _listing = self.faults.2.lock().await;
            self.inner.list(query).await
        };
        for task in list.iter().flat_map(|list| &list.tasks) {
            self.faults.meet("listed", Some(task.value.task_number))?;
        }
        let _listed = self.faults.3.lock().await;
        list
    }

    async fn get(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        self.faults.meet("get", Some(number))?;
        self.inner.get(number).await
    }

    async fn create(&self, task: NewTask, fence: Option<Fence>) -> Result<Versioned<Task>> {
        self.inner.create(task, fence).await
    }

    async fn update(
        &self,
        number: TaskNumber,
        patch: TaskPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Task>> {
        self.faults.meet("update", Some(number))?;
        self.inner.update(number, patch, expected, fence).await
    }

    async fn reorder(&self, order: &[TaskNumber], fence: Option<Fence>) -> Result<()> {
        self.inner.reorder(order, fence).await
    }

    async fn purge(&self, number: TaskNumber) -> Result<()> {
        self.inner.purge(number).await
    }

    async fn document(&self, name: DocumentName) -> Result<Option<Versioned<String>>> {
        self.inner.document(name).await
    }

    async fn write_document(
        &self,
        name: DocumentName,
        text: &str,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<String>> {
        self.inner.write_document(name, text, expected, fence).await
    }

    fn subscribe(&self) -> Changes {
        self.faults.meet("subscribe", None).unwrap();
        Box::pin(Stream(self.inner.subscribe(), self.faults.clone()))
    }

    async fn claim(&self, number: TaskNumber, holder: &Holder, lease: Duration) -> Result<Claim> {
        self.faults.meet("claim", Some(number))?;
        self.inner.claim(number, holder, lease).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Claim>> {
        let loses = self.faults.loses("renew");
        self.faults.meet("renew", None)?;
        let lost = self.inner.renew(claims, lease).await?;
        Ok(if loses { claims.to_vec() } else { lost })
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.faults.meet("release", Some(claim.number))?;
        self.inner.release(claim).await
    }
}

/// A terminal that panics at the word `boom`.
#[derive(Debug)]
pub(crate) struct Fragile(PlainTerminal);

impl Fragile {
    pub(crate) fn boxed(size: Size) -> Box<dyn Terminal> {
        Box::new(Self(PlainTerminal::new(size)))
    }
}

impl Terminal for Fragile {
    fn feed(&mut self, bytes: &[u8]) {
        assert!(!bytes.windows(4).any(|word| word == b"boom"), "the test wants it");
        self.0.feed(bytes);
    }

    fn resize(&mut self, size: Size) {
        self.0.resize(size);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn scrollback_numbers(&self) -> std::ops::Range<u64> {
        self.0.scrollback_numbers()
    }

    fn scrollback(&self, range: std::ops::Range<u64>) -> Vec<Line> {
        self.0.scrollback(range)
    }
}

/// A sandbox that confines nothing, and panics at a command that contains `boom`.
#[derive(Debug)]
pub(crate) struct Loud;

impl Loud {
    pub(crate) fn build(builder: OrchestratorBuilder) -> OrchestratorBuilder {
        builder.sandboxes(SandboxSet::new(vec![Arc::new(Self)], |_| Ok(SandboxPolicy::builder())))
    }
}

impl Sandbox for Loud {
    fn name(&self) -> &'static str {
        "loud"
    }

    fn probe(&self) -> Probe {
        Probe::new(self.name(), true, Vec::new())
    }

    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
        Ok(PolicyReport::new(self.name(), policy.enforcement))
    }

    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
        assert!(!format!("{command:?}").contains("boom"), "the test wants it");
        NoSandbox.prepare(policy, command)
    }
}
