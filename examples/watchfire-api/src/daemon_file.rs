//! `daemon.yaml` in the home: how clients find the daemon, and the token that its port asks for.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchfire_core::files::{Replace, open_untrusted};
use watchfire_core::model::Timestamp;
use watchfire_core::{Error, ErrorKind, Result};

const NAME: &str = "daemon.yaml";
/// Upper bound for its size that is read.
const LARGEST: u64 = 64 << 10;

/// The running daemon of a home. Only its person can read the file.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
pub struct DaemonFile {
    /// Version of the format: 1.
    version: u32,
    /// Address that it listens on.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Address of its port for other machines, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SocketAddr>,
    /// Its process. Another one may have the number by now: only the daemon's lock says that it runs.
    pub pid: u32,
    /// The time at which it started.
    pub started_at: Timestamp,
    /// Its release.
    pub program_version: String,
    /// The options it was started with, as arguments, for the daemon that takes its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Token that every request on the port must carry, as `authorization: Bearer TOKEN`.
    pub token: String,
}

impl DaemonFile {
    /// Returns the file of this process, with a new token.
    #[must_use]
    pub fn new(address: SocketAddr, started_at: Timestamp) -> Self {
        // 244 random bits.
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Self {
            version: 1,
            host: address.ip().to_string(),
            port: address.port(),
            tls: None,
            pid: std::process::id(),
            started_at,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: Vec::new(),
            token,
        }
    }

    /// Writes it into the home at `home`, for its person alone.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, home: &Path) -> Result<()> {
        let path = path(home);
        let text = serde_yaml::to_string(self).map_err(|error| {
            Error::new(ErrorKind::Internal, "writing the daemon's file").with_source(error)
        })?;
        Replace::new().with_mode(0o600).write(&path, text.as_bytes())
    }

    /// Reads it, or returns `None` if there is none.
    ///
    /// # Errors
    /// `malformed`; I/O errors.
    pub fn read(home: &Path) -> Result<Option<Self>> {
        use std::io::Read as _;
        let path = path(home);
        let Some(file) = open_untrusted(&path)? else { return Ok(None) };
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).map_err(|e| Error::io("reading", e).with_path(&path))?;
        serde_yaml::from_str(&text).map(Some).map_err(|error| {
            Error::new(ErrorKind::Malformed, "not the file of a daemon").with_path(path).with_source(error)
        })
    }

    /// Removes it, if it is there.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(home: &Path) -> Result<()> {
        let path = path(home);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("removing the daemon's file", error).with_path(path))
            }
            _ => Ok(()),
        }
    }
}

fn path(home: &Path) -> PathBuf {
    home.join(NAME)
}

/// Without the token.
impl fmt::Debug for DaemonFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, pid, .. } = self;
        f.debug_struct("DaemonFile")
            .field("host", host)
            .field("port", port)
            .field("pid", pid)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use watchfire_core::clock::{Clock as _, SystemClock};

    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_by_nobody_else() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(DaemonFile::read(home.path()).unwrap(), None);
        let file = DaemonFile::new("127.0.0.1:4000".parse().unwrap(), SystemClock.now());
        file.write(home.path()).unwrap();
        let mode = std::fs::metadata(path(home.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = DaemonFile::read(home.path()).unwrap().unwrap();
        assert_eq!((read.port, &read.token), (4000, &file.token));
        assert!(!format!("{read:?}").contains(&file.token));
        assert_ne!(file.token, DaemonFile::new("127.0.0.1:4000".parse().unwrap(), SystemClock.now()).token);
        DaemonFile::remove(home.path()).unwrap();
        DaemonFile::remove(home.path()).unwrap();
    }
}
