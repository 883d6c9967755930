//! The trait.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::{Line, Size, Snapshot};

/// A terminal: bytes in, screen out.
///
/// **Implementers ensure** that
/// - any bytes, in any chunks, at any size from 1x1 up, never panic, hang, or allocate without bound;
/// - feeding `a` then `b` is the same as feeding `a` and `b` at once;
/// - a snapshot never changes once it is handed out, and costs little when nothing changed since the last one;
/// - every change of what a snapshot shows gives a higher [`Generation`], and [`damage_since`](Self::damage_since)
///   names at least every row that changed;
/// - scrollback is bounded in lines and bytes;
/// - replies never carry text that came in with the bytes.
///
/// **Callers may not assume** that every sequence is understood (a plain terminal understands few), that rows
/// named as damaged really differ, that scrollback survives a resize unchanged, or that a terminal answers queries.
pub trait Terminal: Debug + Send + 'static {
    /// Takes bytes that the child wrote.
    fn feed(&mut self, bytes: &[u8]);

    /// Changes the size of the screen. Sizes with a zero count as one.
    fn resize(&mut self, size: Size);

    /// The size of the screen.
    fn size(&self) -> Size;

    /// What the screen shows now.
    fn snapshot(&mut self) -> Arc<Snapshot>;

    /// The state of the screen as a number that grows with every change.
    fn generation(&self) -> Generation;

    /// What changed since `generation`.
    fn damage_since(&self, generation: Generation) -> Damage;

    /// How many lines have scrolled off the top and are retained.
    fn scrollback_len(&self) -> usize;

    /// Retained lines, oldest first; the range is clamped to what there is.
    fn scrollback(&self, range: Range<usize>) -> Vec<Line>;

    /// Answers to queries of the child, to be written to it; empty when there are none.
    ///
    /// Taking them removes them.
    fn take_replies(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The window title that the child set, without control characters.
    fn title(&self) -> Option<&str> {
        None
    }

    /// How many bytes of memory the terminal holds, about.
    fn memory(&self) -> usize;
}

/// A state of a screen; higher is later. Compare only within one terminal.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Generation(pub u64);

/// What changed on a screen.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Damage {
    /// Nothing.
    None,
    /// These rows, ascending, and perhaps the cursor.
    Rows(Vec<u16>),
    /// Anything: draw it all.
    Full,
}
