//! Taking back what was merged.

use watchfire_core::ErrorKind;
use watchfire_core::model::MergeStrategy;
use watchfire_core::workspace::{
    CaptureRequest, Commit, Merge, MergeRequest, RemoveRequest, RevertRequest, Reverted, Workspace as _,
};
use watchfire_git::GitWorkspace;

use crate::support::Repo;
use crate::support::steps::{key, open};

async fn merged(workspace: &GitWorkspace, n: u32, strategy: MergeStrategy) -> Commit {
    let request = MergeRequest::new(key(n), "main", format!("merge {n}")).with_strategy(strategy);
    let Merge::Ready(candidate) = workspace.prepare_merge(&request).await.unwrap() else { panic!("{n}") };
    workspace.publish(&candidate, &Default::default()).await.unwrap();
    candidate.commit
}

fn taking_back(n: u32, of: u32, commit: &Commit) -> RevertRequest {
    RevertRequest::new(key(n), key(of), commit.clone(), "main", "undo")
}

/// All commits of the work, however it was merged, and nothing of what was there before or came later.
#[tokio::test]
async fn work_of_every_strategy_is_taken_back() {
    for strategy in
        [MergeStrategy::Merge, MergeStrategy::Squash, MergeStrategy::Rebase, MergeStrategy::FastForwardOnly]
    {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        for name in ["one", "two"] {
            std::fs::write(opened.cwd.join(name), "work\n").unwrap();
            workspace.capture(&CaptureRequest::new(key(1), name)).await.unwrap();
        }
        if strategy != MergeStrategy::FastForwardOnly {
            repo.write("theirs", "theirs\n");
            repo.commit("theirs");
        }
        let before = repo.git(["ls-tree", "-r", "--name-only", "main"]);
        let commit = merged(&workspace, 1, strategy).await;
        workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
        let reverted = workspace.revert(&taking_back(2, 1, &commit)).await.unwrap();
        assert!(matches!(reverted, Reverted::Done(_)), "{strategy:?}: {reverted:?}");
        // Work that came meanwhile.
        repo.write("later", "later\n");
        repo.commit("later");
        merged(&workspace, 2, MergeStrategy::Merge).await;
        let after = repo.git(["ls-tree", "-r", "--name-only", "main"]);
        assert_eq!(after.replace("later\n", ""), before, "{strategy:?}");
        assert!(after.contains("later\n") && repo.git(["status", "--porcelain"]).is_empty(), "{strategy:?}");
        let again = workspace.revert(&taking_back(3, 1, &commit)).await.unwrap();
        assert_eq!(again, Reverted::Nothing, "{strategy:?}");
        repo.fsck();
    }
}

#[tokio::test]
async fn what_cannot_be_taken_back_leaves_nothing() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let mut commits = Vec::new();
    for n in 1..=2 {
        let opened = open(&workspace, n).await;
        std::fs::write(opened.cwd.join("shared"), format!("{n}\n")).unwrap();
        workspace.capture(&CaptureRequest::new(key(n), "work")).await.unwrap();
        commits.push(merged(&workspace, n, MergeStrategy::Merge).await);
    }
    let refs = repo.git(["for-each-ref"]);
    let conflict = workspace.revert(&taking_back(3, 1, &commits[0])).await.unwrap();
    let Reverted::Conflicts(files) = conflict else { panic!("{conflict:?}") };
    assert_eq!(files.iter().map(ToString::to_string).collect::<Vec<_>>(), ["shared"]);
    // A commit that no record names, with one parent: it may be one of several.
    let first = Commit::new(repo.git(["rev-list", "--max-parents=0", "main"]).trim());
    let unknown = workspace.revert(&taking_back(3, 1, &first)).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotSupported);
    repo.git(["checkout", "-q", "-b", "elsewhere", first.as_str()]);
    let mut elsewhere = taking_back(3, 1, &commits[0]);
    elsewhere.target = "elsewhere".to_owned();
    assert_eq!(workspace.revert(&elsewhere).await.unwrap_err().kind(), ErrorKind::NotFound);
    let taken = workspace.revert(&taking_back(2, 1, &commits[0])).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    repo.git(["checkout", "-q", "main"]);
    repo.git(["branch", "-D", "elsewhere"]);
    assert_eq!(repo.git(["for-each-ref"]), refs);
}
