//! Compares a folder in which an agent worked with a tree.
//!
//! The folder is read as plain files, through descriptors: no link is followed, no `.git` in the folder is
//! believed, and no filter runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use git2::{ObjectType, Oid, Repository};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::index::entry::{Entry, mode_of};
use crate::index::file::IndexFile;
use crate::index::hidden::Hidden;
use crate::objects::tree::{EXECUTABLE, FILE, MAX_DEPTH, Node, SUBMODULE, join};
use crate::objects::tree_edit::Edits;
use crate::objects::tree_path::is_git_name;
use crate::objects::verify::LARGEST;
use crate::plain::Measured;
use crate::repository::new_blobs::NewBlobs;
use crate::worktree::ignore::{Ignore, Level};

/// Upper bound for a file that is read at once, in bytes.
const SMALL: usize = 8 * 1024 * 1024;

/// Time after which a capture gives up. Reading fifty thousand new files takes twenty seconds on a slow disk.
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// The content of a folder.
#[derive(Default)]
pub(crate) struct Scan {
    /// The differences from the tree.
    pub(crate) edits: Edits,
    /// All files that are in git, or will be with the edits.
    pub(crate) files: BTreeMap<Vec<u8>, (Node, Option<Stat>)>,
    /// Folders that are repositories of their own. Their files are not ours to commit.
    pub(crate) nested: Vec<Vec<u8>>,
    /// FIFOs, sockets and devices that no rule ignores.
    pub(crate) special: Vec<Vec<u8>>,
    /// Files beyond the size limit. A file that the tree has stays as it is there.
    pub(crate) large: Vec<Vec<u8>>,
    /// Files and folders with a name that git refuses. What the tree has there stays as it is.
    pub(crate) refused: Vec<Vec<u8>>,
    /// Folders below the greatest depth of a tree.
    pub(crate) deep: Vec<Vec<u8>>,
    /// Files and folders with a hidden name that are neither in the tree nor in the index, and that no rule ignores.
    pub(crate) secret: Vec<Vec<u8>>,
}

/// The rules by which a folder is compared.
pub(crate) struct Look<'a> {
    pub(crate) repo: &'a Repository,
    /// The files to compare with, by path.
    pub(crate) tree: &'a BTreeMap<Vec<u8>, Node>,
    /// The agent's index. It shows which files are unchanged, and which the agent added in spite of the
    /// ignore rules.
    pub(crate) index: &'a IndexFile,
    pub(crate) ignore: &'a Ignore,
    /// Paths that the agent could not see. They stay as they are in the tree.
    pub(crate) hidden: &'a Hidden,
    /// True if files of nested repositories count.
    pub(crate) nested: bool,
    /// Folder for temporary files, on the disk of the repository.
    pub(crate) scratch: &'a Path,
}

impl Look<'_> {
    /// Compares `folder` with the tree. Writes contents that differ to the object database.
    pub(crate) fn scan(&self, folder: &Path) -> Result<Scan> {
        let mut walk = self.walk(folder, None)?;
        walk.absent();
        walk.blobs.finish()?;
        Ok(walk.scan)
    }

    /// Looks at the files that a scan of `folder` would read, and reads none.
    ///
    /// # Errors
    /// `not_supported` if they are more, or larger, than snapshots take.
    pub(crate) fn measure(&self, folder: &Path) -> Result<()> {
        self.walk(folder, Some(Measured::default())).map(drop)
    }

    fn walk(&self, folder: &Path, measured: Option<Measured>) -> Result<Walk<'_>> {
        let trust_mode = self.repo.config().and_then(|c| c.get_bool("core.filemode")).unwrap_or(true);
        let deadline = Instant::now() + DEADLINE;
        let mut walk = Walk {
            look: self,
            trust_mode,
            deadline,
            levels: Vec::new(),
            scan: Scan::default(),
            measured,
            blobs: NewBlobs::new(self.repo, self.scratch),
        };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = openat(CWD, folder, flags, Mode::empty())
            .map_err(|e| Error::io("opening the folder of an agent", e.into()).with_path(folder))?;
        walk.folder(&root, &[], Inside::default(), 0)?;
        Ok(walk)
    }
}

/// The content of a file, or the reason why it is left out.
enum Content {
    Stored(Oid),
    /// The file has gone since it was listed.
    Gone,
    /// The file is beyond the size limit.
    TooLarge,
}

struct Walk<'a> {
    look: &'a Look<'a>,
    trust_mode: bool,
    deadline: Instant,
    /// The ignore files of the folders that are being read, outermost first.
    levels: Vec<Level>,
    scan: Scan,
    /// Set if files are counted and not read.
    measured: Option<Measured>,
    blobs: NewBlobs<'a>,
}

/// The rules for everything in one folder.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// True for a folder that lies in a repository of its own.
    nested: bool,
    /// True for an ignored folder, in which only tracked files count.
    ignored: bool,
}

impl Walk<'_> {
    fn folder(&mut self, fd: &OwnedFd, prefix: &[u8], inside: Inside, depth: usize) -> Result<()> {
        let levels = self.levels.len();
        // The ignore file of this folder does not hold beside it.
        self.levels.extend(self.look.ignore.level(fd, prefix));
        let read = self.entries(fd, prefix, inside, depth);
        self.levels.truncate(levels);
        read
    }

    fn entries(&mut self, fd: &OwnedFd, prefix: &[u8], inside: Inside, depth: usize) -> Result<()> {
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
        let inside = Inside { nested: inside.nested || (has_git && !prefix.is_empty()), ..inside };
        // At the top, `.git` is the pointer that we wrote ourselves.
        if has_git && !prefix.is_empty() {
            self.scan.nested.push(prefix.to_vec());
        }
        for name in names.iter().filter(|name| !is_dot_git(name)) {
            self.check_time()?;
            let path = join(prefix, name);
            let Some(stat) = found(statat(fd, &name[..], AtFlags::SYMLINK_NOFOLLOW))
                .map_err(|e| failed("reading a file", &path, e))?
            else {
                continue;
            };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_git_name(name) {
                // One such entry would make the whole tree one that git refuses.
                if self.counts(&path, is_folder, inside) {
                    self.scan.refused.push(path);
                }
            } else if self.look.hidden.has_name(name) {
                // Files that the project gives its tasks are ignored ones.
                let is_new = !inside.nested && !inside.ignored && !self.is_tracked(&path, is_folder);
                if is_new && !self.look.ignore.matches(&self.levels, &path, is_folder) {
                    self.scan.secret.push(path);
                }
            } else if is_folder {
                self.subfolder(fd, name, &path, inside, depth)?;
            } else if let Some(mode) = mode_of(&stat) {
                // The ignore rules do not hold for tracked files, as in git.
                if self.is_tracked(&path, false) || self.counts(&path, false, inside) {
                    self.file(fd, name, path, &stat, mode)?;
                }
            } else if !inside.ignored && !self.look.ignore.matches(&self.levels, &path, false) {
                self.scan.special.push(path);
            }
        }
        Ok(())
    }

    /// Returns true if a path that is not tracked counts as new work.
    fn counts(&self, path: &[u8], is_folder: bool, inside: Inside) -> bool {
        (!inside.nested || self.look.nested)
            && !inside.ignored
            && !self.look.ignore.matches(&self.levels, path, is_folder)
    }

    /// Returns true if the tree or the index has a file at `path`, or below it if it is a folder.
    fn is_tracked(&self, path: &[u8], is_folder: bool) -> bool {
        let Look { tree, index, .. } = self.look;
        if !is_folder {
            return tree.contains_key(path) || index.any(path).is_some();
        }
        // Paths are sorted, so the first one after `<path>/` shows whether anything lies below.
        tree.range(join(path, b"")..).next().is_some_and(|(p, _)| is_below(p, path)) || index.has_below(path)
    }

    fn subfolder(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        path: &[u8],
        inside: Inside,
        depth: usize,
    ) -> Result<()> {
        let has_tracked = self.is_tracked(path, true);
        let is_submodule = self.look.tree.get(path).is_some_and(|node| node.mode == SUBMODULE);
        let ignored = inside.ignored || self.look.ignore.matches(&self.levels, path, true);
        if !has_tracked && !is_submodule && ignored {
            return Ok(());
        }
        // Neither a tree nor the index has anything there.
        if depth >= MAX_DEPTH {
            if !inside.nested || self.look.nested {
                self.scan.deep.push(path.to_vec());
            }
            return Ok(());
        }
        // NOFOLLOW: the agent may have replaced the folder by a link since it was listed.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened =
            found(openat(fd, name, flags, Mode::empty())).map_err(|e| failed("opening a folder", path, e))?;
        let Some(sub) = opened else { return Ok(()) };
        self.folder(&sub, path, Inside { nested: inside.nested || is_submodule, ignored }, depth + 1)
    }

    fn file(&mut self, fd: &OwnedFd, name: &[u8], path: Vec<u8>, stat: &Stat, mode: u32) -> Result<()> {
        if let Some(measured) = &mut self.measured {
            return measured.add(&path, u64::try_from(stat.st_size).unwrap_or(u64::MAX));
        }
        let old = self.look.tree.get(&path).copied();
        // Where modes are not to be trusted, only the change between file and link counts.
        let mode = match old {
            Some(old) if !self.trust_mode && old.is_file() && matches!(mode, FILE | EXECUTABLE) => old.mode,
            _ => mode,
        };
        let known = self.look.index.entry(&path);
        let known = known
            .filter(|entry| entry.node.mode == mode && self.look.index.is_fresh(entry, stat))
            .map(|entry| entry.node.id);
        // The agent writes its index, and may name an object there that does not exist.
        let known = known.filter(|id| old.is_some_and(|old| old.id == *id) || self.has(*id));
        let found = match known {
            Some(id) => Content::Stored(id),
            None => self.content(fd, name, &path, mode, old)?,
        };
        let id = match found {
            Content::Stored(id) => id,
            Content::Gone => return Ok(()),
            Content::TooLarge => {
                // Kept as it is in the tree: left out of `files`, it would count as deleted.
                if let Some(old) = old {
                    self.scan.files.insert(path.clone(), (old, None));
                }
                self.scan.large.push(path);
                return Ok(());
            }
        };
        let node = Node { mode, id };
        if old != Some(node) {
            self.scan.edits.insert(path.clone(), Some(node));
        }
        self.scan.files.insert(path, (node, Some(*stat)));
        Ok(())
    }

    fn check_time(&self) -> Result<()> {
        match Instant::now() > self.deadline {
            true => Err(Error::new(ErrorKind::Timeout, "the folder of the agent takes too long to read")),
            false => Ok(()),
        }
    }

    fn has(&self, id: Oid) -> bool {
        self.look.repo.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// Returns the id of a file's content. Stores the content only if it differs from the tree's.
    fn content(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        path: &[u8],
        mode: u32,
        old: Option<Node>,
    ) -> Result<Content> {
        let during = "storing a file in the repository";
        let same = |id: Oid| old.is_some_and(|old| old.id == id);
        let blobs = &mut self.blobs;
        let mut store = |content: Vec<u8>| {
            let id = Oid::hash_object(ObjectType::Blob, &content).during(during)?;
            if !same(id) {
                blobs.add(id, content)?;
            }
            Ok(Content::Stored(id))
        };
        if mode == crate::objects::tree::LINK {
            let link =
                found(readlinkat(fd, name, Vec::new())).map_err(|e| failed("reading a link", path, e))?;
            return link.map_or(Ok(Content::Gone), |link| store(link.into_bytes()));
        }
        let Some(file) = open_file(fd, name).map_err(|e| failed("opening a file", path, e))? else {
            return Ok(Content::Gone);
        };
        // Of the open file, because the agent may have put another one in its place since it was listed.
        let size = fstat(&file).map_err(|e| failed("reading a file", path, e))?.st_size;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > LARGEST {
            return Ok(Content::TooLarge);
        }
        // A file may grow while it is read.
        let mut file = File::from(file).take(LARGEST as u64 + 1);
        let reading = |e| Error::io("reading a file", e).with("file", RepoPath::new(path));
        if size <= SMALL {
            let mut content = Vec::with_capacity(size + 1);
            file.read_to_end(&mut content).map_err(reading)?;
            return if content.len() > LARGEST { Ok(Content::TooLarge) } else { store(content) };
        }
        // A large file is not held in memory. One that grows, such as a log, counts as it was when it was opened.
        let mut file = file.into_inner().take(size as u64);
        let odb = self.look.repo.odb().during(during)?;
        let mut writer = odb.writer(size, ObjectType::Blob).during(during)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            self.check_time()?;
            let read = file.read(&mut buffer).map_err(reading)?;
            if read == 0 {
                break;
            }
            writer.write_all(buffer.get(..read).unwrap_or_default()).map_err(reading)?;
        }
        // Fails if the size has changed since the file was opened.
        writer.finalize().map(Content::Stored).during(during)
    }

    /// Records the files that the tree has and the folder lacks.
    fn absent(&mut self) {
        for (path, node) in self.look.tree {
            if self.scan.files.contains_key(path) {
                continue;
            }
            let entry = self.look.index.entry(path);
            let kept = node.mode == SUBMODULE
                || entry.is_some_and(Entry::is_sparse)
                || self.look.hidden.has(path)
                || path.split(|byte| *byte == b'/').any(is_git_name);
            let below = join(path, b"");
            // A path with anything below it was replaced by a folder.
            let replaced =
                || self.scan.files.range(below.clone()..).next().is_some_and(|(p, _)| is_below(p, path));
            if kept && !replaced() {
                // The folder of a submodule is never read. What the agent staged for it counts.
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
    // NONBLOCK: the file could be a FIFO by now, and opening it would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    found(openat(fd, name, flags, Mode::empty()))
}

/// Returns `None` for a file that was removed, or replaced by a link, since it was listed.
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

/// Returns true if `path` lies below the folder `folder`.
pub(crate) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}
