//! Conformance suite of [`Terminal`], for any implementation to run in its tests.
//!
//! `make` must return a fresh terminal of the given size that retains between 10 and 10,000 lines of scrollback.
//! A failing case says its input and the difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Size, Snapshot, Terminal};
use crate::conformance::cases;

/// Makes a fresh terminal of a size.
pub type Make = dyn Fn(Size) -> Box<dyn Terminal>;

cases! {
    pub Make:
    any_chunking_is_the_same_as_one_chunk,
    any_size_and_any_bytes_are_survived,
    text_is_shown_and_scrolls_off,
    snapshots_never_change_and_share_what_did_not,
    every_change_raises_the_generation,
    resizing_gives_a_screen_of_that_size,
    scrollback_lines_have_numbers,
    numbers_never_name_another_line,
    a_reader_gets_each_line_once,
    endless_input_is_bounded,
    replies_and_titles_are_safe,
    a_redraw_shows_the_same_text,
}

/// Pieces of output that cover most features of terminals. A terminal that lacks a feature must survive its piece.
const PIECES: &[&[u8]] = &[
    b"plain text",
    b"\r\n",
    b"a line that is longer than the screen is wide, and wraps more than once if that is narrow\r\n",
    "é漢字\u{1f525}e\u{301}\u{200d}\u{1f1e9}\u{1f1ea} ▐█".as_bytes(),
    b"\x1b[1;31;48;2;1;2;3mstyled\x1b[0m",
    b"\x1b[3;4Hthere\x1b[A\x1b[2D\x1b[10C!",
    b"\x1b[2J\x1b[H",
    b"\x1b[K\x1b[1K\x1b[J",
    b"\x1b[2;4r\x1b[2;1H\x1bM\x1b[2L\x1b[3M\x1b[r",
    b"\x1b[?1049hother\x1b[?1049l",
    b"\x1b7\x1b[4hins\x1b[4l\x1b8\x1b[2P\x1b[3@\x1b[4X\x1b[5b",
    b"\x1b]0;a title\x07\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
    b"\x1bPq#0;2;0;0;0~\x1b\\\x1b_Gf=100;AAAA\x1b\\\x1b^x\x1b\\\x1bXy\x1b\\",
    b"\x1b[c\x1b[>c\x1b[6n\x1b[?u\x1b]11;?\x07",
    b"\x1b(0lqk\x1b(B\x0e\x0f\x1b#8",
    b"\xff\xc3\x28\xe2\x82\xf0\x9f\x98",
    b"\x1b[?2026hframe\x1b[?2026l",
    b"\x1b[?69h\x1b[2;5s\x1b[?6h\x1b[1;1H\x1b[?6l\x1b[?69l",
    b"\tx\x08y\x0b\x0c\x7f\0\x1bc",
    b"\x1b[999999999999999999;4:3;;m\x1b[1\x18x\x1b[2\x1by",
];

const SIZES: [Size; 5] =
    [Size::new(1, 1), Size::new(2, 1), Size::new(1, 7), Size::new(9, 4), Size::new(80, 24)];

/// Bytes fed at once, one by one, or in odd pieces give the same screen, scrollback, title and replies.
fn any_chunking_is_the_same_as_one_chunk(make: &Make) {
    // Fixed seeds: a failure must be the same on every machine.
    let mut random = Random(1);
    for round in 0..60 {
        let bytes = random.stream(12);
        let size = SIZES[round % SIZES.len()];
        let mut whole = make(size);
        whole.feed(&bytes);
        let want = state(&mut *whole);
        // Pipes split output anywhere, also inside a character or an escape sequence.
        for chunk in [1, 2, 3, 7, 64] {
            let mut split = make(size);
            bytes.chunks(chunk).for_each(|piece| split.feed(piece));
            let have = state(&mut *split);
            assert_eq!(want, have, "chunks of {chunk} differ at {size:?}: {}", bytes.escape_ascii());
        }
    }
}

/// Any bytes at any size, with resizes between them, are survived, and the terminal shows text afterwards.
fn any_size_and_any_bytes_are_survived(make: &Make) {
    let mut random = Random(2);
    for size in SIZES {
        let mut terminal = make(size);
        for _ in 0..200 {
            match random.below(6) {
                0 => terminal.resize(Size::new(random.below(130) as u16, random.below(50) as u16)),
                1 => terminal.feed(&random.noise(40)),
                _ => terminal.feed(&random.stream(1)),
            }
            well_formed(&terminal.snapshot());
        }
        // Leaves every mode that the noise may have set: strings, the alternate screen, a margin.
        terminal.resize(Size::new(20, 5));
        terminal.feed(b"\x18\x1bc\x1b[?1049l\x1b[!p\r\nstill here");
        assert!(terminal.snapshot().text().contains("still here"), "{:?}", terminal.snapshot().text());
    }
}

/// Text appears where it belongs, and lines that leave the top can be read from the scrollback.
fn text_is_shown_and_scrolls_off(make: &Make) {
    let mut terminal = make(Size::new(10, 2));
    assert_eq!((terminal.snapshot().size, terminal.snapshot().scrollback.clone()), (Size::new(10, 2), 0..0));
    assert_eq!(terminal.snapshot().text(), "");
    terminal.feed(b"one\r\ntwo\r\nthree");
    let snapshot = terminal.snapshot();
    // Trailing blanks are not part of a line's text.
    assert_eq!(snapshot.text(), "two\nthree");
    assert_eq!((snapshot.cursor.row, snapshot.cursor.col), (1, 5));
    assert_eq!(snapshot.scrollback, 0..1);
    assert_eq!(terminal.scrollback(0..1)[0].text().trim_end(), "one");
}

/// A snapshot never changes, and another one without a change in between shares its lines.
fn snapshots_never_change_and_share_what_did_not(make: &Make) {
    let mut terminal = make(Size::new(20, 4));
    terminal.feed(b"first\r\nsecond");
    let (first, again) = (terminal.snapshot(), terminal.snapshot());
    assert_eq!(first, again);
    assert!(
        // Followers compare pointers; rendering again would make every row look changed.
        first.lines.iter().zip(&again.lines).all(|(a, b)| Arc::ptr_eq(a, b)),
        "an unchanged screen is rendered again"
    );
    let copy = Snapshot::clone(&first);
    for piece in PIECES {
        terminal.feed(piece);
        terminal.resize(Size::new(13, 3));
    }
    // Readers hold snapshots without a lock.
    assert_eq!(*first, copy, "a snapshot changed after it was handed out");
}

/// Two snapshots of one generation show the same, and a later snapshot never has a lower one.
fn every_change_raises_the_generation(make: &Make) {
    let mut random = Random(3);
    let mut terminal = make(Size::new(12, 5));
    let mut before = terminal.snapshot();
    for step in 0..400 {
        // Resizes change the screen, too, and are the easiest change to forget.
        if step % 50 == 49 {
            terminal.resize(Size::new(8 + random.below(8) as u16, 3 + random.below(4) as u16));
        } else {
            terminal.feed(PIECES[random.below(PIECES.len())]);
        }
        let now = terminal.snapshot();
        assert!(now.generation >= before.generation, "the generation went back");
        assert!(now.scrollback.end >= before.scrollback.end, "line numbers went back");
        // The reverse is allowed: a higher generation without a visible change costs only one comparison.
        if (Snapshot { generation: now.generation, ..Snapshot::clone(&before) }) != *now {
            assert!(now.generation > before.generation, "a change without a higher generation");
        }
        before = now;
    }
}

/// A resize gives a snapshot of that size with the cursor inside; a zero counts as one.
fn resizing_gives_a_screen_of_that_size(make: &Make) {
    let mut terminal = make(Size::new(40, 10));
    for line in 0..30 {
        terminal.feed(format!("line {line} 漢字 with some text that may wrap\r\n").as_bytes());
    }
    // From tiny to wide and back: wide characters must not be cut in half at the margin.
    for (cols, rows) in [(1, 1), (200, 2), (3, 60), (0, 0), (40, 10), (41, 9), (2, 2), (500, 3)] {
        terminal.resize(Size::new(cols, rows));
        assert_eq!(terminal.snapshot().size, Size::new(cols, rows));
        well_formed(&terminal.snapshot());
        terminal.feed("x漢\r\n".as_bytes());
        well_formed(&terminal.snapshot());
    }
}

/// Each line keeps its number while others leave, also once the oldest are dropped; a resize gives higher ones; and
/// ranges beyond the retained lines are clamped.
fn scrollback_lines_have_numbers(make: &Make) {
    let mut terminal = make(Size::new(10, 1));
    terminal.feed(b"0\r\n1\r\n2\r\n3");
    let text = |terminal: &dyn Terminal, number| {
        let lines = terminal.scrollback(number..number + 1);
        lines.first().map(|line| line.text().trim_end().to_owned())
    };
    assert_eq!(terminal.snapshot().scrollback, 0..3);
    // Readers ask for more than there is when they do not know the numbers yet.
    assert_eq!(terminal.scrollback(0..u64::MAX).len(), 3);
    assert_eq!(text(&*terminal, 1).as_deref(), Some("1"));
    for start in [3, 8, u64::MAX] {
        assert!(terminal.scrollback(start..u64::MAX).is_empty());
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may get it wrong")]
    let reversed = terminal.scrollback(2..1);
    assert!(reversed.is_empty());
    // More lines than any terminal may retain, so that the oldest have gone.
    for number in 4..12_000 {
        terminal.feed(format!("\r\n{number}").as_bytes());
    }
    let numbers = terminal.snapshot().scrollback.clone();
    assert_eq!(numbers.end, 11_999);
    assert!((10..=10_000).contains(&(numbers.end - numbers.start)), "{numbers:?}");
    assert_eq!(text(&*terminal, numbers.start), Some(numbers.start.to_string()));
    assert_eq!(text(&*terminal, 11_998).as_deref(), Some("11998"));
    assert_eq!(text(&*terminal, numbers.start - 1), None);
    terminal.resize(Size::new(9, 3));
    // A reader's position from before the resize must not name other lines.
    assert!(terminal.snapshot().scrollback.end >= numbers.end);
}

/// For any output and any size, a number names one line for good, numbers only grow, and a dropped line
/// does not return.
fn numbers_never_name_another_line(make: &Make) {
    let mut random = Random(5);
    for size in SIZES {
        let (mut terminal, mut lines) = (make(size), BTreeMap::new());
        let mut before = terminal.scrollback_numbers();
        assert_eq!(before, 0..0);
        for step in 0..150 {
            match random.below(8) {
                0 => terminal.resize(Size::new(random.below(60) as u16, random.below(20) as u16)),
                // Clears the scrollback, which must not begin the count anew.
                1 if step % 4 == 0 => terminal.feed(b"\x1b[3J"),
                _ => terminal.feed(&random.stream(2)),
            }
            let now = terminal.scrollback_numbers();
            assert_eq!(terminal.snapshot().scrollback, now, "the snapshot has other numbers");
            assert!(now.start >= before.start && now.end >= before.end, "{before:?}, then {now:?}");
            let kept = terminal.scrollback(now.clone());
            assert_eq!(kept.len() as u64, now.end - now.start);
            for (number, line) in now.clone().zip(kept) {
                let text = line.text().trim_end().to_owned();
                let known = lines.entry(number).or_insert_with(|| text.clone());
                assert_eq!(*known, text, "line {number} is another one at {size:?}");
            }
            before = now;
        }
    }
}

/// A reader who continues where the last answer ended gets each line once and in order, and learns how many
/// are gone.
fn a_reader_gets_each_line_once(make: &Make) {
    let mut terminal = make(Size::new(10, 2));
    let (mut next, mut read) = (0, Vec::new());
    for line in 0..200 {
        terminal.feed(format!("{line}\r\n").as_bytes());
        // No reader is as quick as the output.
        if line % 7 == 0 {
            let scrolled = terminal.scrollback_since(next);
            assert_eq!((scrolled.gone, scrolled.next), (0, terminal.snapshot().scrollback.end));
            read.extend(scrolled.lines.iter().map(|line| line.text().trim_end().to_owned()));
            next = scrolled.next;
        }
    }
    let want: Vec<_> = (0..next).map(|line| line.to_string()).collect();
    assert_eq!(read, want);
    // More lines than any terminal may retain.
    terminal.feed("another\r\n".repeat(12_000).as_bytes());
    let (scrolled, kept) = (terminal.scrollback_since(next), terminal.scrollback_numbers());
    assert_eq!(scrolled.gone, kept.start - next);
    assert_eq!(scrolled.gone + scrolled.lines.len() as u64, scrolled.next - next);
    // A number from another terminal.
    for ahead in [kept.end, u64::MAX] {
        let none = terminal.scrollback_since(ahead);
        assert_eq!((none.gone, none.lines.len(), none.next), (0, 0, kept.end));
    }
}

/// Endless output, strings, parameters and combining characters keep scrollback, replies and titles within bounds.
fn endless_input_is_bounded(make: &Make) {
    const MIB: usize = 1 << 20;
    for (introducer, filler) in [
        ("", "a line of output, as programs print them\r\n"),
        // Each pair begins something without an end, or repeats something that is stored.
        ("\x1b]0;", "x"),
        ("\x1b]52;c;", "QUJD"),
        ("\x1b]8;;", "x"),
        ("\x1b]4;", "1;?;"),
        ("\x1bP$q", "x"),
        ("\x1bP+q", "41;"),
        ("\x1b_G", "x"),
        ("\x1b[", "1;"),
        ("\x1b[", ":"),
        ("\x1b", "((("),
        ("e", "\u{301}"),
        ("", "\x1b[>1u"),
        ("", "\x1b[22t\x1b]0;another title\x07"),
        ("", "\x1b[6n\x1b[c\x1b[5n"),
        ("", "\x1b[?2026h\n"),
        ("", "\x1b[?1049hx"),
        ("", "\x1b[1000000000b\x1b[1000000000S\x1b[1000000000@\x1b[1000000000Z"),
    ] {
        let mut terminal = make(Size::new(80, 24));
        terminal.feed(introducer.as_bytes());
        let block = filler.repeat(MIB / filler.len() / 64);
        // Half a MiB of each: enough to see growth, little enough to stay fast.
        for _ in 0..32 {
            terminal.feed(block.as_bytes());
        }
        let snapshot = terminal.snapshot();
        let title = snapshot.title.as_ref().map_or(0, |title| title.len());
        // Everything that the child can make the terminal keep.
        for (of, bytes) in [
            ("replies", terminal.take_replies().len()),
            ("screen", snapshot.text().len()),
            ("title", title),
            ("lines", 100 * (snapshot.scrollback.end - snapshot.scrollback.start) as usize),
        ] {
            assert!(bytes <= MIB, "{introducer:?} and {filler:?}: {bytes} bytes of {of}");
        }
    }
}

/// Replies carry nothing that the child planted, and titles have no control characters.
fn replies_and_titles_are_safe(make: &Make) {
    let mut terminal = make(Size::new(80, 24));
    for bytes in [
        "\x1b]0;planted\x07\x1b]1;planted\x07\x1b]2;planted\x1b\\\x1b[20t\x1b[21t",
        "\x1b[22t\x1b[23t\x1b[21t\x1bP$qplanted\x1b\\\x1bP$t1;planted\x1b\\\x1b[1$w\x1b[2$w\x1b[1$u\x1b[2;1$u",
        "\x1bP+q706c616e746564\x1b\\\x1b]52;c;cGxhbnRlZA==\x07\x1b]52;c;?\x07\x05\x1b[>q",
        "\x1b]8;;planted\x07\x1b]7;planted\x07\x1b]9;planted\x07\x1b]4;1;planted\x07\x1b]4;1;?\x07\x1b]10;planted\x07",
        "\x1b]10;?\x07\x1b]66;s=2;planted\x07\x1b]133;planted\x07\x1b_Gi=1,a=q;planted\x1b\\\x1b[?planted",
        "\x1b]0;one\ntwo\r\u{9b}\x1b[Hthree\x07\x1b]2;x\u{85}y\x07\x1b[21t",
    ] {
        terminal.feed(bytes.as_bytes());
    }
    let replies = String::from_utf8_lossy(&terminal.take_replies()).into_owned();
    // As sent, and in the encodings in which a terminal may echo it. A line end would submit it as a command.
    for planted in ["planted", "706c616e746564", "706C616E746564", "cGxhbnRlZA", "\r", "\n"] {
        assert!(!replies.contains(planted), "{planted:?} came back in {replies:?}");
    }
    // Given twice, they would be typed twice.
    assert!(terminal.take_replies().is_empty(), "replies are given once");
    if let Some(title) = &terminal.snapshot().title {
        assert!(!title.chars().any(char::is_control), "{title:?} has control characters");
    }
}

/// A fresh terminal that is fed a redraw shows the same text.
fn a_redraw_shows_the_same_text(make: &Make) {
    let mut random = Random(4);
    for size in SIZES {
        let mut terminal = make(size);
        for _ in 0..20 {
            // Strings that are open would swallow the text.
            terminal.feed(&[random.stream(3), b"\x18".to_vec()].concat());
            let mut other = make(size);
            other.feed(&terminal.redraw());
            assert_eq!(terminal.snapshot().text(), other.snapshot().text());
            let mut later = make(size);
            let (redraw, line) = terminal.redraw_with_scrollback(usize::MAX);
            later.feed(&redraw);
            assert_eq!(terminal.snapshot().text(), later.snapshot().text());
            let above = |terminal: &dyn Terminal| -> Vec<_> {
                terminal
                    .scrollback(0..u64::MAX)
                    .iter()
                    .map(|line| line.text().trim_end().to_owned())
                    .collect()
            };
            assert_eq!(above(&*terminal), above(&*later), "what scrolled by");
            // A terminal that keeps no scrollback need not number it either.
            later.renumber_scrollback(line);
            let numbers = later.scrollback_numbers();
            assert!(numbers.is_empty() || numbers.end == line, "{numbers:?} instead of {line}");
            assert_eq!(later.snapshot().scrollback, numbers, "a snapshot has other numbers");
        }
    }
}

/// Returns every observable part of the terminal except its generation.
fn state(terminal: &mut dyn Terminal) -> (Snapshot, Vec<super::Line>, Vec<u8>) {
    let mut snapshot = Snapshot::clone(&terminal.snapshot());
    snapshot.generation = super::Generation(0);
    (snapshot, terminal.scrollback(0..u64::MAX), terminal.take_replies())
}

fn well_formed(snapshot: &Snapshot) {
    let size = snapshot.size;
    assert_eq!(snapshot.lines.len(), usize::from(size.rows()));
    assert!(snapshot.cursor.row < size.rows() && snapshot.cursor.col < size.cols(), "{:?}", snapshot.cursor);
    for line in &snapshot.lines {
        // Runs and cells describe the same line in two ways and must agree.
        let columns: u32 = line.runs().map(|(run, _)| u32::from(run.columns)).sum();
        assert!(columns <= u32::from(size.cols()), "{columns} columns on a screen of {size:?}: {line:?}");
        let cells: u32 = line.cells().map(|cell| u32::from(cell.width)).sum();
        assert_eq!(cells, columns, "cells and runs disagree: {line:?}");
        assert!(!line.text().chars().any(char::is_control), "a control character is shown: {line:?}");
    }
}

/// Generator of numbers that are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a generator repeat after a few steps.
        (self.0 >> 33) as usize % end
    }

    fn stream(&mut self, pieces: usize) -> Vec<u8> {
        (0..pieces).flat_map(|_| PIECES[self.below(PIECES.len())]).copied().collect()
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        // Random bytes alone hardly ever form a sequence, so most are taken from what sequences consist of.
        const LIKELY: &[u8] = b"\x1b\x1b[[]?>0123456789;;:mHJKABCDrhlP_X^\\\x07\x18\x9b\xc2\xe2\xf0\x90$ '\"";
        (0..len)
            .map(|_| match self.below(3) {
                0 => self.below(256) as u8,
                _ => LIKELY[self.below(LIKELY.len())],
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::check;
    use crate::terminal::PlainTerminal;

    #[test]
    fn the_plain_terminal_conforms() {
        check(CASES, || Box::new(|size| Box::new(PlainTerminal::new(size)))).unwrap();
    }
}
