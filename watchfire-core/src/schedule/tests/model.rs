//! Random facts, against the invariants of [`World`].

use proptest::prelude::*;

use super::checks::stop_of;
use super::world::{World, card, n};
use crate::backend::{Issue, IssueKind};
use crate::model::{Mode, OnLimit, Question, TaskStatus};
use crate::schedule::*;

const TASKS: u32 = 5;

/// One thing that happens; `a` and `b` choose among the possibilities.
#[derive(Clone, Debug)]
struct Poke {
    kind: Kind,
    a: u32,
    b: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Advance,
    Edit,
    Board,
    Run,
    StopRun,
    StopAll,
    StopLife,
    Chat,
    Merge,
    Answer,
    Resume,
    Repeat,
    ClaimLost,
    Blocked,
    Late,
    Wait,
    Limits,
    Elsewhere,
    Kill,
    Close,
}

fn poke() -> impl Strategy<Value = Poke> {
    use Kind::*;
    let kind = prop_oneof![
        30 => Just(Advance),
        6 => Just(Edit),
        5 => Just(Board),
        5 => Just(Run),
        1 => Just(StopRun),
        2 => Just(StopAll),
        5 => Just(StopLife),
        2 => Just(Chat),
        1 => Just(Merge),
        4 => Just(Answer),
        2 => Just(Resume),
        1 => Just(Repeat),
        1 => Just(ClaimLost),
        1 => Just(Blocked),
        2 => Just(Late),
        4 => Just(Wait),
        1 => Just(Limits),
        2 => Just(Elsewhere),
        2 => Just(Kill),
        1 => Just(Close),
    ];
    (kind, 0..1_000u32, 0..1_000u32).prop_map(|(kind, a, b)| Poke { kind, a, b })
}

fn pick<T: Clone>(from: impl IntoIterator<Item = T>, dice: u32) -> Option<T> {
    let all: Vec<T> = from.into_iter().collect();
    all.get(dice as usize % all.len().max(1)).cloned()
}

fn limits(a: u32, b: u32) -> Limits {
    Limits {
        parallel: a % 3 + 1,
        in_all: [0, 0, 1, 2][(a / 3) as usize % 4],
        auto_start: a.is_multiple_of(7),
        batch: b % 3 + 1,
        stop_on_merge_failure: b.is_multiple_of(5),
        rounds: b % 4,
        review: a.is_multiple_of(11),
        on_limit: [OnLimit::Wait, OnLimit::Wait, OnLimit::Ask, OnLimit::Stop][b as usize % 4],
        restarts: 3,
    }
}

fn poke_at(world: &mut World, Poke { kind, a, b }: Poke) {
    let life = pick(world.replayed.lives.keys().copied(), a);
    match kind {
        Kind::Advance => world.advance(a as usize % world.effects.len().max(1), b),
        Kind::Edit => edit(world, a, b),
        Kind::Board => world.board(),
        Kind::Run => {
            let scope = match b % 5 {
                0 | 1 => Scope::All,
                2 => Scope::Wildfire,
                3 => Scope::Tasks([n(b % TASKS + 1), n((b + 1) % TASKS + 1)].into()),
                _ => Scope::Task(n(b % TASKS + 1)),
            };
            let agent = [None, Some("a"), Some("b")][(a / 2) as usize % 3];
            let agent = agent.map(|agent| agent.parse().unwrap());
            let _ = world.ask(Request::Run { scope, options: RunOptions { agent, ..RunOptions::default() } });
        }
        Kind::StopRun => {
            let run = pick(world.replayed.runs.keys().copied(), a).unwrap_or(RunId(99));
            let _ = world.ask(Request::StopRun { run });
        }
        Kind::StopAll => drop(world.ask(Request::StopAll)),
        Kind::StopLife => {
            let life = life.unwrap_or(LifeId(99));
            let _ = world.ask(Request::StopLife { life, reason: StopReason::Requested });
        }
        Kind::Chat if b % 3 == 0 => drop(world.ask(Request::Chat { options: RunOptions::default() })),
        Kind::Chat => {
            let mode = if b % 3 == 1 { Mode::GenerateTasks } else { Mode::GenerateDefinition };
            drop(world.ask(Request::Generate { mode, options: RunOptions::default() }));
        }
        Kind::Merge => {
            // The caller has looked at the file; the board may be older.
            world.board();
            drop(world.ask(Request::Merge {
                task: n(b % TASKS + 1),
                target: "main".into(),
                accept: Accept::default(),
            }));
        }
        Kind::Answer => answer(world, a, b),
        Kind::Resume => {
            let target = match (b % 3, life) {
                (0, _) => ResumeTarget::All,
                (1, Some(life)) => ResumeTarget::Life(life),
                _ => ResumeTarget::Backend(["a", "b"][(a % 2) as usize].parse().unwrap()),
            };
            let _ = world.ask(Request::Resume { target });
        }
        Kind::Repeat => {
            if let Some(id) = pick(world.requests.keys().cloned(), a) {
                world.repeat(&id);
            }
        }
        Kind::ClaimLost => drop(life.map(|life| world.feed(Fact::ClaimLost(life)))),
        Kind::Blocked => {
            let backend = ["a", "b"][(a % 2) as usize].parse().unwrap();
            let issue = (b % 2 == 0).then(|| Issue::new(IssueKind::Overloaded, "busy"));
            world.feed(Fact::BackendBlocked { backend, issue });
        }
        Kind::Late => late(world, a, b),
        Kind::Wait => {
            world.now += match b % 16 {
                // A person or the network sets the clock.
                0 => -i64::from(a) * 100_000,
                1 => i64::from(a) * 100_000,
                _ => i64::from(a * b % 40_000),
            };
            world.feed(Fact::Tick);
        }
        Kind::Limits => {
            world.limits = limits(a, b);
            world.feed(Fact::Limits(world.limits));
        }
        Kind::Elsewhere => {
            world.elsewhere = (a % 3) as usize;
            world.feed(Fact::Elsewhere(world.elsewhere));
        }
        Kind::Kill => {
            let run = Request::Run { scope: Scope::All, options: RunOptions::default() };
            let fact = match a % 4 {
                0 => None,
                1 => life.map(Fact::ClaimLost),
                2 => Some(Fact::Request { command: None, request: run }),
                _ => Some(Fact::Request { command: None, request: Request::Close }),
            };
            world.kill(b % 2 == 0, fact, (b / 2) as usize % 6, a);
        }
        Kind::Close => {
            let _ = world.ask(Request::Close);
            world.closing = true;
        }
    }
}

/// A person edits, deletes or brings back a task file.
fn edit(world: &mut World, a: u32, b: u32) {
    let number = a % TASKS + 1;
    let file = world.files.entry(n(number)).or_insert_with(|| card(number, &[]));
    match b % 8 {
        0 => file.status = TaskStatus::Draft,
        1 => (file.status, file.success) = (TaskStatus::Done, true),
        2 => (file.status, file.success) = (TaskStatus::Done, false),
        3 => drop(world.files.remove(&n(number))),
        4 => file.depends_on = vec![n(a / TASKS % TASKS + 1)],
        5 => file.retries = b % 5,
        _ => (file.status, file.success) = (TaskStatus::Ready, false),
    }
}

/// A fact that comes after its time, from an effect that the machine knows to be over, changes no life.
fn late(world: &mut World, a: u32, b: u32) {
    let life = LifeId(u64::from(a) % (world.replayed.last_life.0 + 2));
    // Its effect has ended, and the machine waits for the next start.
    let is_left = world.schedule.undetermined.contains(&life);
    if is_left || world.effects.iter().any(|effect| effect.is_for(life)) {
        return;
    }
    let fact = match b % 6 {
        0 => Fact::Blocks { life, issue: None, questions: vec![Question::new("q9", "late?")] },
        1 => Fact::Merging(life),
        2 => Fact::Verifying { life, command: "late".into() },
        3 => Fact::SessionOver { life, end: SessionEnd::new("late") },
        4 => Fact::HeldTried { life, result: None },
        _ => Fact::Attempted { life, outcome: Outcome::Claimed, tip: None, progress: true },
    };
    world.feed(Fact::Tick);
    let steps = world.feed(fact.clone()).steps;
    let is_change = |step: &Step| matches!(step, Step::Record(Change::Life(_)));
    assert!(!steps.iter().any(is_change), "{fact:?}: {steps:?}");
}

/// Answers a question, then again: the same text is fine, another is not.
fn answer(world: &mut World, a: u32, b: u32) {
    let asking = world.replayed.lives.values().filter_map(|life| match &life.state {
        LifeState::Asking { questions } => {
            Some((life.id, questions[b as usize % questions.len()].id.clone()))
        }
        _ => None,
    });
    let Some((life, question)) = pick(asking, a).filter(|_| !world.closing) else { return };
    let request = |text: &str| Request::answer(life, question.clone(), text);
    world.ask(request("yes")).unwrap();
    // It may have ended with that: a person had finished the task by hand.
    let is_open = match world.replayed.lives.get(&life).map(|life| &life.state) {
        Some(LifeState::Asking { questions }) => questions.iter().any(|asked| asked.id == question),
        _ => false,
    };
    assert!(!is_open);
    world.ask(request("yes")).unwrap();
    assert_eq!(world.ask(request("no")).unwrap_err().code, "already_answered");
}

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 20_000 } else { 200 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_whatever_happens(
        pokes in prop::collection::vec(poke(), 0..160),
        parallel in 0..3u32,
        batch in 0..3u32,
        close in any::<bool>(),
    ) {
        let mut world = World::new(limits(parallel + 1, batch + 1));
        world.now = 1_700_000_000_000;
        for number in 1..=TASKS {
            let mut card = card(number, if number == 3 { &[1] } else { &[] });
            card.retries = number % 3;
            world.files.insert(n(number), card);
        }
        for poke in pokes {
            poke_at(&mut world, poke);
        }
        // They end in time.
        world.elsewhere = 0;
        world.feed(Fact::Elsewhere(0));
        if world.closing || close {
            let _ = world.ask(Request::Close);
            world.closing = true;
            // Closing has an end, and then nothing is at work.
            world.drain();
            assert!(world.schedule.is_closed());
            world.kill(true, None, 0, 0);
        }
        // Stops that were accepted by then are carried out, and nothing starves.
        let stopped: Vec<_> =
            world.replayed.lives.values().filter(|life| stop_of(life).is_some()).map(|life| life.id).collect();
        world.drain();
        for life in stopped {
            assert!(!world.replayed.lives.contains_key(&life), "a stop was lost");
        }
    }
}
