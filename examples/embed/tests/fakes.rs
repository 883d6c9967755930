//! The bad days of an embedded orchestrator, without a process, git or a wait. `docs/embed-and-test.md` shows the first test.

use std::sync::Arc;
use std::time::Duration;

use watchfire_backends as _; // links the agents
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{LogStream, Orchestrator, ProjectHandle, RunRequest, Seen};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::{Change, Ending, Life, LifeState};
use watchfire_core::store::{NewProject, NewTask};
use watchfire_core::testing::{FakeAgent, FakeClock, FakeHost, FakeWorkspace};
use watchfire_core::workspace::{Obstacle, ObstacleKind, Workspace};
use watchfire_term::Emulator;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::test]
async fn a_limit_passes() -> Result {
    let it = World::new().await?;
    it.task("Greet").await?;
    let mut lives = it.project.subscribe(None).await?.changes;
    it.project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let agent = it.agent().await;

    // What the backend reads as a limit; the scripted agent's are in its title.
    agent.print("\x1b]2;scripted: blocked rate_limited try again in 3 hours\x07");
    until(&mut lives, |life| matches!(life.state, LifeState::Limited { until: Some(_), .. })).await;
    agent.print("\x1b]2;scripted: waiting\x07");
    it.clock.skip(Duration::from_secs(3 * 3600 + 60));
    until(&mut lives, |life| life.state == LifeState::Running).await;
    let typed = within(agent.typed()).await;
    assert!(String::from_utf8_lossy(&typed).contains("Go on"), "{typed:?}");

    std::fs::write(agent.folder().join("hello.txt"), "hello")?;
    agent.done()?;
    agent.exit(0);
    let life = until(&mut lives, Life::has_ended).await;
    assert!(matches!(life.ending(), Some(Ending::Merged { .. })), "{life:?}");
    assert_eq!(std::fs::read_to_string(it.project.root().join("hello.txt"))?, "hello");
    it.orchestrator.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_question_is_answered() -> Result {
    let it = World::new().await?;
    it.task("Ask").await?;
    let mut lives = it.project.subscribe(None).await?.changes;
    it.project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let agent = it.agent().await;

    agent.ask("1", "Which port?")?;
    let life = until(&mut lives, |life| matches!(life.state, LifeState::Asking { .. })).await;
    it.project.answer(life.id, "1", "8080").await?;
    let mut typed = String::new();
    while !typed.contains("8080") {
        typed += &String::from_utf8_lossy(&within(agent.typed()).await);
    }
    agent.failed("that port is taken")?;
    agent.exit(0);
    let life = until(&mut lives, Life::has_ended).await;
    assert!(
        matches!(life.ending(), Some(Ending::Failed { reason, .. }) if reason == "that port is taken"),
        "{life:?}"
    );
    it.orchestrator.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn merges_end_as_the_test_wants() -> Result {
    let it = World::new().await?;
    let (held, conflict) = (it.task("Held").await?, it.task("Conflict").await?);
    it.workspace.hold(held, Obstacle::new(ObstacleKind::LocalEdits, "the test wants it"));
    it.workspace.conflict(conflict, "a.txt");
    let run = it.project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let mut lives = it.project.subscribe(None).await?.changes;
    for _ in 0..2 {
        let agent = it.agent().await;
        agent.done()?;
        agent.exit(0);
    }
    let endings = within(run.wait()).await?.endings.clone();
    assert!(matches!(endings[&conflict], Ending::Conflict { .. }), "{endings:?}");
    let is_held = |life: &Life| matches!(life.state, LifeState::Held { .. });
    assert!(is_held(&until(&mut lives, |life| life.subject.task() == Some(held) && is_held(life)).await));

    it.workspace.release(held);
    it.project.merge(held).await?;
    let life = until(&mut lives, |life| life.subject.task() == Some(held) && life.has_ended()).await;
    assert!(matches!(life.ending(), Some(Ending::Merged { .. })), "{life:?}");
    it.orchestrator.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_session_shows_what_its_agent_prints_and_ends_with_it() -> Result {
    let it = World::new().await?;
    let task = it.task("Crash").await?;
    let mut lives = it.project.subscribe(None).await?.changes;
    let run = it.project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let agent = it.agent().await;
    until(&mut lives, |life| life.state == LifeState::Running).await;
    let session = it.project.session(agent.session()).ok_or("no session")?;

    agent.print("thinking");
    within(async {
        while !session.snapshot().text().contains("thinking") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run.stop();
    assert!(within(agent.typed()).await.is_empty(), "it was ended, and nothing was typed");
    let ending = &within(run.wait()).await?.endings[&task];
    assert!(matches!(ending, Ending::Stopped { .. }), "{ending:?}");
    it.orchestrator.shutdown().await;
    Ok(())
}

/// A project of the scripted agent over nothing but fakes.
struct World {
    orchestrator: Orchestrator,
    project: ProjectHandle,
    host: FakeHost,
    workspace: Arc<FakeWorkspace>,
    clock: FakeClock,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("project");
        std::fs::create_dir(&root)?;
        let (host, clock) = (FakeHost::new(), FakeClock::new());
        let workspace = Arc::new(FakeWorkspace::new(&root));
        let shared = Arc::clone(&workspace);
        let orchestrator = Orchestrator::builder()
            .home(folder.path().join("home"))
            .helper(Helper::at(env!("CARGO_BIN_EXE_embed"))?)
            .host(host.clone())
            .clock(clock.clone())
            .workspaces(move |_| Ok(Arc::clone(&shared) as Arc<dyn Workspace>))
            .terminals(Emulator::boxed)
            .default_backend("scripted")
            .start()
            .await?;
        orchestrator.home().init_project(&root, NewProject::new()).await?;
        let project = orchestrator.open(&root).await?;
        Ok(Self { orchestrator, project, host, workspace, clock, _folder: folder })
    }

    /// The agent of the next session.
    async fn agent(&self) -> FakeAgent {
        within(self.host.launched()).await
    }

    async fn task(&self, title: &str) -> Result<TaskNumber> {
        let task = NewTask::new(title).with_prompt("Work.").with_ready(true);
        Ok(self.project.store().create(task, None).await?.value.task_number)
    }
}

/// Waits for a life that is so.
async fn until(changes: &mut LogStream, wanted: impl Fn(&Life) -> bool) -> Life {
    within(async {
        loop {
            match changes.next().await {
                Some(Seen::Record(record)) => {
                    if let Change::Life(life) = record.change
                        && wanted(&life)
                    {
                        return *life;
                    }
                }
                Some(_) => {}
                None => panic!("the orchestrator ended"),
            }
        }
    })
    .await
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it took too long")
}
