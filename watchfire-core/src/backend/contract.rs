//! The trait of the seam, and the data that goes in and out of its methods.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use super::{
    Delivery, Dialogue, Fact, FailedAccess, InputBox, Issue, Launch, Message, Observation, Price, Transcript,
};
use crate::model::{AgentSettings, BackendName, Mode, Phase, SessionId, Task, Timestamp};
use crate::terminal::{Size, Snapshot};
use crate::{Error, ErrorKind, Result};

/// An agent CLI. Object-safe and synchronous; callers run its methods where blocking is allowed.
///
/// **Implementers ensure** that
/// - `name` is constant and valid as a [`BackendName`](crate::model::BackendName);
/// - nothing is written outside [`SessionContext::home`], except renewed credentials by [`clean_up`](Self::clean_up), and
///   no process is started, except to read a version;
/// - no secret appears in arguments, in files readable by others, or in errors;
/// - the same context gives the same launch.
///
/// **Callers may not assume** that the program exists before [`locate`](Self::locate) has found it, that its version is
/// known, that a session reports any fact beyond those of its process, or that methods are cheap: several read the file
/// system.
pub trait Backend: Debug + Send + Sync + 'static {
    /// Returns the name in task files and settings: lowercase letters, digits and `-`.
    fn name(&self) -> &str;

    /// Returns other names under which users may ask for the backend.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Returns the name shown to people.
    fn display_name(&self) -> &str {
        self.name()
    }

    /// Returns the optional abilities of the agent.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Returns one line that explains to a person how to install the agent.
    fn install_hint(&self) -> Option<String> {
        None
    }

    /// Returns the arguments with which the agent's program signs its user in on a terminal. `None` if it has no sign-in.
    fn sign_in(&self) -> Option<Vec<String>> {
        None
    }

    /// Finds the agent's program.
    ///
    /// # Errors
    /// `program_missing` if it is not installed, with the places that were searched.
    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram>;

    /// Prepares a session: the command, the files to write first, the grants it needs.
    ///
    /// # Errors
    /// Anything that makes the session impossible, such as an unsupported mode or invalid settings.
    fn prepare(&self, context: &SessionContext) -> Result<Launch>;

    /// Returns how text is typed into the agent.
    fn delivery(&self) -> Delivery {
        Delivery::default()
    }

    /// Begins a conversation with an agent whose launch has [`Transport::Dialogue`](super::Transport::Dialogue). Returns
    /// `None` for any other transport.
    fn dialogue(&self, context: &SessionContext) -> Option<Box<dyn Dialogue>> {
        let _ = context;
        None
    }

    /// Reads the agent's input box from its screen.
    ///
    /// If the box can be read, text is typed only into an empty one and submitted only when the box holds exactly that
    /// text. Otherwise text is typed as soon as the agent is [ready](Launch::readiness). Must be pure.
    fn input_box(&self, screen: &Snapshot) -> InputBox {
        let _ = screen;
        InputBox::Unknown
    }

    /// Interprets an observation. Returns no facts if it says nothing about the agent. Must be pure.
    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let _ = observation;
        Vec::new()
    }

    /// Returns the paths below a session's home that the vendor needs to resume the session, if any. They may not hold
    /// configuration.
    ///
    /// They are saved when the session has ended, and restored in the home of the session that
    /// [resumes it](SessionContext::resume) before any other file is written.
    fn resumable(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Finds the transcript of a session. Returns `None` until the agent has created it.
    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        let _ = context;
        None
    }

    /// Parses a line of the transcript, or a whole file of another format, into messages. Must be pure.
    fn normalize(&self, line: &str) -> Vec<Message> {
        let _ = line;
        Vec::new()
    }

    /// Returns the time at which `issue` ends, if its message names one. Messages are in the vendor's words, and may name a
    /// duration from `now` on.
    fn reset_at(&self, issue: &Issue, now: &Timestamp) -> Option<Timestamp> {
        let _ = (issue, now);
        None
    }

    /// Returns the issue for which a program ended with an error before it came to work, given its last words. Must be pure.
    fn early_issue(&self, last_words: &str) -> Option<Issue> {
        let _ = last_words;
        None
    }

    /// Parses the failed accesses to files from the output of a failed tool. The session reports only those that the
    /// sandbox denies. Must be pure.
    fn failed_accesses(&self, output: &str) -> Vec<FailedAccess> {
        let _ = output;
        Vec::new()
    }

    /// Returns the price of a model's tokens, if known.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// Removes what a session left outside its home, such as a vendor's daemon, and copies renewed credentials back.
    ///
    /// Called after every session, including one that crashed, before its home is removed. May be called twice.
    ///
    /// # Errors
    /// Anything that could not be removed or copied.
    fn clean_up(&self, context: &SessionContext) -> Result<()> {
        let _ = context;
        Ok(())
    }
}

/// Optional abilities of an agent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// A session can be resumed by its vendor's session id.
    pub resume: bool,
    /// Set if the backend chooses the vendor's session id; otherwise it is read from the agent.
    pub chooses_session_id: bool,
    /// The composed prompt arrives as system or developer text.
    pub system_prompt: bool,
    /// The agent reports turns and tools through hooks.
    pub hooks: bool,
    /// The transcript or stream carries token usage.
    pub usage: bool,
    /// A running turn can be interrupted.
    pub interrupt: bool,
    /// The agent can hold a conversation with a person.
    pub chat: bool,
    /// Maximum number of bytes known to arrive complete when pasted. Longer text goes by file.
    pub paste_limit: Option<usize>,
    /// The [options](AgentSettings::option) of its settings that it reads. The person is warned about others. `None` if it
    /// refuses them itself.
    pub options: Option<&'static [&'static str]>,
}

/// Places to look for programs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProgramSearch {
    /// Path from the user's settings.
    pub configured: Option<PathBuf>,
    /// The `PATH` to search.
    pub path: Option<OsString>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Settings of this backend.
    pub settings: AgentSettings,
}

impl ProgramSearch {
    /// Creates a search in `path` and in known places below `home`.
    #[must_use]
    pub fn new(path: Option<OsString>, home: Option<PathBuf>) -> Self {
        Self { path, home, ..Self::default() }
    }

    /// Sets the settings of the backend, including the path configured there.
    #[must_use]
    pub fn with_settings(mut self, settings: AgentSettings) -> Self {
        self.configured = settings.path.clone();
        self.settings = settings;
        self
    }

    /// Finds `name`: first the configured path, then `PATH`, then `places` (where `~/` is the home folder).
    ///
    /// A configured path that is not an executable file is an error. An explicit choice of the user is never replaced by
    /// another program.
    ///
    /// # Errors
    /// `program_missing`, with the places that were searched.
    pub fn find(&self, name: &str, places: &[&str]) -> Result<PathBuf> {
        // Before anything else: what the person configured is never second-guessed.
        if let Some(path) = &self.configured {
            let path = self.expand(path);
            return if is_executable(&path) {
                Ok(path)
            } else {
                Err(Error::new(ErrorKind::ProgramMissing, "the configured program is not an executable file")
                    .with("program", name)
                    .with_path(path))
            };
        }
        // A relative entry of PATH would find a program in the project that an agent may have written.
        let on_path = self.path.iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute());
        let known = places.iter().map(|place| self.expand(Path::new(place)));
        on_path.chain(known).map(|dir| dir.join(name)).find(|path| is_executable(path)).ok_or_else(|| {
            Error::new(ErrorKind::ProgramMissing, "program not found")
                .with("program", name)
                .with("searched", if places.is_empty() { "PATH" } else { "PATH and the known places" })
        })
    }

    fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            // Settings are not read by a shell, so nothing else expands a `~`.
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_path_buf(),
        }
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The program of an agent, as found on this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LocatedProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// Version that the program reports, if it was asked.
    pub version: Option<String>,
    /// True if this version was tested; `None` without a version.
    pub tested: Option<bool>,
}

impl LocatedProgram {
    /// Returns a program of unknown version.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), version: None, tested: None }
    }
}

/// The session that a backend prepares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionContext {
    /// Id of the session.
    pub session: SessionId,
    /// Name of the backend as the user requested it, which may be an alias.
    pub backend: BackendName,
    /// Mode that the user started.
    pub mode: Mode,
    /// Step of wildfire, if any.
    pub phase: Option<Phase>,
    /// Task, for modes that have one.
    pub task: Option<Task>,
    /// Short name of the session, for titles and transcripts.
    pub title: String,
    /// Program that [`Backend::locate`] found.
    pub program: PathBuf,
    /// Private folder (0700) for this session's configuration. Exists, and is removed after the session.
    pub home: PathBuf,
    /// Folder with the session's copies of the task files. Exists.
    pub session_dir: PathBuf,
    /// Working directory of the agent.
    pub cwd: PathBuf,
    /// Root of the project.
    pub project_root: PathBuf,
    /// Composed system prompt. Empty once the agent runs.
    pub system_prompt: String,
    /// First message to the agent; `None` in a chat, and once the agent runs.
    pub first_prompt: Option<String>,
    /// Size of the terminal.
    pub size: Size,
    /// Vendor's session id to resume. The vendor keeps its sessions in [`home`](Self::home), so resuming works in the
    /// home of the earlier session.
    pub resume: Option<String>,
    /// Vendor's session id once the agent has reported it. The transcript is found by this id.
    pub vendor_session: Option<String>,
    /// Settings of this backend.
    pub settings: AgentSettings,
    /// Environment of this process, from which a backend may take variables by name.
    pub environment: BTreeMap<OsString, OsString>,
    /// The user's home folder.
    pub user_home: Option<PathBuf>,
    /// Command line (program and leading arguments) that runs a helper role inside the sandbox.
    pub helper: Vec<OsString>,
    /// Command line of a server of the Model Context Protocol on stdio, which gives the agent its calls as tools. Empty if
    /// there is none. It needs no variables.
    pub tools: Vec<OsString>,
}

impl SessionContext {
    /// Creates a context with the parts that every session has. Set the others on its fields.
    #[must_use]
    pub fn new(
        session: SessionId,
        backend: BackendName,
        mode: Mode,
        program: impl Into<PathBuf>,
        home: impl Into<PathBuf>,
        cwd: impl Into<PathBuf>,
    ) -> Self {
        let (home, cwd) = (home.into(), cwd.into());
        Self {
            session,
            backend,
            mode,
            phase: None,
            task: None,
            title: String::new(),
            program: program.into(),
            session_dir: home.clone(),
            home,
            project_root: cwd.clone(),
            cwd,
            system_prompt: String::new(),
            first_prompt: None,
            size: Size::default(),
            resume: None,
            vendor_session: None,
            settings: AgentSettings::default(),
            environment: BTreeMap::new(),
            user_home: None,
            helper: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// Returns a variable of this process's environment, if it is UTF-8.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        self.environment.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str())
    }
}
