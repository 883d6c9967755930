//! What git of the person runs or obeys in the checkout itself. A guest may read it and not change it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::Result;
use watchfire_core::sandbox::{Rule, RuleAccess};

use crate::files;
use crate::guest::planted;
use crate::index::file::IndexFile;
use crate::merge::guard;
use crate::objects::tree::SUBMODULE;
use crate::objects::tree_path::is_read_by_git;
use crate::repository::project::Project;

/// Upper bound for an attributes file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the files and folders of the checkout that git runs or obeys. Folders of hooks may be made later; the others are
/// there.
pub(crate) fn places(project: &Project) -> Result<BTreeSet<PathBuf>> {
    let repo = project.open()?;
    let mut places: BTreeSet<PathBuf> = [project.root.join(".gitmodules")].into();
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
            // Git looks into the repository of every submodule, also for a mere `git status`.
            let repository = path.join(".git");
            places.insert(if repository.symlink_metadata().is_ok() { repository } else { path });
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
    places.extend(guard::hooks(&repo)?.into_iter().map(|folder| project.root.join(folder)));
    places.remove(&project.root);
    Ok(places)
}

/// Returns the rules that keep a guest from changing `places`. The sandbox keeps the folders on the way to them where
/// they are.
pub(crate) fn rules(places: &BTreeSet<PathBuf>) -> Vec<Rule> {
    let rule = |place: &PathBuf| Rule::new(place, RuleAccess::Read, "chat: what your git runs or obeys");
    places.iter().map(rule).collect()
}
