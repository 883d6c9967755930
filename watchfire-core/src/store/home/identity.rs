//! Ids of this machine and of this home.

use crate::files::{Dir, Unread};
use crate::store::Holder;
use crate::store::yaml::{already_exists, atomic, revision};
use crate::{Error, ErrorKind, Result};

/// Returns a new start of the home in `home`.
pub(super) fn holder(home: &Dir) -> Result<Holder> {
    let installation = kept(home, "installation_id")?;
    let machine = match machine_id() {
        Some(machine) => machine,
        None => kept(home, "machine_id")?,
    };
    Ok(Holder::new(machine, installation, uuid::Uuid::new_v4().to_string()))
}

/// Returns the id in the file `name`. Creates the file with a random id if missing.
fn kept(home: &Dir, name: &str) -> Result<String> {
    let read = || match home.read(name, 1024) {
        Ok((bytes, _)) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(Unread::Missing) => Ok(String::new()),
        Err(Unread::Refused(reason)) => {
            Err(Error::new(ErrorKind::Malformed, reason).with_path(home.path().join(name)))
        }
        Err(Unread::Error(error)) => Err(error),
    };
    let id = read()?;
    if !id.is_empty() {
        return Ok(id);
    }
    // Of two processes that start at the same time, the first one decides.
    match atomic::create_text(home, name, &format!("{}\n", uuid::Uuid::new_v4()), 0o600) {
        Err(error) if !already_exists(&error) => return Err(error),
        _ => {}
    }
    match read()? {
        id if id.is_empty() => {
            Err(Error::new(ErrorKind::Malformed, "the file is empty, expected an id: remove it")
                .with_path(home.path().join(name)))
        }
        id => Ok(id),
    }
}

/// Returns an id derived from the machine's, which itself must not be disclosed.
fn machine_id() -> Option<String> {
    let known = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let read = known.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    // A machine id has 32 hex digits. Images ship the file empty or with a placeholder such as
    // `uninitialized`.
    let id = read.map(|id| id.trim().to_owned()).find(|id| id.len() >= 32)?;
    Some(revision(format!("watchfire:{id}").as_bytes()).as_str().chars().take(16).collect())
}
