//! A project at one place in its log.

use std::collections::BTreeMap;

use serde::Serialize;

use super::TaskInfo;
use crate::Error;
use crate::journal::Cursor;
use crate::model::{BackendName, ProjectId};
use crate::orchestrator::shared::LogStream;
use crate::schedule::{Block, Ledger, Life, Run};

/// The state of a project at `cursor`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The project.
    pub project: ProjectId,
    /// The place in the log: changes up to it are part of the snapshot.
    pub cursor: Cursor,
    /// The place at which the orchestrator opened the project. Later changes are of this start.
    pub opened: Cursor,
    /// Its tasks in work order.
    pub tasks: Vec<TaskInfo>,
    /// The lives that go on.
    pub lives: Vec<Life>,
    /// The last lives that ended, at most 200.
    pub ended: Vec<Life>,
    /// The runs that go on, and the last that ended.
    pub runs: Vec<Run>,
    /// The blocked backends.
    pub blocked: BTreeMap<BackendName, Block>,
}

impl Snapshot {
    pub(super) fn new(
        project: ProjectId,
        (cursor, opened): (Cursor, Cursor),
        tasks: Vec<TaskInfo>,
        ledger: Ledger,
    ) -> Self {
        Self {
            project,
            cursor,
            opened,
            tasks,
            lives: ledger.lives.into_values().collect(),
            ended: ledger.ended.into_values().collect(),
            runs: ledger.runs.into_values().collect(),
            blocked: ledger.blocked,
        }
    }
}

/// All open projects, and their changes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Subscriptions {
    /// Each project as it is now, and `cursor_expired` if its requested cursor lies before the oldest kept record.
    pub projects: Vec<(Snapshot, Option<Error>)>,
    /// The changes of all projects.
    pub changes: LogStream,
}

/// A snapshot, and the changes from a place in the log on.
#[derive(Debug)]
#[non_exhaustive]
pub struct Subscription {
    /// The project as it is now.
    pub snapshot: Snapshot,
    /// `cursor_expired` if the requested cursor lies before the oldest kept record: what lies between shows only in the
    /// snapshot.
    pub expired: Option<Error>,
    /// The changes after the requested cursor, or after the snapshot if there is none or it has expired.
    pub changes: LogStream,
}
