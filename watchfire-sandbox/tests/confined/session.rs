//! The whole way: a guardian, a terminal, and a confined command on it.

use std::time::Duration;

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::model::SessionId;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::shell;
use watchfire_core::sandbox::{Control, ControlState, SandboxPolicy};
use watchfire_core::session::{Exit, HostChannel, HostRequest, InProcess, SessionHost as _, SessionProcess};
use watchfire_core::terminal::Size;

use crate::Bench;

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// Started, interrupted, asked to end, and gone, with what was in force in the report.
pub(crate) fn sessions_work_under_a_guardian(bench: Bench<'_>, helper: Helper) -> Outcome {
    if matches!(bench.sandbox.name(), "bwrap" | "birdcage") {
        return Err(NotPassed::Skipped(
            "this sandbox hands no signals on, and the report says so".to_owned(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(30), run(bench, &helper)).await })
        .map_err(failed)?
}

async fn run(bench: Bench<'_>, helper: &Helper) -> Outcome {
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").build().map_err(failed)?;
    // Told to end, it looks for a while whether it is told again: once is what it must be.
    let script = "exec perl -e '$|=1; $SIG{INT}=sub{print \"interrupted\\n\"}; $SIG{HUP}=sub{$n++}; print \"ready\\n\"; \
                  while(1){ select undef,undef,undef,0.05; $n && $seen++; exit 5+$n if $seen>8 }'";
    let command = shell(&format!("stty noflsh; {script}")).with_cwd(bench.scratch).with_env("TERM", "xterm");
    let confined = bench.sandbox.prepare(&policy, command).map_err(failed)?;
    let channel = HostChannel::Terminal(Size::new(80, 24));
    let recording = tempfile::tempdir().map_err(failed)?;
    let request =
        HostRequest::new(SessionId::random(), confined, channel, recording.path().join("recording"));
    let hosted =
        InProcess::new(helper.clone()).launch(request).await.map_err(|error| failed(error.report()))?;
    let session = &*hosted.process;
    let mut offset = 0;
    read_until(session, &mut offset, "ready").await?;
    let report = hosted.guard.report();
    if report.state(Control::HIDDEN) != Some(ControlState::Enforced)
        || report.to_string().contains("not started yet")
    {
        return Err(NotPassed::Failed(format!("running, with this report:\n{report}")));
    }
    session.interrupt().await.map_err(failed)?;
    read_until(session, &mut offset, "interrupted").await?;
    match session.terminate(Duration::from_secs(10)).await.map_err(failed)? {
        Exit::Code(6) => Ok(()),
        other => Err(NotPassed::Failed(format!("{other:?}"))),
    }
}

async fn read_until(session: &dyn SessionProcess, offset: &mut u64, wanted: &str) -> Result<(), NotPassed> {
    let mut text = String::new();
    while !text.contains(wanted) {
        let output = session.read_from(*offset).await.map_err(failed)?;
        *offset = output.next_offset();
        text.push_str(&String::from_utf8_lossy(&output.bytes));
        if output.ended {
            return Err(NotPassed::Failed(format!("{wanted:?} did not come: {text:?}")));
        }
    }
    Ok(())
}
