//! Targets: the ways to name sessions, and finding the sessions that are meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{Alias, BackendName, Mode, Phase, ProjectId, SessionId, TaskNumber, Timestamp};
use crate::{Error, ErrorKind, Result};

/// A name by which a person or an agent refers to one or several sessions.
///
/// | text | meaning |
/// |---|---|
/// | `3`, `#3` | the session of task 3 in the project at hand |
/// | `shop:3` | the session of task 3 in the project with this name or id |
/// | `brave-otter` | the session with this alias |
/// | `5f0c…` | the session with this id |
/// | `backend:codex`, `mode:chat`, `project:shop`, `label:ui` | the running sessions of that kind |
/// | `all` | all running sessions |
///
/// The first four name one session: a running one, or else the last one that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// All running sessions.
    All,
    /// The running sessions of a backend.
    Backend(BackendName),
    /// The running sessions whose task has a label.
    Label(String),
    /// The running sessions in a mode.
    Mode(Mode),
    /// A session by its id or alias.
    Named(String),
    /// The running sessions of a project, by its name or id.
    Project(String),
    /// The session of a task, by default in the project at hand.
    #[non_exhaustive]
    Task {
        /// Name or id of the project.
        project: Option<String>,
        /// The task.
        task: TaskNumber,
    },
}

impl Target {
    /// Returns true if it names one session, rather than all that have something in common.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Task { .. })
    }

    /// Returns the sessions of `known` that are meant, in the order of `known`. `here` is the project at hand.
    ///
    /// # Errors
    /// `not_found` if there is none, with the sessions that `there_are`; `ambiguous_target` if a target for one session names several,
    /// with `candidates`.
    pub fn resolve<'a>(
        &self,
        known: &'a [Candidate],
        here: Option<&ProjectId>,
    ) -> Result<Vec<&'a Candidate>> {
        let meant: Vec<&Candidate> = known.iter().filter(|it| self.means(it, here)).collect();
        // All attempts of a task fit its number; the person means the latest. A group means what can be watched now.
        let meant = if self.is_single() { latest(meant) } else { running(&meant) };
        match meant.as_slice() {
            [] => {
                // Only for the error: the names that would have worked.
                let of_interest = if self.is_single() { known.iter().collect() } else { running_of(known) };
                Err(self
                    .error(ErrorKind::NotFound, "there is no such session")
                    .with("there_are", list(&of_interest)))
            }
            [_, _, ..] if self.is_single() => Err(self
                .error(ErrorKind::AmbiguousTarget, "several sessions are called this")
                .with("candidates", list(&meant))),
            _ => Ok(meant),
        }
    }

    /// Returns the one session of `known` that is meant.
    ///
    /// # Errors
    /// The errors of [`resolve`](Self::resolve); `not_supported` for a target that can name several sessions.
    pub fn resolve_one<'a>(&self, known: &'a [Candidate], here: Option<&ProjectId>) -> Result<&'a Candidate> {
        if !self.is_single() {
            return Err(self
                .error(ErrorKind::NotSupported, "this takes a single session")
                .with("hint", "name a task, an alias or an id of a session"));
        }
        self.resolve(known, here)?
            .first()
            .copied()
            .ok_or_else(|| self.error(ErrorKind::NotFound, "there is no such session"))
    }

    /// Returns true if the target fits `session`, running or not.
    pub(crate) fn means(&self, session: &Candidate, here: Option<&ProjectId>) -> bool {
        let is_project = |name: &str| session.project_name == name || session.project.as_str() == name;
        match self {
            Self::All => true,
            Self::Backend(name) => session.backend == *name,
            Self::Label(label) => session.labels.contains(label),
            Self::Mode(mode) => session.mode == *mode,
            Self::Named(name) => {
                session.session.as_str() == name
                    || session.alias.as_ref().is_some_and(|it| it.as_str() == name)
            }
            Self::Project(name) => is_project(name),
            Self::Task { project: Some(name), task } => session.task == Some(*task) && is_project(name),
            Self::Task { project: None, task } => {
                // Every project counts its tasks from 1, so a bare number is about the project that asks.
                session.task == Some(*task) && here.is_none_or(|here| session.project == *here)
            }
        }
    }

    fn error(&self, kind: ErrorKind, message: &'static str) -> Error {
        Error::new(kind, message).with("target", self)
    }
}

/// Returns the running ones.
fn running<'a>(sessions: &[&'a Candidate]) -> Vec<&'a Candidate> {
    sessions.iter().copied().filter(|it| it.is_running).collect()
}

fn running_of(sessions: &[Candidate]) -> Vec<&Candidate> {
    sessions.iter().filter(|it| it.is_running).collect()
}

/// Returns the sessions a name for one session refers to: the running ones, or else the last in each
/// project to begin.
fn latest(meant: Vec<&Candidate>) -> Vec<&Candidate> {
    // Ended sessions are asked about only where none of them runs.
    let running = running(&meant);
    if !running.is_empty() {
        return running;
    }
    let is_last = |it: &&Candidate| {
        meant.iter().all(|other| {
            other.project != it.project
                || (&other.started_at, &other.session) <= (&it.started_at, &it.session)
        })
    };
    meant.iter().copied().filter(is_last).collect()
}

/// Returns a text with what sessions can be called.
fn list(sessions: &[&Candidate]) -> String {
    /// Maximum number of sessions in an error.
    const SHOWN: usize = 12;
    if sessions.is_empty() {
        return "none".to_owned();
    }
    let mut names: Vec<_> = sessions.iter().take(SHOWN).map(ToString::to_string).collect();
    if sessions.len() > SHOWN {
        names.push(format!("{} more", sessions.len() - SHOWN));
    }
    names.join(", ")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Backend(name) => write!(f, "backend:{name}"),
            Self::Label(label) => write!(f, "label:{label}"),
            Self::Mode(mode) => write!(f, "mode:{mode}"),
            Self::Named(name) => f.write_str(name),
            Self::Project(name) => write!(f, "project:{name}"),
            Self::Task { project: Some(name), task } => write!(f, "{name}:{}", task.value()),
            Self::Task { project: None, task } => write!(f, "{}", task.value()),
        }
    }
}

impl FromStr for Target {
    type Err = Error;

    /// # Errors
    /// `invalid_input` for text that names nothing.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let number = |text: &str| text.parse().ok().and_then(TaskNumber::new);
        let failed = |message| {
            Err(Error::new(ErrorKind::InvalidInput, message).with("target", format_args!("{text:?}")))
        };
        let expected = "not a target, expected a task (3, project:3), an alias or id of a session, backend:NAME, mode:NAME, \
                        project:NAME, label:NAME or all";
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(task) = number(text.strip_prefix('#').unwrap_or(text)) {
            return Ok(Self::Task { project: None, task });
        }
        let Some((what, name)) = text.rsplit_once(':') else {
            let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
                && text.chars().any(|c| !c.is_ascii_digit());
            return if is_name { Ok(Self::Named(text.to_owned())) } else { failed(expected) };
        };
        if name.is_empty() || what.is_empty() {
            return failed(expected);
        }
        match text.split_once(':').unwrap_or((what, name)) {
            ("backend", name) => name.parse().map(Self::Backend),
            ("label", name) => Ok(Self::Label(name.to_owned())),
            ("mode", name) => serde_json::from_value(name.into())
                .map(Self::Mode)
                .or_else(|_| failed("not a mode, expected one such as task, chat or wildfire")),
            ("project", name) => Ok(Self::Project(name.to_owned())),
            _ => match number(name) {
                Some(task) => Ok(Self::Task { project: Some(what.to_owned()), task }),
                None => failed(expected),
            },
        }
    }
}

/// A session as targets see it, and as lists of sessions show it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidate {
    /// Its id.
    pub session: SessionId,
    /// Its name for people. Sessions of earlier releases have none once they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// Its project.
    pub project: ProjectId,
    /// Name of the project.
    pub project_name: String,
    /// Its mode.
    pub mode: Mode,
    /// The phase of wildfire that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNumber>,
    /// Labels of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Its backend.
    pub backend: BackendName,
    /// Time of its start.
    pub started_at: Timestamp,
    /// False once it has ended.
    pub is_running: bool,
}

impl Candidate {
    /// Returns a running session without task and labels.
    #[must_use]
    pub fn new(
        session: SessionId,
        alias: Option<Alias>,
        project: (ProjectId, String),
        mode: Mode,
        backend: BackendName,
        started_at: Timestamp,
    ) -> Self {
        let (project, project_name) = project;
        Self {
            session,
            alias,
            project,
            project_name,
            mode,
            phase: None,
            task: None,
            labels: Vec::new(),
            backend,
            started_at,
            is_running: true,
        }
    }

    /// Sets its task and the labels of that.
    #[must_use]
    pub fn with_task(mut self, task: Option<TaskNumber>, labels: Vec<String>) -> Self {
        (self.task, self.labels) = (task, labels);
        self
    }

    /// Sets the phase of wildfire that it belongs to.
    #[must_use]
    pub fn with_phase(mut self, phase: Option<Phase>) -> Self {
        self.phase = phase;
        self
    }

    /// Sets whether it runs.
    #[must_use]
    pub fn with_running(mut self, is_running: bool) -> Self {
        self.is_running = is_running;
        self
    }
}

impl fmt::Display for Candidate {
    /// Writes its alias, project and task, such as `brave-otter (shop:3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.alias {
            Some(alias) => write!(f, "{alias} ({}", self.project_name)?,
            None => write!(f, "{} ({}", self.session, self.project_name)?,
        }
        match self.task {
            Some(task) => write!(f, ":{})", task.value()),
            None => write!(f, ", {})", self.mode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2026-02-03T13:05:{second:02}Z").parse().unwrap()
    }

    /// A session of a task; those with a time beyond 30 run.
    fn session(alias: &str, project: &str, task: u32, second: u32) -> Candidate {
        let project_id = format!("id-{project}").parse().unwrap();
        let id = format!("00000000-0000-0000-0000-0000000000{second:02}").parse().unwrap();
        let project = (project_id, project.to_owned());
        let backend = if task == 1 { "codex" } else { "gemini" };
        Candidate::new(
            id,
            Some(alias.parse().unwrap()),
            project,
            Mode::Task,
            backend.parse().unwrap(),
            at(second),
        )
        .with_task(TaskNumber::new(task), vec![format!("l{task}")])
        .with_running(second > 30)
    }

    fn known() -> Vec<Candidate> {
        vec![
            session("brave-otter", "shop", 1, 31),
            session("calm-heron", "shop", 2, 32),
            session("brave-otter", "shop", 1, 11),
            session("shy-lynx", "blog", 1, 33),
            session("old-newt", "blog", 4, 12),
            session("older-newt", "blog", 4, 10),
            session("odd-mole", "shop", 4, 13),
        ]
    }

    fn found(text: &str, here: Option<&str>) -> Result<Vec<String>> {
        let here = here.map(|name| format!("id-{name}").parse().unwrap());
        let known = known();
        let meant = text.parse::<Target>()?.resolve(&known, here.as_ref())?;
        Ok(meant.iter().map(|it| format!("{}@{}", it.alias.as_ref().unwrap(), it.started_at)).collect())
    }

    fn names(text: &str, here: Option<&str>) -> Vec<String> {
        found(text, here).unwrap().iter().map(|it| it.split('@').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_way_to_name_sessions_finds_them() {
        assert_eq!(
            found("brave-otter", None).unwrap(),
            ["brave-otter@2026-02-03T13:05:31Z"],
            "the one that runs"
        );
        assert_eq!(names("00000000-0000-0000-0000-000000000032", None), ["calm-heron"]);
        assert_eq!(names("1", Some("shop")), ["brave-otter"]);
        assert_eq!(names("#0001", Some("blog")), ["shy-lynx"]);
        assert_eq!(names("blog:1", Some("shop")), ["shy-lynx"]);
        assert_eq!(names("id-blog:4", None), ["old-newt"], "the last that ended");
        assert_eq!(names("backend:codex", None), ["brave-otter", "shy-lynx"]);
        assert_eq!(names("mode:task", None), ["brave-otter", "calm-heron", "shy-lynx"]);
        assert_eq!(names("project:shop", None), ["brave-otter", "calm-heron"]);
        assert_eq!(names("label:l2", None), ["calm-heron"]);
        assert_eq!(names("all", None), ["brave-otter", "calm-heron", "shy-lynx"]);
    }

    #[test]
    fn unknown_and_ambiguous_are_two_errors_that_list_what_there_is() {
        let error = found("sly-fox", None).unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert!(error.detail("there_are").unwrap().contains("calm-heron (shop:2)"), "{}", error.report());
        let error = found("1", None).unwrap_err();
        assert_eq!(error.code(), "ambiguous_target");
        assert_eq!(error.detail("candidates"), Some("brave-otter (shop:1), shy-lynx (blog:1)"));
        // Two ended sessions of one task are no choice, those of two projects are.
        assert_eq!(found("4", None).unwrap_err().code(), "ambiguous_target");
        let error = found("backend:aider", None).unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert!(!error.detail("there_are").unwrap().contains("newt"), "{}", error.report());
        let known = known();
        assert_eq!(
            "all".parse::<Target>().unwrap().resolve_one(&known, None).unwrap_err().code(),
            "not_supported"
        );
    }

    #[test]
    fn targets_survive_their_text() {
        for text in [
            "3",
            "shop:3",
            "brave-otter",
            "backend:codex",
            "mode:chat",
            "project:a:b",
            "label:a b",
            "all",
            "a:b:7",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", ":", "shop:", ":3", "a b", "mode:sleepy", "backend:no such", "0", "shop:x", "../x"] {
            assert_eq!(text.parse::<Target>().unwrap_err().code(), "invalid_input", "{text}");
        }
    }
}
