//! `watchfire task add`: adds a task, and asks the person for it if no title is given.

use std::path::PathBuf;

use clap::Args;
use watchfire_core::model::{BackendName, Task, TaskNumber};
use watchfire_core::store::{NewTask, TaskStore as _};

use super::{ask, report};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::{compose, terminal};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire task add                                     asks, on a terminal
  watchfire task add 'Fix the build' --prompt 'See the log in ci.txt.' --ready
  watchfire task add 'Port the parser' --prompt-file plan.md --depends-on 3
  git diff | watchfire task add 'Review this' --prompt -")]
pub(crate) struct AddArgs {
    /// Its title, as with --title
    #[arg(value_name = "TITLE", conflicts_with = "title")]
    words: Option<String>,
    /// Title, on one line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Prompt for the agent; `-` reads standard input
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Acceptance criteria, which must hold when it is done
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    criteria: Option<String>,
    /// Ready to run at once, instead of a draft
    #[arg(long)]
    ready: bool,
    /// The agent that works on it
    #[arg(long, value_name = "NAME")]
    agent: Option<BackendName>,
    /// A task that must be merged first; may be given several times
    #[arg(long, value_name = "N", value_delimiter = ',')]
    depends_on: Vec<TaskNumber>,
    /// A label to select it by; may be given several times
    #[arg(long = "label", value_name = "LABEL", value_delimiter = ',')]
    labels: Vec<String>,
    /// Number of further attempts that start by themselves
    #[arg(long, value_name = "TIMES")]
    retries: Option<u32>,
    /// Its place in the work order; last if not given
    #[arg(long, value_name = "PLACE")]
    position: Option<i64>,
}

pub(super) async fn run(context: &Context, args: AddArgs) -> Result<Exit> {
    let project = context.project().await?;
    if let Some(agent) = &args.agent {
        compose::check_agent(agent, &project.home.settings().await?)?;
    }
    // A title on the command line means that the person is done: nothing else is asked.
    let title = args.title.or(args.words);
    let asks = title.is_none();
    if asks && (context.out.json || !terminal::is_interactive()) {
        return Err(Failure::usage("a task needs a title", "watchfire task add TITLE --prompt TEXT"));
    }
    let title = title.map_or_else(|| ask::line("Title", ""), Ok)?;
    let prompt = ask::given(args.prompt, args.prompt_file.as_deref())?;
    let prompt = prompt.map_or_else(|| if asks { ask::lines("Prompt") } else { Ok(String::new()) }, Ok)?;
    let criteria = args
        .criteria
        .map_or_else(|| if asks { ask::lines("Acceptance criteria") } else { Ok(String::new()) }, Ok)?;
    for (name, text) in [("prompt", &prompt), ("criteria", &criteria)] {
        if text.len() > Task::LONGEST_PROMPT {
            // On stderr, so that `--json` on stdout stays whole.
            eprintln!(
                "watchfire: the {name} has {} bytes: agents get the first {}, and are told to read the rest in the task's file",
                text.len(),
                Task::LONGEST_PROMPT
            );
        }
    }
    let ready = args.ready || (asks && ask::yes("Ready to run?", false)?);
    let mut task = NewTask::new(title)
        .with_prompt(prompt)
        .with_acceptance_criteria(criteria)
        .with_ready(ready)
        .with_depends_on(args.depends_on)
        .with_labels(args.labels);
    task.agent = args.agent;
    task.retries = args.retries;
    task.position = args.position;
    let number = project.store.create(task, None).await?.value.task_number;
    report(context.out, &project.info(number).await?, "added");
    Ok(Exit::Good)
}
