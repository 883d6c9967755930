//! The orchestrator that is killed: works on all tasks, and does at random times what a person does about their agents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use watchfire_backends::Scripted;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, Snapshot, TaskInfo};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::schedule::{
    Ending, Life, LifeState, Request, ResumeTarget, RunOptions, Scope, StopReason, Subject, Wait,
};
use watchfire_git::GitWorkspace;
use watchfire_term::Emulator;

use crate::driver::{append, ask, follow, subscribe};
use crate::kind::{Kind, is_stop};
use crate::random::Random;

watchfire_core::register_helper_role!("test-soak", role);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// Works on the project below the folder that the first argument names. The second is the number of this start, and a seed;
/// words after it are `hosted` and `resume`.
fn role(args: RoleArgs) -> i32 {
    let folder = PathBuf::from(&args.args()[0]);
    let number = args.args()[1].to_str().unwrap().to_owned();
    let has = |word: &str| args.args().iter().any(|arg| arg == word);
    let (hosted, resume) = (has("hosted"), has("resume"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(drive(&folder, &number, hosted, resume));
    0
}

async fn drive(folder: &Path, number: &str, hosted: bool, resume: bool) {
    let orchestrator = Orchestrator::builder()
        .helper(Helper::at(std::env::current_exe().unwrap()).unwrap())
        .home(folder.join("watchfire-home"))
        .linked_backends(false)
        .backend(Scripted)
        .default_backend("scripted")
        .resume(resume)
        .hosted(hosted)
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, Default::default())?)))
        .terminals(|size| Box::new(Emulator::new(size)))
        .start()
        .await
        .unwrap();
    let opened = orchestrator.open(folder.join("project")).await;
    let project = opened.unwrap_or_else(|error| panic!("{}", error.report()));
    let log = folder.join("log");
    let follower = tokio::spawn(follow(subscribe(&project, &log).await, log));
    let mut driver = Driver { folder, project, random: Random::seeded(number.parse().unwrap()) };
    let (detach, leave) = (folder.join("detach"), folder.join("leave"));
    loop {
        if detach.exists() {
            orchestrator.detach().await;
            break;
        }
        if leave.exists() || driver.look().await {
            orchestrator.shutdown().await;
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    drop(driver);
    follower.await.unwrap();
}

struct Driver<'a> {
    folder: &'a Path,
    project: ProjectHandle,
    random: Random,
}

impl Driver<'_> {
    /// Looks at the project and does something. Returns true once there is nothing left to do, and the person rests.
    async fn look(&mut self) -> bool {
        let rests = self.folder.join("rest").exists();
        let snapshot = self.project.subscribe(None).await.unwrap().snapshot;
        let is_over = snapshot.runs.iter().all(|run| run.ended.is_some());
        let left = snapshot.tasks.iter().filter(|info| !is_settled(info));
        let left: BTreeSet<_> = left.map(|info| info.task.task_number).collect();
        if rests && snapshot.lives.is_empty() && is_over && left.is_empty() {
            return true;
        }
        for life in &snapshot.lives {
            self.tend(life, rests).await;
        }
        if is_over && (rests || self.random.once_in(8)) {
            self.go_on(&snapshot, left, rests).await;
        }
        if !rests {
            self.interfere(&snapshot).await;
        }
        false
    }

    /// Returns true once in so many looks, and always while the person rests.
    fn now(&mut self, rests: bool, times: u64) -> bool {
        rests || self.random.once_in(times)
    }

    /// Does what a person does about a life that waits for one.
    async fn tend(&mut self, life: &Life, rests: bool) {
        // A life may have gone on since the snapshot; then there is nothing to do.
        let _ = match &life.state {
            LifeState::Asking { questions, .. } if self.now(rests, 20) => {
                let question = questions[0].id.clone();
                let id = format!("answer-{}-{}-{question}", life.id, life.attempt);
                let request = Request::answer(life.id, question, "8080");
                ask(&self.project, self.folder, &id, request).await;
                Ok(())
            }
            LifeState::Limited { until: None, .. } if self.now(rests, 40) => {
                self.project.resume(ResumeTarget::Life(life.id)).await
            }
            LifeState::Held { .. }
            | LifeState::Incomplete { .. }
            | LifeState::Waiting { on: Wait::Resume, .. }
                if self.now(rests, 20) =>
            {
                self.project.resume(ResumeTarget::Life(life.id)).await
            }
            LifeState::Running if self.is_parked(life) && self.now(rests, 20) => self.stop(life).await,
            LifeState::Running if life.subject == Subject::Chat && self.now(rests, 100) => {
                self.stop(life).await
            }
            _ => Ok(()),
        };
    }

    fn is_parked(&self, life: &Life) -> bool {
        let task = life.subject.task();
        task.is_some_and(|task| self.folder.join(format!("parked-{}", task.value())).exists())
    }

    /// Notes the stop, and stops a life.
    async fn stop(&self, life: &Life) -> watchfire_core::Result<()> {
        append(&self.folder.join("stops"), &life.id.to_string());
        self.project.stop(life.id).await
    }

    /// Starts a run. While the person rests, only of what is left.
    async fn go_on(&mut self, snapshot: &Snapshot, left: BTreeSet<TaskNumber>, rests: bool) {
        let has_draft = snapshot.tasks.iter().any(|info| info.task.status == TaskStatus::Draft);
        let scope = match rests {
            true if has_draft => Scope::Wildfire,
            true => Scope::Tasks(left),
            false if self.random.once_in(2) => Scope::Wildfire,
            false => Scope::All,
        };
        if rests {
            for info in snapshot.tasks.iter().filter(|info| info.life.is_none()) {
                // A stop came after its claim.
                if info.ending().is_some_and(is_stop) && info.task.claims_success() {
                    let _ = self.project.merge(info.task.task_number).await;
                }
            }
        }
        let _ = self.project.request(None, Request::run(scope, RunOptions::default())).await;
    }

    /// Stops what works, or begins a chat.
    async fn interfere(&mut self, snapshot: &Snapshot) {
        if self.random.once_in(120) && !snapshot.lives.is_empty() {
            let at = self.random.below(snapshot.lives.len() as u64) as usize;
            let _ = self.stop(&snapshot.lives[at]).await;
        }
        if self.random.once_in(800) {
            let stops = self.folder.join("stops");
            snapshot.lives.iter().for_each(|life| append(&stops, &life.id.to_string()));
            let _ = self.project.stop_all().await;
            // Some may have begun in between.
            let stopped = |life: &&Life| life.stop == Some(StopReason::Requested);
            if let Ok(ledger) = self.project.ledger().await {
                let lives = ledger.lives.values().chain(ledger.ended.values());
                lives.filter(stopped).for_each(|life| append(&stops, &life.id.to_string()));
            }
        }
        if self.random.once_in(300) {
            let request = Request::chat(RunOptions::default());
            let _ = self.project.request(None, request).await;
        }
    }
}

/// Returns true if nothing is left to do for a task.
fn is_settled(info: &TaskInfo) -> bool {
    let kind = Kind::of(&info.task);
    let is_final = |ending: &Ending| {
        // Stopped after it had said so.
        let gave_up = kind == Kind::Fails && info.task.success == Some(false) && is_stop(ending);
        kind.is_final(ending) || gave_up
    };
    info.task.status != TaskStatus::Draft && info.life.is_none() && info.ending().is_some_and(is_final)
}
