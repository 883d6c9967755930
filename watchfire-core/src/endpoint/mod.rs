//! How a confined agent talks back.
//!
//! A session's folder holds a spool. Into `outbox/` the agent (its hooks, by way of our own [`client`]) writes messages,
//! each by renaming a whole file into place; `inbox/` is ours to write and the agent's to read. Beside them lies
//! `signal.json`, in which the agent says that it is done, or has questions, or cannot go on.
//!
//! A question has an id of at most 48 bytes; one without, or with a longer one, is numbered by its place in the list. The
//! [`Answer`] appears in the inbox as `answer-ID.json` with `{"kind": "answer", "question": ID, "text": …}`, whole or not
//! at all.
//!
//! Everything that comes this way is the **agent's claim**. The session is known by its folder and never by a field; and
//! whatever lies in the folder, a link, a pipe, a device, a flood, is neither followed, nor waited for, nor kept.

mod answer;
pub mod client;
mod folder;
mod message;
mod signal;
mod spool;

pub use answer::Answer;
pub use message::Message;
pub use signal::{Question, Signal, SignalRead, read_signal};
pub use spool::{Intake, Refused, Spool, SpoolLimits};
