//! Issues, questions, chats and trouble.

use super::*;

#[test]
fn a_login_blocks_its_backend_for_all_tasks() {
    let cards = (1..=5).map(|number| card(number, &[]));
    let mut world = world(one_by_one(), cards);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.blocks(1, Some(login()), &[]);
    assert_eq!(
        (world.state(1), world.at_work()),
        ("limited", vec![1]),
        "it holds no slot, and no second starts"
    );
    let summary = world.summary(run);
    assert_eq!(summary.open[&n(1)].word(), "limited");
    let blocked = Wait::Backend { backend: "a".parse().unwrap(), until: None };
    assert_eq!(summary.waiting.values().collect::<Vec<_>>(), vec![&blocked; 4]);
    // Logged in: the session goes on, and so do the others.
    world.run(Scope::All);
    assert_eq!(world.at_work(), [1], "its session would see it cleared");
    world.blocks(1, None, &[]);
    assert_eq!(world.state(1), "running");
    world.run(Scope::All);
    world.drain();
    assert_eq!(
        world.replayed.tasks.values().filter(|it| it.ending.as_ref().is_some_and(Ending::is_good)).count(),
        5
    );
}

#[test]
fn another_agent_is_not_kept_by_a_blocked_one() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.feed(Fact::BackendBlocked {
        backend: "b".parse().unwrap(),
        issue: Some(login().with_reset_at(at(9_000_000))),
    });
    let agent = |name: &str| RunOptions { agent: Some(name.parse().unwrap()), ..RunOptions::default() };
    world.run_with(Scope::Task(n(1)), agent("b"));
    assert!(world.at_work().is_empty());
    world.run_with(Scope::Task(n(1)), agent("a"));
    assert_eq!(world.at_work(), [1]);
}

#[test]
fn a_limit_is_no_crash_and_ends_by_itself() {
    let mut limited = card(1, &[]);
    limited.retries = 1;
    let mut world = world(waiting(), [limited, card(2, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    let reset = at(world.now + 60_000);
    world
        .finish(1, Outcome::Limited(Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(reset.clone())));
    let life = world.life(1);
    assert_eq!((life.state.word(), life.retries_left, life.fruitless), ("limited", 1, 0));
    assert!(world.at_work().is_empty() && !world.has_ended(run));
    assert_eq!(world.schedule.next_tick(), Some(reset));
    world.pass(60_000);
    assert_eq!(world.at_work(), [1]);
}

#[test]
fn a_limit_that_is_read_again_ends_when_it_was_said_to() {
    let mut world = world(waiting(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let limit = |until| Issue::new(IssueKind::UsageLimit, "try again in 1 minute").with_reset_at(at(until));
    let reset = world.now + 60_000;
    world.blocks(1, Some(limit(reset)), &[]);
    world.pass(30_000);
    // By a program that has taken its session over, from the same screen.
    world.blocks(1, Some(limit(reset + 30_000)), &[]);
    assert_eq!(world.schedule.next_tick(), Some(at(reset)));
    world.blocks(1, None, &[]);
    world.blocks(1, Some(limit(reset + 40_000)), &[]);
    assert_eq!(world.schedule.next_tick(), Some(at(reset + 40_000)), "another limit in the same words");
}

#[test]
fn a_limit_that_is_over_before_it_began_does_not_spin() {
    let mut world = world(waiting(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let past = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(world.now - 5_000));
    world.finish(1, Outcome::Limited(past));
    world.pass(1_000);
    assert_eq!(world.state(1), "limited");
    world.pass(60_000);
    assert_eq!(world.state(1), "starting");
}

#[test]
fn what_passes_by_itself_is_tried_again() {
    for kind in [IssueKind::Overloaded, IssueKind::RateLimited, IssueKind::Unreachable] {
        let mut world = world(one_by_one(), [card(1, &[])]);
        let run = world.run(Scope::All);
        world.bring_up(1);
        world.finish(1, Outcome::Limited(Issue::new(kind, "later")));
        assert_eq!((world.state(1), world.has_ended(run)), ("limited", false), "{kind:?}");
        world.pass(60_000);
        assert_eq!(world.at_work(), [1], "{kind:?}");
    }
}

#[test]
fn a_missing_agent_costs_no_attempt_and_waits_for_a_person() {
    let other = Card { backend: Some("b".parse().unwrap()), ..card(3, &[]) };
    let mut world = world(parallel(2), [card(1, &[]), card(2, &[]), other]);
    let run = world.run(Scope::All);
    assert_eq!(world.at_work(), [1, 2]);
    let missing = || Outcome::Limited(Issue::new(IssueKind::AgentMissing, "not installed"));
    world.finish(1, missing());
    assert_eq!((world.state(1), world.life(1).attempt.0, world.life(1).fruitless), ("limited", 0, 0));
    assert_eq!(world.at_work(), [2, 3], "another agent is there");
    world.finish(2, missing());
    world.bring_up(3);
    world.finish(3, missing());
    assert_eq!(world.life(3).attempt.0, 1, "it had a session before it was missed");
    assert!(world.has_ended(run), "nothing moves by itself");
    world.pass(600_000);
    assert!(world.at_work().is_empty());
    // By name, by its backend, or with the next run.
    let life = world.life(1).id;
    world.ask(Request::Resume { target: ResumeTarget::Life(life) }).unwrap();
    assert_eq!(world.at_work(), [1, 2], "no block is left");
    world.finish(1, missing());
    world.finish(2, missing());
    world.ask(Request::Resume { target: ResumeTarget::Backend("a".parse().unwrap()) }).unwrap();
    assert_eq!(world.at_work(), [1, 2]);
    world.finish(1, missing());
    world.finish(2, missing());
    world.run(Scope::All);
    assert_eq!(world.at_work(), [3, 1], "what had a session goes first");
}

#[test]
fn what_a_person_has_to_change_keeps_all_waiting() {
    for kind in [IssueKind::ModelUnknown, IssueKind::Outdated] {
        let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
        world.run(Scope::All);
        world.bring_up(1);
        world.finish(1, Outcome::Limited(Issue::new(kind, "no")));
        world.pass(600_000);
        assert!(world.at_work().is_empty(), "{kind:?}");
    }
}

/// Returns limits under which work goes on by itself when a limit is over.
fn waiting() -> Limits {
    Limits { on_limit: OnLimit::Wait, ..one_by_one() }
}

#[test]
fn a_limit_waits_for_a_person_who_did_not_say_otherwise() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    let reset = at(world.now + 60_000);
    let limit = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(reset.clone());
    world.blocks(1, Some(limit), &[]);
    assert_eq!(world.state(1), "limited");
    assert_eq!((world.has_ended(run), world.schedule.next_tick()), (true, None), "nothing moves by itself");
    world.pass(120_000);
    assert_eq!(world.state(1), "limited");
    let life = world.life(1).id;
    world.ask(Request::Resume { target: ResumeTarget::Life(life) }).unwrap();
    assert_eq!(world.state(1), "running", "in its session");
}

#[test]
fn who_resumes_all_resumes_what_is_limited() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let limit = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(world.now + 60_000));
    world.blocks(1, Some(limit), &[]);
    assert_eq!(world.state(1), "limited");
    world.ask(Request::Resume { target: ResumeTarget::All }).unwrap();
    assert_eq!(world.state(1), "running", "in its session");
    // One whose session has ended begins another.
    let limit = Issue::new(IssueKind::AuthRequired, "log in");
    world.blocks(1, Some(limit.clone()), &[]);
    world.finish(1, Outcome::Limited(limit));
    assert_eq!(world.state(1), "limited");
    world.ask(Request::Resume { target: ResumeTarget::All }).unwrap();
    assert_eq!(world.state(1), "starting");
}

#[test]
fn a_limit_that_is_over_keeps_no_request_from_starting() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    world.run(Scope::Task(n(1)));
    world.bring_up(1);
    let limit = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(world.now + 60_000));
    world.blocks(1, Some(limit), &[]);
    world.run(Scope::Task(n(2)));
    assert_eq!(world.at_work(), [1], "its session is kept, and the limit holds");
    world.pass(120_000);
    world.run(Scope::Task(n(2)));
    assert_eq!(world.at_work(), [1, 2]);
}

#[test]
fn a_limit_ends_the_work_where_the_settings_say_so() {
    let limits = Limits { on_limit: OnLimit::Stop, ..one_by_one() };
    let mut world = world(limits, [card(1, &[]), card(2, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    let limit = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(world.now + 60_000));
    world.blocks(1, Some(limit.clone()), &[]);
    world.blocks(1, Some(limit.clone()), &[]);
    world.finish(1, Outcome::Limited(limit));
    let ending = world.replayed.tasks[&n(1)].ending.clone().unwrap();
    assert_eq!((ending.word(), ending.is_good()), ("limited", false));
    assert!(world.has_ended(run) && world.at_work().is_empty(), "the others would meet it too");
    // A person who asks again has bought more, or the limit is over.
    world.run(Scope::Task(n(2)));
    assert_eq!(world.at_work(), [2]);
}

#[test]
fn a_session_that_asks_for_long_is_put_aside_and_resumed_by_its_answer() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let asked = [Question::new("q1", "why?")];
    world.blocks(1, None, &asked);
    let stop = |world: &World| {
        world.effects.iter().find_map(|effect| match effect {
            Effect::Attempt { stop, .. } => *stop,
            _ => None,
        })
    };
    world.pass(9 * 60_000);
    assert_eq!(stop(&world), None);
    world.pass(60_000);
    assert_eq!(stop(&world), Some(StopReason::Suspended));
    assert_eq!(world.schedule.next_tick(), None, "it is ended once");
    world.finish(1, Outcome::Asked(asked.to_vec()));
    assert_eq!((world.state(1), world.life(1).session), ("asking", None));
    let life = world.life(1).id;
    world.ask(Request::answer(life, "q1", "so")).unwrap();
    assert_eq!(world.at_work(), [1]);
}

#[test]
fn questions_hold_no_slot_and_answers_resume() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.blocks(1, None, &[Question::new("q1", "why?"), Question::new("q2", "how?")]);
    assert_eq!((world.state(1), world.state(2)), ("asking", "starting"));
    world.answer(1, "q1", "because").unwrap();
    assert_eq!(world.state(1), "asking", "one is open");
    world.answer(1, "q2", "so").unwrap();
    assert_eq!(world.state(1), "running");
    world.answer(1, "q2", "so").unwrap();
    assert_eq!(world.answer(1, "q2", "otherwise").unwrap_err().code, "already_answered");
    assert_eq!(world.answer(1, "q3", "x").unwrap_err().code, "not_found");
}

#[test]
fn work_whose_secrets_are_gone_waits_alone() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.finish(1, Outcome::Limited(Issue::new(IssueKind::VariablesGone, "gone: KEY")));
    assert_eq!((world.state(1), world.at_work()), ("limited", vec![2]), "it concerns no other");
    world.run(Scope::Task(n(1)));
    assert_eq!(world.state(1), "limited", "nobody brought them");
}

#[test]
fn work_that_cannot_be_verified_without_its_secrets_waits_for_them() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let by = Obstacle::new(ObstacleKind::VariablesGone, "gone: KEY");
    world.merge(&MergeResult::Held { candidate: None, by });
    world.run(Scope::All);
    assert_eq!(world.state(1), "held", "nobody brought them");
    // Its client has given the life the variables by then.
    world.ask(Request::Resume { target: ResumeTarget::All }).unwrap();
    assert_eq!(world.state(1), "queued");
}

#[test]
fn an_answer_is_to_the_question_that_was_read() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let life = world.life(1).id;
    let [first, next] = ["Which port?", "Drop the table?"].map(|words| Question::new("1", words));
    world.blocks(1, None, std::slice::from_ref(&first));
    world.ask(Request::answer_to(life, &first, "yes")).unwrap();
    world.blocks(1, None, std::slice::from_ref(&next));
    // By a client that did not see the first reply.
    world.ask(Request::answer_to(life, &first, "yes")).unwrap();
    assert_eq!(world.state(1), "asking", "that was not asked");
    assert_eq!(world.ask(Request::answer_to(life, &first, "no")).unwrap_err().code, "already_answered");
    let withdrawn = Question::new("1", "Which host?");
    assert_eq!(world.ask(Request::answer_to(life, &withdrawn, "yes")).unwrap_err().code, "not_found");
    // Without words, it stands for the one that is open.
    world.ask(Request::answer_to(life, &Question::new("1", ""), "no")).unwrap();
    assert_eq!(world.state(1), "running");
}

#[test]
fn what_goes_on_comes_before_new_work() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[]), card(3, &[])]);
    world.run(Scope::Task(n(2)));
    world.bring_up(2);
    world.finish(2, Outcome::Asked(vec![Question::new("q1", "why?")]));
    world.run(Scope::Task(n(3)));
    assert_eq!(world.at_work(), [3], "it gives its slot back");
    // The first stands before the second in the work order.
    world.run(Scope::Task(n(1)));
    world.answer(2, "q1", "because").unwrap();
    assert!(matches!(&world.life(2).state, LifeState::Waiting { on: Wait::Turn }));
    world.bring_up(3);
    world.finish(3, Outcome::Ended(Ending::Failed { reason: "no".into() }));
    assert_eq!(world.at_work(), [2]);
}

#[test]
fn an_agent_that_asked_and_ended_goes_on_with_the_answer() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.finish(1, Outcome::Asked(vec![Question::new("q1", "why?")]));
    assert_eq!(world.summary(run).open[&n(1)].word(), "asking");
    world.kill(true, None, 0, 0);
    world.board();
    world.answer(1, "q1", "because").unwrap();
    assert_eq!(world.state(1), "starting");
    world.bring_up(1);
    // Another session, another question under the same id.
    world.blocks(1, None, &[Question::new("q1", "and now?")]);
    assert_eq!(world.state(1), "asking");
    world.answer(1, "q1", "go").unwrap();
    assert_eq!(world.life(1).answer("q1").unwrap().text, "go");
}

#[test]
fn a_question_that_was_answered_is_not_asked_again() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let asked = [Question::new("q1", "why?")];
    world.finish(1, Outcome::Asked(asked.to_vec()));
    world.answer(1, "q1", "because").unwrap();
    world.bring_up(1);
    world.blocks(1, None, &asked);
    assert_eq!(
        (world.state(1), world.life(1).answers.len()),
        ("running", 2),
        "delivered to this session too"
    );
    world.blocks(1, None, &asked);
    assert_eq!(world.life(1).answers.len(), 2, "once");
}

#[test]
fn an_answer_is_given_once_more_to_an_agent_that_ended_before_it_was_told() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let asked = [Question::new("q1", "why?")];
    world.finish(1, Outcome::Asked(asked.to_vec()));
    world.answer(1, "q1", "because").unwrap();
    world.bring_up(1);
    // It asked in spite of its prompt, and was killed with its program.
    world.finish(1, Outcome::Asked(asked.to_vec()));
    assert_eq!((world.state(1), world.life(1).answers.len()), ("starting", 2));
    world.bring_up(1);
    world.finish(1, Outcome::Asked(asked.to_vec()));
    assert_eq!(world.state(1), "asking", "or it would start for ever");
    world.answer(1, "q1", "because").unwrap();
    assert_eq!(world.state(1), "starting");
}

#[test]
fn trouble_of_this_machine_pauses_all_starts_and_ends_nothing() {
    let mut world = world(one_by_one(), [card(1, &[]), card(2, &[]), card(3, &[])]);
    let run = world.run(Scope::All);
    world.finish(1, Outcome::Trouble { code: "out_of_space".into(), message: "no space".into() });
    assert!(world.at_work().is_empty(), "the others would meet it too");
    assert!(matches!(world.life(1).state, LifeState::Waiting { on: Wait::Trouble { .. } }));
    let due = world.schedule.next_tick().unwrap();
    world.pass(due.unix_millis() - world.now);
    assert_eq!(world.at_work(), [1]);
    world.drain();
    assert!(world.summary(run).is_good());
}

#[test]
fn a_chat_is_one_at_a_time_and_takes_no_slot() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let chat = Request::Chat { options: RunOptions::default() };
    world.ask(chat.clone()).unwrap();
    assert_eq!(world.ask(chat.clone()).unwrap_err().code, "busy");
    world.run(Scope::All);
    assert_eq!(world.at_work(), [1]);
    world.drain();
    world.ask(chat).unwrap();
}

#[test]
fn a_chat_that_cannot_start_says_why() {
    let mut world = world(one_by_one(), []);
    let life = world.ask(Request::Chat { options: RunOptions::default() }).unwrap().life.unwrap();
    world.effects.clear();
    let outcome = Outcome::Trouble { code: "out_of_space".into(), message: "no space".into() };
    world.feed(Fact::Attempted { life, outcome, tip: None, progress: false });
    assert_eq!(world.replayed.life(life).unwrap().ending().unwrap().reason().unwrap(), "no space");
}

#[test]
fn work_that_trouble_keeps_from_its_merge_keeps_its_run() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::All);
    world.bring_up(1);
    world.claim(1);
    let by = Obstacle::new(ObstacleKind::OutOfSpace, "too many open files");
    world.merge(&MergeResult::Held { candidate: None, by });
    assert_eq!((world.state(1), world.has_ended(run)), ("held", false), "it passes by itself");
    world.drain();
    assert!(world.summary(run).is_good());
}

#[test]
fn an_id_that_is_used_again_is_another_question() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    world.blocks(1, None, &[Question::new("1", "which port?")]);
    world.answer(1, "1", "8080").unwrap();
    world.blocks(1, None, &[Question::new("1", "which host?")]);
    assert_eq!(world.state(1), "asking");
    world.answer(1, "1", "localhost").unwrap();
    assert_eq!(world.state(1), "running");
}

#[test]
fn a_run_goes_on_after_the_limit_of_an_earlier_start() {
    let mut world = world(waiting(), [card(1, &[])]);
    world.run(Scope::All);
    world.bring_up(1);
    let limit = Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(world.now + 60_000));
    world.finish(1, Outcome::Limited(limit));
    world.kill(false, None, 0, 0);
    world.board();
    world.run(Scope::All);
    world.pass(120_000);
    assert_eq!(world.at_work(), [1]);
}
