//! `watchfire run`, `watchfire wildfire` and `watchfire task start`: runs tasks, shows the run, and reports its end.

mod summary;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::Args;
use watchfire_client::daemon_proto::StartAgentRequest;
use watchfire_core::model::{self, KeyFile, Question, Task, TaskNumber, TaskStatus, UnknownKey};
use watchfire_core::schedule::{Life, LifeState, Scope};
use watchfire_core::store::{TaskQuery, TaskStore as _};
use watchfire_core::{Error, ErrorKind, Result as CoreResult};

use super::chat::{self, ChatArgs};
use super::waiting;
use crate::args::SessionArgs;
use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::out::Out;
use crate::progress::Followed;
use crate::worker::{Worker, wire};
use crate::{compose, git, progress, status, terminal, text};
pub(in crate::commands) use summary::next_step_of;
pub(crate) use summary::{Ended, text_summary};
use summary::{json_summary, titles};

/// The longest time for the end of an agent that has asked, and the pause between two looks at it.
const SETTLES: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

#[derive(Args, Debug)]
#[command(after_help = "\
Without a target it starts a chat, on a terminal; elsewhere that is an error, so that a script never runs more than it
names. Ctrl+C ends the agents and keeps their work; a second Ctrl+C leaves at once.
Where a daemon runs, it runs the tasks; else this program does.
On a terminal it asks you what tasks wait for, and goes on with your answer; elsewhere it ends with exit code 3, and
`watchfire answer N` goes on.

Examples:
  watchfire run 3                     run task 3, ready or draft
  watchfire run 3 4                   run both, in work order
  watchfire run --label ui            run the ready tasks that have this label
  watchfire run all                   run all ready tasks in work order, and those that become ready meanwhile
  watchfire run all --agent scripted --no-merge
  watchfire run all --json            one event a line, the summary last

Exit codes: 0 all merged, 3 a task needs a person, 130 interrupted.")]
pub(crate) struct RunArgs {
    /// Numbers of tasks, or `all`
    #[arg(value_name = "N|all")]
    targets: Vec<Named>,
    /// The ready tasks with this label; may be given several times
    #[arg(long = "label", value_name = "LABEL", value_delimiter = ',', conflicts_with = "targets")]
    labels: Vec<String>,
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Ready tasks are run; then drafts are refined one by one, and run; then further tasks are generated, until an agent finds
nothing left to do. How often, and whether you look at new tasks first, is in .watchfire/project.yaml:
  wildfire: { rounds: 3, review: true, agent: codex, execute: { model: opus } }

Examples:
  watchfire wildfire
  watchfire wildfire --agent codex --no-merge

Exit codes: 0 nothing left to do, 3 something needs a person, 130 interrupted.")]
pub(crate) struct WildfireArgs {
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  watchfire task start 3\n  watchfire task start 3 --agent codex")]
pub(crate) struct StartArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    #[command(flatten)]
    options: RunFlags,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The task is run again, on the work as it is, and its agent reads the text first. A task that is done becomes ready for it; work that
was merged stays merged, and the agent goes on from there. An agent at work is told something with `watchfire send`.

Examples:
  watchfire send-back 3 'the dates must be UTC, and an empty list has no test'
  watchfire send-back 3 - < review.txt

Exit codes: 0 merged, 3 the task needs a person, 130 interrupted.")]
pub(crate) struct SendBackArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    /// What is wrong or missing; `-` reads it from stdin
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
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
    /// Run the agents in this program, even where a daemon runs
    #[arg(long)]
    embedded: bool,
}

/// One word of the command line.
#[derive(Clone, Copy, Debug)]
enum Named {
    All,
    Task(TaskNumber),
}

impl std::str::FromStr for Named {
    type Err = Error;

    fn from_str(text: &str) -> CoreResult<Self> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::Task) }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    All,
    Task(TaskNumber),
    Tasks(BTreeSet<TaskNumber>),
    Wildfire,
}

impl Target {
    /// Returns `None` if nothing is named.
    fn of(named: &[Named]) -> Result<Option<Self>> {
        let tasks = named.iter().filter_map(|named| match named {
            Named::All => None,
            Named::Task(number) => Some(*number),
        });
        let mut tasks: BTreeSet<_> = tasks.collect();
        let names_all = named.iter().any(|named| matches!(named, Named::All));
        match tasks.len() {
            0 => Ok(names_all.then_some(Self::All)),
            // A draft by its number would be started, and all are the ready ones.
            _ if names_all => {
                let hint = "watchfire run all, or watchfire run N ...";
                Err(Failure::usage("all and single tasks are named at once", hint))
            }
            1 => Ok(tasks.pop_first().map(Self::Task)),
            _ => Ok(Some(Self::Tasks(tasks))),
        }
    }

    /// Returns the ready tasks that have one of these labels now.
    async fn labelled(place: &OpenProject, labels: &[String]) -> Result<Self> {
        let mut query = TaskQuery::new();
        query.status = Some(TaskStatus::Ready);
        let ready = place.store.list(&query).await?.tasks;
        let has_one = |task: &Task| task.labels.iter().any(|label| labels.contains(label));
        let found: BTreeSet<_> =
            ready.into_iter().map(|it| it.value).filter(has_one).map(|task| task.task_number).collect();
        if found.is_empty() {
            let error = Error::new(ErrorKind::NotFound, "no ready task has the label");
            return Err(error
                .with("label", labels.join(", "))
                .with("hint", "watchfire task list shows labels")
                .into());
        }
        Ok(Self::Tasks(found))
    }
}

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<Exit> {
    if !args.labels.is_empty() {
        let target = Target::labelled(&context.project().await?, &args.labels).await?;
        return tasks(context, target, args.options).await;
    }
    match Target::of(&args.targets)? {
        Some(target) => tasks(context, target, args.options).await,
        None if terminal::is_interactive() && !context.out.json => {
            chat::run(context, ChatArgs::in_root(args.options.session, args.options.embedded)).await
        }
        // A script that forgets the target must not start anything.
        None => Err(Failure::usage("nothing to run is named", "watchfire run all, or watchfire run N")),
    }
}

pub(crate) async fn start(context: &Context, args: StartArgs) -> Result<Exit> {
    tasks(context, Target::Task(args.number), args.options).await
}

pub(crate) async fn send_back(context: &Context, args: SendBackArgs) -> Result<Exit> {
    let text = match args.text.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(|e| Error::io("reading stdin", e))?,
        text => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the text is empty", "say what is wrong or missing"));
    }
    let target = Target::Task(args.number);
    carry_out(context, Wanted { note: text, ..wanted(target, args.options) }, None).await
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
    carry_out(context, Wanted { waits: true, ..Wanted::new(Target::Task(task)) }, Some((task, word))).await
}

async fn tasks(context: &Context, target: Target, flags: RunFlags) -> Result<Exit> {
    carry_out(context, wanted(target, flags), None).await
}

fn wanted(target: Target, flags: RunFlags) -> Wanted {
    Wanted {
        session: flags.session,
        // Without the flag the project's setting holds.
        merge: flags.no_merge.then_some(false),
        waits: !flags.no_wait,
        embedded: flags.embedded,
        ..Wanted::new(target)
    }
}

/// A run as a command line asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) target: Target,
    pub(crate) session: SessionArgs,
    /// Absent: as project and settings say.
    pub(crate) merge: Option<bool>,
    /// Ask a person at a terminal for everything that tasks wait for.
    pub(crate) waits: bool,
    /// Not by the daemon, even if it runs.
    pub(crate) embedded: bool,
    /// Start also where the sandbox cannot enforce the whole policy. Only the demo does.
    pub(crate) best_effort: bool,
    /// The person's words about the work so far. Empty for none.
    pub(crate) note: String,
}

impl Wanted {
    /// Runs `target` as project and settings say.
    pub(crate) fn new(target: Target) -> Self {
        let session = SessionArgs::default();
        let note = String::new();
        Self { target, session, merge: None, waits: false, embedded: false, best_effort: false, note }
    }

    fn scope(&self) -> Scope {
        match &self.target {
            Target::All => Scope::All,
            Target::Task(number) => Scope::Task(*number),
            Target::Tasks(numbers) => Scope::Tasks(numbers.clone()),
            Target::Wildfire => Scope::Wildfire,
        }
    }

    fn request(&self) -> StartAgentRequest {
        let scope = self.scope();
        let mode = match scope {
            Scope::All => "start-all",
            Scope::Wildfire => "wildfire",
            _ => "task",
        };
        let mut numbers = scope.named().map(wire);
        let size = progress::agent_size();
        StartAgentRequest {
            mode: mode.to_owned(),
            task_number: numbers.next().unwrap_or_default(),
            further_tasks: numbers.collect(),
            agent: self.session.agent.clone().unwrap_or_default(),
            sandbox: compose::sandbox_name(&self.session),
            merge: self.merge,
            rows: size.rows().into(),
            cols: size.cols().into(),
            best_effort: self.best_effort,
            note: self.note.clone(),
            ..Default::default()
        }
    }
}

/// Runs `wanted` to its end, and prints the summary.
async fn carry_out(context: &Context, wanted: Wanted, word: Option<(TaskNumber, Word)>) -> Result<Exit> {
    let waits = wanted.waits && terminal::is_interactive() && !context.out.json;
    let place = context.project().await?;
    git::require()?;
    let wanted = Wanted { waits, ..wanted };
    // Before an agent starts: from here on the first signal asks for an orderly end.
    let interrupts = Interrupts::listen()?;
    let Some(ended) = execute(context.out, place, &wanted, word, &interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let is_good = ended.is_good();
    if context.out.json {
        context.out.line(json_summary(&ended).to_string());
    } else {
        context.out.text(&text_summary(context.out, &ended));
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

/// Runs a request and shows it, until nothing is left to do for it. Returns `None` if the person interrupted before anything ran.
async fn execute(
    out: Out,
    place: OpenProject,
    wanted: &Wanted,
    word: Option<(TaskNumber, Word)>,
    interrupts: &Interrupts,
) -> Result<Option<Ended>> {
    let Some(mut worker) = Worker::find(place, wanted.embedded, interrupts).await? else { return Ok(None) };
    // Who runs them has told its log once; the person at this terminal is told too.
    if worker.own().is_none() && !out.json {
        for key in unknown_keys(&worker.place).await? {
            out.text(&format!("! {}\n", text::line(&key.to_string())));
        }
    }
    let ended = async {
        if let Some((task, word)) = word {
            say(&worker, task, word).await?;
        }
        let mut ended = follow(out, &mut worker, wanted, interrupts).await?;
        // It was sent back once.
        let wanted = &Wanted { note: String::new(), ..wanted.clone() };
        // Again and again: a task that goes on may ask the next question.
        while wanted.waits
            && !interrupts.happened()
            && waiting::ask(out, &worker, &ended.summary, &ended.tasks, interrupts).await?
        {
            ended = ended.and_then(follow(out, &mut worker, wanted, interrupts).await?);
        }
        Ok(ended)
    }
    .await;
    // Also after an error, so that no agent of this program is left running.
    worker.end().await;
    ended.map(Some)
}

/// Returns the keys of the settings and the project that nothing reads.
async fn unknown_keys(place: &OpenProject) -> Result<Vec<UnknownKey>> {
    let mut keys = compose::unknown_settings(&place.home.settings().await?);
    keys.extend(model::unknown_keys(KeyFile::Project, &place.store.project().await?.value));
    Ok(keys)
}

/// Passes a message to the life of a task. Returns the id of the question that it answers.
pub(crate) async fn say(worker: &Worker, task: TaskNumber, word: Word) -> Result<String> {
    let mut life = worker.place.info(task).await?.life;
    let deadline = Instant::now() + SETTLES;
    // An agent that has asked ends, and its work is captured; after that it waits for its answer.
    let is_ending = |life: &Life| matches!(life.state, LifeState::Ending | LifeState::Capturing);
    while life.as_ref().is_some_and(is_ending) && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
        life = worker.place.info(task).await?.life;
    }
    let waits_for_nobody = || {
        Error::new(ErrorKind::InvalidInput, "the task does not wait for a person")
            .with("task", task)
            .with("hint", format!("watchfire task show {} says where it stands", task.value()))
    };
    let life = life.ok_or_else(waits_for_nobody)?;
    match (word, &life.state) {
        (Word::Answer { .. }, LifeState::Limited { .. }) => {
            let error = Error::new(ErrorKind::InvalidInput, "the task asks nothing: it waits for a limit");
            let hint = format!("when it is over: watchfire resume {}", task.value());
            Err(error.with("task", task).with("hint", hint).into())
        }
        // A life that runs needs no resume.
        (Word::Resume, _) if life.waits_for_person() => worker.resume(life.id).await.map(|()| String::new()),
        (Word::Answer { question, text }, LifeState::Asking { questions, .. }) => {
            let asked = match (question, questions.as_slice()) {
                (Some(id), all) => match all.iter().find(|asked| asked.id == id) {
                    Some(asked) => asked.clone(),
                    // It may have been answered before; who runs the task knows.
                    None => Question::new(id, ""),
                },
                (None, [only]) => only.clone(),
                (None, several) => {
                    let ids: Vec<_> =
                        several.iter().map(|asked| format!("{}: {}", asked.id, asked.question)).collect();
                    return Err(Error::new(ErrorKind::InvalidInput, "the agent asks several questions")
                        .with("questions", ids.join("; "))
                        .with("hint", "name one with --question")
                        .into());
                }
            };
            worker.answer(life.id, &asked, text).await?;
            Ok(asked.id)
        }
        _ => Err(waits_for_nobody().into()),
    }
}

/// Runs `wanted` and shows it until it ends.
pub(crate) async fn follow(
    out: Out,
    worker: &mut Worker,
    wanted: &Wanted,
    interrupts: &Interrupts,
) -> Result<Ended> {
    let view = progress::view(out, titles(&worker.tasks().await?.0))?;
    let run = Followed::start(worker, wanted.scope(), wanted.request(), view).await?;
    let (summary, spent) = run.until_its_end(interrupts).await?;
    // After the run: agents may have changed titles and states.
    let (mut tasks, malformed) = worker.tasks().await?;
    // A task that was deleted meanwhile has an ending, too, and a title to show it by.
    tasks.extend(
        worker
            .deleted_tasks()
            .await?
            .into_iter()
            .filter(|info| summary.endings.contains_key(&info.task.task_number)),
    );
    let all: Vec<_> = tasks.iter().map(|info| &info.task).collect();
    let never = summary.waiting.keys().filter_map(|number| {
        let task = all.iter().find(|task| task.task_number == *number)?;
        Some((*number, status::never_starts(task, &all, &malformed)?))
    });
    let never = never.collect();
    // A run of named tasks does not answer for the others.
    let malformed = if wanted.scope().is_general() { malformed } else { Vec::new() };
    Ok(Ended { summary, tasks, spent, malformed, never })
}
