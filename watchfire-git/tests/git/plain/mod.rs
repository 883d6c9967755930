//! Projects in folders without git.

mod kills;
mod kinds;
mod stories;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use watchfire_core::workspace::conformance;
use watchfire_git::init::init_plain;
use watchfire_git::{GitOptions, GitWorkspace};

/// A folder without git, and the store of its snapshots beside it.
pub(crate) struct Plain {
    folder: Option<TempDir>,
    pub(crate) root: PathBuf,
    pub(crate) store: PathBuf,
}

impl Plain {
    /// With the file that the conformance suite wants.
    pub(crate) fn new() -> Self {
        let plain = Self::bare();
        plain.init();
        plain
    }

    /// Not made ready yet.
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("folder");
        fs::create_dir(&root).unwrap();
        let plain = Self { folder: Some(folder), ..Self::existing(root) };
        plain.write(conformance::FILE, conformance::CONTENT);
        plain
    }

    /// One that is there already, made by another process.
    pub(crate) fn existing(root: PathBuf) -> Self {
        Self { folder: None, store: root.with_file_name("home/state/id/snapshots"), root }
    }

    pub(crate) fn init(&self) {
        init_plain(&self.root, &self.store, &GitOptions::default()).unwrap();
    }

    pub(crate) fn try_workspace(&self) -> watchfire_core::Result<GitWorkspace> {
        GitWorkspace::open_with_snapshots(&self.root, &self.store, GitOptions::default())
    }

    pub(crate) fn workspace(&self) -> GitWorkspace {
        let workspace = self.try_workspace().unwrap();
        assert!(workspace.has_snapshots());
        workspace
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Runs git on the store; it must succeed. What it prints.
    pub(crate) fn git<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> String {
        crate::support::git(&self.store, args)
    }

    /// The files of the newest snapshot.
    pub(crate) fn files(&self) -> Vec<String> {
        self.git(["ls-tree", "-r", "--name-only", "-z", "main"])
            .split_terminator('\0')
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn tip(&self) -> String {
        self.git(["rev-parse", "main"]).trim().to_owned()
    }

    /// The differences of the folder from the newest snapshot, but for secrets.
    pub(crate) fn status(&self) -> String {
        let tree = self.root.to_str().unwrap();
        self.git(["--git-dir=.", "--work-tree", tree, "status", "--porcelain"]).replace("?? .env\n", "")
    }

    /// Fails unless the store is sound, and the folder has nothing of git.
    pub(crate) fn sound(&self, at: &str) {
        let fsck = crate::support::run(&self.store, ["fsck", "--full", "--strict", "--no-dangling"]);
        assert!(fsck.status.success(), "{at}: {fsck:?}");
        assert!(!self.root.join(".git").exists(), "{at}");
        assert!(!self.store.join("index.lock").exists(), "{at}: a lock is left");
        crate::half_way::nothing_of_ours(&self.root);
    }

    /// Leaves the folder there when the test ends, for another process.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.as_ref().unwrap().path().canonicalize().unwrap().join(name)
    }
}

#[tokio::test]
async fn a_plain_folder_conforms() {
    let mut failed = Vec::new();
    for case in conformance::CASES {
        let plain = Plain::new();
        if let Err(why) = case.run(&plain.workspace()).await {
            failed.push(format!("{}: {why}", case.name()));
        }
        plain.sound(case.name());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
