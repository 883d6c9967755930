//! Commands as plain data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// A command to start: program, arguments, environment, working directory.
///
/// The environment is complete: the child gets these variables and no others. [`Debug`] hides values that were set with
/// [`with_secret`](Self::with_secret).
#[derive(Clone, Eq, PartialEq)]
pub struct CommandSpec {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, EnvValue>,
    cwd: Option<PathBuf>,
}

#[derive(Clone, Eq, PartialEq)]
struct EnvValue {
    value: OsString,
    secret: bool,
}

impl CommandSpec {
    /// Creates a command that runs `program` without arguments, in an empty environment.
    ///
    /// A program without a slash is looked up in the `PATH` of the process that starts it, not in the command's own.
    /// Resolve it first with `resolve_program` if the difference matters.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: BTreeMap::new(), cwd: None }
    }

    /// Replaces the program, for example by its full path.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Replaces program and arguments; environment and working directory stay.
    #[cfg(feature = "orchestrator")]
    #[must_use]
    pub(crate) fn with_command<A: Into<OsString> + Clone>(
        self,
        program: impl Into<PathBuf>,
        args: &[A],
    ) -> Self {
        Self { program: program.into(), args: args.iter().cloned().map(Into::into).collect(), ..self }
    }

    /// Adds an argument. Never pass a secret: other processes can read arguments.
    #[must_use]
    pub fn with_arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), EnvValue { value: value.into(), secret: false });
        self
    }

    /// Sets several variables.
    #[must_use]
    pub fn with_envs<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        for (name, value) in variables {
            self.env.insert(name.into(), EnvValue { value: value.into(), secret: false });
        }
        self
    }

    /// Sets a variable whose value must not appear in logs.
    #[must_use]
    pub fn with_secret(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), EnvValue { value: value.into(), secret: true });
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the arguments, without the program's name.
    #[must_use]
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Yields all variables, including secrets, ordered by name.
    pub fn env(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().map(|(name, value)| (name.as_os_str(), value.value.as_os_str()))
    }

    /// Returns the working directory. `None` means the directory of the process that starts the command.
    #[must_use]
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Makes this command the arguments of another: `outer outer_args… program args…`, with the same environment and
    /// working directory. Sandboxes and the guardian wrap commands this way.
    #[must_use]
    pub fn wrapped_by<A: Into<OsString>>(
        self,
        outer: impl Into<PathBuf>,
        outer_args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut args: Vec<OsString> = outer_args.into_iter().map(Into::into).collect();
        args.push(self.program.into_os_string());
        // The environment stays, so that a secret in it does not become an argument.
        args.extend(self.args);
        Self { program: outer.into(), args, env: self.env, cwd: self.cwd }
    }
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Env<'a>(&'a BTreeMap<OsString, EnvValue>);
        impl fmt::Debug for Env<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_map()
                    .entries(self.0.iter().map(|(name, value)| {
                        // The name is shown: which variables are set helps to find mistakes.
                        (name, if value.secret { OsStr::new("<secret>") } else { value.value.as_os_str() })
                    }))
                    .finish()
            }
        }
        f.debug_struct("CommandSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &Env(&self.env))
            .field("cwd", &self.cwd)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let spec = CommandSpec::new("claude").with_env("TERM", "xterm").with_secret("KEY", "sk-123");
        let shown = format!("{spec:?}");
        assert!(
            !shown.contains("sk-123") && shown.contains("<secret>") && shown.contains("xterm"),
            "{shown}"
        );
        let value = spec.env().find(|(name, _)| *name == "KEY").map(|(_, value)| value);
        assert_eq!(value, Some(OsStr::new("sk-123")));
    }

    #[test]
    fn wrapping_keeps_environment_and_folder() {
        let spec = CommandSpec::new("/bin/agent").with_arg("-x").with_env("A", "1").with_cwd("/w");
        let wrapped = spec.wrapped_by("/bin/helper", ["sandbox", "--"]);
        assert_eq!(wrapped.program(), Path::new("/bin/helper"));
        assert_eq!(wrapped.args(), ["sandbox", "--", "/bin/agent", "-x"]);
        assert_eq!(wrapped.env().collect::<Vec<_>>(), [(OsStr::new("A"), OsStr::new("1"))]);
        assert_eq!(wrapped.cwd(), Some(Path::new("/w")));
    }
}
