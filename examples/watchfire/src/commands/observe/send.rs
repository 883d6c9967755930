//! `watchfire send`: brings a text to agents that run.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use watchfire_client::{ApiError, SendOptions, delivery_json, proto, watch_json};
use watchfire_core::Error;
use watchfire_core::observe::Target;

use super::{connect, duration, name, told};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};

/// Upper bound for a text. A longer one belongs into a file of the project.
const LIMIT: u64 = 1 << 20;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire send 3 'use the other port'
  watchfire send 3 --wait-until idle 'run the tests'    and show what the agent said
  watchfire send project:shop --file note.md")]
pub(crate) struct SendArgs {
    /// The sessions: a task, an alias, an id, all, backend:NAME, mode:NAME, project:NAME or label:NAME
    #[arg(value_name = "TARGET")]
    target: Target,
    #[command(flatten)]
    text: TextArgs,
    /// Wait until the agent has this status in the turn that the text begins
    #[arg(long, value_name = "STATUS")]
    wait_until: Option<String>,
    /// Wait at most this long (500ms, 30s, 10m). Default: 10m; without --wait-until 5s, after which a text for a busy agent stays
    /// in line
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

/// The text, in one of three ways.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// The text
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "stdin"], allow_hyphen_values = true)]
    text: Option<String>,
    /// Take the text from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "stdin"])]
    file: Option<PathBuf>,
    /// Take the text from standard input
    #[arg(long, conflicts_with = "text")]
    stdin: bool,
}

pub(crate) async fn run(context: &Context, args: SendArgs) -> Result<Exit> {
    let text = words(&args.text)?;
    let timeout = args.timeout.as_deref().map(|it| duration("--timeout", it)).transpose()?;
    let options = SendOptions { wait_until: args.wait_until, timeout };
    let sent = connect(context).await?.send(&args.target, &text, options).await?;
    let details: Vec<_> = sent.delivery.iter().map(delivery_json).collect();
    let failed = sent.delivery.iter().find_map(|detail| detail.error.clone());
    // One that did not get it is enough: nothing on stdout then, and all details on stderr.
    if let Some(error) = failed.or_else(|| sent.watch_error.clone()) {
        let told = ApiError::new(error.code, error.message);
        return Err(Failure::Remote { error: told, more: vec![("delivery", details.into())] });
    }
    let mut value = json!({ "ok": true, "target": args.target.to_string(), "delivery": details });
    if let Some(response) = &sent.watch {
        value["watch"] = watch_json(response);
    }
    context.out.report(value, |_| match &sent.watch {
        Some(response) => told(response),
        None => sent.delivery.iter().map(line).collect(),
    });
    Ok(Exit::Good)
}

fn line(detail: &proto::DeliveryDetail) -> String {
    let what = match detail.delivery_state.as_str() {
        "pending" => "its agent is busy; the text is in line",
        other => other,
    };
    format!("{}: {what}\n", name(&detail.name, 0))
}

/// Returns the text.
pub(super) fn words(args: &TextArgs) -> Result<String> {
    let text = read(args)?;
    if text.trim().is_empty() {
        return Err(Failure::usage("the text is empty", "give one, or --file FILE, or --stdin"));
    }
    Ok(text)
}

fn read(args: &TextArgs) -> Result<String> {
    let mut text = String::new();
    let read = match (&args.text, &args.file) {
        (Some(text), _) => return Ok(text.clone()),
        (None, Some(file)) => {
            let failed = |e| Error::io("opening the text", e).with_path(file);
            std::fs::File::open(file).map_err(failed)?.take(LIMIT + 1).read_to_string(&mut text)
        }
        (None, None) => std::io::stdin().take(LIMIT + 1).read_to_string(&mut text),
    };
    read.map_err(|e| Error::io("reading the text", e))?;
    if text.len() as u64 > LIMIT {
        return Err(Failure::usage("the text is longer than 1 MiB", "put it into a file, and send its name"));
    }
    Ok(text)
}
