//! Folders that only their owner can open.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::{Error, ErrorKind, Result};

/// Creates the folder `path` with mode 0700, and missing folders above it. An existing folder keeps its permissions.
///
/// # Errors
/// Errors of the system.
pub fn make_private(path: &Path) -> Result<()> {
    make(path, true).map_err(|error| Error::io("making the folder", error).with_path(path))
}

/// Creates the folder `path` with mode 0700.
///
/// # Errors
/// `already_exists`; errors of the system.
pub(crate) fn create_private(path: &Path) -> Result<()> {
    make(path, false).map_err(|error| {
        let error = match error.kind() {
            io::ErrorKind::AlreadyExists => Error::new(ErrorKind::AlreadyExists, "the folder exists already"),
            _ => Error::io("making the folder", error),
        };
        error.with_path(path)
    })
}

fn make(path: &Path, recursive: bool) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).recursive(recursive).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_can_open_them() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        assert!(create_private(&path).is_err(), "the folder above is missing");
        make_private(&path).unwrap();
        for path in [&path, path.parent().unwrap()] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        make_private(&path).unwrap();
        assert_eq!(create_private(&path).unwrap_err().code(), "already_exists");
    }
}
