//! Trouble of this machine, which is no fault of a task or its agent.

use crate::{Error, ErrorKind};

/// Returns true for trouble of this machine that would affect every task alike: no space, no descriptors, no memory.
pub(crate) fn is_trouble(error: &Error) -> bool {
    use rustix::io::Errno;
    let exhausted = |errno: i32| {
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOSPC, Errno::DQUOT]
            .iter()
            .any(|known| known.raw_os_error() == errno)
    };
    // Whole chain: a backend or store may wrap the error of the system several times.
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let errno = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if errno.is_some_and(exhausted)
            || cause.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfSpace)
        {
            return true;
        }
        source = cause.source();
    }
    error.kind() == ErrorKind::OutOfSpace
}
