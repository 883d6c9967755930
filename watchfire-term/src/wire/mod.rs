//! Snapshots and their changes in a compact binary form, without loss.
//!
//! A message is a whole screen, a change from one screen to the next, or lines of the scrollback. Each carries a
//! dictionary of the styles and links that it needs, and cells go by runs: a typed character takes some twenty bytes. A
//! receiver keeps the last screen and applies changes to it:
//!
//! ```
//! use watchfire_term::{Emulator, Size, Terminal, wire};
//!
//! let mut terminal = Emulator::new(Size::new(80, 24));
//! terminal.process(b"$ cargo tes");
//! let first = terminal.snapshot();
//! let mut screen = wire::decode(&wire::encode(&first))?;
//!
//! terminal.process(b"t");
//! let change = wire::encode_change(&first, &terminal.snapshot());
//! assert!(change.len() < 30);
//! screen = wire::decode_change(&screen, &change)?;
//! assert_eq!(screen, *terminal.snapshot());
//! # Ok::<(), watchfire_core::Error>(())
//! ```
//!
//! `docs/terminal-wire.md` specifies the form, and `web/wire.js` decodes it in a browser.
//!
//! # Guarantees
//!
//! - What is decoded equals what was encoded, runs and links included.
//! - Decoding never panics, whatever the bytes are, and takes memory in proportion to them: beyond that at most 16 MiB of
//!   repeated text and an entry for each of 65,535 rows.
//! - A decoder refuses versions that it does not know, and bytes that are missing or left over.

mod change;
mod decode;
mod encode;
mod line;
mod read;
mod style;
mod text;
mod write;

pub use decode::{decode, decode_change, decode_lines};
pub use encode::{encode, encode_change, encode_lines};

/// Version of the form, the first byte of each message. Any change of the form is a new version.
pub const VERSION: u8 = 1;

/// Kinds of messages, the second byte.
const SCREEN: u8 = 0;
const CHANGE: u8 = 1;
const LINES: u8 = 2;

/// Parts of a screen that a change may leave out, as bits.
const CURSOR: u64 = 1;
const TITLE: u64 = 2;
const MODES: u64 = 4;
const PALETTE: u64 = 8;
const SCROLLBACK: u64 = 16;
const MOVED: u64 = 32;
