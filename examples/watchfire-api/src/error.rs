//! Errors on the wire: a status code, and the stable code, the facts and the hint in its details.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as StdError;
use std::fmt;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use watchfire_core::{Error, ErrorKind};

const DOMAIN: &str = "watchfire";
/// Message of streams that end because the daemon was asked to end.
const ENDING: &str = "the daemon is shutting down";
const ENDED: &str = "the daemon has ended";
/// Advice on what to do without the daemon.
const GOES_ON: &str = "its agents go on without it; watchfire daemon start takes them over, and watchfire attach shows them again";

/// Returns an error of the library as a status.
#[must_use]
pub fn status(error: &Error) -> Status {
    status_as(code(error.kind()), error)
}

/// Returns an error of the library as a status with this code.
#[must_use]
pub fn status_as(code: Code, error: &Error) -> Status {
    let mut facts: HashMap<String, String> =
        error.context().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let because: Vec<_> =
        std::iter::successors(error.source(), |inner| (**inner).source()).map(ToString::to_string).collect();
    if !because.is_empty() {
        facts.insert("because".to_owned(), because.join(": "));
    }
    let details = ErrorDetails::with_error_info(error.code(), DOMAIN, facts);
    Status::with_error_details(code, error.message(), details)
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

    /// Returns true if the program that was called does not run, or has gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.code == "app_not_running"
    }

    /// Returns the error of a daemon that has gone because it was asked to end.
    #[must_use]
    pub fn shutdown() -> Self {
        Self::new("app_not_running", ENDED).with_hint(GOES_ON)
    }

    /// Returns true if the daemon has gone because it was asked to end.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.is_gone() && self.message == ENDED
    }

    /// Returns the error of a connection that broke, or could not be made.
    fn gone(status: &Status) -> Self {
        if status.message() == ENDING {
            return Self::shutdown();
        }
        let mut error = Self::new("app_not_running", "the daemon has gone").with_hint(GOES_ON);
        // The layers above the innermost cause only say that a connection broke.
        let innermost = std::iter::successors(StdError::source(status), |inner| (**inner).source()).last();
        if let Some(cause) = innermost {
            error.details.insert("because".to_owned(), cause.to_string());
        }
        error
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
        let Some(info) = info else {
            // Not ours: the connection, or a server of another release.
            let code = match status.code() {
                Code::Unavailable => return Self::gone(&status),
                // A connection that broke in the middle of a stream.
                _ if StdError::source(&status).is_some() => return Self::gone(&status),
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
        let gone = ApiError::from(Status::unavailable("transport error"));
        assert_eq!((gone.code.as_str(), gone.message.as_str()), ("app_not_running", "the daemon has gone"));
        assert!(gone.is_gone() && !gone.is_shutdown() && gone.hint.is_some());
        let broken = Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        let broken = ApiError::from(broken);
        assert_eq!(
            (broken.message.as_str(), broken.details["because"].as_str()),
            ("the daemon has gone", "broken pipe")
        );
        let ended = ApiError::from(Status::unavailable("the daemon is shutting down"));
        assert!(ended.is_shutdown() && ended.hint.is_some());
    }
}
