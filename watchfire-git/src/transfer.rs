//! Objects that an agent made, checked one by one and copied into the repository's object database.
//!
//! Nothing is written before all of it was checked, and nothing before what it names: whoever finds an object in the
//! repository finds all that belongs to it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Odb, Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, Result};

use crate::error::{During, broken};
use crate::failpoint::reached;
use crate::files;
use crate::materialize::check_path;
use crate::repository::Project;
use crate::tree::{EXECUTABLE, FILE, FOLDER, LINK, MAX_DEPTH, Node, SUBMODULE};
use crate::verify::check_link;

/// From so many objects on they are written as one pack.
const PACK: usize = 200;
/// No object of a sane project is larger, and it is held in memory.
const LARGEST: usize = 2 << 30;

/// Objects on their way.
pub(crate) struct Transfer {
    /// The repository alone.
    real: Repository,
    /// The same with the agent's objects.
    both: Repository,
    _plain: PlainObjects,
    checked: HashSet<Oid>,
    /// What is to be written, each after all that it names.
    order: Vec<Oid>,
}

impl Transfer {
    /// From the object folder `objects` into the repository. What that folder says of other folders is not believed.
    pub(crate) fn new(project: &Project, objects: &Path) -> Result<Self> {
        let both = project.open()?;
        let plain = PlainObjects::of(objects, &project.state().join("tmp"))?;
        let path = plain.0.to_str();
        let path = path.ok_or_else(|| broken("the path of the repository is no UTF-8").with_path(objects))?;
        both.odb().and_then(|odb| odb.add_disk_alternate(path)).during("opening an agent's objects")?;
        Ok(Self { real: project.open()?, both, _plain: plain, checked: HashSet::new(), order: Vec::new() })
    }

    /// Whether the repository has an object already.
    pub(crate) fn is_there(&self, id: Oid) -> bool {
        self.real.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// Whether it may be a commit: one of the repository is, one of the agent's will be checked.
    pub(crate) fn may_be_commit(&self, id: Oid) -> bool {
        if self.is_there(id) { self.real.find_commit(id).is_ok() } else { self.has(id) }
    }

    /// Whether it is anywhere.
    fn has(&self, id: Oid) -> bool {
        self.both.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// Takes a commit with its history.
    pub(crate) fn commit(&mut self, id: Oid) -> Result<()> {
        // Children are finished before their parents; a history can be longer than the stack is deep.
        let mut pending = vec![(id, false)];
        while let Some((id, finished)) = pending.pop() {
            if finished {
                self.order.push(id);
                continue;
            }
            if self.is_there(id) || !self.checked.insert(id) {
                continue;
            }
            drop(self.read(id, ObjectType::Commit)?);
            let commit = self.both.find_commit(id).map_err(|e| damaged("commit", id).with_source(e))?;
            let (tree, parents): (_, Vec<_>) = (commit.tree_id(), commit.parent_ids().collect());
            drop(commit);
            self.tree(tree, 0)?;
            pending.push((id, true));
            pending.extend(parents.into_iter().map(|parent| (parent, false)));
        }
        Ok(())
    }

    /// Takes a tree with all below it.
    fn tree(&mut self, id: Oid, depth: usize) -> Result<()> {
        if self.is_there(id) || !self.checked.insert(id) {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(broken("the work has folders that are nested too deeply").with("tree", id));
        }
        let entries = entries(&self.read(id, ObjectType::Tree)?).ok_or_else(|| damaged("tree", id))?;
        for (name, node) in entries {
            check_path(&name)?;
            if node.mode == FOLDER { self.tree(node.id, depth + 1)? } else { self.blob(&name, node)? }
        }
        self.order.push(id);
        Ok(())
    }

    fn blob(&mut self, name: &[u8], node: Node) -> Result<()> {
        check_link(name, node)?;
        if node.mode != SUBMODULE && !self.is_there(node.id) && self.checked.insert(node.id) {
            drop(self.read(node.id, ObjectType::Blob)?);
            self.order.push(node.id);
        }
        Ok(())
    }

    /// Takes the content of a staged file. False if it is nowhere, or not what git would stage.
    pub(crate) fn file(&mut self, path: &[u8], node: Node) -> Result<bool> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let usable = check_path(path).is_ok() && matches!(node.mode, FILE | EXECUTABLE | LINK | SUBMODULE);
        if !usable || (node.mode != SUBMODULE && !self.has(node.id)) {
            return Ok(false);
        }
        self.blob(name, node).map(|()| true)
    }

    /// Reads an object, which compares it with its name.
    fn read(&self, id: Oid, kind: ObjectType) -> Result<Vec<u8>> {
        let name = kind.str();
        let odb = self.both.odb().during("opening an agent's objects")?;
        let (size, found) = odb.read_header(id).map_err(|e| damaged(name, id).with_source(e))?;
        if found != kind || size > LARGEST {
            return Err(damaged(name, id));
        }
        let object = odb.read(id).map_err(|e| damaged(name, id).with_source(e))?;
        if object.kind() != kind {
            return Err(damaged(name, id));
        }
        Ok(object.data().to_vec())
    }

    /// Writes what was taken.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let writing = "writing the agent's objects";
        if self.order.len() < PACK {
            let odb = self.real.odb().during(writing)?;
            return self.order.iter().try_for_each(|id| self.copy(&odb, *id));
        }
        let mut pack = self.both.packbuilder().during(writing)?;
        for id in &self.order {
            pack.insert_object(*id, None).during(writing)?;
        }
        let folder = self.real.commondir().join("objects/pack");
        pack.write(&folder, 0o444).during(writing)?;
        reached("import: pack written");
        self.real.odb().and_then(|odb| odb.refresh()).during(writing)
    }

    fn copy(&self, to: &Odb<'_>, id: Oid) -> Result<()> {
        let from = self.both.odb().during("opening an agent's objects")?;
        let object = from.read(id).map_err(|e| damaged("object", id).with_source(e))?;
        to.write(object.kind(), object.data()).during("writing the agent's objects")?;
        reached("import: object written");
        Ok(())
    }
}

/// The plain files of an object folder: neither links nor what it says of other folders (`info/alternates`), both of
/// which libgit2 would follow to wherever an agent likes.
struct PlainObjects(PathBuf);

impl PlainObjects {
    fn of(objects: &Path, scratch: &Path) -> Result<Self> {
        let view = Self(scratch.join(files::unique("objects")));
        let is =
            |path: &Path, what: fn(&fs::Metadata) -> bool| fs::symlink_metadata(path).is_ok_and(|m| what(&m));
        for (name, folder) in files::entries(objects)? {
            if name == "info" || !is(&folder, fs::Metadata::is_dir) {
                continue;
            }
            let to = view.0.join(name);
            fs::create_dir_all(&to).map_err(|e| Error::io("creating a folder", e).with_path(&to))?;
            for (name, file) in files::entries(&folder)? {
                if is(&file, fs::Metadata::is_file) {
                    symlink(&file, to.join(name))
                        .map_err(|e| Error::io("making a link", e).with_path(&file))?;
                }
            }
        }
        Ok(view)
    }
}

impl Drop for PlainObjects {
    fn drop(&mut self) {
        _ = files::remove_tree(&self.0);
    }
}

/// The entries of a tree's content, if it is exactly what git writes.
fn entries(mut content: &[u8]) -> Option<Vec<(Vec<u8>, Node)>> {
    let mut entries: Vec<(Vec<u8>, Node)> = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let mode = match content.get(..space)? {
            b"100644" => FILE,
            b"100755" => EXECUTABLE,
            b"120000" => LINK,
            b"40000" => FOLDER,
            b"160000" => SUBMODULE,
            _ => return None,
        };
        content = content.get(space + 1..)?;
        let end = content.iter().position(|byte| *byte == 0)?;
        let (name, rest) = (content.get(..end)?, content.get(end + 1..)?);
        if name.contains(&b'/') {
            return None;
        }
        let id = Oid::from_bytes(rest.get(..20)?).ok()?;
        content = rest.get(20..)?;
        let node = Node { mode, id };
        if entries.last().is_some_and(|(last, before)| sort_key(last, *before) >= sort_key(name, node)) {
            return None;
        }
        entries.push((name.to_vec(), node));
    }
    let names: HashSet<_> = entries.iter().map(|(name, _)| name).collect();
    (names.len() == entries.len()).then_some(entries)
}

/// git sorts folders as if their name ended with a slash.
fn sort_key(name: &[u8], node: Node) -> Vec<u8> {
    let slash: &[u8] = if node.mode == FOLDER { b"/" } else { b"" };
    [name, slash].concat()
}

fn damaged(what: &str, id: Oid) -> Error {
    broken(format!("the work has a {what} that is missing, damaged, or not what git writes"))
        .with("object", RepoPath::new(id.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(mode, name)| [format!("{mode} {name}\0").as_bytes(), &[7; 20]].concat())
            .collect()
    }

    #[test]
    fn trees_are_read_only_as_git_writes_them() {
        let names = |entries_of: &[(&str, &str)]| entries(&tree(entries_of)).map(|entries| entries.len());
        assert_eq!(names(&[]), Some(0));
        assert_eq!(names(&[("100644", "a.b"), ("40000", "a"), ("120000", "b")]), Some(3));
        for odd in [
            &[("100644", "b"), ("100644", "a")][..],
            &[("100644", "a"), ("100644", "a")],
            &[("100644", "a"), ("100644", "a-"), ("40000", "a")],
            &[("040000", "a")],
            &[("100664", "a")],
            &[("777", "a")],
        ] {
            assert_eq!(names(odd), None, "{odd:?}");
        }
        assert!(entries(b"100644 cut off\0short").is_none());
        assert!(entries(b"100644").is_none());
    }
}
