//! One checkout of a person while changes are brought to it: its files as they are now, compared with both
//! sides of a change.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository};
use rustix::fs::{FileType, Stat, lstat};
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::files;
use crate::index::entry::{Entry, mode_of};
use crate::index::file::IndexFile;
use crate::objects::tree::{LINK, Node, SUBMODULE};
use crate::objects::tree_diff::Change;
use crate::publish::convert::{self, Conversion};
use crate::publish::user_checkout::Checkout;
use crate::worktree::attributes::{Attributes, Replaced, Value};

/// A person's checkout, with the changes that are to be brought to it.
pub(crate) struct View<'a> {
    checkout: &'a Checkout,
    pub(crate) repo: Repository,
    index: &'a IndexFile,
    changes: BTreeMap<&'a [u8], &'a Change>,
    conflicts: BTreeSet<Vec<u8>>,
    trust_mode: bool,
    crlf: bool,
    /// The attributes with those that the changes bring, as git has them where it writes the new files.
    attributes: Attributes<'a>,
    /// The attributes of before, if the changes touch any.
    before: Option<Attributes<'a>>,
    /// Folders that were seen to exist. Many changes share them.
    folders: RefCell<HashSet<Vec<u8>>>,
    config: git2::Config,
    /// Folder of converted files.
    converted: &'a Path,
    has_converted: OnceCell<bool>,
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
        let attributes = |replaced: Replaced| {
            // A handle of its own, for blobs of attributes that are in the index only.
            let blobs = Repository::open_ext(&checkout.git, flags, none).during("opening a checkout")?;
            let in_index =
                move |path: &[u8]| Some(blobs.find_blob(index.entry(path)?.node.id).ok()?.content().to_vec());
            Attributes::replacing(&repo, &checkout.files, Box::new(in_index), replaced)
        };
        let new = convert::replaced(&repo, changes, |change| change.new)?;
        let before = match new.is_empty() {
            true => None,
            false => Some(attributes(convert::replaced(&repo, changes, |change| change.old)?)?),
        };
        let attributes = attributes(new)?;
        let config =
            repo.config().and_then(|mut config| config.snapshot()).during("reading the configuration")?;
        let crlf =
            // `input` is no boolean. It means a conversion on the way in only.
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
            // False where the file system keeps no executable bit.
            trust_mode: config.get_bool("core.filemode").unwrap_or(true),
            crlf,
            attributes,
            before,
            folders: RefCell::default(),
            config,
            converted,
            has_converted: OnceCell::new(),
            repo,
        })
    }

    pub(crate) fn at(&self, path: &[u8]) -> PathBuf {
        self.checkout.files.join(OsStr::from_bytes(path))
    }

    /// Returns the index entry at `path`.
    pub(crate) fn entry(&self, path: &[u8]) -> Option<&Entry> {
        self.index.entry(path)
    }

    /// Looks at `path` on disk, without following a link on the way.
    pub(crate) fn disk(&self, path: &[u8]) -> Result<Disk> {
        let look = |path: &[u8]| {
            let at = self.at(path);
            files::absent(lstat(&at).map_err(Into::into))
                .map_err(|e| Error::io("reading a file", e).with_path(at))
        };
        for end in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
            let parent = path.get(..end).unwrap_or_default();
            if self.folders.borrow().contains(parent) {
                continue;
            }
            match look(parent)? {
                None => return Ok(Disk::Absent),
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    self.folders.borrow_mut().insert(parent.to_vec());
                }
                // A file or a link: what lies behind a link is not part of the checkout.
                Some(_) => return Ok(Disk::Behind(parent.to_vec())),
            }
        }
        Ok(look(path)?.map_or(Disk::Absent, Disk::Here))
    }

    /// Adds the paths with edits that a change would overwrite to `edited`.
    pub(crate) fn check(&self, change: &Change, edited: &mut BTreeSet<Vec<u8>>) -> Result<()> {
        let path = &change.path;
        let entry = self.index.entry(path);
        let staged = entry.map(|entry| entry.node);
        // Staged as neither side of the change: an edit of the person.
        if self.conflicts.contains(path) || (staged != change.old && staged != change.new) {
            edited.insert(path.clone());
            return Ok(());
        }
        // Its files are the person's to update.
        if change.old.is_some_and(|old| old.mode == SUBMODULE)
            && change.new.is_none_or(|n| n.mode == SUBMODULE)
        {
            return Ok(());
        }
        match self.disk(path)? {
            Disk::Absent => {
                let sparse = entry.is_some_and(Entry::is_sparse);
                // Deleted by the person, which is an edit. A path outside of a sparse checkout has no file
                // anyway.
                if change.old.is_some_and(|old| old.mode != SUBMODULE) && change.new.is_some() && !sparse {
                    edited.insert(path.clone());
                }
            }
            Disk::Behind(parent) => {
                // Not in the way if the merge itself removes it.
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

    /// Adds the files of a folder that stands in the place of a file, if they do not go with the merge.
    fn check_folder(&self, path: &[u8], edited: &mut BTreeSet<Vec<u8>>) -> Result<()> {
        let mut pending = vec![path.to_vec()];
        while let Some(folder) = pending.pop() {
            for (name, at) in files::entries(&self.at(&folder))? {
                let path = crate::objects::tree::join(&folder, name.as_encoded_bytes());
                if fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_dir()) {
                    pending.push(path);
                } else if self.changes.get(path.as_slice()).is_none_or(|change| change.new.is_some()) {
                    edited.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Returns true if the file at `path`, whose state is `stat`, is `node`.
    pub(crate) fn is(&self, path: &[u8], node: Option<Node>, stat: &Stat) -> Result<bool> {
        let Some(node) = node else { return Ok(false) };
        let Some(mode) = mode_of(stat) else { return Ok(false) };
        // Without trust in modes, a file with any permissions may be the node. A link may not.
        let both_files = node.is_file() && mode != LINK;
        if mode != node.mode && (self.trust_mode || !both_files) {
            return Ok(false);
        }
        // The index spares reading the file.
        if let Some(entry) = self.index.entry(path)
            && self.index.is_fresh(entry, stat)
        {
            return Ok(entry.node.id == node.id);
        }
        let found = hash(&self.at(path))?;
        if found == Some(node.id) {
            return Ok(true);
        }
        let Some(change) = self.changes.get(path).filter(|_| found.is_some()) else { return Ok(false) };
        // A publication that was broken off may have brought the converted content.
        let new = self.converted(path).filter(|_| change.new == Some(node));
        let old = Some(convert::at(&convert::old(self.converted), path)).filter(|_| change.old == Some(node));
        for converted in [new, old].into_iter().flatten() {
            if hash(&converted)? == found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the conversion that git would apply to the new content on its way to the file.
    pub(crate) fn conversion(&self, change: &Change) -> Result<Conversion> {
        self.conversion_by(&self.attributes, &change.path, change.new)
    }

    /// Returns the conversion that git has applied to the old content on its way to the file.
    pub(crate) fn conversion_before(&self, change: &Change) -> Result<Conversion> {
        self.conversion_by(self.before.as_ref().unwrap_or(&self.attributes), &change.path, change.old)
    }

    fn conversion_by(
        &self,
        attributes: &Attributes<'_>,
        path: &[u8],
        node: Option<Node>,
    ) -> Result<Conversion> {
        let names = ["filter", "ident", "working-tree-encoding", "eol"];
        let [filter, ident, encoding, eol] = attributes.of(path, names)?;
        let text = |value: Option<Value>| match value {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        // A driver that the configuration does not define does nothing.
        if let Some(driver) = text(filter).map(|name| String::from_utf8_lossy(&name).into_owned())
            && ["smudge", "process"]
                .iter()
                .any(|key| self.config.get_bytes(&format!("filter.{driver}.{key}")).is_ok())
        {
            return Ok(Conversion::Driver(driver));
        }
        if ident == Some(Value::Set)
            || text(encoding).is_some()
            || text(eol).is_some_and(|eol| eol == b"crlf")
        {
            return Ok(Conversion::BuiltIn);
        }
        self.line_ending(node)
    }

    fn line_ending(&self, node: Option<Node>) -> Result<Conversion> {
        let Some(node) = node.filter(|_| self.crlf) else { return Ok(Conversion::None) };
        // git converts no binary file, so the content decides.
        let blob = self.repo.find_blob(node.id).during("reading a file")?;
        let is_text = !crate::objects::text::is_binary(blob.content());
        Ok(if is_text { Conversion::BuiltIn } else { Conversion::None })
    }

    pub(crate) fn converted(&self, path: &[u8]) -> Option<PathBuf> {
        if !*self.has_converted.get_or_init(|| self.converted.is_dir()) {
            return None;
        }
        let at = convert::at(self.converted, path);
        fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_file()).then_some(at)
    }
}

/// The state of a path on disk.
pub(crate) enum Disk {
    Absent,
    /// Something that is no folder stands in place of this folder of the path.
    Behind(Vec<u8>),
    Here(Stat),
}

/// The new node of a path, and the state of its file if the index entry may rely on that.
pub(crate) type Brought = (Option<Node>, Option<Stat>);

/// Returns the id of the object that the file or link at `at` would be, or `None` if there is nothing.
pub(crate) fn hash(at: &Path) -> Result<Option<Oid>> {
    let reading = |e| Error::io("reading a file", e).with_path(at);
    let Some(metadata) = files::absent(fs::symlink_metadata(at)).map_err(reading)? else { return Ok(None) };
    // git stores the target of a link as its content.
    if metadata.is_symlink() {
        let link = files::absent(fs::read_link(at)).map_err(reading)?;
        let hashed = link.map(|link| Oid::hash_object(ObjectType::Blob, link.as_os_str().as_bytes()));
        return hashed.transpose().during("hashing a link");
    }
    files::hash_plain(at)
}
