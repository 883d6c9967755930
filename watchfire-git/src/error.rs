//! Turns libgit2's errors into ours.

use std::borrow::Cow;

use watchfire_core::{Error, ErrorKind, Result};

/// Adds the action that failed to an error of git.
pub(crate) trait During<T> {
    /// Turns the error into one of ours, with `action` (a fragment such as "reading the branch") as its
    /// message.
    fn during(self, action: impl Into<Cow<'static, str>>) -> Result<T>;
}

impl<T> During<T> for Result<T, git2::Error> {
    fn during(self, action: impl Into<Cow<'static, str>>) -> Result<T> {
        self.map_err(|error| {
            let kind = match (error.code(), error.class()) {
                (git2::ErrorCode::NotFound | git2::ErrorCode::UnbornBranch, _) => ErrorKind::NotFound,
                (git2::ErrorCode::Exists, _) => ErrorKind::AlreadyExists,
                (git2::ErrorCode::Locked, _) => ErrorKind::Busy,
                (git2::ErrorCode::Modified, _) => ErrorKind::Conflict,
                // libgit2 has no codes for these errors of the system: only the message says which one it
                // was.
                (_, git2::ErrorClass::Os) if error.message().contains("No space left") => {
                    ErrorKind::OutOfSpace
                }
                (_, git2::ErrorClass::Os) if error.message().contains("ermission denied") => {
                    ErrorKind::PermissionDenied
                }
                _ => ErrorKind::Io,
            };
            Error::new(kind, action).with_source(error)
        })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, action: impl Into<Cow<'static, str>>) -> Result<T> {
        self.map_err(|error| Error::io(action, error))
    }
}

/// Returns an error about a state of the repository that a person must look at.
pub(crate) fn broken(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::WorkspaceBroken, message)
}
