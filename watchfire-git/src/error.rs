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
                (_, git2::ErrorClass::Os)
                    if ["No space left", "quota exceeded"].iter().any(|it| error.message().contains(it)) =>
                {
                    ErrorKind::OutOfSpace
                }
                (_, git2::ErrorClass::Os) if error.message().contains("ermission denied") => {
                    ErrorKind::PermissionDenied
                }
                _ => ErrorKind::Io,
            };
            match errno_of(&error) {
                Some(errno) => Error::new(kind, action).with_source(Exhausted { errno, said: Said(error) }),
                None => Error::new(kind, action).with_source(Said(error)),
            }
        })
    }
}

/// An error of libgit2 that shows its message alone: classes and codes are for programs.
#[derive(Debug)]
pub(crate) struct Said(pub(crate) git2::Error);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for Said {}

/// Returns the system error behind an error of libgit2 if this machine has run out of descriptors or memory.
fn errno_of(error: &git2::Error) -> Option<std::io::Error> {
    use rustix::io::Errno;
    let known = [
        ("Too many open files in system", Errno::NFILE),
        ("Too many open files", Errno::MFILE),
        ("Cannot allocate memory", Errno::NOMEM),
    ];
    let found = known.into_iter().find(|(text, _)| error.message().contains(text));
    found.map(|(_, errno)| errno.into())
}

/// An error of libgit2 whose source is the system error that it names. Callers use the source to recognise a machine
/// that has run out of something.
#[derive(Debug)]
struct Exhausted {
    errno: std::io::Error,
    said: Said,
}

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.said.fmt(f)
    }
}

impl std::error::Error for Exhausted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn trouble_of_the_machine_is_told_by_its_errno() {
        let said = |message: &str| {
            let error = git2::Error::new(git2::ErrorCode::GenericError, git2::ErrorClass::Os, message);
            Err::<(), _>(error).during("reading").unwrap_err()
        };
        let error = said("could not open '/x': Too many open files");
        let cause =
            error.source().and_then(|it| it.source()).and_then(|it| it.downcast_ref::<std::io::Error>());
        let errno = cause.and_then(std::io::Error::raw_os_error);
        assert_eq!(errno, Some(rustix::io::Errno::MFILE.raw_os_error()));
        assert_eq!(said("write: Disk quota exceeded").kind(), ErrorKind::OutOfSpace);
        assert!(said("no such file").source().is_some_and(|it| it.source().is_none()));
        assert!(!said("no such file").report().contains("class="));
    }
}
