//! Attempts: from a prepared session to captured work.

use super::admission::has_variables;
use super::block::blocks_backend;
use super::state::Trouble;
use crate::backend::{Issue, IssueKind};
use crate::model::{ProcessIdentity, Question};
use crate::schedule::{
    Answer, Change, Command, Ending, LifeId, LifeState, Outcome, Schedule, SessionEnd, SessionRef, Step,
    StopReason, Subject, Wait,
};
use crate::store::Fence;
use crate::workspace::Commit;

/// Pause before the second attempt of a life that crashed. Doubles with each further attempt.
const FIRST_PAUSE_MILLIS: i64 = 1_000;
/// Upper bound for the pause between two attempts.
const LONGEST_PAUSE_MILLIS: i64 = 60_000;
/// Pause of all starts after trouble of this machine, such as a full disk.
const TROUBLE_MILLIS: i64 = 15_000;

/// Pause before a claim is tried again that another orchestrator holds. A third of its lease, so that one that was killed costs at
/// most that much more than the lease.
const ELSEWHERE_MILLIS: i64 = 20_000;

impl Schedule {
    /// Permits the process of a session, unless a stop came first. A session that could not be resumed is replaced by
    /// a fresh one within the same attempt, so this may follow the end of another session.
    pub(in crate::schedule) fn prepared(
        &mut self,
        id: LifeId,
        mut session: SessionRef,
        fence: Option<Fence>,
        target: Option<String>,
    ) {
        let may_start = |state: &LifeState| matches!(state, LifeState::Starting | LifeState::Capturing);
        let life =
            self.live(id).filter(|life| life.stop.is_none() && may_start(&life.state) && !self.closing);
        let task = life.and_then(|life| life.subject.task());
        let permitted = life.is_some();
        // In whole seconds, like everything that is read back from the journal.
        session.started = self.stamp();
        if permitted {
            self.change(id, |life| {
                life.backend = Some(session.backend.clone());
                life.alias = Some(session.alias.clone());
                life.session = Some(session);
                life.state = LifeState::Starting;
                life.fence = fence.or(life.fence);
                life.target = target.or(life.target.take());
                life.claimed = false;
            });
            // The effect has set the task back to ready. Boards from before that are not reported.
            task.into_iter().for_each(|task| self.reopen(task));
        }
        self.out.push(Step::Permit(permitted));
    }

    pub(in crate::schedule) fn running(
        &mut self,
        id: LifeId,
        agent: ProcessIdentity,
        guardian: Option<ProcessIdentity>,
    ) {
        self.change(id, |life| {
            if let Some(session) = &mut life.session {
                (session.agent, session.guardian) = (Some(agent), guardian);
            }
            // A stop may have come in between; its state stays.
            if life.state == LifeState::Starting {
                life.state = LifeState::Running;
            }
        });
    }

    /// Takes in the issues and questions of a running session.
    pub(in crate::schedule) fn blocks(&mut self, id: LifeId, issue: Option<Issue>, questions: Vec<Question>) {
        let Some(life) = self.live(id) else { return };
        let Some(session) = life.session.as_ref().map(|session| session.id.clone()) else { return };
        // Late reports of a session that is being ended change nothing.
        if !matches!(life.state, LifeState::Running | LifeState::Asking { .. } | LifeState::Limited { .. }) {
            return;
        }
        let backend = life.backend.clone();
        // Read before the change: only a session that was limited itself can report that its limit is over.
        let blocked = matches!(&life.state, LifeState::Limited { issue, .. } if blocks_backend(issue.kind));
        let (mut open, mut again) = (Vec::new(), Vec::new());
        for asked in questions {
            let is_same = |answer: &&Answer| answer.id == asked.id && answer.question == asked.question;
            // An agent may use an id again for another question.
            let is_delivered =
                |answer: &Answer| is_same(&answer) && answer.session.as_ref() == Some(&session);
            if life.answers.iter().any(is_delivered) {
                continue;
            }
            // Answered in an earlier session, so the person is not asked again.
            match life.answers.iter().rev().find(is_same) {
                Some(given) => again.push(Answer { session: Some(session.clone()), ..given.clone() }),
                None => open.push(asked),
            }
        }
        let state = match issue {
            Some(issue) => match &life.state {
                // Read again, perhaps by a program that has taken the session over: "in 5 minutes" is as old as its words.
                LifeState::Limited { issue: known, until } if is_repeated(known, &issue) => {
                    LifeState::Limited { issue: known.clone(), until: until.clone() }
                }
                _ => {
                    let (issue, until) = self.recorded(issue);
                    LifeState::Limited { issue, until }
                }
            },
            None if open.is_empty() => LifeState::Running,
            None => LifeState::Asking { questions: open },
        };
        let again_ids: Vec<_> = again.iter().map(|answer| answer.id.clone()).collect();
        self.change(id, |life| {
            life.answers.extend(again);
            life.state = state.clone();
        });
        again_ids.into_iter().for_each(|question| self.command(Command::Deliver(id, question)));
        // After the change of the life, so that unblocking does not continue this very life twice.
        match (state, backend) {
            (LifeState::Limited { issue, .. }, Some(backend)) => {
                self.block_for(&backend, &issue, id);
                self.stops_at(id, &issue);
            }
            (_, Some(backend)) if blocked => self.unblock(&backend),
            _ => {}
        }
    }

    pub(in crate::schedule) fn session_over(&mut self, id: LifeId, end: SessionEnd) {
        // In the state `Capturing`, the end is recorded already.
        let Some(life) =
            self.live(id).filter(|life| life.has_attempt() && life.state != LifeState::Capturing)
        else {
            return;
        };
        if let Some(session) = life.session.clone() {
            self.record(Change::SessionOver { life: id, session: Box::new(session), end });
            self.set(id, LifeState::Capturing);
        }
    }

    /// Takes in the result of an attempt.
    pub(in crate::schedule) fn attempted(
        &mut self,
        id: LifeId,
        outcome: Outcome,
        tip: Option<Commit>,
        progress: bool,
    ) {
        let Some(life) = self.live(id).filter(|life| life.has_attempt()) else { return };
        if outcome == Outcome::Undetermined {
            // The life stays as it is: the next start finds the claim in the session's folder and writes it.
            self.undetermined.insert(id);
            return;
        }
        let (subject, stop) = (life.subject, life.stop);
        let session = life.session.as_ref().map(|session| session.id.clone());
        // The next session of the life may be put aside as well.
        self.put_aside.remove(&id);
        let success = match outcome {
            // An attempt conflicts where its agent claimed success in the midst of a merge.
            Outcome::Claimed | Outcome::Uncaptured(_) | Outcome::Ended(Ending::Conflict { .. }) => Some(true),
            Outcome::Ended(Ending::Failed { .. }) => Some(false),
            _ => None,
        };
        if let (Some(task), Some(success)) = (subject.task(), success) {
            // The effect has written it into the file. The next board shows it too, but until then a task
            // must not start.
            self.done(task, success);
        }
        // A kill counts as a start, so that a task that takes its orchestrator down does not start for ever.
        let is_lost = outcome == Outcome::Interrupted && session.is_some() && !self.closing;
        let counts =
            is_lost || matches!(outcome, Outcome::Claimed | Outcome::Uncaptured(_) | Outcome::Ended(_));
        self.change(id, |life| {
            life.session = None;
            // An attempt that captured nothing leaves the branch where it was.
            life.tip = tip.or(life.tip.take());
            life.claimed |= success == Some(true) && subject.task().is_some();
            life.fruitless = match (progress, counts) {
                (true, _) => 0,
                (false, true) => life.fruitless,
                // Not the fault of the task.
                (false, false) => life.fruitless.saturating_sub(1),
            };
            // Carried out, or outdated by the file in the meantime.
            life.stop = life.stop.filter(|by| *by != StopReason::DoneByHand);
        });
        // A stop comes before every outcome but `DoneByHand`: nothing of its work merges until a person asks.
        match (&outcome, subject) {
            (Outcome::Ended(Ending::Refined), Subject::Refine { draft }) => self.reopen(draft),
            (Outcome::Ended(Ending::Generated { tasks }), _) => self.unseen.extend(tasks),
            _ => {}
        }
        match (stop, subject) {
            (Some(by), _) if by != StopReason::DoneByHand => self.end(id, Ending::Stopped { by }),
            (_, Subject::Chat) => self.end(id, end_of_chat(outcome)),
            (stop, _) => match outcome {
                // The effect of a step ends with what it wrote.
                Outcome::Claimed if subject.is_step() => self.end(id, Ending::Nothing),
                Outcome::Claimed => self.enqueue(id),
                // Another session would not make its work easier to capture.
                Outcome::Uncaptured(ending) => self.end(id, ending),
                // A person marked the task done, so no other attempt follows.
                Outcome::Ended(ending) if stop.is_some() => self.end(id, ending),
                Outcome::Ended(ending) => self.ended_or_again(id, ending),
                // Nobody could resume it by its task. The next request for one brings variables or finds an agent.
                Outcome::Limited(issue) if subject.is_step() && is_of_caller(issue.kind) => {
                    let code = if issue.kind == IssueKind::AgentMissing {
                        "program_missing"
                    } else {
                        "variables_gone"
                    };
                    self.end(id, Ending::Error { code: code.to_owned(), message: issue.message });
                }
                Outcome::Asked(questions) => self.asked(id, questions, session.as_ref()),
                Outcome::Limited(issue) if issue.kind == IssueKind::AgentMissing => {
                    self.without_agent(id, issue, session.is_some());
                }
                Outcome::Limited(issue) => {
                    let (issue, until) = self.recorded(self.paused(issue));
                    if let Some(backend) = self.live(id).and_then(|life| life.backend.clone()) {
                        self.block_for(&backend, &issue, id);
                    }
                    if !self.stops_at(id, &issue) {
                        self.set(id, LifeState::Limited { issue, until });
                    }
                }
                // Too many starts: a person decides, even if lives resume by themselves.
                Outcome::Interrupted if is_lost && self.is_fruitless(id) => {
                    self.set(id, LifeState::Waiting { on: Wait::Resume });
                }
                Outcome::Interrupted | Outcome::Undetermined => self.rest(id),
                Outcome::Elsewhere => {
                    let until = self.after(ELSEWHERE_MILLIS);
                    self.change(id, |life| {
                        // Nothing was begun under this number, and the next look may be the hundredth.
                        life.attempt.0 = life.attempt.0.saturating_sub(1);
                        life.state = LifeState::Waiting { on: Wait::Elsewhere { until } };
                    });
                    self.unsettled = true;
                }
                Outcome::Trouble { code, message } => {
                    // One pause for all starts: what is short here, such as disk space, every session needs.
                    let until = self.after(TROUBLE_MILLIS);
                    let trouble = Trouble { code, message, until };
                    self.set(id, LifeState::Waiting { on: trouble.wait() });
                    self.paused = Some(trouble);
                    self.unsettled = true;
                }
            },
        }
        if self.board_known {
            // A person may have finished or withdrawn the task in the meantime.
            self.heed_card(id);
        }
    }

    /// Lets a life wait until a person has installed its agent or named another.
    fn without_agent(&mut self, id: LifeId, issue: Issue, had_session: bool) {
        let Some(life) = self.live(id) else { return };
        let (backend, has_own) = (self.asked_for(life), has_variables(&life.options));
        // What one caller's PATH lacks, others may have.
        if let Some(backend) = backend.as_ref().filter(|_| !has_own) {
            self.block_for(backend, &issue, id);
        }
        self.change(id, |life| {
            // Nothing was begun under this number.
            life.attempt.0 = life.attempt.0.saturating_sub(u32::from(!had_session));
            life.backend = backend;
            life.state = LifeState::Limited { issue, until: None };
        });
    }

    /// Sets a life to asking after its session has ended, unless the questions are answered by now.
    fn asked(&mut self, id: LifeId, questions: Vec<Question>, session: Option<&crate::model::SessionId>) {
        let Some(life) = self.live(id) else { return };
        let (mut open, mut again) = (Vec::new(), Vec::new());
        for asked in questions {
            let is_same = |answer: &&Answer| answer.id == asked.id && answer.question == asked.question;
            let given: Vec<_> = life.answers.iter().filter(is_same).collect();
            match given.as_slice() {
                // Answered while the session was being ended.
                given if given.iter().any(|answer| answer.session.as_ref() == session) => {}
                // Asked in spite of its prompt, and ended before it could be told. Once: else an agent that asks in each of its
                // sessions would start for ever.
                [before] => again.push(Answer { session: session.cloned(), ..(*before).clone() }),
                _ => open.push(asked),
            }
        }
        self.change(id, |life| life.answers.extend(again));
        match open.is_empty() {
            // The next attempt finds the answers in its prompt.
            true => self.rest(id),
            false => self.set(id, LifeState::Asking { questions: open }),
        }
    }

    fn is_fruitless(&self, id: LifeId) -> bool {
        self.live(id).is_some_and(|life| life.fruitless >= self.limits.restarts.max(1))
    }

    /// Ends a life, unless another attempt may help and is left.
    pub(in crate::schedule) fn ended_or_again(&mut self, id: LifeId, ending: Ending) {
        let Some(life) = self.live(id) else { return };
        let starts = life.fruitless;
        // After a stop of all, another session would be a start by itself.
        if !ending.is_retryable() || life.retries_left == 0 || self.ledger.halted {
            return self.end(id, ending);
        }
        if self.is_fruitless(id) {
            return self.end(id, Ending::GaveUp { starts, last: Box::new(ending) });
        }
        // The bound keeps the shift from overflowing; the pause has a bound of its own below.
        let doubled = FIRST_PAUSE_MILLIS << starts.saturating_sub(1).min(10);
        let until = self.after(doubled.min(LONGEST_PAUSE_MILLIS));
        let on = match self.resting(id) {
            // The agent ended well, so there is no crash to wait out.
            Wait::Turn if !ending.is_merge_failure() => Wait::Retry { until },
            on => on,
        };
        self.change(id, |life| {
            life.retries_left -= 1;
            life.setback = Some(ending);
            life.state = LifeState::Waiting { on };
        });
    }
}

impl Trouble {
    pub(in crate::schedule) fn wait(&self) -> Wait {
        Wait::Trouble { code: self.code.clone(), message: self.message.clone(), until: self.until.clone() }
    }
}

/// Returns true for an issue in the same words, of which only the time is reckoned anew.
fn is_repeated(known: &Issue, issue: &Issue) -> bool {
    let is_later = known.reset_at.as_ref().is_some_and(|known| issue.reset_at.as_ref() > Some(known));
    is_later && known.kind == issue.kind && known.message == issue.message
}

/// Returns true for what a request lacks, and no agent reports.
fn is_of_caller(kind: IssueKind) -> bool {
    matches!(kind, IssueKind::AgentMissing | IssueKind::VariablesGone)
}

/// Returns the ending of a chat: closed, unless something of ours failed.
fn end_of_chat(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::Ended(ending @ Ending::Error { .. }) => ending,
        Outcome::Trouble { code, message } => Ending::Error { code, message },
        Outcome::Limited(issue) if issue.kind == IssueKind::AgentMissing => {
            Ending::Error { code: "program_missing".to_owned(), message: issue.message }
        }
        _ => Ending::Closed,
    }
}
