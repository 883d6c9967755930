//! What must not hurt: floods, absurd sizes, absurd numbers.

use std::time::{Duration, Instant};

use watchfire_term::{Emulator, Options, Size, Terminal};

/// Feeds `bytes` and says how long that took, to find what is not linear: bounds are generous.
fn fed(terminal: &mut Emulator, bytes: &[u8]) -> Duration {
    let start = Instant::now();
    bytes.chunks(4096).for_each(|chunk| terminal.process(chunk));
    start.elapsed()
}

#[test]
fn floods_take_time_in_proportion_and_no_memory() {
    for flood in [
        "\x1b[1000000000b",
        "x\x1b[65535b",
        "\x1b[>1u",
        "\x1b[99999S\x1b[99999T\x1b[99999L",
        "\x1b[99999@\x1b[99999P\x1b[99999X",
        "\x1b[99999I\x1b[99999Z",
        "\x1b[?1049h\x1b[?1049l",
        "\x1b[?2026h\x1b[?2026l",
        "\x1b[22t\x1b]0;title\x07",
        "\x1b[1;1;99;999;1;1;1;1$v",
        "\x1b[1;1;1;1;99;999*y",
        "\x1b[?69h\x1b[2;70s\x1b[24;10H\n",
        "\x1b#8",
        "e\u{301}\u{302}\u{303}",
    ] {
        let mut terminal = Emulator::new(Size::new(80, 24));
        let bytes = flood.repeat(30_000 / flood.len());
        fed(&mut terminal, bytes.as_bytes());
        let first = terminal.memory();
        let took = fed(&mut terminal, bytes.as_bytes());
        assert!(took < Duration::from_secs(20), "{flood:?} took {took:?}");
        assert!(terminal.memory() < first + (1 << 20), "{flood:?}: {} after {first}", terminal.memory());
    }
}

#[test]
fn many_looks_and_links_are_forgotten() {
    let mut terminal =
        Emulator::with_options(Size::new(80, 24), Options::default().with_scrollback(100, 1 << 20));
    for n in 0..60_000_u32 {
        let [_, r, g, b] = (n * 7919).to_be_bytes();
        terminal.process(format!("\x1b[38;2;{r};{g};{b}m\x1b]8;;http://x.example/{n}\x07x").as_bytes());
    }
    assert!(terminal.memory() < 12 << 20, "{}", terminal.memory());
    terminal.process(b"\x1b[H\x1b]8;id=a;http://last.example\x07y");
    assert_eq!(terminal.hyperlink(0, 0).map(|link| link.uri.as_str()), Some("http://last.example"));
}

/// Also when they come all at once, and when nobody takes them.
#[test]
fn what_is_not_used_is_forgotten_meanwhile() {
    let looks = |n: u32| format!("\x1b[38;2;{};{};{}mx\r", n & 255, n >> 8 & 255, n >> 16);
    let all: String = (0..200_000).map(looks).collect();
    let mut terminal = Emulator::new(Size::new(10, 1));
    terminal.process(all.as_bytes());
    assert!(terminal.memory() < 2 << 20, "{}", terminal.memory());

    let mut terminal = Emulator::with_options(Size::new(10, 1), Options::default().with_clipboard(true));
    let text = "YWFh".repeat(200_000);
    for _ in 0..50 {
        terminal.process(format!("\x1b]52;c;{text}\x07").as_bytes());
    }
    assert!(terminal.memory() < 8 << 20, "{}", terminal.memory());
    assert_eq!(terminal.take_events().len(), (4 << 20) / 600_000);

    let mut terminal = Emulator::new(Size::new(10, 1));
    for n in 0..1500 {
        let path = "a".repeat(2000);
        terminal.process(format!("\x1b]8;;http://x.example/{n}/{path}\x07x\x1b]8;;\x07\r\n").as_bytes());
    }
    let before = terminal.memory();
    terminal.release_scrollback();
    assert!(terminal.memory() < before / 10, "{} of {before}", terminal.memory());
}

#[test]
fn absurd_sizes_are_cut_to_what_memory_allows() {
    let mut terminal = Emulator::new(Size::new(u16::MAX, u16::MAX));
    terminal.process(b"\x1b[9999;65535Hx\x1b[6n");
    assert_eq!(terminal.size().cols(), u16::MAX);
    assert!(terminal.size().rows() >= 100);
    for cols in [10_000, 1, 10_000, 3] {
        terminal.resize(Size::new(cols, 50));
        terminal.process("漢text\r\n".repeat(100).as_bytes());
    }
    assert!(terminal.contents_joined().contains("漢text"));
}

#[test]
fn a_frame_that_never_ends_is_shown_in_time() {
    let options = Options::default().with_sync_timeout(Duration::from_millis(30));
    let mut terminal = Emulator::with_options(Size::new(20, 2), options);
    terminal.process(b"before\x1b[?2026h\rafter!");
    let (held, generation) = (terminal.snapshot(), terminal.generation());
    assert_eq!((held.text().as_str(), terminal.is_synchronizing()), ("before", true));
    // The limit is real time: wait until it has passed, however long that takes.
    while terminal.is_synchronizing() {
        std::thread::yield_now();
    }
    assert_eq!(terminal.snapshot().text(), "after!");
    assert!(terminal.generation() > generation);
    terminal.process(b"\x1b[?2026l");
    assert_eq!(terminal.snapshot().text(), "after!");
}

#[test]
fn held_frames_are_the_last_whole_ones() {
    let options = Options::default().with_sync_timeout(Duration::from_secs(3600));
    let mut terminal = Emulator::with_options(Size::new(20, 5), options);
    let mut plain = Emulator::new(Size::new(20, 5));
    let frames = [
        "\x1b[Hone\r\ntwo",
        "\x1b[2;2H\x1b[31mX\x1b[m",
        "\r\n\n\n\n\n\nscrolled",
        "\x1b[?1049hother",
        "\x1b[3;3Hz\x1b[2L",
        "\x1b[?1049l",
        "\x1b[H\x1b[2J漢",
        "\x1b[2;4r\x1b[2;1H\x1bM!\x1b[r",
    ];
    for frame in frames.iter().cycle().take(40) {
        terminal.process(format!("\x1b[?2026h{frame}").as_bytes());
        let (held, before) = (terminal.snapshot(), plain.snapshot());
        assert_eq!((&held.lines, held.cursor), (&before.lines, before.cursor), "{frame:?}");
        plain.process(frame.as_bytes());
        terminal.process(b"\x1b[?2026l");
        assert_eq!(terminal.snapshot().lines, plain.snapshot().lines, "{frame:?}");
    }
}

#[test]
fn a_short_run_leaves_what_is_behind_it() {
    let mut whole = Emulator::new(Size::new(20, 1));
    whole.process("漢漢漢漢漢漢\r─a".as_bytes());
    let mut split = Emulator::new(Size::new(20, 1));
    for chunk in ["漢漢漢漢漢漢\r", "─", "a"] {
        split.process(chunk.as_bytes());
    }
    assert_eq!(whole.contents(), "─a漢漢漢漢漢");
    assert_eq!(whole.contents(), split.contents());
    whole.process("\r───".as_bytes());
    assert_eq!(whole.contents(), "─── 漢漢漢漢");
}
