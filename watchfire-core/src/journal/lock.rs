//! One writer: a locked file that names its holder.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{Error, ErrorKind, Result};

/// A lock on a file, held until it is dropped or the process ends. The file stays and names the last holder's pid.
///
/// The file must not lie where an agent can open it: whoever can open it can hold it.
#[derive(Debug)]
pub struct DirLock {
    file: File,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing alone would leave it to a process that is being started just then, and has all that we have until it runs.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl DirLock {
    /// Takes the lock on the file at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// `locked`, with the holder's pid, when someone else holds it; also this process does, when it holds it already.
    pub fn acquire(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(|error| Error::io("opening the lock file", error).with_path(path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = (&file).take(32).read_to_string(&mut holder);
                let holder = Some(holder.trim()).filter(|holder| !holder.is_empty()).unwrap_or("unknown");
                return Err(Error::new(ErrorKind::Locked, "another orchestrator works on this project")
                    .with("pid", holder)
                    .with_path(path));
            }
            Err(error) => return Err(Error::io("locking", error.into()).with_path(path)),
        }
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(|error| Error::io("writing the lock file", error).with_path(path))?;
        Ok(Self { file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = DirLock::acquire(&path).unwrap();
        let error = DirLock::acquire(&path).unwrap_err();
        assert_eq!(error.code(), "locked");
        assert_eq!(error.detail("pid"), Some(std::process::id().to_string().as_str()));
        // As a process has it that is being started.
        let inherited = first.file.try_clone().unwrap();
        drop(first);
        DirLock::acquire(&path).unwrap();
        drop(inherited);
    }
}
