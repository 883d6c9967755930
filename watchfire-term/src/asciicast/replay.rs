//! Replaying against a clock that the caller owns.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Event, EventKind, Header};

/// Events that fall due while a virtual clock runs. It never sleeps: the caller asks for the events that are due, and
/// for the time of the next.
#[derive(Clone, Debug)]
pub struct Replay {
    events: VecDeque<Event>,
}

impl Replay {
    /// Creates a replay of `events`, `speed` times as fast; pauses are cut to the header's limit. A speed that is not
    /// above zero plays everything at once.
    pub fn new(header: &Header, events: impl IntoIterator<Item = Event>, speed: f64) -> Self {
        let limit = header.idle_time_limit.unwrap_or(Duration::MAX);
        let (mut last, mut now) = (Duration::ZERO, Duration::ZERO);
        let scaled = |time: Duration| {
            let seconds = if speed > 0.0 { time.as_secs_f64() / speed } else { 0.0 };
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        };
        let events = events.into_iter().map(|event| {
            // The limit is for pauses as recorded, before they are played faster.
            let pause = event.at.saturating_sub(last).min(limit);
            last = event.at.max(last);
            now = now.saturating_add(scaled(pause));
            Event { at: now, kind: event.kind }
        });
        Self { events: events.collect() }
    }

    /// Returns the time of the next event, since the start of the replay, or `None` at the end.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        self.events.front().map(|event| event.at)
    }

    /// Returns the next event if it is due at `now`.
    pub fn due(&mut self, now: Duration) -> Option<EventKind> {
        if self.next_at()? <= now { self.events.pop_front().map(|event| event.kind) } else { None }
    }
}

/// Cuts bytes into pieces as an adversary would: of one byte and of many, within characters and sequences. The same
/// seed gives the same pieces.
pub fn rechunk(bytes: &[u8], seed: u64) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut state) = (bytes, seed | 1);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // Xorshift: the same pieces everywhere, without another crate.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let len = match state >> 60 {
            0..8 => 1,
            8..12 => 1 + (state >> 8) as usize % 4,
            _ => 1 + (state >> 8) as usize % 4096,
        };
        let (piece, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use watchfire_core::terminal::Size;

    use super::*;

    #[test]
    fn events_come_due_at_speed_and_pauses_are_cut() {
        let event = |seconds, text: &str| Event {
            at: Duration::from_secs(seconds),
            kind: EventKind::Output(text.into()),
        };
        let mut header = Header::new(Size::default());
        header.idle_time_limit = Some(Duration::from_secs(4));
        let mut replay = Replay::new(&header, [event(2, "a"), event(100, "b")], 2.0);
        assert_eq!(replay.next_at(), Some(Duration::from_secs(1)));
        assert_eq!(replay.due(Duration::ZERO), None);
        assert_eq!(replay.due(Duration::from_secs(2)), Some(EventKind::Output("a".into())));
        assert_eq!(replay.next_at(), Some(Duration::from_secs(3)));
        assert!(replay.due(Duration::from_secs(3)).is_some() && replay.next_at().is_none());
    }

    #[test]
    fn pieces_make_the_whole() {
        let bytes: Vec<u8> = (0..20_000).map(|n| n as u8).collect();
        for seed in 0..20 {
            assert_eq!(rechunk(&bytes, seed).collect::<Vec<_>>().concat(), bytes);
        }
        assert!(
            rechunk(&bytes, 3).any(|piece| piece.len() == 1)
                && rechunk(&bytes, 3).any(|piece| piece.len() > 99)
        );
    }
}
