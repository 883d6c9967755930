//! Cells and their looks, the rows of a grid, and the lines that scrolled off.

pub(crate) mod cell;
pub(crate) mod clusters;
pub(crate) mod grid;
pub(crate) mod history;
pub(crate) mod link;
pub(crate) mod runs;
pub(crate) mod snapshot;
pub(crate) mod style;
pub(crate) mod width;
