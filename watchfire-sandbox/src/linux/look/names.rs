//! The search for names that are denied at any depth.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::sandbox::{NamePattern, RuleAccess, SandboxPolicy};

use crate::linux::config::{Late, RawPath};
use crate::linux::look::listings::{Child, ENTRIES, Listings};
use crate::linux::look::tree::Node;
use crate::resolve::resolve;

/// Maximum depth of a search below a root.
const DEPTH: usize = 16;

/// Folders full of other people's code, without secrets of this project.
pub(in crate::linux) const SKIPPED: &[&str] = &[".git", "node_modules", "target", ".venv"];

/// The result of a search.
#[derive(Debug, Default)]
pub(in crate::linux) struct Found {
    /// The path at which each match shows, and its real path.
    pub(in crate::linux) paths: Vec<(PathBuf, PathBuf)>,
    /// There was more to look at.
    pub(in crate::linux) incomplete: bool,
}

/// Searches below the root of each pattern, broad before deep.
///
/// Not searched: what `rules` hide, of which only the places that they show again are looked at; [`SKIPPED`] folders;
/// and folders with a dot directly in the home folder or in a root that holds another root: tools keep their things there,
/// not people their projects. Where `rules` show something else, that is searched. It stops behind the folder in which
/// [`ENTRIES`] are reached.
pub(in crate::linux) fn find(policy: &SandboxPolicy, rules: &Node, listings: &Listings) -> Found {
    let mut found = Found::default();
    let roots = roots(policy);
    let (folders_known, now) = (listings.of(&policy.patterns), SystemClock.now());
    for (pattern, root) in policy.patterns.iter().zip(&roots) {
        let is_home = is_home(root, &roots);
        let mut seen = 0;
        let mut folders = VecDeque::from([(root.clone(), root.clone(), 0)]);
        while let Some((folder, actual, depth)) = folders.pop_front() {
            if seen >= ENTRIES {
                found.incomplete = true;
                break;
            }
            if let Some(node) = closed(rules, &folder) {
                for (name, child) in &node.children {
                    let actual = child.source.clone().unwrap_or_else(|| actual.join(name));
                    folders.push_back((folder.join(name), actual, depth + 1));
                }
                continue;
            }
            let Some(listing) = folders_known.list(&actual, &now) else { continue };
            seen += listing.entries;
            found.incomplete |= listing.incomplete;
            for Child { name, is_dir } in &listing.children {
                let matches = pattern.matches_name(name);
                if !(matches || *is_dir) {
                    continue;
                }
                let path = folder.join(name);
                let rule = rule(rules, &path);
                let actual = rule.and_then(|rule| rule.source.clone()).unwrap_or_else(|| actual.join(name));
                if matches {
                    found.paths.push((path, actual));
                    continue;
                }
                let skipped = SKIPPED.iter().any(|skip| name == *skip)
                    || (is_home && depth == 0 && name.as_encoded_bytes().starts_with(b"."));
                if skipped || roots.contains(&path) || rule.is_some_and(hidden) {
                    continue;
                }
                if depth + 1 >= DEPTH {
                    found.incomplete = true;
                } else {
                    folders.push_back((path, actual, depth + 1));
                }
            }
        }
    }
    found.paths.sort();
    found.paths.dedup();
    found
}

/// Returns the folders in which matching names are hidden once they appear: the folders of projects. A home folder is too
/// large to be watched.
pub(in crate::linux) fn late(policy: &SandboxPolicy) -> Vec<Late> {
    let roots = roots(policy);
    let all = policy.patterns.iter().zip(&roots).filter(|(_, root)| !is_home(root, &roots));
    let named = |pattern: &NamePattern| NamePattern { root: PathBuf::new(), ..pattern.clone() };
    all.map(|(pattern, root)| Late { root: RawPath(root.clone()), names: named(pattern) }).collect()
}

/// The folders below which names are hidden.
pub(in crate::linux) fn roots(policy: &SandboxPolicy) -> Vec<PathBuf> {
    policy.patterns.iter().map(|pattern| resolve(&pattern.root)).collect()
}

/// The person's, or a root that holds another.
fn is_home(root: &Path, roots: &[PathBuf]) -> bool {
    let holds_another = roots.iter().any(|other| other != root && other.starts_with(root));
    holds_another || std::env::home_dir().is_some_and(|home| resolve(&home) == root)
}

/// Returns the rule for exactly this path.
fn rule<'a>(rules: &'a Node, path: &Path) -> Option<&'a Node> {
    path.iter().skip(1).try_fold(rules, |node, part| node.children.get(part))
}

/// Returns the rule of a hidden path, or `None` if the path shows.
fn closed<'a>(rules: &'a Node, path: &Path) -> Option<&'a Node> {
    static NOTHING: Node = Node::nothing();
    let mut hidden = rules.access == Some(RuleAccess::Deny);
    let mut node = Some(rules);
    for part in path.iter().skip(1) {
        node = node.and_then(|node| node.children.get(part));
        hidden = node.and_then(|node| node.access).map_or(hidden, |access| access == RuleAccess::Deny);
    }
    hidden.then_some(node.unwrap_or(&NOTHING))
}

/// Returns true if a place is hidden and nothing below it is granted.
fn hidden(node: &Node) -> bool {
    node.access == Some(RuleAccess::Deny) && node.children.is_empty()
}
