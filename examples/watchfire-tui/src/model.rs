//! The state of the interface.

use std::collections::BTreeSet;
use std::sync::Arc;

use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::DiffLine;
use watchfire_core::model::Question;
use watchfire_core::terminal::{Line, Snapshot};

use crate::agents::Tiles;
use crate::diff::Row;
use crate::forms::{self, TaskForm};
use crate::keymap::Keymap;
use crate::layout::Areas;
use crate::lists::Listed;
use crate::selection::Selection;
use crate::syntax::Inks;
use crate::theme::Depth;

/// The connection to the daemon.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Connection {
    /// It is found or started.
    #[default]
    Starting,
    /// It answers.
    Connected,
    /// It does not answer, and is tried again.
    Lost,
    /// It said that it ends.
    ShutDown,
}

/// The panel that has the keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Focus {
    /// Tasks, definition or settings.
    #[default]
    Left,
    /// The agent's terminal, or logs.
    Right,
}

/// A tab of the left panel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LeftTab {
    /// The tasks.
    #[default]
    Tasks,
    /// The definition of the project.
    Definition,
    /// Settings of the project.
    Settings,
}

impl LeftTab {
    /// All tabs, from the left.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Definition, Self::Settings];

    /// Returns its title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Tasks => "Tasks",
            Self::Definition => "Definition",
            Self::Settings => "Settings",
        }
    }
}

/// A tab of the right panel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RightTab {
    /// The agent's terminal.
    #[default]
    Chat,
    /// Logs of sessions.
    Logs,
    /// The diff of the selected task.
    Diff,
}

impl RightTab {
    /// All tabs, from the left.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Logs, Self::Diff];

    /// Returns its title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Chat => "Chat",
            Self::Logs => "Logs",
            Self::Diff => "Diff",
        }
    }
}

/// The purpose of words to an agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Words {
    /// An answer to this question.
    Answer(Question),
    /// A complaint about its work.
    SendBack,
}

/// Something over the panels that takes all keys.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// The keys.
    Help,
    /// A new task, or one that is changed.
    Task(Box<TaskForm>),
    /// Words to the agent of a task, typed in the status bar.
    Words(Words, i32, Box<forms::Line>),
    /// Text to find in the scrollback, typed in the status bar.
    Find(Box<forms::Line>),
    /// A question in the status bar.
    Confirm(Confirm),
    /// A list to choose from.
    List(Box<Listed>),
    /// Details of a task, from this line on.
    Info(i32, u16),
}

/// A reason to hold work that the person may accept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Accepted {
    /// Conflict marks in its files.
    Marks,
    /// Changes of protected paths.
    Protected,
    /// Changes of what git or other tools run by themselves.
    Commands,
}

impl Accepted {
    /// Returns the reason with the code `held_by`, or `None` for one that cannot be accepted.
    #[must_use]
    pub fn of(held_by: &str) -> Option<Self> {
        match held_by {
            "unfinished_merge" => Some(Self::Marks),
            "protected_paths" => Some(Self::Protected),
            "git_wiring" | "tool_files" => Some(Self::Commands),
            _ => None,
        }
    }
}

/// A question that is answered by `y` or `n`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Confirm {
    /// Put tasks into the trash.
    Delete(Vec<i32>),
    /// Take back what a task has merged.
    Undo(i32),
    /// Leave while agents work.
    Quit,
    /// Stop all agents of the project.
    Stop,
    /// Remove everything in the trash for good.
    EmptyTrash,
    /// Delete the branch of a task, though its work is not merged.
    Discard(i32),
    /// Merge a task in spite of what holds it.
    Merge(i32, Accepted),
    /// Delete a log, by its id.
    DeleteLog(String),
}

/// Words in the status bar for a while.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flash {
    /// The words.
    pub text: String,
    /// True for an error.
    pub is_error: bool,
    /// Time at which they go, in the milliseconds of [`Model::now`].
    pub until: u64,
}

/// The terminal of an agent, as it is shown.
#[derive(Clone, Debug, Default)]
pub struct Terminal {
    /// The session that it belongs to. Empty before the first.
    pub session: String,
    /// Its screen.
    pub snapshot: Option<Arc<Snapshot>>,
    /// True once the session has ended.
    pub ended: bool,
    /// True if it ended with an error.
    pub crashed: bool,
    /// True once another viewer has changed the size that we gave it.
    pub resized: bool,
    /// Number of lines that the person has scrolled back. 0: the screen.
    pub back: u64,
    /// Lines that have left the screen, and the number of the first.
    pub lines: (u64, Vec<Arc<Line>>),
}

/// A log that is read.
#[derive(Clone, Debug)]
pub struct OpenLog {
    /// The log.
    pub log: Box<proto::Log>,
    /// Its text in rows of `columns`: it may be long, so that it is not laid out for each picture.
    pub rows: Vec<String>,
    /// Width of the rows. 0 before they are laid out.
    pub columns: u16,
    /// The first row that is shown.
    pub at: usize,
}

/// The logs, once they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Newest first. `None` before they were asked for.
    pub list: Option<Vec<proto::Log>>,
    /// The selected one.
    pub selected: usize,
    /// The open one.
    pub open: Option<OpenLog>,
    /// A task whose last log is opened once the list is there.
    pub wanted: Option<i32>,
}

/// The diff of a task, once it was asked for.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The task, or 0.
    pub task: i32,
    /// True if the diff may be out of date: it is requested again, and the old lines stay until the answer.
    pub is_old: bool,
    /// Time at which it was asked for.
    pub asked_at: u64,
    /// Its lines. `None` while they are on their way.
    pub lines: Option<Vec<DiffLine>>,
    /// They as rows.
    pub rows: Vec<Row>,
    /// The colours of their texts, once they are known.
    pub inks: Inks,
    /// Index of the first row on the screen.
    pub at: usize,
    /// Before and after beside each other.
    pub beside: bool,
}

/// Details of a task that its file does not have.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The cost of its sessions, in words.
    pub cost: String,
    /// Accesses that the sandbox refused to its last session.
    pub refused: Vec<String>,
}

/// The settings tab.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The selected field.
    pub selected: usize,
    /// The text of that field, while it is changed.
    pub editing: Option<forms::Line>,
}

/// The state of the interface.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The connection to the daemon.
    pub connection: Connection,
    /// Why there is none, or the project is not shown. Empty if that is not known.
    pub trouble: String,
    /// The project. Empty before it is loaded.
    pub project: proto::Project,
    /// Its tasks, in work order.
    pub tasks: Vec<proto::Task>,
    /// Files that are no tasks, with their reasons.
    pub malformed: Vec<proto::MalformedTask>,
    /// First row of the list of tasks on the screen.
    pub list_at: usize,
    /// A task that was just created, and comes with the next list.
    pub created: i32,
    /// The status of its agents.
    pub status: proto::AgentStatus,
    /// The panel that has the keys.
    pub focus: Focus,
    /// Tab of the left panel.
    pub left: LeftTab,
    /// Tab of the right panel.
    pub right: RightTab,
    /// Number of the selected task, or 0.
    pub selected: i32,
    /// Numbers of the tasks that are marked, for keys that are about several.
    pub marked: BTreeSet<i32>,
    /// Filter of the list, and true while it is typed.
    pub filter: (String, bool),
    /// The overlay, if there is one.
    pub overlay: Option<Overlay>,
    /// The overlay under the question about leaving.
    pub behind: Option<Box<Overlay>>,
    /// True while words that were typed in the status bar are on their way.
    pub sending: bool,
    /// The definition as it was edited, until it is saved.
    pub unsaved: Option<String>,
    /// Time at which the daemon ended, in the milliseconds of [`Model::now`].
    pub ended_at: u64,
    /// Words in the status bar.
    pub flash: Option<Flash>,
    /// The agent's terminal.
    pub terminal: Terminal,
    /// The reason for which the last start failed, until one succeeds.
    pub not_started: Option<String>,
    /// Logs of sessions.
    pub logs: Logs,
    /// The diff of the selected task.
    pub diff: Diff,
    /// The last task whose details were asked for, and they.
    pub details: (i32, Details),
    /// First line of the definition that is shown.
    pub definition_at: u16,
    /// The settings tab.
    pub settings: Settings,
    /// Width of the left panel, in percent.
    pub split: u16,
    /// Text selected in the right panel.
    pub selection: Option<Selection>,
    /// True while the divider is dragged.
    pub dragging: bool,
    /// True if the right panel has the whole screen.
    pub zoomed: bool,
    /// Columns and rows of the person's terminal.
    pub size: (u16, u16),
    /// Milliseconds since the start.
    pub now: u64,
    /// True for a terminal with a dark background.
    pub dark: bool,
    /// The colours that the terminal has.
    pub depth: Depth,
    /// The terminal shows ASCII alone.
    pub ascii: bool,
    /// The person's own keys.
    pub keymap: Keymap,
    /// The session whose terminal is asked for. Empty for the newest.
    pub followed: String,
    /// A session that the person has chosen while this task was selected.
    pub picked: Option<(i32, String)>,
    /// All agents side by side, while they are shown so.
    pub tiles: Option<Tiles>,
    /// Sessions whose screens are asked for, for that.
    pub watched: Vec<String>,
    /// True if the agent that begins to need the person is shown by itself.
    pub follows: bool,
    /// The agents and tasks that needed the person at the last comparison. `None` before the first.
    pub told: Option<BTreeSet<(String, &'static str)>>,
    /// The tasks that were at work at that comparison.
    pub working: BTreeSet<i32>,
    /// The task that the mouse carries to another place.
    pub carried: Option<i32>,
    /// True if that has changed the order.
    pub is_reordered: bool,
    /// The size that the agent's terminal was last given.
    pub given: (u16, u16),
}

impl Model {
    /// Returns the state at the start, in a terminal of this size.
    #[must_use]
    pub fn new(size: (u16, u16)) -> Self {
        Self { split: 40, size, dark: true, ..Self::default() }
    }

    /// Returns the places on the screen.
    #[must_use]
    pub fn areas(&self) -> Areas {
        Areas::of(self)
    }

    /// Returns true while agents work.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        // What is only held or waits for a person does not work.
        self.status.is_running || self.status.all.iter().any(|agent| agent.is_running)
    }

    /// Returns the task with this number.
    #[must_use]
    pub fn task(&self, number: i32) -> Option<&proto::Task> {
        self.tasks.iter().find(|task| task.task_number == number)
    }

    /// Returns the issue that hinders the agent.
    #[must_use]
    pub fn issue(&self) -> Option<&proto::AgentIssue> {
        self.status.issue.as_ref().filter(|issue| !issue.issue_type.is_empty())
    }

    /// Returns an agent that waits for an answer, preferably the selected task's.
    #[must_use]
    pub fn asking(&self) -> Option<&proto::AgentStatus> {
        let asks = |agent: &&proto::AgentStatus| !agent.questions.is_empty() && agent.task_number > 0;
        let mut all = self.status.all.iter().filter(asks);
        let selected = all.clone().find(|agent| agent.task_number == self.selected);
        selected.or_else(|| all.next())
    }

    /// Returns the agent that works on a task.
    #[must_use]
    pub fn agent_of(&self, number: i32) -> Option<&proto::AgentStatus> {
        self.status.all.iter().find(|agent| agent.task_number == number)
    }
}
