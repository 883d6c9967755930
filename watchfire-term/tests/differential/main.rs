//! The parser against `vte`, event by event, at any chunking of ours.
//!
//! Deliberate differences, which the comparison makes equal:
//! - `vte` prints DEL and we drop it, as terminals do;
//! - `vte` executes C1 controls, raw or as UTF-8, and we let those that introduce a sequence do so, and take raw
//!   ones for invalid UTF-8 unless asked; so the input has none of either;
//! - `vte` runs an operating system command that CAN or SUB cut off, and we drop it, as xterm does;
//! - `vte` ends a device control string at the byte 0x9c, which may be part of a character, and we do not;
//!   it drops bytes from 0x80 in one, which we pass on; so no character here has the first, and the others are not compared;
//! - `vte` 0.15 loses a character after one that was split over two calls; so it gets everything at once;
//! - `ESC % @` ends UTF-8 for us, as for xterm, and not for `vte`; so the input does not have it;
//! - `vte` cuts commands into at most 16 parts; we report them whole, and are cut here the same way.

mod compare;

use compare::{ours, theirs, without_other_coding};
use proptest::prelude::*;

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 100_000 } else { 3_000 }
}

/// Pieces of streams; sequences need not be whole.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let digits = "[0-9;:]{0,12}";
    prop_oneof![
        4 => "[ -~]{1,20}".prop_map(String::into_bytes),
        2 => "[\\x00-\\x7f]{1,4}".prop_map(String::into_bytes),
        2 => "[¡-ÿЀ-ӿ一-龥😀-🙏a-z]{1,20}".prop_map(|text| {
            text.chars().filter(|c| !c.encode_utf8(&mut [0; 4]).as_bytes().contains(&0x9c)).collect::<String>().into_bytes()
        }),
        4 => (digits, "[<=>?]?", "[ -/]{0,3}", "[@-~]").prop_map(|(params, private, marks, last)| {
            format!("\x1b[{private}{params}{marks}{last}").into_bytes()
        }),
        1 => "[0-9;:<=>?]{0,80}".prop_map(|params| format!("\x1b[{params}m").into_bytes()),
        1 => "[ -/]{0,3}[0-~]".prop_map(|rest| format!("\x1b{rest}").into_bytes()),
        1 => ("[ -~é漢]{0,30}", "\x07|\x1b\\\\|\x18|").prop_map(|(data, end)| {
            format!("\x1b]{data}{end}").into_bytes()
        }),
        1 => ("[0-9;]{0,4}[$+]?[@-~]", "[ -~\n]{0,30}", "\x1b\\\\|\x18|").prop_map(|(head, data, end)| {
            format!("\x1bP{head}{data}{end}").into_bytes()
        }),
        1 => ("[X^_]", "[ -~]{0,20}").prop_map(|(kind, data)| format!("\x1b{kind}{data}\x1b\\").into_bytes()),
        // Broken UTF-8 that does not look like C1, behind a character so that nothing else reads it.
        1 => prop::sample::select(vec![&b"\x1b\\\xc3("[..], b"\x1b\\\xe2\x82.", b"\x1b\\\xf0\xa4\xad.", b"\x1b\\\xff\xfe", b"\x1b\\\xc0\xaf"])
            .prop_map(<[u8]>::to_vec),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parser_reports_what_vte_reports(pieces in prop::collection::vec(piece(), 1..12), chunk in 1_usize..40) {
        let bytes = without_other_coding(pieces.concat());
        let want = theirs(&bytes);
        prop_assert_eq!(ours(&bytes, bytes.len()), want.clone(), "{}", bytes.escape_ascii());
        prop_assert_eq!(ours(&bytes, chunk), want, "chunks of {}: {}", chunk, bytes.escape_ascii());
    }

    #[test]
    fn any_bytes_give_the_same_events_at_any_chunking(bytes in prop::collection::vec(any::<u8>(), 0..200), chunk in 1_usize..20) {
        prop_assert_eq!(ours(&bytes, chunk), ours(&bytes, bytes.len().max(1)));
    }
}

#[test]
fn a_character_after_a_split_one_is_kept() {
    // Where vte 0.15 loses one.
    let bytes = "é漢x😀y".as_bytes();
    for chunk in 1..bytes.len() {
        assert_eq!(ours(bytes, chunk), theirs(bytes), "chunks of {chunk}");
    }
}
