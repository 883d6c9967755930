//! The client's side of the Agent Client Protocol, version 1, for every agent that speaks it. Feature `acp`.
//!
//! The agent does everything itself, inside its sandbox: we announce that we neither read nor write files nor
//! run commands for it, and answer such a request with an error. A request for permission is granted, once, and recorded
//! as an event of the session: the sandbox decides what the agent may do.
//!
//! [`AcpDialogue`] makes moves out of lines and does nothing itself. Of the protocol's own library it therefore uses the
//! types of the messages alone.

mod dialogue;
mod tell;
mod wire;

pub use dialogue::{AcpDialogue, Opening};
