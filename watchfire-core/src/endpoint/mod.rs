//! The channel from a confined agent back to its session: a spool of files.
//!
//! The agent (its hooks, through our own [`client`]) writes messages into `outbox/`, each by renaming a complete file
//! into place. The session writes into `inbox/`, which the agent can only read. Beside them lies `signal.json`, in which
//! the agent reports that it is done, has questions, or cannot go on.
//!
//! A question has an id of at most 48 bytes; one without, or with a longer one, is numbered by its place in the list. The
//! [`Answer`] appears in the inbox as `answer-ID.json` with `{"kind": "answer", "question": ID, "text": …}`, whole or not
//! at all.
//!
//! A call asks the session for something ([`AgentAction`]) and has an id of its own. Its reply appears as `reply-ID.json`, with
//! `ok: true` and what was asked for, or with `ok: false` and an error. A call outlives the program that took it. Where the
//! sandbox lets its agent have sockets, most calls take a faster way, by `agent.sock` beside the two.
//!
//! Everything in the spool is the **agent's claim**. The folder identifies the session, never a field of a message. The
//! agent can put anything into the folder: links are not followed, pipes and devices are not waited for, and a flood is
//! bounded and removed.

mod answer;
mod call;
mod caller;
pub mod client;
mod command;
mod folder;
mod mcp;
mod message;
mod signal;
mod socket;
mod spool;

pub use answer::Answer;
#[cfg(feature = "orchestrator")]
pub(crate) use call::envelope;
pub use call::{AgentAction, AgentCall};
#[cfg(feature = "orchestrator")]
pub(crate) use command::{NAME as AGENT_COMMAND, ROLE as AGENT_ROLE, server_words};
pub use message::SpoolMessage;
pub use signal::Signal;
#[cfg(any(test, feature = "orchestrator"))]
pub(crate) use signal::{SignalRead, read_signal};
#[cfg(feature = "orchestrator")]
pub(crate) use socket::{CallSocket, LONGEST_CALL};
pub use spool::{Intake, RefusedFile, Spool, SpoolLimits};
