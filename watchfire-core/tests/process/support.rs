//! What the tests share.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use watchfire_core::Result;
use watchfire_core::model::SessionId;
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{Confined, NoSandbox, Sandbox, SandboxPolicy};
use watchfire_core::session::{HostChannel, HostRequest, InProcess, SessionHost as _, SessionProcess};
use watchfire_core::terminal::Size;

/// Nothing here takes this long, unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The runtimes in which everything must work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    Current,
    Multi,
}

impl Flavour {
    pub(crate) const ALL: [Self; 2] = [Self::Current, Self::Multi];

    fn run(self, test: impl Future<Output = ()>) {
        let mut builder = match self {
            Self::Current => tokio::runtime::Builder::new_current_thread(),
            Self::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_io().enable_time().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(2 * DEADLINE, test).await.expect("it hangs") });
    }

    pub(crate) fn trial<F>(self, name: &str, test: impl FnOnce(Mark) -> F + Send + 'static) -> Trial
    where
        F: Future<Output = ()>,
    {
        Trial::test(format!("{self:?}::{name}").to_lowercase(), move || {
            let mark = Mark::new();
            self.run(async {
                test(mark.clone()).await;
                // Within the runtime, for those who rely on their dropped sessions.
                mark.assert_gone().await;
            });
            Ok(())
        })
    }
}

/// A variable by which a test finds every process that it caused.
#[derive(Clone, Debug)]
pub(crate) struct Mark(String);

impl Mark {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// A shell script with this mark.
    pub(crate) fn sh(&self, script: &str) -> CommandSpec {
        self.on(CommandSpec::new("/bin/sh").with_args(["-c", script]))
    }

    pub(crate) fn on(&self, spec: CommandSpec) -> CommandSpec {
        spec.with_env("PATH", "/usr/bin:/bin").with_env("WATCHFIRE_TEST_MARK", &self.0)
    }

    pub(crate) async fn pty(&self, script: &str) -> Arc<dyn SessionProcess> {
        start(self.sh(script)).await
    }

    /// The running processes with this mark.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let needle = format!("WATCHFIRE_TEST_MARK={}", self.0);
        let marked = |pid: &u32| {
            // A zombie has no environment, and is somebody's child: see assert_no_children.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes())
        };
        processes().filter(marked).collect()
    }

    pub(crate) async fn assert_gone(&self) {
        until(|| self.alive().is_empty(), || format!("left over: {:?}", describe(&self.alive()))).await;
    }
}

pub(crate) async fn start(spec: CommandSpec) -> Arc<dyn SessionProcess> {
    on_terminal(helper(), confined(spec)).await.unwrap()
}

/// Starts a process on a terminal, in a session of its own.
pub(crate) async fn on_terminal(helper: Helper, confined: Confined) -> Result<Arc<dyn SessionProcess>> {
    launch(helper, confined, HostChannel::Terminal(Size::new(80, 24))).await
}

pub(crate) async fn on_pipes(spec: CommandSpec) -> Arc<dyn SessionProcess> {
    launch(helper(), confined(spec), HostChannel::Pipes).await.unwrap()
}

async fn launch(helper: Helper, confined: Confined, channel: HostChannel) -> Result<Arc<dyn SessionProcess>> {
    let id = SessionId::random();
    let request = HostRequest::new(id.clone(), confined, channel, recordings().join(id.as_str()));
    InProcess::new(helper).launch(request).await.map(|hosted| hosted.process)
}

/// The folder with the recordings of all tests, which is emptied when they begin.
pub(crate) fn recordings() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("process-recordings")
}

pub(crate) fn helper() -> Helper {
    Helper::current().unwrap()
}

pub(crate) fn confined(spec: CommandSpec) -> Confined {
    let policy = SandboxPolicy::builder().build().unwrap();
    NoSandbox.prepare(&policy, spec).unwrap()
}

/// Waits until something that nothing tells us about is true.
pub(crate) async fn until(mut condition: impl FnMut() -> bool, why: impl Fn() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "{}", why());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads on until the output contains `text`; all of it.
pub(crate) async fn read_until(session: &Arc<dyn SessionProcess>, offset: &mut u64, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let output = tokio::time::timeout(DEADLINE, session.read_from(*offset)).await;
        let output = output.unwrap_or_else(|_| panic!("no {text:?} in {seen:?}")).unwrap();
        *offset = output.next_offset();
        seen.push_str(&String::from_utf8_lossy(&output.bytes));
        assert!(!output.ended || seen.contains(text), "no {text:?} in {seen:?}");
    }
    seen
}

/// Everything from the start to the end.
pub(crate) async fn read_all(session: &Arc<dyn SessionProcess>) -> String {
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let output =
            tokio::time::timeout(DEADLINE, session.read_from(offset)).await.expect("an end").unwrap();
        assert_eq!(output.offset, offset, "nothing is lost");
        offset = output.next_offset();
        all.extend_from_slice(&output.bytes);
        if output.ended {
            return String::from_utf8(all).unwrap();
        }
    }
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn describe(pids: &[u32]) -> BTreeMap<u32, String> {
    let command = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    pids.iter().map(|pid| (*pid, command(pid))).collect()
}

/// Neither zombies nor guardians are left.
pub(crate) fn assert_no_children() {
    let start = Instant::now();
    loop {
        let children = children_of(std::process::id());
        if children.is_empty() {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "children left: {:?}", describe(&children));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The state of this process that others in it rely on: signal dispositions and masks, umask, whether it is a
/// subreaper, its limits.
pub(crate) fn process_wide_state() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kept = ["SigBlk:", "SigIgn:", "SigCgt:", "Umask:", "NoNewPrivs:"];
    let lines = status.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
    // From 32 up are the C library's own, which it takes with the first thread.
    let usual = |line: &str| match line.strip_prefix("Sig").and_then(|rest| rest.split_once(":")) {
        Some((name, mask)) => {
            format!("{name}: {:x}", u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff)
        }
        None => line.to_owned(),
    };
    let mut state: Vec<_> = lines.map(usual).collect();
    state.push(format!("subreaper: {:?}", rustix::process::child_subreaper()));
    state.push(fs::read_to_string("/proc/self/limits").unwrap());
    state
}
