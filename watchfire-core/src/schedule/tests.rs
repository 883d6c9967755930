//! The state machine against the examples of the spec, and against random events.

use proptest::prelude::*;

use super::*;
use crate::model::{TaskNumber, TaskStatus};

fn n(number: u32) -> TaskNumber {
    TaskNumber::new(number).unwrap()
}

fn ready(number: u32, depends_on: &[u32]) -> Card {
    Card {
        number: n(number),
        position: i64::from(number),
        status: TaskStatus::Ready,
        integrated: false,
        depends_on: depends_on.iter().map(|d| n(*d)).collect(),
        retries: 0,
        backend: Some("scripted".parse().unwrap()),
    }
}

fn done(number: u32, integrated: bool) -> Card {
    Card { status: TaskStatus::Done, integrated, ..ready(number, &[]) }
}

fn merged() -> Ending {
    Ending::Merged { commit: None, target: None }
}

fn claimed(task: u32) -> Event {
    Event::AttemptEnded { task: n(task), ending: None, progress: true }
}

fn merge_ended(task: u32, ending: Ending) -> Event {
    Event::MergeEnded { task: n(task), ending }
}

fn all(run: u64) -> Event {
    Event::Run { run: RunId(run), scope: Scope::All }
}

fn summary(actions: &[Action]) -> &RunSummary {
    let found = actions.iter().find_map(|action| match action {
        Action::RunEnded(_, summary) => Some(summary),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no run ended in {actions:?}"))
}

#[test]
fn tasks_run_in_work_order_and_merge_one_by_one() {
    let mut chain = Chain::default();
    let mut first = ready(1, &[]);
    first.position = 9;
    chain.step(Event::Board(vec![first.clone(), ready(2, &[])]));
    assert_eq!(chain.step(all(1)), [Action::StartAttempt(n(2))]);
    assert_eq!(
        chain.step(Event::Board(vec![first.clone(), done(2, false)])),
        [Action::StopAttempt(n(2), StopReason::DoneByHand)]
    );
    // A merge leaves the slot to the next task.
    assert_eq!(chain.step(claimed(2)), [Action::Merge(n(2)), Action::StartAttempt(n(1))]);
    assert_eq!(chain.step(merge_ended(2, merged())), []);
    assert_eq!(chain.step(claimed(1)), [Action::Merge(n(1))]);
    let actions = chain.step(merge_ended(1, merged()));
    assert!(summary(&actions).is_good());
}

#[test]
fn a_failure_evicts_that_task_alone_and_its_dependants_wait() {
    let mut chain = Chain::default();
    chain.step(Event::Board(vec![ready(1, &[]), ready(2, &[1]), ready(3, &[])]));
    assert_eq!(chain.step(all(1)), [Action::StartAttempt(n(1))]);
    let failed = Ending::Failed { reason: "no".into() };
    let actions = chain.step(Event::AttemptEnded { task: n(1), ending: Some(failed), progress: true });
    assert_eq!(actions, [Action::StartAttempt(n(3))]);
    chain.step(claimed(3));
    let actions = chain.step(merge_ended(3, Ending::Conflict { reason: "a.txt".into() }));
    let summary = summary(&actions);
    assert_eq!(summary.waiting[&n(2)], Waiting::DependsOn(vec![n(1)]));
    assert_eq!(summary.endings[&n(3)].word(), "conflict");
    assert!(!summary.is_good());
}

#[test]
fn retries_are_used_up_and_progress_counts() {
    let mut chain = Chain::default();
    let card = Card { retries: 5, ..ready(1, &[]) };
    chain.step(Event::Board(vec![card]));
    assert_eq!(chain.step(all(1)), [Action::StartAttempt(n(1))]);
    let crash = |progress| Event::AttemptEnded {
        task: n(1),
        ending: Some(Ending::Crashed { reason: "exit 1".into() }),
        progress,
    };
    assert_eq!(chain.step(crash(true)), [Action::StartAttempt(n(1))]);
    assert_eq!(chain.step(crash(false)), [Action::StartAttempt(n(1))]);
    assert_eq!(chain.step(crash(false)), [Action::StartAttempt(n(1))]);
    let actions = chain.step(crash(false));
    assert_eq!(actions[0], Action::RestartLimit { task: n(1), count: 3 });
    assert_eq!(summary(&actions).waiting[&n(1)], Waiting::Restarts(3));
    assert_eq!(chain.step(all(2)), [Action::StartAttempt(n(1))], "a person may ask again");
}

#[test]
fn a_failed_verification_is_tried_again_from_ready() {
    let mut chain = Chain::default();
    chain.step(Event::Board(vec![Card { retries: 1, ..ready(1, &[]) }]));
    chain.step(all(1));
    chain.step(Event::Board(vec![Card { retries: 1, ..done(1, false) }]));
    chain.step(claimed(1));
    let failed = || Ending::VerifyFailed { reason: "exit 1".into() };
    assert_eq!(chain.step(merge_ended(1, failed())), [Action::Reopen(n(1)), Action::StartAttempt(n(1))]);
    chain.step(claimed(1));
    assert_eq!(summary(&chain.step(merge_ended(1, failed()))).endings[&n(1)], failed());
}

#[test]
fn withdrawn_tasks_are_stopped() {
    let mut chain = Chain::default();
    chain.step(Event::Board(vec![ready(1, &[]), ready(2, &[])]));
    chain.step(all(1));
    let stop = Action::StopAttempt(n(1), StopReason::Withdrawn);
    assert_eq!(chain.step(Event::Board(vec![ready(2, &[])])), std::slice::from_ref(&stop));
    assert_eq!(chain.step(Event::Board(vec![ready(2, &[])])), [], "only once");
}

#[test]
fn stopping_a_run_stops_what_runs_for_it_alone() {
    let mut chain = Chain::default();
    chain.step(Event::Limits(Limits { parallel: 2, ..Limits::default() }));
    chain.step(Event::Board(vec![ready(1, &[]), ready(2, &[]), ready(3, &[])]));
    chain.step(all(1));
    chain.step(Event::Run { run: RunId(2), scope: Scope::Task(n(1)) });
    assert_eq!(chain.step(Event::StopRun(RunId(1))), [Action::StopAttempt(n(2), StopReason::Requested)]);
    let actions =
        chain.step(Event::AttemptEnded { task: n(2), ending: Some(Ending::Cancelled), progress: false });
    assert_eq!(actions, [], "task 1 is still covered by the run of all");
    chain.step(claimed(1));
    let actions = chain.step(merge_ended(1, merged()));
    assert_eq!(actions.len(), 2);
    assert_eq!(summary(&actions).waiting[&n(3)], Waiting::Stopped);
}

#[test]
fn automation_starts_ready_tasks_once() {
    let mut chain = Chain::default();
    chain.step(Event::Limits(Limits { auto_start: true, ..Limits::default() }));
    assert_eq!(chain.step(Event::Board(vec![ready(1, &[])])), [Action::StartAttempt(n(1))]);
    let crash = Event::AttemptEnded {
        task: n(1),
        ending: Some(Ending::Crashed { reason: "x".into() }),
        progress: false,
    };
    assert_eq!(chain.step(crash), []);
    assert_eq!(chain.step(Event::Board(vec![ready(1, &[])])), [], "not by itself");
    chain.step(Event::Board(vec![Card { status: TaskStatus::Draft, ..ready(1, &[]) }]));
    assert_eq!(
        chain.step(Event::Board(vec![ready(1, &[])])),
        [Action::StartAttempt(n(1))],
        "by a person's hand"
    );
}

#[test]
fn what_ended_before_a_run_is_told_by_it() {
    let mut chain = Chain::default();
    // A merge that a killed orchestrator left.
    assert_eq!(chain.step(claimed(1)), [Action::Merge(n(1))]);
    chain.step(Event::Board(vec![done(1, false)]));
    let failed = Ending::VerifyFailed { reason: "exit 1".into() };
    assert_eq!(chain.step(merge_ended(1, failed.clone())), []);
    let actions = chain.step(all(1));
    assert_eq!(summary(&actions).endings[&n(1)], failed);
    assert!(summary(&chain.step(all(2))).endings.is_empty(), "once");
}

#[test]
fn a_board_older_than_a_retry_does_not_stop_it() {
    let mut chain = Chain::default();
    chain.step(Event::Board(vec![Card { retries: 1, ..ready(1, &[]) }]));
    chain.step(all(1));
    let finished = || Event::Board(vec![Card { retries: 1, ..done(1, false) }]);
    chain.step(finished());
    chain.step(claimed(1));
    let failed = Ending::VerifyFailed { reason: "exit 1".into() };
    assert_eq!(chain.step(merge_ended(1, failed)), [Action::Reopen(n(1)), Action::StartAttempt(n(1))]);
    assert_eq!(chain.step(finished()), [], "read before it was set back");
    chain.step(Event::Board(vec![Card { retries: 1, ..ready(1, &[]) }]));
    assert_eq!(chain.step(finished()), [Action::StopAttempt(n(1), StopReason::DoneByHand)]);
}

#[test]
fn a_blocked_backend_starts_nothing() {
    let mut chain = Chain::default();
    let scripted = || "scripted".parse().unwrap();
    chain.step(Event::Blocked { backend: scripted(), blocked: true });
    chain.step(Event::Board(vec![ready(1, &[])]));
    let actions = chain.step(all(1));
    assert_eq!(summary(&actions).waiting[&n(1)], Waiting::Backend(scripted()));
}

#[derive(Clone, Debug)]
enum Poke {
    Board(Vec<(u32, u8, bool, Vec<u32>)>),
    RunAll,
    RunOne(u32),
    Stop,
    End(u8, bool),
    Merge(u8),
    Block(bool),
}

fn poke() -> impl Strategy<Value = Poke> {
    let card = (1u32..6, 0u8..3, any::<bool>(), proptest::collection::vec(1u32..6, 0..2));
    prop_oneof![
        3 => proptest::collection::vec(card, 0..6).prop_map(Poke::Board),
        2 => Just(Poke::RunAll),
        1 => (1u32..6).prop_map(Poke::RunOne),
        1 => Just(Poke::Stop),
        4 => (0u8..4, any::<bool>()).prop_map(|(how, progress)| Poke::End(how, progress)),
        4 => (0u8..4).prop_map(Poke::Merge),
        1 => any::<bool>().prop_map(Poke::Block),
    ]
}

proptest! {
    #[test]
    fn the_invariants_hold_whatever_happens(
        pokes in proptest::collection::vec(poke(), 0..80),
        parallel in 1u32..4,
        auto_start in any::<bool>(),
    ) {
        let mut chain = Chain::default();
        let limits = Limits { parallel, auto_start, ..Limits::default() };
        let mut running: Vec<TaskNumber> = Vec::new();
        let mut merging: Vec<TaskNumber> = Vec::new();
        let mut open_runs = std::collections::BTreeSet::new();
        let mut board: Vec<Card> = Vec::new();
        let mut next_run = 0;
        let mut pending = vec![Event::Limits(limits)];
        for poke in pokes {
            pending.push(match poke {
                Poke::Board(cards) => {
                    let mut by_number = std::collections::BTreeMap::new();
                    for (number, status, integrated, depends_on) in cards {
                        let status = [TaskStatus::Draft, TaskStatus::Ready, TaskStatus::Done][usize::from(status)];
                        let card = Card { status, integrated: integrated && status == TaskStatus::Done,
                            ..ready(number, &depends_on) };
                        by_number.insert(number, card);
                    }
                    board = by_number.into_values().collect();
                    Event::Board(board.clone())
                }
                Poke::RunAll => { next_run += 1; open_runs.insert(next_run); all(next_run) }
                Poke::RunOne(task) => {
                    next_run += 1;
                    open_runs.insert(next_run);
                    Event::Run { run: RunId(next_run), scope: Scope::Task(n(task)) }
                }
                Poke::Stop => Event::StopAll,
                Poke::End(how, progress) => {
                    let Some(task) = running.pop() else { continue };
                    let ending = match how {
                        0 => Some(Ending::Crashed { reason: String::new() }),
                        1 => Some(Ending::Failed { reason: String::new() }),
                        _ => None,
                    };
                    if ending.is_none() { merging.push(task); }
                    Event::AttemptEnded { task, ending, progress }
                }
                Poke::Merge(how) => {
                    let Some(task) = merging.pop() else { continue };
                    let ending = match how {
                        0 => Ending::Conflict { reason: String::new() },
                        1 => Ending::Held { reason: String::new() },
                        _ => merged(),
                    };
                    Event::MergeEnded { task, ending }
                }
                Poke::Block(blocked) => Event::Blocked { backend: "scripted".parse().unwrap(), blocked },
            });
            for event in pending.drain(..) {
                for action in chain.step(event) {
                    match action {
                        Action::StartAttempt(task) => {
                            prop_assert!(!running.contains(&task) && !merging.contains(&task));
                            running.push(task);
                            prop_assert!(running.len() <= parallel as usize);
                            prop_assert!(board.iter().any(|card| card.number == task));
                        }
                        Action::Merge(task) => prop_assert!(merging.contains(&task)),
                        Action::StopAttempt(task, _) => prop_assert!(running.contains(&task)),
                        Action::RunEnded(run, _) => prop_assert!(open_runs.remove(&run.0), "ended twice"),
                        _ => {}
                    }
                }
            }
        }
        // Let everything end: every run ends too.
        let mut events = vec![Event::StopAll];
        events.extend(running.drain(..).map(|task| Event::AttemptEnded {
            task, ending: Some(Ending::Cancelled), progress: false,
        }));
        events.extend(merging.drain(..).map(|task| Event::MergeEnded { task, ending: merged() }));
        for event in events {
            for action in chain.step(event) {
                if let Action::RunEnded(run, _) = action {
                    open_runs.remove(&run.0);
                }
            }
        }
        prop_assert!(open_runs.is_empty(), "runs left: {open_runs:?}");
    }
}
