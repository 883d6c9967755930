//! What a terminal shows of an agent.

use std::sync::Arc;

use tokio_util::bytes::BytesMut;
use watchfire_core::terminal::{Modes, Size, Snapshot};
use watchfire_term::diff;

use super::scroll::{self, Back};
use super::terminal::Terminal;

/// Upper bound for what waits for a terminal that takes nothing, beyond which nothing more is drawn until it does.
const WAITING: usize = 1 << 20;

/// What a terminal shows: the agent's screen, or its scrollback.
pub(super) struct Shown {
    terminal: Terminal,
    /// Bytes that the terminal has not accepted yet.
    waiting: BytesMut,
    /// Set if something was not drawn, because too much waits.
    lacks: bool,
    screen: Option<Arc<Snapshot>>,
    /// The place that the person has scrolled to, shown in place of the screen.
    back: Option<Back>,
    /// Modes that the terminal has.
    modes: Modes,
}

impl Shown {
    /// Begins on the alternate screen, which the client has entered. Nothing is known of what an earlier daemon has left there.
    pub(super) fn begin(terminal: Terminal) -> Self {
        let waiting = BytesMut::from(diff::modes(Modes::from_bits(u16::MAX), Modes::default()).as_bytes());
        Self { terminal, waiting, lacks: false, screen: None, back: None, modes: Modes::default() }
    }

    pub(super) fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    pub(super) fn screen(&self) -> Option<&Arc<Snapshot>> {
        self.screen.as_ref()
    }

    pub(super) fn back(&self) -> Option<Back> {
        self.back
    }

    /// Returns true once the terminal has taken everything.
    pub(super) fn is_drawn(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits for the next keys, and draws what is left meanwhile. Returns the number of bytes, or 0 once everything
    /// is drawn; `None` once the terminal is gone. Cancel safe.
    pub(super) async fn next(&mut self, typed: &mut [u8]) -> Option<usize> {
        while !self.waiting.is_empty() {
            tokio::select! {
                read = self.terminal.read(typed) => return read,
                () = self.terminal.write(&mut self.waiting) => if self.waiting.is_empty() {
                    return Some(0);
                },
            }
        }
        self.terminal.read(typed).await
    }

    /// Returns true if the terminal has taken everything, but not all was drawn.
    pub(super) fn lacks_something(&self) -> bool {
        self.lacks && self.is_drawn()
    }

    /// Shows the agent's next screen.
    pub(super) fn show(&mut self, next: Arc<Snapshot>) {
        let before = self.screen.replace(Arc::clone(&next));
        // Who has scrolled back reads there. The present is shown afterwards.
        if self.back.is_some() {
            return;
        }
        let painted = match before {
            // Rows move within the screen of the agent, which may be smaller than this terminal.
            Some(before) if before.size == next.size => diff::repaint(&before, &next),
            _ => whole(&next),
        };
        self.put(&painted, next.modes);
    }

    /// Shows the agent's screen anew.
    pub(super) fn paint(&mut self) {
        self.back = None;
        if let Some(screen) = self.screen.clone() {
            self.put(&whole(&screen), screen.modes);
        }
    }

    /// Shows painted lines in place of the screen. Keys are ours meanwhile, in their plain form.
    pub(super) fn scroll_to(&mut self, back: Back, painted: &str) {
        self.back = Some(back);
        self.put(painted, Modes::default());
    }

    /// Shows a line for the person at the bottom, until the next whole screen.
    pub(super) fn say(&mut self, words: &str) {
        let bar = scroll::bar(self.terminal.size(), &format!("{words} (Ctrl+] leaves)"));
        self.put(&format!("\x1b7{bar}\x1b8"), self.modes);
    }

    /// Draws in one synchronized update, so that nobody sees half of it.
    fn put(&mut self, painted: &str, modes: Modes) {
        self.lacks = self.waiting.len() > WAITING;
        if self.lacks {
            return;
        }
        let changed = diff::modes(self.modes, modes);
        self.modes = modes;
        for part in ["\x1b[?2026h", &changed, painted, "\x1b[?2026l"] {
            self.waiting.extend_from_slice(part.as_bytes());
        }
        self.terminal.try_write(&mut self.waiting);
    }
}

/// Returns what paints a whole screen. Rows move within it.
fn whole(screen: &Snapshot) -> String {
    format!("\x1b[1;{}r{}", screen.size.rows(), diff::paint(screen))
}

/// The size that this terminal has given the agent. It stays this terminal's until the agent has another one, which another terminal has
/// given it.
#[derive(Debug, Default)]
pub(super) struct Given {
    size: Option<Size>,
    /// Set once the agent's screen had the size: one of before may still be on its way.
    seen: bool,
    /// Set once its screen had another size after that.
    lost: bool,
}

impl Given {
    pub(super) fn new(size: Size) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    /// Returns the state after another terminal has changed the size.
    pub(super) fn lost() -> Self {
        Self { lost: true, ..Self::default() }
    }

    pub(super) fn see(&mut self, size: Size) {
        let is_same = self.size == Some(size);
        self.lost |= self.seen && !is_same;
        self.seen |= is_same;
    }

    pub(super) fn is_ours(&self) -> bool {
        !self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_ours_until_another_terminal_gives_one() {
        let (ours, other) = (Size::new(100, 30), Size::new(70, 30));
        let mut given = Given::new(ours);
        // The screen of before, which was on its way.
        given.see(other);
        assert!(given.is_ours());
        given.see(ours);
        assert!(given.is_ours());
        given.see(other);
        assert!(!given.is_ours());
        given.see(ours);
        assert!(!given.is_ours(), "the other one has the same size now");
    }
}
