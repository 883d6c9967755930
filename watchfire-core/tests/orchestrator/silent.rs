//! Agents whose turn ends without a claim.

use libtest_mimic::Trial;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Ending, LifeState};

use super::support::{DONE, World, within};
use super::told::hook;
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_session_that_ends_with_its_turn_goes_on_once", a_session_that_ends_with_its_turn),
        trial("an_agent_that_stays_silent_asks_a_person", an_agent_that_stays_silent),
        trial("a_live_agent_is_asked_how_its_task_ended", a_live_agent_is_asked),
    ]
}

/// A first session that works, says something, and ends well.
const FIRST: &str = "[ -n \"$RESUME\" ] || { echo first > \"$MEMORY\"; \
                     printf 'id v-1\\nbusy\\nsay 7 I look around.\\n' >> \"$TRANSCRIPT\"; exit 0; }";

async fn a_session_that_ends_with_its_turn() {
    let mut world = World::new().await;
    let told = world.temp.path().join("told");
    let script = format!("{FIRST}; printf %s \"$FIRST\" > '{}'; {DONE}", told.display());
    let task = world.task("t", &script).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let told = std::fs::read_to_string(told).unwrap();
    assert!(told.contains("you have not said how your task ended"), "{told}");
    assert_eq!(world.read(task).await.agent_sessions, 2);
}

async fn an_agent_that_stays_silent() {
    let mut world = World::new().await;
    // The prompt holds this script, so the words that it looks for are not in it.
    let script = format!(
        "{FIRST}; case \"$FIRST\" in *'Use SQ'Lite.*) {DONE};; \
         *) printf 'id v-1\\nbusy\\nsay 9 Which database?\\n' >> \"$TRANSCRIPT\";; esac"
    );
    let task = world.task("t", &script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let Some(LifeState::Asking { questions, .. }) = summary.open.get(&task) else { panic!("{summary:?}") };
    let [question] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!(question.question, "Which database?");
    let life = world.life(|life| matches!(life.state, LifeState::Asking { .. })).await;
    // An answer that does not help leads to the next question, and to no second request.
    within(world.project.answer(life.id, &question.id, "Guess.")).await.unwrap();
    world.life(|life| life.state == LifeState::Running).await;
    let life = world.life(|life| matches!(life.state, LifeState::Asking { .. })).await;
    let LifeState::Asking { questions, .. } = &life.state else { unreachable!() };
    within(world.project.answer(life.id, &questions[0].id, "Use SQLite.")).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(world.read(task).await.agent_sessions, 4);
}

async fn a_live_agent_is_asked() {
    let mut world = World::new().await;
    let script = [
        hook(1, "busy"),
        hook(2, "idle"),
        format!(
            "read -r line; case \"$line\" in *'not said how your task ended'*) {DONE};; *) exit 1;; esac"
        ),
    ];
    let task = world.task("t", &script.join("\n")).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}
