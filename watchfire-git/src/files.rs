//! Small things done safely to files: replace, lock, remove.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::failpoint::reached;

/// Replaces `path` by `content`, whole or not at all, and waits until it is on disk.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> Result<()> {
    put(path, content, true, None)
}

/// Replaces `path` by `content`, whole or not at all. It survives this process, but perhaps not the machine.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    put(path, content, false, None)
}

/// The same, for a file that is to look as old as `time`.
pub(crate) fn replace_as_of(path: &Path, content: &[u8], time: SystemTime) -> Result<()> {
    put(path, content, false, Some(time))
}

fn put(path: &Path, content: &[u8], durably: bool, time: Option<SystemTime>) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    make_folder(parent).during("creating a folder")?;
    let temporary = parent.join(unique("tmp"));
    let written = (|| {
        reached("replace: begin");
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        give(&file, parent)?;
        file.write_all(content)?;
        time.map_or(Ok(()), |time| file.set_modified(time))?;
        if durably {
            file.sync_all()?;
        }
        reached("replace: written");
        fs::rename(&temporary, path)?;
        reached("replace: in place");
        if durably { File::open(parent)?.sync_all() } else { Ok(()) }
    })();
    if written.is_err() {
        _ = fs::remove_file(&temporary);
    }
    written.map_err(|e| Error::io("writing a file", e).with_path(path))
}

/// Creates a folder and those above it that are missing, each with the owner and mode of its parent: what root makes
/// in the repository of a user is the user's.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_folder(parent)?;
    let mode = fs::metadata(parent)?.permissions().mode();
    match fs::create_dir(path) {
        Ok(()) => {}
        // Another process was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        Err(e) => return Err(e),
    }
    fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o7777))?;
    give(&File::open(path)?, parent)
}

/// Gives a file that root has just made to the owner of the folder that it lies in.
fn give(file: &File, folder: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (made, above) = (file.metadata()?, fs::metadata(folder)?);
    if (made.uid(), made.gid()) != (above.uid(), above.gid()) {
        std::os::unix::fs::fchown(file, Some(above.uid()), Some(above.gid()))?;
    }
    Ok(())
}

/// Reads `path`; none if it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    absent(fs::read(path)).map_err(|e| Error::io("reading a file", e).with_path(path))
}

/// Opens a plain file in a folder that an agent writes: no link is followed, and nothing is waited for. None for
/// anything else, and where there is nothing.
pub(crate) fn open_plain(path: &Path) -> Result<Option<File>> {
    let opening = |e| Error::io("opening a file", e).with_path(path);
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = absent(OpenOptions::new().read(true).custom_flags(flags).open(path));
    let opened = opened.or_else(|e| match e.raw_os_error() {
        // A link, a socket.
        Some(code) if [Errno::LOOP, Errno::NXIO].iter().any(|errno| errno.raw_os_error() == code) => Ok(None),
        _ => Err(opening(e)),
    })?;
    let Some(file) = opened else { return Ok(None) };
    Ok(file.metadata().map_err(opening)?.is_file().then_some(file))
}

/// Reads such a file. None also where it is longer than `limit`.
pub(crate) fn read_plain(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_plain(path)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|e| Error::io("reading a file", e).with_path(path))?;
    Ok((content.len() as u64 <= limit).then_some(content))
}

/// Reads the whole lines in the last `limit` bytes of such a file.
pub(crate) fn read_tail(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(mut file) = open_plain(path)? else { return Ok(None) };
    let mut content = Vec::new();
    let read = (|| {
        let start = file.metadata()?.len().saturating_sub(limit);
        file.seek(SeekFrom::Start(start))?;
        file.take(limit).read_to_end(&mut content)?;
        Ok(start > 0)
    })();
    if read.map_err(|e| Error::io("reading a file", e).with_path(path))? {
        let end = content.iter().position(|byte| *byte == b'\n').map_or(content.len(), |at| at + 1);
        content.drain(..end);
    }
    Ok(Some(content))
}

/// None for what is not there.
pub(crate) fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// A name that no other call in any process makes: `.wf-<what>-<pid>-<n>-<time>`.
pub(crate) fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("{PREFIX}{what}-{}-{n}-{time:x}", std::process::id())
}

/// How every temporary name of ours begins.
pub(crate) const PREFIX: &str = ".wf-";

/// Whether two paths name one file, without following links.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

/// Removes a folder with all below it, also where the agent took our right to write. Never follows a link.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    reached("remove: begin");
    match absent(fs::remove_dir_all(path)) {
        Ok(_) => Ok(()),
        Err(_) => remove_level_by_level(path),
    }
}

/// The same for a checkout: several threads at once, because nearly all of the time goes to single files.
pub(crate) fn remove_checkout(path: &Path) -> io::Result<()> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
    };
    let parts: Vec<PathBuf> = folders(path).flat_map(|top| folders(&top).chain([top])).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    if parts.len() > 1 && threads > 1 {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // What is left is met again below.
                        _ = fs::remove_dir_all(part);
                    }
                });
            }
        });
    }
    remove_tree(path)
}

/// The same as [`remove_tree`] where folders cannot be written, or are nested more deeply than descriptors or a path go: what lies two
/// levels down is moved up until there is only one.
fn remove_level_by_level(path: &Path) -> io::Result<()> {
    let open_up = |folder: &Path| {
        let mode = fs::symlink_metadata(folder)?.permissions().mode();
        fs::set_permissions(folder, PermissionsExt::from_mode(mode | 0o700))
    };
    open_up(path)?;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(path)? {
            is_empty = false;
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                absent(fs::remove_file(entry.path()))?;
                continue;
            }
            open_up(&entry.path())?;
            for child in fs::read_dir(entry.path())? {
                let child = child?;
                if child.file_type()?.is_dir() {
                    // To be moved, a folder must be one that we can write.
                    open_up(&child.path())?;
                    fs::rename(child.path(), path.join(unique("up")))?;
                } else {
                    absent(fs::remove_file(child.path()))?;
                }
            }
            absent(fs::remove_dir(entry.path()))?;
        }
        if is_empty {
            return absent(fs::remove_dir(path)).map(drop);
        }
    }
}

/// Moves `path` into the folder `aside`, as `<name>-<n>`, for a person to look at. Where.
pub(crate) fn set_aside(path: &Path, aside: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(aside).map_err(|e| Error::io("creating a folder", e).with_path(aside))?;
    for n in 1..10_000 {
        let to = aside.join(format!("{name}-{n}"));
        if absent(fs::symlink_metadata(&to)).during("reading a folder")?.is_none() {
            fs::rename(path, &to).map_err(|e| Error::io("moving something aside", e).with_path(path))?;
            return Ok(to);
        }
    }
    Err(broken("too much was set aside: look through it and remove what you do not need").with_path(aside))
}

/// Whether the process that made a temporary name of ours is gone.
pub(crate) fn is_abandoned(name: &std::ffi::OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { return false };
    let pid =
        rest.split('-').nth(1).and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw);
    let is_gone = |pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH);
    pid.is_some_and(is_gone)
}

/// A lock on a file, held until dropped or until the process ends.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing alone would leave it to a process that is being started just then, and has all that we have until it runs.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl FileLock {
    /// Takes the lock at `path`, waiting up to `patience` for another holder.
    pub(crate) fn take(path: &Path, patience: Duration) -> Result<Self> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "another watchfire process is changing this repository",
                )
                .with_path(path));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Takes the lock if nobody holds it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>> {
        let opened = (|| {
            let parent = path.parent().unwrap_or(Path::new("/"));
            make_folder(parent)?;
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            give(&file, parent)?;
            Ok(file)
        })();
        let file = opened.map_err(|e| Error::io("opening a lock", e).with_path(path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::io("taking a lock", e.into()).with_path(path)),
        }
    }
}

/// Every entry of a folder, sorted by name; none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>> {
    let failed = |e| Error::io("reading a folder", e).with_path(folder);
    let Some(listing) = absent(fs::read_dir(folder)).map_err(failed)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry.map_err(failed)?;
        entries.push((entry.file_name(), entry.path()));
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        assert_eq!(FileLock::take(&path, Duration::ZERO).unwrap_err().kind(), ErrorKind::Busy);
        // As a process has it that is being started.
        let inherited = held.file.try_clone().unwrap();
        drop(held);
        FileLock::take(&path, Duration::ZERO).unwrap();
        drop(inherited);
    }

    #[test]
    fn folders_and_files_take_owner_and_mode_of_their_parent() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o750)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(dir.path(), Some(12_345), Some(54_321)).unwrap();
        } else {
            eprintln!("SKIPPED in part: only root can give files away");
        }
        replace(&dir.path().join("a/b/file"), b"").unwrap();
        let _lock = FileLock::take(&dir.path().join("a/lock"), Duration::ZERO).unwrap();
        for name in ["a", "a/b", "a/b/file", "a/lock"] {
            let made = fs::metadata(dir.path().join(name)).unwrap();
            assert!(made.is_file() || made.mode() & 0o777 == 0o750, "{name}: {:o}", made.mode());
            assert!(!is_root || (made.uid(), made.gid()) == (12_345, 54_321), "{name}");
        }
    }

    #[test]
    fn folders_go_however_deep_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("x");
        fs::create_dir(&root).unwrap();
        // Deeper than a path can be: each is put into the next.
        for n in 0..3000 {
            let next = dir.path().join(format!("{n}"));
            fs::create_dir(&next).unwrap();
            fs::write(next.join("file"), "").unwrap();
            fs::rename(&root, next.join("a long name so that the whole is longer than any path")).unwrap();
            fs::rename(&next, &root).unwrap();
        }
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn only_what_a_process_that_is_gone_has_made_is_abandoned() {
        assert!(!is_abandoned(unique("x").as_ref()));
        assert!(!is_abandoned("index".as_ref()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(is_abandoned(format!("{PREFIX}x-{}-0-1", child.id()).as_ref()));
    }

    #[test]
    fn folders_without_write_permission_go_too() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("x");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c"), "").unwrap();
        fs::set_permissions(root.join("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }
}
