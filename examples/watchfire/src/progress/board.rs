//! What is known of a run from its events. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{Event, Spent, Step};
use watchfire_core::schedule::Ending;

use crate::text;

/// The tasks under way.
#[derive(Debug, Default)]
pub(super) struct Board {
    titles: BTreeMap<TaskNumber, String>,
    pub(super) rows: BTreeMap<TaskNumber, Row>,
    ended: usize,
    /// Whether it was said what the sandbox leaves open.
    told_open: bool,
}

/// A task under way.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) step: Step,
    pub(super) detail: String,
    pub(super) began: Instant,
    /// Who works on it: `scripted in landlock`.
    pub(super) who: String,
    /// The last line of its screen.
    pub(super) screen: String,
    /// What its sessions spent, as far as they say.
    spent: Spent,
}

/// Something to say for good.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A step on the way, of interest where nothing is redrawn.
    Step,
    /// A task came to a good end.
    Good,
    /// A task came to a bad end.
    Bad,
    /// Something needs an eye.
    Attention,
}

impl Board {
    pub(super) fn new(titles: BTreeMap<TaskNumber, String>) -> Self {
        Self { titles, ..Self::default() }
    }

    pub(super) fn title(&self, number: TaskNumber) -> &str {
        self.titles.get(&number).map(String::as_str).unwrap_or_default()
    }

    /// How many tasks have come to an end.
    pub(super) fn ended(&self) -> usize {
        self.ended
    }

    /// Takes an event in, and gives what is to be said about it.
    pub(super) fn take_in(&mut self, event: &Event, now: Instant) -> Option<Said> {
        let say = |kind, text: String| Some(Said { kind, text: text::line(&text) });
        match event {
            Event::TaskProgress { task, step, detail, attempt, .. } => {
                let row = self.rows.entry(*task).or_insert_with(|| Row::new(*step, now));
                if *step == Step::Starting {
                    // An attempt costs on top of those before.
                    *row = Row { spent: row.spent, ..Row::new(*step, now) };
                }
                (row.step, row.detail) = (*step, text::line(detail));
                row.screen.clear();
                let (who, detail) = (row.who.clone(), text::line(detail));
                let what = match step {
                    Step::Starting if attempt.0 > 1 => format!("starting, attempt {attempt}"),
                    Step::Running if !who.is_empty() => format!("running, {who}"),
                    Step::Verifying => format!("verifying: {detail}"),
                    Step::Merging | Step::Publishing if !detail.is_empty() => {
                        format!("{} into {detail}", step.as_str())
                    }
                    step => step.as_str().to_owned(),
                };
                say(Kind::Step, format!("#{task} {}: {what}", self.title(*task)))
            }
            Event::SessionStarted { task: Some(task), backend, sandbox, open, .. } => {
                let who = format!("{backend} in {sandbox}");
                self.rows.entry(*task).or_insert_with(|| Row::new(Step::Running, now)).who.clone_from(&who);
                if sandbox == "none" {
                    let title = self.title(*task);
                    let what = "no sandbox, as asked: this agent can do whatever you can";
                    return say(Kind::Step, format!("#{task} {title}: {what}"));
                }
                // Once is enough: it is the same for all, but for paths.
                if open.is_empty() || std::mem::replace(&mut self.told_open, true) {
                    return None;
                }
                let points = text::count(open.len(), "point");
                say(
                    Kind::Step,
                    format!(
                        "sandbox {sandbox}: {points} of the policy not fully enforced here: {}",
                        open.join("; ")
                    ),
                )
            }
            Event::SessionEnded { task: Some(task), usage, cost, .. } => {
                if let Some(row) = self.rows.get_mut(task) {
                    row.spent = row.spent.plus(Spent::new(*usage, *cost));
                }
                None
            }
            Event::TaskEnded { task, ending, .. } => {
                let took = self.rows.remove(task).map(|row| {
                    let mut took = vec![text::elapsed(now.saturating_duration_since(row.began))];
                    took.extend((!row.spent.is_nothing()).then(|| row.spent.to_string()));
                    took.join(", ")
                });
                self.ended += 1;
                let kind = if ending.is_good() { Kind::Good } else { Kind::Bad };
                let took = took.map(|took| format!("  ({took})")).unwrap_or_default();
                say(kind, format!("#{task} {}: {}{took}", self.title(*task), how(ending)))
            }
            Event::Attention { task, message, .. } => {
                let about = task.map(|task| format!("#{task} ")).unwrap_or_default();
                say(Kind::Attention, format!("{about}{message}"))
            }
            Event::Recovered { message, .. } => say(Kind::Attention, format!("after a restart: {message}")),
            _ => None,
        }
    }
}

impl Row {
    fn new(step: Step, now: Instant) -> Self {
        Self {
            step,
            detail: String::new(),
            began: now,
            who: String::new(),
            screen: String::new(),
            spent: Spent::default(),
        }
    }
}

/// How a task ended, in a few words.
fn how(ending: &Ending) -> String {
    match ending {
        Ending::Merged { commit, target } => {
            let at =
                commit.as_deref().and_then(|commit| commit.get(..8)).map(|commit| format!(" as {commit}"));
            let into = target.as_deref().map(|target| format!(" into {target}"));
            format!("merged{}{}", into.unwrap_or_default(), at.unwrap_or_default())
        }
        Ending::Unmerged => "done, kept on its branch".to_owned(),
        Ending::Nothing => "done, nothing to merge".to_owned(),
        ending => {
            let first =
                ending.reason().and_then(|reason| reason.lines().find(|line| !line.trim().is_empty()));
            first.map_or_else(|| ending.word().to_owned(), |reason| format!("{}: {reason}", ending.word()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::model::{Attempt, ProjectId};

    #[test]
    fn what_sessions_spent_is_told_with_the_end() {
        let number = TaskNumber::new(1).unwrap();
        let project = ProjectId::random();
        let now = Instant::now();
        let mut board = Board::default();
        let mut usage = watchfire_core::backend::Usage::default();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) = (1000, 500, 30);
        for attempt in 1..=2 {
            let (step, attempt) = (Step::Starting, Attempt(attempt));
            let detail = String::new();
            board.take_in(
                &Event::TaskProgress { project: project.clone(), task: number, attempt, step, detail },
                now,
            );
            let ended = Event::SessionEnded {
                project: project.clone(),
                session: "s1".parse().unwrap(),
                task: Some(number),
                exit: "exit code 0".into(),
                usage,
                cost: Some(12_345),
            };
            assert_eq!(board.take_in(&ended, now), None);
        }
        let ended = Event::TaskEnded { project, task: number, ending: Ending::Unmerged };
        let said = board.take_in(&ended, now).unwrap().text;
        assert!(said.ends_with("3000 tokens in, 60 out, $0.0246)"), "{said}");
    }

    #[test]
    fn a_task_comes_and_goes() {
        let number = TaskNumber::new(1).unwrap();
        let project: ProjectId = "p".parse().unwrap();
        let mut board = Board::new([(number, "Greet".to_owned())].into());
        let now = Instant::now();
        let progress = |step, detail: &str| Event::TaskProgress {
            project: project.clone(),
            task: number,
            attempt: Attempt(1),
            step,
            detail: detail.to_owned(),
        };
        let said = board.take_in(&progress(Step::Starting, ""), now).unwrap();
        assert_eq!((said.kind, said.text.as_str()), (Kind::Step, "#0001 Greet: starting"));
        let said = board.take_in(&progress(Step::Verifying, "make \x1b[1mcheck"), now).unwrap();
        assert_eq!(said.text, "#0001 Greet: verifying: make  [1mcheck");
        assert_eq!(board.rows.len(), 1);
        let ending = Ending::Failed { reason: "\nno way\nmore".to_owned() };
        let said =
            board.take_in(&Event::TaskEnded { project: project.clone(), task: number, ending }, now).unwrap();
        assert_eq!((said.kind, said.text.as_str()), (Kind::Bad, "#0001 Greet: failed: no way  (0.0s)"));
        assert_eq!((board.rows.len(), board.ended()), (0, 1));
    }
}
