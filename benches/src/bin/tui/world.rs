//! What is looked at: a project with tasks and agents that print, a repository with commits, windows of tmux.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::runtime::Runtime;
use watchfire_client::Daemon;
use watchfire_client::daemon_proto::{CreateProjectRequest, StartAgentRequest};
use watchfire_core::process::CommandSpec;
use watchfire_tui::Options;

use crate::floor;
use crate::screen::{Effect, Line, Program};

/// Result of a step.
pub(crate) type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Words that make this program the daemon or the interface.
const DAEMON: &str = "be-the-daemon";
const INTERFACE: &str = "be-the-interface";

/// A line of output, about as long as a compiler's.
const PRINTED: &str =
    "line of output, as long as those of compilers are: watchfire-core/src/terminal/screen.rs:56";

/// Plays the role that the arguments name, if they name one.
pub(crate) fn is_role(args: &[String]) -> Done<bool> {
    match args {
        [role, ..] if role == DAEMON => {
            let _ = watchfired::main(watchfired::DaemonArgs::default());
            Ok(true)
        }
        [role, home, project] if role == INTERFACE => {
            let (home, command) = (PathBuf::from(home), Arc::new(daemon(Path::new(home))?));
            let connect = move || {
                let (home, command) = (home.clone(), Arc::clone(&command));
                let connecting = async move { Daemon::find_or_start(&home, &command).await };
                Box::pin(connecting) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
            };
            let mut options = Options::new(project.clone(), Arc::new(connect));
            options.remote = std::env::var_os("SSH_CONNECTION").is_some();
            runtime()?.block_on(watchfire_tui::run(options))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn daemon(home: &Path) -> std::io::Result<CommandSpec> {
    Ok(CommandSpec::new(std::env::current_exe()?)
        .with_args([DAEMON])
        .with_env("HOME", home.parent().unwrap_or(home))
        .with_env("WATCHFIRE_HOME", home)
        .with_env("WATCHFIRE_LOG", "warn")
        .with_env("PATH", std::env::var_os("PATH").unwrap_or_default()))
}

/// A home, a project, and the daemon.
pub(crate) struct World {
    folder: tempfile::TempDir,
    home: PathBuf,
    project: String,
    runtime: Runtime,
    daemon: Daemon,
}

impl World {
    /// Makes a project with so many tasks, of which the first `printing` are at work and print.
    pub(crate) fn new(tasks: usize, printing: usize) -> Done<Self> {
        let folder = tempfile::tempdir()?;
        let (home, root) = (folder.path().join("watchfire"), folder.path().join("project"));
        fs::create_dir_all(&home)?;
        let settings = format!(
            "version: 1\ndefaults:\n  default_sandbox: none\n  default_agent: printer\n  auto_start_tasks: false\n\
             agents:\n  printer:\n    path: yes\n    args: ['{PRINTED}']\n    prompt_mode: none\n  \
             echo:\n    path: cat\n    prompt_mode: none\n"
        );
        fs::write(home.join("settings.yaml"), settings)?;
        git(folder.path(), &["init", "-q", "-b", "main", "project"])?;
        git(&root, &["commit", "-q", "--allow-empty", "-m", "first"])?;
        let runtime = runtime()?;
        let daemon = runtime.block_on(Daemon::find_or_start(&home, &daemon(&home)?))?;
        let path = root.display().to_string();
        let request = CreateProjectRequest { path, ..Default::default() };
        let project = runtime.block_on(daemon.projects().create_project(request))?.into_inner().project_id;
        let file = root.join(".watchfire/project.yaml");
        let text = fs::read_to_string(&file)?;
        fs::write(&file, format!("{}\nmax_parallel: {}\n", text.trim_end(), printing + 1))?;
        for number in 1..=tasks {
            let status = if number <= printing { "ready" } else { "draft" };
            let text = format!(
                "version: 1\ntask_id: 't{number:07}'\ntask_number: {number}\ntitle: Task number {number}\nprompt: Do it.\nstatus: {status}\nposition: {number}\n"
            );
            fs::write(root.join(format!(".watchfire/tasks/{number:04}.yaml")), text)?;
        }
        let world = Self { folder, home, project, runtime, daemon };
        if printing > 0 {
            world.print(printing)?;
        }
        Ok(world)
    }

    fn print(&self, count: usize) -> Done {
        let further_tasks = (2..=i32::try_from(count)?).collect();
        let request = StartAgentRequest {
            project_id: self.project.clone(),
            mode: "task".to_owned(),
            task_number: 1,
            further_tasks,
            ..Default::default()
        };
        self.runtime.block_on(self.daemon.agents().start_agent(request))?;
        Ok(())
    }

    /// Attaches a terminal to one more agent, which is `cat`. `None`: the command line was not built.
    pub(crate) fn attached(&self) -> Done<Option<Program>> {
        let program = std::env::current_exe()?.with_file_name("watchfire");
        if !program.is_file() {
            return Ok(None);
        }
        let root = self.folder.path().join("project");
        let number = fs::read_dir(root.join(".watchfire/tasks"))?.count() + 1;
        let text = format!(
            "version: 1\ntask_id: 't{number:07}'\ntask_number: {number}\ntitle: Echo\nprompt: Do it.\nagent: echo\nstatus: ready\nposition: {number}\n"
        );
        fs::write(root.join(format!(".watchfire/tasks/{number:04}.yaml")), text)?;
        let task_number = i32::try_from(number)?;
        let request = StartAgentRequest {
            project_id: self.project.clone(),
            mode: "task".to_owned(),
            task_number,
            ..Default::default()
        };
        self.runtime.block_on(self.daemon.agents().start_agent(request))?;
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(["attach", &number.to_string()]).current_dir(root);
        command.env("HOME", self.folder.path()).env("WATCHFIRE_HOME", &self.home);
        let mut program = Program::begin(command, Line::Near)?;
        program.effect = Effect::Left(120);
        program.settle();
        Ok(Some(program))
    }

    /// Starts the least that `attached` could be.
    pub(crate) fn floor(&self) -> Done<Program> {
        floor::begin(self.folder.path())
    }

    /// Starts the interface, and selects a task in the middle of the list.
    pub(crate) fn interface(&self, line: Line) -> Done<Program> {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(std::env::current_exe()?).arg(INTERFACE).arg(&self.home).arg(&self.project);
        if line == Line::Far {
            command.env("SSH_CONNECTION", "bench");
        }
        let mut program = Program::begin(command, line)?;
        program.effect = Effect::Pointer;
        program.wait("#0001")?;
        Ok(program)
    }

    /// Makes a repository with so many commits.
    pub(crate) fn commits(&self, count: usize) -> Done<PathBuf> {
        let root = self.folder.path().join("commits");
        git(self.folder.path(), &["init", "-q", "-b", "main", "commits"])?;
        let stream: String = (0..count)
            .map(|at| {
                let message = format!("Commit number {at}\n");
                format!(
                    "commit refs/heads/main\ncommitter B <b@example.org> {} +0000\ndata {}\n{message}\n",
                    1_700_000_000 + at,
                    message.len()
                )
            })
            .collect();
        let file = self.folder.path().join("stream");
        fs::write(&file, stream)?;
        let imported = Command::new("git")
            .args(["fast-import", "--quiet"])
            .current_dir(&root)
            .stdin(fs::File::open(file)?)
            .status()?;
        if !imported.success() {
            return Err("git fast-import failed".into());
        }
        Ok(root)
    }

    /// Starts tmux with `cat` in front and so many windows behind it that print.
    pub(crate) fn tmux(&self, printing: usize, line: Line) -> Option<Tmux> {
        let tmux = Tmux::begin(self.folder.path(), line)?;
        for _ in 0..printing {
            tmux.run(&["new-window", "-d", "yes", PRINTED]);
        }
        Some(tmux)
    }

    /// Starts tmux with `cat` on the left and a program that prints on the right.
    pub(crate) fn tmux_split(&self, line: Line) -> Option<Tmux> {
        let mut tmux = Tmux::begin(self.folder.path(), line)?;
        tmux.run(&["split-window", "-d", "-h", "yes", PRINTED]);
        tmux.program.effect = Effect::Left(59);
        tmux.program.wait("line of").ok()?;
        Some(tmux)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let request = watchfire_client::daemon_proto::ProjectId {
            project_id: self.project.clone(),
            ..Default::default()
        };
        // Hosted agents would go on.
        let _ = self.runtime.block_on(self.daemon.agents().stop_agent(request));
        let _ = self.runtime.block_on(self.daemon.service().shutdown(()));
    }
}

/// A tmux server with one client.
pub(crate) struct Tmux {
    socket: String,
    pub(crate) program: Program,
}

impl Tmux {
    fn begin(at: &Path, line: Line) -> Option<Self> {
        let socket = format!("watchfire-bench-{}", std::process::id());
        let mut program =
            Program::start(&["tmux", "-L", &socket, "-f", "/dev/null", "new-session", "cat"], at, line)?;
        program.effect = Effect::Left(120);
        program.wait("[0]").ok()?;
        Some(Self { socket, program })
    }

    fn run(&self, words: &[&str]) {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words).stderr(Stdio::null());
        let _ = command.status();
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        // The next one must not meet it while it ends.
        let mut has = Command::new("tmux");
        has.args(["-L", &self.socket, "has-session"]).stderr(Stdio::null());
        while has.status().is_ok_and(|status| status.success()) {}
    }
}

fn git(at: &Path, args: &[&str]) -> Done {
    let who = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"];
    let status = Command::new("git").args(who).args(args).current_dir(at).status()?;
    if status.success() { Ok(()) } else { Err(format!("git {args:?} ended with {status}").into()) }
}
