//! Messages to the model, and commands that follow from them.

use std::sync::Arc;

use crossterm::event::{KeyEvent, MouseEvent};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{DiffLine, GetCostsResponse, OtherBranch, Work};
use watchfire_core::model::Question;
use watchfire_core::terminal::{Line, Snapshot};

use crate::model::{Accepted, Details};
use crate::selection::Selection;
use crate::syntax::Inks;

/// An event.
#[derive(Clone, Debug)]
pub enum Message {
    /// A key of the person.
    Key(KeyEvent),
    /// Text that the person pasted.
    Paste(String),
    /// The person's mouse.
    Mouse(MouseEvent),
    /// Columns and rows of the person's terminal.
    Resize(u16, u16),
    /// Time has passed: milliseconds since the start.
    Tick(u64),
    /// The daemon answers.
    Connected,
    /// The daemon does not answer.
    Disconnected,
    /// The daemon said that it ends.
    ShutDown,
    /// The project, as it is now.
    Project(Box<proto::Project>),
    /// Files that are no tasks, with their reasons.
    Malformed(Vec<proto::MalformedTask>),
    /// Words for the person about something that happened in the project.
    Notice(String),
    /// All tasks of the project.
    Tasks(Vec<proto::Task>),
    /// The status of the project's agents.
    Status(Box<proto::AgentStatus>),
    /// The screen of a session.
    Screen {
        /// The session.
        session: String,
        /// The screen.
        snapshot: Arc<Snapshot>,
    },
    /// The session whose screen is shown has ended; true if it crashed.
    ScreenEnded(bool),
    /// The screen of one of the sessions that are watched.
    Tile {
        /// The session.
        session: String,
        /// The screen.
        snapshot: Arc<Snapshot>,
    },
    /// Lines that have left the screen, with the number of the first.
    Scrollback {
        /// Their session.
        session: String,
        /// That number.
        from: u64,
        /// The lines.
        lines: Vec<Arc<Line>>,
    },
    /// Result of a search: the number of the line, if there is one.
    Found {
        /// The session that was searched.
        session: String,
        /// That number.
        line: Option<u64>,
    },
    /// Logs of sessions.
    Logs(Vec<proto::Log>),
    /// One log, with its content.
    Log(Box<proto::Log>),
    /// The diff of a task.
    Diff(i32, Vec<DiffLine>),
    /// The colours of a task's diff, which come after it.
    Inked(i32, Inks),
    /// The branches of tasks, and those that they have in other repositories.
    Branches(Vec<proto::Branch>, Vec<OtherBranch>),
    /// The tasks in the trash.
    Trash(Vec<proto::Task>),
    /// The costs of tasks.
    Costs(Box<GetCostsResponse>),
    /// Work that has ended, newest first.
    History(Vec<Work>),
    /// Details of a task that its file does not have.
    Details(i32, Details),
    /// All agents, of all projects.
    Inbox(Vec<proto::AgentStatus>),
    /// Something was saved.
    Saved,
    /// A task was created.
    Created(i32),
    /// The projects of the home.
    Projects(Vec<proto::Project>),
    /// Something failed, in words.
    Failed(String),
    /// A form or a typed line could not be saved, with the reason.
    NotSaved(String),
    /// An agent was asked for; the words say that it has to wait, if it does.
    Started(Option<String>),
    /// An agent could not be started, in words.
    NotStarted(String),
    /// The agent of the chat that starts automatically is missing, with the words for the person.
    NoAgent(String),
}

/// An action. Each but the first and the last is one call of the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// End the program.
    Quit,
    /// End the program, which is of no use without an agent, with these words.
    GiveUp(String),
    /// `CreateTask`.
    CreateTask(Box<proto::CreateTaskRequest>),
    /// `UpdateTask`.
    UpdateTask(Box<proto::UpdateTaskRequest>),
    /// `DeleteTask`.
    DeleteTask(i32),
    /// `RestoreTask`.
    RestoreTask(i32),
    /// `ReorderTasks`.
    ReorderTasks(Vec<i32>),
    /// `UpdateProject`.
    UpdateProject(Box<proto::UpdateProjectRequest>),
    /// `StartAgent`.
    StartAgent {
        /// `chat`, `task`, `start-all` or `wildfire`.
        mode: &'static str,
        /// For `task`: the tasks.
        tasks: Vec<i32>,
    },
    /// `StartAgent` for the chat that ended last.
    ResumeChat,
    /// `StopAgent`.
    StopAgent,
    /// `ResumeAgent`.
    ResumeAgent,
    /// `SubscribeScreen` for this session, or with an empty one for the newest.
    Follow(String),
    /// `SubscribeScreen` for each of these sessions, and for no other one.
    Watch(Vec<String>),
    /// `SendInput`.
    SendInput(Vec<u8>),
    /// `Resize`, after a while without another.
    Resize {
        /// Rows of the terminal's panel.
        rows: u16,
        /// Its columns.
        cols: u16,
    },
    /// `Answer` of the service of questions.
    Answer {
        /// The task whose agent asks.
        task: i32,
        /// The question, as it was shown.
        question: Question,
        /// The answer.
        text: String,
    },
    /// `StartAgent` for work that is sent back.
    SendBack {
        /// The task.
        task: i32,
        /// The person's words for the agent about the work.
        text: String,
    },
    /// `GetScrollback`.
    GetScrollback(u64),
    /// `ListLogs`.
    ListLogs,
    /// `GetLog`.
    GetLog(String),
    /// `DeleteLog`.
    DeleteLog(String),
    /// `MergeBranch`.
    MergeBranch(i32),
    /// `MergeTask`, where the person accepts what holds it.
    MergeTask(i32, Accepted),
    /// `UndoTask`.
    Undo(i32),
    /// `Diff`.
    GetDiff(i32),
    /// `ListBranches`.
    ListBranches,
    /// `DeleteBranch`, also with unmerged work, which is kept under a rescue ref.
    DeleteBranch {
        /// The task.
        task: i32,
        /// True for unmerged work too.
        discard: bool,
    },
    /// `PruneBranches`.
    PruneBranches,
    /// `ListTasks`, including the trash.
    ListTrash,
    /// `EmptyTrash`.
    EmptyTrash,
    /// `ListProjects`.
    ListProjects,
    /// Go to another project, and there to a task.
    OpenProject {
        /// Its id.
        project: String,
        /// The task, or 0.
        task: i32,
    },
    /// `GetCosts`, by task.
    GetCosts,
    /// `ListHistory`.
    ListHistory,
    /// `GetCosts` and `GetPolicy` of a task.
    GetDetails(i32),
    /// `GetStatus` of the daemon.
    GetInbox,
    /// `GetScrollback`, from this line upwards until one has the text.
    Find {
        /// The text.
        text: String,
        /// Search above the line with this number.
        before: u64,
    },
    /// Puts the selected text into the clipboard of the person's terminal.
    Copy(Selection),
    /// Rings the bell of the person's terminal, and lets it show these words as a notification.
    Alert(String),
    /// Opens the person's editor with this text.
    Edit(String),
}
