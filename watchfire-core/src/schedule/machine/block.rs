//! Blocked backends, for which no new session starts.

use serde::{Deserialize, Serialize};

use super::changes::round_up;
use crate::backend::{Issue, IssueKind};
use crate::model::{BackendName, OnLimit, Timestamp};
use crate::schedule::{Change, Command, Ending, Life, LifeId, LifeState, Schedule, StopReason, Subject};

/// Pause after an issue whose end is not known, or had already passed according to the provider.
const UNCLEAR_MILLIS: i64 = 60_000;

/// A blocked backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Block {
    /// The issue that blocks it.
    pub issue: Issue,
    /// Time at which the block ends by itself. `None` if it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The life that reported the issue. Absent if another project did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<LifeId>,
    /// Time since which it is blocked.
    pub since: Timestamp,
}

/// Returns true if every session of the backend would meet the same issue.
pub(in crate::schedule) fn blocks_backend(kind: IssueKind) -> bool {
    matches!(
        kind,
        IssueKind::AgentMissing
            | IssueKind::AuthRequired
            | IssueKind::ModelUnknown
            | IssueKind::OutOfCredit
            | IssueKind::Outdated
            | IssueKind::Overloaded
            | IssueKind::RateLimited
            | IssueKind::Unreachable
            | IssueKind::UsageLimit
    )
}

/// Returns true for an issue that passes without a person.
fn passes_by_itself(kind: IssueKind) -> bool {
    matches!(kind, IssueKind::Overloaded | IssueKind::RateLimited | IssueKind::Unreachable)
}

/// Returns the time in milliseconds at which an issue of `since` counts as over. If its end had passed by then, a
/// pause is added; otherwise sessions would start and meet the issue as fast as they can. Where the clock was set back
/// since, the provider's time counts alone.
pub(in crate::schedule) fn due(
    reset_at: Option<&Timestamp>,
    since: &Timestamp,
    now: &Timestamp,
) -> Option<i64> {
    let (reset_at, since) = (reset_at?.unix_millis(), since.unix_millis());
    let is_clear = reset_at > since || since > now.unix_millis();
    Some(if is_clear { reset_at } else { since.saturating_add(UNCLEAR_MILLIS) })
}

impl Schedule {
    /// Returns an issue as it is recorded, and the time at which an agent goes on by itself.
    pub(in crate::schedule) fn recorded(&self, mut issue: Issue) -> (Issue, Option<Timestamp>) {
        // Whole seconds, as the journal writes them; rounded up, because before that time the provider refuses.
        issue.reset_at = issue.reset_at.as_ref().map(round_up);
        let until = issue.reset_at.clone().filter(|_| !self.leaves_to_person(&issue));
        (issue, until)
    }

    /// Sets the end of an issue that has ended a session, and that passes by itself at a time that nobody named. An agent
    /// that is still there tries again by itself.
    pub(in crate::schedule) fn paused(&self, mut issue: Issue) -> Issue {
        if passes_by_itself(issue.kind) {
            issue.reset_at.get_or_insert_with(|| self.after(UNCLEAR_MILLIS));
        }
        issue
    }

    /// Returns true if the settings leave it to a person when an agent goes on. With `stop`, too: nothing that is stopped
    /// starts again by itself.
    pub(in crate::schedule) fn leaves_to_person(&self, issue: &Issue) -> bool {
        issue.kind == IssueKind::UsageLimit && self.limits.on_limit != OnLimit::Wait
    }

    /// Ends a life that has reached a limit, if the settings ask for that, and returns true if so. A session
    /// is ended first; its effect reports the issue again.
    pub(in crate::schedule) fn stops_at(&mut self, id: LifeId, issue: &Issue) -> bool {
        let is_stopped = issue.kind == IssueKind::UsageLimit && self.limits.on_limit == OnLimit::Stop;
        // A chat is left alone: its person sees the limit and decides.
        let Some(life) = self.live(id).filter(|life| is_stopped && life.subject != Subject::Chat) else {
            return false;
        };
        match life.session.is_some() {
            true => {
                self.set(id, LifeState::Ending);
                self.command(Command::End(id, StopReason::Suspended));
            }
            false => {
                let (reason, until) = (issue.message.clone(), issue.reset_at.clone());
                self.end(id, Ending::Limited { reason, until });
            }
        }
        true
    }

    /// Blocks the backend of a life if all its sessions would meet the same issue.
    pub(in crate::schedule) fn block_for(&mut self, backend: &BackendName, issue: &Issue, life: LifeId) {
        if blocks_backend(issue.kind) {
            self.block(backend.clone(), issue.clone(), Some(life));
        }
    }

    pub(in crate::schedule) fn block(&mut self, backend: BackendName, issue: Issue, life: Option<LifeId>) {
        let (issue, until) = self.recorded(issue);
        // Keeps the first time: each session reports the same issue again.
        let is_same = |block: &Block| block.issue == issue && block.until == until;
        if self.ledger.blocked.get(&backend).is_some_and(is_same) {
            return;
        }
        let block = Block { issue, until, life, since: self.stamp() };
        self.record(Change::Backend { backend, block: Some(block) });
    }

    /// Unblocks a backend, and continues the lives without a session that it limited.
    pub(in crate::schedule) fn unblock(&mut self, backend: &BackendName) {
        // Every session and every other project reports the same end; only the first report is a change.
        if !self.ledger.blocked.contains_key(backend) {
            return;
        }
        self.record(Change::Backend { backend: backend.clone(), block: None });
        // Lives with a session are not touched: their own agent reports when it can continue.
        let was_kept = |life: &Life| match &life.state {
            LifeState::Limited { issue, .. } => {
                life.session.is_none() && life.backend.as_ref() == Some(backend) && blocks_backend(issue.kind)
            }
            _ => false,
        };
        self.ids(was_kept).into_iter().for_each(|life| self.go_on(life));
    }

    /// Unblocks the backends whose issue does not end by itself: those without a session that would report it cleared,
    /// and those whose limit is over. The person who requests a run may have logged in elsewhere; the first session finds
    /// out.
    pub(in crate::schedule) fn unblock_untended(&mut self) {
        let is_tended = |backend: &BackendName| {
            self.ledger.lives.values().any(|life| {
                let is_limited = matches!(life.state, LifeState::Limited { .. });
                is_limited && life.session.is_some() && life.backend.as_ref() == Some(backend)
            })
        };
        let blocked = self.ledger.blocked.iter();
        let untended: Vec<_> = blocked
            .filter(|(backend, block)| {
                let is_past = |at: &Timestamp| at.unix_millis() <= self.now.unix_millis();
                // With `on_limit: ask`, a block has a reset time and still waits for a person, whose word
                // this request is.
                let is_over = block.issue.reset_at.as_ref().is_some_and(is_past);
                block.until.is_none() && (is_over || !is_tended(backend))
            })
            .map(|(backend, _)| backend.clone())
            .collect();
        untended.iter().for_each(|backend| self.unblock(backend));
    }
}
