//! What the terminal answers.

use watchfire_term::{Colors, Emulator, Event, Identity, Options, Size, Terminal};

#[track_caller]
fn check(ask: &str, want: &str) {
    let mut terminal = Emulator::new(Size::new(80, 24));
    terminal.process(ask.as_bytes());
    let have = terminal.take_replies();
    assert_eq!(have.escape_ascii().to_string(), want.as_bytes().escape_ascii().to_string(), "{ask:?}");
}

#[test]
fn attributes_and_status() {
    check("\x1b[c", "\x1b[?64;1;2;6;9;15;17;18;21;22;28c");
    check("\x1b[>c", "\x1b[>41;400;0c");
    check("\x1b[=c", "\x1bP!|00000000\x1b\\");
    check("\x1b[5n\x1b[3;5H\x1b[6n\x1b[?6n", "\x1b[0n\x1b[3;5R\x1b[?3;5;1R");
    check("\x1b[5;10r\x1b[?6h\x1b[2;2H\x1b[6n", "\x1b[2;2R");
    check("\x1b[?15n\x1b[?26n\x1b[?996n", "\x1b[?13n\x1b[?27;1;0;0n\x1b[?997;1n");
    check("\x1b[x", "\x1b[2;1;1;128;128;1;0x");
}

#[test]
fn modes_and_settings() {
    check("\x1b[?7$p\x1b[?2026$p\x1b[4$p\x1b[?9999$p", "\x1b[?7;1$y\x1b[?2026;2$y\x1b[4;2$y\x1b[?9999;0$y");
    check("\x1b[1;38;5;9m\x1bP$qm\x1b\\", "\x1bP1$r0;1;91m\x1b\\");
    check("\x1b[3;7r\x1bP$qr\x1b\\\x1bP$q q\x1b\\", "\x1bP1$r3;7r\x1b\\\x1bP1$r2 q\x1b\\");
    check("\x1bP$qplanted\x1b\\", "\x1bP0$r\x1b\\");
    // No status line (DECSASD, DECSSDT); what attributes are changed in (DECSACE).
    check("\x1bP$q$}\x1b\\\x1bP$q$~\x1b\\", "\x1bP1$r0$}\x1b\\\x1bP1$r0$~\x1b\\");
    let extent = "\x1bP$q*x\x1b\\";
    check(
        &[extent, "\x1b[2*x", extent, "\x1b[1*x", extent, "\x1bc", extent].concat(),
        &["0", "2", "1", "0"].map(|extent| format!("\x1bP1$r{extent}*x\x1b\\")).concat(),
    );
    // XTSAVE and XTRESTORE: a mode comes back as it was; screens are kept as one, by whatever number.
    check("\x1b[?7s\x1b[?7l\x1b[?7r\x1b[?7$p\x1b[?6r\x1b[?6$p", "\x1b[?7;1$y\x1b[?6;2$y");
    check("\x1b[?1049h\x1b[?1049s\x1b[?1049l\x1b[?47r\x1b[?1047$p", "\x1b[?1047;1$y");
    check("\x1b[?47s\x1b[?1049h\x1b[3;3H\x1b[?1049r\x1b[?47$p\x1b[6n", "\x1b[?47;2$y\x1b[3;3R");
    // To clear a screen on the way to it or from it ends a pending wrap.
    check("\x1b[1;80Hx\x1b[?1049hy\x1b[6n", "\x1b[1;80R");
    check("\x1b[?1047h\x1b[1;80Hx\x1b[?1047ly\x1b[6n", "\x1b[1;80R");
    // Horizontal cursor coupling never moves a page.
    check("\x1b[?60$p\x1b[?60h\x1b[?60$p", "\x1b[?60;4$y\x1b[?60;4$y");
    check("\x1b[2$w", "\x1bP2$u1/9/17/25/33/41/49/57/65/73\x1b\\");
    check("\x1bP+q544e;6e6f7065\x1b\\", "\x1bP1+r544e=787465726D2D323536636F6C6F72\x1b\\");
    check(
        "\x1bP+q436f;5463;6b75;6b6632\x1b\\\x1b[?1h\x1bP+q6b75\x1b\\\x1bP+q6e6f7065;436f\x1b\\",
        "\x1bP1+r436f=323536;5463;6b75=1B5B41;6b6632=1B4F51\x1b\\\x1bP1+r6b75=1B4F41\x1b\\\x1bP0+r\x1b\\",
    );
    // XTSMGRAPHICS: there are none.
    check("\x1b[?1;1;0S\x1b[?9;1S", "\x1b[?1;3S\x1b[?9;1S");
}

#[test]
fn colours_sizes_and_keyboard() {
    check("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07");
    check("\x1b]4;1;#102030\x1b\\\x1b]4;1;?\x1b\\", "\x1b]4;1;rgb:1010/2020/3030\x1b\\");
    check("\x1b]4;1;red\x07\x1b]104\x07\x1b]4;1;?\x07", "\x1b]4;1;rgb:cdcd/0000/0000\x07");
    check("\x1b]4;300;red;1;?\x07\x1b]4;1;nosuch;1;?\x07\x1b]5;9;?\x07", "");
    check(
        "\x1b]17;?;?;?\x07",
        "\x1b]17;rgb:e5e5/e5e5/e5e5\x07\x1b]18;rgb:e5e5/e5e5/e5e5\x07\x1b]19;rgb:0000/0000/0000\x07",
    );
    check("\x1b[18t\x1b[14t\x1b[16t", "\x1b[8;24;80t\x1b[4;384;640t\x1b[6;16;8t");
    check("\x1b[?u\x1b[>5u\x1b[?u\x1b[=2;2u\x1b[?u\x1b[<u\x1b[?u", "\x1b[?0u\x1b[?5u\x1b[?7u\x1b[?0u");
    check("\x1b[>4;2m\x1b[?4m", "\x1b[>4;2m");
    check("\x1b[?2048h", "\x1b[48;24;80;384;640t");
}

#[test]
fn the_table_of_colours_is_told_and_set() {
    let mut terminal = Emulator::new(Size::new(80, 24));
    terminal.process(b"\x1b]4;1;#0080ff\x07\x1b[1$u\x1b[2$u");
    let report = String::from_utf8_lossy(&terminal.take_replies()).into_owned();
    let told = report.strip_prefix("\x1bP1$s\x1b\\\x1bP2$s0;2;0;0;0/1;2;0;50;100/2;2;0;80;0/");
    assert_eq!(told.map(|rest| rest.split('/').count()), Some(13), "{report}");
    terminal
        .process(b"\x1bP2$p1;2;100;0;50/2;1;1;1;1/nonsense/300;2;1;1;1/3;2;101;0;0\x1b\\\x1b]4;1;?;3;?\x07");
    let have = String::from_utf8_lossy(&terminal.take_replies()).into_owned();
    assert_eq!(have, "\x1b]4;1;rgb:ffff/0000/7fff\x07\x1b]4;3;rgb:cdcd/cdcd/0000\x07");
}

#[test]
fn the_child_makes_the_screen_larger() {
    let options = Options::default().with_child_resize(true);
    let mut terminal = Emulator::with_options(Size::new(80, 24), options);
    let mut ask = |input: &str, want: &str| {
        terminal.process(input.as_bytes());
        terminal.process(b"\x1b[18t");
        let have = terminal.take_replies();
        assert_eq!(String::from_utf8_lossy(&have).replace('\x1b', ""), want, "{input:?}");
    };
    // A hard reset ends the mode of 132 columns, where it is allowed at all.
    ask("\x1b[?40h\x1b[?3h", "[8;24;132t");
    ask("\x1bc", "[8;24;80t");
    ask("\x1b[8;30;90t", "[8;30;90t");
    ask("\x1b[8;40t", "[8;40;90t");
    ask("\x1b[8;;70t\x1b[19t", "[9;67;240t[8;40;70t");
    ask("\x1b[8;0;70t", "[8;67;70t");
    ask("\x1b[8;20;0t", "[8;20;240t");
    ask("\x1b[4;320;640t", "[8;20;80t");
    ask("\x1b[9;1t", "[8;67;240t");
    ask("\x1b[9;0t", "[8;20;80t");
    ask("\x1b[9;2t", "[8;67;80t");
    ask("\x1b[9;0t\x1b[10;2t", "[8;67;240t");
    ask("\x1b[10;2t", "[8;20;80t");
    ask("\x1b[30t", "[8;30;80t");
    ask("\x1b[100$|\x1b[33*|", "[8;33;100t");
    ask("\x1b[15t", "[5;1080;1920t[8;33;100t");
}

#[test]
fn another_colour_scheme_is_told_to_who_asked() {
    let (dark, light) = (Colors::default(), Colors::new([0; 3], [255; 3]));
    let mut terminal = Emulator::new(Size::new(80, 24));
    let mut set = |modes: &str, colors, want: &str| {
        terminal.process(modes.as_bytes());
        terminal.set_colors(colors);
        assert_eq!(String::from_utf8_lossy(&terminal.take_replies()), want, "{modes:?}");
    };
    set("", light, "");
    set("\x1b[?2031h", dark, "\x1b[?997;1n");
    set("", dark, "");
    set("\x1b]11;?\x07", light, "\x1b]11;rgb:0000/0000/0000\x07\x1b[?997;2n");
    set("\x1b[?2031l", dark, "");
}

#[test]
fn titles_are_laid_aside_and_come_back() {
    let mut terminal = Emulator::new(Size::new(80, 24));
    terminal.process(b"\x1b]0;both\x07\x1b[22;0t\x1b]2;title\x07\x1b]1;icon\x07\x1b[22;2t\x1b]0;x\x07");
    assert_eq!((terminal.title(), terminal.icon_name()), (Some("x"), Some("x")));
    terminal.process(b"\x1b[23;0t");
    assert_eq!((terminal.title(), terminal.icon_name()), (Some("title"), Some("x")));
    terminal.process(b"\x1b[23;1t");
    assert_eq!((terminal.title(), terminal.icon_name()), (Some("title"), Some("both")));
    terminal.process(b"\x1b[23t");
    assert_eq!(terminal.title(), Some("title"));
}

#[test]
fn the_clipboard_is_set_only_where_that_is_allowed() {
    let copied = |options| {
        let mut terminal = Emulator::with_options(Size::new(80, 24), options);
        terminal.process(b"\x1b]52;c;aGVsbG8=\x07\x1b]52;p;?\x07");
        (terminal.take_events(), terminal.take_replies())
    };
    assert_eq!(copied(Options::default()), (vec![], vec![]));
    let event = Event::clipboard('c', "hello");
    assert_eq!(copied(Options::default().with_clipboard(true)), (vec![event], vec![]));
}

#[test]
fn each_screen_has_its_own_keyboard() {
    let steps = "\x1b[>1u\x1b[>3u\x1b[?u\x1b[?1049h\x1b[?u\x1b[>8u\x1b[?u\x1b[?1049l\x1b[?u\x1b[<9u\x1b[?u";
    check(steps, "\x1b[?3u\x1b[?0u\x1b[?8u\x1b[?3u\x1b[?0u");
}

#[test]
fn nothing_planted_comes_back() {
    check("\x1b]2;evil\x07\x1b[21t", "\x1b]l\x1b\\");
    check("\x1b]52;c;ZXZpbA==\x07\x1b]52;c;?\x07\x05", "");
}

#[test]
fn identity_is_the_embedders() {
    let identity = Identity::default().with_primary("62;22").with_version("other 1.0");
    let colors = Colors::new([0, 0, 0], [255, 255, 255]);
    let options = Options::default().with_identity(identity).with_colors(colors).with_cell_pixels(10, 20);
    let mut terminal = Emulator::with_options(Size::new(2, 1), options);
    terminal.process(b"\x1b[c\x1b[>q\x1b[?996n\x1b[14t");
    assert_eq!(
        terminal.take_replies().escape_ascii().to_string(),
        r"\x1b[?62;22c\x1bP>|other 1.0\x1b\\\x1b[?997;2n\x1b[4;20;20t"
    );
}
