//! Reports the backup of the project's own files.

use std::path::Path;

use serde_json::json;
use watchfire_core::model::Timestamp;
use watchfire_git::{GitOptions, GitWorkspace};

use super::{Line, Section, State};
use crate::commands::backup::WARNING;

pub(super) async fn look(root: &Path) -> Section {
    let saved = match GitWorkspace::open(root, GitOptions::default()) {
        Ok(workspace) => workspace.backed_up_at().await.ok().flatten(),
        Err(_) => None,
    };
    let saved = saved.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1000)).to_string());
    let mut line = match &saved {
        Some(time) => Line::new(State::Plain, "backup", format!("{time}, in refs/watchfire/backup")),
        None => Line::new(State::Plain, "backup", "none yet: watchfire backup saves tasks and settings"),
    };
    line.more.push(WARNING.to_owned());
    Section { heading: "files", lines: vec![line], json: json!({ "backed_up_at": saved }) }
}
