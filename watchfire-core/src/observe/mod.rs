//! The record log of a session: one ordered sequence of everything observed, for readers at their own pace.
//!
//! A [`Log`] holds the records of one session, or of the orchestrator. All kinds share one sequence, so a [`Cursor`]
//! stands for a point in a total order. Writing is cheap and never waits for a reader. Memory is bounded for each kind
//! of record, by number and by bytes.
//!
//! - [`Log::snapshot`] answers at once, [`Log::watch`] when a [`Condition`] comes true, [`Log::follow`] is a stream.
//! - Loss is always reported. A cursor older than the oldest kept record gives `cursor_expired`, a watch whose records
//!   were evicted fails with `gap_detected`, a stream carries [`FollowItem::Gap`], and a response sets `truncated` and
//!   `omitted_bytes`.
//! - A flood of one kind evicts only that kind: an agent that prints without end does not cost its watchers the status
//!   they wait for.
//! - The log of a session is written to a file as well, and read back by the next program. Cursors of an earlier program stay
//!   valid, and what a program that was killed could not write is a loss that is reported.
//! - A [`Target`] names the sessions that a request is about.
//! - Output is sanitised once, when it is written, with state kept across chunks, and truncated only afterwards. A
//!   condition sees all of it, not the part that fits into a response.

mod condition;
mod cursor;
mod delivery;
mod follow;
mod known;
mod lane;
mod log;
mod matcher;
mod record;
mod ring;
mod sanitize;
mod slots;
mod store;
mod target;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

pub use condition::Condition;
pub use cursor::Cursor;
pub use delivery::{DeliveryDetail, DeliveryError, DeliveryState, RuntimeState};
pub use follow::{Follow, FollowItem, FollowOptions};
#[cfg(any(test, feature = "orchestrator"))]
pub(crate) use known::{GOES_ON, KEY_PRESSED};
pub use log::Log;
pub(crate) use log::{LogOptions, LogSubject};
pub use record::{Body, Record, RecordKind};
#[cfg(feature = "runtime")]
pub(crate) use sanitize::Sanitizer;
pub use sanitize::present;
#[cfg(feature = "orchestrator")]
pub(crate) use slots::WatcherSlots;
#[cfg(feature = "orchestrator")]
pub(crate) use store::RecordedOutput;
pub use target::{Candidate, Target};
pub use wire::{
    AgentView, DeliveryView, EventView, Include, OutputView, TranscriptMessage, TranscriptView, WatchRequest,
    WatchResponse,
};
