//! Copies objects that an agent made into the repository's object database, after checking each one.
//!
//! Nothing is written before everything was checked. No object is written before the objects that it names,
//! so an object in the repository always has everything that belongs to it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{ObjectType, Odb, Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, Said, broken};
use crate::failpoint::reached;
use crate::files;
use crate::objects::commit_object;
use crate::objects::tag_object;
use crate::objects::tree::{EXECUTABLE, FILE, FOLDER, LINK, MAX_DEPTH, Node, SUBMODULE};
use crate::objects::tree_path::{check_path, is_read_by_git};
use crate::objects::verify::{LARGEST, TOO_LARGE, check_link};
use crate::private::copies::unreadable;
use crate::repository::new_pack::NewPack;
use crate::repository::project::Project;

/// Time after which an import gives up. Checking a million objects takes a few minutes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10 * 60);
/// Number of objects from which on they are written as one pack.
const PACK: usize = 200;
/// Upper bound for the files of a tree. No project has more, but a tree that holds another one ten times, and
/// so on, would.
const MOST_FILES: u64 = 5_000_000;

/// The objects that an import takes over.
pub(crate) struct Transfer {
    /// The repository without the agent's objects.
    real: Repository,
    /// The repository with the agent's objects.
    both: Repository,
    _plain: PlainObjects,
    /// Folder for a pack that is being made.
    scratch: PathBuf,
    /// Sound objects that are to be written, by kind. An object of one kind does not vouch for a name that
    /// expects another.
    commits: HashSet<Oid>,
    tags: HashSet<Oid>,
    blobs: HashSet<Oid>,
    /// Number of files below each tree.
    files: HashMap<Oid, u64>,
    /// Objects to write, each after the objects that it names.
    order: Vec<Oid>,
    until: Instant,
}

impl Transfer {
    /// Prepares a transfer from the object folder `objects` into the repository. What that folder says about
    /// other folders is not believed.
    pub(crate) fn new(project: &Project, objects: &Path) -> Result<Self> {
        let both = project.open()?;
        let scratch = project.state().join("tmp");
        let plain = PlainObjects::of(&both, objects, &scratch)?;
        let path = plain.0.to_str();
        let path = path.ok_or_else(|| broken("the path of the repository is no UTF-8").with_path(objects))?;
        both.odb().and_then(|odb| odb.add_disk_alternate(path)).during("opening an agent's objects")?;
        Ok(Self {
            real: project.open()?,
            both,
            _plain: plain,
            scratch,
            commits: HashSet::new(),
            tags: HashSet::new(),
            blobs: HashSet::new(),
            files: HashMap::new(),
            order: Vec::new(),
            until: Instant::now() + DEADLINE,
        })
    }

    /// Fails once the check has taken too long. Called for every object, so that an agent's history cannot keep an import
    /// busy without end.
    pub(crate) fn check_time(&self) -> Result<()> {
        match Instant::now() > self.until {
            true => Err(Error::new(ErrorKind::Timeout, "the objects of the agent take too long to check")),
            false => Ok(()),
        }
    }

    /// Returns the repository as the agent sees it, with objects that were not checked.
    pub(crate) fn both(&self) -> &Repository {
        &self.both
    }

    /// Returns true if the repository has this object already. An object of another kind is an error, because
    /// `git gc` fails on a tree that names a commit where a file should be.
    fn is_there(&self, id: Oid, kind: ObjectType) -> Result<bool> {
        match self.real.odb().and_then(|odb| odb.read_header(id)) {
            Ok((_, found)) if found == kind => Ok(true),
            Ok(_) => Err(damaged(kind.str(), id)),
            Err(_) => Ok(false),
        }
    }

    /// Returns true if `id` may be a commit. One in the repository is read; one of the agent is checked
    /// later.
    pub(crate) fn may_be_commit(&self, id: Oid) -> bool {
        match self.is_there(id, ObjectType::Commit) {
            Ok(false) => {}
            Ok(true) => return self.real.find_commit(id).is_ok(),
            Err(_) => return false,
        }
        // An object whose header cannot be read counts, so that the check reports it as damaged.
        let header = self.both.odb().and_then(|odb| odb.read_header(id));
        header.map_or_else(|_| self.has(id), |(_, kind)| kind == ObjectType::Commit)
    }

    /// Returns true if the repository or the agent has the object.
    fn has(&self, id: Oid) -> bool {
        self.both.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// Takes over a commit with its history.
    pub(crate) fn commit(&mut self, id: Oid) -> Result<()> {
        // A commit is finished after its parents. No recursion: a history can be longer than the stack is
        // deep.
        let mut pending = vec![(id, false)];
        while let Some((id, finished)) = pending.pop() {
            if finished {
                self.order.push(id);
                continue;
            }
            if self.is_there(id, ObjectType::Commit)? || !self.commits.insert(id) {
                continue;
            }
            let read = self.read(id, ObjectType::Commit, commit_object::read)?;
            let (tree, parents) = read.ok_or_else(|| damaged("commit", id))?;
            self.tree(tree, 0)?;
            pending.push((id, true));
            pending.extend(parents.into_iter().map(|parent| (parent, false)));
        }
        Ok(())
    }

    /// Takes over a commit with its history if everything is sound, and returns true if it was.
    pub(crate) fn sound_commit(&mut self, id: Oid) -> Result<bool> {
        if self.commits.contains(&id) {
            return Ok(true);
        }
        // The copies below take long for a large history, and a log may name thousands of commits.
        self.check_time()?;
        let before = (self.commits.clone(), self.blobs.clone(), self.files.clone(), self.order.len());
        match self.commit(id) {
            Err(error) if error.kind() == ErrorKind::WorkspaceBroken => {
                // Parts of the history may have been sound, but nothing would name them.
                (self.commits, self.blobs, self.files) = (before.0, before.1, before.2);
                self.order.truncate(before.3);
                Ok(false)
            }
            taken => taken.map(|()| true),
        }
    }

    /// Takes over the object of a tag, a note or another reference: a commit, or an annotated tag of a
    /// commit. Returns false if it is neither, or not sound.
    pub(crate) fn sound_reference(&mut self, id: Oid) -> Result<bool> {
        let header = self.both.odb().and_then(|odb| odb.read_header(id));
        match header {
            Ok((_, ObjectType::Commit)) => self.sound_commit(id),
            Ok((_, ObjectType::Tag)) if self.is_there(id, ObjectType::Tag).unwrap_or(false) => Ok(true),
            Ok((_, ObjectType::Tag)) => {
                let target = self.read(id, ObjectType::Tag, tag_object::read).ok().flatten();
                let is_sound = match target {
                    Some(target) => self.may_be_commit(target) && self.sound_commit(target)?,
                    None => false,
                };
                if is_sound && self.tags.insert(id) {
                    self.order.push(id);
                }
                Ok(is_sound)
            }
            _ => Ok(false),
        }
    }

    /// Takes over a tree with everything below it, and returns the number of its files.
    fn tree(&mut self, id: Oid, depth: usize) -> Result<u64> {
        if let Some(files) = self.files.get(&id) {
            return Ok(*files);
        }
        if self.is_there(id, ObjectType::Tree)? {
            // Trees of the repository are not counted again.
            return Ok(1);
        }
        if depth > MAX_DEPTH {
            return Err(broken("the work has folders that are nested too deeply").with("tree", id));
        }
        let entries = self.read(id, ObjectType::Tree, entries)?.ok_or_else(|| damaged("tree", id))?;
        let mut files = 0_u64;
        for (name, node) in entries {
            check_path(&name)?;
            files = files.saturating_add(match node.mode {
                FOLDER => self.tree(node.id, depth + 1)?,
                _ => self.blob(&name, node).map(|()| 1)?,
            });
        }
        if files > MOST_FILES {
            return Err(broken("the work has more files than any project").with("tree", id));
        }
        self.files.insert(id, files);
        self.order.push(id);
        Ok(files)
    }

    fn blob(&mut self, name: &[u8], node: Node) -> Result<()> {
        if node.id == Oid::ZERO_SHA1 {
            return Err(damaged("file", node.id));
        }
        if node.mode == SUBMODULE || self.is_there(node.id, ObjectType::Blob)? {
            return Ok(());
        }
        // Checked under each name: a content that is harmless under one name may not be so under another.
        check_link(name, node)?;
        let is_modules = is_read_by_git(name, b".gitmodules");
        if self.blobs.contains(&node.id) && !is_modules {
            return Ok(());
        }
        let sound = |content: &[u8]| !is_modules || is_sound_gitmodules(content);
        let is_sound = self.read(node.id, ObjectType::Blob, sound);
        if !is_sound.map_err(|error| error.with("file", RepoPath::new(name)))? {
            return Err(broken("the work has a .gitmodules that git refuses"));
        }
        if self.blobs.insert(node.id) {
            self.order.push(node.id);
        }
        Ok(())
    }

    /// Takes over the content of a staged file. Returns false if there is no such content, or git would not
    /// stage it.
    pub(crate) fn file(&mut self, path: &[u8], node: Node) -> Result<bool> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let usable = check_path(path).is_ok()
            && node.id != Oid::ZERO_SHA1
            && matches!(node.mode, FILE | EXECUTABLE | LINK | SUBMODULE);
        if !usable || (node.mode != SUBMODULE && !self.has(node.id)) {
            return Ok(false);
        }
        match self.blob(name, node) {
            // No commit needs the content, so it is left out and the work still arrives.
            Err(error) if error.kind() == ErrorKind::WorkspaceBroken => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    /// Passes the content of an object to `look`. libgit2 compares it with its name while reading.
    fn read<T>(&self, id: Oid, kind: ObjectType, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.check_time()?;
        let name = kind.str();
        let odb = self.both.odb().during("opening an agent's objects")?;
        let (size, found) = odb.read_header(id).map_err(|e| damaged(name, id).with_source(Said(e)))?;
        // By the header, before the content is in memory.
        if size > LARGEST {
            return Err(broken(TOO_LARGE).with("object", id));
        }
        if found != kind {
            return Err(damaged(name, id));
        }
        let object = odb.read(id).map_err(|e| damaged(name, id).with_source(Said(e)))?;
        Ok(look(object.data()))
    }

    /// Checks that everything that was written is still in the repository.
    pub(crate) fn check(&self) -> Result<()> {
        let odb = self.real.odb().and_then(|odb| odb.refresh().map(|()| odb)).during("reading objects")?;
        match self.order.iter().find(|id| !odb.exists(**id)) {
            None => Ok(()),
            Some(id) => {
                Err(Error::new(ErrorKind::Conflict, "an object was taken away while work was imported")
                    .with("object", id))
            }
        }
    }

    /// Writes the objects that were taken over.
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
        let made = NewPack::new(&self.scratch)?;
        pack.write(made.folder(), 0o444).during(writing)?;
        made.put(&self.real)
    }

    fn copy(&self, to: &Odb<'_>, id: Oid) -> Result<()> {
        let from = self.both.odb().during("opening an agent's objects")?;
        let object = from.read(id).map_err(|e| damaged("object", id).with_source(Said(e)))?;
        to.write(object.kind(), object.data()).during("writing the agent's objects")?;
        reached("import: object written");
        Ok(())
    }
}

/// The loose objects and packs of an agent's object folder, without anything that could lead libgit2
/// elsewhere.
///
/// Left out are links and `info/alternates`, both of which libgit2 would follow to wherever an agent likes.
/// Indices of packs are made anew: what an agent's index says about the order of deltas may have no end.
struct PlainObjects(PathBuf);

impl PlainObjects {
    fn of(repo: &Repository, objects: &Path, scratch: &Path) -> Result<Self> {
        let view = Self(scratch.join(files::unique("objects")));
        let is = |path: &Path, what: fn(&fs::Metadata) -> bool| {
            fs::symlink_metadata(path).is_ok_and(|found| what(&found))
        };
        let make = |path: &Path| {
            fs::create_dir_all(path).map_err(|e| Error::io("creating a folder", e).with_path(path))
        };
        make(&view.0)?;
        for (name, folder) in files::entries(objects).map_err(unreadable)? {
            if !is_hex(&name, 2) || !is(&folder, fs::Metadata::is_dir) {
                continue;
            }
            make(&view.0.join(&name))?;
            for (file_name, file) in files::entries(&folder).map_err(unreadable)? {
                if is_hex(&file_name, 38) && is(&file, fs::Metadata::is_file) {
                    hold(&file, &view.0.join(&name).join(file_name))?;
                }
            }
        }
        for (name, file) in files::entries(&objects.join("pack")).map_err(unreadable)? {
            if name.as_encoded_bytes().ends_with(b".pack") {
                make(&view.0.join("pack"))?;
                index_pack(repo, &file, &view.0.join("pack"))?;
            }
        }
        Ok(view)
    }
}

/// Gives the file at `from` the second name `to`, so that it stays this file, whatever an agent puts in its place meanwhile: a link
/// would be followed, and the open of a FIFO does not end. What is no plain file gets no name.
fn hold(from: &Path, to: &Path) -> Result<()> {
    let failed = |e| Error::io("reading an agent's objects", e).with_path(from);
    if fs::hard_link(from, to).is_ok() {
        // Of a link it is the link itself.
        return match fs::symlink_metadata(to).map_err(failed)?.is_file() {
            true => Ok(()),
            false => fs::remove_file(to).map_err(failed),
        };
    }
    // On another file system, or of another owner.
    let Some(mut file) = files::open_plain(from).map_err(unreadable)? else { return Ok(()) };
    let copied = fs::File::create(to).and_then(|mut copy| std::io::copy(&mut file, &mut copy));
    copied.map(drop).map_err(failed)
}

/// Copies a pack into the folder `to` and makes its index, which checks the content of the pack. What its objects name may be in
/// another pack, since `git gc` puts what nothing reaches into one of its own; it is checked with the work.
fn index_pack(repo: &Repository, pack: &Path, to: &Path) -> Result<()> {
    let Some(mut file) = files::open_plain(pack).map_err(unreadable)? else { return Ok(()) };
    let odd =
        |e: git2::Error| broken("the work has a pack that git would not have written").with_source(Said(e));
    let odb = repo.odb().during("opening the repository")?;
    // The repository's objects too: a thin pack names objects outside of itself.
    let mut indexer = git2::Indexer::new(Some(&odb), to, 0o400, false).map_err(odd)?;
    std::io::copy(&mut file, &mut indexer)
        .map_err(|e| broken("the work has a pack that cannot be read").with_path(pack).with_source(e))?;
    indexer.commit().map(drop).map_err(odd)
}

fn is_hex(name: &std::ffi::OsStr, length: usize) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == length && name.iter().all(u8::is_ascii_hexdigit)
}

impl Drop for PlainObjects {
    fn drop(&mut self) {
        _ = files::remove_tree(&self.0);
    }
}

/// Parses the content of a tree. Returns `None` if it is not exactly what git writes.
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
        // git compares entries in this order. Entries that are out of order could hide others from it.
        if entries.last().is_some_and(|(last, before)| sort_key(last, *before) >= sort_key(name, node)) {
            return None;
        }
        entries.push((name.to_vec(), node));
    }
    // A file `a` and a folder `a` have different keys.
    let names: HashSet<_> = entries.iter().map(|(name, _)| name).collect();
    (names.len() == entries.len()).then_some(entries)
}

/// Returns true if git could not read any value in a `.gitmodules` as an option or a command.
fn is_sound_gitmodules(content: &[u8]) -> bool {
    let value = |line: &[u8]| {
        let value = line.splitn(2, |byte| *byte == b'=').nth(1)?;
        value.iter().copied().find(|byte| !byte.is_ascii_whitespace() && *byte != b'"')
    };
    content.split(|byte| *byte == b'\n').all(|line| !matches!(value(line), Some(b'-' | b'!')))
}

/// Returns the key by which git sorts an entry: a folder as if its name ended with a slash.
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

    #[test]
    fn an_import_gives_up_in_time() {
        let temp = tempfile::tempdir().unwrap();
        let [ours, agents] = ["ours", "agents"].map(|name| Repository::init(temp.path().join(name)).unwrap());
        let tree = agents.find_tree(agents.index().unwrap().write_tree().unwrap()).unwrap();
        let who = git2::Signature::now("x", "x@example.org").unwrap();
        let made = agents.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        let project = Project::find(ours.workdir().unwrap(), crate::GitOptions::default()).unwrap();
        let mut transfer = Transfer::new(&project, &agents.path().join("objects")).unwrap();
        transfer.until = Instant::now();
        assert_eq!(transfer.sound_commit(made).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(transfer.commit(made).unwrap_err().kind(), ErrorKind::Timeout);
        let mut transfer = Transfer::new(&project, &agents.path().join("objects")).unwrap();
        transfer.commit(made).unwrap();
        assert!(transfer.sound_commit(made).unwrap());
    }

    #[test]
    fn modules_cannot_name_options() {
        assert!(is_sound_gitmodules(b"[submodule \"a\"]\n\tpath = a-b\n\turl = ../x.git\n"));
        for odd in ["url = -u./p", "path=\"-x\"", "\tupdate =  !evil"] {
            assert!(!is_sound_gitmodules(odd.as_bytes()), "{odd}");
        }
    }

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

    /// The open of a FIFO would not end, and a link would lead elsewhere.
    #[test]
    fn what_an_agent_puts_in_the_place_of_an_object_is_not_read() {
        let temp = tempfile::tempdir().unwrap();
        let (objects, scratch) = (temp.path().join("objects"), temp.path().join("scratch"));
        let repo = Repository::init(temp.path().join("repo")).unwrap();
        fs::create_dir_all(objects.join("ab")).unwrap();
        let [file, link] = ["1", "2"].map(|end| objects.join("ab").join(format!("{}{end}", "0".repeat(37))));
        fs::write(&file, "an object").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let view = PlainObjects::of(&repo, &objects, &scratch).unwrap();
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).unwrap();
        let held = files::entries(&view.0.join("ab")).unwrap();
        assert_eq!(held.iter().map(|(name, _)| name).collect::<Vec<_>>(), [file.file_name().unwrap()]);
        assert!(fs::symlink_metadata(&held[0].1).unwrap().is_file());
        assert_eq!(fs::read(&held[0].1).unwrap(), b"an object");
    }
}
