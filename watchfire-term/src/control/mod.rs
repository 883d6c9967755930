//! What control sequences do to the state.

pub(crate) mod capability;
pub(crate) mod color_table;
pub(crate) mod dispatch;
pub(crate) mod edit;
pub(crate) mod erase;
pub(crate) mod image;
mod motion;
pub(crate) mod osc;
pub(crate) mod print;
pub(crate) mod rectangle;
pub(crate) mod reflow;
pub(crate) mod report;
pub(crate) mod screen;
pub(crate) mod scroll;
pub(crate) mod sgr;
pub(crate) mod vt52;
pub(crate) mod window;
