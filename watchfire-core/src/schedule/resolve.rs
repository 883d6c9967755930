//! Values that several places may set, in order of precedence: flag, task, project, settings, default.

use std::fmt;

use serde::Serialize;

pub use crate::model::form::duration;
use crate::model::{BackendName, Project, Settings, Task};
use crate::sandbox::{SandboxChoice, SandboxSet};
use crate::{Error, Result};

/// A value and its origin.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Resolved<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub from: From,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// The request.
    Flag,
    /// The task file.
    Task,
    /// `project.yaml`.
    Project,
    /// `settings.yaml`.
    Settings,
    /// Built in.
    Default,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Task => "task file",
            Self::Project => "project.yaml",
            Self::Settings => "settings.yaml",
            Self::Default => "default",
        })
    }
}

/// Returns the first value that is set, in the order of the list.
pub fn first<T>(values: impl IntoIterator<Item = (From, Option<T>)>, default: T) -> Resolved<T> {
    values
        .into_iter()
        .find_map(|(from, value)| value.map(|value| Resolved { value, from }))
        .unwrap_or(Resolved { value: default, from: From::Default })
}

/// Returns the backend of a session. Sessions without a task skip the task; an empty string counts as not set.
///
/// # Errors
/// `invalid_input` if the settings hold a text that cannot be a name. A missing backend is found later.
pub fn backend(
    flag: Option<BackendName>,
    task: Option<&Task>,
    project: &Project,
    settings: &Settings,
    default: BackendName,
) -> Result<Resolved<BackendName>> {
    let named = settings.defaults.default_agent.trim();
    let from_settings = (!named.is_empty()).then(|| named.parse()).transpose().map_err(|error: Error| {
        error.with("file", "settings.yaml").with("field", "defaults.default_agent")
    })?;
    Ok(first(
        [
            (From::Flag, flag),
            (From::Task, task.and_then(|task| task.agent.clone())),
            (From::Project, project.default_agent.clone()),
            (From::Settings, from_settings),
        ],
        default,
    ))
}

/// Returns the sandbox of a session. A project can only tighten, so it cannot choose `none`.
///
/// # Errors
/// `unknown_sandbox` for a name that is not in `sandboxes`, naming the file; `invalid_input` when the project asks for
/// none.
pub fn sandbox(
    flag: Option<SandboxChoice>,
    project: &Project,
    settings: &Settings,
    sandboxes: &SandboxSet,
) -> Result<Resolved<SandboxChoice>> {
    let from_project = sandboxes
        .parse(&project.sandbox)
        .map_err(|error| error.with("file", "project.yaml").with("field", "sandbox"))?;
    // The file comes with the repository. A person's own flag overrides it anyway.
    if from_project == Some(SandboxChoice::None) && flag.is_none() {
        return Err(Error::new(
            crate::ErrorKind::InvalidInput,
            "a project cannot turn the sandbox off; use --no-sandbox or defaults.default_sandbox in settings.yaml",
        )
        .with("file", "project.yaml")
        .with("field", "sandbox"));
    }
    let from_settings = sandboxes
        .parse(&settings.defaults.default_sandbox)
        .map_err(|error| error.with("file", "settings.yaml").with("field", "defaults.default_sandbox"))?;
    // A project that says `none` gets here only with a flag, which goes first.
    Ok(first(
        [(From::Flag, flag), (From::Project, from_project), (From::Settings, from_settings)],
        SandboxChoice::Auto,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TaskId, TaskNumber};

    fn name(text: &str) -> BackendName {
        text.parse().unwrap()
    }

    #[test]
    fn the_chain_is_flag_task_project_settings_default() {
        let mut project = Project::new("p".parse().unwrap(), "p");
        let mut settings = Settings::default();
        let mut task = Task::new("abcdefgh".parse::<TaskId>().unwrap(), TaskNumber::new(1).unwrap(), "t");
        let resolve = |flag: Option<&str>, task: Option<&Task>, project: &Project, settings: &Settings| {
            let resolved = backend(flag.map(name), task, project, settings, name("claude-code")).unwrap();
            (resolved.value.to_string(), resolved.from)
        };
        assert_eq!(resolve(None, Some(&task), &project, &settings), ("claude-code".into(), From::Default));
        settings.defaults.default_agent = "gemini".into();
        assert_eq!(resolve(None, Some(&task), &project, &settings), ("gemini".into(), From::Settings));
        project.default_agent = Some(name("codex"));
        assert_eq!(resolve(None, Some(&task), &project, &settings), ("codex".into(), From::Project));
        task.agent = Some(name("scripted"));
        assert_eq!(resolve(None, Some(&task), &project, &settings), ("scripted".into(), From::Task));
        assert_eq!(resolve(None, None, &project, &settings), ("codex".into(), From::Project));
        assert_eq!(resolve(Some("x"), Some(&task), &project, &settings), ("x".into(), From::Flag));
    }

    #[test]
    fn a_project_cannot_turn_the_sandbox_off() {
        let mut project = Project::new("p".parse().unwrap(), "p");
        let mut settings = Settings::default();
        let set = SandboxSet::none_only();
        let sandbox = |flag, project: &Project, settings: &Settings| sandbox(flag, project, settings, &set);
        project.sandbox = "none".into();
        assert!(sandbox(None, &project, &settings).unwrap_err().to_string().contains("project.yaml"));
        assert_eq!(sandbox(Some(SandboxChoice::None), &project, &settings).unwrap().from, From::Flag);
        project.sandbox = "sandbox-exec".into();
        settings.defaults.default_sandbox = "none".into();
        assert_eq!(sandbox(None, &project, &settings).unwrap().value, SandboxChoice::Auto);
        project.sandbox.clear();
        assert_eq!(sandbox(None, &project, &settings).unwrap().value, SandboxChoice::None);
    }

    #[test]
    fn durations() {
        assert_eq!(duration("45m").unwrap().as_secs(), 2700);
        assert_eq!(duration(" 90 ").unwrap().as_secs(), 90);
        assert_eq!(duration("250ms").unwrap().as_millis(), 250);
        for bad in ["", "0", "-1s", "1.5h", "m", "1w", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
