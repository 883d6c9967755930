//! The same view, made by bubblewrap: for machines that let it make namespaces and not us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, MemfdFlags, Mode};
use watchfire_core::process::{CommandSpec, resolve_program};
use watchfire_core::{Error, Result};

use crate::linux::config::{Mounts, View};
use crate::linux::others::bwrap_layers::Stand;

/// The descriptor on which bubblewrap finds its arguments. No other process sees them there, and their number is not
/// limited.
pub(in crate::linux) const ARGS_FD: i32 = 12;

/// The program, by its full path.
pub(in crate::linux) fn find() -> Result<PathBuf> {
    resolve_program(Path::new("bwrap"))
}

/// `command` inside of bubblewrap, whose arguments are to be placed at [`ARGS_FD`].
pub(in crate::linux) fn around(bwrap: &Path, command: CommandSpec) -> CommandSpec {
    let number = ARGS_FD.to_string();
    command.wrapped_by(bwrap, [OsString::from("--args"), number.into(), "--".into()])
}

/// The arguments that make the view. `cover` is a thing that cannot be opened, to be put over files, and `stands` what shows in
/// place of layers.
pub(in crate::linux) fn arguments(
    mounts: &Mounts,
    cover: &Path,
    stands: &BTreeMap<PathBuf, Stand>,
    cwd: Option<&Path>,
) -> Result<OwnedFd> {
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |parts: &[&std::ffi::OsStr]| args.extend(parts.iter().map(|part| (*part).to_owned()));
    let flag = std::ffi::OsStr::new;
    add(&[flag("--unshare-pid"), flag("--unshare-ipc"), flag("--die-with-parent")]);
    let root = |place: &&crate::linux::config::Place| place.path.as_path() == Path::new("/");
    let whole = mounts.places.iter().find(root).map_or(View::ReadOnly, |place| place.view);
    add(&[bind(whole), flag("/"), flag("/")]);
    add(&[flag("--proc"), flag("/proc"), flag("--dev"), flag("/dev")]);
    for place in mounts.places.iter().filter(|place| !root(place)) {
        let path = place.path.as_path().as_os_str();
        let source = place.source.as_ref().map_or(path, |source| source.as_path().as_os_str());
        match place.view {
            View::Writable | View::ReadOnly => add(&[bind(place.view), source, path]),
            View::EmptyFile => add(&[flag("--ro-bind"), cover.as_os_str(), path]),
            View::EmptyFolder => add(&[flag("--tmpfs"), path]),
            View::Own | View::Layer => match stands.get(place.path.as_path()) {
                Some(Stand::Overlay(upper)) => {
                    // The uppermost comes last.
                    let beneath = place.beneath.as_ref().map(|beneath| beneath.as_path().as_os_str());
                    beneath.into_iter().chain([source]).for_each(|path| add(&[flag("--overlay-src"), path]));
                    match upper {
                        Some((upper, work)) => {
                            add(&[flag("--overlay"), upper.as_os_str(), work.as_os_str(), path]);
                        }
                        None => add(&[flag("--tmp-overlay"), path]),
                    }
                }
                Some(Stand::Folder(folder)) => add(&[bind(View::Writable), folder.as_os_str(), path]),
                Some(Stand::Flat) | None => add(&[bind(View::ReadOnly), source, path]),
            },
            View::Link => add(&[flag("--symlink"), source, path]),
            View::Fresh => add(&[flag("--perms"), flag("1777"), flag("--tmpfs"), path]),
        }
    }
    for place in mounts.places.iter().filter(|place| place.view == View::EmptyFolder) {
        add(&[flag("--remount-ro"), place.path.as_path().as_os_str()]);
    }
    if let Some(cwd) = cwd {
        add(&[flag("--chdir"), cwd.as_os_str()]);
    }
    write(&args).map_err(|error| Error::io("writing the arguments of bwrap", error))
}

fn bind(view: View) -> &'static std::ffi::OsStr {
    std::ffi::OsStr::new(if view == View::Writable { "--bind" } else { "--ro-bind" })
}

fn write(args: &[OsString]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("watchfire-bwrap", MemfdFlags::CLOEXEC)?);
    for arg in args {
        file.write_all(arg.as_bytes())?;
        file.write_all(b"\0")?;
    }
    file.rewind()?;
    Ok(file.into())
}

/// Makes the thing that covers files.
pub(in crate::linux) fn make_cover(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("cover");
    rustix::fs::mknodat(CWD, &path, FileType::Socket, Mode::empty(), 0)
        .map_err(|error| Error::io("making a cover for hidden files", error.into()).with_path(&path))?;
    Ok(path)
}
