//! Stops, and closing.

use super::*;

#[test]
fn a_stop_between_two_sessions_of_an_attempt_is_not_lost() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    let life = world.life(1).id;
    // The vendor's session could not be resumed; before the fresh one starts, a person stops the task.
    world.feed(Fact::SessionOver { life, end: SessionEnd::new("exit code 1") });
    world.ask(Request::StopRun { run }).unwrap();
    let index = world.attempt(1);
    assert!(matches!(world.effects[index], Effect::Attempt { stop: Some(_), .. }), "the effect learns of it");
    let prepared =
        Fact::Prepared { life, session: super::super::world::session(9, "a"), fence: None, target: None };
    assert_eq!(world.feed(prepared).permit, Some(false));
    world.finish(1, Outcome::Interrupted);
    assert_eq!(world.summary(run).endings[&n(1)], Ending::Stopped { by: StopReason::Requested });
}

#[test]
fn stopping_a_run_stops_what_runs_for_it_alone() {
    let mut world = world(parallel(2), [card(1, &[]), card(2, &[]), card(3, &[])]);
    let all = world.run(Scope::All);
    let one = world.run(Scope::Task(n(1)));
    (1..=2).for_each(|task| world.bring_up(task));
    world.ask(Request::StopRun { run: all }).unwrap();
    assert_eq!((world.state(1), world.state(2)), ("running", "ending"));
    world.drain();
    let summary = world.summary(all);
    assert!(summary.stopped && summary.waiting[&n(3)] == Wait::Run);
    assert_eq!(summary.endings[&n(2)].word(), "stopped");
    assert!(world.summary(one).is_good());
}

#[test]
fn a_stop_ends_a_queued_merge_through_its_ticket() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let life = world.life(1).id;
    world.ask(Request::StopLife { life, reason: StopReason::Requested }).unwrap();
    assert!(matches!(world.effects[0], Effect::Merge { stop: true, .. }));
    assert!(!world.has_ended(run), "its merge is still at work");
    world.drain();
    assert_eq!(world.summary(run).endings[&n(1)].word(), "stopped");
    assert!(world.replayed.tasks[&n(1)].claimed, "the branch is kept, and can be merged by hand");
    world.ask(Request::Merge { task: n(1), target: "main".into(), accept: Accept::default() }).unwrap();
    world.drain();
    assert_eq!(world.ending(1), "merged");
}

#[test]
fn closing_cancels_verification_and_starts_no_queued_merge() {
    let mut world = world(parallel(3), [card(1, &[]), card(2, &[]), card(3, &[])]);
    world.run(Scope::All);
    (1..=3).for_each(|task| world.bring_up(task));
    world.claim(1);
    world.claim(2);
    let ticket = world.effects.iter().position(|effect| matches!(effect, Effect::Merge { .. })).unwrap();
    world.advance(ticket, 0);
    world.advance(ticket, 0);
    assert_eq!((world.state(1), world.state(2)), ("verifying", "queued"));
    world.ask(Request::Close).unwrap();
    world.closing = true;
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Merge { stop: true, .. })));
    assert!(!world.schedule.is_closed());
    world.drain();
    assert!(world.schedule.is_closed());
    let words: Vec<_> = (1..=3).map(|task| world.state(task)).collect();
    assert_eq!(words, ["queued", "queued", "waiting"], "suspended, not ended");
    assert_eq!(world.ask(Request::Resume { target: ResumeTarget::All }).unwrap_err().code, "cancelled");
    // The next start goes on.
    world.kill(true, None, 0, 1);
    world.drain();
    assert!(world.summary(RunId(1)).is_good());
}

#[test]
fn closing_between_two_sessions_ends_nothing() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let life = world.life(1).id;
    world.feed(Fact::SessionOver { life, end: SessionEnd::new("exit code 1") });
    world.ask(Request::Close).unwrap();
    let stop = world.effects.iter().find_map(|effect| match effect {
        Effect::Attempt { stop, .. } => *stop,
        _ => None,
    });
    assert_eq!(stop, Some(StopReason::Suspended), "the effect learns of it before it asks for the second");
}

#[test]
fn stop_on_merge_failure_stops_the_runs() {
    let limits = Limits { stop_on_merge_failure: true, ..one_by_one() };
    let mut world = world(limits, [card(1, &[]), card(2, &[]), card(3, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    world.merge(&MergeResult::Ended(Ending::Conflict { reason: "a.txt".into() }));
    world.drain();
    let summary = world.summary(run);
    assert!(summary.stopped && summary.waiting.contains_key(&n(3)));
    assert_eq!(summary.endings[&n(2)].word(), "merged", "it was at work");
}

#[test]
fn no_publication_begins_after_a_stop_was_accepted() {
    let mut world = world(Limits { batch: 2, ..parallel(2) }, [card(1, &[]), card(2, &[])]);
    world.run(Scope::All);
    (1..=2).for_each(|task| world.bring_up(task));
    world.claim(1);
    let (life, candidate) = (world.life(1).id, super::super::world::candidate(n(1), 7));
    world.ask(Request::StopLife { life, reason: StopReason::Requested }).unwrap();
    // The effect asks before it sees the stop.
    assert_eq!(world.feed(Fact::Publishing(vec![(life, candidate)])).permit, Some(false));
}

#[test]
fn held_work_is_not_published_after_a_stop() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.come_to_publish(1, 1);
    let life = world.life(1).id;
    world.ask(Request::Resume { target: ResumeTarget::Life(life) }).unwrap();
    world.ask(Request::StopLife { life, reason: StopReason::Requested }).unwrap();
    assert_eq!(world.state(1), "held", "its publication may be under way");
    world.drain();
    assert_eq!(world.ending(1), "stopped");
}

#[test]
fn work_that_a_killed_start_may_have_published_is_not_called_stopped() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.come_to_publish(1, 1);
    let life = world.life(1).id;
    world.ask(Request::Resume { target: ResumeTarget::Life(life) }).unwrap();
    world.advance(0, 0);
    world.ask(Request::StopLife { life, reason: StopReason::Requested }).unwrap();
    // Permitted before the stop, and published just before the kill.
    world.kill(true, None, 0, 0);
    assert_eq!(world.state(1), "held", "the target is asked first");
    world.drain();
    assert_eq!(world.ending(1), "merged");
    assert!(world.has_ended(run));
}

#[test]
fn a_task_that_is_taken_back_while_its_publication_fails_is_not_merged() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let merge = |world: &World| {
        world.effects.iter().position(|effect| matches!(effect, Effect::Merge { .. })).unwrap()
    };
    while world.state(1) != "publishing" {
        let merge = merge(&world);
        world.advance(merge, 0);
    }
    // It is completed if the target has moved, whatever the file says; but it has not.
    world.files.get_mut(&n(1)).unwrap().status = TaskStatus::Draft;
    world.board();
    assert_eq!(world.state(1), "publishing");
    let task = world.life(1).subject.task().unwrap();
    let by = obstacle();
    let candidate = Some(Box::new(super::super::world::candidate(task, 7)));
    world.merge(&MergeResult::Held { candidate, by });
    assert!(matches!(world.effects[..], [Effect::Withdraw(_)]), "it may wait for its target by now");
    world.advance(0, 0);
    assert_eq!(world.summary(run).endings[&n(1)], Ending::Stopped { by: StopReason::Withdrawn });
}

/// Two tasks whose work is held, the second perhaps on top of the first, and a third whose work waits to be merged.
fn two_held_and_one_queued() -> World {
    let mut world = world(parallel(3), [card(1, &[]), card(2, &[]), card(3, &[])]);
    world.run(Scope::All);
    for task in 1..=3 {
        world.bring_up(task);
    }
    for task in 1..=2 {
        world.claim(task);
        let candidate = super::super::world::candidate(n(task), 7 + task);
        world.truth.verified.insert((world.life(task).id, candidate.commit.to_string()));
        world.merge(&MergeResult::Held { candidate: Some(Box::new(candidate)), by: obstacle() });
    }
    world
}

/// Other work may have been merged onto it, and would publish it.
#[test]
fn held_work_is_withdrawn_before_a_stop_ends_it() {
    let mut world = two_held_and_one_queued();
    let (first, second) = (world.life(1).id, world.life(2).id);
    world.ask(Request::Resume { target: ResumeTarget::Life(second) }).unwrap();
    world.ask(Request::StopLife { life: first, reason: StopReason::Requested }).unwrap();
    assert_eq!(world.state(1), "held");
    // The second asks after the stop was accepted.
    let publishing = |world: &mut World| {
        let candidate = super::super::world::candidate(n(2), 9);
        world.feed(Fact::Publishing(vec![(second, candidate)])).permit
    };
    assert_eq!(publishing(&mut world), Some(false));
    world.effects.retain(|effect| matches!(effect, Effect::Withdraw(_) | Effect::Attempt { .. }));
    world.feed(Fact::HeldTried { life: second, result: None });
    world.claim(3);
    assert_eq!(world.state(3), "queued");
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Merge { .. } | Effect::Held(_))));
    // It cannot be withdrawn, and is again with the next attempt to publish what is held.
    world.feed(Fact::Withdrawn { life: first, ending: None });
    world.effects.clear();
    assert_eq!(world.state(1), "held");
    world.pass(30_000);
    assert!(
        matches!(world.effects[..], [Effect::Withdraw(life), ..] if life == first),
        "{:?}",
        world.effects
    );
    world.effects.retain(|effect| !matches!(effect, Effect::Withdraw(_)));
    world.feed(Fact::Withdrawn { life: first, ending: Some(Ending::stopped(StopReason::Requested)) });
    assert_eq!(world.ending(1), "stopped");
    // The others go on at once.
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Merge { .. })));
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Held(_))));
    world.drain();
    assert_eq!((world.ending(2), world.ending(3)), ("merged", "merged"));
}

/// A person stops what is under way. Work that is done waits for them as before, whatever is in its way.
#[test]
fn stopping_a_run_leaves_held_work_held() {
    let mut world = two_held_and_one_queued();
    let run = world.replayed.last_run;
    world.ask(Request::StopRun { run }).unwrap();
    assert_eq!((world.state(1), world.state(2), world.state(3)), ("held", "held", "ending"));
    world.drain();
    let summary = world.summary(run);
    assert!(summary.stopped && summary.endings[&n(3)].word() == "stopped", "{summary:?}");
    // The obstacle was gone by then.
    assert_eq!((world.ending(1), world.ending(2)), ("merged", "merged"));
    // A disk that stays full keeps no run that was stopped.
    let mut world = self::world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let by = Obstacle::new(ObstacleKind::OutOfSpace, "no space");
    world.merge(&MergeResult::Held { candidate: None, by });
    assert!(!world.has_ended(run));
    world.ask(Request::StopRun { run }).unwrap();
    assert_eq!((world.state(1), world.has_ended(run)), ("held", true));
    assert_eq!(world.summary(run).open[&n(1)].word(), "held");
}

/// Its file may be back in a moment. Until then nothing is published that may lie on top of its work.
#[test]
fn nothing_is_published_while_the_file_of_held_work_is_missing() {
    let mut world = two_held_and_one_queued();
    let file = world.files.remove(&n(1)).unwrap();
    world.board();
    world.claim(3);
    assert_eq!(world.state(3), "queued");
    assert!(world.effects.is_empty(), "{:?}", world.effects);
    world.files.insert(n(1), file);
    world.board();
    assert!(matches!(world.effects[..], [Effect::Merge { .. }]), "{:?}", world.effects);
    world.drain();
    assert_eq!(world.ending(1), "merged");
}

/// A person may have withdrawn held work while nobody looked at the files.
#[test]
fn held_work_beside_other_waits_for_the_first_board() {
    let mut world = two_held_and_one_queued();
    world.kill(true, None, 0, 1);
    world.effects.retain(|effect| matches!(effect, Effect::Recover { .. }));
    let second = world.life(2).id;
    world.feed(Fact::Published { life: second, contained: false });
    let candidate = super::super::world::candidate(n(2), 9);
    assert_eq!(world.feed(Fact::Publishing(vec![(second, candidate)])).permit, Some(false));
    world.feed(Fact::HeldTried { life: second, result: None });
    world.effects.retain(|effect| matches!(effect, Effect::Recover { .. }));
    world.board();
    let is_tried = |effect: &Effect| matches!(effect, Effect::Held(lives) if lives.contains(&second));
    assert!(world.effects.iter().any(is_tried), "{:?}", world.effects);
    // What went along with other work before the stop counts as merged.
    let first = world.life(1).id;
    world.feed(Fact::Published { life: first, contained: false });
    world.effects.clear();
    world.feed(Fact::HeldTried { life: first, result: None });
    world.ask(Request::StopLife { life: first, reason: StopReason::Requested }).unwrap();
    let commit = super::super::world::candidate(n(1), 8).commit.to_string();
    world.truth.published.insert(first, commit.clone());
    let ending = Some(Ending::merged(Some(commit), None));
    world.effects.clear();
    world.feed(Fact::Withdrawn { life: first, ending });
    assert_eq!(world.ending(1), "merged");
}

#[test]
fn a_merge_is_given_up_where_its_task_is_done_on_no_board() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    // The caller saw the file while it said done, and it says so no more.
    let (target, accept) = ("main".into(), Accept::default());
    world.ask(Request::Merge { task: n(1), target, accept }).unwrap();
    assert_eq!(world.state(1), "queued");
    world.board();
    assert_eq!(world.life(1).stop, Some(StopReason::Withdrawn), "before its merge looks at the file");
    world.drain();
    assert_eq!(world.replayed.tasks[&n(1)].ending, Some(Ending::Stopped { by: StopReason::Withdrawn }));
}

/// What a person stops stays stopped: with the automation on, the next ready task must not take the free slot.
#[test]
fn after_a_stop_of_all_nothing_starts_until_a_person_starts_something() {
    let limits = Limits { auto_start: true, ..one_by_one() };
    let mut world = world(limits, [card(1, &[]), card(2, &[]), card(3, &[])]);
    world.bring_up(1);
    world.ask(Request::StopAll).unwrap();
    world.drain();
    assert_eq!((world.ending(1), world.at_work()), ("stopped", vec![]));
    // Neither the next start nor an edit is a person's word that work may begin.
    world.kill(true, None, 0, 0);
    world.board();
    world.files.insert(n(4), card(4, &[]));
    world.board();
    assert!(world.at_work().is_empty() && world.replayed.halted);
    world.run(Scope::Task(n(4)));
    assert_eq!(world.at_work(), [2], "the automation is at work again, in work order");
}

#[test]
fn a_stop_of_all_ends_runs_and_what_waits_and_lets_finished_work_merge() {
    let limits = Limits { auto_start: true, ..parallel(2) };
    let mut retried = card(2, &[]);
    retried.retries = 2;
    let mut world = world(limits, [card(1, &[]), retried, card(3, &[])]);
    (1..=2).for_each(|task| world.bring_up(task));
    world.finish(2, crashed());
    assert_eq!(world.state(2), "waiting");
    world.claim(1);
    let run = world.run(Scope::Task(n(3)));
    world.ask(Request::StopAll).unwrap();
    assert_eq!((world.ending(2), world.state(1)), ("stopped", "queued"));
    world.merge(&merged());
    world.drain();
    assert_eq!((world.ending(1), world.ending(3)), ("merged", "stopped"));
    assert!(world.summary(run).stopped && world.at_work().is_empty());
}

/// A retry is a start, too.
#[test]
fn a_merge_that_fails_after_a_stop_of_all_is_not_tried_by_another_session() {
    let mut retried = card(1, &[]);
    retried.retries = 2;
    let mut world = world(Limits { auto_start: true, ..one_by_one() }, [retried]);
    world.bring_up(1);
    world.claim(1);
    world.ask(Request::StopAll).unwrap();
    world.merge(&failed_to_verify());
    assert_eq!((world.ending(1), world.at_work()), ("verify failed", vec![]));
}

#[test]
fn a_stop_of_all_halts_only_the_automation_that_is_on() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.ask(Request::StopAll).unwrap();
    assert!(!world.replayed.halted);
    world.ask(Request::StopAll).unwrap();
    world.limits.auto_start = true;
    world.feed(Fact::Limits(world.limits));
    assert_eq!(world.at_work(), [1]);
    world.ask(Request::StopAll).unwrap();
    world.drain();
    world.ask(Request::Resume { target: ResumeTarget::All }).unwrap();
    assert!(!world.replayed.halted, "a resume is a start");
}
