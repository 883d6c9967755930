//! Answers. Nothing that the child planted goes into them: titles, names and links are never told back.

use crate::draw::spell;
use crate::parser::Params;
use crate::state::modes::{Mode, Modes};
use crate::state::{Dcs, Protect, State};

impl State {
    /// Answers with a control sequence.
    pub(crate) fn reply_csi(&mut self, rest: &str) {
        // 8-bit controls (S8C1T) are possible only where the embedder takes C1 controls as bytes. In UTF-8 they would
        // be errors.
        let introducer: &[u8] = if self.eight_bit_replies { b"\x9b" } else { b"\x1b[" };
        self.reply(&[introducer, rest.as_bytes()].concat());
    }

    /// Answers with a device control string.
    pub(crate) fn reply_dcs(&mut self, rest: &str) {
        let (introducer, end): (&[u8], &[u8]) =
            if self.eight_bit_replies { (b"\x90", b"\x9c") } else { (b"\x1bP", b"\x1b\\") };
        self.reply(&[introducer, rest.as_bytes(), end].concat());
    }

    /// Answers with an operating system command, ended like the question.
    pub(crate) fn reply_osc(&mut self, rest: &str, bell: bool) {
        let (introducer, st): (&[u8], &[u8]) =
            if self.eight_bit_replies { (b"\x9d", b"\x9c") } else { (b"\x1b]", b"\x1b\\") };
        let end = if bell { b"\x07" } else { st };
        self.reply(&[introducer, rest.as_bytes(), end].concat());
    }

    /// DA1, DA2 and DA3: reports what the terminal is.
    pub(crate) fn device_attributes(&mut self, mark: u8, params: &Params) {
        // ECMA-48: 0 asks, and any other value is an answer. To answer those would let two terminals talk for ever.
        if params.value(0) != 0 {
            return;
        }
        let identity = self.options.identity.clone();
        match mark {
            0 => self.reply_csi(&format!("?{}c", identity.primary)),
            b'>' => self.reply_csi(&format!(">{}c", identity.secondary)),
            _ if self.level < 4 => {}
            _ => self.reply_dcs(&format!("!|{}", identity.tertiary)),
        }
    }

    pub(crate) fn version(&mut self) {
        // The embedder's text, which no child had a hand in.
        let version = self.options.identity.version.clone();
        self.reply_dcs(&format!(">|{version}"));
    }

    /// DSR and its DEC variants: reports the status.
    pub(crate) fn status(&mut self, private: bool, params: &Params) {
        let place = format!("{};{}", self.own_row() + 1, self.own_col() + 1);
        // Each generation of terminals knew more to ask for.
        match (private, params.value(0), self.level) {
            (false, 5, _) => self.reply_csi("0n"),
            (false, 6, _) => self.reply_csi(&format!("{place}R")),
            (true, 5, _) => self.reply_csi("?0n"),
            // DECXCPR has the page at its end since the VT3xx.
            (true, 6, ..3) => self.reply_csi(&format!("?{place}R")),
            (true, 6, _) => self.reply_csi(&format!("?{place};1R")),
            // No printer, unlocked keys, a North American keyboard, no locator.
            (true, 15, 2..) => self.reply_csi("?13n"),
            (true, 25, 2..) => self.reply_csi("?20n"),
            (true, 26, 2) => self.reply_csi("?27;1n"),
            (true, 26, 3) => self.reply_csi("?27;1;0n"),
            (true, 26, 4..) => self.reply_csi("?27;1;0;0n"),
            (true, 53 | 55, 3..) => self.reply_csi("?50n"),
            (true, 56, 3..) => self.reply_csi("?57;0n"),
            // No room for macros, whose checksum is zero; no errors; one session.
            (true, 62, 4..) => self.reply_csi("0000*{"),
            (true, 63, 4..) => {
                let id = params.value(1);
                self.reply_dcs(&format!("{id}!~0000"));
            }
            (true, 75, 4..) => self.reply_csi("?70n"),
            (true, 85, 4..) => self.reply_csi("?83n"),
            (true, 996, _) => self.color_scheme(),
            _ => {}
        }
    }

    /// Mode 2031 and its query: reports the colour scheme, 1 dark, 2 light.
    pub(crate) fn color_scheme(&mut self) {
        // Contour's numbers, which others took over.
        let scheme = if self.options.colors.is_dark() { 1 } else { 2 };
        self.reply_csi(&format!("?997;{scheme}n"));
    }

    /// DECRQM: reports a mode.
    pub(crate) fn mode_report(&mut self, private: bool, number: u16) {
        let known = if private { self.dec_mode(number) } else { Modes::ansi(number) };
        // 0 not known, 1 set, 2 reset, 3 always set, 4 always reset.
        let value = match (known, private, number) {
            // Keys do not repeat where there are none; nothing is logged; the page is what is seen of it.
            (_, true, 8 | 46 | 60) => 4,
            (Some(mode), ..) => 2 - u8::from(self.on(mode)),
            (None, true, 2 | 1048) => 1,
            (None, true, 13 | 38 | 80 | 1050 | 1051 | 1060 | 1061) => 2,
            (None, true, 14) => 3,
            (None, false, 3) => 2,
            (None, false, 1 | 5 | 7 | 10 | 11 | 13..=19) => 4,
            _ => 0,
        };
        self.reply_csi(&format!("{}{number};{value}$y", if private { "?" } else { "" }));
    }

    /// Returns the mode of a number, if the level in force has it.
    pub(crate) fn dec_mode(&self, number: u16) -> Option<Mode> {
        let since = match number {
            42 => 2,
            69 => 4,
            95 => 5,
            _ => 1,
        };
        Modes::dec(number).filter(|_| self.level >= since)
    }

    /// DECREQTPARM: reports the parameters of the line.
    pub(crate) fn terminal_parameters(&mut self, value: u16) {
        if value <= 1 {
            self.reply_csi(&format!("{};1;1;128;128;1;0x", value + 2));
        }
    }

    /// DECRQSS: reports the sequence that makes a setting.
    pub(crate) fn setting(&mut self, request: &[u8]) {
        let (margins, rows, cols) = (self.margins, self.rows(), self.cols());
        let answer = match request {
            b"m" => format!("{}m", spell::describe(self.look)),
            b"r" => format!("{};{}r", margins.top + 1, margins.bottom),
            b"s" if self.level >= 4 => format!("{};{}s", margins.left + 1, margins.right),
            b"t" => format!("{rows}t"),
            b"$|" => format!("{cols}$|"),
            b"*|" => format!("{rows}*|"),
            b" q" => format!("{} q", self.cursor_style_number()),
            b"\"q" => format!("{}\"q", u8::from(self.protect == Protect::Dec && self.protected)),
            // A VT100 has no levels and does not answer.
            b"\"p" if self.level == 1 => return,
            b"\"p" => format!("6{};{}\"p", self.level, u8::from(!self.eight_bit_replies)),
            b"*x" => format!("{}*x", self.change_extent),
            // There is no status line to show or to write to.
            b"$}" => "0$}".into(),
            b"$~" => "0$~".into(),
            _ => return self.reply_dcs("0$r"),
        };
        self.reply_dcs(&format!("1$r{answer}"));
    }

    fn cursor_style_number(&self) -> u8 {
        match self.cursor_style {
            0 => 2 - u8::from(self.on(Mode::CursorBlink)),
            style => style.div_ceil(2) * 2 - u8::from(self.on(Mode::CursorBlink)),
        }
    }

    /// XTSMGRAPHICS: reports that there are no graphics.
    pub(crate) fn graphics_attributes(&mut self, item: u16) {
        // 3: it failed. 1: no such item. A child that asks for sixel colours learns that there are none.
        let status = if matches!(item, 1 | 2) { 3 } else { 1 };
        self.reply_csi(&format!("?{item};{status}S"));
    }

    /// DECRQPSR: reports the cursor (1) or the tab stops (2).
    pub(crate) fn presentation(&mut self, kind: u16) {
        match kind {
            1 => {
                let attributes = self.look.attributes().bits();
                let bit = |attribute: watchfire_core::terminal::Attributes, value: u8| {
                    if attributes & attribute.bits() != 0 { value } else { 0 }
                };
                use watchfire_core::terminal::Attributes as A;
                let underline = if self.look.bits() >> 8 != 0 { 2 } else { 0 };
                let rendition = bit(A::BOLD, 1) | underline | bit(A::BLINK, 4) | bit(A::INVERSE, 8);
                let flags = u8::from(self.on(Mode::Origin))
                    | if self.charsets.single == Some(2) { 2 } else { 0 }
                    | if self.charsets.single == Some(3) { 4 } else { 0 }
                    | if self.wrap { 8 } else { 0 };
                let names: String = self.charsets.sets.iter().map(|set| set.name()).collect();
                let wide = self.charsets.sets.iter().enumerate().fold(0, |bits, (index, set)| {
                    bits | u8::from(*set == crate::state::charset::Charset::Latin1) << index
                });
                // DECCIR. Sets of bits are added to 0x40, so that all of the report is printable (VT420 manual).
                self.reply_dcs(&format!(
                    "1$u{};{};1;{};{};{};{};{};{};{names}",
                    self.row + 1,
                    self.col + 1,
                    char::from(0x40 | rendition),
                    char::from(0x40 | u8::from(self.protected && self.protect == Protect::Dec)),
                    char::from(0x40 | flags),
                    self.charsets.left,
                    self.charsets.right.unwrap_or(2),
                    char::from(0x40 | wide),
                ));
            }
            2 => {
                let stops: Vec<_> = self.tabs.stops().map(|col| (col + 1).to_string()).collect();
                self.reply_dcs(&format!("2$u{}", stops.join("/")));
            }
            _ => {}
        }
    }

    /// DECRSPS: restores the state from a presentation report.
    fn restore_presentation(&mut self, kind: u16, data: &[u8]) {
        let Ok(data) = str::from_utf8(data) else { return };
        match kind {
            2 => {
                self.tabs.clear();
                for stop in data.split('/').filter_map(|stop| stop.parse::<usize>().ok()) {
                    self.tabs.set(stop.saturating_sub(1), true);
                }
            }
            1 => {
                let mut parts = data.split(';');
                let mut number = || parts.next()?.parse::<usize>().ok();
                let (Some(row), Some(col)) = (number(), number()) else { return };
                let parts: Vec<&str> = data.split(';').collect();
                let bits = |index: usize| {
                    parts.get(index).and_then(|part| part.bytes().next()).unwrap_or(0x40) & 0x3f
                };
                let (rendition, protected, flags) = (bits(3), bits(4), bits(5));
                use watchfire_core::terminal::Attributes as A;
                for (attribute, bit) in [(A::BOLD, 1), (A::BLINK, 4), (A::INVERSE, 8)] {
                    self.look.set(attribute, rendition & bit != 0);
                }
                self.look.set_underline(u16::from(rendition & 2 != 0));
                self.protected = protected & 1 != 0;
                if self.protected {
                    self.protect = Protect::Dec;
                }
                self.apply_look();
                // The place in a report counts from the corner of the screen. Origin mode is set after the cursor is
                // there.
                self.modes.set(Mode::Origin, false);
                self.go_to(row.saturating_sub(1), col.saturating_sub(1));
                self.modes.set(Mode::Origin, flags & 1 != 0);
                self.wrap = flags & 8 != 0;
            }
            _ => {}
        }
    }

    pub(crate) fn dcs_begin(&mut self, params: &Params, marks: [u8; 2], last: u8) {
        self.dcs = match (marks, last) {
            ([b'$', 0], b'q') => Dcs::Setting(Vec::new()),
            ([b'+', 0], b'q') => Dcs::Capability(Vec::new()),
            ([0, 0], b'q') => self.sixel_begin(params),
            ([b'$', 0], b't') => Dcs::Presentation(params.value(0), Vec::new()),
            ([b'$', 0], b'p') => Dcs::Terminal(params.value(0), Vec::new()),
            _ => Dcs::None,
        };
    }

    pub(crate) fn dcs_more(&mut self, data: &[u8]) {
        // Requests are short. What is longer is none, and is dropped before it takes memory.
        let limit = if let Dcs::Sixel(_) = self.dcs { self.options.image_bytes } else { 4096 };
        if let Dcs::Setting(have)
        | Dcs::Capability(have)
        | Dcs::Presentation(_, have)
        | Dcs::Terminal(_, have)
        | Dcs::Sixel(have) = &mut self.dcs
        {
            if have.len() + data.len() <= limit {
                have.extend_from_slice(data);
            } else {
                self.dcs = Dcs::None;
            }
        }
    }

    pub(crate) fn dcs_finish(&mut self, terminated: bool) {
        match std::mem::take(&mut self.dcs) {
            _ if !terminated => {}
            Dcs::None => {}
            Dcs::Setting(request) => self.setting(&request),
            Dcs::Capability(request) => self.capabilities(&request),
            Dcs::Presentation(kind, data) => self.restore_presentation(kind, &data),
            Dcs::Terminal(kind, data) => self.restore_state(kind, &data),
            Dcs::Sixel(sequence) => self.sixel_end(sequence),
        }
    }
}
