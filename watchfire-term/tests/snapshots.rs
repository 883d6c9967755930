//! State besides the picture that snapshots carry.

use watchfire_term::{Damage, Emulator, Event, LineSize, Modes, Size, Terminal};

#[test]
fn modes_and_title_are_part_of_a_snapshot() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    for (on, off, mode) in [
        ("\x1b[?1049h", "\x1b[?1049l", Modes::ALTERNATE_SCREEN),
        ("\x1b[?5h", "\x1b[?5l", Modes::REVERSE_SCREEN),
        ("\x1b[?1h", "\x1b[?1l", Modes::APPLICATION_CURSOR),
        ("\x1b=", "\x1b>", Modes::APPLICATION_KEYPAD),
        ("\x1b[?2004h", "\x1b[?2004l", Modes::BRACKETED_PASTE),
        ("\x1b[?1004h", "\x1b[?1004l", Modes::FOCUS),
        ("\x1b[?1000h", "\x1b[?1000l", Modes::MOUSE_BUTTONS),
        ("\x1b[?1002h", "\x1b[?1002l", Modes::MOUSE_DRAG),
        ("\x1b[?1003h", "\x1b[?1003l", Modes::MOUSE_MOVE),
        ("\x1b[?1006h", "\x1b[?1006l", Modes::MOUSE_SGR),
        ("\x1b[>1u", "\x1b[<u", Modes::KEYS_DISAMBIGUATE),
        ("\x1b[=2;2u", "\x1b[=2;3u", Modes::KEYS_EVENTS),
        ("\x1b[=4u", "\x1b[=0u", Modes::KEYS_ALTERNATES),
        ("\x1b[>8u", "\x1b[<u", Modes::KEYS_ALL),
        ("\x1b[>16u", "\x1b[<u", Modes::KEYS_TEXT),
    ] {
        let before = terminal.snapshot();
        terminal.process(on.as_bytes());
        let set = terminal.snapshot();
        assert_eq!(set.modes, Modes::default().with(mode, true), "{}", on.escape_debug());
        assert!(set.generation > before.generation, "{}", on.escape_debug());
        terminal.process(off.as_bytes());
        assert_eq!(terminal.snapshot().modes, Modes::default(), "{}", off.escape_debug());
    }
    let before = terminal.snapshot();
    terminal.process(b"\x1b]2;a title\x07");
    let titled = terminal.snapshot();
    assert_eq!((before.title.as_deref(), titled.title.as_deref()), (None, Some("a title")));
    assert!(titled.generation > before.generation);
}

#[test]
fn modes_set_just_before_a_frame_belong_to_the_picture_that_is_held() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    let before = terminal.snapshot();
    terminal.process(b"\x1b[?2004h\x1b[?2026hframe");
    let held = terminal.snapshot();
    assert!(held.modes.contains(Modes::BRACKETED_PASTE) && held.generation > before.generation);
    assert_eq!(held.text(), "");
}

/// A program that hides the cursor while it paints does not make viewers draw all rows again.
#[test]
fn a_change_of_the_cursor_damages_no_row() {
    let mut terminal = Emulator::new(Size::new(10, 3));
    terminal.process(b"text");
    for bytes in ["\x1b[?25l", "\x1b[?25h", "\x1b[4 q", "\x1b[?12h"] {
        let before = terminal.snapshot();
        terminal.process(bytes.as_bytes());
        let now = terminal.snapshot();
        assert_ne!(now.cursor, before.cursor, "{}", bytes.escape_debug());
        assert_eq!(terminal.damage_since(before.generation), Damage::Rows(Vec::new()));
    }
}

/// Lines are numbered from the start, whatever is dropped, cleared or laid out anew.
#[test]
fn numbers_of_lines_only_grow() {
    let mut terminal = Emulator::new(Size::new(10, 2));
    let mut end = 0;
    for bytes in ["1\r\n2\r\n3\r\n4", "\x1b[3J", "\r\n5\r\n6", "\x1bc", "7\r\n8\r\n9"] {
        terminal.process(bytes.as_bytes());
        let now = terminal.snapshot().scrollback.clone();
        assert!(now.end >= end, "{now:?} after {end}");
        end = now.end;
    }
    for size in [Size::new(10, 9), Size::new(3, 2), Size::new(10, 2)] {
        terminal.resize(size);
        let now = terminal.snapshot().scrollback.clone();
        assert!(now.start >= end, "{now:?} reuses numbers below {end}");
        assert_eq!(Terminal::scrollback(&terminal, now.clone()).len() as u64, now.end - now.start);
        end = now.end;
    }
}

#[test]
fn colours_that_the_child_sets_are_part_of_a_snapshot() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    let before = terminal.snapshot();
    terminal.process(
        b"\x1b]4;1;rgb:12/34/56;200;#ffffff\x07\x1b]10;#010203\x07\x1b]11;#040506\x07\x1b]12;#070809\x07",
    );
    let set = terminal.snapshot();
    assert!(set.generation > before.generation);
    assert_eq!(set.palette.indexed, [(1, [0x12, 0x34, 0x56]), (200, [255; 3])].into());
    let palette = (set.palette.foreground, set.palette.background, set.palette.cursor);
    assert_eq!(palette, (Some([1, 2, 3]), Some([4, 5, 6]), Some([7, 8, 9])));
    assert_eq!(terminal.take_events(), [Event::Palette]);
    // A query, or the same colour again, changes nothing.
    terminal.process(b"\x1b]4;1;?\x07\x1b]4;1;#123456\x07");
    assert_eq!(terminal.snapshot().generation, set.generation);
    // A frame that is held keeps its colours.
    terminal.process(b"\x1b[?2026h\x1b]104\x07");
    assert_eq!(terminal.snapshot().palette, set.palette);
    terminal.process(b"\x1b[?2026l");
    assert!(terminal.snapshot().palette.indexed.is_empty());
    terminal.process(b"\x1bc");
    assert_eq!(terminal.snapshot().palette, before.palette);
}

#[test]
fn sizes_of_lines_are_part_of_a_snapshot() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    let mut last = terminal.snapshot();
    for (code, size) in [
        ('6', LineSize::DoubleWidth),
        ('3', LineSize::DoubleTop),
        ('4', LineSize::DoubleBottom),
        ('5', LineSize::Single),
    ] {
        terminal.process(format!("\x1b#{code}").as_bytes());
        let now = terminal.snapshot();
        assert_eq!((now.lines[0].size(), now.lines[1].size()), (size, LineSize::Single));
        assert!(now.generation > last.generation);
        last = now;
    }
    for clear in ["\x1b[2J", "\x1bc", "\x1b#8", "\x1b[M", "\x1b[L", "\x1b[4S"] {
        terminal.process(b"\x1b[H\x1b#6");
        assert_eq!(terminal.snapshot().lines[0].size(), LineSize::DoubleWidth);
        terminal.process(clear.as_bytes());
        assert_eq!(terminal.snapshot().lines[0].size(), LineSize::Single, "{}", clear.escape_debug());
    }
}

#[test]
fn cursor_and_modes_are_those_of_a_snapshot() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    for bytes in ["ab\r\nc", "\x1b[?25l\x1b[5 q", "\x1b[?2004h\x1b[?2026hdef\x1b[?1h", "\x1b[?2026l"] {
        terminal.process(bytes.as_bytes());
        let snapshot = terminal.snapshot();
        assert_eq!((terminal.cursor(), terminal.modes()), (snapshot.cursor, snapshot.modes), "{bytes:?}");
    }
}
