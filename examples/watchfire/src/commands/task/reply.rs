//! `watchfire answer` and `watchfire resume`: bring on a task that waits for the person.

use clap::Args;
use serde_json::json;
use watchfire_core::model::TaskNumber;

use crate::commands::observe;
use crate::commands::run::{self, Word};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::worker::Worker;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire answer 3 'Use port 7070.'\n  watchfire answer 3 --question 2 yes"
)]
pub(crate) struct AnswerArgs {
    /// The task's number, or the id of a question between agents, as watchfire listen --peers shows it
    #[arg(value_name = "N|ID")]
    to: String,
    /// The answer
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// The id of the question, if the agent asks several
    #[arg(long, value_name = "ID")]
    question: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  watchfire resume 3")]
pub(crate) struct ResumeArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
}

pub(crate) async fn answer(context: &Context, args: AnswerArgs) -> Result<Exit> {
    let AnswerArgs { to, text, question } = args;
    if text.trim().is_empty() {
        return Err(Failure::usage("the answer is empty", "watchfire answer N \"…\""));
    }
    let Ok(number) = to.parse::<TaskNumber>() else {
        let answered = observe::connect(context).await?.answer(&to, &text).await?;
        return Ok(told(context, &answered));
    };
    let place = context.project().await?;
    // The daemon brings it on, with the variables of this terminal.
    if let Some(worker) = Worker::by_daemon(place).await {
        let id = run::say(&worker, number, Word::Answer { question, text }).await?;
        return Ok(told(context, &id));
    }
    // Where another program runs the task, that has its agent. Else this one brings it on.
    let project = context.project().await?.id;
    match observe::connect(context).await {
        Ok(running) => {
            if let Some(id) = running.answer_task(&project, number, question.as_deref(), &text).await? {
                return Ok(told(context, &id));
            }
        }
        Err(Failure::Remote { error, .. }) if error.code == "app_not_running" => {}
        Err(failure) => return Err(failure),
    }
    run::go_on(context, number, Word::Answer { question, text }).await
}

fn told(context: &Context, id: &str) -> Exit {
    let value = json!({ "ok": true, "conversationId": id, "status": "answered" });
    context.out.report(value, |out| format!("{} answered\n", out.style.green("✓")));
    Exit::Good
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<Exit> {
    run::go_on(context, args.number, Word::Resume).await
}
