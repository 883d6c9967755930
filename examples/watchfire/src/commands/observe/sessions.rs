//! `watchfire sessions`: lists what runs.

use clap::Args;
use serde_json::json;
use watchfire_client::{proto, session_json, work};
use watchfire_core::observe::Target;

use super::{connect, name};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = super::watch::targets("watchfire sessions\n  watchfire sessions label:ui --json"))]
pub(crate) struct SessionsArgs {
    /// Only these
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
    let row = |it: &proto::Session| {
        let (alias, project) = (text::line(&it.alias), text::line(&it.project_name));
        [
            name(&alias, 0),
            project,
            text::line(&work(&it.mode, &it.phase, it.task_number)),
            text::line(&it.backend),
            text::line(&it.status),
            text::line(&it.doing),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| text::width(&row[column])).max().unwrap_or_default();
    let line = |row: &[String; 6]| {
        let cells: Vec<_> = (0..5).map(|at| text::pad(&row[at], width(at))).collect();
        format!("{}  {}", cells.join("  "), out.style.dim(&row[5])).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
