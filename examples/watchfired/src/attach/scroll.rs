//! What has left the agent's screen, shown in place of the screen while the person scrolls.

use watchfire_core::session::Session;
use watchfire_core::terminal::{Modes, Size, Snapshot};
use watchfire_term::diff;

/// The key that begins to scroll, as a terminal sends it.
const PAGE_UP: &[u8] = b"\x1b[5~";
const KEYS: &str = "PgUp PgDn Up Down Home End move, q returns";

/// A move of the person.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Leave,
}

/// Returns true if the typed bytes are the key that begins to scroll, and there is something to scroll to. On the alternate screen the
/// agent scrolls by itself.
pub(super) fn begins(typed: &[u8], screen: &Snapshot) -> bool {
    let is_key = !typed.is_empty() && typed.chunks(PAGE_UP.len()).all(|key| key == PAGE_UP);
    let kept = &screen.scrollback;
    is_key && kept.start < kept.end && !screen.modes.contains(Modes::ALTERNATE_SCREEN)
}

/// Reads the moves among typed bytes. Other keys do nothing.
pub(super) fn moves(mut typed: &[u8]) -> Vec<Move> {
    let mut moves = Vec::new();
    while let Some((first, rest)) = typed.split_first() {
        typed = rest;
        let next = match first {
            b'q' | b'Q' | b'\x03' => Some(Move::Leave),
            // Alone, it is Escape.
            b'\x1b' if rest.is_empty() => Some(Move::Leave),
            b'\x1b' if matches!(rest[0], b'[' | b'O') => {
                // Numbers, and then one byte that ends the sequence.
                let end = rest[1..].iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'));
                let Some(end) = end.map(|end| end + 1) else { break };
                let (numbers, last) = (&rest[1..end], rest[end]);
                typed = &rest[end + 1..];
                // What is held with the key does not matter.
                let number = numbers.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
                match (last, number) {
                    (b'A', _) => Some(Move::Up),
                    (b'B', _) => Some(Move::Down),
                    (b'H', _) | (b'~', b"1" | b"7") => Some(Move::Home),
                    (b'F', _) | (b'~', b"4" | b"8") => Some(Move::End),
                    (b'~', b"5") => Some(Move::PageUp),
                    (b'~', b"6") => Some(Move::PageDown),
                    _ => None,
                }
            }
            _ => None,
        };
        moves.extend(next);
    }
    moves
}

/// The place that the person has scrolled to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Back {
    /// Number of the first line that is shown.
    first: u64,
}

impl Back {
    /// Returns the place at the end: the screen itself.
    pub(super) fn at_end(screen: &Snapshot) -> Self {
        Self { first: screen.scrollback.end }
    }

    /// Goes to another place. Returns `None` for the end, which is the screen itself.
    pub(super) fn go(self, to: Move, screen: &Snapshot, size: Size) -> Option<Self> {
        let (kept, page) = (&screen.scrollback, height(size));
        let first = match to {
            Move::Up => self.first.saturating_sub(1),
            Move::Down => self.first + 1,
            Move::PageUp => self.first.saturating_sub(page),
            Move::PageDown => self.first + page,
            Move::Home => kept.start,
            Move::End | Move::Leave => return None,
        };
        (first < kept.end).then_some(Self { first: first.max(kept.start) })
    }

    /// Returns what paints the lines from this place on: those that have left the screen, and then the screen's own.
    pub(super) async fn paint(self, session: &Session, screen: &Snapshot, size: Size) -> String {
        let end = screen.scrollback.end;
        session.caught_up().await;
        let last = end.min(self.first.saturating_add(height(size)));
        let lines = session.scrollback(self.first..last);
        // What is not kept any more is left out at the beginning.
        let offset = last.saturating_sub(lines.len() as u64);
        let line = |number: u64| match usize::try_from(number.saturating_sub(end)) {
            _ if number < end => {
                let at = number.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| lines.get(at)).map(diff::line).unwrap_or_default()
            }
            Ok(at) => screen.lines.get(at).map(|line| diff::line(line)).unwrap_or_default(),
            Err(_) => String::new(),
        };
        let mut out = String::from("\x1b[?25l\x1b[r");
        for row in 0..height(size) {
            out += &format!("\x1b[{};1H\x1b[m\x1b[2K{}", row + 1, line(self.first + row));
        }
        let told = format!("line {} of {end}: {KEYS}", self.first + 1);
        out += &bar(size, &told);
        out
    }
}

/// Returns what paints words on the last row of the terminal.
pub(super) fn bar(size: Size, words: &str) -> String {
    format!("\x1b[{};1H\x1b[0;7m{}\x1b[K\x1b[m", size.rows(), words)
}

/// Returns the number of lines that are shown. The last row says where they are.
fn height(size: Size) -> u64 {
    u64::from(size.rows().saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests {
    use watchfire_core::terminal::{Cursor, Generation};

    use super::*;

    fn screen(kept: std::ops::Range<u64>) -> Snapshot {
        let mut screen =
            Snapshot::new(Size::new(80, 24), Vec::new(), Cursor::default(), Generation::default());
        screen.scrollback = kept;
        screen
    }

    #[test]
    fn moves_are_read_in_every_spelling() {
        use Move::{Down, End, Home, Leave, PageDown, PageUp, Up};
        assert_eq!(moves(b"\x1b[A\x1bOB\x1b[5~\x1b[6;2~"), [Up, Down, PageUp, PageDown]);
        assert_eq!(moves(b"\x1b[H\x1b[1~\x1bOF\x1b[4~"), [Home, Home, End, End]);
        assert_eq!((moves(b"q"), moves(b"\x1b"), moves(b"\x03")), (vec![Leave], vec![Leave], vec![Leave]));
        assert_eq!(moves(b"abc\x1b[200~\x1b[1;5C\x1b["), []);
    }

    #[test]
    fn only_its_key_begins_where_something_has_left_the_screen() {
        assert!(begins(b"\x1b[5~", &screen(0..9)) && begins(b"\x1b[5~\x1b[5~", &screen(0..9)));
        assert!(!begins(b"\x1b[5~x", &screen(0..9)) && !begins(b"\x1b[5~", &screen(9..9)));
        let mut full = screen(0..9);
        full.modes = full.modes.with(Modes::ALTERNATE_SCREEN, true);
        assert!(!begins(b"\x1b[5~", &full));
    }

    #[test]
    fn it_stays_among_what_is_kept_and_ends_at_the_screen() {
        let (screen, size) = (screen(10..100), Size::new(80, 24));
        let back = Back::at_end(&screen).go(Move::PageUp, &screen, size).unwrap();
        assert_eq!(back, Back { first: 77 });
        assert_eq!(back.go(Move::Home, &screen, size), Some(Back { first: 10 }));
        assert_eq!(Back { first: 12 }.go(Move::PageUp, &screen, size), Some(Back { first: 10 }));
        assert_eq!(Back { first: 99 }.go(Move::Up, &screen, size), Some(Back { first: 98 }));
        for leaving in [Move::Down, Move::PageDown, Move::End, Move::Leave] {
            assert_eq!(Back { first: 99 }.go(leaving, &screen, size), None, "{leaving:?}");
        }
    }
}
