//! Any bytes at any size, with resizes between: nothing panics, and any chunking gives the same terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchfire_term::{Emulator, Options, Size, Terminal};

fuzz_target!(|data: &[u8]| {
    let [cols, rows, flags, chunk, rest @ ..] = data else { return };
    let options = Options::default()
        .with_scrollback(usize::from(*flags), 1 << 16)
        .with_c1_controls(flags & 1 != 0)
        .with_child_resize(flags & 2 != 0)
        .with_graphemes(flags & 4 != 0)
        // Frames are held for ever, so that time makes no difference.
        .with_sync_timeout(std::time::Duration::from_secs(1 << 30));
    let size = Size::new(u16::from(*cols % 40), u16::from(*rows % 20));
    let mut whole = Emulator::with_options(size, options.clone());
    let mut pieces = Emulator::with_options(size, options);
    // The byte 0xff, which no text has, resizes.
    for part in rest.split(|byte| *byte == 0xff) {
        let [cols, rows, text @ ..] = part else { continue };
        whole.process(text);
        text.chunks(usize::from(*chunk).max(1)).for_each(|piece| pieces.process(piece));
        let (a, b) = (whole.snapshot(), pieces.snapshot());
        assert_eq!((&a.lines, a.cursor), (&b.lines, b.cursor));
        assert_eq!(whole.take_replies(), pieces.take_replies());
        assert_eq!(whole.scrollback_len(), pieces.scrollback_len());
        for terminal in [&mut whole, &mut pieces] {
            terminal.resize(Size::new(u16::from(*cols % 40), u16::from(*rows % 20)));
        }
    }
    assert_eq!(whole.scrollback_rows(0..usize::MAX), pieces.scrollback_rows(0..usize::MAX));
    let _ = (whole.contents_joined(), whole.redraw(), whole.prompt_marks());
});
