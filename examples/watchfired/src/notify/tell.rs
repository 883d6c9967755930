//! Passes news on.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::task::JoinSet;
use watchfire_core::model::NotifySettings;
use watchfire_core::orchestrator::{ProjectHandle, Record};
use watchfire_core::schedule::Change;

use super::episodes::News;

/// Time for a command of the person.
const PATIENCE: Duration = Duration::from_secs(30);
/// Program that shows a text on the desktop, and how it takes title and text.
const DESKTOP: &str = if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };

/// News, as the command and the desktop get it.
pub(super) struct Told {
    /// For the command.
    value: Value,
    /// For the desktop. It never quotes an agent: all users of the machine can read arguments.
    line: (String, String),
}

impl Told {
    pub(super) async fn new(project: &ProjectHandle, record: &Record, news: News, title: String) -> Self {
        let name = project.store().project().await.map(|it| it.value.name).unwrap_or_default();
        let (task, state) = match &record.change {
            Change::Life(life) => (life.subject.task(), life.state.word()),
            _ => (None, ""),
        };
        let News { event, message } = news;
        let about = match task {
            Some(task) => format!("#{task} {title}"),
            None => title.clone(),
        };
        let words = match event {
            "asks" => "asks you something",
            "limited" => "cannot go on",
            "held" => "waits for you",
            "failed" => "has failed",
            _ => message.as_str(),
        };
        let line = (format!("Watchfire: {name}"), format!("{about} {words}").trim().to_owned());
        let value = json!({
            "schema": 1,
            "event": event,
            "at": record.at,
            "project": { "id": project.id(), "name": name, "path": project.root() },
            "task": task.map(|task| task.value()),
            "title": title,
            "state": state,
            "message": message,
        });
        Self { value, line }
    }
}

/// Announces news in all ways that the settings name. Failures go to the log.
pub(super) fn tell(settings: NotifySettings, told: Told, telling: &mut JoinSet<()>) {
    if let Some(line) = settings.command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line);
        telling.spawn(run(command, Some(format!("{}\n", told.value)), "notify.command"));
    }
    if settings.desktop {
        let (title, text) = told.line;
        let mut command = Command::new(DESKTOP);
        if cfg!(target_os = "macos") {
            // As arguments of the script, so that no title is a part of it.
            let script = "on run it\ndisplay notification (item 2 of it) with title (item 1 of it)\nend run";
            command.args(["-e", script]).args([title, text]);
        } else {
            command.args(["--app-name=Watchfire", "--"]).args([title, text]);
        }
        telling.spawn(run(command, None, "notify.desktop"));
    }
}

async fn run(mut command: Command, input: Option<String>, what: &'static str) {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(Path::new("/"));
    command.kill_on_drop(true);
    let done = async {
        let mut child = command.spawn()?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // One that reads nothing is as good.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(PATIENCE, done).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => tracing::warn!("{what}: {status}"),
        Ok(Err(error)) => tracing::warn!("{what}: {error}"),
        Err(_) => tracing::warn!("{what} took longer than {} s, and was ended", PATIENCE.as_secs()),
    }
}
