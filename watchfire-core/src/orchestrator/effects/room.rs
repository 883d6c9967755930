//! Room on the disk. An agent on a full disk fails in ways that look like its own fault.

use std::sync::Arc;

use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::{Error, ErrorKind, Result};

/// Free bytes below which a disk counts as full.
const LEAST: u64 = 1 << 20;

/// Returns an error if the disk of the project or of its sessions is full.
///
/// # Errors
/// `out_of_space`.
pub(super) async fn check(shared: &Arc<ProjectShared>) -> Result<()> {
    let places = [shared.state_dir.clone(), shared.root.clone()];
    blocking("asking for room on the disk", move || {
        for path in places {
            // A file system that cannot say so is not full.
            let free =
                rustix::fs::statvfs(&path).map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
            if free < LEAST {
                return Err(Error::new(ErrorKind::OutOfSpace, "the disk is full")
                    .with("free_bytes", free)
                    .with_path(path));
            }
        }
        Ok(())
    })
    .await
}
