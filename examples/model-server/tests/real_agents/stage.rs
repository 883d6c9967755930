//! A project with a real agent, an orchestrator and a model server.

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
use watchfire_core::backend::Source;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::observe::{Body, FollowItem, FollowOptions};
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, RunRequest};
use watchfire_core::process::helper::Helper;
use watchfire_core::schedule::RunSummary;
use watchfire_core::store::{Home, NewProject, NewTask, TaskPatch};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfire_model_server::{ModelServer, Script};
use watchfire_term::Emulator;

use super::agents::Agent;
use super::harness::{Checked, MARK, git, listing, must, search_path};

pub(super) const DEADLINE: Duration = Duration::from_secs(180);

/// What was seen of a session.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) turn: Option<Source>,
    pub(super) statuses: Vec<(&'static str, Source)>,
    pub(super) text: String,
    pub(super) vendor_session: bool,
    pub(super) remarks: Vec<String>,
    pub(super) issues: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Instructions of a person for all their projects.
pub(super) const INSTRUCTIONS: &str = "In all projects: mention the linden tree.\n";

/// Lines of a task that one program or another would replace by something else, if it took them for its own syntax.
pub(super) const EXPANDED: &[&str] = &[
    "npm i @types/node",
    "@README.md",
    "read @./README.md and @~/notes.md, and @/etc/hostname",
    "- [ ] ask @octocat, or me@example.com",
    "!echo expanded",
    "`!date` and !`date`",
    "/help",
    "# a note to remember",
    "$ARGUMENTS and $1, ${HOME} and $(date)",
    "{{args}} and !{date} and @{README.md}",
    "<system-reminder>not from the system</system-reminder>",
    "#file:README.md #selection",
    "````",
    "@inside/a-fence",
    "````",
    "~~~ text",
    "@inside/another",
    "~~~",
    "    @indented/code",
    "[link](@types/node) <@types/node> \"@types/node\"",
];

/// Runs a story in folders of its own.
pub(super) fn told<F: Future<Output = Checked>>(story: impl FnOnce(PathBuf) -> F) -> Checked {
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
pub(super) struct Stage {
    pub(super) dir: PathBuf,
    pub(super) root: PathBuf,
    pub(super) server: ModelServer,
    pub(super) vendor: Vendor,
    pub(super) orchestrator: Orchestrator,
    pub(super) project: ProjectHandle,
    user_before: Contents,
}

pub(super) fn failed(error: watchfire_core::Error) -> String {
    error.report()
}

impl Stage {
    pub(super) async fn set(agent: &Agent, transport: &str, script: &str, dir: PathBuf) -> Checked<Self> {
        Self::with(&[(agent, transport)], script, dir).await
    }

    /// The same with several agents, each with its transport. The first one is the project's own.
    pub(super) async fn with(agents: &[(&Agent, &str)], script: &str, dir: PathBuf) -> Checked<Self> {
        let script: Script = serde_json::from_str(script).map_err(|error| error.to_string())?;
        let server = ModelServer::start(script, 0).await.map_err(|error| error.to_string())?;
        let (agent, _) = *agents.first().ok_or("no agent")?;
        let vendor = Vendor::of(agent, &server, &dir).await?;
        prepare(agents, &dir, &server.url(), vendor.environment())?;
        for name in agents.iter().filter_map(|(agent, _)| agent.instructions) {
            let path = dir.join("user").join(name);
            let written = path
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, INSTRUCTIONS));
            written.map_err(|error| error.to_string())?;
        }
        let before = contents(&dir.join("user"));
        Self::open(agent, server, vendor, dir, before, Lasting::No).await
    }

    /// The same in folders that are prepared, with the person's home as it was then.
    pub(super) async fn open(
        agent: &Agent,
        server: ModelServer,
        vendor: Vendor,
        dir: PathBuf,
        user_before: Contents,
        lasting: Lasting,
    ) -> Checked<Self> {
        let (orchestrator, project) = open(agent, &dir, lasting).await?;
        Ok(Self { root: dir.join("project"), dir, server, vendor, orchestrator, project, user_before })
    }

    pub(super) async fn task(&self) -> Checked<TaskNumber> {
        task(&self.project).await
    }

    /// Runs a task to its end.
    pub(super) async fn run(&self, task: TaskNumber) -> Checked<Arc<RunSummary>> {
        run(&self.project, task).await
    }

    /// Ends everything: nothing of the sessions is left, and the person's home is as it was, `but` for one file.
    pub(super) async fn strike(self, but: Option<&str>) -> Checked {
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

/// Whether agents outlive their orchestrator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lasting {
    Yes,
    No,
}

/// An orchestrator and the project in folders that are prepared.
pub(super) async fn open(
    agent: &Agent,
    dir: &Path,
    lasting: Lasting,
) -> Checked<(Orchestrator, ProjectHandle)> {
    let root = dir.join("project");
    let drop = |name: &OsString| {
        let name = name.to_string_lossy();
        name == "HOME" || ["XDG_", "GIT_", "WATCHFIRE"].iter().any(|start| name.starts_with(start))
    };
    let mut environment: Vec<_> =
        std::env::vars_os().filter(|(name, _)| !drop(name) && name != "PATH").collect();
    environment.extend([("HOME".into(), dir.join("user").into()), ("PATH".into(), search_path())]);
    let orchestrator = Orchestrator::builder()
        .home(dir.join("home"))
        .environment(environment)
        .sandboxes(watchfire_sandbox::sandboxes(Helper::current().map_err(failed)?))
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, GitOptions::default())?)))
        .terminals(Emulator::boxed)
        .default_backend(agent.name)
        .automation(false)
        .hosted(lasting == Lasting::Yes)
        .start()
        .await
        .map_err(failed)?;
    if !root.join(".watchfire").exists() {
        watchfire_git::init::init(&root, true, &GitOptions::default()).map_err(|error| error.to_string())?;
        let clock = Arc::new(watchfire_core::clock::SystemClock);
        let home = Home::open(dir.join("home"), clock).await.map_err(failed)?;
        home.init_project(&root, NewProject::default()).await.map_err(failed)?;
    }
    let project = orchestrator.open(&root).await.map_err(failed)?;
    Ok((orchestrator, project))
}

pub(super) async fn task(project: &ProjectHandle) -> Checked<TaskNumber> {
    let prompt = format!("Say hello. {MARK}\n\n{}", EXPANDED.join("\n"));
    let task = NewTask::new("say hello").with_prompt(prompt).with_ready(true);
    Ok(project.store().create(task, None).await.map_err(failed)?.value.task_number)
}

/// Runs a task to its end. An agent that is not seen to be ready is typed to in the end all the same; that is a failure.
pub(super) async fn run(project: &ProjectHandle, task: TaskNumber) -> Checked<Arc<RunSummary>> {
    let ready = TaskPatch::new().with_status(TaskStatus::Ready);
    project.store().update(task, ready, None, None).await.map_err(failed)?;
    let seen = Arc::new(Mutex::new(Watched::default()));
    let watching = tokio::spawn(watch(project.clone(), Arc::clone(&seen)));
    let run = project.run(RunRequest::task(task)).await.map_err(failed)?;
    let summary = tokio::time::timeout(DEADLINE, run.wait()).await;
    watching.abort();
    let seen = seen.lock().map_err(|error| error.to_string())?;
    let late = seen.remarks.iter().find(|remark| remark.contains("ready in time"));
    must(late.is_none(), &format!("{late:?}"))?;
    match summary {
        Ok(summary) => summary.map_err(failed),
        Err(_) => {
            let screen = project.sessions().pop().map(|session| session.snapshot().text());
            Err(format!("it takes too long\n{}", screen.unwrap_or_default()))
        }
    }
}

pub(super) type Contents = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// What is below a folder: of each file and folder its mode, and what is in it.
pub(super) fn contents(dir: &Path) -> Contents {
    let look = |path: PathBuf| {
        let mode = fs::symlink_metadata(&path).map(|about| about.permissions().mode()).unwrap_or_default();
        let bytes = fs::read(&path).unwrap_or_default();
        (path, (mode, bytes))
    };
    listing(dir).into_iter().map(look).collect()
}

/// The file with the certificate of the authority that stands behind all vendors.
const AUTHORITY: &str = "authority.pem";

/// All hosts, where an agent renews its login with its vendor.
#[cfg(feature = "tls")]
pub(super) struct Vendor(Option<(watchfire_model_server::VendorProxy, PathBuf)>);
#[cfg(not(feature = "tls"))]
pub(super) struct Vendor;

#[cfg(feature = "tls")]
impl Vendor {
    pub(super) async fn of(agent: &Agent, server: &ModelServer, dir: &Path) -> Checked<Self> {
        if !agent.renews {
            return Ok(Self(None));
        }
        let text = |error: std::io::Error| error.to_string();
        let proxy = watchfire_model_server::VendorProxy::start(server).await.map_err(text)?;
        let path = dir.join(AUTHORITY);
        fs::write(&path, proxy.authority()).map_err(text)?;
        Ok(Self(Some((proxy, path))))
    }

    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let Some((proxy, path)) = &self.0 else { return Vec::new() };
        let path = path.display().to_string();
        vec![
            ("HTTPS_PROXY", proxy.url()),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
            ("NODE_EXTRA_CA_CERTS", path.clone()),
            ("SSL_CERT_FILE", path),
        ]
    }

    /// The hosts that were asked for.
    pub(super) fn asked(&self) -> String {
        self.0.as_ref().map(|(proxy, _)| proxy.hosts().join(", ")).unwrap_or_default()
    }
}

#[cfg(not(feature = "tls"))]
impl Vendor {
    pub(super) async fn of(_: &Agent, _: &ModelServer, _: &Path) -> Checked<Self> {
        Ok(Self)
    }

    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    pub(super) fn asked(&self) -> &'static str {
        ""
    }
}

/// The repository, the settings, and what stands in the person's home.
pub(super) fn prepare(
    agents: &[(&Agent, &str)],
    dir: &Path,
    url: &str,
    environment: Vec<(&str, String)>,
) -> Checked {
    let text = |error: std::io::Error| error.to_string();
    for name in ["home", "user", "project"] {
        fs::create_dir_all(dir.join(name)).map_err(text)?;
    }
    for (file, content) in agents.iter().filter_map(|(agent, _)| agent.login.map(|login| login(url))) {
        let path = dir.join("user").join(file);
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(text)?;
        fs::write(path, content).map_err(text)?;
    }
    let root = dir.join("project");
    git(&root, &["init", "-q", "-b", "main"])?;
    fs::write(root.join("README.md"), "# A project\n").map_err(text)?;
    git(&root, &["add", "-A"])?;
    git(&root, &["commit", "-qm", "Begin"])?;
    let settings = |(agent, transport): &(&Agent, &str)| {
        let mut settings = (agent.settings)(url);
        settings["transport"] = (*transport).into();
        for (name, value) in &environment {
            settings["env"][*name] = value.as_str().into();
        }
        (agent.name.to_owned(), settings)
    };
    let agents = serde_json::Value::Object(agents.iter().map(settings).collect());
    let sandbox = std::env::var("WATCHFIRE_SANDBOX").unwrap_or_else(|_| "auto".to_owned());
    let authority = Some(dir.join(AUTHORITY)).filter(|path| path.exists());
    let grants =
        authority.map(|path| format!("sandbox: {{ read: [{}] }}", path.display())).unwrap_or_default();
    let settings =
        format!("version: 1\ndefaults: {{ default_sandbox: {sandbox} }}\n{grants}\nagents: {agents}\n");
    fs::write(dir.join("home/settings.yaml"), settings).map_err(text)
}

/// Notes what the session tells.
pub(super) async fn watch(project: ProjectHandle, seen: Arc<Mutex<Watched>>) {
    let session = loop {
        match project.sessions().pop() {
            Some(session) => break session,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let Ok(mut follow) = session.log().follow(FollowOptions::default()) else { return };
    while let Some(followed) = poll_fn(|cx| Pin::new(&mut follow).poll_next(cx)).await {
        let FollowItem::Record(record) = followed else { continue };
        let Ok(mut seen) = seen.lock() else { return };
        match &record.body {
            Body::Event { name, .. } if name == "turn_completed" => seen.turn = Some(record.source),
            Body::Event { name, payload, .. } if name == "attention" => {
                seen.remarks.push(payload.to_string())
            }
            Body::Event { name, payload, .. } if name == "note" => {
                seen.notes.extend(payload["text"].as_str().map(str::to_owned));
            }
            Body::Status(status) => seen.statuses.push((status.as_str(), record.source)),
            Body::Issue(issue) => seen.issues.push(format!("{issue:?}")),
            Body::Lifecycle { name, .. } if name == "vendor_session" => seen.vendor_session = true,
            Body::Transcript(message) => seen.text.push_str(&message.text()),
            _ => {}
        }
    }
}

pub(super) fn log(project: &ProjectHandle) -> String {
    let logs = fs::read_dir(project.logs_dir()).into_iter().flatten().flatten();
    let texts = logs.filter_map(|entry| fs::read(entry.path()).ok());
    let texts: Vec<String> = texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
    let all = texts.join("\n");
    let end: Vec<&str> = all.lines().rev().take(60).collect();
    end.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Processes that have one of our folders as their working directory, in their arguments or in their environment.
fn left_running(dir: &Path) -> Vec<String> {
    let ours = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter(|entry| entry.file_name().to_str().is_some_and(|name| name != ours));
    found
        .filter_map(|entry| {
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let ours = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&*dir.to_string_lossy());
            let words_of = || String::from_utf8_lossy(&words).replace('\0', " ");
            (cwd.starts_with(dir) || ours(&words) || ours(&environment)).then(words_of)
        })
        .collect()
}
