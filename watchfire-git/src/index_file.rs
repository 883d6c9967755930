//! Index files, read and written as files: the lock, and when the new one takes effect, are the caller's.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Index, IndexEntry, IndexTime, ObjectType, Oid};
use rustix::fs::Stat;
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::files;
use crate::tree::{EXECUTABLE, FILE, LINK, Node};

/// The extended flag of an entry that has no file on purpose (sparse checkouts).
const SKIP_WORKTREE: u16 = 1 << 14;
/// More than an index of ten million files.
const LARGEST: u64 = 1 << 30;
/// The flag that says that there are extended ones.
const EXTENDED: u16 = 0x4000;
/// The two bits of the flags that say which side of a conflict an entry is.
const STAGE: u16 = 0x3000;

/// A copy of an index, in a temporary file that goes with it.
pub(crate) struct IndexFile {
    index: Index,
    copy: PathBuf,
    /// When the original was written: entries as young as that may have changed without showing it.
    written: Option<(i64, i64)>,
}

impl IndexFile {
    /// Copies the index at `path` into the folder `scratch` and reads it. An empty one if there is none.
    pub(crate) fn copy(path: &Path, scratch: &Path) -> Result<Self> {
        fs::create_dir_all(scratch).map_err(|e| Error::io("creating a folder", e).with_path(scratch))?;
        let copy = scratch.join(files::unique("index"));
        let stat = files::absent(rustix::fs::lstat(path).map_err(Into::into)).during("reading the index")?;
        let written = stat.as_ref().map(|stat| (seconds(stat), nanoseconds(stat)));
        if let Some(content) = files::read_plain(path, LARGEST)? {
            fs::write(&copy, content).map_err(|e| Error::io("copying the index", e).with_path(&copy))?;
        }
        let index =
            Index::open(&copy).during("reading the index").inspect_err(|_| _ = fs::remove_file(&copy))?;
        Ok(Self { index, copy, written })
    }

    /// An index without entries.
    pub(crate) fn empty(scratch: &Path) -> Result<Self> {
        Self::copy(&scratch.join("none").join("none"), scratch)
    }

    /// The entry for `path` that is no side of a conflict.
    pub(crate) fn entry(&self, path: &[u8]) -> Option<IndexEntry> {
        use std::os::unix::ffi::OsStrExt;
        self.index.get_path(Path::new(std::ffi::OsStr::from_bytes(path)), 0)
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = IndexEntry> {
        self.index.iter()
    }

    /// Sets an entry.
    pub(crate) fn set(&mut self, entry: &IndexEntry) -> Result<()> {
        self.index.add(entry).during("changing the index")
    }

    /// Removes a path.
    pub(crate) fn remove(&mut self, path: &[u8]) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        match self.index.remove(path, 0) {
            Err(e) if e.code() != git2::ErrorCode::NotFound => Err(e).during("changing the index"),
            _ => Ok(()),
        }
    }

    /// Whether `stat` is what the entry was made from, beyond doubt.
    pub(crate) fn is_fresh(&self, entry: &IndexEntry, stat: &Stat) -> bool {
        let same = entry.file_size == stat.st_size as u32
            && entry.mtime.seconds() == seconds(stat) as i32
            && entry.mtime.nanoseconds() == nanoseconds(stat) as u32
            && entry.ctime.seconds() == stat.st_ctime as i32
            && entry.ino == stat.st_ino as u32
            && entry.uid == stat.st_uid;
        same && self.written.is_some_and(|written| (seconds(stat), nanoseconds(stat)) < written)
    }

    /// Makes git look at the files that were changed in the instant in which their entry was made: from an index
    /// written later it would believe the entry. For an index of the checkout `files` that is about to be rewritten.
    pub(crate) fn settle(&mut self, files: &Path) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let time =
            |entry: &IndexEntry| (i64::from(entry.mtime.seconds()), i64::from(entry.mtime.nanoseconds()));
        let racy = self.index.iter().filter(|entry| {
            let counts = node(entry).is_file() && !is_conflict(entry) && entry.file_size != 0;
            counts && self.written.is_some_and(|written| time(entry) >= written)
        });
        let mut changed = Vec::new();
        for mut entry in racy {
            let path = files.join(std::ffi::OsStr::from_bytes(&entry.path));
            let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file())
                && path.ancestors().skip(1).take_while(|above| *above != files).all(|above| {
                    // Through a link the file would be one outside.
                    fs::symlink_metadata(above).is_ok_and(|metadata| metadata.is_dir())
                });
            let hash = || Oid::hash_file(ObjectType::Blob, &path).ok();
            if is_file && hash() != Some(entry.id) {
                // Without a size, git looks at the file.
                entry.file_size = 0;
                changed.push(entry);
            }
        }
        changed.iter().try_for_each(|entry| self.set(entry))
    }

    /// The index as a file's content.
    pub(crate) fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.index.write().during("writing the index")?;
        fs::read(&self.copy).map_err(|e| Error::io("reading the index", e).with_path(&self.copy))
    }
}

impl Drop for IndexFile {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.copy);
    }
}

/// An entry for `path`, made from the file as it is now; without `stat`, git will look at the file.
pub(crate) fn entry(path: &[u8], node: Node, stat: Option<&Stat>) -> IndexEntry {
    let time = |seconds: i64, nanoseconds: i64| IndexTime::new(seconds as i32, nanoseconds as u32);
    IndexEntry {
        ctime: stat.map_or(IndexTime::new(0, 0), |s| time(s.st_ctime, s.st_ctime_nsec as i64)),
        mtime: stat.map_or(IndexTime::new(0, 0), |s| time(seconds(s), nanoseconds(s))),
        dev: stat.map_or(0, |s| s.st_dev as u32),
        ino: stat.map_or(0, |s| s.st_ino as u32),
        mode: node.mode,
        uid: stat.map_or(0, |s| s.st_uid),
        gid: stat.map_or(0, |s| s.st_gid),
        file_size: stat.map_or(0, |s| s.st_size as u32),
        id: node.id,
        flags: u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff),
        flags_extended: 0,
        path: path.to_vec(),
    }
}

/// What an entry says is there.
pub(crate) fn node(entry: &IndexEntry) -> Node {
    Node { mode: entry.mode, id: entry.id }
}

/// Whether the entry is a side of a conflict.
pub(crate) fn is_conflict(entry: &IndexEntry) -> bool {
    entry.flags & STAGE != 0
}

/// Whether the entry has no file on purpose.
pub(crate) fn is_sparse(entry: &IndexEntry) -> bool {
    entry.flags_extended & SKIP_WORKTREE != 0
}

/// The entry, for a file that is absent on purpose.
pub(crate) fn sparse(mut entry: IndexEntry) -> IndexEntry {
    entry.flags |= EXTENDED;
    entry.flags_extended |= SKIP_WORKTREE;
    entry
}

/// Whether `stat` is exactly what the entry was made from.
pub(crate) fn is_of(entry: &IndexEntry, stat: &Stat) -> bool {
    let now = self::entry(&entry.path, node(entry), Some(stat));
    let times =
        |entry: &IndexEntry| [entry.ctime, entry.mtime].map(|time| (time.seconds(), time.nanoseconds()));
    let rest = |entry: &IndexEntry| (entry.ino, entry.uid, entry.file_size);
    mode_of(stat) == Some(entry.mode) && times(&now) == times(entry) && rest(&now) == rest(entry)
}

/// The mode that git would give to what `stat` describes; none for what git does not keep, and for folders.
pub(crate) fn mode_of(stat: &Stat) -> Option<u32> {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & 0o100 != 0 => Some(EXECUTABLE),
        FileType::RegularFile => Some(FILE),
        FileType::Symlink => Some(LINK),
        _ => None,
    }
}

fn seconds(stat: &Stat) -> i64 {
    stat.st_mtime
}

fn nanoseconds(stat: &Stat) -> i64 {
    stat.st_mtime_nsec as i64
}
