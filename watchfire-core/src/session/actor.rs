//! The start of a session: the tasks that read its output, type its input, and observe its end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::handle::Session;
use super::screen::Screen;
use super::state::conversation::Conversation;
use super::state::failures::Failures;
use super::state::input::Text;
use super::state::mailbox::{GO_ON, Left, Letter, Mailbox};
use super::state::note::Note;
use super::state::notes::{Notes, note_typed};
use super::state::questions::Questions;
use super::state::reading::Reading;
use super::state::said;
use super::state::standing::Standing;
use super::state::tallies::{Counted, Tallies};
use super::state::{Activity, Cause, GRACE, SessionInfo, Shared};
use super::talk::Meter;
use super::talk::control::Control;
use super::talk::deadline::Deadline;
use super::talk::deliver::{Typist, interrupted};
use super::talk::desk::{Calls, Desk};
use super::talk::last_call::Uncommitted;
use super::talk::{opening, socket, spool};
use super::watch::complaints;
use super::watch::pump::{self, Sinks};
use super::watch::refused::{self, RefusalReporter};
use super::watch::silence;
use super::watch::transcript::{self, ReadFor};
use super::{Completion, SessionProcess};
use crate::backend::{
    Backend, Dialogue, Fact, Issue, PromptDelivery, Readiness, SessionContext, Source, Status,
};
use crate::clock::Clock;
use crate::model::Question;
use crate::observe::{Body, Log};
use crate::schedule::StopReason;
use crate::terminal::Terminal;

/// Channel to an agent.
pub(crate) enum Reach {
    /// On a terminal.
    Terminal,
    /// Lines of its stream.
    Stream,
    /// A conversation, which must be opened `within` this time.
    Dialogue { dialogue: Box<dyn Dialogue>, within: Duration },
}

/// Progress that an earlier program made in a session before it was taken over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    /// The queries in the output before this offset are answered.
    pub(crate) answered: u64,
    /// Answers that the agent was given, with their questions.
    pub(crate) answers: Vec<(Question, String)>,
    /// True if its host has ended it at its time limit.
    pub(crate) timed_out: bool,
    /// The issue that it waits for.
    pub(crate) issue: Option<Issue>,
    /// True if it is to go on where its limits are over: the earlier program may have ended before it could say so.
    pub(crate) goes_on: bool,
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
    /// The place that carries out the agent's calls.
    pub(crate) desk: Option<Arc<dyn Desk>>,
    /// True if the agent may ask the person.
    pub(crate) may_ask: bool,
    /// Source of the uncommitted changes. Set if the agent can be asked to commit them.
    pub(crate) uncommitted: Option<Arc<dyn Uncommitted>>,
    /// Receiver of the session's spending.
    pub(crate) meter: Option<Arc<dyn Meter>>,
    /// True if the agent may be asked once how its task ended.
    pub(crate) may_nudge: bool,
    /// The session's folder as the agent sees it, with `signal.json` and the spool.
    pub(crate) files: PathBuf,
    /// File in which the vendor's session id is noted, for a resume after a crash.
    pub(crate) note: PathBuf,
    /// Files that the resumed vendor's session brought along, with their lengths.
    pub(crate) restored: BTreeMap<PathBuf, u64>,
    /// Notified on every change in the folder of the completion file.
    pub(crate) changed: Arc<Notify>,
    /// Classifier of errors that the sandbox may have caused.
    pub(crate) refusals: RefusalReporter,
    pub(crate) deadline: Option<Deadline>,
    /// Length of a silence after which it counts as stalled.
    pub(crate) stall_after: Duration,
    /// Files for a program that takes the session over, if it can outlive this one.
    pub(crate) notes: Option<Notes>,
    /// The texts that wait for the agent of its life, and those that an earlier program left.
    pub(crate) mailbox: Option<(Mailbox, Left)>,
    /// Set if this program has taken the session over.
    pub(crate) taken: Option<Taken>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Session {
    /// Starts to watch over a process that has just started.
    pub(crate) fn start(parts: SessionParts) -> Self {
        let (inputs, input_queue) = mpsc::channel(64);
        let (end, ended) = watch::channel(None);
        let (failures, failed) = Failures::new();
        let is_taken = parts.taken.is_some();
        let taken = parts.taken.unwrap_or_default();
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
        let (mailbox, left) = parts.mailbox.unzip();
        let left = left.unwrap_or_default();
        let shared = Arc::new(Shared {
            info: parts.info,
            screen: Arc::new(Screen::new(parts.terminal, parts.log.clone(), Arc::clone(&parts.clock))),
            log: parts.log,
            process: parts.process,
            conversation,
            inputs,
            stop: watch::Sender::new(None),
            // Taken over, it is ready once its screen is there again: what stands in its box must be seen first.
            ready: watch::Sender::new(at_once && !is_taken),
            standing: Mutex::new(Standing::new(
                parts.vendor_session,
                parts.backend.capabilities().hooks && on_a_terminal,
            )),
            activity: watch::Sender::new(Activity { status: Status::Starting, turns: 0, is_ending: false }),
            questions: Mutex::new(Questions::answered(taken.answers)),
            said: Mutex::default(),
            may_nudge: AtomicBool::new(parts.may_nudge),
            footer: said::footer(&parts.readiness),
            blocks: watch::Sender::default(),
            is_taken,
            can_type: parts.backend.capabilities().chat && read_for != ReadFor::Tokens,
            files: parts.files.clone(),
            completion: parts.completion.clone(),
            may_ask: parts.may_ask,
            refused_questions: AtomicBool::new(false),
            note: Note::new(parts.note),
            notes: parts.notes.clone(),
            mailbox,
            lining_up: tokio::sync::Mutex::default(),
            resizing: tokio::sync::Mutex::default(),
            wanted_size: Mutex::default(),
            owed: watch::Sender::default(),
            clock: Arc::clone(&parts.clock),
            tallies: Mutex::new(Tallies::of_model(
                parts.context.settings.model.as_deref().unwrap_or_default(),
            )),
            failures,
            heard: watch::Sender::new(parts.clock.boot_time()),
            backend: Arc::clone(&parts.backend),
            interrupt: if on_a_terminal { parts.backend.delivery().interrupt } else { Vec::new() },
            stirred: Notify::new(),
            read_now: Notify::new(),
            reading: watch::Sender::new(Reading::Nothing),
            over: watch::Sender::new(false),
            ended,
        });
        let session = Self(Arc::clone(&shared));
        let mut is_over = false;
        if is_taken {
            is_over = shared.recall(taken.issue) && taken.goes_on;
        } else {
            shared.log.push(Source::Process, Body::Status(Status::Starting));
        }
        shared.log.set_input_available(shared.can_type);
        let mut first = Vec::new();
        if let PromptDelivery::Typed(text) = parts.prompt {
            let (text, typed) = Text::new(text);
            first.push(text);
            if let Some(Notes { prompted, .. }) = parts.notes.clone() {
                tokio::spawn(note_typed(typed, prompted));
            }
        }
        let is_told = left.waiting.iter().any(|(_, words)| words == GO_ON);
        if is_told || is_over {
            shared.pass_issues();
        }
        // Before everything that is sent from now on.
        first.extend(
            left.waiting
                .into_iter()
                .map(|(letter, words)| Text { letter: Some(letter), ..Text::new(words).0 }),
        );
        if !left.interrupted.is_empty() {
            left.interrupted.iter().for_each(|_| drop(shared.log.push(Source::Process, interrupted())));
            shared.remark(
                "a text was being typed when the program ended; it is not typed again, look at the screen",
            );
            // Only now: a program that ends before leaves it to the next one to tell.
            tokio::task::spawn_blocking(move || left.interrupted.into_iter().for_each(Letter::remove));
        }
        let typist = Typist::new(
            Arc::clone(&shared),
            Arc::clone(&parts.backend),
            Arc::clone(&parts.clock),
            parts.files.clone(),
            input_queue,
            first,
        );
        let typing = tokio::spawn(typist.run());
        if is_over && !is_told {
            let session = session.clone();
            tokio::spawn(async move { session.go_on().await });
        }
        // After the typist runs, since the opening lines go through its queue.
        let opening = shared.converse(|dialogue| dialogue.open());
        if !opening.is_empty() {
            shared.reply(opening, None);
        }
        // Before the pump runs: an agent that prints at once and then waits paints its screen only then.
        let painted = shared.screen.looks();
        let stream = (read_for == ReadFor::Tokens).then(|| Arc::clone(&parts.backend));
        // In a task of its own, so that its panic is caught below and ends this session alone.
        let (sinks, clock) = (parts.sinks, Arc::clone(&parts.clock));
        if is_taken {
            shared.screen.fall_behind();
        }
        let pump = tokio::spawn(pump::run(Arc::clone(&shared), sinks, stream, taken.answered, clock));
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
            true => tokio::spawn(opening::watch_opening(seen, within, clock)),
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
        let calls = Arc::new(Calls::new(parts.desk));
        let answering = tokio::spawn(socket::run(
            Arc::clone(&shared),
            Arc::clone(&calls),
            parts.files.clone(),
            shared.over.subscribe(),
        ));
        let listening = tokio::spawn(spool::run(
            Arc::clone(&shared),
            calls,
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
            parts.restored,
            Arc::clone(&parts.clock),
            shared.over.subscribe(),
        ));
        let hushed =
            tokio::spawn(silence::run(Arc::clone(&shared), Arc::clone(&parts.clock), parts.stall_after));
        let complaining = tokio::spawn(complaints::run(Arc::clone(&shared), Arc::clone(&parts.clock)));
        let hearing = tokio::spawn(refused::run(Arc::clone(&shared), parts.refusals, failed));
        let control = Control {
            shared,
            completion: parts.completion,
            uncommitted: parts.uncommitted,
            meter: parts.meter,
            files: parts.files,
            changed: parts.changed,
            timed_out: taken.timed_out,
            deadline: Mutex::new(parts.deadline),
            deadline_file: parts.notes.map(|notes| notes.deadline),
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
            hushed.abort();
            answering.abort();
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
            // One that is left to its host goes on, and the next program tells of its end.
            if ended.cause != Cause::Stopped(StopReason::Detached) {
                control.shared.learn(vec![Fact::Status(Status::Off)], Source::Process);
            }
            ended.vendor_session = control.shared.vendor_session();
            let blocks = control.shared.blocks.borrow().clone();
            ended.issue = blocks.issues.into_iter().rfind(|issue| issue.kind.is_blocking());
            ended.questions = blocks.questions;
            ended.worked = control.shared.standing().worked();
            ended.last_words = control.shared.last_words();
            ended.may_nudge = control.shared.may_nudge.load(Ordering::Relaxed);
            ended.last_message = control.shared.last_message();
            let Counted { usage, cost, .. } = control.shared.spent();
            (ended.usage, ended.cost) = (usage, cost);
            // If the pump hangs, readers of the screen end with the session all the same.
            control.shared.screen.finish();
            control.shared.log.set_input_available(false);
            control.shared.log.close();
            // Last: a waiter that wakes finds the log closed and everything above in place.
            end.send_replace(Some(ended));
        });
        session
    }
}
