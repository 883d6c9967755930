//! The state machine.

use super::utf8::{Decoded, decode, decode_run};
use super::{Handler, Params, Sequence};

/// Longest operating system or application program command that is reported; longer ones are dropped whole.
const MAX_STRING: usize = 64 << 10;
/// Characters that are decoded before they are handed over.
pub(super) const RUN: usize = 128;

const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
pub(super) const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
const ST: u8 = 0x9c;

/// Reads bytes and calls a [`Handler`].
#[derive(Clone, Debug)]
pub struct Parser {
    pub(super) state: State,
    pub(super) params: Params,
    pub(super) value: u16,
    /// The value has digits.
    digits: bool,
    sequence: Sequence,
    string: Vec<u8>,
    max_string: usize,
    too_long: bool,
    /// The byte before, within a string: U+009C is two bytes.
    before: u8,
    partial: [u8; 4],
    partial_len: u8,
    /// `ESC % @` makes every byte a character of Latin-1, `ESC % G` and a reset go back.
    utf8: bool,
    c1: bool,
    /// `CSI ? 2 l` leads to VT52 mode.
    knows_vt52: bool,
    /// Strings that do not end give way to text.
    recover: Option<usize>,
    string_len: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    DcsEntry,
    DcsParam,
    DcsIntermediate,
    DcsIgnore,
    DcsData,
    Osc,
    Apc,
    /// SOS or PM.
    Ignored,
    Vt52,
    Vt52Escape,
    Vt52Ignored,
    Vt52Row,
    Vt52Column,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            state: State::Ground,
            params: Params::default(),
            value: 0,
            digits: false,
            sequence: Sequence::default(),
            string: Vec::new(),
            max_string: MAX_STRING,
            too_long: false,
            before: 0,
            partial: [0; 4],
            partial_len: 0,
            utf8: true,
            c1: false,
            knows_vt52: false,
            recover: None,
            string_len: 0,
        }
    }
}

impl Parser {
    /// Creates a parser in its initial state: UTF-8, and C1 controls only as UTF-8 characters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bytes 0x80 to 0x9f, outside of UTF-8 characters, for C1 controls.
    #[must_use]
    pub fn with_8bit_controls(mut self, on: bool) -> Self {
        self.c1 = on;
        self
    }

    /// Follows the child to VT52 mode (`CSI ? 2 l`) and back (`ESC <`).
    #[must_use]
    pub fn with_vt52(mut self, on: bool) -> Self {
        self.knows_vt52 = on;
        self
    }

    /// Reports operating system and application program commands up to `bytes` long; longer ones are dropped.
    #[must_use]
    pub fn with_string_limit(mut self, bytes: usize) -> Self {
        self.max_string = bytes;
        self
    }

    /// Ends strings without a terminator, so that they do not swallow the text behind them: all at `bytes`, and all
    /// but images at a line feed. Other sequences end at a character beyond ASCII.
    #[must_use]
    pub fn with_string_recovery(mut self, bytes: usize) -> Self {
        self.recover = Some(bytes);
        self
    }

    /// Creates a parser with the same options in its initial state.
    #[must_use]
    pub fn fresh(&self) -> Self {
        // Options are the embedder's and stay. All else is the child's.
        let (max_string, c1, recover) = (self.max_string, self.c1, self.recover);
        Self { max_string, c1, recover, knows_vt52: self.knows_vt52, ..Self::default() }
    }

    /// Gives up on a character that never ended: U+FFFD in its place.
    pub fn take_incomplete(&mut self) -> Vec<char> {
        if std::mem::take(&mut self.partial_len) > 0 { vec![char::REPLACEMENT_CHARACTER] } else { Vec::new() }
    }

    /// Returns true if the bytes so far end within a sequence or a character.
    #[must_use]
    pub fn is_mid_sequence(&self) -> bool {
        // Embedders that show the screen between reads skip those moments, which would flicker.
        !matches!(self.state, State::Ground | State::Vt52) || self.partial_len > 0
    }

    /// Returns the memory held beyond the parser itself, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.string.capacity()
    }

    /// Reads `bytes`.
    pub fn feed<H: Handler>(&mut self, bytes: &[u8], handler: &mut H) {
        // Once for all of the bytes, because clearing it takes time.
        let mut run = ['\0'; RUN];
        let mut rest = self.finish_character(bytes, handler);
        while let Some(&byte) = rest.first() {
            let used = match self.state {
                State::Ground => self.ground(rest, &mut run, handler),
                State::Osc | State::Apc | State::DcsData | State::Ignored | State::DcsIgnore => {
                    self.string(rest, handler)
                }
                State::Vt52 => self.vt52(rest, &mut run, handler),
                _ => self.sequence(byte, handler),
            };
            rest = rest.get(used..).unwrap_or(&[]);
        }
    }

    #[inline]
    fn ground<H: Handler>(&mut self, bytes: &[u8], run: &mut [char; RUN], handler: &mut H) -> usize {
        let mut rest = bytes;
        while let [byte, tail @ ..] = rest {
            match *byte {
                0x20..DEL => {
                    let (run, behind) = rest.split_at_checked(ascii_len(rest)).unwrap_or((rest, &[]));
                    handler.ascii(run);
                    rest = behind;
                }
                ESC => match self.whole_csi(tail, handler) {
                    Some(behind) => rest = behind,
                    None => {
                        self.enter(State::Escape);
                        rest = tail;
                        break;
                    }
                },
                0x80.. => {
                    let used = self.characters(rest, run, handler);
                    rest = rest.get(used..).unwrap_or(&[]);
                    if self.state != State::Ground {
                        break;
                    }
                }
                // VT100 manual: DEL is padding, and never shown.
                DEL => rest = tail,
                b'\r' if tail.first() == Some(&b'\n') => {
                    handler.line_end();
                    rest = tail.get(1..).unwrap_or(&[]);
                }
                _ => {
                    handler.control(*byte);
                    rest = tail;
                }
            }
        }
        bytes.len() - rest.len()
    }

    /// Reads a whole control sequence without anything unusual behind ESC. Returns the bytes after it.
    #[inline]
    fn whole_csi<'a, H: Handler>(&mut self, bytes: &'a [u8], handler: &mut H) -> Option<&'a [u8]> {
        // Nearly all sequences are whole and have nothing unusual. Those need no state. All others are left to the
        // machine, which reads byte by byte and never sees what was read here.
        let mut rest = bytes.strip_prefix(b"[")?;
        let mut marks = [0; 2];
        if let [mark @ b'<'..=b'?', tail @ ..] = rest {
            (marks, rest) = ([*mark, 0], tail);
        }
        let mut byte;
        (byte, rest) = self.params.read(rest)?;
        if let b' '..=b'/' = byte {
            marks = if marks == [0; 2] { [byte, 0] } else { [marks[0], byte] };
            // One more is all that there is, but for what nobody uses.
            (byte, rest) = rest.split_first().map(|(byte, tail)| (*byte, tail))?;
        }
        // The way to VT52 mode is the long one.
        if !(b'@'..=b'~').contains(&byte) || byte == b'l' && marks == [b'?', 0] && self.enters_vt52() {
            return None;
        }
        let sequence = Sequence { marks, last: byte, overflow: false };
        handler.csi(&self.params, sequence);
        Some(rest)
    }

    /// Decodes characters into `run` until something else comes. Returns the number of bytes read.
    pub(super) fn characters<H: Handler>(
        &mut self,
        bytes: &[u8],
        run: &mut [char; RUN],
        handler: &mut H,
    ) -> usize {
        let (mut len, mut rest) = (0, bytes);
        loop {
            if self.utf8 {
                let (chars, used) = decode_run(rest, run.get_mut(len..).unwrap_or(&mut []));
                len += chars;
                rest = rest.get(used..).unwrap_or(&[]);
            }
            let Some(&byte @ 0x80..) = rest.first() else { break };
            // The buffer is full. The caller comes back for the rest.
            let Some(slot) = run.get_mut(len) else { break };
            let decoded = if self.utf8 { decode(rest) } else { Decoded::Char(char::from(byte), 1) };
            let used = match decoded {
                // ISO 6429 has the C1 controls in UTF-8 as well, where they are two bytes and cannot be mistaken.
                Decoded::Char(c @ '\u{80}'..'\u{a0}', used) => {
                    flush(run, len, handler);
                    self.c1(c as u8, handler);
                    return bytes.len() - rest.len() + used;
                }
                Decoded::Char(c, used) => {
                    *slot = c;
                    used
                }
                Decoded::Invalid(_) if self.c1 && (0x80..0xa0).contains(&byte) => {
                    flush(run, len, handler);
                    self.c1(byte, handler);
                    return bytes.len() - rest.len() + 1;
                }
                Decoded::Invalid(used) => {
                    *slot = char::REPLACEMENT_CHARACTER;
                    used
                }
                // The chunk ends within a character. Its bytes wait for the next chunk, and are at most three.
                Decoded::Incomplete => {
                    for (slot, byte) in self.partial.iter_mut().zip(rest) {
                        *slot = *byte;
                    }
                    self.partial_len = rest.len() as u8;
                    flush(run, len, handler);
                    return bytes.len();
                }
            };
            len += 1;
            rest = rest.get(used..).unwrap_or(&[]);
        }
        flush(run, len, handler);
        bytes.len() - rest.len()
    }

    /// Completes a character that the last chunk ended in, and returns the rest of `bytes`.
    fn finish_character<'a, H: Handler>(&mut self, bytes: &'a [u8], handler: &mut H) -> &'a [u8] {
        let had = usize::from(self.partial_len);
        if had == 0 || bytes.is_empty() {
            return bytes;
        }
        // The bytes that came before and those that came now, decoded as one.
        let mut len = had;
        for (slot, byte) in self.partial.iter_mut().skip(had).zip(bytes) {
            *slot = *byte;
            len += 1;
        }
        let used = match decode(self.partial.get(..len).unwrap_or(&[])) {
            Decoded::Incomplete => {
                self.partial_len = len as u8;
                return &[];
            }
            Decoded::Char(c @ '\u{80}'..'\u{a0}', used) => {
                self.c1(c as u8, handler);
                used
            }
            Decoded::Char(c, used) => {
                handler.chars(&[c]);
                used
            }
            Decoded::Invalid(used) => {
                handler.chars(&[char::REPLACEMENT_CHARACTER]);
                used
            }
        };
        self.partial_len = 0;
        bytes.get(used.saturating_sub(had)..).unwrap_or(&[])
    }

    fn enter(&mut self, state: State) {
        self.params.clear();
        (self.value, self.digits, self.sequence, self.state) = (0, false, Sequence::default(), state);
    }

    fn enter_string(&mut self, state: State) {
        self.string.clear();
        // Long strings are rare. The memory of one is given back when the next begins.
        self.string.shrink_to(1 << 10);
        (self.too_long, self.before, self.state, self.string_len) = (false, 0, state, 0);
    }

    /// Takes a C1 control outside of any sequence.
    fn c1<H: Handler>(&mut self, byte: u8, handler: &mut H) {
        match byte {
            // A VT52 has none.
            _ if self.state == State::Vt52 => {}
            // These introduce sequences and strings. All others act by themselves.
            0x90 => self.enter(State::DcsEntry),
            0x9b => self.enter(State::CsiEntry),
            0x9d => self.enter_string(State::Osc),
            0x9f => self.enter_string(State::Apc),
            0x98 | 0x9e => self.enter_string(State::Ignored),
            // The end of a string that did not begin.
            ST => {}
            _ => handler.control(byte),
        }
    }

    /// Takes one byte within a sequence, and returns the number of bytes taken.
    fn sequence<H: Handler>(&mut self, byte: u8, handler: &mut H) -> usize {
        if self.recover.is_some() && self.cannot_have(byte) {
            self.state = State::Ground;
            return 0;
        }
        self.step(byte, handler);
        1
    }

    /// Returns true if this byte cannot be in the sequence, so that it begins text after a broken one.
    fn cannot_have(&self, byte: u8) -> bool {
        // A header of a string has no line feed; if it does, the string was never one.
        let string = matches!(self.state, State::DcsEntry | State::DcsParam | State::DcsIntermediate);
        byte >= 0x80 || string && byte == b'\n'
    }

    /// Takes one byte within an escape or control sequence, or the head of a device control string.
    fn step<H: Handler>(&mut self, byte: u8, handler: &mut H) {
        use State::*;
        match (self.state, byte) {
            (Vt52Escape | Vt52Ignored | Vt52Row | Vt52Column, _) => self.vt52_step(byte, handler),
            // ESC gives up any sequence and begins another (DEC STD 070).
            (_, ESC) => self.enter(Escape),
            // CAN and SUB give a sequence up. On a VT100, SUB also showed that an error happened.
            (_, CAN | SUB) => {
                self.state = Ground;
                handler.control(byte);
            }
            (DcsEntry | DcsParam | DcsIntermediate, 0..0x20) | (_, DEL..) => {}
            // Controls within a sequence act at once, and the sequence goes on (VT100). Only a string swallows them.
            (_, 0..0x20) => handler.control(byte),

            (Escape, b'[') => self.enter(CsiEntry),
            (Escape, b']') => self.enter_string(Osc),
            (Escape, b'P') => self.enter(DcsEntry),
            // APC is read for kitty's images. SOS and PM have no use that is known of.
            (Escape, b'_') => self.enter_string(Apc),
            (Escape, b'X' | b'^') => self.enter_string(Ignored),
            (Escape | EscapeIntermediate, 0x20..0x30) => {
                self.mark(byte);
                self.state = EscapeIntermediate;
            }
            (Escape | EscapeIntermediate, _) => {
                self.sequence.last = byte;
                self.state = Ground;
                // The coding of the stream changes at once: the next byte is read by it already.
                match (self.sequence.marks, byte) {
                    ([b'%', 0], b'@') => self.utf8 = false,
                    ([b'%', 0], b'G') | ([0, 0], b'c') => self.utf8 = true,
                    _ => {}
                }
                handler.esc(self.sequence);
            }

            // The final byte of a sequence that nobody asked for.
            (CsiIgnore, 0x40..) => self.state = Ground,
            (CsiIgnore, _) => {}
            (CsiEntry | CsiParam | CsiIntermediate, 0x40..) => {
                self.close(byte);
                // The next byte is read in this state, whatever the handler does now.
                let vt52 = self.sequence == Sequence { marks: [b'?', 0], last: b'l', overflow: false };
                self.state = if vt52 && self.enters_vt52() { Vt52 } else { Ground };
                handler.csi(&self.params, self.sequence);
            }
            (DcsEntry | DcsParam | DcsIntermediate, 0x40..) => {
                self.close(byte);
                self.enter_string(DcsData);
                handler.dcs_start(&self.params, self.sequence);
            }
            (CsiEntry | CsiParam | CsiIntermediate, 0x20..0x30) => {
                self.mark(byte);
                self.state = CsiIntermediate;
            }
            (DcsEntry | DcsParam | DcsIntermediate, 0x20..0x30) => {
                self.mark(byte);
                self.state = DcsIntermediate;
            }
            // A parameter behind an intermediate, or a private mark behind a parameter: nothing that is defined. The
            // sequence is read to its end and dropped.
            (CsiIntermediate, _) | (CsiParam, b'<'..) => self.state = CsiIgnore,
            (DcsIntermediate, _) | (DcsParam, b'<'..) => self.enter_string(DcsIgnore),
            (CsiEntry | CsiParam, _) => {
                self.param(byte);
                self.state = CsiParam;
            }
            (DcsEntry | DcsParam, _) => {
                self.param(byte);
                self.state = DcsParam;
            }
            (Ground | Osc | Apc | DcsData | DcsIgnore | Ignored | Vt52, _) => {}
        }
    }

    /// Returns true if a reset of these modes enters VT52 mode.
    #[cold]
    fn enters_vt52(&self) -> bool {
        self.knows_vt52 && self.params.values().contains(&2)
    }

    fn mark(&mut self, byte: u8) {
        match self.sequence.marks.iter_mut().find(|mark| **mark == 0) {
            Some(mark) => *mark = byte,
            None => self.sequence.overflow = true,
        }
    }

    fn param(&mut self, byte: u8) {
        match byte {
            b'<'..=b'?' => self.mark(byte),
            _ if self.params.is_full() => self.sequence.overflow = true,
            b'0'..=b'9' => {
                self.value = self.value.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                self.digits = true;
            }
            _ => {
                self.push_value(byte == b':');
            }
        }
    }

    fn push_value(&mut self, next_is_sub: bool) -> bool {
        if !std::mem::take(&mut self.digits) {
            self.params.leave_out();
        }
        self.params.push(std::mem::take(&mut self.value), next_is_sub)
    }

    fn close(&mut self, last: u8) {
        if !self.push_value(false) {
            self.sequence.overflow = true;
        }
        self.sequence.last = last;
    }

    /// Reads on in a string. Returns the number of bytes read.
    fn string<H: Handler>(&mut self, bytes: &[u8], handler: &mut H) -> usize {
        // What neither ends nor interrupts the string is taken at once.
        let mut len = bytes.iter().take_while(|&&byte| byte >= 0x20 && byte != DEL && byte != ST).count();
        // For the sanitiser: output that was cut off inside of a string would otherwise be lost up to its end.
        if let Some(most) = self.recover {
            len = len.min(most - self.string_len);
            let image =
                self.state == State::DcsData && self.sequence.last == b'q' && self.sequence.marks == [0, 0];
            if self.string_len == most || bytes.first() == Some(&b'\n') && !image {
                self.end_string(false, false, handler);
                self.state = State::Ground;
                return 0;
            }
            self.string_len += len.max(1);
        }
        if let Some(run @ [.., last]) = bytes.get(..len) {
            self.before = *last;
            self.string_data(run, handler);
            return len;
        }
        let Some(&byte) = bytes.first() else { return 0 };
        match byte {
            // ESC ends the string, whatever comes next. The backslash of ST is then a sequence that does nothing.
            ESC => {
                self.end_string(true, false, handler);
                self.enter(State::Escape);
            }
            CAN | SUB => {
                self.end_string(false, false, handler);
                self.state = State::Ground;
                handler.control(byte);
            }
            // BEL is xterm's older terminator, for operating system commands alone.
            0x07 if self.state == State::Osc => {
                self.end_string(true, true, handler);
                self.state = State::Ground;
            }
            // U+009C is two bytes in UTF-8. A single 0x9c may be the middle of any character, such as one in a title.
            ST if self.before == 0xc2 || self.c1 && self.before < 0x80 => {
                if self.before == 0xc2 && self.string.last() == Some(&0xc2) {
                    self.string.pop();
                }
                self.end_string(true, false, handler);
                self.state = State::Ground;
            }
            0..0x20 if self.state == State::DcsData => handler.dcs_data(&[byte]),
            DEL if self.state == State::Osc => self.string_data(&[byte], handler),
            ST => self.string_data(&[byte], handler),
            _ => {}
        }
        self.before = byte;
        1
    }

    fn string_data<H: Handler>(&mut self, data: &[u8], handler: &mut H) {
        match self.state {
            // In pieces, as they come: device control strings can be as long as an image, and most are of no
            // interest.
            State::DcsData => handler.dcs_data(data),
            State::Osc | State::Apc if self.string.len() + data.len() <= self.max_string => {
                self.string.extend_from_slice(data)
            }
            State::Osc | State::Apc => {
                // What came so far is dropped at once, so the rest of a flood takes no memory.
                self.too_long = true;
                self.string = Vec::new();
            }
            _ => {}
        }
    }

    fn end_string<H: Handler>(&mut self, terminated: bool, bell: bool, handler: &mut H) {
        match self.state {
            // Handlers hear of a cut one too, because they were given its beginning.
            State::DcsData => handler.dcs_end(terminated),
            State::Osc if terminated && !self.too_long => handler.osc(&self.string, bell),
            State::Apc if terminated && !self.too_long => handler.apc(&self.string),
            _ => {}
        }
    }
}

fn flush<H: Handler>(run: &[char], len: usize, handler: &mut H) {
    // Handlers are promised at least one character.
    if let Some(run @ [_, ..]) = run.get(..len) {
        handler.chars(run);
    }
}

/// Returns the number of printable ASCII bytes at the start.
#[inline]
fn ascii_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut len = 0;
    for word in words {
        // Eight bytes at a time. Stable Rust has no portable vectors, and this is what compilers make vectors of.
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte that is too low, DEL, or not ASCII; exact up to the first such byte.
        let control = word.wrapping_sub(0x20 * ONES) & !word;
        let delete = (word ^ (0x7f * ONES)).wrapping_sub(ONES) & !(word ^ (0x7f * ONES));
        let other = (word | control | delete) & HIGH;
        if other != 0 {
            return len + (other.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + tail.iter().take_while(|byte| byte.wrapping_sub(0x20) < 0x5f).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_ascii_ends_where_it_ends() {
        for byte in 0..=255_u8 {
            for at in 0..20 {
                let mut bytes = [b'~'; 20];
                bytes[at] = byte;
                let want = bytes.iter().position(|byte| !(0x20..0x7f).contains(byte)).unwrap_or(20);
                assert_eq!(ascii_len(&bytes), want, "{byte:x} at {at}");
            }
        }
    }
}
