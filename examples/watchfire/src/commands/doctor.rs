//! `watchfire doctor`: reports what this machine has, section by section.

mod agents;
mod daemon;
mod disk;
mod files;
mod preflight;
mod sandboxes;
mod settings;
mod work;
mod yaml_line;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use watchfire_core::model::Settings;
use watchfire_core::{Error, ErrorKind};
use watchfired::Repositories;

use crate::context::{Context, home_path, open_home};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::{compose, git, text};

#[derive(Args, Debug)]
#[command(after_help = "\
It tries each sandbox, and writes a small file in the Watchfire home to time the disk; else it changes nothing.

Examples:
  watchfire doctor
  watchfire doctor --json | jq .agents

Exit codes: 0 tasks can run here, 3 something that is needed is missing or broken.")]
pub(crate) struct DoctorArgs {}

pub(super) use self::agents::locate;
pub(super) use self::preflight::{faults, problems};
pub(super) use self::sandboxes::{is_whole, look as sandboxes};

/// One section of the report.
pub(super) struct Section {
    heading: &'static str,
    lines: Vec<Line>,
    json: Value,
}

impl Section {
    /// Returns the section for a folder that is not in a project.
    fn empty(heading: &'static str) -> Self {
        Self { heading, lines: Vec::new(), json: Value::Null }
    }

    /// Marks the findings with these names as bad, each for its reason.
    fn with(mut self, problems: Vec<(&'static str, String)>) -> Self {
        for (name, why) in problems {
            match self.lines.iter_mut().find(|line| line.name == name) {
                Some(line) => {
                    line.state = State::Bad;
                    line.more.push(why);
                }
                None => self.lines.push(Line::new(State::Bad, name, why)),
            }
        }
        self
    }

    pub(super) fn is_well(&self) -> bool {
        self.lines.iter().all(|line| line.state != State::Bad)
    }

    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    pub(super) fn render(&self, out: Out) -> String {
        render(out, self)
    }
}

/// One finding.
struct Line {
    state: State,
    name: String,
    text: String,
    /// Details, one line each.
    more: Vec<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Good,
    /// A plain fact, which hinders nothing.
    Plain,
    Bad,
}

impl Line {
    fn new(state: State, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { state, name: name.into(), text: text.into(), more: Vec::new() }
    }
}

pub(crate) async fn run(context: &Context, _: DoctorArgs) -> Result<Exit> {
    // A wrong `-C` is a mistake in the command line, not a finding.
    context.directory()?;
    let home = open_home(home_path()?).await?;
    // A malformed file is a finding, not the end of the report.
    let (settings, broken) = match home.settings().await {
        Ok(settings) => (settings, None),
        Err(error) => (Settings::default(), Some(error.report())),
    };
    let (mut project, mut root) = (None, PathBuf::new());
    let (mut files, mut work) = (Section::empty("files"), Section::empty("work"));
    match context.project().await {
        Ok(open) => {
            (files, work) = (files::look(&open.root, &open.store).await, work::look(&open, &settings).await);
            match open.project().await {
                Ok(read) => {
                    match Repositories::open(&open.home, &open.root).await {
                        Err(error) => files.lines.push(Line::new(State::Bad, "repositories", error.report())),
                        Ok(Repositories::One(one)) if one.has_snapshots() => {
                            let text = "the folder has no git: tasks work with snapshots of it";
                            files.lines.push(Line::new(State::Plain, "snapshots", text));
                        }
                        Ok(_) => {}
                    }
                    project = Some(read);
                }
                Err(error) => files.lines.push(Line::new(State::Bad, "project.yaml", error.report())),
            }
            root = open.root;
        }
        // Without a project the report is about the machine alone.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => files.lines.push(Line::new(State::Bad, "project.yaml", error.report())),
    }
    let problems = match &project {
        Some(project) => problems(&settings, &root, project).await,
        // Nothing is asked of the settings where no task can be.
        None => Vec::new(),
    };
    let unread = match &project {
        Some(_) => preflight::unread_filters(&settings, &root).await,
        None => Vec::new(),
    };
    // Tried anew, not remembered: the person may have just changed the system.
    let sandboxes = compose::sandboxes()?;
    let tried = sandboxes.clone();
    // Each try starts a process and waits for it.
    let trying = tokio::task::spawn_blocking(move || sandboxes::look(&tried)).await;
    let state = home.path().join("state");
    let disk = tokio::task::spawn_blocking(move || disk::look(&state)).await;
    // A section that panicked ends the report: without it the result would be wrong.
    let lost = |error| Error::new(ErrorKind::Internal, "looking at this machine").with_source(error);
    let sections = [
        git_section(),
        agents::look(&settings),
        trying.map_err(lost)?,
        disk.map_err(lost)?,
        daemon::look(home.path(), &settings, &sandboxes).await,
        files,
        work,
        settings::look(&settings, project.as_ref(), broken, unread, (home.path(), &root), &sandboxes)
            .with(problems),
    ];
    let is_well = sections.iter().all(Section::is_well);
    let mut report: serde_json::Map<String, Value> =
        sections.iter().map(|section| (section.heading.to_owned(), section.json.clone())).collect();
    report.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    report.insert("good".to_owned(), is_well.into());
    context.out.report(Value::Object(report), |out| {
        sections.iter().map(|section| render(out, section)).collect::<Vec<_>>().join("\n")
    });
    // An agent that is missing and not the project's is a plain fact. Only bad findings keep tasks from running.
    Ok(if is_well { Exit::Good } else { Exit::NeedsPerson })
}

fn git_section() -> Section {
    let (line, json) = match git::version() {
        Ok(version) => (Line::new(State::Good, "git", &version), json!({ "version": version })),
        Err(error) => {
            let text = format!("not found, and agents need it ({})", error.message());
            (Line::new(State::Bad, "git", text), json!({ "version": null, "error": error.report() }))
        }
    };
    Section { heading: "git", lines: vec![line], json }
}

fn render(out: Out, section: &Section) -> String {
    let mut text = format!("{}\n", out.style.bold(section.heading));
    let width = section.lines.iter().map(|line| text::width(&line.name)).max().unwrap_or(0);
    for line in &section.lines {
        let mark = match line.state {
            State::Good => out.style.green("✓"),
            State::Plain => out.style.dim("·"),
            State::Bad => out.style.red("✗"),
        };
        let row = format!("  {mark} {}  {}", text::pad(&line.name, width), text::line(&line.text));
        text.push_str(row.trim_end());
        text.push('\n');
        for more in &line.more {
            text.push_str(&format!("    {}  {}\n", " ".repeat(width), out.style.dim(&text::line(more))));
        }
    }
    text
}
