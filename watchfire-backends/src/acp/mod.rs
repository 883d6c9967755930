//! The client side of the Agent Client Protocol, version 1, for every agent that speaks it. Feature `acp`.
//!
//! The agent reads, writes and runs commands itself, inside its sandbox: we announce no such capability, and answer
//! such a request with an error. A request for permission is granted, once, and recorded as an event of the session:
//! the sandbox decides what the agent may do.
//!
//! [`AcpDialogue`] turns lines into moves and performs no input or output. It therefore uses only the message types
//! of the protocol's own library.

mod dialogue;
mod tell;
mod wire;

pub use dialogue::{AcpDialogue, Opening};
