//! What no work needs any more, cleaned up: when a person asks, and by itself now and then.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::project::ProjectShared;
use super::{blocking, branches};
use crate::clock::Clock;
use crate::files::replace;
use crate::model::TaskStatus;
use crate::schedule::resolve;
use crate::workspace::{BranchStatus, Pruned, Removed};
use crate::{Error, ErrorKind, Result};

/// How long it is left alone where the settings do not say.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often it is looked whether it is time.
const LOOK: Duration = Duration::from_secs(60 * 60);

/// Cleans up when it is time, also at once if the last time is long ago, until the project is closed.
pub(super) async fn keep_clean(shared: Weak<ProjectShared>, clock: Arc<dyn Clock>) {
    loop {
        let open = shared.upgrade().filter(|open| !*open.closing.borrow());
        let Some(open) = open else { return };
        let finishing = open.finishing();
        if let Err(error) = when_due(&open).await {
            open.attention(None, format!("cleaning up: {}", error.report()));
        }
        drop((finishing, open));
        clock.sleep_until(clock.boot_time() + LOOK).await;
    }
}

async fn when_due(shared: &Arc<ProjectShared>) -> Result<()> {
    let (_, settings) = shared.settings().await?;
    let every = match settings.defaults.prune_every.trim() {
        "" => EVERY,
        "never" => return Ok(()),
        text => resolve::duration(text)?,
    };
    let (marker, now) = (shared.state_dir.join("pruned"), shared.inner.clock.now().unix_millis());
    let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
    let is_due = blocking("looking when it was cleaned up", move || {
        let last = std::fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<i64>().ok());
        // A clock that was set back does not put it off.
        let is_due = last.is_none_or(|last| !(0..every).contains(&now.saturating_sub(last)));
        if is_due {
            replace(&marker, now.to_string().as_bytes())?;
        }
        Ok(is_due)
    })
    .await?;
    if is_due {
        let pruned = prune(shared).await?;
        tracing::info!(removed = ?pruned.removed, kept = ?pruned.kept, "cleaned up");
    }
    Ok(())
}

/// Removes what the workspace knows to be left over, and where branches go after a merge, those of tasks that are over
/// and whose work is in the target. One that cannot go does not keep the others.
pub(super) async fn prune(shared: &Arc<ProjectShared>) -> Result<Pruned> {
    let mut pruned = shared.workspace.prune().await?;
    let (project, settings) = shared.settings().await?;
    if !project.auto_delete_branch.unwrap_or(settings.defaults.auto_delete_branch) {
        return Ok(pruned);
    }
    for branch in shared.workspace.list().await? {
        let Ok(task) = branch.key.parse() else { continue };
        let is_over = match shared.store.get(task).await {
            Ok(task) => task.value.is_deleted() || task.value.status == TaskStatus::Done,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if branch.status != BranchStatus::Merged || !is_over {
            continue;
        }
        let kept = |error: Error| format!("branch {}: {}", branch.branch, error.report());
        match branches::remove(shared, task, false).await {
            Ok(Removed::Gone { .. }) => pruned.removed.push(format!("branch {}", branch.branch)),
            Ok(Removed::Kept { reason }) => pruned.kept.push(format!("branch {}: {reason}", branch.branch)),
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => pruned.kept.push(kept(error)),
        }
    }
    Ok(pruned)
}
