//! Waiting for something in the book of inquiries.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::inquiry::Inquiry;
use crate::model::Timestamp;
use crate::orchestrator::shared::ProjectShared;

/// Longest sleep: the machine's clock may be set, and deadlines are by it.
const LONGEST: Duration = Duration::from_secs(60);

/// Sleeps until a time of day, or for a minute.
pub(super) async fn until(shared: &ProjectShared, deadline: Option<&Timestamp>) {
    let clock = &shared.inner.clock;
    let left = deadline.map_or(LONGEST, |deadline| deadline.since(&clock.now()).min(LONGEST));
    // A little more, so that the deadline has passed by then.
    clock.sleep_until(clock.boot_time() + left + Duration::from_millis(1)).await;
}

/// Waits for the end of an inquiry.
///
/// # Errors
/// `not_found`; I/O errors.
pub(crate) async fn end_of(shared: &Arc<ProjectShared>, id: &str) -> Result<Inquiry> {
    let mut changes = shared.inquiries.changes();
    loop {
        changes.borrow_and_update();
        let inquiry = shared.inquiries.book().await?.find(id)?.clone();
        if !inquiry.is_pending() {
            return Ok(inquiry);
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = until(shared, Some(&inquiry.deadline)) => {}
        }
    }
}
