//! Detection of a stalled agent: one that reports nothing, uses no tool, and whose processes do nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Fact, Issue, IssueKind, Source, Status};
use crate::clock::Clock;
use crate::session::state::said::last_lines;
use crate::session::state::{Shared, in_words};

/// Length of a silence after which an agent counts as stalled, if the project has no other.
pub(crate) const STALL_AFTER: Duration = Duration::from_secs(5 * 60);
/// Shortest such length.
pub(crate) const SHORTEST_STALL: Duration = Duration::from_secs(10);
/// Divisor for the share of one processor that a spinner and timers use at most. A process that uses more is at work. Gemini
/// uses 18 % to draw that it waits.
const IDLE_SHARE: u32 = 3;

/// Raises and clears the issue of a stalled agent, until the task is aborted.
pub(in crate::session) async fn run(shared: Arc<Shared>, clock: Arc<dyn Clock>, stall_after: Duration) {
    // From then on it is nearly stalled, and its processes are looked at.
    let nearly = stall_after / 5 * 4;
    let look = stall_after / 10;
    let mut heard = shared.heard.subscribe();
    let (mut offset, mut used, mut moved) = (0, None, clock.boot_time());
    let (mut is_stalled, mut quiet) = (false, Duration::ZERO);
    loop {
        let looked = clock.boot_time();
        let reports = reports(shared.standing().status());
        // Seldom: hundreds of quiet sessions must cost next to nothing.
        let next = match quiet >= nearly {
            true => look,
            false if reports => nearly - quiet,
            false => 2 * look,
        };
        tokio::select! {
            // A stalled agent's next word clears the issue at once. Before that, the words of a busy agent
            // must not wake this task.
            _ = heard.changed(), if is_stalled => {}
            () = clock.sleep_until(looked + next) => {}
        }
        let now = clock.boot_time();
        let spoke = *heard.borrow_and_update();
        let status = shared.standing().status();
        // For an agent that reports nothing, output is the only sign of life. Others print a spinner while they
        // wait.
        let printed = shared.screen.offset();
        if std::mem::replace(&mut offset, printed) != printed && !self::reports(status) {
            moved = now;
        }
        quiet = now.saturating_sub(spoke.max(moved));
        if quiet < nearly {
            used = None;
        } else {
            // Some reads of `/proc`, which wait for no disk: a thread for each of many sessions would cost more.
            let time = shared.process.processor_time();
            let before = std::mem::replace(&mut used, time);
            // The first look has nothing to compare with. It comes so long before the limit that others follow in time.
            let spent = time.zip(before).map(|(time, before)| time.saturating_sub(before));
            if spent.is_some_and(|spent| spent > (now - looked) / IDLE_SHARE) {
                (moved, quiet) = (now, Duration::ZERO);
            }
        }
        let waits =
            matches!(status, Status::Idle | Status::ActionRequired) || !shared.blocks.borrow().is_empty();
        let is_now = quiet >= stall_after && !waits && !shared.said().uses_tool();
        if is_now == std::mem::replace(&mut is_stalled, is_now) {
            continue;
        }
        let fact = match is_now {
            true => {
                let shown = last_lines(&shared.screen.snapshot().text(), 3, &shared.footer);
                let shown = if shown.is_empty() { String::new() } else { format!("; it shows: {shown}") };
                let message = format!("nothing was heard of it for {}{shown}", in_words(quiet));
                Fact::Issue(Issue::new(IssueKind::Stalled, message))
            }
            false => Fact::IssueCleared(IssueKind::Stalled),
        };
        shared.learn(vec![fact], Source::Process);
    }
}

/// Returns true for the status of an agent that reports its activity.
fn reports(status: Status) -> bool {
    !matches!(status, Status::Starting | Status::Unknown)
}
