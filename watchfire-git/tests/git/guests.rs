//! Sessions in the root: both sides work on one checkout with repositories of their own, and neither loses anything.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use watchfire_core::model::SessionId;
use watchfire_core::sandbox::RuleAccess;
use watchfire_core::workspace::{MergeGuard, Workspace};
use watchfire_git::GitWorkspace;

use crate::support::Repo;

/// A session in the root of a repository.
pub(crate) struct Guest<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) workspace: GitWorkspace,
    pub(crate) session: SessionId,
}

impl<'a> Guest<'a> {
    pub(crate) async fn enter(repo: &'a Repo) -> Self {
        Self::enter_guarded(repo, &MergeGuard::default()).await
    }

    pub(crate) async fn enter_guarded(repo: &'a Repo, guard: &MergeGuard) -> Self {
        let (workspace, session) = (repo.workspace(), SessionId::random());
        let opened = workspace.enter(&session, true, guard).await.unwrap();
        assert!(opened.binds.iter().all(|bind| bind.source.exists() && bind.target.exists()), "{opened:?}");
        Self { repo, workspace, session }
    }

    fn copies(&self) -> PathBuf {
        self.repo.root.join(format!(".git/watchfire/private/guest-{}", self.session))
    }

    pub(crate) fn top(&self) -> PathBuf {
        self.copies().join("top")
    }

    /// Runs git as the session's sandbox would: on the copies, beside the person's objects.
    pub(crate) fn try_git(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args(args)
            .current_dir(&self.repo.root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_EDITOR", "true")
            .env("GIT_DIR", self.top())
            .env("GIT_WORK_TREE", &self.repo.root)
            .env("GIT_OBJECT_DIRECTORY", self.copies().join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.repo.root.join(".git/objects"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.try_git(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    fn commit(&self, path: &str, content: &str) -> String {
        self.repo.write(path, content);
        self.git(&["add", path]);
        self.git(&["commit", "-qm", path]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Makes exchanges until there is nothing more to do.
    pub(crate) async fn exchange(&self) -> Vec<String> {
        let mut told = self.workspace.exchange(&self.session).await.unwrap().told;
        told.extend(self.workspace.exchange(&self.session).await.unwrap().told);
        told
    }

    pub(crate) async fn leave(&self) -> Vec<String> {
        let told = self.workspace.leave(&self.session).await.unwrap().told;
        assert!(!self.copies().exists());
        told
    }

    fn left(&self, name: &str) -> String {
        format!("refs/watchfire/left/chat/{}/{name}", self.session)
    }
}

fn head(repo: &Repo) -> String {
    repo.git(["rev-parse", "HEAD"]).trim().to_owned()
}

fn status(repo: &Repo) -> String {
    repo.git(["status", "--porcelain"])
}

#[tokio::test]
async fn what_a_guest_commits_arrives() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    let before = (repo.git(["for-each-ref"]), head(&repo));
    assert_eq!(guest.git(&["status", "--porcelain"]), "");
    let made = guest.commit("src/new.rs", "new");
    // Nothing of it is the person's before it was checked.
    assert_eq!((repo.git(["for-each-ref"]), head(&repo)), before);
    assert_eq!(status(&repo), "?? src/\n");
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!(head(&repo), made);
    assert_eq!((status(&repo), guest.git(&["status", "--porcelain"])), (String::new(), String::new()));

    // Amended, and a branch and a tag of its own; what it took back is kept.
    repo.write("src/new.rs", "better");
    guest.git(&["commit", "-qa", "--amend", "-m", "amended"]);
    guest.git(&["switch", "-qc", "feature"]);
    guest.git(&["tag", "-a", "v1", "-m", "one"]);
    let last = guest.commit("more", "more");
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim(), "refs/heads/feature");
    assert_eq!(
        repo.git(["rev-parse", "HEAD", "v1^{commit}"]),
        format!("{last}\n{}", repo.git(["rev-parse", "main"]))
    );
    assert_eq!(status(&repo), "");
    assert_eq!(repo.git(["rev-parse", &guest.left(&made)]).trim(), made);
    guest.git(&["switch", "-q", "main"]);
    guest.git(&["branch", "-qD", "feature"]);
    assert_eq!(guest.leave().await, [""; 0]);
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim(), "refs/heads/main");
    assert_eq!((status(&repo), repo.git(["branch", "--list", "feature"])), (String::new(), String::new()));
    assert_eq!(repo.git(["rev-parse", &guest.left(&last)]).trim(), last);
    repo.fsck();
    assert_eq!(guest.workspace.leave(&guest.session).await.unwrap().told, [""; 0]);
}

#[tokio::test]
async fn what_the_person_does_reaches_a_guest() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    repo.write("mine", "mine");
    let made = repo.commit("the person's");
    repo.write("staged", "staged");
    repo.git(["add", "staged"]);
    repo.write("theirs", "theirs");
    guest.git(&["add", "theirs"]);
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!(guest.git(&["rev-parse", "HEAD"]).trim(), made);
    // Each side has staged what it staged, and the guest sees both.
    assert_eq!(guest.git(&["status", "--porcelain"]), "A  staged\nA  theirs\n");
    assert_eq!(status(&repo), "A  staged\n?? theirs\n");
    // A commit of the guest takes it along. The person's is staged as before: it is what HEAD has.
    guest.git(&["commit", "-qm", "both"]);
    guest.exchange().await;
    assert_eq!(status(&repo), "");
    repo.git(["switch", "-qc", "other", "main~1"]);
    guest.exchange().await;
    assert_eq!(guest.git(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/other");
    assert_eq!(guest.git(&["status", "--porcelain"]), "");
    repo.git(["branch", "-qD", "main"]);
    guest.exchange().await;
    assert_eq!(guest.git(&["branch", "--list", "main"]), "");
    assert_eq!(guest.leave().await, [""; 0]);
    repo.fsck();
}

#[tokio::test]
async fn where_both_moved_a_branch_the_persons_stays() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    let theirs = guest.commit("theirs", "theirs");
    repo.write("mine", "mine");
    repo.git(["add", "mine"]);
    repo.git(["commit", "-qm", "mine"]);
    let mine = head(&repo);
    let told = guest.exchange().await;
    assert!(
        matches!(&told[..], [told] if told.contains("moved outside") && told.contains(&guest.left("heads/main"))),
        "{told:?}"
    );
    assert_eq!(head(&repo), mine);
    assert_eq!(repo.git(["rev-parse", &guest.left("heads/main")]).trim(), theirs);
    assert_eq!(
        (guest.git(&["rev-parse", "HEAD"]).trim(), status(&repo).as_str()),
        (mine.as_str(), "?? theirs\n")
    );
    assert_eq!(guest.git(&["status", "--porcelain"]), "?? theirs\n");
    // It can go on from there, and commit the same once more.
    guest.git(&["add", "theirs"]);
    guest.git(&["commit", "-qm", "theirs once more"]);
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!(status(&repo), "");
    repo.fsck();
}

#[tokio::test]
async fn what_the_person_staged_stays_staged() {
    let repo = Repo::new();
    repo.write("file", "one\n");
    repo.commit("file");
    let guest = Guest::enter(&repo).await;
    repo.write("file", "person\n");
    repo.git(["add", "file"]);
    let staged = repo.git(["ls-files", "-s", "file"]);
    repo.write("file", "guest\n");
    guest.git(&["commit", "-qam", "guest"]);
    guest.exchange().await;
    assert_eq!(repo.git(["ls-files", "-s", "file"]), staged);
    assert_eq!(status(&repo), "MM file\n");
    assert_eq!(guest.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn stashes_go_both_ways() {
    let repo = Repo::new();
    repo.write("file", "one\n");
    repo.commit("file");
    repo.write("file", "first\n");
    repo.git(["stash", "push", "-qm", "first"]);
    let guest = Guest::enter(&repo).await;
    repo.write("file", "second\n");
    guest.git(&["stash", "push", "-qm", "second"]);
    assert_eq!(guest.exchange().await, [""; 0]);
    let list = || repo.git(["stash", "list", "--format=%gs"]);
    assert_eq!(list(), "On main: second\nOn main: first\n");
    repo.write("file", "third\n");
    repo.git(["stash", "push", "-qm", "third"]);
    guest.exchange().await;
    assert_eq!(guest.git(&["stash", "list", "--format=%gs"]), list());
    let first = repo.git(["rev-parse", "stash@{2}"]).trim().to_owned();
    guest.git(&["stash", "drop", "-q", "stash@{2}"]);
    guest.git(&["stash", "pop", "-q"]);
    guest.exchange().await;
    assert_eq!(list(), "On main: second\n");
    assert_eq!(guest.git(&["stash", "list", "--format=%gs"]), list());
    assert_eq!(repo.git(["rev-parse", &guest.left(&first)]).trim(), first);
    repo.git(["stash", "clear"]);
    guest.exchange().await;
    assert_eq!(guest.git(&["stash", "list"]), "");
    assert_eq!(guest.leave().await, [""; 0]);
    repo.fsck();
}

#[tokio::test]
async fn nothing_is_exchanged_in_the_midst_of_a_rebase() {
    let repo = Repo::new();
    for name in ["one", "two"] {
        repo.write(name, name);
        repo.commit(name);
    }
    let guest = Guest::enter(&repo).await;
    _ = guest.try_git(&["-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-qi", "HEAD~2"]);
    let theirs = guest.commit("during", "during");
    let before = head(&repo);
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!((head(&repo), repo.git(["symbolic-ref", "HEAD"]).trim()), (before.clone(), "refs/heads/main"));
    // The session ends there: HEAD stays where the person has it, and the commit is kept.
    guest.leave().await;
    assert_eq!((head(&repo), repo.git(["symbolic-ref", "HEAD"]).trim()), (before, "refs/heads/main"));
    assert!(!repo.root.join(".git/rebase-merge").exists());
    assert_eq!(repo.git(["rev-parse", &guest.left(&theirs)]).trim(), theirs);

    // The files are as the rebase had them at this step.
    assert_eq!(status(&repo), " D two\n?? during\n");
    repo.git(["restore", "two"]);

    // The person is in the midst of one when the session ends.
    let guest = Guest::enter(&repo).await;
    _ = crate::support::run(
        &repo.root,
        ["-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-qi", "HEAD~1"],
    );
    assert!(repo.root.join(".git/rebase-merge").exists());
    let theirs = guest.commit("last", "last");
    assert_eq!(guest.exchange().await, [""; 0]);
    let told = guest.leave().await;
    assert!(told.iter().any(|told| told.contains("in the midst")), "{told:?}");
    assert_eq!(repo.git(["rev-parse", &guest.left("heads/main")]).trim(), theirs);
    repo.git(["rebase", "--abort"]);
    repo.fsck();
}

#[tokio::test]
async fn a_submodule_is_refused() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    let canary = repo.beside("PWNED");
    let inner = repo.root.join("subm");
    fs::create_dir(&inner).unwrap();
    let inside = |args: &[&str]| crate::support::git(&inner, args.iter().copied());
    inside(&["init", "-q", "-b", "main"]);
    inside(&["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "s"]);
    inside(&["config", "core.fsmonitor", &format!("touch {}; false", canary.display())]);
    // git of a chat looks into it as well, inside its sandbox.
    guest.git(&["-c", "core.fsmonitor=false", "add", "subm"]);
    guest.git(&["commit", "-qm", "a submodule"]);
    _ = fs::remove_file(&canary);
    let before = head(&repo);
    let told = guest.exchange().await;
    assert!(matches!(&told[..], [told] if told.contains("cannot add the submodule subm")), "{told:?}");
    assert_eq!((head(&repo), status(&repo).as_str()), (before, "?? subm/\n"));
    let told = guest.leave().await;
    assert!(told.iter().any(|told| told.contains("subm/.git, which could run")), "{told:?}");
    assert_eq!(status(&repo), "");
    assert!(!canary.exists());
}

/// A repository of the person's inside the root, with a command in its configuration.
fn vendored(repo: &Repo) -> PathBuf {
    let own = repo.root.join("vendored");
    fs::create_dir(&own).unwrap();
    crate::support::git(&own, ["init", "-q"]);
    crate::support::git(&own, ["config", "core.fsmonitor", "false"]);
    own
}

#[tokio::test]
async fn repositories_that_could_run_something_are_set_aside() {
    let repo = Repo::new();
    let own = vendored(&repo);
    let guest = Guest::enter(&repo).await;
    let init = |name: &str, args: &[&str]| {
        let folder = repo.root.join(name);
        fs::create_dir_all(&folder).unwrap();
        crate::support::git(&folder, ["init", "-q"].iter().chain(args).copied());
        folder
    };
    let plain = init("plain", &[]);
    let hooked = init("hooked", &[]);
    fs::write(hooked.join(".git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
    let bare = init("deep/er/bare", &["--bare"]);
    fs::write(bare.join("config"), "[core]\n\tbare = false\n\tworktree = /\n\tfsmonitor = x\n").unwrap();
    fs::create_dir(repo.root.join("src")).unwrap();
    fs::write(repo.root.join("src/.git"), "gitdir: ../hooked/.git\n").unwrap();
    // An older folder, renamed.
    fs::rename(own.join(".git"), repo.root.join("moved")).unwrap();
    fs::create_dir(repo.root.join("late")).unwrap();
    fs::rename(repo.root.join("moved"), repo.root.join("late/.git")).unwrap();
    fs::write(repo.root.join("late/.git/config"), "[core]\n\tfsmonitor = y\n").unwrap();
    let told = guest.leave().await;
    assert_eq!(told.len(), 4, "{told:?}");
    for gone in ["hooked/.git", "deep/er/bare/HEAD", "src/.git", "late/.git"] {
        assert!(!repo.root.join(gone).exists(), "{gone}");
    }
    assert!(plain.join(".git").exists() && bare.join("config").exists());
}

#[tokio::test]
async fn files_that_tools_run_are_named_at_the_end() {
    let repo = Repo::new();
    repo.write("Makefile", "all:\n");
    repo.write("sub/build.rs", "fn main() {}\n");
    repo.commit("tools");
    let guest = Guest::enter(&repo).await;
    repo.write("sub/build.rs", "fn main() { evil() }\n");
    repo.write(".envrc", "evil\n");
    repo.write("node_modules/x/package.json", "{}\n");
    let told = guest.leave().await;
    assert!(matches!(&told[..], [told] if told.contains("by tools on their own: ")), "{told:?}");
    for (part, named) in
        [(".envrc", true), ("sub/build.rs", true), ("node_modules", false), ("Makefile", false)]
    {
        assert_eq!(told[0].contains(part), named, "{told:?}");
    }
}

#[tokio::test]
async fn an_older_repository_of_the_persons_stays() {
    let repo = Repo::new();
    let own = vendored(&repo);
    let guest = Guest::enter(&repo).await;
    fs::write(own.join("file"), "x").unwrap();
    crate::support::git(&own, ["add", "file"]);
    assert_eq!(guest.leave().await, [""; 0]);
    assert!(own.join(".git/config").exists());
}

#[tokio::test]
async fn what_git_obeys_ends_with_the_copies() {
    let repo = Repo::new();
    let before = fs::read_to_string(repo.root.join(".git/config")).unwrap();
    let guest = Guest::enter(&repo).await;
    let top = guest.top();
    guest.git(&["config", "core.fsmonitor", "touch PWNED"]);
    for (name, content) in [
        ("commondir", "/tmp"),
        ("rebase-merge/git-rebase-todo", "exec touch PWNED"),
        ("hooks/pre-commit", "#!/bin/sh"),
        ("info/attributes", "* filter=x"),
        ("objects/info/alternates", "/tmp"),
        ("modules/x/config", "[core]"),
        ("config.worktree", "[core]\n\tfsmonitor = x"),
        ("BISECT_RUN", "x"),
        ("refs/replace/1111111111111111111111111111111111111111", "1"),
    ] {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::remove_dir_all(top.join("rebase-merge")).unwrap();
    guest.exchange().await;
    fs::create_dir(top.join("rebase-merge")).unwrap();
    guest.leave().await;
    assert_eq!(fs::read_to_string(repo.root.join(".git/config")).unwrap(), before);
    for name in
        ["commondir", "rebase-merge", "hooks/pre-commit", "info/attributes", "modules", "config.worktree"]
    {
        assert!(!repo.root.join(".git").join(name).exists(), "{name}");
    }
    assert_eq!(status(&repo), "");
}

/// The copies are a hostile program's. What the person does is written into them by no path that it could turn round.
#[tokio::test]
async fn links_in_the_copies_lead_nowhere() {
    let repo = Repo::new();
    repo.git(["branch", "gone"]);
    let guest = Guest::enter(&repo).await;
    let outside = repo.beside("outside");
    fs::create_dir(&outside).unwrap();
    let id = head(&repo);
    for name in ["main", "gone", "stash", "HEAD", "packed-refs"] {
        fs::write(outside.join(name), format!("{id}\n")).unwrap();
    }
    let top = guest.top();
    fs::remove_dir_all(top.join("refs/heads")).unwrap();
    symlink(&outside, top.join("refs/heads")).unwrap();
    fs::remove_dir_all(top.join("logs")).unwrap();
    symlink(&outside, top.join("logs")).unwrap();
    fs::remove_file(top.join("packed-refs")).unwrap();
    symlink(outside.join("packed-refs"), top.join("packed-refs")).unwrap();
    repo.git(["branch", "-qD", "gone"]);
    repo.write("file", "x");
    repo.git(["stash", "push", "-qu"]);
    repo.write("mine", "x");
    let made = repo.commit("mine");
    for _ in 0..3 {
        _ = guest.workspace.exchange(&guest.session).await;
    }
    for name in ["main", "gone", "stash", "HEAD", "packed-refs"] {
        assert_eq!(fs::read_to_string(outside.join(name)).unwrap(), format!("{id}\n"), "{name}");
    }
    assert_eq!(head(&repo), made);
    _ = guest.workspace.leave(&guest.session).await;
    assert_eq!((head(&repo), repo.git(["stash", "list"]).lines().count()), (made, 1));
}

#[tokio::test]
async fn what_git_runs_is_read_only() {
    let repo = Repo::new();
    repo.write("deep/.gitattributes", "*.png filter=lfs\n");
    repo.write("plain/.gitattributes", "*.txt text\n");
    repo.write(".husky/_/pre-commit", "#!/bin/sh\n");
    repo.git(["config", "core.hooksPath", ".husky/_"]);
    repo.write(".gitmodules", "");
    repo.commit("wiring");
    let opened = repo.workspace().enter(&SessionId::random(), true, &MergeGuard::default()).await.unwrap();
    let read = |path: &str| {
        let path = repo.root.join(path);
        opened.policy_rules.iter().any(|rule| rule.path == path && rule.access == RuleAccess::Read)
    };
    for path in ["deep/.gitattributes", ".husky/_", ".husky", ".gitmodules"] {
        assert!(read(path), "{path}");
    }
    assert!(!read("plain/.gitattributes"));
}

/// Without copies, a chat would write what the person's git runs.
#[tokio::test]
async fn an_index_in_another_form_is_refused() {
    let repo = Repo::new();
    repo.git(["update-index", "--split-index"]);
    let enter =
        async |isolated| repo.workspace().enter(&SessionId::random(), isolated, &MergeGuard::default()).await;
    let refused = enter(true).await.unwrap_err();
    assert_eq!(refused.code(), "not_supported");
    assert!(refused.detail("hint").is_some_and(|hint| hint.contains("--no-split-index")), "{refused:?}");
    assert!(enter(false).await.unwrap().binds.is_empty(), "without a sandbox");
    repo.git(["update-index", "--no-split-index"]);
    assert!(!enter(true).await.unwrap().binds.is_empty());
}

#[tokio::test]
async fn the_first_commit_of_a_repository_may_be_a_guests() {
    let repo = Repo::empty();
    let guest = Guest::enter(&repo).await;
    assert_eq!(guest.exchange().await, [""; 0]);
    let made = guest.commit("first", "first");
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!((head(&repo), status(&repo).as_str()), (made, ""));
    repo.write("second", "second");
    let made = repo.commit("second");
    guest.exchange().await;
    assert_eq!(guest.git(&["rev-parse", "HEAD"]).trim(), made);
    assert_eq!(guest.leave().await, [""; 0]);
    repo.fsck();
}

#[tokio::test]
async fn a_detached_head_is_shared() {
    let repo = Repo::new();
    repo.git(["switch", "-q", "--detach"]);
    let guest = Guest::enter(&repo).await;
    let made = guest.commit("on", "on");
    assert_eq!(guest.exchange().await, [""; 0]);
    assert_eq!((head(&repo), status(&repo).as_str()), (made, ""));
    guest.git(&["switch", "-q", "main"]);
    guest.exchange().await;
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim(), "refs/heads/main");
    guest.git(&["switch", "-q", "--detach", "HEAD"]);
    guest.exchange().await;
    assert_eq!(repo.git(["rev-parse", "--symbolic-full-name", "HEAD"]).trim(), "HEAD");
    assert_eq!(guest.leave().await, [""; 0]);
}

#[tokio::test]
async fn branches_in_use_elsewhere_stay_where_they_are() {
    let repo = Repo::new();
    repo.git(["branch", "other"]);
    repo.git(["worktree", "add", "-q", repo.beside("wt").to_str().unwrap(), "other"]);
    repo.git(["branch", "watchfire/0001"]);
    let guest = Guest::enter(&repo).await;
    let id = guest.commit("new", "new");
    for name in ["other", "watchfire/0001", "-x"] {
        let path = guest.top().join("refs/heads").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{id}\n")).unwrap();
    }
    let told = guest.exchange().await;
    assert!(told.iter().any(|told| told.contains("checked out in")), "{told:?}");
    assert_eq!(repo.git(["rev-parse", "main"]).trim(), id);
    for name in ["other", "watchfire/0001"] {
        assert_eq!(repo.git(["rev-parse", name]), repo.git(["rev-parse", "main~1"]), "{name}");
    }
    assert!(!repo.root.join(".git/refs/heads/-x").exists());
    // Nor does HEAD go there.
    for name in ["other", "watchfire/0001", "-x"] {
        fs::write(guest.top().join("HEAD"), format!("ref: refs/heads/{name}\n")).unwrap();
        let told = guest.exchange().await;
        assert!(told.iter().any(|told| told.contains("another branch")), "{name}: {told:?}");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim(), "refs/heads/main", "{name}");
        assert_eq!(guest.git(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/main", "{name}");
    }
    assert_eq!(status(&repo), "");
}

/// An exchange takes it out of the copies. It must not be gone with them.
#[tokio::test]
async fn what_is_not_sound_is_set_aside_at_the_end() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    let tree = guest.git(&["write-tree"]);
    let text = format!(
        "tree {}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nno such tree\n",
        "7".repeat(40)
    );
    fs::write(repo.root.join("commit"), &text).unwrap();
    let odd = guest.git(&["hash-object", "-w", "--literally", "-t", "commit", "commit"]);
    fs::write(guest.top().join("refs/heads/odd"), &odd).unwrap();
    let told = guest.exchange().await;
    assert!(told.iter().any(|told| told.contains("refs/heads/odd")), "{tree}: {told:?}");
    let told = guest.leave().await;
    assert!(told.iter().any(|told| told.contains("is kept in")), "{told:?}");
    let aside = repo.root.join(".git/watchfire/private/aside/chat-1/objects");
    assert!(aside.join(&odd[..2]).join(odd[2..].trim()).exists());
}

#[tokio::test]
async fn what_is_left_is_listed() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    guest.commit("new", "new");
    guest.git(&["reset", "-q", "--hard", "HEAD~1"]);
    guest.leave().await;
    let rescued = repo.workspace().rescued().await.unwrap();
    assert!(matches!(&rescued[..], [one] if one.name.contains("left/chat/")), "{rescued:?}");
    repo.workspace().restore(&rescued[0].name, "again").await.unwrap();
    assert_eq!(repo.git(["show", "again:new"]), "new");
}

#[tokio::test]
async fn commits_in_a_worktree_of_a_guest_are_kept() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    guest.git(&["worktree", "add", "-q", "--detach", "wt"]);
    let wt = repo.root.join("wt");
    // As its sandbox shows it.
    let admin = guest.top().join("worktrees/wt");
    fs::write(wt.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
    fs::write(wt.join("inner"), "inner").unwrap();
    let inside = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(args).current_dir(&wt);
        command.env("GIT_OBJECT_DIRECTORY", guest.top().join("../objects"));
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", repo.root.join(".git/objects"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    inside(&["add", "inner"]);
    inside(&["commit", "-qm", "inner"]);
    let made = inside(&["rev-parse", "HEAD"]).trim().to_owned();
    guest.leave().await;
    assert_eq!(repo.git(["rev-parse", &guest.left(&made)]).trim(), made);
}

/// A disk that is full for a moment, for one: the session is over, and its copies are still there.
#[tokio::test]
async fn an_end_that_failed_is_made_up_for() {
    let repo = Repo::new();
    let guest = Guest::enter(&repo).await;
    guest.exchange().await;
    let made = guest.commit("new", "new");
    let (private, away) = (repo.root.join(".git/watchfire/private"), repo.beside("objects"));
    fs::rename(guest.copies().join("objects"), &away).unwrap();
    std::os::unix::net::UnixListener::bind(guest.copies().join("objects")).unwrap();
    guest.workspace.leave(&guest.session).await.unwrap_err();
    fs::remove_file(guest.copies().join("objects")).unwrap();
    fs::rename(&away, guest.copies().join("objects")).unwrap();
    repo.workspace().recover().await.unwrap();
    assert_eq!(head(&repo), made);
    assert!(!guest.copies().exists() && private.exists());
}
