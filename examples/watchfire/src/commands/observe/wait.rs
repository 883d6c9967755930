//! `watchfire wait`: returns once an agent has a status.

use std::time::Instant;

use clap::Args;
use watchfire_client::{Client, watch_json};
use watchfire_core::observe::{Condition, Include, Target, WatchRequest};

use super::{connect, duration, not_yet, told};
use crate::away;
use crate::context::{Context, home_path};
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
    let (timeout, began) = (duration("--timeout", &args.timeout)?, Instant::now());
    let mut asked = WatchRequest::default()
        .with_until(until)
        .with_include([Include::Status, Include::Transcript])
        .with_accept_current(!args.next);
    let mut client = connect(context).await?;
    let (home, here) = (home_path()?, client.here().cloned());
    if args.next {
        // A turn that ends while no daemon runs counts, too.
        let now = WatchRequest::default().with_include([Include::Status]);
        if let Ok(now) = client.watch(&args.target, now).await {
            asked = asked.with_since(now.cursor);
        }
    }
    let mut is_told = false;
    let response = loop {
        let asked = asked.clone().with_timeout(timeout.saturating_sub(began.elapsed()));
        let error = match client.watch(&args.target, asked).await {
            // A daemon that ends closes its sessions, whose agents go on.
            Err(error) if error.is_gone() || error.code == "target_off" => error,
            answered => break answered?,
        };
        if away::left(&home).await?.is_empty() {
            return Err(error.into());
        }
        if error.is_gone() && !context.out.json && !std::mem::replace(&mut is_told, true) {
            eprintln!("watchfire: {}", away::WAITING);
        }
        let again = async || {
            let client = Client::connect(&home, here.clone()).await?;
            let sessions = client.sessions(Some(&args.target), true).await.map_err(not_yet)?;
            let goes_on = match sessions.first() {
                Some(session) => away::goes_on(&home, &session.id).await,
                None => false,
            };
            if goes_on || error.is_gone() { Ok(client) } else { Err(error.clone()) }
        };
        client = away::back(error.clone(), std::future::pending(), again).await?;
    };
    context.out.report(watch_json(&response), |_| told(&response));
    Ok(Exit::Good)
}
