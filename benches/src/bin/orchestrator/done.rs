//! From done to merged.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use watchfire_core::orchestrator::{RunRequest, Seen};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::{Change, LifeState};
use watchfire_core::store::NewTask;
use watchfire_core::{Error, ErrorKind, Result};

use crate::world::{MAIN, STAYS, TARGET, World, now_nanos};
use watchfire_benches::{Report, millis};

const TASKS: usize = 15;

/// Moments of one task, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    claimed: u128,
    capturing: u128,
    merging: u128,
    publishing: u128,
    ended: u128,
}

/// One row: a repository of `files` files, a sandbox, and what happens around the work.
struct Case {
    files: usize,
    sandbox: &'static str,
    /// True for what people have: their branch is checked out, and the agent stays at its prompt.
    is_usual: bool,
    section: &'static str,
}

const CASES: [Case; 6] = [
    Case { files: 100, sandbox: "none", is_usual: false, section: "done to merged, 100 files" },
    Case { files: 10_000, sandbox: "none", is_usual: false, section: "done to merged, 10,000 files" },
    Case {
        files: 100,
        sandbox: "auto",
        is_usual: false,
        section: "done to merged, 100 files, in the sandbox",
    },
    Case {
        files: 10_000,
        sandbox: "auto",
        is_usual: false,
        section: "done to merged, 10,000 files, in the sandbox",
    },
    Case {
        files: 100,
        sandbox: "auto",
        is_usual: true,
        section: "done to merged, 100 files, in the sandbox, target checked out, the agent stays",
    },
    Case {
        files: 10_000,
        sandbox: "auto",
        is_usual: true,
        section: "done to merged, 10,000 files, in the sandbox, target checked out, the agent stays",
    },
];

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    for Case { files, sandbox, is_usual, section } in CASES {
        let (target, prefix) = if is_usual { (MAIN, STAYS) } else { (TARGET, "") };
        let world = World::with(files, sandbox, target, 0).await?;
        if sandbox == "auto" && world.orchestrator.sandboxes().choose(&SandboxChoice::Auto).is_err() {
            report.skip(section, "no sandbox works on this machine");
            world.orchestrator.shutdown().await;
            continue;
        }
        let project = world.orchestrator.open(&world.root).await?;
        let (mut total, mut parts, mut floors) = (Vec::new(), vec![Vec::new(); 5], Vec::new());
        let mut work = Vec::new();
        for n in 0..TASKS {
            let task =
                NewTask::new(format!("task {n}")).with_prompt(format!("{prefix}made-{n}")).with_ready(true);
            let number = project.store().create(task, None).await?.value.task_number;
            let watcher = RefWatcher::start(&world.root, target);
            let mut changes = project.subscribe(None).await?.changes;
            let run = project.run(RunRequest::task(number)).await?;
            let mut moments = Moments::default();
            let mut agent = None;
            loop {
                let Some(seen) = changes.next().await else { break };
                let Seen::Record(record) = seen else { continue };
                match record.change {
                    Change::Life(life) => match life.state {
                        // Told twice: when its process exists, and when its state changes.
                        LifeState::Running if agent.is_none() => {
                            agent = project.sessions().into_iter().next();
                            let claimed = agent.clone().map(|session| tokio::spawn(claim(session)));
                            moments.claimed = match claimed {
                                Some(claimed) => claimed.await.unwrap_or_default(),
                                None => 0,
                            };
                        }
                        LifeState::Capturing => moments.capturing = now_nanos(),
                        LifeState::Merging => moments.merging = now_nanos(),
                        LifeState::Publishing { .. } => moments.publishing = now_nanos(),
                        // The files of the checkout are there, too.
                        LifeState::Ended { .. } => moments.ended = now_nanos(),
                        _ => {}
                    },
                    Change::Run(run) if run.ended.is_some() => break,
                    _ => {}
                }
            }
            let summary = run.wait().await?;
            if !summary.is_good() {
                return Err(Error::new(ErrorKind::Internal, "a task did not merge")
                    .with("summary", format_args!("{summary:?}")));
            }
            let moved = watcher.moved();
            let moved = if is_usual { moments.ended } else { moved };
            let done = agent.map(|session| session.snapshot().row_text(0).to_owned()).unwrap_or_default();
            let done = done.trim().parse().map_err(|_| {
                Error::new(ErrorKind::Malformed, "the agent told no moment").with("screen", done)
            })?;
            let at = |a: u128, b: u128| b.saturating_sub(a) as f64 / 1e6;
            total.push(at(done, moved));
            let Moments { claimed, capturing, merging, publishing, .. } = moments;
            work.push(at(done, moved) - at(claimed, capturing));
            let spans = [
                (done, claimed),
                (claimed, capturing),
                (capturing, merging),
                (merging, publishing),
                (publishing, moved),
            ];
            parts.iter_mut().zip(spans).for_each(|(part, (from, to))| part.push(at(from, to)));
            floors.push(floor(&world.root, target, world.temp.path())?);
        }
        report.add(section, "floor: 2 git, 2 fdatasync, 1 status", "ms", floors.clone());
        report.compare(section, "done to merged", "ms", total, "floor", &floors);
        report.compare(section, "the same without the end of the session", "ms", work, "floor", &floors);
        for (name, samples) in
            ["  detect", "  end", "  capture", "  merge", "  publish"].into_iter().zip(parts)
        {
            report.add(section, name, "ms", samples);
        }
        world.orchestrator.shutdown().await;
    }
    report.skip("done to merged, tmux", "it has no such thing");
    Ok(())
}

/// The moment at which the session saw the claim.
async fn claim(session: watchfire_core::session::Session) -> u128 {
    use std::pin::Pin;
    use watchfire_core::observe::{Body, FollowItem, FollowOptions, RecordKind};
    let options = FollowOptions::default().with_kinds([RecordKind::Lifecycle]);
    let Ok(mut follow) = session.log().follow(options) else { return 0 };
    while let Some(seen) =
        std::future::poll_fn(|cx| futures_core::Stream::poll_next(Pin::new(&mut follow), cx)).await
    {
        if let FollowItem::Record(record) = seen
            && matches!(&record.body, Body::Lifecycle { name, .. } if name == "claimed")
        {
            return now_nanos();
        }
    }
    0
}

/// Sees when the target ref moves, by looking at its file all the time.
struct RefWatcher {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u128>,
}

impl RefWatcher {
    fn start(root: &Path, target: &str) -> Self {
        let path = root.join(".git/refs/heads").join(target);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let before = std::fs::read(&path).unwrap_or_default();
        let thread = std::thread::spawn(move || {
            let mut moved = 0;
            while moved == 0 && !stopped.load(Ordering::Relaxed) {
                if std::fs::read(&path).is_ok_and(|now| !now.is_empty() && now != before) {
                    moved = now_nanos();
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            moved
        });
        Self { stop, thread }
    }

    fn moved(self) -> u128 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Returns the milliseconds of the least work that could do the same: one merge, one update of a reference, two small
/// synced writes and one `git status`.
fn floor(root: &Path, target: &str, temp: &Path) -> Result<f64> {
    let git_dir = root.join(".git");
    let other = if target == MAIN { TARGET } else { MAIN };
    let git = |words: &[&str]| {
        Command::new("git")
            .arg("--git-dir")
            .arg(&git_dir)
            .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"])
            .args(words)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|e| Error::io("running git", e))
    };
    let repository =
        git2::Repository::open(root).map_err(|e| Error::new(ErrorKind::Io, e.message().to_owned()))?;
    let mut file = std::fs::File::create(temp.join("floor")).map_err(|e| Error::io("making a file", e))?;
    let start = Instant::now();
    git(&["merge-tree", "--write-tree", target, other])?;
    git(&["update-ref", "refs/bench/floor", other])?;
    for _ in 0..2 {
        file.write_all(&[0; 200]).and_then(|()| file.sync_data()).map_err(|e| Error::io("syncing", e))?;
    }
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true);
    let _ = repository.statuses(Some(&mut options)).map(|statuses| statuses.len());
    Ok(millis(start))
}
