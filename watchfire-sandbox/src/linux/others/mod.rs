//! Sandboxes of other programs, with our helper inside.

pub(super) mod birdcage;
pub(super) mod bwrap;
pub(super) mod bwrap_layers;
