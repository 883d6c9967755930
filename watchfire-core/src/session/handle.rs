//! The handle of a running session.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::screen::{AttachRequest, Attachment};
use super::state::ended::{Cause, Ended};
use super::state::input::{Input, Receipt, Text, Typed};
use super::state::mailbox::{GO_ON, Letter};
use super::state::notes::note_typed;
use super::state::questions::Place;
use super::state::{SessionInfo, Shared};
use super::{Blocks, Exit};
use crate::backend::{Delivery, Source, Status, Usage};
use crate::endpoint::{Answer, Spool, SpoolLimits};
use crate::model::Question;
use crate::observe::{
    Body, DeliveryDetail, DeliveryState, GOES_ON, KEY_PRESSED, Log, RuntimeState, WatchRequest, WatchResponse,
};
use crate::schedule::StopReason;
use crate::session::Counted;
use crate::terminal::{Line, Scrolled, Size, Snapshot};
use crate::{Error, ErrorKind, Result};

/// A running session. Cheap to clone; dropping it changes nothing.
#[derive(Clone)]
pub struct Session(pub(in crate::session) Arc<Shared>);

impl Session {
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
        let Counted { usage, cost, .. } = self.0.spent();
        (usage, cost)
    }

    /// Returns the same counts, with the cost of the tokens that have a known price.
    pub(crate) fn counted(&self) -> Counted {
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

    /// Returns one line about the agent's present: the issue that blocks it, its tool, its last sentence, or that it waits for
    /// the user. It is from the screen only before a conversation is known. Empty if nothing is known.
    #[must_use]
    pub fn doing(&self) -> String {
        self.0.doing()
    }

    /// Follows the screen: the state at one offset of the output, then every change from there on. A session that has
    /// ended delivers the rest.
    ///
    /// # Errors
    /// `invalid_input` if the request names an offset that the output has not reached. Of a session that was just taken over, a
    /// redraw comes then.
    pub fn attach(&self, request: &AttachRequest) -> Result<Attachment> {
        Attachment::new(&self.0.screen, request)
    }

    /// Waits until the screen shows the present. After a take-over it shows the past for a moment, also to
    /// [`snapshot`](Self::snapshot) and [`scrollback`](Self::scrollback). Where an agent prints without end, the wait is over after
    /// about ten seconds.
    pub async fn caught_up(&self) {
        self.0.screen.caught_up().await;
    }

    /// Returns the retained lines of its scrollback with numbers in `range`, oldest first. See
    /// [`Terminal::scrollback`](crate::terminal::Terminal::scrollback) for the numbers.
    #[must_use]
    pub fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        self.0.screen.scrollback(range)
    }

    /// Returns the lines of its scrollback from `number` on, and the number of lines before them that are gone. See
    /// [`Terminal::scrollback_since`](crate::terminal::Terminal::scrollback_since).
    #[must_use]
    pub fn scrollback_since(&self, number: u64) -> Scrolled {
        self.0.screen.scrollback_since(number)
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
        let mut standing = self.0.standing();
        if standing.key_pressed() == Some(Source::Hook) {
            self.0.log.push(Source::Process, Body::lifecycle(KEY_PRESSED, serde_json::Value::Null));
        }
        drop(standing);
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

    /// Sends `text` to the agent, framed and submitted as its backend requires, once it is ready for input. It is on disk before
    /// it waits: a session of the same work that follows, or a program that takes this one over, types it in its place. Where the
    /// backend can read its [input box](crate::backend::Backend::input_box), the text is typed only into an empty box, and submitted
    /// only when the box holds exactly this text. A text beyond the paste limit goes into a file of the session, and
    /// a reference to the file is typed.
    ///
    /// # Errors
    /// `invalid_input` for a text without words; `target_off` when the session has ended; `no_input_channel` when its agent takes
    /// no texts while it runs; `busy` when too many texts wait; `not_input_ready` when the box is not free for a minute, or does
    /// not show the text as typed; I/O errors. An error after the text was written is final: no text is typed twice.
    pub async fn send(&self, text: impl Into<String>) -> Result<Receipt> {
        let typed = self.submit(text.into(), false, None).await?;
        typed.map(|typed| typed.receipt).ok_or_else(|| self.off())
    }

    /// Sends a text as [`send`](Self::send) does, but one that who sends it sends again if need be. To drop the future takes the
    /// text back, unless it is being typed.
    pub(crate) async fn say(&self, text: impl Into<String>) -> Result<Receipt> {
        let (text, typed) = Text::new(text.into());
        self.input(Input::Text(Text { is_revocable: true, ..text })).await?;
        Ok(typed.await.map_err(|_| self.off())??.receipt)
    }

    /// Submits a text, and waits for its receipt until `end`. Returns `None` then: the text stays in line. With `own_turn`, it is
    /// typed only when no turn is under way.
    async fn submit(&self, words: String, own_turn: bool, end: Option<Duration>) -> Result<Option<Typed>> {
        if self.has_ended() {
            return Err(self.off());
        }
        if !self.0.can_type {
            let message = "the agent takes no texts while it runs";
            return Err(Error::new(ErrorKind::NoInputChannel, message).with("session", &self.0.info.alias));
        }
        if Delivery::clean(&words).trim().is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the text is empty"));
        }
        // In a task of its own: a text that is on disk gets in line, also if its sender waits no longer.
        let session = self.clone();
        let queued = tokio::spawn(async move { session.put_in_line(words, own_turn).await }).await;
        let (typed, letter) = queued.map_err(|_| self.off())??;
        let late = async {
            match end {
                Some(end) => self.0.clock.sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let typed = tokio::select! {
            biased;
            typed = typed => typed,
            () = late => return Ok(None),
        };
        match (typed, letter) {
            (Ok(typed), _) => typed.map(Some),
            (Err(_), letter) => {
                // The sender hears of it, and may send it to the session that follows.
                if let Some(letter) = letter {
                    let removed = move || {
                        letter.remove();
                        Ok(())
                    };
                    blocking("taking a text out of line", removed).await?;
                }
                Err(self.off())
            }
        }
    }

    /// Puts a text on disk and in line. Returns the receiver of its receipt, which fails if the session ends before, and its file.
    async fn put_in_line(
        &self,
        words: String,
        own_turn: bool,
    ) -> Result<(oneshot::Receiver<Result<Typed>>, Option<Letter>)> {
        // Over both steps, so that texts are in line in the order of their files.
        let _one = self.0.lining_up.lock().await;
        let letter = match self.0.mailbox.clone() {
            None => None,
            Some(mailbox) => {
                let text = words.clone();
                Some(blocking("putting a text in line", move || mailbox.put(&text)).await?)
            }
        };
        let (text, typed) = Text::new(words);
        // Where the session has ended by now, the receiver says so.
        let _ = self.0.inputs.send(Input::Text(Text { own_turn, letter: letter.clone(), ..text })).await;
        Ok((typed, letter))
    }

    /// Returns whether it takes text now, and how.
    #[must_use]
    pub fn runtime_state(&self) -> RuntimeState {
        let shared = &self.0;
        if self.has_ended() {
            RuntimeState::TargetOff
        } else if shared.converses() {
            RuntimeState::HeadlessAvailable
        } else if !shared.can_type {
            RuntimeState::RestoredWithoutSender
        } else if *shared.ready.borrow() {
            RuntimeState::LivePtyAvailable
        } else {
            RuntimeState::QueuedNotReady
        }
    }

    /// Sends `text` as [`send`](Self::send) does, and returns how far it came. A text whose agent is not ready `within` this
    /// time is `pending`: it stays in line, and is typed when its turn comes.
    pub async fn deliver(&self, text: impl Into<String>, within: Duration) -> DeliveryDetail {
        let runtime = self.runtime_state();
        let end = self.0.clock.boot_time().saturating_add(within);
        let typed = self.submit(text.into(), false, Some(end)).await;
        self.detail(runtime, typed.as_ref().map(Option::as_ref))
    }

    /// Sends `text`, and answers `request` once its condition comes true in the turn that this text begins. What the agent did
    /// before does not count, even if the text had to wait for it; `status:idle` is also met by a turn that ends without
    /// a change of status. The timeout is for all of it.
    ///
    /// The detail says how far the text came, whatever becomes of the wait.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send) and of [`Log::watch`]. A text that has not been submitted at the end of the time stays in line
    /// (`watch_timeout`, delivery `pending`).
    pub async fn send_and_watch(
        &self,
        text: impl Into<String>,
        request: WatchRequest,
    ) -> (DeliveryDetail, Result<WatchResponse>) {
        let (runtime, clock) = (self.runtime_state(), &self.0.clock);
        let end = clock.boot_time().saturating_add(Duration::from_millis(request.timeout_ms));
        // Before the text is sent: a wait that cannot be met would leave it without an answer.
        if let Err(error) = request.check() {
            return (self.detail(runtime, Err(&error)), Err(error));
        }
        let typed = self.submit(text.into(), true, Some(end)).await;
        let detail = self.detail(runtime, typed.as_ref().map(Option::as_ref));
        let from = match typed {
            Ok(Some(typed)) => typed.from,
            Err(error) => return (detail, Err(error)),
            Ok(None) => {
                let message = "the agent was not ready for the text in time";
                let late =
                    Error::new(ErrorKind::WatchTimeout, message).with("timeout_ms", request.timeout_ms);
                return (detail, Err(late));
            }
        };
        let left = end.saturating_sub(clock.boot_time());
        let mut request = request.with_since(from).with_timeout(left).with_accept_current(false);
        if request.until.as_deref() == Some("status:idle") {
            request = request.with_until("any(status:idle, event:turn_completed)");
        }
        (detail, self.log().watch_on(&request).await)
    }

    fn detail(&self, runtime: RuntimeState, typed: Result<Option<&Typed>, &Error>) -> DeliveryDetail {
        let info = self.info();
        let who = (info.id.to_string(), info.alias.to_string(), info.backend.to_string());
        match typed {
            Ok(None) => DeliveryDetail::new(who, runtime, DeliveryState::Pending),
            Ok(Some(_)) => DeliveryDetail::new(who, runtime, DeliveryState::Submitted),
            Err(error) => DeliveryDetail::new(who, runtime, DeliveryState::Failed).with_error(error),
        }
    }

    /// Asks the agent to go on after its issues. They do not count any more, although they may still be on its screen: its time
    /// runs, and where it does nothing it is asked how it ended. The text stays in line: a program that takes the session over
    /// types it.
    pub(crate) async fn go_on(&self) -> DeliveryDetail {
        self.0.pass_issues();
        let detail = self.deliver(GO_ON, Duration::ZERO).await;
        // Only now that the text is in line: a kill in between must not leave an agent that nobody asks.
        self.0.log.push(Source::Process, Body::lifecycle(GOES_ON, serde_json::Value::Null));
        detail
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
    /// ended; I/O errors, after which the question is open again.
    pub async fn answer(&self, question: &str, text: &str) -> Result<()> {
        if self.has_ended() {
            return Err(self.off());
        }
        let (several, answered) = {
            // Recorded before the disk is touched, so that of two concurrent answers one is rejected.
            let mut questions = self.0.questions();
            (questions.open().len() > 1, questions.answer(question, text)?)
        };
        match answered {
            Some(question) => self.hand_over(&question, text, several).await,
            None => Ok(()),
        }
    }

    /// Answers a question that the person was shown. The agent gets the answer also if it has withdrawn the question meanwhile:
    /// it counts as answered, and is not shown again.
    pub(crate) async fn answer_to(&self, question: &Question, text: &str) -> Result<()> {
        if self.has_ended() {
            return Err(self.off());
        }
        let (several, place) = {
            let mut questions = self.0.questions();
            (questions.open().len() > 1, questions.answer_to(question, text)?)
        };
        match place {
            Place::Open => self.hand_over(question, text, several).await,
            Place::Answered => Ok(()),
            // The agent may have asked more since than is known.
            Place::Unknown => self.hand_over(question, text, true).await,
            // Not into the inbox, where it would be taken for the answer to the other one.
            Place::Taken => {
                self.give(question, text).await;
                Ok(())
            }
        }
    }

    /// Puts an answer into the agent's inbox and types it. With `words`, the question is typed before it, for an agent that asked
    /// several.
    async fn hand_over(&self, question: &Question, text: &str, words: bool) -> Result<()> {
        let shared = &self.0;
        shared.show_questions();
        let (answer, files) = (Answer::new(&question.id, text), shared.files.clone());
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
        let payload = serde_json::json!({ "question": question.id });
        shared.log.push(Source::Process, Body::Event { name: "answered".to_owned(), payload });
        // An agent that has ended by now has its answer in the inbox.
        match words {
            true => self.give(question, text).await,
            false => self.type_answer(question, text.to_owned()).await,
        }
        Ok(())
    }

    /// Notes that an answer was typed, once it was: a program that takes the session over types the others.
    fn note_given(&self, question: &Question, written: oneshot::Receiver<Result<Typed>>) {
        if let Some(notes) = &self.0.notes {
            tokio::spawn(note_typed(written, notes.given(question)));
        }
    }

    /// Types an answer with its question.
    pub(crate) async fn give(&self, question: &Question, text: &str) {
        self.type_answer(question, format!("{}\n\n{text}", question.question)).await;
    }

    async fn type_answer(&self, question: &Question, text: String) {
        if !self.0.can_type {
            return;
        }
        let (text, written) = Text::new(text);
        let _ = self.0.inputs.send(Input::Text(text)).await;
        self.note_given(question, written);
    }

    /// Changes the size of its terminal. The kernel delivers SIGWINCH to its program. One that was just taken over is resized once it
    /// shows the present.
    ///
    /// # Errors
    /// `target_off` when the session has ended; `not_supported` without a terminal.
    pub async fn resize(&self, size: Size) -> Result<()> {
        if self.has_ended() {
            return Err(self.off());
        }
        *self.0.wanted_size.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
        if !self.0.screen.is_behind() {
            return self.fit().await;
        }
        // A terminal that grows to the present under another size gives its lines other numbers than before.
        let session = self.clone();
        tokio::spawn(async move {
            session.caught_up().await;
            session.fit().await
        });
        Ok(())
    }

    /// Gives its terminal the size that was wanted last.
    async fn fit(&self) -> Result<()> {
        // One after the other: the last that is told to our terminal is the last that the guardian hears.
        let _resizing = self.0.resizing.lock().await;
        let wanted = self.0.wanted_size.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(size) = wanted else { return Ok(()) };
        let before = self.0.screen.snapshot().size;
        // Our terminal first: the program redraws at once, and that output is laid out for the new size.
        self.0.screen.resize(size);
        self.0.process.resize(size).await.inspect_err(|_| self.0.screen.resize(before))
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

    /// Returns true if another program could take it over: of a conversation in a protocol, only this one knows where it is.
    pub(crate) fn can_be_left(&self) -> bool {
        !self.0.converses() && !self.has_ended()
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

/// Runs blocking work on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &'static str,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let failed = |error| Error::new(ErrorKind::Internal, what).with_source(error);
    tokio::task::spawn_blocking(act).await.map_err(failed)?
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("info", &self.0.info).finish_non_exhaustive()
    }
}
