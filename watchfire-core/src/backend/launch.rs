//! What a backend wants to run.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::CommandSpec;
use crate::terminal::Size;

/// One prepared session: plain data. Nothing has happened yet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// The command. Its environment holds only what the backend adds; the session's base environment comes below it.
    pub command: CommandSpec,
    /// How we reach the agent.
    pub transport: Transport,
    /// Files to write first, below the session's home.
    pub files: Vec<FileToWrite>,
    /// Symbolic links to make first, below the session's home.
    pub links: Vec<LinkToMake>,
    /// Variables with values that must not be seen.
    pub secrets: Vec<Secret>,
    /// What it needs beyond the base sandbox policy.
    pub grants: Vec<Grant>,
    /// Variables to remove from the base environment.
    pub unset: Vec<OsString>,
    /// Variables of ours to pass on, by name or as a prefix that ends in `*`.
    pub pass: Vec<String>,
    /// How the first prompt reaches the agent.
    pub prompt: PromptDelivery,
    /// How to tell that it is ready for input.
    pub readiness: Readiness,
    /// The vendor's session id, where we chose it.
    pub vendor_session: Option<String>,
}

impl Launch {
    /// Runs `program` on a terminal of the default size, and types nothing.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            command: CommandSpec::new(program),
            transport: Transport::Pty { size: Size::default() },
            files: Vec::new(),
            links: Vec::new(),
            secrets: Vec::new(),
            grants: Vec::new(),
            unset: Vec::new(),
            pass: Vec::new(),
            prompt: PromptDelivery::None,
            readiness: Readiness::Immediate,
            vendor_session: None,
        }
    }

    /// Adds one argument. Never a secret, never a long prompt.
    #[must_use]
    pub fn with_arg(mut self, arg: impl Into<OsString>) -> Self {
        self.command = self.command.with_arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command = self.command.with_args(args);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.command = self.command.with_env(name, value);
        self
    }

    /// Sets a variable whose value must not be seen.
    #[must_use]
    pub fn with_secret(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.secrets.push(Secret { name: name.into(), value: value.into() });
        self
    }

    /// Removes a variable from the base environment.
    #[must_use]
    pub fn without_env(mut self, name: impl Into<OsString>) -> Self {
        self.unset.push(name.into());
        self
    }

    /// Passes on a variable of ours, by name or as a prefix that ends in `*`.
    #[must_use]
    pub fn with_passed_env(mut self, name: impl Into<String>) -> Self {
        self.pass.push(name.into());
        self
    }

    /// Writes a file, private to us, before the start. `path` is relative to the session's home.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push(FileToWrite { path: path.into(), bytes: bytes.into(), mode: 0o600 });
        self
    }

    /// Makes a symbolic link to `target` before the start. `path` is relative to the session's home. What the target
    /// allows is said by a [`Grant`].
    #[must_use]
    pub fn with_link(mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.links.push(LinkToMake { path: path.into(), target: target.into() });
        self
    }

    /// Asks for something beyond the base policy.
    #[must_use]
    pub fn with_grant(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// Chooses the transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Says how the first prompt travels.
    #[must_use]
    pub fn with_prompt(mut self, prompt: PromptDelivery) -> Self {
        self.prompt = prompt;
        self
    }

    /// Says how to tell that it is ready for input.
    #[must_use]
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Names the vendor's session id that we chose.
    #[must_use]
    pub fn with_vendor_session(mut self, id: impl Into<String>) -> Self {
        self.vendor_session = Some(id.into());
        self
    }
}

/// How bytes travel between an agent and us.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Transport {
    /// A pseudo-terminal: the interactive program.
    Pty {
        /// Its first size.
        size: Size,
    },
    /// JSON lines on pipes: the agent's print or stream mode.
    Lines {
        /// Whether standard input stays open for more turns; otherwise it is closed after the first prompt, or at
        /// once where that is not typed.
        keep_input: bool,
    },
    /// A protocol on pipes in which both sides ask and answer, such as the Agent Client Protocol. It is spoken by
    /// [`Backend::dialogue`](super::Backend::dialogue).
    Dialogue {
        /// How long the agent gets until a first text can be said to it. Then it is ended.
        within: Duration,
    },
}

/// A file to write before the start.
#[derive(Clone, Eq, PartialEq)]
pub struct FileToWrite {
    /// Where, relative to the session's home. Parts that leave it are refused.
    pub path: PathBuf,
    /// What.
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

impl fmt::Debug for FileToWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileToWrite")
            .field("path", &self.path)
            .field("len", &self.bytes.len())
            .field("mode", &format_args!("{:o}", self.mode))
            .finish()
    }
}

/// A symbolic link to make before the start, so that what is reused of the user's own configuration stays in one place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkToMake {
    /// Where, relative to the session's home. Parts that leave it are refused.
    pub path: PathBuf,
    /// The absolute path to which it leads.
    pub target: PathBuf,
}

/// A variable whose value must not be seen.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret {
    /// Its name.
    pub name: OsString,
    /// Its value.
    pub value: OsString,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.name)
    }
}

/// Something a backend needs beyond the base sandbox policy.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Grant {
    /// Read this file, or this folder and all below it.
    Read(PathBuf),
    /// Read and write this file, or this folder and all below it.
    Write(PathBuf),
    /// Leave the agent's own credential file readable and writable although the base policy hides its folder.
    Credential(PathBuf),
}

impl Grant {
    /// The path it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read(path) | Self::Write(path) | Self::Credential(path) => path,
        }
    }
}

/// How the first prompt reaches the agent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum PromptDelivery {
    /// It is in the command already, or there is none.
    #[default]
    None,
    /// Typed, once the agent is ready.
    Typed(String),
}

/// How to tell that an agent is ready for input.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Readiness {
    /// From the start.
    #[default]
    Immediate,
    /// When this text is on its screen.
    Screen {
        /// Any one of these.
        any_of: Vec<String>,
        /// And none of these.
        none_of: Vec<String>,
        /// How long to wait before giving up.
        within: Duration,
    },
    /// When [`Backend::interpret`](super::Backend::interpret) says that it is idle.
    Idle {
        /// How long to wait before giving up.
        within: Duration,
    },
}
