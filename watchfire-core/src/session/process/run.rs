//! Commands that are not agents, and not ours to trust either: what a project says verifies its work.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use super::channel::Reader;
use super::contract::Exit;
use super::guarded::End;
use super::lines::OnPipes;
use crate::process::helper::Helper;
use crate::process::{BoundedBytes, CommandOutput, RunLimits};
use crate::sandbox::Confined;
use crate::{Error, ErrorKind, Result};

/// How long a command that takes too long may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a command to its end under a guardian, without input: whatever it starts ends with it, or when the time is
/// over, or when the future is dropped.
///
/// # Errors
/// As [`PtySession::start`](super::PtySession::start). How the command ends is not an error.
pub async fn run(helper: &Helper, confined: Confined, limits: RunLimits) -> Result<CommandOutput> {
    let OnPipes { guarded, writer, reader, errors } = OnPipes::start(helper, confined).await?;
    drop(writer);
    let in_time = async {
        tokio::select! {
            () = guarded.over() => false,
            () = tokio::time::sleep(limits.timeout) => {
                // It ends all the same if the order cannot be given.
                let _ = guarded.terminate(GRACE).await;
                true
            }
        }
    };
    let (timed_out, stdout, stderr) = tokio::join!(
        in_time,
        collect(&reader, limits.output, guarded.end()),
        collect(&errors, limits.output, guarded.end()),
    );
    let status = match guarded.wait().await {
        Exit::Code(code) => ExitStatus::from_raw((code & 0xff) << 8),
        Exit::Signal(signal) => ExitStatus::from_raw(signal & 0x7f),
        Exit::Unknown => return Err(Error::new(ErrorKind::Io, "the guardian was killed")),
    };
    Ok(CommandOutput { status, timed_out, stdout: stdout?, stderr: stderr? })
}

/// Reads to the end.
async fn collect(reader: &Reader, limit: usize, end: End) -> Result<BoundedBytes> {
    let (mut kept, mut offset) = (BoundedBytes::new(limit), 0);
    loop {
        let output = reader.read_from(offset, end.over()).await?;
        offset = output.next_offset();
        kept.push(&output.bytes);
        if output.ended {
            return Ok(kept);
        }
    }
}
