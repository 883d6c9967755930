//! The modes that a child can set, as bits.

/// A mode, ANSI's or DEC's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Mode {
    KeyboardLock,
    Insert,
    SendReceive,
    NewLine,
    AppCursor,
    Columns132,
    SmoothScroll,
    ReverseScreen,
    Origin,
    Wrap,
    AutoRepeat,
    MouseX10,
    CursorBlink,
    PrintFormFeed,
    PrintExtent,
    CursorVisible,
    AllowColumns,
    MoreFix,
    NationalCharsets,
    MarginBell,
    ReverseWrap,
    Alternate47,
    AppKeypad,
    BackspaceSendsBs,
    LeftRightMargins,
    KeepOnColumns,
    MousePress,
    MouseHighlight,
    MouseDrag,
    MouseMove,
    Focus,
    MouseUtf8,
    MouseSgr,
    AlternateScroll,
    MouseUrxvt,
    MousePixels,
    ReverseWrapExtended,
    Alternate1047,
    Alternate1049,
    BracketedPaste,
    Synchronized,
    Graphemes,
    /// A character becomes two columns wide by the selector of its emoji form, also outside of mode 2027.
    EmojiPresentation,
    ColorScheme,
    InBandResize,
    EightBitMeta,
    MetaEscape,
    AltEscape,
    ScrollOnOutput,
    ScrollOnKey,
    /// Set: the alternate screen is out of reach (titeInhibit).
    AlternateInhibited,
    ScrollBar,
    FontShifting,
    NumLock,
    DeleteSendsDel,
    KeepSelection,
    SelectToClipboard,
    BellIsUrgent,
    PopOnBell,
    KeepClipboard,
    PrivateColors,
    ReadlineMouse1,
    ReadlineMouse2,
    ReadlineMouse3,
    ReadlineQuoting,
    ReadlineNewline,
}

/// The numbers of the ANSI modes.
pub(crate) const ANSI: [(u16, Mode); 4] =
    [(2, Mode::KeyboardLock), (4, Mode::Insert), (12, Mode::SendReceive), (20, Mode::NewLine)];

/// The DEC private modes with their numbers. Some are kept only for reports.
pub(crate) const DEC: [(u16, Mode); 62] = [
    // DEC's, from the VT100 to the VT520.
    (1, Mode::AppCursor),
    (3, Mode::Columns132),
    (4, Mode::SmoothScroll),
    (5, Mode::ReverseScreen),
    (6, Mode::Origin),
    (7, Mode::Wrap),
    (8, Mode::AutoRepeat),
    // xterm's, older than the numbers from 1000 on.
    (9, Mode::MouseX10),
    // AT&T 610's, and so is its number.
    (12, Mode::CursorBlink),
    (18, Mode::PrintFormFeed),
    (19, Mode::PrintExtent),
    (25, Mode::CursorVisible),
    // rxvt's, which xterm took over.
    (30, Mode::ScrollBar),
    (35, Mode::FontShifting),
    // xterm's again, between numbers of DEC's.
    (40, Mode::AllowColumns),
    (41, Mode::MoreFix),
    (42, Mode::NationalCharsets),
    (44, Mode::MarginBell),
    (45, Mode::ReverseWrap),
    (47, Mode::Alternate47),
    (66, Mode::AppKeypad),
    (67, Mode::BackspaceSendsBs),
    (69, Mode::LeftRightMargins),
    (95, Mode::KeepOnColumns),
    // xterm's. From 1000 to 1003 which events are reported, from 1005 to 1016 in which form; the others around them
    // are resources of xterm's that a program can set.
    (1000, Mode::MousePress),
    (1001, Mode::MouseHighlight),
    (1002, Mode::MouseDrag),
    (1003, Mode::MouseMove),
    (1004, Mode::Focus),
    (1005, Mode::MouseUtf8),
    (1006, Mode::MouseSgr),
    (1007, Mode::AlternateScroll),
    (1010, Mode::ScrollOnOutput),
    (1011, Mode::ScrollOnKey),
    (1015, Mode::MouseUrxvt),
    (1016, Mode::MousePixels),
    // Only kept and reported: no key is encoded otherwise.
    (1034, Mode::EightBitMeta),
    (1035, Mode::NumLock),
    (1036, Mode::MetaEscape),
    (1037, Mode::DeleteSendsDel),
    (1039, Mode::AltEscape),
    (1040, Mode::KeepSelection),
    (1041, Mode::SelectToClipboard),
    (1042, Mode::BellIsUrgent),
    (1043, Mode::PopOnBell),
    (1044, Mode::KeepClipboard),
    (1045, Mode::ReverseWrapExtended),
    (1046, Mode::AlternateInhibited),
    (1047, Mode::Alternate1047),
    (1049, Mode::Alternate1049),
    (1070, Mode::PrivateColors),
    // For readline. Of these everyone uses 2004.
    (2001, Mode::ReadlineMouse1),
    (2002, Mode::ReadlineMouse2),
    (2003, Mode::ReadlineMouse3),
    (2004, Mode::BracketedPaste),
    (2005, Mode::ReadlineQuoting),
    (2006, Mode::ReadlineNewline),
    // Agreed upon between terminals: contour's specifications, which kitty, foot, ghostty and others follow.
    (2026, Mode::Synchronized),
    (2027, Mode::Graphemes),
    (2031, Mode::ColorScheme),
    (2048, Mode::InBandResize),
    // Ours alone. A redraw needs a way to say which width a character has, whatever the receiver's options are.
    (27027, Mode::EmojiPresentation),
];

/// Which modes are set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Modes(u128);

// As xterm starts with its default resources.
impl Default for Modes {
    fn default() -> Self {
        let on = [
            Mode::SendReceive,
            Mode::Wrap,
            Mode::AutoRepeat,
            Mode::CursorVisible,
            Mode::AlternateScroll,
            Mode::MetaEscape,
            Mode::FontShifting,
            Mode::NumLock,
            Mode::KeepSelection,
            Mode::PrivateColors,
            Mode::EmojiPresentation,
        ];
        Self(on.into_iter().fold(0, |bits, mode| bits | 1 << mode as u8))
    }
}

impl Modes {
    #[inline]
    pub(crate) const fn on(self, mode: Mode) -> bool {
        self.0 >> mode as u8 & 1 == 1
    }

    pub(crate) const fn set(&mut self, mode: Mode, on: bool) {
        self.0 = self.0 & !(1 << mode as u8) | (on as u128) << mode as u8;
    }

    /// Returns the DEC private mode of a number.
    pub(crate) fn dec(number: u16) -> Option<Mode> {
        DEC.iter().find(|(known, _)| *known == number).map(|(_, mode)| *mode)
    }

    /// Returns the ANSI mode of a number.
    pub(crate) fn ansi(number: u16) -> Option<Mode> {
        ANSI.iter().find(|(known, _)| *known == number).map(|(_, mode)| *mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_independent() {
        let mut modes = Modes::default();
        for (_, mode) in DEC.into_iter().chain(ANSI) {
            let before = modes;
            let on = !modes.on(mode);
            modes.set(mode, on);
            assert_eq!(modes.on(mode), on);
            assert_eq!((modes.0 ^ before.0).count_ones(), 1, "{mode:?}");
        }
        assert_eq!(Modes::dec(2026), Some(Mode::Synchronized));
        assert_eq!((Modes::dec(9999), Modes::ansi(4)), (None, Some(Mode::Insert)));
    }
}
