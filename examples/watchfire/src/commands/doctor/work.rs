//! Reports the tasks that wait for a person, and the task files that cannot be read.

use serde_json::json;
use watchfire_core::store::{TaskQuery, TaskStore as _};

use super::{Line, Section, State};
use crate::commands::run;
use crate::context::OpenProject;
use crate::status;

pub(super) async fn look(open: &OpenProject) -> Section {
    let (mut lines, mut waiting, mut malformed) = (Vec::new(), Vec::new(), Vec::new());
    match open.store.list(&TaskQuery::new()).await {
        Ok(list) => {
            // Runs pass over such a file without a word on its task.
            for fault in &list.malformed {
                lines.push(Line::new(State::Bad, "task file", fault.to_string()));
                malformed.push(fault.to_string());
            }
            match open.infos(list.tasks.into_iter().map(|task| task.value)) {
                Ok(infos) => {
                    for info in
                        infos.iter().filter(|info| info.life.as_ref().is_some_and(|it| it.waits_for_person()))
                    {
                        let number = info.task.task_number;
                        let mut line = Line::new(State::Plain, format!("#{number}"), status::remark(info));
                        line.more.extend(info.state().and_then(|state| run::next_step_of(number, state)));
                        waiting.push(json!({
                            "task": number, "state": info.word(), "detail": info.detail(), "cure": line.more.first(),
                        }));
                        lines.push(line);
                    }
                }
                Err(error) => lines.push(Line::new(State::Bad, "journal", error.report())),
            }
        }
        Err(error) => lines.push(Line::new(State::Bad, "tasks", error.report())),
    }
    if lines.is_empty() {
        lines.push(Line::new(State::Plain, "tasks", "none waits for you"));
    }
    Section { heading: "work", lines, json: json!({ "waiting": waiting, "malformed": malformed }) }
}
