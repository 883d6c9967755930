//! `watchfire generate`: lets an agent propose a definition or tasks, and asks the person.

use std::io::{self, BufRead as _};

use clap::{Args, ValueEnum};
use serde_json::json;
use watchfire_core::model::{BackendName, Mode};
use watchfire_core::orchestrator::Proposal;
use watchfire_core::schedule::RunOptions;

use crate::args::SessionArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::serving::serve;
use crate::{compose, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
An agent reads the project and writes; nothing of it counts before you accept it. Tasks become drafts.

Examples:
  watchfire generate tasks            show what an agent proposes, and ask
  watchfire generate definition --yes
  watchfire generate tasks --json     print the proposal and take over nothing

Exit codes: 0 accepted, 3 not accepted, 130 interrupted.")]
pub(crate) struct GenerateArgs {
    /// Kind of proposal
    what: What,
    #[command(flatten)]
    session: SessionArgs,
    /// Accept it without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum What {
    #[value(alias = "def")]
    Definition,
    Tasks,
}

pub(crate) async fn run(context: &Context, args: GenerateArgs) -> Result<Exit> {
    // Checked before the agent works: its proposal would be lost at the end.
    if !args.yes && !context.out.json && !terminal::is_interactive() {
        return Err(Failure::usage(
            "nobody is asked here whether it is good",
            "add --yes, or --json to look first",
        ));
    }
    let mut options = RunOptions::default();
    options.agent = args.session.agent.as_deref().map(str::parse::<BackendName>).transpose()?;
    options.sandbox = compose::sandbox_choice(&args.session)?;
    let mode = match args.what {
        What::Definition => Mode::GenerateDefinition,
        What::Tasks => Mode::GenerateTasks,
    };
    let project = context.project().await?;
    let (home, root) = (project.home.path().to_path_buf(), project.root.clone());
    // The orchestrator opens the store itself.
    drop(project);
    let interrupts = Interrupts::listen()?;
    let orchestrator = compose::orchestrator(&home).await?.start().await?;
    let done = async {
        let project = orchestrator.open(&root).await?;
        let _serving = serve(&home, &project);
        if !context.out.json {
            context.out.line(format!("an agent reads the project: {mode}; Ctrl+C ends it"));
        }
        let proposal = tokio::select! {
            proposal = project.generate(mode, options) => proposal?,
            // The shutdown below ends the agent.
            () = interrupts.first() => return Ok(Exit::Interrupted),
        };
        show(context, &proposal);
        // With `--json` a program looks at the proposal and decides; it cannot answer here.
        if !args.yes && (context.out.json || !ask()?) {
            return Ok(Exit::NeedsPerson);
        }
        let created = project.accept(proposal).await?;
        let numbers: Vec<_> = created.iter().map(|number| number.value()).collect();
        context.out.report(json!({ "change": "accepted", "tasks": numbers }), |_| match created.as_slice() {
            [] => "the definition is taken over\n".to_owned(),
            tasks => format!("{} added as drafts\n", text::count(tasks.len(), "task")),
        });
        Ok(Exit::Good)
    }
    .await;
    orchestrator.shutdown().await;
    done
}

fn show(context: &Context, proposal: &Proposal) {
    if context.out.json {
        return context.out.line(json!({ "change": "proposal", "proposal": proposal }).to_string());
    }
    if let Some(definition) = &proposal.definition {
        context.out.line(format!("\n{}\n", text::lines(definition)));
    }
    for task in &proposal.tasks {
        context.out.line(format!("\n{}", context.out.style.bold(&text::line(&task.title))));
        context.out.line(text::lines(&task.prompt));
        if !task.acceptance_criteria.trim().is_empty() {
            context.out.line(text::lines(&task.acceptance_criteria));
        }
    }
}

fn ask() -> Result<bool> {
    eprint!("accept it? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| watchfire_core::Error::io("reading the answer", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
