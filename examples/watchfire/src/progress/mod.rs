//! Shows a run while it happens: as a block that is redrawn in place, as plain lines, or as JSON.

mod board;
mod followed;
mod json;
mod live;
mod plain;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use watchfire_core::Result;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::Record;
use watchfire_core::schedule::Change;
use watchfire_core::terminal::Size;

use crate::out::Out;
use crate::terminal;
pub(crate) use followed::Followed;

/// Interval between two frames of a live view: short enough for a spinner, long enough for a slow line.
const FRAME: Duration = Duration::from_millis(100);

/// A way to show a run.
pub(crate) trait View: Send {
    /// Shows a change.
    fn record(&mut self, record: &Record, now: Instant);
    /// Shows a life of the run that was under way before the run began.
    fn change(&mut self, change: &Change, now: Instant) {
        let _ = (change, now);
    }
    /// Advances to the next frame, with what each session does by its id. Called often if [`is_live`](Self::is_live).
    fn tick(&mut self, doing: &HashMap<String, String>, now: Instant) {
        let _ = (doing, now);
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
    } else if out.terminal && !terminal::is_dumb() {
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
