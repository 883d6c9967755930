//! A real agent through the orchestrator: given a task, sandboxed, in a worktree, watched, merged.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::{Future, poll_fn};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::Stream as _;
use watchfire_core::backend::{Backend, Framing, InputBox, Source};
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::observe::{Body, FollowOptions, Followed};
use watchfire_core::orchestrator::{ChatRequest, Event, Orchestrator, ProjectHandle, RunRequest, Seen};
use watchfire_core::process::helper::Helper;
use watchfire_core::schedule::{Ending, RunSummary};
use watchfire_core::session::Receipt;
use watchfire_core::store::{Home, NewProject, NewTask, TaskPatch};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfire_model_server::{ModelServer, Script};
use watchfire_term::Emulator;

use super::agents::Agent;
use super::harness::{Checked, MARK, PROMPT, git, listing, must, search_path};

/// What a shell does to complete the task.
pub(crate) const WORK: &str = "echo hello > hello.txt && git add -A && git commit -qm 'Say hello' && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
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

/// Runs a story in folders of its own.
fn told<F: Future<Output = Checked>>(story: impl FnOnce(PathBuf) -> F) -> Checked {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let dir = tempfile::Builder::new()
        .prefix("orchestrated-")
        // Out of any repository: aider takes one that is around the session's files for the project's.
        .tempdir_in("/var/tmp")
        .map_err(|error| error.to_string())?;
    let place = dir.path().canonicalize().map_err(|error| error.to_string())?;
    let done = runtime.block_on(story(place));
    if std::env::var_os("WATCHFIRE_KEEP").is_some() {
        eprintln!("kept: {}", dir.keep().display());
    }
    done
}

/// A project with an agent that asks the model server, and all that is checked at the end whatever happened.
struct Stage {
    dir: PathBuf,
    root: PathBuf,
    server: ModelServer,
    orchestrator: Orchestrator,
    project: ProjectHandle,
    user_before: BTreeMap<PathBuf, Vec<u8>>,
}

fn failed(error: watchfire_core::Error) -> String {
    error.report()
}

impl Stage {
    async fn set(agent: &Agent, transport: &str, script: &str, dir: PathBuf) -> Checked<Self> {
        let script: Script = serde_json::from_str(script).map_err(|error| error.to_string())?;
        let server = ModelServer::start(script, 0).await.map_err(|error| error.to_string())?;
        prepare(agent, transport, &dir, &server.url())?;
        let (root, user) = (dir.join("project"), dir.join("user"));
        let user_before = contents(&user);
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
        let home = Home::open(dir.join("home"), Arc::new(watchfire_core::clock::SystemClock))
            .await
            .map_err(failed)?;
        home.init_project(&root, NewProject::default()).await.map_err(failed)?;
        let project = orchestrator.open(&root).await.map_err(failed)?;
        Ok(Self { dir, root, server, orchestrator, project, user_before })
    }

    async fn task(&self) -> Checked<TaskNumber> {
        let task = NewTask::new("say hello").with_prompt(format!("Say hello. {MARK}")).with_ready(true);
        Ok(self.project.store().create(task).await.map_err(failed)?.value.task_number)
    }

    /// Runs a task to its end.
    async fn run(&self, task: TaskNumber) -> Checked<Arc<RunSummary>> {
        let ready = TaskPatch::new().with_status(TaskStatus::Ready);
        self.project.store().update(task, ready, None).await.map_err(failed)?;
        let run = self.project.run(RunRequest::task(task)).await.map_err(failed)?;
        match tokio::time::timeout(DEADLINE, run.wait()).await {
            Ok(summary) => summary.map_err(failed),
            Err(_) => {
                let screen = self.project.sessions().pop().map(|session| session.snapshot().text());
                Err(format!("it takes too long\n{}", screen.unwrap_or_default()))
            }
        }
    }

    /// Ends everything: nothing of the sessions is left, and the person's home is as it was, `but` for one file.
    async fn strike(self, but: Option<&str>) -> Checked {
        self.orchestrator.shutdown().await;
        let user = self.dir.join("user");
        let (mut before, mut after) = (self.user_before, contents(&user));
        for changed in but.iter().map(|name| user.join(name)) {
            before.remove(&changed);
            after.remove(&changed);
        }
        let changed: Vec<_> =
            after.keys().chain(before.keys()).filter(|path| after.get(*path) != before.get(*path)).collect();
        must(changed.is_empty(), &format!("the user's home changed: {changed:?}"))?;
        let sessions = self.dir.join("home/state").join(self.project.id().as_str()).join("sessions");
        must(
            fs::read_dir(sessions).is_ok_and(|mut left| left.next().is_none()),
            "a session's folder is left",
        )?;
        must(left_running(&self.dir).is_empty(), &format!("still running: {:?}", left_running(&self.dir)))
    }
}

/// The files below a folder, with what is in them.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    listing(dir).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap_or_default())).collect()
}

pub(crate) fn run(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| story(agent, backend, transport, dir))
}

async fn story(agent: &Agent, backend: Arc<dyn Backend>, transport: &str, dir: PathBuf) -> Checked {
    let stage = Stage::set(agent, transport, &super::task_script(agent, WORK), dir).await?;
    if agent.renews {
        stage.server.require_login();
    }
    let task = stage.task().await?;
    let mut events = stage.orchestrator.events().map_err(failed)?;
    let seen = Arc::new(Mutex::new(Watched::default()));
    let watching = tokio::spawn(watch(stage.project.clone(), Arc::clone(&seen)));
    let summary = stage.run(task).await.map_err(|error| format!("{error}\n{:#?}", seen.lock()))?;
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

    let root = &stage.root;
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("it is not merged: {summary:?}\n{seen:#?}\n{}", log(&stage.project)),
    )?;
    must(git(root, &["show", "main:hello.txt"])? == "hello\n", "the work is not in main")?;
    let subjects = git(root, &["log", "main", "--format=%s"])?;
    must(subjects.contains("Say hello") || agent.writes, "its commit is not in main")?;
    must(git(root, &["status", "--porcelain"])?.is_empty(), "the checkout is not clean")?;
    must(
        stage.server.asks().iter().any(|ask| ask.system.contains(MARK))
            || !backend.capabilities().system_prompt,
        "the system prompt did not arrive as system text",
    )?;
    if agent.renews {
        let kept =
            fs::read_to_string(stage.dir.join("user/.codex/auth.json")).map_err(|error| error.to_string())?;
        let last = stage.server.login().ok_or("no login")?;
        must(last.number > 0, "the login was not renewed")?;
        must(kept.contains(&last.refresh()), &format!("the renewed login is lost: {kept}"))?;
    }
    stage.strike(agent.rewrites).await?;

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

/// A first attempt fails its verification, a second one goes on with the same session, or, where that is `lost`, falls
/// back to a fresh one.
pub(crate) fn resumed(agent: &Agent, transport: &str, lost: bool) -> Checked {
    told(|dir| resume(agent, transport, lost, dir))
}

async fn resume(agent: &Agent, transport: &str, lost: bool, dir: PathBuf) -> Checked {
    let again = "touch second && git add -A && git commit -qm Second && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
    let turns = |work: &str| serde_json::json!([{ "text": "On it.", "run": work, "delay_ms": 1500 }, { "text": "All is done." }]);
    // What a resumed session is told is long, and lies in a file.
    let script = match lost {
        false => {
            serde_json::json!([{ "when": "Read the file", "turns": turns(again) }, { "turns": turns(WORK) }])
        }
        true => {
            serde_json::json!([{ "turns": turns(&format!("if [ -e hello.txt ]; then {again}; else {WORK}; fi")) }])
        }
    };
    let stage = Stage::set(agent, transport, &script.to_string(), dir).await?;
    let settings = stage.root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&settings).map_err(|error| error.to_string())?;
    fs::write(&settings, format!("{text}verify: ['test -f second']\n")).map_err(|error| error.to_string())?;
    let task = stage.task().await?;
    let summary = stage.run(task).await?;
    must(
        matches!(summary.endings.get(&task), Some(Ending::VerifyFailed { .. })),
        &format!("the first attempt: {summary:?}\n{}", log(&stage.project)),
    )?;
    let kept = stage.dir.join("home/state").join(stage.project.id().as_str()).join("resume/0001");
    must(kept.is_dir(), "nothing is kept to resume")?;
    if lost {
        for session in fs::read_dir(&kept).map_err(|error| error.to_string())?.flatten() {
            fs::remove_dir_all(session.path().join("home")).map_err(|error| error.to_string())?;
            fs::create_dir(session.path().join("home")).map_err(|error| error.to_string())?;
        }
    }
    let mut events = stage.orchestrator.events().map_err(failed)?;
    let summary = stage.run(task).await?;
    let users = || stage.server.asks().into_iter().map(|ask| ask.users).collect::<Vec<_>>();
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("the second attempt: {summary:?}\n{:#?}\n{}", users(), log(&stage.project)),
    )?;
    let mut told = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(500), events.next()).await {
        if let Seen::Event(_, Event::Attention { message, .. }) = event {
            told.push(message);
        }
    }
    let fell_back = told.iter().any(|message| message.contains("could not be resumed"));
    let went_on = stage.server.asks().iter().any(|ask| {
        let said = |words: &str| ask.users.iter().any(|said| said.contains(words));
        said(PROMPT) && said("Read the file") && ask.outputs.len() + ask.users.len() > 1
    });
    must(fell_back == lost, &format!("told: {told:?}"))?;
    must(
        went_on != lost,
        &format!("the second attempt did not go on with the first one's conversation: {:#?}", users()),
    )?;
    stage.strike(agent.rewrites).await
}

/// Texts are typed into an empty box only, whole, and one after the other.
pub(crate) fn delivers(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    told(|dir| deliver(agent, backend, dir))
}

async fn deliver(agent: &Agent, backend: Arc<dyn Backend>, dir: PathBuf) -> Checked {
    let rules = r#"[{"when": "hurry", "turns": [{"text": "Thinking.", "delay_ms": 4000}]}, {"turns": [{"text": "Noted."}]},
        {"when": "hurry", "without_tools": true, "turns": [{"text": "Thinking.", "delay_ms": 4000}]},
        {"without_tools": true, "turns": [{"text": "Noted."}]}]"#;
    let stage = Stage::set(agent, "pty", rules, dir).await?;
    let session = stage.project.chat(ChatRequest::new()).await.map_err(failed)?;
    let asks = || stage.server.asks();
    let said = |text: &str| asks().iter().any(|ask| ask.users.iter().any(|said| said.contains(text)));
    let shown = async |what: &str, is: &dyn Fn(&InputBox) -> bool| {
        let end = tokio::time::Instant::now() + Duration::from_secs(90);
        loop {
            let screen = session.snapshot();
            let seen = backend.input_box(&screen);
            if is(&seen) {
                return Ok(());
            }
            if tokio::time::Instant::now() > end {
                return Err(format!("{what}: {seen:?}\n{}", screen.text()));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let accepted = async |what: &str, text: &str, words: &str| -> Checked {
        let sent = tokio::time::timeout(Duration::from_secs(120), session.send(text)).await;
        let screen = || session.snapshot().text();
        let receipt = match sent {
            Ok(sent) => sent.map_err(|error| format!("{what}: {}\n{}", error.report(), screen()))?,
            Err(_) => return Err(format!("{what}: it takes too long\n{}", screen())),
        };
        must(receipt == Receipt::Accepted, &format!("{what}: {receipt:?}"))?;
        for _ in 0..400 {
            if said(words) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let users: Vec<_> = asks().into_iter().flat_map(|ask| ask.users).collect();
        Err(format!("{what}: it did not arrive as it is\n{users:#?}\n{}", screen()))
    };

    // A person's half-typed text is left alone, until they take it away.
    shown("an empty box", &InputBox::is_empty).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    session.write("half").await.map_err(failed)?;
    shown("a half-typed text", &|seen| seen.holds("half")).await?;
    {
        let mut sending = std::pin::pin!(accepted("one line", "first things 4471", "first things 4471"));
        let early = tokio::time::timeout(Duration::from_secs(3), &mut sending).await;
        must(early.is_err(), &format!("it was sent over a half-typed text: {early:?}"))?;
        must(backend.input_box(&session.snapshot()).holds("half"), &session.snapshot().text())?;
        for _ in 0..4 {
            session.write("\x7f").await.map_err(failed)?;
            // Some take several at once for one.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        sending.await?;
    }
    must(!said("half"), "a half-typed text was submitted")?;

    // Up to the limit as it is, beyond it by file.
    let limit = backend.capabilities().paste_limit.unwrap_or(1000);
    let one_line = backend.delivery().framing == Framing::Line;
    let long = if one_line { super::long_text(limit).replace('\n', " ") } else { super::long_text(limit) };
    accepted("a text up to the limit", &long, &long).await?;
    let longer = format!("{long}{}", "x".repeat(limit));
    accepted("a text beyond the limit", &longer, "/inbox/message-").await?;
    let message =
        fs::read_dir(stage.dir.join("home/state").join(stage.project.id().as_str()).join("sessions"))
            .map_err(|error| error.to_string())?
            .flatten()
            .filter_map(|session| fs::read_dir(session.path().join("files/inbox")).ok()?.flatten().next())
            .find_map(|file| fs::read_to_string(file.path()).ok());
    must(message.as_deref() == Some(&*longer), "the file does not hold the text")?;

    // While it works, from several senders at once.
    accepted("a slow turn", "hurry up", "hurry up").await?;
    let words = ["alpha alpha alpha 1", "beta beta beta 2", "gamma gamma gamma 3"];
    let sends = words.map(|text| {
        let session = session.clone();
        tokio::spawn(async move { session.send(text).await })
    });
    for (sent, text) in sends.into_iter().zip(words) {
        let sent = tokio::time::timeout(Duration::from_secs(120), sent).await;
        let sent = sent.map_err(|_| format!("{text}: it takes too long\n{}", session.snapshot().text()))?;
        sent.map_err(|error| error.to_string())?.map_err(failed)?;
    }
    for text in words {
        for _ in 0..600 {
            if said(text) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        must(said(text), &format!("{text}: it did not arrive\n{}", session.snapshot().text()))?;
    }
    session.stop();
    session.ended().await;
    stage.strike(agent.rewrites).await
}

/// Runs a script in the place of an agent's program, with a login in the person's home, which `check` sees afterwards.
pub(crate) fn in_its_place(
    agent: Agent,
    program: String,
    (login, content): (&str, &str),
    check: impl Fn(&Path) -> Checked,
) -> Checked {
    told(|dir| async move {
        let text = |error: std::io::Error| error.to_string();
        let user = dir.join("user");
        let (login, script) = (user.join(login), user.join("program/agent"));
        for (path, content) in [(&login, content), (&script, &*program)] {
            fs::create_dir_all(path.parent().unwrap_or(&user)).map_err(text)?;
            fs::write(path, content).map_err(text)?;
        }
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(text)?;
        let stage = Stage::set(&agent, "pty", "[]", dir).await?;
        let task = stage.task().await?;
        let summary = stage.run(task).await?;
        must(
            matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
            &format!("{summary:?}\n{}", log(&stage.project)),
        )?;
        stage.strike(agent.rewrites).await?;
        check(&user)
    })
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
