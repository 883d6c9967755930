//! The reader's side of a screen: what it has seen, and the next update.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::attach::{AttachRequest, ScreenChange, ScreenUpdate};
use super::state::{Answering, Fed, Screen};
use crate::terminal::{Line, Snapshot};
use crate::{Error, ErrorKind, Result};

/// Shortest time between two updates: 60 a second, as fast as a display shows them.
const TICK: Duration = Duration::from_micros(16_667);
/// Interval for a terminal that holds back a frame. Its time limit can expire without new output.
const HELD: Duration = Duration::from_millis(50);
/// Upper bound for the lines of scrollback in one update.
const SCROLLED: u64 = 1_000;

/// State of one attachment.
pub(super) struct Follower {
    screen: Arc<Screen>,
    changed: watch::Receiver<bool>,
    /// Time before which no update is delivered.
    not_before: Duration,
    /// Update that was taken when the reader attached.
    ready: Option<ScreenUpdate>,
    seen: Seen,
    /// Held until the end.
    answering: Option<Answering>,
}

/// State of the reader.
enum Seen {
    /// Nothing yet, while the screen is fed what was printed under an earlier program.
    Nothing(AttachRequest),
    /// For changes of the screen: the last snapshot, and the number of resizes before it.
    Screen(Option<(Arc<Snapshot>, u64)>),
    /// For raw output: the next offset, and the number of resizes that the reader knows of.
    Output { next: u64, resizes: u64 },
}

impl Follower {
    pub(super) fn new(screen: &Arc<Screen>, request: &AttachRequest) -> Result<Self> {
        let changed = screen.changes();
        let mut follower = Self {
            screen: Arc::clone(screen),
            changed,
            not_before: Duration::ZERO,
            ready: None,
            seen: Seen::Nothing(request.clone()),
            answering: None,
        };
        let mut fed = screen.lock();
        if !fed.behind {
            if let Some(since) = request.since.filter(|since| *since > fed.offset()) {
                return Err(Error::new(ErrorKind::InvalidInput, "an offset beyond the session's output")
                    .with("offset", since)
                    .with("newest", fed.offset()));
            }
            follower.begin(&mut fed, request);
        }
        drop(fed);
        Ok(follower)
    }

    /// Begins to follow. Under one lock: the redraw, its offset and the begin of answering have to belong to the same byte.
    fn begin(&mut self, fed: &mut Fed, request: &AttachRequest) {
        // An offset that the output has not reached is that of a recording with a gap at its end.
        let since = request.since.filter(|since| *since <= fed.offset());
        (self.seen, self.ready) = match (request.output, since) {
            (false, _) => (Seen::Screen(None), None),
            (true, Some(next)) => (Seen::Output { next, resizes: fed.resizes }, None),
            (true, None) => {
                let end = fed.offset();
                let (seen, update) = redraw(&self.screen, fed, end);
                (seen, Some(update))
            }
        };
        self.answering = request.answers.then(|| Answering::begin(&self.screen, fed));
    }

    /// Waits for the next update and returns it together with the follower, which the future owns while it runs.
    pub(super) async fn advance(mut self: Box<Self>) -> (Box<Self>, Option<ScreenUpdate>) {
        let clock = Arc::clone(&self.screen.clock);
        if self.not_before > clock.boot_time() {
            // Changes that arrive during the pause merge into one update.
            clock.sleep_until(self.not_before).await;
        }
        loop {
            // Read before the screen, so that output that arrives in between wakes the reader again.
            let ended = *self.changed.borrow_and_update();
            let (update, held) = self.look();
            if update.is_some() {
                self.not_before = clock.boot_time() + TICK;
                return (self, update);
            }
            // A frame that is held back at the end is still shown when its time has run out.
            if ended && !held {
                return (self, None);
            }
            // The sender lives as long as the screen.
            match held {
                false => drop(self.changed.changed().await),
                true => tokio::select! {
                    _ = self.changed.changed() => {}
                    () = clock.sleep_until(clock.boot_time() + HELD) => {}
                },
            }
        }
    }

    /// Returns the next update, if there is one, and whether the terminal holds back a frame.
    fn look(&mut self) -> (Option<ScreenUpdate>, bool) {
        if let Seen::Nothing(request) = &self.seen {
            let (screen, request) = (Arc::clone(&self.screen), request.clone());
            let mut fed = screen.lock();
            if fed.behind {
                return (None, false);
            }
            self.begin(&mut fed, &request);
        }
        if let Some(update) = self.ready.take() {
            return (Some(update), false);
        }
        match &mut self.seen {
            Seen::Nothing(_) => (None, false),
            Seen::Screen(seen) => {
                let mut fed = self.screen.lock();
                let now = fed.terminal.snapshot();
                let held = fed.terminal.is_synchronizing();
                // The generation grows with every visible change. Output without one costs no comparison of
                // rows.
                if seen.as_ref().is_some_and(|(seen, _)| seen.generation == now.generation) {
                    return (None, held);
                }
                // After a resize, even one that was undone, the lines of the scrollback have other numbers.
                let before = seen.take().filter(|(_, resizes)| *resizes == fed.resizes);
                let change = change(&mut fed, before.as_ref().map(|(seen, _)| &**seen), Arc::clone(&now));
                *seen = Some((now, fed.resizes));
                (Some(ScreenUpdate::Changed(change)), held)
            }
            Seen::Output { next, resizes } => {
                let mut fed = self.screen.lock();
                // The lock on the terminal is held meanwhile, so the log cannot advance past the offset that
                // a redraw would name.
                let (start, mut bytes) = self.screen.output_from(*next);
                if start > *next {
                    let (seen, update) = redraw(&self.screen, &mut fed, *next);
                    self.seen = seen;
                    return (Some(update), false);
                }
                if *resizes != fed.resizes {
                    // Bytes from before the resize were laid out for the old size, so they are delivered
                    // first.
                    let before = usize::try_from(fed.resized_at.saturating_sub(*next)).unwrap_or(usize::MAX);
                    bytes.truncate(before);
                    if bytes.is_empty() {
                        *resizes = fed.resizes;
                        return (Some(ScreenUpdate::Resized(fed.terminal.snapshot().size)), false);
                    }
                }
                drop(fed);
                if bytes.is_empty() {
                    return (None, false);
                }
                let offset = *next;
                *next += bytes.len() as u64;
                (Some(ScreenUpdate::Output { offset, bytes: bytes.into() }), false)
            }
        }
    }
}

/// Returns a redraw for a reader that has the output up to `from`.
fn redraw(screen: &Screen, fed: &mut Fed, from: u64) -> (Seen, ScreenUpdate) {
    let (snapshot, next) = (fed.terminal.snapshot(), fed.offset());
    let bytes = screen.redraw(fed).into();
    let seen = Seen::Output { next, resizes: fed.resizes };
    (seen, ScreenUpdate::Redraw { lost: from..next, snapshot, bytes })
}

/// Returns the difference between the snapshot `before` and the current one, `now`.
fn change(fed: &mut Fed, before: Option<&Snapshot>, now: Arc<Snapshot>) -> ScreenChange {
    let rows = now.size.rows();
    let Some(before) = before.filter(|before| before.size == now.size) else {
        return ScreenChange {
            offset: fed.offset(),
            snapshot: now,
            full: true,
            shifted: 0,
            rows: (0..rows).collect(),
            scrolled: Vec::new(),
            skipped: 0,
        };
    };
    // Lines are shared between snapshots, also after they scrolled: a log that moves up by one row costs one
    // row.
    let pushed = now.scrollback.end.saturating_sub(before.scrollback.end);
    let shifted = u16::try_from(pushed).unwrap_or(u16::MAX);
    let shifted = if shifted < rows && moved(before, &now, shifted) { shifted } else { 0 };
    let blank = Line::default();
    let differs = |row: &u16| {
        let old = before.lines.get(usize::from(row + shifted));
        let new = now.lines.get(usize::from(*row));
        match (old, new) {
            // Most rows are the same allocation, which spares comparing their cells.
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old != new,
            (None, Some(new)) => **new != blank,
            _ => false,
        }
    };
    let changed = (0..rows).filter(differs).collect();
    let numbers = Range { start: now.scrollback.end - pushed.min(SCROLLED), end: now.scrollback.end };
    let scrolled = if pushed == 0 { Vec::new() } else { fed.terminal.scrollback(numbers) };
    ScreenChange {
        offset: fed.offset(),
        full: false,
        shifted,
        rows: changed,
        skipped: pushed - scrolled.len() as u64,
        scrolled,
        snapshot: now,
    }
}

/// Returns true if a move by `by` rows explains more of the screen than no move.
fn moved(before: &Snapshot, now: &Snapshot, by: u16) -> bool {
    let same = |by: u16| {
        let old = before.lines.iter().skip(usize::from(by));
        old.zip(&now.lines).filter(|(old, new)| Arc::ptr_eq(old, new)).count()
    };
    by > 0 && same(by) > same(0)
}
