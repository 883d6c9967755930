//! Folders to work in.

use std::env;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use tempfile::TempDir;
use watchfire_core::sandbox::conformance::test_homes;

/// Set in a process that runs as an ordinary user: where it may work.
pub(crate) const AS_USER: &str = "WATCHFIRE_TEST_AS_USER";

/// A user that nobody is.
pub(crate) const USER: u32 = 54_321;

/// Returns the folder for all tests: one below the test homes, since the program itself may lie there too and must not
/// be covered by [`work_in_memory`].
fn folder() -> std::io::Result<PathBuf> {
    let homes = test_homes(env!("CARGO_TARGET_TMPDIR"))?;
    // The scripts of the probes are plain shell, which splits a path with a space.
    let folder = match homes.to_string_lossy().contains(char::is_whitespace) {
        true => env::temp_dir().join(format!("watchfire-confined-{}", rustix::process::geteuid().as_raw())),
        false => homes.join("confined"),
    };
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A folder that is removed when it is dropped.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Self, Failed> {
        let base = match env::var_os(AS_USER) {
            Some(base) => PathBuf::from(base).canonicalize()?,
            None => folder()?,
        };
        Ok(Self(TempDir::new_in(base)?))
    }

    /// One that belongs to [`USER`].
    pub(crate) fn for_user() -> Result<Self, Failed> {
        let scratch = Self::new()?;
        std::os::unix::fs::chown(scratch.path(), Some(USER), Some(USER))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Puts birdcage's helper in `PATH`, if it was built in its own folder.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the environment of a process of one thread")]
pub(crate) fn find_birdcage() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("birdcage-helper/target");
    let built = ["release", "debug"].map(|kind| target.join(kind));
    let Some(folder) = built.into_iter().find(|path| path.join("watchfire-birdcage-helper").is_file()) else {
        return;
    };
    let paths =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).chain([folder]).collect::<Vec<_>>();
    if let Ok(path) = env::join_paths(paths) {
        // SAFETY: no other thread runs yet.
        unsafe { env::set_var("PATH", path) };
    }
}

/// Works in memory where it may, unseen by all others: some disks take long to make files where others were removed.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the mounts of a process of one thread")]
pub(crate) fn work_in_memory() {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // Who runs as another user has a folder in the memory of who started it.
    let (true, Ok(homes)) = (is_root() && env::var_os(AS_USER).is_none(), folder()) else { return };
    // SAFETY: no descriptors are parted from those of other threads, which there are none of yet.
    let own = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    // Where it does not work they work on the disk.
    let _ = own
        .and_then(|()| mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))
        .and_then(|()| mount("none", &homes, "tmpfs", MountFlags::empty(), c"mode=755"));
}
