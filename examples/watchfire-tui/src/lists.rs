//! Lists to choose from: branches, the trash, work that waits in any project, and all actions.

use crossterm::event::{KeyCode, KeyEvent};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{Cost, GetCostsResponse, OtherBranch, Work};
use watchfire_core::model::Dollars;

use crate::alerts;
use crate::keymap::{self, ACTIONS, Action, Scope};
use crate::message::Command;
use crate::model::{Confirm, Model, Overlay};

/// Which list it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The branches of tasks.
    Branches,
    /// The tasks in the trash.
    Trash,
    /// Work that waits for the person, in all projects.
    Inbox,
    /// All projects.
    Projects,
    /// The costs of tasks.
    Costs,
    /// Work that has ended.
    History,
    /// Every action with its key.
    Palette,
}

/// A row of a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Row {
    /// Text on the screen.
    pub text: String,
    /// The task that it is about, or 0.
    pub task: i32,
    /// The project that it is about, if it is another one.
    pub project: String,
    /// The name of an action.
    pub action: Option<&'static str>,
    /// Its key.
    pub key: String,
}

/// A list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Which one.
    pub kind: Kind,
    /// Its rows. `None` while they are on their way.
    pub rows: Option<Vec<Row>>,
    /// Index of the selected row among the rows that match.
    pub selected: usize,
    /// Text that rows must contain.
    pub wanted: String,
}

/// Effect of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chosen {
    Nothing,
    Closed,
    /// An action, by the key that the program knows for it.
    Key(KeyEvent),
    /// The same in the agent's terminal.
    Terminal(KeyEvent),
    /// A task of this project.
    Task(i32),
    Ask(Confirm),
    Call(Command),
    /// A call after which the list is closed.
    Leave(Command),
}

/// Opens a list, and returns the call that fills it.
pub(crate) fn open(model: &mut Model, kind: Kind) -> Vec<Command> {
    let rows = (kind == Kind::Palette).then(|| {
        // Other agents are reached by keys of the list, which are there too.
        let is_here = |action: &&Action| action.name != "actions" && !action.name.ends_with("-terminal");
        let actions = ACTIONS.iter().filter(is_here);
        let row = |action: &Action| Row {
            text: action.does.to_owned(),
            key: model.keymap.shown(&[action.name]),
            action: Some(action.name),
            ..Row::default()
        };
        actions.map(row).collect()
    });
    let list = Listed { kind, rows, selected: 0, wanted: String::new() };
    model.overlay = Some(Overlay::List(Box::new(list)));
    call(kind)
}

/// Returns the call that fills a list.
pub(crate) fn call(kind: Kind) -> Vec<Command> {
    match kind {
        Kind::Branches => vec![Command::ListBranches],
        Kind::Trash => vec![Command::ListTrash],
        Kind::Inbox => vec![Command::GetInbox],
        Kind::Projects => vec![Command::ListProjects],
        Kind::Costs => vec![Command::GetCosts],
        Kind::History => vec![Command::ListHistory],
        Kind::Palette => Vec::new(),
    }
}

/// Fills the open list, if it is of this kind.
pub(crate) fn fill(model: &mut Model, (kind, rows): (Kind, Vec<Row>)) {
    if let Some(Overlay::List(list)) = &mut model.overlay
        && list.kind == kind
    {
        let before = list.shown().get(list.selected).map(|row| (row.task, row.project.clone()));
        list.rows = Some(rows);
        let is_same = |row: &&Row| before.as_ref() == Some(&(row.task, row.project.clone()));
        let same = list.shown().iter().position(|row| row.task > 0 && is_same(row));
        list.selected = same.unwrap_or(list.selected).min(list.shown().len().saturating_sub(1));
    }
}

pub(crate) fn of_branches(own: &[proto::Branch], others: &[OtherBranch]) -> (Kind, Vec<Row>) {
    let row = |branch: &proto::Branch| {
        let proto::Branch { name, status, target, ahead, behind, subject, task_number, .. } = branch;
        let of = if target.is_empty() { String::new() } else { format!(" of {target}") };
        let text = format!("{name}  {status}{of}  +{ahead} -{behind}  {subject}");
        Row { text, task: *task_number, ..Row::default() }
    };
    // Keys on a part mean the whole work: it is merged and removed together.
    let part = |other: &OtherBranch| {
        let OtherBranch { task_number, repository, name, status, target, ahead, behind, .. } = other;
        let of = if target.is_empty() { String::new() } else { format!(" of {target}") };
        let text = format!("  in {repository}: {name}  {status}{of}  +{ahead} -{behind}");
        Row { text, task: *task_number, ..Row::default() }
    };
    let is_of = |other: &OtherBranch, branch: &proto::Branch| {
        other.task_number > 0 && other.task_number == branch.task_number
    };
    let mut rows = Vec::new();
    for branch in own {
        rows.push(row(branch));
        rows.extend(others.iter().filter(|other| is_of(other, branch)).map(part));
    }
    // Their own branch is gone.
    rows.extend(others.iter().filter(|other| !own.iter().any(|branch| is_of(other, branch))).map(part));
    (Kind::Branches, rows)
}

pub(crate) fn of_trash(tasks: &[proto::Task]) -> (Kind, Vec<Row>) {
    let deleted = tasks.iter().filter(|task| !task.deleted_at.is_empty());
    let row = |task: &proto::Task| Row {
        text: format!("#{:04} {}", task.task_number, task.title),
        task: task.task_number,
        ..Row::default()
    };
    (Kind::Trash, deleted.map(row).collect())
}

/// Returns the projects, the one on the screen with a mark.
pub(crate) fn of_projects(projects: &[proto::Project], here: &str) -> (Kind, Vec<Row>) {
    let row = |project: &proto::Project| {
        let is_here = project.project_id == here;
        let more = match (project.problem.as_str(), project.status.as_str()) {
            ("", "archived") => "  (archived)".to_owned(),
            ("", _) => String::new(),
            (problem, _) => format!("  ({problem})"),
        };
        let text = format!("{} {:<24} {}{more}", if is_here { "▸" } else { " " }, project.name, project.path);
        let elsewhere = if is_here { String::new() } else { project.project_id.clone() };
        Row { text, project: elsewhere, ..Row::default() }
    };
    (Kind::Projects, projects.iter().map(row).collect())
}

/// Returns the agents that wait for the person, oldest first; `project` is the one on the screen.
pub(crate) fn of_agents(agents: &[proto::AgentStatus], project: &str) -> (Kind, Vec<Row>) {
    let has_issue =
        |agent: &proto::AgentStatus| agent.issue.as_ref().is_some_and(|issue| !issue.issue_type.is_empty());
    let mut waiting: Vec<_> = agents.iter().filter(|agent| alerts::reason(agent).is_some()).collect();
    waiting.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    let row = |agent: &&proto::AgentStatus| {
        let what = match (agent.questions.as_slice(), &agent.issue) {
            ([], Some(issue)) if has_issue(agent) => issue.message.clone(),
            ([], _) => agent.state.clone(),
            (questions, _) => format!("asks: {}", questions.join(" / ")),
        };
        let task = if agent.task_number > 0 { format!(" #{:04}", agent.task_number) } else { String::new() };
        let text = format!("{}{task} {}: {what}", agent.project_name, agent.task_title);
        let elsewhere = if agent.project_id == project { String::new() } else { agent.project_id.clone() };
        Row { text, task: agent.task_number, project: elsewhere, ..Row::default() }
    };
    (Kind::Inbox, waiting.iter().map(row).collect())
}

fn title(tasks: &[proto::Task], number: i32) -> &str {
    tasks.iter().find(|task| task.task_number == number).map_or("", |task| &task.title)
}

/// Returns the sums, then the costs of tasks, the dearest first.
pub(crate) fn of_costs(costs: &GetCostsResponse, tasks: &[proto::Task]) -> (Kind, Vec<Row>) {
    let limit = |bound: Option<u64>| {
        bound.map_or_else(String::new, |bound| format!(" of {}", Dollars::from_micros(bound)))
    };
    let number = |of: &str| of.strip_prefix('#').and_then(|number| number.parse().ok()).unwrap_or(0);
    let row = |cost: &Cost, what: &str, bound: Option<u64>| Row {
        text: format!("{:<18} {}{}  {}", cost.amount, what, limit(bound), cost.tokens),
        task: number(&cost.of),
        ..Row::default()
    };
    let mut dearest: Vec<_> = costs.costs.iter().collect();
    dearest.sort_by_key(|cost| std::cmp::Reverse(cost.micros));
    let of_task = |cost: &&Cost| {
        let what = format!("{} {}", cost.of, title(tasks, number(&cost.of)));
        row(cost, what.trim_end(), costs.task_budget)
    };
    let sums = [(&costs.today, "today, all projects", costs.day_budget), (&costs.all, "all", None)];
    let sums = sums.into_iter().filter_map(|(cost, what, bound)| Some(row(cost.as_ref()?, what, bound)));
    (Kind::Costs, sums.chain(dearest.iter().map(of_task)).collect())
}

/// Returns the work that has ended, newest first.
pub(crate) fn of_history(works: &[Work], tasks: &[proto::Task]) -> (Kind, Vec<Row>) {
    let row = |work: &Work| {
        let what = match work.task_number {
            0 => work.subject.clone(),
            number => format!("#{number:04} {}", title(tasks, number)),
        };
        let since = work.since.get(..16).unwrap_or(&work.since).replace('T', " ");
        let detail = if work.detail.is_empty() { String::new() } else { format!(": {}", work.detail) };
        Row {
            text: format!("{since}  {what}  {}{detail}", work.state),
            task: work.task_number,
            ..Row::default()
        }
    };
    (Kind::History, works.iter().map(row).collect())
}

impl Listed {
    /// Returns its title and its keys.
    pub(crate) fn words(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Branches => ("Branches", "m merge  x delete  X discard  P prune  Esc close"),
            Kind::Trash => ("Trash", "Enter restore  E empty  Esc close"),
            Kind::Inbox => ("Waiting for you", "Enter select  Esc close"),
            Kind::Projects => ("Projects", "Enter go there  Esc close"),
            Kind::Costs => ("Costs", "Enter select  Esc close"),
            Kind::History => ("History", "Enter select  Esc close"),
            Kind::Palette => ("Actions", "type to find  Enter do it  Esc close"),
        }
    }

    /// Returns the rows that match the text.
    pub(crate) fn shown(&self) -> Vec<&Row> {
        let wanted = self.wanted.to_lowercase();
        let has = |row: &&Row| wanted.split_whitespace().all(|word| row.text.to_lowercase().contains(word));
        self.rows.iter().flatten().filter(has).collect()
    }

    /// Takes in typed text, where text is looked for.
    pub(crate) fn typed(&mut self, text: &str) {
        if self.kind == Kind::Palette {
            self.wanted.push_str(text);
            self.selected = 0;
        }
    }

    pub(crate) fn key(&mut self, event: KeyEvent) -> Chosen {
        let shown = self.shown();
        let (count, row) = (shown.len(), shown.get(self.selected).map(|row| (*row).clone()));
        let step = |by: isize, at: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match event.code {
            KeyCode::Esc => return Chosen::Closed,
            KeyCode::Down => self.selected = step(1, self.selected),
            KeyCode::Up => self.selected = step(-1, self.selected),
            KeyCode::PageDown => self.selected = step(10, self.selected),
            KeyCode::PageUp => self.selected = step(-10, self.selected),
            KeyCode::Char(c) if self.kind == Kind::Palette => self.typed(&c.to_string()),
            KeyCode::Backspace if self.kind == Kind::Palette => {
                self.wanted.pop();
                self.selected = 0;
            }
            KeyCode::Char('q') => return Chosen::Closed,
            KeyCode::Char('j') => self.selected = step(1, self.selected),
            KeyCode::Char('k') => self.selected = step(-1, self.selected),
            KeyCode::Char('P') if self.kind == Kind::Branches => return Chosen::Call(Command::PruneBranches),
            KeyCode::Char('E') if self.kind == Kind::Trash && count > 0 => {
                return Chosen::Ask(Confirm::EmptyTrash);
            }
            code => return row.map_or(Chosen::Nothing, |row| self.of_row(code, &row)),
        }
        Chosen::Nothing
    }

    /// Returns the effect of a key on the selected row.
    fn of_row(&self, code: KeyCode, row: &Row) -> Chosen {
        let enter = code == KeyCode::Enter;
        match (self.kind, code) {
            (Kind::Palette, _) if enter => {
                let is_terminal =
                    |name: &str| ACTIONS.iter().any(|it| it.name == name && it.scope == Scope::Terminal);
                let chosen = if row.action.is_some_and(is_terminal) { Chosen::Terminal } else { Chosen::Key };
                row.action.and_then(keymap::known).map_or(Chosen::Nothing, chosen)
            }
            (Kind::Inbox | Kind::Projects, _) if enter && !row.project.is_empty() => {
                Chosen::Leave(Command::OpenProject { project: row.project.clone(), task: row.task })
            }
            (Kind::Projects, _) if enter => Chosen::Closed,
            (Kind::Inbox | Kind::Costs | Kind::History, _) if enter && row.task > 0 => Chosen::Task(row.task),
            (Kind::Trash, KeyCode::Enter | KeyCode::Char('u' | 'r')) => {
                Chosen::Call(Command::RestoreTask(row.task))
            }
            // The branches of others are not ours to change.
            (Kind::Branches, _) if row.task == 0 => Chosen::Nothing,
            (Kind::Branches, KeyCode::Char('m')) => Chosen::Call(Command::MergeBranch(row.task)),
            (Kind::Branches, KeyCode::Char('x') | KeyCode::Delete) => {
                Chosen::Call(Command::DeleteBranch { task: row.task, discard: false })
            }
            (Kind::Branches, KeyCode::Char('X')) => Chosen::Ask(Confirm::Discard(row.task)),
            _ => Chosen::Nothing,
        }
    }
}
