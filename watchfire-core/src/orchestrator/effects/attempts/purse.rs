//! The account of a session: the record beside its log, and the budgets that it counts against.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::model::{BackendName, BudgetSettings, Dollars, TaskNumber, UnknownSpending};
use crate::orchestrator::shared::{ProjectShared, SessionOutcome, Spent, SpentRecord};
use crate::schedule::{Life, NoticeCode, Subject};
use crate::session::{Counted, Ended, Meter};
use crate::{Error, ErrorKind, Result};

/// Part of a budget, in percent, from which the person is warned.
const WARNING: u64 = 80;

/// The account of one session. Budgets are looked up each time, so that a person can raise them while it works.
pub(in crate::orchestrator::effects) struct Purse {
    shared: Arc<ProjectShared>,
    /// A chat is warned and never stopped: its person sees what it does.
    is_chat: bool,
    /// Cost of the earlier sessions of the task.
    before: u64,
    state: Mutex<State>,
}

struct State {
    record: SpentRecord,
    /// True once the record of the end is written.
    closed: bool,
    warned: bool,
    told_unknown: bool,
    used_up: Option<String>,
}

impl Purse {
    /// Opens the account of a session with this log. Reads files.
    pub(in crate::orchestrator::effects) fn new(
        shared: &Arc<ProjectShared>,
        life: &Life,
        task: Option<TaskNumber>,
        agent: BackendName,
        log: &Path,
    ) -> Self {
        let record = SpentRecord::new(log, task, life.run, agent);
        let is_chat = life.subject == Subject::Chat;
        let state = State { record, closed: false, warned: false, told_unknown: false, used_up: None };
        // The sum reads the records of all sessions of the task, so it is formed only where it counts.
        let before =
            if shared.inner.settings().budget.task.is_some() { cost_of(shared, task, Some(log)) } else { 0 };
        Self { shared: Arc::clone(shared), is_chat, before, state: Mutex::new(state) }
    }

    /// Returns the budget that ended the session, in words.
    pub(in crate::orchestrator::effects) fn used_up(&self) -> Option<String> {
        self.state().used_up.clone()
    }

    /// Writes the last count.
    ///
    /// # Errors
    /// I/O errors.
    pub(in crate::orchestrator::effects) fn close(&self, counted: Counted, ended: &Ended) -> Result<()> {
        let mut state = self.state();
        state.closed = true;
        // Some agents tell all they spent only now.
        today(&self.shared, Some((&state.record.log, counted.known)));
        self.end(&mut state, counted, ended)
    }

    /// Writes how the session ended, before its work goes on: a client that is told of no end asks the next orchestrator for it.
    ///
    /// # Errors
    /// I/O errors.
    pub(in crate::orchestrator::effects) fn note_end(&self, counted: Counted, ended: &Ended) -> Result<()> {
        self.end(&mut self.state(), counted, ended)
    }

    fn end(&self, state: &mut State, counted: Counted, ended: &Ended) -> Result<()> {
        state.record.exit = Some(ended.exit.to_string());
        state.record.exit_code = ended.exit_code();
        state.record.outcome = Some(SessionOutcome::of(ended));
        self.count(state, counted)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &mut State, counted: Counted) -> Result<()> {
        let Counted { usage, cost, known } = counted;
        state.record.spent = Spent::new(usage, cost);
        state.record.known = cost.is_none().then_some(known);
        state.record.at = Some(self.shared.inner.clock.now());
        state.record.save()
    }

    fn notice(&self, state: &State, message: impl Into<String>) {
        self.shared.notice(NoticeCode::Budget, state.record.task, message);
    }
}

impl Meter for Purse {
    fn take_in(&self, counted: Counted) -> bool {
        let mut state = self.state();
        // A late count must not replace the last one.
        if state.closed {
            return false;
        }
        if let Err(error) = self.count(&mut state, counted) {
            tracing::warn!("keeping what was spent: {}", error.report());
        }
        let budget = self.shared.inner.settings().budget;
        if !budget.is_set() {
            return false;
        }
        if counted.cost.is_none() && !std::mem::replace(&mut state.told_unknown, true) {
            let what = "the price of a model that it uses is not known";
            if budget.unknown == UnknownSpending::Refuse && !self.is_chat {
                let what = format!("{what}, and `budget.unknown` is `refuse`");
                self.notice(&state, format!("{what}; the agent is asked to finish"));
                state.used_up = Some(what);
                return true;
            }
            self.notice(&state, format!("{what}: budgets count only the rest of what it spends"));
        }
        let cost = counted.known;
        let log = state.record.log.clone();
        let spent = Costs {
            task: state.record.task.map(|_| self.before.saturating_add(cost)),
            day: today(&self.shared, Some((&log, cost))),
        };
        match spent.nearest(&budget) {
            Some((share, what)) if share >= 100 => {
                if state.used_up.is_none() {
                    let then = if self.is_chat { "" } else { "; the agent is asked to finish" };
                    self.notice(&state, format!("{what}{then}"));
                }
                // Replaced with every count, so that the ending names the amount that was spent in the
                // end.
                state.used_up = Some(what);
                !self.is_chat
            }
            Some((share, what)) if share >= WARNING && !state.warned => {
                state.warned = true;
                self.notice(&state, what);
                false
            }
            _ => false,
        }
    }
}

/// Refuses a session if a budget is used up, or if the agent reports no usage and the settings forbid that.
/// Reads files.
///
/// # Errors
/// `budget_used_up`.
pub(in crate::orchestrator::effects) fn admit(
    shared: &ProjectShared,
    life: &Life,
    task: Option<TaskNumber>,
    backend: &dyn Backend,
) -> Result<()> {
    let budget = shared.inner.settings().budget;
    if !budget.is_set() || life.subject == Subject::Chat {
        return Ok(());
    }
    if !backend.capabilities().usage {
        let name = backend.name();
        match budget.unknown {
            UnknownSpending::Refuse => {
                let message =
                    format!("{name} does not tell what it spends, and `budget.unknown` is `refuse`");
                return Err(Error::new(ErrorKind::BudgetUsedUp, message));
            }
            UnknownSpending::Allow => {
                let message = format!("{name} does not tell what it spends: budgets do not hold for it");
                shared.notice(NoticeCode::Budget, task, message);
            }
        }
    }
    let of_task = task.filter(|_| budget.task.is_some()).map(|task| cost_of(shared, Some(task), None));
    // Other programs with this home have spent something, too.
    shared.inner.spending.read_again();
    let spent = Costs { task: of_task, day: today(shared, None) };
    match spent.nearest(&budget) {
        Some((100.., what)) => Err(Error::new(ErrorKind::BudgetUsedUp, what)),
        _ => Ok(()),
    }
}

/// Costs in millionths of a US dollar.
struct Costs {
    task: Option<u64>,
    day: u64,
}

impl Costs {
    /// Returns the budget of which the largest part is used up: that part in percent, and in words.
    fn nearest(&self, budget: &BudgetSettings) -> Option<(u64, String)> {
        let used = |spent: Option<u64>, limit: Option<Dollars>, of: &str| {
            let (spent, limit) = (spent?, limit?);
            // A budget of zero is used up from the start.
            let share = spent.saturating_mul(100).checked_div(limit.micros()).unwrap_or(100);
            let spent = Dollars::from_micros(spent);
            Some((share, format!("{spent} of the budget of {limit} for {of} are spent")))
        };
        let of_task = used(self.task, budget.task, "the task");
        of_task.into_iter().chain(used(Some(self.day), budget.day, "the day")).max_by_key(|(share, _)| *share)
    }
}

/// Returns the known cost of all sessions of a task.
/// Returns the cost of a task's sessions, but of the one with this log, which an earlier program may have begun to count.
fn cost_of(shared: &ProjectShared, task: Option<TaskNumber>, but: Option<&Path>) -> u64 {
    let Some(task) = task else { return 0 };
    let records = SpentRecord::readable(&shared.logs_dir, &format!("{task}-"));
    let counts = |record: &&SpentRecord| record.task == Some(task) && Some(&*record.log) != but;
    records.iter().filter(counts).map(SpentRecord::known_cost).sum()
}

fn today(shared: &ProjectShared, session: Option<(&PathBuf, u64)>) -> u64 {
    let (inner, now) = (&shared.inner, shared.inner.clock.now());
    // The logs of all projects: the budget of a day is for the whole home.
    let logs = shared.logs_dir.parent().unwrap_or(&shared.logs_dir);
    inner.spending.today(logs, session.map(|(log, cost)| (log.as_path(), cost)), &now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_budget_counts() {
        let mut budget = BudgetSettings::default();
        let costs = Costs { task: Some(4_500_000), day: 5_000_000 };
        assert_eq!(costs.nearest(&budget), None);
        budget.task = Some(Dollars::from_micros(5_000_000));
        budget.day = Some(Dollars::from_micros(50_000_000));
        let words = "$4.50 of the budget of $5.00 for the task are spent";
        assert_eq!(costs.nearest(&budget), Some((90, words.to_owned())));
        budget.day = Some(Dollars::default());
        assert_eq!(costs.nearest(&budget).unwrap().0, 100, "nothing may be spent");
    }
}
