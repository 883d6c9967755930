//! The person's checkout is theirs.

use std::fs;

use watchfire_core::ErrorKind;
use watchfire_core::model::{Attempt, TaskNumber};
use watchfire_core::workspace::{
    ObstacleKind, OpenRequest, PublishRequest, Published, RemoveRequest, Removed, Workspace,
};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{candidate, capture, open, prepare, publish};
use crate::support::{Repo, git};

/// What a person may be in the midst of, in files that the merge does not touch.
fn busy(repo: &Repo) {
    for name in ["staged", "unstaged", "both", "deleted", "gone", "script"] {
        repo.write(name, format!("{name}\n"));
    }
    repo.commit("more");
    repo.write("staged", "staged edit\n");
    repo.write("both", "staged\n");
    repo.write("added", "staged addition\n");
    repo.git(["add", "staged", "both", "added"]);
    repo.git(["rm", "-q", "deleted"]);
    repo.write("both", "and edited again\n");
    repo.write("unstaged", "edit\n");
    fs::remove_file(repo.root.join("gone")).unwrap();
    repo.git(["add", "-N", "."]);
    repo.write("untracked/deep", "mine\n");
    repo.write("ignored/x", "mine\n");
    repo.git(["update-index", "--chmod=+x", "script"]);
}

fn status(repo: &Repo) -> String {
    repo.git(["status", "--porcelain=v2", "--untracked-files=all", "--ignored"])
}

#[tokio::test]
async fn edits_elsewhere_stay_byte_for_byte() {
    let repo = Repo::new();
    busy(&repo);
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::create_dir(opened.cwd.join("new")).unwrap();
    fs::write(opened.cwd.join("new/file"), "work").unwrap();
    fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
    fs::remove_file(opened.cwd.join(".gitignore")).unwrap();
    capture(&workspace, 1).await;
    let (before, index) = (status(&repo), repo.git(["ls-files", "--stage", "--debug"]));
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    // `.gitignore` went, so what was ignored shows as untracked.
    let strip = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("ignored/") && !line.contains(".watchfire"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(strip(&status(&repo)), strip(&before));
    let others = |text: &str| {
        let mut keep = false;
        let touched = ["new/file", "a file.txt", ".gitignore"];
        let lines = text.lines().filter(|line| {
            if !line.starts_with(' ') {
                keep = !touched.iter().any(|name| line.ends_with(&format!("\t{name}")));
            }
            keep
        });
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(others(&repo.git(["ls-files", "--stage", "--debug"])), others(&index));
    assert_eq!(repo.read("both"), "and edited again\n");
    assert_eq!(repo.read("new/file"), "work");
    assert!(!repo.root.join(".gitignore").exists());
    repo.fsck();
}

#[tokio::test]
async fn every_kind_of_edit_in_the_way_holds() {
    type Edit = fn(&Repo);
    let edits: [(&str, Edit); 9] = [
        ("unstaged", |repo| repo.write("file", "mine\n")),
        ("staged", |repo| {
            repo.write("file", "mine\n");
            repo.git(["add", "file"]);
            repo.write("file", "old\n");
        }),
        ("deleted", |repo| fs::remove_file(repo.root.join("file")).unwrap()),
        ("staged deletion", |repo| _ = repo.git(["rm", "-q", "--cached", "file"])),
        ("untracked", |repo| repo.write("new/file", "mine\n")),
        ("ignored", |repo| {
            repo.write(".git/info/exclude", "new\n");
            repo.write("new/file", "mine\n");
        }),
        ("a file for a folder", |repo| repo.write("new", "mine\n")),
        ("a link for a folder", |repo| {
            fs::create_dir(repo.beside("elsewhere")).unwrap();
            std::os::unix::fs::symlink(repo.beside("elsewhere"), repo.root.join("new")).unwrap();
        }),
        ("executable", |repo| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(repo.root.join("file"), PermissionsExt::from_mode(0o755)).unwrap();
        }),
    ];
    for (name, edit) in edits {
        let repo = Repo::new();
        repo.write("file", "old\n");
        repo.commit("file");
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("file"), "new\n").unwrap();
        fs::create_dir(opened.cwd.join("new")).unwrap();
        fs::write(opened.cwd.join("new/file"), "work\n").unwrap();
        capture(&workspace, 1).await;
        edit(&repo);
        let before = (
            status(&repo),
            repo.git(["rev-parse", "main"]),
            repo.git(["diff"]),
            repo.git(["diff", "--cached"]),
        );
        let published = publish(&workspace, 1).await;
        assert!(
            matches!(&published, Published::Held(obstacle) if obstacle.files.len() == 1),
            "{name}: {published:?}"
        );
        let after = (
            status(&repo),
            repo.git(["rev-parse", "main"]),
            repo.git(["diff"]),
            repo.git(["diff", "--cached"]),
        );
        assert_eq!(after, before, "{name}");
        assert!(!repo.root.join(".git/index.lock").exists(), "{name}");
    }
}

#[tokio::test]
async fn the_same_edit_is_no_obstacle() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "same\n").unwrap();
    fs::write(opened.cwd.join("a file.txt"), "same\n").unwrap();
    capture(&workspace, 1).await;
    repo.write("new", "same\n");
    repo.write("a file.txt", "same\n");
    repo.git(["add", "new"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[tokio::test]
async fn folders_and_files_change_places() {
    let repo = Repo::new();
    repo.write("folder/one", "1\n");
    repo.write("folder/two/three", "3\n");
    repo.write("file", "f\n");
    std::os::unix::fs::symlink("file", repo.root.join("link")).unwrap();
    repo.commit("places");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::remove_dir_all(opened.cwd.join("folder")).unwrap();
    fs::write(opened.cwd.join("folder"), "now a file\n").unwrap();
    fs::remove_file(opened.cwd.join("file")).unwrap();
    fs::create_dir(opened.cwd.join("file")).unwrap();
    fs::write(opened.cwd.join("file/in"), "now a folder\n").unwrap();
    fs::remove_file(opened.cwd.join("link")).unwrap();
    fs::write(opened.cwd.join("link"), "now a file\n").unwrap();
    capture(&workspace, 1).await;
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.read("folder"), "now a file\n");
    assert_eq!(repo.read("file/in"), "now a folder\n");
    repo.fsck();
}

#[tokio::test]
async fn whatever_is_under_way_holds() {
    type Begin = fn(&Repo);
    let begun: [(&str, Begin); 5] = [
        ("merge", |repo| _ = crate::support::run(&repo.root, ["merge", "other"])),
        ("rebase", |repo| _ = crate::support::run(&repo.root, ["rebase", "other"])),
        ("cherry-pick", |repo| _ = crate::support::run(&repo.root, ["cherry-pick", "other"])),
        ("revert", |repo| _ = crate::support::run(&repo.root, ["revert", "--no-commit", "HEAD"])),
        ("bisect", |repo| _ = crate::support::run(&repo.root, ["bisect", "start"])),
    ];
    for (name, begin) in begun {
        let repo = Repo::new();
        repo.write("file", "base\n");
        repo.commit("base");
        repo.git(["checkout", "-qb", "other"]);
        repo.write("file", "other\n");
        repo.commit("other");
        repo.git(["checkout", "-q", "main"]);
        repo.write("file", "main\n");
        repo.commit("main");
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        capture(&workspace, 1).await;
        begin(&repo);
        let before = repo.git(["status"]);
        let published = publish(&workspace, 1).await;
        let Published::Held(obstacle) = &published else { panic!("{name}: {published:?}") };
        assert_eq!(obstacle.kind, ObstacleKind::OperationUnderWay, "{name}");
        assert!(obstacle.message.contains(&format!("`git {name} ")), "{name}: {obstacle:?}");
        assert_eq!(repo.git(["status"]), before, "{name}");
    }
}

#[tokio::test]
async fn a_git_command_of_the_person_is_waited_for_and_then_held() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    repo.write(".git/index.lock", "");
    assert!(matches!(publish(&workspace, 1).await, Published::Held { .. }));
    assert!(repo.root.join(".git/index.lock").exists());
    fs::remove_file(repo.root.join(".git/index.lock")).unwrap();
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
}

#[tokio::test]
async fn other_branches_and_other_checkouts_of_the_person() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    // The root is elsewhere; the target is checked out in a worktree of the person.
    repo.git(["checkout", "-qb", "elsewhere"]);
    let other = repo.beside("other checkout");
    repo.git(["worktree", "add", "-q", other.to_str().unwrap(), "main"]);
    let published = publish(&workspace, 1).await;
    assert_eq!(published, Published::done(vec![other.clone()]));
    assert!(!repo.root.join("new").exists());
    assert_eq!(fs::read_to_string(other.join("new")).unwrap(), "work\n");
    assert_eq!(crate::support::git(&other, ["status", "--porcelain"]), "");
    // Checked out nowhere.
    repo.git(["worktree", "remove", other.to_str().unwrap()]);
    fs::write(opened.cwd.join("more"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert_eq!(publish(&workspace, 1).await, Published::done(Vec::new()));
    assert_eq!(repo.git(["show", "main:more"]), "work\n");
    repo.fsck();
}

#[tokio::test]
async fn a_commit_of_the_person_comes_first() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let candidate = candidate(&workspace, 1).await;
    repo.write("theirs", "theirs\n");
    repo.commit("theirs");
    assert_eq!(workspace.publish(&candidate, &PublishRequest::default()).await.unwrap(), Published::Moved);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("theirs"), "theirs\n");
    let log = repo.git(["reflog", "show", "main"]);
    assert!(log.contains("watchfire: merge 0001"), "{log}");
    assert!(repo.git(["reflog", "show", "HEAD"]).contains("watchfire: merge 0001"));
    _ = prepare(&workspace, 1).await;
}

/// As right after a clone or a copy of the checkout, when the index cannot say that a file is as it wrote it.
#[tokio::test]
async fn a_converted_file_that_the_index_does_not_know_is_no_edit() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.bat eol=crlf\n");
    for name in ["changed.bat", "gone.bat", "edited.bat"] {
        repo.write(name, "one\r\ntwo\r\n");
    }
    repo.commit("attributes");
    let touched = |name: &str| {
        let file = fs::File::options().write(true).open(repo.root.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5)).unwrap();
    };
    ["changed.bat", "gone.bat", "edited.bat"].iter().for_each(|name| touched(name));
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("changed.bat"), "one\ntwo\nthree\n").unwrap();
    fs::remove_file(opened.cwd.join("gone.bat")).unwrap();
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("changed.bat"), "one\r\ntwo\r\nthree\r\n");
    assert!(!repo.root.join("gone.bat").exists());
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // An edit stays one.
    let opened = open(&workspace, 2).await;
    fs::write(opened.cwd.join("edited.bat"), "one\n").unwrap();
    capture(&workspace, 2).await;
    repo.write("edited.bat", "mine\r\n");
    touched("edited.bat");
    match publish(&workspace, 2).await {
        Published::Held(obstacle) => assert_eq!(obstacle.kind, ObstacleKind::LocalEdits),
        other => panic!("{other:?}"),
    }
    assert_eq!(repo.read("edited.bat"), "mine\r\n");
}

/// What git would do to files on their way, git does: line endings, encodings, and the filters that the person allows.
#[tokio::test]
async fn files_are_converted_as_the_person_has_it() {
    let repo = Repo::new();
    repo.write(
        ".gitattributes",
        "*.up filter=upper\n*.evil filter=evil\n*.bat eol=crlf\n*.none filter=unknown\n",
    );
    repo.write("old.bat", "one\r\ntwo\r\n");
    repo.commit("attributes");
    assert_eq!(repo.git(["cat-file", "blob", "HEAD:old.bat"]), "one\ntwo\n");
    repo.git(["config", "filter.upper.smudge", "tr a-z A-Z"]);
    repo.git(["config", "filter.upper.clean", "tr A-Z a-z"]);
    repo.git(["config", "filter.upper.required", "true"]);
    let ran = repo.beside("ran");
    for key in ["smudge", "process", "clean"] {
        repo.git(["config", &format!("filter.evil.{key}"), &format!("touch '{}'", ran.display())]);
    }
    let work = async |workspace: &GitWorkspace, n, name: &str| {
        let opened = open(workspace, n).await;
        fs::write(opened.cwd.join(name), "content\n").unwrap();
        capture(workspace, n).await;
    };
    let main = repo.git(["rev-parse", "main"]);
    // Nobody has allowed a filter.
    let workspace = repo.workspace();
    for (n, name) in [(1, "x.up"), (2, "x.evil")] {
        work(&workspace, n, name).await;
        match publish(&workspace, n).await {
            Published::Held(obstacle) => {
                assert_eq!((obstacle.kind, obstacle.files.len()), (ObstacleKind::FilterNotAllowed, 1));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(repo.git(["rev-parse", "main"]), main);

    let options = GitOptions::default().with_filters(["upper"]);
    let workspace = GitWorkspace::open(&repo.root, options).unwrap();
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("x.up"), "CONTENT\n");
    assert!(matches!(publish(&workspace, 2).await, Published::Held { .. }));
    let opened = open(&workspace, 3).await;
    for (name, content) in [("old.bat", "one\n2\n"), ("-new\n.bat", "new\n"), ("x.none", "as it is\n")] {
        fs::write(opened.cwd.join(name), content).unwrap();
    }
    capture(&workspace, 3).await;
    let published = publish(&workspace, 3).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert_eq!(repo.read("old.bat"), "one\r\n2\r\n");
    assert_eq!(
        (repo.read("-new\n.bat"), repo.read("x.none")),
        ("new\r\n".to_owned(), "as it is\n".to_owned())
    );
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert!(!ran.exists(), "a filter ran that nobody has allowed");

    // A filter that fails leaves everything as it was.
    repo.git(["config", "filter.upper.smudge", "false"]);
    work(&workspace, 4, "y.up").await;
    let published = publish(&workspace, 4).await;
    assert!(
        matches!(&published, Published::Held(obstacle) if obstacle.kind == ObstacleKind::ConversionFailed),
        "{published:?}"
    );
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // The line endings of a whole system.
    repo.git(["config", "core.autocrlf", "true"]);
    work(&workspace, 5, "plain").await;
    assert!(matches!(publish(&workspace, 5).await, Published::Done { .. }));
    assert_eq!(repo.read("plain"), "content\r\n");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let left: Vec<_> = fs::read_dir(repo.root.join(".git/watchfire/publish")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    repo.fsck();
}

#[tokio::test]
async fn a_worktree_whose_name_begins_like_an_agents_is_brought_along() {
    let repo = Repo::new();
    let linked = repo.beside("watchfire-fix");
    repo.git(["checkout", "-qb", "elsewhere"]);
    repo.git(["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let options = GitOptions::default().with_default_branch("main");
    let workspace = GitWorkspace::open(&repo.root, options).unwrap();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("a file.txt"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert_eq!(publish(&workspace, 1).await, Published::done(vec![linked.clone()]));
    assert_eq!(git(&linked, ["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(linked.join("a file.txt")).unwrap(), "work\n");
}

#[tokio::test]
async fn a_locked_worktree_on_a_disk_that_is_away_is_not_pruned() {
    let repo = Repo::new();
    let (linked, away) = (repo.beside("watchfire-usb"), repo.beside("away"));
    repo.git(["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    fs::write(linked.join("kept"), "committed\n").unwrap();
    git(&linked, ["add", "."]);
    git(&linked, ["commit", "-qm", "kept"]);
    fs::write(linked.join("staged"), "staged\n").unwrap();
    git(&linked, ["add", "."]);
    repo.git(["worktree", "lock", linked.to_str().unwrap()]);
    fs::rename(&linked, &away).unwrap();
    // One that has the very name of an agent's, too.
    let other = repo.beside("watchfire-0001");
    repo.git(["worktree", "add", "-q", "--detach", other.to_str().unwrap()]);
    fs::rename(&other, repo.beside("other")).unwrap();

    let workspace = repo.workspace();
    let pruned = workspace.prune().await.unwrap();
    assert_eq!(pruned.removed, Vec::<String>::new());
    let request = OpenRequest::new(TaskNumber::new(1).unwrap(), Attempt(1));
    assert_eq!(workspace.open(&request).await.unwrap_err().kind(), ErrorKind::WorkspaceBroken);
    fs::rename(&away, &linked).unwrap();
    assert_eq!(git(&linked, ["status", "--porcelain"]), "A  staged\n");
    fs::rename(repo.beside("other"), &other).unwrap();
    assert_eq!(git(&other, ["status", "--porcelain"]), "");
}

#[tokio::test]
async fn what_a_person_has_locked_never_goes() {
    for reason in [&[][..], &["--reason", "I look at it"]] {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("a file.txt"), "work\n").unwrap();
        capture(&workspace, 1).await;
        let folder = opened.cwd.to_str().unwrap();
        repo.git(["worktree", "unlock", folder]);
        repo.git(["worktree", "lock"].iter().chain(reason).chain(&[folder]));
        for discard in [false, true] {
            let request = RemoveRequest::new(TaskNumber::new(1).unwrap()).with_discard(discard);
            match workspace.remove(&request).await.unwrap() {
                Removed::Kept { reason, .. } => assert!(reason.contains("git worktree unlock"), "{reason}"),
                gone => panic!("{gone:?}"),
            }
        }
        let fresh = OpenRequest::new(TaskNumber::new(1).unwrap(), Attempt(2)).with_fresh(true);
        let refused = workspace.open(&fresh).await.unwrap_err();
        assert!(refused.report().contains("git worktree unlock"), "{}", refused.report());
        // Also while its folder is on a disk that is away.
        let away = repo.beside("away");
        fs::rename(&opened.cwd, &away).unwrap();
        assert_eq!(workspace.prune().await.unwrap().removed, Vec::<String>::new());
        let again = workspace.open(&OpenRequest::new(TaskNumber::new(1).unwrap(), Attempt(2))).await;
        assert!(again.unwrap_err().report().contains("git worktree unlock"));
        fs::rename(&away, &opened.cwd).unwrap();
        assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
        repo.git(["worktree", "unlock", folder]);
        let request = RemoveRequest::new(TaskNumber::new(1).unwrap()).with_discard(true);
        assert!(matches!(workspace.remove(&request).await.unwrap(), Removed::Gone { .. }));
    }
}

#[tokio::test]
async fn what_holds_says_its_own_cure() {
    let held = async |prepare: &dyn Fn(&Repo), clear: &dyn Fn(&Repo)| {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("a file.txt"), "work\n").unwrap();
        capture(&workspace, 1).await;
        prepare(&repo);
        let published = publish(&workspace, 1).await;
        let Published::Held(obstacle) = published else { panic!("{published:?}") };
        assert_eq!(obstacle.checkout.as_deref(), Some(repo.root.as_path()));
        clear(&repo);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }), "{obstacle:?}");
        assert_eq!(repo.git(["status", "--porcelain"]), "");
        obstacle.kind
    };
    let git = |args: &'static [&'static str]| move |repo: &Repo| drop(repo.git(args));
    let lock = |repo: &Repo| repo.root.join(".git/index.lock");
    let kind =
        held(&git(&["update-index", "--split-index"]), &git(&["update-index", "--no-split-index"])).await;
    assert_eq!(kind, ObstacleKind::IndexUnsupported);
    let kind =
        held(&|repo| fs::write(lock(repo), "").unwrap(), &|repo| fs::remove_file(lock(repo)).unwrap()).await;
    assert_eq!(kind, ObstacleKind::IndexLocked);
    let kind =
        held(&|repo| repo.write("a file.txt", "mine\n"), &git(&["checkout", "-q", "a file.txt"])).await;
    assert_eq!(kind, ObstacleKind::LocalEdits);
    let bisecting = |repo: &Repo| fs::write(repo.root.join(".git/BISECT_START"), "main\n").unwrap();
    let kind = held(&bisecting, &|repo| fs::remove_file(repo.root.join(".git/BISECT_START")).unwrap()).await;
    assert_eq!(kind, ObstacleKind::OperationUnderWay);
}
