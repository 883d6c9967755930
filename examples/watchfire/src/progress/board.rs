//! The state of a run, folded from its changes, and the lines to print about them. Pure: no clock, no output.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use watchfire_core::model::{Attempt, SessionId, TaskNumber};
use watchfire_core::orchestrator::Spent;
use watchfire_core::schedule::{
    Change, Ending, Life, LifeId, LifeState, RunId, Scope, SessionRef, Subject, Wait,
};

use crate::text;

/// The tasks that are under way.
#[derive(Debug, Default)]
pub(super) struct Board {
    titles: BTreeMap<TaskNumber, String>,
    pub(super) rows: BTreeMap<Subject, Row>,
    ended: usize,
    /// True once the open rules of the sandbox were printed.
    told_open: bool,
    /// The runs that are wildfire.
    wildfires: BTreeSet<RunId>,
}

/// A task that is under way.
#[derive(Clone, Debug)]
pub(super) struct Row {
    life: LifeId,
    pub(super) run: Option<RunId>,
    pub(super) session: Option<SessionId>,
    attempt: Attempt,
    pub(super) state: LifeState,
    pub(super) detail: String,
    pub(super) began: Instant,
    /// Agent and sandbox, such as `scripted in landlock`.
    pub(super) who: String,
    /// Activity of the agent, in one line.
    pub(super) doing: String,
    /// Spending of the task's sessions, as far as they report it.
    spent: Spent,
}

/// A line that stays on the screen.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// The kind of a line, which decides its colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A step on the way. Only views that do not redraw print it.
    Step,
    /// A task ended well.
    Good,
    /// A task ended badly.
    Bad,
    /// Something that a person should look at.
    Attention,
}

impl Board {
    pub(super) fn new(titles: BTreeMap<TaskNumber, String>) -> Self {
        Self { titles, ..Self::default() }
    }

    /// Returns true if the title of a task is known.
    pub(super) fn knows(&self, number: TaskNumber) -> bool {
        self.titles.contains_key(&number)
    }

    /// Takes in the title that a task has now.
    pub(super) fn set_title(&mut self, number: TaskNumber, title: &str) {
        self.titles.insert(number, text::line(title));
    }

    /// Returns the name of a piece of work of a run: `#0003 Greet`, in wildfire `Execute #0003 Greet`, `Refine #0004 Vague`,
    /// `Generate`.
    pub(super) fn name(&self, subject: Subject, run: Option<RunId>) -> String {
        let task = |number: TaskNumber| {
            let title = self.titles.get(&number).map(String::as_str).unwrap_or_default();
            format!("#{number} {title}")
        };
        match subject {
            Subject::Task { task: number, .. } if run.is_some_and(|run| self.wildfires.contains(&run)) => {
                format!("Execute {}", task(number))
            }
            Subject::Task { task: number, .. } => task(number),
            Subject::Refine { draft, .. } => format!("Refine {}", task(draft)),
            Subject::Generate => "Generate".to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns the number of tasks that have ended.
    pub(super) fn ended(&self) -> usize {
        self.ended
    }

    /// Takes in a change. Returns the lines to print about it.
    pub(super) fn take_in(&mut self, change: &Change, now: Instant) -> Vec<Said> {
        match change {
            Change::Run(run) => {
                if run.scope == Scope::Wildfire {
                    self.wildfires.insert(run.id);
                }
                Vec::new()
            }
            Change::Life(life) => match life.subject {
                // A chat is not part of a run.
                Subject::Chat => Vec::new(),
                _ => self.life(life, now),
            },
            Change::SessionOver { life, end, .. } => {
                // The record of a session's end has its cost.
                if let Some(row) = self.rows.values_mut().find(|row| row.life == *life) {
                    row.spent = row.spent.plus(Spent::new(end.usage, end.cost));
                }
                Vec::new()
            }
            Change::Backend { backend, block, .. } => {
                let text = match block {
                    None => format!("{backend} is no longer blocked"),
                    Some(block) => match &block.until {
                        Some(until) => {
                            format!("{backend} is blocked until {}: {}", until.local(), block.issue.message)
                        }
                        None => format!("{backend} is blocked: {}", block.issue.message),
                    },
                };
                vec![Said::new(Kind::Attention, &text)]
            }
            Change::Notice(notice) => {
                let about = notice.task.map(|task| format!("#{task} ")).unwrap_or_default();
                vec![Said::new(Kind::Attention, &format!("{about}{}", notice.message))]
            }
            _ => Vec::new(),
        }
    }

    fn life(&mut self, life: &Life, now: Instant) -> Vec<Said> {
        let subject = life.subject;
        if let Some(ending) = life.ending() {
            return vec![self.ended_life(life, ending, now)];
        }
        let name = self.name(subject, life.run);
        let row = self.rows.entry(subject).or_insert_with(|| Row::new(life.id, now));
        // Only changes of state and attempt are printed: a life changes more often, for example when its
        // session starts.
        let is_new = row.state != life.state || row.attempt != life.attempt;
        if row.attempt != life.attempt {
            // The costs of attempts add up; everything else begins anew.
            *row = Row { spent: row.spent, attempt: life.attempt, ..Row::new(life.id, now) };
        }
        row.state = life.state.clone();
        row.run = life.run;
        row.detail = text::line(&life.state.detail().unwrap_or_default());
        row.session = life.session.as_ref().map(|session| session.id.clone());
        let mut said = Vec::new();
        if let Some(session) = &life.session {
            let who = format!("{} in {}", session.backend, session.sandbox);
            if row.who != who {
                row.who.clone_from(&who);
                said.extend(self.sandbox(&name, session));
            }
        }
        let Some(row) = self.rows.get_mut(&subject).filter(|_| is_new) else { return said };
        row.doing.clear();
        let (who, detail) = (&row.who, &row.detail);
        let (kind, what) = match &life.state {
            LifeState::Starting if life.attempt.0 > 1 => {
                (Kind::Step, format!("starting, attempt {}", life.attempt))
            }
            LifeState::Running if !who.is_empty() => (Kind::Step, format!("running, {who}")),
            LifeState::Asking { .. } => (Kind::Attention, format!("asks: {detail}")),
            LifeState::Limited { .. } => (Kind::Attention, format!("limited: {detail}")),
            LifeState::Held { .. } | LifeState::Incomplete { .. } => {
                (Kind::Attention, format!("{}: {detail}", life.state.word()))
            }
            LifeState::Verifying { .. } => (Kind::Step, format!("verifying: {detail}")),
            LifeState::Merging | LifeState::Publishing { .. } => match &life.target {
                Some(target) if !target.is_empty() => {
                    (Kind::Step, format!("{} into {target}", life.state.word()))
                }
                _ => (Kind::Step, life.state.word().to_owned()),
            },
            // Waiting for a turn is no news.
            LifeState::Waiting { on: Wait::Turn, .. } => return said,
            state => (Kind::Step, text::line(&state.to_string())),
        };
        said.push(Said::new(kind, &format!("{name}: {what}")));
        said
    }

    /// Returns a line about the rules that the sandbox does not enforce, once per run: except for paths, they are the
    /// same for all sessions.
    fn sandbox(&mut self, name: &str, session: &SessionRef) -> Option<Said> {
        if session.sandbox == "none" {
            let what = "no sandbox, as asked: this agent can do whatever you can";
            return Some(Said::new(Kind::Step, &format!("{name}: {what}")));
        }
        if session.open.is_empty() || std::mem::replace(&mut self.told_open, true) {
            return None;
        }
        let points = text::count(session.open.len(), "point");
        let what = format!("{points} of the policy not fully enforced here: watchfire sandbox report");
        Some(Said::new(Kind::Step, &format!("sandbox {}: {what}", session.sandbox)))
    }

    fn ended_life(&mut self, life: &Life, ending: &Ending, now: Instant) -> Said {
        let subject = life.subject;
        let took = self.rows.remove(&subject).map(|row| {
            let mut took = vec![text::elapsed(now.saturating_duration_since(row.began))];
            took.extend((!row.spent.is_nothing()).then(|| row.spent.to_string()));
            took.join(", ")
        });
        self.ended += usize::from(subject.task().is_some());
        let kind = if ending.is_good() { Kind::Good } else { Kind::Bad };
        let took = took.map(|took| format!("  ({took})")).unwrap_or_default();
        Said::new(kind, &format!("{}: {}{took}", self.name(subject, life.run), how(ending)))
    }
}

impl Said {
    fn new(kind: Kind, text: &str) -> Self {
        // Every line passes here, so no escape sequence of an agent or a file reaches the terminal.
        Self { kind, text: text::line(text) }
    }
}

impl Row {
    fn new(life: LifeId, now: Instant) -> Self {
        Self {
            life,
            run: None,
            session: None,
            attempt: Attempt(0),
            state: LifeState::waiting(Wait::Turn),
            detail: String::new(),
            began: now,
            who: String::new(),
            doing: String::new(),
            spent: Spent::default(),
        }
    }
}

/// Describes an ending in a few words.
fn how(ending: &Ending) -> String {
    match ending {
        Ending::Merged { commit, target, repository, .. } => {
            let at =
                commit.as_deref().and_then(|commit| commit.get(..8)).map(|commit| format!(" as {commit}"));
            let into = target.as_deref().map(|target| format!(" into {target}"));
            let place = repository.as_ref().map(|at| format!(" in {}", at.display()));
            let all = [into, at, place].map(Option::unwrap_or_default);
            format!("merged{}", all.concat())
        }
        Ending::Unmerged => "done, kept on its branch".to_owned(),
        Ending::Nothing => "done, nothing to merge".to_owned(),
        Ending::Generated { tasks, .. } if tasks.is_empty() => "nothing is left to do".to_owned(),
        ending => {
            let reason = ending.reason();
            // The first line that holds words: the report at the end shows the rest.
            let first =
                reason.as_deref().and_then(|reason| reason.lines().find(|line| !line.trim().is_empty()));
            first.map_or_else(|| ending.word().to_owned(), |reason| format!("{}: {reason}", ending.word()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::model::Timestamp;
    use watchfire_core::schedule::SessionEnd;

    fn life(task: TaskNumber, attempt: u32, state: LifeState) -> Change {
        let at = Timestamp::from_unix_millis(0);
        let mut life = Life::new(LifeId(1), Subject::of_task(task), at);
        (life.attempt, life.state) = (Attempt(attempt), state);
        Change::Life(Box::new(life))
    }

    fn session_over(usage: watchfire_core::backend::Usage) -> Change {
        let at = Timestamp::from_unix_millis(0);
        let alias = "calm-otter".parse().unwrap();
        let backend = "scripted".parse().unwrap();
        let session = SessionRef::new("s1".parse().unwrap(), alias, backend, "none", "/", at);
        let mut end = SessionEnd::new("exit code 0");
        (end.usage, end.cost) = (usage, Some(12_345));
        Change::session_over(LifeId(1), Box::new(session), end)
    }

    #[test]
    fn the_cost_of_all_attempts_is_shown_with_the_end() {
        let number = TaskNumber::new(1).unwrap();
        let now = Instant::now();
        let mut board = Board::default();
        let mut usage = watchfire_core::backend::Usage::default();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) = (1000, 500, 30);
        for attempt in 1..=2 {
            board.take_in(&life(number, attempt, LifeState::Starting), now);
            assert_eq!(board.take_in(&session_over(usage), now), []);
        }
        let ended = life(number, 2, LifeState::ended(Ending::Unmerged));
        let said = board.take_in(&ended, now).remove(0).text;
        assert!(said.ends_with("3000 tokens in, 60 out, $0.0246)"), "{said}");
    }

    #[test]
    fn a_task_comes_and_goes() {
        let number = TaskNumber::new(1).unwrap();
        let mut board = Board::new([(number, "Greet".to_owned())].into());
        let now = Instant::now();
        let said = board.take_in(&life(number, 1, LifeState::Starting), now).remove(0);
        assert_eq!((said.kind, said.text.as_str()), (Kind::Step, "#0001 Greet: starting"));
        let command = "make \x1b[1mcheck".to_owned();
        let said = board.take_in(&life(number, 1, LifeState::verifying(command)), now).remove(0);
        assert_eq!(said.text, "#0001 Greet: verifying: make  [1mcheck");
        assert_eq!(board.rows.len(), 1);
        let how = Ending::failed("\nno way\nmore");
        let said = board.take_in(&life(number, 1, LifeState::ended(how)), now).remove(0);
        assert_eq!((said.kind, said.text.as_str()), (Kind::Bad, "#0001 Greet: failed: no way  (0.0s)"));
        assert_eq!((board.rows.len(), board.ended()), (0, 1));
    }

    #[test]
    fn a_question_needs_an_eye() {
        let number = TaskNumber::new(1).unwrap();
        let mut board = Board::new([(number, "Greet".to_owned())].into());
        let questions = vec![watchfire_core::model::Question::new("1", "Which port?")];
        let said = board.take_in(&life(number, 1, LifeState::asking(questions)), Instant::now()).remove(0);
        assert_eq!((said.kind, said.text.as_str()), (Kind::Attention, "#0001 Greet: asks: Which port?"));
    }
}
