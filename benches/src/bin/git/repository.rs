//! A repository to measure in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Signature};
use watchfire_core::model::TaskNumber;
use watchfire_core::workspace::WorkspaceKey;
use watchfire_git::{GitOptions, GitWorkspace};

pub(crate) type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Number of files that one change touches.
const CHANGED: usize = 10;

/// A repository whose `main` is checked out nowhere.
pub(crate) struct Repository {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) files: usize,
    pub(crate) workspace: GitWorkspace,
    git: git2::Repository,
}

impl Repository {
    /// Creates one with `files` files in the folder `place`.
    pub(crate) fn new(place: &Path, files: usize) -> Done<Self> {
        fs::create_dir_all(place)?;
        let folder = tempfile::tempdir_in(place)?;
        let root = folder.path().canonicalize()?.join("project");
        fs::create_dir(&root)?;
        git(&root, &["init", "-q", "-b", "main"])?;
        git(&root, &["config", "user.name", "bench"])?;
        git(&root, &["config", "user.email", "bench@example.invalid"])?;
        for n in 0..files {
            let path = root.join(name(n));
            fs::create_dir_all(path.parent().unwrap_or(&root))?;
            fs::write(path, format!("file {n}\n{}", "some text\n".repeat(n % 50)))?;
        }
        fs::write(root.join(".gitignore"), ".watchfire/\n")?;
        git(&root, &["add", "-A"])?;
        git(&root, &["commit", "-qm", "first"])?;
        git(&root, &["gc", "-q"])?;
        git(&root, &["checkout", "-q", "--detach"])?;
        let workspace = GitWorkspace::open(&root, GitOptions::default().with_default_branch("main"))?;
        let git = git2::Repository::open(&root)?;
        Ok(Self { folder, root, files, workspace, git })
    }

    /// Number of times that each pair is measured.
    pub(crate) fn rounds(&self) -> usize {
        match self.files {
            0..1_000 => 15,
            1_000..50_000 => 5,
            _ => 3,
        }
    }

    pub(crate) fn git(&self, args: &[&str]) -> Done<String> {
        git(&self.root, args)
    }

    pub(crate) fn tip(&self, name: &str) -> Done<Oid> {
        Ok(self.git.refname_to_id(name)?)
    }

    /// Returns the `round`th change of this `kind`, as names and contents. Different kinds change different files.
    pub(crate) fn change(&self, kind: usize, round: usize) -> Vec<(String, String)> {
        let step = self.files / CHANGED;
        (0..CHANGED).map(|n| (name(n * step + kind), format!("change {round} of kind {kind}\n"))).collect()
    }

    /// Makes such a change in a folder.
    pub(crate) fn edit(&self, folder: &Path, kind: usize, round: usize) -> Done {
        for (name, content) in self.change(kind, round) {
            fs::write(folder.join(name), content)?;
        }
        Ok(())
    }

    /// Commits such a change on top of `onto`; no reference moves.
    pub(crate) fn commit(&self, onto: Oid, kind: usize, round: usize) -> Done<Oid> {
        self.commit_in(&self.git, onto, kind, round)
    }

    /// Like [`Self::commit`], in another repository that has the objects of this one.
    pub(crate) fn commit_in(
        &self,
        git: &git2::Repository,
        onto: Oid,
        kind: usize,
        round: usize,
    ) -> Done<Oid> {
        let parent = git.find_commit(onto)?;
        let mut update = TreeUpdateBuilder::new();
        for (name, content) in self.change(kind, round) {
            update.upsert(name, git.blob(content.as_bytes())?, FileMode::Blob);
        }
        let tree = git.find_tree(update.create_updated(git, &parent.tree()?)?)?;
        let who = Signature::now("bench", "bench@example.invalid")?;
        Ok(git.commit(None, &who, &who, "change", &tree, &[&parent])?)
    }

    /// Commits `count` new files below `folder` on top of `onto`; no reference moves.
    pub(crate) fn add(&self, onto: Oid, folder: &str, count: usize) -> Done<Oid> {
        let parent = self.git.find_commit(onto)?;
        let mut update = TreeUpdateBuilder::new();
        for n in 0..count {
            let content = format!("{folder} {n}\n{}", "some text\n".repeat(n % 50));
            let blob = self.git.blob(content.as_bytes())?;
            update.upsert(format!("{folder}/d{}/f{n}", n / 100), blob, FileMode::Blob);
        }
        let tree = self.git.find_tree(update.create_updated(&self.git, &parent.tree()?)?)?;
        let who = Signature::now("bench", "bench@example.invalid")?;
        Ok(self.git.commit(None, &who, &who, "many", &tree, &[&parent])?)
    }

    /// Makes, or moves, a reference.
    pub(crate) fn set(&self, name: &str, to: Oid) -> Done {
        self.git.reference(name, to, true, "bench")?;
        Ok(())
    }

    /// Moves `main` on by such a change.
    pub(crate) fn move_main(&self, kind: usize, round: usize) -> Done<Oid> {
        let moved = self.commit(self.tip("refs/heads/main")?, kind, round)?;
        self.set("refs/heads/main", moved)?;
        Ok(moved)
    }
}

/// The `n`th file.
pub(crate) fn name(n: usize) -> String {
    format!("d{}/d{}/f{n}", n / 1000, n / 30 % 33)
}

/// The `n`th task.
pub(crate) fn key(n: usize) -> Done<WorkspaceKey> {
    Ok(TaskNumber::try_from(u32::try_from(n)?)?.into())
}

/// Runs git in a folder and returns its output.
pub(crate) fn git(folder: &Path, args: &[&str]) -> Done<String> {
    git_with(folder, args, &[])
}

/// Like [`git`], with more environment variables.
pub(crate) fn git_with(folder: &Path, args: &[&str], env: &[(&str, &Path)]) -> Done<String> {
    let output = Command::new("git")
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.hooksPath=/dev/null"])
        .args(args)
        .current_dir(folder)
        .envs(env.iter().copied())
        .output()?;
    if !output.status.success() {
        return Err(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
