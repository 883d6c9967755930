//! Holds changes that a person must accept before they are merged: changes of protected paths, of files that
//! git runs or obeys, and of files that other tools run by themselves. The target's tree is compared with the
//! merged tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{MergeGuard, Obstacle, ObstacleKind};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::merge::obeyed;
use crate::merge::places::Places;
use crate::merge::tools;
use crate::objects::tree::{LINK, Node, SUBMODULE};
use crate::objects::tree_diff::{self, Change};
use crate::objects::tree_path::is_read_by_git;

/// Drivers of the attribute `merge` that are part of git and run no program.
const BUILT_IN: [&[u8]; 3] = [b"merge=binary", b"merge=text", b"merge=union"];

/// Attributes whose values name a driver of the configuration.
const DRIVERS: [&[u8]; 3] = [b"diff=", b"filter=", b"merge="];

/// Attributes that run nothing, with a value or without.
const PLAIN: [&[u8]; 11] = [
    b"binary",
    b"conflict-marker-size",
    b"crlf",
    b"delta",
    b"diff",
    b"export-ignore",
    b"export-subst",
    b"ident",
    b"merge",
    b"text",
    b"whitespace",
];

/// Prefixes of attributes that only forges read.
const HOSTS: [&[u8]; 2] = [b"gitlab-", b"linguist-"];

/// Returns the first obstacle that `guard` finds between the tree `old` and the tree `new`.
pub(crate) fn check(
    repo: &Repository,
    guard: &MergeGuard,
    old: Option<Oid>,
    new: Oid,
) -> Result<Option<Obstacle>> {
    if *guard == MergeGuard::default() {
        return Ok(None);
    }
    let changes = tree_diff::diff(repo, old, Some(new))?;
    let held = |kind: ObstacleKind, message: &str, files: Vec<RepoPath>| {
        (!files.is_empty()).then(|| Obstacle::new(kind, message).with_files(files))
    };
    let protected = Places::new(repo, old, &guard.protected)?;
    let files = changes.iter().filter(|change| is_in(&protected, change)).map(path).collect();
    if let Some(obstacle) = held(ObstacleKind::ProtectedPaths, "changes protected paths", files) {
        return Ok(Some(obstacle));
    }
    if guard.wiring {
        let obeyed: Vec<_> = hooks(repo)?.into_iter().chain(obeyed::files(repo)?).collect();
        let obeyed = Places::new(repo, old, &obeyed)?;
        let repositories = repositories(repo, &changes, new)?;
        let mut files = Vec::new();
        for change in &changes {
            let is_inside = repositories.iter().any(|folder| change.path.starts_with(folder));
            if is_inside || is_in(&obeyed, change) || is_wiring(repo, change)? {
                files.push(path(change));
            }
        }
        if let Some(obstacle) = held(ObstacleKind::GitWiring, "changes what your git runs", files) {
            return Ok(Some(obstacle));
        }
    }
    let files = if guard.tools { tool_files(&changes) } else { Vec::new() };
    Ok(held(ObstacleKind::ToolFiles, "changes what tools run on their own", files))
}

/// Returns the changed files that other tools run by themselves.
pub(crate) fn tool_files(changes: &[Change]) -> Vec<RepoPath> {
    // A file that is gone is run no more.
    let changed = changes.iter().filter(|change| change.new.is_some());
    changed.filter(|change| tools::runs_by_itself(&change.path)).map(path).collect()
}

fn path(change: &Change) -> RepoPath {
    RepoPath::new(change.path.clone())
}

fn is_in(places: &Places, change: &Change) -> bool {
    // A link or a submodule on the way replaces everything below it.
    places.hold(&change.path) || (sides(change).any(leads_on) && places.lie_below(&change.path))
}

fn sides(change: &Change) -> impl Iterator<Item = Node> {
    change.old.into_iter().chain(change.new)
}

/// Returns true for a link or a submodule: content below its path comes from elsewhere.
fn leads_on(node: Node) -> bool {
    matches!(node.mode, LINK | SUBMODULE)
}

/// Returns the folders of the checkout in which git looks for hooks.
pub(crate) fn hooks(repo: &Repository) -> Result<Vec<String>> {
    let during = "reading the configuration";
    let configured = match repo.config().during(during)?.get_path("core.hooksPath") {
        Ok(path) => path,
        Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).during(during),
    };
    let Some(root) = repo.workdir() else { return Ok(Vec::new()) };
    let joined = root.join(configured);
    // The folder may be named through links, and may not exist.
    let resolved = joined.canonicalize().unwrap_or_else(|_| joined.clone());
    let mut inside = Vec::new();
    for (place, root) in [(joined, root.to_path_buf()), (resolved, root.canonicalize().unwrap_or_default())] {
        let Ok(place) = place.strip_prefix(&root) else { continue };
        let place = place.to_str().ok_or_else(|| {
            Error::new(ErrorKind::NotSupported, "core.hooksPath is no UTF-8").with("path", place.display())
        })?;
        inside.push(place.to_owned());
        // husky generates the folder `_`, whose hooks run the hooks beside it.
        inside.extend(place.strip_suffix("/_").map(ToOwned::to_owned));
    }
    Ok(inside)
}

/// Returns true for a change of `.gitmodules`, or of the drivers that an attributes file names, and for a new submodule: git looks
/// into whatever repository is at its place.
fn is_wiring(repo: &Repository, change: &Change) -> Result<bool> {
    let is_submodule = |node: Option<Node>| node.is_some_and(|node| node.mode == SUBMODULE);
    if is_submodule(change.new) && !is_submodule(change.old) {
        return Ok(true);
    }
    let mut parts = change.path.rsplit(|byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    if is_read_by_git(name, b".gitmodules") {
        // git reads `.gitmodules` at the top only.
        return Ok(parts.next().is_none());
    }
    if !is_read_by_git(name, b".gitattributes") {
        return Ok(false);
    }
    // Only lines that name a driver count: other attributes run nothing.
    Ok(sides(change).any(leads_on) || drivers(repo, change.old)? != drivers(repo, change.new)?)
}

/// The parts that make a folder a repository for git: `HEAD`, and either `objects` and `refs`, or `commondir`, which leads to a
/// folder that has them.
#[derive(Debug, Default)]
pub(crate) struct RepositoryParts {
    has_head: bool,
    has_objects: bool,
    has_refs: bool,
    leads_on: bool,
}

impl RepositoryParts {
    /// Takes in the name of an entry of the folder.
    pub(crate) fn note(&mut self, name: &[u8]) {
        let is = |part: &str| name.eq_ignore_ascii_case(part.as_bytes());
        self.has_head |= is("HEAD");
        self.has_objects |= is("objects");
        self.has_refs |= is("refs");
        self.leads_on |= is("commondir");
    }

    pub(crate) fn make_one(&self) -> bool {
        self.has_head && (self.leads_on || self.has_objects && self.has_refs)
    }
}

/// Returns the folders of the tree `new`, each with a slash at its end, that are repositories and have changes in them: git that
/// runs there, for a prompt as well, obeys their configuration.
fn repositories(repo: &Repository, changes: &[Change], new: Oid) -> Result<Vec<Vec<u8>>> {
    let during = "looking for repositories among the files";
    let root = repo.find_tree(new).during(during)?;
    let ends = |path: &[u8]| {
        path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect::<Vec<_>>()
    };
    let changed = changes.iter().filter(|change| change.new.is_some());
    let folders: BTreeSet<&[u8]> =
        changed.flat_map(|change| ends(&change.path).into_iter().map(|end| &change.path[..end])).collect();
    let mut found = Vec::new();
    for folder in folders {
        let entry = root.get_path(Path::new(OsStr::from_bytes(folder))).during(during)?;
        let Ok(tree) = entry.to_object(repo).and_then(|object| object.peel_to_tree()) else { continue };
        let mut parts = RepositoryParts::default();
        tree.iter().for_each(|entry| parts.note(entry.name_bytes()));
        if parts.make_one() {
            found.push([folder, b"/"].concat());
        }
    }
    Ok(found)
}

/// Returns the lines of an attributes file that name a driver.
fn drivers(repo: &Repository, node: Option<Node>) -> Result<Vec<Vec<u8>>> {
    let Some(node) = node.filter(Node::is_file) else { return Ok(Vec::new()) };
    let blob = repo.find_blob(node.id).during("reading an attributes file")?;
    Ok(driver_lines(blob.content()).map(<[u8]>::to_vec).collect())
}

/// Yields the lines of an attributes file that name a driver.
pub(crate) fn driver_lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = |line: &&[u8]| line.split(u8::is_ascii_whitespace).skip(1).any(names_driver);
    content.split(|byte| *byte == b'\n').filter(names)
}

/// Returns true if an attribute names a driver, takes the filter away, or could be a macro that does either.
/// Macros are also defined in files that are not in the tree.
fn names_driver(word: &[u8]) -> bool {
    let is_plain = |word: &&[u8]| PLAIN.contains(word) || HOSTS.iter().any(|host| word.starts_with(host));
    match word {
        b"" => false,
        b"-filter" | b"!filter" => true,
        [b'-' | b'!', rest @ ..] => !is_plain(&rest) && !rest.is_empty(),
        word if word.contains(&b'=') => {
            DRIVERS.iter().any(|driver| word.starts_with(driver)) && !BUILT_IN.contains(&word)
        }
        word => !is_plain(&word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_could_run_something_count() {
        for word in ["filter=lfs", "diff=x", "merge=ours", "-filter", "lfs", "-lfs", "filter"] {
            assert!(names_driver(word.as_bytes()), "{word}");
        }
        for word in
            ["text", "-text", "text=auto", "eol=lf", "-diff", "binary", "merge=union", "linguist-vendored"]
        {
            assert!(!names_driver(word.as_bytes()), "{word}");
        }
    }
}
