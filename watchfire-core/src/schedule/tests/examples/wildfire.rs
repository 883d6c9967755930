//! Wildfire: execute, refine, generate, until nothing is left.

use super::*;

fn draft(number: u32) -> Card {
    Card { status: TaskStatus::Draft, ..card(number, &[]) }
}

impl World {
    /// Returns the step that is under way.
    fn step(&self) -> Option<Life> {
        self.replayed.lives.values().find(|life| life.subject.phase().is_some()).cloned()
    }

    fn subject(&self) -> Option<Subject> {
        self.step().map(|life| life.subject)
    }

    /// Brings the step to its end.
    fn end_step(&mut self, outcome: Outcome) {
        let life = self.step().unwrap().id;
        let at = self.effects.iter().position(|effect| effect.is_for(life)).unwrap();
        // Claiming, starting, and the session's end.
        (0..3).for_each(|_| self.advance(at, 0));
        if let Outcome::Ended(Ending::Refined) = outcome {
            let Some(Subject::Refine { draft }) = self.subject() else { panic!("no refinement") };
            for cards in [&mut self.files, &mut self.known] {
                cards.get_mut(&draft).unwrap().status = TaskStatus::Ready;
            }
        }
        if let Outcome::Ended(Ending::Generated { tasks }) = &outcome {
            self.files.extend(tasks.iter().map(|task| (*task, draft(task.value()))));
        }
        self.effects.remove(at);
        self.feed(Fact::Attempted { life, outcome, tip: None, progress: false });
    }

    fn generate(&mut self, tasks: &[u32]) {
        assert_eq!(self.subject(), Some(Subject::Generate));
        let tasks = tasks.iter().map(|task| n(*task)).collect();
        self.end_step(Outcome::Ended(Ending::Generated { tasks }));
    }

    fn refine(&mut self, task: u32) {
        assert_eq!(self.subject(), Some(Subject::Refine { draft: n(task) }));
        self.end_step(Outcome::Ended(Ending::Refined));
        self.board();
    }

    /// Works on a task to its merge.
    fn execute(&mut self, task: u32) {
        assert_eq!((self.at_work(), self.subject()), (vec![task], None));
        self.bring_up(task);
        self.claim(task);
        let life = self.life(task).id;
        while self.replayed.lives.contains_key(&life) {
            let at = self.effects.iter().position(|effect| effect.is_for(life)).unwrap();
            self.advance(at, 0);
        }
        self.board();
    }
}

fn failed() -> Outcome {
    Outcome::Ended(Ending::Failed { reason: "makes no sense here".into() })
}

#[test]
fn tasks_then_drafts_then_new_ones_until_none_come() {
    let mut world = world(one_by_one(), [card(1, &[]), draft(2), draft(3)]);
    let run = world.run(Scope::Wildfire);
    world.execute(1);
    world.refine(2);
    world.execute(2);
    world.refine(3);
    world.execute(3);
    world.generate(&[4]);
    // The board may be older than the new tasks.
    assert_eq!(world.subject(), None);
    world.board();
    world.refine(4);
    world.execute(4);
    world.generate(&[]);
    let summary = world.summary(run);
    assert!(summary.is_good(), "{summary:?}");
    assert_eq!((summary.course.rounds, summary.endings.len()), (2, 4));
    assert_eq!(summary.course.generated.into_iter().collect::<Vec<_>>(), [n(4)]);
}

#[test]
fn a_draft_that_cannot_be_refined_is_left_alone() {
    let mut world = world(one_by_one(), [draft(1), draft(2)]);
    let run = world.run(Scope::Wildfire);
    world.end_step(failed());
    world.refine(2);
    world.execute(2);
    world.generate(&[]);
    let summary = world.summary(run);
    assert!(!summary.is_good(), "a person has to look at it");
    assert_eq!(summary.course.left.keys().copied().collect::<Vec<_>>(), [n(1)]);
}

#[test]
fn a_step_that_crashes_is_tried_three_times() {
    let mut world = world(one_by_one(), []);
    let run = world.run(Scope::Wildfire);
    for attempt in 1..=3 {
        let step = world.step().unwrap();
        assert_eq!((step.subject, step.attempt.0), (Subject::Generate, attempt));
        world.end_step(crashed());
        world.now += 1_000_000;
        world.feed(Fact::Tick);
    }
    let summary = world.summary(run);
    assert_eq!((summary.is_good(), summary.course.rounds), (false, 1));
    assert!(summary.course.last.is_some_and(|last| last.word() == "crashed"));
}

/// Nobody could resume it by a task's number, so the next request begins anew.
#[test]
fn a_step_whose_secrets_are_gone_ends() {
    let mut world = world(one_by_one(), []);
    let run = world.run(Scope::Wildfire);
    world.end_step(Outcome::Limited(Issue::new(IssueKind::VariablesGone, "gone: KEY")));
    assert!(world.step().is_none());
    let last = world.summary(run).course.last;
    assert!(matches!(&last, Some(Ending::Error { code, .. }) if code == "variables_gone"), "{last:?}");
    world.run(Scope::Wildfire);
    world.generate(&[]);
}

/// A kill between the import of new drafts and the record of them: the next attempt finds its tasks there already.
#[test]
fn drafts_that_no_generation_owns_are_refined_before_the_run_ends() {
    let mut world = world(one_by_one(), []);
    let run = world.run(Scope::Wildfire);
    world.files.insert(n(1), draft(1));
    world.end_step(Outcome::Interrupted);
    world.board();
    world.generate(&[]);
    world.refine(1);
    world.execute(1);
    let summary = world.summary(run);
    assert!(summary.is_good() && summary.course.rounds == 1, "{summary:?}");
}

#[test]
fn nothing_is_generated_while_work_waits_for_a_person() {
    let mut world = world(one_by_one(), [card(1, &[])]);
    let run = world.run(Scope::Wildfire);
    world.bring_up(1);
    world.finish(1, Outcome::Asked(vec![Question::new("q", "why?")]));
    assert_eq!(world.subject(), None);
    let summary = world.summary(run);
    assert_eq!((summary.open.len(), summary.is_good()), (1, false));
}

/// Other projects give their slots back when a generation waits, and a task has come meanwhile.
#[test]
fn a_task_that_begins_at_the_same_time_keeps_a_generation_waiting() {
    let mut world = world(Limits { parallel: 2, in_all: 2, ..one_by_one() }, []);
    world.feed(Fact::Elsewhere(2));
    world.run(Scope::Wildfire);
    let step = world.step().unwrap();
    assert_eq!(step.state, LifeState::Waiting { on: Wait::OtherProjects });
    world.files.insert(n(1), card(1, &[]));
    world.board();
    world.feed(Fact::Elsewhere(0));
    assert_eq!(world.at_work(), [1]);
    assert!(matches!(world.step().unwrap().state, LifeState::Waiting { .. }));
}

#[test]
fn rounds_and_review_end_it() {
    let mut limited = world(Limits { rounds: 1, ..one_by_one() }, []);
    let run = limited.run(Scope::Wildfire);
    limited.generate(&[1]);
    limited.board();
    limited.refine(1);
    limited.execute(1);
    assert!(limited.summary(run).is_good());

    let mut reviewed = world(Limits { review: true, ..one_by_one() }, []);
    let run = reviewed.run(Scope::Wildfire);
    reviewed.generate(&[1]);
    reviewed.board();
    assert_eq!((reviewed.subject(), reviewed.summary(run).course.rounds), (None, 1));
}

#[test]
fn a_stop_ends_the_step_and_the_run() {
    let mut world = world(one_by_one(), [draft(1)]);
    let run = world.run(Scope::Wildfire);
    let refused = world.ask(Request::Run { scope: Scope::Wildfire, options: RunOptions::default() });
    assert_eq!(refused.unwrap_err().code, "busy");
    let life = world.step().unwrap().id;
    world.ask(Request::StopRun { run }).unwrap();
    world.feed(Fact::Attempted { life, outcome: Outcome::Interrupted, tip: None, progress: false });
    world.effects.clear();
    assert!(world.step().is_none() && world.summary(run).stopped);
}

#[test]
fn a_restart_goes_on_with_the_step_or_closes_it() {
    for resume in [true, false] {
        let mut world = world(one_by_one(), [draft(1)]);
        world.run(Scope::Wildfire);
        let before = world.step().unwrap();
        world.kill(resume, None, 0, 0);
        while let Some(at) = world.effects.iter().position(|it| matches!(it, Effect::Recover { .. })) {
            world.advance(at, 0);
        }
        world.board();
        match resume {
            true => assert_eq!(world.step().map(|life| (life.id, life.attempt.0)), Some((before.id, 2))),
            false => {
                assert!(world.step().is_none());
                let ended = &world.replayed.ended[&before.id];
                assert_eq!(ended.ending(), Some(&Ending::Closed));
            }
        }
    }
}
