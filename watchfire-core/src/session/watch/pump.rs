//! The pump, which reads an agent's output and feeds it to the terminal, the log, the log file and the backend.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{spawn_blocking, unconstrained};

use crate::backend::{Backend, Dialogue, Observation, Readiness, Source, Status};
use crate::clock::Clock;
use crate::schedule::StopReason;
use crate::session::process::splitter::Splitter;
use crate::session::recording::Checkpoints;
use crate::session::screen::{LogFile, Screen};
use crate::session::state::Shared;

/// Time without output after which a screen is read.
const QUIET: Duration = Duration::from_millis(200);
/// Time limit for reading the output so far of a session that was taken over: an agent may print without end.
const CATCH_UP: Duration = Duration::from_secs(10);

/// Time after which gathered output is written to the log file.
const LOGGED: Duration = Duration::from_secs(1);

type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Destinations of output besides the terminal and the log.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    /// Readable log on disk.
    pub(crate) file: Option<LogFile>,
    /// The screen on disk, for a program that takes the session over.
    pub(crate) screens: Option<Checkpoints>,
}

impl Sinks {
    /// Waits until gathered output is due to be written. Never resolves if there is none. `alarm` is kept over calls: a new one
    /// for each piece of output would cost more than the output.
    async fn rest(&self, alarm: &mut Option<Alarm>, clock: &dyn Clock) {
        if !self.file.as_ref().is_some_and(LogFile::has_more) {
            return std::future::pending().await;
        }
        alarm.get_or_insert_with(|| clock.sleep_until(clock.boot_time() + LOGGED)).await;
        *alarm = None;
    }

    /// Writes the gathered output.
    async fn write(&mut self) {
        if let Some(file) = &mut self.file {
            file.write().await;
        }
    }
}

/// Reads the output to its end. `stream` is the backend that interprets its lines, for an agent without a terminal. The
/// queries before offset `answered` were answered by an earlier program.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    mut sinks: Sinks,
    stream: Option<Arc<dyn Backend>>,
    answered: u64,
    clock: Arc<dyn Clock>,
) {
    let (mut offset, mut alarm) = (0, None);
    // Where an earlier program kept a screen, the terminal needs only what follows it. The rest is read for the log alone.
    if let Some(screens) = &mut sinks.screens
        && shared.is_taken
    {
        let (checkpoint, renumberings) = screens.read().await;
        let shared = Arc::clone(&shared);
        // Not on a thread of the runtime: to draw a long scrollback takes a while.
        let restore = move || shared.screen.restore(checkpoint.as_ref(), renumberings);
        if let Err(error) = spawn_blocking(restore).await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
    }
    let mut splitter = Splitter::default();
    let (mut is_behind, until) = (shared.is_taken, clock.boot_time() + CATCH_UP);
    loop {
        // Kept over the inner loop. Writing the log file must not cancel a read.
        let mut reading = shared.process.read_from(offset);
        // Not by tokio's budget, with which a read of what is there may have to wait, too.
        let at_once =
            poll_fn(|cx| Poll::Ready(Pin::new(&mut unconstrained(reading.as_mut())).poll(cx))).await;
        let is_late = clock.boot_time() >= until && shared.screen.has_read_what_it_shows();
        if is_behind && (at_once.is_pending() || is_late) {
            is_behind = false;
            shared.screen.catch_up();
        }
        let read = loop {
            if let Poll::Ready(read) = at_once {
                break read;
            }
            tokio::select! {
                read = &mut reading => break read,
                // The log file of an agent that fell silent must show its last words.
                () = sinks.rest(&mut alarm, &*clock) => sinks.write().await,
            }
        };
        drop(reading);
        let output = match read {
            Ok(output) => output,
            Err(error) => {
                shared.remark(format!("reading the agent's output: {}", error.report()));
                break;
            }
        };
        if output.offset > offset {
            let missing = output.offset - offset;
            shared.remark(format!("{missing} bytes of the agent's output are missing: the disk was full"));
            sinks.file.iter_mut().for_each(LogFile::gap);
            shared.screen.skip(missing);
        }
        offset = output.next_offset();
        if !output.bytes.is_empty() {
            // The reader of the transcript needs nothing of these bytes. It is woken first, because the task that is woken last runs first, and
            // that should be one that shows the screen.
            shared.stirred.notify_one();
            // First the screen and the log, then everything that reads them: a woken reader has to find these
            // bytes.
            let old = usize::try_from(answered.saturating_sub(output.offset)).unwrap_or(usize::MAX);
            let (old, new) = output.bytes.split_at(old.min(output.bytes.len()));
            if !old.is_empty() {
                shared.screen.feed(old);
            }
            let replies = if new.is_empty() { None } else { shared.screen.feed(new) };
            if let Some(file) = &mut sinks.file {
                file.push(&output.bytes).await;
            }
            match &stream {
                Some(backend) => read_lines(&shared, &**backend, &splitter.push(&output.bytes)),
                None if shared.converses() => hear(&shared, &splitter.push(&output.bytes)),
                None => {}
            }
            if let Some(replies) = replies {
                // Queued behind all other input, also where an attachment has answered: what was asked before may still be in
                // line. If the agent does not read its input, answers are dropped.
                shared.reply(replies, Some(offset));
            }
            // After the answers: what is before a checkpoint is not answered by the next program.
            if let Some(screens) = &mut sinks.screens
                && screens.is_due(offset)
                && !shared.screen.is_within_long_string()
                && shared.has_answered().await
            {
                keep(&shared, screens).await;
            }
        }
        if output.ended {
            break;
        }
    }
    // The last line may lack its end. No answer is sent, because the agent has gone.
    let last = splitter.push(b"\n");
    match &stream {
        Some(backend) => read_lines(&shared, &**backend, &last),
        None => hear(&shared, &last),
    }
    if let Some(screens) = &mut sinks.screens
        && *shared.stop.borrow() == Some(StopReason::Detached)
        // Where reading failed before it, or an answer was not given, the last one is better.
        && shared.screen.has_read_what_it_shows()
        && shared.has_answered().await
    {
        keep(&shared, screens).await;
    }
    match sinks.file {
        // The next program goes on with the line.
        Some(mut file) if *shared.stop.borrow() == Some(StopReason::Detached) => file.write().await,
        Some(file) => file.finish().await,
        None => {}
    }
}

/// Writes the screen down for a later program.
async fn keep(shared: &Arc<Shared>, screens: &mut Checkpoints) {
    let its = Arc::clone(shared);
    // Not on a thread of the runtime, for a long scrollback.
    match spawn_blocking(move || its.screen.checkpoint()).await {
        Ok(Some(checkpoint)) => screens.write(checkpoint).await,
        // It is too large. The last one holds, and what followed.
        Ok(None) => screens.put_off(shared.screen.offset()),
        Err(error) => {
            if let Ok(panic) = error.try_into_panic() {
                resume_unwind(panic);
            }
        }
    }
}

/// Records the backend's interpretation of lines of its stream.
fn read_lines(shared: &Shared, backend: &dyn Backend, lines: &[String]) {
    for line in lines {
        shared.learn(backend.interpret(&Observation::Protocol(line)), Source::Protocol);
        for message in backend.normalize(line) {
            shared.take_in(&message, Source::Protocol);
            shared.say(message, Source::Protocol);
        }
    }
}

/// Advances the conversation by these lines and queues the answers.
fn hear(shared: &Arc<Shared>, lines: &[String]) {
    let all = |dialogue: &mut dyn Dialogue| lines.iter().flat_map(|line| dialogue.hear(line)).collect();
    let answers = shared.converse(all);
    if !answers.is_empty() {
        // Queued behind all other input. If the agent does not read its input, answers are dropped.
        shared.reply(answers, None);
    }
}

/// Reads title and screen whenever they rest, and records the backend's interpretation. Reads them once more
/// when the session is `over`, because an agent's last words have no time to rest.
pub(in crate::session) async fn watch_screen(
    shared: Arc<Shared>,
    mut painted: watch::Receiver<bool>,
    backend: Arc<dyn Backend>,
    readiness: Readiness,
    clock: Arc<dyn Clock>,
    mut over: watch::Receiver<bool>,
) {
    shared.screen.caught_up().await;
    if readiness == Readiness::Immediate {
        shared.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
    }
    let give_up = match &readiness {
        Readiness::Screen { within, .. } | Readiness::Idle { within } => Some(clock.boot_time() + *within),
        Readiness::Immediate => None,
    };
    loop {
        let late = async {
            match give_up {
                Some(at) if !*shared.ready.borrow() => clock.sleep_until(at).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = painted.changed() => {}
            _ = over.changed() => {}
            () = late => {
                // A vendor may have changed its prompt. A text typed too early is seen by a person, a text
                // never typed is not.
                shared.remark("the agent did not show itself ready in time; typing anyway");
                shared.ready.send_replace(true);
                continue;
            }
        }
        // In this order: once the session is over, the screen cannot change, and a rest would only delay the
        // end.
        let last = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => true,
            () = rest(&shared.screen, &*clock) => false,
        };
        // Before the screen is read: what is painted from here on is looked at in the next round.
        painted.mark_unchanged();
        let snapshot = shared.screen.snapshot();
        let screen = snapshot.text();
        let title = snapshot.title.as_deref().map(Observation::Title);
        for observation in title.into_iter().chain([Observation::Screen(&screen)]) {
            shared.learn(backend.interpret(&observation), observation.source());
        }
        let shows = |texts: &[String]| texts.iter().any(|text| screen.contains(text.as_str()));
        let ready = match &readiness {
            Readiness::Immediate => false,
            Readiness::Screen { any_of, none_of, .. } => shows(any_of) && !shows(none_of),
            Readiness::Idle { .. } => shared.standing().status() == Status::Idle,
        };
        if ready {
            shared.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
        }
        if last {
            return;
        }
    }
}

/// Waits until the screen rests, for at most a second: a spinner never rests. Sleeps until then, and is not woken by what is
/// painted meanwhile.
async fn rest(screen: &Screen, clock: &dyn Clock) {
    let limit = clock.boot_time() + Duration::from_secs(1);
    loop {
        let rests_at = limit.min(screen.painted_at() + QUIET);
        if clock.boot_time() >= rests_at {
            return;
        }
        clock.sleep_until(rests_at).await;
    }
}
