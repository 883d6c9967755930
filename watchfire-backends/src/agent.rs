//! The common part of the vendors' CLIs: a table of the differences, and a few functions for those that no table holds.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use watchfire_core::Result;
use watchfire_core::backend::{
    Capabilities, Delivery, Fact, InputBox, Launch, LocatedProgram, Message, Observation, ProgramSearch,
    PromptDelivery, Readiness, SessionContext, Transcript, Transport,
};
use watchfire_core::terminal::Snapshot;

use crate::common::{credentials, json, locate, prompt, session_id, settings};

/// Escape twice, each its own key: two plain ESC bytes at once would be one key with Alt.
pub(crate) const TWO_ESCAPES: &[u8] = b"\x1b[27u\x1b[27u";

/// One vendor's CLI.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) display_name: &'static str,
    /// The line that installs it.
    pub(crate) install: &'static str,
    pub(crate) program: &'static str,
    /// Other places than `PATH` where it may be installed.
    pub(crate) places: &'static [&'static str],
    pub(crate) tested: &'static str,
    /// Variables with credentials, and everything else that may hold one.
    pub(crate) secrets: &'static [&'static str],
    /// Variables that say where and what to ask, when the person sets them.
    pub(crate) passed: &'static [&'static str],
    /// Variables that are set to `1`: no updates, no telemetry.
    pub(crate) quiet: &'static [&'static str],
    pub(crate) can: Can,
    /// The longest text that is known to arrive whole.
    pub(crate) paste_limit: usize,
    /// Text on its screen when it takes input.
    pub(crate) ready: &'static [&'static str],
    /// Text that is also there while it takes none.
    pub(crate) busy: &'static [&'static str],
    pub(crate) flags: Flags,
    /// The person's own configuration folder.
    pub(crate) folder: Option<Folder>,
    pub(crate) login: Option<Login>,
    /// The folder of its sessions in the session's home.
    pub(crate) sessions: &'static [&'static str],
}

/// Its abilities beyond a chat, an interrupt and those that its flags show.
#[derive(Default)]
pub(crate) struct Can {
    pub(crate) system_prompt: bool,
    pub(crate) hooks: bool,
    pub(crate) usage: bool,
    pub(crate) transports: Transports,
}

/// The transports that it supports.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub(crate) enum Transports {
    #[default]
    Both,
    /// A terminal alone.
    Terminal,
    /// A stream alone: no chat, and no key that interrupts it.
    Stream,
}

/// The way that is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    Terminal,
    Stream,
    Acp,
}

/// Its dialect of the Agent Client Protocol.
#[derive(Default)]
pub(crate) struct Acp {
    /// The program that speaks it in its place, which is then the one that `path` names.
    pub(crate) adapter: Option<Adapter>,
    /// The mode in which it asks for no permissions.
    #[cfg_attr(not(feature = "acp"), expect(dead_code, reason = "only a dialogue asks"))]
    pub(crate) mode: Option<&'static str>,
}

/// Another program, and the line that installs it.
pub(crate) struct Adapter {
    pub(crate) program: &'static str,
    pub(crate) install: &'static str,
    pub(crate) tested: &'static str,
}

/// Names of arguments. One that ends in `=` is joined with its value; an empty one leaves the value alone.
#[derive(Default)]
pub(crate) struct Flags {
    pub(crate) model: &'static str,
    /// Chooses the vendor's session id.
    pub(crate) session: Option<&'static str>,
    pub(crate) resume: Option<&'static str>,
    pub(crate) prompt: &'static str,
    /// The same for its stream.
    pub(crate) stream_prompt: &'static str,
}

/// A folder: the one that a variable names, else the usual one below the person's home.
pub(crate) struct Folder {
    pub(crate) variable: &'static str,
    /// The path in the folder of the variable.
    pub(crate) below: &'static str,
    pub(crate) usual: &'static str,
}

/// The file with the person's login.
pub(crate) struct Login {
    /// The path in the person's folder.
    pub(crate) real: &'static str,
    /// The path in the session's home.
    pub(crate) session: &'static str,
    /// It is copied instead of linked, for the program replaces the file that a link leads to.
    pub(crate) copied: bool,
    /// When a login was issued, or when it expires: a later one is newer.
    pub(crate) issued: fn(&Value) -> Option<i64>,
}

/// A vendor's CLI: its table, and everything that no table holds. [`implement_backend!`] makes a backend from it.
pub(crate) trait Agent: Debug + Send + Sync + 'static {
    const TABLE: Table;

    /// Its dialect of the Agent Client Protocol, if it speaks that.
    const ACP: Option<Acp> = None;

    /// True if our instructions reach it beside the first prompt.
    fn carries_prompt() -> bool {
        Self::TABLE.can.system_prompt
    }

    /// The way to type text.
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

    /// Additions to the request for a session in that protocol.
    #[cfg_attr(not(feature = "acp"), expect(dead_code, reason = "only a dialogue asks"))]
    fn acp_meta(context: &SessionContext) -> serde_json::Map<String, Value> {
        let _ = context;
        serde_json::Map::new()
    }

    /// The look of its input box on the screen.
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

    /// The messages in a line of transcript or stream.
    fn messages(line: &Value) -> Vec<Message> {
        let _ = line;
        Vec::new()
    }

    /// The same for a transcript that is no JSON.
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
    can.interrupt = terminal;
    can.chat = terminal;
    can.paste_limit = terminal.then_some(paste_limit);
    can
}

pub(crate) fn install_hint<A: Agent>() -> String {
    format!("{}, or set agents.{}.path", A::TABLE.install, A::TABLE.name)
}

pub(crate) fn locate<A: Agent>(search: &ProgramSearch) -> Result<LocatedProgram> {
    let Table { name, program, places, tested, .. } = A::TABLE;
    let adapter = A::ACP.and_then(|acp| acp.adapter).filter(|_| settings::asks_for_acp(&search.settings));
    match adapter {
        Some(Adapter { program, install, tested }) => {
            let hint = format!("{install}, or set agents.{name}.path to it");
            locate::npm(search, program, &[], tested, Some(hint))
        }
        None => locate::npm(search, program, places, tested, Some(install_hint::<A>())),
    }
}

pub(crate) fn prepare<A: Agent>(context: &SessionContext) -> Result<Launch> {
    let Table { secrets, passed, quiet, flags, login, can, .. } = A::TABLE;
    let reach = settings::reach(context, can.transports, A::ACP.is_some())?;
    let stream = reach == Reach::Stream;
    let mut launch = settings::apply(Launch::new(&context.program), context);
    launch = settings::pass_secrets(launch, context, secrets);
    launch = passed.iter().fold(launch, |launch, name| launch.with_passed_env(*name));
    launch = quiet.iter().fold(launch, |launch, name| launch.with_env(*name, "1"));
    launch = reached::<A>(launch, context, reach);
    launch = locate::grants(context).into_iter().fold(launch, Launch::with_grant);
    if let (Some(login), Some(folder)) = (login, user_folder::<A>(context)) {
        let place = if login.copied { credentials::copy } else { credentials::link };
        launch = place(launch, login.session, &folder.join(login.real));
    }
    if reach == Reach::Acp {
        return Ok(spoken_to::<A>(A::acp(launch, context)?, context));
    }
    launch = A::launch(launch, context, stream)?;
    if let Some(model) = &context.settings.model {
        launch = flagged(launch, flags.model, model);
    }
    launch = launch.with_args(&context.settings.args);
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

/// Sessions are opened and gone on with in the protocol, and texts of any length are said in it.
fn spoken_to<A: Agent>(launch: Launch, context: &SessionContext) -> Launch {
    let launch = launch.with_args(&context.settings.args);
    let launch = context.resume.iter().fold(launch, Launch::with_vendor_session);
    match first_prompt(context, A::carries_prompt()) {
        Some(text) => launch.with_prompt(PromptDelivery::Typed(text)),
        None => launch,
    }
}

/// The conversation with it, where it speaks the Agent Client Protocol.
#[cfg(feature = "acp")]
pub(crate) fn dialogue<A: Agent>(
    context: &SessionContext,
) -> Option<Box<dyn watchfire_core::backend::Dialogue>> {
    use crate::acp::{AcpDialogue, Opening};

    let acp = A::ACP.filter(|_| settings::asks_for_acp(&context.settings))?;
    let mut opening = Opening::new(&context.cwd);
    opening.resume.clone_from(&context.resume);
    opening.mode = acp.mode.map(str::to_owned);
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
        Observation::Hook { event, payload, session } => {
            json::object(payload).map(|payload| A::from_hook(event, &payload, *session)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn clean_up<A: Agent>(context: &SessionContext) -> Result<()> {
    // Programs renew a login by renaming, which leaves the link and the real file behind.
    let (Some(login), Some(folder)) = (A::TABLE.login, user_folder::<A>(context)) else { return Ok(()) };
    credentials::carry_back(&context.home.join(login.session), &folder.join(login.real), login.issued)
}

/// The first prompt, with our instructions in front where nothing else carries them.
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
    let chooses = A::TABLE.flags.session.filter(|_| !settings::asks_for_acp(&context.settings));
    let known = context.vendor_session.as_ref().or(context.resume.as_ref()).cloned();
    known.or_else(|| chooses.map(|_| session_id::uuid(context.session.as_str())))
}

/// The person's own configuration folder.
pub(crate) fn user_folder<A: Agent>(context: &SessionContext) -> Option<PathBuf> {
    A::TABLE.folder.and_then(|folder| folder.of(context))
}

impl Folder {
    pub(crate) fn of(&self, context: &SessionContext) -> Option<PathBuf> {
        match context.env(self.variable).map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(path) => Some(path.join(self.below)),
            None => Some(context.user_home.as_ref()?.join(self.usual)),
        }
    }
}

/// The time limit for an agent to show itself ready.
const READY: Duration = Duration::from_secs(90);

fn reached<A: Agent>(launch: Launch, context: &SessionContext, reach: Reach) -> Launch {
    match reach {
        Reach::Stream => return launch.with_transport(Transport::Lines { keep_input: false }),
        Reach::Acp => return launch.with_transport(Transport::Dialogue { within: READY }),
        Reach::Terminal => {}
    }
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    launch.with_transport(Transport::Pty { size: context.size }).with_readiness(Readiness::Screen {
        any_of: texts(A::TABLE.ready),
        none_of: texts(A::TABLE.busy),
        within: READY,
    })
}

pub(crate) fn flagged(launch: Launch, flag: &str, value: &str) -> Launch {
    match flag {
        "" => launch.with_arg(value),
        _ if flag.ends_with('=') => launch.with_arg(format!("{flag}{value}")),
        _ => launch.with_args([flag, value]),
    }
}

/// A backend of an [`Agent`], registered.
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
