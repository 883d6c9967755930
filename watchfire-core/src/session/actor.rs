//! One session: the tasks that read its output, type its input, and observe its end.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::screen::pump::{self, Sinks};
use super::screen::{AttachRequest, Attachment, Screen};
use super::talk::control::Control;
use super::talk::converse::{self, Conversation};
use super::talk::deliver::{Input, Receipt, Typist};
use super::talk::last_call::Uncommitted;
use super::talk::questions::Questions;
use super::talk::spool;
use super::watch::complaints;
use super::watch::ended::{Cause, Ended};
use super::watch::refused::{self, Failures, RefusalReporter};
use super::watch::standing::Standing;
use super::watch::transcript::{self, ReadFor};
use super::{Blocks, Completion, Exit, SessionProcess};
use crate::backend::{
    Backend, Dialogue, Fact, IssueKind, Message, Move, PromptDelivery, Readiness, SessionContext, Source,
    Status, Tally, Usage,
};
use crate::clock::Clock;
use crate::endpoint::{Answer, Spool, SpoolLimits};
use crate::files::replace;
use crate::model::{Alias, BackendName, Mode, ProjectId, Question, SessionId, TaskNumber, Timestamp};
use crate::observe::{Body, Log, Sanitizer};
use crate::schedule::StopReason;
use crate::terminal::{Line, Size, Snapshot, Terminal};
use crate::{Error, ErrorKind, Result};

/// Grace between a request to end and the kill.
pub(in crate::session) const GRACE: Duration = Duration::from_secs(5);
/// Identity of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its name for people.
    pub alias: Alias,
    /// Its project.
    pub project: ProjectId,
    /// The mode in which it was requested.
    pub mode: Mode,
    /// Its task, where it has one.
    pub task: Option<TaskNumber>,
    /// Its backend.
    pub backend: BackendName,
    /// Time of its start.
    pub started_at: Timestamp,
}

/// Channel to an agent.
pub(crate) enum Reach {
    /// On a terminal.
    Terminal,
    /// Lines of its stream.
    Stream,
    /// A conversation, which must be opened `within` this time.
    Dialogue { dialogue: Box<dyn Dialogue>, within: Duration },
}

/// Parts from which a session is started.
pub(crate) struct SessionParts {
    pub(crate) info: SessionInfo,
    pub(crate) process: Arc<dyn SessionProcess>,
    pub(crate) backend: Arc<dyn Backend>,
    /// Context that the backend prepared the launch from.
    pub(crate) context: Arc<SessionContext>,
    pub(crate) reach: Reach,
    /// The vendor's session id, if we chose it.
    pub(crate) vendor_session: Option<String>,
    pub(crate) terminal: Box<dyn Terminal>,
    pub(crate) log: Log,
    pub(crate) sinks: Sinks,
    pub(crate) readiness: Readiness,
    pub(crate) prompt: PromptDelivery,
    pub(crate) completion: Completion,
    /// Source of the uncommitted changes. Set if the agent can be asked to commit them.
    pub(crate) uncommitted: Option<Arc<dyn Uncommitted>>,
    /// The session's folder as the agent sees it, with `signal.json` and the spool.
    pub(crate) files: PathBuf,
    /// File in which the vendor's session id is noted, for a resume after a crash.
    pub(crate) note: PathBuf,
    /// Notified on every change in the folder of the completion file.
    pub(crate) changed: Arc<Notify>,
    /// Classifier of errors that the sandbox may have caused.
    pub(crate) refusals: RefusalReporter,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A running session. Cheap to clone; dropping it changes nothing.
#[derive(Clone)]
pub struct Session(pub(in crate::session) Arc<Shared>);

/// State that the tasks of one session share.
pub(in crate::session) struct Shared {
    pub(in crate::session) info: SessionInfo,
    pub(in crate::session) screen: Arc<Screen>,
    pub(in crate::session) log: Log,
    pub(in crate::session) process: Arc<dyn SessionProcess>,
    conversation: Option<Conversation>,
    inputs: mpsc::Sender<Input>,
    pub(in crate::session) stop: watch::Sender<Option<StopReason>>,
    pub(in crate::session) ready: watch::Sender<bool>,
    standing: Mutex<Standing>,
    pub(in crate::session) activity: watch::Sender<Activity>,
    questions: Mutex<Questions>,
    blocks: watch::Sender<Blocks>,
    /// True if the agent accepts texts for as long as it runs.
    can_type: bool,
    files: PathBuf,
    note: PathBuf,
    pub(in crate::session) clock: Arc<dyn Clock>,
    /// Token counts: of the stream, of the transcript.
    tallies: Mutex<[Tally; 2]>,
    failures: Failures,
    backend: Arc<dyn Backend>,
    interrupt: Vec<u8>,
    /// Notified on every fact that shows the agent is active.
    pub(in crate::session) stirred: Notify,
    /// True once no process of the agent is left.
    pub(in crate::session) over: watch::Sender<bool>,
    ended: watch::Receiver<Option<Ended>>,
}

/// Activity of an agent, as its waiters need it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) struct Activity {
    pub(in crate::session) status: Status,
    /// Number of turns that have ended.
    pub(in crate::session) turns: u64,
}

impl Session {
    /// Starts to watch over a process that has just started.
    pub(crate) fn start(parts: SessionParts) -> Self {
        let (inputs, input_queue) = mpsc::channel(64);
        let (end, ended) = watch::channel(None);
        let (failures, failed) = Failures::new();
        let (conversation, within, read_for) = match parts.reach {
            Reach::Dialogue { dialogue, within } => {
                (Some(Conversation::new(dialogue)), within, ReadFor::Issues)
            }
            Reach::Stream => (None, Duration::ZERO, ReadFor::Tokens),
            Reach::Terminal => (None, Duration::ZERO, ReadFor::Everything),
        };
        // Only there do hooks and keys have a meaning: a stream or a protocol reports its turns itself.
        let on_a_terminal = read_for == ReadFor::Everything;
        let at_once = conversation.is_none() && parts.readiness == Readiness::Immediate;
        let shared = Arc::new(Shared {
            info: parts.info,
            screen: Arc::new(Screen::new(parts.terminal, parts.log.clone(), Arc::clone(&parts.clock))),
            log: parts.log,
            process: parts.process,
            conversation,
            inputs,
            stop: watch::Sender::new(None),
            ready: watch::Sender::new(at_once),
            standing: Mutex::new(Standing::new(
                parts.vendor_session,
                parts.backend.capabilities().hooks && on_a_terminal,
            )),
            activity: watch::Sender::new(Activity { status: Status::Starting, turns: 0 }),
            questions: Mutex::default(),
            blocks: watch::Sender::default(),
            can_type: parts.backend.capabilities().chat && read_for != ReadFor::Tokens,
            files: parts.files.clone(),
            note: parts.note,
            clock: Arc::clone(&parts.clock),
            tallies: Mutex::new(
                [(); 2]
                    .map(|()| Tally::of_model(parts.context.settings.model.as_deref().unwrap_or_default())),
            ),
            failures,
            backend: Arc::clone(&parts.backend),
            interrupt: if on_a_terminal { parts.backend.delivery().interrupt } else { Vec::new() },
            stirred: Notify::new(),
            over: watch::Sender::new(false),
            ended,
        });
        let session = Self(Arc::clone(&shared));
        shared.log.push(Source::Process, Body::Status(Status::Starting));
        shared.log.set_input_available(true);
        let typist = Typist::new(
            Arc::clone(&shared),
            Arc::clone(&parts.backend),
            Arc::clone(&parts.clock),
            parts.files.clone(),
            input_queue,
        );
        let typing = tokio::spawn(typist.run());
        // After the typist runs, since the opening lines go through its queue.
        let opening = shared.converse(|dialogue| dialogue.open());
        if !opening.is_empty() {
            shared.reply(opening);
        }
        // Queued first, so that a text that a person sends right after the start does not come before the
        // prompt.
        if let PromptDelivery::Typed(text) = parts.prompt {
            let (reply, _) = oneshot::channel();
            // The queue is empty, and its reader is running.
            let _ = shared.inputs.try_send(Input::Text(text, reply));
        }
        // Before the pump runs: an agent that prints at once and then waits paints its screen only then.
        let painted = shared.screen.changes();
        let stream = (read_for == ReadFor::Tokens).then(|| Arc::clone(&parts.backend));
        // In a task of its own, so that its panic is caught below and ends this session alone.
        let pump =
            tokio::spawn(pump::run(Arc::clone(&shared), parts.sinks, stream, Arc::clone(&parts.clock)));
        let pumping = tokio::spawn({
            let session = session.clone();
            async move {
                // A foreign terminal panicked. The program's output is no longer read, so it would block.
                if let Err(error) = pump.await {
                    session.0.remark(format!("the session's screen broke: {error}"));
                    session.stop_because(StopReason::Broken);
                }
                session.0.screen.finish();
            }
        });
        let (seen, clock) = (Arc::clone(&shared), Arc::clone(&parts.clock));
        let watching = match shared.converses() {
            true => tokio::spawn(converse::watch_opening(seen, within, clock)),
            false => {
                let backend = Arc::clone(&parts.backend);
                let over = shared.over.subscribe();
                tokio::spawn(pump::watch_screen(seen, painted, backend, parts.readiness, clock, over))
            }
        };
        let watching = tokio::spawn({
            let session = session.clone();
            async move {
                // A foreign backend panicked. Nothing that the agent meets would be known any more.
                if let Err(error) = watching.await {
                    session.0.remark(format!("the session's backend broke: {error}"));
                    session.stop_because(StopReason::Broken);
                }
            }
        });
        let listening = tokio::spawn(spool::run(
            Arc::clone(&shared),
            Arc::clone(&parts.backend),
            parts.files.clone(),
            Arc::clone(&parts.clock),
            shared.over.subscribe(),
        ));
        let reading = tokio::spawn(transcript::run(
            Arc::clone(&shared),
            parts.backend,
            parts.context,
            read_for,
            Arc::clone(&parts.clock),
            shared.over.subscribe(),
        ));
        let complaining = tokio::spawn(complaints::run(Arc::clone(&shared), Arc::clone(&parts.clock)));
        let hearing = tokio::spawn(refused::run(Arc::clone(&shared), parts.refusals, failed));
        let control = Control {
            shared,
            completion: parts.completion,
            uncommitted: parts.uncommitted,
            files: parts.files,
            changed: parts.changed,
            deadline: parts.time_limit.map(|limit| parts.clock.boot_time() + limit),
            clock: parts.clock,
        };
        tokio::spawn(async move {
            let mut ended = control.run().await;
            // The tree is gone, so little is left to read. A process outside our reach may still hold the
            // terminal open.
            let _ = tokio::time::timeout(GRACE, pumping).await;
            // Only after the output has ended: until then an answer to a query may be what the program waits
            // for.
            typing.abort();
            complaining.abort();
            // Signals the remaining readers to look once more: hooks and transcripts are files, complete only
            // now.
            control.shared.over.send_replace(true);
            for mut last_words in [watching, listening, reading] {
                if tokio::time::timeout(GRACE, &mut last_words).await.is_err() {
                    last_words.abort();
                }
            }
            ended.refused = tokio::time::timeout(GRACE, async {
                // Failures that the transcript brought last are classified before the verdict is final.
                control.shared.failures.close().await;
                hearing.await.unwrap_or_default()
            })
            .await
            .unwrap_or_default();
            // Last of all facts, so that a late line of a transcript does not bring the agent back to life.
            control.shared.learn(vec![Fact::Status(Status::Off)], Source::Process);
            ended.vendor_session = control.shared.vendor_session();
            let blocks = control.shared.blocks.borrow().clone();
            ended.issue = blocks.issues.into_iter().next_back();
            ended.questions = blocks.questions;
            ended.worked = control.shared.standing().worked();
            ended.last_words = control.shared.last_words();
            (ended.usage, ended.cost) = control.shared.spent();
            // If the pump hangs, readers of the screen end with the session all the same.
            control.shared.screen.finish();
            control.shared.log.set_input_available(false);
            control.shared.log.close();
            // Last: a waiter that wakes finds the log closed and everything above in place.
            end.send_replace(Some(ended));
        });
        session
    }

    /// Returns the session's identity.
    #[must_use]
    pub fn info(&self) -> &SessionInfo {
        &self.0.info
    }

    /// Returns the agent's status as far as it is known.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.standing().status()
    }

    /// Returns the vendor's session id, once it is known.
    #[must_use]
    pub fn vendor_session(&self) -> Option<String> {
        self.0.vendor_session()
    }

    /// Returns the tokens that the provider has counted so far, and their cost in millionths of a US dollar if all
    /// prices are known.
    #[must_use]
    pub fn spent(&self) -> (Usage, Option<u64>) {
        self.0.spent()
    }

    /// Returns the log of the session.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// Returns the current screen.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.screen.snapshot()
    }

    /// Follows the screen: the state at one offset of the output, then every change from there on. A session that has
    /// ended delivers the rest.
    ///
    /// # Errors
    /// `invalid_input` if the request names an offset that the output has not reached.
    pub fn attach(&self, request: &AttachRequest) -> Result<Attachment> {
        Attachment::new(&self.0.screen, request)
    }

    /// Returns the retained lines of its scrollback with numbers in `range`, oldest first. See
    /// [`Terminal::scrollback`] for the numbers.
    #[must_use]
    pub fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        self.0.screen.scrollback(range)
    }

    /// Writes keystrokes, as they are, in order with everything else that is written.
    ///
    /// # Errors
    /// `target_off` when the session has ended; `no_input_channel` when its program takes no input; `not_supported`
    /// when it is reached by a protocol, which has no keys.
    pub async fn write(&self, keys: impl Into<Vec<u8>>) -> Result<()> {
        if self.0.converses() {
            return Err(Error::new(ErrorKind::NotSupported, "an agent reached by a protocol takes no keys"));
        }
        let (reply, answer) = oneshot::channel();
        self.input(Input::Keys(keys.into(), reply)).await?;
        let written = answer.await.map_err(|_| self.off())?;
        // A person at the keys may have answered a dialog or begun a turn, which no weaker source would be
        // allowed to report.
        self.0.standing().key_pressed();
        written
    }

    /// Stops the running turn: in its protocol, or with the keys that its backend names. Sends SIGINT to an agent on
    /// a stream or without such keys.
    ///
    /// # Errors
    /// `target_off` when the session has ended; `no_input_channel` when its program takes no input.
    pub async fn interrupt(&self) -> Result<()> {
        if self.0.converses() {
            let lines = self.0.converse(|dialogue| dialogue.interrupt());
            let (reply, answer) = oneshot::channel();
            self.input(Input::Keys(lines, reply)).await?;
            return answer.await.map_err(|_| self.off())?;
        }
        if self.0.interrupt.is_empty() {
            return self.0.process.interrupt().await;
        }
        self.write(self.0.interrupt.clone()).await
    }

    /// Sends `text` to the agent, framed and submitted as its backend requires, once it is ready for input. Where the
    /// backend can read its [input box](Backend::input_box), the text is typed only into an empty box, and submitted
    /// only when the box holds exactly this text. A text beyond the paste limit goes into a file of the session, and
    /// a reference to the file is typed.
    ///
    /// # Errors
    /// As [`write`](Self::write); `not_input_ready` when the box is not free for a minute, or does not show the text
    /// as typed. An error after the text was written is final: no text is typed twice.
    pub async fn send(&self, text: impl Into<String>) -> Result<Receipt> {
        let (reply, answer) = oneshot::channel();
        self.input(Input::Text(text.into(), reply)).await?;
        answer.await.map_err(|_| self.off())?
    }

    /// Returns the conditions that keep the agent from continuing, and every change.
    #[must_use]
    pub fn blocks(&self) -> watch::Receiver<Blocks> {
        self.0.blocks.subscribe()
    }

    /// Answers the question with this id. The answer is in the agent's inbox when this returns, as an
    /// [`Answer`](crate::endpoint::Answer); an agent that takes texts gets it typed as well, once it is ready for input. The
    /// first answer wins; the same text again changes nothing.
    ///
    /// # Errors
    /// `not_found` for an unknown question; `conflict` if it has another answer; `target_off` when the session has
    /// ended; those of the disk, after which the question is open again.
    pub async fn answer(&self, question: &str, text: &str) -> Result<()> {
        if self.has_ended() {
            return Err(self.off());
        }
        let shared = &self.0;
        // Read before the answer closes the question: the wording below depends on how many were open.
        let open = shared.questions().open();
        // Recorded before the disk is touched, so that of two concurrent answers one is rejected.
        if !shared.questions().answer(question, text)? {
            return Ok(());
        }
        shared.show_questions();
        let (answer, files) = (Answer::new(question, text), shared.files.clone());
        // The file comes first and is the durable copy. A typed text can get lost in a dialog.
        let put = move || {
            let bytes = answer.to_json().to_string();
            Spool::open(&files, SpoolLimits::default())?.put(&answer.file_name(), bytes.as_bytes())
        };
        let failed = |error| Error::new(ErrorKind::Internal, "putting an answer").with_source(error);
        if let Err(error) = tokio::task::spawn_blocking(put).await.map_err(failed).and_then(|put| put) {
            shared.questions().reopen(question);
            shared.show_questions();
            return Err(error);
        }
        let payload = serde_json::json!({ "question": question });
        shared.log.push(Source::Process, Body::Event { name: "answered".to_owned(), payload });
        if shared.can_type {
            // With several open questions, the agent has to see which one this answers.
            let typed = match open.iter().find(|asked| asked.id == question) {
                Some(asked) if open.len() > 1 => format!("{}\n\n{text}", asked.question),
                _ => text.to_owned(),
            };
            let (reply, _) = oneshot::channel();
            // An agent that has ended by now has its answer in the inbox.
            let _ = shared.inputs.send(Input::Text(typed, reply)).await;
        }
        Ok(())
    }

    /// Changes the size of its terminal. The kernel delivers SIGWINCH to its program.
    ///
    /// # Errors
    /// `target_off` when the session has ended.
    pub async fn resize(&self, size: Size) -> Result<()> {
        // Our terminal first: the program redraws at once, and that output is laid out for the new size.
        self.0.screen.resize(size);
        self.0.process.resize(size).await
    }

    /// Ends the session with all its processes. Returns at once; see [`ended`](Self::ended).
    pub fn stop(&self) {
        self.stop_because(StopReason::Requested);
    }

    pub(crate) fn stop_because(&self, reason: StopReason) {
        // The first reason stays. A time limit that fires during a person's stop must not replace it.
        self.0.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            *stop = stop.or(Some(reason));
            first
        });
    }

    /// Waits until the session has ended and returns its result.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.0.ended.clone();
        let lost = || Ended {
            unclear: Some("the session's own task was cancelled".to_owned()),
            ..Ended::new(Exit::Unknown, Cause::Exited)
        };
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Returns true if it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.borrow().is_some()
    }

    async fn input(&self, input: Input) -> Result<()> {
        if self.has_ended() {
            return Err(self.off());
        }
        self.0.inputs.send(input).await.map_err(|_| self.off())
    }

    fn off(&self) -> Error {
        Error::new(ErrorKind::TargetOff, "the session has ended").with("session", &self.0.info.alias)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("info", &self.0.info).finish_non_exhaustive()
    }
}

impl Shared {
    pub(in crate::session) fn converses(&self) -> bool {
        self.conversation.is_some()
    }

    /// Advances the conversation, if there is one, and returns the bytes to write.
    pub(in crate::session) fn converse(
        self: &Arc<Self>,
        step: impl FnOnce(&mut dyn Dialogue) -> Vec<Move>,
    ) -> Vec<u8> {
        self.conversation.as_ref().map(|it| it.step(self, step)).unwrap_or_default()
    }

    /// Answers a query of the program, without waiting for the program to read it.
    pub(in crate::session) fn reply(&self, bytes: Vec<u8>) {
        // A full queue means that the program asks faster than it reads.
        let _ = self.inputs.try_send(Input::Answer(bytes));
    }

    /// Records a message for the person.
    pub(in crate::session) fn remark(&self, text: impl Into<String>) {
        let payload = serde_json::json!({ "message": text.into() });
        self.log.push(Source::Process, Body::Event { name: "attention".to_owned(), payload });
    }

    pub(in crate::session) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text that a person would have read last.
    fn last_words(&self) -> String {
        let complaints = self.process.complaints();
        last_words(&if complaints.trim().is_empty() { self.screen.snapshot().text() } else { complaints })
    }

    pub(in crate::session) fn vendor_session(&self) -> Option<String> {
        self.standing().vendor_session().map(str::to_owned)
    }

    /// Takes in the facts of one observation.
    pub(in crate::session) fn learn(&self, mut facts: Vec<Fact>, source: Source) {
        // Held until all is recorded, so that records stand in the order in which they took effect.
        let mut standing = self.standing();
        for fact in &mut facts {
            if let Fact::Issue(issue) = fact
                && issue.reset_at.is_none()
                && issue.kind != IssueKind::SandboxDenied
            {
                // An issue that is repeated keeps its time: "try again in 5 minutes" counts from when it was
                // first said.
                issue.reset_at = match standing.open(issue) {
                    Some(open) => open.reset_at.clone(),
                    None => self.backend.reset_at(issue, &self.clock.now()),
                };
            }
        }
        let before = standing.vendor_session().map(str::to_owned);
        let turn_completed = Body::event("turn_completed");
        let mut turns = 0;
        for record in standing.take_all(facts, source) {
            turns += u64::from(record == turn_completed);
            self.log.push(source, record);
        }
        // Waiters see the new status only after its records are in the log.
        let status = standing.status();
        self.activity.send_if_modified(|activity| {
            let before = *activity;
            *activity = Activity { status, turns: activity.turns + turns };
            before != *activity
        });
        let blocking = standing.blocking();
        self.blocks.send_if_modified(|blocks| {
            let before = std::mem::replace(&mut blocks.issues, blocking);
            before != blocks.issues
        });
        // Also for an agent that ends badly: the id is what a resume needs.
        if let Some(id) = standing.vendor_session().filter(|id| before.as_deref() != Some(id)) {
            let (note, id) = (self.note.clone(), id.to_owned());
            // If it is lost, a later start has one session less to resume.
            tokio::task::spawn_blocking(move || replace(&note, id.as_bytes()));
        }
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in questions of the agent, from a message or `signal.json`, and records those that are new.
    pub(in crate::session) fn ask(&self, questions: Vec<Question>, source: Source) {
        let mut new = Vec::new();
        for question in questions {
            let asked = serde_json::json!({ "id": question.id, "question": question.question });
            if self.questions().ask(question) {
                new.push(asked);
            }
        }
        if !new.is_empty() {
            let payload = serde_json::json!({ "questions": new });
            self.log.push(source, Body::Event { name: "questions".to_owned(), payload });
            self.show_questions();
        }
    }

    fn show_questions(&self) {
        let questions = self.questions();
        // Under the lock on the questions, so that a concurrent answer cannot be overwritten by an older
        // list.
        self.blocks.send_modify(|blocks| blocks.questions = questions.open());
    }

    /// Counts a message of the agent's conversation: its failed tools and its tokens.
    pub(in crate::session) fn take_in(&self, message: &Message, source: Source) {
        self.failures.note(message, source);
        let [stream, transcript] = &mut *self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if source == Source::Transcript { transcript } else { stream }.add(message);
    }

    /// Records a message of the agent's conversation.
    pub(in crate::session) fn say(&self, message: Message, source: Source) {
        // Some carry only a token count.
        if !message.parts.is_empty() {
            self.log.push(source, Body::Transcript(message));
        }
    }

    /// Returns the token counts of the transcript, or of the stream if the transcript has none.
    fn spent(&self) -> (Usage, Option<u64>) {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let [stream, transcript] = &*tallies;
        // Never the sum: both describe the same turns.
        let tally = if transcript.total() == Usage::default() { stream } else { transcript };
        (tally.total(), tally.cost(|model| self.backend.price(model)))
    }
}

/// Returns the last lines of a text, joined to one.
pub(in crate::session) fn last_words(text: &str) -> String {
    const LINES: usize = 3;
    const CHARS: usize = 300;
    let (mut sanitizer, mut plain) = (Sanitizer::default(), String::new());
    sanitizer.feed(text.as_bytes(), &mut plain);
    sanitizer.finish(&mut plain);
    let said: Vec<&str> = plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = said.get(said.len().saturating_sub(LINES)..).unwrap_or_default().join(" / ");
    last.chars().filter(|c| !c.is_control()).take(CHARS).collect()
}
