//! Work in several repositories at once.

mod kills;
mod stories;
mod undo;
mod wrong;

use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    Candidate, CaptureRequest, Captured, Merge, MergeRequest, OpenRequest, Opened, PublishRequest, Published,
    Workspace, conformance,
};
use watchfire_git::{GitOptions, JointWorkspace};

use crate::support::steps::key;
use crate::support::{Repo, git};

/// A project, and two repositories beside it.
pub(crate) struct World {
    pub(crate) app: Repo,
    pub(crate) lib: PathBuf,
    pub(crate) site: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let app = Repo::new();
        let beside = |name: &str| {
            let root = app.beside(name);
            fs::create_dir_all(&root).unwrap();
            git(&root, ["init", "-q", "-b", "main"]);
            git(&root, ["config", "user.name", "A Person"]);
            git(&root, ["config", "user.email", "person@example.org"]);
            // It is no project, and need not ignore anything of ours.
            fs::write(root.join("text"), format!("{name}\n")).unwrap();
            git(&root, ["add", "-A"]);
            git(&root, ["commit", "-qm", "first"]);
            root
        };
        Self { lib: beside("lib"), site: beside("site"), app }
    }

    /// One that is there already, made by another process.
    pub(crate) fn existing(app: PathBuf) -> Self {
        let beside = |name| app.with_file_name(name);
        Self { lib: beside("lib"), site: beside("site"), app: Repo::existing(app.clone()) }
    }

    pub(crate) fn workspace(&self) -> JointWorkspace {
        open_joint(&self.app.root, &["../lib", "../site"])
    }

    pub(crate) fn roots(&self) -> [&Path; 3] {
        [&self.app.root, &self.lib, &self.site]
    }

    /// The tip of `main` in each repository.
    pub(crate) fn tips(&self) -> [String; 3] {
        self.roots().map(|root| git(root, ["rev-parse", "main"]).trim().to_owned())
    }

    /// Fails unless every repository is sound, and nothing is changed in its checkout.
    pub(crate) fn sound(&self, at: &str) {
        for root in self.roots() {
            let fsck = crate::support::run(root, ["fsck", "--full", "--strict", "--no-dangling"]);
            assert!(fsck.status.success(), "{at}: {fsck:?}");
            assert_eq!(git(root, ["status", "--porcelain"]), "", "{at}: {}", root.display());
            crate::half_way::nothing_of_ours(root);
        }
    }
}

pub(crate) fn open_joint(root: &Path, others: &[&str]) -> JointWorkspace {
    let others: Vec<_> = others.iter().map(PathBuf::from).collect();
    JointWorkspace::open(root, GitOptions::default(), &others).unwrap()
}

pub(crate) async fn open(workspace: &JointWorkspace, n: u32) -> Opened {
    workspace.open(&OpenRequest::new(key(n), Attempt(1))).await.unwrap()
}

pub(crate) async fn capture(workspace: &JointWorkspace, n: u32) -> Captured {
    workspace.capture(&CaptureRequest::new(key(n), "captured")).await.unwrap()
}

pub(crate) async fn prepare(workspace: &JointWorkspace, n: u32) -> Merge {
    let request = MergeRequest::new(key(n), "main", format!("merge {n}"));
    workspace.prepare_merge(&request).await.unwrap()
}

pub(crate) async fn candidate(workspace: &JointWorkspace, n: u32) -> Candidate {
    match prepare(workspace, n).await {
        Merge::Ready(candidate) => candidate,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn publish(workspace: &JointWorkspace, candidate: &Candidate) -> Published {
    workspace.publish(candidate, &PublishRequest::default()).await.unwrap()
}

/// Opens a task and changes a file in each of the first `repositories`.
pub(crate) async fn work(workspace: &JointWorkspace, n: u32, repositories: usize) -> Opened {
    let opened = open(workspace, n).await;
    let folders = [opened.cwd.clone()].into_iter().chain(opened.others.iter().map(|part| part.cwd.clone()));
    for folder in folders.take(repositories) {
        fs::write(folder.join(format!("new {n}")), format!("work {n}\n")).unwrap();
    }
    capture(workspace, n).await;
    opened
}

#[tokio::test]
async fn several_repositories_conform() {
    let mut failed = Vec::new();
    for case in conformance::CASES {
        let world = World::new();
        if let Err(why) = case.run(&world.workspace()).await {
            failed.push(format!("{}: {why}", case.name()));
        }
        world.app.fsck();
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
