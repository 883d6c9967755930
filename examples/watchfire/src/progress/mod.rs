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
use watchfire_core::orchestrator::{Event, EventStream, ProjectHandle, Run, Seen, Spent};
use watchfire_core::schedule::RunSummary;
use watchfire_core::session::Session;
use watchfire_core::terminal::Size;

use crate::interrupts::Interrupts;
use crate::out::Out;
use crate::terminal;

/// How often a live view is redrawn: often enough for a spinner, seldom enough for a slow line.
const FRAME: Duration = Duration::from_millis(100);
/// How long after the end of a run its last event may come.
const TAIL: Duration = Duration::from_secs(1);

/// Shows a run.
pub(crate) trait View: Send {
    /// Something happened.
    fn event(&mut self, event: &Event, now: Instant);
    /// Time passes. Called often if [`is_live`](Self::is_live).
    fn tick(&mut self, sessions: &[Session], now: Instant) {
        let _ = (sessions, now);
    }
    /// A line of our own.
    fn note(&mut self, text: &str);
    /// Whether it wants to be told of time passing.
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

/// The size of the terminals that agents get: that of the person's, within reason.
pub(crate) fn agent_size() -> Size {
    let size = terminal::size();
    Size::new(size.cols().clamp(80, 160), size.rows().clamp(24, 50))
}

/// Shows everything that happens until the run is over, and stops it on Ctrl+C. Gives what came of it, and what its
/// tasks' sessions spent.
pub(crate) async fn follow(
    run: &Run,
    project: &ProjectHandle,
    mut events: EventStream,
    interrupts: &Interrupts,
    mut view: Box<dyn View>,
) -> Result<(Arc<RunSummary>, Spent)> {
    let mut spent = Spent::default();
    let mut frames = tokio::time::interval(FRAME);
    let is_end = |event: &Event| matches!(event, Event::RunEnded { run: ended, .. } if *ended == run.id());
    let (mut asked, mut over) = (false, false);
    let summary = loop {
        tokio::select! {
            biased;
            seen = events.next() => match seen {
                Some(Seen::Event(_, event)) => {
                    view.event(&event, Instant::now());
                    spent = spent.plus(spent_in(&event));
                    over |= is_end(&event);
                }
                Some(Seen::Gap) => view.note("some events were lost: this terminal was too slow"),
                _ => break run.wait().await?,
            },
            summary = run.wait() => break summary?,
            () = interrupts.first(), if !asked => {
                asked = true;
                run.stop();
                view.note("stopping: agents are ended and their work is kept; Ctrl+C again leaves at once");
            }
            _ = frames.tick(), if view.is_live() => view.tick(&project.sessions(), Instant::now()),
        }
    };
    let rest = async {
        while !over && let Some(seen) = events.next().await {
            if let Seen::Event(_, event) = seen {
                view.event(&event, Instant::now());
                spent = spent.plus(spent_in(&event));
                over = is_end(&event);
            }
        }
    };
    // An event that was lost does not come.
    let _ = tokio::time::timeout(TAIL, rest).await;
    Ok((summary, spent))
}

fn spent_in(event: &Event) -> Spent {
    match event {
        Event::SessionEnded { task: Some(_), usage, cost, .. } => Spent::new(*usage, *cost),
        _ => Spent::default(),
    }
}
