//! birdcage around our helper, through a program of its own: it is GPL-3.0-or-later, and nothing here links it.
//!
//! It shows what is allowed and nothing else, and knows no denial inside of what it shows. So its places are the
//! enumeration that Landlock alone gets, with read-only places on top. It is built from
//! `watchfire-sandbox/birdcage-helper`.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::AccessFs;
use serde::Serialize;
use watchfire_core::process::resolve_program;
use watchfire_core::{Error, Result};

use crate::linux::config::RawPath;
use crate::linux::look::enumerate::{DEVICES, Enumerated};
use crate::linux::sandbox::in_memory;

const PROGRAM: &str = "watchfire-birdcage-helper";
/// The descriptor on which the caged program finds its rules.
pub(in crate::linux) const CAGE_FD: i32 = 12;

/// The rules for birdcage.
#[derive(Debug, Serialize)]
pub(in crate::linux) struct Cage {
    places: Vec<Place>,
    network: bool,
}

#[derive(Debug, Serialize)]
struct Place {
    path: RawPath,
    write: bool,
}

/// The program: beside ours, or in `PATH`.
pub(in crate::linux) fn find() -> Result<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let found = beside.filter(|path| path.is_file()).map_or_else(|| resolve_program(Path::new(PROGRAM)), Ok);
    found.map_err(|error: Error| error.with("hint", "it is built from watchfire-sandbox/birdcage-helper"))
}

impl Cage {
    /// Each path once. `own` folders are written too.
    pub(in crate::linux) fn new(enumerated: &Enumerated, own: &[PathBuf], network: bool) -> Self {
        let mut places: BTreeMap<PathBuf, bool> = BTreeMap::new();
        // Folders that may only be listed cannot be shown without what is in them; its own `/proc` comes by itself.
        let whole = enumerated.rules.iter().filter(|(path, rights)| {
            rights.contains(AccessFs::ReadFile) && !path.starts_with("/proc") && !path.starts_with("/dev")
        });
        for (path, rights) in whole {
            *places.entry(path.clone()).or_default() |= rights.contains(AccessFs::WriteFile);
        }
        places.extend(enumerated.open_writes.iter().map(|path| (path.clone(), false)));
        places.extend(system_links().map(|path| (path, false)));
        // New terminals cannot be made in it.
        let devices = DEVICES.iter().filter(|name| !matches!(**name, "ptmx" | "console"));
        let devices = devices.map(|name| Path::new("/dev").join(name)).chain([PathBuf::from("/dev/pts")]);
        places
            .extend(devices.chain(own.iter().cloned()).filter(|path| path.exists()).map(|path| (path, true)));
        let places = places.into_iter().map(|(path, write)| Place { path: RawPath(path), write }).collect();
        Self { places, network }
    }

    /// For [`CAGE_FD`].
    pub(in crate::linux) fn into_descriptor(self) -> Result<OwnedFd> {
        in_memory(&self)
    }
}

/// The links directly in `/`, as `/bin` to `usr/bin`: what they lead to in `/usr` is shown, and they must be too.
fn system_links() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| {
        path.is_symlink() && std::fs::canonicalize(path).is_ok_and(|real| real.starts_with("/usr"))
    })
}
