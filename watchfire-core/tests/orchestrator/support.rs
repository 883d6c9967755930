//! An agent that is a shell script, a workspace that does what it is told, and a project to run them in.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use watchfire_core::backend::{
    Backend, Capabilities, Delivery, Dialogue, Fact, InputBox, Issue, IssueKind, Launch, LeftBehind,
    LocatedProgram, Message, Observation, Part, Price, ProgramSearch, PromptDelivery, Role, SessionContext,
    Status, Transcript, Transport, Usage,
};
use watchfire_core::clock::{Clock, SystemClock};
use watchfire_core::model::{Attempt, RepoPath, Task, TaskNumber, Timestamp};
use watchfire_core::orchestrator::{LogStream, Orchestrator, OrchestratorBuilder, ProjectHandle, Seen};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{Rule, RuleAccess, SandboxChoice};
use watchfire_core::schedule::{Change, Ending, Life, LifeState};
use watchfire_core::session::Session;
use watchfire_core::store::{NewProject, NewTask};
use watchfire_core::terminal::Snapshot;
use watchfire_core::workspace::{
    BranchInfo, BranchStatus, Candidate, CaptureRequest, Captured, Commit, Conflict, Merge, MergeRequest,
    Obstacle, ObstacleKind, OpenRequest, Opened, Pruned, PublishRequest, Published, Recovery, RemoveRequest,
    Removed, RescueRef, Scratch, Workspace, WorkspaceKey,
};
use watchfire_core::{Error, ErrorKind, Result};

/// How long anything here may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The line of shell that says: done.
pub(crate) const DONE: &str = r#"sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE""#;

/// An agent whose task's prompt is a shell script. Without a task it echoes lines, but runs those that begin with `run `, or
/// runs `generate` in the root. The server of its tools is the command in `$TOOLS`, for `eval`.
#[derive(Debug)]
pub(crate) struct Shell;

impl Backend for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.chat = true;
        can.resume = true;
        can.usage = true;
        can
    }

    fn resumable(&self) -> Vec<PathBuf> {
        vec!["memory".into(), "transcript".into()]
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        let mut located = LocatedProgram::new("/bin/sh");
        (located.version, located.tested) = (Some("9.1".into()), Some(false));
        Ok(located)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let task = context.task.as_ref();
        assert!(!task.is_some_and(|task| task.prompt.starts_with("# panic")), "the test wants it");
        super::limits::squeeze();
        let alone = match context.mode {
            watchfire_core::model::Mode::Wildfire
            | watchfire_core::model::Mode::GenerateDefinition
            | watchfire_core::model::Mode::GenerateTasks => ". ./generate",
            _ => {
                "while read line; do case $line in 'run '*) eval \"${line#run }\";; *) echo \"said $line\";; esac; done"
            }
        };
        let script = context.task.as_ref().map_or(alone, |t| &t.prompt);
        let tools: Vec<_> =
            context.tools.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let launch = Launch::new(&context.program)
            .with_args(["-c", script])
            .with_env("TOOLS", tools.join(" "))
            .with_file("system.md", context.system_prompt.as_bytes())
            .with_env("SYSTEM_PROMPT", context.home.join("system.md"))
            .with_env("MEMORY", context.home.join("memory"))
            .with_env("RESUME", context.resume.as_deref().unwrap_or_default())
            .with_env("FIRST", context.first_prompt.as_deref().unwrap_or_default())
            .with_env("TRANSCRIPT", context.home.join("transcript"));
        let mut launch = launch;
        if script.starts_with("# left") {
            launch.left.push(LeftBehind::new("mcp:github", "it holds a secret").with_remedy());
        }
        Ok(if script.starts_with("# stream") {
            launch
                .with_transport(Transport::lines(false))
                .with_prompt(PromptDelivery::Typed(format!("id {}", context.session)))
        } else if script.starts_with("# talk") {
            let within = if script.contains("# late") { Duration::from_millis(100) } else { DEADLINE };
            launch.with_transport(Transport::dialogue(within))
        } else {
            launch
        })
    }

    fn early_issue(&self, last_words: &str) -> Option<Issue> {
        last_words.contains("log in first").then(|| Issue::new(IssueKind::AuthRequired, last_words))
    }

    fn delivery(&self) -> Delivery {
        Delivery::line()
    }

    fn dialogue(&self, _: &SessionContext) -> Option<Box<dyn Dialogue>> {
        Some(Box::new(super::talks::Words::default()))
    }

    /// What stands behind `box> ` in the last line, once it was shown.
    fn input_box(&self, screen: &Snapshot) -> InputBox {
        let text = screen.text();
        let last = text.lines().last().unwrap_or_default();
        match last.strip_prefix("box>") {
            Some(held) => InputBox::Holds(held.to_owned()),
            None if text.contains("box>") => InputBox::Absent,
            None => InputBox::Unknown,
        }
    }

    /// Whatever it observes, a line `idle` is a turn's end, and `busy` its beginning; of a screen only the last line counts.
    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let said = match observation {
            Observation::Screen(text) => &text.trim_end().lines().last().unwrap_or_default(),
            Observation::Hook { payload, .. } => payload,
            Observation::Transcript(said) | Observation::Protocol(said) => said,
            _ => return Vec::new(),
        };
        match *said {
            "panic" => panic!("the test wants it"),
            "limited" => vec![Fact::Issue(Issue::new(IssueKind::RateLimited, "slow down"))],
            until if until.starts_with("used up until ") => {
                let reset = until.rsplit(' ').next().unwrap_or_default().parse().unwrap();
                vec![Fact::Issue(Issue::new(IssueKind::UsageLimit, "used up").with_reset_at(reset))]
            }
            "busy" => vec![Fact::Status(Status::Processing)],
            "idle" => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
            id => id.strip_prefix("id ").map(|id| Fact::VendorSession(id.into())).into_iter().collect(),
        }
    }

    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        let path = context.home.join("transcript");
        path.exists().then(|| Transcript::json_lines(path))
    }

    /// What it renewed goes to the project's root.
    fn clean_up(&self, context: &SessionContext) -> Result<()> {
        let renewed = context.home.join("renewed");
        if renewed.is_file() {
            std::fs::rename(renewed, context.project_root.join("renewed"))
                .map_err(|error| Error::io("carrying back", error))?;
        }
        Ok(())
    }

    /// `say N words` costs N tokens.
    fn normalize(&self, line: &str) -> Vec<Message> {
        if let Some(model) = line.strip_prefix("model ") {
            let mut message = Message::new(Role::Assistant, Vec::new());
            message.model = Some(model.to_owned());
            return vec![message];
        }
        let Some((tokens, text)) = line.strip_prefix("say ").and_then(|line| line.split_once(' ')) else {
            return Vec::new();
        };
        let mut message = Message::new(Role::Assistant, vec![Part::text(text)]);
        let mut usage = Usage::default();
        usage.output_tokens = tokens.parse().unwrap();
        message.usage = Some(usage);
        vec![message]
    }

    /// A model `free` has no price.
    fn price(&self, model: &str) -> Option<Price> {
        (model != "free").then(|| Price::new(0, 1_000_000, 0, 0))
    }
}

/// What a fake merge should do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Conflict,
    Held,
    MovesOnce,
    /// Its merged tree cannot be put anywhere.
    NoScratch,
    /// Its branch is merged already.
    Merged,
    /// Its publication waits for a file called `go on` in the root.
    Slow,
    /// Its work cannot be captured.
    Uncaptured,
    /// The call of this name panics.
    Panics(&'static str),
    /// Its candidate was published with another one; what is stacked on it has the wrong base.
    WentAlong,
    /// Its publication fails. Its target contains it all the same, but cannot be asked for so many times.
    Unclear(usize),
}

/// A workspace that keeps folders and does what it is told.
#[derive(Debug)]
pub(crate) struct Fake {
    root: PathBuf,
    pub(crate) outcomes: Mutex<BTreeMap<TaskNumber, Outcome>>,
    pub(crate) calls: Mutex<Vec<String>>,
    published: Mutex<Vec<Commit>>,
    pub(crate) prunes: AtomicUsize,
    /// Whoever holds it keeps workspaces from being opened.
    pub(crate) opening: tokio::sync::Mutex<()>,
}

impl Fake {
    fn log(&self, call: &str, key: &WorkspaceKey) {
        self.calls.lock().unwrap().push(format!("{call} {key}"));
        let outcome = self.outcomes.lock().unwrap().get(&key.task().unwrap()).copied();
        assert!(!matches!(outcome, Some(Outcome::Panics(name)) if name == call), "the test wants it");
    }

    fn folder(&self, key: &WorkspaceKey) -> PathBuf {
        self.root.join(".watchfire/worktrees").join(key.to_string())
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl Workspace for Fake {
    fn root(&self) -> &Path {
        &self.root
    }

    fn shared_dir(&self) -> Option<PathBuf> {
        let folder = self.root.join("shared");
        folder.exists().then_some(folder)
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opened> {
        self.log("open", &request.key);
        drop(self.opening.lock().await);
        let folder = self.folder(&request.key);
        let reused = folder.exists();
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("making the folder", e))?;
        let mut opened = Opened::at(&folder);
        opened.policy_rules.push(Rule::new(folder, RuleAccess::Write, "workspace"));
        opened.reused = reused;
        opened.target = Some("main".to_owned());
        opened.branch = Some(format!("watchfire/{}", request.key));
        Ok(opened)
    }

    async fn capture(&self, request: &CaptureRequest) -> Result<Captured> {
        self.log("capture", &request.key);
        if self.outcomes.lock().unwrap().get(&request.key.task().unwrap()) == Some(&Outcome::Uncaptured) {
            return Err(Error::new(ErrorKind::WorkspaceBroken, "the test wants capturing to fail"));
        }
        let mut captured = Captured::default();
        captured.commits = 1;
        Ok(captured)
    }

    /// A file called `draft`.
    async fn uncommitted(&self, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
        let draft = self.folder(key).join("draft").exists().then(|| RepoPath::new(b"draft".to_vec()));
        Ok(draft.into_iter().collect())
    }

    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge> {
        self.log("prepare", &request.key);
        if self.outcomes.lock().unwrap().get(&request.key.task().unwrap()) == Some(&Outcome::Conflict) {
            let path = RepoPath::new(b"a.txt".to_vec());
            return Ok(Merge::Conflicts(vec![Conflict::new(path, Some("<<<<<<<".to_owned()))]));
        }
        let commit = |text: String| Commit::new(text);
        let below = request.onto.as_ref().map_or("merge", |onto| onto.commit.as_str());
        Ok(Merge::Ready(Candidate::new(
            request.key.clone(),
            &request.target,
            None,
            commit(format!("{below}-{}", request.key)),
            "tree",
            commit(format!("work-{}", request.key)),
        )))
    }

    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch> {
        self.log("checkout", &candidate.key);
        if self.outcomes.lock().unwrap().get(&candidate.key.task().unwrap()) == Some(&Outcome::NoScratch) {
            return Err(Error::new(ErrorKind::OutOfSpace, "no room"));
        }
        let folder = self.folder(&candidate.key);
        // Of what it stands on, only that it is broken.
        for below in candidate.commit.as_str().split('-').skip(1) {
            let broken = folder.with_file_name(below).join("broken");
            if broken.exists() {
                std::fs::write(folder.join("broken below"), "").unwrap();
            }
        }
        let rules = vec![Rule::new(&folder, RuleAccess::Write, "scratch")];
        let folder_again = folder.clone();
        let clean_up = move |_: &Path| _ = std::fs::remove_file(folder_again.join("broken below"));
        Ok(Scratch::new(folder, clean_up).with_policy_rules(rules))
    }

    async fn publish(&self, candidate: &Candidate, _: &PublishRequest) -> Result<Published> {
        self.log("publish", &candidate.key);
        let outcome = self.outcomes.lock().unwrap().get(&candidate.key.task().unwrap()).copied();
        while outcome == Some(Outcome::Slow) && !self.root.join("go on").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut outcomes = self.outcomes.lock().unwrap();
        let below = |task: &TaskNumber| candidate.commit.as_str().contains(&format!("-{task}-"));
        if outcomes.iter().any(|(task, outcome)| *outcome == Outcome::WentAlong && below(task)) {
            return Ok(Published::Moved);
        }
        Ok(match outcomes.get(&candidate.key.task().unwrap()) {
            Some(Outcome::Held) => Published::Held(
                Obstacle::new(ObstacleKind::LocalEdits, "local edits")
                    .with_checkout(&self.root)
                    .with_files(vec![RepoPath::new(b"a.txt".to_vec())]),
            ),
            Some(Outcome::MovesOnce) => {
                outcomes.remove(&candidate.key.task().unwrap());
                Published::Moved
            }
            Some(Outcome::Unclear(_)) => {
                self.published.lock().unwrap().push(candidate.commit.clone());
                return Err(Error::new(ErrorKind::Io, "the test wants publishing to fail"));
            }
            _ => {
                self.published.lock().unwrap().push(candidate.commit.clone());
                Published::done(Vec::new())
            }
        })
    }

    async fn is_published(&self, _: &str, commit: &Commit) -> Result<bool> {
        for outcome in self.outcomes.lock().unwrap().values_mut() {
            if let Outcome::Unclear(times @ 1..) = outcome {
                *times -= 1;
                return Err(Error::new(ErrorKind::Io, "the test wants asking to fail"));
            }
        }
        let along = |(task, outcome): (&TaskNumber, &Outcome)| {
            *outcome == Outcome::WentAlong && commit.as_str().ends_with(&format!("-{task}"))
        };
        Ok(self.outcomes.lock().unwrap().iter().any(along) || self.published.lock().unwrap().contains(commit))
    }

    async fn withdraw(&self, key: &WorkspaceKey) -> Result<Option<Candidate>> {
        self.log("withdraw", key);
        Ok(None)
    }

    async fn withdraw_others(&self, keys: &[WorkspaceKey]) -> Result<()> {
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        if !keys.is_empty() {
            self.calls.lock().unwrap().push(format!("withdraw others than {}", keys.join(" ")));
        }
        Ok(())
    }

    async fn rescue(&self, _: &WorkspaceKey, _: Attempt) -> Result<Option<RescueRef>> {
        Ok(None)
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<Removed> {
        self.log("remove", &request.key);
        Ok(Removed::gone(None))
    }

    async fn list(&self) -> Result<Vec<BranchInfo>> {
        let entries = std::fs::read_dir(self.root.join(".watchfire/worktrees"));
        let info = |entry: std::fs::DirEntry| {
            let key = entry.file_name().to_string_lossy().into_owned();
            let mut info = BranchInfo::new(format!("watchfire/{key}"), key, BranchStatus::Unmerged);
            let task = info.key.parse().unwrap();
            if self.outcomes.lock().unwrap().get(&task) == Some(&Outcome::Merged) {
                info.status = BranchStatus::Merged;
            }
            info.target = Some("main".to_owned());
            info
        };
        Ok(entries.into_iter().flatten().flatten().map(info).collect())
    }

    async fn prune(&self) -> Result<Pruned> {
        self.prunes.fetch_add(1, Ordering::AcqRel);
        Ok(Pruned::default())
    }

    /// Never done by itself.
    async fn keep_ready(&self, count: usize) -> Result<()> {
        struct Dropped<'a>(&'a Fake);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.calls.lock().unwrap().push("no longer kept ready".to_owned());
            }
        }
        if count > 0 {
            let _dropped = Dropped(self);
            std::fs::write(self.root.join("ready"), count.to_string())
                .map_err(|e| Error::io("telling", e))?;
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn recover(&self) -> Result<Recovery> {
        Ok(Recovery::default())
    }
}

/// A project in a folder of its own, and an orchestrator that has it open.
pub(crate) struct World {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) orchestrator: Orchestrator,
    pub(crate) project: ProjectHandle,
    pub(crate) fake: Arc<Fake>,
    pub(crate) events: LogStream,
}

/// Makes the project below `temp` unless it is there, and gives its root.
pub(crate) async fn make_project(temp: &Path) -> PathBuf {
    let root = temp.join("my project");
    if !root.exists() {
        std::fs::create_dir_all(&root).unwrap();
        let clock = Arc::new(watchfire_core::clock::SystemClock);
        let home = watchfire_core::store::Home::open(temp.join("home"), clock).await.unwrap();
        home.init_project(&root, NewProject::default()).await.unwrap();
    }
    root
}

/// An orchestrator over the folders below `temp`, with the fake workspace and the shell agent, unsandboxed.
pub(crate) async fn orchestrator(temp: &Path, fake: &Arc<Fake>) -> Result<Orchestrator> {
    builder(temp, fake).start().await
}

/// The same before its start, for what a test wants otherwise.
pub(crate) fn builder(temp: &Path, fake: &Arc<Fake>) -> OrchestratorBuilder {
    let fake = Arc::clone(fake);
    std::fs::create_dir_all(temp.join("home")).unwrap();
    let more = std::fs::read_to_string(temp.join("settings")).unwrap_or_default();
    let settings = format!("version: 1\ndefaults:\n  default_sandbox: none\n{more}");
    std::fs::write(temp.join("home/settings.yaml"), settings).unwrap();
    let builder = Orchestrator::builder();
    let hasty = temp.join("hasty");
    let has_own = hasty.exists() || temp.join("patient").exists();
    let builder = if has_own { builder.clock(Hasty::new(hasty)) } else { builder };
    // By its path: a test in a role of the helper is one itself.
    builder
        .helper(helper())
        .home(temp.join("home"))
        .linked_backends(false)
        .backend(Shell)
        .default_backend("shell")
        .automation(temp.join("automation").exists())
        .hosted(temp.join("hosted").exists())
        .workspaces(move |_| Ok(Arc::clone(&fake) as Arc<dyn Workspace>))
}

pub(crate) fn helper() -> Helper {
    Helper::at(std::env::current_exe().unwrap()).unwrap()
}

/// This program in a role of its own.
pub(crate) fn child(role: &str) -> Command {
    let line = helper().command_line_inside();
    let mut child = Command::new(&line[0]);
    child.args(&line[1..]).arg(role);
    child
}

pub(crate) fn fake(temp: &Path) -> Arc<Fake> {
    let root = temp.join("my project");
    Arc::new(Fake {
        root,
        outcomes: Mutex::default(),
        calls: Mutex::default(),
        published: Mutex::default(),
        prunes: AtomicUsize::default(),
        opening: tokio::sync::Mutex::default(),
    })
}

/// A clock that runs forty times as fast while a file exists.
#[derive(Clone, Debug)]
pub(crate) struct Hasty {
    file: PathBuf,
    began: Timestamp,
    /// The machine's time when it was last asked, and the time that has passed here by then.
    passed: Arc<Mutex<(Duration, Duration)>>,
}

impl Hasty {
    fn new(file: PathBuf) -> Self {
        let now = SystemClock.boot_time();
        Self { file, began: SystemClock.now(), passed: Arc::new(Mutex::new((now, Duration::ZERO))) }
    }

    fn speed(&self) -> u32 {
        if self.file.exists() { 40 } else { 1 }
    }
}

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.boot_time().as_millis()).unwrap();
        Timestamp::from_unix_millis(self.began.unix_millis() + passed)
    }

    fn boot_time(&self) -> Duration {
        let speed = self.speed();
        let mut passed = self.passed.lock().unwrap();
        let now = SystemClock.boot_time();
        *passed = (now, passed.1 + now.saturating_sub(passed.0) * speed);
        passed.1
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = until.saturating_sub(clock.boot_time());
                if left.is_zero() {
                    return;
                }
                // In short steps, since the speed may change.
                tokio::time::sleep((left / clock.speed()).min(Duration::from_millis(20))).await;
            }
        })
    }
}

impl World {
    /// With a clock that runs fast.
    pub(crate) async fn hasty() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("hasty"), "").unwrap();
        Self::in_folder(temp).await
    }

    /// With a clock that runs fast once it is told to [`hurry`](Self::hurry).
    pub(crate) async fn patient() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("patient"), "").unwrap();
        Self::in_folder(temp).await
    }

    pub(crate) fn hurry(&self) {
        std::fs::write(self.temp.path().join("hasty"), "").unwrap();
    }

    pub(crate) async fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap()).await
    }

    /// With an orchestrator that lets a variable pass to agents.
    pub(crate) async fn that_passes(name: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("settings"), format!("sandbox:\n  pass_env: [{name}]\n")).unwrap();
        Self::in_folder(temp).await
    }

    /// The session that runs, once one does.
    pub(crate) async fn session(&self) -> Session {
        within(async {
            loop {
                match self.project.sessions().pop() {
                    Some(session) => return session,
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await
    }

    pub(crate) async fn in_folder(temp: tempfile::TempDir) -> Self {
        Self::built(temp, |builder| builder).await
    }

    /// With an orchestrator that is built otherwise.
    pub(crate) async fn built(
        temp: tempfile::TempDir,
        build: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let root = make_project(temp.path()).await;
        let fake = fake(temp.path());
        let orchestrator = build(builder(temp.path(), &fake)).start().await.unwrap();
        let project = within(orchestrator.open(&root)).await.unwrap();
        let opened = project.subscribe(None).await.unwrap().snapshot.opened;
        let events = project.subscribe(Some(opened)).await.unwrap().changes;
        Self { temp, orchestrator, project, fake, events }
    }

    /// A ready task whose agent runs `script`.
    pub(crate) async fn task(&self, title: &str, script: &str) -> TaskNumber {
        let task = NewTask::new(title).with_prompt(script).with_ready(true);
        self.project.store().create(task, None).await.unwrap().value.task_number
    }

    pub(crate) async fn read(&self, number: TaskNumber) -> Task {
        self.project.store().get(number).await.unwrap().value
    }

    /// Waits for a change.
    pub(crate) async fn change(&mut self, wanted: impl Fn(&Change) -> bool) -> Change {
        within(async {
            loop {
                match self.events.next().await {
                    Some(Seen::Record(record)) if wanted(&record.change) => return record.change,
                    Some(_) => {}
                    None => panic!("the orchestrator ended"),
                }
            }
        })
        .await
    }

    /// Waits until a life is as wanted.
    pub(crate) async fn life(&mut self, wanted: impl Fn(&Life) -> bool) -> Life {
        match self.change(|change| matches!(change, Change::Life(life) if wanted(life))).await {
            Change::Life(life) => *life,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until an agent works.
    pub(crate) async fn running(&mut self) -> Life {
        self.life(|life| life.state == LifeState::Running).await
    }

    /// Waits until a life of `task` has ended.
    pub(crate) async fn ended(&mut self, task: TaskNumber) -> Ending {
        let life = self.life(|life| life.has_ended() && life.subject.task() == Some(task)).await;
        life.ending().unwrap().clone()
    }

    pub(crate) fn root(&self) -> &Path {
        self.project.root()
    }

    /// Adds lines to `project.yaml`.
    pub(crate) fn configure(&self, lines: &str) {
        let yaml = self.root().join(".watchfire/project.yaml");
        let text = std::fs::read_to_string(&yaml).unwrap();
        std::fs::write(&yaml, text + lines).unwrap();
    }
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it took too long")
}

/// Waits until this is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits until `path` exists.
pub(crate) async fn appears(path: &Path) {
    until(|| path.exists()).await;
}

/// Whether the process is gone.
pub(crate) async fn gone(pid: i32) {
    until(|| !Path::new(&format!("/proc/{pid}")).exists()).await;
}

pub(crate) fn not_sandboxed() -> SandboxChoice {
    SandboxChoice::None
}

pub(crate) fn is_kind<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), kind);
}
