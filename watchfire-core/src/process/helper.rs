//! The one way in which our own program runs again, in another role.
//!
//! A program that embeds Watchfire is its own helper: sandboxes, guardians, session hosts and hooks are the same
//! executable, started with a marker as its first argument. [`run_if_asked`] is the first line of `main`:
//!
//! ```
//! watchfire_core::process::helper::run_if_asked();
//! // threads, runtimes and everything else come after
//! ```
//!
//! `main` is synchronous, not `#[tokio::main]`: some roles enter namespaces, which the kernel refuses to a process
//! with several threads. A program that cannot do this installs one that can, and names it with [`Helper::at`].
//!
//! **Roles** come from any linked crate, by [`register_helper_role!`](crate::register_helper_role).
//!
//! **The executable is held open** from the moment a [`Helper`] is made, and started through that descriptor
//! (`/proc/self/fd/…`), so that replacing, moving or deleting the file changes nothing. Where there is no `/proc`
//! (macOS) the path is used, and replacing the file replaces the helper.
//!
//! **Never by mistake**: [`Helper::current`] refuses unless `run_if_asked` was called here; and a helper that works
//! for us over a control socket says hello on it before anything else, or is killed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use super::CommandSpec;
use super::inherited::Inherited;
use crate::sandbox::Descriptor;
use crate::{Error, ErrorKind, Result};

/// The first argument of a program that is asked to be a helper.
const MARKER: &str = "__watchfire-helper";

/// The number of the helper's executable in children, see [`Helper::descriptors`].
const EXECUTABLE_FD: RawFd = 9;

/// The lowest number for it here: above every number at which a child expects a descriptor.
const LOWEST_FD: RawFd = 100;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Runs the helper role that this process was started for and exits with its code; returns if there is none.
///
/// Call it first in a synchronous `main`. It looks at the arguments alone, changes nothing when it returns, and is
/// cheap. A role that nobody registered ends the process with code 127 and a line on stderr.
pub fn run_if_asked() {
    let mut args = env::args_os().skip(1);
    if args.next().is_none_or(|first| first != MARKER) {
        ASKED.store(true, Ordering::Release);
        return;
    }
    let name = args.next().unwrap_or_default();
    let found = inventory::iter::<Role>.into_iter().find(|role| name == role.name);
    let code = match found {
        Some(role) => {
            name_process(role.name);
            (role.run)(RoleArgs { args: args.collect(), inherited: Inherited::find() })
        }
        None => {
            eprintln!("watchfire helper: unknown role {}", name.display());
            127
        }
    };
    std::process::exit(code);
}

/// Something that our program can be when it runs again.
#[derive(Clone, Copy)]
pub struct Role {
    /// Its name, unique in the program.
    pub name: &'static str,
    /// Does its work and gives the process's exit code. Runs first in `main`, on the only thread.
    pub run: fn(RoleArgs) -> i32,
}

inventory::collect!(Role);

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Offers a helper role to every program that links this crate: a name, and a function from
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
        $crate::process::__inventory::submit! {
            $crate::process::helper::Role { name: $name, run: $run }
        }
    };
}

/// What a role gets: its arguments, and the descriptors that its process inherited.
#[derive(Debug)]
pub struct RoleArgs {
    args: Vec<OsString>,
    inherited: Inherited,
}

impl RoleArgs {
    /// The arguments after the role's name.
    #[must_use]
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Takes the inherited descriptor of that number, 3 or more, once. It is closed on exec; so are those that
    /// nobody takes.
    ///
    /// # Errors
    /// `invalid_input` when nothing was inherited at that number, or it was taken already.
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
    /// None where programs cannot be started by descriptor.
    fd: Option<OwnedFd>,
}

impl Helper {
    /// This very program, as it is running: also if its file was replaced since it started.
    ///
    /// # Errors
    /// `helper_missing` unless [`run_if_asked`] was called in this process; else what opening it met.
    pub fn current() -> Result<Self> {
        if !ASKED.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::HelperMissing, "this program cannot be its own helper").with(
                "hint",
                "call watchfire_core::process::helper::run_if_asked() first in a synchronous main, \
                 or name a helper program",
            ));
        }
        let path = env::current_exe().map_err(|error| Error::io("finding this program's file", error))?;
        let running = Path::new("/proc/self/exe");
        Self::open(if running.exists() { running } else { &path }, path.clone())
    }

    /// Another program, by its absolute path.
    ///
    /// # Errors
    /// `helper_missing` when it is not an executable file.
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
        rustix::fs::access(file, rustix::fs::Access::EXEC_OK).map_err(unusable)?;
        let fd = match cfg!(target_os = "linux") && Path::new("/proc/self/fd").exists() {
            true => Some(open_for_exec(file).map_err(unusable)?),
            false => None,
        };
        Ok(Self(Arc::new(Executable { path, fd })))
    }

    /// A command that runs the program in a role, with an empty environment. Where it is started, the
    /// [`descriptors`](Self::descriptors) must be placed; inside of a sandbox too, if it is started again there.
    ///
    /// Arguments are visible to other processes: never secrets.
    #[must_use]
    pub fn command<A: Into<OsString>>(&self, role: &str, args: impl IntoIterator<Item = A>) -> CommandSpec {
        self.spec(EXECUTABLE_FD, role, args)
    }

    /// What [`command`](Self::command) needs in the child: the executable itself at number 9, or nothing where it is
    /// started by its path.
    ///
    /// # Errors
    /// When no more descriptors can be opened.
    pub fn descriptors(&self) -> Result<Vec<Descriptor>> {
        let copy = |fd: &OwnedFd| {
            let fd = fd.try_clone().map_err(|error| Error::io("copying the helper's descriptor", error))?;
            Ok(Descriptor { target: EXECUTABLE_FD, fd })
        };
        self.0.fd.iter().map(copy).collect()
    }

    /// As [`command`](Self::command), for a child that this process itself starts: needs no descriptors, and leaves
    /// none open in the child. Keep the helper until then, for its descriptor is what is started.
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
            Some(_) => PathBuf::from(format!("/proc/self/fd/{number}")),
            None => self.0.path.clone(),
        };
        CommandSpec::new(program).with_args([MARKER, role]).with_args(args)
    }

    /// The words that start the program by its path, up to where the name of a role goes: for what an agent runs inside
    /// of its sandbox, such as hooks.
    #[must_use]
    pub fn command_line_inside(&self) -> Vec<OsString> {
        vec![self.0.path.clone().into_os_string(), MARKER.into()]
    }

    /// The file it was opened from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// Only good for exec; numbered so high that no descriptor placed in a child covers it.
#[cfg(target_os = "linux")]
fn open_for_exec(file: &Path) -> rustix::io::Result<OwnedFd> {
    let fd = rustix::fs::open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::fcntl_dupfd_cloexec(&fd, LOWEST_FD)
}

#[cfg(not(target_os = "linux"))]
fn open_for_exec(_: &Path) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::NOTSUP)
}

/// Gives the process the role's name in `ps` and `top`, for its executable's would be a number.
fn name_process(role: &str) {
    #[cfg(target_os = "linux")]
    if let Ok(name) = std::ffi::CString::new(format!("wf-{role}")) {
        // Cosmetic.
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
