#![doc = include_str!("../docs/command.md")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use watchfire_core::backend::{
    Backend, Capabilities, Delivery, Fact, FailedAccess, Framing, Issue, Launch, LocatedProgram, Message,
    Observation, Part, ProgramSearch, PromptDelivery, Readiness, Role, SessionContext, Status, SubmitKeys,
    Transcript, Transport,
};
use watchfire_core::model::{AgentSettings, BackendName, Timestamp};
use watchfire_core::{Error, ErrorKind, Result};

use crate::common::{failed_access, glob, json, locate, prompt, reset_time, session_id, settings};

watchfire_core::register_backend_family!(make);

fn make(name: BackendName, entry: &AgentSettings) -> Result<Arc<dyn Backend>> {
    Command::from_settings(name, entry).map(|backend| Arc::new(backend) as Arc<dyn Backend>)
}

/// A program from the settings: see [the module](self).
#[derive(Clone, Debug)]
pub struct Command {
    name: BackendName,
    path: PathBuf,
    args: Vec<String>,
    options: Options,
}

/// The names of its [`Options`].
const OPTIONS: &[&str] = &[
    "prompt_mode",
    "transport",
    "acp_mode",
    "chat_args",
    "resume_args",
    "session_id_key",
    "ready",
    "busy",
    "ready_within",
    "framing",
    "paste_limit",
    "settle_ms",
    "submit",
    "interrupt",
    "quit",
    "transcript",
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Options {
    prompt_mode: PromptMode,
    transport: Option<Channel>,
    acp_mode: Option<String>,
    chat_args: Option<Vec<String>>,
    resume_args: Vec<String>,
    session_id_key: Option<String>,
    ready: Vec<String>,
    busy: Vec<String>,
    ready_within: Option<u64>,
    framing: Frame,
    paste_limit: Option<usize>,
    settle_ms: Option<u64>,
    submit: Submit,
    interrupt: Option<String>,
    quit: Option<String>,
    transcript: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum PromptMode {
    Arg,
    File,
    None,
    Stdin,
    #[default]
    Typed,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Channel {
    Acp,
    Lines,
    Pty,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Frame {
    Literal,
    #[default]
    Paste,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Submit {
    #[default]
    Enter,
    Kitty,
}

impl Command {
    /// The backend that an entry of the settings describes.
    ///
    /// # Errors
    /// `invalid_input` for an entry without a path, or with a value that makes no sense.
    pub fn from_settings(name: BackendName, entry: &AgentSettings) -> Result<Self> {
        let wrong = |what: String| {
            Error::new(ErrorKind::InvalidInput, what).with("field", format_args!("agents.{name}"))
        };
        let path = entry.path.clone().ok_or_else(|| wrong("an agent of the settings needs a path".into()))?;
        let options: Options = entry.options(name.as_str())?;
        let backend = Self { name: name.clone(), path, args: entry.args.clone(), options };
        match backend.options.prompt_mode {
            PromptMode::File if !backend.mentions("{prompt_file}") => {
                Err(wrong("prompt_mode file needs {prompt_file} in args".into()))
            }
            PromptMode::Stdin if backend.options.transport == Some(Channel::Pty) => {
                Err(wrong("prompt_mode stdin needs transport lines".into()))
            }
            PromptMode::Typed if backend.options.transport == Some(Channel::Lines) => {
                Err(wrong("prompt_mode typed needs transport pty".into()))
            }
            // The protocol sends the prompt itself, so any other way would send it twice or not at all.
            mode if mode != PromptMode::Typed && backend.acp() => Err(wrong(
                "with transport acp the prompt is said in the protocol: leave prompt_mode out".into(),
            )),
            _ => Ok(backend),
        }
    }

    fn acp(&self) -> bool {
        self.options.transport == Some(Channel::Acp)
    }

    fn mentions(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.contains(word))
    }

    fn lines(&self) -> bool {
        self.options.transport == Some(Channel::Lines) || self.options.prompt_mode == PromptMode::Stdin
    }

    fn paste_limit(&self) -> usize {
        self.options.paste_limit.unwrap_or(1000)
    }

    /// Returns the first prompt, with our instructions in front if no argument names their file.
    fn text(&self, context: &SessionContext) -> Option<String> {
        let first = context.first_prompt.as_deref().filter(|text| !text.trim().is_empty())?;
        if self.mentions("{system_prompt_file}") || context.system_prompt.trim().is_empty() {
            return Some(first.to_owned());
        }
        Some(format!("{}\n\n{first}", context.system_prompt.trim_end()))
    }

    fn session(&self, context: &SessionContext) -> String {
        context.resume.clone().unwrap_or_else(|| session_id::uuid(context.session.as_str()))
    }

    fn fill(&self, template: &str, context: &SessionContext) -> String {
        // `{prompt}` is missing here on purpose: `prepare` replaces it last.
        let home = context.home.display().to_string();
        let words = [
            ("{prompt_file}", format!("{home}/{}", prompt::FILE)),
            ("{system_prompt_file}", format!("{home}/{}", prompt::SYSTEM_FILE)),
            ("{session_id}", self.session(context)),
            ("{session_dir}", context.session_dir.display().to_string()),
            ("{cwd}", context.cwd.display().to_string()),
            ("{model}", context.settings.model.clone().unwrap_or_default()),
            ("{home}", home.clone()),
        ];
        words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value))
    }
}

impl Backend for Command {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.resume = self.acp() || !self.options.resume_args.is_empty();
        can.chooses_session_id = self.mentions("{session_id}");
        can.system_prompt = self.mentions("{system_prompt_file}");
        can.interrupt = !self.lines();
        can.chat = !self.lines();
        can.paste_limit = (!self.lines()).then_some(self.paste_limit());
        can.options = Some(OPTIONS);
        can
    }

    fn install_hint(&self) -> Option<String> {
        Some(format!("set agents.{}.path to the program", self.name))
    }

    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram> {
        let mut search = search.clone();
        let path = search.configured.get_or_insert_with(|| self.path.clone());
        let bare =
            (path.components().count() == 1 && !path.is_absolute()).then(|| path.display().to_string());
        // A bare name is looked up in `PATH`; as a configured path it would be relative to the current
        // folder.
        if bare.is_some() {
            search.configured = None;
        }
        let found = search.find(bare.as_deref().unwrap_or(self.name()), &[]);
        found.map(LocatedProgram::new).map_err(|error| locate::with_hint(error, self.install_hint()))
    }

    /// What the settings name below `{home}`.
    fn resumable(&self) -> Vec<PathBuf> {
        let Options { chat_args, resume_args, transcript, .. } = &self.options;
        let texts = self.args.iter().chain(chat_args.iter().flatten()).chain(resume_args).chain(transcript);
        let parts = texts.flat_map(|text| text.split("{home}/").skip(1)).filter_map(|rest| {
            let part = rest.split(['/', ' ', ',', ':', '=', '"']).next()?;
            (!part.contains('*') && !["", ".", ".."].contains(&part)).then(|| PathBuf::from(part))
        });
        parts.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn reset_at(&self, issue: &Issue, now: &Timestamp) -> Option<Timestamp> {
        reset_time::of(issue, now)
    }

    fn failed_accesses(&self, output: &str) -> Vec<FailedAccess> {
        failed_access::all(output)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        if self.acp() {
            settings::acp_is_built_in(context.backend.as_str())?;
        }
        let mut launch = settings::apply(Launch::new(&context.program), context);
        launch = locate::grants(context).into_iter().fold(launch, Launch::with_grant);
        let text = self.text(context);
        // Without a prompt, an argument that mentions it would name nothing.
        let keep =
            |arg: &&String| text.is_some() || !(arg.contains("{prompt}") || arg.contains("{prompt_file}"));
        let chat = self.options.chat_args.as_ref().filter(|_| text.is_none());
        let mut args: Vec<String> = chat.unwrap_or(&self.args).iter().filter(keep).cloned().collect();
        if context.resume.is_some() {
            if !self.capabilities().resume {
                return Err(Error::new(ErrorKind::NotSupported, "this agent cannot resume a session")
                    .with("field", format_args!("agents.{}.resume_args", self.name)));
            }
            args.extend(self.options.resume_args.iter().cloned());
        }
        if args.iter().any(|arg| arg.contains("{system_prompt_file}")) {
            launch = launch.with_file(prompt::SYSTEM_FILE, context.system_prompt.as_str());
        }
        if args.iter().any(|arg| arg.contains("{prompt_file}")) {
            launch = launch.with_file(prompt::FILE, text.as_deref().unwrap_or_default());
        } else if self.options.prompt_mode == PromptMode::Arg {
            let line;
            (launch, line) = prompt::first_line(launch, context, text.as_deref());
            if let Some(line) = line {
                if !args.iter().any(|arg| arg.contains("{prompt}")) {
                    args.push("{prompt}".into());
                }
                // The prompt is filled in last, so that words in braces inside the prompt stay as they are.
                args = args.iter().map(|arg| self.fill(arg, context).replace("{prompt}", &line)).collect();
                return Ok(self.reached(launch.with_args(args), context));
            }
        }
        launch = launch.with_args(args.iter().map(|arg| OsString::from(self.fill(arg, context))));
        match (self.options.prompt_mode, text) {
            (PromptMode::Stdin, Some(text)) => launch = launch.with_prompt(PromptDelivery::Typed(text)),
            (PromptMode::Typed, Some(text)) => {
                // Without the marks of a paste, a line end may submit in a program that we do not know.
                let literal = self.options.framing == Frame::Literal && text.trim().contains('\n');
                let text = if !self.acp() && (text.len() > self.paste_limit() || literal) {
                    let path;
                    (launch, path) = prompt::in_file(launch, context, prompt::FILE, &text);
                    prompt::pointer(&path)
                } else {
                    text
                };
                launch = launch.with_prompt(PromptDelivery::Typed(text));
            }
            _ => {}
        }
        Ok(self.reached(launch, context))
    }

    #[cfg(feature = "acp")]
    fn dialogue(&self, context: &SessionContext) -> Option<Box<dyn watchfire_core::backend::Dialogue>> {
        use crate::acp::{AcpDialogue, Opening};

        let mut opening = Opening::new(&context.cwd).with_resume(context.resume.clone());
        opening.mode.clone_from(&self.options.acp_mode);
        self.acp().then(|| Box::new(AcpDialogue::new(opening)) as _)
    }

    fn delivery(&self) -> Delivery {
        let options = &self.options;
        let mut delivery = match options.framing {
            Frame::Paste => Delivery::default(),
            Frame::Literal => Delivery::default().with_framing(Framing::Literal),
        };
        if let Some(millis) = options.settle_ms {
            // Every message waits this long, so a mistake in the settings must not stop the queue.
            let settle = Duration::from_millis(millis.min(5000));
            delivery = delivery.with_settle(settle, settle);
        }
        if options.submit == Submit::Kitty {
            delivery = delivery.with_submit(SubmitKeys::KittyEnter);
        }
        if let Some(keys) = options.interrupt.as_deref().filter(|keys| !keys.is_empty()) {
            delivery = delivery.with_interrupt(keys);
        }
        delivery.with_quit(options.quit.as_deref().unwrap_or_default())
    }

    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        match observation {
            Observation::Screen(text) => {
                // It has started; what it does, only patterns could tell.
                if self.options.busy.is_empty() && self.options.ready.is_empty() && !text.trim().is_empty() {
                    return vec![Fact::Status(Status::Unknown)];
                }
                let shows = |texts: &[String]| texts.iter().any(|part| text.contains(part.as_str()));
                // `busy` first: texts of `ready` may be on the screen while the agent works.
                let status = match (shows(&self.options.busy), shows(&self.options.ready)) {
                    (true, _) => Status::Processing,
                    (false, true) => Status::Idle,
                    (false, false) => return Vec::new(),
                };
                vec![Fact::Status(status)]
            }
            Observation::Protocol(line) | Observation::Transcript(line) => {
                let key = self.options.session_id_key.as_deref();
                let id = key.and_then(|key| Some(json::text(&json::object(line)?, key)?.to_owned()));
                id.map(Fact::VendorSession).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        let pattern = self.fill(self.options.transcript.as_deref()?, context);
        glob::only(Path::new(&pattern)).map(Transcript::json_lines)
    }

    fn normalize(&self, line: &str) -> Vec<Message> {
        let Some(value) = json::object(line) else { return Vec::new() };
        let role = match json::text(&value, "role").or_else(|| json::text(&value, "type")) {
            Some("user") => Role::User,
            Some("system") => Role::System,
            Some("tool") => Role::Tool,
            _ => Role::Assistant,
        };
        let text = ["text", "content", "message"].iter().find_map(|key| json::text(&value, key));
        text.map(|text| Message::new(role, vec![Part::text(text)])).into_iter().collect()
    }
}

impl Command {
    fn reached(&self, launch: Launch, context: &SessionContext) -> Launch {
        let launch = match self.capabilities().chooses_session_id {
            true => launch.with_vendor_session(self.session(context)),
            false => launch,
        };
        let within = Duration::from_secs(self.options.ready_within.unwrap_or(60));
        if self.lines() {
            return launch.with_transport(Transport::lines(false));
        }
        if self.acp() {
            return launch.with_transport(Transport::dialogue(within));
        }
        let launch = launch.with_transport(Transport::pty(context.size));
        // The default readiness is immediate.
        if self.options.ready.is_empty() {
            return launch;
        }
        launch.with_readiness(Readiness::screen(
            self.options.ready.clone(),
            self.options.busy.clone(),
            within,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::model::{KEYS, Key, Mode};

    fn backend(json: &str) -> Result<Command> {
        Command::from_settings("mine".parse().unwrap(), &serde_json::from_str(json).unwrap())
    }

    fn args(json: &str, prompt: Option<&str>) -> (Vec<String>, Launch) {
        let mut context = SessionContext::new(
            "s1".parse().unwrap(),
            "mine".parse().unwrap(),
            Mode::Task,
            "/bin/mine",
            "/h",
            "/w",
        );
        context.system_prompt = "Be good.".into();
        context.first_prompt = prompt.map(str::to_owned);
        let launch = backend(json).unwrap().prepare(&context).unwrap();
        (launch.command.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect(), launch)
    }

    fn file<'a>(launch: &'a Launch, name: &str) -> &'a str {
        let file = launch.files.iter().find(|file| file.path.as_os_str() == name).unwrap();
        std::str::from_utf8(&file.bytes).unwrap()
    }

    #[test]
    fn a_prompt_goes_where_the_settings_say() {
        let arg = r#"{"path":"x","prompt_mode":"arg","args":["-s","{system_prompt_file}","-m","{prompt}","{cwd}"]}"#;
        let (words, launch) = args(arg, Some("do {cwd}"));
        assert_eq!(words, ["-s", "/h/system-prompt.md", "-m", "do {cwd}", "/w"]);
        assert_eq!(file(&launch, "system-prompt.md"), "Be good.");

        let (words, launch) = args(r#"{"path":"x","prompt_mode":"arg"}"#, Some("do it"));
        assert_eq!(words, ["Read the file /h/first-prompt.md and do what it says."]);
        assert_eq!(file(&launch, "first-prompt.md"), "Be good.\n\ndo it");

        let (words, launch) =
            args(r#"{"path":"x","prompt_mode":"file","args":["{prompt_file}"]}"#, Some("do it"));
        assert_eq!(words, ["/h/first-prompt.md"]);
        assert_eq!(file(&launch, "first-prompt.md"), "Be good.\n\ndo it");

        let (_, launch) = args(r#"{"path":"x","prompt_mode":"stdin"}"#, Some("do it"));
        assert_eq!(launch.transport, Transport::lines(false));
        assert_eq!(launch.prompt, PromptDelivery::Typed("Be good.\n\ndo it".into()));

        let (words, launch) = args(r#"{"path":"x","framing":"literal"}"#, Some("do it"));
        assert!(words.is_empty());
        assert!(matches!(&launch.prompt, PromptDelivery::Typed(text) if text.starts_with("Read the file")));
    }

    #[cfg(feature = "acp")]
    #[test]
    fn in_a_protocol_nothing_limits_the_prompt() {
        let json = r#"{"path":"x","args":["--acp"],"transport":"acp","acp_mode":"yolo","ready_within":9}"#;
        let long = "do it\n".repeat(10_000);
        let (words, launch) = args(json, Some(&long));
        assert_eq!(words, ["--acp"]);
        assert_eq!(launch.transport, Transport::dialogue(Duration::from_secs(9)));
        assert!(matches!(&launch.prompt, PromptDelivery::Typed(text) if text.len() > long.len()));
        assert!(backend(json).unwrap().capabilities().resume);
    }

    #[test]
    fn what_its_settings_name_in_its_home_is_kept_for_a_resume() {
        let json = r#"{"path":"x","args":["--db={home}/data/db","--log={home}/log,{home}/*/x"],"resume_args":["-r"],
            "transcript":"{home}/sessions/*.jsonl"}"#;
        assert_eq!(backend(json).unwrap().resumable(), ["data", "log", "sessions"].map(PathBuf::from));
        let json = r#"{"path":"x","args":["{home}","{home}/../x","{home}/"],"transcript":"~/x"}"#;
        assert_eq!(backend(json).unwrap().resumable(), [] as [PathBuf; 0]);
    }

    /// The table lists exactly the options that a configured program has.
    #[test]
    fn its_options_are_in_the_table() {
        let of_programs = |key: &&Key| {
            key.path == "agents.*.transport" || key.meaning.starts_with("A configured program alone")
        };
        let listed: BTreeSet<_> =
            KEYS.iter().filter(of_programs).filter_map(|key| key.path.rsplit('.').next()).collect();
        assert_eq!(OPTIONS.iter().copied().collect::<BTreeSet<_>>(), listed);
        let shown = format!("{:?}", Options::default());
        assert!(OPTIONS.iter().all(|name| shown.contains(&format!(" {name}: "))), "{shown}");
        assert_eq!(OPTIONS.len(), shown.matches(": ").count());
    }

    #[test]
    fn a_chat_leaves_the_prompt_out() {
        let json = r#"{"path":"x","prompt_mode":"arg","args":["-y","--message={prompt}"]}"#;
        assert_eq!(args(json, None).0, ["-y"]);
        let json = r#"{"path":"x","prompt_mode":"arg","args":["-m","{prompt}"],"chat_args":["-i"]}"#;
        assert_eq!(args(json, None).0, ["-i"]);
    }

    #[test]
    fn without_patterns_what_it_does_is_unknown_once_it_prints() {
        let of = |json: &str, screen: &str| backend(json).unwrap().interpret(&Observation::Screen(screen));
        assert_eq!(of(r#"{"path":"x"}"#, " \n"), []);
        assert_eq!(of(r#"{"path":"x"}"#, "hello"), [Fact::Status(Status::Unknown)]);
        assert_eq!(of(r#"{"path":"x","busy":["esc"]}"#, "hello"), []);
    }

    #[test]
    fn wrong_settings_name_their_field() {
        for (json, field, says) in [
            (r#"{"args":["x"]}"#, "agents.mine", "needs a path"),
            (r#"{"path":"x","prompt_mode":"file"}"#, "agents.mine", "{prompt_file}"),
            (r#"{"path":"x","prompt_mode":"stdin","transport":"pty"}"#, "agents.mine", "transport lines"),
            (r#"{"path":"x","prompt_mode":"arg","transport":"acp"}"#, "agents.mine", "prompt_mode"),
        ] {
            let error = backend(json).unwrap_err();
            assert_eq!((error.code(), error.detail("field")), ("invalid_input", Some(field)));
            assert!(error.message().contains(says), "{error}");
        }
    }
}
