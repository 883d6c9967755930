//! Seam 4: a screen that an agent paints and people watch.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod escapes;
mod link;
mod plain;
mod screen;

pub use contract::{Damage, Generation, Terminal};
pub use link::Hyperlink;
pub use plain::PlainTerminal;
pub use screen::{
    Attributes, Cell, Color, Cursor, CursorShape, Line, Run, RunKind, Size, Snapshot, Style, Underline,
};
