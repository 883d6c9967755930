//! Merges three trees level by level. A folder that is equal on two sides is never expanded.
//!
//! The rules are git's without renames. A name has a file part and a folder part, and each is merged three
//! ways. If both are left, they collide. Renames are left to the caller (`prepare.rs`), who asks libgit2 when
//! this walk finds a conflict that a rename could explain.

use git2::{FileFavor, Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::objects::text::is_binary;
use crate::objects::tree::{FOLDER, Node, check_depth, join, level};
use crate::worktree::attributes::{Attributes, Value};

/// Size in bytes above which a file is not merged line by line.
pub(crate) const MAX_TEXT: usize = 32 * 1024 * 1024;

/// The merged tree, and the paths at which it is only our side because the sides disagree.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The tree, or `None` if nothing is left in it.
    pub(crate) tree: Option<Oid>,
    pub(crate) clashes: Vec<Clash>,
    /// Set if a name is a folder on one side and a file on another. libgit2 resolves such renames where git
    /// reports a conflict, so it is not asked.
    pub(crate) mixed: bool,
}

/// A path on which the sides disagree.
#[derive(Clone, Debug)]
pub(crate) struct Clash {
    pub(crate) path: Vec<u8>,
    pub(crate) base: Option<Node>,
    pub(crate) ours: Option<Node>,
    pub(crate) theirs: Option<Node>,
    /// The text with conflict marks, if all sides are text.
    pub(crate) marked: Option<Vec<u8>>,
}

impl Clash {
    /// Returns true if a rename of a file on one side could explain the conflict.
    pub(crate) fn could_be_rename(&self) -> bool {
        let sides = [self.base, self.ours, self.theirs];
        sides.iter().flatten().all(Node::is_file) && sides.iter().any(Option::is_none)
    }
}

/// Merges the changes that `ours` and `theirs` made to `base`.
pub(crate) fn merge(
    repo: &Repository,
    attributes: &Attributes<'_>,
    base: Option<Oid>,
    ours: Option<Oid>,
    theirs: Option<Oid>,
) -> Result<Merged> {
    let mut walk = Walk { repo, attributes, clashes: Vec::new(), mixed: false };
    let tree = walk.folder([base, ours, theirs], &[], 0)?;
    Ok(Merged { tree, clashes: walk.clashes, mixed: walk.mixed })
}

struct Walk<'a> {
    repo: &'a Repository,
    attributes: &'a Attributes<'a>,
    clashes: Vec<Clash>,
    mixed: bool,
}

impl Walk<'_> {
    fn folder(&mut self, sides: [Option<Oid>; 3], path: &[u8], depth: usize) -> Result<Option<Oid>> {
        if let Some(decided) = three_way(sides) {
            return Ok(decided);
        }
        check_depth(depth)?;
        let [base, ours, theirs] = sides;
        let (base, mut theirs) = (level(self.repo, base)?, level(self.repo, theirs)?);
        let ours_tree = ours.map(|id| self.repo.find_tree(id)).transpose().during("reading a tree")?;
        let ours = level(self.repo, ours)?;
        // Built from our side, so that only entries that differ from it are written.
        let mut builder = self.repo.treebuilder(ours_tree.as_ref()).during("writing a tree")?;
        for (name, our) in &ours {
            let their = theirs.remove(name);
            let merged = self.name([base.get(name).copied(), Some(*our), their], &join(path, name), depth)?;
            match merged {
                Some(node) if node == *our => {}
                Some(node) => {
                    _ = builder.insert(&name[..], node.id, node.mode as i32).during("writing a tree")?
                }
                None => builder.remove(&name[..]).during("writing a tree")?,
            }
        }
        // Only the names that our side lacks are left.
        for (name, their) in theirs {
            let merged =
                self.name([base.get(&name).copied(), None, Some(their)], &join(path, &name), depth)?;
            if let Some(node) = merged {
                builder.insert(&name[..], node.id, node.mode as i32).during("writing a tree")?;
            }
        }
        if builder.is_empty() { Ok(None) } else { builder.write().map(Some).during("writing a tree") }
    }

    fn name(&mut self, sides: [Option<Node>; 3], path: &[u8], depth: usize) -> Result<Option<Node>> {
        let is_folder = |is: bool| sides.iter().flatten().any(|node| node.is_folder() == is);
        self.mixed |= is_folder(true) && is_folder(false);
        if let Some(decided) = three_way(sides) {
            return Ok(decided);
        }
        // A name that is a file on one side and a folder on another is merged as both.
        let folders = sides.map(|node| node.filter(Node::is_folder).map(|node| node.id));
        let leaves = sides.map(|node| node.filter(|node| !node.is_folder()));
        let folder = self.folder(folders, path, depth + 1)?.map(|id| Node { mode: FOLDER, id });
        let leaf = match three_way(leaves) {
            Some(decided) => decided,
            None => self.leaf(leaves, path)?,
        };
        // No tree can hold a file and a folder of one name.
        if let (Some(_), Some(_)) = (folder, leaf) {
            let [base, ours, theirs] = sides;
            self.clashes.push(Clash { path: path.to_vec(), base, ours, theirs, marked: None });
            return Ok(ours);
        }
        Ok(folder.or(leaf))
    }

    /// Merges a file that differs on all sides.
    fn leaf(&mut self, sides: [Option<Node>; 3], path: &[u8]) -> Result<Option<Node>> {
        let [base, ours, theirs] = sides;
        let mut clash = Clash { path: path.to_vec(), base, ours, theirs, marked: None };
        if let (Some(our), Some(their)) = (ours, theirs)
            && our.is_file()
            && their.is_file()
        {
            let base = base.filter(Node::is_file);
            // Content and mode are merged each on its own: one side may change only the mode.
            let mode = three_way([base.map(|node| node.mode), Some(our.mode), Some(their.mode)]);
            let id = three_way([base.map(|node| node.id), Some(our.id), Some(their.id)]).flatten();
            match (mode.flatten(), id) {
                (Some(mode), Some(id)) => return Ok(Some(Node { mode, id })),
                (mode, _) => {
                    let text = match driver(self.repo, self.attributes, path)? {
                        Driver::Text(favor) => self.text(base, our, their, favor)?,
                        Driver::Other => None,
                    };
                    if let (Some(mode), Some(Text::Clean(content))) = (mode, &text) {
                        let id = self.repo.blob(content).during("writing a file")?;
                        return Ok(Some(Node { mode, id }));
                    }
                    clash.marked = text.map(Text::into_content);
                }
            }
        }
        self.clashes.push(clash);
        Ok(ours)
    }

    fn text(
        &self,
        base: Option<Node>,
        ours: Node,
        theirs: Node,
        favor: Option<FileFavor>,
    ) -> Result<Option<Text>> {
        let blob = |node: Node| self.repo.find_blob(node.id).during("reading a file");
        let (ours, theirs) = (blob(ours)?, blob(theirs)?);
        let base = base.map(blob).transpose()?;
        let base = base.as_ref().map_or(&[][..], |blob| blob.content());
        let all = [base, ours.content(), theirs.content()];
        // Without a text there are no marks: the whole file is a conflict.
        if all.iter().any(|content| content.len() > MAX_TEXT || is_binary(content)) {
            return Ok(None);
        }
        let [base, ours, theirs] = all.map(|content| {
            let mut input = git2::MergeFileInput::new();
            input.content(content).mode(Some(git2::FileMode::Blob));
            input
        });
        let mut options = git2::MergeFileOptions::new();
        if let Some(favor) = favor {
            options.favor(favor);
        }
        options.our_label("target").their_label("task").ancestor_label("base");
        let merged = git2::merge_file(&base, &ours, &theirs, Some(&mut options)).during("merging a file")?;
        let content = merged.content().to_vec();
        Ok(Some(if merged.is_automergeable() { Text::Clean(content) } else { Text::Marked(content) }))
    }
}

/// The way to merge two versions of a file.
pub(crate) enum Driver {
    /// Line by line. The option decides conflicts.
    Text(Option<FileFavor>),
    /// Not at all: both sides changed the file, which is a conflict.
    Other,
}

/// Returns the way in which the attribute `merge` of the person's checkout, or else `merge.default`, wants `path` to be merged.
pub(crate) fn driver(repo: &Repository, attributes: &Attributes<'_>, path: &[u8]) -> Result<Driver> {
    let [value] = attributes.of(path, ["merge"])?;
    let config = repo.config().during("reading the configuration")?;
    let driver = match value {
        Some(Value::Set) => return Ok(Driver::Text(None)),
        Some(Value::Unset) => return Ok(Driver::Other),
        Some(Value::Text(driver)) => driver,
        None => config.get_string("merge.default").unwrap_or_default().into_bytes(),
    };
    let driver = match driver.as_slice() {
        b"" => return Ok(Driver::Text(None)),
        b"text" => return Ok(Driver::Text(None)),
        b"union" => return Ok(Driver::Text(Some(FileFavor::Union))),
        b"binary" => return Ok(Driver::Other),
        driver => String::from_utf8_lossy(driver),
    };
    // A defined driver is the person's program, and runs only when the person merges. git ignores one
    // that is not defined.
    let is_defined = config.get_entry(&format!("merge.{driver}.driver")).is_ok();
    Ok(if is_defined { Driver::Other } else { Driver::Text(None) })
}

enum Text {
    Clean(Vec<u8>),
    Marked(Vec<u8>),
}

impl Text {
    fn into_content(self) -> Vec<u8> {
        match self {
            Self::Clean(content) | Self::Marked(content) => content,
        }
    }
}

/// Returns the result of three sides if they agree: both made the same change, or only one made a change.
fn three_way<T: PartialEq + Copy>([base, ours, theirs]: [Option<T>; 3]) -> Option<Option<T>> {
    if ours == theirs || base == theirs {
        Some(ours)
    } else if base == ours {
        Some(theirs)
    } else {
        None
    }
}
