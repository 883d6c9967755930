//! Examples: one situation each, decided as a person would expect.

mod blocks;
mod restarts;
mod runs;
mod stops;
mod wildfire;

use super::world::{Effect, World, at, card, n, obstacle};
use crate::backend::{Issue, IssueKind};
use crate::model::{OnLimit, Question, TaskNumber, TaskStatus};
use crate::sandbox::SandboxChoice;
use crate::schedule::*;
use crate::workspace::{Obstacle, ObstacleKind};

/// Returns a world with these tasks on its board.
fn world(limits: Limits, cards: impl IntoIterator<Item = Card>) -> World {
    let mut world = World::new(limits);
    world.files = cards.into_iter().map(|card| (card.number, card)).collect();
    world.board();
    world
}

fn one_by_one() -> Limits {
    Limits::default()
}

fn parallel(parallel: u32) -> Limits {
    Limits { parallel, ..Limits::default() }
}

fn crashed() -> Outcome {
    Outcome::Ended(Ending::Crashed { reason: "exit code 1".into() })
}

fn login() -> Issue {
    Issue::new(IssueKind::AuthRequired, "log in")
}

impl World {
    fn run(&mut self, scope: Scope) -> RunId {
        self.run_with(scope, RunOptions::default())
    }

    fn run_with(&mut self, scope: Scope, options: RunOptions) -> RunId {
        self.ask(Request::Run { scope, options }).unwrap().run.unwrap()
    }

    fn life(&self, task: u32) -> Life {
        self.replayed.life_of(n(task)).cloned().unwrap_or_else(|| panic!("no life of {task}"))
    }

    fn state(&self, task: u32) -> &'static str {
        self.replayed.life_of(n(task)).map_or("none", |life| life.state.word())
    }

    /// Returns the tasks whose sessions are being started or run, in the order of their starts.
    fn at_work(&self) -> Vec<u32> {
        let life = |effect: &Effect| match effect {
            Effect::Attempt { life, .. } => self.replayed.lives.get(life).cloned(),
            _ => None,
        };
        self.effects
            .iter()
            .filter_map(life)
            .filter_map(|life| life.subject.task())
            .map(TaskNumber::value)
            .collect()
    }

    fn attempt(&self, task: u32) -> usize {
        let id = self.life(task).id;
        let is_it = |effect: &Effect| matches!(effect, Effect::Attempt { life, .. } if *life == id);
        self.effects.iter().position(is_it).unwrap_or_else(|| panic!("no attempt on {task}"))
    }

    /// Brings the session of a task to work.
    fn bring_up(&mut self, task: u32) {
        for _ in 0..2 {
            let index = self.attempt(task);
            self.advance(index, 0);
        }
        assert_eq!(self.state(task), "running");
    }

    fn finish(&mut self, task: u32, outcome: Outcome) {
        let index = self.attempt(task);
        self.effects.remove(index);
        let life = self.life(task).id;
        self.feed(Fact::Attempted { life, outcome, tip: None, progress: false });
    }

    fn claim(&mut self, task: u32) {
        for file in [&mut self.files, &mut self.known] {
            let card = file.get_mut(&n(task)).unwrap();
            (card.status, card.success) = (TaskStatus::Done, true);
        }
        self.finish(task, Outcome::Claimed);
    }

    /// Lets the ticket under way come to this result for all of its lives.
    fn merge(&mut self, result: &MergeResult) {
        let is_merge = |effect: &Effect| matches!(effect, Effect::Merge { .. });
        let index = self.effects.iter().position(is_merge).unwrap();
        let Effect::Merge { ticket, .. } = self.effects.remove(index) else { unreachable!() };
        let results = ticket.lives.iter().map(|life| (*life, result.clone())).collect();
        self.feed(Fact::TicketOver { ticket, results, moved: false });
    }

    fn blocks(&mut self, task: u32, issue: Option<Issue>, questions: &[Question]) {
        let life = self.life(task).id;
        self.feed(Fact::Blocks { life, issue, questions: questions.to_vec() });
    }

    fn answer(&mut self, task: u32, question: &str, text: &str) -> Result<Accepted, Refusal> {
        let life = self.life(task).id;
        self.ask(Request::answer(life, question, text))
    }

    fn pass(&mut self, millis: i64) {
        self.now += millis;
        self.feed(Fact::Tick);
    }

    fn summary(&self, run: RunId) -> RunSummary {
        self.replayed.runs[&run].summary().unwrap_or_else(|| panic!("run {run} goes on"))
    }

    /// Takes a task from its start to its merge.
    fn drain_task(&mut self, task: u32) {
        self.bring_up(task);
        self.claim(task);
        self.merge(&merged());
    }

    /// Takes a task from its start to its publication, which comes to the result of this number.
    fn come_to_publish(&mut self, task: u32, result: u32) {
        self.bring_up(task);
        self.claim(task);
        (0..3).for_each(|_| self.advance(0, 0));
        self.advance(0, result);
    }

    /// Returns the word for the ending of a task's last life.
    fn ending(&self, task: u32) -> &'static str {
        self.replayed.tasks[&n(task)].ending.as_ref().unwrap().word()
    }

    fn has_ended(&self, run: RunId) -> bool {
        self.replayed.runs[&run].ended.is_some()
    }
}

fn merged() -> MergeResult {
    MergeResult::Ended(Ending::merged(None, None))
}

fn failed_to_verify() -> MergeResult {
    let (command, how) = ("test".into(), "exit code 1".into());
    MergeResult::Ended(Ending::VerifyFailed { command, how, output: "no".into() })
}
