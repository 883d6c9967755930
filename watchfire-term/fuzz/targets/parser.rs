//! Our parser and `vte`, event by event; then ours at any chunking.

#![no_main]

#[path = "../../tests/differential/compare.rs"]
mod compare;

use compare::{ours, theirs, without_other_coding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let chunk = usize::from(*chunk).max(1);
    assert_eq!(ours(bytes, chunk), ours(bytes, bytes.len()));
    // Without what differs on purpose, as `tests/differential` lists it.
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| {
            !('\u{80}'..='\u{9f}').contains(c) && !c.encode_utf8(&mut [0; 4]).as_bytes().contains(&0x9c)
        })
        .collect();
    let text = without_other_coding(text.into_bytes());
    assert_eq!(ours(&text, chunk), theirs(&text), "{}", text.escape_ascii());
});
