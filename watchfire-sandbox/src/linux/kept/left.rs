//! Moves what a command added to caches from its layers into a generation.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use watchfire_core::files::{FileLock, is_abandoned, make_private, remove_tree, unique_name};
use watchfire_core::sandbox::{Kept, Lasting};

use crate::linux::config::{Mounts, View};
use crate::linux::kept::clean::clean;
use crate::linux::kept::generation::{Generation, files_of, lock_of, mirrored, numbered};
use crate::linux::kept::merge::{link_tree, merge, size};

/// Maximum time that the merge after a command waits for another merge. After it, the next start merges instead.
const PATIENCE: Duration = Duration::from_secs(30);

/// Begins the names of folders that wait to be merged.
const WAITING: &str = "left";

/// The folders in a command's layers that hold its additions to caches.
#[derive(Debug)]
pub(in crate::linux) struct Left {
    kept: Kept,
    /// Paths below the folder of the layers, and the caches that they show in.
    sources: Vec<(PathBuf, PathBuf)>,
    seen: Option<Generation>,
}

impl Left {
    /// `seen` is the generation that the command sees.
    pub(in crate::linux) fn new(kept: &Kept, mounts: &Mounts, seen: Option<Generation>) -> Self {
        let source = |path: &PathBuf| {
            let (number, around) = mounts.around(path)?;
            let rest = path.strip_prefix(around.path.as_path()).ok()?;
            let folder = match around.view {
                View::Own => PathBuf::from(number.to_string()),
                View::Layer => Path::new(&number.to_string()).join("upper"),
                _ => return None,
            };
            // Without a slash at its end where nothing is left of the path.
            Some((folder.join(rest).components().collect(), path.clone()))
        };
        Self { kept: kept.clone(), sources: kept.places.iter().filter_map(source).collect(), seen }
    }

    /// Adds what a process needs that keeps the command after this one has ended.
    pub(in crate::linux) fn add_to(&self, lasting: &mut Lasting) {
        if let Some(Err(error)) = self.seen.as_ref().map(|seen| seen.add_to(lasting)) {
            tracing::debug!(%error, "the caches that a session sees may change while it outlives this program");
        }
    }

    /// Takes the additions out of the layers, once the command has ended. They are merged in the background, because that
    /// may take as long as unpacking them did; only the next start waits for it.
    pub(in crate::linux) fn take_from(&mut self, layers: &Path) {
        self.seen = None;
        match self.moved_from(layers) {
            Ok(false) => {}
            Ok(true) => {
                let kept = self.kept.clone();
                let background = std::thread::Builder::new().name("kept caches".to_owned());
                // Without a thread the next start does it.
                drop(background.spawn(move || settle(&kept, PATIENCE)));
            }
            Err(error) => tracing::warn!(%error, "what a session added to caches is not kept"),
        }
    }

    fn moved_from(&self, layers: &Path) -> io::Result<bool> {
        let there = |source: &Path| {
            let path = unlinked(layers, source)?;
            let is_empty = fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_none());
            (!is_empty).then_some(path)
        };
        let found: Vec<_> =
            self.sources.iter().filter_map(|(source, place)| Some((there(source)?, place))).collect();
        if found.is_empty() {
            return Ok(false);
        }
        make_private(&self.kept.folder).map_err(io::Error::other)?;
        let name = unique_name("moving");
        let folder = self.kept.folder.join(&name);
        make_private(&folder).map_err(io::Error::other)?;
        for (index, (path, place)) in found.iter().enumerate() {
            fs::write(folder.join(format!("{index}.place")), place.as_os_str().as_bytes())?;
            // One that the command has locked against its owner stays behind, and goes with the layers.
            _ = fs::rename(path, folder.join(index.to_string()));
        }
        // Renamed last, so that no merge takes the folder before it is complete.
        fs::rename(&folder, self.kept.folder.join(format!("{WAITING}{name}")))?;
        Ok(true)
    }
}

/// Returns the folder `rest` below `folder`, unless a link is on the way: the command has made everything there.
fn unlinked(folder: &Path, rest: &Path) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in rest.components() {
        let Component::Normal(name) = part else { return None };
        path.push(name);
        path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    }
    Some(path)
}

/// Merges what commands have left, and removes generations that no command sees any more. If another process is at it and
/// does not finish within `patience`, nothing is done.
pub(super) fn settle(kept: &Kept, patience: Duration) {
    let (waiting, has_old) = look(&kept.folder);
    if waiting.is_empty() && !has_old {
        return;
    }
    let Ok(_held) = FileLock::acquire(&kept.folder.join("lock"), patience) else { return };
    // Again: the one before may have done it.
    for path in look(&kept.folder).0 {
        if path.file_name().is_some_and(is_waiting)
            && let Err(error) = enter(kept, &path)
        {
            tracing::warn!(%error, path = %path.display(), "what a session added to caches is not kept");
        }
        // What cannot be removed now is removed with the next one.
        _ = remove_tree(&path);
    }
    let mut old = numbered(&kept.folder);
    old.pop();
    for (_, generation) in old {
        if let Ok(Some(_unseen)) = FileLock::try_acquire(&lock_of(&generation)) {
            _ = remove_tree(&generation);
        }
    }
}

fn is_waiting(name: &OsStr) -> bool {
    name.as_bytes().starts_with(WAITING.as_bytes())
}

/// Returns what waits to be merged or is left of a killed process, and whether there are older generations.
fn look(folder: &Path) -> (Vec<PathBuf>, bool) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let waits = |name: &OsStr| is_waiting(name) || is_abandoned(name);
    let waiting = entries.filter(|entry| waits(&entry.file_name())).map(|entry| entry.path());
    (waiting.collect(), numbered(folder).len() > 1)
}

/// Merges the content of the folder `left` into the newest generation.
fn enter(kept: &Kept, left: &Path) -> io::Result<()> {
    let mut parts = Vec::new();
    let mut added = 0;
    for entry in fs::read_dir(left)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "place") {
            let place = PathBuf::from(std::ffi::OsString::from_vec(fs::read(&path)?));
            let part = path.with_extension("");
            if part.is_dir() {
                added += clean(&part, &place)?;
                parts.push((part, place));
            }
        }
    }
    if added > kept.max_bytes {
        tracing::info!(bytes = added, "a session added more to caches than is kept");
        return Ok(());
    }
    // A name without its content, after a power failure, would be a broken cache.
    rustix::fs::syncfs(fs::File::open(left)?)?;
    let merge_into =
        |files: &Path| parts.iter().try_for_each(|(part, place)| merge(part, &mirrored(files, place), place));
    let newest = numbered(&kept.folder).pop();
    let next = kept.folder.join(newest.as_ref().map_or(1, |(number, _)| number + 1).to_string());
    let before = match newest {
        Some((_, before)) if size(&files_of(&before))?.saturating_add(added) <= kept.max_bytes => {
            Some(before)
        }
        _ => None,
    };
    if let Some(before) = &before
        && let Ok(Some(_alone)) = FileLock::try_acquire(&lock_of(before))
    {
        // No command sees this generation now, so it can change in place.
        return merge_into(&files_of(before));
    }
    let made = kept.folder.join(unique_name("generation"));
    make_private(&made).map_err(io::Error::other)?;
    match &before {
        Some(before) => link_tree(&files_of(before), &files_of(&made))?,
        None => make_private(&files_of(&made)).map_err(io::Error::other)?,
    }
    merge_into(&files_of(&made))?;
    fs::rename(&made, next)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::linux::config::Place;

    /// A cache, the folder of its generations, and layers of commands over both.
    struct World {
        temp: tempfile::TempDir,
        kept: Kept,
    }

    impl World {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let folder = temp.path().join("kept");
            fs::create_dir_all(temp.path().join("home/cache")).unwrap();
            let cache = fs::canonicalize(temp.path().join("home/cache")).unwrap();
            Self { kept: Kept { folder, places: vec![cache], max_bytes: 1 << 20 }, temp }
        }

        fn cache(&self) -> &Path {
            &self.kept.places[0]
        }

        /// A command that leaves `files`, each with a text.
        fn command(&self, seen: Option<Generation>, files: &[(&str, &str)]) {
            let place = |path: &Path, view| Place::new(path, view);
            let mounts = Mounts {
                places: vec![
                    place(self.cache().parent().unwrap(), View::Own),
                    place(self.cache(), View::Layer),
                ],
                ..Mounts::default()
            };
            let layers = self.temp.path().join(unique_name("layers"));
            fs::create_dir_all(layers.join("1/upper")).unwrap();
            for (name, text) in files {
                let path = layers.join("1/upper").join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let left = Left::new(&self.kept, &mounts, seen);
            left.moved_from(&layers).unwrap();
            drop(left);
            settle(&self.kept, PATIENCE);
        }

        fn newest(&self) -> Generation {
            Generation::newest(&self.kept).unwrap()
        }

        /// Reads the file `name` that `generation` shows in the cache, if there is one.
        fn finds(&self, generation: &Generation, name: &str) -> Option<String> {
            let place = Place::new(self.cache(), View::Layer);
            let mut mounts = Mounts { places: vec![place], ..Mounts::default() };
            generation.show(&mut mounts);
            fs::read_to_string(mounts.places[0].beneath.as_ref()?.as_path().join(name)).ok()
        }

        fn numbers(&self) -> Vec<u64> {
            numbered(&self.kept.folder).into_iter().map(|(number, _)| number).collect()
        }
    }

    #[test]
    fn a_generation_in_use_never_changes() {
        let world = World::new();
        assert!(Generation::newest(&world.kept).is_none());
        world.command(None, &[("a-1/x", "a")]);
        let first = world.newest();
        assert_eq!(world.finds(&first, "a-1/x").as_deref(), Some("a"));
        world.command(None, &[("b-1/x", "b"), ("a-1/x", "changed")]);
        assert_eq!((world.finds(&first, "b-1/x"), world.numbers()), (None, vec![1, 2]));
        let second = world.newest();
        assert_eq!(world.finds(&second, "b-1/x").as_deref(), Some("b"));
        assert_eq!(world.finds(&second, "a-1/x").as_deref(), Some("a"));
        drop(first);
        // Its own command has ended, so it may change, and the older one goes.
        world.command(Some(second), &[("c", "c")]);
        assert_eq!(world.numbers(), [2]);
        assert_eq!(world.finds(&world.newest(), "c").as_deref(), Some("c"));
    }

    #[test]
    fn a_bound_holds_and_the_new_replaces_the_old() {
        let mut world = World::new();
        world.kept.max_bytes = 40_000;
        world.command(None, &[("a", &"a".repeat(20_000))]);
        world.command(None, &[("b", &"b".repeat(60_000))]);
        assert!(world.finds(&world.newest(), "b").is_none());
        world.command(None, &[("c", &"c".repeat(20_000))]);
        let newest = world.newest();
        assert!(world.finds(&newest, "a").is_none() && world.finds(&newest, "c").is_some());
        assert_eq!(world.numbers(), [2]);
    }

    /// Of a process that was killed between any two steps.
    #[test]
    fn the_next_start_completes_what_a_killed_end_left() {
        let world = World::new();
        let left = |name: &str| {
            let folder = world.kept.folder.join(name);
            fs::create_dir_all(folder.join("0")).unwrap();
            fs::write(folder.join("0/x"), "x").unwrap();
            fs::write(folder.join("0.place"), world.cache().as_os_str().as_bytes()).unwrap();
        };
        left("left-of-a-killed-one");
        // A process that has no number any more: half moved, and half made.
        let dead = |what: &str| unique_name(what).replace(&std::process::id().to_string(), "999999999");
        left(&dead("moving"));
        left(&dead("generation"));
        let newest = world.newest();
        assert_eq!(world.finds(&newest, "x").as_deref(), Some("x"));
        let mut names: Vec<_> =
            fs::read_dir(&world.kept.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["1", "lock"]);
    }

    #[test]
    fn no_link_leads_to_what_is_not_the_commands() {
        let world = World::new();
        let precious = world.temp.path().join("precious");
        fs::create_dir_all(precious.join("pkg/x")).unwrap();
        let layers = world.temp.path().join("layers");
        fs::create_dir(&layers).unwrap();
        symlink(&precious, layers.join("go")).unwrap();
        let sources = vec![("go/pkg".into(), world.cache().to_owned())];
        let left = Left { kept: world.kept.clone(), sources, seen: None };
        assert!(!left.moved_from(&layers).unwrap());
        assert!(precious.join("pkg/x").exists());
    }
}
