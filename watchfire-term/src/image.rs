//! Images, as they came.

use std::sync::Arc;

/// An image that the child placed: where, and the escape sequences that carry it.
///
/// The terminal does not decode images. The cursor stays where it is, and no cell changes: it does not know how large the
/// image is. A viewer that knows the protocol moves its cursor to the place and writes [`sequence`](Self::sequence), or
/// decodes what is in it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Image {
    /// Number of the image, higher for later ones. It is the number in [`Event::Image`](crate::Event::Image).
    pub id: u64,
    /// Protocol that carries the image.
    pub protocol: ImageProtocol,
    /// Number of the line that the cursor was in, as in [`Snapshot::scrollback`](crate::Snapshot::scrollback).
    pub line: u64,
    /// Column of the cursor, from 0.
    pub col: u16,
    /// True if the image is on the alternate screen.
    pub alternate: bool,
    /// Whole escape sequences with 7-bit introducers and terminators. An image in parts has several. Their content comes from
    /// the child: a viewer's decoder has to survive anything in it.
    pub sequence: Arc<[u8]>,
}

/// Protocol of an [`Image`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ImageProtocol {
    /// DEC's sixels (`DCS q`).
    Sixel,
    /// Kitty's graphics (`APC G`). A transmission that shows nothing by itself is an image as well, because later ones
    /// refer to it.
    Kitty,
    /// iTerm2's inline images (`OSC 1337 ; File`).
    Iterm2,
}
