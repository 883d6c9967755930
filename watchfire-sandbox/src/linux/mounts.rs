//! The new view of the file system, made in a mount namespace that is ours alone.
//!
//! Everything goes through descriptors: what shall stay as it is outside is taken hold of first, then all is made
//! read-only, then the places are put in, a folder before what is in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
};

use super::config::{Mounts, Place, View};
use super::enumerate::DEVICES;
use super::sys::{self, Reach};

/// What could not be done, and where.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub(super) struct Error {
    what: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

fn at<E: Into<std::io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
    move |error| Error { what, path: path.to_owned(), source: error.into() }
}

const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
const NO_SETUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;
const NO_DEVICES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV;

/// Arranges the view. `terminal` is the one that the program will have, to be found under `/dev/console`.
///
/// `proc_writable` where something else keeps root from writing the machine's settings there.
///
/// Gives the paths that were gone.
pub(super) fn arrange(
    mounts: &Mounts,
    terminal: Option<&Path>,
    proc_writable: bool,
) -> Result<Vec<String>, Error> {
    let root = Path::new("/");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(root, private).map_err(at("parting from the mounts outside of", root))?;

    let mut gone = Vec::new();
    let mut held = Vec::new();
    for (index, place) in mounts.places.iter().enumerate() {
        // What shows in a place comes right after it.
        let next = mounts.places.get(index + 1);
        let leaf = next.is_none_or(|next| !next.path.as_path().starts_with(place.path.as_path()));
        match hold(place) {
            Ok(fd) => held.push((place, fd, leaf)),
            // What is shown elsewhere must be there; what only was allowed need not.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !is_bind(place) => {
                gone.push(place.path.as_path().display().to_string())
            }
            Err(error) => return Err(at("taking hold of", place.path.as_path())(error)),
        }
    }
    let devices = Devices::hold(terminal)?;
    // While the old one is still there unchanged: the kernel shows a new one only to those who can see one.
    let proc = fresh("proc", &[], if proc_writable { MountAttrFlags::empty() } else { READ_ONLY })
        .map_err(at("making a new", Path::new("/proc")))?;

    let whole = open(root).map_err(at("opening", root))?;
    let everywhere = if opens_root(mounts) { NO_SETUID } else { READ_ONLY | NO_SETUID };
    sys::restrict_mount(whole.as_fd(), everywhere, Reach::Whole).map_err(at("making read-only", root))?;

    put(proc, Path::new("/proc"))?;
    let mut view = ViewSoFar { fresh: BTreeSet::new(), bound: BTreeSet::new(), closing: Vec::new() };
    devices.arrange(&mut view)?;
    let covers = Covers::make()?;
    for (place, fd, leaf) in held {
        let path = place.path.as_path();
        match view.place(place, fd, &covers, leaf) {
            // Gone since, as a branch that was merged just now: the same as gone from the beginning.
            Err(error)
                if error.source.kind() == ErrorKind::NotFound
                    && (is_kept(place) || matches!(open(path), Err(Errno::NOENT))) =>
            {
                gone.push(path.display().to_string());
            }
            placed => placed?,
        }
    }
    for (path, mount) in &view.closing {
        sys::restrict_mount(mount.as_fd(), READ_ONLY, Reach::Alone).map_err(at("closing", path))?;
    }
    Ok(gone)
}

fn opens_root(mounts: &Mounts) -> bool {
    mounts.places.iter().any(|place| place.view == View::Writable && place.path.as_path() == Path::new("/"))
}

fn is_bind(place: &Place) -> bool {
    place.source.is_some() && matches!(place.view, View::Writable | View::ReadOnly) && !is_kept(place)
}

/// What shows at its own place again, inside of something that shows in front of it.
fn is_kept(place: &Place) -> bool {
    place.source.as_ref().is_some_and(|source| source.as_path() == place.path.as_path())
}

/// A copy of what is there now, where it shall show; nothing where it shall be covered.
fn hold(place: &Place) -> Result<Option<OwnedFd>, Errno> {
    let there = open(place.source.as_ref().unwrap_or(&place.path).as_path())?;
    match place.view {
        View::Writable | View::ReadOnly => copy(&there).map(Some),
        View::EmptyFolder | View::EmptyFile | View::Fresh => Ok(None),
    }
}

fn copy(there: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(there, c"", flags)
}

/// No link is followed: all were resolved when the places were chosen.
fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn fresh(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    // What tools print for it.
    rustix::mount::fsconfig_set_string(&context, "source", kind)?;
    for (name, value) in options {
        rustix::mount::fsconfig_set_string(&context, *name, *value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    let attributes = attributes | NO_SETUID;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn memory(mode: &str) -> Result<OwnedFd, Errno> {
    fresh("tmpfs", &[("mode", mode)], NO_DEVICES)
}

/// Covers a file again, or makes it read-only again, after somebody outside replaced it: the kernel took the mount away
/// with what it covered.
///
/// Without a view: hides what is there. Nothing is done where our mount still is.
pub(super) fn renew(path: &Path, view: Option<View>) -> Result<(), Error> {
    let there = open(path).map_err(at("opening", path))?;
    let found = rustix::fs::statx(&there, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .map_err(at("looking at", path))?;
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(());
    }
    let cover = match view {
        Some(View::EmptyFile) => Path::new(COVER),
        Some(_) => path,
        None if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory => Path::new(EMPTY),
        None => Path::new(COVER),
    };
    let mount = open(cover).and_then(|there| copy(&there)).map_err(at("taking hold of", cover))?;
    sys::restrict_mount(mount.as_fd(), READ_ONLY | NO_SETUID, Reach::Whole)
        .map_err(at("restricting", path))?;
    put(mount, path).map(drop)
}

/// Puts a mount on a path that exists.
fn put(mount: OwnedFd, path: &Path) -> Result<OwnedFd, Error> {
    let target = open(path).map_err(at("opening", path))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&mount, c"", &target, c"", flags).map_err(at("mounting on", path))?;
    Ok(mount)
}

/// Where the thing is that covers files. It stays, for the keeper.
const COVER: &str = "/dev/.watchfire-cover";

/// Where the folder is that covers folders.
const EMPTY: &str = "/dev/.watchfire-empty";

/// What is put over hidden places: one for all, because a file system of its own for each costs a start more than all
/// else.
struct Covers {
    /// A socket, which nobody can open, root neither, and which tools that walk folders leave out.
    file: OwnedFd,
    /// An empty folder that cannot be written.
    folder: OwnedFd,
}

impl Covers {
    fn make() -> Result<Self, Error> {
        let (file, folder) = (Path::new(COVER), Path::new(EMPTY));
        rustix::fs::mknodat(CWD, file, FileType::Socket, Mode::empty(), 0).map_err(at("making", file))?;
        std::fs::create_dir(folder).map_err(at("making", folder))?;
        let empty =
            fresh("tmpfs", &[("mode", "0755")], NO_DEVICES | READ_ONLY).map_err(at("making", folder))?;
        put(empty, folder)?;
        let open = |path| open(path).map_err(at("opening", path));
        Ok(Self { file: open(file)?, folder: open(folder)? })
    }
}

/// What was arranged so far.
struct ViewSoFar {
    /// Folders in memory, in which mount points may be made.
    fresh: BTreeSet<PathBuf>,
    /// Places that show what is outside, in which none may be made.
    bound: BTreeSet<PathBuf>,
    /// Those that shall not be writable in the end.
    closing: Vec<(PathBuf, OwnedFd)>,
}

impl ViewSoFar {
    fn place(
        &mut self,
        place: &Place,
        held: Option<OwnedFd>,
        covers: &Covers,
        leaf: bool,
    ) -> Result<(), Error> {
        let path = place.path.as_path();
        let mounting = at::<Errno>("preparing", path);
        match (place.view, held) {
            (View::Writable, _) if path == Path::new("/") => {}
            (View::Writable | View::ReadOnly, Some(mount)) => {
                let attributes = if place.view == View::ReadOnly { READ_ONLY | NO_SETUID } else { NO_SETUID };
                sys::restrict_mount(mount.as_fd(), attributes, Reach::Whole)
                    .map_err(at("restricting", path))?;
                self.make_point(path, is_folder(&mount))?;
                put(mount, path)?;
                self.bound.insert(path.to_owned());
            }
            // `/dev/shm` came with the new `/dev`.
            (View::Fresh, _) if self.fresh.contains(path) => {}
            (View::EmptyFile, _) => {
                put(copy(&covers.file).map_err(mounting)?, path)?;
            }
            (View::EmptyFolder, _) if leaf => {
                put(copy(&covers.folder).map_err(mounting)?, path)?;
            }
            (view, _) => {
                let mode = if view == View::Fresh { "1777" } else { "0755" };
                let mount = put(memory(mode).map_err(mounting)?, path)?;
                self.fresh.insert(path.to_owned());
                if view != View::Fresh {
                    self.closing.push((path.to_owned(), mount));
                }
            }
        }
        Ok(())
    }

    /// Makes something to mount on, if the path leads through one of our folders in memory and ends there.
    fn make_point(&self, path: &Path, folder: bool) -> Result<(), Error> {
        if open(path).is_ok() {
            return Ok(());
        }
        let shown = |ancestor: &&Path| self.fresh.contains(*ancestor) || self.bound.contains(*ancestor);
        let Some(base) = path.ancestors().find(shown).filter(|base| self.fresh.contains(*base)) else {
            return Ok(());
        };
        let making = |error: std::io::Error| at("making a place for", path)(error);
        let parent = path.parent().unwrap_or(base);
        std::fs::create_dir_all(if folder { path } else { parent }).map_err(making)?;
        if !folder {
            std::fs::File::create(path).map_err(making)?;
        }
        Ok(())
    }
}

fn is_folder(fd: &OwnedFd) -> bool {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory)
}

/// The devices that every program may use, taken hold of before `/dev` goes.
struct Devices {
    files: Vec<(PathBuf, OwnedFd)>,
}

impl Devices {
    fn hold(terminal: Option<&Path>) -> Result<Self, Error> {
        let mut files = Vec::new();
        let named = DEVICES.iter().filter(|name| !matches!(**name, "ptmx" | "console"));
        let named = named.map(|name| (Path::new("/dev").join(name), Path::new("/dev").join(name)));
        let terminal = terminal.map(|path| (path.to_owned(), PathBuf::from("/dev/console")));
        for (from, to) in named.chain(terminal) {
            match open(&from).and_then(|there| copy(&there)) {
                Ok(fd) => files.push((to, fd)),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(at("taking hold of", &from)(error)),
            }
        }
        Ok(Self { files })
    }

    fn arrange(self, view: &mut ViewSoFar) -> Result<(), Error> {
        let dev = Path::new("/dev");
        let making = || at::<Errno>("making a new", dev);
        let mount =
            put(fresh("tmpfs", &[("mode", "0755")], MountAttrFlags::empty()).map_err(making())?, dev)?;
        for (path, device) in self.files {
            std::fs::File::create(&path).map_err(at("making a place for", &path))?;
            // They can be used all the same, but not their modes and owners be changed, which are those outside.
            sys::restrict_mount(device.as_fd(), READ_ONLY | NO_SETUID, Reach::Alone)
                .map_err(at("restricting", &path))?;
            put(device, &path)?;
        }
        for name in ["pts", "shm"] {
            std::fs::create_dir(dev.join(name)).map_err(at("making", &dev.join(name)))?;
        }
        let terminals = fresh("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], MountAttrFlags::empty());
        put(terminals.map_err(making())?, &dev.join("pts"))?;
        put(memory("1777").map_err(making())?, &dev.join("shm"))?;
        for (link, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            let link = dev.join(OsStr::new(link));
            std::os::unix::fs::symlink(to, &link).map_err(at("linking", &link))?;
        }
        view.fresh.insert(dev.to_owned());
        view.fresh.insert(dev.join("shm"));
        view.closing.push((dev.to_owned(), mount));
        Ok(())
    }
}
