//! Keeps covers on what they cover, and covers what appears.
//!
//! When somebody outside replaces a file by a rename, as editors do, the kernel takes our mount on the old one away, and
//! the new one shows; what comes up outside at a hidden place, or under a hidden name in the project, shows too. The
//! keeper, the first process inside, watches the folders where that can happen and covers it. There is a moment in
//! between.
//!
//! The kernel has few watchers for a user, and editors and other programs take some of them. Where none is left, the
//! keeper looks at its folders twice a second, and the moment in between is that long.
//!
//! What is covered already is watched before anything else runs inside. All other folders are gone through, a few at a
//! time, while the program runs already.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::linux::config::{Late, Mounts, Place, RawPath, Status, View};
use crate::linux::inside::mounts;
use crate::linux::look::names::SKIPPED;

/// Upper bound for folders watched for names. A person's programs share the kernel's watches.
const FOLDERS: usize = 10_000;

/// Upper bound for entries handled in one round.
const AT_ONCE: usize = 16;

/// Pause between two looks where the kernel has no watcher left.
const LOOK: Duration = Duration::from_millis(500);

/// Age from which the time of a folder's last change is exact: another change would have another time.
const EXACT: Duration = Duration::from_millis(100);

/// Watches for what must be covered.
#[derive(Debug)]
pub(in crate::linux) struct Keeper {
    /// None if the kernel has none left.
    watcher: Option<OwnedFd>,
    looked: Instant,
    /// By their watch.
    folders: BTreeMap<i32, Folder>,
    /// The numbers that stand in for watches, where there is no watcher.
    numbers: BTreeMap<PathBuf, i32>,
    pending: VecDeque<Pending>,
    late: Vec<Late>,
    /// Folders in which names are none of our business, since they are hidden or the program's own.
    left_out: Vec<PathBuf>,
    granted: Vec<PathBuf>,
    /// The descriptor on which the end of the sandbox is reported.
    told: Option<File>,
    /// Why something could not be watched.
    blind: Option<Errno>,
}

/// A folder that is watched.
#[derive(Debug, Default)]
struct Folder {
    path: PathBuf,
    /// The kept paths, by the name in this folder that leads to them.
    kept: BTreeMap<Vec<u8>, Vec<Kept>>,
    /// The names that are covered in it, by their number.
    late: Option<usize>,
    /// Time of its last change, as far as it is exact. Used without a watcher.
    changed: Option<SystemTime>,
}

/// Something that must not show as it is.
#[derive(Clone, Debug)]
struct Kept {
    path: PathBuf,
    fate: Fate,
}

/// The look that a kept path must have.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It looks like that.
    Looks(View),
    /// Hidden, as a file or as a folder.
    Hidden,
    /// It must not be made: a file is removed, a folder at least not written.
    Refused,
}

/// A path that has not been looked at yet.
#[derive(Debug)]
enum Pending {
    Missing(Kept),
    Folder(PathBuf, usize),
}

impl Keeper {
    /// Starts to watch, before anything else runs inside. `None` if nothing has to be watched.
    ///
    /// # Errors
    /// What the kernel refuses. It is no error that it has no more watchers for this user.
    pub(in crate::linux) fn new(view: &Mounts, told: Option<&File>) -> rustix::io::Result<Option<Self>> {
        let covers =
            |place: &Place| matches!(place.view, View::EmptyFile | View::ReadOnly) && place.source.is_none();
        let pending = !(view.missing.is_empty() && view.refused.is_empty() && view.late.is_empty());
        if !pending && !view.places.iter().any(|place| covers(place) && !place.path.as_path().is_dir()) {
            return Ok(None);
        }
        let watcher = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(watcher) => Some(watcher),
            Err(Errno::MFILE) => None,
            Err(error) => return Err(error),
        };
        let shut = |view| !matches!(view, View::ReadOnly);
        let left_out = view.places.iter().filter(|place| shut(place.view));
        let kept = |path: &RawPath, fate| Kept { path: path.0.clone(), fate };
        let missing = view.missing.iter().map(|path| kept(path, Fate::Hidden));
        let missing = missing.chain(view.refused.iter().map(|path| kept(path, Fate::Refused)));
        let mut keeper = Self {
            watcher,
            looked: Instant::now(),
            folders: BTreeMap::new(),
            numbers: BTreeMap::new(),
            pending: missing.map(Pending::Missing).collect(),
            late: view.late.clone(),
            left_out: left_out.map(|place| place.path.0.clone()).collect(),
            granted: view.granted.iter().map(|path| path.0.clone()).collect(),
            // Without it, only the exit code says so.
            told: told.and_then(|told| told.try_clone().ok()),
            blind: None,
        };
        let roots = view.late.iter().enumerate();
        keeper.pending.extend(roots.map(|(number, late)| Pending::Folder(late.root.0.clone(), number)));
        for place in view.places.iter().filter(|place| place.source.is_none()) {
            let path = place.path.as_path();
            let is_file = match place.view {
                View::EmptyFile => true,
                View::ReadOnly => !path.is_dir(),
                _ => false,
            };
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if is_file && path.exists() {
                let kept = Kept { path: path.to_owned(), fate: Fate::Looks(place.view) };
                keeper.watch(folder)?.kept.entry(name.as_bytes().to_vec()).or_default().push(kept);
            }
        }
        Ok(Some(keeper))
    }

    /// Returns true, after reporting it, if something that must stay hidden cannot be watched any more: the program may
    /// have used up the watches of this user.
    pub(in crate::linux) fn must_end(&mut self) -> bool {
        let Some(why) = self.blind else { return false };
        let why = format!(
            "what is hidden could not be watched any more, which a program inside can bring about (see \
             fs.inotify.max_user_watches): {why}"
        );
        if let Some(told) = &mut self.told {
            let status = Status { ended: Some(why), ..Status::default() };
            let mut line = serde_json::to_vec(&status).unwrap_or_default();
            line.push(b'\n');
            // If nobody listens any more, there is nobody to tell.
            let _ = told.write_all(&line);
        }
        true
    }

    /// Returns the descriptor that is readable when something appeared, or `None` if only polling can find out.
    pub(in crate::linux) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.as_ref().map(AsFd::as_fd)
    }

    /// The pause after which it wants to look again.
    pub(in crate::linux) fn pause(&self) -> Option<Duration> {
        self.watcher.is_none().then_some(LOOK)
    }

    /// Covers what appeared, and goes through a few more folders. Whether there are more.
    pub(in crate::linux) fn look(&mut self) -> bool {
        self.look_for_changes();
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = self.watcher.as_ref().map(|watcher| inotify::Reader::new(watcher, &mut buffer));
        // Until there is nothing more to be read.
        while let Some(Ok(event)) = reader.as_mut().map(inotify::Reader::next) {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            events.push((event.wd(), event.events(), name));
        }
        for (watch, what, name) in events {
            match name {
                Some(name) => self.appeared(watch, &name, what.contains(ReadFlags::ISDIR)),
                None if what.contains(ReadFlags::QUEUE_OVERFLOW) => self.look_at_all(),
                None => {}
            }
        }
        for _ in 0..AT_ONCE {
            match self.pending.pop_front() {
                Some(Pending::Missing(kept)) => self.keep(kept),
                Some(Pending::Folder(path, late)) => self.enter(path, late),
                None => break,
            }
        }
        !self.pending.is_empty()
    }

    fn watch(&mut self, folder: &Path) -> rustix::io::Result<&mut Folder> {
        let Some(watcher) = &self.watcher else { return self.remember(folder) };
        let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let watch = match inotify::add_watch(watcher, folder, watched) {
            // Gone again, or never to be read by the program either.
            Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP)) => return Err(error),
            Err(error) => {
                self.blind = Some(error);
                return Err(error);
            }
            Ok(watch) => watch,
        };
        let new = || Folder { path: folder.to_owned(), ..Folder::default() };
        Ok(self.folders.entry(watch).or_insert_with(new))
    }

    /// Stands in for a watch of the kernel.
    fn remember(&mut self, folder: &Path) -> rustix::io::Result<&mut Folder> {
        let gone = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT);
        if !folder.symlink_metadata().map_err(gone)?.is_dir() {
            return Err(Errno::NOTDIR);
        }
        let next = i32::try_from(self.numbers.len()).map_err(|_| Errno::NOSPC)?;
        let watch = *self.numbers.entry(folder.to_owned()).or_insert(next);
        let new = || Folder { path: folder.to_owned(), ..Folder::default() };
        Ok(self.folders.entry(watch).or_insert_with(new))
    }

    /// Polls the folders for changes, where the kernel has no watcher left.
    fn look_for_changes(&mut self) {
        if self.watcher.is_some() || self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let now = SystemTime::now();
        let (mut kept, mut entered) = (Vec::new(), Vec::new());
        for folder in self.folders.values_mut() {
            // The change time, not the modification time: who owns the folder can set the latter at will.
            let changed = folder.path.symlink_metadata().ok().and_then(|found| change_time(&found));
            let exact = changed.filter(|at| now.duration_since(*at).is_ok_and(|age| age > EXACT));
            if exact.is_none() || std::mem::replace(&mut folder.changed, exact) != exact {
                kept.extend(folder.kept.values().flatten().cloned());
                entered.extend(folder.late.map(|late| Pending::Folder(folder.path.clone(), late)));
            }
        }
        kept.into_iter().for_each(|kept| self.keep(kept));
        self.pending.extend(entered);
    }

    fn appeared(&mut self, watch: i32, name: &[u8], is_folder: bool) {
        let Some(folder) = self.folders.get(&watch) else { return };
        let (path, late) = (folder.path.join(OsStr::from_bytes(name)), folder.late);
        // Some may lead further now.
        for kept in folder.kept.get(name).cloned().unwrap_or_default() {
            self.keep(kept);
        }
        if let Some(late) = late {
            self.judge(path, is_folder, late);
        }
    }

    /// Covers the file at a path, or waits for it if it does not exist yet.
    fn keep(&mut self, kept: Kept) {
        if let Ok(found) = kept.path.symlink_metadata() {
            // Gone again: the next one to appear is an event of its own.
            let _ = match kept.fate {
                Fate::Looks(view) => mounts::renew(&kept.path, Some(view)).is_ok(),
                Fate::Hidden => mounts::renew(&kept.path, None).is_ok(),
                Fate::Refused if found.is_dir() => mounts::renew(&kept.path, Some(View::ReadOnly)).is_ok(),
                Fate::Refused => std::fs::remove_file(&kept.path).is_ok(),
            };
        }
        let is_there = |folder: &&Path| folder.symlink_metadata().is_ok_and(|found| found.is_dir());
        let Some(folder) = kept.path.ancestors().skip(1).find(is_there).map(Path::to_owned) else { return };
        let Some(name) = kept.path.strip_prefix(&folder).ok().and_then(|below| below.iter().next()) else {
            return;
        };
        let name = name.as_bytes().to_vec();
        let Ok(folder) = self.watch(&folder) else { return };
        let known = folder.kept.entry(name).or_default();
        if known.iter().all(|known| known.path != kept.path) {
            known.push(kept);
        }
    }

    /// Watches a folder, and queues its entries.
    fn enter(&mut self, path: PathBuf, late: usize) {
        if self.folders.len() >= FOLDERS {
            return;
        }
        let Ok(folder) = self.watch(&path) else { return };
        folder.late = Some(late);
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let kind = entry.file_type();
            if let Some(kind) = kind.ok().filter(|kind| !kind.is_symlink()) {
                self.judge(entry.path(), kind.is_dir(), late);
            }
        }
    }

    /// Covers what has a name that is hidden; any other folder is to be entered.
    fn judge(&mut self, path: PathBuf, is_folder: bool, late: usize) {
        let Some((name, pattern)) = path.file_name().zip(self.late.get(late)) else { return };
        if pattern.names.matches_name(name) {
            if !self.granted.contains(&path) {
                self.keep(Kept { path, fate: Fate::Hidden });
            }
        } else if is_folder && SKIPPED.iter().all(|skip| name != *skip) && !self.left_out.contains(&path) {
            self.pending.push_back(Pending::Folder(path, late));
        }
    }

    /// Queues every folder again: the kernel's queue of events has overflowed.
    fn look_at_all(&mut self) {
        let all = self.folders.values().flat_map(|folder| folder.kept.values().flatten());
        for kept in all.cloned().collect::<Vec<_>>() {
            self.keep(kept);
        }
        let entered = self.folders.values().filter_map(|folder| Some((folder.path.clone(), folder.late?)));
        let entered: Vec<_> = entered.map(|(path, late)| Pending::Folder(path, late)).collect();
        self.pending.extend(entered);
    }
}
fn change_time(of: &Metadata) -> Option<SystemTime> {
    let (seconds, nanos) = (u64::try_from(of.ctime()).ok()?, u32::try_from(of.ctime_nsec()).ok()?);
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}
