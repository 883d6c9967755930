//! Folders that are created for a command and removed after it if they are still empty.
//!
//! Each folder carries a shared lock for as long as some session uses it, and the last user removes it: removing it
//! earlier would take it away inside sandboxes that show it in a view of their own. An extended attribute marks folders
//! that were created here, so that the user's own stay, and so that the next session removes what a killed process left.
//! On file systems without such attributes or locks, the empty folder stays.
//!
//! All sessions of a process share one descriptor for each folder, however many sessions there are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, XattrFlags, flock, getxattr_query, open, setxattr};

use super::{Confined, Denials, Lasting, PolicyReport, SandboxGuard};

const MARK: &str = "user.watchfire.made";

/// Number of attempts to create a folder while another process removes it, and the pause between two attempts.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// The folders that a process uses, by path.
#[derive(Debug, Default)]
struct Registry(Mutex<BTreeMap<PathBuf, Used>>);

/// A locked folder, and the number of sessions that use it.
#[derive(Debug)]
struct Used {
    file: File,
    sessions: usize,
}

static IN_USE: Registry = Registry(Mutex::new(BTreeMap::new()));

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Used>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session to the users of `path`, creating and locking the folder for the first one.
    fn enter(&self, path: &Path) -> io::Result<()> {
        let mut folders = self.lock();
        if let Some(used) = folders.get_mut(path) {
            // Another process may have replaced the folder, and only a lock on the new one protects it.
            if !is_at(&used.file, path) {
                used.file = take(path)?;
            }
            used.sessions += 1;
        } else {
            folders.insert(path.to_owned(), Used { file: take(path)?, sessions: 1 });
        }
        Ok(())
    }

    /// Removes a session from the users of `path`. The last one removes the folder if it is empty, was created here and is
    /// used by no other process.
    fn leave(&self, path: &Path) {
        // Held to the end: a session that enters meanwhile would rely on a folder that is about to go.
        let mut folders = self.lock();
        let Some(used) = folders.get_mut(path) else { return };
        used.sessions = used.sessions.saturating_sub(1);
        if used.sessions > 0 {
            return;
        }
        let Some(Used { file, .. }) = folders.remove(path) else { return };
        // Another process that uses the folder holds the shared lock, and then the last of its sessions
        // removes it.
        let alone = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if alone && is_at(&file, path) {
            if !is_marked(path) || fs::remove_dir(path).is_err() {
                return;
            }
            // Those above it, up to the first that is not empty, not ours, or used by a session for itself.
            for folder in path.ancestors().skip(1) {
                let lock = hold(folder).filter(|_| is_marked(folder) && !folders.contains_key(folder));
                if lock.is_none() || fs::remove_dir(folder).is_err() {
                    return;
                }
            }
        }
    }
}

/// The folders that one session uses. Dropping it gives them up.
#[derive(Debug)]
pub(super) struct Made {
    registry: &'static Registry,
    /// The deepest first, since a folder can only be removed after those in it.
    folders: Vec<PathBuf>,
}

impl Made {
    /// Creates folders, with those above them. One that cannot be created is left out: the command could not use it
    /// either.
    pub(super) fn make<'a>(folders: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self::make_in(&IN_USE, folders)
    }

    fn make_in<'a>(registry: &'static Registry, folders: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut made = Self { registry, folders: Vec::new() };
        for path in folders {
            let entered = (0..TRIES).find_map(|_| match registry.enter(path) {
                Ok(()) => Some(true),
                // Another process is removing the folder, which is over soon.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock) => {
                    std::thread::sleep(PAUSE);
                    None
                }
                Err(_) => Some(false),
            });
            made.folders.extend(entered.unwrap_or_default().then(|| path.clone()));
        }
        made.folders.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        made
    }

    /// Ties the folders to a confined command: they are in use until it has ended or its guard is dropped.
    pub(super) fn kept_by(self, mut confined: Confined) -> Confined {
        confined.guard = Box::new(Guard { inner: confined.guard, made: Mutex::new(self) });
        confined
    }

    fn give_up(&mut self) {
        // Called when the command has ended and again on drop, when nothing is left to give up.
        for path in std::mem::take(&mut self.folders) {
            self.registry.leave(&path);
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Creates the folder and those above it where they are missing, marks them, and takes a shared lock.
///
/// # Errors
/// `NotFound` or `WouldBlock` if another process is removing the folder at this moment: try again.
fn take(path: &Path) -> io::Result<File> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            // A folder without the mark stays, which is the safe side.
            Ok(()) => _ = setxattr(folder, MARK, b"1", XattrFlags::CREATE),
            // Another session was faster; its folder and its mark serve both.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    // Refused only while the last user of another process holds it exclusively, to remove the folder.
    flock(&file, FlockOperation::NonBlockingLockShared)?;
    // Between opening and locking, the last user may have removed the folder; then the lock protects nothing.
    if is_at(&file, path) { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
}

/// Locks a folder that no session of any process uses.
fn hold(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Returns true if the open folder is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(place).is_some_and(|open| fs::metadata(path).ok().map(place) == Some(open))
}

fn is_marked(folder: &Path) -> bool {
    getxattr_query(folder, MARK).is_ok()
}

/// The sandbox's guard together with the folders of the session.
#[derive(Debug)]
struct Guard {
    // Dropped before the folders: what the sandbox keeps may lie in them.
    inner: Box<dyn SandboxGuard>,
    made: Mutex<Made>,
}

impl SandboxGuard for Guard {
    fn report(&self) -> PolicyReport {
        self.inner.report()
    }

    fn ended(&self) {
        // First the sandbox: what it keeps may lie in the folders.
        self.inner.ended();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).give_up();
    }

    fn denials(&self) -> Denials {
        self.inner.denials()
    }

    fn lasting(&self) -> Lasting {
        let mut lasting = self.inner.lasting();
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let used = made.registry.lock();
        let files = made.folders.iter().filter_map(|path| used.get(path)?.file.try_clone().ok());
        // Only the locks: the last one who uses a folder removes it.
        lasting.descriptors.extend(files.map(Into::into));
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::CommandSpec;
    use crate::sandbox::{NoSandbox, Sandbox as _, SandboxPolicy};

    /// Returns the registry of another process.
    fn process() -> &'static Registry {
        Box::leak(Box::default())
    }

    fn descriptors_below(folder: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|path| path.starts_with(folder))).count()
    }

    /// Returns a folder in which extended attributes work, or `None`.
    fn folder() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir().unwrap();
        let can = setxattr(folder.path(), "user.watchfire.test", b"1", XattrFlags::empty()).is_ok();
        if !can {
            eprintln!("SKIPPED: no extended attributes in {}", folder.path().display());
        }
        can.then_some(folder)
    }

    #[test]
    fn what_stays_empty_goes_with_the_last_one_who_uses_it() {
        let Some(home) = folder() else { return };
        let at = |name: &str| home.path().join(name);
        let all = [at(".cargo/git"), at(".cargo/registry"), at(".cache"), at("was/there"), at("was")];
        fs::create_dir(at("was")).unwrap();
        let first = Made::make(&all);
        let second = Made::make_in(process(), &all);
        assert!(all.iter().all(|path| path.is_dir()));
        drop(first);
        assert!(all.iter().all(|path| path.is_dir()), "another one uses them");
        fs::write(at(".cargo/git/x"), "").unwrap();
        drop(second);
        let left: Vec<_> = all.iter().filter(|path| path.exists()).collect();
        assert_eq!(left, [&at(".cargo/git"), &at("was")]);
        fs::remove_file(at(".cargo/git/x")).unwrap();
        drop(Made::make(&all[..1]));
        assert!(!at(".cargo").exists(), "made then, and empty now");
    }

    #[test]
    fn a_folder_that_another_session_uses_stays_when_one_in_it_goes() {
        let Some(home) = folder() else { return };
        let both = [home.path().join("cache"), home.path().join("cache/npm")];
        for other in [&IN_USE, process()] {
            let first = Made::make(&both);
            let second = Made::make_in(other, &both[..1]);
            drop(first);
            assert!(both[0].is_dir() && !both[1].exists());
            drop(second);
            assert!(!both[0].exists());
        }
    }

    #[test]
    fn sessions_of_a_process_share_descriptors() {
        let Some(home) = folder() else { return };
        let all: Vec<_> = (0..6).map(|n| home.path().join(format!("cache{n}"))).collect();
        let sessions: Vec<_> = (0..50).map(|_| Made::make(&all)).collect();
        assert_eq!(descriptors_below(home.path()), all.len());
        let mut sessions = sessions.into_iter();
        let last = sessions.next();
        drop(sessions);
        assert!(all.iter().all(|path| path.is_dir()), "one session is left");
        drop(last);
        assert_eq!(descriptors_below(home.path()), 0);
        assert!(!all.iter().any(|path| path.exists()));
    }

    #[test]
    fn a_replaced_folder_is_locked_anew() {
        let Some(home) = folder() else { return };
        let path = home.path().join("a");
        let first = Made::make([&path]);
        fs::remove_dir(&path).unwrap();
        let second = Made::make([&path]);
        drop(first);
        assert!(path.is_dir(), "the second session uses it");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn they_go_at_the_end_whoever_keeps_the_report() {
        let Some(home) = folder() else { return };
        let path = home.path().join("a");
        let policy = SandboxPolicy::builder().build().unwrap();
        let confined = NoSandbox.prepare(&policy, CommandSpec::new("/bin/true")).unwrap();
        let confined = Made::make([&path]).kept_by(confined);
        assert!(path.is_dir());
        confined.guard.ended();
        assert!(!path.exists());
        assert_eq!(confined.guard.report().sandbox, "none");
    }

    #[test]
    fn what_a_killed_one_left_goes_with_the_next() {
        let Some(home) = folder() else { return };
        let path = home.path().join("a/b");
        let killed = Made::make_in(process(), [&path]);
        // As the kernel does it: the locks go, and nothing else happens.
        killed.registry.lock().clear();
        drop(killed);
        assert!(path.is_dir());
        drop(Made::make([&path]));
        assert!(!home.path().join("a").exists());
    }

    #[test]
    fn one_who_comes_while_another_goes_has_its_folder() {
        let Some(home) = folder() else { return };
        let path = home.path().join("a/b");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let process = process();
                    for _ in 0..200 {
                        let made = Made::make_in(process, [&path]);
                        assert!(made.folders.len() == 1 && path.is_dir());
                        drop(made);
                    }
                });
            }
        });
        drop(Made::make([&path]));
        assert!(!home.path().join("a").exists());
    }
}
