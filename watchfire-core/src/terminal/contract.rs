//! The trait that terminals implement.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::{Line, Scrolled, Size, Snapshot};

/// A terminal emulator without a window: output of a program goes in, snapshots of the screen come out.
///
/// **Implementers ensure** that
/// - any bytes, in any chunks, at any size from 1x1 up, never panic, hang, or allocate without bound;
/// - feeding `a` then `b` is the same as feeding `a` and `b` at once;
/// - a snapshot never changes once it is handed out, and costs little if nothing changed since the last one;
/// - rows that did not change share their [`Line`] with the snapshot before, also after they scrolled, as far as that
///   is cheap: followers find the changed rows by comparing pointers before they compare content;
/// - every change of what a snapshot shows gives it a higher [`Generation`];
/// - scrollback is bounded in lines and bytes;
/// - replies never carry text that came in with the bytes.
///
/// **Callers may not assume** that every sequence is understood (a plain terminal understands few), that scrollback
/// survives a resize unchanged, or that a terminal answers queries.
///
/// # Line numbers
///
/// Each line that leaves the top of the screen gets the next number, counted from 0, also where no scrollback is
/// retained. The rows of the screen have the numbers after it. A number never names another line of the scrollback:
/// - Lines that are dropped, because the scrollback is full or the child clears it (`CSI 3 J`, `ESC c`), take their
///   numbers with them. The count goes on.
/// - A resize either leaves the lines as they are or lays them out anew. Then all retained lines, those that return to the
///   screen included, get numbers that were never used, and what was noted before names no line any more.
/// - The alternate screen adds no lines. While it is shown, its rows have the numbers of the rows that it hides.
pub trait Terminal: Debug + Send + 'static {
    /// Processes output of the child.
    fn feed(&mut self, bytes: &[u8]);

    /// Changes the size of the screen. The terminal may choose a smaller one; snapshots have the size in force.
    fn resize(&mut self, size: Size);

    /// Returns the current screen, with its title, its modes and the numbers of its scrollback.
    fn snapshot(&mut self) -> Arc<Snapshot>;

    /// Returns the numbers of the retained lines of the scrollback, without the work of a snapshot. The start is the oldest
    /// line, the end is the first row of the screen, as in [`Snapshot::scrollback`].
    fn scrollback_numbers(&self) -> Range<u64>;

    /// Returns the retained lines of the scrollback with numbers in `range`, oldest first. Other numbers are left out.
    fn scrollback(&self, range: Range<u64>) -> Vec<Line>;

    /// Returns the lines of the scrollback from `number` on, and how many such lines are gone.
    ///
    /// A reader who continues with [`Scrolled::next`] gets each line once. After a resize that lays lines out anew, the
    /// reader gets all retained lines again.
    fn scrollback_since(&self, number: u64) -> Scrolled {
        let kept = self.scrollback_numbers();
        Scrolled {
            gone: kept.start.saturating_sub(number),
            lines: self.scrollback(number..kept.end),
            next: kept.end,
        }
    }

    /// Removes and returns the answers to queries of the child, to be written to its input.
    fn take_replies(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Returns true while the child paints a frame that snapshots do not show yet (mode 2026). The snapshot can then
    /// change without further output, because frames are held back for a limited time.
    fn is_synchronizing(&self) -> bool {
        false
    }

    /// Returns bytes that bring another terminal of the same size to this state, so that output fed to this one from
    /// now on can be fed to the other as well. Scrollback and an unfinished sequence are left out.
    ///
    /// The default resets the other terminal and prints the text, without looks and modes.
    fn redraw(&mut self) -> Vec<u8> {
        let snapshot = self.snapshot();
        let (row, col) = (snapshot.cursor.row + 1, snapshot.cursor.col + 1);
        // A reset first: the other terminal may be in any state.
        format!("\x1bc{}\x1b[{row};{col}H", snapshot.text().replace('\n', "\r\n")).into_bytes()
    }

    /// Like [`redraw`](Self::redraw), with the scrollback before it, unless that takes more than `most` bytes: all that a terminal
    /// of a later program begins with. The second value is the number that the next line of the scrollback gets. While a frame is held back it is greater than in the snapshot.
    ///
    /// The default prints the text.
    fn redraw_with_scrollback(&mut self, most: usize) -> (Vec<u8>, u64) {
        let (mut lines, snapshot) = (self.scrollback(0..u64::MAX), self.snapshot());
        let (row, col) = (snapshot.cursor.row + 1, snapshot.cursor.col + 1);
        if lines.iter().map(|line| line.text().len() + 2).sum::<usize>() > most {
            lines.clear();
        }
        let all: Vec<_> =
            lines.iter().chain(snapshot.lines.iter().map(|line| &**line)).map(Line::text).collect();
        let bytes = format!("\x1bc{}\x1b[{row};{col}H", all.join("\r\n")).into_bytes();
        (bytes, self.scrollback_numbers().end)
    }

    /// Numbers the lines of the scrollback anew, so that the newest has the number before `end`: after a
    /// [`redraw_with_scrollback`](Self::redraw_with_scrollback), readers of the earlier terminal go on with their numbers.
    ///
    /// The default leaves them.
    fn renumber_scrollback(&mut self, _end: u64) {}
}

/// Number of a state of a screen, higher for later ones. Comparable only within one terminal.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Generation(pub u64);
