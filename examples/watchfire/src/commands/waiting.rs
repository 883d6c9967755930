//! Asks the person on a terminal for everything that a run waits for.

use std::io::Write as _;

use tokio::sync::oneshot;
use watchfire_core::model::{Question, TaskNumber};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::schedule::{LifeId, LifeState, RunSummary};

use crate::failure::{Failure, Result};
use crate::interrupts::Interrupts;
use crate::out::Out;
use crate::worker::Worker;
use crate::{terminal, text};

/// A task that waits for the person, and its life.
struct Wanted<'a> {
    task: TaskNumber,
    life: LifeId,
    title: &'a str,
    state: &'a LifeState,
}

/// Asks the person about every task of a run that waits for them. Returns true if a task goes on now.
pub(super) async fn ask(
    out: Out,
    worker: &Worker,
    summary: &RunSummary,
    tasks: &[TaskInfo],
    interrupts: &Interrupts,
) -> Result<bool> {
    let mut goes_on = false;
    for (task, state) in &summary.open {
        let info = tasks.iter().find(|info| info.task.task_number == *task);
        let Some((info, life)) = info.and_then(|info| Some((info, info.life.as_ref()?))) else { continue };
        let wanted = Wanted { task: *task, life: life.id, title: &info.task.title, state };
        goes_on |= wanted.ask(out, worker, interrupts).await?;
        // Ctrl+C means no further question either, and no further run.
        if interrupts.happened() {
            return Ok(false);
        }
    }
    Ok(goes_on)
}

impl Wanted<'_> {
    async fn ask(&self, out: Out, worker: &Worker, interrupts: &Interrupts) -> Result<bool> {
        let Self { task, state, .. } = self;
        let title = text::line(self.title);
        if let LifeState::Asking { questions, .. } = state {
            return self.answer(out, worker, questions, interrupts).await;
        }
        let what = match state {
            LifeState::Limited { .. } => "Enter resumes it, when that is over",
            LifeState::Held { .. } | LifeState::Incomplete { .. } => "Enter tries again",
            _ => return Ok(false),
        };
        let said = text::line(&state.to_string());
        out.raw(&format!("{} #{task} {title}: {said}\n", out.style.yellow("!")));
        let Some(line) = read(&format!("  {what}; `later` leaves it: "), interrupts).await else {
            return Ok(false);
        };
        // Only Enter alone is a yes; any word leaves the task as it is.
        if !line.is_empty() {
            return Ok(false);
        }
        worker.resume(self.life).await?;
        Ok(true)
    }

    async fn answer(
        &self,
        out: Out,
        worker: &Worker,
        questions: &[Question],
        interrupts: &Interrupts,
    ) -> Result<bool> {
        for question in questions {
            let (task, title) = (self.task, text::line(self.title));
            let asked = text::lines(&question.question);
            out.raw(&format!("{} #{task} {title} asks: {asked}\n", out.style.yellow("?")));
            let prompt = "  your answer (Enter alone leaves it for later): ";
            match read(prompt, interrupts).await.filter(|line| !line.is_empty()) {
                Some(line) => match worker.answer(self.life, question, line).await {
                    Err(Failure::Remote { error, .. })
                        if ["not_found", "already_answered"].contains(&error.code.as_str()) =>
                    {
                        // What it asks now comes next.
                        out.raw(&format!("  {}\n", error.message));
                        return Ok(true);
                    }
                    answered => answered?,
                },
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Reads a line that the person types. Returns `None` at the end of the input and on Ctrl+C.
async fn read(prompt: &str, interrupts: &Interrupts) -> Option<String> {
    terminal::restore();
    let mut out = std::io::stdout();
    let _ = out.write_all(prompt.as_bytes()).and_then(|()| out.flush());
    let (tell, told) = oneshot::channel();
    // In a thread of its own, which is not joined: a read from a terminal cannot be cancelled.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        drop(tell.send(read.ok().filter(|read| *read > 0).map(|_| line.trim().to_owned())));
    });
    tokio::select! {
        line = told => line.ok().flatten(),
        () = interrupts.first() => None,
    }
}
