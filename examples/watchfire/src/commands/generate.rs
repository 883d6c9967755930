//! `watchfire generate`: lets an agent propose a definition or tasks, and asks the person.

use clap::{Args, ValueEnum};
use serde_json::json;
use watchfire_client::work_proto::ProposeRequest;
use watchfire_core::orchestrator::Proposal;

use crate::args::SessionArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::worker::Worker;
use crate::{compose, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
An agent reads the project and writes a proposal, which counts once you accept it. Tasks become drafts.

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
    /// Accept the proposal without asking
    #[arg(long, short)]
    yes: bool,
    /// Run the agent in this program, even where a daemon runs
    #[arg(long)]
    embedded: bool,
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
    let place = context.project().await?;
    let interrupts = Interrupts::listen()?;
    let Some(worker) = Worker::find(place, args.embedded, &interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let done = propose(context, &args, &worker, &interrupts).await;
    worker.end().await;
    done
}

async fn propose(
    context: &Context,
    args: &GenerateArgs,
    worker: &Worker,
    interrupts: &Interrupts,
) -> Result<Exit> {
    if !context.out.json {
        let what = args.what.as_str();
        context.out.line(format!("an agent reads the project: generate-{what}; Ctrl+C ends it"));
    }
    let request = ProposeRequest {
        what: args.what.as_str().to_owned(),
        agent: args.session.agent.clone().unwrap_or_default(),
        sandbox: compose::sandbox_name(&args.session),
        ..Default::default()
    };
    let proposal = tokio::select! {
        proposal = worker.propose(request) => proposal?,
        // What is not waited for any more is ended.
        () = interrupts.first() => return Ok(Exit::Interrupted),
    };
    show(context, &proposal);
    // With `--json` a program looks at the proposal and decides; it cannot answer here.
    if !args.yes && context.out.json {
        return Ok(Exit::NeedsPerson);
    }
    if !args.yes {
        let accepted = tokio::select! {
            accepted = terminal::ask("accept it? [y/N] ") => accepted?,
            () = interrupts.first() => return Ok(Exit::Interrupted),
        };
        if !accepted {
            return Ok(Exit::NeedsPerson);
        }
    }
    let created = worker.accept(&proposal).await?;
    context.out.report(json!({ "change": "accepted", "tasks": created }), |_| match created.len() {
        0 => "the definition is taken over\n".to_owned(),
        1 => "1 task added as a draft\n".to_owned(),
        tasks => format!("{tasks} tasks added as drafts\n"),
    });
    Ok(Exit::Good)
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::Tasks => "tasks",
        }
    }
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
    for what in &proposal.refused {
        context.out.line(format!("\nrefused {}", text::line(what)));
    }
}
