//! Folders of which no snapshots are taken, because they hold more than a project.

use std::path::Path;

use watchfire_core::{Error, ErrorKind, Result};

/// Folders of the system, with everything in them.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/System",
    "/Library",
    "/Applications",
];

/// Folders that hold what belongs to the system, or to several users, beside folders that a user may work in.
const SHARED: &[&str] = &[
    "/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/tmp", "/Users",
    "/Volumes", "/private",
];

/// Refuses folders of the system, a home folder, and a folder that holds `store`, where the snapshots would lie.
pub(super) fn refuse(root: &Path, store: &Path) -> Result<()> {
    let user_home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let why = if user_home.is_some_and(|home| home.starts_with(root)) {
        "it holds your home folder"
    } else if SHARED.iter().any(|shared| root == Path::new(shared))
        || SYSTEM.iter().any(|system| root.starts_with(system))
    {
        "it belongs to the system"
    } else if store.starts_with(root) {
        "a Watchfire home lies in it"
    } else {
        return Ok(());
    };
    let message = format!("this folder cannot be a project with snapshots: {why}");
    Err(Error::new(ErrorKind::InvalidInput, message)
        .with_path(root)
        .with("hint", "make the project in a folder of its own"))
}
