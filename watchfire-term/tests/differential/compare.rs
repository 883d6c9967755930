//! What our parser and `vte` make of bytes, in the same words.

use watchfire_term::parser::{Handler, Params, Parser, Sequence};

/// What both parsers report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
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

/// What our parser reports of `bytes` in pieces of `chunk`.
pub(crate) fn ours(bytes: &[u8], chunk: usize) -> Vec<Event> {
    let (mut parser, mut events) = (Parser::new(), Ours::default());
    bytes.chunks(chunk.max(1)).for_each(|chunk| parser.feed(chunk, &mut events));
    events.0
}

/// What `vte` reports of them.
pub(crate) fn theirs(bytes: &[u8]) -> Vec<Event> {
    let (mut parser, mut events) = (vte::Parser::new(), Theirs::default());
    parser.advance(&mut events, bytes);
    events.0
}

/// The same bytes without `ESC % @`, which may have controls between, by another mark in place of the second.
pub(crate) fn without_other_coding(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.contains(&b'@') {
        bytes.iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'$');
    }
    bytes
}
