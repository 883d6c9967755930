//! Typing into an agent: one sender at a time, only when the agent is ready, only into an empty box, never twice.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::backend::{Backend, Delivery, Framing, InputBox, Source, Status};
use crate::clock::Clock;
use crate::endpoint::{Spool, SpoolLimits};
use crate::observe::{Body, DeliveryState};
use crate::schedule::StopReason;
use crate::session::SessionProcess;
use crate::session::state::input::{Input, Receipt, Text, Typed};
use crate::session::state::mailbox::Letter;
use crate::session::state::{Activity, Shared};
use crate::{Error, ErrorKind, Result};

/// Time without a change of the screen before the box is read.
const QUIET: Duration = Duration::from_millis(200);
/// Interval at which the box is read on a screen that never rests.
const LONGEST: Duration = Duration::from_secs(1);
/// Pause after a person's key before a text is typed. The key's effect is not on the screen yet, and more keys may
/// follow.
const COOLDOWN: Duration = Duration::from_millis(500);
/// Time limit for a text whose agent is ready and whose box stays occupied.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for a typed text to show in the box.
const SHOWN: Duration = Duration::from_secs(15);
/// Time limit for the box to become empty after the submit key.
const TAKEN: Duration = Duration::from_secs(8);
/// Time after which a submit key counts as lost if the box still holds exactly our text. Gemini and Codex take an
/// Enter that comes too early for a line break.
const LOST: Duration = Duration::from_secs(2);
/// Time within which the turn that a text begins shows.
const BEGINS: Duration = Duration::from_secs(2);
/// Upper bound for presses of the submit key.
const PRESSES: u32 = 3;

/// Writer of all input of one agent, in order.
pub(in crate::session) struct Typist {
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    delivery: Delivery,
    limit: usize,
    clock: Arc<dyn Clock>,
    /// The session's folder, for texts that are too long to type.
    files: PathBuf,
    inputs: mpsc::Receiver<Input>,
    ready: watch::Receiver<bool>,
    painted: watch::Receiver<bool>,
    activity: watch::Receiver<Activity>,
    waiting: VecDeque<Waiting>,
    /// Time of the last submission, and the turns that had ended by then.
    submitted: Option<(Duration, u64)>,
    /// Time of a person's last key.
    pressed: Option<Duration>,
    /// Time since which the screen has not rested.
    restless: Option<Duration>,
    /// Time at which to read the box next.
    look: Option<Duration>,
}

/// A text in the queue.
struct Waiting {
    text: String,
    id: String,
    reply: oneshot::Sender<Result<Typed>>,
    own_turn: bool,
    is_revocable: bool,
    letter: Option<Letter>,
    /// Time since which the agent is ready and its box is occupied.
    blocked: Option<Duration>,
}

impl Waiting {
    /// Notes that it is being typed.
    ///
    /// # Errors
    /// I/O errors: without the note, another program would type it again.
    async fn begin(&mut self) -> Result<()> {
        let Some(mut letter) = self.letter.take() else { return Ok(()) };
        let begin = move || letter.begin().map(|()| letter);
        let failed =
            |error| Error::new(ErrorKind::Internal, "noting that a text is typed").with_source(error);
        self.letter = Some(tokio::task::spawn_blocking(begin).await.map_err(failed)??);
        Ok(())
    }
}

fn withdrawn() -> (String, String) {
    ("delivery_withdrawn".to_owned(), "its sender took the text back before it was typed".to_owned())
}

/// Returns the record of a text that an earlier program was typing when it ended.
pub(in crate::session) fn interrupted() -> Body {
    let message = "the program ended while it typed the text".to_owned();
    Body::Delivery {
        state: DeliveryState::Failed,
        receipt: Some("interrupted".to_owned()),
        message_id: None,
        error: Some(("delivery_interrupted".to_owned(), message)),
    }
}

impl Typist {
    pub(in crate::session) fn new(
        shared: Arc<Shared>,
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        files: PathBuf,
        inputs: mpsc::Receiver<Input>,
        first: Vec<Text>,
    ) -> Self {
        let mut typist = Self {
            delivery: backend.delivery(),
            limit: backend.capabilities().paste_limit.unwrap_or(usize::MAX),
            ready: shared.ready.subscribe(),
            painted: shared.screen.changes(),
            activity: shared.activity.subscribe(),
            submitted: None,
            shared,
            backend,
            clock,
            files,
            inputs,
            waiting: VecDeque::new(),
            pressed: None,
            restless: None,
            look: None,
        };
        first.into_iter().for_each(|text| typist.queue(text));
        typist
    }

    /// Carries out inputs in order until the session has ended. Texts wait until the agent is ready and its box is
    /// free. Keys do not wait, so that a person can answer a dialog and clear the box.
    pub(in crate::session) async fn run(mut self) {
        loop {
            // Marks the value as seen before the box is read, so that a change from here on wakes the loop.
            let ready = *self.ready.borrow_and_update();
            // Marked as seen, too.
            let activity = *self.activity.borrow_and_update();
            if activity.status == Status::Processing {
                self.submitted = None;
            }
            if ready && !self.waiting.is_empty() && !self.is_held(activity) {
                // A protocol has no box: its state machine says when a text may be sent.
                if self.shared.converses() {
                    self.next(false).await;
                    continue;
                }
                match self.input_box() {
                    // The backend cannot read the box. Ready has to be enough, or its agents would never get
                    // a text.
                    InputBox::Unknown => {
                        self.next(false).await;
                        continue;
                    }
                    seen if self.look.is_some_and(|at| at <= self.now()) => {
                        (self.look, self.restless) = (None, None);
                        if seen.is_empty() {
                            self.next(true).await
                        } else {
                            self.blocked()
                        }
                        continue;
                    }
                    // Nothing is due yet. Schedules the first look, also if the screen never changes again.
                    _ if self.look.is_none() && self.first_blocked().is_none() => self.schedule_look(),
                    _ => {}
                }
            }
            // Without a text in line there is no alarm at all: a look that stays due would spin.
            let patience = self.first_blocked().map(|since| since + PATIENCE);
            // Only what is to come: a submission of long ago would wake this task without end.
            let begun = self.submitted.map(|(at, _)| at + BEGINS).filter(|at| *at > self.now());
            let begun = begun.filter(|_| self.is_held(activity));
            let wake = self.look.into_iter().chain(patience).min().filter(|_| !self.is_held(activity));
            let wake = wake.into_iter().chain(begun).min().filter(|_| ready && !self.waiting.is_empty());
            let clock = Arc::clone(&self.clock);
            let alarm = async move {
                match wake {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = self.inputs.recv() => match input {
                    Some(input) => self.take(input).await,
                    None => return,
                },
                changed = self.ready.changed() => if changed.is_err() { return },
                changed = self.activity.changed(), if !self.waiting.is_empty() => if changed.is_err() { return },
                // Only with a text in line: every redraw of a busy agent would otherwise wake this task for
                // nothing.
                changed = self.painted.changed(), if !self.waiting.is_empty() => match changed {
                    Ok(()) => self.schedule_look(),
                    Err(_) => return,
                },
                () = alarm => self.give_up().await,
            }
        }
    }

    /// Writes keys at once; queues a text.
    async fn take(&mut self, input: Input) {
        match input {
            Input::Keys(bytes, reply) => {
                let _ = reply.send(self.process().write(&bytes).await);
                self.pressed = Some(self.now());
                self.schedule_look();
            }
            Input::Answer(bytes, until) => {
                let is_written = self.process().write(&bytes).await.is_ok();
                // An agent that does not read its answers continues without them.
                if is_written || *self.shared.stop.borrow() != Some(StopReason::Detached) {
                    // Only now: what is not answered when this program ends, the next one answers.
                    if let Some(until) = until {
                        self.process().answered(until).await;
                    }
                    self.shared.owed.send_modify(|owed| *owed -= 1);
                }
            }
            Input::Text(text) => self.queue(text),
        }
    }

    fn queue(&mut self, Text { words, reply, own_turn, is_revocable, letter }: Text) {
        // Control characters would act as keys: a newline submits, an escape clears the box. A protocol quotes them.
        let text = if self.shared.converses() { words } else { Delivery::clean(&words) };
        // Names its file in the inbox, where an agent may still have to read those of an earlier program.
        let id = uuid::Uuid::new_v4().simple().to_string().split_off(20);
        self.report(&id, DeliveryState::Pending, "queued", None);
        self.waiting.push_back(Waiting { text, id, reply, own_turn, is_revocable, letter, blocked: None });
    }

    /// Returns true if the text that has waited longest must not be typed while the agent is in this state.
    fn is_held(&self, now: Activity) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        match now.status {
            // It would answer a dialog, where the box does not show that there is one.
            Status::ActionRequired => !self.shared.converses() && self.input_box() == InputBox::Unknown,
            Status::Processing => first.own_turn,
            // The turn of the text before may not show yet.
            _ => {
                let begins = |(at, turns)| turns == now.turns && self.now() < at + BEGINS;
                first.own_turn && (now.is_ending || self.submitted.is_some_and(begins))
            }
        }
    }

    /// Types the text that has waited longest. It is typed even if its sender no longer waits for the result, unless that takes
    /// it back.
    async fn next(&mut self, seen: bool) {
        let Some(mut first) = self.waiting.pop_front() else { return };
        if first.is_revocable && first.reply.is_closed() {
            return self.report(&first.id, DeliveryState::Failed, "withdrawn", Some(withdrawn()));
        }
        // Before the first byte: an agent may begin its turn, and end it, before the last one is confirmed.
        let (from, turns) = (self.shared.log.latest(), self.activity.borrow().turns);
        let done = match first.begin().await {
            Ok(()) => self.submit(&first.text, &first.id, seen).await.map(|receipt| Typed { receipt, from }),
            Err(error) => Err(error),
        };
        self.submitted = Some((self.now(), turns));
        self.finish(first, done).await;
    }

    async fn finish(&self, text: Waiting, done: Result<Typed>) {
        let Waiting { id, reply, letter, .. } = text;
        let id = &id;
        if let Some(letter) = letter {
            // Before its sender hears of it, who may then send it again.
            let _ = tokio::task::spawn_blocking(move || letter.remove()).await;
        }
        let error = done.as_ref().err().map(|error| (error.code().to_owned(), error.report()));
        match &done {
            Ok(Typed { receipt: Receipt::Accepted, .. }) => {
                self.report(id, DeliveryState::Submitted, "accepted", None)
            }
            Ok(_) => {}
            Err(_) => self.report(id, DeliveryState::Failed, "failed", error.clone()),
        }
        // No sender waits any more, so the person learns of the failure here.
        if let (Err(_), Some((_, why))) = (reply.send(done), error) {
            self.shared.remark(format!("a text did not reach the agent: {why}"));
        }
    }

    async fn submit(&mut self, text: &str, id: &str, seen: bool) -> Result<Receipt> {
        if self.shared.converses() {
            let lines = self.shared.converse(|dialogue| dialogue.say(text));
            self.process().write(&lines).await?;
            self.report(id, DeliveryState::Submitted, "submitted", None);
            return Ok(Receipt::Submitted);
        }
        // A program that reads lines would take each line of the text as a message of its own.
        let several = self.delivery.framing == Framing::Line && text.contains('\n');
        let pointer = if text.len() > self.limit || several { Some(self.put(id, text).await?) } else { None };
        let text = pointer.as_deref().unwrap_or(text);
        self.process().write(&self.delivery.frame(text)).await?;
        self.report(id, DeliveryState::Pending, "written", None);
        // A program that is still taking in a paste treats an Enter as part of it.
        let settle = self.delivery.settle_for(text);
        if !settle.is_zero() {
            self.clock.sleep_until(self.now() + settle).await;
        }
        if seen {
            self.shown(text).await?;
        }
        // From here on the agent may have received the text, so it is never typed a second time.
        self.process().write(self.delivery.submit.bytes()).await.map_err(|error| {
            Error::new(ErrorKind::NoInputChannel, "the text was written but could not be submitted")
                .with_source(error)
        })?;
        self.report(id, DeliveryState::Submitted, "submitted", None);
        if seen { self.taken(text).await } else { Ok(Receipt::Submitted) }
    }

    /// Waits until the box holds exactly `text` and a person has left the keys alone.
    async fn shown(&mut self, text: &str) -> Result<()> {
        let end = self.now() + SHOWN;
        loop {
            let seen = self.input_box();
            let alone = self.pressed.is_none_or(|at| at + COOLDOWN <= self.now());
            if alone && seen.holds(text) {
                return Ok(());
            }
            if self.now() >= end {
                // No attempt to clean up: deleting what the box holds could delete a person's words.
                let what = match seen {
                    InputBox::Holds(_) if seen.is_empty() => {
                        "the text was typed and does not show in the input box"
                    }
                    InputBox::Holds(_) => "the text was typed and the input box holds something else with it",
                    _ => "the text was typed and something else took the place of the input box",
                };
                return Err(Error::new(ErrorKind::NotInputReady, what)
                    .with("hint", "it was not submitted; look at the agent's screen"));
            }
            self.pause(end).await?;
        }
    }

    /// Waits until the box no longer holds `text`. While it holds exactly that, the agent has not received the text,
    /// and the submit key is pressed again, which can submit nothing else.
    async fn taken(&mut self, text: &str) -> Result<Receipt> {
        let end = self.now() + TAKEN;
        let (mut presses, mut lost) = (1, self.now() + LOST);
        let (before, mut gone) = (self.pressed, None);
        loop {
            let held = self.input_box().holds(text);
            // Two looks, because a box that is being redrawn holds nothing for a moment.
            gone = (!held).then(|| gone.unwrap_or_else(|| self.now()));
            if gone.is_some_and(|since| since + QUIET <= self.now()) {
                return Ok(Receipt::Accepted);
            }
            if held && self.now() >= end {
                return Err(Error::new(ErrorKind::NotInputReady, "the input box did not let go of the text")
                    .with("hint", "it is typed and not submitted; look at the agent's screen"));
            }
            // Not after a person's key: the text may stand there because they are editing it.
            if held && self.now() >= lost && presses < PRESSES && self.pressed == before {
                self.process().write(self.delivery.submit.bytes()).await?;
                (presses, lost) = (presses + 1, self.now() + LOST);
            }
            self.pause(self.now() + QUIET).await?;
        }
    }

    /// Waits for a change of the screen or for a moment. Keys are still passed on in the meantime.
    async fn pause(&mut self, end: Duration) -> Result<()> {
        let (clock, until) = (Arc::clone(&self.clock), end.min(self.now() + COOLDOWN));
        tokio::select! {
            input = self.inputs.recv() => match input {
                // A text that arrives now is only queued, so the text that is being submitted stays the only
                // one.
                Some(input) => self.take(input).await,
                None => return Err(Error::new(ErrorKind::TargetOff, "the session has ended")),
            },
            changed = self.painted.changed() => {
                if changed.is_err() {
                    return Err(Error::new(ErrorKind::TargetOff, "the session has ended"));
                }
                // The screen is being drawn: a half-drawn box shows half of its text.
                self.clock.sleep_until(self.now() + QUIET / 4).await;
            }
            () = clock.sleep_until(until) => {}
        }
        Ok(())
    }

    /// Writes a text that is too long to type into a file, and returns the text to type instead.
    async fn put(&self, id: &str, text: &str) -> Result<String> {
        let (files, name, bytes) = (self.files.clone(), format!("message-{id}.md"), text.as_bytes().to_vec());
        let path = files.join("inbox").join(&name);
        let put = move || Spool::open(&files, SpoolLimits::default())?.put(&name, &bytes);
        let failed = |error| Error::new(ErrorKind::Internal, "putting a message aside").with_source(error);
        tokio::task::spawn_blocking(put).await.map_err(failed)??;
        Ok(format!("Read the file {} and do what it says.", path.display()))
    }

    /// Notes that the box is not free. An agent at work is not given up on.
    fn blocked(&mut self) {
        let (now, works) = (self.now(), self.shared.standing().status() == Status::Processing);
        let Some(first) = self.waiting.front_mut() else { return };
        first.blocked = if works { None } else { first.blocked.or(Some(now)) };
        // An agent that finishes need not redraw its box, so the next look has a time. Otherwise the next
        // change of the screen schedules it.
        self.look = works.then_some(now + LONGEST);
    }

    fn first_blocked(&self) -> Option<Duration> {
        self.waiting.front().and_then(|first| first.blocked)
    }

    /// Rejects a text that has waited too long for the box.
    async fn give_up(&mut self) {
        // The alarm also rings for a look at the box, which the next round of `run` takes.
        let late = self.first_blocked().is_some_and(|since| since + PATIENCE <= self.now());
        if !late {
            return;
        }
        let what = match self.input_box() {
            InputBox::Holds(_) => "the input box holds text that someone else typed",
            _ => "the agent shows no input box",
        };
        let error =
            Error::new(ErrorKind::NotInputReady, what).with("hint", "nothing was typed; look at its screen");
        if let Some(text) = self.waiting.pop_front() {
            self.finish(text, Err(error)).await;
        }
    }

    /// Schedules a look at the box for when the screen rests.
    fn schedule_look(&mut self) {
        let now = self.now();
        // The earliest of the changes bounds the wait: a spinner redraws for as long as the agent works.
        let first = *self.restless.get_or_insert(now);
        let keys = self.pressed.map_or(now, |at| at + COOLDOWN);
        self.look = Some((now + QUIET).min(first + LONGEST).max(keys));
    }

    fn input_box(&self) -> InputBox {
        let screen = self.shared.screen.snapshot();
        self.backend.input_box(&screen)
    }

    fn report(&self, id: &str, state: DeliveryState, receipt: &str, error: Option<(String, String)>) {
        let (receipt, message_id) = (Some(receipt.to_owned()), Some(id.to_owned()));
        self.shared.log.push(Source::Process, Body::Delivery { state, receipt, message_id, error });
    }

    fn process(&self) -> &dyn SessionProcess {
        &*self.shared.process
    }

    fn now(&self) -> Duration {
        self.clock.boot_time()
    }
}
