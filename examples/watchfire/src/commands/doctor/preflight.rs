//! Finds the settings with which no run could start.

use std::path::Path;

use watchfire_core::Error;
use watchfire_core::model::{Phase, Project, Settings};
use watchfire_core::orchestrator::check_commands;
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::resolve;
use watchfire_core::workspace::Workspace as _;
use watchfire_git::GitOptions;
use watchfire_tui::keymap::Keymap;

use super::agents;
use crate::compose;
use crate::context::workspace;

/// Returns the names of these settings, each with the reason.
pub(crate) async fn problems(
    settings: &Settings,
    root: &Path,
    project: &Project,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    // The same order of precedence as for a session.
    let agent =
        "claude-code".parse().and_then(|usual| resolve::backend(None, None, project, settings, usual));
    if let Ok(agent) = agent
        && let Err(error) = agents::locate(settings, agent.value.as_str())
    {
        found.push(("agent", short(&error)));
    }
    // One that is named. What `auto` finds has a section of its own.
    if let Ok(sandboxes) = compose::sandboxes()
        && let Ok(choice) = resolve::sandbox(None, project, settings, &sandboxes)
        && matches!(choice.value, SandboxChoice::Named(_))
        && let Err(error) = sandboxes.choose(&choice.value)
    {
        found.push(("sandbox", short(&error)));
    }
    let phases =
        [Phase::Execute, Phase::Refine, Phase::Generate].map(|phase| &project.wildfire.phase(phase).agent);
    for agent in phases.into_iter().chain([&project.wildfire.agent]).flatten() {
        if let Err(error) = compose::check_agent(agent, settings) {
            found.push(("wildfire", error.message().to_owned()));
        }
    }
    if let Err(refused) = Keymap::new(&settings.tui.keys) {
        found.push(("tui.keys", format!("{}: {}", refused.name, refused.because)));
    }
    found.extend(faults(root, project).await.into_iter().map(|(name, error)| (name, short(&error))));
    found
}

/// Returns the settings of the project alone with which no run could start.
pub(crate) async fn faults(root: &Path, project: &Project) -> Vec<(&'static str, Error)> {
    let mut found = Vec::new();
    if let Ok(workspace) = workspace(root, GitOptions::default()).await
        && let Err(error) = workspace.check_target(&project.default_branch).await
    {
        found.push(("default_branch", error));
    }
    if let Err(error) = check_commands(project, std::env::var_os("PATH").as_deref()) {
        found.push((if error.detail("field") == Some("setup") { "setup" } else { "verify" }, error));
    }
    found
}

/// Returns one line for each filter of the settings that git does not have here.
pub(crate) async fn unread_filters(settings: &Settings, root: &Path) -> Vec<String> {
    let options = GitOptions::default().with_filters(&settings.git.filters);
    // What is wrong with a repository is a finding of its own.
    let Ok(workspace) = workspace(root, options).await else { return Vec::new() };
    workspace.unread_options().await.unwrap_or_default()
}

/// Returns the error on one line.
fn short(error: &Error) -> String {
    // Of a command of the project its program says more, of a branch its name.
    let program = error.detail("field").and(error.detail("program"));
    let more = program.or(error.detail("target")).or(error.detail("hint")).map(|more| format!(": {more}"));
    format!("{}{}", error.message(), more.unwrap_or_default())
}
