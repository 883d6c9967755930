//! Restarts, edits by hand, held work, and size.

use super::*;

#[test]
fn a_fresh_session_follows_one_that_could_not_be_resumed() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let life = world.life(1).id;
    world.feed(Fact::SessionOver { life, end: SessionEnd::new("exit code 1") });
    let prepared =
        Fact::Prepared { life, session: super::super::world::session(9, "a"), fence: None, target: None };
    assert_eq!(world.feed(prepared).permit, Some(true));
    assert_eq!((world.state(1), world.life(1).attempt.0), ("starting", 1));
}

#[test]
fn a_task_finished_by_hand_releases_its_dependents() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.finish(1, Outcome::Ended(Ending::Failed { reason: "cannot".into() }));
    (world.files.get_mut(&n(1)).unwrap().status, world.files.get_mut(&n(1)).unwrap().success) =
        (TaskStatus::Done, true);
    world.board();
    world.run(Scope::All);
    assert_eq!(world.at_work(), [2]);
}

#[test]
fn a_claim_that_a_person_took_back_releases_once_the_task_is_finished() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    world.merge(&failed_to_verify());
    world.board();
    let run = world.run(Scope::All);
    assert!(world.summary(run).waiting.contains_key(&n(2)), "its work is not in the target");
    world.files.get_mut(&n(1)).unwrap().success = false;
    world.board();
    world.kill(false, None, 0, 1);
    world.files.get_mut(&n(1)).unwrap().success = true;
    world.board();
    world.run(Scope::All);
    assert_eq!(world.at_work(), [2]);
}

/// The merge was requested while the file said done, which no board has seen.
#[test]
fn a_claim_that_was_withdrawn_releases_once_the_task_is_finished() {
    for boards in [0, 1] {
        let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1])]);
        world.ask(Request::Merge { task: n(1), target: "main".into(), accept: Accept::default() }).unwrap();
        world.board();
        world.drain();
        assert_eq!(world.replayed.tasks[&n(1)].ending, Some(Ending::Stopped { by: StopReason::Withdrawn }));
        (0..boards).for_each(|_| world.board());
        let file = world.files.get_mut(&n(1)).unwrap();
        (file.status, file.success) = (TaskStatus::Done, true);
        world.board();
        world.run(Scope::All);
        assert_eq!(world.at_work(), [2], "{boards}");
    }
}

#[test]
fn a_task_marked_done_while_its_agent_works_goes_to_the_merge() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    let file = world.files.get_mut(&n(1)).unwrap();
    (file.status, file.success) = (TaskStatus::Done, true);
    world.board();
    assert_eq!(world.state(1), "ending");
    world.drain();
    assert_eq!(world.summary(run).endings[&n(1)].word(), "merged");
}

#[test]
fn missing_is_not_deleted() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    // An editor's save by rename, `git stash -a`.
    let file = world.files.remove(&n(1)).unwrap();
    world.board();
    world.pass(400);
    world.files.insert(n(1), file);
    world.board();
    world.pass(60_000);
    assert_eq!(world.state(1), "running");
    world.files.clear();
    world.board();
    let due = world.schedule.next_tick().unwrap();
    world.pass(due.unix_millis() - world.now);
    assert_eq!(world.state(1), "ending");
    world.drain();
    assert!(world.has_ended(run));
}

#[test]
fn retries_pause_longer_each_time_and_end_where_nothing_comes_of_them() {
    let mut often = card(1, &[]);
    often.retries = 5;
    let mut world = world(parallel(2), [often, card(2, &[])]);
    let run = world.run(Scope::All);
    let mut pauses = Vec::new();
    for start in 1..=3 {
        world.bring_up(1);
        if start == 2 {
            // Starts of other tasks do not reset the count.
            world.bring_up(2);
            world.claim(2);
            world.merge(&merged());
        }
        world.finish(1, crashed());
        if let Some(due) = world.schedule.next_tick() {
            pauses.push((due.unix_millis() - world.now) / 1_000);
            world.pass(due.unix_millis() - world.now);
        }
    }
    assert_eq!(pauses, [1, 2]);
    let ending = world.summary(run).endings[&n(1)].clone();
    assert!(matches!(ending, Ending::GaveUp { starts: 3, .. }), "{ending:?}");
    assert!(ending.to_string().contains("started 3 times without progress"));
    world.run(Scope::All);
    assert_eq!(world.at_work(), [1], "a person may ask again");
}

#[test]
fn a_task_that_takes_its_orchestrator_along_is_not_started_for_ever() {
    let limits = Limits { auto_start: true, ..one_by_one() };
    let mut world = world(limits, [card(1, &[])]);
    for _ in 0..2 {
        world.bring_up(1);
        world.kill(true, None, 0, 0);
        world.board();
        world.advance(0, 0);
        assert_eq!(world.state(1), "starting");
    }
    world.bring_up(1);
    world.kill(true, None, 0, 0);
    world.board();
    world.advance(0, 0);
    assert_eq!(world.life(1).state, LifeState::Waiting { on: Wait::Resume });
    world.kill(true, None, 0, 0);
    world.board();
    assert_eq!(world.life(1).state, LifeState::Waiting { on: Wait::Resume }, "nor after the next start");
    let life = world.life(1).id;
    world.ask(Request::Resume { target: ResumeTarget::Life(life) }).unwrap();
    assert_eq!(world.state(1), "starting");
}

#[test]
fn without_resume_nothing_of_an_earlier_start_begins_by_itself() {
    let mut retried = card(1, &[]);
    retried.retries = 3;
    let mut world = world(one_by_one(), [retried, card(2, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    world.kill(false, None, 0, 0);
    assert!(world.summary(run).interrupted);
    world.board();
    world.advance(0, 0);
    assert_eq!(world.life(2).state, LifeState::Waiting { on: Wait::Resume });
    // Its claim counts, so its merge goes on; another attempt needs a person's word.
    world.merge(&failed_to_verify());
    assert_eq!(world.life(1).state, LifeState::Waiting { on: Wait::Resume });
    world.run(Scope::All);
    assert_eq!(world.state(1), "starting");
}

#[test]
fn a_resumed_run_waits_for_the_board() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    let run = world.run(Scope::All);
    world.drain_task(1);
    world.kill(true, None, 0, 0);
    world.feed(Fact::Tick);
    assert!(!world.has_ended(run), "its tasks are not known yet");
    world.drain();
    assert!(world.summary(run).is_good());
}

#[test]
fn held_work_is_tried_again_and_published_when_the_obstacle_is_gone() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.come_to_publish(1, 1);
    assert_eq!((world.state(1), world.has_ended(run)), ("held", true));
    let due = world.schedule.next_tick().unwrap();
    world.pass(due.unix_millis() - world.now);
    assert!(matches!(world.effects[..], [Effect::Held(_)]), "published again, not verified again");
    world.advance(0, 0);
    world.advance(0, 0);
    assert_eq!(world.ending(1), "merged");
}

#[test]
fn half_published_work_waits_for_a_person() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.come_to_publish(1, 1);
    let life = world.life(1).id;
    let by = Obstacle::new(ObstacleKind::HalfPublished, "half published");
    world.feed(Fact::HalfPublished { life, by: by.clone() });
    // Without its candidate, whose base is not the target's any more: nothing tries it again by itself.
    assert_eq!(world.life(1).state, LifeState::Held { candidate: None, by });
    world.pass(3_600_000);
    assert_eq!((world.state(1), world.effects.len()), ("held", 0));
    world.ask(Request::Merge { task: n(1), target: "main".into(), accept: Accept::default() }).unwrap();
    world.drain();
    assert_eq!(world.ending(1), "merged");
}

/// Otherwise its summary could call work held that is merged a moment later.
#[test]
fn a_run_waits_for_held_work_that_is_being_tried() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.come_to_publish(1, 1);
    let due = world.schedule.next_tick().unwrap();
    world.pass(due.unix_millis() - world.now);
    let Some(Effect::Held(lives)) = world.effects.pop() else { panic!("it is tried") };
    let run = world.run(Scope::All);
    assert!(!world.has_ended(run));
    world.feed(Fact::HeldTried { life: lives[0], result: None });
    assert!(world.has_ended(run) && world.summary(run).open.contains_key(&n(1)), "it still is held");
}

#[test]
fn incomplete_work_is_in_the_target() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1])]);
    world.run(Scope::All);
    world.come_to_publish(1, 2);
    assert_eq!((world.state(1), world.at_work()), ("incomplete", vec![2]));
}

#[test]
fn the_ledger_stays_small_over_a_thousand_tasks() {
    let cards = (1..=1_000).map(|number| card(number, &[]));
    let mut world = world(Limits { batch: 16, ..parallel(8) }, cards);
    let run = world.run(Scope::All);
    let mut steps = 0;
    while !world.has_ended(run) {
        world.advance(0, 0);
        steps += 1;
        assert!(world.replayed.ended.len() <= 200 && world.replayed.lives.len() <= 40);
    }
    assert!(steps < 12_000);
    assert!(world.summary(run).is_good());
    world.requests.clear();
    let bytes = |world: &World| serde_json::to_string(&world.replayed).unwrap().len();
    let before = bytes(&world);
    for _ in 0..1_040 {
        world.run(Scope::All);
    }
    assert!(world.replayed.commands.len() > 1_000);
    world.pass(26 * 60 * 60 * 1_000);
    assert_eq!(
        world.replayed.commands.len(),
        1_000,
        "decided requests are forgotten after a day, except the last"
    );
    assert!(bytes(&world) < before + 1_000 * 400, "{before} {}", bytes(&world));
}

#[test]
fn a_full_house_does_not_look_at_ten_thousand_cards() {
    let cards = (1..=10_000).map(|number| card(number, &[]));
    let mut schedule = Schedule::default();
    schedule.step(&at(0), Fact::Board(cards.collect()));
    let request = Request::Run { scope: Scope::All, options: RunOptions::default() };
    schedule.step(&at(0), Fact::Request { command: None, request });
    let began = std::time::Instant::now();
    for number in 0..10_000 {
        let issue = (number % 2 == 0).then(login);
        schedule.step(&at(0), Fact::BackendBlocked { backend: "b".parse().unwrap(), issue });
        schedule.step(&at(0), Fact::Tick);
    }
    // Looking at every card in every step would take minutes.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn work_is_held_until_a_person_clears_the_way_to_its_merge() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    world.merge(&MergeResult::Held { candidate: None, by: obstacle() });
    assert_eq!(world.state(1), "held");
    world.ask(Request::Merge { task: n(1), target: "main".into(), accept: Accept::default() }).unwrap();
    world.drain();
    assert_eq!(world.ending(1), "merged");
}

#[test]
fn a_retry_whose_file_is_missing_does_not_spin() {
    let mut retried = card(1, &[]);
    retried.retries = 1;
    let mut world = world(one_by_one(), [retried]);
    world.run(Scope::All);
    world.bring_up(1);
    world.finish(1, crashed());
    world.files.clear();
    world.board();
    world.pass(1_000);
    assert!(
        world.schedule.next_tick().unwrap() > at(world.now),
        "a tick that is due at once would never end"
    );
}

#[test]
fn a_clock_that_is_set_back_lengthens_no_pause() {
    let day = 24 * 60 * 60 * 1_000;
    let mut retried = card(1, &[]);
    retried.retries = 1;
    let mut world = world(parallel(2), [retried, card(2, &[])]);
    world.now += day;
    world.run(Scope::All);
    (1..=2).for_each(|task| world.bring_up(task));
    world.finish(1, crashed());
    world.finish(2, Outcome::Trouble { code: "out_of_space".into(), message: "no space".into() });
    world.pass(-day);
    world.pass(3_000);
    assert!(matches!(&world.life(1).state, LifeState::Waiting { on: Wait::Trouble { .. } }));
    world.pass(15_000);
    assert_eq!((world.state(1), world.state(2)), ("starting", "starting"));
}

#[test]
fn a_person_may_call_work_that_is_to_be_retried_a_failure() {
    let mut retried = card(1, &[]);
    retried.retries = 1;
    let mut world = world(one_by_one(), [retried, card(2, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    world.merge(&failed_to_verify());
    assert_eq!((world.state(1), world.state(2)), ("waiting", "starting"), "the other has its slot");
    world.files.get_mut(&n(1)).unwrap().success = false;
    world.board();
    assert_eq!(world.ending(1), "failed");
}

#[test]
fn a_life_that_ends_long_after_younger_ones_is_released() {
    let cards = (1..=250).map(|number| card(number, &[]));
    let mut world = world(parallel(300), cards);
    world.run(Scope::All);
    for number in 2..=250 {
        world.bring_up(number);
        world.finish(number, Outcome::Ended(Ending::Failed { reason: "no".into() }));
    }
    world.bring_up(1);
    let life = world.life(1).id;
    world.finish(1, Outcome::Ended(Ending::Failed { reason: "no".into() }));
    assert!(world.replayed.life(life).is_some(), "and can be asked for");
}
