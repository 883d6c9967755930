//! Reading a recording while it is written.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::entry::{OUTPUT, path, starts};
use crate::files::open_untrusted;
use crate::{Error, Result};

/// Reader of a recording that still grows. Keeps one file open: it can be read to its end even after its removal.
#[derive(Debug)]
pub(in crate::session) struct Tail {
    folder: PathBuf,
    open: Option<(u64, File)>,
}

impl Tail {
    pub(in crate::session) fn new(folder: PathBuf) -> Self {
        Self { folder, open: None }
    }

    /// Reads at most `limit` bytes from `offset` on, and returns them with the offset of the first: a later one if what
    /// lay between was not kept. Returns `None` if nothing is recorded from `offset` on.
    ///
    /// # Errors
    /// I/O errors.
    pub(in crate::session) fn read(&mut self, offset: u64, limit: usize) -> Result<Option<(u64, Vec<u8>)>> {
        if let Some(bytes) = self.read_open(offset, limit)? {
            return Ok(Some((offset, bytes)));
        }
        let failed = |error| Error::io("reading the recording", error).with_path(&self.folder);
        let starts = match starts(&self.folder) {
            // A person has removed the log of a running session.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            starts => starts.map_err(failed)?,
        };
        // The segment in which `offset` lies, then those after a gap.
        let before = starts.iter().rposition(|start| *start <= offset).unwrap_or(0);
        for &start in starts.iter().skip(before) {
            let Some(file) = open_untrusted(&path(&self.folder, start, OUTPUT))? else { continue };
            self.open = Some((start, file));
            let offset = offset.max(start);
            if let Some(bytes) = self.read_open(offset, limit)? {
                return Ok(Some((offset, bytes)));
            }
        }
        Ok(None)
    }

    /// Reads from the open segment, if it has a byte at `offset`.
    fn read_open(&self, offset: u64, limit: usize) -> Result<Option<Vec<u8>>> {
        let Some((start, file)) = &self.open else { return Ok(None) };
        let Some(within) = offset.checked_sub(*start) else { return Ok(None) };
        let mut bytes = vec![0; limit];
        let count = loop {
            match file.read_at(&mut bytes, within) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    break read.map_err(|e| Error::io("reading the recording", e).with_path(&self.folder))?;
                }
            }
        };
        bytes.truncate(count);
        Ok((count > 0).then_some(bytes))
    }
}
