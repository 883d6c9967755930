//! The tasks as the store has them, for the dispatcher.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::Result;
use crate::clock::Clock;
use crate::model::Phase;
use crate::orchestrator::shared::{Message, ProjectShared};
use crate::schedule::{Card, Fact, NoticeCode, resolve};
use crate::store::{Changes, TaskQuery};

/// Polling interval for the board once the store's stream of changes has ended.
const POLL: Duration = Duration::from_secs(10);
/// Time in which further changes are drained before the board is read: many files often change together.
const QUIET: Duration = Duration::from_millis(30);

/// Keeps the dispatcher's board up to date until the project is closed.
pub(crate) async fn feed_board(shared: Weak<ProjectShared>) {
    let Some(open) = shared.upgrade() else { return };
    let (clock, reload) = (Arc::clone(&open.inner.clock), Arc::clone(&open.reload));
    let mut changes = Some(open.store.subscribe());
    let mut home = open.inner.store_home.subscribe();
    // Only after the subscriptions, so that no change lies between them and the read.
    reload.notify_one();
    drop(open);
    loop {
        tokio::select! {
            () = reload.notified() => {}
            // The person's settings count for the tasks too, and are read with them.
            Some(_) = std::future::poll_fn(|cx| home.as_mut().poll_next(cx)) => {}
            more = next(&mut changes, &*clock) => if !more {
                // The stream has ended: from now on the board is polled.
                changes = None;
                continue;
            },
        }
        // One read for all changes of this moment: a command that rewrites 3,000 files gives one board.
        let quiet = clock.sleep_until(clock.boot_time() + QUIET);
        tokio::pin!(quiet);
        while changes.is_some() {
            tokio::select! {
                biased;
                () = &mut quiet => break,
                more = next(&mut changes, &*clock) => if !more {
                    changes = None;
                },
            }
        }
        // Upgraded only for the read, so that this loop does not keep a closed project alive.
        let Some(shared) = shared.upgrade() else { return };
        if *shared.closing.borrow() {
            return;
        }
        if let Err(error) = load_board(&shared).await {
            shared.notice(NoticeCode::Store, None, format!("reading the tasks: {}", error.report()));
            // No run waits for tasks that cannot be read.
            shared.inner.reports.fact(&shared.id, Fact::Looked);
        }
    }
}

/// Waits for a change. Returns false once the store's stream has ended, which is not an error.
async fn next(changes: &mut Option<Changes>, clock: &dyn Clock) -> bool {
    match changes {
        Some(changes) => std::future::poll_fn(|cx| changes.as_mut().poll_next(cx)).await.is_some(),
        None => {
            clock.sleep_until(clock.boot_time() + POLL).await;
            true
        }
    }
}

/// Reads the tasks and reports them. Returns true if the dispatcher accepted them as current.
pub(crate) async fn load_board(shared: &ProjectShared) -> Result<bool> {
    // Before the read: what an effect changes during the read makes this board stale.
    let read = shared.begin_board();
    if let Err(error) = shared.inner.reload_settings().await {
        let message = format!("settings.yaml: {}; the last good settings hold", error.report());
        shared.notice(NoticeCode::Malformed, None, message);
    }
    let (project, settings) = shared.settings().await?;
    let list = shared.store.list(&TaskQuery::new()).await?;
    shared.notice_malformed(&list.malformed);
    shared.notice_unknown_keys(&project, &settings, &list);
    shared.notice_repositories(&project);
    let limits = shared.limits(&project, &settings);
    let default = &shared.inner.default_backend;
    let in_wildfire = project.in_phase(Some(Phase::Execute));
    let card = |task: &crate::model::Task| {
        let backend = |project| {
            let backend = resolve::backend(None, Some(task), project, &settings, default.clone());
            // A backend that cannot be resolved blocks nothing here; the start of the session reports why.
            backend.ok().map(|backend| backend.value)
        };
        Card::new(task, backend(&project), backend(&in_wildfire))
    };
    let cards = list.tasks.iter().map(|task| card(&task.value)).collect();
    let (reply, counted) = oneshot::channel();
    let message = Message::Board { project: shared.id.clone(), read, cards, limits, reply };
    shared.inner.reports.send(message);
    // No answer means that the project is closed.
    Ok(counted.await.unwrap_or(true))
}
