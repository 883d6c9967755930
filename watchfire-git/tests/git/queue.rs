//! A held target holds publishing, and nobody's turn.

use std::fs;

use watchfire_core::workspace::{Merge, MergeRequest, PublishRequest, Published, RemoveRequest, Workspace};
use watchfire_git::GitWorkspace;

use crate::support::Repo;
use crate::support::steps::{candidate, capture, key, open, prepare};

async fn work(workspace: &GitWorkspace, n: u32, name: &str, content: &str) {
    let opened = open(workspace, n).await;
    fs::write(opened.cwd.join(name), content).unwrap();
    capture(workspace, n).await;
}

async fn attempt(workspace: &GitWorkspace, n: u32) -> Published {
    let candidate = candidate(workspace, n).await;
    workspace.publish(&candidate, &PublishRequest::default()).await.unwrap()
}

fn held() -> Repo {
    let repo = Repo::new();
    repo.write("edited", "old\n");
    repo.commit("edited");
    repo
}

#[tokio::test]
async fn what_waits_is_published_together() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    work(&workspace, 3, "third", "3\n").await;
    repo.write("edited", "mine\n");
    let main = repo.git(["rev-parse", "main"]);
    for n in [1, 2, 3] {
        assert!(matches!(attempt(&workspace, n).await, Published::Held { .. }));
    }
    // Asked again, it is the same candidate.
    let first = candidate(&workspace, 1).await;
    assert_eq!(candidate(&workspace, 1).await, first);
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    let third = candidate(&workspace, 3).await;
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/queue/main"]).trim(), third.commit.as_str());
    assert_eq!(repo.git(["rev-parse", "main"]), main);
    repo.write("edited", "old\n");
    let second = attempt(&workspace, 2).await;
    assert!(matches!(second, Published::Done { .. }), "{second:?}");
    assert_eq!((repo.read("edited"), repo.root.join("third").exists()), ("new\n".to_owned(), false));
    // The first one went along, which its task is still to hear.
    assert_eq!(candidate(&workspace, 1).await, first);
    let again = workspace.publish(&first, &PublishRequest::default()).await.unwrap();
    assert_eq!(again, Published::done(Vec::new()));
    assert!(matches!(prepare(&workspace, 1).await, Merge::Nothing));
    assert!(matches!(attempt(&workspace, 3).await, Published::Done { .. }));
    assert_eq!(repo.read("third"), "3\n");
    assert_eq!(repo.git(["for-each-ref", "refs/watchfire/queue"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    for n in 1..4 {
        let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
        assert_eq!(removed, watchfire_core::workspace::Removed::gone(None));
    }
    repo.fsck();
}

#[tokio::test]
async fn a_commit_of_the_person_voids_the_queue() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    repo.write("edited", "mine\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    let second = candidate(&workspace, 2).await;
    repo.commit("mine");
    assert_eq!(workspace.publish(&second, &PublishRequest::default()).await.unwrap(), Published::Moved);
    assert!(matches!(prepare(&workspace, 1).await, Merge::Conflicts(_)));
    assert!(matches!(attempt(&workspace, 2).await, Published::Done { .. }));
    assert_eq!((repo.read("edited"), repo.read("second")), ("mine\n".to_owned(), "2\n".to_owned()));
}

#[tokio::test]
async fn what_is_discarded_no_longer_waits() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    repo.write("edited", "mine\n");
    for n in [1, 2] {
        assert!(matches!(attempt(&workspace, n).await, Published::Held { .. }));
    }
    workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(matches!(attempt(&workspace, 2).await, Published::Done { .. }));
    assert_eq!((repo.read("edited"), repo.read("second")), ("mine\n".to_owned(), "2\n".to_owned()));
    assert_eq!(repo.git(["show", "main:edited"]), "old\n");
}

/// What a person takes back while it is held reaches the target neither by itself nor below other work.
#[tokio::test]
async fn what_is_withdrawn_no_longer_waits() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    work(&workspace, 3, "third", "3\n").await;
    repo.write("edited", "mine\n");
    for n in [1, 2] {
        assert!(matches!(attempt(&workspace, n).await, Published::Held { .. }));
    }
    // Merged onto both, and verified meanwhile.
    let (second, third) = (candidate(&workspace, 2).await, candidate(&workspace, 3).await);
    for _ in 0..2 {
        assert_eq!(workspace.withdraw(&key(1)).await.unwrap(), None);
        assert_eq!(repo.git(["for-each-ref", "refs/watchfire/queue"]), "");
    }
    repo.write("edited", "old\n");
    for outdated in [third, second] {
        let published = workspace.publish(&outdated, &PublishRequest::default()).await.unwrap();
        assert_eq!(published, Published::Moved);
    }
    for n in [3, 2] {
        assert!(matches!(attempt(&workspace, n).await, Published::Done { .. }));
    }
    assert_eq!(repo.git(["log", "--format=%s", "main", "--", "edited"]), "edited\n");
    // It is kept, and a person may merge it by name, also after git has cleaned up.
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(workspace.withdraw(&key(1)).await.unwrap(), None);
    assert!(matches!(attempt(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("edited"), "new\n");
    repo.fsck();
}

#[tokio::test]
async fn what_went_along_before_it_is_withdrawn_is_told() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    repo.write("edited", "mine\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    let first = candidate(&workspace, 1).await;
    repo.write("edited", "old\n");
    assert!(matches!(attempt(&workspace, 2).await, Published::Done { .. }));
    for _ in 0..2 {
        assert_eq!(workspace.withdraw(&key(1)).await.unwrap(), Some(first.clone()));
    }
    assert_eq!(workspace.withdraw(&key(2)).await.unwrap(), None);
}

/// A queue that a commit of the person made void would count again once the person takes the commit back.
#[tokio::test]
async fn what_is_withdrawn_from_a_void_queue_does_not_return() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    repo.write("edited", "mine\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    repo.commit("mine");
    assert_eq!(workspace.withdraw(&key(1)).await.unwrap(), None);
    repo.git(["reset", "-q", "--hard", "HEAD~1"]);
    assert!(matches!(attempt(&workspace, 2).await, Published::Done { .. }));
    assert_eq!(repo.read("edited"), "old\n");
}

/// A start keeps what its lives wait for, and nothing that an earlier program left.
#[tokio::test]
async fn only_what_is_wanted_waits_at_a_start() {
    for lost in ["life", "record", "record that can be read"] {
        let repo = held();
        let workspace = repo.workspace();
        work(&workspace, 1, "edited", "new\n").await;
        work(&workspace, 2, "second", "2\n").await;
        work(&workspace, 3, "third", "3\n").await;
        repo.write("edited", "mine\n");
        for n in [1, 2] {
            assert!(matches!(attempt(&workspace, n).await, Published::Held { .. }));
        }
        let queue = || repo.git(["for-each-ref", "refs/watchfire/queue"]);
        let before = queue();
        workspace.withdraw_others(&[key(1), key(2), key(3)]).await.unwrap();
        assert_eq!(queue(), before);
        let record = repo.root.join(".git/watchfire/work/0002.json");
        match lost {
            "life" => workspace.withdraw_others(&[key(2), key(3)]).await.unwrap(),
            "record" => {
                fs::remove_file(record).unwrap();
                workspace.withdraw_others(&[key(1), key(3)]).await.unwrap();
            }
            _ => {
                fs::write(record, "{").unwrap();
                workspace.withdraw_others(&[key(1), key(2), key(3)]).await.unwrap();
            }
        }
        assert_eq!(queue(), "", "{lost}");
        repo.write("edited", "old\n");
        assert!(matches!(attempt(&workspace, 3).await, Published::Done { .. }));
        assert_eq!((repo.read("edited"), repo.root.join("second").exists()), ("old\n".to_owned(), false));
        workspace.withdraw_others(&[]).await.unwrap();
    }
}

/// A kill between the two writes of a hold leaves work in the queue that no record knows.
#[tokio::test]
async fn work_that_waits_without_a_record_is_merged_again() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    repo.write("edited", "mine\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    let path = repo.root.join(".git/watchfire/work/0001.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(!record.as_object_mut().unwrap().remove("queued").unwrap().is_null());
    fs::write(&path, record.to_string()).unwrap();
    assert!(matches!(prepare(&workspace, 1).await, Merge::Ready(_)), "it is not in the target yet");
    assert!(matches!(attempt(&workspace, 2).await, Published::Done { .. }));
    assert_eq!(repo.git(["show", "main:edited"]), "old\n", "nobody publishes it in passing");
    repo.write("edited", "old\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Done { .. }));
    assert_eq!((repo.read("edited"), repo.read("second")), ("new\n".to_owned(), "2\n".to_owned()));
}

#[tokio::test]
async fn work_that_changed_is_merged_again() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    repo.write("edited", "mine\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Held { .. }));
    work(&workspace, 1, "edited", "newer\n").await;
    repo.write("edited", "old\n");
    assert!(matches!(attempt(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("edited"), "newer\n");
}

/// What was merged and verified together waits together, each by itself, and is published as one.
#[tokio::test]
async fn a_stack_that_is_held_waits_as_one() {
    let repo = held();
    let workspace = repo.workspace();
    work(&workspace, 1, "edited", "new\n").await;
    work(&workspace, 2, "second", "2\n").await;
    work(&workspace, 3, "third", "3\n").await;
    let first = candidate(&workspace, 1).await;
    let request = |n| MergeRequest::new(key(n), "main", "merge");
    let onto = async |n, below| match workspace.prepare_merge(&request(n).with_onto(below)).await.unwrap() {
        Merge::Ready(candidate) => candidate,
        other => panic!("{other:?}"),
    };
    let second = onto(2, first.clone()).await;
    let third = onto(3, second.clone()).await;
    repo.write("edited", "mine\n");
    // The topmost first, then the others are told.
    for candidate in [&third, &first, &second] {
        let published = workspace.publish(candidate, &PublishRequest::default()).await.unwrap();
        assert!(matches!(published, Published::Held { .. }), "{published:?}");
    }
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/queue/main"]).trim(), third.commit.as_str());
    for (n, waits) in [(1, &first), (2, &second), (3, &third)] {
        assert_eq!(candidate(&workspace, n).await, *waits);
    }
    // Another one is merged onto all of them.
    work(&workspace, 4, "fourth", "4\n").await;
    let fourth = candidate(&workspace, 4).await;
    repo.write("edited", "old\n");
    for candidate in [&fourth, &first, &second, &third] {
        let published = workspace.publish(candidate, &PublishRequest::default()).await.unwrap();
        assert!(matches!(published, Published::Done { .. }), "{published:?}");
    }
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.git(["log", "--merges", "--format=%s", "main"]).lines().count(), 4);
    for n in 1..5 {
        let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
        assert_eq!(removed, watchfire_core::workspace::Removed::gone(None));
    }
    // A person who commits first makes the whole stack void.
    let fifth = {
        work(&workspace, 5, "fifth", "5\n").await;
        candidate(&workspace, 5).await
    };
    work(&workspace, 6, "sixth", "6\n").await;
    let sixth = onto(6, fifth.clone()).await;
    repo.write("mine", "mine\n");
    repo.commit("mine");
    for candidate in [&sixth, &fifth] {
        let published = workspace.publish(candidate, &PublishRequest::default()).await.unwrap();
        assert_eq!(published, Published::Moved);
    }
    repo.fsck();
}
