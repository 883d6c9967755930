//! The log of a daemon without a terminal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use watchfire_core::{Error, Result};

/// Size at which the log becomes `daemon.log.1`, and a new one begins.
const LARGEST: u64 = 4 << 20;

/// Log of a daemon, of bounded size.
#[derive(Debug)]
pub(crate) struct DaemonLog {
    path: PathBuf,
    file: File,
    written: u64,
}

impl DaemonLog {
    /// Opens the log in a home, readable by its owner only.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn open(home: &Path) -> Result<Self> {
        let path = home.join("daemon.log");
        let opened = open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (written, file) = opened.map_err(|error| Error::io("opening the log", error).with_path(&path))?;
        Ok(Self { path, file, written })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.file = open(&self.path)?;
        self.written = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

impl Write for DaemonLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written > LARGEST {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_talks_for_weeks_fills_no_disk() {
        let home = tempfile::tempdir().unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        for _ in 0..2 {
            let mut log = DaemonLog::open(home.path()).unwrap();
            for _ in 0..10_000 {
                log.write_all(&line).unwrap();
            }
        }
        let files: Vec<_> = fs::read_dir(home.path()).unwrap().map(|it| it.unwrap()).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        for file in files {
            let length = file.metadata().unwrap().len();
            assert!(length <= LARGEST + 2048, "{}: {length} bytes", file.path().display());
        }
    }
}
