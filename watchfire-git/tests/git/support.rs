//! Real repositories in temporary folders, made and judged by the real git with nobody's configuration.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use watchfire_core::workspace::conformance;
use watchfire_git::{GitOptions, GitWorkspace};

/// A repository with one commit.
pub(crate) struct Repo {
    folder: TempDir,
    pub(crate) root: PathBuf,
}

impl Repo {
    /// With the file that the conformance suite wants.
    pub(crate) fn new() -> Self {
        let repo = Self::empty();
        repo.write(conformance::FILE, conformance::CONTENT);
        repo.write(".gitignore", ".watchfire/\nignored/\n");
        repo.git(["add", "-A"]);
        repo.git(["commit", "-qm", "first"]);
        repo
    }

    /// Without a commit.
    pub(crate) fn empty() -> Self {
        Self::named("project")
    }

    /// In a folder of this name.
    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&root).unwrap();
        let repo = Self { folder, root };
        repo.git(["init", "-q", "-b", "main"]);
        repo.git(["config", "user.name", "A Person"]);
        repo.git(["config", "user.email", "person@example.org"]);
        repo
    }

    /// One that is there already, made by another process.
    pub(crate) fn existing(root: PathBuf) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), root }
    }

    pub(crate) fn workspace(&self) -> GitWorkspace {
        GitWorkspace::open(&self.root, GitOptions::default()).unwrap()
    }

    /// A path beside the project.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Runs git in the root; it must succeed. What it prints.
    pub(crate) fn git<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> String {
        git(&self.root, args)
    }

    /// Where the private copies of task `n` are, if it has any.
    pub(crate) fn private(&self, n: u32) -> PathBuf {
        private(&self.root, n)
    }

    /// Commits everything.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(["add", "-A"]);
        self.git(["commit", "-qm", message]);
        self.git(["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Fails unless the repository is sound.
    pub(crate) fn fsck(&self) {
        let output = run(&self.root, ["fsck", "--full", "--strict", "--no-dangling"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Runs git in `folder`; it must succeed. What it prints.
pub(crate) fn git<I: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = I>) -> String {
    let output = run(folder, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs git in `folder` with nobody's configuration.
pub(crate) fn run<I: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = I>) -> Output {
    command(folder, args).output().unwrap()
}

fn command<I: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

fn private(root: &Path, n: u32) -> PathBuf {
    root.join(format!(".git/watchfire/private/{n:04}"))
}

/// Runs git in the folder of task `n` as its sandbox would: on the private copies, if it has any.
pub(crate) fn run_inside<I: AsRef<OsStr>>(root: &Path, n: u32, args: impl IntoIterator<Item = I>) -> Output {
    let (folder, git) = (root.join(format!(".watchfire/worktrees/{n:04}")), root.join(".git"));
    let private = private(root, n);
    // A folder may lead to its copies.
    let pointer = fs::read_to_string(folder.join(".git")).unwrap_or_default();
    if !private.is_dir() || pointer.contains("/watchfire/private/") {
        return run(&folder, args);
    }
    // The view that binds would make, of links.
    let view = root.with_file_name(format!("view-{n}"));
    _ = fs::remove_dir_all(&view);
    let link_all = |from: &Path, to: &Path, own: &[&str]| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            if own.iter().all(|own| entry.file_name() != *own) {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    let admin = format!("watchfire-{n:04}");
    link_all(&git, &view, &["refs", "logs", "objects", "worktrees", "packed-refs", "watchfire"]);
    link_all(&git.join("worktrees"), &view.join("worktrees"), &[&admin]);
    for (name, copy) in [
        ("refs", "top/refs"),
        ("logs", "top/logs"),
        ("packed-refs", "top/packed-refs"),
        ("objects", "objects"),
        (&format!("worktrees/{admin}"), "admin"),
    ] {
        symlink(private.join(copy), view.join(name)).unwrap();
    }
    // By a link, `../..` would lead elsewhere.
    fs::write(private.join("admin/commondir"), view.as_os_str().as_encoded_bytes()).unwrap();
    let output = command(&folder, args)
        .env("GIT_DIR", view.join(format!("worktrees/watchfire-{n:04}")))
        .env("GIT_WORK_TREE", &folder)
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", git.join("objects"))
        .output();
    output.unwrap()
}

/// The same; it must succeed. What it prints.
pub(crate) fn inside<I: AsRef<OsStr>>(root: &Path, n: u32, args: impl IntoIterator<Item = I>) -> String {
    let who = ["-c", "user.name=An Agent", "-c", "user.email=agent@example.org"].map(OsStr::new);
    let args: Vec<_> = args.into_iter().collect();
    let output = run_inside(root, n, who.into_iter().chain(args.iter().map(AsRef::as_ref)));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The usual way of a task, step by step; every step must succeed.
pub(crate) mod steps {
    use watchfire_core::model::{Attempt, TaskNumber};
    use watchfire_core::workspace::{
        Candidate, CaptureRequest, Captured, Isolation, Merge, MergeRequest, OpenRequest, Opened,
        PublishRequest, Published, Workspace, WorkspaceKey,
    };
    use watchfire_git::GitWorkspace;

    pub(crate) fn key(n: u32) -> WorkspaceKey {
        TaskNumber::new(n).unwrap().into()
    }

    pub(crate) async fn open(workspace: &GitWorkspace, n: u32) -> Opened {
        workspace.open(&OpenRequest::new(key(n), Attempt(1))).await.unwrap()
    }

    /// Each of them.
    pub(crate) const ISOLATIONS: [Isolation; 3] = [Isolation::None, Isolation::Bound, Isolation::Linked];

    pub(crate) async fn open_isolated(workspace: &GitWorkspace, n: u32) -> Opened {
        let request = OpenRequest::new(key(n), Attempt(1)).with_isolation(Isolation::Bound);
        workspace.open(&request).await.unwrap()
    }

    pub(crate) async fn capture(workspace: &GitWorkspace, n: u32) -> Captured {
        workspace.capture(&CaptureRequest::new(key(n), "captured")).await.unwrap()
    }

    pub(crate) async fn prepare(workspace: &GitWorkspace, n: u32) -> Merge {
        workspace.prepare_merge(&MergeRequest::new(key(n), "main", "merge")).await.unwrap()
    }

    pub(crate) async fn candidate(workspace: &GitWorkspace, n: u32) -> Candidate {
        match prepare(workspace, n).await {
            Merge::Ready(candidate) => candidate,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn publish(workspace: &GitWorkspace, n: u32) -> Published {
        let candidate = candidate(workspace, n).await;
        workspace.publish(&candidate, &PublishRequest::default()).await.unwrap()
    }
}
