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
    UnmountFlags,
};

use crate::linux::config::{Instead, Mounts, Place, RawPath, Status, View};
use crate::linux::inside::layers::{Layers, Made, is_folder};
use crate::linux::inside::sys::{self, Reach};
use crate::linux::look::enumerate::DEVICES;

/// An action that failed, and the path that it failed on.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub(in crate::linux) struct Error {
    what: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

impl Error {
    /// Returns true if the path is gone, or nobody can open it now.
    pub(in crate::linux) fn is_gone(&self) -> bool {
        matches!(
            Errno::from_io_error(&self.source),
            Some(
                Errno::NOENT
                    | Errno::NOTDIR
                    | Errno::LOOP
                    | Errno::ACCESS
                    | Errno::STALE
                    | Errno::NOTCONN
                    | Errno::HOSTDOWN
                    | Errno::TIMEDOUT
                    | Errno::IO
            )
        )
    }
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
/// Puts into `status` which paths were gone, and which are no layers.
pub(in crate::linux) fn arrange(
    mounts: &Mounts,
    terminal: Option<&Path>,
    proc_writable: bool,
    status: &mut Status,
) -> Result<(), Error> {
    let root = Path::new("/");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(root, private).map_err(at("parting from the mounts outside of", root))?;

    let area = mounts.layers.as_ref().map(RawPath::as_path);
    let mut layers = Layers::open(area).map_err(at("opening", area.unwrap_or(root)))?;
    let mut held = Vec::new();
    for (index, place) in mounts.places.iter().enumerate() {
        // What shows in a place comes right after it.
        let next = mounts.places.get(index + 1);
        let leaf = next.is_none_or(|next| !next.path.as_path().starts_with(place.path.as_path()));
        match hold(place, index, &mut layers, &mut status.instead) {
            Ok((view, fd)) => held.push((place, view, fd, leaf)),
            // What is shown elsewhere must be there; what only was allowed need not.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !is_bind(place) => {
                status.skipped.push(place.path.as_path().display().to_string());
            }
            Err(error) => return Err(at("taking hold of", place.path.as_path())(error)),
        }
    }
    status.instead.in_memory = layers.are_in_memory();
    let devices = Devices::hold(terminal)?;
    // While the old one is still there unchanged: the kernel shows a new one only to those who can see one.
    let proc = fresh("proc", &[], if proc_writable { MountAttrFlags::empty() } else { READ_ONLY })
        .map_err(at("making a new", Path::new("/proc")))?;

    let whole = open(root).map_err(at("opening", root))?;
    let everywhere = if opens_root(mounts) { NO_SETUID } else { READ_ONLY | NO_SETUID };
    sys::restrict_mount(whole.as_fd(), everywhere, Reach::Whole).map_err(at("making read-only", root))?;

    put(proc, Path::new("/proc"))?;
    let mut so_far = ViewSoFar {
        fresh: BTreeSet::new(),
        bound: BTreeSet::new(),
        layers: BTreeSet::new(),
        closing: Vec::new(),
    };
    devices.arrange(&mut so_far)?;
    let covers = Covers::make()?;
    for (place, view, fd, leaf) in held {
        let path = place.path.as_path();
        match so_far.place(place, view, fd, &covers, leaf) {
            // Gone since, as a branch that was merged just now: the same as gone from the beginning.
            Err(error)
                if error.source.kind() == ErrorKind::NotFound
                    && (is_kept(place) || matches!(open(path), Err(Errno::NOENT))) =>
            {
                status.skipped.push(path.display().to_string());
            }
            placed => placed?,
        }
    }
    for (path, text) in &mounts.files {
        so_far.write(path.as_path(), text)?;
    }
    for (index, (path, text)) in mounts.rewritten.iter().enumerate() {
        rewrite(path.as_path(), text, index)?;
    }
    covers.part_with_memory()?;
    for (path, mount) in &so_far.closing {
        sys::restrict_mount(mount.as_fd(), READ_ONLY, Reach::Alone).map_err(at("closing", path))?;
    }
    Ok(())
}

fn opens_root(mounts: &Mounts) -> bool {
    mounts.places.iter().any(|place| place.view == View::Writable && place.path.as_path() == Path::new("/"))
}

fn is_bind(place: &Place) -> bool {
    place.source.is_some() && matches!(place.view, View::Writable | View::ReadOnly) && !is_kept(place)
}

/// Returns true for a place that shows again inside of another that is mounted over it.
fn is_kept(place: &Place) -> bool {
    place.source.as_ref().is_some_and(|source| source.as_path() == place.path.as_path())
}

/// Takes hold of what a place shows, before anything changes: nothing where it is covered. Returns the view too, since
/// another one may stand in for a layer, which is put into `instead`.
fn hold(
    place: &Place,
    number: usize,
    layers: &mut Layers,
    instead: &mut Instead,
) -> Result<(View, Option<OwnedFd>), Errno> {
    let there = || open(place.source.as_ref().unwrap_or(&place.path).as_path());
    Ok(match place.view {
        View::Writable | View::ReadOnly => (place.view, Some(clone_tree(&there()?)?)),
        View::EmptyFolder | View::EmptyFile | View::Fresh => {
            there()?;
            (place.view, None)
        }
        View::Own => (place.view, Some(layers.own(number)?)),
        View::Layer => {
            let mut folders = vec![there()?];
            folders.extend(place.beneath.as_ref().and_then(|beneath| open(beneath.as_path()).ok()));
            let name = || place.path.as_path().display().to_string();
            match layers.over(&folders, number, place.is_cache)? {
                Made::Layer(mount) => (View::Layer, Some(mount)),
                Made::Copy(mount) => {
                    instead.copied.push(name());
                    (View::Own, Some(mount))
                }
                Made::Cold(mount) => {
                    instead.cold.push(name());
                    (View::Own, Some(mount))
                }
                Made::Flat(mount) => {
                    instead.flat.push(name());
                    (View::ReadOnly, Some(mount))
                }
            }
        }
        View::Link => (place.view, None),
    })
}

pub(in crate::linux) fn clone_tree(there: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(there, c"", flags)
}

/// No link is followed: all were resolved when the places were chosen.
pub(in crate::linux) fn open(path: &Path) -> Result<OwnedFd, Errno> {
    open_in(CWD, path)
}

fn open_in(folder: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
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

pub(in crate::linux) fn memory(mode: &str) -> Result<OwnedFd, Errno> {
    fresh("tmpfs", &[("mode", mode), ("size", SIZE)], NO_DEVICES)
}

/// Covers a file again, or makes it read-only again, after a process outside replaced it: the kernel removed our
/// mount together with the file under it.
///
/// Without a view: hides what is there. Nothing is done where our mount still is.
pub(in crate::linux) fn renew(path: &Path, view: Option<View>) -> Result<(), Error> {
    renew_there(open(path).map_err(at("opening", path))?, path, view)
}

/// Does the same for a name in a folder, wherever that is now.
pub(in crate::linux) fn renew_in(folder: &OwnedFd, name: &OsStr, view: Option<View>) -> Result<(), Error> {
    let path = Path::new(name);
    renew_there(open_in(folder, path).map_err(at("opening", path))?, path, view)
}

fn renew_there(there: OwnedFd, path: &Path, view: Option<View>) -> Result<(), Error> {
    let found = rustix::fs::statx(&there, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .map_err(at("looking at", path))?;
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(());
    }
    let is_dir = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
    let cover = match view {
        // The one that was there may have been a file, and this one is a folder.
        None | Some(View::EmptyFile) => Some(Path::new(if is_dir { EMPTY } else { COVER })),
        Some(_) => None,
    };
    let mount = match cover {
        Some(cover) => {
            open(cover).and_then(|there| clone_tree(&there)).map_err(at("taking hold of", cover))?
        }
        None => clone_tree(&there).map_err(at("taking hold of", path))?,
    };
    sys::restrict_mount(mount.as_fd(), READ_ONLY | NO_SETUID, Reach::Whole)
        .map_err(at("restricting", path))?;
    // Onto the very one that was looked at: another may have taken its place.
    move_onto(&mount, &there).map_err(at("mounting on", path))
}

/// Shows another text in place of a file's, if that shows.
fn rewrite(path: &Path, text: &str, number: usize) -> Result<(), Error> {
    if open(path).is_err() {
        return Ok(());
    }
    let source = PathBuf::from(format!("{TEXT}-{number}"));
    std::fs::write(&source, text).map_err(at("writing", &source))?;
    let mount = open(&source).and_then(|there| clone_tree(&there)).map_err(at("taking hold of", &source))?;
    sys::restrict_mount(mount.as_fd(), READ_ONLY | NO_SETUID, Reach::Whole)
        .map_err(at("restricting", path))?;
    put(mount, path).map(drop)
}

/// Puts a mount on a path that exists.
fn put(mount: OwnedFd, path: &Path) -> Result<OwnedFd, Error> {
    let target = open(path).map_err(at("opening", path))?;
    move_onto(&mount, &target).map_err(at("mounting on", path))?;
    Ok(mount)
}

fn move_onto(mount: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", target, c"", flags)
}

/// Path of the file that covers files. It stays, for the keeper.
const COVER: &str = "/dev/.watchfire-cover";

/// Path of the folder that covers folders.
const EMPTY: &str = "/dev/.watchfire-empty";

/// Beginning of the paths of files that show in place of others.
const TEXT: &str = "/dev/.watchfire-text";

/// Path of the file system in memory until its folders are mounted at their places.
const MEMORY: &str = "/dev/.watchfire-memory";

/// Upper bound for each of the two file systems in memory: one for shared memory, one for everything else.
const SIZE: &str = "25%";

/// Covers of hidden places, one set for all: a file system for each would cost a start more than everything
/// else together.
struct Covers {
    /// A socket. It cannot be opened, not even by root, and tools that walk folders leave it out.
    file: OwnedFd,
    /// An empty folder that cannot be written.
    folder: OwnedFd,
    /// The file system with all folders in memory, so that one bound holds for all.
    memory: OwnedFd,
}

impl Covers {
    fn make() -> Result<Self, Error> {
        let (file, folder) = (Path::new(COVER), Path::new(EMPTY));
        rustix::fs::mknodat(CWD, file, FileType::Socket, Mode::empty(), 0).map_err(at("making", file))?;
        std::fs::create_dir(folder).map_err(at("making", folder))?;
        let empty =
            fresh("tmpfs", &[("mode", "0755")], NO_DEVICES | READ_ONLY).map_err(at("making", folder))?;
        put(empty, folder)?;
        let pool = Path::new(MEMORY);
        std::fs::create_dir(pool).map_err(at("making", pool))?;
        put(memory("0755").map_err(at("making", pool))?, pool)?;
        let open = |path| open(path).map_err(at("opening", path));
        Ok(Self { file: open(file)?, folder: open(folder)?, memory: open(pool)? })
    }

    /// Makes a folder in memory, as a mount.
    fn in_memory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let name = path.to_string_lossy().replace('/', "-");
        rustix::fs::mkdirat(&self.memory, &name, Mode::from_raw_mode(0o777))?;
        rustix::fs::chmodat(&self.memory, &name, Mode::from_raw_mode(0o1777), AtFlags::empty())?;
        let folder = rustix::fs::openat(&self.memory, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        clone_tree(&folder)
    }

    /// Takes the file system in memory from its place. The folders stay at theirs.
    fn part_with_memory(self) -> Result<(), Error> {
        let pool = Path::new(MEMORY);
        rustix::mount::unmount(pool, UnmountFlags::DETACH).map_err(at("taking away", pool))?;
        std::fs::remove_dir(pool).map_err(at("taking away", pool))
    }
}

/// The part of the view that is mounted already.
struct ViewSoFar {
    /// Folders in memory, in which mount points may be made.
    fresh: BTreeSet<PathBuf>,
    /// Places that show a folder from outside. No mount point may be created in them, but for layers.
    bound: BTreeSet<PathBuf>,
    /// Layers. A mount point in one changes nothing outside.
    layers: BTreeSet<PathBuf>,
    /// Places that become read-only in the end.
    closing: Vec<(PathBuf, OwnedFd)>,
}

impl ViewSoFar {
    fn place(
        &mut self,
        place: &Place,
        view: View,
        held: Option<OwnedFd>,
        covers: &Covers,
        leaf: bool,
    ) -> Result<(), Error> {
        let path = place.path.as_path();
        let mounting = at::<Errno>("preparing", path);
        match (view, held) {
            (View::Writable, _) if path == Path::new("/") => {}
            (View::Link, _) => {
                let text = place.source.as_ref().map_or(Path::new(""), RawPath::as_path);
                self.make_parent(path)?;
                std::os::unix::fs::symlink(text, path).map_err(at("linking", path))?;
            }
            (View::Own, Some(mount)) => {
                sys::restrict_mount(mount.as_fd(), NO_SETUID | NO_DEVICES, Reach::Alone)
                    .map_err(at("restricting", path))?;
                self.make_point(path, true)?;
                put(mount, path)?;
                self.fresh.insert(path.to_owned());
            }
            (View::Writable | View::ReadOnly | View::Layer, Some(mount)) => {
                let attributes = if view == View::ReadOnly { READ_ONLY | NO_SETUID } else { NO_SETUID };
                sys::restrict_mount(mount.as_fd(), attributes, Reach::Whole)
                    .map_err(at("restricting", path))?;
                self.make_point(path, is_folder(&mount))?;
                put(mount, path)?;
                self.bound.insert(path.to_owned());
                if view == View::Layer {
                    self.layers.insert(path.to_owned());
                }
            }
            // `/dev/shm` came with the new `/dev`.
            (View::Fresh, _) if self.fresh.contains(path) => {}
            (View::Fresh, _) => {
                self.make_point(path, true)?;
                put(covers.in_memory(path).map_err(mounting)?, path)?;
                self.fresh.insert(path.to_owned());
            }
            (View::EmptyFile, _) => {
                put(clone_tree(&covers.file).map_err(mounting)?, path)?;
            }
            (View::EmptyFolder, _) if leaf => {
                put(clone_tree(&covers.folder).map_err(mounting)?, path)?;
            }
            _ => {
                let mount = put(memory("0755").map_err(mounting)?, path)?;
                self.fresh.insert(path.to_owned());
                self.closing.push((path.to_owned(), mount));
            }
        }
        Ok(())
    }

    /// Writes a file, if the path leads into one of the command's own folders.
    fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        let shown = |ancestor: &&Path| self.fresh.contains(*ancestor) || self.bound.contains(*ancestor);
        match path.ancestors().skip(1).find(shown) {
            Some(base) if self.fresh.contains(base) => {
                self.make_parent(path)?;
                std::fs::write(path, text).map_err(at("writing", path))
            }
            _ => Ok(()),
        }
    }

    fn make_parent(&self, path: &Path) -> Result<(), Error> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(at("making a place for", path))
    }

    /// Makes something to mount on, if the path leads through one of our folders in memory or a layer, and ends there.
    fn make_point(&self, path: &Path, folder: bool) -> Result<(), Error> {
        if open(path).is_ok() {
            return Ok(());
        }
        let shown = |ancestor: &&Path| self.fresh.contains(*ancestor) || self.bound.contains(*ancestor);
        let own = |base: &&Path| self.fresh.contains(*base) || self.layers.contains(*base);
        let Some(base) = path.ancestors().find(shown).filter(own) else {
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
            match open(&from).and_then(|there| clone_tree(&there)) {
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
