//! Commands that are neither agents nor trusted: those a project configures to verify its work.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::Interest;

use super::channel::{Reader, channel};
use super::contract::Exit;
use super::guarded::{End, Guarded};
use super::lines::Pipes;
use crate::process::helper::Helper;
use crate::process::{BoundedBytes, CommandOutput, RunLimits};
use crate::sandbox::Confined;
use crate::{Error, ErrorKind, Result};

/// Grace of a command that exceeded its time limit.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a command to its end under a guardian, without input. Everything it starts ends with it, at its time
/// limit, or when the future is dropped.
///
/// # Errors
/// As [`SessionHost::launch`](crate::session::SessionHost::launch). How the command ends is not an error.
pub async fn run(helper: &Helper, confined: Confined, limits: RunLimits) -> Result<CommandOutput> {
    let Pipes { theirs, input, output, errors } = Pipes::new()?;
    // The command reads the end of its input at once instead of waiting for a person.
    drop(input);
    let reader = Reader::new(channel(output, Interest::READABLE)?);
    let errors = Reader::new(channel(errors, Interest::READABLE)?);
    let guarded = Guarded::start(helper, confined, theirs).await?;
    let in_time = async {
        tokio::select! {
            () = guarded.over() => false,
            () = tokio::time::sleep(limits.timeout) => {
                // If the order cannot be given, the guardian is gone and its tree with it.
                let _ = guarded.terminate(GRACE).await;
                true
            }
        }
    };
    // Both pipes are drained at the same time: a command blocks as soon as one of them is full.
    let (timed_out, stdout, stderr) = tokio::join!(
        in_time,
        collect(&reader, limits.output, guarded.end()),
        collect(&errors, limits.output, guarded.end()),
    );
    let status = match guarded.wait().await {
        // The layout of `wait(2)`: the exit code in the second byte, the signal in the lowest seven bits.
        Exit::Code(code) => ExitStatus::from_raw((code & 0xff) << 8),
        Exit::Signal(signal) => ExitStatus::from_raw(signal & 0x7f),
        Exit::Unknown => return Err(Error::new(ErrorKind::Io, "the guardian was killed")),
    };
    Ok(CommandOutput { status, timed_out, stdout: stdout?, stderr: stderr? })
}

/// Reads to the end and keeps the first and the last bytes.
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
