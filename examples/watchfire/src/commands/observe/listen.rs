//! `watchfire listen`: the oldest question that waits for the person, or the next one.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::{connect, duration, name};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire listen                   waits until an agent asks, and shows the question
  watchfire listen --timeout 0s      only what is asked already
  watchfire listen --peers           also what agents ask each other; watchfire answer ID answers it in their place")]
pub(crate) struct ListenArgs {
    /// Also questions between agents
    #[arg(long)]
    peers: bool,
    /// Wait at most this long (500ms, 30s, 10m). Default: no limit
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

pub(crate) async fn run(context: &Context, args: ListenArgs) -> Result<Exit> {
    let timeout = match args.timeout.as_deref() {
        None => None,
        // No time limit, which other durations are, may be zero.
        Some("0" | "0s" | "0ms") => Some(Duration::ZERO),
        Some(time) => Some(duration("--timeout", time)?),
    };
    let heard = connect(context).await?.listen(args.peers, timeout).await?;
    let value = heard.as_ref().map_or(Value::Null, |heard| {
        json!({
            "conversationId": heard.conversation_id, "fromAgentId": heard.session_id, "alias": heard.alias,
            "project": heard.project_id, "taskId": (heard.task_number > 0).then_some(heard.task_number),
            "question": heard.question, "asked": (!heard.asked.is_empty()).then_some(&heard.asked),
        })
    });
    context.out.report(json!({ "ok": true, "pending": value }), |_| match &heard {
        None => "nobody asks\n".to_owned(),
        Some(heard) => {
            let from = match heard.alias.is_empty() {
                true => "the person".to_owned(),
                false => name(&heard.alias, heard.task_number),
            };
            let asked = match heard.asked.is_empty() {
                true => String::new(),
                false => {
                    format!(" asks {} ({})", text::line(&heard.asked), text::line(&heard.conversation_id))
                }
            };
            format!("{from}{asked}: {}\n", text::lines(heard.question.trim_end()))
        }
    });
    Ok(Exit::Good)
}
