//! Reports the tasks that wait for a person, and the task files that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::json;
use watchfire_core::model::{KeyFile, Settings, Task, TaskNumber, TaskStatus, unknown_keys};
use watchfire_core::store::{TaskList, TaskQuery, TaskStore as _};

use super::{Line, Section, State, agents};
use crate::commands::run;
use crate::context::OpenProject;
use crate::status;

pub(super) async fn look(open: &OpenProject, settings: &Settings) -> Section {
    let (mut lines, mut waiting, mut malformed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unknown, mut told) = (Vec::new(), BTreeSet::new());
    match open.store.list(&TaskQuery::new()).await {
        Ok(list) => {
            // Runs pass over such a file without a word on its task.
            for fault in &list.malformed {
                lines.push(Line::new(State::Bad, "task file", fault.to_string()));
                malformed.push(fault.to_string());
            }
            lines.extend(list.tasks.iter().filter_map(|task| never_starts(&task.value, &list)));
            lines.extend(without_their_agents(&list, settings));
            for task in list.tasks.iter().filter(|task| task.value.status != TaskStatus::Done) {
                for key in unknown_keys(KeyFile::Task, &task.value) {
                    // One that resembles none may be meant for another program, in all of its tasks.
                    let is_new = told.insert(key.path.clone());
                    if key.nearest.is_none() && !is_new {
                        continue;
                    }
                    let state = if key.nearest.is_some() { State::Bad } else { State::Plain };
                    lines.push(Line::new(state, format!("#{}", task.value.task_number), key.to_string()));
                    unknown.push(key.to_string());
                }
            }
            match open.infos(list.tasks.into_iter().map(|task| task.value)) {
                Ok(infos) => {
                    for info in
                        infos.iter().filter(|info| info.life.as_ref().is_some_and(|it| it.waits_for_person()))
                    {
                        let number = info.task.task_number;
                        let mut line =
                            Line::new(State::Plain, format!("#{number}"), status::remark(info, &[]));
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
    let strays = strays(&open.root.join(".watchfire/tasks"));
    lines.extend(strays.iter().map(|name| {
        let why = format!("tasks/{name} is no task: its name is not NNNN.yaml, such as 0003.yaml");
        Line::new(State::Plain, "task file", why)
    }));
    Section {
        heading: "work",
        lines,
        json: json!({ "waiting": waiting, "malformed": malformed, "unknown": unknown, "strays": strays }),
    }
}

/// Names the tasks whose own agent a run would not find, a line for each agent. One that only drafts want hinders no run.
fn without_their_agents(list: &TaskList, settings: &Settings) -> Vec<Line> {
    let mut having = BTreeMap::<_, Vec<_>>::new();
    let open = list.tasks.iter().map(|task| &task.value).filter(|task| task.status != TaskStatus::Done);
    for task in open {
        if let Some(agent) = &task.agent {
            having.entry(agent.as_str()).or_default().push(task);
        }
    }
    let missing = |(agent, tasks): (_, Vec<&Task>)| {
        let error = agents::locate(settings, agent).err()?;
        let is_wanted_now = tasks.iter().any(|task| task.status == TaskStatus::Ready);
        let state = if is_wanted_now { State::Bad } else { State::Plain };
        let told = |task: &&Task| match task.status {
            TaskStatus::Draft => format!("#{} (a draft)", task.task_number),
            _ => format!("#{}", task.task_number),
        };
        let tasks: Vec<_> = tasks.iter().map(told).collect();
        Some(Line::new(state, agent, format!("{}, wanted by {}", error.report(), tasks.join(", "))))
    };
    having.into_iter().filter_map(missing).collect()
}

/// Returns the names of the files in the folder that no program takes for a task.
fn strays(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut strays: Vec<_> = names.filter(|name| is_stray(name)).collect();
    // The order of a folder's entries is arbitrary.
    strays.sort();
    strays
}

fn is_stray(name: &str) -> bool {
    // Watchfire 10 keeps measurements beside a task.
    let stem = name.strip_suffix(".yaml").map(|stem| stem.strip_suffix(".metrics").unwrap_or(stem));
    let is_number = |stem: &str| {
        stem.bytes().all(|byte| byte.is_ascii_digit())
            && stem.len() <= 8
            && stem.parse::<TaskNumber>().is_ok()
    };
    // Editors and programs write such files for a moment.
    let is_temporary = name.starts_with('.') || name.ends_with(".tmp") || name.ends_with('~');
    !is_temporary && !stem.is_some_and(is_number)
}

/// Returns what to say of a task that no run ever starts.
fn never_starts(task: &Task, list: &TaskList) -> Option<Line> {
    let all: Vec<_> = list.tasks.iter().map(|task| &task.value).collect();
    let number = task.task_number;
    let why = status::never_starts(task, &all, &list.malformed)?;
    let mut line = Line::new(State::Bad, format!("#{number}"), why);
    line.more.push(format!("watchfire task edit {number} --depends-on ''"));
    Some(line)
}
