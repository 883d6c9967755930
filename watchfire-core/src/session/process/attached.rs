//! Commands that a person runs on their own terminal, confined as an agent would be.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::contract::Exit;
use super::guarded::{Guarded, Streams};
use crate::process::helper::Helper;
use crate::sandbox::{Confined, Denials, PolicyReport};
use crate::{Error, Result};

/// Result of an attached command, with the sandbox that confined it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attached {
    /// Exit of the command.
    pub exit: Exit,
    /// The rules that were in force.
    pub report: PolicyReport,
    /// Denials, as far as the kernel reports them on this machine.
    pub denials: Denials,
    /// Remarks for the person about what became of its work in the repository.
    pub remarks: Vec<String>,
}

/// Runs a command to its end under a guardian, on our own stdin, stdout and stderr.
///
/// It stays in our session, so on a terminal it has job control. Everything it starts ends with it, or when
/// the future is dropped.
///
/// # Errors
/// As [`SessionHost::launch`](crate::session::SessionHost::launch). How the command ends is not an error.
pub async fn run_attached(helper: &Helper, confined: Confined) -> Result<Attached> {
    // Copies: the guardian's descriptors are closed after the spawn, and our own streams must survive that.
    let ours = [copy(io::stdin())?, copy(io::stdout())?, copy(io::stderr())?];
    let guarded = Guarded::start(helper, confined, Streams::Ours(ours)).await?;
    let exit = guarded.wait().await;
    let guard = guarded.guard();
    Ok(Attached { exit, report: guard.report(), denials: guard.denials(), remarks: Vec::new() })
}

fn copy(stream: impl AsFd) -> Result<OwnedFd> {
    let copied = stream.as_fd().try_clone_to_owned();
    copied.map_err(|error| Error::io("passing on a stream of ours", error))
}
