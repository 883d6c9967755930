//! `watchfire run`, `watchfire wildfire` and `watchfire task start`: runs tasks, shows the run, and reports its end.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use serde_json::json;
use watchfire_core::model::{BackendName, TaskNumber};
use watchfire_core::orchestrator::{ProjectHandle, RunRequest, Spent, TaskInfo};
use watchfire_core::sandbox::Enforcement;
use watchfire_core::schedule::{Ending, LifeState, ResumeTarget, RunSummary, Scope};
use watchfire_core::store::{Malformed, TaskQuery};
use watchfire_core::{Error, ErrorKind, Result as CoreResult};

use super::chat::{self, ChatArgs};
use super::waiting;
use crate::args::SessionArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::out::Out;
use crate::serving::serve;
use crate::{compose, progress, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
Without a target it starts a chat, on a terminal; elsewhere that is an error, so that a script never runs more than it
names. Ctrl+C ends the agents and keeps their work; twice leaves at once.
On a terminal it asks you what tasks wait for, and goes on with your answer; elsewhere it ends with exit code 3, and
`watchfire answer N` goes on.

Examples:
  watchfire run 3                     run task 3, ready or draft
  watchfire run all                   run all ready tasks in work order, and those that become ready meanwhile
  watchfire run all --agent scripted --no-merge
  watchfire run all --json            one event a line, the summary last

Exit codes: 0 all merged, 3 a task needs a person, 130 interrupted.")]
pub(crate) struct RunArgs {
    /// A task's number, or `all`
    #[arg(value_name = "N|all")]
    target: Option<Target>,
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Ready tasks are run; then drafts are refined one by one, and run; then further tasks are generated, until an agent finds
nothing left to do. How often, and whether you look at new tasks first, is in .watchfire/project.yaml:
  wildfire: { rounds: 3, review: true, agent: codex }

Exit codes: 0 nothing left to do, 3 something needs a person, 130 interrupted.")]
pub(crate) struct WildfireArgs {
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Debug)]
pub(crate) struct StartArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Clone, Debug, Default)]
struct RunFlags {
    #[command(flatten)]
    session: SessionArgs,
    /// Keep finished work on its branch instead of merging it
    #[arg(long)]
    no_merge: bool,
    /// End when only tasks that wait for you are left, even on a terminal
    #[arg(long)]
    no_wait: bool,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    All,
    Task(TaskNumber),
    // Never parsed: it has a command of its own.
    Wildfire,
}

impl std::str::FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> CoreResult<Self> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::Task) }
    }
}

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<Exit> {
    match args.target {
        Some(target) => tasks(context, target, args.options).await,
        None if terminal::is_interactive() && !context.out.json => {
            chat::run(context, ChatArgs { session: args.options.session }).await
        }
        // A script that forgets the target must not start anything.
        None => Err(Failure::usage("nothing to run is named", "watchfire run all, or watchfire run N")),
    }
}

pub(crate) async fn start(context: &Context, args: StartArgs) -> Result<Exit> {
    tasks(context, Target::Task(args.number), args.options).await
}

pub(crate) async fn wildfire(context: &Context, args: WildfireArgs) -> Result<Exit> {
    tasks(context, Target::Wildfire, args.options).await
}

/// A person's message to a task, before it is run.
pub(crate) enum Word {
    /// Answer to the agent's question with this id, or to its only question.
    Answer { question: Option<String>, text: String },
    /// The obstacle or limit is gone.
    Resume,
}

/// Passes a message to a task that waits for a person, and runs the task.
pub(crate) async fn go_on(context: &Context, task: TaskNumber, word: Word) -> Result<Exit> {
    carry_out(context, RunRequest::task(task), Some((task, word)), true).await
}

async fn tasks(context: &Context, target: Target, flags: RunFlags) -> Result<Exit> {
    carry_out(context, request(target, &flags)?, None, !flags.no_wait).await
}

/// Runs a request to its end. With `waits`, a person at a terminal is asked for everything that tasks wait for.
async fn carry_out(
    context: &Context,
    request: RunRequest,
    word: Option<(TaskNumber, Word)>,
    waits: bool,
) -> Result<Exit> {
    let waits = waits && terminal::is_interactive() && !context.out.json;
    let project = context.project().await?;
    let home = project.home.path().to_path_buf();
    let root = project.root.clone();
    // The orchestrator opens the store itself.
    drop(project);
    // Before the orchestrator starts: from here on the first signal asks for an orderly end.
    let interrupts = Interrupts::listen()?;
    let Some(ended) = execute(context.out, &home, &root, request, word, waits, &interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let is_good = ended.is_good();
    if context.out.json {
        context.out.line(json_summary(&ended).to_string());
    } else {
        context.out.raw(&text_summary(context.out, &ended));
    }
    // An interrupted run may have ended well for all that ran. The code still says that it was interrupted.
    Ok(if interrupts.happened() {
        Exit::Interrupted
    } else if is_good {
        Exit::Good
    } else {
        Exit::NeedsPerson
    })
}

fn request(target: Target, flags: &RunFlags) -> Result<RunRequest> {
    let mut request = match target {
        Target::All => RunRequest::all(),
        Target::Task(number) => RunRequest::task(number),
        Target::Wildfire => RunRequest::wildfire(),
    };
    request.options.agent = flags.session.agent.as_deref().map(str::parse::<BackendName>).transpose()?;
    request.options.sandbox = compose::sandbox_choice(&flags.session)?;
    // Only the demo runs with a sandbox that enforces less than the policy asks for.
    request.options.enforcement = Enforcement::Required;
    // Without the flag the project's setting holds.
    request.options.merge = flags.no_merge.then_some(false);
    Ok(request)
}

/// The end of a run, and its tasks at that time.
pub(crate) struct Ended {
    pub(crate) summary: RunSummary,
    pub(crate) tasks: Vec<TaskInfo>,
    pub(crate) spent: Spent,
    /// Task files that could not be read, where the run was for all tasks.
    pub(crate) malformed: Vec<Malformed>,
}

impl Ended {
    /// Returns true if nothing is left for a person to do. What nobody could run is no success.
    fn is_good(&self) -> bool {
        self.summary.is_good() && self.malformed.is_empty()
    }

    /// Joins this end with the end of a later run. Of a task that was in both, the later ending counts.
    fn and_then(self, mut later: Self) -> Self {
        // `append` replaces equal keys by the later ones.
        let mut endings = self.summary.endings;
        endings.append(&mut later.summary.endings);
        later.summary.endings = endings;
        Self { spent: self.spent.plus(later.spent), ..later }
    }
}

/// Opens the project, runs and shows the request, and closes the project. Returns `None` if the person interrupted
/// before anything ran.
async fn execute(
    out: Out,
    home: &Path,
    root: &Path,
    request: RunRequest,
    word: Option<(TaskNumber, Word)>,
    waits: bool,
    interrupts: &Interrupts,
) -> Result<Option<Ended>> {
    let orchestrator = compose::orchestrator(home).await?.start().await?;
    let ended: CoreResult<_> = async {
        let project = tokio::select! {
            // Opening includes recovery, which may take a while.
            project = orchestrator.open(root) => project?,
            () = interrupts.first() => return Ok(None),
        };
        let _serving = serve(home, &project);
        if let Some((task, word)) = word {
            say(&project, task, word).await?;
        }
        let mut ended = follow(out, &project, request.clone(), interrupts).await?;
        // Again and again: a task that goes on may ask the next question.
        while waits
            && !interrupts.happened()
            && waiting::ask(out, &project, &ended.summary, &ended.tasks, interrupts).await?
        {
            ended = ended.and_then(follow(out, &project, request.clone(), interrupts).await?);
        }
        Ok(Some(ended))
    }
    .await;
    // Also after an error, so that no agent is left running.
    orchestrator.shutdown().await;
    Ok(ended?)
}

/// Passes a message to the life of a task.
async fn say(project: &ProjectHandle, task: TaskNumber, word: Word) -> CoreResult<()> {
    let infos = project.tasks(&TaskQuery::new()).await?;
    let life = infos.into_iter().find(|info| info.task.task_number == task).and_then(|info| info.life);
    let waits_for_nobody = || {
        Error::new(ErrorKind::InvalidInput, "the task does not wait for a person")
            .with("task", task)
            .with("hint", format!("watchfire task show {} says where it stands", task.value()))
    };
    let life = life.ok_or_else(waits_for_nobody)?;
    match (word, &life.state) {
        // A life that runs needs no resume.
        (Word::Resume, _) if life.waits_for_person() => project.resume(ResumeTarget::Life(life.id)).await,
        (Word::Answer { question, text }, LifeState::Asking { questions }) => {
            let id = match (question, questions.as_slice()) {
                (Some(id), _) => id,
                (None, [only]) => only.id.clone(),
                (None, several) => {
                    let ids: Vec<_> =
                        several.iter().map(|asked| format!("{}: {}", asked.id, asked.question)).collect();
                    return Err(Error::new(ErrorKind::InvalidInput, "the agent asks several questions")
                        .with("questions", ids.join("; "))
                        .with("hint", "name one with --question"));
                }
            };
            project.answer(life.id, id, text).await
        }
        _ => Err(waits_for_nobody()),
    }
}

/// Runs a request and shows it until it ends.
pub(crate) async fn follow(
    out: Out,
    project: &ProjectHandle,
    request: RunRequest,
    interrupts: &Interrupts,
) -> CoreResult<Ended> {
    let snapshot = project.subscribe(None).await?.snapshot;
    let titles = titles(&snapshot.tasks);
    // Subscribed before the run starts, so that its first changes are not missed.
    let changes = project.subscribe(Some(snapshot.opened)).await?.changes;
    let is_general = !matches!(request.scope, Scope::Task(_));
    let run = project.run(request.with_size(progress::agent_size())).await?;
    let view = progress::view(out, titles)?;
    let (summary, spent) = progress::follow(&run, project, changes, interrupts, view).await?;
    // After the run: agents may have changed titles and states.
    let tasks = project.tasks(&TaskQuery::new()).await?;
    let malformed = match is_general {
        true => project.store().list(&TaskQuery::new()).await?.malformed,
        false => Vec::new(),
    };
    Ok(Ended { summary: RunSummary::clone(&summary), tasks, spent, malformed })
}

fn titles(tasks: &[TaskInfo]) -> BTreeMap<TaskNumber, String> {
    tasks.iter().map(|info| (info.task.task_number, text::line(&info.task.title))).collect()
}

fn json_summary(ended: &Ended) -> serde_json::Value {
    let Ended { summary, spent, malformed, .. } = ended;
    let malformed: Vec<_> = malformed.iter().map(ToString::to_string).collect();
    let endings: Vec<_> = summary
        .endings
        .iter()
        .map(|(number, ending)| {
            json!({ "task": number.value(), "state": ending.word(), "reason": ending.reason(), "good": ending.is_good() })
        })
        .collect();
    let waiting: Vec<_> = summary
        .waiting
        .iter()
        .map(|(number, why)| json!({ "task": number.value(), "reason": why.to_string() }))
        .collect();
    let open: Vec<_> = summary
        .open
        .iter()
        .map(|(number, state)| {
            json!({ "task": number.value(), "state": state.word(), "reason": state.detail() })
        })
        .collect();
    let waiting_for: Vec<_> =
        summary.open.iter().map(|(number, state)| waiting_for(*number, state)).collect();
    json!({
        "schema": 1, "change": "summary", "good": ended.is_good(), "stopped": summary.stopped,
        "endings": endings, "open": open, "waiting": waiting, "waiting_for": waiting_for, "step": summary.step, "course": summary.course,
        "malformed": malformed, "spent": spent,
    })
}

/// Returns what a task waits for, for programs.
fn waiting_for(number: TaskNumber, state: &LifeState) -> serde_json::Value {
    let (what, questions) = match state {
        LifeState::Asking { questions } => ("answer", questions.as_slice()),
        LifeState::Limited { .. } => ("limit", &[][..]),
        _ => ("obstacle", &[][..]),
    };
    let questions: Vec<_> =
        questions.iter().map(|asked| json!({ "id": asked.id, "question": asked.question })).collect();
    json!({ "task": number.value(), "for": what, "questions": questions })
}

/// Returns the summary: a line for each task that a person should look at, and a line of counts.
pub(crate) fn text_summary(out: Out, ended: &Ended) -> String {
    let Ended { summary, tasks, spent, malformed } = ended;
    let titles = titles(tasks);
    let title = |number: &TaskNumber| titles.get(number).map(String::as_str).unwrap_or_default();
    let course = &summary.course;
    let did_nothing = course.last.is_none() && course.left.is_empty() && summary.step.is_none();
    if summary.endings.is_empty()
        && summary.waiting.is_empty()
        && summary.open.is_empty()
        && did_nothing
        && malformed.is_empty()
    {
        let stopped = if summary.stopped { "stopped before anything ran" } else { "no task is ready" };
        return format!("{stopped}\n");
    }
    let mut lines = vec![String::new()];
    // Good ends are only counted: the view has shown them.
    for (number, ending) in summary.endings.iter().filter(|(_, ending)| !ending.is_good()) {
        lines.push(format!("{} #{number} {}: {}", out.style.red("✗"), title(number), ending.word()));
        let reason = text::lines(&ending.reason().unwrap_or_default());
        let shown: Vec<_> = reason.lines().collect();
        // The end of a long output, such as a test's, says more than its beginning.
        let skipped = shown.len().saturating_sub(8);
        if skipped > 0 {
            lines.push(out.style.dim(&format!("    … {skipped} lines before")));
        }
        lines.extend(shown.iter().skip(skipped).map(|line| format!("    {line}").trim_end().to_owned()));
        if let Some(next) = next_step(number, ending) {
            lines.push(format!("    {}", out.style.dim(&next)));
        }
    }
    for (number, state) in &summary.open {
        let state_text = text::line(&state.to_string());
        lines.push(format!("{} #{number} {}: {state_text}", out.style.yellow("!"), title(number)));
        if let Some(next) = next_step_of(*number, state) {
            lines.push(format!("    {}", out.style.dim(&next)));
        }
    }
    for (number, why) in &summary.waiting {
        lines.push(format!(
            "{} #{number} {}: {}",
            out.style.yellow("…"),
            title(number),
            text::line(&why.to_string())
        ));
    }
    for (number, ending) in &course.left {
        let why = text::line(&ending.to_string());
        lines.push(format!("{} #{number} {}: still a draft: {why}", out.style.yellow("!"), title(number)));
    }
    if let Some(ending) = course.last.as_ref().filter(|ending| !ending.is_good()) {
        lines.push(format!("{} generate: {}", out.style.red("✗"), text::line(&ending.to_string())));
    }
    for fault in malformed {
        lines.push(format!("{} not run: {}", out.style.red("✗"), text::line(&fault.to_string())));
    }
    if let Some(state) = &summary.step {
        lines.push(format!("{} wildfire: {}", out.style.yellow("!"), text::line(&state.to_string())));
    }
    // The first line is empty too: without others one blank line is enough.
    if lines.len() > 1 {
        lines.push(String::new());
    }
    let count =
        |wanted: fn(&Ending) -> bool| summary.endings.values().filter(|ending| wanted(ending)).count();
    let merged = count(|ending| matches!(ending, Ending::Merged { .. }));
    let quiet = count(|ending| matches!(ending, Ending::Nothing));
    let kept = count(|ending| matches!(ending, Ending::Unmerged));
    let bad = count(|ending| !ending.is_good());
    let mut parts = vec![out.style.green(&format!("{merged} merged"))];
    let mut add = |number: usize, text: &str| {
        if number > 0 {
            parts.push(format!("{number} {text}"));
        }
    };
    add(course.generated.len(), "generated");
    add(quiet, "done with nothing to merge");
    add(kept, "done and kept on a branch");
    if !summary.open.is_empty() {
        let waiting = text::count(summary.open.len(), "task");
        parts.push(out.style.yellow(&format!("{waiting} waiting for you")));
    }
    if !course.left.is_empty() {
        parts.push(out.style.yellow(&text::count(course.left.len(), "draft")));
    }
    if bad > 0 {
        parts.push(out.style.red(&format!("{bad} not merged")));
    }
    if !summary.waiting.is_empty() {
        parts.push(out.style.yellow(&format!("{} not started", summary.waiting.len())));
    }
    if summary.stopped {
        parts.push("stopped".to_owned());
    }
    if !spent.is_nothing() {
        parts.push(spent.to_string());
    }
    lines.push(parts.join(", "));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns what a person may do about a task that waits for them.
pub(super) fn next_step_of(number: TaskNumber, state: &LifeState) -> Option<String> {
    match state {
        LifeState::Held { by, .. } | LifeState::Incomplete { by, .. } => Some(by.kind.cure().to_owned()),
        LifeState::Asking { .. } => Some(format!("watchfire answer {} \"…\"", number.value())),
        LifeState::Limited { issue, until } => {
            let by_itself = match issue.reset_at.is_some() && until.is_none() {
                true => "; `on_limit: wait` in project.yaml goes on by itself",
                false => "",
            };
            Some(format!("when it is over: watchfire resume {}{by_itself}", number.value()))
        }
        _ => None,
    }
}

/// Returns what a person may do about an ending.
fn next_step(number: &TaskNumber, ending: &Ending) -> Option<String> {
    let number = number.value();
    Some(match ending {
        Ending::Conflict { .. } | Ending::VerifyFailed { .. } | Ending::Failed { .. } => {
            format!(
                "its work is on watchfire/{number:04}; watchfire task ready {number} lets an agent try again"
            )
        }
        Ending::Limited { until: Some(_), .. } => format!(
            "its work is on watchfire/{number:04}; when the limit is over: watchfire run {number}. `on_limit: wait` goes on by itself"
        ),
        Ending::Limited { .. } => format!(
            "what it did is on watchfire/{number:04}; raise `budget` in settings.yaml, then: watchfire run {number}"
        ),
        Ending::SetupFailed { .. } => {
            "mend `setup` in .watchfire/project.yaml, or what it runs; no agent was started".to_owned()
        }
        Ending::Crashed { .. } | Ending::Unclaimed { .. } | Ending::TimedOut { .. } => {
            format!("its work is on watchfire/{number:04}; watchfire logs {number} shows its session")
        }
        _ => return None,
    })
}
