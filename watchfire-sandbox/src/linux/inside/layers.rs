//! Folders of the command's own: empty ones, and copy-on-write layers over what is there.
//!
//! Each layer is an overlay file system whose upper and work folders are made for this start and are in no other mount:
//! the kernel takes two mounts of one upper folder and leaves their outcome undefined. It is made while the view outside
//! is still as it was, since an upper folder must be writable.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags};

use crate::linux::inside::mounts::{clone_tree, memory};

/// Makes folders below one that is the command's alone.
#[derive(Debug)]
pub(in crate::linux) struct Layers {
    folder: Option<(PathBuf, OwnedFd)>,
    /// The file system of the folder cannot hold upper folders, so they lie in memory.
    in_memory: bool,
}

impl Layers {
    /// Opens the folder, if there is one.
    pub(in crate::linux) fn open(path: Option<&Path>) -> Result<Self, Errno> {
        let folder = path.map(|path| Ok((path.to_owned(), open(path)?))).transpose()?;
        Ok(Self { folder, in_memory: false })
    }

    /// Makes an empty folder for the place with this number, as a mount.
    pub(in crate::linux) fn own(&self, number: usize) -> Result<OwnedFd, Errno> {
        if self.folder.is_none() {
            return memory("0755");
        }
        clone_tree(&self.folder(number)?)
    }

    /// Makes a layer over folders for the place with this number, as a mount. The first folder is the uppermost.
    ///
    /// Where the disk cannot hold upper folders, as on another overlay, they lie in memory.
    pub(in crate::linux) fn over(&mut self, lower: &[OwnedFd], number: usize) -> Result<OwnedFd, Errno> {
        match self.attempt(lower, number) {
            Err(_) if !self.in_memory => {
                self.move_to_memory()?;
                self.attempt(lower, number)
            }
            outcome => outcome,
        }
    }

    fn attempt(&self, lower: &[OwnedFd], number: usize) -> Result<OwnedFd, Errno> {
        let folder = self.folder(number)?;
        let part = |name: &str| {
            rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&folder, name, flags, Mode::empty())
        };
        let (upper, work) = (part("upper")?, part("work")?);
        // The merged folder looks like the upper one.
        let first = lower.first().ok_or(Errno::INVAL)?;
        let found = rustix::fs::statx(first, c"", AtFlags::EMPTY_PATH, StatxFlags::MODE)?;
        let mode = Mode::from_raw_mode(u32::from(found.stx_mode) & 0o777);
        rustix::fs::chmodat(&folder, "upper", mode, AtFlags::empty())?;
        // Attributes of users are the only ones that a user namespace can set.
        let as_user = mount(lower, &upper, &work, true);
        as_user.or_else(|_| mount(lower, &upper, &work, false))
    }

    /// Makes the folder with this number.
    fn folder(&self, number: usize) -> Result<OwnedFd, Errno> {
        let (_, folder) = self.folder.as_ref().ok_or(Errno::NOENT)?;
        let name = number.to_string();
        // Folders above it keep others out; the command may become other users in it.
        rustix::fs::mkdirat(folder, &name, Mode::from_raw_mode(0o755))?;
        rustix::fs::chmodat(folder, &name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(folder, &name, flags, Mode::empty())
    }

    fn move_to_memory(&mut self) -> Result<(), Errno> {
        self.in_memory = true;
        let (path, folder) = self.folder.as_mut().ok_or(Errno::NOENT)?;
        let mount = memory("0700")?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&mount, c"", &*folder, c"", flags)?;
        *folder = open(path)?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn mount(lower: &[OwnedFd], upper: &OwnedFd, work: &OwnedFd, as_user: bool) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: in a path, colons and commas would mean something.
    let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lower: Vec<_> = lower.iter().map(path).collect();
    for (option, value) in [("lowerdir", lower.join(":")), ("upperdir", path(upper)), ("workdir", path(work))]
    {
        rustix::mount::fsconfig_set_string(&context, option, value)?;
    }
    if as_user {
        rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    }
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Returns true if the descriptor is a folder.
pub(in crate::linux) fn is_folder(fd: &OwnedFd) -> bool {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory)
}
