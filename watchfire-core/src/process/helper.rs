//! Running the embedder's own program again in another role.
//!
//! A program that embeds Watchfire is its own helper: sandboxes, guardians and hooks are the same executable, started
//! with a marker as its first argument. [`run_if_asked`] is the first line of `main`:
//!
//! ```
//! watchfire_core::process::helper::run_if_asked();
//! // threads, runtimes and everything else come after
//! ```
//!
//! `main` must be synchronous, not `#[tokio::main]`: some roles enter a user namespace, which the kernel refuses to a
//! process with several threads. A program that cannot do this installs one that can, and names it with [`Helper::at`].
//!
//! - Any linked crate adds roles with [`register_helper_role!`](crate::register_helper_role).
//! - A [`Helper`] holds the executable open and starts it through that descriptor (`/proc/self/fd/…`), so that an
//!   upgrade that replaces, moves or deletes the file does not change a running program's helper. Without `/proc`
//!   (macOS) the path is used, and replacing the file replaces the helper.
//! - [`Helper::current`] fails unless `run_if_asked` was called in this process: otherwise the embedder's `main` would
//!   run again instead of the role. A helper with a control socket must also greet on it first, or is killed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::CommandSpec;
use super::inherited::InheritedFds;
use crate::sandbox::Descriptor;
use crate::{Error, ErrorKind, Result};

/// First argument of a program started as a helper.
const MARKER: &str = "__watchfire-helper";

/// Number of the helper's executable in children; see [`Helper::descriptors`].
const EXECUTABLE_FD: RawFd = 9;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Runs the helper role that this process was started for and exits with its code. Returns if there is none.
///
/// Call it first in a synchronous `main`. It reads only the arguments and has no side effect if it returns. An unknown
/// role ends the process with code 127 and a line on stderr.
pub fn run_if_asked() {
    let mut args = env::args_os().skip(1);
    if args.next().is_none_or(|first| first != MARKER) {
        // The proof that `main` calls this first; see `Helper::current`.
        ASKED.store(true, Ordering::Release);
        return;
    }
    let name = args.next().unwrap_or_default();
    let found = inventory::iter::<HelperRole>.into_iter().find(|role| name == role.name);
    let code = match found {
        Some(role) => {
            name_process(role.name);
            (role.run)(RoleArgs { args: args.collect(), inherited: InheritedFds::find() })
        }
        None => {
            eprintln!("watchfire helper: unknown role {}", name.display());
            127
        }
    };
    // Never back to the embedder's `main`, which would run as if started by a person.
    std::process::exit(code);
}

/// A role that a program can take as its own helper. Made by `register_helper_role!`.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct HelperRole {
    /// Name, unique in the program.
    pub name: &'static str,
    /// Runs the role and returns the exit code. Called first in `main`, on the only thread.
    pub run: fn(RoleArgs) -> i32,
}

inventory::collect!(HelperRole);

impl fmt::Debug for HelperRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperRole").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Registers a helper role in every program that links the calling crate. Takes a name, and a function from
/// [`helper::RoleArgs`](crate::process::helper::RoleArgs) to an exit code.
///
/// ```
/// use watchfire_core::process::helper::RoleArgs;
///
/// fn greet(args: RoleArgs) -> i32 {
///     println!("hello {:?}", args.args());
///     0
/// }
/// watchfire_core::register_helper_role!("greet", greet);
/// # fn main() { watchfire_core::process::helper::run_if_asked(); }
/// ```
#[macro_export]
macro_rules! register_helper_role {
    ($name:expr, $run:expr) => {
        $crate::backend::__inventory::submit! {
            $crate::process::helper::HelperRole { name: $name, run: $run }
        }
    };
}

/// The arguments of a role, and the descriptors that its process inherited.
#[derive(Debug)]
pub struct RoleArgs {
    args: Vec<OsString>,
    inherited: InheritedFds,
}

impl RoleArgs {
    /// Returns the arguments after the role's name.
    #[must_use]
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Takes the inherited descriptor `number`, which is at least 3. Each can be taken once.
    ///
    /// Inherited descriptors are closed on exec, taken or not.
    ///
    /// # Errors
    /// `invalid_input` if no descriptor was inherited at that number, or it has been taken.
    pub fn take_fd(&mut self, number: RawFd) -> Result<OwnedFd> {
        self.inherited.take(number).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "no such inherited descriptor")
                .with("number", number)
                .with_source(error)
        })
    }
}

/// A program whose `main` begins with [`run_if_asked`], held open. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Helper(Arc<Executable>);

#[derive(Debug)]
struct Executable {
    path: PathBuf,
    /// `None` where programs cannot be started by descriptor.
    fd: Option<OwnedFd>,
}

impl Helper {
    /// Opens the running program, even if its file was replaced since it started.
    ///
    /// # Errors
    /// `helper_missing` unless [`run_if_asked`] was called in this process; I/O errors.
    pub fn current() -> Result<Self> {
        if !ASKED.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::HelperMissing, "this program cannot be its own helper").with(
                "hint",
                "call watchfire_core::process::helper::run_if_asked() first in a synchronous main, \
                 or name a helper program",
            ));
        }
        let path = env::current_exe().map_err(|error| Error::io("finding this program's file", error))?;
        // The link names the running file itself, even after it was replaced on disk.
        let running = Path::new("/proc/self/exe");
        Self::open(if running.exists() { running } else { &path }, path.clone())
    }

    /// Opens another program by its absolute path.
    ///
    /// # Errors
    /// `helper_missing` if it is not an executable file.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        Self::open(&path.clone(), path)
    }

    fn open(file: &Path, path: PathBuf) -> Result<Self> {
        let unusable = |error: rustix::io::Errno| {
            Error::new(ErrorKind::HelperMissing, "the helper program cannot be used")
                .with_path(&path)
                .with_source(std::io::Error::from(error))
        };
        if !path.is_absolute() {
            return Err(unusable(rustix::io::Errno::NOENT).with("hint", "give an absolute path"));
        }
        let is_file = std::fs::metadata(file).is_ok_and(|found| found.is_file());
        if !is_file {
            return Err(unusable(rustix::io::Errno::NOENT));
        }
        // Now, with the reason, and not at the first session.
        rustix::fs::access(file, rustix::fs::Access::EXEC_OK).map_err(unusable)?;
        // Held open from now on, so that an upgrade of the file does not change what is started.
        let fd = match cfg!(target_os = "linux") && Path::new("/proc/self/fd").exists() {
            true => Some(open_for_exec(file).map_err(unusable)?),
            false => None,
        };
        Ok(Self(Arc::new(Executable { path, fd })))
    }

    /// Returns a command that runs the program in `role`, with an empty environment.
    ///
    /// The process that starts it must place the [`descriptors`](Self::descriptors) in the child, also inside a sandbox
    /// if the program is started again there. Arguments are visible to other processes: never pass secrets.
    #[must_use]
    pub fn command<A: Into<OsString>>(&self, role: &str, args: impl IntoIterator<Item = A>) -> CommandSpec {
        self.spec(EXECUTABLE_FD, role, args)
    }

    /// Returns the descriptors that [`command`](Self::command) needs in the child: the executable at number 9, or none
    /// where it is started by its path.
    ///
    /// # Errors
    /// I/O errors, such as the limit of open files.
    pub fn descriptors(&self) -> Result<Vec<Descriptor>> {
        let copy = |fd: &OwnedFd| {
            let fd = fd.try_clone().map_err(|error| Error::io("copying the helper's descriptor", error))?;
            Ok(Descriptor { target: EXECUTABLE_FD, fd })
        };
        self.0.fd.iter().map(copy).collect()
    }

    /// Returns a [`command`](Self::command) that this process itself starts. It needs no descriptors and leaves none
    /// open in the child. Keep the helper until the child has started: its descriptor is what is executed.
    #[must_use]
    pub fn direct_command<A: Into<OsString>>(
        &self,
        role: &str,
        args: impl IntoIterator<Item = A>,
    ) -> CommandSpec {
        self.spec(self.0.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd), role, args)
    }

    fn spec<A: Into<OsString>>(
        &self,
        number: RawFd,
        role: &str,
        args: impl IntoIterator<Item = A>,
    ) -> CommandSpec {
        let program = match self.0.fd {
            // Resolved by the kernel in the child, whose descriptor has this number.
            Some(_) => PathBuf::from(format!("/proc/self/fd/{number}")),
            None => self.0.path.clone(),
        };
        CommandSpec::new(program).with_args([MARKER, role]).with_args(args)
    }

    /// Returns the words that start the program by its path, to be followed by the name of a role. For commands that an
    /// agent runs inside its sandbox, such as hooks, where no descriptor of ours exists.
    #[must_use]
    pub fn command_line_inside(&self) -> Vec<OsString> {
        vec![self.0.path.clone().into_os_string(), MARKER.into()]
    }

    /// Returns the path that the program was opened from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// Opens a file for exec only, at a number above those that are placed in children.
#[cfg(target_os = "linux")]
fn open_for_exec(file: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    /// Above every number that `spawn` places in a child, or a mapping would overwrite the executable before exec.
    const LOWEST_FD: RawFd = 100;
    let fd = open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::fcntl_dupfd_cloexec(&fd, LOWEST_FD)
}

#[cfg(not(target_os = "linux"))]
fn open_for_exec(_: &Path) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::NOTSUP)
}

/// Shows the role in `ps` and `top`. A program started by descriptor would otherwise be called by its number, such as
/// `9`.
fn name_process(role: &str) {
    #[cfg(target_os = "linux")]
    if let Ok(name) = std::ffi::CString::new(format!("wf-{role}")) {
        // Cosmetic: a role works without a name.
        let _ = rustix::thread::set_name(&name);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = role;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_never_asked_is_no_helper() {
        // The test harness does not call run_if_asked.
        assert_eq!(Helper::current().unwrap_err().code(), "helper_missing");
    }

    #[test]
    fn only_executable_files_are_helpers() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        for path in [plain, folder.path().to_owned(), folder.path().join("none"), "relative".into()] {
            assert_eq!(Helper::at(&path).unwrap_err().code(), "helper_missing", "{}", path.display());
        }
    }

    #[test]
    fn a_command_names_role_and_arguments() {
        let helper = Helper::at(env::current_exe().unwrap()).unwrap();
        let spec = helper.command("guardian", ["x"]);
        assert_eq!(spec.args(), [MARKER, "guardian", "x"]);
        assert_eq!(spec.env().count(), 0);
        assert!(helper.descriptors().unwrap().iter().all(|descriptor| descriptor.target == EXECUTABLE_FD));
    }
}
