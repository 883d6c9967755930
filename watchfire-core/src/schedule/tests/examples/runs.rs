//! Runs, their options and their order.

use super::*;

#[test]
fn tasks_run_in_work_order_and_a_merge_leaves_its_slot_to_the_next() {
    let mut first = card(1, &[]);
    first.position = 9;
    let mut world = world(one_by_one(), [first, card(2, &[])]);
    let run = world.run(Scope::All);
    assert_eq!(world.at_work(), [2]);
    world.bring_up(2);
    world.claim(2);
    assert_eq!((world.state(2), world.at_work()), ("queued", vec![1]));
    world.merge(&merged());
    world.bring_up(1);
    world.claim(1);
    world.merge(&merged());
    assert!(world.summary(run).is_good());
}

#[test]
fn a_run_of_all_takes_in_what_was_added_before_its_last_work_was_merged() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let done = world.files[&n(1)].clone();
    let Some(Effect::Merge { ticket, .. }) = world.effects.pop() else { panic!("no merge") };
    let results = ticket.lives.iter().map(|life| (*life, merged())).collect();
    let over = Fact::TicketOver { ticket, results, moved: false };
    let mut schedule = world.schedule;
    let steps = schedule.step(&at(world.now), over);
    assert!(steps.contains(&Step::Do(Command::Look)) && schedule.ledger().runs[&run].ended.is_none());
    schedule.step(&at(world.now), Fact::Board(vec![done, card(2, &[])]));
    schedule.step(&at(world.now), Fact::Looked);
    assert!(schedule.ledger().life_of(n(2)).is_some() && schedule.ledger().runs[&run].ended.is_none());
}

#[test]
fn a_failure_evicts_its_task_alone_and_dependents_wait() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1]), card(3, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.finish(1, Outcome::Ended(Ending::Failed { reason: "no".into() }));
    assert_eq!(world.at_work(), [3]);
    world.bring_up(3);
    world.claim(3);
    world.merge(&MergeResult::Ended(Ending::Conflict { reason: "a.txt".into() }));
    let summary = world.summary(run);
    assert_eq!(summary.waiting[&n(2)], Wait::DependsOn { tasks: vec![n(1)] });
    assert_eq!(summary.endings[&n(3)].word(), "conflict");
    assert!(!summary.is_good());
}

#[test]
fn the_most_specific_request_decides_and_a_stricter_sandbox_is_not_lost() {
    let agent = |name: &str| RunOptions { agent: Some(name.parse().unwrap()), ..RunOptions::default() };
    let strict = SandboxChoice::Named("landlock".into());
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[]), card(3, &[])]);
    world.run_with(Scope::All, agent("a"));
    let specific =
        world.run_with(Scope::Task(n(2)), RunOptions { sandbox: Some(strict.clone()), ..agent("b") });
    world.bring_up(1);
    world.claim(1);
    let life = world.life(2);
    assert_eq!((life.run, life.options.agent.unwrap().as_str()), (Some(specific), "b"));
    assert_eq!(life.options.sandbox, Some(strict.clone()));
    // Interrupted and asked for again with all the others, it keeps what was asked for it alone.
    world.kill(false, None, 0, 1);
    world.advance(0, 0);
    world.board();
    world.drain();
    assert_eq!(world.state(2), "waiting");
    world.run_with(Scope::All, agent("a"));
    let life = world.life(2);
    assert_eq!((life.options.agent.unwrap().as_str(), life.options.sandbox), ("b", Some(strict)));
    assert_eq!(world.state(2), "starting");
}

#[test]
fn a_retry_is_bound_to_a_request_that_came_meanwhile() {
    let mut card = card(1, &[]);
    card.retries = 1;
    let mut world = world(one_by_one(), [card]);
    world.run(Scope::All);
    world.bring_up(1);
    let sandbox = Some(SandboxChoice::Named("landlock".into()));
    world.run_with(Scope::Task(n(1)), RunOptions { sandbox: sandbox.clone(), ..RunOptions::default() });
    world.finish(1, crashed());
    world.pass(2_000);
    assert_eq!((world.state(1), world.life(1).options.sandbox), ("starting", sandbox));
}

#[test]
fn a_run_waits_for_what_another_run_does_for_it() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[1])]);
    let first = world.run(Scope::Task(n(1)));
    let second = world.run(Scope::Task(n(2)));
    assert!(!world.has_ended(second), "its dependency is under way");
    world.drain_task(1);
    assert!(world.has_ended(first));
    assert_eq!(world.at_work(), [2]);
}

#[test]
fn a_run_of_some_tasks_covers_these_alone() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[]), card(3, &[1])]);
    let run = world.run(Scope::Tasks([n(1), n(3)].into()));
    world.drain_task(1);
    assert!(!world.has_ended(run));
    world.drain_task(3);
    assert!(world.has_ended(run) && world.at_work().is_empty());
    let empty = Request::Run { scope: Scope::Tasks([].into()), options: RunOptions::default() };
    assert!(world.ask(empty).is_err());
}

#[test]
fn automation_starts_ready_tasks_once() {
    let mut world = world(Limits { auto_start: true, ..one_by_one() }, [card(1, &[])]);
    world.bring_up(1);
    world.finish(1, crashed());
    world.board();
    assert!(world.at_work().is_empty(), "not by itself");
    world.files.get_mut(&n(1)).unwrap().status = TaskStatus::Draft;
    world.board();
    world.files.get_mut(&n(1)).unwrap().status = TaskStatus::Ready;
    world.board();
    assert_eq!(world.at_work(), [1], "by a person's hand");
}

#[test]
fn an_ending_that_no_run_covered_is_reported_by_the_next() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let file = world.files.get_mut(&n(1)).unwrap();
    (file.status, file.success) = (TaskStatus::Done, true);
    world.board();
    world.ask(Request::Merge { task: n(1), target: "main".into(), accept: Accept::default() }).unwrap();
    world.merge(&failed_to_verify());
    let run = world.run(Scope::All);
    assert_eq!(world.summary(run).endings[&n(1)].word(), "verify failed");
    let run = world.run(Scope::All);
    assert!(world.summary(run).endings.is_empty(), "once");
}

/// Work that is not over is not sent back, and the person hears what to do instead.
#[test]
fn only_work_that_is_over_is_sent_back() {
    let options = || RunOptions { note: Some("use UTC".to_owned()), ..RunOptions::default() };
    let mut world = world(one_by_one(), [card(1, &[])]);
    let refused = world.ask(Request::Run { scope: Scope::All, options: options() }).unwrap_err();
    assert_eq!(refused.code, "invalid_input");
    world.run(Scope::Task(n(1)));
    let send_back =
        |world: &mut World| world.ask(Request::Run { scope: Scope::Task(n(1)), options: options() });
    world.bring_up(1);
    assert!(send_back(&mut world).unwrap_err().message.ends_with("send its agent the text"));
    world.claim(1);
    assert!(send_back(&mut world).unwrap_err().message.ends_with("wait until it has ended"));
    world.merge(&MergeResult::Held { candidate: None, by: obstacle() });
    assert!(send_back(&mut world).unwrap_err().message.ends_with("set it to draft first"));
}

/// A program that was killed had written the agent's claim into the file, and not yet into the journal.
#[test]
fn a_failure_that_only_the_file_knows_keeps_its_reason() {
    for (reason, told) in [(Some("too hard"), "too hard"), (None, "marked as failed by hand")] {
        let mut world = world(one_by_one(), [card(1, &[])]);
        world.run(Scope::All);
        world.bring_up(1);
        let file = world.files.get_mut(&n(1)).unwrap();
        (file.status, file.failure_reason) = (TaskStatus::Done, reason.map(str::to_owned));
        world.kill(false, None, 0, 1);
        world.advance(0, 0);
        world.board();
        world.drain();
        let ending = world.replayed.tasks[&n(1)].ending.clone();
        assert_eq!(ending, Some(Ending::Failed { reason: told.to_owned() }));
    }
}

/// An attempt that was cut off waits for a person, whose words its next agent gets.
#[test]
fn who_waits_gets_the_words() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.kill(false, None, 0, 1);
    world.advance(0, 0);
    world.board();
    world.drain();
    assert_eq!(world.state(1), "waiting");
    let options = RunOptions { note: Some("use UTC".to_owned()), ..RunOptions::default() };
    world.run_with(Scope::Task(n(1)), options);
    assert_eq!((world.state(1), world.life(1).options.note.as_deref()), ("starting", Some("use UTC")));
}
