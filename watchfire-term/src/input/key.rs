//! Keys.

/// A key that was pressed, held or released.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// Which.
    pub code: KeyCode,
    /// With which others.
    pub modifiers: Modifiers,
    /// Pressed, repeated or released.
    pub kind: KeyKind,
}

impl Key {
    /// Creates a key pressed alone.
    #[must_use]
    pub fn new(code: KeyCode) -> Self {
        Self { code, modifiers: Modifiers::NONE, kind: KeyKind::Press }
    }

    /// Sets the modifiers.
    #[must_use]
    pub fn with_modifiers(mut self, modifiers: Modifiers) -> Self {
        self.modifiers = modifiers;
        self
    }

    /// Sets whether it is pressed, repeated or released.
    #[must_use]
    pub fn with_kind(mut self, kind: KeyKind) -> Self {
        self.kind = kind;
        self
    }
}

/// Which key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "keys are named for what is printed on them")]
pub enum KeyCode {
    /// A character, as the layout gives it with shift.
    Char(char),
    /// A character of the keypad: a digit, `+`, `-`, `*`, `/`, `.`, `,`, `=`, or `\r` for its enter key.
    Keypad(char),
    /// F1 to F20.
    F(u8),
    Enter,
    Tab,
    Backspace,
    Escape,
    Up,
    Down,
    Right,
    Left,
    Home,
    End,
    PageUp,
    PageDown,
    Insert,
    Delete,
}

/// The use of a key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(missing_docs, reason = "there is nothing to add")]
#[non_exhaustive]
pub enum KeyKind {
    #[default]
    Press,
    Repeat,
    Release,
}

/// A set of modifier keys.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Modifiers(u8);

impl Modifiers {
    /// None.
    pub const NONE: Self = Self(0);
    /// Shift.
    pub const SHIFT: Self = Self(1);
    /// Alt, or option.
    pub const ALT: Self = Self(2);
    /// Control.
    pub const CTRL: Self = Self(4);
    /// The logo key, or command.
    pub const SUPER: Self = Self(8);

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the number that stands for the set in sequences: 1 for none.
    pub(super) const fn number(self) -> u8 {
        self.0 + 1
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
