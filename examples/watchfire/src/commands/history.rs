//! `watchfire history` and `watchfire queue`: the work that has ended, and the work that has not.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use watchfire_client::Daemon;
use watchfire_client::work_proto::{ListQueueRequest, Work};
use watchfire_core::journal::Journal;
use watchfire_core::schedule::{Ledger, LifeState, Wait};

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Newest first. A piece of work is one request for a task, a chat, or a step of wildfire, with all its attempts.

Examples:
  watchfire history                   what ended lately, and how
  watchfire history --limit 200
  watchfire history --before 40       older work")]
pub(crate) struct HistoryArgs {
    /// Number of entries to show, at most 200
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Show only work older than the entry with this id
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    before: u64,
}

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<Exit> {
    let project = context.project().await?;
    let dir = project.home.state_dir(&project.id);
    let answer = watchfired::history(&read(&dir)?, &dir, args.before, args.limit)?;
    let value = json!({ "history": answer.works.iter().map(value).collect::<Vec<_>>(), "next": answer.next });
    context.out.report(value, |out| match answer.works.is_empty() {
        true => "nothing has ended yet\n".to_owned(),
        false => table(out, &answer.works),
    });
    Ok(Exit::Good)
}

/// Shows the work that was started and has not ended, and the reason why some of it waits.
pub(crate) async fn queue(context: &Context) -> Result<Exit> {
    let project = context.project().await?;
    // The program that runs them knows what has not begun, too.
    let asked = match Daemon::connect(project.home.path()).await {
        Ok(daemon) => {
            let request = ListQueueRequest { project_id: project.id.to_string() };
            daemon.reports().list_queue(request).await.ok()
        }
        Err(_) => None,
    };
    let works = match asked {
        Some(queue) => queue.into_inner().works,
        None => watchfired::queue(&read(&project.home.state_dir(&project.id))?).works,
    };
    let value = json!({ "queue": works.iter().map(value).collect::<Vec<_>>() });
    context.out.report(value, |out| match works.is_empty() {
        true => "nothing that was started is at work or waits; watchfire task list shows what is ready\n"
            .to_owned(),
        false => table(out, &works),
    });
    Ok(Exit::Good)
}

/// Reads what is under way in a project, whichever program has it open: that needs no lock.
fn read(state_dir: &Path) -> Result<Ledger> {
    let journal = state_dir.join("journal");
    let is_open = Journal::writer(&journal).is_some();
    let mut ledger = Journal::read(journal)?.0.ledger;
    // The journal of a program that has ended still has its work, which goes on when a person or the daemon says so.
    for life in ledger.lives.values_mut().filter(|life| !is_open && !life.waits_for_person()) {
        life.state = LifeState::waiting(Wait::Resume);
    }
    Ok(ledger)
}

fn value(work: &Work) -> Value {
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "id": (work.life_id > 0).then_some(work.life_id),
        "task": (work.task_number > 0).then_some(work.task_number),
        "subject": work.subject,
        "run": (work.run_id > 0).then_some(work.run_id),
        "state": work.state,
        "detail": set(&work.detail),
        "began_at": work.began_at,
        "since": work.since,
        "attempt": work.attempt,
        "agent": set(&work.agent),
        "target": set(&work.target),
    })
}

fn table(out: Out, works: &[Work]) -> String {
    let subject = |work: &Work| match (work.task_number, work.subject.as_str()) {
        (0, subject) => subject.to_owned(),
        (number, "task") => format!("#{number:04}"),
        (number, subject) => format!("{subject} #{number:04}"),
    };
    let time = |at: &str| at.parse().map_or_else(|_| at.to_owned(), |at| text::minute(&at));
    let rows: Vec<_> = works
        .iter()
        .map(|work| {
            [
                if work.life_id > 0 { format!("{:>5}", work.life_id) } else { String::new() },
                time(&work.since),
                subject(work),
                work.state.clone(),
            ]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| text::width(&row[column])).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let lines = rows.iter().zip(works).map(|(row, work)| {
        let columns: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| text::pad(&text::line(cell), width)).collect();
        let detail = text::line(&work.detail);
        format!("{}\n", format!("{}  {}", columns.join("  "), out.style.dim(&detail)).trim_end())
    });
    lines.collect()
}
