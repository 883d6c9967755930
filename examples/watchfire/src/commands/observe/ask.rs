//! `watchfire ask`: asks an agent that runs, and shows its answer.

use clap::Args;
use serde_json::json;
use watchfire_core::observe::Target;

use super::send::{TextArgs, words};
use super::{connect, duration, name};
use crate::away;
use crate::context::{Context, home_path};
use crate::failure::{Exit, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire ask 3 'which port do you use?'
  watchfire ask brave-otter --timeout 2m --file question.md")]
pub(crate) struct AskArgs {
    /// The session: a task, an alias or an id
    #[arg(value_name = "TARGET")]
    target: Target,
    #[command(flatten)]
    text: TextArgs,
    /// Wait at most this long (500ms, 30s, 10m)
    #[arg(long, value_name = "TIME", default_value = "10m")]
    timeout: String,
}

pub(crate) async fn run(context: &Context, args: AskArgs) -> Result<Exit> {
    let question = words(&args.text)?;
    let timeout = duration("--timeout", &args.timeout)?;
    let answered = match connect(context).await?.ask(&args.target, &question, Some(timeout)).await {
        // It is not asked again: the agent may have got the question.
        Err(error) if error.is_gone() && !away::left(&home_path()?).await?.is_empty() => {
            let hint = format!(
                "watchfire daemon start takes its agents over; watchfire watch {} then shows whether it got the question",
                args.target
            );
            return Err(error.with_hint(hint).into());
        }
        answered => answered?,
    };
    let value = json!({
        "ok": true, "conversationId": answered.conversation_id, "session": answered.session_id,
        "alias": answered.alias, "answer": answered.answer, "status": answered.status,
    });
    context.out.report(value, |_| {
        let who = name(&answered.alias, answered.task_number);
        let refused = matches!(answered.status.as_str(), "blocked" | "failed");
        let status = if refused { format!(" ({})", answered.status) } else { String::new() };
        format!("{who}{status}: {}\n", text::lines(answered.answer.trim_end()))
    });
    Ok(Exit::Good)
}
