//! Forms: a line of text, and a task.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Modifier, Style};
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
        area.set_cursor_line_style(Style::default());
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
    /// The agent, by name.
    Agent,
    /// Numbers of the tasks that come before it.
    After,
    /// Labels.
    Labels,
    /// Draft or ready.
    Status,
}

impl Field {
    const ALL: [Self; 7] =
        [Self::Title, Self::Prompt, Self::Criteria, Self::Agent, Self::After, Self::Labels, Self::Status];

    fn next(self) -> Self {
        self.by(1)
    }

    fn previous(self) -> Self {
        self.by(Self::ALL.len() - 1)
    }

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
    /// Name of the agent. Empty: the project's agent.
    pub agent: Line,
    /// Numbers of the tasks that come before it.
    pub after: Line,
    /// Labels.
    pub labels: Line,
    /// True if it may start.
    pub ready: bool,
    /// The reason for which it cannot be saved.
    pub problem: Option<String>,
    /// True while it is on its way to be saved.
    pub sent: bool,
    /// True for a task that is done: its status is not changed here.
    pub done: bool,
    /// The values as they were, so that only what changed is sent.
    before: Option<Values>,
}

/// The values of a form.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Values {
    title: String,
    prompt: String,
    criteria: String,
    agent: String,
    after: Vec<i32>,
    labels: Vec<String>,
    status: String,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', ';']).filter(|word| !word.is_empty())
}

fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_cursor_line_style(Style::default());
    area.set_cursor_style(Style::default());
    area
}

impl TaskForm {
    /// Returns the form of a new task.
    #[must_use]
    pub fn add() -> Self {
        let mut form = Self {
            number: None,
            field: Field::default(),
            title: Line::new(""),
            prompt: area(""),
            criteria: area(""),
            agent: Line::new(""),
            after: Line::new(""),
            labels: Line::new(""),
            ready: false,
            problem: None,
            sent: false,
            done: false,
            before: None,
        };
        form.show_cursor();
        form
    }

    /// Returns the form of a task that is changed.
    #[must_use]
    pub fn edit(task: &proto::Task) -> Self {
        let mut form = Self {
            number: Some(task.task_number),
            title: Line::new(&task.title),
            prompt: area(&task.prompt),
            criteria: area(&task.acceptance_criteria),
            agent: Line::new(&task.agent),
            after: Line::new(&task.depends_on.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")),
            labels: Line::new(&task.labels.join(", ")),
            ready: task.status == "ready",
            done: task.status == "done",
            ..Self::add()
        };
        form.before = form.values().ok();
        form.show_cursor();
        form
    }

    /// Shows the cursor in the field that has the keys alone.
    fn show_cursor(&mut self) {
        let field = self.field;
        let all = [
            (Field::Title, &mut self.title.0),
            (Field::Prompt, &mut self.prompt),
            (Field::Criteria, &mut self.criteria),
            (Field::Agent, &mut self.agent.0),
            (Field::After, &mut self.after.0),
            (Field::Labels, &mut self.labels.0),
        ];
        for (of, area) in all {
            let shown = Style::default().add_modifier(Modifier::REVERSED);
            area.set_cursor_style(if of == field { shown } else { Style::default() });
        }
    }

    /// Returns the values of the form, or the reason why it cannot be saved.
    fn values(&self) -> Result<Values, &'static str> {
        let (title, after) = (self.title.text(), self.after.text());
        if title.trim().is_empty() {
            return Err("a task needs a title");
        }
        let number = |word: &str| word.trim_start_matches('#').parse().ok().filter(|number| *number > 0);
        let after = words(&after).map(number).collect::<Option<_>>().ok_or("after: the numbers of tasks")?;
        Ok(Values {
            title,
            prompt: self.prompt.lines().join("\n"),
            criteria: self.criteria.lines().join("\n"),
            agent: self.agent.text().trim().to_owned(),
            after,
            labels: self
                .labels
                .text()
                .split(',')
                .map(|label| label.trim().to_owned())
                .filter(|label| !label.is_empty())
                .collect(),
            status: match (self.done, self.ready) {
                (true, _) => "done",
                (false, true) => "ready",
                (false, false) => "draft",
            }
            .to_owned(),
        })
    }

    /// Returns the field that has the keys, if it is one line.
    fn line(&mut self) -> Option<&mut Line> {
        match self.field {
            Field::Title => Some(&mut self.title),
            Field::Agent => Some(&mut self.agent),
            Field::After => Some(&mut self.after),
            Field::Labels => Some(&mut self.labels),
            Field::Prompt | Field::Criteria | Field::Status => None,
        }
    }

    /// Takes in a key that is not one of the overlay's own.
    pub fn key(&mut self, key: KeyEvent) {
        self.problem = None;
        let (is_text, held) = (
            matches!(self.field, Field::Prompt | Field::Criteria),
            key.modifiers.contains(KeyModifiers::CONTROL),
        );
        match key.code {
            KeyCode::BackTab => self.field = self.field.previous(),
            KeyCode::Down if held || !is_text => self.field = self.field.next(),
            KeyCode::Up if held || !is_text => self.field = self.field.previous(),
            // In a text they are characters of it. Shift+Tab leaves a text too.
            KeyCode::Tab if !is_text => self.field = self.field.next(),
            KeyCode::Enter if !is_text && self.field != Field::Status => self.field = self.field.next(),
            KeyCode::Char(' ') | KeyCode::Enter | KeyCode::Left | KeyCode::Right
                if self.field == Field::Status =>
            {
                self.ready = !self.ready && !self.done;
            }
            code => match (self.field, code) {
                (Field::Prompt, KeyCode::Tab) => self.prompt.insert_char('\t'),
                (Field::Criteria, KeyCode::Tab) => self.criteria.insert_char('\t'),
                (Field::Prompt, _) => drop(self.prompt.input(key)),
                (Field::Criteria, _) => drop(self.criteria.input(key)),
                _ => self.line().into_iter().for_each(|line| line.key(key)),
            },
        }
        self.show_cursor();
    }

    /// Takes in text that was pasted.
    pub fn paste(&mut self, text: &str) {
        match self.field {
            Field::Prompt => drop(self.prompt.insert_str(text)),
            Field::Criteria => drop(self.criteria.insert_str(text)),
            _ => {
                let text = text.replace(['\n', '\r'], " ");
                if let Some(line) = self.line() {
                    line.0.insert_str(text);
                }
            }
        }
    }

    /// Returns the request that creates the task, or the reason why there is none.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn create(&self, project: &str) -> Result<proto::CreateTaskRequest, &'static str> {
        let Values { title, prompt, criteria, agent, after, labels, status } = self.values()?;
        Ok(proto::CreateTaskRequest {
            project_id: project.to_owned(),
            title,
            prompt,
            acceptance_criteria: criteria,
            agent,
            depends_on: after,
            labels,
            status,
            ..Default::default()
        })
    }

    /// Returns the request with the changed fields; `None` if there are none.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn change(&self, project: &str) -> Result<Option<proto::UpdateTaskRequest>, &'static str> {
        let (now, before) = (self.values()?, self.before.clone().unwrap_or_default());
        if now == before {
            return Ok(None);
        }
        let changed = |now: String, before: String| (now != before).then_some(now);
        let (after, labels) = (now.after, now.labels);
        Ok(Some(proto::UpdateTaskRequest {
            project_id: project.to_owned(),
            task_number: self.number.unwrap_or_default(),
            title: changed(now.title, before.title),
            prompt: changed(now.prompt, before.prompt),
            acceptance_criteria: changed(now.criteria, before.criteria),
            agent: changed(now.agent, before.agent),
            depends_on: (after != before.after).then_some(proto::TaskNumbers { task_numbers: after }),
            labels: (labels != before.labels).then_some(proto::Labels { labels }),
            status: changed(now.status, before.status),
            ..Default::default()
        }))
    }
}
