//! What git of the person runs or obeys in the checkout itself. A guest may read it and not change it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::Result;
use watchfire_core::sandbox::{Rule, RuleAccess};

use crate::files;
use crate::guest::planted;
use crate::index::file::IndexFile;
use crate::merge::{guard, obeyed};
use crate::objects::tree::SUBMODULE;
use crate::objects::tree_path::is_read_by_git;
use crate::repository::project::Project;

/// Upper bound for an attributes file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Depth to which submodules of submodules are looked at.
const DEEPEST: usize = 20;

/// The files and folders of a checkout that git runs or obeys.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// The files and folders. Those that are missing may be made later.
    pub(crate) places: BTreeSet<PathBuf>,
    /// Folders among them that are missing.
    pub(crate) missing: Vec<PathBuf>,
}

/// Returns what git runs or obeys in the checkout.
pub(crate) fn of(project: &Project) -> Result<Wiring> {
    let repo = project.open()?;
    let mut wiring = Wiring::default();
    let places = &mut wiring.places;
    places.insert(project.root.join(".gitmodules"));
    // Git looks into these from their folders, and from those above, if it takes them for submodules.
    let whole = |part: PathBuf| {
        if part.ends_with("HEAD") { part.parent().map(Path::to_path_buf) } else { Some(part) }
    };
    places.extend(planted::repositories(project).into_iter().filter_map(whole));
    // Of an index in another form, what it lists is not known.
    let index = IndexFile::read(&project.git.join("index")).unwrap_or_default();
    for entry in index.entries() {
        let path = project.root.join(OsStr::from_bytes(&entry.path));
        if entry.node.mode == SUBMODULE {
            continue;
        }
        let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if is_read_by_git(name, b".gitattributes")
            && let Some(content) = files::read_plain(&path, LARGEST)?
            && guard::driver_lines(&content).next().is_some()
        {
            places.insert(path);
        }
    }
    places.retain(|place| place.symlink_metadata().is_ok());
    places.extend(obeyed::files(&repo)?.iter().map(|file| project.root.join(file)));
    let hooks = guard::hooks(&repo)?.into_iter().map(|folder| project.root.join(folder));
    let folders = hooks.chain(submodules(project, &index, &project.root, 0)).collect::<Vec<_>>();
    let is_missing = |path: &&PathBuf| path.symlink_metadata().is_err();
    wiring.missing = folders.iter().filter(is_missing).cloned().collect();
    wiring.places.extend(folders);
    wiring.places.remove(&project.root);
    Ok(wiring)
}

/// Returns the places of submodules at any depth, since a mere `git status` looks into all of them: the repository of each, or
/// the folder of one that has none yet.
fn submodules(project: &Project, index: &IndexFile, root: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in links(index, root) {
        let repository = path.join(".git");
        if repository.symlink_metadata().is_err() {
            found.push(path);
            continue;
        }
        if let Some(git) = planted::led_to(project, &repository).filter(|_| depth < DEEPEST) {
            let inner = IndexFile::read(&git.join("index")).unwrap_or_default();
            found.extend(submodules(project, &inner, &path, depth + 1));
        }
        found.push(repository);
    }
    found
}

/// Yields the paths of the submodules that an index of the checkout `root` has.
pub(crate) fn links(index: &IndexFile, root: &Path) -> impl Iterator<Item = PathBuf> {
    let links = index.entries().iter().filter(|entry| entry.node.mode == SUBMODULE);
    links.map(|entry| root.join(OsStr::from_bytes(&entry.path)))
}

/// Makes the missing folders, so that the sandbox can keep them as they are: one that appears later could come with everything in
/// it, by one rename. Returns those that were made, outermost first.
pub(crate) fn make(project: &Project, missing: &[PathBuf]) -> Vec<PathBuf> {
    let mut made = Vec::new();
    for folder in missing {
        let mut way: Vec<_> = folder.ancestors().take_while(|path| *path != project.root).collect();
        way.reverse();
        for path in way {
            match path.symlink_metadata() {
                Ok(found) if found.is_dir() => {}
                Err(_) if fs::create_dir(path).is_ok() => made.push(path.to_path_buf()),
                // A link, a file, or a place that cannot be written.
                _ => break,
            }
        }
    }
    made
}

/// Returns the rules that keep a guest from changing `places`. The sandbox keeps the folders on the way to them where
/// they are.
pub(crate) fn rules(places: &BTreeSet<PathBuf>) -> Vec<Rule> {
    let rule = |place: &PathBuf| Rule::new(place, RuleAccess::Read, "chat: what your git runs or obeys");
    places.iter().map(rule).collect()
}
