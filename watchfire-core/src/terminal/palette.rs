//! Colours that the child gave other values.

use std::collections::BTreeMap;

/// Colours that the child set, as red, green and blue. Colours that are not here are the viewer's own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Palette {
    /// Values of [`Color::Indexed`](super::Color::Indexed) (OSC 4).
    pub indexed: BTreeMap<u8, [u8; 3]>,
    /// Default colour of text (OSC 10).
    pub foreground: Option<[u8; 3]>,
    /// Default colour of the background (OSC 11).
    pub background: Option<[u8; 3]>,
    /// Colour of the cursor (OSC 12).
    pub cursor: Option<[u8; 3]>,
}
