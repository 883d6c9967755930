//! Matching a condition against a sequence of records.

use super::condition::Condition;
use super::record::{Body, Record, RecordKind};
use crate::backend::{Role, Status};

/// A condition, and how far it has come true.
#[derive(Debug)]
pub(super) struct Matcher {
    condition: Condition,
    /// One for each part of a list.
    parts: Vec<Self>,
    /// True once it came true. Parts of `all` come true at different times.
    is_true: bool,
    carry: Carry,
}

/// Ends of what was read so far. Always shorter than the wanted text, so that only something new can complete a match.
#[derive(Debug, Default)]
struct Carry {
    output: String,
    /// Of a message in pieces.
    message: String,
}

impl Matcher {
    pub(super) fn new(condition: Condition) -> Self {
        let parts = match &condition {
            Condition::All(parts) | Condition::Any(parts) => parts.iter().cloned().map(Self::new).collect(),
            _ => Vec::new(),
        };
        Self { condition, parts, is_true: false, carry: Carry::default() }
    }

    pub(super) fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Returns the kinds of records that can still make it true.
    pub(super) fn needed(&self) -> Vec<RecordKind> {
        let waiting = || self.parts.iter().filter(|part| !part.is_true);
        match &self.condition {
            Condition::All(_) | Condition::Any(_) => waiting().flat_map(Self::needed).collect(),
            leaf => leaf.kinds(),
        }
    }

    /// Takes the status that the session has now for an observation. Returns true if that makes it true.
    pub(super) fn accepts(&mut self, current: Status) -> bool {
        self.step(&mut |leaf, _| matches!(leaf, Condition::Status(wanted) if *wanted == current))
    }

    /// Returns true if it is true with this record.
    pub(super) fn matches(&mut self, record: &Record) -> bool {
        self.step(&mut |leaf, carry| is_met(leaf, carry, record))
    }

    fn step(&mut self, is_met: &mut impl FnMut(&Condition, &mut Carry) -> bool) -> bool {
        // Every part sees every record, also when another one came true with it.
        for part in self.parts.iter_mut().filter(|part| !part.is_true) {
            part.step(is_met);
        }
        self.is_true = match &self.condition {
            Condition::All(_) => self.parts.iter().all(|part| part.is_true),
            Condition::Any(_) => self.parts.iter().any(|part| part.is_true),
            leaf => self.is_true || is_met(leaf, &mut self.carry),
        };
        self.is_true
    }

    /// Returns true if it cannot come true any more after this record.
    pub(super) fn ends(&self, record: &Record) -> bool {
        let waiting = || self.parts.iter().filter(|part| !part.is_true);
        match (&self.condition, &record.body) {
            (Condition::All(_), _) => waiting().any(|part| part.ends(record)),
            (Condition::Any(_), _) => waiting().all(|part| part.ends(record)),
            (_, Body::Status(Status::Off)) => true,
            // A failed session may still print and deliver, but it does not return to work by itself.
            (leaf, Body::Status(Status::Error)) => matches!(leaf, Condition::Status(_)),
            _ => false,
        }
    }
}

/// Returns true if `text` completes the wanted one, which may be split between two records.
fn is_found(carry: &mut String, text: &str, wanted: &str) -> bool {
    carry.push_str(text);
    let found = carry.contains(wanted);
    // One byte less than its length is carried over.
    let mut start = carry.len() - carry.len().min(wanted.len().saturating_sub(1));
    while !carry.is_char_boundary(start) {
        start += 1;
    }
    carry.drain(..start);
    found
}

/// Returns true if a record meets a condition that is no list.
fn is_met(condition: &Condition, carry: &mut Carry, record: &Record) -> bool {
    match (condition, &record.body) {
        (Condition::Delivery(wanted), Body::Delivery { state, .. }) => wanted == state,
        (Condition::Event(wanted), Body::Event { name, .. } | Body::Lifecycle { name, .. }) => wanted == name,
        (Condition::Issue(wanted), Body::Issue(issue)) => wanted.is_none_or(|kind| kind == issue.kind),
        (Condition::Output(wanted), Body::Output { text, .. }) => is_found(&mut carry.output, text, wanted),
        // Only the agent's own messages: the person's prompt may quote the awaited text.
        (Condition::Output(wanted) | Condition::Transcript(wanted), Body::Transcript(message)) => {
            if !message.is_piece {
                carry.message.clear();
            }
            let found =
                message.role == Role::Assistant && is_found(&mut carry.message, &message.text(), wanted);
            if !message.is_piece {
                // A whole message ends with itself.
                carry.message.clear();
            }
            found
        }
        // Records of a status are written only on a change, so an old one cannot match late.
        (Condition::Status(wanted), Body::Status(status)) => wanted == status,
        _ => false,
    }
}
