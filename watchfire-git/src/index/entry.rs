//! One path in an index: the object that git has there, and the state of its file when git last looked.

use rustix::fs::{FileType, Stat};

use crate::objects::tree::{EXECUTABLE, FILE, LINK, Node};

/// The flag of an entry that has extended flags.
pub(crate) const EXTENDED: u16 = 0x4000;
/// The two bits of the flags with the side of a conflict.
const STAGE: u16 = 0x3000;
/// The extended flag of an entry that has no file on purpose, as in sparse checkouts.
const SKIP_WORKTREE: u16 = 1 << 14;

/// An entry of an index.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) node: Node,
    /// State of the file when the entry was made. All zero if git must look at the file.
    pub(crate) stamp: Stamp,
    /// The flags without the length of the path, which is written anew.
    pub(crate) flags: u16,
    pub(crate) extended: u16,
}

/// The part of a file's state that an index keeps, each number cut to 32 bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Stamp {
    /// Seconds and nanoseconds.
    pub(crate) ctime: [u32; 2],
    pub(crate) mtime: [u32; 2],
    pub(crate) dev: u32,
    pub(crate) ino: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u32,
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            ctime: [stat.st_ctime as u32, stat.st_ctime_nsec as u32],
            mtime: [stat.st_mtime as u32, stat.st_mtime_nsec as u32],
            dev: stat.st_dev as u32,
            ino: stat.st_ino as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u32,
        }
    }

    /// Returns true if both describe the same file in the same state. Groups and device numbers do not count:
    /// device numbers change when a disk is mounted again.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let parts = |stamp: &Self| (stamp.ctime, stamp.mtime, stamp.ino, stamp.uid, stamp.size);
        parts(self) == parts(other)
    }
}

impl Entry {
    /// Makes an entry from the state of a file. Without `stat`, git will look at the file.
    pub(crate) fn new(path: &[u8], node: Node, stat: Option<&Stat>) -> Self {
        let stamp = stat.map_or_else(Stamp::default, Stamp::of);
        Self { path: path.to_vec(), node, stamp, flags: 0, extended: 0 }
    }

    /// Returns the side of a conflict, or 0 outside of conflicts.
    pub(crate) fn stage(&self) -> u16 {
        (self.flags & STAGE) >> 12
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.stage() != 0
    }

    /// Returns true if the entry has no file on purpose.
    pub(crate) fn is_sparse(&self) -> bool {
        self.extended & SKIP_WORKTREE != 0
    }

    /// Marks the entry as one whose file is absent on purpose.
    pub(crate) fn sparse(mut self) -> Self {
        self.extended |= SKIP_WORKTREE;
        self
    }

    /// Returns true if `stat` is the file that the entry was made from, even if the file was renamed since.
    pub(crate) fn is_of_but_for_renames(&self, stat: &Stat) -> bool {
        let mut now = Stamp::of(stat);
        // A rename changes `ctime` only.
        now.ctime = self.stamp.ctime;
        mode_of(stat) == Some(self.node.mode) && self.stamp.is_same(&now)
    }

    /// Returns true if `stat` matches the file this entry was made from, including its mode.
    pub(crate) fn is_of(&self, stat: &Stat) -> bool {
        mode_of(stat) == Some(self.node.mode) && self.stamp.is_same(&Stamp::of(stat))
    }
}

/// Returns the mode that git would give to a file. Returns `None` for folders and for files that git does not
/// keep.
pub(crate) fn mode_of(stat: &Stat) -> Option<u32> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & 0o100 != 0 => Some(EXECUTABLE),
        FileType::RegularFile => Some(FILE),
        FileType::Symlink => Some(LINK),
        _ => None,
    }
}
