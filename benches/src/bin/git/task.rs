//! The way of a task: opened, worked on, imported, captured, merged, removed.

use std::fs;
use std::path::Path;

use watchfire_benches::Report;
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    CaptureRequest, Isolation, OpenRequest, RemoveRequest, Workspace, WorkspaceKey,
};

use crate::merge::merge;
use crate::pairs::{Pair, time};
use crate::repository::{Done, Repository, git, git_with, key, name};

/// Kinds of changes.
const MAIN: usize = 0;
const AGENT: usize = 1;
const UNCOMMITTED: usize = 2;
const FETCHED: usize = 8;

pub(crate) async fn measure(at: &Repository, section: &str, report: &mut Report) -> Done {
    let [mut open, mut import, mut capture, mut merged, mut remove] = [(); 5].map(|()| Pair::default());
    let (mut warm, mut empty) = (Vec::new(), Vec::new());
    let workspace = &at.workspace;
    let beside = at.folder.path().join("beside");
    at.git(&["clone", "-q", "--shared", "--no-checkout", ".", &beside.to_string_lossy()])?;
    let beside = git2::Repository::open(beside)?;
    for round in 0..at.rounds() {
        let (ours, theirs) = (key(round + 1)?, at.folder.path().join(format!("theirs-{round}")));
        let (path, branch) = (theirs.to_string_lossy().into_owned(), format!("theirs/{round}"));
        let opening = async || open_one(at, ours.clone()).await;
        let add = || at.git(&["worktree", "add", "-q", "-b", &branch, &path, "main"]).map(drop);
        open.time(opening, add).await?;
        let folder = at.root.join(format!(".watchfire/worktrees/{ours}"));

        workspace.keep_ready(1).await?;
        at.move_main(MAIN, round)?;
        let ready = key(round + 1001)?;
        warm.push(time(async || open_one(at, ready.clone()).await).await?.wall);
        check(at, &at.root.join(format!(".watchfire/worktrees/{ready}")), MAIN, round)?;
        empty.push(time(async || make_empty(at)).await?.wall);

        let made = commit_inside(at, &folder, &ours, round)?;
        at.edit(&theirs, AGENT, round)?;
        git(&theirs, &["add", "-A"])?;
        git(&theirs, &["commit", "-qm", "work"])?;
        let fetched = at.commit_in(&beside, at.tip("refs/heads/main")?, FETCHED, round)?;
        beside.reference("refs/heads/made", fetched, true, "bench")?;
        let fetch = || {
            let refs = "+refs/heads/made:refs/heads/fetched";
            let from = beside.path().to_string_lossy();
            at.git(&["-c", "fetch.fsckObjects=true", "fetch", "-q", "--no-tags", &from, refs]).map(drop)
        };
        let importing = async || Ok(workspace.import(&ours).await?);
        import.time(importing, fetch).await?;
        if at.tip(&format!("refs/heads/watchfire/{ours}"))? != made {
            return Err("the import did not arrive".into());
        }

        for folder in [&folder, &theirs] {
            at.edit(folder, UNCOMMITTED, round)?;
            fs::write(folder.join("new"), format!("new {round}\n"))?;
        }
        let capturing = async || {
            let captured = workspace.capture(&CaptureRequest::new(ours.clone(), "work")).await?;
            if captured.paths.len() == 11 { Ok(()) } else { Err(format!("captured {captured:?}").into()) }
        };
        let commit = || {
            git(&theirs, &["add", "-A"])?;
            git(&theirs, &["commit", "-qm", "work"]).map(drop)
        };
        capture.time(capturing, commit).await?;

        merge(at, &mut merged, &ours, &branch).await?;
    }
    workspace.keep_ready(0).await?;
    // Last: where files were deleted a moment ago, some file systems are slow to create others.
    for round in 0..at.rounds() {
        let (ours, theirs) = (key(round + 1)?, at.folder.path().join(format!("theirs-{round}")));
        let (path, branch) = (theirs.to_string_lossy().into_owned(), format!("theirs/{round}"));
        let discard = RemoveRequest::new(ours.clone()).with_discard(true);
        let removing = async || Ok(workspace.remove(&discard).await.map(drop)?);
        let git_remove = || {
            at.git(&["worktree", "remove", "--force", &path])?;
            at.git(&["branch", "-q", "-D", &branch]).map(drop)
        };
        remove.time(removing, git_remove).await?;
    }
    let add = "git worktree add";
    open.tell(report, section, "open, cold", add);
    open.compare(report, section, "open, kept ready", warm, add);
    open.compare(report, section, "floor: the same files, empty", empty, add);
    import.tell(report, section, "import", "floor: git fetch, objects checked");
    capture.tell(report, section, "capture", "git add, git commit");
    merged.tell(report, section, "merge", "git merge-tree, git update-ref");
    remove.tell(report, section, "remove", "git worktree remove, git branch -D");
    Ok(())
}

/// Opens a worktree on private copies, as a sandboxed agent gets it.
async fn open_one(at: &Repository, key: WorkspaceKey) -> Done {
    let request = OpenRequest::new(key, Attempt(1)).with_isolation(Isolation::Bound);
    Ok(at.workspace.open(&request).await.map(drop)?)
}

/// Checks that a worktree has the content of this change and is clean.
fn check(at: &Repository, folder: &Path, kind: usize, round: usize) -> Done {
    for (name, content) in at.change(kind, round) {
        if fs::read_to_string(folder.join(&name))? != content {
            return Err(format!("{name} is not as it should be").into());
        }
    }
    match git(folder, &["status", "--porcelain"])?.as_str() {
        "" => Ok(()),
        dirty => Err(dirty.into()),
    }
}

/// Creates as many files in as many folders, without anything in them.
fn make_empty(at: &Repository) -> Done {
    let folder = tempfile::tempdir_in(at.folder.path())?.keep();
    let mut last = None;
    for name in (0..at.files).map(name) {
        let path = folder.join(name);
        if last.as_deref() != path.parent() {
            last = path.parent().map(Path::to_path_buf);
            last.as_ref().map_or(Ok(()), fs::create_dir_all)?;
        }
        fs::File::create_new(path)?;
    }
    Ok(())
}

/// An agent's commit, on its private copies, as its git would make it there.
fn commit_inside(at: &Repository, folder: &Path, key: &WorkspaceKey, round: usize) -> Done<git2::Oid> {
    at.edit(folder, AGENT, round)?;
    let private = at.root.join(format!(".git/watchfire/private/{key}"));
    let repository = at.root.join(".git");
    let (objects, shared, index) =
        (private.join("objects"), repository.join("objects"), private.join("admin/index"));
    let env = [
        ("GIT_DIR", repository.as_path()),
        ("GIT_WORK_TREE", folder),
        ("GIT_OBJECT_DIRECTORY", &objects),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &shared),
        ("GIT_INDEX_FILE", &index),
    ];
    git_with(folder, &["add", "-A"], &env)?;
    let tree = git_with(folder, &["write-tree"], &env)?;
    let parent = at.tip(&format!("refs/heads/watchfire/{key}"))?.to_string();
    let made = git_with(folder, &["commit-tree", "-m", "work", "-p", &parent, tree.trim()], &env)?;
    fs::write(private.join(format!("top/refs/heads/watchfire/{key}")), &made)?;
    Ok(git2::Oid::from_str(made.trim())?)
}
