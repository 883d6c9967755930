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

use proptest::prelude::*;
use watchfire_term::parser::{Handler, Params, Parser, Sequence};

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Print(char),
    Execute(u8),
    Csi(Vec<Vec<u16>>, Vec<u8>, bool, u8),
    Esc(Vec<u8>, u8),
    Osc(Vec<Vec<u8>>, bool),
    Hook(Vec<Vec<u16>>, Vec<u8>, bool, u8),
    Put(u8),
    Unhook,
}

#[derive(Default)]
struct Ours(Vec<Event>);

fn groups(params: &Params) -> Vec<Vec<u16>> {
    let mut groups: Vec<Vec<u16>> = Vec::new();
    for (index, value) in params.values().iter().enumerate() {
        match groups.last_mut() {
            Some(group) if params.is_sub(index) => group.push(*value),
            _ => groups.push(vec![*value]),
        }
    }
    groups
}

fn marks(sequence: Sequence) -> Vec<u8> {
    sequence.marks.into_iter().filter(|mark| *mark != 0).collect()
}

impl Handler for Ours {
    fn ascii(&mut self, run: &[u8]) {
        assert!(!run.is_empty());
        self.0.extend(run.iter().map(|byte| Event::Print(char::from(*byte))));
    }
    fn chars(&mut self, run: &[char]) {
        assert!(!run.is_empty());
        self.0.extend(run.iter().map(|c| Event::Print(*c)));
    }
    fn control(&mut self, byte: u8) {
        forget_cut_off(&mut self.0, byte);
        self.0.push(Event::Execute(byte));
    }
    fn csi(&mut self, params: &Params, sequence: Sequence) {
        self.0.push(Event::Csi(groups(params), marks(sequence), sequence.overflow, sequence.last));
    }
    fn esc(&mut self, sequence: Sequence) {
        self.0.push(Event::Esc(marks(sequence), sequence.last));
    }
    fn osc(&mut self, data: &[u8], bell: bool) {
        let parts = data.split(|byte| *byte == b';').take(16).map(<[u8]>::to_vec).collect();
        self.0.push(Event::Osc(parts, bell));
    }
    fn dcs_start(&mut self, params: &Params, sequence: Sequence) {
        self.0.push(Event::Hook(groups(params), marks(sequence), sequence.overflow, sequence.last));
    }
    fn dcs_data(&mut self, data: &[u8]) {
        self.0.extend(data.iter().filter(|byte| **byte < 0x80).map(|byte| Event::Put(*byte)));
    }
    fn dcs_end(&mut self, _: bool) {
        self.0.push(Event::Unhook);
    }
}

/// `vte` reports a command that CAN or SUB cut off. It looks like one that an escape sequence without an event ended, so
/// none of them counts, on either side.
fn forget_cut_off(events: &mut Vec<Event>, byte: u8) {
    while matches!(byte, 0x18 | 0x1a) && matches!(events.last(), Some(Event::Osc(_, false))) {
        events.pop();
    }
}

#[derive(Default)]
struct Theirs(Vec<Event>);

impl vte::Perform for Theirs {
    fn print(&mut self, c: char) {
        if c != '\x7f' {
            self.0.push(Event::Print(c));
        }
    }
    fn execute(&mut self, byte: u8) {
        forget_cut_off(&mut self.0, byte);
        self.0.push(Event::Execute(byte));
    }
    fn hook(&mut self, params: &vte::Params, marks: &[u8], ignore: bool, last: char) {
        let groups = params.iter().map(<[u16]>::to_vec).collect();
        self.0.push(Event::Hook(groups, marks.to_vec(), ignore, last as u8));
    }
    fn put(&mut self, byte: u8) {
        self.0.push(Event::Put(byte));
    }
    fn unhook(&mut self) {
        self.0.push(Event::Unhook);
    }
    fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
        self.0.push(Event::Osc(params.iter().map(|part| part.to_vec()).collect(), bell));
    }
    fn csi_dispatch(&mut self, params: &vte::Params, marks: &[u8], ignore: bool, last: char) {
        let groups = params.iter().map(<[u16]>::to_vec).collect();
        self.0.push(Event::Csi(groups, marks.to_vec(), ignore, last as u8));
    }
    fn esc_dispatch(&mut self, marks: &[u8], _: bool, last: u8) {
        self.0.push(Event::Esc(marks.to_vec(), last));
    }
}

fn ours(bytes: &[u8], chunk: usize) -> Vec<Event> {
    let (mut parser, mut events) = (Parser::new(), Ours::default());
    bytes.chunks(chunk.max(1)).for_each(|chunk| parser.feed(chunk, &mut events));
    events.0
}

fn theirs(bytes: &[u8]) -> Vec<Event> {
    let (mut parser, mut events) = (vte::Parser::new(), Theirs::default());
    parser.advance(&mut events, bytes);
    events.0
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
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parser_reports_what_vte_reports(pieces in prop::collection::vec(piece(), 1..12), chunk in 1_usize..40) {
        let mut bytes = pieces.concat();
        while let Some(at) = bytes.windows(3).position(|part| part == b"\x1b%@") {
            bytes.drain(at..at + 3);
        }
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
