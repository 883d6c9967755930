//! Effects that answer, one step at a time, and kills.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checks::stop_of;
use super::world::{Effect, Stage, World, at, candidate, card, obstacle, session};
use crate::backend::{Issue, IssueKind};
use crate::model::{ProcessIdentity, Question, TaskNumber, TaskStatus};
use crate::schedule::*;
use crate::store::Fence;

impl World {
    /// Lets an effect go one step further. `dice` decides how; 0 is the good way.
    pub(super) fn advance(&mut self, index: usize, dice: u32) {
        let Some(effect) = self.effects.get(index).cloned() else { return };
        match effect {
            Effect::Attempt { life, stage, stop, session, questions } => {
                self.advance_attempt(index, life, stage, stop, session, questions, dice);
            }
            Effect::Merge { ticket, stage, stop, stack } => {
                self.advance_merge(index, ticket, stage, stop, &stack, dice);
            }
            Effect::Held(lives) => self.advance_held(index, lives, dice),
            Effect::HeldPermitted(life, rest) => self.publish_held(index, life, rest, dice),
            Effect::Withdraw(life) => {
                self.effects.remove(index);
                let by = stop_of(&self.replayed.lives[&life]).unwrap();
                let ending = (dice % 4 != 1).then_some(Ending::Stopped { by });
                self.feed(Fact::Withdrawn { life, ending });
            }
            Effect::Recover { life, contained } => {
                self.effects.remove(index);
                self.recover(life, contained, dice);
            }
        }
    }

    fn set_stage(&mut self, index: usize, to: Stage, number: u32) {
        if let Some(Effect::Attempt { stage, session, .. }) = self.effects.get_mut(index) {
            (*stage, *session) = (to, number);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one effect")]
    fn advance_attempt(
        &mut self,
        index: usize,
        life: LifeId,
        stage: Stage,
        stop: Option<StopReason>,
        number: u32,
        mut questions: Vec<Question>,
        dice: u32,
    ) {
        let task = self.replayed.lives[&life].subject.task();
        match stage {
            Stage::Claiming => {
                // It may ask for the permit before it sees the stop.
                if stop.is_some() && dice % 4 != 1 {
                    return self.attempted(index, life, Outcome::Interrupted);
                }
                let error = |message: &str| {
                    Outcome::Ended(Ending::Error { code: "io".into(), message: message.into() })
                };
                match dice % 12 {
                    1 => {
                        let (code, message) = ("out_of_space".to_owned(), "no space".to_owned());
                        return self.attempted(index, life, Outcome::Trouble { code, message });
                    }
                    2 => return self.attempted(index, life, error("no")),
                    3 => return self.attempted(index, life, Outcome::Elsewhere),
                    4 => {
                        let missing = Issue::new(IssueKind::AgentMissing, "not installed");
                        return self.attempted(index, life, Outcome::Limited(missing));
                    }
                    _ => {}
                }
                if let Some(task) = task {
                    match self.files.get_mut(&task) {
                        Some(card) if card.status == TaskStatus::Draft => {
                            return self.attempted(index, life, error("draft"));
                        }
                        None => return self.attempted(index, life, error("gone")),
                        Some(card) => (card.status, card.success) = (TaskStatus::Ready, false),
                    }
                }
                let number = self.number();
                let backend = ["a", "b"][(dice / 16) as usize % 2];
                let options = &self.replayed.lives[&life].options.agent;
                let backend = options.as_ref().map_or(backend.to_owned(), ToString::to_string);
                let target = Some("main".to_owned());
                let session = session(number, &backend);
                let fence = Some(Fence(u64::from(number)));
                let prepared = Fact::Prepared { life, session, fence, target };
                let permitted = self.feed(prepared).permit.unwrap();
                if permitted {
                    let life = &self.replayed.lives[&life];
                    assert!(life.stop.is_none() && !self.closing, "started after a stop: {life:?}");
                    assert!(life.fence == fence && !life.claimed, "{life:?}");
                }
                // A stop comes before the answer to the permit.
                let stop = match &self.effects[index] {
                    Effect::Attempt { stop, .. } => *stop,
                    _ => None,
                };
                match (permitted, stop) {
                    (true, _) => {
                        if let Some(task) = &task {
                            self.truth.claims.remove(task);
                        }
                        if let Some(card) = task.and_then(|task| self.known.get_mut(&task)) {
                            (card.status, card.success) = (TaskStatus::Ready, false);
                        }
                        self.set_stage(index, Stage::Permitted, number);
                    }
                    (false, Some(_)) => self.attempted(index, life, Outcome::Interrupted),
                    (false, None) => panic!("refused without a stop: {:?}", self.replayed.lives[&life]),
                }
            }
            Stage::Permitted if dice % 10 == 1 => {
                let ending = Ending::Error { code: "io".into(), message: "cannot start".into() };
                self.attempted(index, life, Outcome::Ended(ending));
            }
            Stage::Permitted => {
                let agent = ProcessIdentity { pid: number, start_time: 0, boot_id: String::new() };
                self.set_stage(index, Stage::Running, number);
                self.feed(Fact::Running { life, agent, guardian: None });
            }
            Stage::Running => {
                let issue = match if stop.is_some() { 0 } else { dice % 8 } {
                    1 => Some(Issue::new(IssueKind::AuthRequired, "log in")),
                    2 => {
                        let reset = self.now - 1_000 + i64::from(dice) % 100 * 1_000;
                        Some(Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(at(reset)))
                    }
                    3 => Some(Issue::new(IssueKind::TrustDialog, "trust?")),
                    4 | 5 => None,
                    _ => {
                        self.set_stage(index, Stage::Over, number);
                        let end = SessionEnd::new("exit code 0");
                        return drop(self.feed(Fact::SessionOver { life, end }));
                    }
                };
                if issue.is_none() && dice % 8 == 4 {
                    let id = format!("q{}", dice / 8 % 2);
                    if questions.iter().all(|question| question.id != id) {
                        questions.push(Question::new(id, "why?"));
                    }
                }
                if let Effect::Attempt { questions: held, .. } = &mut self.effects[index] {
                    held.clone_from(&questions);
                }
                self.feed(Fact::Blocks { life, issue, questions });
            }
            Stage::Over if stop.is_none() && dice % 10 == 1 => {
                // It could not be resumed: a fresh session follows.
                self.set_stage(index, Stage::Claiming, number);
            }
            Stage::Over => {
                let subject = self.replayed.lives[&life].subject;
                let outcome = match subject.is_step() && stop.is_none() {
                    true => self.step_over(subject, dice),
                    false => self.verdict(task, stop, questions, dice),
                };
                self.attempted(index, life, outcome);
            }
        }
    }

    /// Ends a step of wildfire. The good way generates nothing, so that it comes to an end.
    fn step_over(&mut self, step: Subject, dice: u32) -> Outcome {
        match (dice % 8, step) {
            (1, _) => Outcome::Ended(Ending::Crashed { reason: "exit code 1".into() }),
            (2, _) => Outcome::Ended(Ending::Failed { reason: "left a draft".into() }),
            (3, _) => Outcome::Asked(vec![Question::new("q0", "why?")]),
            (4, _) => Outcome::Limited(Issue::new(IssueKind::RateLimited, "slow down")),
            (_, Subject::GenerateDefinition | Subject::GenerateTasks) => Outcome::Ended(Ending::Proposed),
            (5, Subject::Generate) if self.files.len() < 9 => {
                let last = self.files.keys().next_back().map_or(0, |task| task.value());
                let mut new = card(last + 1, &[]);
                new.status = TaskStatus::Draft;
                let number = new.number;
                self.files.insert(number, new);
                Outcome::Ended(Ending::Generated { tasks: vec![number] })
            }
            (_, Subject::Refine { draft }) => {
                for cards in [&mut self.files, &mut self.known] {
                    if let Some(card) = cards.get_mut(&draft) {
                        (card.status, card.success) = (TaskStatus::Ready, false);
                    }
                }
                Outcome::Ended(Ending::Refined)
            }
            _ => Outcome::Ended(Ending::Generated { tasks: Vec::new() }),
        }
    }

    fn verdict(
        &mut self,
        task: Option<TaskNumber>,
        stop: Option<StopReason>,
        questions: Vec<Question>,
        dice: u32,
    ) -> Outcome {
        let Some(task) = task else { return Outcome::Claimed };
        let failed = || Outcome::Ended(Ending::Failed { reason: "cannot".into() });
        let file = self.files.get(&task).map(|card| (card.status, card.success));
        match (stop, dice % 9) {
            (Some(StopReason::DoneByHand), _) => match file {
                Some((TaskStatus::Done, true)) => Outcome::Claimed,
                Some((TaskStatus::Done, false)) => failed(),
                _ => Outcome::Ended(Ending::Stopped { by: StopReason::Withdrawn }),
            },
            // Its claim comes with the end of its session, and its file cannot be written before everything ends.
            (Some(StopReason::Suspended), 7) if self.closing => Outcome::Undetermined,
            (Some(StopReason::Suspended), 8) if self.files.contains_key(&task) => self.claimed(task),
            (Some(StopReason::Suspended), _) if !questions.is_empty() => Outcome::Asked(questions),
            (Some(StopReason::Suspended), 5 | 6) => {
                let reset = at(self.now + i64::from(dice % 50) * 1_000);
                Outcome::Limited(Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(reset))
            }
            (Some(StopReason::Suspended), _) => Outcome::Interrupted,
            (Some(by), _) => Outcome::Ended(Ending::Stopped { by }),
            (None, 1) => Outcome::Ended(Ending::Crashed { reason: "exit code 1".into() }),
            (None, 2) => Outcome::Ended(Ending::TimedOut { reason: "45m".into() }),
            (None, 3) => Outcome::Asked(vec![Question::new("q0", "why?")]),
            (None, 4) => Outcome::Limited(Issue::new(IssueKind::RateLimited, "slow down")),
            (None, 5) => {
                let reset = at(self.now + i64::from(dice % 50) * 1_000);
                Outcome::Limited(Issue::new(IssueKind::UsageLimit, "limit").with_reset_at(reset))
            }
            (None, rest) => match self.files.get_mut(&task) {
                Some(card) => {
                    (card.status, card.success) = (TaskStatus::Done, rest != 6);
                    let lost = || Ending::Error { code: "workspace_broken".into(), message: "no".into() };
                    match rest {
                        6 => failed(),
                        7 => Outcome::Uncaptured(lost()),
                        _ => Outcome::Claimed,
                    }
                }
                None => Outcome::Ended(Ending::Error { code: "not_found".into(), message: "gone".into() }),
            },
        }
    }

    fn claimed(&mut self, task: TaskNumber) -> Outcome {
        if let Some(card) = self.files.get_mut(&task) {
            (card.status, card.success) = (TaskStatus::Done, true);
        }
        Outcome::Claimed
    }

    fn attempted(&mut self, index: usize, life: LifeId, outcome: Outcome) {
        self.effects.remove(index);
        self.report(life, outcome);
    }

    fn report(&mut self, life: LifeId, outcome: Outcome) {
        let before = self.replayed.lives.get(&life).cloned();
        let task = before.as_ref().and_then(|life| life.subject.task());
        let success = match outcome {
            Outcome::Claimed | Outcome::Uncaptured(_) => Some(true),
            Outcome::Ended(Ending::Failed { .. }) => Some(false),
            _ => None,
        };
        if let (Some(task), Outcome::Claimed | Outcome::Uncaptured(_)) = (task, &outcome) {
            self.truth.claims.insert(task);
        }
        // The machine knows what its effect has written.
        if let (Some(card), Some(success)) = (task.and_then(|task| self.known.get_mut(&task)), success) {
            (card.status, card.success) = (TaskStatus::Done, success);
        }
        let spares = !matches!(outcome, Outcome::Ended(_) | Outcome::Uncaptured(_) | Outcome::Claimed);
        let progress = self.now % 3 == 0;
        self.feed(Fact::Attempted { life, outcome, tip: None, progress });
        if let (Some(before), Some(after), true) = (before, self.replayed.lives.get(&life), spares) {
            // Limits, questions, interruptions and trouble use up no attempt.
            assert_eq!(before.retries_left, after.retries_left);
        }
    }

    fn advance_merge(
        &mut self,
        index: usize,
        ticket: Ticket,
        stage: u8,
        stop: bool,
        stack: &[LifeId],
        dice: u32,
    ) {
        let known = |life: &LifeId| self.replayed.lives.contains_key(life);
        let lives: Vec<LifeId> = ticket.lives.iter().copied().filter(known).collect();
        let over = |world: &mut Self, results, moved| {
            world.effects.remove(index);
            world.feed(Fact::TicketOver { ticket: ticket.clone(), results, moved });
        };
        let set = |world: &mut Self, to| {
            if let Some(Effect::Merge { stage, .. }) = world.effects.get_mut(index) {
                *stage = to;
            }
        };
        // It may ask for the permit before it sees the stop.
        let sees_stop = stage < 2 || stage == 2 && dice % 10 < 7 && dice / 10 % 4 != 1;
        if stop && sees_stop || lives.is_empty() {
            return over(self, Vec::new(), false);
        }
        let task = |world: &Self, life: &LifeId| world.replayed.lives[life].subject.task().unwrap();
        let ended = |ending| MergeResult::Ended(ending);
        match stage {
            0 => {
                set(self, 1);
                lives.iter().for_each(|life| drop(self.feed(Fact::Merging(*life))));
            }
            1 => {
                set(self, 2);
                let life = *lives.last().unwrap();
                self.feed(Fact::Verifying { life, command: "test".into() });
            }
            2 => {
                let claims = |card: &Card| card.status == TaskStatus::Done && card.success;
                let withdrawn = |life: &&LifeId| !self.files.get(&task(self, life)).is_some_and(claims);
                if let Some(life) = lives.iter().find(withdrawn) {
                    let ending = Ending::Stopped { by: StopReason::Withdrawn };
                    return over(self, vec![(*life, ended(ending))], false);
                }
                let output = String::new();
                let bad = match dice % 10 {
                    1 => ended(Ending::Conflict { reason: "a.txt".into() }),
                    2 => ended(Ending::VerifyFailed {
                        command: "test".into(),
                        how: "exit code 1".into(),
                        output,
                    }),
                    3 => MergeResult::Held { candidate: None, by: obstacle() },
                    4 => ended(Ending::Unmerged),
                    5 => ended(Ending::Nothing),
                    6 => ended(Ending::Error { code: "io".into(), message: "no".into() }),
                    _ => {
                        // Some of a ticket may have to wait, such as lives with another sandbox.
                        let stacked = lives.len() - dice as usize / 10 % lives.len();
                        let candidates: Vec<_> = lives
                            .iter()
                            .take(stacked)
                            .map(|life| {
                                (*life, candidate(task(self, life), self.next + life.0 as u32 * 1000))
                            })
                            .collect();
                        self.next += 1;
                        if self.feed(Fact::Publishing(candidates.clone())).permit == Some(true) {
                            self.check_permit(&candidates, true);
                            set(self, 3);
                            if let Some(Effect::Merge { stack, .. }) = self.effects.get_mut(index) {
                                *stack = candidates.into_iter().map(|(life, _)| life).collect();
                            }
                            return;
                        }
                        return over(self, Vec::new(), false);
                    }
                };
                over(self, vec![(lives[dice as usize / 10 % lives.len()], bad)], false);
            }
            _ => {
                let (mut results, mut unknown) = (Vec::new(), Vec::new());
                for life in stack {
                    let LifeState::Publishing { candidate } = self.replayed.lives[life].state.clone() else {
                        panic!("published without its state: {:?}", self.replayed.lives[life]);
                    };
                    results.push((
                        *life,
                        match dice % 6 {
                            1 => MergeResult::Held { candidate: Some(candidate), by: obstacle() },
                            2 => {
                                self.publish(*life, &candidate);
                                MergeResult::Incomplete { candidate, by: obstacle() }
                            }
                            3 => MergeResult::Moved,
                            4 => {
                                unknown.push(self.publish_unknown(*life, &candidate, dice / 10));
                                MergeResult::Unknown { candidate }
                            }
                            _ => self.publish(*life, &candidate),
                        },
                    ));
                }
                self.effects.extend(unknown);
                over(self, results, dice % 6 == 3);
            }
        }
    }

    fn advance_held(&mut self, index: usize, mut lives: VecDeque<LifeId>, dice: u32) {
        let Some(life) = lives.pop_front() else { return drop(self.effects.remove(index)) };
        let state = self.replayed.lives.get(&life).map(|life| life.state.clone());
        if let Some(LifeState::Held { candidate: Some(candidate), .. }) = &state {
            let candidates = vec![(life, (**candidate).clone())];
            if self.feed(Fact::Publishing(candidates.clone())).permit == Some(true) {
                self.check_permit(&candidates, false);
                self.effects[index] = Effect::HeldPermitted(life, lives);
                return;
            }
        }
        let result = match state {
            Some(LifeState::Incomplete { candidate, .. }) if dice.is_multiple_of(2) => {
                let commit = Some(candidate.commit.to_string());
                Some(MergeResult::Ended(Ending::merged(commit, None)))
            }
            _ => None,
        };
        self.held_tried(index, life, lives, result);
    }

    fn publish_held(&mut self, index: usize, life: LifeId, rest: VecDeque<LifeId>, dice: u32) {
        let LifeState::Held { candidate: Some(candidate), .. } = self.replayed.lives[&life].state.clone()
        else {
            panic!("published without its state: {:?}", self.replayed.lives[&life]);
        };
        let mut unknown = None;
        let result = match dice % 6 {
            1 => None,
            4 => {
                unknown = Some(self.publish_unknown(life, &candidate, dice / 10));
                Some(MergeResult::Unknown { candidate })
            }
            2 => Some(MergeResult::Moved),
            3 => {
                self.publish(life, &candidate);
                Some(MergeResult::Incomplete { candidate, by: obstacle() })
            }
            _ => Some(self.publish(life, &candidate)),
        };
        self.effects.extend(unknown);
        self.held_tried(index, life, rest, result);
    }

    /// A publication after which the target cannot be asked for a while.
    fn publish_unknown(
        &mut self,
        life: LifeId,
        candidate: &crate::workspace::Candidate,
        dice: u32,
    ) -> Effect {
        let contained = dice.is_multiple_of(2);
        if contained {
            self.publish(life, candidate);
        }
        Effect::Recover { life, contained }
    }

    fn held_tried(
        &mut self,
        index: usize,
        life: LifeId,
        rest: VecDeque<LifeId>,
        result: Option<MergeResult>,
    ) {
        match rest.is_empty() {
            true => drop(self.effects.remove(index)),
            false => self.effects[index] = Effect::Held(rest),
        }
        self.feed(Fact::HeldTried { life, result });
    }

    fn recover(&mut self, id: LifeId, contained: bool, dice: u32) {
        let Some(life) = self.replayed.lives.get(&id).cloned() else { return };
        match &life.state {
            LifeState::Publishing { .. } | LifeState::Held { candidate: Some(_), .. } => {
                self.feed(Fact::Published { life: id, contained });
            }
            _ if !life.has_attempt() => {}
            _ => {
                if life.session.is_some() {
                    self.feed(Fact::SessionOver { life: id, end: SessionEnd::new("lost") });
                }
                let file = life.subject.task().and_then(|task| self.files.get_mut(&task));
                let outcome = match (file, dice % 4) {
                    (Some(card), 1) if life.session.is_some() => {
                        (card.status, card.success) = (TaskStatus::Done, true);
                        Outcome::Claimed
                    }
                    (Some(_), 2) if life.session.is_some() => {
                        Outcome::Asked(vec![Question::new("q1", "and now?")])
                    }
                    _ => Outcome::Interrupted,
                };
                self.report(id, outcome);
            }
        }
    }

    /// Kills the orchestrator and starts it again. With `fact`, it is killed while it writes down what follows from it:
    /// only `torn` of the records are on the disk.
    pub(super) fn kill(&mut self, resume: bool, fact: Option<Fact>, torn: usize, dice: u32) {
        if let Some(fact) = fact {
            let steps = self.schedule.step(&at(self.now), fact);
            let records = steps.into_iter().filter_map(|step| match step {
                Step::Record(change) => Some(change),
                _ => None,
            });
            for change in records.take(torn).collect::<Vec<_>>() {
                self.replay(&change);
            }
        }
        let text = serde_json::to_string(&self.replayed).unwrap();
        let ledger: Ledger = serde_json::from_str(&text).unwrap();
        assert_eq!(ledger, self.replayed);
        // Only what was permitted can have reached the target; a stop that came after the permit changes nothing.
        let publishing: BTreeSet<LifeId> = self
            .effects
            .iter()
            .flat_map(|effect| match effect {
                Effect::HeldPermitted(life, _) => vec![*life],
                Effect::Merge { stage: 3, stack, .. } => stack.clone(),
                _ => Vec::new(),
            })
            .collect();
        let was_unknown: BTreeMap<LifeId, bool> = self
            .effects
            .drain(..)
            .filter_map(|effect| match effect {
                Effect::Recover { life, contained } => Some((life, contained)),
                _ => None,
            })
            .collect();
        (self.told, self.closing) = (false, false);
        self.truth.orphaned |= !resume;
        let (schedule, steps) = Schedule::restore(ledger, &at(self.now), resume);
        self.schedule = schedule;
        for life in self.replayed.lives.clone().into_values() {
            let (id, mut contained) = (life.id, was_unknown.get(&life.id).copied().unwrap_or(false));
            match &life.state {
                LifeState::Publishing { candidate } | LifeState::Held { candidate: Some(candidate), .. }
                    if publishing.contains(&id) && dice.is_multiple_of(2) =>
                {
                    contained = true;
                    self.publish(id, candidate);
                }
                LifeState::Publishing { .. } | LifeState::Held { candidate: Some(_), .. } => {}
                LifeState::Held { .. } | LifeState::Incomplete { .. } => continue,
                _ if !life.has_attempt() => continue,
                _ => {}
            }
            self.effects.push(Effect::Recover { life: id, contained });
        }
        self.take_in(steps);
        self.feed(Fact::Limits(self.limits));
        self.feed(Fact::Elsewhere(self.elsewhere));
    }
}
