//! Operating system commands.

use crate::color::{self, Slot};
use crate::event::{Event, PromptMark};
use crate::state::State;
use crate::state::modes::Mode;

/// Longest text that is kept from a command, in bytes.
const LONGEST: usize = 4096;
/// Longest command, in bytes, but for images and the clipboard.
const LONGEST_COMMAND: usize = 64 << 10;
/// Longest text for the clipboard.
const LONGEST_CLIPBOARD: usize = 1 << 20;

impl State {
    pub(crate) fn osc_command(&mut self, data: &[u8], bell: bool) {
        let (number, rest) = match data.iter().position(|byte| *byte == b';') {
            Some(at) => (data.get(..at).unwrap_or(&[]), data.get(at + 1..).unwrap_or(&[])),
            None => (data, &[][..]),
        };
        let Some(number) = str::from_utf8(number).ok().and_then(|text| text.parse::<u16>().ok()) else {
            return match (number.first(), rest) {
                // Sun's way: a letter and the title at once.
                (Some(b'l'), []) => self.set_title(data.get(1..).unwrap_or(&[])),
                (Some(b'L'), []) => self.set_icon(data.get(1..).unwrap_or(&[])),
                _ => {}
            };
        };
        // Only images and the clipboard may be long. The parser's limit is that of the longest.
        if data.len() > LONGEST_COMMAND && !matches!(number, 52 | 1337) {
            return;
        }
        match number {
            0 => {
                self.set_icon(rest);
                self.set_title(rest);
            }
            1 => self.set_icon(rest),
            2 => self.set_title(rest),
            4 => self.indexed_colors(rest, bell),
            5 => self.special_colors(rest, bell),
            // What most shells send for their directory. 9;9 comes from ConEmu, 1337 from iTerm2.
            7 => self.tell(Event::WorkingDirectory(text(rest))),
            8 => self.hyperlink(rest),
            // iTerm2's notification. ConEmu took the same number for its own commands, which begin with another
            // number.
            9 => self.conemu(rest),
            10..=19 => self.dynamic_colors(number as u8, rest, bell),
            52 => self.clipboard(rest),
            104 => self.reset_colors(rest, 4),
            105 => self.reset_colors(rest, 5),
            110..=119 => {
                self.palette.reset(Slot::Dynamic((number - 100) as u8));
                self.palette_changed();
            }
            133 => self.prompt(rest),
            777 => self.notify(rest),
            1337 => {
                if let Some(path) = rest.strip_prefix(b"CurrentDir=") {
                    self.tell(Event::WorkingDirectory(text(path)));
                } else {
                    self.iterm_file(rest);
                }
            }
            _ => {}
        }
    }

    fn title_text(&self, data: &[u8]) -> Option<String> {
        // Titles may come as hexadecimal digits (XTSMTITLE).
        // What was to be hexadecimal and is not gives no title.
        if self.title_modes & 1 == 0 { Some(text(data)) } else { unhex(data).map(|bytes| text(&bytes)) }
    }

    fn set_title(&mut self, data: &[u8]) {
        if let Some(title) = self.title_text(data) {
            self.changed |= self.title != title;
            self.title = title;
            self.tell(Event::Title);
        }
    }

    fn set_icon(&mut self, data: &[u8]) {
        if let Some(icon) = self.title_text(data) {
            self.icon = icon;
            self.tell(Event::IconName);
        }
    }

    /// Pairs of a number and a colour, up to one that makes no sense.
    fn indexed_colors(&mut self, data: &[u8], bell: bool) {
        let mut parts = data.split(|byte| *byte == b';');
        while let (Some(index), Some(color)) = (parts.next(), parts.next()) {
            let Some(index) = number(index) else { return };
            // xterm numbers the special colours behind the palette.
            let slot = match index {
                0..256 => Slot::Indexed(index as u8),
                256..264 => Slot::Special((index - 256) as u8),
                _ => return,
            };
            if !self.one_color(slot, &format!("4;{index}"), color, bell) {
                return;
            }
        }
    }

    fn special_colors(&mut self, data: &[u8], bell: bool) {
        let mut parts = data.split(|byte| *byte == b';');
        while let (Some(index), Some(color)) = (parts.next(), parts.next()) {
            let Some(index @ 0..8) = number(index) else { return };
            if !self.one_color(Slot::Special(index as u8), &format!("5;{index}"), color, bell) {
                return;
            }
        }
    }

    fn dynamic_colors(&mut self, first: u8, data: &[u8], bell: bool) {
        for (slot, color) in (first..=19).zip(data.split(|byte| *byte == b';')) {
            self.one_color(Slot::Dynamic(slot), &slot.to_string(), color, bell);
        }
    }

    /// Sets or reports a colour. Returns false if `color` is none.
    fn one_color(&mut self, slot: Slot, name: &str, color: &[u8], bell: bool) -> bool {
        if color == b"?" {
            let color = self.palette.get(slot, &self.options.colors);
            self.reply_osc(&format!("{name};{}", color::describe(color)), bell);
            return true;
        }
        let color = str::from_utf8(color).ok().and_then(color::parse);
        color.is_some_and(|color| {
            self.palette.set(slot, color);
            self.palette_changed();
            true
        })
    }

    fn reset_colors(&mut self, data: &[u8], kind: u8) {
        self.palette_changed();
        // Without numbers the command resets all colours of its kind.
        if data.is_empty() {
            return if kind == 4 { self.palette.reset_indexed() } else { self.palette.reset_special() };
        }
        for index in data.split(|byte| *byte == b';').filter_map(number) {
            match (kind, index) {
                (4, 0..256) => self.palette.reset(Slot::Indexed(index as u8)),
                (4, 256..264) => self.palette.reset(Slot::Special((index - 256) as u8)),
                (5, 0..8) => self.palette.reset(Slot::Special(index as u8)),
                _ => {}
            }
        }
    }

    fn hyperlink(&mut self, data: &[u8]) {
        let Some(at) = data.iter().position(|byte| *byte == b';') else { return };
        let (parameters, uri) = (text(data.get(..at).unwrap_or(&[])), data.get(at + 1..).unwrap_or(&[]));
        let id = parameters.split(':').find_map(|pair| pair.strip_prefix("id=")).unwrap_or("");
        let link = match str::from_utf8(uri) {
            // The specification allows printable ASCII only. A control character would act wherever a viewer writes
            // the target out.
            Ok(uri) if !uri.chars().any(char::is_control) => self.links.number(id, uri),
            _ => 0,
        };
        self.look = self.look.with_link(link);
        self.apply_look();
    }

    /// OSC 9: a notification, or one of ConEmu's commands.
    fn conemu(&mut self, data: &[u8]) {
        let mut parts = data.split(|byte| *byte == b';');
        match parts.next() {
            Some(b"4") => {
                let (state, percent) = (parts.next().and_then(number), parts.next().and_then(number));
                if let Some(state @ 0..=4) = state {
                    let percent = percent.unwrap_or(0).min(100) as u8;
                    self.tell(Event::Progress { state: state as u8, percent });
                }
            }
            Some(b"9") => self.tell(Event::WorkingDirectory(text(parts.next().unwrap_or(&[])))),
            _ => self.tell(Event::Notification { title: String::new(), body: text(data) }),
        }
    }

    fn notify(&mut self, data: &[u8]) {
        let mut parts = data.splitn(3, |byte| *byte == b';');
        if parts.next() == Some(b"notify") {
            let (title, body) = (text(parts.next().unwrap_or(&[])), text(parts.next().unwrap_or(&[])));
            self.tell(Event::Notification { title, body });
        }
    }

    fn prompt(&mut self, data: &[u8]) {
        let mut parts = data.split(|byte| *byte == b';');
        let mark = match parts.next() {
            Some(b"A") => PromptMark::PromptStart,
            Some(b"B") => PromptMark::CommandStart,
            Some(b"C") => PromptMark::OutputStart,
            Some(b"D") => {
                let status = parts.next().and_then(|status| str::from_utf8(status).ok());
                PromptMark::CommandEnd(status.and_then(|status| status.parse().ok()))
            }
            _ => return,
        };
        // On the row, not on the cell: the mark scrolls, wraps and is erased with its row, without any list to keep.
        if let Some(slot) = self.grid.slot_mut(self.row) {
            slot.flags |= mark.flag();
        }
        self.tell(Event::Prompt(mark));
    }

    /// OSC 52: set, if allowed; never read.
    fn clipboard(&mut self, data: &[u8]) {
        let Some(at) = data.iter().position(|byte| *byte == b';') else { return };
        if !self.options.clipboard || data.len() > LONGEST_CLIPBOARD {
            return;
        }
        let target = data.first().filter(|_| at > 0).map_or('c', |byte| char::from(*byte));
        // A query is a question mark, which is no base64: it ends here, and the clipboard is never read.
        let Some(bytes) = base64(data.get(at + 1..).unwrap_or(&[])) else { return };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.tell(Event::Clipboard { target, text });
    }

    /// Returns true if graphemes are clustered, for embedders that measure text themselves.
    pub(crate) fn clusters_graphemes(&self) -> bool {
        self.on(Mode::Graphemes)
    }
}

/// Text from the child, bounded and without control characters.
pub(crate) fn text(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let mut out = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if out.len() + c.len_utf8() > LONGEST {
            break;
        }
        out.push(c);
    }
    out
}

fn number(data: &[u8]) -> Option<u16> {
    str::from_utf8(data).ok()?.parse().ok()
}

/// Bytes from hexadecimal digits.
pub(crate) fn unhex(data: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = data.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

fn base64(data: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in data.iter().filter(|byte| **byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            // Both alphabets of RFC 4648, because programs send either.
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_and_digits_are_read() {
        assert_eq!(base64(b"aGVsbG8=").as_deref(), Some(&b"hello"[..]));
        assert_eq!(base64(b"a!"), None);
        assert_eq!(unhex(b"48690a").as_deref(), Some(&b"Hi\n"[..]));
        assert_eq!((unhex(b"4"), unhex(b"zz")), (None, None));
    }

    #[test]
    fn texts_are_bounded_and_tame() {
        assert_eq!(text(b"a\x1bb\nc\xff"), "abc\u{fffd}");
        assert_eq!(text(&[b'x'; 9000]).len(), LONGEST);
    }
}
