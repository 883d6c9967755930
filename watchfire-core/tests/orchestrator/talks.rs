//! An agent that is reached by a conversation.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream as _;
use libtest_mimic::Trial;
use watchfire_core::backend::{Dialogue, Fact, Message, Move, Part, Role, Status};
use watchfire_core::observe::{Body, Follow, FollowItem, FollowOptions, WatchRequest};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::session::{Cause, Ended, Receipt, Session};

use super::support::{DONE, World, is_kind, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_conversation_takes_turns", a_conversation_takes_turns),
        trial("a_conversation_is_interrupted", a_conversation_is_interrupted),
        trial("the_last_words_of_a_conversation_are_heard", its_last_words_are_heard),
        trial("a_transcript_beside_a_conversation_tells_issues", a_transcript_beside_it_tells_issues),
        trial("a_conversation_that_cannot_begin_ends_its_agent", one_that_cannot_begin_ends_its_agent),
    ]
}

/// A protocol of words: the agent says `ready`, `busy`, `idle` and `ask N`, and is told `open`, `text N`, `stop` and
/// `answer N`.
#[derive(Debug, Default)]
pub(crate) struct Words {
    ready: bool,
    said: usize,
}

impl Dialogue for Words {
    fn open(&mut self) -> Vec<Move> {
        vec![Move::Write("open".into())]
    }

    fn hear(&mut self, line: &str) -> Vec<Move> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("ready", _) => {
                self.ready = true;
                vec![Move::Fact(Fact::Status(Status::Idle))]
            }
            ("idle", _) => {
                self.ready = true;
                vec![Move::Fact(Fact::TurnCompleted), Move::Fact(Fact::Status(Status::Idle))]
            }
            ("ask", what) => vec![Move::Write(format!("answer {what}"))],
            ("no", why) => vec![Move::GiveUp(why.into())],
            _ => vec![Move::Message(Message::new(Role::Assistant, vec![Part::text(line)]))],
        }
    }

    fn say(&mut self, text: &str) -> Vec<Move> {
        assert!(std::mem::take(&mut self.ready), "{text:?} is said out of turn");
        self.said += 1;
        vec![Move::Write(format!("text {} {text}", self.said)), Move::Fact(Fact::Status(Status::Processing))]
    }

    fn interrupt(&mut self) -> Vec<Move> {
        vec![Move::Write("stop".into())]
    }

    fn is_ready(&self) -> bool {
        self.ready
    }
}

/// What an agent does that is told `text` and reads its next line to `$line`.
const HEAR: &str =
    "hear() { read -r line; case \"$line\" in \"$1\") ;; *) echo \"heard $line, not $1\"; exit 9;; esac; }\n";

/// Starts a task whose agent is this shell.
async fn start(script: &str) -> (World, Session) {
    let mut world = World::new().await;
    let task = world.task("talks", &format!("# talk\n{HEAR}{script}")).await;
    let _run = world.project.run(RunRequest::task(task)).await.unwrap();
    // Some end at once: a session can be looked at after its end, too.
    let life = world.running().await;
    let session = world.project.session(&life.session.unwrap().id).unwrap();
    (world, session)
}

async fn until(session: &Session, what: &str) {
    let request = WatchRequest::default().with_until(what).with_accept_current(true);
    session.log().watch(&request.with_timeout(Duration::from_secs(20))).await.unwrap();
}

async fn a_conversation_takes_turns() {
    // The text of several lines would not arrive in a protocol of lines; the second one comes when the first turn is over.
    let script = format!(
        "hear open\necho ask 1\nhear 'answer 1'\necho ready\nhear 'text 1 first'\necho one\n\
         while [ ! -e go ]; do sleep 0.01; done\necho idle\nhear 'text 2 second'\necho two\necho idle\n{DONE}\nread -r never"
    );
    let (world, session) = start(&script).await;
    assert_eq!(within(session.send("first")).await.unwrap(), Receipt::Submitted);
    let second = tokio::spawn({
        let session = session.clone();
        async move { session.send("second").await }
    });
    until(&session, "status:processing").await;
    is_kind(session.write("keys").await, watchfire_core::ErrorKind::NotSupported);
    assert!(!second.is_finished());
    std::fs::write(world.root().join(".watchfire/worktrees/0001/go"), "").unwrap();
    assert_eq!(within(second).await.unwrap().unwrap(), Receipt::Submitted);
    let ended = within(session.ended()).await;
    assert_eq!(ended.cause, Cause::Claimed, "{ended:?}");
    world.orchestrator.shutdown().await;
}

async fn a_conversation_is_interrupted() {
    let script = format!("hear open\necho ready\nhear 'text 1 go'\nhear stop\necho idle\n{DONE}");
    let (world, session) = start(&script).await;
    within(session.send("go")).await.unwrap();
    within(session.interrupt()).await.unwrap();
    assert_eq!(within(session.ended()).await.claim.map(|claim| claim.success), Some(true));
    world.orchestrator.shutdown().await;
}

/// Longer after its claim than any other agent may go on.
async fn its_last_words_are_heard() {
    let script = format!("hear open\necho ready\nhear 'text 1 go'\n{DONE}\nsleep 2\necho bye\necho idle");
    let (world, session) = start(&script).await;
    let mut follow = session.log().follow(FollowOptions::default()).unwrap();
    within(session.send("go")).await.unwrap();
    assert!(says(&told(&mut follow, |_| false).await, "bye"));
    world.orchestrator.shutdown().await;
}

/// What it says of its state is old, and what was said is known.
async fn a_transcript_beside_it_tells_issues() {
    let script = format!(
        "hear open\necho ready\nhear 'text 1 go'\nprintf 'say 1 twice\\nidle\\nlimited\\nidle\\n' >> \"$TRANSCRIPT\"\n\
         while [ ! -e go ]; do sleep 0.01; done\necho idle\n{DONE}"
    );
    let (world, session) = start(&script).await;
    let mut follow = session.log().follow(FollowOptions::default()).unwrap();
    within(session.send("go")).await.unwrap();
    let all = told(&mut follow, |body| matches!(body, Body::Issue(_))).await;
    assert!(matches!(all.last(), Some(Body::Issue(_))), "{all:?}");
    assert_eq!(session.status(), Status::Processing);
    assert!(!says(&all, "twice"), "{all:?}");
    std::fs::write(world.root().join(".watchfire/worktrees/0001/go"), "").unwrap();
    assert_eq!(within(session.ended()).await.usage.output_tokens, 1, "its tokens count");
    world.orchestrator.shutdown().await;
}

/// What is told until something is, or to the end.
async fn told(follow: &mut Follow, wanted: impl Fn(&Body) -> bool) -> Vec<Body> {
    let mut all = Vec::new();
    within(async {
        while let Some(followed) = poll_fn(|cx| Pin::new(&mut *follow).poll_next(cx)).await {
            let FollowItem::Record(record) = followed else { continue };
            all.push(record.body.clone());
            if all.last().is_some_and(&wanted) {
                return;
            }
        }
    })
    .await;
    all
}

fn says(bodies: &[Body], text: &str) -> bool {
    bodies.iter().any(|body| matches!(body, Body::Transcript(message) if message.text() == text))
}

async fn one_that_cannot_begin_ends_its_agent() {
    for script in ["echo no such thing\nread -r a; read -r b; read -r c", "# late\nsleep 1000"] {
        let (world, session) = start(script).await;
        let waiting = session.send("never said");
        let Ended { cause, claim, .. } = within(session.ended()).await;
        assert_eq!((cause, claim), (Cause::Exited, None), "{script}");
        assert!(within(waiting).await.is_err());
        world.orchestrator.shutdown().await;
    }
}
