//! What happened, in order, for whoever asks: now, later, or as it goes on.
//!
//! A [`Log`] holds the records of one session, or of the orchestrator. All kinds share one sequence, so a [`Cursor`]
//! stands for a point in a total order. Writing is cheap and never waits for a reader; memory is bounded for each kind
//! by records and by bytes.
//!
//! - [`Log::snapshot`] answers at once, [`Log::watch`] when a [`Condition`] comes true, [`Log::follow`] is a stream.
//! - What a reader can no longer have is never passed over in silence: a cursor from before what is kept is
//!   `cursor_expired`, a watch that lost what it waits for fails with `gap_detected`, a stream carries
//!   [`Followed::Gap`], a reply says `truncated` and `omitted_bytes`.
//! - A flood of one kind pushes out that kind alone: an agent that prints without end does not cost its watchers the
//!   status they wait for.
//! - Text for people and agents is [sanitised](Sanitizer) as it is written, once, over chunk borders; it is cut only
//!   afterwards. Conditions look at all of it, never at what a reply was cut to.

mod condition;
mod cursor;
mod follow;
mod lane;
mod log;
mod record;
mod ring;
mod sanitize;
mod slots;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

pub use condition::Condition;
pub use cursor::Cursor;
pub use follow::{Follow, FollowOptions, Followed};
pub use lane::{LaneLimits, Loss};
pub use log::{Log, LogOptions, Subject};
pub use record::{Body, DeliveryState, Kind, Record};
pub use sanitize::{Sanitizer, Strip, present};
pub use slots::WatcherSlots;
pub use wire::{
    AgentView, DeliveryView, EventView, Include, OutputView, TranscriptMessage, TranscriptView, WatchRequest,
    WatchResponse,
};
