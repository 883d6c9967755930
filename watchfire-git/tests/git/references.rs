//! References that an agent makes: its HEAD is the work, whatever it is called, and nothing that it named vanishes.

use std::fs;

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{Isolation, OpenRequest, Published, RemoveRequest, Removed, Workspace};

use crate::support::steps::{ISOLATIONS, capture, key, open_isolated, publish};
use crate::support::{Repo, inside};

fn commit(repo: &Repo, name: &str) -> String {
    fs::write(repo.root.join(".watchfire/worktrees/0001").join(name), name).unwrap();
    inside(&repo.root, 1, ["add", "-A"]);
    inside(&repo.root, 1, ["commit", "-qm", name]);
    inside(&repo.root, 1, ["rev-parse", "HEAD"]).trim().to_owned()
}

/// Opens task 1 with a git of its own, or with the person's.
async fn opened(repo: &Repo, isolation: Isolation) -> watchfire_git::GitWorkspace {
    let workspace = repo.workspace();
    let request = OpenRequest::new(key(1), Attempt(1)).with_isolation(isolation);
    workspace.open(&request).await.unwrap();
    workspace
}

#[tokio::test]
async fn work_on_a_branch_of_any_name_is_the_work() {
    for isolation in ISOLATIONS {
        let repo = Repo::new();
        let workspace = opened(&repo, isolation).await;
        inside(&repo.root, 1, ["checkout", "-q", "-b", "feature"]);
        let made = commit(&repo, "work");
        let captured = capture(&workspace, 1).await;
        assert_eq!(captured.tip.unwrap().as_str(), made);
        assert_eq!(captured.kept, [], "nothing is left");
        assert_eq!(repo.git(["branch", "--list", "feature"]).is_empty(), isolation != Isolation::None);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert_eq!(repo.read("work"), "work");
        repo.fsck();
    }
}

#[tokio::test]
async fn commits_that_head_lacks_are_kept_and_named() {
    for isolation in ISOLATIONS {
        let repo = Repo::new();
        let workspace = opened(&repo, isolation).await;
        let first = commit(&repo, "first idea");
        inside(&repo.root, 1, ["checkout", "-q", "-b", "feature", "main"]);
        let second = commit(&repo, "second idea");
        let captured = capture(&workspace, 1).await;
        assert_eq!(captured.tip.unwrap().as_str(), second);
        let kept: Vec<_> =
            captured.kept.iter().map(|kept| (kept.name.as_str(), kept.commit.as_str())).collect();
        assert_eq!(kept, [("refs/watchfire/left/0001/heads/watchfire/0001", first.as_str())]);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert!(!repo.root.join("first idea").exists());
        // It comes back like rescued work.
        workspace.restore("refs/watchfire/left/0001/heads/watchfire/0001", "again").await.unwrap();
        assert_eq!(repo.git(["rev-parse", "again"]).trim(), first);
        repo.fsck();
    }
}

#[tokio::test]
async fn looking_back_at_an_older_commit_takes_nothing_back() {
    for isolation in ISOLATIONS {
        for place in ["HEAD~1", "main"] {
            let repo = Repo::new();
            let workspace = opened(&repo, isolation).await;
            commit(&repo, "first");
            let tip = commit(&repo, "second");
            inside(&repo.root, 1, ["checkout", "-q", "--detach", place]);
            let captured = capture(&workspace, 1).await;
            assert_eq!(captured.tip.unwrap().as_str(), tip, "{place}");
            assert_eq!(captured.kept, []);
            repo.fsck();
        }
    }
}

#[tokio::test]
async fn tags_notes_and_other_names_are_kept_under_their_names() {
    let repo = Repo::new();
    repo.git(["tag", "persons"]);
    repo.git(["branch", "theirs"]);
    let workspace = opened(&repo, Isolation::Bound).await;
    let tip = commit(&repo, "work");
    inside(&repo.root, 1, ["notes", "add", "-m", "a note"]);
    inside(&repo.root, 1, ["tag", "light"]);
    inside(&repo.root, 1, ["tag", "-am", "annotated", "v1"]);
    inside(&repo.root, 1, ["update-ref", "refs/custom/deep/x", "HEAD"]);
    inside(&repo.root, 1, ["replace", "HEAD~1", "HEAD"]);
    inside(&repo.root, 1, ["update-ref", "refs/worktree/mine", "HEAD"]);
    inside(&repo.root, 1, ["update-ref", "refs/bisect/bad", "HEAD"]);
    inside(&repo.root, 1, ["branch", "same"]);
    inside(&repo.root, 1, ["checkout", "-q", "-b", "side", "main"]);
    let side = commit(&repo, "side");
    inside(&repo.root, 1, ["branch", "-qf", "theirs", "side"]);
    inside(&repo.root, 1, ["checkout", "-q", "watchfire/0001"]);
    let names = [
        "notes/commits",
        "tags/light",
        "tags/v1",
        "custom/deep/x",
        "heads/side",
        "heads/theirs",
        "worktree/mine",
    ];
    let mut expected: Vec<_> = names.map(|name| format!("refs/watchfire/left/0001/{name}")).to_vec();
    expected.push(format!("refs/watchfire/left/0001/replace/{}", repo.git(["rev-parse", "main"]).trim()));
    // What is packed counts like what is loose.
    inside(&repo.root, 1, ["pack-refs", "--all"]);
    inside(&repo.root, 1, ["tag", "later"]);
    expected.push("refs/watchfire/left/0001/tags/later".to_owned());
    expected.sort();

    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.tip.unwrap().as_str(), tip);
    let kept: Vec<_> = captured.kept.iter().map(|kept| kept.name.clone()).collect();
    assert_eq!(kept, expected);
    assert_eq!(repo.git(["cat-file", "-t", "refs/watchfire/left/0001/tags/v1"]), "tag\n");
    assert_eq!(repo.git(["show", &format!("refs/watchfire/left/0001/notes/commits:{tip}")]), "a note\n");
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/left/0001/heads/theirs"]).trim(), side);
    assert_eq!(repo.git(["tag"]), "persons\n");
    assert_ne!(repo.git(["rev-parse", "theirs"]).trim(), side, "the person's own branch stays");
    repo.fsck();

    // A tag that moves in the next attempt: both places stay.
    open_isolated(&workspace, 1).await;
    let later = commit(&repo, "more");
    inside(&repo.root, 1, ["tag", "light"]);
    capture(&workspace, 1).await;
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/left/0001/tags/light"]).trim(), later);
    assert_eq!(repo.git(["rev-parse", &format!("refs/watchfire/left/0001/{tip}")]).trim(), tip);
    repo.fsck();
}

#[tokio::test]
async fn an_annotated_tag_keeps_nothing_from_being_removed() {
    let repo = Repo::new();
    let workspace = opened(&repo, Isolation::Bound).await;
    commit(&repo, "work");
    inside(&repo.root, 1, ["tag", "-am", "annotated", "v1"]);
    inside(&repo.root, 1, ["tag", "-am", "of a tree", "v2", "HEAD^{tree}"]);
    commit(&repo, "more than the tag has");
    let tip = capture(&workspace, 1).await.tip.unwrap();
    let removed = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(matches!(removed, Removed::Gone { rescued: Some(_), .. }), "{removed:?}");
    assert!(repo.git(["for-each-ref", "--contains", tip.as_str(), "--format=%(refname)"]).contains("rescue"));
    repo.fsck();
}

/// Tips are kept under their own names, and an agent may name a reference so.
#[tokio::test]
async fn a_reference_named_like_a_commit_replaces_no_kept_tip() {
    for below in ["", "/x"] {
        let repo = Repo::new();
        let workspace = opened(&repo, Isolation::Bound).await;
        let first = commit(&repo, "first");
        capture(&workspace, 1).await;
        inside(&repo.root, 1, ["commit", "-q", "--amend", "-m", "second"]);
        capture(&workspace, 1).await;
        let kept = format!("refs/watchfire/left/0001/{first}");
        assert_eq!(repo.git(["rev-parse", &kept]).trim(), first);

        open_isolated(&workspace, 1).await;
        let work = commit(&repo, "third");
        let planted = repo.root.join(".git/watchfire/private/0001/top/refs").join(format!("{first}{below}"));
        fs::create_dir_all(planted.parent().unwrap()).unwrap();
        fs::write(&planted, repo.git(["rev-parse", "main"])).unwrap();
        assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), work, "{below}");
        assert_eq!(repo.git(["rev-parse", &kept]).trim(), first, "{below}");
        repo.fsck();
    }
}

#[tokio::test]
async fn very_many_references_are_no_reason_to_refuse_the_work() {
    let repo = Repo::new();
    let workspace = opened(&repo, Isolation::Bound).await;
    let tip = commit(&repo, "work");
    for n in 0..150 {
        fs::write(repo.private(1).join(format!("top/refs/tags/t{n}")), &tip).unwrap();
    }
    // A name that no reference may have, a link, and what git cannot read.
    fs::write(repo.private(1).join("top/refs/tags/x..y"), &tip).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", repo.private(1).join("top/refs/tags/link")).unwrap();
    std::os::unix::fs::symlink("/", repo.private(1).join("top/refs/notes")).unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.tip.unwrap().as_str(), tip);
    assert_eq!(captured.kept.len(), 100);
    repo.fsck();
}
