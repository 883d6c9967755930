//! What a start must see to before it does anything else.

use super::entry::{IntentId, Step, TaskState};
use super::fold::State;
use crate::model::{Attempt, ProcessIdentity, SessionId, TaskNumber};
use crate::workspace::{Commit, WorkspaceKey};

/// Something to see to. Each may be repeated: a start that is killed in the middle makes the same plan again, less what
/// it wrote down.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RecoveryStep {
    /// Look whether the target has the commit. If so, the task is merged: write the outcome and its state. If not, write
    /// the outcome as abandoned and put the work [through the gate](Self::Gate) again.
    SettlePublish {
        /// The open intent.
        id: IntentId,
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
        /// The branch that may have moved.
        target: String,
        /// Where it was.
        base: Option<Commit>,
        /// Where it would be.
        commit: Commit,
    },
    /// Find and end what is left of a session, all of its processes. Its identity says whether the pid is still its own;
    /// without one, the process may exist all the same: the session's folder and lifeline know.
    EndSession {
        /// Which session.
        session: SessionId,
        /// Its process.
        identity: Option<ProcessIdentity>,
    },
    /// Do it again under the same intent: once more does no harm, and not once may.
    Repeat {
        /// The open intent.
        id: IntentId,
        /// What.
        step: Step,
    },
    /// Write down that it no longer matters: nobody saw it, and who needs it does it anew.
    Abandon {
        /// The open intent.
        id: IntentId,
    },
    /// Commit what the agent of a session left, without taking it for done: then the task may go on where it was.
    Resume {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
        /// The session that ended with us, if it got so far.
        session: Option<SessionId>,
    },
    /// Take the claim of the agent through capture, merge and verification from the start.
    Gate {
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
    },
}

/// What `state` demands, in the order in which to do it: publications, processes, other effects, tasks.
///
/// Every open intent and every live session is in the plan exactly once; a task at most once, and never when its
/// publication is unsettled, for that decides what becomes of it. A clean state with nothing open gives an empty plan.
#[must_use]
pub fn plan(state: &State) -> Vec<RecoveryStep> {
    let mut plan: Vec<RecoveryStep> = state.intents.iter().filter_map(settle).collect();
    plan.extend(state.sessions.iter().map(|(session, live)| RecoveryStep::EndSession {
        session: session.clone(),
        identity: live.identity.clone(),
    }));
    plan.extend(state.intents.iter().filter_map(|(id, step)| repeat_or_abandon(*id, step)));
    plan.extend(state.tasks.iter().filter_map(|(task, record)| {
        let publishing = |step: &Step| matches!(step, Step::Publish { task: t, .. } if t == task);
        if state.intents.values().any(publishing) {
            return None;
        }
        let attempt = record.attempt;
        match record.state.as_ref()? {
            TaskState::Running => {
                let of_task = state.sessions.iter().find(|(_, live)| {
                    live.attempt == attempt && live.key.as_ref().is_some_and(|key| key.task == *task)
                });
                Some(RecoveryStep::Resume {
                    key: of_task
                        .and_then(|(_, live)| live.key.clone())
                        .unwrap_or_else(|| WorkspaceKey::new(*task)),
                    attempt,
                    session: of_task.map(|(session, _)| session.clone()),
                })
            }
            TaskState::Capturing | TaskState::Verifying | TaskState::Merging => {
                Some(RecoveryStep::Gate { task: *task, attempt })
            }
            TaskState::Queued | TaskState::Parked { .. } | TaskState::Ended { .. } => None,
        }
    }));
    plan
}

fn settle((id, step): (&IntentId, &Step)) -> Option<RecoveryStep> {
    match step {
        Step::Publish { task, attempt, target, base, commit } => Some(RecoveryStep::SettlePublish {
            id: *id,
            task: *task,
            attempt: *attempt,
            target: target.clone(),
            base: base.clone(),
            commit: commit.clone(),
        }),
        _ => None,
    }
}

fn repeat_or_abandon(id: IntentId, step: &Step) -> Option<RecoveryStep> {
    match step {
        Step::Publish { .. } => None,
        Step::Capture { .. } | Step::Remove { .. } | Step::Rescue { .. } | Step::Stamp { .. } => {
            Some(RecoveryStep::Repeat { id, step: step.clone() })
        }
        Step::Open { .. } | Step::Prepare { .. } | Step::Verify { .. } => Some(RecoveryStep::Abandon { id }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::tests::{folded, story};
    use super::*;

    #[test]
    fn every_kill_point_has_a_plan_that_covers_what_is_open() {
        for end in 0..=story().len() {
            let state = folded(&story()[..end]);
            let plan = plan(&state);
            let mut ids: Vec<IntentId> = plan
                .iter()
                .filter_map(|step| match step {
                    RecoveryStep::SettlePublish { id, .. }
                    | RecoveryStep::Repeat { id, .. }
                    | RecoveryStep::Abandon { id } => Some(*id),
                    _ => None,
                })
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, state.intents.keys().copied().collect::<Vec<_>>(), "after {end} entries");
            let ended = plan.iter().filter(|step| matches!(step, RecoveryStep::EndSession { .. })).count();
            assert_eq!(ended, state.sessions.len(), "after {end} entries");
        }
        assert_eq!(plan(&folded(&story())), []);
    }

    #[test]
    fn an_open_publication_comes_first_and_decides_alone() {
        let cut = story()
            .iter()
            .position(|entry| matches!(entry, super::super::Entry::Intent { step: Step::Publish { .. }, .. }))
            .unwrap();
        let plan = plan(&folded(&story()[..=cut]));
        assert!(
            matches!(plan.as_slice(), [RecoveryStep::SettlePublish { target, .. }] if target == "main"),
            "{plan:?}"
        );
    }

    #[test]
    fn a_running_session_is_ended_and_its_task_resumed() {
        let cut =
            story().iter().position(|entry| matches!(entry, super::super::Entry::Restarts { .. })).unwrap();
        let plan = plan(&folded(&story()[..cut]));
        assert!(
            matches!(
                plan.as_slice(),
                [
                    RecoveryStep::EndSession { identity: Some(_), .. },
                    RecoveryStep::Resume { session: Some(_), .. }
                ]
            ),
            "{plan:?}"
        );
    }
}
