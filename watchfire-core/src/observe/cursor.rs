//! Cursors: positions in a log.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// A position in the order of one log. Opaque: compare cursors for equality, or pass them back.
///
/// A cursor belongs to one log. Every other log rejects it as `invalid_cursor`. It names the run of the program, because a program
/// that is killed may have given numbers to records that are not on disk; a later run goes on after a cursor of an earlier one.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    scope: Arc<str>,
    epoch: u64,
    sequence: u64,
}

impl Cursor {
    pub(super) fn new(scope: Arc<str>, epoch: u64, sequence: u64) -> Self {
        Self { scope, epoch, sequence }
    }

    /// Returns the id of the log.
    #[cfg(feature = "orchestrator")]
    pub(crate) fn scope(&self) -> &str {
        &self.scope
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the sequence number if this cursor belongs to the log of `scope` and `epoch` and is not after `latest`.
    pub(super) fn resolve(&self, scope: &str, epoch: u64, latest: u64) -> Result<u64, Error> {
        let reason = if *self.scope != *scope {
            "foreign"
        // Numbers that a killed program gave to records that are not on disk are given again. Without the epoch, an
        // old cursor would point at other records.
        } else if self.epoch != epoch {
            "other_epoch"
        } else if self.sequence > latest {
            "future"
        } else {
            return Ok(self.sequence);
        };
        Err(invalid(&self.to_string(), reason))
    }
}

fn invalid(text: &str, reason: &'static str) -> Error {
    let message = match reason {
        "foreign" => "the cursor belongs to another session",
        "other_epoch" => "the cursor is from a run of the program of which nothing is kept",
        "future" => "the cursor is ahead of the log",
        _ => "not a cursor, expected one from an earlier response",
    };
    // A cursor comes from a client and may be of any length: the error must not echo megabytes.
    let shown: String = text.chars().take(200).collect();
    Error::new(ErrorKind::InvalidCursor, message)
        .with("cursor", format_args!("{shown:?}"))
        .with("reason", reason)
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}:{:016x}", self.scope, self.epoch, self.sequence)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let hex = |digits: &str| {
            // `from_str_radix` accepts a sign, which would give one cursor two spellings.
            let is_hex = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if is_hex { u64::from_str_radix(digits, 16).ok() } else { None }
        };
        let parse = || {
            // From the right: a scope may contain colons.
            let (rest, sequence) = text.rsplit_once(':')?;
            let (scope, epoch) = rest.rsplit_once(':')?;
            Some(Self { scope: scope.into(), epoch: hex(epoch)?, sequence: hex(sequence)? })
        };
        parse().ok_or_else(|| invalid(text, "malformed"))
    }
}

impl TryFrom<String> for Cursor {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        let cursor = Cursor::new("s1".into(), 7, u64::MAX);
        assert_eq!(cursor.to_string(), "s1:0000000000000007:ffffffffffffffff");
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
    }

    #[test]
    fn malformed_cursors_are_rejected() {
        let sixteen = "0".repeat(16);
        for text in [
            String::new(),
            "s1".into(),
            "s1:".into(),
            format!("s1:{sixteen}"),
            format!("s1:{sixteen}:"),
            format!("s1:{sixteen}:+{}", "0".repeat(15)),
            format!("s1:{sixteen}:{sixteen}0"),
            format!("s1:{sixteen}:xyz{}", "0".repeat(13)),
            "é".repeat(1_000),
        ] {
            let error = text.parse::<Cursor>().unwrap_err();
            assert_eq!((error.code(), error.detail("reason")), ("invalid_cursor", Some("malformed")));
        }
    }

    #[test]
    fn only_its_own_log_accepts_a_cursor() {
        let cursor = Cursor::new("s1".into(), 7, 5);
        assert_eq!(cursor.resolve("s1", 7, 5).unwrap(), 5);
        for (scope, epoch, latest, reason) in
            [("s2", 7, 5, "foreign"), ("s1", 8, 5, "other_epoch"), ("s1", 7, 4, "future")]
        {
            let error = cursor.resolve(scope, epoch, latest).unwrap_err();
            assert_eq!((error.code(), error.detail("reason")), ("invalid_cursor", Some(reason)));
        }
    }
}
