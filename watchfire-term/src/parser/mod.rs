//! Bytes to events: the state machine of DEC's terminals, UTF-8 first.
//!
//! [`Parser::feed`] reads any bytes in any chunks and calls a [`Handler`]. It keeps at most one unfinished sequence,
//! bounded in size, and never looks at a byte twice but at the end of a chunk. Text arrives in runs, so that a
//! handler decides once per run and not once per character.

mod handler;
mod machine;
mod params;
mod utf8;
mod vt52;

pub use handler::{Handler, Sequence};
pub use machine::Parser;
pub use params::Params;
