#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "json")]
pub mod asciicast;
#[cfg(feature = "json")]
pub mod buffer;
mod cells;
mod color;
mod control;
mod damage;
mod draw;
mod emulator;
mod event;
mod image;
pub mod input;
mod options;
pub mod parser;
pub mod plain;
mod state;
#[cfg(feature = "wire")]
pub mod wire;

pub use damage::Damage;
pub use draw::diff;
pub use emulator::Emulator;
pub use event::{Event, PromptMark};
pub use image::{Image, ImageProtocol};
pub use options::{Colors, Identity, Options};
pub use watchfire_core::terminal::text;
pub use watchfire_core::terminal::{
    Attributes, Cell, Color, Cursor, CursorShape, Generation, Hyperlink, Line, LineSize, Modes, Palette, Run,
    RunKind, Scrolled, Size, Snapshot, Style, Terminal, Underline,
};
