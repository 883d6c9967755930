//! File primitives that must be right once: locks, private folders, atomic replacement, untrusted reads.
//!
//! This room is at the bottom of core. It knows no task, no session and no YAML, and needs no async runtime. Two
//! kinds of neighbours make plain `std::fs` calls unsafe here:
//!
//! - Agents write into folders that Watchfire reads. They can place a symbolic link, a FIFO or an endless file in any
//!   component of a path. [`open_untrusted`] and `read_untrusted` follow no link, never block and read at most a
//!   given number of bytes.
//! - Other programs write the same files at the same time, and the machine can stop between two writes. [`Replace`]
//!   and [`exchange`] change a file in one rename; [`FileLock`] and `DirLock` order writers among processes.
//!
//! `FolderWatch` reports events of the file system as hints to look again. One watcher serves the whole process.

mod dir;
mod lock;
mod owner;
mod private;
mod remove;
mod replace;
mod socket_path;
mod untrusted;
mod watch;

pub(crate) use dir::Dir;
#[cfg(feature = "yaml")]
pub(crate) use dir::{Staged, Stamp, Unread, is_hidden};
pub use lock::FileLock;
pub(crate) use lock::{DirLock, is_alive};
pub use owner::make_shared;
pub(crate) use private::create_private;
pub use private::make_private;
pub use remove::remove_tree;
pub use replace::{Replace, UNIQUE_PREFIX, exchange, is_abandoned, replace, unique_name};
pub(crate) use socket_path::socket_path;
pub use untrusted::open_untrusted;
pub(crate) use untrusted::read_untrusted;
pub(crate) use watch::FolderWatch;

/// An I/O error of `action` on `path`.
pub(crate) fn failure(
    action: &'static str,
    path: impl AsRef<std::path::Path>,
    error: rustix::io::Errno,
) -> crate::Error {
    crate::Error::io(action, error.into()).with_path(path)
}
