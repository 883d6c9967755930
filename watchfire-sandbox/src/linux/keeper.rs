//! Keeps covers on what they cover.
//!
//! When somebody outside replaces a file by a rename, as editors do, the kernel takes our mount on the old one away, and
//! the new one shows. The keeper, the first process inside, watches the folders of such files and puts the mount back.
//! There is a moment in between.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::config::{Mounts, View};
use super::mounts;

/// Watches files that are covered or read-only.
#[derive(Debug)]
pub(super) struct Keeper {
    watcher: OwnedFd,
    /// By the watch of their folder, then by name.
    files: BTreeMap<i32, BTreeMap<Vec<u8>, (PathBuf, View)>>,
}

impl Keeper {
    /// Starts to watch, before anything else runs inside. `Err`: the kernel has no more watchers.
    pub(super) fn new(view: &Mounts) -> rustix::io::Result<Self> {
        let watcher = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut files: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        for place in view.places.iter().filter(|place| place.source.is_none()) {
            let path = place.path.as_path();
            let is_file = match place.view {
                View::EmptyFile => true,
                View::ReadOnly => !path.is_dir(),
                _ => false,
            };
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if !is_file || !path.exists() {
                continue;
            }
            let watch = inotify::add_watch(&watcher, folder, watched)?;
            let file = (path.to_owned(), place.view);
            files.entry(watch).or_default().insert(name.as_bytes().to_vec(), file);
        }
        Ok(Self { watcher, files })
    }

    /// Readable when something was replaced.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.watcher.as_fd()
    }

    /// Puts back what was taken away.
    pub(super) fn look(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watcher, &mut buffer);
        // Until there is nothing more to be read.
        while let Ok(event) = events.next() {
            let named = event.file_name().and_then(|name| self.files.get(&event.wd())?.get(name.to_bytes()));
            if let Some((path, view)) = named {
                // Gone again: the next one to appear is an event of its own.
                let _ = mounts::renew(path, *view);
            }
        }
    }
}
