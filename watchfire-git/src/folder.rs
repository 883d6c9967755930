//! A folder in which an agent worked, compared with a tree. It is read as plain files, by descriptors: no link is
//! followed, no `.git` in it is believed, and no filter runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use git2::{ObjectType, Oid, Repository};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::hidden::Hidden;
use crate::ignore::Ignore;
use crate::index_entry::{Entry, mode_of};
use crate::index_file::IndexFile;
use crate::tree::{EXECUTABLE, FILE, Node, SUBMODULE, check_depth, join};
use crate::tree_edit::Edits;

/// Files up to this size are read at once.
const SMALL: i64 = 8 * 1024 * 1024;

/// What a folder holds.
#[derive(Default)]
pub(crate) struct Scan {
    /// How it differs from the tree.
    pub(crate) edits: Edits,
    /// All files that are, or now will be, in git.
    pub(crate) files: BTreeMap<Vec<u8>, (Node, Option<Stat>)>,
    /// Repositories of their own in it, whose files are not ours to commit.
    pub(crate) nested: Vec<Vec<u8>>,
}

/// How to look at a folder.
pub(crate) struct Look<'a> {
    pub(crate) repo: &'a Repository,
    /// What it is compared with, by path.
    pub(crate) tree: &'a BTreeMap<Vec<u8>, Node>,
    /// The agent's index: knows which files are unchanged, and what the agent added in spite of the ignore rules.
    pub(crate) index: &'a IndexFile,
    pub(crate) ignore: &'a Ignore,
    /// What the agent could not see: it stays as it is in the tree.
    pub(crate) hidden: &'a Hidden,
    /// Whether files of nested repositories count.
    pub(crate) nested: bool,
}

impl Look<'_> {
    /// Compares `folder`. Contents that differ are in the object database afterwards.
    pub(crate) fn scan(&self, folder: &Path) -> Result<Scan> {
        let trust_mode = self.repo.config().and_then(|c| c.get_bool("core.filemode")).unwrap_or(true);
        let mut walk = Walk { look: self, trust_mode, scan: Scan::default() };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = openat(CWD, folder, flags, Mode::empty())
            .map_err(|e| Error::io("opening the folder of an agent", e.into()).with_path(folder))?;
        walk.folder(&root, &[], false, 0)?;
        walk.absent();
        Ok(walk.scan)
    }
}

struct Walk<'a> {
    look: &'a Look<'a>,
    trust_mode: bool,
    scan: Scan,
}

impl Walk<'_> {
    fn folder(&mut self, fd: &OwnedFd, prefix: &[u8], nested: bool, depth: usize) -> Result<()> {
        check_depth(depth)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(fd).map_err(|e| failed("reading a folder", prefix, e))? {
            let entry = entry.map_err(|e| failed("reading a folder", prefix, e))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort();
        let has_git = names.iter().any(|name| is_dot_git(name));
        let nested = nested || (has_git && !prefix.is_empty());
        if has_git && !prefix.is_empty() {
            self.scan.nested.push(prefix.to_vec());
        }
        let counts = |name: &&Vec<u8>| !is_dot_git(name) && !self.look.hidden.has_name(name);
        for name in names.iter().filter(counts) {
            let path = join(prefix, name);
            let Some(stat) = found(statat(fd, &name[..], AtFlags::SYMLINK_NOFOLLOW))
                .map_err(|e| failed("reading a file", &path, e))?
            else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self.subfolder(fd, name, &path, nested, depth)?;
            } else if let Some(mode) = mode_of(&stat) {
                let tracked = self.look.tree.contains_key(&path) || self.look.index.any(&path).is_some();
                let counts =
                    tracked || ((!nested || self.look.nested) && !self.look.ignore.matches(&path)?);
                if counts {
                    self.file(fd, name, path, &stat, mode)?;
                }
            }
        }
        Ok(())
    }

    fn subfolder(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        path: &[u8],
        nested: bool,
        depth: usize,
    ) -> Result<()> {
        let has_tracked =
            self.look.tree.range(join(path, b"")..).next().is_some_and(|(p, _)| is_below(p, path))
                || self.look.index.has_below(path);
        let is_submodule = self.look.tree.get(path).is_some_and(|node| node.mode == SUBMODULE);
        if !has_tracked && !is_submodule && self.look.ignore.matches(path)? {
            return Ok(());
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened =
            found(openat(fd, name, flags, Mode::empty())).map_err(|e| failed("opening a folder", path, e))?;
        let Some(sub) = opened else { return Ok(()) };
        self.folder(&sub, path, nested || is_submodule, depth + 1)
    }

    fn file(&mut self, fd: &OwnedFd, name: &[u8], path: Vec<u8>, stat: &Stat, mode: u32) -> Result<()> {
        let old = self.look.tree.get(&path).copied();
        let mode = match old {
            Some(old) if !self.trust_mode && old.is_file() && matches!(mode, FILE | EXECUTABLE) => old.mode,
            _ => mode,
        };
        let known = self.look.index.entry(&path);
        let known = known
            .filter(|entry| entry.node.mode == mode && self.look.index.is_fresh(entry, stat))
            .map(|entry| entry.node.id);
        let known = known.filter(|id| old.is_some_and(|old| old.id == *id) || self.has(*id));
        let id = match known {
            Some(id) => id,
            None => match self.content(fd, name, &path, stat, mode, old)? {
                Some(id) => id,
                None => return Ok(()),
            },
        };
        let node = Node { mode, id };
        if old != Some(node) {
            self.scan.edits.insert(path.clone(), Some(node));
        }
        self.scan.files.insert(path, (node, Some(*stat)));
        Ok(())
    }

    fn has(&self, id: Oid) -> bool {
        self.look.repo.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// The object of a file's content, which is written only if it is not what the tree has. None if the file went.
    fn content(
        &self,
        fd: &OwnedFd,
        name: &[u8],
        path: &[u8],
        stat: &Stat,
        mode: u32,
        old: Option<Node>,
    ) -> Result<Option<Oid>> {
        let during = "storing a file in the repository";
        let same = |id: Oid| old.is_some_and(|old| old.id == id);
        let store = |content: &[u8]| {
            let id = Oid::hash_object(ObjectType::Blob, content).during(during)?;
            if same(id) { Ok(Some(id)) } else { self.look.repo.blob(content).map(Some).during(during) }
        };
        if mode == crate::tree::LINK {
            let link =
                found(readlinkat(fd, name, Vec::new())).map_err(|e| failed("reading a link", path, e))?;
            return link.map_or(Ok(None), |link| store(link.as_bytes()));
        }
        let Some(file) = open_file(fd, name).map_err(|e| failed("opening a file", path, e))? else {
            return Ok(None);
        };
        let mut file = File::from(file);
        let reading = |e| Error::io("reading a file", e).with("file", RepoPath::new(path));
        if stat.st_size <= SMALL {
            let mut content = Vec::new();
            file.read_to_end(&mut content).map_err(reading)?;
            return store(&content);
        }
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        let odb = self.look.repo.odb().during(during)?;
        let mut writer = odb.writer(size, ObjectType::Blob).during(during)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer).map_err(reading)?;
            if read == 0 {
                break;
            }
            writer.write_all(buffer.get(..read).unwrap_or_default()).map_err(reading)?;
        }
        writer.finalize().map(Some).during(during)
    }

    /// What the tree has and the folder has not.
    fn absent(&mut self) {
        for (path, node) in self.look.tree {
            if self.scan.files.contains_key(path) {
                continue;
            }
            let entry = self.look.index.entry(path);
            let kept =
                node.mode == SUBMODULE || entry.is_some_and(Entry::is_sparse) || self.look.hidden.has(path);
            let below = join(path, b"");
            let replaced =
                || self.scan.files.range(below.clone()..).next().is_some_and(|(p, _)| is_below(p, path));
            if kept && !replaced() {
                // A submodule is what the agent staged, if it did; its folder is never looked into.
                let staged = entry.filter(|e| node.mode == SUBMODULE && e.node.mode == SUBMODULE);
                let now = staged.map_or(*node, |staged| staged.node);
                if now != *node {
                    self.scan.edits.insert(path.clone(), Some(now));
                }
                self.scan.files.insert(path.clone(), (now, None));
            } else {
                self.scan.edits.insert(path.clone(), None);
            }
        }
    }
}

fn open_file(fd: impl AsFd, name: &[u8]) -> Result<Option<OwnedFd>, rustix::io::Errno> {
    // Not blocking: it could be a pipe by now.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    found(openat(fd, name, flags, Mode::empty()))
}

/// None for what went, or became a link, since it was listed.
fn found<T>(result: Result<T, rustix::io::Errno>) -> Result<Option<T>, rustix::io::Errno> {
    use rustix::io::Errno;
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(e) => Err(e),
    }
}

fn failed(action: &'static str, path: &[u8], error: rustix::io::Errno) -> Error {
    Error::io(action, error.into()).with("file", RepoPath::new(path))
}

fn is_dot_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Whether `path` lies below the folder `folder`.
pub(crate) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}
