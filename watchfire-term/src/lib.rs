#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod asciicast;
pub mod buffer;
mod capability;
mod cell;
mod charset;
mod clusters;
mod color;
mod color_intensity;
mod color_names;
mod color_space;
mod color_table;
mod damage;
pub mod diff;
mod dispatch;
mod edit;
mod emulator;
mod erase;
mod event;
mod grid;
mod history;
pub mod input;
mod keyboard;
mod link;
mod modes;
mod motion;
mod options;
mod osc;
mod paint;
pub mod parser;
pub mod plain;
mod print;
mod rectangle;
mod redraw;
mod reflow;
mod report;
mod screen;
mod scroll;
mod sgr;
mod snapshot;
mod spell;
mod stacks;
mod state;
mod style;
mod tabs;
mod vt52;
mod width;
mod window;

pub use damage::Damage;
pub use emulator::Emulator;
pub use event::{Event, PromptMark};
pub use options::{Colors, Identity, Options};
pub use watchfire_core::terminal::{
    Attributes, Cell, Color, Cursor, CursorShape, Generation, Hyperlink, Line, Modes, Run, RunKind, Size,
    Snapshot, Style, Terminal, Underline,
};
