//! What a person and agents do in a plain folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use watchfire_core::ErrorKind;
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    CaptureRequest, Merge, MergeGuard, MergeRequest, ObstacleKind, OpenRequest, PublishRequest, Published,
    RemoveRequest, Removed, RevertRequest, Reverted, Workspace,
};
use watchfire_git::diff::DiffRequest;
use watchfire_git::init::{check_plain, init_plain};
use watchfire_git::{GitOptions, GitWorkspace};

use super::Plain;
use crate::support::steps::{candidate, capture, key, open, prepare, publish};

async fn merge(workspace: &GitWorkspace, n: u32) {
    let published = publish(workspace, n).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
    assert!(matches!(removed, Removed::Gone { .. }), "{removed:?}");
}

#[tokio::test]
async fn from_a_folder_to_merged_and_back() {
    let plain = Plain::bare();
    plain.write("gone", "gone\n");
    plain.write("deep/er/kept", "kept\n");
    fs::set_permissions(plain.root.join("gone"), fs::Permissions::from_mode(0o755)).unwrap();
    plain.init();
    assert!(!plain.root.join(".git").exists());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&plain.store), mode(plain.store.parent().unwrap())), (0o700, 0o700));

    let workspace = plain.workspace();
    workspace.check_target("").await.unwrap();
    let opened = open(&workspace, 1).await;
    assert_eq!(fs::read_to_string(opened.cwd.join("deep/er/kept")).unwrap(), "kept\n");
    assert!(!opened.cwd.join(".watchfire").exists());
    fs::write(opened.cwd.join("new"), "new\n").unwrap();
    fs::remove_file(opened.cwd.join("gone")).unwrap();
    capture(&workspace, 1).await;
    let diff = workspace.diff(&DiffRequest::new(key(1))).await.unwrap();
    assert_eq!(diff.total_files, 2);
    let merged = candidate(&workspace, 1).await;
    let scratch = workspace.checkout(&merged).await.unwrap();
    assert!(scratch.path().join("new").exists() && plain.root.join("gone").exists());
    drop(scratch);
    merge(&workspace, 1).await;
    assert!(!plain.root.join("gone").exists());
    assert_eq!((plain.read("new"), plain.status().as_str()), ("new\n".to_owned(), ""));

    // Undone, with what came later left alone.
    plain.write("later", "mine\n");
    let merged = workspace.list().await.unwrap();
    assert!(merged.is_empty(), "{merged:?}");
    let tip = watchfire_core::workspace::Commit::new(plain.git(["rev-parse", "main^2"]).trim());
    assert!(workspace.is_published("main", &tip).await.unwrap());
    let of = watchfire_core::workspace::Commit::new(plain.tip());
    let reverted = workspace.revert(&RevertRequest::new(key(2), key(1), of, "main", "undo")).await.unwrap();
    assert!(matches!(reverted, Reverted::Done(_)), "{reverted:?}");
    merge(&workspace, 2).await;
    assert!(!plain.root.join("new").exists());
    assert_eq!((plain.read("gone"), plain.read("later")), ("gone\n".to_owned(), "mine\n".to_owned()));
    assert_eq!(mode(&plain.root.join("gone")) & 0o100, 0o100);
    plain.sound("at the end");
}

#[tokio::test]
async fn a_snapshot_is_taken_only_of_changes() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    let first = plain.tip();
    open(&workspace, 1).await;
    assert_eq!(plain.tip(), first);
    plain.write("mine", "mine\n");
    let opened = open(&workspace, 2).await;
    assert_ne!(plain.tip(), first);
    assert!(opened.cwd.join("mine").exists());
    assert_eq!(plain.git(["log", "--format=%an: %s", "main"]), "Watchfire: Snapshot\nWatchfire: Snapshot\n");
    // A file of the same size and age is read again.
    plain.write("mine", "MINE\n");
    let opened = open(&workspace, 3).await;
    assert_eq!(fs::read_to_string(opened.cwd.join("mine")).unwrap(), "MINE\n");
    plain.sound("at the end");
}

#[tokio::test]
async fn edits_of_the_person_are_merged_with() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    let content = fs::read_to_string(opened.cwd.join("a file.txt")).unwrap();
    fs::write(opened.cwd.join("a file.txt"), content.replace('9', "agent")).unwrap();
    capture(&workspace, 1).await;
    // Before the merge, and between merge and publication.
    plain.write("a file.txt", content.replace('1', "first"));
    plain.write("elsewhere", "mine\n");
    let merged = candidate(&workspace, 1).await;
    plain.write("a file.txt", content.replace('1', "second"));
    plain.write("unrelated", "mine\n");
    let publish = async |candidate| workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
    assert_eq!(publish(merged).await, Published::Moved);
    assert_eq!(plain.read("a file.txt"), content.replace('1', "second"));
    let merged = candidate(&workspace, 1).await;
    // One that is in nobody's way does not make the merge start again: a log would never let it end.
    plain.write("log", "a line\n");
    assert!(matches!(publish(merged).await, Published::Done { .. }));
    assert_eq!(plain.read("a file.txt"), content.replace('1', "second").replace('9', "agent"));
    assert_eq!((plain.read("elsewhere"), plain.status()), ("mine\n".to_owned(), "?? log\n".to_owned()));
    plain.sound("at the end");
}

#[tokio::test]
async fn conflicts_are_those_of_any_merge() {
    let plain = Plain::new();
    plain.write("gone", "theirs\n");
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::remove_file(opened.cwd.join("gone")).unwrap();
    capture(&workspace, 1).await;
    // The agent deletes what the person changes meanwhile.
    plain.write("gone", "mine\n");
    let Merge::Conflicts(conflicts) = prepare(&workspace, 1).await else { panic!("no conflict") };
    assert_eq!(conflicts.iter().map(|it| it.path.to_string()).collect::<Vec<_>>(), ["gone"]);
    assert_eq!(plain.read("gone"), "mine\n");
    // Also if the edit comes after the merge was made.
    plain.write("gone", "theirs\n");
    let merged = candidate(&workspace, 1).await;
    plain.write("gone", "mine again\n");
    let published = workspace.publish(&merged, &PublishRequest::default()).await.unwrap();
    assert_eq!(published, Published::Moved);
    assert!(matches!(prepare(&workspace, 1).await, Merge::Conflicts(_)));
    assert_eq!(plain.read("gone"), "mine again\n");
    plain.sound("at the end");
}

#[tokio::test]
async fn what_snapshots_leave_out_stays_in_the_folder() {
    let plain = Plain::bare();
    plain.write(".gitignore", "ignored/\n*.log\n");
    let left_out = ["ignored/x", "deep/a.log", ".env", "deep/.env.local", "keys/server.pem", "nested/file"];
    for path in left_out {
        plain.write(path, "mine\n");
    }
    plain.write("deep/taken", "taken\n");
    plain.write(".env.example", "taken\n");
    crate::support::git(&plain.root.join("nested"), ["init", "-q"]);
    let _socket = UnixListener::bind(plain.root.join("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        plain.root.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/etc/hostname", plain.root.join("link")).unwrap();
    let nested = init_plain(&plain.root, &plain.store, &GitOptions::default()).unwrap();
    assert_eq!(nested.iter().map(ToString::to_string).collect::<Vec<_>>(), ["nested"]);
    assert_eq!(plain.files(), [".env.example", ".gitignore", "a file.txt", "deep/taken", "link"]);
    assert_eq!(plain.git(["cat-file", "-p", "main:link"]), "/etc/hostname");

    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    assert!(opened.attention.iter().any(|remark| remark.ends_with("left out: nested")), "{opened:?}");
    assert!(left_out.iter().all(|path| !opened.cwd.join(path).exists()));
    // A task may bring its folder a copy of them, as of ignored files.
    let asked = ["ignored/x", ".env", "deep/taken"].map(Into::into).to_vec();
    assert_eq!(workspace.ignored(asked).await.unwrap(), ["ignored/x", ".env"].map(std::path::PathBuf::from));
    // All that the agent sees goes.
    for path in plain.files() {
        fs::remove_file(opened.cwd.join(path)).unwrap();
    }
    fs::write(opened.cwd.join("new"), "new\n").unwrap();
    capture(&workspace, 1).await;
    merge(&workspace, 1).await;
    assert_eq!(plain.files(), ["new"]);
    assert!(left_out.iter().all(|path| plain.read(path) == "mine\n"));
    assert!(plain.root.join("socket").exists() && plain.root.join("fifo").exists());
    let contents = plain.git(["log", "--all", "-p", "--format="]);
    assert!(!contents.contains("mine"), "{contents}");
    plain.sound("at the end");
}

#[tokio::test]
async fn a_secret_in_the_way_holds_and_is_never_read() {
    let plain = Plain::new();
    plain.write(".env", "SECRET=1\n");
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join(".env"), "agent\n").unwrap();
    fs::write(opened.cwd.join("new"), "new\n").unwrap();
    capture(&workspace, 1).await;
    let Published::Held(obstacle) = publish(&workspace, 1).await else { panic!("not held") };
    assert_eq!(obstacle.kind, ObstacleKind::LocalEdits);
    assert!(obstacle.message.contains("move them away"), "{obstacle}");
    assert_eq!((plain.read(".env"), plain.root.join("new").exists()), ("SECRET=1\n".to_owned(), false));
    // Moved away, the work arrives; what the person then fills in stays out of snapshots.
    fs::rename(plain.root.join(".env"), plain.root.join("mine.env")).unwrap();
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    plain.write(".env", "SECRET=2\n");
    open(&workspace, 2).await;
    assert_eq!(plain.git(["show", "main:.env"]), "agent\n");
    assert_eq!(plain.read(".env"), "SECRET=2\n");
    // Nor does a `.gitignore` of an agent's bring them in.
    plain.write(".gitignore", "!*.env\n!.env\n");
    open(&workspace, 3).await;
    let contents = plain.git(["log", "--all", "-p", "--format="]);
    assert!(!contents.contains("SECRET"), "{contents}");
}

#[tokio::test]
async fn a_folder_beyond_the_limits_is_refused_before_an_agent_starts() {
    let plain = Plain::bare();
    let large = fs::File::create(plain.root.join("disk image")).unwrap();
    large.set_len((512 << 20) + 1).unwrap();
    let error = check_plain(&plain.root, &plain.store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert_eq!(error.detail("limit"), Some("512 MiB for a file"));
    assert!(error.detail("hint").unwrap().contains(".gitignore"));
    assert!(!plain.store.exists() && !plain.root.join(".watchfire").exists());
    plain.write(".gitignore", "disk image\n");
    plain.init();

    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "new\n").unwrap();
    capture(&workspace, 1).await;
    fs::File::create(plain.root.join("more")).unwrap().set_len((512 << 20) + 1).unwrap();
    let error = workspace.open(&OpenRequest::new(key(2), Attempt(1))).await.unwrap_err();
    assert_eq!(error.detail("file"), Some("more"));
    // What is finished is merged all the same.
    merge(&workspace, 1).await;
    assert!(plain.root.join("new").exists());
}

#[tokio::test]
async fn files_are_taken_and_brought_byte_for_byte() {
    let plain = Plain::bare();
    plain.write(".gitattributes", "* text eol=crlf\n*.big filter=lfs\n");
    plain.write("lf", "a\nb\n");
    plain.write("crlf", "a\r\nb\r\n");
    plain.init();
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    assert_eq!(fs::read_to_string(opened.cwd.join("crlf")).unwrap(), "a\r\nb\r\n");
    fs::write(opened.cwd.join("lf"), "a\nb\nc\n").unwrap();
    fs::write(opened.cwd.join("x.big"), "x\n").unwrap();
    capture(&workspace, 1).await;
    merge(&workspace, 1).await;
    assert_eq!((plain.read("lf"), plain.read("x.big")), ("a\nb\nc\n".to_owned(), "x\n".to_owned()));
    let tip = plain.tip();
    open(&workspace, 2).await;
    assert_eq!(plain.tip(), tip, "nothing differs");
}

#[tokio::test]
async fn work_is_rescued_and_restored_as_anywhere() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let removed = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    let Removed::Gone { rescued: Some(rescued), .. } = removed else { panic!("{removed:?}") };
    assert_eq!(workspace.rescued().await.unwrap().len(), 1);
    workspace.restore(&rescued.name, "again").await.unwrap();
    assert_eq!(plain.git(["show", "again:new"]), "work\n");
    // Settings and tasks are backed up there too, with what names the store.
    plain.write(".watchfire/project.yaml", "version: 1\n");
    workspace.back_up().await.unwrap().unwrap();
    fs::remove_dir_all(plain.root.join(".watchfire")).unwrap();
    assert!(workspace.open(&OpenRequest::new(key(2), Attempt(1))).await.is_err());
    workspace.restore_backup().await.unwrap();
    assert_eq!(plain.read(".watchfire/project.yaml"), "version: 1\n");
    open(&workspace, 2).await;
}

#[tokio::test]
async fn a_chat_begins_with_a_snapshot() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    plain.write("mine", "before\n");
    let session = watchfire_core::model::SessionId::random();
    let opened = workspace.enter(&session, true, &MergeGuard::default()).await.unwrap();
    assert_eq!((opened.cwd.as_path(), opened.binds.len()), (plain.root.as_path(), 0));
    plain.write("mine", "by the chat\n");
    workspace.leave(&session).await.unwrap();
    assert_eq!(plain.git(["show", "main:mine"]), "before\n");
}

#[tokio::test]
async fn stacked_work_is_published_together() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    for n in [1, 2] {
        let opened = open(&workspace, n).await;
        fs::write(opened.cwd.join(format!("new {n}")), "work\n").unwrap();
        workspace.capture(&CaptureRequest::new(key(n), "work")).await.unwrap();
    }
    let below = candidate(&workspace, 1).await;
    plain.write("mine", "mine\n");
    let request = MergeRequest::new(key(2), "main", "merge").with_onto(below);
    let Merge::Ready(above) = workspace.prepare_merge(&request).await.unwrap() else { panic!("not ready") };
    let published = workspace.publish(&above, &PublishRequest::default()).await.unwrap();
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert!(plain.root.join("new 1").exists() && plain.root.join("new 2").exists());
    assert_eq!(plain.read("mine"), "mine\n");
}
