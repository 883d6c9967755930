//! ANSI that draws a state, or what changed, on another terminal.

pub mod diff;
pub(crate) mod paint;
pub(crate) mod redraw;
pub(crate) mod spell;
