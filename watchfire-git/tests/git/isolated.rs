//! Agents on private copies: what they do is theirs until it was checked, and none of it is lost.

use std::fs;

use watchfire_core::ErrorKind;
use watchfire_core::model::Attempt;
use watchfire_core::sandbox::{NamePattern, RuleAccess};
use watchfire_core::workspace::{
    CaptureRequest, Isolation, LeftOutReason, OpenRequest, Published, RemoveRequest, Removed, Workspace,
};

use crate::support::steps::{ISOLATIONS, capture, key, open, open_isolated, publish};
use crate::support::{Repo, git, inside, run_inside};

/// All that the person's repository has: objects, references, and how agents' HEADs are.
fn everything(repo: &Repo) -> (String, String, String) {
    let objects = repo.git(["cat-file", "--batch-all-objects", "--batch-check", "--unordered"]);
    let mut objects: Vec<_> = objects.lines().collect();
    objects.sort_unstable();
    (objects.join("\n"), repo.git(["for-each-ref"]), repo.git(["worktree", "list", "--porcelain"]))
}

fn commit(repo: &Repo, n: u32, name: &str) -> String {
    fs::write(repo.root.join(format!(".watchfire/worktrees/{n:04}/{name}")), name).unwrap();
    inside(&repo.root, n, ["add", "-A"]);
    inside(&repo.root, n, ["commit", "-qm", name]);
    inside(&repo.root, n, ["rev-parse", "HEAD"]).trim().to_owned()
}

#[tokio::test]
async fn work_arrives_when_it_is_captured() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
    assert!(opened.binds.iter().all(|bind| bind.source.exists() && bind.target.exists()), "{opened:?}");
    let before = everything(&repo);

    commit(&repo, 1, "first");
    inside(&repo.root, 1, ["commit", "-q", "--amend", "-m", "amended"]);
    inside(&repo.root, 1, ["checkout", "-q", "-b", "watchfire/0001-aside"]);
    let aside = commit(&repo, 1, "aside");
    inside(&repo.root, 1, ["checkout", "-q", "watchfire/0001"]);
    let tip = commit(&repo, 1, "second");
    fs::write(opened.cwd.join("uncommitted"), "later").unwrap();

    // The person's repository is whole and as it was, whatever they do with it meanwhile.
    assert_eq!(everything(&repo), before);
    repo.fsck();
    repo.git(["gc", "-q", "--prune=now"]);
    assert!(!repo.git(["log", "--all", "--format=%H"]).contains(&tip));

    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.commits, 3);
    let made = captured.committed.unwrap();
    assert_eq!(repo.git(["rev-parse", &format!("{}^", made.as_str())]).trim(), tip);
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/left/0001/heads/watchfire/0001-aside"]).trim(), aside);
    assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
    repo.fsck();

    // The agent of the next attempt goes on from there.
    let opened = open_isolated(&workspace, 1).await;
    assert!(opened.reused && opened.attention.is_empty());
    assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
    assert_eq!(inside(&repo.root, 1, ["rev-parse", "HEAD"]).trim(), made.as_str());
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(matches!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::Gone { .. }));
    assert!(!repo.private(1).exists());
    repo.fsck();
}

/// git puts what nothing reaches any more, such as a stash that was taken up again, into a pack of its own.
#[tokio::test]
async fn packs_may_name_objects_of_other_packs() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    let tip = commit(&repo, 1, "first");
    fs::write(opened.cwd.join("first"), "put away").unwrap();
    inside(&repo.root, 1, ["stash", "-q"]);
    inside(&repo.root, 1, ["stash", "drop", "-q"]);
    inside(&repo.root, 1, ["repack", "-q", "-d", "--cruft"]);
    let packs = fs::read_dir(repo.private(1).join("objects/pack")).unwrap().flatten();
    assert_eq!(packs.filter(|file| file.path().extension().is_some_and(|it| it == "pack")).count(), 2);
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
    repo.fsck();
}

/// A sandbox may be unable to show anything at another place.
#[tokio::test]
async fn a_folder_may_lead_to_its_copies() {
    let repo = Repo::new();
    repo.git(["branch", "theirs"]);
    let workspace = repo.workspace();
    let request = OpenRequest::new(key(1), Attempt(1)).with_isolation(Isolation::Linked);
    let opened = workspace.open(&request).await.unwrap();
    assert_eq!(opened.binds, []);
    // Of the repository, the agent writes nothing.
    let git_dir = repo.root.join(".git");
    let writes = opened.policy_rules.iter().filter(|rule| rule.access == RuleAccess::Write);
    let outside =
        |path: &&std::path::PathBuf| !path.starts_with(repo.private(1)) && path.starts_with(&git_dir);
    assert_eq!(writes.map(|rule| &rule.path).find(outside), None);
    let run = |args: &[&str]| git(&opened.cwd, args);
    let before = everything(&repo);
    assert_eq!(run(&["status", "--porcelain"]), "");
    let first = commit(&repo, 1, "first");
    run(&["branch", "-D", "theirs"]);
    run(&["tag", "mine"]);
    fs::write(opened.cwd.join("first"), "stashed").unwrap();
    run(&["-c", "user.name=A", "-c", "user.email=a@b", "stash", "-q"]);
    run(&["stash", "pop", "-q"]);
    run(&["pack-refs", "--all"]);
    run(&["gc", "-q"]);
    run(&["config", "core.fsmonitor", "false"]);
    // A worktree of its own, and a commit that only its HEAD names.
    let side = opened.cwd.join("side");
    run(&["worktree", "add", "-q", "--detach", "side"]);
    git(&side, ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "side"]);
    let aside = git(&side, ["rev-parse", "HEAD"]).trim().to_owned();
    fs::remove_dir_all(side).unwrap();
    assert_eq!(everything(&repo), before);
    repo.fsck();

    let made = capture(&workspace, 1).await.committed.unwrap();
    assert_eq!(repo.git(["rev-parse", &format!("{}^", made.as_str())]).trim(), first);
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/left/0001/tags/mine"]).trim(), first);
    assert!(left(&repo).contains(&aside), "{:?}", left(&repo));
    // The agent's configuration is behind it no more.
    assert_eq!(run(&["rev-parse", "--git-common-dir"]).trim(), git_dir.to_str().unwrap());
    assert!(!repo.git(["config", "--list"]).contains("fsmonitor"));
    repo.git(["rev-parse", "theirs"]);
    // A later attempt may have another sandbox.
    let request = OpenRequest::new(key(1), Attempt(2)).with_isolation(Isolation::None);
    let again = workspace.open(&request).await.unwrap();
    assert!(again.reused && again.attention.is_empty() && again.rescued.is_empty(), "{again:?}");
    assert!(!repo.private(1).exists());
    assert_eq!(run(&["rev-parse", "--git-common-dir"]).trim(), git_dir.to_str().unwrap());
    assert_eq!(run(&["status", "--porcelain"]), "");
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(!repo.root.join(".watchfire/worktrees/aside").exists());
    repo.fsck();
}

/// All that references keep of what an agent left behind.
fn left(repo: &Repo) -> Vec<String> {
    let names = repo.git(["for-each-ref", "--format=%(objectname)", "refs/watchfire/left"]);
    names.lines().map(str::to_owned).collect()
}

/// Else git, which mostly tells times apart by the second, would store each file anew at the first `git add`.
#[tokio::test]
async fn files_look_older_than_their_index() {
    use std::os::unix::fs::MetadataExt;
    let repo = Repo::new();
    let opened = open_isolated(&repo.workspace(), 1).await;
    let index = fs::metadata(repo.root.join(".git/watchfire/private/0001/admin/index")).unwrap().mtime();
    let file = inside(&repo.root, 1, ["ls-files"]).lines().next().unwrap().to_owned();
    assert!(fs::metadata(opened.cwd.join(file)).unwrap().mtime() < index);
}

/// With it, git writes the trees that change, and not all: what is there already it cannot touch in the sandbox.
#[tokio::test]
async fn each_attempt_has_the_cache_of_trees() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let has_trees = || {
        let index = fs::read(repo.root.join(".git/watchfire/private/0001/admin/index")).unwrap();
        index.windows(4).any(|name| name == b"TREE")
    };
    open_isolated(&workspace, 1).await;
    assert!(has_trees());
    commit(&repo, 1, "all of it");
    assert!(capture(&workspace, 1).await.committed.is_none());
    open_isolated(&workspace, 1).await;
    assert!(has_trees());
    assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
    commit(&repo, 1, "more");
    repo.fsck();
}

#[tokio::test]
async fn what_the_agent_took_back_is_kept() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    commit(&repo, 1, "first");
    let mut lost = Vec::new();
    // Amended, then two commits reset away as one: a reference each.
    lost.push(commit(&repo, 1, "slip"));
    inside(&repo.root, 1, ["commit", "-q", "--amend", "-m", "better"]);
    commit(&repo, 1, "gone");
    lost.push(commit(&repo, 1, "gone too"));
    inside(&repo.root, 1, ["reset", "-q", "--hard", "HEAD~2"]);
    let tip = inside(&repo.root, 1, ["rev-parse", "HEAD"]).trim().to_owned();
    lost.sort();
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
    assert_eq!(left(&repo), lost);
    // Once more, with nothing but that: the branch is where it was.
    lost.push(commit(&repo, 1, "again"));
    inside(&repo.root, 1, ["reset", "-q", "--hard", "HEAD~1"]);
    lost.sort();
    capture(&workspace, 1).await;
    assert_eq!(left(&repo), lost);

    // What a log names is checked like all else, and is no reason to refuse the rest.
    let log = repo.private(1).join("admin/logs/HEAD");
    let blob = plant(&repo, &[], b"no commit");
    let tree = plant_tree(&repo, "40000", ".git");
    let text = format!("tree {tree}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n");
    let evil = plant(&repo, &["-t", "commit"], text.as_bytes());
    let mut named = fs::read_to_string(&log).unwrap();
    named += &format!("{evil} {blob} A <a@b> 0 +0000\tx\n{} ?\n\n", "1".repeat(40));
    fs::write(&log, named).unwrap();
    let tip = commit(&repo, 1, "more");
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
    assert_eq!(left(&repo), lost);
    // A person who deletes the references is not contradicted by an old log.
    for id in &lost {
        repo.git(["update-ref", "-d", &format!("refs/watchfire/left/0001/{id}")]);
    }
    open_isolated(&workspace, 1).await;
    commit(&repo, 1, "last");
    capture(&workspace, 1).await;
    assert_eq!(left(&repo), [""; 0]);
    repo.fsck();
}

#[tokio::test]
async fn very_many_tips_share_a_reference() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    let base = inside(&repo.root, 1, ["rev-parse", "HEAD"]).trim().to_owned();
    let log = repo.private(1).join("admin/logs/HEAD");
    let mut text = fs::read_to_string(&log).unwrap_or_default();
    let tree = inside(&repo.root, 1, ["rev-parse", "HEAD^{tree}"]).trim().to_owned();
    let mut tips = Vec::new();
    for n in 0..130 {
        let content = format!(
            "tree {tree}\nparent {base}\nauthor A <a@b> {n} +0000\ncommitter A <a@b> {n} +0000\n\nx\n"
        );
        let tip = plant(&repo, &["-t", "commit"], content.as_bytes());
        text += &format!("{base} {tip} A <a@b> {n} +0000\tcommit: x\n");
        tips.push(tip);
    }
    fs::write(&log, text).unwrap();
    capture(&workspace, 1).await;
    assert_eq!(left(&repo).len(), 100);
    let kept = repo.git(["rev-list", "--glob=refs/watchfire/left"]);
    assert!(tips.iter().all(|tip| kept.contains(tip)));
    repo.fsck();
}

/// Killed in the midst of a merge, a rebase or a cherry-pick: the files count as they are, and the commits all stay.
#[tokio::test]
async fn what_the_agent_was_in_the_midst_of_ends() {
    let begun: [(&str, &[&str]); 4] = [
        ("merge", &["merge", "-q", "watchfire/side"]),
        ("rebase", &["rebase", "-q", "--autostash", "watchfire/side"]),
        ("apply", &["rebase", "-q", "--apply", "--autostash", "watchfire/side"]),
        ("cherry-pick", &["cherry-pick", "watchfire/side"]),
    ];
    for (what, begin) in begun {
        for isolation in ISOLATIONS {
            let repo = Repo::new();
            repo.write("other", "1\n");
            repo.commit("other");
            let workspace = repo.workspace();
            let request = OpenRequest::new(key(1), Attempt(1)).with_isolation(isolation);
            let opened = workspace.open(&request).await.unwrap();
            inside(&repo.root, 1, ["checkout", "-q", "-b", "watchfire/side"]);
            fs::write(opened.cwd.join("a file.txt"), "theirs\n").unwrap();
            let theirs = commit(&repo, 1, "theirs");
            inside(&repo.root, 1, ["checkout", "-q", "watchfire/0001"]);
            fs::write(opened.cwd.join("a file.txt"), "ours\n").unwrap();
            let ours = commit(&repo, 1, "ours");
            let mut saved = None;
            if what == "rebase" || what == "apply" {
                // Put away by the rebase, and named by nothing but its notes.
                fs::write(opened.cwd.join("other"), "put away\n").unwrap();
                saved = Some("put away");
            }
            let who = ["-c", "user.name=x", "-c", "user.email=x"];
            let begun = run_inside(&repo.root, 1, who.iter().chain(begin));
            assert!(!begun.status.success(), "{what}: {begun:?}");
            assert!(inside(&repo.root, 1, ["ls-files", "--unmerged"]).contains("a file.txt"), "{what}");
            let content = fs::read_to_string(opened.cwd.join("a file.txt")).unwrap();
            assert!(content.contains("<<<<<<<"), "{what}");

            let made = capture(&workspace, 1).await.committed.unwrap();
            let shown = repo.git(["show", &format!("{}:a file.txt", made.as_str())]);
            assert_eq!(shown, content, "{what}");
            // The next attempt starts on its branch, with all that clean and nothing under way.
            let opened = workspace.open(&request).await.unwrap();
            assert!(opened.attention.is_empty(), "{what}: {opened:?}");
            let status = inside(&repo.root, 1, ["status"]);
            assert!(status.starts_with("On branch watchfire/0001\n"), "{what}: {status}");
            assert!(status.contains("nothing to commit"), "{what}: {status}");
            assert!(!status.contains("progress") && !status.contains("merging"), "{what}: {status}");
            let kept = repo.git(["log", "--all", "--format=%H", "-p", "--first-parent"]);
            assert!([&theirs, &ours].iter().all(|id| kept.contains(*id)), "{what}");
            assert!(saved.is_none_or(|saved| kept.contains(saved)), "{what}: what it put away is lost");
            repo.fsck();
        }
    }
}

#[tokio::test]
async fn work_on_another_branch_of_the_agent_is_its_work() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    inside(&repo.root, 1, ["checkout", "-q", "-b", "watchfire/0001-better"]);
    let made = commit(&repo, 1, "better");
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), made);
    assert_eq!(git(&opened.cwd, ["symbolic-ref", "HEAD"]), "refs/heads/watchfire/0001\n");
    // A HEAD on what is no branch is none.
    let blob = repo.git(["rev-parse", "HEAD:.gitignore"]);
    fs::write(repo.private(1).join("top/refs/heads/watchfire/0001"), &blob).unwrap();
    for head in [
        blob.as_str(),
        "ref: refs/heads/nowhere",
        "ref: refs/heads/watchfire/../main",
        "ref: refs/heads/watchfire/x y",
        "?",
    ] {
        fs::write(repo.private(1).join("admin/HEAD"), head).unwrap();
        assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), made);
        assert_eq!(git(&opened.cwd, ["symbolic-ref", "HEAD"]), "refs/heads/watchfire/0001\n");
    }
    repo.fsck();
}

/// What the repository of a submodule holds is not the person's to run; it waits for the agent's next session.
#[tokio::test]
async fn submodules_of_the_agent_stay_its_own() {
    let (repo, other) = (Repo::new(), Repo::named("other"));
    other.write("file", "content");
    other.commit("other");
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    let url = other.root.to_str().unwrap();
    inside(&repo.root, 1, ["-c", "protocol.file.allow=always", "submodule", "add", "-q", url, "sub"]);
    let made = commit(&repo, 1, "with a submodule");
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), made);

    let modules = repo.root.join(".git/watchfire/private/modules-0001");
    for _ in 0..2 {
        // Without private copies the real git of the person would read them.
        open(&workspace, 1).await;
        assert!(modules.join("sub").is_dir());
        assert!(!repo.root.join(".git/worktrees/watchfire-0001/modules").exists());
        open_isolated(&workspace, 1).await;
        assert!(!modules.exists());
        assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
        let submodule = ["submodule", "--quiet", "foreach", "git rev-parse HEAD"];
        assert_eq!(inside(&repo.root, 1, submodule), other.git(["rev-parse", "HEAD"]));
    }
    workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(!modules.exists() && !opened.cwd.exists());
    assert!(repo.root.join(".git/watchfire/private/aside/0001-modules-1/sub").is_dir());
    repo.fsck();
}

#[tokio::test]
async fn modules_that_are_no_folder_are_not_taken_up() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    std::os::unix::fs::symlink("/", repo.private(1).join("admin/modules")).unwrap();
    open(&workspace, 1).await;
    open_isolated(&workspace, 1).await;
    assert!(fs::symlink_metadata(repo.private(1).join("admin/modules")).is_err());
    assert!(repo.root.join(".git/watchfire/private/aside/0001-modules-1").is_symlink());
}

#[tokio::test]
async fn branches_that_the_agent_has_packed_count() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    inside(&repo.root, 1, ["checkout", "-q", "-b", "watchfire/0001-side"]);
    let side = commit(&repo, 1, "side");
    inside(&repo.root, 1, ["checkout", "-q", "watchfire/0001"]);
    let tip = commit(&repo, 1, "own");
    inside(&repo.root, 1, ["pack-refs", "--all"]);
    inside(&repo.root, 1, ["repack", "-q", "-a", "-d", "-l"]);
    assert!(!repo.private(1).join("top/refs/heads/watchfire/0001").exists());

    // Broken off before the side branch is kept, the next import keeps it.
    fs::create_dir_all(repo.root.join(".git/refs/watchfire")).unwrap();
    fs::write(repo.root.join(".git/refs/watchfire/left"), "").unwrap();
    workspace.capture(&CaptureRequest::new(key(1), "captured")).await.unwrap_err();
    fs::remove_file(repo.root.join(".git/refs/watchfire/left")).unwrap();
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
    open(&workspace, 1).await;
    assert_eq!(repo.git(["rev-parse", "refs/watchfire/left/0001/heads/watchfire/0001-side"]).trim(), side);
    repo.fsck();
}

/// git's own folders of references, and the references in them, come and go when a person cleans up.
#[tokio::test]
async fn the_person_may_pack_references_meanwhile() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    repo.git(["pack-refs", "--all"]);
    repo.git(["gc", "-q", "--prune=now"]);
    assert!(repo.root.join(".git/refs/heads/watchfire").is_dir(), "the place of the agent's branches stays");
    assert!(repo.root.join(".git/logs/refs/heads/watchfire").is_dir());
    assert_eq!(inside(&repo.root, 1, ["rev-parse", "main"]), repo.git(["rev-parse", "main"]));
    let tip = commit(&repo, 1, "work");
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
    repo.fsck();
}

#[tokio::test]
async fn what_the_person_has_already_is_no_fault_of_the_agent() {
    let repo = Repo::new();
    std::os::unix::fs::symlink("a file.txt", repo.root.join(".gitignored")).unwrap();
    std::os::unix::fs::symlink("nowhere", repo.root.join(".mailmap")).unwrap();
    repo.commit("links");
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    std::os::unix::fs::symlink("a file.txt", opened.cwd.join(".gitlab-ci.yml")).unwrap();
    let tip = commit(&repo, 1, "work");
    assert_eq!(capture(&workspace, 1).await.tip.unwrap().as_str(), tip);
}

/// libgit2 does not read every form of an index.
#[tokio::test]
async fn an_index_in_another_form_costs_no_file() {
    for form in ["--split-index", "--index-version=4"] {
        let repo = Repo::new();
        let workspace = repo.workspace();
        open_isolated(&workspace, 1).await;
        inside(&repo.root, 1, ["update-index", form]);
        commit(&repo, 1, "first");
        capture(&workspace, 1).await;
        open_isolated(&workspace, 1).await;
        fs::write(repo.root.join(".watchfire/worktrees/0001/z"), "z").unwrap();
        inside(&repo.root, 1, ["add", "z"]);
        inside(&repo.root, 1, ["commit", "-qm", "second"]);
        assert_eq!(inside(&repo.root, 1, ["show", "--name-only", "--format="]), "z\n", "{form}");
        capture(&workspace, 1).await;
        repo.fsck();
    }
}

#[tokio::test]
async fn many_objects_arrive_as_one_pack() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    for n in 0..300 {
        fs::write(opened.cwd.join(format!("file {n}")), n.to_string()).unwrap();
    }
    inside(&repo.root, 1, ["add", "-A"]);
    inside(&repo.root, 1, ["commit", "-qm", "many"]);
    assert_eq!(capture(&workspace, 1).await.commits, 1);
    assert!(repo.git(["count-objects", "-v"]).contains("packs: 1"));
    repo.fsck();
}

/// Of every length that the head of an entry tells apart, and some twice.
#[tokio::test]
async fn many_uncommitted_files_become_one_pack() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    let content = |n: usize| "x".repeat([0, 1, 15, 16, 2047, 2048, 40_000][n % 7]) + &(n / 2).to_string();
    for n in 0..500 {
        fs::write(opened.cwd.join(format!("file {n}")), content(n)).unwrap();
    }
    assert_eq!(capture(&workspace, 1).await.paths.len(), 500);
    let counted = repo.git(["count-objects", "-v"]);
    assert!(counted.contains("packs: 1\n"), "{counted}");
    for n in [0, 6, 7, 40, 41, 499] {
        assert_eq!(repo.git(["show", &format!("watchfire/0001:file {n}")]), content(n));
    }
    assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
    assert_eq!(fs::read_dir(repo.root.join(".git/watchfire/tmp")).unwrap().count(), 0);
    repo.fsck();
}

#[tokio::test]
async fn what_is_staged_counts() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::create_dir(opened.cwd.join("ignored")).unwrap();
    fs::write(opened.cwd.join("ignored/on purpose"), "1").unwrap();
    inside(&repo.root, 1, ["add", "-f", "ignored/on purpose"]);
    assert_eq!(capture(&workspace, 1).await.paths.len(), 1);
    repo.fsck();
}

#[tokio::test]
async fn captures_may_be_repeated_while_the_agent_goes_on() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    let first = commit(&repo, 1, "first");
    fs::write(opened.cwd.join("open"), "1").unwrap();
    let made = capture(&workspace, 1).await.committed.unwrap();
    // Nothing new: the same again.
    assert_eq!(capture(&workspace, 1).await.tip.unwrap(), made);
    let second = commit(&repo, 1, "second");
    let tip = capture(&workspace, 1).await.tip.unwrap();
    assert_eq!(tip.as_str(), second, "the agent's own history counts");
    assert!(repo.git(["log", "--format=%H", &second]).contains(&first));
    assert_eq!(
        repo.git(["rev-parse", &format!("refs/watchfire/left/0001/{}", made.as_str())]).trim(),
        made.as_str()
    );
    // Going back is work too.
    inside(&repo.root, 1, ["reset", "-q", "--hard", &first]);
    assert_eq!(capture(&workspace, 1).await.paths.len(), 2, "two files are gone");
    repo.fsck();
}

#[tokio::test]
async fn what_a_killed_process_left_is_imported_at_the_next_start() {
    let repo = Repo::new();
    let tip = {
        let workspace = repo.workspace();
        open_isolated(&workspace, 1).await;
        commit(&repo, 1, "work")
    };
    let workspace = repo.workspace();
    assert!(workspace.recover().await.unwrap().attention.is_empty());
    assert_eq!(repo.git(["rev-parse", "watchfire/0001"]).trim(), tip);
    let third = commit(&repo, 1, "third");
    workspace.import(&key(1)).await.unwrap();
    assert_eq!(repo.git(["rev-parse", "watchfire/0001"]).trim(), third);
    // Also by whoever opens it without private copies.
    let second = commit(&repo, 1, "more");
    let opened = open(&workspace, 1).await;
    assert!(opened.binds.is_empty() && !repo.private(1).exists());
    assert_eq!(git(&opened.cwd, ["rev-parse", "HEAD"]).trim(), second);
    assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
    repo.fsck();
}

/// A loose object of the agent that is not what its name says, or not what git writes.
fn plant(repo: &Repo, args: &[&str], input: &[u8]) -> String {
    use std::io::Write;
    let mut child = std::process::Command::new("git")
        .args(["hash-object", "-w", "--stdin", "--literally"])
        .args(args)
        .env("GIT_DIR", repo.root.join(".git"))
        .env("GIT_OBJECT_DIRECTORY", repo.private(1).join("objects"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

fn loose(repo: &Repo, id: &str) -> std::path::PathBuf {
    repo.private(1).join("objects").join(&id[..2]).join(&id[2..])
}

/// A tree of one file, in whatever way.
fn plant_tree(repo: &Repo, mode: &str, name: &str) -> String {
    let blob = plant(repo, &["-t", "blob"], b"evil");
    plant(repo, &["-t", "tree"], &[format!("{mode} {name}\0").as_bytes(), &bytes(&blob)].concat())
}

fn bytes(id: &str) -> Vec<u8> {
    (0..20).map(|n| u8::from_str_radix(&id[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// Ten times a tree that holds ten times a tree, and so on.
fn bomb(repo: &Repo) -> String {
    (0..9).fold(plant_tree(repo, "100644", "a"), |tree, _| {
        let entry = |n: u8| [format!("40000 {n}\0").as_bytes(), &bytes(&tree)].concat();
        plant(repo, &["-t", "tree"], &(0..10).flat_map(entry).collect::<Vec<_>>())
    })
}

fn tree_of(mode: &'static str, name: &'static str) -> Planting {
    Box::new(move |repo| plant_tree(repo, mode, name))
}

/// A tree that names an object of the project under a mode for another kind.
fn known(mode: &'static str, object: &'static str) -> Planting {
    Box::new(move |repo| {
        let id = repo.git(["rev-parse", object]);
        plant(repo, &["-t", "tree"], &[format!("{mode} d\0").as_bytes(), &bytes(id.trim())].concat())
    })
}

/// Plants a tree and names it.
type Planting = Box<dyn Fn(&Repo) -> String>;

#[tokio::test]
async fn what_git_would_not_have_written_stays_outside() {
    let corrupt = |repo: &Repo| {
        let tree = plant_tree(repo, "100644", "a");
        let (good, evil) = (plant(repo, &[], b"evil"), plant(repo, &[], b"other"));
        fs::remove_file(loose(repo, &good)).unwrap();
        fs::copy(loose(repo, &evil), loose(repo, &good)).unwrap();
        tree
    };
    let missing = |repo: &Repo| {
        let tree = plant_tree(repo, "100644", "a");
        fs::remove_file(loose(repo, &plant(repo, &[], b"evil"))).unwrap();
        tree
    };
    let cases: Vec<(&str, Planting)> = vec![
        ("into .git", tree_of("40000", ".git")),
        ("up", tree_of("100644", "..")),
        ("a path as a name", tree_of("100644", "a/b")),
        ("an odd mode", tree_of("100666", "a")),
        ("a link that git follows", tree_of("120000", ".gitmodules")),
        ("a path on another system", tree_of("100644", "a\\.git")),
        ("a link that another system follows", tree_of("120000", ".g\u{200c}itmodules")),
        (
            "no commit of a submodule",
            Box::new(|repo| plant(repo, &["-t", "tree"], &[&b"160000 sub\0"[..], &[0; 20]].concat())),
        ),
        ("more files than there can be", Box::new(bomb)),
        (
            "a pack that is none",
            Box::new(|repo| {
                fs::create_dir_all(repo.private(1).join("objects/pack")).unwrap();
                fs::write(repo.private(1).join("objects/pack/pack-1.pack"), "PACK").unwrap();
                plant_tree(repo, "100644", "a")
            }),
        ),
        (
            "modules that name a program",
            Box::new(|repo| {
                let blob = plant(repo, &[], b"[submodule \"a\"]\n\tpath = a\n\tupdate = !evil\n");
                plant(repo, &["-t", "tree"], &[&b"100644 .gitmodules\0"[..], &bytes(&blob)].concat())
            }),
        ),
        (
            "a link that git follows, beside one that it does not",
            Box::new(|repo| {
                let blob = plant(repo, &["-t", "blob"], b"evil");
                let entry = |name: &str| [format!("120000 {name}\0").as_bytes(), &bytes(&blob)].concat();
                plant(repo, &["-t", "tree"], &[entry("-a"), entry(".gitignore")].concat())
            }),
        ),
        (
            "modules that name a program, beside a file that says the same",
            Box::new(|repo| {
                let blob = plant(repo, &[], b"[submodule \"a\"]\n\tpath = a\n\tupdate = !evil\n");
                let entry = |name: &str| [format!("100644 {name}\0").as_bytes(), &bytes(&blob)].concat();
                plant(repo, &["-t", "tree"], &[entry("-a"), entry(".gitmodules")].concat())
            }),
        ),
        ("a file for a folder", known("40000", "HEAD:a file.txt")),
        ("a folder for a file", known("100644", "HEAD^{tree}")),
        ("a commit for a file", known("100644", "HEAD")),
        ("corrupt", Box::new(corrupt)),
        ("missing", Box::new(missing)),
    ];
    for (what, make) in cases {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open_isolated(&workspace, 1).await;
        fs::write(opened.cwd.join("file"), "work").unwrap();
        let tree = make(&repo);
        let head = repo.git(["rev-parse", "HEAD"]);
        let text = format!(
            "tree {tree}\nparent {}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n",
            head.trim()
        );
        let evil = plant(&repo, &["-t", "commit"], text.as_bytes());
        fs::write(repo.private(1).join("top/refs/heads/watchfire/0001"), format!("{evil}\n")).unwrap();
        let before = everything(&repo);

        let error = workspace.capture(&CaptureRequest::new(key(1), "captured")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WorkspaceBroken, "{what}: {error:?}");
        assert_eq!(everything(&repo), before, "{what}");
        assert_eq!(workspace.recover().await.unwrap().attention.len(), 1, "{what}");
        let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
        assert!(matches!(removed, Removed::Kept { .. }), "{what}: {removed:?}");

        // The next attempt starts from what there is; the rest is kept for a person.
        let opened = open_isolated(&workspace, 1).await;
        assert_eq!(opened.attention.len(), 1, "{what}");
        assert_eq!(capture(&workspace, 1).await.paths.len(), 1, "{what}");
        assert!(repo.root.join(".git/watchfire/private/aside/0001-1").is_dir(), "{what}");
        repo.fsck();
    }
}

#[tokio::test]
async fn other_objects_and_links_are_not_followed() {
    let repo = Repo::new();
    let elsewhere = Repo::named("elsewhere");
    elsewhere.write("secret", "secret");
    let secret = elsewhere.commit("secret");
    let workspace = repo.workspace();
    open_isolated(&workspace, 1).await;
    let private = repo.private(1);
    // A branch in objects that only an alternate of the agent's would show, and links in place of everything.
    let alternates = elsewhere.root.join(".git/objects");
    fs::write(private.join("objects/info/alternates"), format!("{}\n", alternates.display())).unwrap();
    fs::write(private.join("top/refs/heads/watchfire/0001"), &secret).unwrap();
    let before = everything(&repo);
    capture(&workspace, 1).await;
    assert_eq!(everything(&repo), before);
    for (name, to) in [
        ("top/refs/heads/watchfire/0001", elsewhere.root.join(".git/refs/heads/main")),
        ("admin/HEAD", elsewhere.root.join(".git/refs/heads/main")),
        ("admin/index", elsewhere.root.join(".git/index")),
    ] {
        fs::remove_file(private.join(name)).unwrap();
        std::os::unix::fs::symlink(to, private.join(name)).unwrap();
    }
    capture(&workspace, 1).await;
    assert_eq!(everything(&repo), before);
    let pipe = private.join("admin/index");
    fs::remove_file(&pipe).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    capture(&workspace, 1).await;
    repo.fsck();
}

#[tokio::test]
async fn hidden_files_stay_as_they_are() {
    let repo = Repo::new();
    repo.write(".env", "SECRET=1\n");
    repo.write("deep/.env/key", "secret\n");
    repo.commit("secrets");
    let workspace = repo.workspace();
    let pattern = NamePattern {
        root: repo.root.clone(),
        names: vec![".env".into(), ".env.*".into()],
        except: vec![".env.example".into()],
        origin: String::new(),
    };
    let request =
        OpenRequest::new(key(1), Attempt(1)).with_isolation(Isolation::Bound).with_hidden(vec![pattern]);
    let opened = workspace.open(&request).await.unwrap();
    // As the sandbox shows it.
    fs::remove_file(opened.cwd.join(".env")).unwrap();
    fs::remove_dir_all(opened.cwd.join("deep/.env")).unwrap();
    assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
    commit(&repo, 1, "work");
    assert_eq!(inside(&repo.root, 1, ["show", "--name-only", "--format="]), "work\n");
    assert!(run_inside(&repo.root, 1, ["stash"]).status.success());
    // What is there outside, also new, is nobody's work.
    fs::write(opened.cwd.join(".env"), "SECRET=2\n").unwrap();
    fs::write(opened.cwd.join(".env.local"), "SECRET=3\n").unwrap();
    fs::write(opened.cwd.join(".env.example"), "SECRET=\n").unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.len(), 1, "{captured:?}");
    assert_eq!(repo.git(["diff", "--name-only", "main", "watchfire/0001"]), ".env.example\nwork\n");
    assert_eq!(repo.git(["show", "watchfire/0001:.env"]), "SECRET=1\n");
    // What is nowhere else is named and kept, but for what the project ignores.
    fs::create_dir_all(opened.cwd.join("ignored")).unwrap();
    fs::write(opened.cwd.join("ignored/.env"), "SECRET=4\n").unwrap();
    let captured = capture(&workspace, 1).await;
    let left_out: Vec<_> =
        captured.left_out.iter().map(|left| (left.path.to_string(), left.reason)).collect();
    assert_eq!(left_out, [(".env.local".to_owned(), LeftOutReason::SecretName)]);
    workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    let aside = repo.root.join(".watchfire/worktrees/aside/0001-0001-1");
    assert_eq!(fs::read_to_string(aside.join(".env.local")).unwrap(), "SECRET=3\n");
    repo.fsck();
}

#[tokio::test]
async fn a_committed_file_beyond_the_limit_is_refused_by_the_name_of_the_limit() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::File::create(opened.cwd.join("disk.img")).unwrap().set_len((512 << 20) + 1).unwrap();
    inside(&repo.root, 1, ["add", "disk.img"]);
    inside(&repo.root, 1, ["commit", "-qm", "large"]);
    let request = watchfire_core::workspace::CaptureRequest::new(key(1), "captured");
    let error = workspace.capture(&request).await.unwrap_err();
    assert!(error.report().contains("512 MiB"), "{}", error.report());
    assert!(error.report().contains("disk.img"), "{}", error.report());
}
