//! The binary form: any bytes are survived by its decoder, and any screens come back from it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchfire_term::{Emulator, Size, Terminal, wire};

fuzz_target!(|data: &[u8]| {
    let [cols, rows, split, rest @ ..] = data else { return };
    let mut terminal = Emulator::new(Size::new(u16::from(*cols % 40), u16::from(*rows % 20)));
    let (output, message) = rest.split_at(usize::from(*split).min(rest.len()));
    let mut last = terminal.snapshot();
    for piece in output.chunks(16) {
        terminal.process(piece);
        let now = terminal.snapshot();
        assert_eq!(wire::decode(&wire::encode(&now)).unwrap(), *now);
        assert_eq!(wire::decode_change(&last, &wire::encode_change(&last, &now)).unwrap(), *now);
        last = now;
    }
    // What follows is a message, as it is and with the head of each kind.
    for head in [&[][..], &[1, 0], &[1, 1, last.generation.0 as u8], &[1, 2]] {
        let bytes = [head, message].concat();
        if let Ok(screen) = wire::decode_change(&last, &bytes) {
            assert_eq!(wire::decode(&wire::encode(&screen)).unwrap(), screen);
            assert_eq!(wire::decode_change(&last, &wire::encode_change(&last, &screen)).unwrap(), screen);
        }
        if let Ok(lines) = wire::decode_lines(&bytes) {
            assert_eq!(wire::decode_lines(&wire::encode_lines(&lines)).unwrap(), lines);
        }
    }
});
