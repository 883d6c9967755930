//! The promises of a log to its readers.

mod clock;
mod cursors;
mod follow;
mod model;
mod watch;

use std::sync::Arc;

use clock::ManualClock;

use super::lane::LaneLimits;
use super::slots::WatcherSlots;
use super::*;
use crate::backend::{Issue, IssueKind, Message, Part, Role, Source, Status};

fn log_with(options: &LogOptions) -> (Log, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let subject = LogSubject::new("brave-otter", "scripted");
    (Log::new("s1", 1, subject, options, Arc::<ManualClock>::clone(&clock)), clock)
}

fn log() -> (Log, Arc<ManualClock>) {
    log_with(&LogOptions::default())
}

fn status(log: &Log, status: Status) -> Cursor {
    log.push(Source::Hook, Body::Status(status))
}

fn says(text: &str) -> Body {
    Body::Transcript(Message::new(Role::Assistant, vec![Part::Text { text: text.to_owned() }]))
}

fn all() -> WatchRequest {
    WatchRequest::default().with_include([
        Include::Events,
        Include::Output,
        Include::RawOutput,
        Include::Transcript,
        Include::Delivery,
    ])
}
