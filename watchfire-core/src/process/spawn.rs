//! The one place where programs are started.

use std::collections::BTreeSet;
use std::env;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};

use super::{CommandSpec, child};
use crate::sandbox::Descriptor;
use crate::{Error, ErrorKind, Result};

/// Descriptors of children lie below; see the helper, which keeps above.
const DESCRIPTOR_END: RawFd = 100;

/// What a program is started with, beyond its command. Nothing but what is said here is inherited: no descriptors,
/// and no environment of ours.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpawnOptions {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    descriptors: Vec<Descriptor>,
    group: Group,
}

/// Which group and session a child belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Group {
    /// Ours.
    #[default]
    Inherited,
    /// Ours, with default signals: for a child of a process that blocks or ignores some.
    Joined,
    /// It leads a new process group.
    New,
    /// It leads a new session and has no terminal.
    Session,
    /// It leads a new session, and its stdin is the session's terminal.
    Terminal,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self {
            stdin: Stdio::null(),
            stdout: Stdio::null(),
            stderr: Stdio::null(),
            descriptors: Vec::new(),
            group: Group::default(),
        }
    }
}

impl SpawnOptions {
    /// The null device for all three streams, our process group, no descriptors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets stdin.
    #[must_use]
    pub fn with_stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Sets stdout.
    #[must_use]
    pub fn with_stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = stdout.into();
        self
    }

    /// Sets stderr.
    #[must_use]
    pub fn with_stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = stderr.into();
        self
    }

    /// Places descriptors in the child, each at its number from 3 to 99. They stay closed on exec here.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: impl IntoIterator<Item = Descriptor>) -> Self {
        self.descriptors.extend(descriptors);
        self
    }

    /// Sets the group.
    #[must_use]
    pub fn with_group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }
}

/// Starts a program.
///
/// # Errors
/// `program_missing` when there is no such program, `not_found` with the folder when the working directory is
/// missing, `permission_denied` when it may not be executed, `invalid_input` for descriptors at the same or an
/// impossible number.
pub fn spawn(spec: &CommandSpec, options: SpawnOptions) -> Result<Child> {
    try_spawn(spec, options)?.map_err(|error| explain(spec, error))
}

/// As [`spawn`], with the system's own error.
pub(crate) fn try_spawn(spec: &CommandSpec, options: SpawnOptions) -> Result<std::io::Result<Child>> {
    let (mut command, _occupied) = prepare(spec, options)?;
    Ok(command.spawn())
}

/// Where a program is: itself if it has a slash, else the first of that name in the `PATH` of this process.
///
/// # Errors
/// `program_missing`.
pub fn resolve_program(program: &Path) -> Result<PathBuf> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let executable =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    let found = env::split_paths(&path).map(|folder| folder.join(program)).find(executable);
    found.ok_or_else(|| {
        Error::new(ErrorKind::ProgramMissing, "no such program in PATH").with("program", program.display())
    })
}

fn prepare(spec: &CommandSpec, options: SpawnOptions) -> Result<(Command, Vec<OwnedFd>)> {
    let mut command = Command::new(resolve_program(spec.program())?);
    command.args(spec.args()).env_clear().envs(spec.env());
    command.stdin(options.stdin).stdout(options.stdout).stderr(options.stderr);
    if let Some(cwd) = spec.cwd() {
        command.current_dir(cwd);
    }
    match options.group {
        Group::Inherited => {}
        Group::Joined => child::with_default_signals(&mut command),
        Group::New => {
            command.process_group(0);
        }
        Group::Session => child::lead_session(&mut command, false),
        Group::Terminal => child::lead_session(&mut command, true),
    }
    child::close_descriptors(&mut command);
    let occupied = occupy(&options.descriptors)?;
    if !options.descriptors.is_empty() {
        let mappings = options.descriptors.into_iter();
        let mappings = mappings.map(|it| FdMapping { parent_fd: it.fd, child_fd: it.target }).collect();
        command.fd_mappings(mappings).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "two descriptors for one number").with_source(error)
        })?;
    }
    Ok((command, occupied))
}

/// Holds every free number that a descriptor will cover in the child, because the standard library's own pipe, by
/// which a child reports that it could not exec, must not lie there.
fn occupy(descriptors: &[Descriptor]) -> Result<Vec<OwnedFd>> {
    let mut occupied = Vec::new();
    let targets: BTreeSet<RawFd> = descriptors.iter().map(|it| it.target).collect();
    let (Some(any), Some(last)) = (descriptors.first(), targets.last()) else {
        return Ok(occupied);
    };
    if let Some(target) = targets.iter().find(|target| !(3..DESCRIPTOR_END).contains(*target)) {
        return Err(Error::new(ErrorKind::InvalidInput, "a descriptor's number must be from 3 to 99")
            .with("number", target));
    }
    loop {
        let fd = rustix::io::fcntl_dupfd_cloexec(&any.fd, 3)
            .map_err(|error| Error::io("copying a descriptor", error.into()))?;
        if fd.as_raw_fd() > *last {
            return Ok(occupied);
        }
        occupied.push(fd);
    }
}

/// Says what was missing; the system's error is the same for the program, its interpreter and the folder.
pub(crate) fn explain(spec: &CommandSpec, error: std::io::Error) -> Error {
    let program = spec.program();
    if error.kind() == std::io::ErrorKind::NotFound {
        if let Some(cwd) = spec.cwd().filter(|cwd| !cwd.is_dir()) {
            return Error::new(ErrorKind::NotFound, "the working directory is missing").with_path(cwd);
        }
        let message = match program.exists() {
            true => "the program's interpreter is missing",
            false => "no such program",
        };
        return Error::new(ErrorKind::ProgramMissing, message).with("program", program.display());
    }
    Error::io("starting a program", error).with("program", program.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(spec: &CommandSpec, options: SpawnOptions) -> String {
        let child = spawn(spec, options.with_stdout(Stdio::piped())).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn the_environment_is_exactly_the_specs() {
        let spec = CommandSpec::new("env").with_env("A", "1").with_secret("B", "x y");
        assert_eq!(output(&spec, SpawnOptions::new()), "A=1\nB=x y\n");
    }

    #[test]
    fn descriptors_lie_at_their_numbers_and_nothing_else_does() {
        let at = |target| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            std::io::Write::write_all(&mut writer, format!("for {target}").as_bytes()).unwrap();
            Descriptor { target, fd: reader.into() }
        };
        let spec = CommandSpec::new("/bin/sh")
            .with_args(["-c", "cat <&7; cat <&9; ls /proc/self/fd | tr '\\n' ' '"]);
        let shown = output(&spec, SpawnOptions::new().with_descriptors([at(7), at(9), at(40)]));
        // 3 is the listing's own; 10 is where some shells keep a stream while they redirect.
        assert_eq!(shown.replace(" 10 ", " "), "for 7for 90 1 2 3 40 7 9 ");
    }

    #[test]
    fn a_failed_exec_is_told_also_with_descriptors() {
        // Every number that the report's own pipe may get is a target.
        let any = |target| Descriptor { target, fd: std::fs::File::open("/dev/null").unwrap().into() };
        let options = SpawnOptions::new().with_descriptors((3..60).map(any));
        let error = spawn(&CommandSpec::new("/none/such"), options).unwrap_err();
        assert_eq!(error.code(), "program_missing", "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = spawn(&CommandSpec::new("no-such-program"), SpawnOptions::new()).unwrap_err();
        assert_eq!((error.code(), error.detail("program")), ("program_missing", Some("no-such-program")));
        let spec = CommandSpec::new("true").with_cwd("/none");
        let error = spawn(&spec, SpawnOptions::new()).unwrap_err();
        assert_eq!((error.code(), error.detail("path")), ("not_found", Some("/none")));
        let twice = [3, 3].map(|target| Descriptor { target, fd: std::fs::File::open("/").unwrap().into() });
        let error = spawn(&CommandSpec::new("true"), SpawnOptions::new().with_descriptors(twice));
        assert_eq!(error.unwrap_err().code(), "invalid_input");
    }
}
