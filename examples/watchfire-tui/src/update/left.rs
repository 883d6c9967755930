//! Keys of the left panel: tasks, definition, settings.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use watchfire_client::daemon_proto as proto;
use watchfire_core::model::Question;

use super::mouse::SPLIT;
use super::{flash, show_left, show_right};
use crate::forms::{Line, TaskForm};
use crate::lists::{self, Kind};
use crate::message::Command;
use crate::model::{Accepted, Confirm, Focus, LeftTab, Model, Overlay, RightTab, Words};
use crate::{agents, tasks};

/// The fields of the settings tab.
pub(crate) const FIELDS: [&str; 6] =
    ["Name", "Color", "Default branch", "Auto-merge", "Auto-delete branch", "Auto-start tasks"];
/// Number of the fields that are texts; the others are on or off.
pub(crate) const TEXTS: usize = 3;

pub(super) fn key(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    if model.filter.1 {
        return filter(model, event);
    }
    if model.settings.editing.is_some() {
        return edit_setting(model, event);
    }
    if event.code == KeyCode::Char('c') && event.modifiers.contains(KeyModifiers::CONTROL) {
        let words = format!("{} quits", model.keymap.shown(&["quit"]));
        flash(model, &words, false);
    }
    // Others are for terminals, and would surprise here.
    if event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return Vec::new();
    }
    let at = LeftTab::ALL.iter().position(|tab| *tab == model.left).unwrap_or(0);
    match event.code {
        KeyCode::Char('?') => {
            model.overlay = Some(Overlay::Help);
            return Vec::new();
        }
        KeyCode::Char(':') => return lists::open(model, Kind::Palette),
        KeyCode::Char(digit @ '1'..='3') => {
            let tab = usize::from(digit as u8 - b'1');
            show_left(model, LeftTab::ALL[tab]);
            return Vec::new();
        }
        KeyCode::Char('l') | KeyCode::Right => {
            show_left(model, LeftTab::ALL[(at + 1).min(LeftTab::ALL.len() - 1)]);
            return Vec::new();
        }
        KeyCode::Char('h') | KeyCode::Left => {
            show_left(model, LeftTab::ALL[at.saturating_sub(1)]);
            return Vec::new();
        }
        _ => {}
    }
    match model.left {
        LeftTab::Tasks => list(model, event.code),
        LeftTab::Definition => definition(model, event.code),
        LeftTab::Settings => settings(model, event.code),
    }
}

fn list(model: &mut Model, code: KeyCode) -> Vec<Command> {
    match code {
        KeyCode::Char('j') | KeyCode::Down => tasks::select(model, 1),
        KeyCode::Char('k') | KeyCode::Up => tasks::select(model, -1),
        KeyCode::PageDown => tasks::select(model, 10),
        KeyCode::PageUp => tasks::select(model, -10),
        KeyCode::Home | KeyCode::Char('g') => tasks::select(model, isize::MIN),
        KeyCode::End | KeyCode::Char('G') => tasks::select(model, isize::MAX),
        KeyCode::Char('/') => model.filter.1 = true,
        // What is filtered away first: marks would otherwise go unseen.
        KeyCode::Esc if model.filter.0.is_empty() => model.marked.clear(),
        KeyCode::Esc => {
            model.filter.0.clear();
            tasks::keep_selected(model);
        }
        KeyCode::Char(' ') => {
            if !model.marked.remove(&model.selected) && model.selected > 0 {
                model.marked.insert(model.selected);
            }
            tasks::select(model, 1);
        }
        KeyCode::Char('a') => model.overlay = Some(Overlay::Task(Box::new(TaskForm::add()))),
        KeyCode::Char('c') => return vec![Command::StartAgent { mode: "chat", tasks: Vec::new() }],
        KeyCode::Char('C') => return vec![Command::ResumeChat],
        KeyCode::Char('S') => return vec![Command::StartAgent { mode: "start-all", tasks: Vec::new() }],
        KeyCode::Char('W') => return vec![Command::StartAgent { mode: "wildfire", tasks: Vec::new() }],
        KeyCode::Char('R') => return vec![Command::ResumeAgent],
        KeyCode::Char('A') => match model.asking() {
            Some(agent) => {
                let words = |list: &[String]| list.first().cloned().unwrap_or_default();
                let question = Question::new(words(&agent.question_ids), words(&agent.questions));
                model.overlay = Some(say(Words::Answer(question), agent.task_number));
            }
            None => flash(model, "nobody asks", false),
        },
        KeyCode::Char('b') => return lists::open(model, Kind::Branches),
        KeyCode::Char('T') => return lists::open(model, Kind::Trash),
        KeyCode::Char('I') => return lists::open(model, Kind::Inbox),
        KeyCode::Char('D') => return show_right(model, RightTab::Diff),
        KeyCode::Char('>') => split(model, 5),
        KeyCode::Char('<') => split(model, -5),
        KeyCode::Char('P') => return lists::open(model, Kind::Projects),
        KeyCode::Char('$') => return lists::open(model, Kind::Costs),
        KeyCode::Char('H') => return lists::open(model, Kind::History),
        KeyCode::Char('L') if model.selected > 0 => {
            model.logs.wanted = Some(model.selected);
            model.focus = Focus::Right;
            return show_right(model, RightTab::Logs);
        }
        KeyCode::Char('w') if agents::running(model).next().is_none() => flash(model, "nothing runs", false),
        KeyCode::Char('w') => agents::open(model),
        KeyCode::Char(']') => agents::turn(model, 1),
        KeyCode::Char('[') => agents::turn(model, -1),
        KeyCode::Char('F') => {
            model.follows = !model.follows;
            let words = match model.follows {
                true => "the agent that needs you is shown by itself",
                false => "no agent is shown by itself",
            };
            flash(model, words, false);
        }
        KeyCode::Char('X') if model.is_busy() => model.overlay = Some(Overlay::Confirm(Confirm::Stop)),
        KeyCode::Char('X') => flash(model, "nothing runs", false),
        KeyCode::Char('s' | 'r' | 't' | 'd' | 'm' | 'x') | KeyCode::Delete => return of_chosen(model, code),
        code => return of_task(model, code),
    }
    Vec::new()
}

/// Moves the divider by so many percent.
fn split(model: &mut Model, by: i16) {
    model.split = model.split.saturating_add_signed(by).clamp(SPLIT.0, SPLIT.1);
}

/// Keys that are about all marked tasks, in their order, or about the selected one. The marks are gone then.
fn of_chosen(model: &mut Model, code: KeyCode) -> Vec<Command> {
    let is_chosen = |task: &&proto::Task| match model.marked.is_empty() {
        true => task.task_number == model.selected,
        false => model.marked.contains(&task.task_number),
    };
    let chosen: Vec<_> = model.tasks.iter().filter(is_chosen).collect();
    let numbers: Vec<_> = chosen.iter().map(|task| task.task_number).collect();
    if code == KeyCode::Char('s') && chosen.iter().any(|task| task.status == "done") {
        let key = model.keymap.shown(&["ready"]);
        let what = if numbers.len() == 1 { "the task" } else { "one of them" };
        flash(model, &format!("{what} is done; {key} makes it ready again"), true);
        return Vec::new();
    }
    if numbers.is_empty() {
        return Vec::new();
    }
    if let (KeyCode::Char('m'), [task]) = (code, &chosen[..])
        && let Some(accepted) = Accepted::of(&task.held_by)
    {
        model.overlay = Some(Overlay::Confirm(Confirm::Merge(task.task_number, accepted)));
        return Vec::new();
    }
    // Those of a question stay until it is answered.
    if !matches!(code, KeyCode::Char('x') | KeyCode::Delete) {
        model.marked.clear();
    }
    let each = |command: &dyn Fn(i32) -> Command| numbers.iter().map(|number| command(*number)).collect();
    match code {
        KeyCode::Char('s') => vec![Command::StartAgent { mode: "task", tasks: numbers }],
        KeyCode::Char('r') => each(&|number| status(model, number, "ready")),
        KeyCode::Char('t') => each(&|number| status(model, number, "draft")),
        KeyCode::Char('d') => each(&|number| status(model, number, "done")),
        KeyCode::Char('m') => each(&Command::MergeBranch),
        _ => {
            model.overlay = Some(Overlay::Confirm(Confirm::Delete(numbers)));
            Vec::new()
        }
    }
}

fn say(words: Words, task: i32) -> Overlay {
    Overlay::Words(words, task, Box::new(Line::new("")))
}

/// Keys that are about the selected task.
fn of_task(model: &mut Model, code: KeyCode) -> Vec<Command> {
    let Some(task) = model.task(model.selected) else { return Vec::new() };
    let number = task.task_number;
    match code {
        KeyCode::Char('e') | KeyCode::Enter => {
            model.overlay = Some(Overlay::Task(Box::new(TaskForm::edit(task))));
            Vec::new()
        }
        KeyCode::Char('i') => {
            model.overlay = Some(Overlay::Info(number, 0));
            vec![Command::GetDetails(number)]
        }
        KeyCode::Char('B') if task.status == "done" => {
            // The agent gets the files with its next prompt; these words may do.
            let words = match task.state.as_str() {
                "conflict" => "Merge the target into your work and resolve the conflict.",
                _ => "",
            };
            model.overlay = Some(Overlay::Words(Words::SendBack, number, Box::new(Line::new(words))));
            Vec::new()
        }
        KeyCode::Char('B') => {
            flash(model, "only work that is done can be sent back", true);
            Vec::new()
        }
        // A later attempt may have ended otherwise: the daemon knows whether there was a merge.
        KeyCode::Char('U')
            if ["merged", "done"].contains(&task.state.as_str()) || task.agent_sessions > 0 =>
        {
            model.overlay = Some(Overlay::Confirm(Confirm::Undo(number)));
            Vec::new()
        }
        KeyCode::Char('U') => {
            flash(model, "only what was merged can be undone", true);
            Vec::new()
        }
        KeyCode::Char('J') => tasks::moved(model, 1).map(Command::ReorderTasks).into_iter().collect(),
        KeyCode::Char('K') => tasks::moved(model, -1).map(Command::ReorderTasks).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Gives a task another status. What a person marks as done succeeded.
fn status(model: &Model, task_number: i32, status: &str) -> Command {
    Command::UpdateTask(Box::new(proto::UpdateTaskRequest {
        project_id: model.project.project_id.clone(),
        task_number,
        status: Some(status.to_owned()),
        success: (status == "done").then_some(true),
        ..Default::default()
    }))
}

fn filter(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    match event.code {
        KeyCode::Esc => model.filter = (String::new(), false),
        KeyCode::Enter | KeyCode::Tab => model.filter.1 = false,
        KeyCode::Backspace => drop(model.filter.0.pop()),
        KeyCode::Down => tasks::select(model, 1),
        KeyCode::Up => tasks::select(model, -1),
        KeyCode::Char(c) if !event.modifiers.contains(KeyModifiers::CONTROL) => model.filter.0.push(c),
        _ => {}
    }
    tasks::keep_selected(model);
    Vec::new()
}

fn definition(model: &mut Model, code: KeyCode) -> Vec<Command> {
    let area = model.areas().list;
    let rows = crate::view::wrapped(&model.project.definition, area.width).len();
    let last = u16::try_from(rows).unwrap_or(u16::MAX).saturating_sub(1);
    let page = area.height;
    let to = match code {
        KeyCode::Char('e') | KeyCode::Enter => {
            // What could not be saved is gone on with.
            let text = model.unsaved.clone().unwrap_or_else(|| model.project.definition.clone());
            return vec![Command::Edit(text)];
        }
        KeyCode::Char('j') | KeyCode::Down => model.definition_at.saturating_add(1),
        KeyCode::Char('k') | KeyCode::Up => model.definition_at.saturating_sub(1),
        KeyCode::PageDown => model.definition_at.saturating_add(page),
        KeyCode::PageUp => model.definition_at.saturating_sub(page),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => model.definition_at,
    };
    model.definition_at = to.min(last);
    Vec::new()
}

/// Returns the text of a field of the settings.
pub(crate) fn text_of(project: &proto::Project, field: usize) -> &str {
    match field {
        0 => &project.name,
        1 => &project.color,
        _ => &project.default_branch,
    }
}

/// Returns whether a field of the settings is on.
pub(crate) fn is_on(project: &proto::Project, field: usize) -> bool {
    match field {
        3 => project.auto_merge,
        4 => project.auto_delete_branch,
        _ => project.auto_start_tasks,
    }
}

fn settings(model: &mut Model, code: KeyCode) -> Vec<Command> {
    let at = model.settings.selected;
    match code {
        KeyCode::Char('j') | KeyCode::Down => model.settings.selected = (at + 1).min(FIELDS.len() - 1),
        KeyCode::Char('k') | KeyCode::Up => model.settings.selected = at.saturating_sub(1),
        KeyCode::Enter | KeyCode::Char(' ') if at < TEXTS => {
            model.settings.editing = Some(Line::new(text_of(&model.project, at)));
        }
        KeyCode::Enter | KeyCode::Char(' ') => {
            let on = Some(!is_on(&model.project, at));
            let mut request = change(model);
            match at {
                3 => request.auto_merge = on,
                4 => request.auto_delete_branch = on,
                _ => request.auto_start_tasks = on,
            }
            return vec![Command::UpdateProject(Box::new(request))];
        }
        _ => {}
    }
    Vec::new()
}

fn change(model: &Model) -> proto::UpdateProjectRequest {
    proto::UpdateProjectRequest { project_id: model.project.project_id.clone(), ..Default::default() }
}

fn edit_setting(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    let Some(mut line) = model.settings.editing.take() else { return Vec::new() };
    match event.code {
        KeyCode::Esc => Vec::new(),
        KeyCode::Enter | KeyCode::Tab => {
            let text = line.text().trim().to_owned();
            let field = model.settings.selected;
            if text == text_of(&model.project, field) {
                return Vec::new();
            }
            if let Err(problem) = check(field, &text) {
                flash(model, problem, true);
                model.settings.editing = Some(line);
                return Vec::new();
            }
            let mut request = change(model);
            match field {
                0 => request.name = Some(text),
                1 => request.color = Some(text),
                _ => request.default_branch = Some(text),
            }
            vec![Command::UpdateProject(Box::new(request))]
        }
        _ => {
            line.key(event);
            model.settings.editing = Some(line);
            Vec::new()
        }
    }
}

/// Checks a text while it is typed, so that nothing wrong is saved.
fn check(field: usize, text: &str) -> Result<(), &'static str> {
    let is_color = |text: &str| {
        text.len() == 7 && text.starts_with('#') && text.chars().skip(1).all(|c| c.is_ascii_hexdigit())
    };
    match field {
        0 if text.is_empty() => Err("a project needs a name"),
        1 if !text.is_empty() && !is_color(text) => Err("a colour is #rrggbb"),
        2 if text.contains([' ', '~', '^', ':', '\\']) => Err("not the name of a branch"),
        _ => Ok(()),
    }
}
