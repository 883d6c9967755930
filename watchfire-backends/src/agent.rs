//! The common part of the backends for vendors' CLIs. An [`Agent`] is a [`Table`] of differences and a few functions
//! for the rest; [`implement_backend!`] turns it into a backend.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use watchfire_core::Result;
use watchfire_core::backend::{
    Capabilities, Delivery, Fact, InputBox, Launch, LocatedProgram, Message, Observation, ProgramSearch,
    PromptDelivery, Readiness, SessionContext, Transcript, Transport,
};
use watchfire_core::model::AgentSettings;
use watchfire_core::terminal::Snapshot;

use crate::common::{credentials, json, locate, prompt, session_id, settings};

/// The Escape key twice, in the kitty protocol. Two plain ESC bytes that arrive together would be read as one key
/// with Alt.
pub(crate) const TWO_ESCAPES: &[u8] = b"\x1b[27u\x1b[27u";

/// The data of one vendor's CLI.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) display_name: &'static str,
    /// Command line that installs the program.
    pub(crate) install: &'static str,
    pub(crate) program: &'static str,
    /// Folders beside `PATH` in which the program may be installed.
    pub(crate) places: &'static [&'static str],
    /// Version that the backend was tested with.
    pub(crate) tested: &'static str,
    /// Variables that hold credentials or may hold them.
    pub(crate) secrets: &'static [&'static str],
    /// Variables for the address and the model, passed on when the person has set them.
    pub(crate) passed: &'static [&'static str],
    /// Variables set to `1` that turn off updates and telemetry.
    pub(crate) quiet: &'static [&'static str],
    pub(crate) can: Can,
    /// Longest text, in bytes, that is known to arrive whole when typed.
    pub(crate) paste_limit: usize,
    /// Texts of which one is on the screen when the agent takes input.
    pub(crate) ready: &'static [&'static str],
    /// Texts that are on the screen while the agent takes no input, even beside one of `ready`.
    pub(crate) busy: &'static [&'static str],
    pub(crate) flags: Flags,
    /// The person's own configuration folder for this program.
    pub(crate) folder: Option<Folder>,
    pub(crate) login: Option<Login>,
    /// Arguments with which the program signs its person in.
    pub(crate) sign_in: Option<&'static [&'static str]>,
    /// Paths of the vendor's sessions, relative to the session's home. They are kept for a resume.
    pub(crate) sessions: &'static [&'static str],
}

/// Abilities of the CLI that do not follow from its flags.
#[derive(Default)]
pub(crate) struct Can {
    pub(crate) system_prompt: bool,
    pub(crate) hooks: bool,
    pub(crate) usage: bool,
    pub(crate) transports: Transports,
}

/// The transports that a CLI supports.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub(crate) enum Transports {
    #[default]
    Both,
    /// Terminal only.
    Terminal,
    /// Stream only: no chat, and no key to interrupt the agent.
    Stream,
}

/// The transport chosen for one session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    Terminal,
    Stream,
    Acp,
}

/// A vendor's differences in the Agent Client Protocol.
#[derive(Default)]
pub(crate) struct Acp {
    /// Another program that speaks the protocol for the CLI. `path` in the settings then names that program.
    pub(crate) adapter: Option<Adapter>,
    /// The mode in which the agent asks for no permissions.
    #[cfg_attr(not(feature = "acp"), expect(dead_code, reason = "only a dialogue asks"))]
    pub(crate) mode: Option<&'static str>,
}

/// A program that speaks the protocol in place of the vendor's own.
pub(crate) struct Adapter {
    pub(crate) program: &'static str,
    pub(crate) install: &'static str,
    pub(crate) tested: &'static str,
}

/// Names of command line flags. A name that ends in `=` is joined with its value; for an empty name the value is
/// passed alone.
#[derive(Default)]
pub(crate) struct Flags {
    pub(crate) model: &'static str,
    /// Flag that sets the vendor's session id, if the vendor lets us choose it.
    pub(crate) session: Option<&'static str>,
    pub(crate) resume: Option<&'static str>,
    pub(crate) prompt: &'static str,
    /// Flag for the first prompt on a stream.
    pub(crate) stream_prompt: &'static str,
}

/// The location of a folder: from a variable, otherwise at the usual place below the person's home.
pub(crate) struct Folder {
    pub(crate) variable: &'static str,
    /// Path relative to the variable's folder.
    pub(crate) below: &'static str,
    pub(crate) usual: &'static str,
}

/// The file that holds the person's login.
pub(crate) struct Login {
    /// Path relative to the person's folder.
    pub(crate) real: &'static str,
    /// Path relative to the session's home.
    pub(crate) session: &'static str,
    /// True if the file is copied instead of linked, because the program replaces the file that a link leads to.
    pub(crate) copied: bool,
    /// Time at which a login was issued or expires. Of two logins, the later one is newer.
    pub(crate) issued: fn(&Value) -> Option<i64>,
}

/// A vendor's CLI: a table, and functions for everything that the table cannot hold. [`implement_backend!`] makes a
/// backend from it.
pub(crate) trait Agent: Debug + Send + Sync + 'static {
    const TABLE: Table;

    /// Set if the CLI speaks the Agent Client Protocol.
    const ACP: Option<Acp> = None;

    /// The options of its settings that it reads.
    const OPTIONS: &'static [&'static str] = &["transport"];

    /// Returns true if our instructions reach the agent by another way than the first prompt.
    fn carries_prompt() -> bool {
        Self::TABLE.can.system_prompt
    }

    /// Returns how text is typed into the terminal.
    fn delivery() -> Delivery {
        Delivery::default()
    }

    /// Adds the vendor's own files, variables, and arguments that come before all others.
    fn launch(launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch>;

    /// Adds the first prompt, one line.
    fn prompt(launch: Launch, line: String, context: &SessionContext, stream: bool) -> Launch {
        let _ = context;
        let flags = Self::TABLE.flags;
        flagged(launch, if stream { flags.stream_prompt } else { flags.prompt }, &line)
    }

    /// Adds the vendor's own parts for the Agent Client Protocol, except the first prompt and the session's id.
    fn acp(launch: Launch, context: &SessionContext) -> Result<Launch> {
        let _ = context;
        Ok(launch)
    }

    /// Returns the vendor's own fields for the request for a session in that protocol.
    #[cfg_attr(not(feature = "acp"), expect(dead_code, reason = "only a dialogue asks"))]
    fn acp_meta(context: &SessionContext) -> serde_json::Map<String, Value> {
        let _ = context;
        serde_json::Map::new()
    }

    /// Reads the agent's input box off the screen.
    fn input_box(screen: &Snapshot) -> InputBox {
        let _ = screen;
        InputBox::Unknown
    }

    fn from_title(title: &str) -> Vec<Fact> {
        let _ = title;
        Vec::new()
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        let _ = text;
        Vec::new()
    }

    fn from_transcript(line: &Value) -> Vec<Fact> {
        let _ = line;
        Vec::new()
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        let _ = line;
        Vec::new()
    }

    fn from_hook(event: &str, payload: &Value, session: Option<&str>) -> Vec<Fact> {
        let _ = (event, payload, session);
        Vec::new()
    }

    /// Returns the messages in one line of the transcript or the stream.
    fn messages(line: &Value) -> Vec<Message> {
        let _ = line;
        Vec::new()
    }

    /// Returns the messages in a piece of the transcript. Override it where the transcript is no JSON lines.
    fn normalize(text: &str) -> Vec<Message> {
        json::object(text).map(|line| Self::messages(&line)).unwrap_or_default()
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        let _ = context;
        None
    }
}

pub(crate) fn capabilities<A: Agent>() -> Capabilities {
    let Table { can: known, flags, paste_limit, .. } = A::TABLE;
    let mut can = Capabilities::default();
    can.resume = flags.resume.is_some();
    can.chooses_session_id = flags.session.is_some();
    can.system_prompt = known.system_prompt;
    can.hooks = known.hooks;
    can.usage = known.usage;
    let terminal = known.transports != Transports::Stream;
    // A stream closes its input after the first prompt: neither a key nor a second text reaches the agent.
    can.interrupt = terminal;
    can.chat = terminal;
    can.paste_limit = terminal.then_some(paste_limit);
    can.options = Some(A::OPTIONS);
    can
}

pub(crate) fn install_hint<A: Agent>() -> String {
    format!("{}, or set agents.{}.path", A::TABLE.install, A::TABLE.name)
}

pub(crate) fn locate<A: Agent>(search: &ProgramSearch) -> Result<LocatedProgram> {
    // A wrong choice is an error of the whole run, and not of each of its tasks.
    reach::<A>(&search.settings)?;
    let Table { name, program, places, tested, .. } = A::TABLE;
    let adapter = A::ACP.and_then(|acp| acp.adapter).filter(|_| settings::asks_for_acp(&search.settings));
    match adapter {
        Some(Adapter { program, install, tested }) => {
            // The vendor's own program does not help here, so the hint names the adapter.
            let hint = format!("{install}, or set agents.{name}.path to it");
            locate::npm(search, program, &[], tested, Some(hint))
        }
        None => locate::npm(search, program, places, tested, Some(install_hint::<A>())),
    }
}

/// Returns the transport that the settings ask for.
fn reach<A: Agent>(settings: &AgentSettings) -> Result<Reach> {
    settings::reach(settings, A::TABLE.name, A::TABLE.can.transports, A::ACP.is_some())
}

pub(crate) fn prepare<A: Agent>(context: &SessionContext) -> Result<Launch> {
    let Table { secrets, passed, quiet, flags, login, .. } = A::TABLE;
    let reach = reach::<A>(&context.settings)?;
    let stream = reach == Reach::Stream;
    let mut launch = settings::apply(Launch::new(&context.program), context);
    launch = settings::pass_secrets(launch, context, secrets);
    launch = passed.iter().fold(launch, |launch, name| launch.with_passed_env(*name));
    launch = quiet.iter().fold(launch, |launch, name| launch.with_env(*name, "1"));
    launch = reached::<A>(launch, context, reach);
    launch = locate::grants(context).into_iter().fold(launch, Launch::with_grant);
    if let (Some(login), Some(folder)) = (login, user_folder::<A>(context)) {
        // Linked where possible: then a token that the agent renews is the person's at once.
        let place = if login.copied { credentials::copy } else { credentials::link };
        launch = place(launch, login.session, &folder.join(login.real));
    }
    if reach == Reach::Acp {
        // Model, session and prompt are parts of the protocol there, not arguments.
        return Ok(spoken_to::<A>(A::acp(launch, context)?, context));
    }
    launch = A::launch(launch, context, stream)?;
    if let Some(model) = &context.settings.model {
        launch = flagged(launch, flags.model, model);
    }
    // Before the prompt, which several of the programs take as a bare last argument.
    launch = launch.with_args(&context.settings.args);
    // Never both flags: one names a session that exists, the other one that does not.
    let how = if context.resume.is_some() { flags.resume } else { flags.session };
    if let (Some(flag), Some(id)) = (how, vendor_session::<A>(context)) {
        launch = flagged(launch, flag, &id).with_vendor_session(id);
    }
    let (launch, line) =
        prompt::first_line(launch, context, first_prompt(context, A::carries_prompt()).as_deref());
    Ok(match line {
        Some(line) => A::prompt(launch, line, context, stream),
        None => launch,
    })
}

/// Finishes a launch for the Agent Client Protocol, in which the session is opened or resumed and the first prompt is
/// sent, whatever its length.
fn spoken_to<A: Agent>(launch: Launch, context: &SessionContext) -> Launch {
    let launch = launch.with_args(&context.settings.args);
    let launch = context.resume.iter().fold(launch, Launch::with_vendor_session);
    match first_prompt(context, A::carries_prompt()) {
        Some(text) => launch.with_prompt(PromptDelivery::Typed(text)),
        None => launch,
    }
}

/// Returns the conversation with the agent, if the settings ask for the Agent Client Protocol.
#[cfg(feature = "acp")]
pub(crate) fn dialogue<A: Agent>(
    context: &SessionContext,
) -> Option<Box<dyn watchfire_core::backend::Dialogue>> {
    use crate::acp::{AcpDialogue, Opening};

    let acp = A::ACP.filter(|_| settings::asks_for_acp(&context.settings))?;
    let mut opening = Opening::new(&context.cwd);
    opening.resume.clone_from(&context.resume);
    opening.mode = acp.mode.map(str::to_owned);
    // Left out when empty, rather than sent as an empty object.
    opening.meta = Some(A::acp_meta(context)).filter(|meta| !meta.is_empty());
    Some(Box::new(AcpDialogue::new(opening)))
}

pub(crate) fn interpret<A: Agent>(observation: &Observation<'_>) -> Vec<Fact> {
    let object = |line: &str, read: fn(&Value) -> Vec<Fact>| {
        json::object(line).map(|line| read(&line)).unwrap_or_default()
    };
    match observation {
        Observation::Title(title) => A::from_title(title),
        Observation::Screen(text) => A::from_screen(text),
        Observation::Transcript(line) => object(line, A::from_transcript),
        Observation::Protocol(line) => object(line, A::from_stream),
        // A hook's payload comes from the agent's process: anything but an object is ignored.
        Observation::Hook { event, payload, session, .. } => {
            json::object(payload).map(|payload| A::from_hook(event, &payload, *session)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn clean_up<A: Agent>(context: &SessionContext) -> Result<()> {
    // A program that renews a login by renaming replaces the link by a file of its own, and the real file
    // keeps the old one.
    let (Some(login), Some(folder)) = (A::TABLE.login, user_folder::<A>(context)) else { return Ok(()) };
    credentials::carry_back(&context.home.join(login.session), &folder.join(login.real), login.issued)
}

/// Returns the first prompt, with our instructions in front if the agent gets them no other way.
fn first_prompt(context: &SessionContext, carried: bool) -> Option<String> {
    let first = context.first_prompt.as_ref()?;
    let instructions = context.system_prompt.trim_end();
    Some(match carried || instructions.is_empty() {
        true => first.clone(),
        false => format!("{instructions}\n\n{first}"),
    })
}

/// Returns the vendor's session id: the one that the agent reported, otherwise the id of the session to resume,
/// otherwise the one that we choose, if the vendor lets us.
pub(crate) fn vendor_session<A: Agent>(context: &SessionContext) -> Option<String> {
    // In the protocol the agent chooses the id, even where a flag could.
    let chooses = A::TABLE.flags.session.filter(|_| !settings::asks_for_acp(&context.settings));
    let known = context.vendor_session.as_ref().or(context.resume.as_ref()).cloned();
    known.or_else(|| chooses.map(|_| session_id::uuid(context.session.as_str())))
}

/// Returns the person's own configuration folder for this program.
pub(crate) fn user_folder<A: Agent>(context: &SessionContext) -> Option<PathBuf> {
    A::TABLE.folder.and_then(|folder| folder.of(context))
}

impl Folder {
    pub(crate) fn of(&self, context: &SessionContext) -> Option<PathBuf> {
        // A relative path would depend on the working directory, which is the agent's and not the person's.
        match context.env(self.variable).map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(path) => Some(path.join(self.below)),
            None => Some(context.user_home.as_ref()?.join(self.usual)),
        }
    }
}

/// Time limit for an agent to become ready for input.
pub(crate) const READY: Duration = Duration::from_secs(90);

fn reached<A: Agent>(launch: Launch, context: &SessionContext, reach: Reach) -> Launch {
    match reach {
        // Nothing is typed on a stream, so there is no readiness to wait for.
        Reach::Stream => return launch.with_transport(Transport::lines(false)),
        Reach::Acp => return launch.with_transport(Transport::dialogue(READY)),
        Reach::Terminal => {}
    }
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    launch.with_transport(Transport::pty(context.size)).with_readiness(Readiness::screen(
        texts(A::TABLE.ready),
        texts(A::TABLE.busy),
        READY,
    ))
}

pub(crate) fn flagged(launch: Launch, flag: &str, value: &str) -> Launch {
    match flag {
        "" => launch.with_arg(value),
        _ if flag.ends_with('=') => launch.with_arg(format!("{flag}{value}")),
        _ => launch.with_args([flag, value]),
    }
}

/// Implements and registers the backend of an [`Agent`].
macro_rules! implement_backend {
    ($agent:ty) => {
        watchfire_core::register_backend!(<$agent>::default());

        impl watchfire_core::backend::Backend for $agent {
            fn name(&self) -> &str {
                <$agent as $crate::agent::Agent>::TABLE.name
            }

            fn aliases(&self) -> &[&str] {
                <$agent as $crate::agent::Agent>::TABLE.aliases
            }

            fn display_name(&self) -> &str {
                <$agent as $crate::agent::Agent>::TABLE.display_name
            }

            fn capabilities(&self) -> watchfire_core::backend::Capabilities {
                $crate::agent::capabilities::<$agent>()
            }

            fn install_hint(&self) -> Option<String> {
                Some($crate::agent::install_hint::<$agent>())
            }

            fn sign_in(&self) -> Option<Vec<String>> {
                let words = <$agent as $crate::agent::Agent>::TABLE.sign_in?;
                Some(words.iter().copied().map(str::to_owned).collect())
            }

            fn locate(
                &self,
                search: &watchfire_core::backend::ProgramSearch,
            ) -> watchfire_core::Result<watchfire_core::backend::LocatedProgram> {
                $crate::agent::locate::<$agent>(search)
            }

            fn prepare(
                &self,
                context: &watchfire_core::backend::SessionContext,
            ) -> watchfire_core::Result<watchfire_core::backend::Launch> {
                $crate::agent::prepare::<$agent>(context)
            }

            #[cfg(feature = "acp")]
            fn dialogue(
                &self,
                context: &watchfire_core::backend::SessionContext,
            ) -> Option<Box<dyn watchfire_core::backend::Dialogue>> {
                $crate::agent::dialogue::<$agent>(context)
            }

            fn delivery(&self) -> watchfire_core::backend::Delivery {
                <$agent as $crate::agent::Agent>::delivery()
            }

            fn input_box(
                &self,
                screen: &watchfire_core::terminal::Snapshot,
            ) -> watchfire_core::backend::InputBox {
                <$agent as $crate::agent::Agent>::input_box(screen)
            }

            fn interpret(
                &self,
                observation: &watchfire_core::backend::Observation<'_>,
            ) -> Vec<watchfire_core::backend::Fact> {
                $crate::agent::interpret::<$agent>(observation)
            }

            fn resumable(&self) -> Vec<std::path::PathBuf> {
                <$agent as $crate::agent::Agent>::TABLE.sessions.iter().map(Into::into).collect()
            }

            fn transcript(
                &self,
                context: &watchfire_core::backend::SessionContext,
            ) -> Option<watchfire_core::backend::Transcript> {
                <$agent as $crate::agent::Agent>::transcript(context)
            }

            fn normalize(&self, line: &str) -> Vec<watchfire_core::backend::Message> {
                <$agent as $crate::agent::Agent>::normalize(line)
            }

            fn reset_at(
                &self,
                issue: &watchfire_core::backend::Issue,
                now: &watchfire_core::model::Timestamp,
            ) -> Option<watchfire_core::model::Timestamp> {
                $crate::common::reset_time::of(issue, now)
            }

            fn early_issue(&self, last_words: &str) -> Option<watchfire_core::backend::Issue> {
                let kind = $crate::common::issues::by_words(last_words)?;
                Some(watchfire_core::backend::Issue::new(kind, last_words))
            }

            fn failed_accesses(&self, output: &str) -> Vec<watchfire_core::backend::FailedAccess> {
                $crate::common::failed_access::all(output)
            }

            fn price(&self, model: &str) -> Option<watchfire_core::backend::Price> {
                $crate::prices::of(model)
            }

            fn clean_up(
                &self,
                context: &watchfire_core::backend::SessionContext,
            ) -> watchfire_core::Result<()> {
                $crate::agent::clean_up::<$agent>(context)
            }
        }
    };
}
pub(crate) use implement_backend;
