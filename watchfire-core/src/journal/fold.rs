//! From entries to what they leave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::{ChainRecord, Entry, IntentId, Step, TaskState};
use crate::model::{Attempt, BackendName, Mode, Phase, ProcessIdentity, SessionId, TaskNumber};
use crate::schedule::RunId;
use crate::store::Fence;
use crate::workspace::WorkspaceKey;

/// What the entries so far leave: where every task stands, and what was begun and not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// Every task that was ever worked on.
    #[serde(default)]
    pub tasks: BTreeMap<TaskNumber, TaskRecord>,
    /// Effects that were begun, in order, and whose end is not known.
    #[serde(default)]
    pub intents: BTreeMap<IntentId, Step>,
    /// Sessions whose processes may be alive.
    #[serde(default)]
    pub sessions: BTreeMap<SessionId, LiveSession>,
    /// Requests to run that are not over.
    #[serde(default)]
    pub chains: BTreeMap<RunId, ChainRecord>,
    /// How often what started in a row without progress.
    #[serde(default)]
    pub restarts: BTreeMap<String, u32>,
    /// The highest intent so far; the next is one higher.
    #[serde(default)]
    pub last_intent: IntentId,
    /// Whether the last entry was an orderly end.
    #[serde(default)]
    pub clean: bool,
}

impl State {
    /// An intent that no entry so far has used.
    #[must_use]
    pub fn next_intent(&self) -> IntentId {
        IntentId(self.last_intent.0.saturating_add(1))
    }
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The last attempt, from 1 up; 0 before the first.
    pub attempt: Attempt,
    /// Where that one stands; none: nothing is known but a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// What its last session was started with; null before the first.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub recipe: serde_json::Value,
    /// The token under which we last held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
}

impl Default for TaskRecord {
    fn default() -> Self {
        Self { attempt: Attempt(0), state: None, recipe: serde_json::Value::Null, fence: None }
    }
}

/// A session whose process may be alive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LiveSession {
    /// The work it is for; none for one in the project root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<WorkspaceKey>,
    /// Which try.
    pub attempt: Attempt,
    /// What the user asked to run.
    pub mode: Mode,
    /// The step of wildfire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The agent.
    pub backend: BackendName,
    /// What it takes to start it again.
    pub recipe: serde_json::Value,
    /// Its process; none: it was about to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ProcessIdentity>,
}

/// Brings `state` up to date with `entry`.
///
/// Total: an entry about what `state` does not know (after damage) changes what it can and no more. Once an intent has
/// its outcome, or a session its end, a repetition of either changes nothing.
pub fn fold(state: &mut State, entry: &Entry) {
    state.clean = matches!(entry, Entry::Shutdown);
    match entry {
        Entry::SessionStarting { session, key, attempt, mode, phase, backend, recipe } => {
            let live = LiveSession {
                key: key.clone(),
                attempt: *attempt,
                mode: *mode,
                phase: *phase,
                backend: backend.clone(),
                recipe: recipe.clone(),
                identity: None,
            };
            state.sessions.insert(session.clone(), live);
            if let Some(key) = key {
                let task = state.tasks.entry(key.task).or_default();
                if *attempt > task.attempt {
                    (task.attempt, task.state) = (*attempt, None);
                }
                if *attempt == task.attempt {
                    task.recipe = recipe.clone();
                }
            }
        }
        Entry::SessionStarted { session, identity } => {
            if let Some(live) = state.sessions.get_mut(session) {
                live.identity = Some(identity.clone());
            }
        }
        Entry::SessionEnded { session, .. } => {
            state.sessions.remove(session);
        }
        Entry::Intent { id, step } => {
            state.last_intent = state.last_intent.max(*id);
            state.intents.insert(*id, step.clone());
        }
        Entry::Outcome { id, .. } => {
            state.intents.remove(id);
        }
        Entry::TaskState { task, attempt, state: stands } => {
            let record = state.tasks.entry(*task).or_default();
            if *attempt >= record.attempt {
                record.attempt = *attempt;
                record.state = Some(stands.clone());
            }
        }
        Entry::Claimed { task, fence } => {
            let record = state.tasks.entry(*task).or_default();
            record.fence = record.fence.max(Some(*fence));
        }
        Entry::Chain { run, chain } => match chain {
            Some(chain) => {
                state.chains.insert(*run, chain.clone());
            }
            None => {
                state.chains.remove(run);
            }
        },
        Entry::Restarts { subject, count: 0 } => {
            state.restarts.remove(subject);
        }
        Entry::Restarts { subject, count } => {
            state.restarts.insert(subject.clone(), *count);
        }
        Entry::Shutdown => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::entry::StepResult;
    use super::*;
    use crate::schedule::Ending;
    use crate::workspace::Commit;

    /// A task from its start to its merge.
    pub(in super::super) fn story() -> Vec<Entry> {
        let task = TaskNumber::new(1).unwrap();
        let (attempt, key, session) =
            (Attempt(1), WorkspaceKey::new(task), SessionId::try_from("s1".to_owned()).unwrap());
        let state = |state| Entry::TaskState { task, attempt, state };
        let intent = |id, step| Entry::Intent { id: IntentId(id), step };
        let done = |id| Entry::Outcome { id: IntentId(id), result: StepResult::Done };
        let identity = ProcessIdentity { pid: 42, start_time: 1_000, boot_id: "b".into() };
        vec![
            Entry::Chain { run: RunId(1), chain: Some(ChainRecord::new(Mode::StartAll)) },
            state(TaskState::Queued),
            Entry::Claimed { task, fence: Fence(7) },
            intent(1, Step::Open { key: key.clone(), attempt, target: None, fresh: false }),
            done(1),
            Entry::SessionStarting {
                session: session.clone(),
                key: Some(key.clone()),
                attempt,
                mode: Mode::StartAll,
                phase: None,
                backend: "scripted".parse().unwrap(),
                recipe: serde_json::json!({"size": [80, 24]}),
            },
            Entry::SessionStarted { session: session.clone(), identity },
            state(TaskState::Running),
            Entry::Restarts { subject: "1".into(), count: 1 },
            Entry::SessionEnded { session, exit: Some(0), outcome: "done".into() },
            state(TaskState::Capturing),
            intent(2, Step::Capture { key: key.clone(), attempt }),
            done(2),
            state(TaskState::Merging),
            intent(3, Step::Prepare { key: key.clone(), attempt, target: "main".into() }),
            done(3),
            state(TaskState::Verifying),
            intent(4, Step::Verify { key: key.clone(), attempt, commit: Commit::new("c2") }),
            done(4),
            intent(
                5,
                Step::Publish {
                    task,
                    attempt,
                    target: "main".into(),
                    base: Some(Commit::new("c1")),
                    commit: Commit::new("c2"),
                },
            ),
            done(5),
            state(TaskState::Ended {
                ending: Ending::Merged { commit: Some("c2".into()), target: Some("main".into()) },
            }),
            intent(6, Step::Stamp { task, attempt, fields: serde_json::json!({"agent_sessions": 1}) }),
            done(6),
            intent(7, Step::Remove { key, discard: false }),
            Entry::Outcome { id: IntentId(7), result: StepResult::Abandoned },
            Entry::Restarts { subject: "1".into(), count: 0 },
            Entry::Chain { run: RunId(1), chain: None },
            Entry::Shutdown,
        ]
    }

    pub(in super::super) fn folded(entries: &[Entry]) -> State {
        let mut state = State::default();
        entries.iter().for_each(|entry| fold(&mut state, entry));
        state
    }

    #[test]
    fn a_whole_story_leaves_nothing_open() {
        let state = folded(&story());
        assert!(state.intents.is_empty() && state.sessions.is_empty() && state.chains.is_empty());
        assert!(state.restarts.is_empty() && state.clean);
        let record = state.tasks.values().next().unwrap();
        assert!(matches!(&record.state, Some(TaskState::Ended { ending }) if ending.word() == "merged"));
        assert_eq!((record.attempt, record.fence), (Attempt(1), Some(Fence(7))));
        assert_eq!(state.next_intent(), IntentId(8));
    }

    #[test]
    fn every_entry_survives_its_json() {
        for entry in story() {
            let json = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry, "{json}");
        }
        for end in 0..story().len() {
            let state = folded(&story()[..end]);
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state, "{json}");
        }
    }

    #[test]
    fn what_came_late_changes_nothing() {
        let mut state = folded(&story());
        let before = state.clone();
        let task = TaskNumber::new(1).unwrap();
        fold(&mut state, &Entry::Claimed { task, fence: Fence(3) });
        fold(&mut state, &Entry::TaskState { task, attempt: Attempt(0), state: TaskState::Running });
        fold(&mut state, &Entry::Outcome { id: IntentId(99), result: StepResult::Done });
        fold(&mut state, &Entry::Shutdown);
        assert_eq!(state, before);
    }

    #[test]
    fn an_unknown_entry_is_refused() {
        assert!(serde_json::from_str::<Entry>(r#"{"entry":"merged_twice"}"#).is_err());
    }
}
