//! Tells the person when work needs them, as `notify:` in their settings says: by a command, and on the desktop.

mod episodes;
mod tell;

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use watchfire_core::model::Settings;
use watchfire_core::orchestrator::{LogStream, Orchestrator, ProjectHandle, Seen};
use watchfire_core::schedule::{CallerEnvironment, Change};

pub(crate) use episodes::is_failure;
use episodes::{Episodes, News};
use tell::Told;

/// Time for notifications at the end.
const LAST: Duration = Duration::from_secs(5);

/// Announces the news of a project, until it is closed. The settings are read at each event, so a change takes effect
/// at once.
pub(crate) async fn follow(orchestrator: Orchestrator, project: ProjectHandle, mut changes: LogStream) {
    let (mut episodes, mut telling) = (Episodes::default(), JoinSet::new());
    while let Some(seen) = changes.next().await {
        let Seen::Record(record) = seen else { continue };
        let news = episodes.take_in(&record.change);
        let Some(news) = news.filter(|news| is_wanted(&orchestrator.settings(), news)) else { continue };
        // The earlier start that made this record has announced it.
        if record.replayed {
            continue;
        }
        if !episodes.may_tell(news.event, Instant::now()) {
            tracing::info!(project = %project.id(), event = news.event, "too many of them: not announced");
            continue;
        }
        let (message, title) = match lost_secrets(&record.change) {
            true => (UNKNOWN.to_owned(), String::new()),
            false => {
                let title = title(&project, &record.change).await;
                (masked(&record.change, &news.message), masked(&record.change, &title))
            }
        };
        let news = News { message, ..news };
        let told = Told::new(&project, &record, news, title).await;
        tell::tell(orchestrator.settings().notify, told, &mut telling);
        while telling.try_join_next().is_some() {}
    }
    // A program may end together with its run; the end of the run is announced all the same.
    let told = async { while telling.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST, told).await.is_err() {
        tracing::warn!("a notification was not done at the end");
    }
}

fn is_wanted(settings: &Settings, news: &News) -> bool {
    let notify = &settings.notify;
    let named = notify.events.as_ref().is_none_or(|events| events.iter().any(|event| event == news.event));
    named && (notify.desktop || notify.command.is_some())
}

/// Stands for the words of an agent whose secrets are not known any more.
const UNKNOWN: &str =
    "what it says may hold secrets that it was given before the daemon started anew: look there";

/// Returns true if an agent may know secrets that this program does not.
fn lost_secrets(change: &Change) -> bool {
    match change {
        Change::Life(life) => {
            life.options.environment.as_ref().is_some_and(|caller| !caller.lost().is_empty())
        }
        _ => false,
    }
}

/// Returns a text without the secrets that it may repeat: the command may pass it on to others.
fn masked(change: &Change, message: &str) -> String {
    let message = CallerEnvironment::new(std::env::vars_os()).masked(message);
    match change {
        Change::Life(life) => match &life.options.environment {
            Some(caller) => caller.masked(&message),
            None => message,
        },
        _ => message,
    }
}

async fn title(project: &ProjectHandle, change: &Change) -> String {
    let Change::Life(life) = change else { return String::new() };
    match life.subject.about() {
        // A task whose file is gone has no title.
        Some(number) => project.store().get(number).await.map(|task| task.value.title).unwrap_or_default(),
        None => life.subject.to_string(),
    }
}
