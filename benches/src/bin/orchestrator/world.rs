//! A repository, a project and agents to measure with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use watchfire_core::backend::{Backend, Launch, LocatedProgram, ProgramSearch, SessionContext};
use watchfire_core::orchestrator::Orchestrator;
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::store::{Home, NewProject};
use watchfire_core::workspace::Workspace;
use watchfire_core::{Error, Result};
use watchfire_git::{GitOptions, GitWorkspace};

/// A branch that work goes to, and that is not checked out anywhere.
pub(crate) const TARGET: &str = "integration";

/// The branch that is checked out.
pub(crate) const MAIN: &str = "main";

/// Begins the prompt of an agent that stays at its own prompt once its work is done, as programs for terminals do.
pub(crate) const STAYS: &str = "stays-";

/// Script of an idle agent: prints one byte, then sleeps. It is another program, so it shares no memory with ours.
pub(crate) const IDLE: &str = "printf x; exec sleep 1000000";

/// The agent: our own program in the role `bench-agent` for a task, a shell for a chat and for a task that idles.
#[derive(Debug)]
pub(crate) struct Agent;

impl Backend for Agent {
    fn name(&self) -> &str {
        "bench"
    }

    fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
        std::env::current_exe().map(LocatedProgram::new).map_err(|e| Error::io("finding this program", e))
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let marker = context.helper.last().cloned().unwrap_or_default();
        let launch = Launch::new(&context.program).with_arg(marker).with_arg("bench-agent");
        Ok(match &context.task {
            Some(task) if task.prompt != "idle" => launch.with_arg(&task.prompt),
            _ => Launch::new("/bin/sh").with_args(["-c", IDLE]),
        })
    }
}

watchfire_core::register_helper_role!("bench-agent", agent);

/// Makes the file that is named, commits, marks its task done, and prints the moment of the rename.
fn agent(args: RoleArgs) -> i32 {
    let Some(name) = args.args().first() else { return 1 };
    if work(name).is_none() {
        return 1;
    }
    while name.as_encoded_bytes().starts_with(STAYS.as_bytes()) {
        std::thread::park();
    }
    0
}

fn work(name: &OsStr) -> Option<()> {
    std::fs::write(name, name.as_encoded_bytes()).ok()?;
    for words in [&["add", "-A"][..], &["commit", "-q", "-m", "work"]] {
        Command::new("git").args(words).status().ok()?.success().then_some(())?;
    }
    let file = PathBuf::from(std::env::var_os("WATCHFIRE_TASK_FILE")?);
    let text = std::fs::read_to_string(&file).ok()?.replace("status: ready", "status: done");
    let text = text.replace("status: \"ready\"", "status: \"done\"");
    let staged = file.with_extension("new");
    std::fs::write(&staged, text).ok()?;
    let now = now_nanos();
    std::fs::rename(staged, file).ok()?;
    println!("{now}");
    Some(())
}

/// A clock that all processes of the machine share.
pub(crate) fn now_nanos() -> u128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u128::from(time.tv_sec.unsigned_abs()) * 1_000_000_000 + u128::from(time.tv_nsec.unsigned_abs())
}

/// A repository of `files` files with a project in it, and an orchestrator.
pub(crate) struct World {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) orchestrator: Orchestrator,
}

impl World {
    pub(crate) async fn new(files: usize, sandbox: &str) -> Result<Self> {
        Self::with(files, sandbox, TARGET, 0).await
    }

    /// Makes a world whose work goes to `target`, and which keeps `ready` folders ready.
    pub(crate) async fn with(files: usize, sandbox: &str, target: &str, ready: usize) -> Result<Self> {
        let temp = tempfile::tempdir().map_err(|e| Error::io("making a scratch folder", e))?;
        let root = temp.path().join("project");
        make_repository(&root, files).map_err(|e| Error::io("making a repository", e))?;
        let home = temp.path().join("home");
        let clock = Arc::new(watchfire_core::clock::SystemClock);
        let mut project = NewProject::default();
        project.default_branch = target.to_owned();
        Home::open(&home, clock).await?.init_project(&root, project).await?;
        let settings =
            format!("version: 1\ndefaults:\n  default_sandbox: {sandbox}\n  ready_worktrees: {ready}\n");
        std::fs::write(home.join("settings.yaml"), settings).map_err(|e| Error::io("writing settings", e))?;
        let orchestrator = start(&home, false).await?;
        Ok(Self { temp, root, orchestrator })
    }

    /// Detaches the orchestrator, unless that is done, and starts one that its agents outlive.
    pub(crate) async fn restart_hosted(&mut self) -> Result<()> {
        self.orchestrator.detach().await;
        self.orchestrator = start(&self.temp.path().join("home"), true).await?;
        Ok(())
    }
}

async fn start(home: &Path, hosted: bool) -> Result<Orchestrator> {
    Orchestrator::builder()
        .hosted(hosted)
        .home(home)
        .linked_backends(false)
        .backend(Agent)
        .default_backend("bench")
        .automation(false)
        .sandboxes(watchfire_sandbox::sandboxes(Helper::current()?))
        .workspaces(|root| {
            Ok(Arc::new(GitWorkspace::open(root, GitOptions::default())?) as Arc<dyn Workspace>)
        })
        .start()
        .await
}

fn make_repository(root: &Path, files: usize) -> std::io::Result<()> {
    for n in 0..files {
        let folder = root.join(format!("d{}", n / 100));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("f{n}.txt")), format!("file {n}\n").repeat(20))?;
    }
    std::fs::write(root.join(".gitignore"), ".watchfire/\n")?;
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "bench"],
        &["config", "user.email", "bench@example.invalid"],
        &["add", "-A"],
        &["commit", "-q", "-m", "start"],
        &["branch", TARGET],
    ] {
        let status = Command::new("git").arg("-C").arg(root).args(words).status()?;
        if !status.success() {
            return Err(std::io::Error::other(format!("git {words:?} failed")));
        }
    }
    Ok(())
}
