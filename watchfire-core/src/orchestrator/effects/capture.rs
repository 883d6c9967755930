//! The capture of work whose session nothing watches any more.

use super::outcome::tell_kept;
use crate::model::TaskNumber;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::NoticeCode;
use crate::workspace::{CaptureRequest, Captured};
use crate::{Error, ErrorKind, Result};

/// Captures the work of a session that was lost in `cause`. A failure is reported; uncaptured work stays in its workspace.
pub(super) async fn capture(shared: &ProjectShared, task: Option<TaskNumber>, cause: &str) -> Captured {
    try_capture(shared, task, cause).await.unwrap_or_else(|error| without_capture(shared, task, &error))
}

pub(super) fn without_capture(shared: &ProjectShared, task: Option<TaskNumber>, error: &Error) -> Captured {
    if error.kind() != ErrorKind::NotFound {
        shared.notice(NoticeCode::Workspace, task, error.report());
    }
    Captured::default()
}

pub(super) async fn try_capture(
    shared: &ProjectShared,
    task: Option<TaskNumber>,
    cause: &str,
) -> Result<Captured> {
    let Some(task) = task else { return Ok(Captured::default()) };
    let message = format!("Uncommitted work of task #{task}\n\nCaptured after {cause}.");
    let request = CaptureRequest::new(task, message).with_trailer("Watchfire-Task", task.to_string());
    let capturing = shared.workspace.capture(&request);
    let captured = shared.patiently(Some(task), "capturing its work", capturing).await?;
    tell_kept(shared, Some(task), &captured);
    Ok(captured)
}
