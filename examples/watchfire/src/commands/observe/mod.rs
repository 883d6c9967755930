//! Watching agents that another `watchfire` runs, sending them text, and asking them.

mod ask;
mod follow;
mod listen;
mod send;
mod sessions;
mod wait;
mod watch;

use std::io::Write as _;
use std::time::Duration;

pub(crate) use ask::{AskArgs, run as ask};
pub(crate) use follow::{FollowArgs, run as follow};
pub(crate) use listen::{ListenArgs, run as listen};
pub(crate) use send::{SendArgs, run as send};
pub(crate) use sessions::{SessionsArgs, run as sessions};
pub(crate) use wait::{WaitArgs, run as wait};
pub(crate) use watch::{WatchArgs, run as watch};
use watchfire_client::{ApiError, Client, proto, work};
use watchfire_core::ErrorKind;
use watchfire_core::schedule::resolve;

use super::daemon::with_left;
use crate::context::{Context, home_path};
use crate::failure::Result;
use crate::text;

/// Connects to everything that runs with this home.
pub(crate) async fn connect(context: &Context) -> Result<Client> {
    let here = match context.project().await {
        Ok(project) => Some(project.id),
        // Outside of a project, sessions have other names than that of their task.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let home = home_path()?;
    let client = Client::connect(&home, here).await.map_err(|error| with_left(error, &home))?;
    for silent in client.silent() {
        let hint = silent.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let told = format!("warning: {}{hint}\n", text::line(&silent.message));
        // If stderr cannot be written, there is no place left to report that.
        let _ = std::io::stderr().write_all(told.as_bytes());
    }
    Ok(client)
}

/// Returns an error of a daemon that has just started, or ends, as that of one that does not run: it has no project open.
fn not_yet(mut error: ApiError) -> ApiError {
    if error.code == "not_found" {
        error.code = "app_not_running".to_owned();
    }
    error
}

/// Returns the duration that an option names.
fn duration(option: &str, text: &str) -> Result<Duration> {
    Ok(resolve::duration(text).map_err(|error| error.with("option", option))?)
}

/// Returns what people call a session.
fn name(alias: &str, task: u32) -> String {
    let alias = text::line(alias);
    if task > 0 { format!("{alias} (#{task:04})") } else { alias }
}

/// Returns one line about an agent, and the end of what it said or printed.
fn told(response: &proto::WatchResponse) -> String {
    let agent = response.agent.clone().unwrap_or_default();
    let work = work(&agent.mode, &agent.phase, agent.task_number);
    // A log of an earlier release does not say what it is about.
    let about = if work.is_empty() { work } else { format!(" ({work})") };
    let mut lines = vec![format!(
        "{}{}, {}: {}",
        text::line(&agent.name),
        text::line(&about),
        text::line(&agent.provider),
        text::line(&agent.status)
    )];
    let said =
        response.transcript.as_ref().map(|it| it.latest_text.as_str()).filter(|it| !it.trim().is_empty());
    let printed = response.output.as_ref().map(|it| it.text.as_str());
    if let Some(words) = said.or(printed).map(text::lines).filter(|words| !words.trim().is_empty()) {
        lines.push(words.trim_end().to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}
