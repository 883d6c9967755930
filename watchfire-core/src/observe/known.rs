//! The records that a session repeats after another program has taken it over.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::record::Body;
use super::store::StoredBody;
use crate::backend::Source;

/// Records that are in the log already, by their hash, and how often each is to come once more.
///
/// A program that takes a session over reads its conversation and its stream from the beginning. Only what is read there can
/// come again, and only until it has been read once.
#[derive(Debug, Default)]
pub(super) struct Known {
    transcript: HashMap<u64, u32>,
    stream: HashMap<u64, u32>,
}

impl Known {
    /// Adds a record.
    pub(super) fn add(&mut self, source: Source, body: &Body) {
        if let Some((known, hash)) = self.of(source, body) {
            *known.entry(hash).or_default() += 1;
        }
    }

    /// Returns true if the record is known, and forgets it once.
    pub(super) fn take(&mut self, source: Source, body: &Body) -> bool {
        if self.transcript.is_empty() && self.stream.is_empty() {
            return false;
        }
        let Some((known, hash)) = self.of(source, body) else { return false };
        let Some(count) = known.get_mut(&hash) else { return false };
        *count -= 1;
        if *count == 0 {
            known.remove(&hash);
        }
        true
    }

    /// Forgets what can no longer come from `source`.
    pub(super) fn forget(&mut self, source: Source) {
        if let Some(known) = self.read_from(source) {
            *known = HashMap::new();
        }
    }

    /// Makes no difference any more between what was said in the stream and in the conversation.
    pub(super) fn merge(&mut self) {
        for (hash, count) in std::mem::take(&mut self.stream) {
            *self.transcript.entry(hash).or_default() += count;
        }
    }

    fn read_from(&mut self, source: Source) -> Option<&mut HashMap<u64, u32>> {
        match source {
            Source::Transcript => Some(&mut self.transcript),
            Source::Protocol => Some(&mut self.stream),
            _ => None,
        }
    }

    /// Returns the hash of a record that can come again. A status is not counted: it says what is now.
    fn of(&mut self, source: Source, body: &Body) -> Option<(&mut HashMap<u64, u32>, u64)> {
        let known = self.read_from(source)?;
        match body {
            Body::Transcript(_) | Body::Event { .. } | Body::Issue(_) | Body::IssueCleared(_) => {}
            _ => return None,
        }
        let mut hasher = DefaultHasher::new();
        serde_json::to_vec(&StoredBody::of(body)?).ok()?.hash(&mut hasher);
        Some((known, hasher.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_twice_is_known_twice() {
        let mut known = Known::default();
        let turn = || Body::event("turn_completed");
        known.add(Source::Transcript, &turn());
        known.add(Source::Transcript, &turn());
        // It is not read again.
        known.add(Source::Hook, &turn());
        assert!(!known.take(Source::Hook, &turn()) && !known.take(Source::Protocol, &turn()));
        let found = [(); 3].map(|()| known.take(Source::Transcript, &turn()));
        assert_eq!(found, [true, true, false]);
        known.add(Source::Transcript, &turn());
        known.forget(Source::Transcript);
        assert!(!known.take(Source::Transcript, &turn()));
    }
}
