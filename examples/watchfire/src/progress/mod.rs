//! Shows a run while it happens: as a block that is redrawn in place, as plain lines, or as JSON.

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

/// Interval between two frames of a live view: short enough for a spinner, long enough for a slow line.
const FRAME: Duration = Duration::from_millis(100);

/// A way to show a run.
pub(crate) trait View: Send {
    /// Shows a change.
    fn record(&mut self, record: &Record, now: Instant);
    /// Advances to the next frame. Called often if [`is_live`](Self::is_live).
    fn tick(&mut self, sessions: &[Session], now: Instant) {
        let _ = (sessions, now);
    }
    /// Returns true if the view shows titles and does not know the title of this task.
    fn needs_title(&self, task: TaskNumber) -> bool {
        let _ = task;
        false
    }
    /// Takes in the title that a task has now.
    fn set_title(&mut self, task: TaskNumber, title: &str) {
        let _ = (task, title);
    }
    /// Shows a line of our own.
    fn note(&mut self, text: &str);
    /// Returns true if the view must be redrawn as time passes.
    fn is_live(&self) -> bool {
        false
    }
}

/// Returns the view that fits the output.
pub(crate) fn view(out: Out, titles: BTreeMap<TaskNumber, String>) -> Result<Box<dyn View>> {
    Ok(if out.json {
        Box::new(json::Lines::new(out))
    } else if out.terminal {
        Box::new(live::Live::new(out, titles)?)
    } else {
        Box::new(plain::Lines::new(out, titles))
    })
}

/// Returns the size of the agents' terminals: the size of the person's terminal, within bounds.
pub(crate) fn agent_size() -> Size {
    let size = terminal::size();
    Size::new(size.cols().clamp(80, 160), size.rows().clamp(24, 50))
}

/// Shows everything that happens until the run is over, and stops the run on Ctrl+C. Returns the summary and the
/// spending of its tasks' sessions.
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
            // Changes first: a busy log must not wait behind frames that show it.
            biased;
            seen = changes.next() => match seen {
                Some(Seen::Record(record)) => {
                    if let Change::Life(life) = &record.change {
                        // Before the record, which is printed with the title.
                        learn_title(project, life, &mut *view).await;
                    }
                    view.record(&record, Instant::now());
                    spent = spent.plus(spent_in(&record.change));
                    if matches!(&record.change, Change::Run(ended) if ended.id == run.id() && ended.ended.is_some()) {
                        break;
                    }
                }
                // The log is bounded. The run itself is not affected.
                Some(Seen::Gap(gap)) => {
                    let lost = gap.to - gap.from + 1;
                    view.note(&format!("{lost} changes are not shown: this terminal was too slow"));
                }
                Some(_) => {}
                None => break,
            },
            // Once: afterwards `first` returns at once, and the loop would spin.
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

/// Looks up the title of a task that is new, or that its agent may have renamed.
async fn learn_title(project: &ProjectHandle, life: &Life, view: &mut dyn View) {
    let number = match life.subject {
        Subject::Task { task } if view.needs_title(task) => task,
        // A refinement may change the title, so it is read again at its end.
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
