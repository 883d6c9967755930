//! What an embedder can choose.

use std::time::Duration;

/// Behaviour of an [`Emulator`](crate::Emulator). The defaults suit a watched agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Rows of scrollback retained; 10,000.
    pub scrollback_lines: usize,
    /// Bytes of scrollback retained, about; 16 MiB.
    pub scrollback_bytes: usize,
    /// True if bytes from 0x80 to 0x9f outside of UTF-8 characters are C1 controls. Default: false, they are errors
    /// in UTF-8.
    pub c1_controls: bool,
    /// True if the child may set the clipboard (OSC 52), which becomes an [`Event`](crate::Event). Default: false. It
    /// can never read the clipboard.
    pub clipboard: bool,
    /// True if the child may change the size of the screen (DECCOLM, `CSI 8 t`). Default: false, because the PTY
    /// would not follow.
    pub child_resize: bool,
    /// Maximum time for which synchronized output holds back snapshots. Default: 150 ms.
    pub sync_timeout: Duration,
    /// True if graphemes take one place of the width that they are drawn with (mode 2027) from the start. Default:
    /// false, the child may ask for it.
    pub graphemes: bool,
    /// True if the selector U+FE0F makes a character with an emoji form, such as ⚠, two columns wide also outside of mode
    /// 2027. Default: true, as agents and most terminals reckon; xterm leaves it one column.
    pub emoji_presentation: bool,
    /// Bytes of images retained; 4 MiB. Without any, images are swallowed. See [`Image`](crate::Image).
    pub image_bytes: usize,
    /// The terminal's identity in answers to queries.
    pub identity: Identity,
    /// The colours it says it has.
    pub colors: Colors,
    /// The size of a cell in pixels that it says it has, width and height; 8 by 16.
    pub cell_pixels: (u16, u16),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scrollback_lines: 10_000,
            scrollback_bytes: 16 << 20,
            c1_controls: false,
            clipboard: false,
            child_resize: false,
            // Alacritty has the same: longer than any frame takes, shorter than a person takes for a
            // hang.
            sync_timeout: Duration::from_millis(150),
            graphemes: false,
            emoji_presentation: true,
            image_bytes: 4 << 20,
            identity: Identity::default(),
            colors: Colors::default(),
            cell_pixels: (8, 16),
        }
    }
}

impl Options {
    /// Retains at most so many rows, and about so many bytes, of scrollback.
    #[must_use]
    pub fn with_scrollback(mut self, lines: usize, bytes: usize) -> Self {
        (self.scrollback_lines, self.scrollback_bytes) = (lines, bytes);
        self
    }

    /// Takes bytes from 0x80 to 0x9f for C1 controls.
    #[must_use]
    pub fn with_c1_controls(mut self, on: bool) -> Self {
        self.c1_controls = on;
        self
    }

    /// Lets the child set the clipboard.
    #[must_use]
    pub fn with_clipboard(mut self, on: bool) -> Self {
        self.clipboard = on;
        self
    }

    /// Lets the child change the size of the screen.
    #[must_use]
    pub fn with_child_resize(mut self, on: bool) -> Self {
        self.child_resize = on;
        self
    }

    /// Holds snapshots back no longer than this during synchronized output.
    #[must_use]
    pub fn with_sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Clusters graphemes from the start.
    #[must_use]
    pub fn with_graphemes(mut self, on: bool) -> Self {
        self.graphemes = on;
        self
    }

    /// Gives emoji by selector two columns, or leaves them one.
    #[must_use]
    pub fn with_emoji_presentation(mut self, on: bool) -> Self {
        self.emoji_presentation = on;
        self
    }

    /// Retains images of so many bytes together.
    #[must_use]
    pub fn with_images(mut self, bytes: usize) -> Self {
        self.image_bytes = bytes;
        self
    }

    /// Answers as another terminal.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Answers colour queries with these.
    #[must_use]
    pub fn with_colors(mut self, colors: Colors) -> Self {
        self.colors = colors;
        self
    }

    /// Answers size queries in pixels with cells of this width and height.
    #[must_use]
    pub fn with_cell_pixels(mut self, width: u16, height: u16) -> Self {
        self.cell_pixels = (width, height);
        self
    }
}

/// The identity of a terminal, in the form that its answers have.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Identity {
    /// DA1: parameters after `CSI ?`.
    pub primary: String,
    /// DA2: parameters after `CSI >`.
    pub secondary: String,
    /// DA3: eight hexadecimal digits.
    pub tertiary: String,
    /// XTVERSION: name and version.
    pub version: String,
}

impl Default for Identity {
    /// A VT420 with 132 columns, selective erase, national sets, technical characters, user windows, horizontal
    /// scrolling, colours and rectangles.
    fn default() -> Self {
        Self {
            primary: "64;1;2;6;9;15;17;18;21;22;28".into(),
            secondary: "41;400;0".into(),
            tertiary: "00000000".into(),
            version: concat!("watchfire-term(", env!("CARGO_PKG_VERSION"), ")").into(),
        }
    }
}

impl Identity {
    /// Says `primary` to DA1, for example `"62;22"`.
    #[must_use]
    pub fn with_primary(mut self, primary: impl Into<String>) -> Self {
        self.primary = primary.into();
        self
    }

    /// Says `secondary` to DA2, for example `"1;10;0"`.
    #[must_use]
    pub fn with_secondary(mut self, secondary: impl Into<String>) -> Self {
        self.secondary = secondary.into();
        self
    }

    /// Says `version` to XTVERSION.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }
}

/// The colours that a terminal says it has, as red, green and blue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Colors {
    /// Of text (OSC 10).
    pub foreground: [u8; 3],
    /// Behind it (OSC 11).
    pub background: [u8; 3],
    /// Of the cursor (OSC 12).
    pub cursor: [u8; 3],
}

impl Default for Colors {
    /// Light grey on black.
    fn default() -> Self {
        Self { foreground: [0xe5, 0xe5, 0xe5], background: [0, 0, 0], cursor: [0xe5, 0xe5, 0xe5] }
    }
}

impl Colors {
    /// Creates the colours of text on a background.
    #[must_use]
    pub fn new(foreground: [u8; 3], background: [u8; 3]) -> Self {
        Self { foreground, background, cursor: foreground }
    }

    /// Returns true if text is lighter than its background.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        let light = |[red, green, blue]: [u8; 3]| 2 * u32::from(red) + 5 * u32::from(green) + u32::from(blue);
        light(self.foreground) >= light(self.background)
    }
}
