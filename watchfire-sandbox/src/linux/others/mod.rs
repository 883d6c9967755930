//! Sandboxes of other programs, with our helper inside.

pub(super) mod birdcage;
pub(super) mod bwrap;
