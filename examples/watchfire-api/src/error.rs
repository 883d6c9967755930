//! Errors on the wire: a status code, and the stable code, the facts and the hint in its details.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as StdError;
use std::fmt;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use watchfire_core::{Error, ErrorKind};

const DOMAIN: &str = "watchfire";

/// Returns an error of the library as a status.
#[must_use]
pub fn status(error: &Error) -> Status {
    let mut facts: HashMap<String, String> =
        error.context().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let because: Vec<_> =
        std::iter::successors(error.source(), |inner| (**inner).source()).map(ToString::to_string).collect();
    if !because.is_empty() {
        facts.insert("because".to_owned(), because.join(": "));
    }
    let details = ErrorDetails::with_error_info(error.code(), DOMAIN, facts);
    Status::with_error_details(code(error.kind()), error.message(), details)
}

fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound | ErrorKind::UnknownBackend | ErrorKind::UnknownSandbox => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::AmbiguousTarget
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidCursor
        | ErrorKind::UnsupportedWatchCondition => Code::InvalidArgument,
        ErrorKind::Timeout | ErrorKind::WatchTimeout => Code::DeadlineExceeded,
        ErrorKind::TooManyWatchers | ErrorKind::OutOfSpace => Code::ResourceExhausted,
        ErrorKind::CursorExpired => Code::OutOfRange,
        ErrorKind::GapDetected => Code::DataLoss,
        ErrorKind::NotSupported => Code::Unimplemented,
        ErrorKind::PermissionDenied | ErrorKind::Unauthorized => Code::PermissionDenied,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Busy | ErrorKind::Conflict | ErrorKind::Locked | ErrorKind::ClaimLost => Code::Aborted,
        ErrorKind::Internal | ErrorKind::Io => Code::Internal,
        _ => Code::FailedPrecondition,
    }
}

/// An error of a call, as its caller sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// Stable code.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Facts by name.
    pub details: BTreeMap<String, String>,
    /// Advice on how to solve the problem.
    pub hint: Option<String>,
}

impl ApiError {
    /// Returns an error without facts.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: BTreeMap::new(), hint: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
        let Some(info) = info else {
            // Not ours: the connection, or a server of another release.
            let code = match status.code() {
                Code::Unavailable => "app_not_running",
                // A connection that broke in the middle of a stream.
                _ if StdError::source(&status).is_some() => "app_not_running",
                Code::Unimplemented => "not_supported",
                Code::DeadlineExceeded => "timeout",
                Code::Cancelled => "cancelled",
                _ => "internal",
            };
            return Self::new(code, status.message());
        };
        let mut details: BTreeMap<_, _> = info.metadata.into_iter().collect();
        let hint = details.remove("hint");
        Self { code: info.reason, message: status.message().to_owned(), details, hint }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::from(status(&error))
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_as_it_was() {
        let error = Error::new(ErrorKind::AmbiguousTarget, "several sessions are called this")
            .with("target", "3")
            .with("hint", "name one")
            .with_source(std::io::Error::other("inner"));
        let sent = status(&error);
        assert_eq!(sent.code(), Code::InvalidArgument);
        let got = ApiError::from(sent);
        assert_eq!((got.code.as_str(), got.message.as_str()), ("ambiguous_target", error.message()));
        assert_eq!((got.details["target"].as_str(), got.details["because"].as_str()), ("3", "inner"));
        assert_eq!(got.hint.as_deref(), Some("name one"));
    }

    #[test]
    fn an_error_that_is_not_ours_has_a_code_too() {
        assert_eq!(ApiError::from(Status::unavailable("gone")).code, "app_not_running");
    }
}
