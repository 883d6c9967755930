//! `watchfire wait`: returns once an agent has a status.

use clap::Args;
use watchfire_client::watch_json;
use watchfire_core::observe::{Condition, Include, Target, WatchRequest};

use super::{connect, duration, told};
use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire wait 3                          until the agent of task 3 is idle; at once if it is
  watchfire wait 3 --next --timeout 10m     until it is idle again
  watchfire wait 3 --until action_required")]
pub(crate) struct WaitArgs {
    /// The session: a task, an alias or an id
    #[arg(value_name = "TARGET")]
    target: Target,
    /// The status: idle, processing, action_required, starting, error or off
    #[arg(long, value_name = "STATUS", default_value = "idle")]
    until: String,
    /// Wait for it to come again, also if it is there already
    #[arg(long)]
    next: bool,
    /// Wait at most this long (500ms, 30s, 10m)
    #[arg(long, value_name = "TIME", default_value = "10m")]
    timeout: String,
}

pub(crate) async fn run(context: &Context, args: WaitArgs) -> Result<Exit> {
    let status: Condition = format!("status:{}", args.until).parse()?;
    let until = match (args.next, args.until.as_str()) {
        // A turn may end without a change of status.
        (true, "idle") => Condition::Any(vec![status, Condition::Event("turn_completed".to_owned())]),
        _ => status,
    };
    let asked = WatchRequest::default()
        .with_until(until)
        .with_include([Include::Status, Include::Transcript])
        .with_timeout(duration("--timeout", &args.timeout)?)
        .with_accept_current(!args.next);
    let response = connect(context).await?.watch(&args.target, asked).await?;
    context.out.report(watch_json(&response), |_| told(&response));
    Ok(Exit::Good)
}
