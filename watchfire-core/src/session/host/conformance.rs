//! The requirements on every [`SessionHost`], as a suite that any implementation can run. Feature `testing`.
//!
//! The host runs real commands: `/bin/sh` must exist. Each case wants one of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use super::{HostChannel, HostRequest, Hosted, SessionHost};
use crate::Result;
use crate::conformance::cases;
use crate::files::{remove_tree, unique_name};
use crate::model::{ProcessIdentity, SessionId};
use crate::process::{CommandSpec, Liveness, SESSION_MARK};
use crate::sandbox::{NoSandbox, Sandbox as _, SandboxPolicy};
use crate::session::{Recorded, Recording};
use crate::terminal::Size;

cases! {
    async pub dyn SessionHost:
    what_runs_is_listed_until_it_ends,
    a_session_runs_once,
    a_launch_that_fails_leaves_nothing,
    a_dropped_launch_leaves_nothing,
    an_end_takes_what_the_agent_started,
    processes_carry_the_session,
    the_output_is_recorded_although_nobody_reads_it,
    ending_what_does_not_run_is_no_error,
}

/// Time limit of everything that is waited for.
const LIMIT: Duration = Duration::from_secs(20);
const CHANNELS: [HostChannel; 2] = [HostChannel::Terminal(Size::new(80, 24)), HostChannel::Pipes];

async fn what_runs_is_listed_until_it_ends(host: &dyn SessionHost) {
    for channel in CHANNELS {
        let (id, other) = (SessionId::random(), SessionId::random());
        let hosted = start(host, &id, channel, "echo up; sleep 1000").await;
        let short = start(host, &other, channel, "exit 3").await;
        assert!(within(short.process.wait()).await.to_string().contains('3'));
        assert_eq!(said(&hosted, "up").await.trim(), "up");
        let listed = host.list().await.expect("a list");
        let [entry] = &listed[..] else { panic!("one session runs: {listed:?}") };
        assert_eq!((&entry.session, &entry.agent), (&id, hosted.process.identity()));
        assert_eq!(entry.guardian, hosted.guardian);
        within(host.end(&id)).await.expect("an end");
        assert_eq!(host.list().await.expect("a list"), []);
        assert!(host.adopt(&id).await.expect("an answer").is_none(), "there is nothing to adopt");
        assert_ne!(entry.agent.liveness(), Liveness::Alive);
    }
}

async fn a_session_runs_once(host: &dyn SessionHost) {
    let id = SessionId::random();
    let first = start(host, &id, CHANNELS[0], "sleep 1000").await;
    let error = launch(host, &id, CHANNELS[0], "sleep 1000").await.err().expect("it runs already");
    assert_eq!(error.code(), "already_exists");
    within(host.end(&id)).await.expect("an end");
    within(first.process.wait()).await;
    start(host, &id, CHANNELS[0], "true").await;
    within(host.end(&id)).await.expect("an end");
}

async fn a_launch_that_fails_leaves_nothing(host: &dyn SessionHost) {
    let id = SessionId::random();
    for channel in CHANNELS {
        let launched = run(host, &id, channel, CommandSpec::new("/nowhere/to/be/found"));
        let error = within(launched).await.err().expect("there is no such program");
        assert_eq!(error.code(), "program_missing");
        assert_eq!(host.list().await.expect("a list"), []);
    }
    start(host, &id, CHANNELS[0], "true").await;
    within(host.end(&id)).await.expect("an end");
}

async fn a_dropped_launch_leaves_nothing(host: &dyn SessionHost) {
    let folder = std::env::temp_dir();
    for (n, channel) in CHANNELS.into_iter().enumerate() {
        let id = SessionId::random();
        let proof = folder.join(format!("watchfire-{id}-{n}"));
        let script = format!("echo $$ > '{}'; sleep 1000", proof.display());
        // One poll, which may or may not have started the process.
        let dropped = tokio::time::timeout(Duration::ZERO, launch(host, &id, channel, &script)).await;
        drop(dropped);
        within(host.end(&id)).await.expect("an end");
        assert_eq!(host.list().await.expect("a list"), []);
        // It may have come far enough to write its number.
        if let Some(pid) = std::fs::read_to_string(&proof).ok().and_then(|text| text.trim().parse().ok()) {
            let left = ProcessIdentity::of(pid).is_ok_and(|it| it.liveness() == Liveness::Alive);
            assert!(!left, "process {pid} goes on");
        }
        let _ = std::fs::remove_file(&proof);
        start(host, &id, channel, "true").await;
        within(host.end(&id)).await.expect("an end");
    }
}

async fn an_end_takes_what_the_agent_started(host: &dyn SessionHost) {
    for channel in CHANNELS {
        let id = SessionId::random();
        // Deaf to hanging up and to requests, and in a session of its own where the system has `setsid`.
        let script = "trap '' HUP TERM; $(command -v setsid) sh -c 'echo $$; exec sleep 1000' & wait";
        let hosted = start(host, &id, channel, script).await;
        let line = said(&hosted, "\n").await;
        let child = ProcessIdentity::of(line.trim().parse().expect("a process id")).expect("it runs");
        within(host.end(&id)).await.expect("an end");
        assert_ne!(child.liveness(), Liveness::Alive, "a descendant is left");
        assert_ne!(hosted.agent.liveness(), Liveness::Alive);
    }
}

async fn processes_carry_the_session(host: &dyn SessionHost) {
    for channel in CHANNELS {
        let id = SessionId::random();
        let hosted = start(host, &id, channel, &format!("sh -c 'echo ${SESSION_MARK}'")).await;
        assert_eq!(said(&hosted, "\n").await.trim(), id.as_str());
        within(host.end(&id)).await.expect("an end");
    }
}

async fn the_output_is_recorded_although_nobody_reads_it(host: &dyn SessionHost) {
    for channel in CHANNELS {
        let running =
            start(host, &SessionId::random(), channel, "echo begin; head -c 100000 /dev/zero; echo end")
                .await;
        within(running.process.wait()).await;
        let recording = Recording::open(&running.recording.0).expect("readable").expect("a recording");
        let (mut output, mut ended) = (Vec::new(), None);
        for part in recording.read() {
            match part.expect("readable") {
                Recorded::Output { bytes, .. } => output.extend(bytes),
                Recorded::Resize { size, .. } => assert_eq!(channel, HostChannel::Terminal(size)),
                Recorded::Missing { length, .. } => panic!("{length} bytes are missing"),
                Recorded::End { code, .. } => ended = Some(code),
            }
        }
        assert_eq!(ended, Some(Some(0)), "its end is recorded");
        let text = String::from_utf8_lossy(&output).replace('\r', "");
        assert!(text.starts_with("begin\n") && text.ends_with("end\n"), "{} bytes", output.len());
        // Read late, but to the end.
        assert_eq!(said(&running, "end").await.replace('\r', ""), text);
    }
}

async fn ending_what_does_not_run_is_no_error(host: &dyn SessionHost) {
    let id = SessionId::random();
    within(host.end(&id)).await.expect("nothing to do");
    start(host, &id, CHANNELS[1], "true").await;
    within(host.end(&id)).await.expect("an end");
    within(host.end(&id)).await.expect("nothing to do");
}

/// A session, and the folder with its recording.
struct Running {
    hosted: Hosted,
    recording: Scratch,
}

impl Deref for Running {
    type Target = Hosted;

    fn deref(&self) -> &Hosted {
        &self.hosted
    }
}

/// A name for a folder, which is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.0);
    }
}

async fn launch(
    host: &dyn SessionHost,
    id: &SessionId,
    channel: HostChannel,
    script: &str,
) -> Result<Running> {
    run(host, id, channel, CommandSpec::new("/bin/sh").with_args(["-c", script])).await
}

async fn run(
    host: &dyn SessionHost,
    id: &SessionId,
    channel: HostChannel,
    command: CommandSpec,
) -> Result<Running> {
    let policy = SandboxPolicy::builder().build().expect("a policy without rules");
    let command = command.with_env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let confined = NoSandbox.prepare(&policy, command).expect("nothing to enforce");
    let recording = Scratch(std::env::temp_dir().join(unique_name("recording")));
    let request = HostRequest::new(id.clone(), confined, channel, &recording.0);
    Ok(Running { hosted: host.launch(request).await?, recording })
}

async fn start(host: &dyn SessionHost, id: &SessionId, channel: HostChannel, script: &str) -> Running {
    within(launch(host, id, channel, script)).await.expect("a running process")
}

/// Returns the output up to and with `wanted`.
async fn said(hosted: &Hosted, wanted: &str) -> String {
    let (mut seen, mut offset) = (String::new(), 0);
    while !seen.contains(wanted) {
        let output = within(hosted.process.read_from(offset)).await.expect("output");
        offset = output.offset + output.bytes.len() as u64;
        seen.push_str(&String::from_utf8_lossy(&output.bytes));
        assert!(!output.ended || seen.contains(wanted), "no {wanted:?} in {seen:?}");
    }
    seen
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("the host hangs")
}
