//! The process that owns one agent's process tree and ends it.
//!
//! A guardian is our own program in the role `guardian`, one for every session. It is the subreaper of the agent:
//! every process that the agent starts, however often it forks or detaches, becomes the guardian's child when
//! its own parents are gone. So the tree has ended exactly when the guardian has no child left to wait for,
//! and no process of a session can escape by leaving its group or its session.
//!
//! It ends the tree when the agent exits, on an order, or when its control socket closes. The socket is the
//! lifeline of the orchestrator: the kernel closes it when that is killed.
//!
//! It also reads the agent's output, into the recording, and reports how long that is; the orchestrator reads the
//! files. Plain commands write to pipes of the orchestrator instead.
//!
//! It leads a session of its own without a terminal, and blocks the usual signals, so that neither Ctrl+C at
//! the embedder's terminal nor the end of the agent's reaches it. (A command that a person runs on their own
//! terminal stays in that session, and so does its guardian.) It never has the agent's side of the terminal open
//! after the start. It has one thread and a few kilobytes of state.
//!
//! Only Linux has subreapers. Elsewhere the agent's process group is ended, and descendants that left the
//! group survive.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::intake::Intake;
use super::tree;
use super::wire::{Frames, Order, RecordIn, Report, Ties, VERSION};
use crate::model::ProcessIdentity;
use crate::process::child::Wakeups;
use crate::process::helper::RoleArgs;
use crate::process::spawn::try_spawn;
use crate::process::{CommandSpec, Group, SpawnOptions};
use crate::sandbox::Descriptor;

/// The name of the role.
pub(super) const ROLE: &str = "guardian";
/// The number of the guardian's control socket.
pub(super) const CONTROL_FD: i32 = 3;
/// The number of the agent's stdin. With a terminal, one descriptor serves as all three streams.
pub(super) const STDIN_FD: i32 = 4;
/// The number of the agent's stdout.
pub(super) const STDOUT_FD: i32 = 5;
/// The number of the agent's stderr.
pub(super) const STDERR_FD: i32 = 6;
/// The number of our side of the agent's terminal or stdout, if its output is recorded.
pub(super) const OUTPUT_FD: i32 = 7;

/// Grace for processes that an agent leaves behind when it exits.
const AFTER_EXIT: Duration = Duration::from_millis(200);
/// Grace for the tree of an orchestrator that was killed.
const AFTER_LIFELINE: Duration = Duration::from_secs(1);
/// Pause before the next round of kills.
const KILL_AGAIN: Duration = Duration::from_millis(20);

crate::register_helper_role!(ROLE, run);

/// Entry of the role. Exit codes: 0 when the tree has ended, 1 when the agent could not be started, 2 without
/// a proper caller.
fn run(mut args: RoleArgs) -> i32 {
    let Ok(control) = args.take_fd(CONTROL_FD) else { return 2 };
    let mut guardian = Guardian {
        control: Some(UnixStream::from(control)),
        frames: Frames::default(),
        wakeups: Wakeups::new(),
        agent: None,
        ending: None,
        code: None,
        intake: None,
        reported: 0,
    };
    guardian.report(Report::Hello { version: VERSION });
    // Before the agent starts: a child that is orphaned earlier would go to init and never be seen again.
    #[cfg(target_os = "linux")]
    if rustix::process::set_child_subreaper(Some(Pid::INIT)).is_err() {
        return 2;
    }
    guardian.run(args)
}

struct Guardian {
    /// `None` once it is closed.
    control: Option<UnixStream>,
    frames: Frames,
    wakeups: Wakeups,
    /// `None` before its start and after its end, when the number may belong to another process.
    agent: Option<Pid>,
    ending: Option<Ending>,
    /// Exit code of the agent, once it has ended.
    code: Option<i32>,
    /// Set if the output is recorded.
    intake: Option<Intake>,
    /// Length of the output in the last report.
    reported: u64,
}

/// Deadlines of an end that has begun. The hang-up was sent at its beginning.
#[derive(Clone, Copy, Debug)]
struct Ending {
    terminate_at: Option<Instant>,
    kill_at: Instant,
}

impl Guardian {
    fn run(&mut self, mut args: RoleArgs) -> i32 {
        let Some(Order::Start { command, ties, descriptors, recording }) = self.first_order() else {
            return 2;
        };
        if ties != Ties::Caller {
            // Fails only when it leads a group already, and then there is no session to leave.
            let _ = rustix::process::setsid();
        }
        // First, so that an agent never runs whose output could not be seen.
        match recording.map(|recording| record(&mut args, &recording)).transpose() {
            Ok(intake) => self.intake = intake,
            Err(error) => {
                self.report(Report::Unrecorded { errno: error.raw_os_error().unwrap_or_default() });
                return 1;
            }
        }
        match start(&command, ties, &descriptors, args) {
            Ok(pid) => {
                self.agent = i32::try_from(pid).ok().and_then(Pid::from_raw);
                // Not reaped yet, so the number cannot belong to another process.
                let start_time = ProcessIdentity::of(pid).map_or(0, |identity| identity.start_time);
                self.report(Report::Started { pid, start_time });
            }
            Err(error) => {
                self.report(Report::Failed { errno: error.raw_os_error().unwrap_or_default() });
                return 1;
            }
        }
        // The command may hold secrets and megabytes of arguments; this process may live for days.
        drop((command, descriptors));
        // Reap before each wait: a child may have ended between the last look and the poll, without a second
        // SIGCHLD.
        while self.reap() {
            let wait = self.step();
            self.wait(wait);
            self.listen();
            self.record();
        }
        if let Some(intake) = self.intake.take() {
            let end = intake.finish(self.code);
            self.report(Report::Output { end });
        }
        self.report(Report::Ended);
        0
    }

    fn first_order(&mut self) -> Option<Order> {
        while self.control.is_some() {
            if let Some(body) = self.frames.next().ok()? {
                return Order::decode(&body);
            }
            self.wait(None);
            self.read();
        }
        None
    }

    /// Reaps children that have ended. Returns true if one is left that can still do something.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                // The agent's exit ends the session; servers that it left behind get a short grace.
                Ok(Some((pid, status))) if Some(pid) == self.agent => {
                    self.agent = None;
                    // As shells do it.
                    self.code =
                        status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                    self.report(describe(status));
                    self.end(AFTER_EXIT);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                // The kernel takes a while to release a sandbox's first process. Waiting for it would delay
                // each session's end.
                Ok(None) => return self.agent.is_some() || !tree::only_leaving(),
                // `ECHILD`: no child is left. Orphans of the tree would have become children of this process.
                Err(_) => return false,
            }
        }
    }

    /// Begins to end the tree, or shortens the grace of an end that has begun.
    fn end(&mut self, grace: Duration) {
        let now = Instant::now();
        // An instant must not overflow, so longer graces count as a day.
        let kill_at = now + grace.min(Duration::from_secs(86_400));
        match &mut self.ending {
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {
                // First a hang-up: interactive shells ignore TERM, and terminal programs save their state on HUP.
                if !grace.is_zero() {
                    tree::signal_all(self.agent, Signal::HUP);
                    // A stopped process receives no signal but KILL and CONT, so each request is followed by
                    // a wake-up.
                    tree::signal_all(self.agent, Signal::CONT);
                }
                let terminate_at = Some(now + (kill_at - now) / 4);
                self.ending = Some(Ending { terminate_at, kill_at });
            }
        }
    }

    /// Takes the step of the end that is due and returns the time until the next.
    fn step(&mut self) -> Option<Duration> {
        let ending = self.ending.as_mut()?;
        let now = Instant::now();
        if now >= ending.kill_at {
            // Repeated until the tree is empty: a process that forked during the walk was not found by it.
            tree::kill_all(self.agent);
            return Some(KILL_AGAIN);
        }
        if ending.terminate_at.is_some_and(|at| now >= at) {
            ending.terminate_at = None;
            tree::signal_all(self.agent, Signal::TERM);
            tree::signal_all(self.agent, Signal::CONT);
        }
        let next = ending.terminate_at.map_or(ending.kill_at, |at| at.min(ending.kill_at));
        Some(next.saturating_duration_since(now))
    }

    /// Waits for a child's end, output, an order, or the end of the lifeline.
    fn wait(&mut self, longest: Option<Duration>) {
        let intake = self.intake.as_ref();
        let waits = [longest, self.wakeups.tick(), intake.and_then(Intake::pause)];
        let longest = waits.into_iter().flatten().min().and_then(|it| Timespec::try_from(it).ok());
        let is_behind = intake.is_some_and(|intake| intake.end() > self.reported);
        // Room for the report that did not fit.
        let control = if is_behind { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let fds = [
            (self.control.as_ref().map(AsFd::as_fd), control),
            (self.wakeups.fd(), PollFlags::IN),
            (intake.and_then(Intake::fd), PollFlags::IN),
        ];
        let polled = |(fd, flags): (Option<_>, _)| Some(PollFd::from_borrowed_fd(fd?, flags));
        let mut fds: Vec<_> = fds.into_iter().filter_map(polled).collect();
        // Interrupted or not, every input is checked afterwards.
        let _ = poll(&mut fds, longest.as_ref());
        drop(fds);
        self.wakeups.clear();
    }

    /// Carries out the orders that have arrived.
    fn listen(&mut self) {
        self.read();
        loop {
            match self.frames.next() {
                Ok(Some(body)) => self.follow(Order::decode(&body)),
                Ok(None) => break,
                Err(_) => return self.hang_up(),
            }
        }
        // Called again in every round, which is harmless: `end` only ever shortens a grace that has begun.
        if self.control.is_none() {
            self.end(AFTER_LIFELINE);
        }
    }

    fn follow(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Terminate { grace }) => self.end(grace),
            Some(Order::Signal(number)) => {
                if let (Some(agent), Some(signal)) = (self.agent, Signal::from_named_raw(number)) {
                    // It may have ended by now.
                    let _ = kill_process_group(agent, signal);
                }
            }
            Some(Order::Resize(size)) => self.intake.iter_mut().for_each(|intake| intake.resize(size)),
            Some(Order::Taken(offset)) => self.intake.iter_mut().for_each(|intake| intake.take(offset)),
            // A second start, or an order that this release does not know: the caller cannot be trusted to
            // end the tree.
            Some(Order::Start { .. }) | None => self.hang_up(),
        }
    }

    /// Treats a caller that breaks the protocol like one that was killed.
    fn hang_up(&mut self) {
        self.control = None;
        self.end(AFTER_LIFELINE);
    }

    /// Reads all bytes that are available, without blocking.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(control) = &mut self.control {
            let mut ready = [PollFd::new(control, PollFlags::IN)];
            match poll(&mut ready, Some(&Timespec::default())) {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => continue,
            }
            match control.read(&mut buffer) {
                Ok(0) => self.control = None,
                Ok(count) => self.frames.push(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.control = None,
            }
        }
    }

    /// Records what the agent has written, and reports the new length.
    fn record(&mut self) {
        let Some(intake) = &mut self.intake else { return };
        intake.read();
        let end = intake.end();
        let Some(control) = self.control.as_ref().filter(|_| end > self.reported) else { return };
        let report = Report::Output { end }.encode();
        // An orchestrator that is busy or stopped must not hold up the tree. The next report says more, and one that is
        // gone is noticed where orders are read.
        let Ok(sent) = send(control, &report, SendFlags::DONTWAIT) else { return };
        self.reported = end;
        // A report that was cut must be completed before the next one.
        if let (Some(control), Some(rest)) = (&mut self.control, report.get(sent..)) {
            let _ = control.write_all(rest);
        }
    }

    fn report(&mut self, report: Report) {
        if let Some(control) = &mut self.control {
            // A failed write means that the caller is gone; the closed lifeline ends the tree.
            let _ = control.write_all(&report.encode());
        }
    }
}

/// Starts to record the output of an agent that does not run yet.
fn record(args: &mut RoleArgs, recording: &RecordIn) -> io::Result<Intake> {
    let output = args.take_fd(OUTPUT_FD).map_err(|_| io::Error::from(Errno::BADF))?;
    Intake::new(output, &recording.folder, recording.size)
}

/// Starts the agent and returns its number. Descriptors meant for the agent are closed here afterwards.
fn start(command: &CommandSpec, ties: Ties, descriptors: &[i32], mut args: RoleArgs) -> io::Result<u32> {
    // Every copy of the terminal that stays open here would keep it from hanging up when the agent is gone.
    let mut take = |number| args.take_fd(number).map_err(|_| io::Error::from(Errno::BADF));
    let stdin = take(STDIN_FD)?;
    let (stdout, stderr) = match ties {
        Ties::Terminal => (stdin.try_clone()?, stdin.try_clone()?),
        Ties::Streams | Ties::Caller => (take(STDOUT_FD)?, take(STDERR_FD)?),
    };
    let mut placed = Vec::with_capacity(descriptors.len());
    for target in descriptors {
        placed.push(Descriptor { target: *target, fd: take(*target)? });
    }
    let options = SpawnOptions::default()
        .with_stdin(Stdio::from(stdin))
        .with_stdout(Stdio::from(stdout))
        .with_stderr(Stdio::from(stderr))
        .with_descriptors(placed)
        .with_group(match ties {
            Ties::Terminal => Group::Terminal,
            Ties::Streams => Group::Session,
            Ties::Caller => Group::Joined,
        });
    let child = try_spawn(command, options).map_err(|_| io::Error::from(Errno::INVAL))??;
    Ok(child.id())
}

fn describe(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Report::Signalled { signal },
        (code, None) => Report::Exited { code: code.unwrap_or(-1) },
    }
}
