//! A redraw, into a fresh terminal with any other options, shows the same and takes what comes next the same way.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use watchfire_term::{Emulator, Options, Size, Terminal};

/// Every option that changes what bytes do to the picture.
fn options(bits: u8) -> Options {
    Options::default()
        .with_graphemes(bits & 1 != 0)
        .with_emoji_presentation(bits & 2 != 0)
        .with_c1_controls(bits & 4 != 0)
        .with_child_resize(bits & 8 != 0)
        // Frames are held for ever, so that time makes no difference.
        .with_sync_timeout(Duration::from_secs(1 << 30))
}

fuzz_target!(|data: &[u8]| {
    let [cols, rows, bits, output @ ..] = data else { return };
    let size = Size::new(u16::from(*cols % 40), u16::from(*rows % 20));
    let mut terminal = Emulator::with_options(size, options(bits & 15));
    // The byte 0xff, which no text has, resizes.
    for part in output.split(|byte| *byte == 0xff) {
        let [cols, rows, text @ ..] = part else { continue };
        terminal.resize(Size::new(u16::from(*cols % 40), u16::from(*rows % 20)));
        terminal.process(text);
    }
    // What is unfinished is not redrawn: sequences, characters, graphemes and frames.
    terminal.process(b"\x18\x1b\\\x1b[?2026l");
    // In VT52 mode that is text, and no sequence ends a frame.
    if terminal.is_synchronizing() {
        terminal.process(b"\x1b<\x1b[?2026l");
    }
    let mut other = Emulator::with_options(terminal.size(), options(bits >> 4));
    other.process(&terminal.redraw());
    for probe in ["", "x漢"] {
        terminal.process(probe.as_bytes());
        other.process(probe.as_bytes());
        let (a, b) = (terminal.snapshot(), other.snapshot());
        assert_eq!((&a.lines, a.cursor, a.modes), (&b.lines, b.cursor, b.modes), "after {probe:?}");
        assert_eq!(a.title, b.title);
    }
});
