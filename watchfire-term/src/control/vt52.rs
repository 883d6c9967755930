//! VT52 mode, as far as it is not the parser's.

use crate::state::State;
use crate::state::charset::Charsets;
use crate::state::modes::Mode;

impl State {
    /// DECANM: changes to VT52 mode (reset), and back to ANSI mode. There are no margins; character sets are
    /// set aside meanwhile.
    pub(crate) fn set_ansi(&mut self, on: bool) {
        if on {
            if let Some(kept) = self.vt52.take() {
                // As in xterm, `ESC <` leads to a VT100, whatever the level was before.
                (self.charsets, self.level) = (kept, 1);
                self.modes.set(Mode::LeftRightMargins, false);
            }
        } else if self.vt52.is_none() {
            self.reset_margins();
            self.vt52 = Some(self.charsets);
            self.charsets = Charsets { bytes: self.charsets.bytes, ..Charsets::default() };
        }
        self.update_special();
    }

    /// Says that it is a VT52, as a VT100 does.
    pub(crate) fn identify_as_vt52(&mut self) {
        self.reply(b"\x1b/Z");
    }
}
