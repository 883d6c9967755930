//! Folders of the command's own: empty ones, and copy-on-write layers over what is there.
//!
//! Each layer is an overlay file system whose upper and work folders are made for this start and are in no other mount:
//! the kernel takes two mounts of one upper folder and leaves their outcome undefined. It is made while the view outside
//! is still as it was, since an upper folder must be writable.
//!
//! Where the disk cannot hold upper folders, as on another overlay, they lie in memory. Where no layer can be made at all, a
//! copy takes its place if that is cheap; else an empty folder, for what tools can get again, or the folder itself, to be read
//! only.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags};

use crate::linux::copies::Copier;
use crate::linux::inside::mounts::{clone_tree, memory};

/// Makes folders below one that is the command's alone.
#[derive(Debug)]
pub(in crate::linux) struct Layers {
    disk: Option<(PathBuf, OwnedFd)>,
    /// A file system in memory, made where the disk cannot hold upper folders.
    memory: Option<OwnedFd>,
    /// The disk held no upper folder and memory did, so that the disk is not tried again.
    in_memory: bool,
    copier: Copier,
}

/// Mount that shows where a layer should be.
#[derive(Debug)]
pub(in crate::linux) enum Made {
    /// A layer.
    Layer(OwnedFd),
    /// A copy of the folder, which the command can write.
    Copy(OwnedFd),
    /// An empty folder, which it can write.
    Cold(OwnedFd),
    /// The folder, to be read only.
    Flat(OwnedFd),
}

impl Layers {
    /// Opens the folder, if there is one.
    pub(in crate::linux) fn open(path: Option<&Path>) -> Result<Self, Errno> {
        let disk = path.map(|path| Ok((path.to_owned(), open(path)?))).transpose()?;
        Ok(Self { disk, memory: None, in_memory: false, copier: Copier::new() })
    }

    /// Returns true if the layers lie in memory, since the disk cannot hold them.
    pub(in crate::linux) fn are_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Makes an empty folder for the place with this number, as a mount.
    pub(in crate::linux) fn own(&self, number: usize) -> Result<OwnedFd, Errno> {
        match &self.disk {
            Some((_, disk)) => clone_tree(&folder(disk, &number.to_string())?),
            None => memory("0755"),
        }
    }

    /// Makes a layer over folders for the place with this number, or what comes next best, as a mount. The first folder is
    /// the uppermost. A cache may be empty.
    pub(in crate::linux) fn over(
        &mut self,
        lower: &[OwnedFd],
        number: usize,
        is_cache: bool,
    ) -> Result<Made, Errno> {
        let there = lower.first().ok_or(Errno::INVAL)?;
        if let Ok(mount) = self.layer(lower, number) {
            return Ok(Made::Layer(mount));
        }
        // Kept apart from layers, since what is in it is not what the command has added.
        if let Ok(mount) = self.beside(there, &format!("{number}-copy"), true) {
            return Ok(Made::Copy(mount));
        }
        match self.beside(there, &format!("{number}-cold"), false).ok().filter(|_| is_cache) {
            Some(mount) => Ok(Made::Cold(mount)),
            None => clone_tree(there).map(Made::Flat),
        }
    }

    fn layer(&mut self, lower: &[OwnedFd], number: usize) -> Result<OwnedFd, Errno> {
        let (path, disk) = self.disk.as_ref().ok_or(Errno::NOENT)?;
        if !self.in_memory
            && let Ok(mount) = attempt(disk, lower, number)
        {
            return Ok(mount);
        }
        if self.memory.is_none() {
            let point = folder(disk, MEMORY)?;
            let mount = memory("0700")?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            rustix::mount::move_mount(&mount, c"", &point, c"", flags)?;
            self.memory = Some(open(&path.join(MEMORY))?);
        }
        let mount = attempt(self.memory.as_ref().ok_or(Errno::NOENT)?, lower, number)?;
        self.in_memory = true;
        Ok(mount)
    }

    /// Makes a folder with the mode of another one, and its content if that is asked for, as a mount.
    fn beside(&mut self, there: &OwnedFd, name: &str, with_content: bool) -> Result<OwnedFd, Errno> {
        let (path, disk) = self.disk.as_ref().ok_or(Errno::NOENT)?;
        let made = folder(disk, name)?;
        if with_content && let Err(error) = self.copier.copy(there, &made) {
            // What cannot be removed now goes at the end.
            _ = watchfire_core::files::remove_tree(&path.join(name));
            return Err(error);
        }
        rustix::fs::chmodat(disk, name, mode_of(there)?, AtFlags::empty())?;
        clone_tree(&made)
    }
}

/// Name of the folder on which a file system in memory is mounted.
const MEMORY: &str = "memory";

/// Makes a layer whose upper folder lies in `base`.
fn attempt(base: &OwnedFd, lower: &[OwnedFd], number: usize) -> Result<OwnedFd, Errno> {
    let folder = folder(base, &number.to_string())?;
    let part = |name: &str| {
        rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&folder, name, flags, Mode::empty())
    };
    let (upper, work) = (part("upper")?, part("work")?);
    // The merged folder looks like the upper one.
    let mode = mode_of(lower.first().ok_or(Errno::INVAL)?)?;
    rustix::fs::chmodat(&folder, "upper", mode, AtFlags::empty())?;
    // Attributes of users are the only ones that a user namespace can set.
    for (as_user, mark) in [(true, c"user.overlay.watchfire"), (false, c"trusted.overlay.watchfire")] {
        // Without them the kernel makes a layer in which a folder cannot be replaced by another one.
        if has_attributes(&work, mark)
            && let Ok(mount) = mount(lower, &upper, &work, as_user)
        {
            return Ok(mount);
        }
    }
    Err(Errno::OPNOTSUPP)
}

/// Returns true if marks of an overlay can be set on a folder.
fn has_attributes(folder: &OwnedFd, mark: &CStr) -> bool {
    let path = path_of(folder);
    let set = rustix::fs::setxattr(&path, mark, b"y", XattrFlags::empty());
    set.and_then(|()| rustix::fs::removexattr(&path, mark)).is_ok()
}

fn mode_of(folder: &OwnedFd) -> Result<Mode, Errno> {
    let found = rustix::fs::statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::MODE)?;
    Ok(Mode::from_raw_mode(u32::from(found.stx_mode) & 0o777))
}

/// Makes a folder with this name, if it is not there yet.
fn folder(base: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    // Folders above it keep others out; the command may become other users in it.
    match rustix::fs::mkdirat(base, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    rustix::fs::chmodat(base, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(base, name, flags, Mode::empty())
}

/// Returns a path that leads to what a descriptor leads to.
fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn mount(lower: &[OwnedFd], upper: &OwnedFd, work: &OwnedFd, as_user: bool) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: in a path, colons and commas would mean something.
    let lower: Vec<_> = lower.iter().map(path_of).collect();
    let folders = [("lowerdir", lower.join(":")), ("upperdir", path_of(upper)), ("workdir", path_of(work))];
    for (option, value) in folders {
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
