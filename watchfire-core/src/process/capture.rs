//! Short commands: run to their end within limits of time and output.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::CommandSpec;
use super::spawn::{Group, SpawnOptions, spawn};
use crate::{Error, Result};

/// Limits of a short command.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunLimits {
    /// Maximum time to run.
    pub timeout: Duration,
    /// Number of bytes kept of each stream: half from its beginning, half from its end.
    pub output: usize,
}

impl Default for RunLimits {
    /// Ten seconds, and 64 KiB of each stream.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), output: 64 * 1024 }
    }
}

impl RunLimits {
    /// Sets the maximum time to run.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of bytes kept of each stream.
    #[must_use]
    pub fn with_output(mut self, bytes: usize) -> Self {
        self.output = bytes;
        self
    }
}

/// The result of a short command.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// Exit status. SIGKILL if the command timed out.
    pub status: ExitStatus,
    /// True if the command ran longer than allowed and was killed.
    pub timed_out: bool,
    /// Output on stdout.
    pub stdout: BoundedBytes,
    /// Output on stderr.
    pub stderr: BoundedBytes,
}

impl CommandOutput {
    /// Returns true if the command exited in time with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// Returns the exit code, or 128 plus the number of the signal that ended the command, as shells do.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
    }
}

/// The beginning and the end of a stream.
///
/// An error message stands at either end: compilers print the cause first, scripts the failure last.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BoundedBytes {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl BoundedBytes {
    /// Creates an empty buffer for at most `limit` bytes.
    #[must_use]
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Adds the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // The first half of the limit is filled once; everything after it goes through the second half.
        let room = (self.limit / 2).saturating_sub(self.head.len()).min(bytes.len());
        let (head, tail) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let capacity = self.limit.saturating_sub(self.limit / 2);
        // Drained in one step for each piece, not for each byte.
        let excess = self.tail.len().saturating_sub(capacity);
        self.tail.drain(..excess);
        self.omitted = self.omitted.saturating_add(excess as u64);
    }

    /// Returns the number of bytes missing between beginning and end.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Returns the kept bytes, without a mark where some are missing.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.head.iter().chain(&self.tail).copied().collect()
    }

    /// Returns the kept bytes as text for people, with a line that says how many are missing.
    #[must_use]
    pub fn text(&self) -> String {
        if self.omitted == 0 {
            return String::from_utf8_lossy(&self.bytes()).into_owned();
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!("{head}\n… {} bytes omitted …\n{tail}", self.omitted)
    }
}

/// Runs a command to its end, with stdin from the null device.
///
/// The command leads a process group, which is killed when the command ends or its time is over. A descendant that left
/// the group survives, so untrusted commands run in a session instead. Returns soon after the command has ended even if
/// such a descendant holds its output open.
///
/// # Errors
/// The same as [`spawn`](super::spawn()). A failing command is not an error.
pub fn run_blocking(spec: &CommandSpec, limits: RunLimits) -> Result<CommandOutput> {
    let options = SpawnOptions::default()
        .with_stdout(Stdio::piped())
        .with_stderr(Stdio::piped())
        // A group of its own, so that the kill below reaches the descendants.
        .with_group(Group::New);
    let mut child = spawn(spec, options)?;
    let mut streams = [
        Stream::new(child.stdout.take().map(OwnedFd::from), limits.output),
        Stream::new(child.stderr.take().map(OwnedFd::from), limits.output),
    ];
    // Both streams are read together: a command that fills one pipe would otherwise wait for ever.
    let outcome = follow(&child, &mut streams, limits.timeout);
    // Before `wait`: as long as the child is not reaped, its pid cannot be reused for another group.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(|error| Error::io("waiting for a program", error))?;
    let timed_out = outcome?;
    // After the kill: what the command wrote last is still in the pipes.
    drain(&mut streams)?;
    let [stdout, stderr] = streams.map(|stream| stream.buffer);
    Ok(CommandOutput { status, timed_out, stdout, stderr })
}

/// Polling interval for the end of the command where the kernel has no pidfd.
const TICK: Duration = Duration::from_millis(5);

/// Maximum number of bytes read after the command has ended. More than two pipes can hold (1 MiB each at most), so
/// that its own output is complete, and bounded, because a surviving descendant may go on writing.
const DRAINED: usize = 4 << 20;

struct Stream {
    fd: Option<OwnedFd>,
    buffer: BoundedBytes,
}

impl Stream {
    fn new(fd: Option<OwnedFd>, limit: usize) -> Self {
        Self { fd, buffer: BoundedBytes::new(limit) }
    }

    /// Reads once and returns the number of bytes, or 0 if none are available now or ever.
    fn read(&mut self) -> Result<usize> {
        let Some(fd) = &self.fd else { return Ok(0) };
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(fd, &mut buffer) {
            // Closed here: a pipe at its end stays readable, and every further poll would return at once.
            Ok(0) => self.fd = None,
            Ok(count) => {
                self.buffer.push(buffer.get(..count).unwrap_or_default());
                return Ok(count);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(Error::io("reading a program's output", error.into())),
        }
        Ok(0)
    }
}

/// Reads until the command has ended or its time is over. Returns true if it timed out.
fn follow(child: &Child, streams: &mut [Stream; 2], timeout: Duration) -> Result<bool> {
    let start = Instant::now();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // A pidfd becomes readable when the process ends, so one poll waits for output and end without a timer.
    #[cfg(target_os = "linux")]
    let watch =
        pid.and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
    #[cfg(not(target_os = "linux"))]
    let watch: Option<OwnedFd> = None;
    loop {
        // Checked before the time limit, so that a command that ends just in time is not reported as late.
        if has_ended(pid)? {
            return Ok(false);
        }
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(true);
        }
        let wait = if watch.is_some() { left } else { left.min(TICK) };
        wait_readable(streams, watch.as_ref().map(AsFd::as_fd), wait)?;
        read_ready(streams)?;
    }
}

fn has_ended(pid: Option<Pid>) -> Result<bool> {
    let Some(pid) = pid else { return Ok(true) };
    // NOWAIT leaves the zombie, and with it the group's number, until the group has been killed.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(pid), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(Error::io("waiting for a program", error.into())),
    }
}

/// Reads what the pipes hold, without waiting for descendants that may keep them open.
fn drain(streams: &mut [Stream; 2]) -> Result<()> {
    let mut total = 0;
    while total < DRAINED && wait_readable(streams, None, Duration::ZERO)? {
        // Counts an end of a stream as progress, so that the loop is bounded in any case.
        total += read_ready(streams)?.max(1);
    }
    Ok(())
}

fn wait_readable(streams: &[Stream; 2], also: Option<BorrowedFd<'_>>, wait: Duration) -> Result<bool> {
    let open = streams.iter().filter_map(|stream| stream.fd.as_ref()).map(AsFd::as_fd).chain(also);
    let mut fds: Vec<_> = open.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut fds, Some(&wait)) {
        Ok(count) => Ok(count > 0),
        // Interrupted; the caller looks again.
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(Error::io("waiting for a program's output", error.into())),
    }
}

fn read_ready(streams: &mut [Stream; 2]) -> Result<usize> {
    let mut total = 0;
    for stream in streams {
        let Some(fd) = &stream.fd else { continue };
        let mut ready = [PollFd::new(fd, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
            total += stream.read()?;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limits: RunLimits) -> CommandOutput {
        let spec = CommandSpec::new("/bin/sh").with_args(["-c", script]).with_env("PATH", "/usr/bin:/bin");
        run_blocking(&spec, limits).unwrap()
    }

    #[test]
    fn output_and_code_are_captured() {
        let ran = sh("echo out; echo err >&2; exit 3", RunLimits::default());
        assert_eq!((ran.stdout.text().as_str(), ran.stderr.text().as_str()), ("out\n", "err\n"));
        assert_eq!((ran.code(), ran.timed_out, ran.success()), (3, false, false));
        assert_eq!(sh("kill -9 $$", RunLimits::default()).code(), 137);
    }

    #[test]
    fn a_flood_keeps_head_and_tail() {
        let ran = sh("echo first; yes | head -c 3000000; echo last", RunLimits::default().with_output(1000));
        let text = ran.stdout.text();
        assert!(text.starts_with("first\n") && text.ends_with("y\nlast\n"), "{text}");
        assert_eq!(ran.stdout.bytes().len(), 1000);
        assert!(text.contains(&format!("… {} bytes omitted …", 3_000_000 + 11 - 1000)), "{text}");
    }

    #[test]
    fn time_ends_the_whole_group() {
        let start = Instant::now();
        let limits = RunLimits::default().with_timeout(Duration::from_millis(300));
        let ran = sh("trap '' TERM HUP; sleep 60 & echo $!; wait", limits);
        assert!(ran.timed_out && !ran.success());
        assert!(start.elapsed() < Duration::from_secs(30));
        let child: u32 = ran.stdout.text().trim().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while crate::model::ProcessIdentity::of(child)
            .is_ok_and(|it| it.liveness() != super::super::Liveness::Dead)
        {
            assert!(Instant::now() < deadline, "{child} survived");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_survivor_that_holds_the_output_open_does_not_delay_the_return() {
        let start = Instant::now();
        let ran = sh("setsid sleep 20 & echo $!", RunLimits::default());
        assert_eq!(ran.code(), 0);
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        let survivor = Pid::from_raw(ran.stdout.text().trim().parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(survivor, Signal::KILL);
    }
}
