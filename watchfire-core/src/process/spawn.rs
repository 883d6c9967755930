//! The one function that starts programs.

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

/// End of the numbers that can be placed in a child. The helper's own descriptors lie above.
const DESCRIPTOR_END: RawFd = 100;

/// Options of a child beyond its command. A child inherits only the items set here and in its [`CommandSpec`]: no other
/// descriptors, and no environment of this process.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpawnOptions {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    descriptors: Vec<Descriptor>,
    group: Group,
    niceness: i32,
}

/// The process group and session of a child.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Group {
    /// The group of this process.
    #[default]
    Inherited,
    /// The group of this process, with default signals. For a process that blocks or ignores signals itself.
    Joined,
    /// A new group, led by the child.
    New,
    /// A new session without a terminal, led by the child.
    Session,
    /// A new session, led by the child, whose controlling terminal is the child's stdin.
    Terminal,
}

impl Default for SpawnOptions {
    /// The null device for all three streams, the group of this process, no descriptors.
    fn default() -> Self {
        Self {
            stdin: Stdio::null(),
            stdout: Stdio::null(),
            stderr: Stdio::null(),
            descriptors: Vec::new(),
            group: Group::default(),
            niceness: 0,
        }
    }
}

impl SpawnOptions {
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

    /// Places descriptors in the child, each at its number from 3 to 99. In this process they stay close-on-exec, so that
    /// no other child gets them.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: impl IntoIterator<Item = Descriptor>) -> Self {
        self.descriptors.extend(descriptors);
        self
    }

    /// Sets process group and session.
    #[must_use]
    pub fn with_group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    /// Lowers the priority by so many steps of the program `nice`. Default: as this process.
    #[must_use]
    pub fn with_niceness(mut self, steps: i32) -> Self {
        self.niceness = steps;
        self
    }
}

/// Starts a program.
///
/// # Errors
/// `program_missing` if there is no such program, `not_found` with the path if the working directory is missing,
/// `permission_denied` if it is not executable, `invalid_input` if two descriptors have the same number or one has a
/// number out of range.
pub fn spawn(spec: &CommandSpec, options: SpawnOptions) -> Result<Child> {
    try_spawn(spec, options)?.map_err(|error| explain(spec, error))
}

/// Starts a program like [`spawn`], but returns the system's own error.
pub(crate) fn try_spawn(spec: &CommandSpec, options: SpawnOptions) -> Result<std::io::Result<Child>> {
    // Kept open until the child has started: `spawn` creates the pipe that must not get these numbers.
    let (mut command, _occupied) = prepare(spec, options)?;
    Ok(command.spawn())
}

/// Returns the path of a program: itself if it contains a slash, else the first executable in the absolute folders of the
/// `PATH` of this process.
///
/// # Errors
/// `program_missing` if there is none.
pub fn resolve_program(program: &Path) -> Result<PathBuf> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // A file without execute permission does not end the search, as in a shell.
    let executable =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    // A relative folder would be looked up in our folder, and then be the one of an agent's, where the program starts.
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let found = folders.map(|folder| folder.join(program)).find(executable);
    found.ok_or_else(|| {
        Error::new(ErrorKind::ProgramMissing, "no such program in PATH").with("program", program.display())
    })
}

fn prepare(spec: &CommandSpec, options: SpawnOptions) -> Result<(Command, Vec<OwnedFd>)> {
    let mut command = Command::new(resolve_program(spec.program())?);
    // Nothing is inherited: our environment may hold the person's secrets.
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
    if options.niceness > 0 {
        child::stand_back(&mut command, options.niceness);
    }
    // Hooks run in the order in which they are added: close everything first, then place descriptors.
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

/// Opens every free number that a descriptor will have in the child. The standard library's pipe, through which a child
/// reports a failed exec, would otherwise get one of them and be overwritten.
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
        // Always gives the lowest free number, so numbers that are in use stay as they are.
        let fd = rustix::io::fcntl_dupfd_cloexec(&any.fd, 3)
            .map_err(|error| Error::io("copying a descriptor", error.into()))?;
        if fd.as_raw_fd() > *last {
            return Ok(occupied);
        }
        occupied.push(fd);
    }
}

/// Explains a failed start. The system reports ENOENT alike for a missing program, interpreter and working directory.
pub(crate) fn explain(spec: &CommandSpec, error: std::io::Error) -> Error {
    let program = spec.program();
    // Looked up afterwards, because a check before the start would race with it.
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
        assert_eq!(output(&spec, SpawnOptions::default()), "A=1\nB=x y\n");
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
        let shown = output(&spec, SpawnOptions::default().with_descriptors([at(7), at(9), at(40)]));
        // 3 is the listing's own; 10 is where some shells keep a stream while they redirect.
        assert_eq!(shown.replace(" 10 ", " "), "for 7for 90 1 2 3 40 7 9 ");
    }

    #[test]
    fn a_failed_exec_is_reported_also_with_descriptors() {
        // Every number that the report's own pipe may get is a target.
        let any = |target| Descriptor { target, fd: std::fs::File::open("/dev/null").unwrap().into() };
        let options = SpawnOptions::default().with_descriptors((3..60).map(any));
        let error = spawn(&CommandSpec::new("/none/such"), options).unwrap_err();
        assert_eq!(error.code(), "program_missing", "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = spawn(&CommandSpec::new("no-such-program"), SpawnOptions::default()).unwrap_err();
        assert_eq!((error.code(), error.detail("program")), ("program_missing", Some("no-such-program")));
        let spec = CommandSpec::new("true").with_cwd("/none");
        let error = spawn(&spec, SpawnOptions::default()).unwrap_err();
        assert_eq!((error.code(), error.detail("path")), ("not_found", Some("/none")));
        let twice = [3, 3].map(|target| Descriptor { target, fd: std::fs::File::open("/").unwrap().into() });
        let error = spawn(&CommandSpec::new("true"), SpawnOptions::default().with_descriptors(twice));
        assert_eq!(error.unwrap_err().code(), "invalid_input");
    }
}
