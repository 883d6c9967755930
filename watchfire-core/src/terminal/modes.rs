//! Modes of a terminal that a viewer has to know.

/// A set of modes that the child set: how to show the screen, and what to send for keys, pastes and the mouse.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Modes(u16);

impl Modes {
    /// The alternate screen is shown (DEC 47, 1047, 1049). It has no scrollback.
    pub const ALTERNATE_SCREEN: Self = Self(1);
    /// Text and background are swapped on the whole screen (DEC 5).
    pub const REVERSE_SCREEN: Self = Self(2);
    /// Cursor keys send application sequences (DEC 1).
    pub const APPLICATION_CURSOR: Self = Self(4);
    /// The keypad sends application sequences (DEC 66).
    pub const APPLICATION_KEYPAD: Self = Self(8);
    /// A paste is sent in brackets (DEC 2004).
    pub const BRACKETED_PASTE: Self = Self(16);
    /// Gaining and losing the focus is reported (DEC 1004).
    pub const FOCUS: Self = Self(32);
    /// Mouse buttons are reported (DEC 9, 1000, 1001).
    pub const MOUSE_BUTTONS: Self = Self(64);
    /// Mouse buttons are reported, and moves while one is pressed (DEC 1002).
    pub const MOUSE_DRAG: Self = Self(128);
    /// Mouse buttons and all moves are reported (DEC 1003).
    pub const MOUSE_MOVE: Self = Self(256);
    /// The mouse is reported in the SGR encoding (DEC 1006).
    pub const MOUSE_SGR: Self = Self(512);
    /// Keys that could be taken for others are sent as sequences (kitty's keyboard protocol, flag 1).
    pub const KEYS_DISAMBIGUATE: Self = Self(1 << 10);
    /// Repeated and released keys are reported (kitty, flag 2).
    pub const KEYS_EVENTS: Self = Self(1 << 11);
    /// A key is reported with the characters that it has with Shift and in the base layout (kitty, flag 4).
    pub const KEYS_ALTERNATES: Self = Self(1 << 12);
    /// All keys are sent as sequences, text too (kitty, flag 8).
    pub const KEYS_ALL: Self = Self(1 << 13);
    /// The sequence of a key has its text (kitty, flag 16).
    pub const KEYS_TEXT: Self = Self(1 << 14);

    /// Creates a set from its bits. Unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        // The constants above use fifteen bits.
        Self(bits & 0x7fff)
    }

    /// Creates the set of kitty's keyboard flags, as `CSI ? u` reports them. Unknown ones are dropped.
    #[must_use]
    pub const fn from_kitty(flags: u8) -> Self {
        Self((flags as u16 & 31) << 10)
    }

    /// Returns kitty's keyboard flags.
    #[must_use]
    pub const fn kitty(self) -> u8 {
        (self.0 >> 10) as u8 & 31
    }

    /// Returns the bits of the set.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns true if all modes of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the set with `other` added or removed.
    #[must_use]
    pub const fn with(self, other: Self, on: bool) -> Self {
        Self(if on { self.0 | other.0 } else { self.0 & !other.0 })
    }
}
