//! Layers with bubblewrap: overlays where its version makes them, which it does from 0.11 on, and else what comes next best.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use watchfire_core::files::remove_tree;
use watchfire_core::process::{CommandSpec, RunLimits, run_blocking};
use watchfire_core::{Error, Result};

use crate::linux::config::{Instead, Mounts, Place, View};
use crate::linux::copies::Copier;

/// Places in which bubblewrap can keep what is written to overlays.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::linux) enum Overlays {
    /// On the disk.
    OnDisk,
    /// In memory only.
    InMemory,
    /// It makes none.
    None,
}

/// Results of trials, by the device of the layers and the devices of the folders below.
#[derive(Debug, Default)]
pub(in crate::linux) struct Tried(Mutex<BTreeMap<(u64, BTreeSet<u64>), Overlays>>);

impl Tried {
    /// Returns where overlays of these places can be, with their upper folders in `area`. It is tried out once.
    pub(in crate::linux) fn overlays(&self, bwrap: &Path, area: &Path, places: &[Place]) -> Overlays {
        let device = |path: &Path| fs::metadata(path).map_or(0, |found| found.dev());
        // One for each file system.
        let mut lower = BTreeMap::new();
        for place in layers(places).map(|(_, place)| real(place)) {
            lower.entry(device(place)).or_insert(place);
        }
        let key = (device(area), lower.keys().copied().collect());
        let tried = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tried().get(&key) {
            return *known;
        }
        let lower: Vec<_> = lower.into_values().collect();
        let attempt = |on_disk| attempt(bwrap, &area.join("trial"), &lower, on_disk);
        let (on_disk, in_memory) = match attempt(true) {
            Outcome::Failed => (Outcome::Failed, attempt(false)),
            outcome => (outcome, Outcome::Failed),
        };
        let found = match (on_disk, in_memory) {
            (Outcome::Works, _) => Overlays::OnDisk,
            (_, Outcome::Works) => Overlays::InMemory,
            // It may work next time.
            (Outcome::Failed, _) => return Overlays::None,
            (Outcome::Unknown, _) => Overlays::None,
        };
        tried().insert(key, found);
        found
    }
}

/// The outcome of a trial.
enum Outcome {
    Works,
    Failed,
    /// This version has no such option.
    Unknown,
}

/// Replaces a folder in an overlay, and makes overlays of all `lower` folders.
fn attempt(bwrap: &Path, folder: &Path, lower: &[&Path], on_disk: bool) -> Outcome {
    let ran = arguments(folder, lower, on_disk).map(|args| {
        let command = CommandSpec::new(bwrap).with_args(args).with_cwd("/");
        run_blocking(&command, RunLimits::default())
    });
    // What cannot be removed now goes with the layers.
    _ = remove_tree(folder);
    match ran {
        Ok(Ok(ran)) if ran.code() == 0 => Outcome::Works,
        Ok(Ok(ran)) if ran.stderr.text().contains("Unknown option") => Outcome::Unknown,
        _ => Outcome::Failed,
    }
}

fn arguments(folder: &Path, lower: &[&Path], on_disk: bool) -> io::Result<Vec<OsString>> {
    let own = folder.join("lower");
    fs::create_dir_all(own.join("folder"))?;
    let mut args: Vec<OsString> =
        ["--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/"].map(Into::into).into();
    for (number, path) in std::iter::once(&own.as_path()).chain(lower).enumerate() {
        args.extend(["--overlay-src".into(), path.into()]);
        if on_disk {
            let part = |name: &str| folder.join(format!("{name}-{number}"));
            let (upper, work) = (part("upper"), part("work"));
            fs::create_dir(&upper)?;
            fs::create_dir(&work)?;
            args.extend(["--overlay".into(), upper.into(), work.into(), path.into()]);
        } else {
            args.extend(["--tmp-overlay".into(), path.into()]);
        }
    }
    let script = "cd \"$1\" && rmdir folder && mkdir folder && : > folder/x";
    args.extend(["--", "sh", "-c", script, "sh"].map(Into::into));
    args.push(own.into());
    Ok(args)
}

/// Stand-in for one layer, or for a folder of the command's own.
#[derive(Debug)]
pub(in crate::linux) enum Stand {
    /// An overlay, with upper and work folder unless it lies in memory.
    Overlay(Option<(PathBuf, PathBuf)>),
    /// A folder that the command can write.
    Folder(PathBuf),
    /// The folder itself, to be read only.
    Flat,
}

/// Prepares what shows in place of layers, and the folders of the command's own, in the folder `area`. Returns them by their paths,
/// with what the report says.
pub(in crate::linux) fn stands(
    mounts: &Mounts,
    area: &Path,
    overlays: Overlays,
) -> Result<(BTreeMap<PathBuf, Stand>, Instead)> {
    let (mut stands, mut copier) = (BTreeMap::new(), Copier::new());
    let mut instead = Instead { in_memory: overlays == Overlays::InMemory, ..Instead::default() };
    let owns = mounts.places.iter().enumerate().filter(|(_, place)| place.view == View::Own);
    for (number, place) in owns {
        let folder = area.join(number.to_string());
        fs::create_dir(&folder)
            .map_err(|error| Error::io("making a folder of the command's own", error).with_path(&folder))?;
        stands.insert(place.path.as_path().to_owned(), Stand::Folder(folder));
    }
    for (number, place) in layers(&mounts.places) {
        let (path, there) = (place.path.as_path(), real(place));
        let name = path.display().to_string();
        let failed = |error| Error::io("making a folder for a layer", error).with_path(there);
        let stand = match overlays {
            Overlays::OnDisk => {
                let folder = area.join(number.to_string());
                let (upper, work) = (folder.join("upper"), folder.join("work"));
                fs::create_dir_all(&work).and_then(|()| alike(&upper, there)).map_err(failed)?;
                Stand::Overlay(Some((upper, work)))
            }
            Overlays::InMemory => Stand::Overlay(None),
            Overlays::None => match copied(&mut copier, there, &area.join(format!("{number}-copy"))) {
                Ok(copy) => {
                    instead.copied.push(name);
                    Stand::Folder(copy)
                }
                Err(_) if place.is_cache => {
                    instead.cold.push(name);
                    let folder = area.join(format!("{number}-cold"));
                    alike(&folder, there).map_err(failed)?;
                    Stand::Folder(folder)
                }
                Err(_) => {
                    instead.flat.push(name);
                    Stand::Flat
                }
            },
        };
        stands.insert(path.to_owned(), stand);
    }
    Ok((stands, instead))
}

/// Returns where a path lies that is in a folder of the command's own.
pub(in crate::linux) fn in_own(
    mounts: &Mounts,
    stands: &BTreeMap<PathBuf, Stand>,
    path: &Path,
) -> Option<PathBuf> {
    let (_, around) = mounts.around(path).filter(|(_, around)| around.view == View::Own)?;
    let Stand::Folder(folder) = stands.get(around.path.as_path())? else { return None };
    Some(folder.join(path.strip_prefix(around.path.as_path()).ok()?))
}

fn copied(copier: &mut Copier, there: &Path, copy: &Path) -> io::Result<PathBuf> {
    fs::create_dir(copy)?;
    let done = copier.copy(fs::File::open(there)?, fs::File::open(copy)?);
    if let Err(error) = done {
        _ = remove_tree(copy);
        return Err(error.into());
    }
    Ok(copy.to_owned())
}

/// Makes an empty folder with the mode of another one.
fn alike(folder: &Path, other: &Path) -> io::Result<()> {
    let mode = fs::metadata(other)?.mode() & 0o777;
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(mode))
}

fn layers(places: &[Place]) -> impl Iterator<Item = (usize, &Place)> {
    places.iter().enumerate().filter(|(_, place)| place.view == View::Layer)
}

/// Returns the folder that shows in a place.
fn real(place: &Place) -> &Path {
    place.source.as_ref().unwrap_or(&place.path).as_path()
}
