//! `watchfire answer` and `watchfire resume`: bring on a task that waits for the person.

use clap::Args;
use watchfire_core::model::TaskNumber;

use crate::commands::run::{self, Word};
use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
pub(crate) struct AnswerArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    /// The answer
    text: String,
    /// The id of the question, if the agent asks several
    #[arg(long, value_name = "ID")]
    question: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
}

pub(crate) async fn answer(context: &Context, args: AnswerArgs) -> Result<Exit> {
    let AnswerArgs { number, text, question } = args;
    run::go_on(context, number, Word::Answer { question, text }).await
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<Exit> {
    run::go_on(context, args.number, Word::Resume).await
}
