//! The backend of the scripted agent: chooses a script for the session, and reads the agent's status from its title.

use std::path::PathBuf;
use std::time::Duration;

use watchfire_core::backend::{
    Backend, Capabilities, Delivery, Fact, FailedAccess, InputBox, Issue, IssueKind, Launch, LocatedProgram,
    Message, Observation, ProgramSearch, PromptDelivery, SessionContext, Status, Transcript, Transport,
};
use watchfire_core::model::{AgentSettings, Mode, Phase, Timestamp};
use watchfire_core::process::helper::RoleArgs;
use watchfire_core::terminal::Snapshot;
use watchfire_core::{Error, ErrorKind, Result};

use super::script::Script;
use super::{ACP, SCRIPT, TRANSCRIPT};
use crate::agent::{Reach, Transports};
use crate::common::input_box::{self, Frame};
use crate::common::{failed_access, reset_time, settings};

const NAME: &str = "scripted";
/// Helper role of the agent, in a program that calls `run_if_asked`.
const ROLE: &str = "scripted-agent";
/// Script that makes a draft ready without changing it.
const REFINE: &str = "say the draft says it all\n\
    run sed -i.old 's/^status: .*/status: ready/' \"$WATCHFIRE_TASK_FILE\"\nsignal refine_done\n";
const DEFINITION: &str = "run ls > \"$WATCHFIRE_SESSION_DIR/definition.md\"\nsignal definition_done\n";
const TASKS: &str = "run printf 'title: Look around\\nprompt: Say what is here.\\n' > \"$WATCHFIRE_SESSION_DIR/tasks/9999.yaml\"\n\
    signal tasks_done\n";
const TRANSCRIPT_FILE: &str = "transcript.jsonl";
/// Time limit for the first answer in the protocol.
const READY: Duration = Duration::from_secs(30);

watchfire_core::register_backend!(Scripted);
watchfire_core::register_helper_role!(ROLE, role);

fn role(args: RoleArgs) -> i32 {
    super::run(args.args())
}

/// The agent that carries out a script: see [the module](super).
#[derive(Clone, Copy, Debug, Default)]
pub struct Scripted;

impl Backend for Scripted {
    fn name(&self) -> &str {
        NAME
    }

    fn display_name(&self) -> &str {
        "Scripted agent"
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.chat = true;
        can.interrupt = true;
        can.paste_limit = Some(4000);
        can.options = Some(&["transport", "script"]);
        can
    }

    fn install_hint(&self) -> Option<String> {
        Some("it is part of Watchfire; or set agents.scripted.path to watchfire-scripted-agent".into())
    }

    fn locate(&self, search: &ProgramSearch) -> Result<LocatedProgram> {
        reach(&search.settings)?;
        // A mistake in it is an error of the whole run, and not of each of its tasks.
        if let Some(path) = search.settings.option::<PathBuf>(NAME, settings::listed("script")?)? {
            let named = |error: Error| error.with("field", format_args!("agents.{NAME}.script"));
            let script = read(path.clone()).map_err(named)?;
            Script::parse(&script).map_err(|error| error.with_path(path))?;
        }
        let program = match &search.configured {
            Some(_) => search.find(self.name(), &[])?,
            // Unset in the usual case, where the agent is a role of the running program.
            None => std::env::current_exe().map_err(|error| {
                Error::new(ErrorKind::ProgramMissing, "the path of the running program is not known")
                    .with("hint", self.install_hint().unwrap_or_default())
                    .with_source(error)
            })?,
        };
        let mut located = LocatedProgram::new(program);
        located.version = Some(env!("CARGO_PKG_VERSION").into());
        located.tested = Some(true);
        Ok(located)
    }

    fn prepare(&self, context: &SessionContext) -> Result<Launch> {
        let launch = match (&context.settings.path, context.helper.split_first()) {
            (Some(_), _) => Launch::new(&context.program),
            (None, Some((helper, leading))) => Launch::new(helper).with_args(leading).with_arg(ROLE),
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::HelperMissing,
                    "the scripted agent runs as a role of the helper, and the session has none",
                ));
            }
        };
        let script = script(context)?;
        // A mistake in the script is reported now, not as an agent that fails.
        Script::parse(&script)?;
        let launch = match reach(&context.settings)? {
            Reach::Acp => {
                let launch = launch.with_arg(ACP).with_transport(Transport::dialogue(READY));
                let first = context.first_prompt.iter();
                first.fold(launch, |launch, text| launch.with_prompt(PromptDelivery::Typed(text.clone())))
            }
            _ => launch.with_transport(Transport::pty(context.size)),
        };
        Ok(launch
            .with_file("script", script)
            .with_env(SCRIPT, context.home.join("script"))
            .with_env(TRANSCRIPT, context.home.join(TRANSCRIPT_FILE)))
    }

    #[cfg(feature = "acp")]
    fn dialogue(&self, context: &SessionContext) -> Option<Box<dyn watchfire_core::backend::Dialogue>> {
        use crate::acp::{AcpDialogue, Opening};

        let opening = Opening::new(&context.cwd).with_resume(context.resume.clone());
        settings::asks_for_acp(&context.settings).then(|| Box::new(AcpDialogue::new(opening)) as _)
    }

    fn delivery(&self) -> Delivery {
        Delivery::line().with_quit(*b"/quit\r")
    }

    /// Returns the text after `> `, in the last line or in a frame. Where neither is shown, the box is unknown, and
    /// text is typed without a look at it.
    fn input_box(&self, screen: &Snapshot) -> InputBox {
        let framed = Frame { top: '╭', bottom: '╰', mark: '>', bar: Some('│'), hints: &[] };
        let last = (0..screen.size.rows()).rev().map(|row| screen.row_text(row)).find(|row| !row.is_empty());
        let seen = match last.is_some_and(|row| row.starts_with('╰')) {
            true => framed.read(screen),
            false => input_box::line(screen, str::is_empty),
        };
        if seen == InputBox::Absent { InputBox::Unknown } else { seen }
    }

    fn interpret(&self, observation: &Observation<'_>) -> Vec<Fact> {
        let Observation::Title(title) = observation else { return Vec::new() };
        let Some(said) = title.strip_prefix("scripted: ") else { return Vec::new() };
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        match word {
            "working" => vec![Fact::Status(Status::Processing)],
            "waiting" => vec![Fact::Status(Status::Idle), Fact::TurnCompleted],
            "blocked" => {
                let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
                kind_named(kind).map_or_else(Vec::new, |kind| {
                    vec![Fact::Status(Status::ActionRequired), Fact::Issue(Issue::new(kind, text))]
                })
            }
            "cleared" => kind_named(rest).map(Fact::IssueCleared).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn reset_at(&self, issue: &Issue, now: &Timestamp) -> Option<Timestamp> {
        reset_time::of(issue, now)
    }

    fn failed_accesses(&self, output: &str) -> Vec<FailedAccess> {
        failed_access::all(output)
    }

    fn transcript(&self, context: &SessionContext) -> Option<Transcript> {
        let path = context.home.join(TRANSCRIPT_FILE);
        path.exists().then(|| Transcript::json_lines(path))
    }

    fn normalize(&self, line: &str) -> Vec<Message> {
        serde_json::from_str(line).into_iter().collect()
    }
}

/// Returns the transport that the settings ask for.
fn reach(settings: &AgentSettings) -> Result<Reach> {
    settings::reach(settings, NAME, Transports::Terminal, true)
}

fn read(path: PathBuf) -> Result<String> {
    std::fs::read_to_string(&path)
        .map_err(|error| Error::io("reading the script of the scripted agent", error).with_path(path))
}

/// Returns the script for a session: the block in the task's prompt, the file named in the settings or in our
/// environment, or a small job that suits the mode.
fn script(context: &SessionContext) -> Result<String> {
    // The block in a draft is meant for the task, not for its refinement.
    if context.phase == Some(Phase::Refine) {
        return Ok(REFINE.into());
    }
    if let Some(block) = context.task.as_ref().and_then(|task| Script::fenced(&task.prompt)) {
        return Ok(block.to_owned());
    }
    let configured = settings::option(context, "script")?;
    if let Some(path) = configured.as_deref().or_else(|| context.env(SCRIPT)).map(PathBuf::from) {
        return read(path);
    }
    Ok(match (context.phase, context.mode, &context.task) {
        (Some(Phase::Generate), ..) => "say nothing more to do\nsignal generate_done\n".into(),
        (_, Mode::GenerateDefinition, _) => DEFINITION.into(),
        (_, Mode::GenerateTasks, _) => TASKS.into(),
        (.., Some(task)) => default_job(&task.task_number.to_string(), &task.title),
        _ => "chat\n".into(),
    })
}

/// Returns a script for a small piece of real work: it appends to a file named after the task, so that a further attempt
/// has something to commit, commits, and marks the task done.
pub(super) fn default_job(task: &str, title: &str) -> String {
    // A title of several lines would end the action in the middle.
    let words = title.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let title = words.collect::<Vec<_>>().join(" ");
    let title = if title.is_empty() { "untitled".to_owned() } else { title };
    let quoted = |text: String| {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    };
    let heading = quoted(format!("Task #{task}: {title}"));
    let text = quoted(format!("# Task {task}\n\n{title}\n"));
    format!(
        "paint {heading}\nwork 0.4 \"writing task-{task}.md\"\nappend task-{task}.md {text}\ncommit {heading}\ndone\n"
    )
}

fn kind_named(name: &str) -> Option<IssueKind> {
    serde_json::from_value(name.into()).ok()
}
