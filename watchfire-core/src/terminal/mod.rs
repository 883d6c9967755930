//! The terminal seam: turns the output of an agent into a screen that people can watch.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod escapes;
mod link;
mod modes;
mod palette;
mod plain;
mod screen;
mod scrolled;
#[cfg(feature = "serde")]
mod serial;
pub mod text;

pub use contract::{Generation, Terminal};
#[cfg(feature = "orchestrator")]
pub(crate) use escapes::Escapes;
pub use link::Hyperlink;
pub use modes::Modes;
pub use palette::Palette;
pub use plain::PlainTerminal;
pub use screen::{
    Attributes, Cell, Color, Cursor, CursorShape, Line, LineSize, Run, RunKind, Size, Snapshot, Style,
    Underline,
};
pub use scrolled::Scrolled;
