//! Forms: a line of text, and a task.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::TextArea;
use watchfire_client::daemon_proto as proto;

/// One line of text that is typed.
#[derive(Clone, Debug)]
pub struct Line(pub TextArea<'static>);

impl Line {
    /// Returns a line with this text, and the cursor at its end.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut area = TextArea::new(vec![text.to_owned()]);
        area.move_cursor(ratatui_textarea::CursorMove::End);
        Self(area)
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.lines().concat()
    }

    /// Takes in a key. Enter is the caller's.
    pub fn key(&mut self, key: KeyEvent) {
        if key.code != KeyCode::Enter {
            self.0.input(key);
        }
    }
}

/// A field of the form of a task.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Field {
    /// Its title.
    #[default]
    Title,
    /// The instruction.
    Prompt,
    /// The acceptance criteria.
    Criteria,
    /// Draft or ready.
    Status,
}

impl Field {
    const ALL: [Self; 4] = [Self::Title, Self::Prompt, Self::Criteria, Self::Status];

    fn by(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|field| *field == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// The form of a task.
#[derive(Clone, Debug)]
pub struct TaskForm {
    /// The task that is changed, or `None` for a new one.
    pub number: Option<i32>,
    /// The field that has the keys.
    pub field: Field,
    /// Its title.
    pub title: Line,
    /// The instruction.
    pub prompt: TextArea<'static>,
    /// The acceptance criteria.
    pub criteria: TextArea<'static>,
    /// True if it may start.
    pub ready: bool,
    /// The reason for which it cannot be saved.
    pub problem: Option<&'static str>,
    /// The texts as they were, so that only what changed is sent.
    before: Option<[String; 4]>,
}

fn area(text: &str) -> TextArea<'static> {
    TextArea::new(text.split('\n').map(str::to_owned).collect())
}

impl TaskForm {
    /// Returns the form of a new task.
    #[must_use]
    pub fn add() -> Self {
        Self {
            number: None,
            field: Field::default(),
            title: Line::new(""),
            prompt: area(""),
            criteria: area(""),
            ready: false,
            problem: None,
            before: None,
        }
    }

    /// Returns the form of a task that is changed.
    #[must_use]
    pub fn edit(task: &proto::Task) -> Self {
        let mut form = Self {
            number: Some(task.task_number),
            title: Line::new(&task.title),
            prompt: area(&task.prompt),
            criteria: area(&task.acceptance_criteria),
            ready: task.status == "ready",
            ..Self::add()
        };
        form.before = Some(form.texts());
        form
    }

    fn texts(&self) -> [String; 4] {
        let status = if self.ready { "ready" } else { "draft" };
        [
            self.title.text(),
            self.prompt.lines().join("\n"),
            self.criteria.lines().join("\n"),
            status.to_owned(),
        ]
    }

    /// Takes in a key that is not one of the overlay's own.
    pub fn key(&mut self, key: KeyEvent) {
        self.problem = None;
        match (key.code, self.field) {
            (KeyCode::BackTab, _) => self.field = self.field.by(3),
            // In a text it is a character of it. Shift+Tab leaves a text too.
            (KeyCode::Tab, Field::Title | Field::Status) => self.field = self.field.by(1),
            (KeyCode::Enter | KeyCode::Down, Field::Title) => self.field = self.field.by(1),
            (KeyCode::Up, Field::Status) => self.field = self.field.by(3),
            (KeyCode::Down, _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.field = self.field.by(1);
            }
            (KeyCode::Up, _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.field = self.field.by(3);
            }
            (KeyCode::Char(' ') | KeyCode::Enter | KeyCode::Left | KeyCode::Right, Field::Status) => {
                self.ready = !self.ready;
            }
            (_, Field::Title) => self.title.key(key),
            (KeyCode::Tab, Field::Prompt) => self.prompt.insert_char('\t'),
            (KeyCode::Tab, Field::Criteria) => self.criteria.insert_char('\t'),
            (_, Field::Prompt) => drop(self.prompt.input(key)),
            (_, Field::Criteria) => drop(self.criteria.input(key)),
            (_, Field::Status) => {}
        }
    }

    /// Takes in text that was pasted.
    pub fn paste(&mut self, text: &str) {
        match self.field {
            Field::Title => drop(self.title.0.insert_str(text.replace(['\n', '\r'], " "))),
            Field::Prompt => drop(self.prompt.insert_str(text)),
            Field::Criteria => drop(self.criteria.insert_str(text)),
            Field::Status => {}
        }
    }

    /// Returns the request that creates the task, or the reason why there is none.
    ///
    /// # Errors
    /// What is missing.
    pub fn create(&self, project: &str) -> Result<proto::CreateTaskRequest, &'static str> {
        let [title, prompt, acceptance_criteria, status] = self.texts();
        if title.trim().is_empty() {
            return Err("a task needs a title");
        }
        let project_id = project.to_owned();
        Ok(proto::CreateTaskRequest {
            project_id,
            title,
            prompt,
            acceptance_criteria,
            status,
            ..Default::default()
        })
    }

    /// Returns the request with the changed fields; `None` if there are none.
    ///
    /// # Errors
    /// What is missing.
    pub fn change(&self, project: &str) -> Result<Option<proto::UpdateTaskRequest>, &'static str> {
        let (now, before) = (self.texts(), self.before.clone().unwrap_or_default());
        if now[0].trim().is_empty() {
            return Err("a task needs a title");
        }
        if now == before {
            return Ok(None);
        }
        let [title, prompt, criteria, status] =
            std::array::from_fn(|at| (now[at] != before[at]).then(|| now[at].clone()));
        Ok(Some(proto::UpdateTaskRequest {
            project_id: project.to_owned(),
            task_number: self.number.unwrap_or_default(),
            title,
            prompt,
            acceptance_criteria: criteria,
            status,
            ..Default::default()
        }))
    }
}
