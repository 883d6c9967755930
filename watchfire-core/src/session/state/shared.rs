//! The state of one session, for the tasks that share it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::blocks::Blocks;
use super::claim::Completion;
use super::conversation::Conversation;
use super::ended::Ended;
use super::failures::Failures;
use super::input::Input;
use super::mailbox::Mailbox;
use super::note::Note;
use super::notes::Notes;
use super::questions::Questions;
use super::reading::Reading;
use super::said::{Said, last_lines};
use super::standing::Standing;
use super::tallies::{Counted, Tallies};
use crate::backend::{Backend, Dialogue, Fact, Issue, IssueKind, Message, Move, Source, Status};
use crate::clock::Clock;
use crate::model::{Alias, BackendName, Mode, Phase, ProjectId, Question, SessionId, TaskNumber, Timestamp};
use crate::observe::{Body, Log};
use crate::schedule::StopReason;
use crate::session::SessionProcess;
use crate::session::screen::Screen;
use crate::terminal::Size;

/// Length of a silence after which the live line names the tool or the model that the agent waits for.
const QUIET: Duration = Duration::from_secs(30);
/// Time for which answers that are in line are waited for.
const ANSWERED: Duration = Duration::from_millis(100);
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
    /// The phase of wildfire that it belongs to.
    pub phase: Option<Phase>,
    /// Its task, where it has one.
    pub task: Option<TaskNumber>,
    /// Its backend.
    pub backend: BackendName,
    /// Time of its start.
    pub started_at: Timestamp,
}

/// State that the tasks of one session share.
pub(in crate::session) struct Shared {
    pub(in crate::session) info: SessionInfo,
    pub(in crate::session) screen: Arc<Screen>,
    pub(in crate::session) log: Log,
    pub(in crate::session) process: Arc<dyn SessionProcess>,
    pub(in crate::session) conversation: Option<Conversation>,
    pub(in crate::session) inputs: mpsc::Sender<Input>,
    /// Number of answers that are in line.
    pub(in crate::session) owed: watch::Sender<usize>,
    pub(in crate::session) stop: watch::Sender<Option<StopReason>>,
    pub(in crate::session) ready: watch::Sender<bool>,
    pub(in crate::session) standing: Mutex<Standing>,
    pub(in crate::session) activity: watch::Sender<Activity>,
    pub(in crate::session) questions: Mutex<Questions>,
    pub(in crate::session) blocks: watch::Sender<Blocks>,
    /// True if an earlier program began the session.
    pub(in crate::session) is_taken: bool,
    /// True if the agent accepts texts for as long as it runs.
    pub(in crate::session) can_type: bool,
    pub(in crate::session) files: PathBuf,
    pub(in crate::session) completion: Completion,
    /// True if the agent may ask the person.
    pub(in crate::session) may_ask: bool,
    pub(in crate::session) refused_questions: AtomicBool,
    pub(in crate::session) note: Note,
    pub(in crate::session) notes: Option<Notes>,
    pub(in crate::session) mailbox: Option<Mailbox>,
    /// Held while a text is put on disk and in line.
    pub(in crate::session) lining_up: tokio::sync::Mutex<()>,
    /// The size that its terminal is to have next.
    pub(in crate::session) wanted_size: Mutex<Option<Size>>,
    /// Held while its terminal is resized.
    pub(in crate::session) resizing: tokio::sync::Mutex<()>,
    pub(in crate::session) clock: Arc<dyn Clock>,
    pub(in crate::session) tallies: Mutex<Tallies>,
    pub(in crate::session) said: Mutex<Said>,
    /// True while the agent may be asked how its task ended.
    pub(in crate::session) may_nudge: AtomicBool,
    /// Texts in or below the input box.
    pub(in crate::session) footer: Vec<String>,
    pub(in crate::session) failures: Failures,
    /// Time of the last message or change of status of the agent, as the clock's boot time.
    pub(in crate::session) heard: watch::Sender<Duration>,
    pub(in crate::session) backend: Arc<dyn Backend>,
    pub(in crate::session) interrupt: Vec<u8>,
    /// Notified on every fact that shows the agent is active.
    pub(in crate::session) stirred: Notify,
    /// Asks for the transcript to be read now.
    pub(in crate::session) read_now: Notify,
    /// The latest read of the transcript. Each one wakes the waiters.
    pub(in crate::session) reading: watch::Sender<Reading>,
    /// True once no process of the agent is left.
    pub(in crate::session) over: watch::Sender<bool>,
    pub(in crate::session) ended: watch::Receiver<Option<Ended>>,
}

/// Activity of an agent, as its waiters need it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) struct Activity {
    pub(in crate::session) status: Status,
    /// Number of turns that have ended.
    pub(in crate::session) turns: u64,
    /// True while the last words of a turn are awaited whose end is reported, and not counted yet.
    pub(in crate::session) is_ending: bool,
}

impl Activity {
    /// Returns true if the agent is idle, and no turn is about to be counted.
    pub(in crate::session) fn rests(self) -> bool {
        self.status == Status::Idle && !self.is_ending
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

    /// Answers the queries of the program that end before an offset of its output, without waiting for the program to read it.
    pub(in crate::session) fn reply(&self, bytes: Vec<u8>, until: Option<u64>) {
        self.owed.send_modify(|owed| *owed += 1);
        // A full queue means that the program asks faster than it reads.
        if self.inputs.try_send(Input::Answer(bytes, until)).is_err() {
            self.owed.send_modify(|owed| *owed -= 1);
        }
    }

    /// Waits for a moment until all answers are written, and returns true if they are.
    pub(in crate::session) async fn has_answered(&self) -> bool {
        let mut owed = self.owed.subscribe();
        tokio::select! {
            biased;
            answered = owed.wait_for(|owed| *owed == 0) => answered.is_ok(),
            () = self.clock.sleep_until(self.clock.boot_time() + ANSWERED) => false,
        }
    }

    /// Records a message for the person.
    pub(in crate::session) fn remark(&self, text: impl Into<String>) {
        let payload = serde_json::json!({ "message": text.into() });
        self.log.push(Source::Process, Body::Event { name: "attention".to_owned(), payload });
    }

    pub(in crate::session) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::session) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the words that a person would quote: the last text or error of the agent's conversation, else the last
    /// lines on stderr, else the last lines on the screen.
    pub(in crate::session) fn last_words(&self) -> String {
        let said = self.said().last();
        said.unwrap_or_else(|| {
            let complaints = self.process.complaints();
            let printed =
                if complaints.trim().is_empty() { self.screen.snapshot().text() } else { complaints };
            last_lines(&printed, 3, &self.footer)
        })
    }

    /// Returns the agent's last message whole, for a person to answer.
    pub(in crate::session) fn last_message(&self) -> String {
        let message = self.said().message().to_owned();
        match (message.is_empty(), self.last_words()) {
            (false, _) => message,
            (true, words) if words.is_empty() => "the agent stopped, and said nothing".to_owned(),
            (true, words) => words,
        }
    }

    /// Returns one line about the present: an issue, a question, a tool, a sentence, else the screen.
    pub(in crate::session) fn doing(&self) -> String {
        // One lock at a time: `learn` takes `said` while it holds `standing`, and the other order would
        // deadlock.
        let (issue, status) = {
            let standing = self.standing();
            (standing.pressing().pop(), standing.status())
        };
        if let Some(issue) = issue {
            return issue.message;
        }
        let (doing, uses_tool) = {
            let said = self.said();
            (said.doing(), said.uses_tool())
        };
        let quiet = self.clock.boot_time().saturating_sub(*self.heard.borrow());
        let rests = status == Status::Idle && self.activity.borrow().turns > 0;
        let asks = status == Status::ActionRequired || !self.blocks.borrow().questions.is_empty();
        match doing {
            Some(doing) if rests || asks => format!("waiting for you: {doing}"),
            // All that is known of an agent without a transcript is its screen.
            None if rests || asks => match self.last_row() {
                shown if shown.is_empty() => "waiting for you".to_owned(),
                shown => format!("waiting for you: {shown}"),
            },
            Some(doing) if quiet < QUIET || status != Status::Processing => doing,
            Some(tool) if uses_tool => format!("{tool} (for {})", in_words(quiet)),
            Some(doing) => format!("waiting for the model for {}: {doing}", in_words(quiet)),
            None => {
                let shown = self.last_row();
                // The last row of an agent that waits for its model would be its footer.
                match quiet >= QUIET && (status == Status::Processing || shown.is_empty()) {
                    true => format!("nothing heard for {}", in_words(quiet)),
                    false => shown,
                }
            }
        }
    }

    /// Returns the last row of the screen above the agent's footer.
    fn last_row(&self) -> String {
        last_lines(&self.screen.snapshot().text(), 1, &self.footer)
    }

    /// Notes a sign of life.
    pub(in crate::session) fn hear(&self) {
        self.heard.send_replace(self.clock.boot_time());
    }

    pub(in crate::session) fn vendor_session(&self) -> Option<String> {
        self.standing().vendor_session().map(str::to_owned)
    }

    /// Waits until the agent's last words of this turn are in, where it keeps a transcript: its hooks report the end of
    /// a turn before it has written them down. Gives up after a second, since a turn may end without words, and does not wait
    /// for a turn whose end is known: a hook that is held up then would be taken for the end of the next turn.
    pub(in crate::session) async fn catch_up(&self) {
        const WORDS: Duration = Duration::from_secs(1);
        const AGAIN: Duration = Duration::from_millis(50);
        let end = self.clock.boot_time() + WORDS;
        let mut reading = self.reading.subscribe();
        let words = async {
            while *reading.borrow_and_update() != Reading::Over && !self.has_all_words() {
                self.read_now.notify_one();
                if reading.changed().await.is_err() || *reading.borrow() == Reading::Nothing {
                    return;
                }
                if !self.has_all_words() {
                    self.clock.sleep_until(self.clock.boot_time() + AGAIN).await;
                }
            }
        };
        tokio::select! {
            () = words => {}
            () = self.clock.sleep_until(end) => {}
        }
    }

    /// Returns true once nothing is to be waited for at the end of a turn that a hook reports.
    fn has_all_words(&self) -> bool {
        // One lock after the other: both are taken in another order where facts are learnt.
        let is_over = self.standing().is_over_for(Source::Hook);
        is_over || self.said().has_last_words()
    }

    /// Takes in the facts of one observation.
    pub(in crate::session) fn learn(&self, mut facts: Vec<Fact>, source: Source) {
        // Held until all is recorded, so that records stand in the order in which they took effect.
        let mut standing = self.standing();
        let is_old = |fact: &Fact| matches!(fact, Fact::Issue(issue) if self.log.is_repeated(source, &Body::Issue(issue.clone())));
        standing.set_repeated(facts.iter().any(is_old));
        for fact in &mut facts {
            if let Fact::Issue(issue) = fact
                && issue.reset_at.is_none()
                && issue.kind != IssueKind::SandboxDenied
            {
                // An issue that is repeated keeps its time: "try again in 5 minutes" counts from when it was
                // first said.
                issue.reset_at = match standing.open(issue, source) {
                    Some(open) => open.reset_at.clone(),
                    None => self.backend.reset_at(issue, &self.clock.now()),
                };
            }
        }
        let before = standing.vendor_session().map(str::to_owned);
        let mut is_new = false;
        let turn_completed = Body::event("turn_completed");
        let mut turns = 0;
        for record in standing.take_all(facts, source) {
            turns += u64::from(record == turn_completed);
            // An issue is no sign of life. The stall of a silent agent is raised through here, and would end
            // the silence that it reports.
            is_new |= !matches!(record, Body::Issue(_) | Body::IssueCleared(_));
            self.log.push(source, record);
        }
        if turns > 0 {
            self.said().end_turn();
        }
        if is_new {
            self.hear();
        }
        // Waiters see the new status only after its records are in the log.
        let status = standing.status();
        self.activity.send_if_modified(|activity| {
            let before = *activity;
            *activity = Activity { status, turns: activity.turns + turns, ..before };
            before != *activity
        });
        self.show_issues(&standing);
        // Also for an agent that ends badly: the id is what a resume needs.
        if let Some(id) = standing.vendor_session().filter(|id| before.as_deref() != Some(id)) {
            self.note.put(id);
        }
    }

    /// Notes that the agent is asked to go on after its issues.
    pub(in crate::session) fn pass_issues(&self) {
        let mut standing = self.standing();
        standing.pass();
        self.show_issues(&standing);
    }

    /// Forgets what was said in a turn that is over.
    pub(in crate::session) fn close_turn(&self) {
        let is_over = self.standing().is_turn_over();
        if is_over {
            self.said().end_turn();
        }
    }

    /// Takes in what earlier programs knew: the issue that the journal has, and what is in the log. Returns true if the agent
    /// was not asked to go on after issues that are over by now, all of them.
    pub(in crate::session) fn recall(&self, issue: Option<Issue>) -> bool {
        let mut standing = self.standing();
        standing.set_worked();
        issue.into_iter().for_each(|issue| standing.add_known(issue, false));
        let before = self.log.before();
        let now = self.clock.now().unix_millis();
        let left: Vec<_> =
            before.issues.iter().filter(|(issue, passed)| issue.kind.is_blocking() && !passed).collect();
        let is_over = |issue: &Issue| issue.reset_at.as_ref().is_some_and(|at| at.unix_millis() <= now);
        let are_over = !left.is_empty() && left.iter().all(|(issue, _)| is_over(issue));
        for (issue, is_passed) in before.issues {
            standing.add_known(issue, is_passed);
        }
        // In the log already.
        let ended = standing.take_all(before.told, Source::Hook).contains(&Body::event("turn_completed"));
        let status = standing.status();
        self.activity.send_modify(|activity| (activity.status, activity.turns) = (status, u64::from(ended)));
        self.show_issues(&standing);
        are_over
    }

    fn show_issues(&self, standing: &Standing) {
        let pressing = standing.pressing();
        self.blocks.send_if_modified(|blocks| {
            let before = std::mem::replace(&mut blocks.issues, pressing);
            before != blocks.issues
        });
    }

    pub(in crate::session) fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in questions from a message of the agent, and records those that are new.
    pub(in crate::session) fn ask(&self, questions: Vec<Question>, source: Source) {
        self.ask_in(questions, source, false);
    }

    /// Takes in the questions that `signal.json` holds now: what it no longer holds is withdrawn.
    pub(in crate::session) fn ask_by_file(&self, questions: Vec<Question>) {
        let withdrawn = self.questions().withdraw_all_but(&questions);
        self.note_withdrawn(&withdrawn, Source::Hook);
        self.ask_in(questions, Source::Hook, true);
    }

    /// Takes back a question, unless it is answered.
    pub(in crate::session) fn withdraw(&self, id: &str) {
        let withdrawn = self.questions().withdraw(id);
        self.note_withdrawn(&Vec::from_iter(withdrawn.then(|| id.to_owned())), Source::Process);
    }

    fn note_withdrawn(&self, questions: &[String], source: Source) {
        if !questions.is_empty() {
            let payload = serde_json::json!({ "questions": questions });
            self.log.push(source, Body::Event { name: "questions_withdrawn".to_owned(), payload });
            self.show_questions();
        }
    }

    fn ask_in(&self, questions: Vec<Question>, source: Source, in_file: bool) {
        if !self.may_ask {
            // Told once: `signal.json` is read again and again.
            if !questions.is_empty() && !self.refused_questions.swap(true, Ordering::Relaxed) {
                self.remark("the agent asked a question, which its project does not let it");
            }
            return;
        }
        let (mut is_new, mut told) = (false, Vec::new());
        for question in questions {
            let asked = serde_json::json!({ "id": question.id, "question": question.question });
            if self.questions().ask(question, in_file) {
                is_new = true;
                // Taken over, a session is told of all its questions once more.
                told.extend((!self.log.knows_question(&asked)).then_some(asked));
            }
        }
        if !told.is_empty() {
            let payload = serde_json::json!({ "questions": told });
            self.log.push(source, Body::Event { name: "questions".to_owned(), payload });
        }
        if is_new {
            self.show_questions();
        }
    }

    pub(in crate::session) fn show_questions(&self) {
        let questions = self.questions();
        // Under the lock on the questions, so that a concurrent answer cannot be overwritten by an older
        // list.
        self.blocks.send_modify(|blocks| blocks.questions = questions.open());
    }

    /// Counts a message of the agent's conversation: its failed tools and its tokens.
    pub(in crate::session) fn take_in(&self, message: &Message, source: Source) {
        self.failures.note(message, source);
        self.tallies().add(message, source);
        if message.usage.is_some() {
            self.hear();
        }
    }

    pub(in crate::session) fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a message of the agent's conversation.
    pub(in crate::session) fn say(&self, message: Message, source: Source) {
        // Some carry only a token count.
        if !message.parts.is_empty() {
            self.said().take_in(&message);
            self.hear();
            self.log.push(source, Body::Transcript(message));
        }
    }

    /// Returns the tokens that the session has used so far, and their cost.
    pub(in crate::session) fn spent(&self) -> Counted {
        self.tallies().spent(|model| self.backend.price(model))
    }
}

/// Returns a duration as people say it: `45 s`, `3 min`, `2 h`.
pub(in crate::session) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
