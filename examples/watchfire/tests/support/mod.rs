//! A world of its own for each test: a home, a git configuration, repositories, and the built program.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod on_terminal;
pub(crate) mod sandboxed;
pub(crate) mod with_daemon;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use watchfire_core::sandbox::conformance::test_homes;

/// The longest that anything here may take: a busy machine is slow, a hanging one never ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A trial, ignored where the machine has a reason.
pub(crate) fn trial(name: &str, reason: Option<String>, run: fn()) -> libtest_mimic::Trial {
    if let Some(reason) = &reason {
        eprintln!("SKIPPED {name}: {reason}");
    }
    let trial = libtest_mimic::Trial::test(name, move || {
        run();
        Ok(())
    });
    trial.with_ignored_flag(reason.is_some())
}

/// Returns the built program, or the copy of it that `WATCHFIRE_TEST_PROGRAM` names.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("WATCHFIRE_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_watchfire").into(), PathBuf::from)
}

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) home: PathBuf,
}

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The error as JSON, with nothing on stdout.
    #[track_caller]
    pub(crate) fn json_error(&self) -> Value {
        assert_eq!(self.stdout, "");
        let value: Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        assert_eq!(value["schema"], 1);
        value["error"].clone()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        // Not below the workspace's target: that lies in a repository.
        Self::below(&std::env::temp_dir())
    }

    /// A world for agents in a sandbox.
    pub(crate) fn for_sandboxes() -> Self {
        Self::below(&test_homes(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn below(parent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("watchfire-cli-").tempdir_in(parent).unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".gitconfig"), "[user]\n\tname = Test\n\temail = test@example.invalid\n")
            .unwrap();
        Self { folder, home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An empty folder.
    pub(crate) fn empty(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// A repository with one commit.
    pub(crate) fn repo(&self, name: &str) -> PathBuf {
        let root = self.empty(name);
        self.git(&root, &["init", "-q", "-b", "main"]);
        fs::write(root.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(root.join("b.txt"), "b\n").unwrap();
        self.git(&root, &["add", "."]);
        self.git(&root, &["commit", "-q", "-m", "first"]);
        root
    }

    /// A repository that is a project, with these lines added to project.yaml.
    pub(crate) fn project(&self, name: &str, more: &str) -> PathBuf {
        let root = self.repo(name);
        self.run(&root, ["init", "--yes"]).good();
        if !more.is_empty() {
            let path = root.join(".watchfire/project.yaml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}{more}\n")).unwrap();
        }
        root
    }

    /// Adds a ready task for the scripted agent.
    pub(crate) fn task(&self, root: &Path, title: &str, script: &str) {
        let prompt = format!("Do it.\n\n```watchfire-script\n{script}\n```\n");
        self.run(
            root,
            ["task", "add", "--title", title, "--prompt", &prompt, "--agent", "scripted", "--ready"],
        )
        .good();
    }

    pub(crate) fn isolate(&self, command: &mut Command) {
        command.env_clear().envs([
            ("HOME", self.home.as_os_str()),
            ("WATCHFIRE_HOME", self.path("watchfire-home").as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            ("PATH", &std::env::var_os("PATH").unwrap_or_default()),
            ("TERM", OsStr::new("xterm-256color")),
        ]);
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, at: &Path, args: impl IntoIterator<Item = A>) -> Command {
        self.command_of(&program(), at, args)
    }

    /// The same of another copy of the program.
    pub(crate) fn command_of<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        at: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(program);
        self.isolate(&mut command);
        command.current_dir(at).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn run<A: AsRef<OsStr>>(&self, at: &Path, args: impl IntoIterator<Item = A>) -> Said {
        self.start(at, args).end()
    }

    /// Starts the program.
    #[track_caller]
    pub(crate) fn start<A: AsRef<OsStr>>(&self, at: &Path, args: impl IntoIterator<Item = A>) -> Running {
        Running::new(self.command(at, args).spawn().unwrap())
    }

    /// Starts the program with more variables.
    #[track_caller]
    pub(crate) fn start_with<A: AsRef<OsStr>>(
        &self,
        at: &Path,
        args: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Running {
        Running::new(self.command(at, args).envs(variables.iter().copied()).spawn().unwrap())
    }

    /// Runs git as a person does: again, when another git is just writing the index.
    #[track_caller]
    pub(crate) fn git(&self, at: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        self.isolate(&mut command);
        command.current_dir(at).args(args);
        let mut done = command.output().unwrap();
        until("the index is free", || {
            let is_locked = String::from_utf8_lossy(&done.stderr).contains("index.lock': File exists");
            if !done.status.success() && is_locked {
                done = command.output().unwrap();
                return false;
            }
            true
        });
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The tasks as `task list --json` tells them, by number.
    #[track_caller]
    pub(crate) fn states(&self, root: &Path) -> Vec<(u64, String)> {
        let list = self.run(root, ["task", "list", "--json"]).good().json();
        let mut states: Vec<_> = list["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (task["task_number"].as_u64().unwrap(), task["state"].as_str().unwrap().to_owned()))
            .collect();
        states.sort();
        states
    }
}

/// A program under way.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    errors: std::thread::JoinHandle<String>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, lines, seen: Vec::new(), errors }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of its output that contains `part`; it may have come before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        if self.seen.iter().any(|line| line.contains(part)) {
            return;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.contains(part);
                    self.seen.push(line);
                    if found {
                        return;
                    }
                }
                Err(_) => panic!("no line with {part:?} in: {:#?}", self.seen),
            }
        }
    }

    /// Returns true if a line of its output so far contains `part`.
    pub(crate) fn has(&mut self, part: &str) -> bool {
        self.seen.extend(self.lines.try_iter());
        self.seen.iter().any(|line| line.contains(part))
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Said {
        let status = wait(&mut self.child);
        self.seen.extend(self.lines.iter());
        let mut stdout = self.seen.join("\n");
        if !stdout.is_empty() {
            stdout.push('\n');
        }
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Said { code, stdout, stderr: self.errors.join().unwrap() }
    }
}

#[track_caller]
fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `done` says so.
#[track_caller]
pub(crate) fn until(what: &str, done: impl FnMut() -> bool) {
    assert!(within(done), "in vain: {what}");
}

/// Waits until `done` says so. Returns false if it never does.
pub(crate) fn within(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Every file below a folder outside of `.git` and `.watchfire`, with its bytes.
pub(crate) fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name());
            if name == ".git" || name == ".watchfire" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&path, found);
            } else {
                found.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(root, &mut found);
    found.sort();
    found
}

/// Returns the reason why nothing can run in a sandbox here.
pub(crate) fn no_sandbox() -> Option<String> {
    let world = World::new();
    let report = world.run(world.folder.path(), ["doctor", "--json"]).json();
    let works =
        report["sandboxes"].as_array()?.iter().any(|s| s["available"] == true && s["sandbox"] != "none");
    (!works).then(|| "no sandbox works on this machine".to_owned())
}
