//! How long each step takes, beside the `git` program doing the same, in one run.
//!
//! `cargo run --release -p watchfire-git --example speed -- 100 10000 100000`

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use watchfire_core::model::{Attempt, TaskNumber};
use watchfire_core::workspace::{
    CaptureRequest, Merge, MergeRequest, OpenRequest, PublishRequest, RemoveRequest, Workspace, WorkspaceKey,
};
use watchfire_git::{GitOptions, GitWorkspace};

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// How often each pair is measured; the median counts.
const ROUNDS: usize = 7;

fn main() -> Done {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![100, 10_000];
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("{:>8}  {:<10} {:>10} {:>10}  ratio (medians of {ROUNDS})", "files", "step", "ours", "git");
    sizes.into_iter().try_for_each(|size| runtime.block_on(measure(size)))
}

async fn measure(size: usize) -> Done {
    // On the disk that holds the builds: `/tmp` may be memory.
    fs::create_dir_all("target")?;
    let folder = tempfile::tempdir_in("target")?;
    let root = folder.path().canonicalize()?.join("project");
    fs::create_dir(&root)?;
    git(&root, &["init", "-q", "-b", "main"])?;
    git(&root, &["config", "user.name", "x"])?;
    git(&root, &["config", "user.email", "x@example.org"])?;
    for n in 0..size {
        let path = root.join(format!("d{}/d{}/f{n}", n / 1000, n / 30 % 33));
        fs::create_dir_all(path.parent().unwrap_or(&root))?;
        fs::write(path, format!("file {n}\n{}", "some text\n".repeat(n % 50)))?;
    }
    fs::write(root.join(".gitignore"), ".watchfire/\n")?;
    git(&root, &["add", "-A"])?;
    git(&root, &["commit", "-qm", "first"])?;
    git(&root, &["gc", "-q"])?;
    // Nobody has the target checked out.
    git(&root, &["checkout", "-q", "--detach"])?;

    let workspace = GitWorkspace::open(&root, GitOptions::default().with_default_branch("main"))?;
    let mut table: Vec<(&str, Vec<Duration>, Vec<Duration>)> =
        ["open", "capture", "merge", "remove", "status"].map(|step| (step, Vec::new(), Vec::new())).into();
    for round in 0..ROUNDS {
        let key = WorkspaceKey::from(TaskNumber::try_from(u32::try_from(round)? + 1)?);
        let theirs = folder.path().join("theirs");
        let theirs_path = theirs.to_string_lossy().into_owned();
        let mut note = |step: usize, ours: Duration, theirs: Duration| {
            if let Some((_, a, b)) = table.get_mut(step) {
                a.push(ours);
                b.push(theirs);
            }
        };
        let (opened, ours) = time(async || workspace.open(&open(key.clone())).await).await;
        let opened = opened?;
        let branch = format!("theirs/{round}");
        let (added, add) =
            time(async || git(&root, &["worktree", "add", "-q", "-b", &branch, &theirs_path, "main"])).await;
        added?;
        note(0, ours, add);

        for folder in [&opened.cwd, &theirs] {
            fs::write(folder.join("d0/d0/f0"), format!("round {round}\n"))?;
            fs::write(folder.join(format!("new {round}")), "new\n")?;
        }
        let (captured, ours) =
            time(async || workspace.capture(&CaptureRequest::new(key.clone(), "work")).await).await;
        captured?;
        let (committed, commit) = time(async || {
            git(&theirs, &["add", "-A"])?;
            git(&theirs, &["commit", "-qm", "work"])
        })
        .await;
        committed?;
        note(1, ours, commit);

        // The target has moved on.
        let base = git(&root, &["rev-parse", "main"])?;
        let tree = git(&root, &["rev-parse", "main^{tree}"])?;
        let moved = git(&root, &["commit-tree", "-m", "theirs", "-p", base.trim(), tree.trim()])?;
        git(&root, &["update-ref", "refs/heads/main", moved.trim()])?;
        let (merged, ours) = time(async || {
            let merge = workspace.prepare_merge(&MergeRequest::new(key.clone(), "main", "merge")).await?;
            let Merge::Ready(candidate) = merge else { return Err(format!("{merge:?}").into()) };
            workspace.publish(&candidate, &PublishRequest::default()).await?;
            Done::Ok(())
        })
        .await;
        merged?;
        git(&root, &["update-ref", "refs/heads/main", moved.trim()])?;
        let (merged, merge) = time(async || {
            let tree = git(&root, &["merge-tree", "--write-tree", "main", &branch])?;
            let made = git(&root, &["commit-tree", "-m", "merge", "-p", "main", "-p", &branch, tree.trim()])?;
            git(&root, &["update-ref", "refs/heads/main", made.trim(), moved.trim()])
        })
        .await;
        merged?;
        note(2, ours, merge);

        let (removed, ours) =
            time(async || workspace.remove(&RemoveRequest::new(key.clone()).with_discard(true)).await).await;
        removed?;
        let (removed, remove) = time(async || {
            git(&root, &["worktree", "remove", "--force", &theirs_path])?;
            git(&root, &["branch", "-q", "-D", &branch])
        })
        .await;
        removed?;
        note(3, ours, remove);
    }
    list(&root, &workspace, &mut table).await?;
    for (step, ours, theirs) in &mut table {
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("{size:>8}  {step:<10} {:>7.1} ms {:>7.1} ms  {ratio:.2}", millis(ours), millis(theirs));
    }
    Ok(())
}

/// 500 branches, against one `for-each-ref` with ahead and behind.
async fn list(
    root: &Path,
    workspace: &GitWorkspace,
    table: &mut [(&str, Vec<Duration>, Vec<Duration>)],
) -> Done {
    let tree = git(root, &["rev-parse", "main^{tree}"])?;
    let main = git(root, &["rev-parse", "main"])?;
    let mut update = String::new();
    for n in 0..500 {
        let made = git(root, &["commit-tree", "-m", &format!("branch {n}"), "-p", main.trim(), tree.trim()])?;
        update.push_str(&format!("create refs/heads/watchfire/{:04} {}\n", n + 1000, made.trim()));
    }
    let list = root.join(".git/updates");
    fs::write(&list, update)?;
    let status = Command::new("git")
        .args(["update-ref", "--stdin"])
        .current_dir(root)
        .stdin(fs::File::open(&list)?)
        .status()?;
    assert!(status.success(), "update-ref failed");
    for _ in 0..ROUNDS {
        let (listed, ours) = time(async || workspace.list().await).await;
        assert!(listed?.len() >= 500, "branches are missing");
        let format = "--format=%(refname) %(ahead-behind:main) %(committerdate:unix) %(subject)";
        let (listed, theirs) =
            time(async || git(root, &["for-each-ref", format, "refs/heads/watchfire"])).await;
        listed?;
        if let Some((name, a, b)) = table.last_mut() {
            *name = "list 500";
            a.push(ours);
            b.push(theirs);
        }
    }
    Ok(())
}

/// As a sandboxed agent has it: on private copies.
fn open(key: WorkspaceKey) -> OpenRequest {
    OpenRequest::new(key, Attempt(1)).with_isolated(true)
}

async fn time<T>(what: impl AsyncFnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = what().await;
    (done, start.elapsed())
}

fn git(folder: &Path, args: &[&str]) -> Done<String> {
    let output = Command::new("git")
        .args(["-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null"])
        .args(args)
        .current_dir(folder)
        .output()?;
    if !output.status.success() {
        return Err(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
