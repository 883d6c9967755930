//! A real agent through the orchestrator: given a task, sandboxed, in a worktree, watched, merged.

use std::ffi::OsString;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::Stream as _;
use watchfire_core::backend::{Backend, Source};
use watchfire_core::observe::{Body, FollowOptions, Followed};
use watchfire_core::orchestrator::{Event, Orchestrator, ProjectHandle, RunRequest, Seen};
use watchfire_core::process::helper::Helper;
use watchfire_core::schedule::Ending;
use watchfire_core::store::{Home, NewProject, NewTask};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfire_model_server::{ModelServer, Script};
use watchfire_term::Emulator;

use super::agents::Agent;
use super::harness::{Checked, MARK, git, listing, must, search_path};

/// What a shell does to complete the task.
const WORK: &str = "echo hello > hello.txt && git add -A && git commit -qm 'Say hello' && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
const DEADLINE: Duration = Duration::from_secs(180);

/// What was seen of a session.
#[derive(Debug, Default)]
struct Watched {
    turn: Option<Source>,
    statuses: Vec<(&'static str, Source)>,
    text: String,
    vendor_session: bool,
    remarks: Vec<String>,
    issues: Vec<String>,
}

pub(crate) fn run(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let dir = tempfile::Builder::new()
        .prefix("orchestrated-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .map_err(|error| error.to_string())?;
    let done = runtime.block_on(story(agent, &*backend, transport, dir.path()));
    if std::env::var_os("WATCHFIRE_KEEP").is_some() {
        eprintln!("kept: {}", dir.keep().display());
    }
    done
}

async fn story(agent: &Agent, backend: &dyn Backend, transport: &str, dir: &Path) -> Checked {
    let dir = dir.canonicalize().map_err(|error| error.to_string())?;
    let script: Script =
        serde_json::from_str(&super::task_script(WORK)).map_err(|error| error.to_string())?;
    let server = ModelServer::start(script, 0).await.map_err(|error| error.to_string())?;
    prepare(agent, transport, &dir, &server.url())?;
    if agent.renews {
        server.require_login();
    }
    let user_before = listing(&dir.join("user"));
    let (root, user) = (dir.join("project"), dir.join("user"));
    let failed = |error: watchfire_core::Error| error.report();

    let drop = |name: &OsString| {
        let name = name.to_string_lossy();
        name == "HOME" || ["XDG_", "GIT_", "WATCHFIRE"].iter().any(|start| name.starts_with(start))
    };
    let mut environment: Vec<_> =
        std::env::vars_os().filter(|(name, _)| !drop(name) && name != "PATH").collect();
    environment.extend([("HOME".into(), user.into()), ("PATH".into(), search_path())]);
    let orchestrator = Orchestrator::builder()
        .home(dir.join("home"))
        .environment(environment)
        .sandboxes(watchfire_sandbox::sandboxes(Helper::current().map_err(failed)?))
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, GitOptions::default())?)))
        .terminals(|size| Box::new(Emulator::new(size)))
        .default_backend(agent.name)
        .automation(false)
        .start()
        .await
        .map_err(failed)?;
    watchfire_git::init::init(&root, true, &GitOptions::default()).map_err(|error| error.to_string())?;
    let home =
        Home::open(dir.join("home"), Arc::new(watchfire_core::clock::SystemClock)).await.map_err(failed)?;
    home.init_project(&root, NewProject::default()).await.map_err(failed)?;
    let project = orchestrator.open(&root).await.map_err(failed)?;
    let task = NewTask::new("say hello").with_prompt(format!("Say hello. {MARK}")).with_ready(true);
    let task = project.store().create(task).await.map_err(failed)?.value.task_number;

    let mut events = orchestrator.events().map_err(failed)?;
    let seen = Arc::new(Mutex::new(Watched::default()));
    let run = project.run(RunRequest::task(task)).await.map_err(failed)?;
    let watching = tokio::spawn(watch(project.clone(), Arc::clone(&seen)));
    let summary = match tokio::time::timeout(DEADLINE, run.wait()).await {
        Ok(summary) => summary.map_err(failed)?,
        Err(_) => {
            let screen =
                project.sessions().pop().map(|session| session.snapshot().text()).unwrap_or_default();
            return Err(format!("it takes too long: {:#?}\n{screen}", seen.lock()));
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(20), watching).await;
    let mut spent = None;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(20), events.next()).await {
        match event {
            Seen::Event(_, Event::SessionEnded { usage, .. }) => {
                spent = Some(usage);
                break;
            }
            Seen::Event(_, Event::Attention { message, .. }) => eprintln!("{}: {message}", agent.name),
            _ => {}
        }
    }
    let seen = std::mem::take(&mut *seen.lock().map_err(|error| error.to_string())?);
    orchestrator.shutdown().await;

    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("it is not merged: {summary:?}\n{seen:#?}\n{}", log(&project)),
    )?;
    must(git(&root, &["show", "main:hello.txt"])? == "hello\n", "the work is not in main")?;
    must(git(&root, &["log", "main", "--format=%s"])?.contains("Say hello"), "its commit is not in main")?;
    must(git(&root, &["status", "--porcelain"])?.is_empty(), "the checkout is not clean")?;
    must(
        server.asks().iter().any(|ask| ask.system.contains(MARK)) || !backend.capabilities().system_prompt,
        "the system prompt did not arrive as system text",
    )?;
    let user = listing(&dir.join("user"));
    must(user == user_before, &format!("the user's home changed: {user:?}"))?;
    if agent.renews {
        let kept =
            fs::read_to_string(dir.join("user/.codex/auth.json")).map_err(|error| error.to_string())?;
        let last = server.login().ok_or("no login")?;
        must(last.number > 0, "the login was not renewed")?;
        must(kept.contains(&last.refresh()), &format!("the renewed login is lost: {kept}"))?;
    }
    let sessions = dir.join("home/state").join(project.id().as_str()).join("sessions");
    must(fs::read_dir(sessions).is_ok_and(|mut left| left.next().is_none()), "a session's folder is left")?;
    must(left_running(&dir).is_empty(), &format!("still running: {:?}", left_running(&dir)))?;

    must(seen.issues.is_empty(), &format!("issues: {seen:#?}"))?;
    let silent = agent.silent.contains(&transport);
    must(seen.turn.is_some() || silent, &format!("no end of a turn: {seen:#?}"))?;
    must(seen.text.contains("All is done.") || silent, &format!("no text: {seen:#?}"))?;
    // Of every request's 100 tokens of input, 40 come from the cache.
    let counted = spent.is_some_and(|usage| {
        let turns = usage.output_tokens / 20;
        turns > 0 && (usage.input_tokens, usage.cache_read_tokens) == (60 * turns, 40 * turns)
    });
    must(counted || silent, &format!("no tokens, or not as they are: {spent:?}"))?;
    eprintln!(
        "{} {transport}: turn told by {:?}, {:?}, session id {}",
        agent.name,
        seen.turn,
        spent.unwrap_or_default(),
        if seen.vendor_session { "seen" } else { "not seen" }
    );
    must(seen.remarks.is_empty(), &format!("remarks: {seen:#?}"))
}

/// The repository, the settings, and what stands in the person's home.
fn prepare(agent: &Agent, transport: &str, dir: &Path, url: &str) -> Checked {
    let text = |error: std::io::Error| error.to_string();
    for name in ["home", "user", "project"] {
        fs::create_dir_all(dir.join(name)).map_err(text)?;
    }
    if let Some((file, content)) = agent.login.map(|login| login(url)) {
        let path = dir.join("user").join(file);
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(text)?;
        fs::write(path, content).map_err(text)?;
    }
    let root = dir.join("project");
    git(&root, &["init", "-q", "-b", "main"])?;
    fs::write(root.join("README.md"), "# A project\n").map_err(text)?;
    git(&root, &["add", "-A"])?;
    git(&root, &["commit", "-qm", "Begin"])?;
    let mut settings = (agent.settings)(url);
    settings["transport"] = transport.into();
    let agents = serde_json::json!({ agent.name: settings });
    let sandbox = std::env::var("WATCHFIRE_SANDBOX").unwrap_or_else(|_| "auto".to_owned());
    let settings = format!("version: 1\ndefaults: {{ default_sandbox: {sandbox} }}\nagents: {agents}\n");
    fs::write(dir.join("home/settings.yaml"), settings).map_err(text)
}

/// Notes what the session tells.
async fn watch(project: ProjectHandle, seen: Arc<Mutex<Watched>>) {
    let session = loop {
        match project.sessions().pop() {
            Some(session) => break session,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let Ok(mut follow) = session.log().follow(FollowOptions::default()) else { return };
    while let Some(followed) = poll_fn(|cx| Pin::new(&mut follow).poll_next(cx)).await {
        let Followed::Record(record) = followed else { continue };
        let Ok(mut seen) = seen.lock() else { return };
        match &record.body {
            Body::Event { name, .. } if name == "turn_completed" => seen.turn = Some(record.source),
            Body::Event { name, payload } if name == "attention" => seen.remarks.push(payload.to_string()),
            Body::Status(status) => seen.statuses.push((status.as_str(), record.source)),
            Body::Issue(issue) => seen.issues.push(format!("{issue:?}")),
            Body::Lifecycle { name, .. } if name == "vendor_session" => seen.vendor_session = true,
            Body::Transcript(message) => seen.text.push_str(&message.text()),
            _ => {}
        }
    }
}

fn log(project: &ProjectHandle) -> String {
    let logs = fs::read_dir(project.logs_dir()).into_iter().flatten().flatten();
    let texts = logs.filter_map(|entry| fs::read(entry.path()).ok());
    let texts: Vec<String> = texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
    let all = texts.join("\n");
    let end: Vec<&str> = all.lines().rev().take(60).collect();
    end.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Processes that have one of our folders as their working directory, or in their arguments.
fn left_running(dir: &Path) -> Vec<String> {
    let ours = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter(|entry| entry.file_name().to_str().is_some_and(|name| name != ours));
    found
        .filter_map(|entry| {
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            (cwd.starts_with(dir) || words.contains(&*dir.to_string_lossy())).then_some(words)
        })
        .collect()
}
