//! Killed at any moment, the next start goes on.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use libtest_mimic::Trial;
use watchfire_core::model::{SessionId, TaskNumber, TaskStatus};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::process::helper::RoleArgs;
use watchfire_core::schedule::{Change, Ending, StopReason};
use watchfire_core::session::{HostRequest, Hosted, HostedSession, InProcess, SessionHost};
use watchfire_core::store::TaskQuery;
use watchfire_core::{Error, ErrorKind, Result};

use super::faulty::{Faults, How};
use super::panics::is_internal;
use super::support::{
    DONE, Outcome, World, appears, builder, child, fake, gone, helper, make_project, orchestrator, until,
    within,
};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("killed_while_an_agent_works", killed_while_an_agent_works),
        trial("killed_after_the_claim", killed_after_the_claim),
        trial("held_work_that_was_taken_back_meanwhile_is_not_merged", held_work_that_was_taken_back),
        trial("stopped_work_is_withdrawn_before_its_end_is_told", stopped_work_is_withdrawn),
        trial("a_claim_whose_file_is_malformed_keeps_nothing_from_opening", a_claim_whose_file_is_malformed),
        trial(
            "a_claim_that_a_shutdown_overtakes_is_written_by_the_next_start",
            a_claim_that_a_shutdown_overtakes,
        ),
        trial(
            "a_claim_that_two_starts_cannot_write_is_written_by_the_third",
            a_claim_that_two_starts_cannot_write,
        ),
        trial("a_task_whose_claim_cannot_be_written_is_stopped", a_task_whose_claim_cannot_be_written),
        trial("work_that_was_done_when_it_was_stopped_is_known_to_be_unmerged", done_and_stopped_and_killed),
        trial("an_agent_that_does_not_end_fails_the_start", an_agent_that_does_not_end),
        trial("a_store_that_panics_while_recovering_ends_one_life", a_store_that_panics_while_recovering),
        trial("a_claim_whose_work_cannot_be_captured_merges_nothing", a_claim_whose_work_cannot_be_captured),
        trial("a_killed_run_without_merge_stays_without", a_killed_run_without_merge_stays_without),
    ]
}

watchfire_core::register_helper_role!("test-orchestrate", orchestrate);

/// Opens the project in the folder named by the first argument, runs all of it, and says so on stdout.
fn orchestrate(args: RoleArgs) -> i32 {
    let temp = PathBuf::from(&args.args()[0]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let root = make_project(&temp).await;
        let orchestrator = orchestrator(&temp, &fake(&temp)).await.unwrap();
        let project = orchestrator.open(root).await.unwrap();
        println!("open");
        std::io::stdout().flush().unwrap();
        let merge = args.args().len() == 1;
        let (stop, stopped, its) = (temp.join("stop"), temp.join("stopped"), project.clone());
        tokio::spawn(async move {
            appears(&stop).await;
            its.stop_all().await.unwrap();
            std::fs::write(stopped, "").unwrap();
        });
        project.run(RunRequest::all().with_merge(merge)).await.unwrap().wait().await.unwrap();
        // A run with nothing but a question is over. The end of this program would end its agent in order.
        if temp.join("hosted").exists() {
            std::future::pending::<()>().await;
        }
    });
    0
}

fn start(temp: &Path, more: &[&str]) -> Child {
    child("test-orchestrate").arg(temp).args(more).stdout(Stdio::null()).spawn().unwrap()
}

fn pid_in(path: &Path) -> i32 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

async fn killed_while_an_agent_works() {
    let world = World::new().await;
    let (pid_file, second) = (world.temp.path().join("pid"), world.temp.path().join("second"));
    // The first attempt hangs, the second one finds its traces and finishes.
    let script = format!(
        "if [ -e '{second}' ]; then {DONE}; else touch '{second}' \"$(dirname \"$SYSTEM_PROMPT\")/renewed\"; echo $$ > '{pid}.tmp'; mv '{pid}.tmp' '{pid}'; sleep 1000; fi",
        second = second.display(),
        pid = pid_file.display(),
    );
    let task = world.task("t", &script).await;
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));

    let mut child = start(temp.path(), &[]);
    appears(&pid_file).await;
    let agent = pid_in(&pid_file);
    child.kill().unwrap();
    child.wait().unwrap();
    gone(agent).await;

    let world = World::in_folder(temp).await;
    assert!(world.root().join("renewed").is_file(), "its backend was not asked to clean up");
    assert_eq!(world.read(task).await.status, TaskStatus::Ready);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    assert_eq!(world.read(task).await.agent_sessions, 2);
}

/// Kills an orchestrator whose agent has said that it is done and goes on. Returns its folders and the task.
async fn killed_with_a_claim(more: &[&str]) -> (tempfile::TempDir, TaskNumber) {
    let world = World::new().await;
    let claimed = world.temp.path().join("claimed");
    let script = format!("trap '' TERM HUP; {DONE}; touch '{}'; sleep 1000", claimed.display());
    let task = world.task("t", &script).await;
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));

    let mut child = start(temp.path(), more);
    appears(&claimed).await;
    child.kill().unwrap();
    child.wait().unwrap();
    (temp, task)
}

async fn killed_after_the_claim() {
    let (temp, task) = killed_with_a_claim(&[]).await;

    let world = World::in_folder(temp).await;
    within(async {
        while !world.fake.calls().contains(&"publish 0001".to_owned()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(world.read(task).await.status, TaskStatus::Done);
    assert_eq!(world.fake.calls().iter().filter(|call| call.starts_with("publish")).count(), 1);
}

async fn a_killed_run_without_merge_stays_without() {
    let (temp, task) = killed_with_a_claim(&["no-merge"]).await;

    let world = World::in_folder(temp).await;
    within(async {
        while world.project.tasks(&TaskQuery::new()).await.unwrap()[0].ending() != Some(&Ending::Unmerged) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(world.read(task).await.status, TaskStatus::Done);
    assert!(!world.fake.calls().iter().any(|call| call.starts_with("publish")));
}

/// The turn is paid for, whether the claim waits for the file already or comes with the end of the session.
async fn a_claim_that_a_shutdown_overtakes() {
    for waits in [true, false] {
        let mut world = World::hasty().await;
        let real = world.root().join(".watchfire/tasks/0001.yaml");
        let (kept, ready) = (world.temp.path().join("kept"), world.temp.path().join("ready"));
        let spoil = format!("cp '{0}' '{1}'; printf 'title: [' > '{0}'", real.display(), kept.display());
        let end = format!("end() {{ {spoil}; {DONE}; exit 0; }}");
        let script = match waits {
            true => format!("{end}; end"),
            false => format!(
                "{end}; trap end HUP TERM INT; touch '{}'; while :; do sleep 0.02; done",
                ready.display()
            ),
        };
        let task = world.task("t", &script).await;
        world.project.run(RunRequest::all()).await.unwrap();
        if waits {
            world.change(|it| matches!(it, Change::Notice(it) if it.message.contains("claim waits"))).await;
        } else {
            appears(&ready).await;
        }
        within(world.orchestrator.shutdown()).await;
        std::fs::copy(&kept, &real).unwrap();
        let mut world = World::in_folder(world.temp).await;
        let ending = world.ended(task).await;
        assert!(matches!(ending, Ending::Merged { .. }), "{waits}: {ending}");
        let opened = world.fake.calls().iter().filter(|call| call.starts_with("open")).count();
        assert_eq!(opened, 0, "{waits}: its agent had finished");
    }
}

async fn a_claim_whose_file_is_malformed() {
    let (temp, task) = killed_with_a_claim(&[]).await;
    let file = temp.path().join("my project/.watchfire/tasks/0001.yaml");

    // Somebody is about to edit it, and takes longer than a start may.
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}title: twice\n")).unwrap();
    std::fs::write(temp.path().join("hasty"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    std::fs::write(&file, good).unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert!(!world.fake.calls().iter().any(|call| call.starts_with("open")), "its agent had finished");
}

/// Kills an orchestrator whose agent has said that it is done, and opens the project while the task's file is malformed.
/// Returns the world, the file and its good content.
async fn opened_with_a_malformed_file() -> (World, TaskNumber, PathBuf, String) {
    let (temp, task) = killed_with_a_claim(&[]).await;
    let file = temp.path().join("my project/.watchfire/tasks/0001.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}title: twice\n")).unwrap();
    std::fs::write(temp.path().join("hasty"), "").unwrap();
    (World::in_folder(temp).await, task, file, good)
}

async fn a_claim_that_two_starts_cannot_write() {
    let (world, task, file, good) = opened_with_a_malformed_file().await;
    within(world.orchestrator.shutdown()).await;
    let World { temp, orchestrator, project, .. } = world;
    drop((orchestrator, project));

    let mut world = World::in_folder(temp).await;
    std::fs::write(&file, good).unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert!(!world.fake.calls().iter().any(|call| call.starts_with("open")), "its agent had finished");
    let sessions = world.orchestrator.home().state_dir(world.project.id()).join("sessions");
    within(async {
        while std::fs::read_dir(&sessions).unwrap().next().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn a_task_whose_claim_cannot_be_written() {
    let (mut world, task, ..) = opened_with_a_malformed_file().await;
    let life = world.life(|life| life.subject.task() == Some(task)).await;
    within(world.project.stop(life.id)).await.unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Stopped { by: StopReason::Requested, .. }), "{ending}");
}

/// Killed after the claim is in the task's file, and before the journal has it.
async fn done_and_stopped_and_killed() {
    let world = World::new().await;
    let script = "trap '' HUP TERM; cd ../../../..; touch up; sleep 1000";
    let task = world.task("t", script).await;
    let World { temp, orchestrator, project, .. } = world;
    let file = project.root().join(".watchfire/tasks/0001.yaml");
    orchestrator.shutdown().await;
    drop((project, orchestrator));

    let mut child = start(temp.path(), &[]);
    appears(&temp.path().join("up")).await;
    std::fs::write(temp.path().join("stop"), "").unwrap();
    appears(&temp.path().join("stopped")).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let is_status = |line: &&str| line.starts_with("status:");
    let rest: String = text.lines().filter(|line| !is_status(line)).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, format!("{rest}status: done\nsuccess: true\n")).unwrap();

    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(task).await, Ending::Stopped { by: StopReason::Requested, .. }));
    let info = world.project.infos(vec![world.read(task).await]).await.unwrap().remove(0);
    assert!(matches!(info.ending(), Some(Ending::Stopped { .. })), "{info:?}");
}

/// A host that cannot end sessions while it is told so.
#[derive(Debug)]
struct Stuck(InProcess, Arc<AtomicBool>);

#[async_trait]
impl SessionHost for Stuck {
    async fn launch(&self, request: HostRequest) -> Result<Hosted> {
        self.0.launch(request).await
    }

    async fn adopt(&self, session: &SessionId) -> Result<Option<Hosted>> {
        self.0.adopt(session).await
    }

    async fn list(&self) -> Result<Vec<HostedSession>> {
        self.0.list().await
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        if self.1.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Busy, "the test wants its agent to live on"));
        }
        self.0.end(session).await
    }
}

async fn an_agent_that_does_not_end() {
    let (temp, task) = killed_with_a_claim(&[]).await;
    let (root, fake) = (make_project(temp.path()).await, fake(temp.path()));
    let stuck = Arc::new(AtomicBool::new(true));
    let host = Stuck(InProcess::new(helper()), Arc::clone(&stuck));
    let again = builder(temp.path(), &fake).host(host).start().await.unwrap();
    let error = within(again.open(&root)).await.unwrap_err();
    assert_eq!(error.code(), "busy", "{}", error.report());

    stuck.store(false, Ordering::Release);
    let project = within(again.open(&root)).await.unwrap();
    let run = project.run(RunRequest::all()).await.unwrap();
    within(run.wait()).await.unwrap();
    let info = &project.tasks(&TaskQuery::new()).await.unwrap()[0];
    assert_eq!(info.task.task_number, task);
    let ending = info.ending();
    assert!(matches!(ending, Some(Ending::Merged { .. })), "{ending:?}");
    assert!(!fake.calls().iter().any(|call| call.starts_with("open")), "its agent had finished");
    within(again.shutdown()).await;
}

async fn a_claim_whose_work_cannot_be_captured() {
    let (temp, task) = killed_with_a_claim(&[]).await;
    let (root, fake) = (make_project(temp.path()).await, fake(temp.path()));
    fake.outcomes.lock().unwrap().insert(task, Outcome::Uncaptured);
    let again = builder(temp.path(), &fake).start().await.unwrap();
    let project = within(again.open(&root)).await.unwrap();
    let info = &project.tasks(&TaskQuery::new()).await.unwrap()[0];
    let ending = info.ending().unwrap_or_else(|| panic!("{info:?}"));
    assert!(matches!(&ending, Ending::Error { code, .. } if code == "workspace_broken"), "{ending}");
    within(again.shutdown()).await;
    let calls = fake.calls();
    assert!(
        !calls.iter().any(|call| call.starts_with("prepare") || call.starts_with("publish")),
        "{calls:?}"
    );
}

async fn a_store_that_panics_while_recovering() {
    let (temp, task) = killed_with_a_claim(&[]).await;
    let (root, fake) = (make_project(temp.path()).await, fake(temp.path()));
    let faults = Faults::default();
    faults.add("update", Some(task), How::Panics, 1);
    let again = faults.build(builder(temp.path(), &fake)).start().await.unwrap();
    let project = within(again.open(&root)).await.unwrap();
    assert_eq!(faults.met(), 1);
    let ending = project.tasks(&TaskQuery::new()).await.unwrap()[0].ending().cloned();
    assert!(ending.as_ref().is_some_and(is_internal), "{ending:?}");
    within(again.shutdown()).await;
}

/// Also where the first program could not do it: the next one does, and lets nothing else wait from before.
async fn stopped_work_is_withdrawn() {
    let mut world = World::new().await;
    let mut tasks = Vec::new();
    for title in ["stopped", "held"] {
        tasks.push(world.task(title, DONE).await);
    }
    world.fake.outcomes.lock().unwrap().extend(tasks.iter().map(|task| (*task, Outcome::Held)));
    within(world.project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
    let held = world.life(|life| life.state.word() == "held" && life.subject.task() == Some(tasks[0])).await;
    world.fake.outcomes.lock().unwrap().insert(tasks[0], Outcome::Panics("withdraw"));
    within(world.project.stop(held.id)).await.unwrap();
    until(|| world.fake.calls().contains(&"withdraw 0001".to_owned())).await;
    let infos = world.project.tasks(&TaskQuery::new()).await.unwrap();
    assert_eq!(infos[0].ending(), None, "it still waits");
    within(world.orchestrator.shutdown()).await;
    world.fake.outcomes.lock().unwrap().insert(tasks[0], Outcome::Held);
    world.fake.calls.lock().unwrap().clear();
    let again = builder(world.temp.path(), &world.fake).start().await.unwrap();
    let project = within(again.open(world.root())).await.unwrap();
    within(project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
    let ending = project.tasks(&TaskQuery::new()).await.unwrap()[0].ending().cloned();
    assert_eq!(ending, Some(Ending::stopped(StopReason::Requested)));
    within(again.shutdown()).await;
    let calls = world.fake.calls();
    let at =
        |call: &str| calls.iter().position(|it| it == call).unwrap_or_else(|| panic!("{call}: {calls:?}"));
    assert!(at("withdraw others than 0001 0002") < at("withdraw 0001"), "{calls:?}");
    assert!(at("withdraw 0001") < at("publish 0002"), "{calls:?}");
    assert!(!calls.contains(&"publish 0001".to_owned()), "{calls:?}");
}

async fn held_work_that_was_taken_back() {
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Held);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.open[&task].word(), "held", "{summary:?}");
    within(world.orchestrator.shutdown()).await;
    let file = world.root().join(format!(".watchfire/tasks/{task}.yaml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let draft = text.replace("status: \"done\"", "status: draft").replace("status: done", "status: draft");
    assert_ne!(draft, text);
    std::fs::write(&file, draft).unwrap();
    world.fake.outcomes.lock().unwrap().clear();
    world.fake.calls.lock().unwrap().clear();
    // Its publication is tried again before the board is known.
    let faults = Faults::default();
    faults.add("release", Some(task), How::Passes, 1);
    let listing = faults.listing().lock_owned().await;
    let again = faults.build(builder(world.temp.path(), &world.fake)).start().await.unwrap();
    let opening = tokio::spawn({
        let (again, root) = (again.clone(), world.root().to_owned());
        async move { again.open(root).await }
    });
    let has_published = || world.fake.calls().iter().any(|call| call.starts_with("publish"));
    within(async {
        while faults.met() == 0 && !has_published() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    drop(listing);
    let project = within(opening).await.unwrap().unwrap();
    within(project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
    within(again.shutdown()).await;
    assert!(!has_published(), "{:?}", world.fake.calls());
}
