//! Prepared sessions: the command of an agent and everything it needs.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::CommandSpec;
use crate::terminal::Size;

/// A prepared session, as plain data. Nothing has been written or started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// Command of the agent. Its environment holds only the backend's variables, which override the base environment.
    pub command: CommandSpec,
    /// Transport between agent and session.
    pub transport: Transport,
    /// Files to write before the start, below the session's home.
    pub files: Vec<FileToWrite>,
    /// Symbolic links to create before the start, below the session's home.
    pub links: Vec<LinkToMake>,
    /// Variables whose values must not appear in logs.
    pub secrets: Vec<Secret>,
    /// Access needed beyond the base sandbox policy.
    pub grants: Vec<Grant>,
    /// Variables to remove from the base environment.
    pub unset: Vec<OsString>,
    /// Variables of this process to pass on, by name or as a prefix that ends in `*`.
    pub pass: Vec<String>,
    /// Delivery of the first prompt.
    pub prompt: PromptDelivery,
    /// Sign that the agent is ready for input.
    pub readiness: Readiness,
    /// Vendor's session id, if the backend chose it.
    pub vendor_session: Option<String>,
    /// Parts of the person's own configuration of the agent that do not go along.
    pub left: Vec<LeftBehind>,
}

impl Launch {
    /// Creates a launch that runs `program` on a terminal of the default size and types nothing.
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
            left: Vec::new(),
        }
    }

    /// Adds an argument. Never pass a secret, which other processes could read, or a long prompt: the kernel bounds the
    /// length of all arguments.
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

    /// Sets a variable whose value must not appear in logs.
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

    /// Passes on a variable of this process, by name or as a prefix that ends in `*`.
    #[must_use]
    pub fn with_passed_env(mut self, name: impl Into<String>) -> Self {
        self.pass.push(name.into());
        self
    }

    /// Writes a file with mode 0600 before the start. `path` is relative to the session's home.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push(FileToWrite { path: path.into(), bytes: bytes.into(), mode: 0o600 });
        self
    }

    /// Creates a symbolic link to `target` before the start. `path` is relative to the session's home. The link alone
    /// opens nothing: access to the target needs a [`Grant`].
    #[must_use]
    pub fn with_link(mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.links.push(LinkToMake { path: path.into(), target: target.into() });
        self
    }

    /// Requests access beyond the base policy.
    #[must_use]
    pub fn with_grant(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// Sets the transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the delivery of the first prompt.
    #[must_use]
    pub fn with_prompt(mut self, prompt: PromptDelivery) -> Self {
        self.prompt = prompt;
        self
    }

    /// Sets the sign that the agent is ready for input.
    #[must_use]
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Sets the vendor's session id that the backend chose.
    #[must_use]
    pub fn with_vendor_session(mut self, id: impl Into<String>) -> Self {
        self.vendor_session = Some(id.into());
        self
    }
}

/// A part of the person's own configuration of an agent that does not go along into a session.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LeftBehind {
    /// Name, such as `mcp:github` or `hooks`.
    pub item: String,
    /// The reason, in a few words.
    pub why: String,
    /// Set if it goes along once [`carry`](Self::setting) in the agent's settings names it.
    pub has_remedy: bool,
}

impl LeftBehind {
    /// Creates an entry for what no setting takes along.
    #[must_use]
    pub fn new(item: impl Into<String>, why: impl Into<String>) -> Self {
        Self { item: item.into(), why: why.into(), has_remedy: false }
    }

    /// Marks it as something that goes along once the settings name it.
    #[must_use]
    pub fn with_remedy(mut self) -> Self {
        self.has_remedy = true;
        self
    }

    /// Returns the line of `settings.yaml` that takes all of these along that can be. `None` if there are none.
    #[must_use]
    pub fn setting(agent: &str, left: &[Self]) -> Option<String> {
        let names: Vec<_> =
            left.iter().filter(|left| left.has_remedy).map(|left| format!("{:?}", left.item)).collect();
        (!names.is_empty()).then(|| format!("agents: {{{agent}: {{carry: [{}]}}}}", names.join(", ")))
    }
}

/// The transport between an agent and its session.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Transport {
    /// A pseudo-terminal, for the interactive program.
    #[non_exhaustive]
    Pty {
        /// Initial size.
        size: Size,
    },
    /// JSON lines on pipes, for the agent's print or stream mode.
    #[non_exhaustive]
    Lines {
        /// Set if stdin stays open for more turns. Otherwise it is closed after the first prompt, or at once if the
        /// prompt is not typed.
        keep_input: bool,
    },
    /// A protocol on pipes in which both sides send requests, such as the Agent Client Protocol.
    /// [`Backend::dialogue`](super::Backend::dialogue) implements it.
    #[non_exhaustive]
    Dialogue {
        /// Maximum time until the agent is ready for text. After it, the session ends the agent.
        within: Duration,
    },
}

impl Transport {
    /// Returns [`Pty`](Self::Pty).
    #[must_use]
    pub fn pty(size: Size) -> Self {
        Self::Pty { size }
    }

    /// Returns [`Lines`](Self::Lines).
    #[must_use]
    pub fn lines(keep_input: bool) -> Self {
        Self::Lines { keep_input }
    }

    /// Returns [`Dialogue`](Self::Dialogue).
    #[must_use]
    pub fn dialogue(within: Duration) -> Self {
        Self::Dialogue { within }
    }
}

/// A file to write before the start.
#[derive(Clone, Eq, PartialEq)]
pub struct FileToWrite {
    /// Path relative to the session's home. A path that leaves it is rejected.
    pub path: PathBuf,
    /// Content.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl fmt::Debug for FileToWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileToWrite")
            .field("path", &self.path)
            // Not the content: it may hold keys, and launches are logged.
            .field("len", &self.bytes.len())
            .field("mode", &format_args!("{:o}", self.mode))
            .finish()
    }
}

/// A symbolic link to create before the start, for parts of the user's own configuration that are shared, not copied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkToMake {
    /// Path relative to the session's home. A path that leaves it is rejected.
    pub path: PathBuf,
    /// Absolute path of the target.
    pub target: PathBuf,
}

/// A variable whose value must not appear in logs.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret {
    /// Name of the variable.
    pub name: OsString,
    /// Value of the variable.
    pub value: OsString,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name helps to find mistakes; the value must not reach a log.
        write!(f, "Secret({:?})", self.name)
    }
}

/// Access that a backend needs beyond the base sandbox policy.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Grant {
    /// Read access to a file, or to a folder and everything below it.
    Read(PathBuf),
    /// Read and write access to a file, or to a folder and everything below it.
    Write(PathBuf),
    /// Read and write access to the agent's own credential file, although the base policy hides its folder.
    Credential(PathBuf),
}

impl Grant {
    /// Returns the path of the grant.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read(path) | Self::Write(path) | Self::Credential(path) => path,
        }
    }
}

/// Delivery of the first prompt.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum PromptDelivery {
    /// Nothing to deliver: the command contains the prompt, or there is none.
    #[default]
    None,
    /// Type the prompt as soon as the agent is ready.
    Typed(String),
}

/// The sign that an agent is ready for input.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Readiness {
    /// The agent accepts input from its start.
    #[default]
    Immediate,
    /// The screen shows certain texts.
    #[non_exhaustive]
    Screen {
        /// Texts of which one must be visible.
        any_of: Vec<String>,
        /// Texts of which none may be visible.
        none_of: Vec<String>,
        /// Maximum time to wait.
        within: Duration,
    },
    /// [`Backend::interpret`](super::Backend::interpret) reports the agent as idle.
    #[non_exhaustive]
    Idle {
        /// Maximum time to wait.
        within: Duration,
    },
}

impl Readiness {
    /// Returns [`Screen`](Self::Screen).
    #[must_use]
    pub fn screen(any_of: Vec<String>, none_of: Vec<String>, within: Duration) -> Self {
        Self::Screen { any_of, none_of, within }
    }

    /// Returns [`Idle`](Self::Idle).
    #[must_use]
    pub fn idle(within: Duration) -> Self {
        Self::Idle { within }
    }
}
