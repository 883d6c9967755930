//! What a session was confined to, kept beside its log.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backend::SessionContext;
use crate::files::{read_untrusted, replace};
use crate::model::{Mode, SessionId, TaskNumber};
use crate::orchestrator::shared::ProjectShared;
use crate::sandbox::{Denials, PolicyReport, Refusal, SandboxPolicy};
use crate::schedule::NoticeCode;
use crate::{Error, ErrorKind, Result};

/// What a session may do, what of that is or was in force, and what it was refused.
///
/// It lies beside the session's log, as `<log>.sandbox.json`: from the start of the session on with what will be in
/// force, from its end on with what was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxRecord {
    /// The version of the format: 1.
    pub schema: u32,
    /// The session.
    pub session: SessionId,
    /// Its mode.
    pub mode: Mode,
    /// Its task.
    pub task: Option<TaskNumber>,
    /// Where it worked.
    pub cwd: PathBuf,
    /// Whether it has ended.
    pub ended: bool,
    /// What was asked.
    pub policy: SandboxPolicy,
    /// What of that was in force.
    pub report: PolicyReport,
    /// What it was refused, where anybody knows.
    pub denials: Denials,
    /// What failed tools of the agent said that it was refused. There may be more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
}

/// How its name ends.
const SUFFIX: &str = "sandbox.json";
/// The largest that is read.
const LIMIT: u64 = 16 << 20;

impl SandboxRecord {
    pub(crate) fn new(
        context: &SessionContext,
        task: Option<TaskNumber>,
        policy: SandboxPolicy,
        report: PolicyReport,
    ) -> Self {
        Self {
            schema: 1,
            session: context.session.clone(),
            mode: context.mode,
            task,
            cwd: context.cwd.clone(),
            ended: false,
            policy,
            report,
            denials: Denials::Unknown,
            refused: Vec::new(),
        }
    }

    /// Adds how a session ended to the record beside its log. Between start and end the record is on disk only: policy and
    /// report are the largest things that a session would hold.
    pub(crate) fn end(
        shared: &ProjectShared,
        task: Option<TaskNumber>,
        log: &Path,
        ended: (PolicyReport, Denials, Vec<Refusal>),
    ) {
        let (report, denials, refused) = ended;
        match Self::read(&log.with_extension(SUFFIX)) {
            Ok(record) => Self { ended: true, report, denials, refused, ..record }.keep(shared, log),
            Err(error) => {
                let message = format!("keeping the record of its sandbox: {}", error.report());
                shared.notice(NoticeCode::Session, task, message);
            }
        }
    }

    /// Writes it beside the log. A failure is a notice.
    pub(crate) fn keep(&self, shared: &ProjectShared, log: &Path) {
        let text = serde_json::to_vec(self).map_err(|e| {
            Error::new(ErrorKind::InvalidInput, "a path of the policy is not text").with_source(e)
        });
        let written = text.and_then(|text| replace(&log.with_extension(SUFFIX), &text));
        if let Err(error) = written {
            let message = format!("keeping the record of its sandbox: {}", error.report());
            shared.notice(NoticeCode::Session, self.task, message);
        }
    }

    /// That of the latest session of `task`, or of the latest chat, among the logs in this folder.
    ///
    /// # Errors
    /// Those of the disk, and `malformed`. That there is none is not an error.
    pub fn latest(logs: &Path, task: Option<TaskNumber>) -> Result<Option<Self>> {
        let what = task.map_or_else(|| Mode::Chat.to_string(), |task| task.to_string());
        let time = |path: &PathBuf| {
            let name =
                path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.strip_prefix(&what)?.strip_prefix('-')?;
            name.split_once('-').map(|(_, time)| time.to_owned())
        };
        let entries = match std::fs::read_dir(logs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("listing the logs", error).with_path(logs)),
        };
        let found = entries.flatten().map(|entry| entry.path()).filter_map(|path| Some((time(&path)?, path)));
        let Some((_, path)) = found.max() else { return Ok(None) };
        Self::read(&path).map(Some)
    }

    fn read(path: &Path) -> Result<Self> {
        let malformed = |error| {
            Error::new(ErrorKind::Malformed, "this is no record of a sandbox")
                .with_source(error)
                .with_path(path)
        };
        let bytes = read_untrusted(path, LIMIT)?.unwrap_or_default();
        serde_json::from_slice(&bytes).map_err(malformed)
    }
}
