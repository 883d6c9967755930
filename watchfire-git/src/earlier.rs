//! What earlier projects have left in a repository.

use std::path::Path;

use git2::Repository;
use watchfire_core::Result;
use watchfire_core::model::{ProjectId, TaskNumber};

use crate::error::During;
use crate::names;
use crate::repository::project::open_supported;

/// Traces of earlier projects in a repository: branches and references of their tasks, and a backup of the last one's settings
/// and tasks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Earlier {
    /// The highest number of a task that has a branch or a reference. A new project's tasks must have others, or they would go on with
    /// what is there.
    pub highest: Option<TaskNumber>,
    /// The project of the last backup.
    pub backup: Option<ProjectId>,
}

impl Earlier {
    /// Looks into the repository of `root`. There is nothing where it has none.
    ///
    /// # Errors
    /// Errors of the repository.
    pub fn of(root: impl AsRef<Path>) -> Result<Self> {
        // What cannot be opened has its own message where it is made ready.
        let Ok(repo) = open_supported(root.as_ref()) else { return Ok(Self::default()) };
        let during = "reading the references";
        let mut highest = None;
        for name in repo.references().during(during)?.names() {
            let Ok(name) = name else { continue };
            let branch = name.strip_prefix("refs/heads/").and_then(|name| name.strip_prefix(names::BRANCHES));
            let Some(rest) = branch.or_else(|| name.strip_prefix("refs/watchfire/")) else { continue };
            let numbers = rest.split('/').filter_map(|part| names::parse_key(part)?.task());
            highest = numbers.chain(highest).max();
        }
        Ok(Self { highest, backup: backup(&repo) })
    }
}

/// Returns the project of the last backup, if its settings name one as we write them.
fn backup(repo: &Repository) -> Option<ProjectId> {
    let tree = repo.find_reference(names::BACKUP).ok()?.peel_to_tree().ok()?;
    let blob = tree.get_name("project.yaml")?.to_object(repo).ok()?.peel_to_blob().ok()?;
    let text = str::from_utf8(blob.content()).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("project_id:"))?;
    id.trim().trim_matches(['"', '\'']).parse().ok()
}
