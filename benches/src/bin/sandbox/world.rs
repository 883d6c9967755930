//! A home folder with what such folders have, a project in it, and a policy for one of its tasks.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use watchfire_core::process::{CommandSpec, RunLimits, SpawnOptions, run_blocking, spawn};
use watchfire_core::sandbox::{Confined, Descriptor, Network, PolicyInputs, SandboxPolicy};
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_sandbox::base_policy;

/// Folders with secrets and caches.
const FOLDERS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".mozilla",
    ".config/gh",
    ".config/gcloud",
    ".claude",
    ".cache",
    ".cargo/registry",
    ".npm/_cacache",
    "Desktop",
    "Documents",
    "Downloads",
    "Pictures",
    ".watchfire/state",
];

/// Files with secrets.
const FILES: &[&str] = &[".netrc", ".npmrc", ".git-credentials", ".bash_history", ".cargo/credentials.toml"];

/// Number of files in the project.
const SOURCES: usize = 2_000;

pub(crate) struct World {
    _temp: tempfile::TempDir,
    home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) worktree: PathBuf,
}

impl World {
    /// Not below `/tmp`, which a sandbox replaces.
    pub(crate) fn new() -> Result<Self> {
        let at = |what: &'static str| move |error| Error::io(what, error);
        let base = std::env::current_dir().map_err(at("finding the current folder"))?;
        let temp =
            tempfile::Builder::new().prefix(".bench-").tempdir_in(base).map_err(at("making a folder"))?;
        let home = temp.path().canonicalize().map_err(at("finding the folder"))?.join("home");
        let project = home.join("project");
        let world = Self { worktree: project.join(".watchfire/worktrees/0001"), project, home, _temp: temp };
        world.fill().map_err(at("making a home folder"))?;
        for words in [
            &["init", "-q", "-b", "main"][..],
            &["add", "-A"],
            &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "start"],
            &["worktree", "add", "-q", "-b", "watchfire/0001", ".watchfire/worktrees/0001"],
        ] {
            let git = CommandSpec::new("git").with_args(words).with_cwd(&world.project);
            let ran = run_blocking(
                &git.with_env("HOME", &world.home),
                RunLimits::default().with_timeout(Duration::from_secs(120)),
            )?;
            if !ran.success() {
                return Err(Error::new(ErrorKind::Internal, "git failed").with("why", ran.stderr.text()));
            }
        }
        Ok(world)
    }

    fn fill(&self) -> std::io::Result<()> {
        for name in FOLDERS {
            fs::create_dir_all(self.home.join(name))?;
        }
        for name in FILES {
            fs::write(self.home.join(name), "secret")?;
        }
        for n in 0..SOURCES {
            let folder = self.project.join(format!("src/d{}", n / 50));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("f{n}.rs")), format!("// file {n}\n").repeat(30))?;
        }
        fs::write(self.project.join(".gitignore"), ".env\n.watchfire/\n")?;
        fs::write(self.project.join(".env"), "TOKEN=secret\n")
    }

    /// Returns the policy for an agent of task 1.
    pub(crate) fn policy(&self, network: Network) -> Result<SandboxPolicy> {
        let mut inputs = PolicyInputs::new();
        inputs.home = Some(self.home.clone());
        inputs.watchfire_home = Some(self.home.join(".watchfire"));
        inputs.project_root = Some(self.project.clone());
        // As for sessions: what they write lies on the disk, and new entries of caches are kept.
        inputs.own_caches = Some(self.home.join(".watchfire/state/caches"));
        let git = self.project.join(".git");
        let mut policy = base_policy(&inputs)?.network(network).write(&self.worktree, "the workspace");
        for part in ["worktrees/0001", "objects", "refs/heads/watchfire", "logs/refs/heads/watchfire"] {
            policy = policy.write(git.join(part), "git");
        }
        policy.read(self.worktree.join(".git"), "git").build()
    }

    /// Returns a folder of programs in the home, with `uv`, if it is installed anywhere.
    pub(crate) fn tools(&self) -> Result<PathBuf> {
        let folder = self.home.join(".local/bin");
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join("uv"))
            .find(|path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
        let copied = fs::create_dir_all(&folder)
            .and_then(|()| found.map_or(Ok(0), |uv| fs::copy(uv, folder.join("uv"))));
        copied.map(|_| folder).map_err(|error| Error::io("copying a program", error))
    }

    /// `command` where the agent works.
    pub(crate) fn in_worktree(&self, command: CommandSpec) -> CommandSpec {
        command.with_cwd(&self.worktree).with_env("PATH", "/usr/bin:/bin").with_env("HOME", &self.home)
    }
}

/// Starts something and waits for its end; `first_byte` is called when it has printed something. Gives what it printed.
pub(crate) fn run(
    spec: &CommandSpec,
    descriptors: Vec<Descriptor>,
    first_byte: impl FnOnce(),
) -> Result<String> {
    let failed = |error| Error::io("running a command", error);
    let options = SpawnOptions::default().with_stdout(Stdio::piped()).with_stderr(Stdio::inherit());
    let mut child = spawn(spec, options.with_descriptors(descriptors))?;
    let mut said = vec![0; 64];
    if let Some(stdout) = &mut child.stdout {
        let count = stdout.read(&mut said).map_err(failed)?;
        said.truncate(count);
        first_byte();
        stdout.read_to_end(&mut said).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&said).into_owned()),
        false => Err(Error::new(ErrorKind::Internal, "a command failed")
            .with("command", spec.program().display())
            .with("status", status)),
    }
}

/// The same, confined.
pub(crate) fn run_confined(confined: Confined, first_byte: impl FnOnce()) -> Result<String> {
    let Confined { command, descriptors, guard, .. } = confined;
    run(&command, descriptors, first_byte).map_err(|error| error.with("report", guard.report()))
}

/// The path as bubblewrap wants it, if there is something.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}
