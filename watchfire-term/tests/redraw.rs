//! Redrawing and diffs: what comes out, fed to another terminal, gives the same.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::{Cell, Emulator, Line, Options, Size, Snapshot, Terminal, diff};

const SIZE: Size = Size::new(13, 6);

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
}

/// As narrow and low as can be, too.
fn size() -> impl Strategy<Value = Size> {
    prop_oneof![2 => Just(SIZE), 1 => (1_u16..6, 1_u16..4).prop_map(|(cols, rows)| Size::new(cols, rows))]
}

/// Every option that changes what bytes do to the picture. The two terminals of a redraw need not agree on any.
fn options() -> impl Strategy<Value = Options> {
    any::<[bool; 4]>().prop_map(|[graphemes, emoji, c1, resize]| {
        Options::default()
            .with_graphemes(graphemes)
            .with_emoji_presentation(emoji)
            .with_c1_controls(c1)
            .with_child_resize(resize)
    })
}

/// The cell that begins at each place of the screen.
fn grid(snapshot: &Snapshot) -> Vec<Vec<Option<Cell<'_>>>> {
    let rows = snapshot.lines.iter().map(|line| {
        let mut row = vec![None; usize::from(snapshot.size.cols())];
        let mut col = 0;
        for cell in line.cells() {
            row[col] = Some(cell);
            col += usize::from(cell.width);
        }
        row
    });
    rows.collect()
}

/// What random sequences found, kept.
#[test]
fn odd_states_are_redrawn() {
    let wide = Size::new(13, 6);
    for (before, input, size) in [
        // Wide characters on lines of double width, where less fits.
        (Size::new(2, 1), "\x1b[?7l\x1b#3\x1b[1;2H字", Size::new(2, 1)),
        (wide, "\x1b#3\x1b[1;4r\x1b[1;13H00", wide),
        (wide, "\x1b#3\x1b[?7l\x1b[1;12H漢\x1b[?7h0", wide),
        (wide, "a字\x1b#3", Size::new(2, 2)),
        // Rows that go on below the screen, or after a blank, in another size.
        (wide, "\x1b[1;11Haaa \x1bM", Size::new(1, 1)),
        (wide, "a\x1b[1;10Hb", Size::new(4, 6)),
        (Size::new(2, 2), "é👨👨漢\x1b#3\x08\r\na", wide),
        // Shifts, and what a level resets.
        (wide, "\x1b(0\x1b*0\x1bN\x1b7", wide),
        (wide, "\x1b7\x1b[63;1\"p0\x1b[2;9s", wide),
        (wide, "\x1b%@\x1b.A\x1b}x", wide),
        // Margins that a VT100 does not have.
        (wide, "\x1b[?69h\x1b[?2l\x1b<0", wide),
        // A blank that stands for a wide character, copied elsewhere.
        (Size::new(4, 3), "\x1b[0;2m\x1b[0;3Hé字👨▐😀éé▐字▐👨字\x1b[2;2;4;6$v aAA a ", wide),
        (Size::new(5, 3), "\x1b[0;2m👨漢😀😀aa😀a👨\x1b[2;2;4;6$va漢é👨a0 ", wide),
        // Half a flag beside a whole one that ends its row, with a line that goes on or a cursor behind it.
        (wide, "\x1b[?2027h\x1b[1;12H🇪🇸x\x1b[1;11H🇩", wide),
        (wide, "\x1b[?2027h\x1b[1;12H🇪🇸\x1b7\x1b[1;11H🇩\x1b8", wide),
        // A cursor restored below margins that it counts from.
        (Size::new(4, 5), "\x1b[3;1Habcd\x1b[1;2r\x1bP1$t3;4;1;@;@;I\x1b\\", Size::new(4, 5)),
        // A cursor restored above and left of margins that came later.
        (wide, "\x1b[?6h\x1b7\x1b[2;5r\x1b8", wide),
        (wide, "\x1b[?6h\x1b7\x1b[?69h\x1b[3;9s\x1b8", wide),
    ] {
        let mut terminal = Emulator::new(before);
        terminal.process(input.as_bytes());
        terminal.resize(size);
        let mut other = Emulator::new(size);
        other.process(&terminal.redraw());
        for probe in ["", "q漢", "\x1b8x"] {
            terminal.process(probe.as_bytes());
            other.process(probe.as_bytes());
            let (a, b) = (terminal.snapshot(), other.snapshot());
            assert_eq!((&a.lines, a.cursor), (&b.lines, b.cursor), "{input:?} then {probe:?}");
        }
    }
}

/// Widths that options and modes decide are the same at a receiver with any options, whether painted or redrawn.
#[test]
fn widths_of_graphemes_are_redrawn_for_any_receiver() {
    let all = || {
        (0..4).map(|bits| {
            Options::default().with_graphemes(bits & 1 != 0).with_emoji_presentation(bits & 2 != 0)
        })
    };
    for own in all() {
        for input in [
            "❤\u{fe0f}x",
            "ab⚠\u{fe0f}\u{1161}🇩🇪x",
            "\x1b[?2027habc🇩🇪\x1b[?2027ldef",
            "\x1b[?2027h\x1b[?7labcde\x1b[1;6H🇩🇪\x1b[?2027l\x1b[1;1H\x1b[2P\x1b[1;5Hxy",
        ] {
            let mut terminal = Emulator::with_options(Size::new(6, 3), own.clone());
            terminal.process(input.as_bytes());
            terminal.resize(Size::new(10, 3));
            let now = terminal.snapshot();
            for others in all() {
                let mut other = Emulator::with_options(Size::new(10, 3), others.clone());
                other.process(&terminal.redraw());
                assert_eq!(other.snapshot().lines, now.lines, "{input:?} from {own:?} to {others:?}");
                other.process(diff::paint(&now).as_bytes());
                assert_eq!(other.snapshot().text(), now.text(), "{input:?} painted for {others:?}");
                let widths = |snapshot: &Snapshot| {
                    let cells = snapshot.lines[0].cells().map(|cell| cell.width);
                    cells.collect::<Vec<_>>()
                };
                assert_eq!(widths(&other.snapshot()), widths(&now), "{input:?} painted for {others:?}");
            }
        }
    }
}

/// A viewer's terminal reports keys and the mouse as the child asked for.
#[test]
fn modes_are_taken_over() {
    let size = Size::new(10, 3);
    let (mut terminal, mut viewer) = (Emulator::new(size), Emulator::new(size));
    let mut before = viewer.snapshot().modes;
    for bytes in [
        "\x1b[?1h\x1b[?2004h\x1b[?1000h\x1b[?1006h",
        "\x1b[?1003h\x1b[?1004h",
        "\x1b[?1002h\x1b[?1l",
        "\x1b[?1002l\x1b[?5h\x1b[?66h",
        "\x1b[>1u\x1b[>5u",
        "\x1b[<u",
        "\x1bc",
    ] {
        terminal.process(bytes.as_bytes());
        let now = terminal.snapshot().modes;
        viewer.process(diff::modes(before, now).as_bytes());
        assert_eq!(viewer.snapshot().modes, now, "{bytes:?}");
        assert_eq!(diff::modes(now, now), "");
        before = now;
    }
    // The screen that the child is on is its own business.
    terminal.process(b"\x1b[?1049h");
    assert_eq!(diff::modes(before, terminal.snapshot().modes), "");
}

/// Each line brings its own looks, and leaves none to the next.
#[test]
fn a_line_stands_alone() {
    let size = Size::new(30, 4);
    let mut terminal = Emulator::new(size);
    terminal.process(
        "\x1b[1;38;5;208mbold\x1b[m and \x1b[4:3;58:2::9:8:7mcurly\x1b[m\r\n\x1b[48;2;1;2;3m  漢字  \r\n\x1b]8;;https://x.invalid\x1b\\link\x1b]8;;\x1b\\\x1b[m plain"
            .as_bytes(),
    );
    let shown = terminal.snapshot();
    let lines: Vec<_> = shown.lines.iter().map(|line| diff::line(line)).collect();
    assert_eq!(lines[3], "");
    let mut other = Emulator::new(size);
    // In another order, so that nothing can come from the line before.
    for (row, line) in lines.iter().enumerate().rev() {
        other.process(format!("\x1b[{}H{line}", row + 1).as_bytes());
    }
    assert_eq!(other.snapshot().lines, shown.lines);
    assert!(!lines.concat().contains(['\n', '\r']));
}

#[test]
fn what_moved_and_what_stayed_is_not_painted_again() {
    let size = Size::new(120, 40);
    let (mut terminal, mut viewer) = (Emulator::new(size), Emulator::new(size));
    for n in 0..100 {
        terminal.process(format!("\r\n{n:04} \x1b[32mok\x1b[m {}", "of a log ".repeat(10)).as_bytes());
    }
    let mut before = terminal.snapshot();
    viewer.process(diff::paint(&before).as_bytes());
    for (bytes, limit) in [
        ("\r\n0100 \x1b[31mno\x1b[m one line more of a log", 80),
        ("x", 40),
        ("\x1b[H\x1b[M\x1b[2;39r\x1b[39H\n\n\x1b[r\x1b[3;8Hno", 150),
        ("\x1b[2;1H\x1b[3T", 60),
        ("\x1b[9;20H漢\x1b[9;60H\x1b[K", 80),
        ("\x1b[9;21Hx", 40),
    ] {
        terminal.process(bytes.as_bytes());
        let now = terminal.snapshot();
        let change = diff::repaint(&before, &now);
        assert!(change.len() <= limit, "{bytes:?}: {} bytes: {change:?}", change.len());
        viewer.process(change.as_bytes());
        assert_eq!(
            (viewer.contents(), viewer.snapshot().cursor),
            (terminal.contents(), now.cursor),
            "{bytes:?}"
        );
        before = now;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_redrawn_terminal_is_the_same(
        before in size(), size in size(), pieces in prop::collection::vec(piece(), 1..25), resized in 0_usize..25,
        own in options(), others in options(),
    ) {
        let mut terminal = Emulator::with_options(before, own.clone());
        let (first, rest) = pieces.split_at(resized.min(pieces.len()));
        terminal.process(first.concat().as_bytes());
        terminal.resize(size);
        // What is unfinished is not redrawn.
        terminal.process((rest.concat() + "\x1b\\").as_bytes());
        let bytes = format!("{before:?} {} then {}", first.concat(), rest.concat());
        let redrawn = terminal.redraw();
        // Answers so far are the child's already.
        terminal.take_replies();
        let size = terminal.size();
        let mut other = Emulator::with_options(size, others.clone());
        other.process(&redrawn);
        let (a, b) = (terminal.snapshot(), other.snapshot());
        let bytes = bytes.escape_debug();
        let shown = format!("{size:?} {bytes} -> {} from {own:?} to {others:?}", redrawn.escape_ascii());
        prop_assert_eq!(&a.lines, &b.lines, "{}", shown);
        prop_assert_eq!(a.cursor, b.cursor, "{}", shown);
        prop_assert_eq!(a.modes, b.modes);
        prop_assert_eq!(terminal.title(), other.title());
        // What is written next must land the same way.
        for probe in ["x漢", "\x1b[6n\x1b[?6$p\x1b[?7$p\x1bP$qm\x1b\\\x1bP$qr\x1b\\\x1bP$qs\x1b\\\x1b]4;1;?\x07", "\tq\x1b[J", "\x1b8y\x1b[?6n", "\n\n\n\x1b[?47l\x1b8z"] {
            terminal.process(probe.as_bytes());
            other.process(probe.as_bytes());
            let (a, b) = (terminal.snapshot(), other.snapshot());
            prop_assert_eq!(&a.lines, &b.lines, "after {:?}: {}", probe, shown);
            prop_assert_eq!(a.cursor, b.cursor, "after {:?}: {}", probe, shown);
            let answer = |terminal: &mut Emulator| String::from_utf8_lossy(&terminal.take_replies()).into_owned();
            prop_assert_eq!(answer(&mut terminal), answer(&mut other), "{}", shown);
        }
    }

    #[test]
    fn the_scrollback_is_redrawn_too(
        before in size(), size in size(), pieces in prop::collection::vec(piece(), 1..60), resized in 0_usize..60,
        own in options(), others in options(),
    ) {
        let mut terminal = Emulator::with_options(before, own.clone());
        let (first, rest) = pieces.split_at(resized.min(pieces.len()));
        // Lines for the scrollback, between what is random.
        terminal.process(first.join("\r\n").as_bytes());
        terminal.resize(size);
        terminal.process((rest.join("\r\n") + "\x1b\\").as_bytes());
        let redrawn = terminal.redraw_with_scrollback(usize::MAX);
        let mut other = Emulator::with_options(terminal.size(), others.clone());
        other.process(&redrawn);
        let shown = format!(
            "{before:?} {:?} then {:?} -> {} from {own:?} to {others:?}", first, rest, redrawn.escape_ascii()
        );
        other.renumber_scrollback(terminal.scrollback_numbers().end);
        let (a, b) = (terminal.snapshot(), other.snapshot());
        prop_assert_eq!(&a.lines, &b.lines, "{}", shown);
        prop_assert_eq!((a.cursor, a.modes, &a.scrollback), (b.cursor, b.modes, &b.scrollback), "{}", shown);
        let [a, b] = [&terminal, &other].map(|terminal| terminal.scrollback_rows(0..usize::MAX));
        let seen = |lines: &[Line]| -> Vec<_> {
            let lines = lines.iter().map(|line| (line.is_wrapped(), line.cells().map(|cell| format!("{cell:?}")).collect::<Vec<_>>()));
            lines.collect()
        };
        prop_assert_eq!(seen(&a), seen(&b), "{}", shown);
    }

    #[test]
    fn diffs_lead_from_one_picture_to_the_next(pieces in prop::collection::vec(piece(), 2..16)) {
        let (mut terminal, mut viewer) = (Emulator::new(SIZE), Emulator::new(SIZE));
        let mut before = terminal.snapshot();
        for piece in pieces {
            terminal.process(piece.as_bytes());
            let now = terminal.snapshot();
            viewer.process(diff::repaint(&before, &now).as_bytes());
            let seen = viewer.snapshot();
            let text = |snapshot: &Snapshot| {
                let lines = snapshot.lines.iter().map(|line| line.cells().map(|cell| (cell.text.to_owned(), cell.style, cell.link.cloned())).collect::<Vec<_>>());
                lines.collect::<Vec<_>>()
            };
            prop_assert_eq!(text(&seen), text(&now), "{:?}", piece);
            prop_assert_eq!(seen.cursor, now.cursor);
            // Cell changes, applied to the old cells, give the new ones.
            let mut patched = grid(&before);
            for change in diff::cells(&before, &now) {
                let row = &mut patched[usize::from(change.row)];
                row[usize::from(change.col)] = change.cell;
                for covered in 1..change.cell.map_or(1, |cell| cell.width) {
                    row[usize::from(change.col + covered)] = None;
                }
            }
            prop_assert_eq!(patched, grid(&now), "{:?}", piece);
            before = now;
        }
    }
}

/// Of a line that is longer than what the scrollback keeps as one, every character is redrawn, and nothing else.
#[test]
fn the_longest_lines_are_redrawn() {
    let (narrow, wide) = ("0123456789".repeat(2_000), "字".repeat(20_000));
    for (first, cols, text) in [
        (13, 13, &narrow),
        (13, 11, &narrow),
        (13, 8, &narrow),
        (80, 19, &narrow),
        (79, 26, &narrow),
        (13, 11, &wide),
        (13, 9, &wide),
        (13, 8, &wide),
        (13, 20, &wide),
    ] {
        let size = Size::new(cols, 6);
        let mut terminal = Emulator::new(Size::new(first, 6));
        terminal.process(text.as_bytes());
        terminal.process("\r\n".repeat(8).as_bytes());
        terminal.resize(size);
        let mut other = Emulator::new(size);
        other.process(&terminal.redraw_with_scrollback(usize::MAX));
        let lines = |terminal: &Emulator| -> Vec<_> {
            terminal.scrollback(0..u64::MAX).iter().map(|line| line.text().to_owned()).collect()
        };
        assert_eq!(lines(&terminal), lines(&other), "{first} {cols}");
        other.resize(Size::new(100, 6));
        assert!(lines(&other).concat() == *text, "{first} {cols} {}", &text[..3]);
    }
}

/// A long link is written out wherever it begins again, which an agent can have all over its scrollback.
#[test]
fn a_scrollback_that_takes_too_much_is_left_out() {
    let link = |n: usize| format!("\x1b]8;;http://x/{}{n}\x1b\\{n}", "a".repeat(2000));
    let mut terminal = Emulator::new(Size::new(100, 5));
    let row = [link(1), link(2)].concat().repeat(50) + "\x1b]8;;\x1b\\";
    let copies: String = (2..=5).map(|to| format!("\x1b[1;1;1;100;1;{to};1;1$v")).collect();
    terminal.process((row + &copies + "\x1b[5;1H" + &"\n\x1b[4;1;4;100;1;5;1;1$v".repeat(20)).as_bytes());
    assert!(terminal.redraw_with_scrollback(usize::MAX).len() > 2 << 20);
    assert!(terminal.redraw_with_scrollback(1 << 20) == terminal.redraw());
}

/// The redraw holds all that was written, with the lines of a frame that is still held back from viewers.
#[test]
fn the_scrollback_is_redrawn_while_a_frame_is_held_back() {
    let mut terminal = Emulator::new(SIZE);
    terminal.process("line\r\n".repeat(9).as_bytes());
    let shown = terminal.scrollback_numbers();
    terminal.process("\x1b[?2026hframe\r\n".repeat(5).as_bytes());
    assert_eq!(terminal.scrollback_numbers(), shown);
    let (bytes, line) = Terminal::redraw_with_scrollback(&mut terminal, usize::MAX);
    let mut other = Emulator::new(SIZE);
    other.process(&bytes);
    other.renumber_scrollback(line);
    terminal.process(b"\x1b[?2026l");
    let (a, b) = (terminal.snapshot(), other.snapshot());
    assert_eq!((&a.lines, &a.scrollback), (&b.lines, &b.scrollback));
}
