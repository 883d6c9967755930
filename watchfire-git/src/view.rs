//! The files of a person's checkout, one by one, while changes are brought to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{AttrCheckFlags, AttrValue, ObjectType, Oid, Repository};
use rustix::fs::{CWD, FileType, Stat, lstat};
use watchfire_core::{Error, Result};

use crate::convert::{self, Conversion};
use crate::error::During;
use crate::failpoint::reached;
use crate::files::{self, unique};
use crate::index_entry::{Entry, mode_of};
use crate::index_file::IndexFile;
use crate::materialize::write_file;
use crate::tree::{EXECUTABLE, LINK, Node, SUBMODULE};
use crate::tree_diff::Change;
use crate::user_checkout::Checkout;

/// A checkout while changes are brought to it.
pub(crate) struct View<'a> {
    checkout: &'a Checkout,
    repo: Repository,
    index: &'a IndexFile,
    changes: BTreeMap<&'a [u8], &'a Change>,
    conflicts: BTreeSet<Vec<u8>>,
    trust_mode: bool,
    crlf: bool,
    config: git2::Config,
    /// Where files are that git has converted.
    converted: &'a Path,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        checkout: &'a Checkout,
        index: &'a IndexFile,
        changes: &'a [Change],
        converted: &'a Path,
    ) -> Result<Self> {
        let flags = git2::RepositoryOpenFlags::NO_SEARCH | git2::RepositoryOpenFlags::NO_DOTGIT;
        let none: [&Path; 0] = [];
        let repo = Repository::open_ext(&checkout.git, flags, none).during("opening a checkout")?;
        let config =
            repo.config().and_then(|mut config| config.snapshot()).during("reading the configuration")?;
        let crlf =
            config.get_str("core.autocrlf").is_ok_and(|v| git2::Config::parse_bool(v).unwrap_or(false))
                || config.get_str("core.eol").is_ok_and(|value| value == "crlf");
        Ok(Self {
            checkout,
            index,
            changes: changes.iter().map(|change| (change.path.as_slice(), change)).collect(),
            conflicts: {
                let conflicts = index.entries().iter().filter(|entry| entry.is_conflict());
                conflicts.map(|entry| entry.path.clone()).collect()
            },
            trust_mode: config.get_bool("core.filemode").unwrap_or(true),
            crlf,
            config,
            converted,
            repo,
        })
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.checkout.files.join(OsStr::from_bytes(path))
    }

    /// What is at `path`, without following a link on the way.
    fn disk(&self, path: &[u8]) -> Result<Disk> {
        let look = |path: &[u8]| {
            let at = self.at(path);
            files::absent(lstat(&at).map_err(Into::into))
                .map_err(|e| Error::io("reading a file", e).with_path(at))
        };
        for end in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
            let parent = path.get(..end).unwrap_or_default();
            match look(parent)? {
                None => return Ok(Disk::Absent),
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
                Some(_) => return Ok(Disk::Behind(parent.to_vec())),
            }
        }
        Ok(look(path)?.map_or(Disk::Absent, Disk::Here))
    }

    /// Adds what a change would overwrite to `edited`.
    pub(crate) fn check(&self, change: &Change, edited: &mut BTreeSet<Vec<u8>>) -> Result<()> {
        let path = &change.path;
        let entry = self.index.entry(path);
        let staged = entry.map(|entry| entry.node);
        if self.conflicts.contains(path) || (staged != change.old && staged != change.new) {
            edited.insert(path.clone());
            return Ok(());
        }
        if change.old.is_some_and(|old| old.mode == SUBMODULE)
            && change.new.is_none_or(|n| n.mode == SUBMODULE)
        {
            return Ok(());
        }
        match self.disk(path)? {
            Disk::Absent => {
                let sparse = entry.is_some_and(Entry::is_sparse);
                if change.old.is_some_and(|old| old.mode != SUBMODULE) && change.new.is_some() && !sparse {
                    edited.insert(path.clone());
                }
            }
            Disk::Behind(parent) => {
                // Fine if the merge takes it away itself.
                let goes = self.changes.get(parent.as_slice()).is_some_and(|change| change.new.is_none());
                if !goes {
                    edited.insert(parent);
                }
            }
            Disk::Here(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                self.check_folder(path, edited)?;
            }
            Disk::Here(stat) => {
                if !self.is(path, change.old, &stat)? && !self.is(path, change.new, &stat)? {
                    edited.insert(path.clone());
                }
            }
        }
        Ok(())
    }

    /// A folder where a file should be: all in it must go with the merge.
    fn check_folder(&self, path: &[u8], edited: &mut BTreeSet<Vec<u8>>) -> Result<()> {
        let mut pending = vec![path.to_vec()];
        while let Some(folder) = pending.pop() {
            for (name, at) in files::entries(&self.at(&folder))? {
                let path = crate::tree::join(&folder, name.as_encoded_bytes());
                if fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_dir()) {
                    pending.push(path);
                } else if self.changes.get(path.as_slice()).is_none_or(|change| change.new.is_some()) {
                    edited.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Whether the file at `path`, now `stat`, is `node`.
    fn is(&self, path: &[u8], node: Option<Node>, stat: &Stat) -> Result<bool> {
        let Some(node) = node else { return Ok(false) };
        let Some(mode) = mode_of(stat) else { return Ok(false) };
        let both_files = node.is_file() && mode != LINK;
        if mode != node.mode && (self.trust_mode || !both_files) {
            return Ok(false);
        }
        if let Some(entry) = self.index.entry(path)
            && self.index.is_fresh(entry, stat)
        {
            return Ok(entry.node.id == node.id);
        }
        let found = hash(&self.at(path))?;
        if found == Some(node.id) {
            return Ok(true);
        }
        // What a publication that was broken off has brought.
        let is_new = self.changes.get(path).is_some_and(|change| change.new == Some(node));
        let Some(converted) = self.converted(path).filter(|_| is_new) else { return Ok(false) };
        Ok(found.is_some() && hash(&converted)? == found)
    }

    /// What git would do to the content on its way to the file.
    pub(crate) fn conversion(&self, change: &Change) -> Result<Conversion> {
        let path = Path::new(OsStr::from_bytes(&change.path));
        let attribute = |name| {
            let value = self
                .repo
                .get_attr_bytes(path, name, AttrCheckFlags::FILE_THEN_INDEX)
                .during("reading attributes")?;
            Ok::<_, Error>(match AttrValue::from_bytes(value) {
                AttrValue::True => Some(b"true".to_vec()),
                AttrValue::False | AttrValue::Unspecified => None,
                AttrValue::String(text) => Some(text.as_bytes().to_vec()),
                AttrValue::Bytes(bytes) => Some(bytes.to_vec()),
            })
        };
        // A driver that nobody defines does nothing.
        if let Some(driver) = attribute("filter")?.map(|name| String::from_utf8_lossy(&name).into_owned())
            && ["smudge", "process"]
                .iter()
                .any(|key| self.config.get_bytes(&format!("filter.{driver}.{key}")).is_ok())
        {
            return Ok(Conversion::Driver(driver));
        }
        if attribute("ident")?.is_some()
            || attribute("working-tree-encoding")?.is_some()
            || attribute("eol")?.is_some_and(|eol| eol == b"crlf")
        {
            return Ok(Conversion::BuiltIn);
        }
        let Some(node) = change.new.filter(|_| self.crlf) else { return Ok(Conversion::None) };
        let blob = self.repo.find_blob(node.id).during("reading a file")?;
        let is_text = !crate::tree_merge::is_binary(blob.content());
        Ok(if is_text { Conversion::BuiltIn } else { Conversion::None })
    }

    /// Whether the file for a change was not converted although it must be.
    pub(crate) fn lacks_conversion(&self, change: &Change) -> Result<bool> {
        let is_there = self.converted(&change.path).is_some();
        Ok(!is_there && !matches!(self.conversion(change)?, Conversion::None))
    }

    fn converted(&self, path: &[u8]) -> Option<PathBuf> {
        let at = convert::at(self.converted, path);
        fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_file()).then_some(at)
    }

    /// Writes what a change brings where there is nothing.
    fn write(&self, fresh: &Path, node: Node, path: &[u8]) -> Result<()> {
        let Some(converted) = self.converted(path).filter(|_| node.is_file()) else {
            let name = fresh.as_os_str().as_bytes();
            return write_file(&self.repo, CWD, name, node, path, Duration::ZERO).map(drop);
        };
        let mode = if node.mode == EXECUTABLE { 0o777 } else { 0o666 };
        let written = (|| {
            let mut from = fs::File::open(converted)?;
            let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
            std::io::copy(&mut from, &mut to)
        })();
        written.map(drop).map_err(|e| Error::io("writing a file", e).with_path(fresh))
    }

    /// Brings one change to its file, if that is as before.
    pub(crate) fn bring(&self, change: &Change) -> Result<Brought> {
        reached("file: next");
        let path = &change.path;
        let disk = self.disk(path)?;
        let sparse = self.index.entry(path).is_some_and(Entry::is_sparse);
        let stat = match (disk, change.new) {
            (_, Some(new)) if new.mode == SUBMODULE => {
                if let Disk::Here(stat) = self.disk(path)?
                    && self.is(path, change.old, &stat)?
                {
                    fs::remove_file(self.at(path))
                        .map_err(|e| Error::io("removing a file", e).with_path(self.at(path)))?;
                }
                _ = fs::create_dir_all(self.at(path));
                None
            }
            (Disk::Here(stat), Some(new)) if self.is(path, Some(new), &stat)? => Some(stat),
            (Disk::Here(stat), Some(new)) if self.is(path, change.old, &stat)? => {
                self.replace(path, new, &stat)?
            }
            (Disk::Here(stat), Some(new)) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                self.remove_empty(path);
                self.add(path, new)?
            }
            (Disk::Absent, Some(new)) if !sparse && change.old.is_none_or(|old| old.mode == SUBMODULE) => {
                self.add(path, new)?
            }
            (Disk::Here(stat), None) if self.is(path, change.old, &stat)? => {
                let at = self.at(path);
                fs::remove_file(&at).map_err(|e| Error::io("removing a file", e).with_path(&at))?;
                self.prune_parents(path);
                None
            }
            _ => None,
        };
        Ok((change.new, stat))
    }

    /// Puts a file where there is none. An edit that came first stays.
    fn add(&self, path: &[u8], node: Node) -> Result<Option<Stat>> {
        let at = self.at(path);
        let parent = at.parent().unwrap_or(&self.checkout.files);
        fs::create_dir_all(parent).map_err(|e| Error::io("creating a folder", e).with_path(parent))?;
        let fresh = parent.join(unique("new"));
        self.write(&fresh, node, path)?;
        reached("file: written");
        let put = fs::hard_link(&fresh, &at);
        reached("file: linked");
        let put = match put {
            // Not every file system has hard links.
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists && fs::symlink_metadata(&at).is_err() => {
                fs::rename(&fresh, &at)
            }
            put => put,
        };
        _ = fs::remove_file(&fresh);
        match put {
            Ok(()) => lstat(&at).map(Some).map_err(|e| Error::io("reading a file", e.into()).with_path(&at)),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io("writing a file", e).with_path(&at)),
        }
    }

    /// Replaces the file that is `old` by `node`. An edit that came between stays.
    fn replace(&self, path: &[u8], node: Node, old: &Stat) -> Result<Option<Stat>> {
        let at = self.at(path);
        let parent = at.parent().unwrap_or(&self.checkout.files);
        let fresh = parent.join(unique("new"));
        self.write(&fresh, node, path)?;
        if node.is_file()
            && mode_of(old) == Some(node.mode)
            && let Ok(metadata) = fs::symlink_metadata(&at)
        {
            // What the person allowed others stays allowed.
            _ = fs::set_permissions(&fresh, metadata.permissions());
        }
        let is_old = |stat: &Stat| {
            (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
                == (old.st_ino, old.st_size, old.st_mtime, old.st_mtime_nsec)
        };
        let untouched = lstat(&at).is_ok_and(|now| is_old(&now));
        if untouched && files::exchange(&fresh, &at)? {
            reached("file: swapped");
            let displaced = lstat(&fresh).is_ok_and(|now| is_old(&now));
            if !displaced {
                files::exchange(&fresh, &at)?;
                return Ok(None);
            }
            _ = fs::remove_file(&fresh);
            return lstat(&at).map(Some).map_err(|e| Error::io("reading a file", e.into()).with_path(&at));
        }
        if !untouched {
            _ = fs::remove_file(&fresh);
            return Ok(None);
        }
        fs::rename(&fresh, &at).map_err(|e| Error::io("replacing a file", e).with_path(&at))?;
        lstat(&at).map(Some).map_err(|e| Error::io("reading a file", e.into()).with_path(&at))
    }

    /// Removes folders that a removal has left empty.
    fn prune_parents(&self, path: &[u8]) {
        let mut end = path.len();
        while let Some(slash) = path.get(..end).and_then(|p| p.iter().rposition(|byte| *byte == b'/')) {
            end = slash;
            if fs::remove_dir(self.at(path.get(..end).unwrap_or_default())).is_err() {
                break;
            }
        }
    }

    /// Removes a folder in which only empty folders are left.
    fn remove_empty(&self, path: &[u8]) {
        let mut folders = vec![self.at(path)];
        let mut next = 0;
        while let Some(folder) = folders.get(next).cloned() {
            let subfolders = files::entries(&folder).unwrap_or_default();
            folders.extend(
                subfolders
                    .into_iter()
                    .map(|(_, path)| path)
                    .filter(|path| path.is_dir() && !path.is_symlink()),
            );
            next += 1;
        }
        for folder in folders.iter().rev() {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// What is at a path.
enum Disk {
    Absent,
    /// Something that is no folder is where a folder of the path should be.
    Behind(Vec<u8>),
    Here(Stat),
}

/// A path as it now is in git, and its file's state if the entry may rely on it.
pub(crate) type Brought = (Option<Node>, Option<Stat>);

/// The object that the file or link at `at` would be; none if there is nothing.
pub(crate) fn hash(at: &Path) -> Result<Option<Oid>> {
    let reading = |e| Error::io("reading a file", e).with_path(at);
    let Some(metadata) = files::absent(fs::symlink_metadata(at)).map_err(reading)? else { return Ok(None) };
    if metadata.is_symlink() {
        let link = files::absent(fs::read_link(at)).map_err(reading)?;
        let hashed = link.map(|link| Oid::hash_object(ObjectType::Blob, link.as_os_str().as_bytes()));
        return hashed.transpose().during("hashing a link");
    }
    files::hash_plain(at)
}
