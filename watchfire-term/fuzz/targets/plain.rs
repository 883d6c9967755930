//! The sanitiser: its text is tame, and the same at any chunking.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchfire_term::plain::{PlainText, strip};

fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let whole = strip(bytes);
    assert!(!whole.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{whole:?}");
    let mut plain = PlainText::new();
    let mut text: String = bytes.chunks(usize::from(*chunk).max(1)).map(|piece| plain.feed(piece)).collect();
    text += &plain.finish();
    assert_eq!(text, whole);
});
