//! A running session with everything that its end needs, and how it is put together: after its launch, or from what an
//! earlier program has left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::purse::Purse;
use crate::Result;
use crate::backend::{Backend, Issue, PromptDelivery, Readiness, SessionContext};
use crate::failpoint::reached;
use crate::model::{AgentsMay, ProcessIdentity, RepoPath};
use crate::observe::Log;
use crate::orchestrator::compose::{LiveRecord, files, notes, progress, resume};
use crate::orchestrator::desk::{ProjectDesk, attend};
use crate::orchestrator::shared::{ProjectShared, RECORDING, blocking};
use crate::sandbox::{Refusal, SandboxGuard};
use crate::schedule::NoticeCode;
use crate::session::{
    Checkpoints, Completion, Deadline, Ended, Hosted, Left, LogFile, Mailbox, Meter, Reach, RefusalReporter,
    Session, SessionDirectory, SessionInfo, SessionParts, SignalWatch, Sinks, Taken, Uncommitted,
};
use crate::store::Fence;
use crate::terminal::Size;
use crate::workspace::{Workspace, WorkspaceKey};

/// A running session, and everything that its end needs.
pub(in crate::orchestrator::effects) struct Started {
    pub(in crate::orchestrator::effects) session: Session,
    directory: SessionDirectory,
    log_name: PathBuf,
    backend: Arc<dyn Backend>,
    context: Arc<SessionContext>,
    guard: Arc<dyn SandboxGuard>,
    purse: Arc<Purse>,
    record: Arc<LiveRecord>,
    /// The write of the first form of the record.
    recording: JoinHandle<()>,
    agent: ProcessIdentity,
    guardian: Option<ProcessIdentity>,
    /// The claim under which it works.
    fence: Option<Fence>,
    /// True if an earlier program started it.
    pub(in crate::orchestrator::effects) is_taken: bool,
    _signals: SignalWatch,
}

/// The parts of a session whose process runs.
pub(in crate::orchestrator::effects) struct Assembly {
    pub(in crate::orchestrator::effects) hosted: Hosted,
    pub(in crate::orchestrator::effects) info: SessionInfo,
    pub(in crate::orchestrator::effects) directory: SessionDirectory,
    pub(in crate::orchestrator::effects) backend: Arc<dyn Backend>,
    pub(in crate::orchestrator::effects) context: Arc<SessionContext>,
    pub(in crate::orchestrator::effects) reach: Reach,
    pub(in crate::orchestrator::effects) vendor_session: Option<String>,
    pub(in crate::orchestrator::effects) size: Size,
    pub(in crate::orchestrator::effects) log_name: PathBuf,
    pub(in crate::orchestrator::effects) log_file: Option<LogFile>,
    pub(in crate::orchestrator::effects) log: Log,
    pub(in crate::orchestrator::effects) readiness: Readiness,
    pub(in crate::orchestrator::effects) prompt: PromptDelivery,
    pub(in crate::orchestrator::effects) completion: Completion,
    /// Permissions of its agent beyond its work.
    pub(in crate::orchestrator::effects) may: AgentsMay,
    pub(in crate::orchestrator::effects) signals: SignalWatch,
    /// The workspace in which it leaves something to commit.
    pub(in crate::orchestrator::effects) workspace: Option<WorkspaceKey>,
    pub(in crate::orchestrator::effects) may_nudge: bool,
    /// Files of the vendor's session that is resumed, with their lengths.
    pub(in crate::orchestrator::effects) restored: BTreeMap<PathBuf, u64>,
    pub(in crate::orchestrator::effects) record: LiveRecord,
    pub(in crate::orchestrator::effects) purse: Arc<Purse>,
    pub(in crate::orchestrator::effects) deadline: Option<Deadline>,
    pub(in crate::orchestrator::effects) stall_after: Duration,
    pub(in crate::orchestrator::effects) mailbox: (Mailbox, Left),
    pub(in crate::orchestrator::effects) taken: Option<Taken>,
    /// The claim under which it works.
    pub(in crate::orchestrator::effects) fence: Option<Fence>,
}

impl Assembly {
    /// Begins to watch over the session. Nothing can fail any more.
    pub(in crate::orchestrator::effects) fn start(self, shared: &Arc<ProjectShared>) -> Started {
        let Self { hosted, info, directory, backend, context, log_name, purse, fence, .. } = self;
        let inner = &shared.inner;
        let Hosted { process, guard, agent, guardian, .. } = hosted;
        let can_ask = self.workspace.filter(|_| backend.capabilities().chat);
        let uncommitted = can_ask.map(|key| -> Arc<dyn Uncommitted> {
            Arc::new(Work { workspace: Arc::clone(&shared.workspace), key })
        });
        let (noticing, number) = (Arc::clone(shared), info.task);
        let report =
            move |refusal: &Refusal| noticing.notice(NoticeCode::SandboxDenied, number, refusal.to_string());
        let record = Arc::new(self.record);
        let (judge, reader) = (Arc::clone(&record), Arc::clone(&backend));
        let find = Arc::new(move |said: &str| judge.refusals(said, reader.failed_accesses(said)));
        let is_taken = self.taken.is_some();
        let is_kept = inner.host.outlives() && matches!(self.reach, Reach::Terminal);
        let screens = is_kept.then(|| Checkpoints::beside(&log_name.with_extension(RECORDING)));
        let session = Session::start(SessionParts {
            info,
            process,
            backend: Arc::clone(&backend),
            context: Arc::clone(&context),
            reach: self.reach,
            vendor_session: self.vendor_session,
            terminal: (inner.terminals)(self.size),
            log: self.log,
            sinks: Sinks { file: self.log_file, screens },
            readiness: self.readiness,
            prompt: self.prompt,
            completion: self.completion,
            desk: Some(Arc::new(ProjectDesk::new(shared, self.may.clone()))),
            may_ask: self.may.ask_person.unwrap_or(true),
            uncommitted,
            meter: backend.capabilities().usage.then(|| Arc::clone(&purse) as Arc<dyn Meter>),
            may_nudge: self.may_nudge,
            restored: self.restored,
            files: directory.files(),
            note: directory.vendor_session(),
            changed: self.signals.changed(),
            refusals: RefusalReporter { find, report: Box::new(report) },
            deadline: self.deadline,
            stall_after: self.stall_after,
            notes: inner.host.outlives().then(|| notes(&directory)),
            mailbox: Some(self.mailbox),
            taken: self.taken,
            clock: Arc::clone(&inner.clock),
        });
        shared.add_session(session.clone());
        tokio::spawn(attend(Arc::clone(shared), session.clone()));
        // Not awaited: the agent runs by now, and until it is written the record is in memory.
        let recording = tokio::task::spawn_blocking({
            let (shared, record) = (Arc::clone(shared), Arc::clone(&record));
            move || record.write(&shared)
        });
        Started {
            session,
            directory,
            log_name,
            backend,
            context,
            guard,
            purse,
            record,
            recording,
            agent,
            guardian,
            fence,
            is_taken,
            _signals: self.signals,
        }
    }
}

impl Started {
    /// Returns the folder with the session's copies of the project's files, until it is cleaned up.
    pub(in crate::orchestrator::effects) fn files(&self) -> PathBuf {
        self.directory.files()
    }

    /// Returns the identities of the agent's process and of its guardian.
    pub(in crate::orchestrator::effects) fn identities(&self) -> (ProcessIdentity, Option<ProcessIdentity>) {
        (self.agent.clone(), self.guardian.clone())
    }

    /// Returns the budget that ended the session, in words.
    pub(in crate::orchestrator::effects) fn used_up(&self) -> Option<String> {
        self.purse.used_up()
    }

    /// Writes beside the session's log how it ended.
    pub(in crate::orchestrator::effects) async fn note_end(&self, ended: &Ended) {
        let (purse, counted, ended) = (Arc::clone(&self.purse), self.session.counted(), ended.clone());
        let noted = blocking("keeping how a session ended", move || purse.note_end(counted, &ended)).await;
        if let Err(error) = noted {
            // The clean-up tries again, and tells the person.
            tracing::warn!("keeping how a session ended: {}", error.report());
        }
    }

    /// Returns the issue for which the program ended before it came to work, by its last words.
    pub(in crate::orchestrator::effects) fn early_issue(&self, last_words: &str) -> Option<Issue> {
        self.backend.early_issue(last_words)
    }

    /// Returns the version of the agent's program, if it is untested.
    pub(in crate::orchestrator::effects) async fn untested(&self, shared: &ProjectShared) -> Option<String> {
        let (backend, search) = (
            Arc::clone(&self.backend),
            shared.inner.search(&self.context.settings, &self.context.environment),
        );
        let located =
            blocking("looking at the agent's program", move || backend.locate(&search)).await.ok()?;
        located.version.filter(|_| located.tested == Some(false))
    }

    /// Saves the vendor's session, which has ended, for a later attempt or chat to resume.
    pub(in crate::orchestrator::effects) async fn preserve(
        &self,
        shared: &Arc<ProjectShared>,
        last_words: &str,
    ) {
        let (task, Some(id)) = (self.session.info().task, self.session.vendor_session()) else { return };
        let words = last_words.to_owned();
        let (backend, context) = (Arc::clone(&self.backend), Arc::clone(&self.context));
        let (state, now) = (shared.state_dir.clone(), shared.inner.clock.now());
        let save = move || resume::save(&state, task, &*backend, &context, &id, &words, now);
        if let Err(error) = blocking("keeping the agent's session", save).await {
            let message = format!("it cannot be resumed: {}", error.report());
            shared.notice(NoticeCode::Session, task, message);
        }
    }

    /// Cleans up after the session has ended: imports `memory.md`, saves the transcript beside the logs, lets the
    /// backend clean up, and removes the session's folders.
    pub(in crate::orchestrator::effects) async fn finish(mut self, shared: &Arc<ProjectShared>) {
        // The record of the start must not overwrite that of the end.
        let _ = (&mut self.recording).await;
        // The session that the vendor really opened, which may not be the one that we chose.
        Arc::make_mut(&mut self.context).vendor_session = self.session.vendor_session();
        let last = self.session.ended().await;
        let imported = files::import_memory(&*shared.store, &self.directory, self.fence).await;
        reached(|| "memory imported");
        let shared = Arc::clone(shared);
        let finishing = tokio::task::spawn_blocking(move || {
            let task = self.session.info().task;
            let check = |what: &str, result: Result<()>| {
                if let Err(error) = result {
                    shared.notice(NoticeCode::Cleanup, task, format!("{what}: {}", error.report()));
                }
            };
            check("importing memory.md", imported.map(|_| ()));
            if let Some(task) = task {
                check("keeping progress.md", progress::keep(&shared.state_dir, task, &self.directory));
            }
            if let Some(transcript) = self.backend.transcript(&self.context) {
                let kept = files::keep_transcript(&transcript.path, &self.log_name.with_extension("jsonl"));
                check("keeping the transcript", kept);
            }
            if self.is_taken {
                // Nobody else sees to what is left of one that had ended before.
                self.guard.ended();
            }
            let ended = (self.guard.report(), self.guard.denials(), last.refused.clone());
            self.record.end(&shared, ended);
            check("keeping what was spent", self.purse.close(self.session.counted(), &last));
            // Before the home is removed: the backend may carry renewed credentials back from it.
            check("the agent's own clean-up", self.backend.clean_up(&self.context));
            check("removing the session's folders", self.directory.remove());
        });
        // A foreign backend that panics has no further effect.
        let _ = finishing.await;
    }
}

/// Source of a task's uncommitted work, for its session's last call.
struct Work {
    workspace: Arc<dyn Workspace>,
    key: WorkspaceKey,
}

#[async_trait]
impl Uncommitted for Work {
    async fn paths(&self) -> Result<Vec<RepoPath>> {
        self.workspace.uncommitted(&self.key).await
    }
}
