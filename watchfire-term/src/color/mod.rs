//! Colours that a child can ask for and set.

mod intensity;
mod names;
mod palette;
mod space;

pub(crate) use palette::*;
