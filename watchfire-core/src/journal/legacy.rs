//! Takes over a journal of the first format, which recorded tasks, sessions and intents instead of lives.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde::Deserialize;

use super::entry::State;
use super::frame::{self, Next};
use super::read;
use super::segment::{self, HEADER, Kind};
use crate::model::{Alias, Attempt, BackendName, ProcessIdentity, SessionId, TaskNumber, Timestamp};
use crate::schedule::{
    Change, Ending, Life, LifeId, LifeState, RunOptions, SessionRef, StopReason, Subject, Wait,
};
use crate::workspace::{Candidate, Commit, WorkspaceKey};
use crate::{Error, Result};

/// The folder in which the old files are kept.
const CLOSED: &str = "closed";

/// An entry of the first format, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
enum OldEntry {
    SessionStarting {
        session: SessionId,
        key: Option<WorkspaceKey>,
        attempt: Attempt,
        backend: BackendName,
        recipe: serde_json::Value,
    },
    SessionStarted {
        session: SessionId,
        identity: ProcessIdentity,
    },
    SessionEnded {
        session: SessionId,
    },
    Intent {
        id: u64,
        step: OldStep,
    },
    Outcome {
        id: u64,
    },
    TaskState {
        task: TaskNumber,
        attempt: Attempt,
        #[serde(flatten)]
        state: OldTaskState,
    },
    /// Claims, chains, restart counts and orderly ends, which are not taken over.
    #[serde(other)]
    Other,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
enum OldStep {
    Publish {
        task: TaskNumber,
        target: String,
        base: Option<Commit>,
        commit: Commit,
    },
    /// The first format never wrote another step.
    #[serde(other)]
    Other,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
enum OldTaskState {
    Queued,
    Running,
    Capturing,
    Verifying,
    Merging,
    Parked,
    Ended { ending: OldEnding },
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
enum OldEnding {
    Merged { commit: Option<String>, target: Option<String> },
    Nothing,
    Unmerged,
    Failed { reason: String },
    Crashed { reason: String },
    TimedOut { reason: String },
    VerifyFailed { reason: String },
    Conflict { reason: String },
    Held,
    Cancelled,
    Error { reason: String },
}

/// State to which the entries of the first format fold. Also the format of its checkpoints.
#[derive(Default, Deserialize)]
struct OldState {
    #[serde(default)]
    tasks: BTreeMap<TaskNumber, OldTask>,
    #[serde(default)]
    intents: BTreeMap<u64, OldStep>,
    #[serde(default)]
    sessions: BTreeMap<SessionId, OldSession>,
}

#[derive(Default, Deserialize)]
struct OldTask {
    #[serde(default)]
    attempt: Attempt,
    #[serde(default)]
    state: Option<OldTaskState>,
    #[serde(default)]
    recipe: serde_json::Value,
}

#[derive(Deserialize)]
struct OldSession {
    #[serde(default)]
    key: Option<WorkspaceKey>,
    backend: BackendName,
    #[serde(default)]
    recipe: serde_json::Value,
    #[serde(default)]
    identity: Option<ProcessIdentity>,
}

impl OldState {
    fn apply(&mut self, entry: OldEntry) {
        match entry {
            OldEntry::SessionStarting { session, key, attempt, backend, recipe } => {
                if let Some(number) = key.as_ref().and_then(WorkspaceKey::task) {
                    let task = self.tasks.entry(number).or_default();
                    // A newer attempt outdates the state of an older one, which may have ended in the
                    // meantime.
                    if attempt > task.attempt {
                        (task.attempt, task.state) = (attempt, None);
                    }
                    task.recipe = recipe.clone();
                }
                self.sessions.insert(session, OldSession { key, backend, recipe, identity: None });
            }
            OldEntry::SessionStarted { session, identity } => {
                if let Some(live) = self.sessions.get_mut(&session) {
                    live.identity = Some(identity);
                }
            }
            OldEntry::SessionEnded { session } => {
                self.sessions.remove(&session);
            }
            OldEntry::Intent { id, step } => {
                self.intents.insert(id, step);
            }
            OldEntry::Outcome { id } => {
                self.intents.remove(&id);
            }
            OldEntry::TaskState { task, attempt, state } => {
                let record = self.tasks.entry(task).or_default();
                // Entries of an old attempt can follow the start of a new one: its end was recorded late.
                if attempt >= record.attempt {
                    (record.attempt, record.state) = (attempt, Some(state));
                }
            }
            OldEntry::Other => {}
        }
    }

    /// Returns the lives that correspond to this state, in the order of their tasks.
    fn lives(&self, now: &Timestamp) -> Vec<Life> {
        let sessions = |task| {
            self.sessions
                .iter()
                .find(move |(_, live)| live.key.as_ref().and_then(WorkspaceKey::task) == Some(task))
        };
        let mut lives = Vec::new();
        for (number, old) in &self.tasks {
            let id = LifeId(lives.len() as u64 + 1);
            let mut life = Life::new(id, Subject::Task { task: *number }, now.clone());
            life.attempt = old.attempt;
            life.options = options(&old.recipe);
            // First of all: once a publication has begun, only the target knows whether it took effect.
            // Recovery asks it.
            let publishing = self.intents.values().find_map(|step| match step {
                OldStep::Publish { task, target, base, commit } if task == number => {
                    Some((target, base, commit))
                }
                _ => None,
            });
            life.state = if let Some((target, base, commit)) = publishing {
                (life.claimed, life.target) = (true, Some(target.clone()));
                let key = WorkspaceKey::new(*number);
                // The first format did not record tree and work. Recovery needs only target and commit.
                let candidate = Candidate::new(key, target, base.clone(), commit.clone(), "", commit.clone());
                LifeState::Publishing { candidate: Box::new(candidate) }
            } else if let Some((session, live)) = sessions(*number) {
                life.session = Some(session_ref(session, live, now));
                life.backend = Some(live.backend.clone());
                LifeState::Running
            } else {
                self.state_of(old, &mut life)
            };
            lives.push(life);
        }
        for (session, live) in self.sessions.iter().filter(|(_, live)| live.key.is_none()) {
            let mut life = Life::new(LifeId(lives.len() as u64 + 1), Subject::Chat, now.clone());
            life.session = Some(session_ref(session, live, now));
            life.state = LifeState::Running;
            lives.push(life);
        }
        lives
    }

    fn state_of(&self, old: &OldTask, life: &mut Life) -> LifeState {
        let ended = |how| LifeState::Ended { how };
        match old.state.clone() {
            None | Some(OldTaskState::Queued | OldTaskState::Parked) => {
                // Nothing starts by itself after an upgrade: a person resumes it, or a new run covers it.
                LifeState::Waiting { on: Wait::Resume }
            }
            // No session is recorded for it any more, so at most its work is left to capture.
            Some(OldTaskState::Running | OldTaskState::Capturing) => LifeState::Capturing,
            Some(OldTaskState::Verifying | OldTaskState::Merging) => {
                life.claimed = true;
                LifeState::Queued
            }
            Some(OldTaskState::Ended { ending }) => match ending {
                OldEnding::Merged { commit, target } => ended(Ending::merged(commit, target)),
                OldEnding::Nothing => ended(Ending::Nothing),
                OldEnding::Unmerged => {
                    // The task's file carries the claim, and its dependants must wait until the work is
                    // merged.
                    life.claimed = true;
                    ended(Ending::Unmerged)
                }
                OldEnding::Failed { reason } => ended(Ending::Failed { reason }),
                OldEnding::Crashed { reason } => ended(Ending::Crashed { reason }),
                OldEnding::TimedOut { reason } => ended(Ending::TimedOut { reason }),
                OldEnding::VerifyFailed { reason } => {
                    life.claimed = true;
                    // The first format stored all three in one text.
                    let (how, output) = reason.split_once('\n').unwrap_or((&reason, ""));
                    let (command, how) = how.rsplit_once(": ").unwrap_or((how, "failed"));
                    ended(Ending::VerifyFailed {
                        command: command.to_owned(),
                        how: how.to_owned(),
                        output: output.to_owned(),
                    })
                }
                OldEnding::Conflict { reason } => {
                    life.claimed = true;
                    ended(Ending::Conflict { reason })
                }
                // Queued again. If the obstacle is still there, the work is held again.
                OldEnding::Held => {
                    life.claimed = true;
                    LifeState::Queued
                }
                OldEnding::Cancelled => ended(Ending::Stopped { by: StopReason::Requested }),
                OldEnding::Error { reason } => {
                    ended(Ending::Error { code: "internal".to_owned(), message: reason })
                }
            },
        }
    }
}

fn session_ref(id: &SessionId, live: &OldSession, now: &Timestamp) -> SessionRef {
    let cwd = live.recipe["cwd"].as_str().unwrap_or_default();
    let sandbox = live.recipe["sandbox"].as_str().unwrap_or_default();
    let mut session =
        SessionRef::new(id.clone(), Alias::random(), live.backend.clone(), sandbox, cwd, now.clone());
    session.vendor_session = live.recipe["vendor_session"].as_str().map(str::to_owned);
    session.agent.clone_from(&live.identity);
    session
}

/// Reads the overrides of a run from the recipe of its session; unreadable ones count as not given.
fn options(recipe: &serde_json::Value) -> RunOptions {
    serde_json::from_value(recipe["options"].clone()).unwrap_or_default()
}

/// Reads the old journal in `dir`. Returns its state in the new vocabulary and the number of its last record.
pub(super) fn read(dir: &Path) -> Result<(State, u64)> {
    let (mut old, mut last) = (OldState::default(), 0);
    // Newest first; an older checkpoint serves if that one is damaged.
    for number in segment::list(dir, Kind::Checkpoint)?.into_iter().rev() {
        let path = segment::path(dir, Kind::Checkpoint, number);
        let bytes = read::load(&path)?;
        if let Next::Frame(frame, _) = frame::next(&bytes, HEADER) {
            old = read::parse(frame.payload, &path, HEADER)?;
            last = frame.number;
            break;
        }
    }
    for number in segment::list(dir, Kind::Segment)? {
        let path = segment::path(dir, Kind::Segment, number);
        let bytes = read::load(&path)?;
        let mut offset = HEADER;
        loop {
            match frame::next(&bytes, offset) {
                Next::Frame(frame, end) => {
                    if frame.number > last {
                        let entries: Vec<OldEntry> = read::parse(frame.payload, &path, offset)?;
                        entries.into_iter().for_each(|entry| old.apply(entry));
                        last = frame.number;
                    }
                    offset = end;
                }
                // The journal of an old release cannot be repaired any more; what is readable is taken.
                Next::Damage(resumes) => offset = resumes,
                Next::Torn | Next::End => break,
            }
        }
    }
    let mut state = State::default();
    for life in old.lives(&Timestamp::from_unix_millis(0)) {
        state.ledger.apply(&Change::Life(Box::new(life)));
    }
    Ok((state, last))
}

/// Replaces an old journal in `dir`, whose lock the caller holds, by a checkpoint of this format, and moves the old
/// files to a folder of their own. Can be repeated after a kill at any point. Does nothing where there is no old
/// journal.
pub(super) fn take_over(dir: &Path) -> Result<()> {
    let old = segment::legacy_files(dir)?;
    if old.is_empty() {
        return Ok(());
    }
    // False after a kill between checkpoint and renames: then only the renames are left to do.
    if segment::is_legacy(dir)? {
        let (state, last) = read(dir)?;
        // Above every old number, so that it never takes the place of an old file.
        segment::write_checkpoint(dir, last + 1, &state)?;
    }
    let closed = dir.join(CLOSED);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&closed)
        .map_err(|error| Error::io("making a folder for the old journal", error).with_path(&closed))?;
    for path in old {
        let Some(name) = path.file_name() else { continue };
        fs::rename(&path, closed.join(name))
            .map_err(|error| Error::io("keeping the old journal", error).with_path(&path))?;
    }
    // Target folder first: after a crash, a file may have two names, but never none.
    segment::sync_dir(&closed)?;
    segment::sync_dir(dir)
}
