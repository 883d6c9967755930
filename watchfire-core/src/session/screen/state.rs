//! The terminal of a session, and the offset of the output that it shows.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::observe::Log;
use crate::session::recording::{Checkpoint, LARGEST};
use crate::terminal::{Escapes, Line, Scrolled, Size, Snapshot, Terminal};

/// Upper bound for an unfinished sequence that is repeated after a redraw.
const TAIL: u64 = 64 << 10;
const ESCAPE: u8 = 0x1b;
/// Begin of a string that means nothing to any terminal.
const UNKNOWN_STRING: &[u8] = b"\x1b]99999;";
/// A program that does not know the line numbers of the one before counts on from the next multiple of this. No program counts
/// so far by itself.
const UNKNOWN: u64 = 1 << 32;

/// Screen of one session. The pump feeds it; attachments, the typist and the backend read it.
///
/// Terminal, offset and log advance under one lock: a snapshot and an offset taken together always agree, and the log
/// holds every byte before that offset, as far as it is retained. The lock of the log is taken inside this one.
pub(in crate::session) struct Screen {
    fed: Mutex<Fed>,
    /// True once the output has ended. Every change of the screen is sent, too.
    changed: watch::Sender<bool>,
    looked_at: watch::Sender<bool>,
    /// Time of the last change, in microseconds of the clock's boot time.
    painted: AtomicU64,
    log: Log,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) struct Fed {
    pub(super) terminal: Box<dyn Terminal>,
    /// Offset of the output that comes next.
    offset: u64,
    /// Offset before which the terminal shows the output already.
    shown: u64,
    /// True while it is fed what was printed under an earlier program. Nobody wants to see that pass by.
    pub(super) behind: bool,
    /// Number of resizes so far.
    pub(super) resizes: u64,
    /// Offset at the last resize.
    pub(super) resized_at: u64,
    /// The kind of sequence in the middle of which the output is.
    sequence: Escapes,
    /// Offset at which the latest sequence began.
    sequence_at: u64,
    /// Number of attachments whose own terminals answer the agent's queries.
    answering: usize,
}

impl Fed {
    /// Returns the offset of the output that the terminal shows.
    pub(super) fn offset(&self) -> u64 {
        self.offset.max(self.shown)
    }

    /// Follows the sequences in the output that comes next.
    fn follow(&mut self, bytes: &[u8]) {
        // `contains` looks at many bytes at once: most output that is plain is long.
        let last = bytes.contains(&ESCAPE).then(|| bytes.iter().rposition(|byte| *byte == ESCAPE)).flatten();
        let rest = match last {
            // It ends whatever was before.
            Some(at) => {
                self.sequence_at = self.offset + at as u64;
                bytes.get(at..).unwrap_or_default()
            }
            None if self.sequence == Escapes::Text => return,
            None => bytes,
        };
        for c in String::from_utf8_lossy(rest).chars() {
            self.sequence.pass(c);
        }
    }

    /// Returns true if the output is in the middle of a string, such as an image, that began too far back to be repeated.
    fn is_within_long_string(&self) -> bool {
        self.sequence == Escapes::String && self.sequence_at < self.offset.saturating_sub(TAIL)
    }
}

impl Screen {
    pub(in crate::session) fn new(terminal: Box<dyn Terminal>, log: Log, clock: Arc<dyn Clock>) -> Self {
        let fed = Fed {
            terminal,
            offset: 0,
            shown: 0,
            behind: false,
            resizes: 0,
            resized_at: 0,
            sequence: Escapes::Text,
            sequence_at: 0,
            answering: 0,
        };
        Self {
            fed: Mutex::new(fed),
            changed: watch::Sender::new(false),
            looked_at: watch::Sender::new(false),
            painted: AtomicU64::default(),
            log,
            clock,
        }
    }

    /// Feeds output to the terminal and appends it to the log. Returns the terminal's answers if the output asks for something:
    /// none where an attachment answers.
    pub(in crate::session) fn feed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut fed = self.lock();
        let known = usize::try_from(fed.shown.saturating_sub(fed.offset)).unwrap_or(usize::MAX);
        fed.terminal.feed(bytes.get(known..).unwrap_or_default());
        fed.follow(bytes);
        fed.offset += bytes.len() as u64;
        let replies = Some(fed.terminal.take_replies()).filter(|replies| !replies.is_empty());
        self.log.push_output(bytes);
        // Dropped, not left in the terminal: an attachment that ends must not release old answers to old
        // queries.
        let replies = if fed.answering == 0 { replies } else { replies.map(|_| Vec::new()) };
        drop(fed);
        self.note_paint();
        // After the lock is released, so that woken readers do not queue for it.
        self.tell(|over| *over = false);
        replies
    }

    /// Notes that `length` bytes of output are missing.
    pub(in crate::session) fn skip(&self, length: u64) {
        let mut fed = self.lock();
        fed.offset += length;
        self.log.skip_output(length);
    }

    /// Shows an earlier program's screen, and of the output only what follows it. Since then, lines have got other numbers as often as
    /// `renumberings` says.
    pub(in crate::session) fn restore(&self, checkpoint: Option<&Checkpoint>, renumberings: u64) {
        let mut fed = self.lock();
        if let Some(checkpoint) = checkpoint {
            let size = fed.terminal.snapshot().size;
            // It was drawn for its own size.
            fed.terminal.resize(checkpoint.size);
            fed.terminal.feed(&checkpoint.redraw);
            fed.terminal.renumber_scrollback(checkpoint.line);
            fed.terminal.resize(size);
            // It asks nothing, and what it showed was answered then.
            drop(fed.terminal.take_replies());
            fed.shown = checkpoint.offset;
        }
        // Its program may have been killed before it had told the guardian of a resize.
        let is_resized = checkpoint.is_some_and(|checkpoint| checkpoint.size != fed.terminal.snapshot().size);
        let renumberings = renumberings.max(u64::from(is_resized));
        if renumberings > 0 {
            // Those of before must not come again.
            let before = checkpoint.map_or(0, |checkpoint| checkpoint.line / UNKNOWN);
            fed.terminal.renumber_scrollback(before.saturating_add(renumberings).saturating_mul(UNKNOWN));
        }
    }

    /// Returns the screen as it is now, for a later program. `None` in the middle of a long string, or if it would be too large a
    /// file.
    pub(in crate::session) fn checkpoint(&self) -> Option<Checkpoint> {
        let mut fed = self.lock();
        if fed.is_within_long_string() {
            return None;
        }
        let (mut redraw, line) = fed.terminal.redraw_with_scrollback(LARGEST);
        if redraw.len() > LARGEST {
            redraw = fed.terminal.redraw();
        }
        let redraw = self.finish_redraw(redraw, &fed);
        let size = fed.terminal.snapshot().size;
        (redraw.len() <= LARGEST).then(|| Checkpoint { offset: fed.offset(), line, size, redraw })
    }

    /// Wakes those who look at it now and then, and after them those who show it: who is woken last runs first.
    fn tell(&self, change: fn(&mut bool)) {
        self.looked_at.send_modify(change);
        self.changed.send_modify(change);
    }

    fn note_paint(&self) {
        let now = self.clock.boot_time().as_micros();
        self.painted.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the time of its last change.
    pub(in crate::session) fn painted_at(&self) -> Duration {
        Duration::from_micros(self.painted.load(Ordering::Relaxed))
    }

    /// Shows readers nothing until it has [caught up](Self::catch_up).
    pub(in crate::session) fn fall_behind(&self) {
        self.lock().behind = true;
    }

    /// Shows the screen from now on.
    pub(in crate::session) fn catch_up(&self) {
        if std::mem::take(&mut self.lock().behind) {
            self.tell(|_| {});
        }
    }

    /// Waits until it shows the present.
    pub(in crate::session) async fn caught_up(&self) {
        let mut changed = self.changes();
        while self.lock().behind {
            // The sender lives as long as the screen.
            let _ = changed.changed().await;
        }
    }

    /// Returns true if the output is in the middle of a string that began too far back to be repeated on another terminal.
    pub(in crate::session) fn is_within_long_string(&self) -> bool {
        self.lock().is_within_long_string()
    }

    /// Returns true while it does not show the present yet.
    pub(in crate::session) fn is_behind(&self) -> bool {
        self.lock().behind
    }

    /// Returns true if the log has all output that the terminal shows.
    pub(in crate::session) fn has_read_what_it_shows(&self) -> bool {
        let fed = self.lock();
        fed.offset >= fed.shown
    }

    /// Ends the output: attachments deliver the rest and end.
    pub(in crate::session) fn finish(&self) {
        self.lock().behind = false;
        self.tell(|over| *over = true);
    }

    pub(in crate::session) fn resize(&self, size: Size) {
        let mut fed = self.lock();
        // A resize that changes nothing would still cost each reader a full update.
        if fed.terminal.snapshot().size == size {
            return;
        }
        fed.terminal.resize(size);
        fed.resizes += 1;
        fed.resized_at = fed.offset();
        drop(fed);
        self.note_paint();
        // Keeps the value: a resize after the end must not look like more output.
        self.tell(|_| {});
    }

    pub(in crate::session) fn snapshot(&self) -> Arc<Snapshot> {
        self.lock().terminal.snapshot()
    }

    pub(in crate::session) fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        self.lock().terminal.scrollback(range)
    }

    pub(in crate::session) fn scrollback_since(&self, number: u64) -> Scrolled {
        self.lock().terminal.scrollback_since(number)
    }

    /// Returns the offset of the output that it shows.
    pub(in crate::session) fn offset(&self) -> u64 {
        self.lock().offset()
    }

    /// Returns a receiver of changes of the screen, for one who can wait a moment.
    pub(in crate::session) fn looks(&self) -> watch::Receiver<bool> {
        self.looked_at.subscribe()
    }

    /// Returns a receiver of changes of the screen.
    pub(in crate::session) fn changes(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    /// Returns the retained output from `offset` on, and where it begins.
    pub(super) fn output_from(&self, offset: u64) -> (u64, Vec<u8>) {
        self.log.output_from(offset)
    }

    /// Returns bytes that bring another terminal to the state of this one, an unfinished sequence included.
    pub(super) fn redraw(&self, fed: &mut Fed) -> Vec<u8> {
        self.finish_redraw(fed.terminal.redraw(), fed)
    }

    /// Appends the unfinished sequence to a redraw.
    fn finish_redraw(&self, mut bytes: Vec<u8>, fed: &Fed) -> Vec<u8> {
        if fed.offset < fed.shown {
            // Not read, because reading failed.
            return bytes;
        }
        if fed.is_within_long_string() {
            // Of a kind that nobody knows, so that its rest is passed over.
            bytes.extend_from_slice(UNKNOWN_STRING);
            return bytes;
        }
        // A redraw restores the grid, not the parser. The other terminal must be in the middle of the same
        // sequence, or the rest of it would be shown as text.
        let (start, mut tail) = self.log.output_from(fed.offset.saturating_sub(TAIL));
        // The log of a session that was taken over is ahead of a terminal that is fed from the beginning.
        tail.truncate(usize::try_from(fed.offset.saturating_sub(start)).unwrap_or(usize::MAX));
        bytes.extend(unfinished(&tail));
        bytes
    }

    /// Locks the terminal. A foreign terminal that panics ends the pump; its last state can still be read.
    pub(super) fn lock(&self) -> MutexGuard<'_, Fed> {
        self.fed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

/// Right of an attachment to answer the agent's queries, until it is dropped.
pub(super) struct Answering(Arc<Screen>);

impl Answering {
    /// Takes over while `fed` is locked, so that no query is answered twice.
    pub(super) fn begin(screen: &Arc<Screen>, fed: &mut Fed) -> Self {
        fed.answering += 1;
        Self(Arc::clone(screen))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.lock().answering -= 1;
    }
}

/// Returns the end of `bytes` if it is an incomplete sequence or character, else nothing.
///
/// Every sequence begins with an escape, and an escape ends the sequence before it, so the last one decides.
fn unfinished(bytes: &[u8]) -> Vec<u8> {
    if let Some(at) = bytes.iter().rposition(|byte| *byte == ESCAPE) {
        let mut tail = bytes.get(at..).unwrap_or_default().to_vec();
        let mut state = Escapes::default();
        String::from_utf8_lossy(&tail).chars().for_each(|c| {
            state.pass(c);
        });
        match state {
            Escapes::Text => {}
            Escapes::String => return tail,
            Escapes::Escape | Escapes::Csi => {
                // Controls act at once, also within a sequence, and the terminal was fed them already.
                tail.retain(|byte| *byte >= b' ' || *byte == ESCAPE);
                return tail;
            }
        }
    }
    let invalid = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    let incomplete = str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
    if incomplete { invalid.to_vec() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::unfinished;

    #[test]
    fn only_what_is_incomplete_is_repeated() {
        for (bytes, tail) in [
            (&b"text"[..], &b""[..]),
            (b"a\x1b[31mb", b""),
            (b"a\x1b", b"\x1b"),
            (b"a\x1b[31mb\x1b[3", b"\x1b[3"),
            (b"a\x1b[3\n1", b"\x1b[31"),
            (b"a\x1b]0;tit", b"\x1b]0;tit"),
            (b"a\x1b]0;title\x07b", b""),
            (b"a\x1b]0;title\x1b\\b", b""),
            (b"a\x1b(B\xe2\x96", b"\xe2\x96"),
            (b"\xe2\x96\x90\xff", b""),
        ] {
            assert_eq!(unfinished(bytes), tail, "{}", bytes.escape_ascii());
        }
    }
}
