//! macOS: the kernel's Seatbelt, through `sandbox-exec`.
//!
//! The text is made on any platform, so that any platform can test it: `tests::evaluate` reads it as the kernel would.

mod profile;
mod sandbox;
#[cfg(test)]
mod tests;

pub use sandbox::Seatbelt;
