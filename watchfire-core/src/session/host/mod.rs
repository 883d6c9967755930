//! What a session has on this machine besides its process.

mod directory;

pub use directory::SessionDirectory;
