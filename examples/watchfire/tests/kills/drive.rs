//! The orchestrator that is killed: it works on all tasks, does what a person would do, and follows the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use watchfire_core::model::TaskStatus;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, RunRequest, Snapshot};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::schedule::{
    Life, LifeState, Request, ResumeTarget, RunOptions, Scope, StopReason, Subject,
};
use watchfire_git::GitWorkspace;

use crate::agent::Shell;
use crate::driver::{ask, follow, subscribe};
use crate::world::{EDITED, EDITS, IS_STOPPED, TASKS};

watchfire_core::register_helper_role!("test-kills", role);

/// Works on the project below the folder that the first argument names, to its end. The second says whether what was cut
/// off goes on by itself.
fn role(args: RoleArgs) -> i32 {
    let (folder, resume) = (PathBuf::from(&args.args()[0]), args.args()[1] == "resume");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match args.args()[1] == "panic" {
        true => runtime.block_on(outlive_a_panic(&folder)),
        false => runtime.block_on(drive(&folder, resume)),
    }
    0
}

/// Waits for everything that can be waited for while the dispatcher panics, and sees all of it end.
async fn outlive_a_panic(folder: &Path) {
    let (orchestrator, project) = open(folder, true).await;
    let mut changes = project.subscribe(None).await.unwrap().changes;
    let run = project.run(RunRequest::all()).await.unwrap();
    let waiting = tokio::spawn(async move { run.wait().await.map(drop) });
    let reading = tokio::spawn(async move { while changes.next().await.is_some() {} });
    let life = loop {
        let lives = project.subscribe(None).await.unwrap().snapshot.lives;
        let is_it = |life: &&Life| {
            life.subject.task().is_some_and(|task| task.value() == IS_STOPPED)
                && life.state == LifeState::Running
        };
        match lives.iter().find(is_it) {
            Some(life) if folder.join("parked").exists() => break life.id,
            _ => {}
        }
        for life in &lives {
            // So that all tasks get their turn.
            let _ = match &life.state {
                LifeState::Limited { .. } => project.resume(ResumeTarget::Life(life.id)).await,
                LifeState::Asking { .. } => project.answer(life.id, "port", "8080").await,
                _ => Ok(()),
            };
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let ended = tokio::time::timeout(Duration::from_secs(30), async {
        assert_eq!(project.stop(life).await.unwrap_err().code(), "cancelled");
        assert_eq!(waiting.await.unwrap().unwrap_err().code(), "cancelled");
        reading.await.unwrap();
        assert_eq!(project.run(RunRequest::all()).await.unwrap_err().code(), "cancelled");
        assert_eq!(project.subscribe(None).await.unwrap_err().code(), "cancelled");
        orchestrator.shutdown().await;
        for session in project.sessions() {
            session.ended().await;
        }
    });
    ended.await.expect("somebody waits for ever");
}

async fn drive(folder: &Path, resume: bool) {
    let (orchestrator, project) = open(folder, resume).await;
    let follower = tokio::spawn(follow(subscribe(&project, &folder.join("log")).await, folder.join("log")));
    ask(&project, folder, "run", Request::run(Scope::Wildfire, RunOptions::default())).await;
    ask(&project, folder, "chat", Request::chat(RunOptions::default())).await;
    let mut runs = 0;
    loop {
        let snapshot = project.subscribe(None).await.unwrap().snapshot;
        let is_over = snapshot.runs.iter().all(|run| run.ended.is_some());
        if snapshot.lives.is_empty() && is_over && !left(&snapshot) {
            break;
        }
        for life in &snapshot.lives {
            tend(&project, folder, life, &snapshot).await;
        }
        if is_over {
            // What was cut off goes on, and what had not begun starts.
            let _ = project.resume(ResumeTarget::All).await;
            if left(&snapshot) {
                runs += 1;
                assert!(runs < 20, "the tasks do not come to an end: {snapshot:#?}");
                // Every other one without wildfire.
                let scope = if runs % 2 == 0 { Scope::All } else { Scope::Wildfire };
                let request = Request::run(scope, RunOptions::default());
                let _ = project.request(None, request).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    orchestrator.shutdown().await;
    drop(project);
    follower.await.unwrap();
    fs::write(folder.join("finished"), "").unwrap();
}

async fn open(folder: &Path, resume: bool) -> (Orchestrator, ProjectHandle) {
    let helper = Helper::at(std::env::current_exe().unwrap()).unwrap();
    let orchestrator = Orchestrator::builder()
        .helper(helper)
        .home(folder.join("watchfire-home"))
        .linked_backends(false)
        .backend(Shell("shell"))
        .backend(Shell("limited"))
        .default_backend("shell")
        .resume(resume)
        .hosted(folder.join("hosted").exists())
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, Default::default())?)))
        .start()
        .await
        .unwrap();
    let project =
        orchestrator.open(folder.join("project")).await.unwrap_or_else(|e| panic!("{}", e.report()));
    (orchestrator, project)
}

/// Returns true if a task waits to be written, refined or started. The one that is stopped stays ready.
fn left(snapshot: &Snapshot) -> bool {
    snapshot.tasks.len() < TASKS as usize
        || snapshot.tasks.iter().any(|info| match info.task.status {
            TaskStatus::Draft => true,
            TaskStatus::Ready => info.ending().is_none(),
            TaskStatus::Done => false,
        })
}

/// Does what a person would do about a life.
async fn tend(project: &ProjectHandle, folder: &Path, life: &Life, snapshot: &Snapshot) {
    let task = life.subject.task().map(|task| task.value());
    // A life may have gone on since the snapshot; then there is nothing to do.
    let _ = match &life.state {
        // It goes on by itself.
        LifeState::Limited { until: Some(_), .. } => Ok(()),
        LifeState::Asking { questions, .. } => {
            let question = questions[0].id.clone();
            let id = format!("answer-{}-{question}", life.id);
            ask(project, folder, &id, Request::answer(life.id, question, "8080")).await;
            Ok(())
        }
        LifeState::Limited { .. } => project.resume(ResumeTarget::Life(life.id)).await,
        LifeState::Held { .. } | LifeState::Incomplete { .. } => {
            fs::write(folder.join("project").join(EDITED), EDITS[1]).unwrap();
            project.resume(ResumeTarget::Life(life.id)).await
        }
        LifeState::Running if task == Some(IS_STOPPED) && folder.join("parked").exists() => {
            let request = Request::stop_life(life.id, StopReason::Requested);
            ask(project, folder, &format!("stop-{}", life.id), request).await;
            Ok(())
        }
        LifeState::Running if life.subject == Subject::Chat && snapshot.lives.len() == 1 => {
            project.stop(life.id).await
        }
        _ => Ok(()),
    };
}
