//! What the person's git runs or obeys stays as it was for as long as a session works in the root.

use std::fs;
use std::path::Path;

use watchfire_core::model::SessionId;
use watchfire_core::sandbox::RuleAccess;
use watchfire_core::workspace::{MergeGuard, Opened, Workspace};

use crate::guests::Guest;
use crate::support::{Repo, git};

async fn enter(repo: &Repo) -> (SessionId, Opened) {
    let session = SessionId::random();
    let opened = repo.workspace().enter(&session, true, &MergeGuard::default()).await.unwrap();
    (session, opened)
}

fn is_kept(opened: &Opened, path: &Path) -> bool {
    opened.policy_rules.iter().any(|rule| rule.path == path && rule.access == RuleAccess::Read)
}

/// Adds a submodule to the index of a repository, without a checkout.
fn link(at: &Path, path: &str) {
    let entry = format!("160000,{},{path}", git(at, ["rev-parse", "HEAD"]).trim());
    git(at, ["update-index", "--add", "--cacheinfo", &entry]);
}

/// A folder that appears later could bring hooks, or a repository, by one rename.
#[tokio::test]
async fn missing_places_are_made_and_go_again() {
    let repo = Repo::new();
    link(&repo.root, "vendor/lib");
    repo.git(["config", "core.hooksPath", "tools/git/hooks"]);
    let (session, opened) = enter(&repo).await;
    for place in ["vendor/lib", "tools/git/hooks"].map(|place| repo.root.join(place)) {
        assert!(is_kept(&opened, &place) && place.is_dir(), "{}", place.display());
    }
    // The person uses one of them meanwhile.
    repo.write("tools/git/hooks/pre-push", "#!/bin/sh\n");
    repo.workspace().leave(&session).await.unwrap();
    assert!(!repo.root.join("vendor").exists());
    assert!(repo.root.join("tools/git/hooks/pre-push").exists());
}

#[tokio::test]
async fn submodules_of_submodules_are_kept() {
    let repo = Repo::new();
    let other = repo.beside("other");
    git(&repo.beside(""), ["clone", "-q", "project", "other"]);
    link(&other, "inner");
    git(&other, ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "inner"]);
    repo.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        other.to_str().unwrap(),
        "sub",
    ]);
    repo.commit("sub");
    let (_, opened) = enter(&repo).await;
    for place in ["sub/.git", "sub/inner"] {
        assert!(is_kept(&opened, &repo.root.join(place)), "{place}: {:?}", opened.policy_rules);
    }
}

#[tokio::test]
async fn what_the_configuration_leads_to_is_kept() {
    let repo = Repo::new();
    repo.write(".gitconfig", "[core]\n\tpager = cat\n");
    repo.write("scripts/fsm", "#!/bin/sh\n");
    repo.commit("files");
    repo.git(["config", "include.path", "../.gitconfig"]);
    repo.git(["config", "core.fsmonitor", "./scripts/fsm"]);
    let (_, opened) = enter(&repo).await;
    for place in [".gitconfig", "scripts/fsm"] {
        assert!(is_kept(&opened, &repo.root.join(place)), "{place}");
    }
}

/// The session has made a repository before the person's index makes a submodule of its place.
#[tokio::test]
async fn a_repository_at_a_new_submodule_goes_with_the_next_exchange() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    let late = repo.root.join("late");
    fs::create_dir(&late).unwrap();
    git(&late, ["init", "-q"]);
    git(&late, ["config", "core.fsmonitor", "false"]);
    assert_eq!(guest.exchange().await, [""; 0]);
    assert!(late.join(".git").exists(), "nothing of the person's looks into it");
    link(&repo.root, "late");
    let told = guest.exchange().await;
    assert!(matches!(&told[..], [told] if told.contains("which could run commands")), "{told:?}");
    assert!(!late.join(".git").exists());
    // Made after that.
    git(&late, ["init", "-q"]);
    git(&late, ["config", "core.fsmonitor", "false"]);
    assert_eq!(guest.exchange().await.len(), 1);
    assert!(!late.join(".git").exists());
    guest.leave().await;
}
