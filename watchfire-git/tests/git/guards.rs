//! Changes that hold a merge: protected paths, and what git runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use watchfire_core::workspace::{Merge, MergeGuard, MergeRequest, ObstacleKind, Workspace};

use crate::support::steps::{capture, key, open};
use crate::support::{Repo, git};

/// Merges what `change` does in a task's folder under `guard`; returns what holds it and the files.
async fn held(
    repo: &Repo,
    n: u32,
    guard: &MergeGuard,
    change: impl FnOnce(&Path),
) -> Option<(ObstacleKind, String)> {
    let workspace = repo.workspace();
    let opened = open(&workspace, n).await;
    change(&opened.cwd);
    capture(&workspace, n).await;
    let request = MergeRequest::new(key(n), "main", "merge");
    assert!(matches!(workspace.prepare_merge(&request).await.unwrap(), Merge::Ready(_)), "{n}");
    match workspace.prepare_merge(&request.with_guard(guard.clone())).await.unwrap() {
        Merge::Held(by) => {
            let files = by.files.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            Some((by.kind, files))
        }
        Merge::Ready(_) => None,
        other => panic!("{other:?}"),
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

type Way = (&'static str, fn(&Path));

/// A project with `ci/deploy.sh`, and a file to which a link on the way to another protected path leads.
fn project() -> Repo {
    let repo = Repo::new();
    fs::create_dir_all(repo.root.join("ci")).unwrap();
    fs::create_dir_all(repo.root.join("real")).unwrap();
    repo.write("ci/deploy.sh", "deploy\n");
    repo.write("real/rules.txt", "rules\n");
    symlink("real", repo.root.join("linked")).unwrap();
    repo.git(["add", "."]);
    repo.commit("the rest");
    repo
}

#[tokio::test]
async fn protected_paths_are_held_however_they_change() {
    let repo = project();
    let protected = ["ci/deploy.sh", "linked/rules.txt", "new/place", "dir/"].map(ToOwned::to_owned);
    let guard = MergeGuard::default().with_protected(protected.to_vec());
    let ways: &[Way] = &[
        ("ci/deploy.sh", |at| write(&at.join("ci/deploy.sh"), "other\n")),
        ("ci/deploy.sh", |at| {
            fs::set_permissions(at.join("ci/deploy.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("ci/deploy.sh", |at| fs::remove_file(at.join("ci/deploy.sh")).unwrap()),
        ("ci/deploy.sh", |at| fs::rename(at.join("ci/deploy.sh"), at.join("moved.sh")).unwrap()),
        ("CI/Deploy.SH", |at| write(&at.join("CI/Deploy.SH"), "x")),
        ("ci/deploy.sh", |at| {
            fs::remove_file(at.join("ci/deploy.sh")).unwrap();
            symlink("../a", at.join("ci/deploy.sh")).unwrap();
        }),
        ("ci/deploy.sh/x", |at| {
            fs::remove_file(at.join("ci/deploy.sh")).unwrap();
            write(&at.join("ci/deploy.sh/x"), "x");
        }),
        ("ci", |at| {
            fs::rename(at.join("ci"), at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join("ci")).unwrap();
        }),
        ("new", |at| symlink("real", at.join("new")).unwrap()),
        ("NEW", |at| symlink("real", at.join("NEW")).unwrap()),
        ("linked", |at| {
            fs::remove_file(at.join("linked")).unwrap();
            symlink("ci", at.join("linked")).unwrap();
        }),
        ("real/rules.txt", |at| write(&at.join("real/rules.txt"), "none\n")),
        ("dir/deep/file", |at| write(&at.join("dir/deep/file"), "x")),
        ("dir", |at| write(&at.join("dir"), "x")),
    ];
    for (at, (file, change)) in ways.iter().enumerate() {
        let (kind, files) =
            held(&repo, at as u32 + 1, &guard, change).await.unwrap_or_else(|| panic!("{at} {file}"));
        assert_eq!(kind, ObstacleKind::ProtectedPaths);
        assert!(files.split(' ').any(|held| held == *file), "{at} {file}: {files}");
    }
    let free = |at: &Path| {
        write(&at.join("ci/other.sh"), "x");
        write(&at.join("real/other.txt"), "x");
        symlink("real", at.join("also")).unwrap();
    };
    assert_eq!(held(&repo, 90, &guard, free).await, None);
}

/// A submodule at the place of a folder, which git would fill from elsewhere.
#[tokio::test]
async fn a_gitlink_on_the_way_is_held() {
    let repo = project();
    let guard = MergeGuard::default().with_protected(vec!["new/place".to_owned()]);
    let found = held(&repo, 1, &guard, |at| {
        let entry = format!("160000,{},new", repo.git(["rev-parse", "HEAD"]).trim());
        let git = |args: &[&str]| crate::support::git(at, args);
        git(&["update-index", "--add", "--cacheinfo", &entry]);
        git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "link"]);
    });
    assert_eq!(found.await, Some((ObstacleKind::ProtectedPaths, "new".to_owned())));
}

/// What the person changed on the target meanwhile is theirs, protected or not.
#[tokio::test]
async fn changes_of_the_person_hold_nothing() {
    let repo = project();
    let guard =
        MergeGuard::default().with_protected(vec!["ci".to_owned()]).with_wiring(true).with_tools(true);
    let found = held(&repo, 1, &guard, |at| {
        write(&at.join("mine"), "x");
        repo.write("ci/deploy.sh", "the person's\n");
        repo.write(".gitattributes", "*.x filter=lfs\n");
        repo.write("package.json", "{}\n");
        repo.git(["add", "."]);
        repo.commit("meanwhile");
    });
    assert_eq!(found.await, None);
}

#[tokio::test]
async fn what_git_runs_is_held() {
    let repo = project();
    fs::create_dir_all(repo.root.join("tools")).unwrap();
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text\n");
    repo.git(["add", "."]);
    repo.commit("attributes");
    repo.git(["config", "core.hooksPath", "tools/_"]);
    repo.git(["config", "include.path", "../.gitconfig"]);
    repo.git(["config", "diff.x.textconv", "sh ./show.sh"]);
    let guard = MergeGuard::default().with_wiring(true);
    let ways: &[Way] = &[
        (".gitattributes", |at| write(&at.join(".gitattributes"), "*.bin -text\n")),
        ("sub/.gitattributes", |at| write(&at.join("sub/.gitattributes"), "* filter=x\n")),
        ("sub/.GITATTRIBUTES", |at| write(&at.join("sub/.GITATTRIBUTES"), "* diff=x\n")),
        ("sub/.gitattributes", |at| write(&at.join("sub/.gitattributes"), "* macro-of-yours\n")),
        (".gitmodules", |at| {
            write(&at.join(".gitmodules"), "[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n");
        }),
        (".gitconfig", |at| write(&at.join(".gitconfig"), "[core]\n\tfsmonitor = x\n")),
        ("show.sh", |at| write(&at.join("show.sh"), "x")),
        ("link", |at| {
            let head = git(at, ["rev-parse", "HEAD"]);
            git(at, ["update-index", "--add", "--cacheinfo", &format!("160000,{},link", head.trim())]);
            git(at, ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "link"]);
        }),
        ("tools/_/pre-commit", |at| write(&at.join("tools/_/pre-commit"), "x")),
        ("tools/pre-commit", |at| write(&at.join("tools/pre-commit"), "x")),
        ("tools", |at| {
            let _ = fs::remove_dir_all(at.join("tools"));
            symlink("real", at.join("tools")).unwrap();
        }),
    ];
    for (at, (file, change)) in ways.iter().enumerate() {
        let found = held(&repo, at as u32 + 1, &guard, change).await;
        assert_eq!(found, Some((ObstacleKind::GitWiring, (*file).to_owned())), "{at}");
    }
    let free = |at: &Path| {
        write(&at.join("docs/.gitattributes"), "*.md text linguist-documentation\n");
        write(&at.join("sub/.gitmodules"), "not read by git\n");
        write(&at.join("toolsmith"), "x");
    };
    assert_eq!(held(&repo, 90, &guard, free).await, None);
}

#[tokio::test]
async fn entries_that_lead_out_of_the_repository_are_refused() {
    let repo = project();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    write(&opened.cwd.join("x"), "x");
    capture(&workspace, 1).await;
    for entry in ["/etc", "../x", "a//b", "a/../b"] {
        let guard = MergeGuard::default().with_protected(vec![entry.to_owned()]);
        let request = MergeRequest::new(key(1), "main", "merge").with_guard(guard);
        let error = workspace.prepare_merge(&request).await.unwrap_err();
        assert_eq!(error.code(), "invalid_input", "{entry}");
    }
}

/// Git that runs in such a folder, for a prompt as well, obeys its configuration.
#[tokio::test]
async fn a_repository_among_the_files_is_held() {
    let repo = project();
    let guard = MergeGuard::default().with_wiring(true);
    let ways: &[Way] = &[
        ("hand/HEAD", |cwd| {
            for path in ["hand/HEAD", "hand/objects/x", "hand/refs/x", "hand/config"] {
                write(&cwd.join(path), "x");
            }
        }),
        ("deep/er/HEAD", |cwd| {
            write(&cwd.join("deep/er/HEAD"), "x");
            write(&cwd.join("deep/er/commondir"), "../../x");
        }),
    ];
    for (n, (file, change)) in (1..).zip(ways) {
        let (kind, files) = held(&repo, n, &guard, change).await.expect("held");
        assert!(kind == ObstacleKind::GitWiring && files.contains(file), "{kind:?} {files}");
    }
    let parts = held(&repo, 9, &guard, |cwd| {
        for path in ["a/HEAD", "a/objects/x", "b/refs/x", "refs/x"] {
            write(&cwd.join(path), "x");
        }
    });
    assert_eq!(parts.await, None);
}
