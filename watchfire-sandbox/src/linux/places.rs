//! From a tree to the places of a new view: what is bound, and what is covered.

use std::path::Path;

use watchfire_core::sandbox::RuleAccess;

use super::config::{Mounts, Place, RawPath, View};
use super::tree::{Kind, Node, Tree};

/// The view that shows `tree` as it is meant, without exception.
pub(super) fn places(tree: &Tree) -> Mounts {
    let mut mounts = Mounts::default();
    collect(Path::new("/"), &tree.root, View::ReadOnly, None, &mut mounts.places);
    mounts
}

/// Depth first, so that a folder comes before what is in it. `around` is how the place looks so far; `source`, what
/// shows there if it is not what is there.
fn collect(path: &Path, node: &Node, around: View, source: Option<&Path>, places: &mut Vec<Place>) {
    let view = match (node.access, node.kind) {
        (_, Kind::Missing) | (None, _) => around,
        (Some(RuleAccess::Write), _) => View::Writable,
        (Some(RuleAccess::Read), _) => View::ReadOnly,
        (Some(RuleAccess::Deny), Kind::Folder) if node.replaced => View::Fresh,
        (Some(RuleAccess::Deny), Kind::Folder) => View::EmptyFolder,
        (Some(RuleAccess::Deny), Kind::File) => View::EmptyFile,
    };
    let hidden = |view| matches!(view, View::EmptyFolder | View::EmptyFile | View::Fresh);
    // What is hidden already needs no cover.
    let view = if hidden(view) && hidden(around) { around } else { view };
    // What shows at its own place shows there although something else shows around it.
    let source = node.source.as_deref().or(source).filter(|source| *source != path);
    if view != around || node.source.is_some() {
        places.push(Place { path: RawPath::from(path), source: source.map(RawPath::from), view });
    }
    for (name, child) in &node.children {
        let source = source.map(|source| source.join(name));
        collect(&path.join(name), child, view, source.as_deref(), places);
    }
}
