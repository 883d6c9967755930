//! Removes leftovers: on request, and periodically.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use super::branches::remove_branch;
use crate::clock::Clock;
use crate::files::replace;
use crate::model::{LogSettings, TaskStatus};
use crate::orchestrator::compose::kept::{self, RemovedLogs};
use crate::orchestrator::shared::{ProjectShared, archive, blocking};
use crate::schedule::{NoticeCode, resolve};
use crate::workspace::{BranchStatus, Pruned, Removed};
use crate::{Error, ErrorKind, Result};

/// Default interval between two clean-ups.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval at which the time of the last clean-up is checked: the machine may sleep for days.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// Files are written by the kernel's coarse clock, which is some milliseconds behind.
const MARGIN: Duration = Duration::from_secs(60);

/// Cleans up whenever it is due, until the project is closed. Begins at once if the last time is long ago.
pub(crate) async fn prune_periodically(shared: Weak<ProjectShared>, clock: Arc<dyn Clock>) {
    loop {
        let open = shared.upgrade().filter(|open| !*open.closing.borrow());
        let Some(open) = open else { return };
        let busy = open.busy();
        if let Err(error) = when_due(&open).await {
            open.notice(NoticeCode::Cleanup, None, format!("cleaning up: {}", error.report()));
        }
        // Released before the pause: otherwise the project could not be closed for an hour.
        drop((busy, open));
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
    let is_due = blocking("reading the time of the last clean-up", move || {
        let last = std::fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<i64>().ok());
        // A clock that was set back must not delay it.
        let is_due = last.is_none_or(|last| !(0..every).contains(&now.saturating_sub(last)));
        // Noted before the work, so that a clean-up that fails is not repeated every hour.
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

/// Removes leftovers of the workspace and, where branches are deleted after a merge, the merged branches of finished
/// tasks. A branch that cannot be removed does not stop the others.
pub(crate) async fn prune(shared: &Arc<ProjectShared>) -> Result<Pruned> {
    let mut pruned = shared.workspace.prune().await?;
    let (project, settings) = shared.settings().await?;
    let removed = remove_old_logs(shared, settings.logs.clone()).await?;
    for (what, count) in [("log", removed.whole), ("recording", removed.recordings)] {
        match count {
            0 => {}
            1 => pruned.removed.push(format!("the {what} of 1 old session")),
            count => pruned.removed.push(format!("the {what}s of {count} old sessions")),
        }
    }
    if !project.auto_delete_branch.unwrap_or(settings.defaults.auto_delete_branch) {
        return Ok(pruned);
    }
    for branch in shared.workspace.list().await? {
        let Ok(task) = branch.key.parse() else { continue };
        // A file that cannot be read says nothing of its task, so the branch stays.
        let is_over = match shared.store.get(task).await {
            Ok(task) => task.value.is_deleted() || task.value.status == TaskStatus::Done,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !matches!(branch.status, BranchStatus::Merged | BranchStatus::Empty) || !is_over {
            continue;
        }
        let kept = |error: Error| format!("branch {}: {}", branch.branch, error.report());
        match remove_branch(shared, task, false).await {
            Ok(Removed::Gone { .. }) => pruned.removed.push(format!("branch {}", branch.branch)),
            Ok(Removed::Kept { reason }) => pruned.kept.push(format!("branch {}: {reason}", branch.branch)),
            // Also a task that has begun since it was looked at: `remove_branch` refuses while a life goes
            // on.
            Err(error) => pruned.kept.push(kept(error)),
        }
    }
    Ok(pruned)
}

async fn remove_old_logs(shared: &Arc<ProjectShared>, limits: LogSettings) -> Result<RemovedLogs> {
    // A quiet session may have written nothing since it began.
    let began = shared.sessions().iter().map(|it| it.info().started_at.unix_millis()).min();
    let time = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    let in_use = began.map(|began| time(began) - MARGIN);
    let (logs, now) = (shared.logs_dir.clone(), time(shared.inner.clock.now().unix_millis()));
    if let Some(oldest) = kept::oldest(&limits, now) {
        archive::remove_before(shared, oldest).await?;
    }
    blocking("removing old logs", move || kept::remove_old(&logs, &limits, now, in_use)).await
}
