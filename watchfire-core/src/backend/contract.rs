//! The trait.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use super::{Delivery, Dialogue, Fact, InputBox, Launch, Message, Observation, Price, Transcript};
use crate::model::{AgentSettings, BackendName, Mode, Phase, SessionId, Task};
use crate::terminal::{Size, Snapshot};
use crate::{Error, ErrorKind, Result};

/// An agent CLI. Object-safe and sync; callers run it where blocking is allowed.
///
/// **Implementers ensure** that
/// - `name` is constant and valid as a [`BackendName`](crate::model::BackendName);
/// - nothing outside of [`SessionContext::home`] is written but renewed credentials by [`clean_up`](Self::clean_up), and no process is started but to read a version;
/// - no secret is put in arguments, in files readable by others, or in errors;
/// - the same context gives the same launch.
///
/// **Callers may not assume** that the program exists before [`locate`](Self::locate) says so, that a version is
/// known, that every session reports facts beyond those of its process, or that methods are cheap: several read the
/// file system.
pub trait Backend: Debug + Send + Sync + 'static {
    /// The name in task files and settings: lowercase letters, digits and `-`.
    fn name(&self) -> &str;

    /// Other names under which people may ask for it.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// The name that people see.
    fn display_name(&self) -> &str {
        self.name()
    }

    /// What it can do beyond running.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// How to get it, as one line for a person.
    fn install_hint(&self) -> Option<String> {
        None
    }

    /// Finds its program.
    ///
    /// # Errors
    /// `program_missing` when it is not installed, with what was looked for.
    fn locate(&self, search: &ProgramSearch) -> Result<Located>;

    /// Prepares one session: what to run, which files to write first, what to grant.
    ///
    /// # Errors
    /// Anything that makes the session impossible: a mode that it does not have, a broken configuration.
    fn prepare(&self, context: &SessionContext) -> Result<Launch>;

    /// How text is written to it.
    fn delivery(&self) -> Delivery {
        Delivery::default()
    }

    /// Begins a conversation with an agent whose launch has [`Transport::Dialogue`](super::Transport::Dialogue).
    ///
    /// None where it has no such transport.
    fn dialogue(&self, context: &SessionContext) -> Option<Box<dyn Dialogue>> {
        let _ = context;
        None
    }

    /// What its screen shows of the box into which text is typed. Where that is known, text is typed only into an empty
    /// box, and submitted only when the box holds exactly that text; else whenever it is [ready](Launch::readiness).
    ///
    /// Pure: the same screen gives the same answer.
    fn input_box(&self, screen: &Snapshot) -> InputBox {
        let _ = screen;
        InputBox::Unknown
    }

    /// What an observation says about the agent. An empty answer means: nothing known.
    ///
    /// Pure: the same observation gives the same facts.
    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let _ = observation;
        Vec::new()
    }

    /// What of a session's home the vendor needs to go on with the session later: files and folders below it, none of them
    /// configuration. They are kept when the session has ended, and are in the home of the one that [resumes
    /// it](SessionContext::resume) before anything else.
    fn resumable(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Where the transcript of a session is, once it exists.
    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        let _ = context;
        None
    }

    /// The messages in one line (or file) of its transcript; none for lines that hold no message.
    fn normalize(&self, line: &str) -> Vec<Message> {
        let _ = line;
        Vec::new()
    }

    /// What a model's tokens cost, where that is known.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// Removes what a session left outside of its home, such as a vendor's daemon, and carries credentials back that
    /// the vendor renewed in it. Called after every session, also one that crashed, before its home is removed.
    ///
    /// # Errors
    /// What could not be done.
    fn clean_up(&self, context: &SessionContext) -> Result<()> {
        let _ = context;
        Ok(())
    }
}

/// What a backend can do beyond running.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// A session can go on later under its vendor's session id.
    pub resume: bool,
    /// We choose the vendor's session id; otherwise it is found.
    pub chooses_session_id: bool,
    /// The composed prompt arrives as system or developer text.
    pub system_prompt: bool,
    /// It reports turns and tools through hooks.
    pub hooks: bool,
    /// Its transcript or stream carries token usage.
    pub usage: bool,
    /// A running turn can be interrupted.
    pub interrupt: bool,
    /// It can hold a conversation with a person.
    pub chat: bool,
    /// The longest text, in bytes, that is known to arrive whole when pasted; longer text goes by file.
    pub paste_limit: Option<usize>,
}

impl Capabilities {
    /// None of them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Where to look for programs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProgramSearch {
    /// The path from the settings, if the person set one.
    pub configured: Option<PathBuf>,
    /// The `PATH` to search.
    pub path: Option<OsString>,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The settings of this backend.
    pub settings: AgentSettings,
}

impl ProgramSearch {
    /// A search in `path`, with the known places below `home`.
    #[must_use]
    pub fn new(path: Option<OsString>, home: Option<PathBuf>) -> Self {
        Self { path, home, ..Self::default() }
    }

    /// Uses the settings of the backend, with the path configured there.
    #[must_use]
    pub fn with_settings(mut self, settings: AgentSettings) -> Self {
        self.configured = settings.path.clone();
        self.settings = settings;
        self
    }

    /// Finds `name`: the configured path, then `PATH`, then `places` (where `~/` is the home folder).
    ///
    /// A configured path that is no executable file is an error: a person's explicit choice is never replaced.
    ///
    /// # Errors
    /// `program_missing`, with what was looked for.
    pub fn find(&self, name: &str, places: &[&str]) -> Result<PathBuf> {
        if let Some(path) = &self.configured {
            let path = self.expand(path);
            return if is_executable(&path) {
                Ok(path)
            } else {
                Err(Error::new(ErrorKind::ProgramMissing, "the configured program is not an executable file")
                    .with("field", format_args!("agents.{name}.path"))
                    .with_path(path))
            };
        }
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
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_path_buf(),
        }
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A program that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Located {
    /// Where it is.
    pub program: PathBuf,
    /// What it calls itself, if it was asked.
    pub version: Option<String>,
    /// Whether this version was tested; unknown without a version.
    pub tested: Option<bool>,
}

impl Located {
    /// A program whose version is not known.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), version: None, tested: None }
    }
}

/// Everything a backend may know about the session to prepare.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionContext {
    /// Which session.
    pub session: SessionId,
    /// The name of the backend as it was asked for.
    pub backend: BackendName,
    /// What the user asked to run.
    pub mode: Mode,
    /// The step of wildfire, if any.
    pub phase: Option<Phase>,
    /// The task, for modes that have one.
    pub task: Option<Task>,
    /// A short name for the session, for titles and transcripts.
    pub title: String,
    /// The program that [`Backend::locate`] found.
    pub program: PathBuf,
    /// A private folder (0700) for this session's configuration; exists, and is removed at the end.
    pub home: PathBuf,
    /// The session's folder with its copies of the task files; exists.
    pub session_dir: PathBuf,
    /// Where the agent works.
    pub cwd: PathBuf,
    /// The root of the project.
    pub project_root: PathBuf,
    /// The composed system prompt.
    pub system_prompt: String,
    /// The first thing to say to the agent; none in a chat.
    pub first_prompt: Option<String>,
    /// The size of the terminal.
    pub size: Size,
    /// The vendor's session id to resume, if that is wanted. The vendor keeps its sessions in [`home`](Self::home):
    /// resuming works in the home of the session that is resumed.
    pub resume: Option<String>,
    /// The vendor's session id as the agent has told it, once it has: by it, its transcript is found.
    pub vendor_session: Option<String>,
    /// The settings of this backend.
    pub settings: AgentSettings,
    /// Our own environment, from which a backend may take what it needs by name.
    pub environment: BTreeMap<OsString, OsString>,
    /// The person's home folder.
    pub user_home: Option<PathBuf>,
    /// The command line (program and leading arguments) that runs a role of our helper inside the sandbox.
    pub helper: Vec<OsString>,
}

impl SessionContext {
    /// A context with the parts that always exist; set the others on its fields.
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
        }
    }

    /// A variable of our own environment, as text.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        self.environment.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str())
    }
}
