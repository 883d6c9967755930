//! Reports the backup of the project's own files, and those that are ignored.

use std::path::Path;

use serde_json::json;
use watchfire_core::model::{PromptSection, Timestamp};
use watchfire_core::store::{DocumentName, TaskStore};
use watchfire_git::GitOptions;

use super::{Line, Section, State};
use crate::commands::backup::WARNING;
use crate::context::workspace;

pub(super) async fn look(root: &Path, store: &dyn TaskStore) -> Section {
    let saved = match workspace(root, GitOptions::default()).await {
        Ok(workspace) => workspace.backed_up_at().await.ok().flatten(),
        Err(_) => None,
    };
    let saved = saved.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1000)).to_string());
    let (mut ignored, mut unused) = (Vec::new(), Vec::new());
    for section in PromptSection::ALL {
        if let Err(error) = store.document(DocumentName::Prompt(*section)).await {
            let name = format!("prompts/{section}.md");
            ignored.push(Line::new(State::Plain, &name, format!("ignored: {}", error.report())));
            unused.push(json!({ "file": name, "error": error.report() }));
        }
    }
    let mut line = match &saved {
        Some(time) => Line::new(State::Plain, "backup", format!("{time}, in refs/watchfire/backup")),
        None => Line::new(State::Plain, "backup", "none yet: watchfire backup saves tasks and settings"),
    };
    line.more.push(WARNING.to_owned());
    let lines = std::iter::once(line).chain(ignored).collect();
    Section { heading: "files", lines, json: json!({ "backed_up_at": saved, "ignored": unused }) }
}
