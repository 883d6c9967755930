//! A later attempt goes on where the one before ended, as far as its agent can.

use libtest_mimic::Trial;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Change, Ending, Notice};

use super::support::{DONE, World, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_second_attempt_resumes", a_second_attempt_resumes),
        trial("a_failed_resume_falls_back_and_loses_nothing", a_failed_resume_falls_back),
    ]
}

/// What a first session does: it says its id, remembers something, and breaks off.
const FIRST: &str = "echo first > \"$MEMORY\"; printf 'id v-1\\nbusy\\n' >> \"$TRANSCRIPT\"; exit 7";

async fn run(world: &World) -> Ending {
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    summary.endings.values().next().unwrap().clone()
}

async fn a_second_attempt_resumes() {
    let world = World::new().await;
    let again = format!("echo \"$RESUME $(cat \"$MEMORY\")\" > resumed; printf %s \"$FIRST\" > told; {DONE}");
    let task = world.task("t", &format!("[ -n \"$RESUME\" ] || {{ {FIRST}; }}; {again}")).await;
    assert!(matches!(run(&world).await, Ending::Crashed { .. }));
    assert!(matches!(run(&world).await, Ending::Merged { .. }));
    let read = |name: &str| {
        std::fs::read_to_string(world.root().join(".watchfire/worktrees/0001").join(name)).unwrap()
    };
    assert_eq!(read("resumed"), "v-1 first\n");
    let told = read("told");
    assert!(
        told.starts_with("Go on. Implement Task #0001: t\n") && told.contains("<previous_attempt>"),
        "{told}"
    );
    assert_eq!(world.read(task).await.agent_sessions, 2);
}

async fn a_failed_resume_falls_back() {
    let mut world = World::new().await;
    let script = format!(
        "[ -z \"$RESUME\" ] || exit 9; [ -e second ] || {{ touch second; {FIRST}; }}; [ ! -e \"$MEMORY\" ] && {DONE}"
    );
    world.task("t", &script).await;
    assert!(matches!(run(&world).await, Ending::Crashed { .. }));
    assert!(matches!(run(&world).await, Ending::Merged { .. }));
    let told = world
        .change(|change| matches!(change, Change::Notice(notice) if notice.message.contains("resumed")))
        .await;
    let Change::Notice(Notice { message, .. }) = told else { panic!("{told:?}") };
    assert!(message.contains("session v-1") && message.contains("exit code 9"), "{message}");
}
