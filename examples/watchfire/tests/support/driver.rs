//! What an orchestrator notes that is going to be killed: the log, and the outcomes of its requests.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchfire_core::clock::SystemClock;
use watchfire_core::journal::Cursor;
use watchfire_core::orchestrator::{LogStream, ProjectHandle, Seen};
use watchfire_core::schedule::{CommandId, Request};
use watchfire_core::store::{Home, YamlStore};
use watchfire_core::workspace::Workspace as _;
use watchfire_git::GitWorkspace;

/// Returns the home below `folder`.
pub(crate) async fn home(folder: &Path) -> Home {
    Home::open(folder.join("watchfire-home"), Arc::new(SystemClock)).await.unwrap()
}

/// Returns the store of the project below `folder`.
pub(crate) async fn store(folder: &Path) -> YamlStore {
    let root = folder.join("project");
    let shared = GitWorkspace::open(&root, Default::default()).unwrap().shared_dir();
    home(folder).await.open_store(root, shared).await.unwrap()
}

/// Asks under an id, and notes the outcome: the same id has the same outcome for ever.
pub(crate) async fn ask(project: &ProjectHandle, folder: &Path, id: &str, request: Request) {
    let outcome = match project.request(Some(CommandId::new(id).unwrap()), request).await {
        Ok(accepted) => serde_json::to_string(&accepted).unwrap(),
        Err(error) => format!("{:?}", error.code()),
    };
    append(&folder.join("outcomes"), &format!("{id} {outcome}"));
}

/// Subscribes from the place at which the last reader was killed.
pub(crate) async fn subscribe(project: &ProjectHandle, file: &Path) -> LogStream {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may have been cut off. In one step: this program may be killed here, too.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let opened = fs::OpenOptions::new().create(true).truncate(false).write(true).open(file);
    opened.unwrap().set_len(whole.len() as u64).unwrap();
    let since: Cursor = match whole.lines().last().and_then(|line| line.split_once(' ')) {
        Some((cursor, _)) => cursor.parse().unwrap(),
        None => {
            let opened = project.subscribe(None).await.unwrap().snapshot.opened;
            format!("{}:0", opened.to_string().split_once(':').unwrap().0).parse().unwrap()
        }
    };
    project.subscribe(Some(since)).await.unwrap().changes
}

/// Writes down every record.
pub(crate) async fn follow(mut changes: LogStream, file: PathBuf) {
    while let Some(seen) = changes.next().await {
        match seen {
            Seen::Record(record) => {
                let change = serde_json::to_string(&record.change).unwrap();
                append(&file, &format!("{} {change}", record.cursor));
            }
            Seen::Gap(gap) => append(&file, &format!("gap {gap:?}")),
            _ => {}
        }
    }
}

/// Appends a line to a file.
pub(crate) fn append(file: &Path, line: &str) {
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    opened.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}
