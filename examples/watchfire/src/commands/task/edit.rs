//! `watchfire task edit`: changes a task by flags, or in the person's editor.

use std::path::PathBuf;

use clap::Args;
use watchfire_core::model::{BackendName, Task, TaskNumber, TaskStatus};
use watchfire_core::store::{Patch, TaskPatch, TaskStore as _};
use watchfire_core::{Error, ErrorKind};

use super::{ask, report};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::{compose, editor, terminal};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire task edit 3                                  opens $VISUAL or $EDITOR
  watchfire task edit 3 --title 'Add a sign-in page' --status ready
  watchfire task edit 3 --prompt-file plan.md
  watchfire task edit 3 --agent ''                       leaves the agent to project and settings")]
pub(crate) struct EditArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
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
    /// Its status: draft, ready or done
    #[arg(long, value_name = "STATUS")]
    status: Option<TaskStatus>,
    /// The agent that works on it; empty: the usual one
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The tasks that must be merged first, instead of the present ones; empty: none
    #[arg(long, value_name = "N,…")]
    depends_on: Option<String>,
    /// Its labels, instead of the present ones; empty: none
    #[arg(long, value_name = "LABEL,…")]
    labels: Option<String>,
    /// Number of further attempts that start by themselves
    #[arg(long, value_name = "TIMES")]
    retries: Option<u32>,
    /// Its place in the work order
    // Without this a negative place would look like a flag.
    #[arg(long, value_name = "PLACE", allow_negative_numbers = true)]
    position: Option<i64>,
}

impl EditArgs {
    /// Takes the task's number from the only word of `watchfire task N`.
    pub(super) fn named(words: &[String]) -> Result<Self> {
        let number = match words {
            [number] => number.parse().ok(),
            _ => None,
        };
        let unknown =
            || Failure::usage(format!("no such command: task {}", words.join(" ")), "watchfire task --help");
        Ok(Self {
            number: number.ok_or_else(unknown)?,
            title: None,
            prompt: None,
            prompt_file: None,
            criteria: None,
            status: None,
            agent: None,
            depends_on: None,
            labels: None,
            retries: None,
            position: None,
        })
    }
}

pub(super) async fn run(context: &Context, args: EditArgs) -> Result<Exit> {
    let project = context.project().await?;
    let number = args.number;
    let mut patch = TaskPatch::new();
    patch.title = args.title;
    patch.prompt = ask::given(args.prompt, args.prompt_file.as_deref())?;
    patch.acceptance_criteria = args.criteria;
    patch.status = args.status;
    patch.position = args.position;
    patch.retries = args.retries.map_or(Patch::Keep, Patch::Set);
    patch.agent = match args.agent.as_deref().map(str::trim) {
        None => Patch::Keep,
        // Cleared, the task has the agent of project and settings again.
        Some("") => Patch::Clear,
        Some(name) => {
            let name = name.parse::<BackendName>()?;
            compose::check_agent(&name, &project.home.settings().await?)?;
            Patch::Set(name)
        }
    };
    let words = |text: String| -> Vec<String> {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    patch.labels = args.labels.map(words);
    patch.depends_on = match args.depends_on.map(words) {
        Some(numbers) => Some(numbers.iter().map(|number| number.parse()).collect::<Result<_, Error>>()?),
        None => None,
    };
    if patch == TaskPatch::new() {
        let task = project.store.get(number).await?;
        if context.out.json || !terminal::is_interactive() {
            return Err(Failure::usage("nothing to change", "give what to change, such as --title TEXT"));
        }
        let before = render(&task.value);
        let changes = editor::edit(&before, "task", async |text| {
            let patch = parse(&text)?;
            let changes = patch != parse(&before)?;
            if changes {
                // With the revision that the editor showed: a change by another process since then is not
                // overwritten.
                project.store.update(number, patch, Some(&task.revision), None).await?;
            }
            Ok(changes)
        });
        if !changes.await? {
            report(context.out, &project.info(number).await?, "unchanged");
            return Ok(Exit::Good);
        }
    } else {
        // Without a revision: the flags name only the fields that change.
        project.store.update(number, patch, None, None).await?;
    }
    report(context.out, &project.info(number).await?, "changed");
    Ok(Exit::Good)
}

const TITLE: &str = "%% title";
const PROMPT: &str = "%% prompt";
const CRITERIA: &str = "%% acceptance criteria";

/// Returns title, prompt and criteria as the person edits them.
fn render(task: &Task) -> String {
    let Task { title, prompt, acceptance_criteria, .. } = task;
    format!(
        "{TITLE}\n{title}\n\n{PROMPT}\n{}\n\n{CRITERIA}\n{}\n",
        prompt.trim_end(),
        acceptance_criteria.trim_end()
    )
}

fn parse(text: &str) -> Result<TaskPatch, Error> {
    let section = |from: &str, to: Option<&str>| {
        let (_, rest) = text.split_once(&format!("{from}\n"))?;
        let body = match to {
            Some(to) => rest.split_once(&format!("\n{to}\n"))?.0,
            None => rest,
        };
        Some(body.trim_end().to_owned())
    };
    let patch = (|| {
        Some(
            TaskPatch::new()
                .with_title(section(TITLE, Some(PROMPT))?.trim())
                .with_prompt(section(PROMPT, Some(CRITERIA))?)
                .with_acceptance_criteria(section(CRITERIA, None)?),
        )
    })();
    patch.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "the three lines that begin with %% must stay; nothing is changed",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_read_back() {
        let mut task = Task::new("abcdefgh".parse().unwrap(), TaskNumber::new(1).unwrap(), "A title");
        task.prompt = "one\n\n%% two\nthree\n".to_owned();
        let patch = parse(&render(&task)).unwrap();
        assert_eq!(patch.title.as_deref(), Some("A title"));
        assert_eq!(patch.prompt.as_deref(), Some("one\n\n%% two\nthree"));
        assert_eq!(patch.acceptance_criteria.as_deref(), Some(""));
        assert!(parse("hello").is_err());
    }
}
