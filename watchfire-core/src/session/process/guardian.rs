//! The process that owns one agent's process tree and ends it.
//!
//! A guardian is our own program in the role `guardian`, one for every session. It is the subreaper of the agent:
//! every process that the agent starts, however often it forks or detaches, becomes the guardian's child when
//! its own parents are gone. So the tree has ended exactly when the guardian has no child left to wait for,
//! and no process of a session can escape by leaving its group or its session.
//!
//! It ends the tree when the agent exits, on an order, or when its control socket closes. The socket is the
//! lifeline of the orchestrator: the kernel closes it when that is killed. The guardian of a hosted session goes on
//! instead, for a day or until its time limit, and lets the next orchestrator in through a socket of its own.
//!
//! It also reads the agent's output, into the recording, and reports how long that is; the orchestrator reads the
//! files. It passes on what the agent writes to stderr. Plain commands write to pipes of the orchestrator instead.
//!
//! The agent and its guardian have a lower priority than the orchestrator: see `background.rs`.
//!
//! It leads a session of its own without a terminal, and blocks the usual signals, so that neither Ctrl+C at
//! the embedder's terminal nor the end of the agent's reaches it. (A command that a person runs on their own
//! terminal stays in that session, and so does its guardian.) It never has the agent's side of the terminal open
//! after the start. It has one thread and a few kilobytes of state.
//!
//! Only Linux has subreapers. Elsewhere the agent's process group is ended, and descendants that left the
//! group survive.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::background::{AGENT, Autogroups, GUARDIAN};
use super::errors::Errors;
use super::hosting::Hosting;
use super::intake::Intake;
use super::socket::send_first;
use super::tree;
use super::wire::{Frames, HostIn, Order, RecordIn, Report, Ties, VERSION};
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
/// The number of the other end of the agent's stdin, if the guardian keeps a copy.
pub(super) const INPUT_FD: i32 = 8;
/// The number of the other end of the agent's stderr, if its output is recorded and it has one. The numbers after it are
/// those of descriptors that the guardian holds. Those before it are free for the agent's own.
pub(super) const ERRORS_FD: i32 = 70;

/// The turns that a guardian asks for. It works for some hundredths of a millisecond at a time, and what is typed should not wait
/// behind the guardians and the agents of other sessions until each has had a whole turn.
#[cfg(target_os = "linux")]
const TURN: Duration = Duration::from_micros(100);
/// Grace for processes that an agent leaves behind when it exits.
const AFTER_EXIT: Duration = Duration::from_millis(200);
/// Grace for the tree of an orchestrator that was killed.
const AFTER_LIFELINE: Duration = Duration::from_secs(1);
/// Grace for the tree of a session that passed its time limit without an orchestrator, or for which none came.
const AFTER_LIMIT: Duration = Duration::from_secs(5);
/// Upper bound for the reads of stderr after the last process: what a pipe can hold, and more.
const LAST_READS: usize = 64;
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
        is_cut_off: false,
        is_asked_to_end: false,
        started: None,
        exited: None,
        code: None,
        intake: None,
        errors: None,
        hosting: None,
        reported: 0,
        unsent: Vec::new(),
        autogroups: Autogroups::default(),
    };
    guardian.report(&Report::Hello { version: VERSION });
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
    /// The agent was ended by an order, or because no orchestrator came for it. Its exit then says nothing about its work.
    is_cut_off: bool,
    /// This process was asked to end while the agent ran.
    is_asked_to_end: bool,
    /// The report of the agent's start, for orchestrators that come later.
    started: Option<Report>,
    /// The report of the agent's end.
    exited: Option<Report>,
    /// Exit code of the agent, once it has ended.
    code: Option<i32>,
    /// Set if the output is recorded.
    intake: Option<Intake>,
    errors: Option<Errors>,
    hosting: Option<Hosting>,
    /// Length of the output in the last report.
    reported: u64,
    /// Reports for which the socket had no room.
    unsent: Vec<u8>,
    autogroups: Autogroups,
}

/// Deadlines of an end that has begun. The hang-up was sent at its beginning.
#[derive(Clone, Copy, Debug)]
struct Ending {
    terminate_at: Option<Instant>,
    kill_at: Instant,
}

impl Guardian {
    fn run(&mut self, mut args: RoleArgs) -> i32 {
        let Some(Order::Start { command, ties, descriptors, recording, host }) = self.first_order() else {
            return 2;
        };
        if ties != Ties::Caller {
            // Fails only when it leads a group already, and then there is no session to leave.
            let _ = rustix::process::setsid();
        }
        let steps = recording.as_ref().map_or(0, |_| {
            // What it would fail for, no child may do either.
            let _ = rustix::process::nice(GUARDIAN);
            self.autogroups.add(std::process::id(), GUARDIAN);
            AGENT
        });
        // First, so that an agent never runs whose output could not be seen.
        if let Err(error) = recording.map_or(Ok(()), |it| self.begin(&mut args, &it, host.is_some())) {
            self.report(&Report::Unrecorded { errno: error.raw_os_error().unwrap_or_default() });
            return 1;
        }
        match host.map(|host| open_host(&mut args, &host)).transpose() {
            Ok(hosting) => self.hosting = hosting,
            Err(error) => {
                self.report(&Report::Unhosted { errno: error.raw_os_error().unwrap_or_default() });
                return 1;
            }
        }
        match start(&command, ties, &descriptors, steps, args) {
            Ok(pid) => {
                self.agent = i32::try_from(pid).ok().and_then(Pid::from_raw);
                // Not reaped yet, so the number cannot belong to another process.
                let start_time = ProcessIdentity::of(pid).map_or(0, |identity| identity.start_time);
                let started = self.started.insert(Report::Started { pid, start_time }).clone();
                self.report(&started);
                if steps > 0 {
                    self.autogroups.add(pid, GUARDIAN + AGENT);
                }
            }
            Err(error) => {
                self.report(&Report::Failed { errno: error.raw_os_error().unwrap_or_default() });
                return 1;
            }
        }
        // The command may hold secrets and megabytes of arguments; this process may live for days.
        drop((command, descriptors));
        // Not before the agent has started, which would inherit it.
        #[cfg(target_os = "linux")]
        let _ = super::slice::ask(TURN);
        // Reap before each wait: a child may have ended between the last look and the poll, without a second
        // SIGCHLD.
        while self.reap() {
            self.autogroups.step();
            let wait = self.step();
            self.wait(wait);
            self.listen();
            self.record();
            self.complain();
        }
        self.welcome();
        // The pipe is empty after this. A stranger that still has it open may write for ever.
        for _ in 0..LAST_READS {
            let Some(bytes) = self.errors.as_mut().and_then(Errors::read) else { break };
            self.report(&Report::Complaint(bytes));
        }
        if let Some(intake) = self.intake.take() {
            let says_nothing = self.is_cut_off || self.is_asked_to_end;
            let end = intake.finish(self.code.filter(|_| !says_nothing));
            self.report(&Report::Output { end });
        }
        self.report(&Report::Ended);
        0
    }

    /// Starts to record the output of an agent that does not run yet.
    fn begin(&mut self, args: &mut RoleArgs, recording: &RecordIn, is_hosted: bool) -> io::Result<()> {
        let output = take(args, OUTPUT_FD)?;
        self.intake = Some(Intake::new(output, &recording.folder, recording.size)?);
        if recording.size.is_none() {
            self.errors = Some(Errors::new(take(args, ERRORS_FD)?, is_hosted)?);
        }
        Ok(())
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
                    // One may have come since the last wait.
                    self.heed_signals();
                    self.agent = None;
                    // As shells do it.
                    self.code =
                        status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                    // At the end of the machine, the program that comes is told nothing: it takes the end for unknown.
                    if !self.is_asked_to_end || self.hosting.is_none() {
                        let exited = self.exited.insert(describe(status)).clone();
                        self.report(&exited);
                    }
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

    /// Ends the tree before its agent does.
    fn cut_off(&mut self, grace: Duration) {
        self.is_cut_off |= self.agent.is_some();
        self.end(grace);
    }

    /// Takes the step of the end that is due and returns the time until the next.
    fn step(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let limit = self.hosting.as_ref().and_then(Hosting::limit);
        let waits_until = self.hosting.as_ref().and_then(Hosting::waits_until);
        if self.ending.is_none() {
            if waits_until.is_some_and(|at| now >= at) {
                self.cut_off(AFTER_LIMIT);
            } else if limit.is_some_and(|at| now >= at) {
                self.end(AFTER_LIMIT);
            }
        }
        let Some(ending) = self.ending.as_mut() else {
            let next = limit.into_iter().chain(waits_until).min();
            return next.map(|at| at.saturating_duration_since(now));
        };
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
        let waits = [longest, self.wakeups.tick(), intake.and_then(Intake::pause), self.autogroups.pause()];
        let longest = waits.into_iter().flatten().min().and_then(|it| Timespec::try_from(it).ok());
        // Room for the reports that did not fit.
        let is_behind = !self.unsent.is_empty();
        let control = if is_behind { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let errors = self.errors.as_ref().filter(|_| !is_behind);
        // An orchestrator that comes too late is not accepted, so its connection must not wake us.
        let hosting = self.hosting.as_ref().filter(|_| !self.is_cut_off);
        let fds = [
            (self.control.as_ref().map(AsFd::as_fd), control),
            (self.wakeups.fd(), PollFlags::IN),
            (intake.and_then(Intake::fd), PollFlags::IN),
            (errors.and_then(Errors::fd), PollFlags::IN),
            (hosting.and_then(Hosting::fd), PollFlags::IN),
        ];
        let polled = |(fd, flags): (Option<_>, _)| Some(PollFd::from_borrowed_fd(fd?, flags));
        let mut fds: Vec<_> = fds.into_iter().filter_map(polled).collect();
        // Interrupted or not, every input is checked afterwards.
        let _ = poll(&mut fds, longest.as_ref());
        drop(fds);
        self.heed_signals();
    }

    /// Notes a request to end, as at the end of the machine: an agent that ends after it does not end by itself.
    fn heed_signals(&mut self) {
        self.is_asked_to_end |= self.wakeups.clear() && self.agent.is_some();
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
        if self.control.is_none() {
            self.left();
        }
    }

    /// Does what the end of the orchestrator requires. Called again in every round, which is harmless: `end` only ever
    /// shortens a grace that has begun.
    fn left(&mut self) {
        self.unsent.clear();
        let Some(hosting) = &mut self.hosting else { return self.end(AFTER_LIFELINE) };
        hosting.left();
        self.frames = Frames::default();
        self.intake.iter_mut().for_each(|intake| intake.attend(false));
        self.welcome();
    }

    /// Lets an orchestrator in, if one waits, and reports everything that it must know.
    fn welcome(&mut self) {
        // An orchestrator that comes now has to wait for the end of the tree.
        let Some(hosting) = self.hosting.as_mut().filter(|_| !self.is_cut_off) else { return };
        let Some(accepted) = hosting.accept() else { return };
        let input = match &self.intake {
            Some(intake) if intake.is_terminal() => intake.descriptor(),
            _ => hosting.input(),
        };
        let hello = Report::Hello { version: VERSION }.encode();
        if send_first(&accepted, &hello, input).is_err() {
            return;
        }
        let attached = Report::Attached { answered: hosting.answered_to(), input: input.is_some() };
        self.control = Some(accepted);
        self.intake.iter_mut().for_each(|intake| intake.attend(true));
        self.reported = self.intake.as_ref().map_or(0, Intake::end);
        let mut reports: Vec<_> = self.started.iter().chain(&self.exited).cloned().collect();
        reports.push(Report::Output { end: self.reported });
        reports.extend(self.errors.as_ref().map(|errors| Report::Complaint(errors.kept().into_bytes())));
        reports.push(attached);
        reports.iter().for_each(|report| self.report(report));
    }

    fn follow(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Terminate { grace }) => self.cut_off(grace),
            Some(Order::Signal(number)) => {
                if let (Some(agent), Some(signal)) = (self.agent, Signal::from_named_raw(number)) {
                    // It may have ended by now.
                    let _ = kill_process_group(agent, signal);
                }
            }
            Some(Order::Resize(size)) => self.intake.iter_mut().for_each(|intake| intake.resize(size)),
            Some(Order::Taken(offset)) => self.intake.iter_mut().for_each(|intake| intake.take(offset)),
            Some(Order::Leave) => self.hosting.iter_mut().for_each(Hosting::leave),
            Some(Order::CloseInput) => self.hosting.iter_mut().for_each(Hosting::close_input),
            Some(Order::Answered(offset)) => self.hosting.iter_mut().for_each(|it| it.answered(offset)),
            Some(Order::EndIn(left)) => self.hosting.iter_mut().for_each(|it| it.end_in(left)),
            // A second start, or an order that this release does not know: the caller cannot be trusted to
            // end the tree.
            Some(Order::Start { .. }) | None => self.hang_up(),
        }
    }

    /// Treats a caller that breaks the protocol like one that was killed.
    fn hang_up(&mut self) {
        self.control = None;
        self.left();
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
        self.flush();
        // One report for all that was written while the orchestrator was busy.
        if self.control.is_some() && self.unsent.is_empty() && end > self.reported {
            self.reported = end;
            self.tell(&Report::Output { end });
        }
    }

    /// Passes on what the agent wrote to stderr.
    fn complain(&mut self) {
        // An orchestrator that reads nothing holds the agent up, as a pipe would; one that is gone does not.
        while self.unsent.is_empty()
            && let Some(bytes) = self.errors.as_mut().and_then(Errors::read)
        {
            self.tell(&Report::Complaint(bytes));
        }
    }

    /// Sends a report as soon as there is room for it: an orchestrator that is busy or stopped must not hold up the tree.
    fn tell(&mut self, report: &Report) {
        if self.control.is_some() {
            self.unsent.extend(report.encode());
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(control) = self.control.as_ref().filter(|_| !self.unsent.is_empty()) else { return };
        // An orchestrator that is gone is noticed where orders are read.
        if let Ok(sent) = send(control, &self.unsent, SendFlags::DONTWAIT) {
            self.unsent.drain(..sent);
        }
    }

    /// Sends a report that must arrive, after those that wait.
    fn report(&mut self, report: &Report) {
        if let Some(control) = &mut self.control {
            self.unsent.extend(report.encode());
            // A failed write means that the caller is gone, which is noticed where orders are read.
            let _ = control.write_all(&self.unsent);
            self.unsent.clear();
        }
    }
}

/// Takes the descriptors of a host, and opens its socket.
fn open_host(args: &mut RoleArgs, host: &HostIn) -> io::Result<Hosting> {
    let input = host.input.then(|| take(args, INPUT_FD)).transpose()?;
    let held = host.kept.iter().map(|number| take(args, *number)).collect::<io::Result<_>>()?;
    Hosting::new(host, input, held)
}

fn take(args: &mut RoleArgs, number: i32) -> io::Result<OwnedFd> {
    args.take_fd(number).map_err(|_| io::Error::from(Errno::BADF))
}

/// Starts the agent and returns its number. Descriptors meant for the agent are closed here afterwards.
fn start(
    command: &CommandSpec,
    ties: Ties,
    descriptors: &[i32],
    steps: i32,
    mut args: RoleArgs,
) -> io::Result<u32> {
    // Every copy of the terminal that stays open here would keep it from hanging up when the agent is gone.
    let mut take = |number| take(&mut args, number);
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
        })
        .with_niceness(steps);
    let child = try_spawn(command, options).map_err(|_| io::Error::from(Errno::INVAL))??;
    Ok(child.id())
}

fn describe(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Report::Signalled { signal },
        (code, None) => Report::Exited { code: code.unwrap_or(-1) },
    }
}
