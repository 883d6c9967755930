//! `watchfire watch`: what is known of one session, at once or when a condition comes true.

use clap::Args;
use watchfire_client::watch_json;
use watchfire_core::observe::{Condition, Include, Target, WatchRequest};

use super::follow::{self, FollowArgs};
use super::{connect, duration, told};
use crate::context::Context;
use crate::failure::{Exit, Result};

pub(super) const TARGETS: &str = "\
Targets: a task (3, project:3), an alias (brave-otter), an id, all, backend:NAME, mode:NAME, project:NAME, label:NAME.";

/// Returns [`TARGETS`] and examples, as the end of a help text.
pub(super) fn targets(examples: &str) -> String {
    format!("{TARGETS}\n\nExamples:\n  {examples}")
}

#[derive(Args, Debug)]
#[command(after_help = "\
Conditions: status:idle, output:TEXT, transcript:TEXT, event:turn_completed, delivery:submitted, issue:any; several
--until are true with the first of them; all(status:idle, output:OK) is true with the last.

Examples:
  watchfire watch 3                                    the agent of task 3, and what it said last
  watchfire watch 3 --until status:idle --timeout 10m
  watchfire watch brave-otter --until 'output:tests passed' --json")]
pub(crate) struct WatchArgs {
    /// The session: a task, an alias or an id
    #[arg(value_name = "TARGET")]
    target: Target,
    /// Only what came after this cursor of an earlier answer
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Wait until this condition is true
    #[arg(long, value_name = "CONDITION")]
    until: Vec<String>,
    /// Wait at most this long (500ms, 30s, 10m), by default 30s
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// What the answer includes: status, transcript, output, events, delivery, agent, raw_output
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    include: Vec<Include>,
    /// Add the output with its escape sequences
    #[arg(long)]
    raw: bool,
    /// At most this many bytes of output, and of transcript
    #[arg(long, value_name = "BYTES", default_value_t = TAIL, conflicts_with = "follow")]
    tail: usize,
    /// The records as they come, as `watchfire follow` shows them
    #[arg(long, hide = true, conflicts_with_all = ["until", "raw", "include"])]
    follow: bool,
}

/// Time that a watch waits.
const WAIT: &str = "30s";
/// Bytes of output and of transcript that an answer has at most: what fits into a model's context beside its work.
const TAIL: usize = 16 * 1024;

pub(crate) async fn run(context: &Context, args: WatchArgs) -> Result<Exit> {
    if args.follow {
        let since = args.since.into_iter().collect();
        return follow::run(context, FollowArgs::of(args.target, since, args.timeout)).await;
    }
    let mut include = if args.include.is_empty() { Include::defaults() } else { args.include };
    if args.raw {
        include.push(Include::RawOutput);
    }
    let mut asked = WatchRequest::default()
        .with_include(include)
        .with_tail_bytes(args.tail)
        .with_timeout(duration("--timeout", args.timeout.as_deref().unwrap_or(WAIT))?);
    // Here and not as an argument, so that a wrong one has its code.
    let conditions = args.until.iter().map(|until| until.parse::<Condition>());
    match conditions.collect::<std::result::Result<Vec<_>, _>>()?.as_slice() {
        [] => {}
        [one] => asked = asked.with_until(one),
        several => asked = asked.with_until(Condition::Any(several.to_vec())),
    }
    if let Some(since) = args.since {
        asked = asked.with_since(since);
    }
    let response = connect(context).await?.watch(&args.target, asked).await?;
    let raw = response.raw_output.as_ref().filter(|_| args.raw).map(|output| output.text.clone());
    match raw {
        // What was asked for as it is goes out as it is.
        Some(raw) if !context.out.json => context.out.raw(&raw),
        _ => context.out.report(watch_json(&response), |_| told(&response)),
    }
    Ok(Exit::Good)
}
