//! `watchfire sessions`: lists what runs.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use watchfire_client::{proto, session_json, work};
use watchfire_core::backend::Usage;
use watchfire_core::model::Timestamp;
use watchfire_core::observe::Target;
use watchfire_core::orchestrator::Spent;

use super::{connect, name};
use crate::context::{Context, clock};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = super::watch::targets("watchfire sessions\n  watchfire sessions label:ui --json"))]
pub(crate) struct SessionsArgs {
    /// Only these sessions
    #[arg(value_name = "TARGET")]
    target: Option<Target>,
    /// Also sessions that have ended, as long as their logs are kept
    #[arg(long)]
    ended: bool,
}

pub(crate) async fn run(context: &Context, args: SessionsArgs) -> Result<Exit> {
    let sessions = connect(context).await?.sessions(args.target.as_ref(), args.ended).await?;
    let listed: Vec<_> = sessions.iter().map(session_json).collect();
    context.out.report(json!({ "sessions": listed }), |out| list(out, &sessions));
    Ok(Exit::Good)
}

fn list(out: Out, sessions: &[proto::Session]) -> String {
    if sessions.is_empty() {
        return "no session runs\n".to_owned();
    }
    let now = clock().now();
    let row = |it: &proto::Session| {
        let (alias, project) = (text::line(&it.alias), text::line(&it.project_name));
        [
            name(&alias, 0),
            project,
            text::line(&work(&it.mode, &it.phase, it.task_number)),
            text::line(&it.backend),
            text::line(&it.status),
            if it.running { runs_for(&it.started_at, &now) } else { String::new() },
            spent(it),
            text::line(&it.doing),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| text::width(&row[column])).max().unwrap_or_default();
    let line = |row: &[String; 8]| {
        let cells = (0..7).filter(|at| width(*at) > 0).map(|at| text::pad(&row[at], width(at)));
        format!("{}  {}", cells.collect::<Vec<_>>().join("  "), out.style.dim(&row[7])).trim_end().to_owned()
            + "\n"
    };
    rows.iter().map(line).collect()
}

/// Returns the time since its start.
fn runs_for(started_at: &str, now: &Timestamp) -> String {
    let Ok(started_at) = started_at.parse::<Timestamp>() else { return String::new() };
    let millis = now.unix_millis().saturating_sub(started_at.unix_millis());
    text::elapsed(Duration::from_millis(u64::try_from(millis).unwrap_or_default()))
}

/// Returns the tokens and the cost so far. Empty before the first count.
fn spent(session: &proto::Session) -> String {
    let counted = session.usage.unwrap_or_default();
    let mut usage = Usage::default();
    usage.input_tokens = counted.input_tokens;
    usage.output_tokens = counted.output_tokens;
    usage.cache_read_tokens = counted.cache_read_tokens;
    usage.cache_write_tokens = counted.cache_write_tokens;
    let spent = Spent::new(usage, session.cost_micros);
    if spent.is_nothing() { String::new() } else { spent.to_string() }
}
