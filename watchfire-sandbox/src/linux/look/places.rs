//! From a tree to the places of a new view: what is bound, and what is covered.

use std::path::Path;

use watchfire_core::sandbox::RuleAccess;

use crate::linux::config::{Mounts, Place, RawPath, View};
use crate::linux::look::tree::{Kind, Node, Tree};

/// The view that shows `tree` as it is meant, without exception.
pub(in crate::linux) fn places(tree: &Tree) -> Mounts {
    let mut mounts = Mounts::default();
    collect(Path::new("/"), &tree.root, View::ReadOnly, None, &mut mounts);
    // Where a command writes, it has names of its own.
    let late = tree.late.iter().filter(|late| mounts.view_of(late.root.as_path()) == View::ReadOnly);
    mounts.late = late.cloned().collect();
    grants(Path::new("/"), &tree.root, &mut mounts);
    mounts
}

/// Adds the paths that a rule shows although their names match.
fn grants(path: &Path, node: &Node, mounts: &mut Mounts) {
    for (name, child) in &node.children {
        let path = path.join(name);
        let shown = matches!(child.access, Some(RuleAccess::Read | RuleAccess::Write));
        if shown && mounts.late.iter().any(|late| late.names.matches_name(name)) {
            mounts.granted.push(RawPath::from(path.as_path()));
        }
        grants(&path, child, mounts);
    }
}

/// Adds the places at and below `path`, depth first, so that a folder comes before the places in it. `around` is the
/// look of the place so far, and `source` the folder that shows there if it is another one.
fn collect(path: &Path, node: &Node, around: View, source: Option<&Path>, mounts: &mut Mounts) {
    let view = match (node.access, node.kind) {
        (_, Kind::Missing) | (None, _) => around,
        (Some(RuleAccess::Read), Kind::Folder) if node.replaced => View::Layer,
        (Some(RuleAccess::Write), _) => View::Writable,
        (Some(RuleAccess::Read), _) => View::ReadOnly,
        (Some(RuleAccess::Deny), Kind::Folder) if node.replaced && node.in_memory => View::Fresh,
        (Some(RuleAccess::Deny), Kind::Folder) if node.replaced => View::Own,
        (Some(RuleAccess::Deny), Kind::Folder) => View::EmptyFolder,
        (Some(RuleAccess::Deny), Kind::File) => View::EmptyFile,
    };
    let hidden = |view| matches!(view, View::EmptyFolder | View::EmptyFile | View::Fresh | View::Own);
    // What is hidden already needs no cover, but a folder that can be written has to be made.
    let makes = node.access == Some(RuleAccess::Deny) && node.replaced && node.kind == Kind::Folder;
    let opens = makes && matches!(around, View::EmptyFolder | View::Own | View::Fresh);
    let view = if hidden(view) && hidden(around) && !opens { around } else { view };
    if let Some(text) = node.link.as_ref().filter(|_| hidden(around)) {
        let source = Some(RawPath(text.clone()));
        mounts.places.push(Place { source, ..Place::new(path, View::Link) });
        return;
    }
    // What shows at its own place shows there although something else shows around it.
    let source = node.source.as_deref().or(source).filter(|source| *source != path);
    // A folder on the way to what cannot be written must stay where it is, or another could take its place.
    let pinned = view == View::Writable && leads_to_stricter(node);
    if view != around || node.source.is_some() || pinned || opens {
        let source = source.map(RawPath::from);
        mounts.places.push(Place { source, is_cache: node.is_cache, ..Place::new(path, view) });
    }
    match (node.access, node.kind) {
        // In a layer, only the command can make it, for itself.
        (Some(RuleAccess::Deny), Kind::Missing) if !hidden(around) && around != View::Layer => {
            mounts.missing.push(path.into());
        }
        (Some(RuleAccess::Read), Kind::Missing) if around == View::Writable => {
            mounts.refused.push(path.into());
        }
        _ => {}
    }
    for (name, child) in &node.children {
        let source = source.map(|source| source.join(name));
        collect(&path.join(name), child, view, source.as_deref(), mounts);
    }
}

/// Returns true if a rule below is stricter, and its path exists. A matching name moves along with its cover.
fn leads_to_stricter(node: &Node) -> bool {
    node.children.values().any(|child| match child.access {
        Some(RuleAccess::Deny | RuleAccess::Read) => !child.by_name && child.kind != Kind::Missing,
        _ => leads_to_stricter(child),
    })
}

impl Mounts {
    /// Returns true if something lies in a folder for layers.
    pub(in crate::linux) fn need_layers(&self) -> bool {
        self.places.iter().any(|place| matches!(place.view, View::Own | View::Layer))
    }

    /// Returns the place in which a path is, with its number.
    pub(in crate::linux) fn around(&self, path: &Path) -> Option<(usize, &Place)> {
        // What is deeper comes later.
        let number = self.places.iter().rposition(|place| path.starts_with(place.path.as_path()))?;
        Some((number, self.places.get(number)?))
    }

    /// Returns the look of a path.
    pub(in crate::linux) fn view_of(&self, path: &Path) -> View {
        self.around(path).map_or(View::ReadOnly, |(_, place)| place.view)
    }
}
