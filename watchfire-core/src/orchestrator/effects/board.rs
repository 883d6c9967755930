//! The tasks as the store has them, for the dispatcher.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::Result;
use crate::clock::Clock;
use crate::orchestrator::shared::{Message, ProjectShared};
use crate::schedule::{Card, NoticeCode, resolve};
use crate::store::{Changes, TaskQuery};

/// The interval at which the board is read although no change was reported, once the store's stream has ended.
const POLL: Duration = Duration::from_secs(10);
/// The time within which further changes are drained before the board is read: many files often change together.
const QUIET: Duration = Duration::from_millis(30);

/// Keeps the dispatcher's board up to date until the project is closed.
pub(crate) async fn feed_board(shared: Weak<ProjectShared>, reload: Arc<Notify>, changes: Changes) {
    let Some(clock) = shared.upgrade().map(|shared| Arc::clone(&shared.inner.clock)) else { return };
    let mut changes = Some(changes);
    loop {
        tokio::select! {
            () = reload.notified() => {}
            more = next(&mut changes, &*clock) => if !more {
                changes = None;
                continue;
            },
        }
        // One read for all that changes now: 3,000 files rewritten by one command are one board.
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
        let Some(shared) = shared.upgrade() else { return };
        if *shared.closing.borrow() {
            return;
        }
        let loading = Arc::clone(&shared);
        // A task of its own: a foreign store may panic, and the board must go on.
        match tokio::spawn(async move { load_board(&loading).await }).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                shared.notice(NoticeCode::Store, None, format!("reading the tasks: {}", error.report()));
            }
            Err(error) => shared.notice(NoticeCode::Store, None, format!("the store panicked: {error}")),
        }
    }
}

/// Waits for a change; false once the store's stream has ended, which a store may do without a word.
async fn next(changes: &mut Option<Changes>, clock: &dyn Clock) -> bool {
    match changes {
        Some(changes) => std::future::poll_fn(|cx| changes.as_mut().poll_next(cx)).await.is_some(),
        None => {
            clock.sleep_until(clock.boot_time() + POLL).await;
            true
        }
    }
}

/// Reads the tasks and reports them. Returns true if they were fresh enough to count.
pub(crate) async fn load_board(shared: &ProjectShared) -> Result<bool> {
    let read = shared.begin_board();
    if let Err(error) = shared.inner.reload_settings().await {
        let message = format!("settings.yaml: {}; the last good settings hold", error.report());
        shared.notice(NoticeCode::Malformed, None, message);
    }
    let (project, settings) = shared.settings().await?;
    let list = shared.store.list(&TaskQuery::new()).await?;
    shared.notice_malformed(&list.malformed);
    let limits = shared.limits(&project, &settings);
    let default = &shared.inner.default_backend;
    let card = |task: &crate::model::Task| {
        let backend = resolve::backend(None, Some(task), &project, &settings, default.clone());
        Card::new(task, backend.ok().map(|backend| backend.value))
    };
    let cards = list.tasks.iter().map(|task| card(&task.value)).collect();
    let (reply, counted) = oneshot::channel();
    let message = Message::Board { project: shared.id.clone(), read, cards, limits, reply };
    shared.inner.reports.send(message);
    // No answer: the project is closed.
    Ok(counted.await.unwrap_or(true))
}
