//! `watchfire sandbox report`: shows, control by control, what a sandbox enforces.

use clap::Args;
use serde_json::json;
use watchfire_core::ErrorKind;
use watchfire_core::orchestrator::SandboxRecord;
use watchfire_core::sandbox::{Denials, PolicyReport};

use super::{Whose, no_session};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
It says, control by control, what is enforced, by what, and why not where it is not. Without --last it is what a session
that started now would get. It changes nothing: a worktree that is made for the answer is removed again.

Examples:
  watchfire sandbox report --task 3
  watchfire sandbox report --task 3 --sandbox bwrap
  watchfire sandbox report --task 3 --last --json

Exit codes: 0 all that is required is enforced, 1 it is not and nothing would start.")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    whose: Whose,
    /// Show the rules of the last session, which may still run
    #[arg(long)]
    last: bool,
}

pub(super) async fn run(context: &Context, args: ReportArgs) -> Result<Exit> {
    let found = args.whose.find(context).await?;
    if args.last {
        let logs = context.home().await?.logs_dir(&found.id);
        let record = SandboxRecord::latest(&logs, args.whose.task)?.ok_or_else(|| no_session(&args.whose))?;
        let value = json!({
            "session": record.session, "task": record.task, "mode": record.mode, "ended": record.ended,
            "report": record.report, "denials": record.denials, "refused": record.refused,
        });
        context.out.report(value, |out| {
            let when = if record.ended { "which has ended" } else { "from its start" };
            let head = format!("{}, session {}, {when}\n", args.whose.words(), record.session);
            let seen: String = record
                .refused
                .iter()
                .map(|it| format!("refused: {}\n", text::line(&it.to_string())))
                .collect();
            head + &rendered(out, &record.report) + &seen + &refused(&record.denials)
        });
        return Ok(Exit::Good);
    }
    let (report, asked) = match args.whose.confine(&found).await {
        Ok((orchestrator, confinement)) => {
            let report = confinement.explain().await;
            let choice = confinement.choice().clone();
            drop(confinement);
            orchestrator.shutdown().await;
            // The error is returned after the shutdown, which gives the lock back.
            (report?, Some(choice))
        }
        Err(Failure::Error(error)) if error.kind() == ErrorKind::Locked => {
            (args.whose.ask(&found, error).await?.report, None)
        }
        Err(failure) => return Err(failure),
    };
    let asked_json = asked.as_ref().map(|it| json!({ "sandbox": it.value.to_string(), "by": it.from }));
    let by = asked.map(|it| format!("; {} asked for by {}", it.value, it.from)).unwrap_or_default();
    context.out.report(json!({ "report": report, "asked": asked_json }), |out| {
        format!("{}, if it started now{by}\n{}", args.whose.words(), rendered(out, &report))
    });
    Ok(Exit::Good)
}

fn rendered(_: Out, report: &PolicyReport) -> String {
    report.to_string().lines().map(|line| format!("{}\n", text::line(line))).collect()
}

/// Lists the denials of the command, or names the way to ask about one path.
pub(super) fn refused(denials: &Denials) -> String {
    match denials {
        Denials::Known(lines) if lines.is_empty() => "refused: nothing\n".to_owned(),
        Denials::Known(lines) => {
            lines.iter().map(|line| format!("refused: {}\n", text::line(line))).collect()
        }
        _ => "refused: unknown, the kernel does not report it; watchfire sandbox explain <path> names the rule for a path\n"
            .to_owned(),
    }
}
