//! What a session in the root makes and its person must not get: whatever their git would run, and what they protect.

use std::fs;
use std::path::Path;

use watchfire_core::model::SessionId;
use watchfire_core::sandbox::RuleAccess;
use watchfire_core::workspace::{MergeGuard, Workspace};

use crate::guests::Guest;
use crate::support::{Repo, git};

/// Makes a repository whose status runs a command, as a guest may below the root.
fn evil(repo: &Repo, at: &str) {
    let folder = repo.root.join(at);
    fs::create_dir_all(&folder).unwrap();
    git(&folder, ["init", "-q"]);
    git(&folder, ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "s"]);
}

fn arm(repo: &Repo, at: &str) {
    let command = format!("touch '{}'; false", canary(repo).display());
    git(&repo.root.join(at), ["config", "core.fsmonitor", &command]);
}

fn canary(repo: &Repo) -> std::path::PathBuf {
    repo.root.parent().unwrap().join("ran")
}

fn links(repo: &Repo) -> bool {
    repo.git(["ls-files", "-s"]).lines().any(|line| line.starts_with("160000"))
}

#[tokio::test]
async fn a_stash_brings_no_submodule() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    evil(&repo, "sub");
    repo.write("staged", "x");
    guest.git(&["add", "sub", "staged"]);
    guest.git(&["stash", "-q"]);
    evil(&repo, "sub");
    arm(&repo, "sub");
    let told = guest.exchange().await.join("\n");
    assert!(
        told.contains("stash of the chat is not taken over (a chat cannot add the submodule sub"),
        "{told}"
    );
    assert_eq!(repo.git(["stash", "list"]), "");
    let kept = format!("refs/watchfire/left/chat/{}/", guest.session);
    assert_eq!(repo.git(["for-each-ref", "--format=%(refname)", &kept]).lines().count(), 1);
    assert_eq!(guest.exchange().await, [""; 0]);
    repo.git(["status"]);
    assert!(!canary(&repo).exists() && !links(&repo));
    guest.leave().await;
}

/// The branch is the person's own, the repository at the place of its submodule is not.
#[tokio::test]
async fn an_own_branch_with_a_submodule_is_not_switched_to() {
    for by in [["checkout", "-q", "feature"], ["merge", "--ff-only", "feature"]] {
        let repo = Repo::new();
        repo.git(["branch", "feature"]);
        repo.git(["checkout", "-q", "feature"]);
        evil(&repo, "sub");
        repo.git(["add", "sub"]);
        repo.git(["commit", "-qm", "sub"]);
        repo.git(["checkout", "-q", "main"]);
        _ = fs::remove_dir_all(repo.root.join("sub"));
        let before = repo.git(["rev-parse", "HEAD", "--symbolic-full-name", "HEAD"]);
        let guest = Guest::enter(&repo).await;
        guest.git(&by);
        evil(&repo, "sub");
        arm(&repo, "sub");
        let told = guest.exchange().await.join("\n");
        assert!(told.contains("submodule sub"), "{by:?}: {told}");
        assert_eq!(repo.git(["rev-parse", "HEAD", "--symbolic-full-name", "HEAD"]), before, "{by:?}");
        repo.git(["status"]);
        assert!(!canary(&repo).exists() && !links(&repo), "{by:?}");
        guest.leave().await;
    }
}

/// References that stay with the guest, and those under which something was kept, hide no commit.
#[tokio::test]
async fn what_a_guest_names_itself_is_no_less_new() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    evil(&repo, "sub");
    guest.git(&["checkout", "-q", "--detach"]);
    guest.git(&["add", "sub"]);
    guest.git(&["commit", "-qm", "sub"]);
    guest.git(&["update-ref", "refs/remotes/origin/z", "HEAD"]);
    let link = guest.git(&["rev-parse", "HEAD"]).trim().to_owned();
    guest.git(&["checkout", "-q", "main"]);
    guest.exchange().await;
    arm(&repo, "sub");
    for name in ["first", "second"] {
        guest.git(&["checkout", "-q", "-B", name, &link]);
        let told = guest.exchange().await.join("\n");
        assert!(told.contains("submodule sub"), "{name}: {told}");
        assert_eq!(repo.git(["branch", "--list", name]), "");
    }
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim(), "refs/heads/main");
    repo.git(["status"]);
    assert!(!canary(&repo).exists() && !links(&repo));
    guest.leave().await;
}

/// The files are read-only in its sandbox. Git needs no files for a commit.
#[tokio::test]
async fn commits_change_neither_hooks_nor_protected_paths() {
    let repo = Repo::new();
    repo.git(["config", "core.hooksPath", "hooks"]);
    for path in ["hooks/post-checkout", "ci/deploy", "free"] {
        repo.write(path, "old");
    }
    repo.git(["add", "-A"]);
    repo.git(["commit", "-qm", "files"]);
    let before = repo.git(["rev-parse", "HEAD"]);
    let guard = MergeGuard::default().with_protected(vec!["ci/".to_owned()]).with_wiring(true);
    let guest = Guest::enter_guarded(&repo, &guard).await;
    repo.write("free", "new");
    let blob = guest.git(&["hash-object", "-w", "free"]);
    let entry = |path: &str| format!("100755,{},{path}", blob.trim());
    for (branch, path) in
        [("a", "hooks/post-checkout"), ("b", "ci/deploy"), ("c", "CI/new"), ("d", ".gitmodules")]
    {
        guest.git(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")]);
        guest.git(&["update-ref", "HEAD", before.trim()]);
        guest.git(&["update-index", "--add", "--cacheinfo", &entry(path)]);
        guest.git(&["commit", "-qm", path]);
        // What comes later has it as well.
        guest.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
        guest.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        guest.git(&["reset", "-q"]);
        let told = guest.exchange().await.join("\n");
        assert!(
            told.contains(&format!("refs/heads/{branch} of the chat is not taken over (it changes")),
            "{told}"
        );
        assert!(told.contains(path), "{told}");
        assert_eq!(repo.git(["branch", "--list", branch]), "");
        let kept = format!("refs/watchfire/left/chat/{}/heads/{branch}", guest.session);
        assert_eq!(repo.git(["log", "--format=%s", "-1", &kept]).trim(), "later");
    }
    guest.git(&["commit", "-qam", "free"]);
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!(repo.git(["log", "--format=%s", "-1"]).trim(), "free");
    guest.leave().await;
    let out = MergeGuard::default().with_protected(vec!["../x".to_owned()]);
    let error = repo.workspace().enter(&SessionId::random(), true, &out).await.unwrap_err();
    assert_eq!(error.kind(), watchfire_core::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn repositories_and_hooks_of_the_persons_are_read_only() {
    let repo = Repo::new();
    repo.git(["config", "core.hooksPath", ".githooks/_"]);
    evil(&repo, "libs/own");
    repo.git(["worktree", "add", "-q", "linked"]);
    git(&repo.root, ["init", "-q", "--bare", "bare"]);
    let opened = repo.workspace().enter(&SessionId::random(), true, &MergeGuard::default()).await.unwrap();
    for path in [".githooks", "libs/own/.git", "linked/.git", "bare"] {
        let rule = opened.policy_rules.iter().find(|rule| rule.path == repo.root.join(path));
        assert_eq!(rule.map(|rule| rule.access), Some(RuleAccess::Read), "{path}: {:?}", opened.policy_rules);
    }
    let is_git = |path: &Path| path == repo.root.join(".git");
    assert!(!opened.policy_rules.iter().any(|rule| is_git(&rule.path)), "{:?}", opened.policy_rules);
}

/// Git takes a folder for a repository, too, if another one has its objects and references.
#[tokio::test]
async fn a_repository_in_two_parts_is_set_aside() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    for folder in ["x/objects", "x/refs"] {
        fs::create_dir_all(repo.root.join(folder)).unwrap();
    }
    repo.write("hand/HEAD", "ref: refs/heads/main\n");
    repo.write("hand/commondir", "../x\n");
    repo.write("x/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n");
    let told = guest.leave().await.join("\n");
    assert!(told.contains("hand/HEAD, which could run commands: it was moved"), "{told}");
    assert!(!repo.root.join("hand/HEAD").exists());
}
