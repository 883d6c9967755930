//! A later attempt goes on where the one before ended, as far as its agent can.

use libtest_mimic::Trial;
use watchfire_core::ErrorKind;
use watchfire_core::backend::IssueKind;
use watchfire_core::observe::WatchRequest;
use watchfire_core::orchestrator::{ChatRequest, RunRequest, SessionLog};
use watchfire_core::schedule::{Change, ChatPlace, CommandId, Ending, LifeState, Notice, ResumeTarget};
use watchfire_core::session::Session;
use watchfire_core::workspace::ObstacleKind;

use super::support::{DONE, World, appears, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_second_attempt_resumes", a_second_attempt_resumes),
        trial("a_failed_resume_falls_back_and_loses_nothing", a_failed_resume_falls_back),
        trial("a_conversation_waits_for_secrets_that_are_gone", a_conversation_waits_for_secrets),
        trial("work_is_not_verified_without_secrets_that_are_gone", verify_waits_for_secrets),
        trial("a_chat_that_has_ended_is_gone_on_with", a_chat_is_resumed),
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

/// Neither is the conversation given up for want of them, nor does a fresh agent begin without them.
async fn a_conversation_waits_for_secrets() {
    let begin =
        "echo first > \"$MEMORY\"; printf 'id v-1\\nbusy\\n' >> \"$TRANSCRIPT\"; touch begun; sleep 1000";
    let again = format!("echo \"$RESUME $API_KEY\" > resumed; {DONE}");
    let script = format!("[ -n \"$RESUME\" ] || {{ {begin}; }}; {again}");
    let mut world = World::that_passes("API_KEY").await;
    let task = world.task("t", &script).await;
    let keys = || std::env::vars_os().chain([("API_KEY".into(), "secret".into())]);
    world.project.run(RunRequest::task(task).with_environment(keys())).await.unwrap();
    world.running().await;
    appears(&world.root().join(".watchfire/worktrees/0001/begun")).await;
    within(world.orchestrator.shutdown()).await;

    let mut world = World::in_folder(world.temp).await;
    world.project.resume(ResumeTarget::All).await.unwrap();
    let life = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    let LifeState::Limited { issue, .. } = &life.state else { panic!("{life:?}") };
    assert!(issue.kind == IssueKind::VariablesGone && issue.message.contains(": API_KEY;"), "{issue:?}");
    world.project.equip(life.id, keys()).await.unwrap();
    world.project.resume(ResumeTarget::Life(life.id)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let resumed = std::fs::read_to_string(world.root().join(".watchfire/worktrees/0001/resumed")).unwrap();
    assert_eq!(resumed, "v-1 secret\n");
    let logs = SessionLog::list(world.project.logs_dir()).unwrap();
    assert_eq!(logs.len(), 2, "none began without: {logs:?}");
}

/// A verify command that fails for want of them would be told as the work's fault.
async fn verify_waits_for_secrets() {
    let world = World::that_passes("API_KEY").await;
    world.configure(
        "verify: ['[ \"$API_KEY\" = secret ] && { [ -e again ] || { touch again; sleep 1000; }; }']\n",
    );
    let task = world.task("t", DONE).await;
    let keys = || std::env::vars_os().chain([("API_KEY".into(), "secret".into())]);
    world.project.run(RunRequest::task(task).with_environment(keys())).await.unwrap();
    appears(&world.root().join(".watchfire/worktrees/0001/again")).await;
    within(world.orchestrator.shutdown()).await;

    let mut world = World::in_folder(world.temp).await;
    let gone = ObstacleKind::VariablesGone;
    let life = world.life(|life| matches!(&life.state, LifeState::Held { by, .. } if by.kind == gone)).await;
    let LifeState::Held { by, .. } = &life.state else { panic!("{life:?}") };
    assert!(by.message.contains(": API_KEY;"), "{by:?}");
    world.project.run(RunRequest::task(task).with_environment(keys())).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

async fn a_chat_is_resumed() {
    let world = World::new().await;
    assert!(world.project.ended_chats().await.unwrap().is_empty());
    let says = |session: &Session, wanted: &str| {
        let (session, wanted) = (session.clone(), wanted.to_owned());
        async move {
            while !session.snapshot().text().contains(&wanted) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    };
    let ask = "run for line in 'id v-1' 'say 1 all is  well' idle; do echo \"$line\" >> $TRANSCRIPT; done; \
               echo red > $MEMORY; echo no''ted";
    let first = within(world.project.chat(ChatRequest::new())).await.unwrap();
    let from = first.log().latest();
    within(first.send(ask)).await.unwrap();
    within(says(&first, "noted")).await;
    let over = WatchRequest::default().with_until("event:turn_completed").with_since(from);
    within(first.log().watch(&over)).await.unwrap();
    first.stop();
    let kept = within(async {
        loop {
            // It is kept a moment before its life ends.
            let lives = world.project.subscribe(None).await.unwrap().snapshot.lives;
            if let Some(kept) = world.project.ended_chats().await.unwrap().pop()
                && lives.is_empty()
            {
                break kept;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(
        (&kept.session, kept.agent.as_str(), kept.place),
        (&first.info().id, "shell", ChatPlace::Root)
    );
    assert_eq!(kept.last_words, "all is well");

    let command = CommandId::new("again").unwrap();
    let mut request = ChatRequest::new().with_resume(kept.session.clone());
    request.command = Some(command);
    let again = within(world.project.chat(request.clone())).await.unwrap();
    let from = again.log().latest();
    let ask = "run for line in 'id v-1' 'say 1 well' idle; do echo \"$line\" >> $TRANSCRIPT; done; \
               echo \"it was $RESUME $(cat $MEMORY)\"";
    within(again.send(ask)).await.unwrap();
    within(says(&again, "it was v-1 red")).await;
    within(again.log().watch(&over.with_since(from))).await.unwrap();
    again.stop();
    within(again.ended()).await;
    // It is kept as another session by now, and the same request has the same outcome all the same.
    within(async {
        while world.project.ended_chats().await.unwrap().iter().any(|chat| chat.session == kept.session) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(within(world.project.chat(request)).await.unwrap_err().kind(), ErrorKind::TargetOff);
    let other = ChatRequest::new().with_resume("another".to_owned().try_into().unwrap());
    assert_eq!(world.project.chat(other).await.unwrap_err().kind(), ErrorKind::NotFound);
}
