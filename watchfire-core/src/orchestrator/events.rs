//! The orchestrator's own record log, typed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::Event;
use crate::Result;
use crate::backend::Source;
use crate::clock::Clock;
use crate::observe::{Body, Cursor, Follow, FollowItem, FollowOptions, Log, LogOptions, LogSubject};

/// Writes events and hands out streams of them.
pub struct Events(Log);

impl Events {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let epoch = epoch(&*clock);
        Self(Log::new(
            "orchestrator",
            epoch,
            LogSubject::new("orchestrator", ""),
            &LogOptions::default(),
            clock,
        ))
    }

    pub(super) fn push(&self, event: &Event) {
        match serde_json::to_value(event) {
            Ok(payload) => {
                self.0.push(Source::Process, Body::lifecycle(event.name(), payload));
            }
            Err(error) => tracing::error!("an event cannot be written as JSON: {error}"),
        }
    }

    /// What happens from now on.
    pub(super) fn subscribe(&self) -> Result<EventStream> {
        self.0.follow(FollowOptions::default().with_since(self.0.latest())).map(EventStream)
    }
}

/// Tells this run of the program from others, in cursors.
pub(super) fn epoch(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.now().unix_millis()).unwrap_or_default()
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Something seen on an [`EventStream`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Seen {
    /// An event, and where it stands in the order.
    Event(Cursor, Event),
    /// The reader was too slow: events are missing here. Ask for the tasks again.
    Gap,
}

/// The events of an orchestrator, in one order, for a reader at its own pace. Dropping it frees its place.
pub struct EventStream(Follow);

impl EventStream {
    /// The next one; none when the orchestrator is gone.
    pub async fn next(&mut self) -> Option<Seen> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = Seen;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        loop {
            let followed = match Pin::new(&mut self.0).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(followed)) => followed,
            };
            match followed {
                FollowItem::Record(record) => {
                    let Body::Lifecycle { payload, .. } = &record.body else { continue };
                    if let Ok(event) = serde_json::from_value(payload.clone()) {
                        return Poll::Ready(Some(Seen::Event(record.cursor.clone(), event)));
                    }
                }
                FollowItem::Gap { .. } => return Poll::Ready(Some(Seen::Gap)),
                _ => {}
            }
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
