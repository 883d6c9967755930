//! Upper bounds for a folder of which snapshots are taken.

use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::objects::verify::LARGEST;

/// Upper bound for the files of a folder. Every snapshot looks at each.
const FILES: u64 = 200_000;

/// Upper bound for the sum of their sizes, in bytes. The store keeps a copy of each content.
const BYTES: u64 = 8 << 30;

/// Number and size of the files that a snapshot would take.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    files: u64,
    bytes: u64,
}

impl Measured {
    /// Counts a file.
    ///
    /// # Errors
    /// `not_supported` with the limit that it exceeds.
    pub(crate) fn add(&mut self, path: &[u8], size: u64) -> Result<()> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size);
        let (message, limit) = if size > LARGEST as u64 {
            ("a file is larger than snapshots take", format!("{} MiB for a file", LARGEST >> 20))
        } else if self.files > FILES {
            ("the folder has more files than snapshots take", format!("{FILES} files"))
        } else if self.bytes > BYTES {
            ("the folder is larger than snapshots take", format!("{} GiB for all files", BYTES >> 30))
        } else {
            return Ok(());
        };
        let hint = "list what tasks do not need in a .gitignore file of the folder";
        Err(Error::new(ErrorKind::NotSupported, message)
            .with("limit", limit)
            .with("file", RepoPath::new(path))
            .with("hint", hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named() {
        let mut measured = Measured::default();
        measured.add(b"largest", LARGEST as u64).unwrap();
        let limit = |error: Error| error.detail("limit").map(str::to_owned).unwrap();
        assert_eq!(limit(measured.add(b"large", LARGEST as u64 + 1).unwrap_err()), "512 MiB for a file");
        let mut measured = Measured::default();
        let most = BYTES / LARGEST as u64;
        (0..most).for_each(|_| measured.add(b"part", LARGEST as u64).unwrap());
        assert_eq!(limit(measured.add(b"more", 1).unwrap_err()), "8 GiB for all files");
        let mut measured = Measured { files: FILES - 1, bytes: 0 };
        measured.add(b"last", 0).unwrap();
        assert_eq!(limit(measured.add(b"more", 0).unwrap_err()), "200000 files");
    }
}
