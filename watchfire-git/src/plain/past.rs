//! Work that began in a plain folder which has become a repository since.

use watchfire_core::workspace::{Obstacle, ObstacleKind, WorkspaceKey};
use watchfire_core::{Error, ErrorKind};

use crate::names;
use crate::repository::project::Project;
use crate::repository::record::Record;

/// Describes why work from the time of the snapshots is not merged, and the way to it. The histories have no commit in
/// common, so only a person can decide which of its commits are still wanted.
pub(crate) fn obstacle(project: &Project, key: &WorkspaceKey) -> Obstacle {
    let base = Record::read(project, key).ok().flatten().and_then(|record| record.base);
    let range = base.map_or_else(|| "FETCH_HEAD".to_owned(), |base| format!("{}..FETCH_HEAD", base.as_str()));
    let message = format!(
        "the work began before the folder had a git repository, and is in its snapshots: get it by `git fetch '{}' {}` and \
         `git cherry-pick {range}`",
        project.git.display(),
        names::branch(key),
    );
    Obstacle::new(ObstacleKind::BegunInSnapshots, message)
}

/// Refuses a further attempt on such work.
pub(crate) fn refused(project: &Project, key: &WorkspaceKey) -> Error {
    let obstacle = obstacle(project, key);
    Error::new(ErrorKind::WorkspaceBroken, obstacle.message)
        .with("key", key)
        .with("hint", obstacle.kind.cure())
}
