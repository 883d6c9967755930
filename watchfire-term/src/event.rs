//! What the child says besides its picture.

use crate::cells::grid::Slot;

/// Something that happened that is no part of the screen. Texts come from the child: bounded, without control
/// characters, and as trustworthy as it is.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Event {
    /// BEL.
    Bell,
    /// The window title changed (OSC 0 and 2); read it with `title()`.
    Title,
    /// The icon name changed (OSC 0 and 1).
    IconName,
    /// The working directory, as a URL or path (OSC 7, 9;9 and 1337).
    WorkingDirectory(String),
    /// A message for the user (OSC 9 and 777).
    #[non_exhaustive]
    Notification {
        /// Its title; empty for OSC 9.
        title: String,
        /// Its text.
        body: String,
    },
    /// Progress (OSC 9;4).
    #[non_exhaustive]
    Progress {
        /// 0 none, 1 normal, 2 failed, 3 indeterminate, 4 paused.
        state: u8,
        /// In percent.
        percent: u8,
    },
    /// A mark of the shell (OSC 133). [`Emulator::prompt_marks`](crate::Emulator::prompt_marks) returns their lines.
    Prompt(PromptMark),
    /// Text for the clipboard (OSC 52), if allowed.
    #[non_exhaustive]
    Clipboard {
        /// Which: `c` clipboard, `p` primary and so on.
        target: char,
        /// The text.
        text: String,
    },
    /// The child set or reset colours (OSC 4, 10 to 12 and others); read those that are shown in
    /// [`Snapshot::palette`](crate::Snapshot::palette).
    Palette,
    /// The child placed an image: its [`id`](crate::Image::id) in [`Emulator::images`](crate::Emulator::images).
    Image(u64),
    /// The child asked for another size and got it.
    Resized,
    /// The terminal was reset (RIS).
    Reset,
}

impl Event {
    /// Returns [`Clipboard`](Self::Clipboard).
    #[must_use]
    pub fn clipboard(target: char, text: impl Into<String>) -> Self {
        Self::Clipboard { target, text: text.into() }
    }

    /// Returns the number of bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        // Only texts can be large. The number of events is bounded by itself.
        match self {
            Self::WorkingDirectory(text) | Self::Clipboard { text, .. } => text.len(),
            Self::Notification { title, body } => title.len() + body.len(),
            _ => 0,
        }
    }
}

/// The part of a dialogue with a shell that begins at a mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PromptMark {
    /// A prompt begins here.
    PromptStart,
    /// The prompt ends, and what the user types begins.
    CommandStart,
    /// The command runs, and its output begins.
    OutputStart,
    /// The command ended, with this status if known.
    CommandEnd(Option<i32>),
}

impl PromptMark {
    /// In the order of [`Slot::MARKS`], which is that in which they come in one row.
    const ALL: [Self; 4] = [Self::CommandEnd(None), Self::PromptStart, Self::CommandStart, Self::OutputStart];

    /// Returns the flag of a row with this mark.
    pub(crate) const fn flag(self) -> u8 {
        let [end, prompt, command, output] = Slot::MARKS;
        match self {
            Self::CommandEnd(_) => end,
            Self::PromptStart => prompt,
            Self::CommandStart => command,
            Self::OutputStart => output,
        }
    }

    /// Yields the marks that the flags of a row stand for.
    pub(crate) fn of(flags: u8) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |mark| flags & mark.flag() != 0)
    }
}
