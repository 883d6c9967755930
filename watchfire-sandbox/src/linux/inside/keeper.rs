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
//!
//! The program can make as many events, orphans and folders as it likes. So each round takes a bounded number of events, what
//! waits is in the queue once, and what is gone is forgotten. Where something cannot be covered or watched all the same,
//! everything ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
use rustix::process::{Resource, getrlimit};

use crate::linux::config::{Late, Mounts, Place, RawPath, Status, View};
use crate::linux::inside::mounts;
use crate::linux::look::names::SKIPPED;

/// Upper bound for folders watched for names. A person's programs share the kernel's watches.
const FOLDERS: usize = 10_000;

/// Upper bound for entries handled in one round.
const AT_ONCE: usize = 16;

/// Upper bound for events handled in one round, but for those that were read together with the last one. A program that
/// makes files faster than they are read would keep the keeper reading.
const EVENTS: usize = 256;

/// Upper bound for folders held open.
const HELD: usize = 256;

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
    /// Number of folders watched for names.
    entered: usize,
    pending: VecDeque<Pending>,
    /// The folders in `pending`.
    queued: BTreeSet<PathBuf>,
    late: Vec<Late>,
    /// Folders in which names are none of our business, since they are hidden or the program's own.
    left_out: Vec<PathBuf>,
    granted: Vec<PathBuf>,
    /// The descriptor on which the end of the sandbox is reported.
    told: Option<File>,
    /// Why something could not be watched or covered.
    blind: Option<String>,
}

/// A folder that is watched.
#[derive(Debug, Default)]
struct Folder {
    /// Its paths. It has several where it was moved, or shows at two places.
    paths: Vec<PathBuf>,
    /// The kept paths, by the name in this folder that leads to them.
    kept: BTreeMap<Vec<u8>, Vec<Kept>>,
    /// The names that are covered in it, by their number.
    late: Option<usize>,
    /// The folder itself, with the path that it had, if files in it are covered: the program may move it.
    held: Option<(PathBuf, OwnedFd)>,
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
    /// Returns true if something in the view has to be watched.
    pub(in crate::linux) fn is_needed(view: &Mounts) -> bool {
        let covers =
            |place: &Place| matches!(place.view, View::EmptyFile | View::ReadOnly) && place.source.is_none();
        let pending = !(view.missing.is_empty() && view.refused.is_empty() && view.late.is_empty());
        pending || view.places.iter().any(|place| covers(place) && !place.path.as_path().is_dir())
    }

    /// Makes a watcher, or `None` if the kernel has no more of them for this user.
    pub(in crate::linux) fn watcher() -> rustix::io::Result<Option<OwnedFd>> {
        match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(watcher) => Ok(Some(watcher)),
            Err(Errno::MFILE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts to watch, before anything else runs inside. Without a watcher it polls.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(in crate::linux) fn new(
        view: &Mounts,
        watcher: Option<OwnedFd>,
        told: Option<&File>,
    ) -> rustix::io::Result<Self> {
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
            entered: 0,
            pending: missing.map(Pending::Missing).collect(),
            queued: BTreeSet::new(),
            late: view.late.clone(),
            left_out: left_out.map(|place| place.path.0.clone()).collect(),
            granted: view.granted.iter().map(|path| path.0.clone()).collect(),
            // Without it, only the exit code says so.
            told: told.and_then(|told| told.try_clone().ok()),
            blind: None,
        };
        for (number, late) in view.late.iter().enumerate() {
            keeper.queue(late.root.0.clone(), number);
        }
        // The others are for what is covered later.
        let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = HELD.min(usize::try_from(open_files / 4).unwrap_or(HELD));
        let mut held = 0;
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
                let may_hold = held < most;
                let watched = keeper.watch(folder)?;
                watched.kept.entry(name.as_bytes().to_vec()).or_default().push(kept);
                if watched.held.is_none() && may_hold {
                    held += 1;
                    watched.held = mounts::open(folder).ok().map(|fd| (folder.to_owned(), fd));
                }
            }
        }
        Ok(keeper)
    }

    /// Returns true, after reporting it, if something that must stay hidden cannot be watched or covered any more.
    pub(in crate::linux) fn must_end(&mut self) -> bool {
        let Some(why) = self.blind.clone() else { return false };
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

    /// Covers what appeared, and goes through a few more folders. Returns true if there is more to do.
    pub(in crate::linux) fn look(&mut self) -> bool {
        self.look_for_changes();
        let more = self.look_at_events();
        for _ in 0..AT_ONCE {
            match self.pending.pop_front() {
                Some(Pending::Missing(kept)) => self.keep(kept),
                Some(Pending::Folder(path, late)) => {
                    self.queued.remove(&path);
                    self.enter(&path, late);
                }
                None => break,
            }
        }
        more || !self.pending.is_empty()
    }

    /// Handles the next events. Returns true if there may be more.
    fn look_at_events(&mut self) -> bool {
        let Some(watcher) = &self.watcher else { return false };
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(watcher, &mut buffer);
        let more = loop {
            // What was read but not handled would be lost.
            if events.len() >= EVENTS && reader.is_buffer_empty() {
                break true;
            }
            let Ok(event) = reader.next() else { break false };
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            events.push((event.wd(), event.events(), name));
        };
        for (watch, what, name) in events {
            match name {
                Some(name) => self.appeared(watch, &name, what.contains(ReadFlags::ISDIR)),
                None if what.contains(ReadFlags::QUEUE_OVERFLOW) => self.look_at_all(),
                None if what.contains(ReadFlags::IGNORED) => {
                    // Its kept paths are waited for further up.
                    if let Some(folder) = self.folders.remove(&watch) {
                        self.entered -= usize::from(folder.late.is_some());
                        folder.kept.into_values().flatten().for_each(|kept| self.keep(kept));
                    }
                }
                None if what.contains(ReadFlags::MOVE_SELF) => {
                    let kept = self.folders.get(&watch).map(|folder| folder.kept.values().flatten().cloned());
                    let kept: Vec<_> = kept.into_iter().flatten().collect();
                    kept.into_iter().for_each(|kept| self.keep(kept));
                }
                None => {}
            }
        }
        more
    }

    fn watch(&mut self, folder: &Path) -> rustix::io::Result<&mut Folder> {
        let Some(watcher) = &self.watcher else { return self.remember(folder) };
        let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        let watch = match inotify::add_watch(watcher, folder, watched) {
            // Gone again, or never to be read by the program either.
            Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP)) => return Err(error),
            Err(error) => {
                self.blind = Some(format!(
                    "what is hidden could not be watched any more, which a program inside can bring about (see \
                     fs.inotify.max_user_watches): {error}"
                ));
                return Err(error);
            }
            Ok(watch) => watch,
        };
        let known = self.folders.entry(watch).or_default();
        if known.paths.iter().all(|path| path != folder) {
            // The kernel has one watch for a folder, wherever it is moved.
            known.paths.retain(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir()));
            known.paths.push(folder.to_owned());
        }
        Ok(known)
    }

    /// Stands in for a watch of the kernel.
    fn remember(&mut self, folder: &Path) -> rustix::io::Result<&mut Folder> {
        let gone = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT);
        if !folder.symlink_metadata().map_err(gone)?.is_dir() {
            return Err(Errno::NOTDIR);
        }
        let next = i32::try_from(self.numbers.len()).map_err(|_| Errno::NOSPC)?;
        let watch = *self.numbers.entry(folder.to_owned()).or_insert(next);
        let new = || Folder { paths: vec![folder.to_owned()], ..Folder::default() };
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
            let found = folder.paths.first().and_then(|path| path.symlink_metadata().ok());
            let changed = found.and_then(|found| change_time(&found));
            let exact = changed.filter(|at| now.duration_since(*at).is_ok_and(|age| age > EXACT));
            if exact.is_none() || std::mem::replace(&mut folder.changed, exact) != exact {
                kept.extend(folder.kept.values().flatten().cloned());
                entered.extend(folder.entered());
            }
        }
        kept.into_iter().for_each(|kept| self.keep(kept));
        entered.into_iter().for_each(|(path, late)| self.queue(path, late));
    }

    /// Queues a folder, unless it waits already.
    fn queue(&mut self, folder: PathBuf, late: usize) {
        if self.queued.insert(folder.clone()) {
            self.pending.push_back(Pending::Folder(folder, late));
        }
    }

    fn appeared(&mut self, watch: i32, name: &[u8], is_folder: bool) {
        let Some(folder) = self.folders.get(&watch) else { return };
        let entered: Vec<_> = folder.entered().collect();
        if let Some(Err(error)) = folder.cover(OsStr::from_bytes(name))
            && !error.is_gone()
        {
            self.blind = Some(format!("what is hidden could not be covered any more: {error}"));
            return;
        }
        // Some may lead further now.
        for kept in folder.kept.get(name).cloned().unwrap_or_default() {
            self.keep(kept);
        }
        for (path, late) in entered {
            self.judge(path.join(OsStr::from_bytes(name)), is_folder, late);
        }
    }

    /// Covers the file at a path, or waits for it if it does not exist yet.
    fn keep(&mut self, kept: Kept) {
        if let Ok(found) = kept.path.symlink_metadata() {
            let covered = match kept.fate {
                Fate::Looks(view) => mounts::renew(&kept.path, Some(view)),
                Fate::Hidden => mounts::renew(&kept.path, None),
                Fate::Refused if found.is_dir() => mounts::renew(&kept.path, Some(View::ReadOnly)),
                Fate::Refused => {
                    std::fs::remove_file(&kept.path).or_else(|_| mounts::renew(&kept.path, None))
                }
            };
            // Gone again: the next one to appear is an event of its own.
            if let Err(error) = covered
                && !error.is_gone()
            {
                self.blind = Some(format!("what is hidden could not be covered any more: {error}"));
            }
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
    fn enter(&mut self, path: &Path, late: usize) {
        if self.entered >= FOLDERS {
            return;
        }
        let Ok(folder) = self.watch(path) else { return };
        let is_new = folder.late.replace(late).is_none();
        self.entered += usize::from(is_new);
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
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
            self.queue(path, late);
        }
    }

    /// Queues every folder again: the kernel's queue of events has overflowed.
    fn look_at_all(&mut self) {
        let all = self.folders.values().flat_map(|folder| folder.kept.values().flatten());
        for kept in all.cloned().collect::<Vec<_>>() {
            self.keep(kept);
        }
        let entered: Vec<_> = self.folders.values().flat_map(Folder::entered).collect();
        entered.into_iter().for_each(|(path, late)| self.queue(path, late));
    }
}

impl Folder {
    /// Covers what has this name in the folder, if it must be covered, wherever the folder is now.
    fn cover(&self, name: &OsStr) -> Option<Result<(), mounts::Error>> {
        let (path, held) = self.held.as_ref()?;
        let kept = self.kept.get(name.as_bytes())?;
        let looks = kept.iter().find_map(|kept| match kept.fate {
            Fate::Looks(view) => (kept.path.parent() == Some(path.as_path())).then_some(view),
            Fate::Hidden | Fate::Refused => None,
        })?;
        Some(mounts::renew_in(held, name, Some(looks)))
    }

    /// Yields its paths with the number of its names, if it is watched for names.
    fn entered(&self) -> impl Iterator<Item = (PathBuf, usize)> {
        self.late.into_iter().flat_map(|late| self.paths.iter().map(move |path| (path.clone(), late)))
    }
}

fn change_time(of: &Metadata) -> Option<SystemTime> {
    let (seconds, nanos) = (u64::try_from(of.ctime()).ok()?, u32::try_from(of.ctime_nsec()).ok()?);
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use watchfire_core::sandbox::NamePattern;

    use super::*;

    fn keeper(view: &Mounts) -> Keeper {
        Keeper::new(view, Keeper::watcher().unwrap(), None).unwrap()
    }

    /// A view in which `path` must not be made.
    fn refusing(path: &Path) -> Mounts {
        Mounts { refused: vec![path.into()], ..Mounts::default() }
    }

    fn look_at_all(keeper: &mut Keeper) {
        while keeper.look() {}
    }

    #[test]
    fn what_a_program_makes_and_removes_is_forgotten() {
        let temp = tempfile::tempdir().unwrap();
        let (folder, refused) = (temp.path().join("a"), temp.path().join("a/b/refused"));
        let mut keeper = keeper(&refusing(&refused));
        for _ in 0..50 {
            fs::create_dir_all(folder.join("b")).unwrap();
            look_at_all(&mut keeper);
            fs::remove_dir_all(&folder).unwrap();
            look_at_all(&mut keeper);
        }
        assert!(keeper.folders.len() <= 3, "{} folders", keeper.folders.len());
        fs::create_dir_all(folder.join("b")).unwrap();
        fs::write(&refused, "").unwrap();
        look_at_all(&mut keeper);
        assert!(!refused.exists());
    }

    #[test]
    fn a_flood_of_events_is_taken_in_rounds() {
        let temp = tempfile::tempdir().unwrap();
        let refused = temp.path().join("refused");
        let mut keeper = keeper(&refusing(&refused));
        look_at_all(&mut keeper);
        let [mut from, mut to] = ["a", "b"].map(|name| temp.path().join(name));
        fs::write(&from, "").unwrap();
        let mut flood = |count| {
            for _ in 0..count {
                fs::rename(&from, &to).unwrap();
                std::mem::swap(&mut from, &mut to);
            }
        };
        fs::write(&refused, "").unwrap();
        flood(5_000);
        assert!(keeper.look(), "all 5,000 events in one round");
        assert!(!refused.exists());
        look_at_all(&mut keeper);
        // More than the kernel queues.
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        flood(most.trim().parse::<usize>().unwrap() + 10);
        fs::write(&refused, "").unwrap();
        look_at_all(&mut keeper);
        assert!(!refused.exists(), "its event was lost");
    }

    /// A view in which `.env` is hidden below `root`.
    fn hiding(root: &Path) -> Mounts {
        let names = NamePattern {
            root: root.to_owned(),
            names: vec![".env".to_owned()],
            except: Vec::new(),
            origin: "names".to_owned(),
        };
        Mounts { late: vec![Late { root: root.into(), names }], ..Mounts::default() }
    }

    #[test]
    fn an_overflow_queues_each_folder_once() {
        let temp = tempfile::tempdir().unwrap();
        (0..40).for_each(|n| fs::create_dir(temp.path().join(n.to_string())).unwrap());
        let mut keeper = keeper(&hiding(temp.path()));
        look_at_all(&mut keeper);
        (0..100).for_each(|_| keeper.look_at_all());
        assert_eq!((keeper.pending.len(), keeper.entered), (41, 41));
        look_at_all(&mut keeper);
        assert!(keeper.queued.is_empty() && keeper.entered == 41);
    }

    #[test]
    fn names_are_looked_for_where_a_folder_was_moved_to() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("a/deep")).unwrap();
        let mut keeper = keeper(&hiding(temp.path()));
        look_at_all(&mut keeper);
        fs::rename(at("a"), at("b")).unwrap();
        look_at_all(&mut keeper);
        fs::write(at("b/deep/.env"), "").unwrap();
        look_at_all(&mut keeper);
        let kept = keeper.folders.values().flat_map(|folder| folder.kept.values().flatten());
        let kept: Vec<_> = kept.map(|kept| kept.path.clone()).collect();
        assert!(kept.contains(&at("b/deep/.env")), "{kept:?}");
    }

    #[test]
    fn a_path_is_waited_for_where_its_folder_was_moved_away() {
        let temp = tempfile::tempdir().unwrap();
        let refused = temp.path().join("a/refused");
        fs::create_dir(temp.path().join("a")).unwrap();
        let mut keeper = keeper(&refusing(&refused));
        look_at_all(&mut keeper);
        fs::rename(temp.path().join("a"), temp.path().join("b")).unwrap();
        look_at_all(&mut keeper);
        fs::create_dir(temp.path().join("a")).unwrap();
        look_at_all(&mut keeper);
        fs::write(&refused, "").unwrap();
        look_at_all(&mut keeper);
        assert!(!refused.exists());
    }

    #[test]
    fn what_cannot_be_watched_ends_everything() {
        let temp = tempfile::tempdir().unwrap();
        let mut keeper = keeper(&refusing(&temp.path().join("a")));
        assert!(!keeper.must_end());
        // In place of a watcher without watches: a descriptor that is none.
        keeper.watcher = Some(fs::File::open("/dev/null").unwrap().into());
        keeper.look();
        assert!(keeper.must_end());
    }
}
