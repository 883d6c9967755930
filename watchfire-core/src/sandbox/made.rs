//! Folders that are made for a command, and are gone after it where nothing was put into them.
//!
//! Each is locked by those who use it, so that the last one removes it: where a sandbox shows a folder in a view of its
//! own, removing it would take it away there. A mark, an extended attribute, says that it was made here, so that a folder
//! that was there stays, and what a killed process left is removed by the next one. Where a file system knows no such
//! attributes or locks, the empty folder stays.
//!
//! Commands of one process share one descriptor for each folder: 200 sessions would otherwise hold 1,200.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, XattrFlags, flock, getxattr_query, open, setxattr};

use super::{Confined, Denials, PolicyReport, SandboxGuard};

const MARK: &str = "user.watchfire.made";
/// How often a folder is made again that somebody else removes just then, and how long they get for that.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Folders in use. Dropping it removes those that are empty, were made here, and are used by nobody else.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<Arc<Folder>>);

/// A folder in use by this process.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    file: File,
}

/// The folders in use by this process.
static IN_USE: Mutex<BTreeMap<PathBuf, Weak<Folder>>> = Mutex::new(BTreeMap::new());

impl Made {
    /// Makes folders, with those above them. Who cannot make one could not use it either.
    pub(super) fn make<'a>(folders: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut made = Self::default();
        for path in folders {
            let used = (0..TRIES).find_map(|_| match share(path) {
                Ok(folder) => Some(Some(folder)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock) => {
                    std::thread::sleep(PAUSE);
                    None
                }
                Err(_) => Some(None),
            });
            made.0.extend(used.flatten());
        }
        // The deepest first, when they go.
        made.0.sort_by_key(|folder| std::cmp::Reverse(folder.path.components().count()));
        made
    }

    /// They are in use until the command has ended, or its guard is dropped.
    pub(super) fn kept_by(self, mut confined: Confined) -> Confined {
        confined.guard = Box::new(Guard { inner: confined.guard, made: Mutex::new(self) });
        confined
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let alone = flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Of an empty folder alone; those above it while they are empty too.
        if alone && is_at(&self.file, &self.path) {
            let _ = self.path.ancestors().try_for_each(|folder| match is_marked(folder) {
                true => fs::remove_dir(folder),
                false => Err(ErrorKind::NotFound.into()),
            });
        }
    }
}

/// Returns the folder as another command of this process uses it, or takes it.
fn share(path: &Path) -> io::Result<Arc<Folder>> {
    let in_use = || IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = in_use().get(path).and_then(Weak::upgrade).filter(|it| is_at(&it.file, path)) {
        return Ok(folder);
    }
    // Not under the lock: taking a folder looks at the disk.
    let folder = Arc::new(Folder { path: path.to_owned(), file: take(path)? });
    let mut folders = in_use();
    folders.retain(|_, folder| folder.strong_count() > 0);
    folders.insert(path.to_owned(), Arc::downgrade(&folder));
    Ok(folder)
}

/// Makes the folder and those above it where they are missing, with a mark, and locks it with all others who use it. Not
/// found, or not to be locked, is what somebody else removes just then.
fn take(path: &Path) -> io::Result<File> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            // Without the mark it stays.
            Ok(()) => _ = setxattr(folder, MARK, b"1", XattrFlags::CREATE),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    flock(&file, FlockOperation::NonBlockingLockShared)?;
    if is_at(&file, path) { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
}

/// Whether the open folder is the one that is at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(place).is_some_and(|open| fs::metadata(path).ok().map(place) == Some(open))
}

fn is_marked(folder: &Path) -> bool {
    getxattr_query(folder, MARK).is_ok()
}

/// The sandbox's guard, with the folders. They come after it: they go when what it keeps has gone.
#[derive(Debug)]
struct Guard {
    inner: Box<dyn SandboxGuard>,
    made: Mutex<Made>,
}

impl SandboxGuard for Guard {
    fn report(&self) -> PolicyReport {
        self.inner.report()
    }

    fn ended(&self) {
        self.inner.ended();
        drop(std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    fn denials(&self) -> Denials {
        self.inner.denials()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::CommandSpec;
    use crate::sandbox::{NoSandbox, Sandbox as _, SandboxPolicy};

    /// A folder in which marks can be made, or none.
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
        let second = Made::make(&all);
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
    fn commands_of_one_process_share_a_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (first, second) = (Made::make([&path]), Made::make([&path]));
        assert!(Arc::ptr_eq(&first.0[0], &second.0[0]));
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
        let mut killed = Made::make([&path]);
        // What the kernel does: the locks go, and nothing else happens.
        let killed = std::mem::ManuallyDrop::new(Arc::into_inner(killed.0.remove(0)).unwrap());
        flock(&killed.file, FlockOperation::Unlock).unwrap();
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
                    for _ in 0..200 {
                        let made = Made::make([&path]);
                        assert!(made.0.len() == 1 && path.is_dir());
                        drop(made);
                    }
                });
            }
        });
        drop(Made::make([&path]));
        assert!(!home.path().join("a").exists());
    }
}
