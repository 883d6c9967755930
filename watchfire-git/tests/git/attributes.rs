//! Files of attributes that a merge brings, compared with what `git merge` makes of the same commit.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use watchfire_core::workspace::Published;
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{capture, open, publish};
use crate::support::{Repo, git};

/// Every file below `folder` but git's and ours.
fn files(folder: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(at) = pending.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            let name = entry.file_name();
            if name == ".git" || name == ".watchfire" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(folder).unwrap().as_os_str().as_bytes().to_vec();
                found.insert(path, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// Publishes work, and has git merge the same commit in a clone of before. Both have the same files then.
async fn like_git(repo: &Repo, workspace: &GitWorkspace, n: u32, work: impl FnOnce(&Path)) {
    let clone = repo.beside(&format!("clone-{n}"));
    git(&repo.root, ["clone", "-q", ".", clone.to_str().unwrap()]);
    for (name, value) in config(repo) {
        git(&clone, ["config", &name, &value]);
    }
    // Checked out again, with this configuration.
    git(&clone, ["rm", "-rq", "--cached", "."]);
    git(&clone, ["reset", "-q", "--hard"]);
    let opened = open(workspace, n).await;
    work(&opened.cwd);
    capture(workspace, n).await;
    let published = publish(workspace, n).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    git(&clone, ["pull", "-q", "--ff-only", "origin", "main"]);
    let (ours, gits) = (files(&repo.root), files(&clone));
    assert_eq!(ours.keys().collect::<Vec<_>>(), gits.keys().collect::<Vec<_>>(), "{n}");
    for (path, content) in gits {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(text(&ours[&path]), text(&content), "{n}: {}", String::from_utf8_lossy(&path));
    }
    assert_eq!(repo.git(["status", "--porcelain"]), "", "{n}");
}

/// The drivers of `repo`.
fn config(repo: &Repo) -> Vec<(String, String)> {
    let list = repo.git(["config", "--local", "--list"]);
    let lines = list.lines().filter(|line| line.starts_with("filter.") || line.starts_with("core.autocrlf"));
    lines.filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn write(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn attributes_hold_for_the_files_that_come_with_them() {
    let repo = Repo::new();
    // An older and a stronger one, which stay.
    repo.write("kept/.gitattributes", "*.crlf -text\n");
    repo.commit("attributes");
    let workspace = repo.workspace();
    like_git(&repo, &workspace, 1, |cwd| {
        let rules = "[attr]dos text eol=crlf\n*.crlf dos\n*.u16 working-tree-encoding=UTF-16LE-BOM\n";
        write(cwd, ".gitattributes", rules);
        write(cwd, "sub/deep/.gitattributes", "*.crlf text eol=lf\n*.id ident\n");
        for folder in ["", "sub/", "sub/deep/", "kept/"] {
            write(cwd, &format!("{folder}x.crlf"), "one\ntwo\n");
        }
        write(cwd, "y.u16", "text\n");
        write(cwd, "sub/deep/z.id", "$Id$\n");
    })
    .await;
    assert_eq!(repo.read("x.crlf"), "one\r\ntwo\r\n");
    assert_eq!(fs::read(repo.root.join("y.u16")).unwrap()[..4], *b"\xff\xfet\0");
    assert_eq!(repo.read("sub/deep/x.crlf"), "one\ntwo\n");
    // Changed, and gone.
    like_git(&repo, &workspace, 2, |cwd| {
        write(cwd, ".gitattributes", "*.crlf text eol=lf\n*.u16 -working-tree-encoding\n*.new eol=crlf\n");
        fs::remove_file(cwd.join("sub/deep/.gitattributes")).unwrap();
        for name in ["x.crlf", "sub/x.crlf", "sub/deep/x.crlf"] {
            write(cwd, name, "one\ntwo\nthree\n");
        }
        write(cwd, "y.new", "new\n");
        // Left alone, files of the rules of before would count as changed, in git as well.
        write(cwd, "y.u16", "plain text\n");
        write(cwd, "sub/deep/z.id", "$Id$ again\n");
        write(cwd, "sub/deep/other.id", "$Id$\n");
    })
    .await;
    assert_eq!(repo.read("x.crlf"), "one\ntwo\nthree\n");
    assert_eq!((repo.read("y.new"), repo.read("y.u16")), ("new\r\n".into(), "plain text\n".into()));
    assert_eq!(repo.read("sub/deep/other.id"), "$Id$\n");
}

/// A file that the index does not know as its own, such as in a copy of the checkout, is compared by the rules of before.
#[tokio::test]
async fn what_was_there_is_judged_by_the_rules_of_before() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.bat eol=crlf\n");
    repo.write("changed.bat", "one\r\ntwo\r\n");
    repo.commit("attributes");
    let file = fs::File::options().write(true).open(repo.root.join("changed.bat")).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5)).unwrap();
    let workspace = repo.workspace();
    like_git(&repo, &workspace, 1, |cwd| {
        write(cwd, ".gitattributes", "*.bat eol=lf\n");
        write(cwd, "changed.bat", "one\ntwo\nthree\n");
    })
    .await;
    assert_eq!(repo.read("changed.bat"), "one\ntwo\nthree\n");
}

/// A driver may be a script of the checkout, and is started at its top.
#[tokio::test]
async fn a_driver_finds_the_checkout_around_it() {
    let repo = Repo::new();
    repo.write("tools/table", "a-z A-Z");
    repo.write("tools/.gitattributes", "*.none -text\n");
    repo.commit("tools");
    repo.git(["config", "filter.upper.smudge", "tr $(cat tools/table)"]);
    repo.git(["config", "filter.upper.clean", "tr A-Z a-z"]);
    repo.git(["config", "filter.upper.required", "true"]);
    let options = GitOptions::default().with_filters(["upper"]);
    let workspace = GitWorkspace::open(&repo.root, options).unwrap();
    like_git(&repo, &workspace, 1, |cwd| {
        write(cwd, ".gitattributes", "*.up filter=upper\n");
        write(cwd, "tools/.gitattributes", "*.none text eol=crlf\n");
        write(cwd, "tools/x.none", "none\n");
        write(cwd, "x.up", "content\n");
    })
    .await;
    assert_eq!(repo.read("x.up"), "CONTENT\n");
    // One that is not allowed does not run because a merge names it.
    let opened = open(&repo.workspace(), 2).await;
    write(&opened.cwd, ".gitattributes", "*.down filter=upper\n");
    write(&opened.cwd, "x.down", "content\n");
    capture(&workspace, 2).await;
    assert!(matches!(publish(&repo.workspace(), 2).await, Published::Held(_)));
}
