//! The error type of this crate and of every seam.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// A `Result` with [`Error`] as its usual error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: its kind, a message, named facts and the error that caused it.
///
/// The message is a lowercase fragment that fits after "failed to …:" or "error:". Programs match on the stable string
/// of [`Error::code`]; messages are for people and may change. `Debug` is the [report](Self::report) and the code: what a
/// `main` that returns it prints.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)*) => {
        /// The kind of an [`Error`]. Each kind has a stable code.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorKind {
            /// All kinds, in alphabetical order of their variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable code of this kind, which is part of the wire contract.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }
        }
    };
}

kinds! {
    /// The question has another answer already.
    AlreadyAnswered = "already_answered",
    /// The thing to create is there already.
    AlreadyExists = "already_exists",
    /// The name of a target fits several sessions.
    AmbiguousTarget = "ambiguous_target",
    /// A budget is used up, or cannot hold.
    BudgetUsedUp = "budget_used_up",
    /// Another session, task or user holds a resource that is needed.
    Busy = "busy",
    /// The caller cancelled, or the orchestrator is shutting down.
    Cancelled = "cancelled",
    /// Another orchestrator holds a newer claim on the work.
    ClaimLost = "claim_lost",
    /// The stored revision is not the expected one.
    Conflict = "conflict",
    /// The cursor is older than the oldest retained record.
    CursorExpired = "cursor_expired",
    /// Sessions would wait for each other in a circle.
    Cycle = "cycle",
    /// The time for an answer is over.
    Expired = "expired",
    /// Records were lost while a watch was waiting.
    GapDetected = "gap_detected",
    /// No helper program: `run_if_asked` was not called first in `main`, and no path was given.
    HelperMissing = "helper_missing",
    /// A bug in Watchfire. Please report it.
    Internal = "internal",
    /// The cursor is malformed, from the future, or belongs to another session.
    InvalidCursor = "invalid_cursor",
    /// A value from the caller is invalid.
    InvalidInput = "invalid_input",
    /// A call to the operating system failed.
    Io = "io",
    /// Another orchestrator holds this project.
    Locked = "locked",
    /// A file on disk does not follow its format.
    Malformed = "malformed",
    /// The session has no way to take input.
    NoInputChannel = "no_input_channel",
    /// The thing asked for does not exist.
    NotFound = "not_found",
    /// The agent's input box does not take text now: it holds other text, or a dialog covers it.
    NotInputReady = "not_input_ready",
    /// This implementation does not support the operation.
    NotSupported = "not_supported",
    /// The file system is full.
    OutOfSpace = "out_of_space",
    /// The operating system denied access to a file or folder.
    PermissionDenied = "permission_denied",
    /// The policy has a rule that this machine cannot enforce.
    PolicyUnenforceable = "policy_unenforceable",
    /// A program that is needed is not installed.
    ProgramMissing = "program_missing",
    /// The named sandbox does not work on this machine.
    SandboxUnavailable = "sandbox_unavailable",
    /// The session is not running.
    TargetOff = "target_off",
    /// The operation took longer than allowed.
    Timeout = "timeout",
    /// The limit of watchers is reached.
    TooManyWatchers = "too_many_watchers",
    /// The caller may not do this: its project does not let agents, or another was asked.
    Unauthorized = "unauthorized",
    /// No backend of that name is linked or configured.
    UnknownBackend = "unknown_backend",
    /// No sandbox of that name exists.
    UnknownSandbox = "unknown_sandbox",
    /// The condition is well-formed, but no source reports it.
    UnsupportedWatchCondition = "unsupported_watch_condition",
    /// Secrets that the work was started with are gone with a restart.
    VariablesGone = "variables_gone",
    /// The awaited condition did not come true in time.
    WatchTimeout = "watch_timeout",
    /// The workspace is in a state that only a user can repair.
    WorkspaceBroken = "workspace_broken",
}

impl Error {
    /// Creates an error of `kind` with a message.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), context: Vec::new(), source: None }))
    }

    /// Returns an error with the kind that `code` names; `internal` if no kind has it.
    pub(crate) fn from_code(code: &str, message: impl Into<Cow<'static, str>>) -> Self {
        let kind = ErrorKind::ALL.iter().copied().find(|kind| kind.code() == code);
        // Codes of a newer version, read from its journal.
        Self::new(kind.unwrap_or(ErrorKind::Internal), message)
    }

    /// Creates an error of the operating system during `action` (a fragment such as "reading the task file").
    #[must_use]
    pub fn io(action: impl Into<Cow<'static, str>>, error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        // Only kinds that a caller handles differently have a code of their own.
        let kind = match error.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            Io::StorageFull | Io::QuotaExceeded => ErrorKind::OutOfSpace,
            Io::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Io,
        };
        Self::new(kind, action).with_source(error)
    }

    /// Adds a named fact, such as a field or a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// Adds the path of the file or folder concerned.
    #[must_use]
    pub fn with_path(self, path: impl AsRef<std::path::Path>) -> Self {
        self.with("path", path.as_ref().display())
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable code of the kind.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Returns the message without context and source.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Yields the named facts in the order in which they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns the value of a named fact.
    #[must_use]
    pub fn detail(&self, name: &str) -> Option<&str> {
        self.context().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Returns the message with its context and the whole chain of sources, on one line.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        text
    }

    /// Returns true for trouble of this machine that would affect every task alike: no space, no descriptors, no memory.
    #[cfg(feature = "orchestrator")]
    pub(crate) fn is_trouble(&self) -> bool {
        use rustix::io::Errno;
        const EXHAUSTED: [Errno; 6] =
            [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOSPC, Errno::DQUOT];
        // Whole chain: a backend or store may wrap the error of the system several times.
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let errno = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            if errno.is_some_and(|errno| EXHAUSTED.iter().any(|known| known.raw_os_error() == errno))
                || error.downcast_ref::<Self>().is_some_and(|error| error.kind() == ErrorKind::OutOfSpace)
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (index, (name, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{name}: {value}", if index == 0 { " (" } else { ", " })?;
        }
        if self.0.context.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.report(), self.code())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_snake_case() {
        let mut codes: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }

    #[test]
    fn a_report_names_context_and_sources() {
        let io = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::io("reading the task file", io).with_path("/a b").with("line", 3);
        assert_eq!(error.code(), "not_found");
        assert_eq!(error.to_string(), "reading the task file (path: /a b, line: 3)");
        assert_eq!(error.report(), "reading the task file (path: /a b, line: 3): entity not found");
        assert_eq!(format!("{error:?}"), format!("{} [not_found]", error.report()));
        assert_eq!(error.detail("line"), Some("3"));
    }
}
