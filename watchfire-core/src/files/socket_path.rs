//! Paths of sockets, which the kernel bounds to about 100 bytes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Returns a path to the socket `name` in a folder, which may lie deep, and the descriptor that it needs: it is valid as long as
/// that is open.
///
/// # Errors
/// Errors of opening the folder.
pub(crate) fn socket_path(folder: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    if !cfg!(target_os = "linux") {
        return Ok((folder.join(name), None));
    }
    let folder = File::open(folder)?;
    Ok((format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()).into(), Some(folder)))
}
