//! A run as it happens: a block that is redrawn in place, plain lines, or JSON.

mod board;
mod json;
mod live;
mod plain;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchfire_core::Result;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{LogStream, ProjectHandle, Record, Run, Seen, Spent};
use watchfire_core::schedule::{Change, Life, RunSummary, Subject};
use watchfire_core::session::Session;
use watchfire_core::terminal::Size;

use crate::interrupts::Interrupts;
use crate::out::Out;
use crate::terminal;

/// Interval of a live view: short enough for a spinner, long enough for a slow line.
const FRAME: Duration = Duration::from_millis(100);

/// Shows a run.
pub(crate) trait View: Send {
    /// Shows a change.
    fn record(&mut self, record: &Record, now: Instant);
    /// Time passes. Called often if [`is_live`](Self::is_live).
    fn tick(&mut self, sessions: &[Session], now: Instant) {
        let _ = (sessions, now);
    }
    /// Returns true if the view shows titles and lacks that of this task.
    fn needs_title(&self, task: TaskNumber) -> bool {
        let _ = task;
        false
    }
    /// Takes in the title that a task has now.
    fn set_title(&mut self, task: TaskNumber, title: &str) {
        let _ = (task, title);
    }
    /// A line of our own.
    fn note(&mut self, text: &str);
    /// Returns true if the view must be redrawn as time passes.
    fn is_live(&self) -> bool {
        false
    }
}

/// The view that suits the output.
pub(crate) fn view(out: Out, titles: BTreeMap<TaskNumber, String>) -> Result<Box<dyn View>> {
    Ok(if out.json {
        Box::new(json::Lines::new(out))
    } else if out.terminal {
        Box::new(live::Live::new(out, titles)?)
    } else {
        Box::new(plain::Lines::new(out, titles))
    })
}

/// Returns the size of the agents' terminals: the size of the person's terminal, within limits.
pub(crate) fn agent_size() -> Size {
    let size = terminal::size();
    Size::new(size.cols().clamp(80, 160), size.rows().clamp(24, 50))
}

/// Shows everything that happens until the run is over, and stops it on Ctrl+C. Returns its summary, and what its tasks'
/// sessions spent.
pub(crate) async fn follow(
    run: &Run,
    project: &ProjectHandle,
    mut changes: LogStream,
    interrupts: &Interrupts,
    mut view: Box<dyn View>,
) -> Result<(Arc<RunSummary>, Spent)> {
    let mut spent = Spent::default();
    let mut frames = tokio::time::interval(FRAME);
    let mut asked = false;
    loop {
        tokio::select! {
            biased;
            seen = changes.next() => match seen {
                Some(Seen::Record(record)) => {
                    if let Change::Life(life) = &record.change {
                        learn_title(project, life, &mut *view).await;
                    }
                    view.record(&record, Instant::now());
                    spent = spent.plus(spent_in(&record.change));
                    if matches!(&record.change, Change::Run(ended) if ended.id == run.id() && ended.ended.is_some()) {
                        break;
                    }
                }
                Some(Seen::Gap(gap)) => {
                    let lost = gap.to - gap.from + 1;
                    view.note(&format!("{lost} changes are not shown: this terminal was too slow"));
                }
                Some(_) => {}
                None => break,
            },
            () = interrupts.first(), if !asked => {
                asked = true;
                run.stop();
                view.note("stopping: agents are ended and their work is kept; Ctrl+C again leaves at once");
            }
            _ = frames.tick(), if view.is_live() => view.tick(&project.sessions(), Instant::now()),
        }
    }
    Ok((run.wait().await?, spent))
}

/// Looks up the title of a task that is new, or whose agent may have changed it.
async fn learn_title(project: &ProjectHandle, life: &Life, view: &mut dyn View) {
    let number = match life.subject {
        Subject::Task { task } if view.needs_title(task) => task,
        Subject::Refine { draft } if life.has_ended() || view.needs_title(draft) => draft,
        _ => return,
    };
    if let Ok(task) = project.store().get(number).await {
        view.set_title(number, &task.value.title);
    }
}

fn spent_in(change: &Change) -> Spent {
    match change {
        Change::SessionOver { end, .. } => Spent::new(end.usage, end.cost),
        _ => Spent::default(),
    }
}
