//! Places of a repository that a person names: `protected` of `project.yaml`, and the folder of hooks.

use git2::{Oid, Repository};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::objects::tree::{self, LINK};
use crate::objects::tree_path::plain;
use crate::worktree::wildmatch::Pattern;

/// Upper bound for the links that are followed on the way to one place.
const MOST_LINKS: usize = 40;

/// A list of places. Each covers everything below it, in every spelling that some file system takes for the
/// same name.
pub(crate) struct Places(Vec<Place>);

impl Places {
    /// Reads the entries: paths, or patterns as in ignore files. If a path leads through links of `tree`, the
    /// place that it leads to is covered too.
    ///
    /// # Errors
    /// `invalid_input` for an entry that is absolute or leads out of the repository.
    pub(crate) fn new(repo: &Repository, tree: Option<Oid>, entries: &[String]) -> Result<Self> {
        let mut places = Vec::new();
        for entry in entries {
            let path = entry.strip_suffix('/').unwrap_or(entry);
            let path = path.strip_prefix("./").unwrap_or(path).as_bytes();
            // An empty path is the root, and covers everything.
            if !path.is_empty()
                && path.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b".."))
            {
                return Err(Error::new(ErrorKind::InvalidInput, "not a path inside the repository")
                    .with("path", entry)
                    .with("hint", "name files and folders from the root of the project on: `ci/deploy.sh`"));
            }
            places.push(Place::new(path));
            places.extend(led_to(repo, tree, path)?.iter().map(|path| Place::new(path)));
        }
        Ok(Self(places))
    }

    /// Returns true if `path` is one of the places, or lies below one of the list.
    pub(crate) fn hold(&self, path: &[u8]) -> bool {
        self.0.iter().any(|place| place.whole.is_above(path))
    }

    /// Returns true if any place lies below `path`.
    pub(crate) fn lie_below(&self, path: &[u8]) -> bool {
        self.0.iter().any(|place| place.ways.iter().any(|way| way.is(path, &fold(path))))
    }
}

/// Returns the places to which links of `tree` lead on the way to `path`.
fn led_to(repo: &Repository, tree: Option<Oid>, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut path = path.to_vec();
    'links: while found.len() < MOST_LINKS {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]).collect::<Vec<_>>() {
            let (before, after) = path.split_at(end);
            let Some(node) = tree::lookup(repo, tree, before)?.filter(|node| node.mode == LINK) else {
                continue;
            };
            let target = repo.find_blob(node.id).during("reading a link")?;
            let folder = before.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &before[..at]);
            // Outside of the repository nothing can be merged.
            let Some(next) = resolve(folder, &[target.content(), after].concat()) else { break 'links };
            found.push(next.clone());
            path = next;
            continue 'links;
        }
        break;
    }
    Ok(found)
}

/// Resolves `target` from `folder`. Returns `None` if it leads out of the repository.
fn resolve(folder: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.first() == Some(&b'/') {
        return None;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in folder.split(|byte| *byte == b'/').chain(target.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

struct Place {
    whole: Name,
    /// The folders on the way to the place, up to a `**`.
    ways: Vec<Name>,
}

impl Place {
    fn new(path: &[u8]) -> Self {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let ways =
            ends.map(|end| &path[..end]).take_while(|way| !way.ends_with(b"**")).map(Name::new).collect();
        Self { whole: Name::new(path), ways }
    }
}

/// A path, also read as a pattern: `app/[id]` is the name of a folder in some projects.
struct Name {
    folded: Vec<u8>,
    patterns: Vec<Pattern>,
}

impl Name {
    fn new(path: &[u8]) -> Self {
        let folded = fold(path);
        let patterns = [path, &folded].into_iter().filter_map(|text| Pattern::new(text, true)).collect();
        Self { folded, patterns }
    }

    fn is(&self, path: &[u8], folded: &[u8]) -> bool {
        folded == self.folded
            || self.patterns.iter().any(|pattern| pattern.matches(path) || pattern.matches(folded))
    }

    fn is_above(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        // The empty place is the root.
        self.folded.is_empty()
            || ends.chain([path.len()]).any(|end| {
                let part = path.split_at(end).0;
                self.is(part, &fold(part))
            })
    }
}

/// Folds a path as the most forgiving file systems do.
fn fold(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|byte| *byte == b'/').map(|part| plain(part).to_lowercase().into_bytes());
    parts.collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(entry: &str) -> Places {
        Places(vec![Place::new(entry.as_bytes())])
    }

    #[test]
    fn a_place_covers_itself_and_what_is_below_under_any_case() {
        for (entry, path) in [
            ("ci", "ci/deploy.sh"),
            ("ci/deploy.sh", "CI/Deploy.sh"),
            ("Ünder", "ünder/x"),
            ("ci/deploy.sh", "ci./deploy.sh "),
            ("ci", "c\u{200c}i/x"),
            ("docs/**/*.md", "docs/a/b/C.MD"),
            ("**/Cargo.lock", "a/cargo.lock"),
            ("*.tf", "main.tf"),
            ("app/[id]/page.tsx", "app/[id]/page.tsx"),
            ("", "anything"),
        ] {
            assert!(place(entry).hold(path.as_bytes()), "{entry} {path}");
        }
        for (entry, path) in [("ci", "cid"), ("ci/a", "ci"), ("*.tf", "a/main.tf"), ("a/b", "b")] {
            assert!(!place(entry).hold(path.as_bytes()), "{entry} {path}");
        }
        assert!(place("a/b/c").lie_below(b"A/b") && place("*/b").lie_below(b"x"));
        assert!(!place("a/b").lie_below(b"b") && !place("**/b").lie_below(b"x"));
    }

    #[test]
    fn links_are_resolved_inside_of_the_repository() {
        for (folder, target, wanted) in [
            ("", "a/b", Some("a/b")),
            ("x/y", "../z", Some("x/z")),
            ("x", "../../out", None),
            ("x", "/etc", None),
            ("x", "./", Some("x")),
        ] {
            let found = resolve(folder.as_bytes(), target.as_bytes());
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{folder} {target}");
        }
    }
}
