//! The processes around a program in namespaces of its own.
//!
//! Three processes: outside the one that was started, which waits and hands signals on; inside the first one of the
//! new process namespace, which arranges the view, reaps what is left behind and whose end is the end of all; and the
//! program.
//!
//! When the program has ended, the first process inside kills and reaps all others there, and then tells the one outside
//! how the program ended. That one does not wait for it: the kernel takes long to give up what the keeper watched.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::libc::signalfd_siginfo;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getegid, geteuid, kill_process, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};
use rustix::thread::{CapabilitySet, UnshareFlags};

use crate::linux::inside::internet::Carrier;
use crate::linux::inside::keeper::Keeper;
use crate::linux::inside::sys::{self, Split};

/// Upper bound for the processes reaped, and the signals read, in one round: a program that makes orphans without end must
/// not keep the keeper from looking.
const AT_ONCE: usize = 64;

/// Without waiting.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// State from before the namespaces that the program needs in them.
#[derive(Debug)]
pub(in crate::linux) struct Before {
    /// The signals that were blocked.
    mask: SigSet,
    /// Its group is the one that the terminal listens to.
    foreground: bool,
    /// The terminal, by its path outside.
    pub(in crate::linux) terminal: Option<PathBuf>,
    cwd: PathBuf,
    /// The numbers of signals that the process outside got.
    orders: OwnedFd,
    /// The descriptor to the process outside for the exit status of the program.
    outcome: OwnedFd,
    /// The network of its own, if it has one.
    pub(in crate::linux) carrier: Option<Carrier>,
}

/// Enters the namespaces. Returns in the first process inside; the one outside waits for it and ends as it does.
///
/// With a `carrier`, the network is among them. Where a keeper watches, those inside get fewer watches than the person has, if the
/// kernel counts theirs apart. `close_outside` runs in the one outside: it drops what only the inside needs.
pub(in crate::linux) fn enter(
    mut carrier: Option<Carrier>,
    keeper_watches: bool,
    close_outside: impl FnOnce(),
) -> Result<Before, String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let cwd = std::env::current_dir().map_err(failed("finding the working directory"))?;
    let terminal = rustix::termios::isatty(rustix::stdio::stdin());
    // Of a group that leads outside of our process namespace the kernel says 0, which rustix has no value for.
    let group = nix::unistd::getpgrp();
    let foreground =
        terminal && nix::unistd::tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|owner| owner == group);
    let terminal = if terminal { std::fs::read_link("/proc/self/fd/0").ok() } else { None };

    // Blocked signals are kept for who waits for them, also by the first process inside, which ignores others.
    let mut mask = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut mask))
        .map_err(|error| format!("blocking signals: {error}"))?;
    // Taken hold of before the view changes, for this process too.
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open("/proc", folder, Mode::empty())
        .map_err(|error| format!("opening /proc: {error}"))?;
    unshare(carrier.is_some(), keeper_watches)?;
    carrier.as_mut().map_or(Ok(()), Carrier::follow)?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("making a pipe: {error}"));
    let (lifeline, outcome) = (pipe()?, pipe()?);
    match sys::split().map_err(failed("making the first process inside"))? {
        Split::Parent(inside) => {
            close_outside();
            let _life = carrier.and_then(Carrier::into_life);
            let (theirs, ours) = lifeline;
            let (told, tell) = outcome;
            drop((theirs, tell));
            // Through the pipe, not by another signal: who signals every process of a tree has reached those inside.
            let hand_on = |signal: &signalfd_siginfo| {
                if !from_guardian(signal, &proc) {
                    let _ = u8::try_from(signal.ssi_signo).map(|byte| rustix::io::write(&ours, &[byte]));
                }
            };
            let code = attend(inside, None, &told, |outcome| outcome.map(i32::from), hand_on);
            drop(ours);
            std::process::exit(code)
        }
        Split::Child => {
            let (theirs, ours) = lifeline;
            drop((ours, outcome.0));
            carrier.iter_mut().for_each(Carrier::stay_inside);
            die_with_parent(&theirs)?;
            // A group of its own: what is sent to the group of the one outside comes from that one.
            rustix::process::setpgid(None, None).map_err(|error| format!("leading a group: {error}"))?;
            Ok(Before { mask, foreground, terminal, cwd, orders: theirs, outcome: outcome.1, carrier })
        }
    }
}

/// Starts the second process inside, which is to become the program, and returns in it.
pub(in crate::linux) fn become_second(
    before: &Before,
    keeper: Option<&mut Keeper>,
    close_inside: impl FnOnce(),
) -> Result<(), String> {
    match sys::split().map_err(|error| format!("making the second process inside: {error}"))? {
        Split::Parent(program) => {
            close_inside();
            let_go_of_streams();
            // Nobody inside may look at it: it keeps its capabilities.
            let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let follow = |order: Option<u8>| {
                // The process outside is gone, and this one is being killed.
                let Some(number) = order else { return Some(126) };
                if let Some(signal) = Signal::from_named_raw(number.into()) {
                    // It may be gone already; the next round finds out.
                    let _ = kill_process(program, signal);
                }
                None
            };
            let code = match hidden {
                Ok(()) => attend(program, keeper, &before.orders, follow, |_| {}),
                Err(_) => 126,
            };
            end_all();
            // If nobody hears it, the code to end with tells the same, later.
            let _ = u8::try_from(code).map(|code| rustix::io::write(&before.outcome, &[code]));
            std::process::exit(code)
        }
        Split::Child => {
            let failed = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
            std::env::set_current_dir(&before.cwd).map_err(|error| {
                format!("the working directory {} is hidden: {error}", before.cwd.display())
            })?;
            rustix::process::setpgid(None, None).map_err(failed("leading a group"))?;
            if before.foreground {
                let own = rustix::process::getpid();
                rustix::termios::tcsetpgrp(rustix::stdio::stdin(), own)
                    .map_err(failed("taking the terminal"))?;
            }
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before.mask), None)
                .map_err(|error| format!("unblocking signals: {error}"))?;
            Ok(())
        }
    }
}

/// Leads a group of its own, and takes the terminal along if the group that has it lies outside.
pub(in crate::linux) fn lead_group() -> Result<(), String> {
    let failed = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    rustix::process::setpgid(None, None).map_err(failed("leading a group"))?;
    let stdin = rustix::stdio::stdin();
    let unseen = rustix::termios::tcgetpgrp(stdin) == Err(rustix::io::Errno::OPNOTSUPP);
    if !rustix::termios::isatty(stdin) || !unseen {
        return Ok(());
    }
    // Who takes a terminal from the background is stopped, but not with this signal blocked.
    let mut mask = SigSet::empty();
    let stopping = [nix::sys::signal::Signal::SIGTTOU].into_iter().collect::<SigSet>();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&stopping), Some(&mut mask))
        .and_then(|()| {
            let own = rustix::process::getpid();
            let taken = rustix::termios::tcsetpgrp(stdin, own);
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
            taken.map_err(|error| nix::errno::Errno::from_raw(error.raw_os_error()))
        })
        .map_err(|error| format!("taking the terminal: {error}"))
}

/// Watches that a keeper may need, which those inside do not get.
const RESERVED: u64 = 12_000;

/// Upper bound for the watches of those inside, in a user namespace of their own.
const WATCHES: &str = "/proc/sys/user/max_inotify_watches";

fn unshare(network: bool, keeper_watches: bool) -> Result<(), String> {
    let mut spaces = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    spaces.set(UnshareFlags::NEWNET, network);
    let own = rustix::thread::capabilities(None).map_err(|error| format!("reading capabilities: {error}"))?;
    if own.effective.contains(CapabilitySet::SYS_ADMIN) {
        return sys::enter_namespaces(spaces).map_err(|error| format!("entering namespaces: {error}"));
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let limits = [WATCHES, "/proc/sys/fs/inotify/max_user_watches"].map(std::fs::read_to_string);
    let limits = limits.into_iter().flatten().filter_map(|text| text.trim().parse::<u64>().ok());
    let watches = limits.min().filter(|_| keeper_watches).map(|all| all - RESERVED.min(all / 2));
    sys::enter_namespaces(spaces | UnshareFlags::NEWUSER)
        .map_err(|error| format!("entering a user namespace: {error}"))?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(file, text).map_err(|error| format!("writing {file}: {error}"))?;
    }
    // Where it cannot be set, a program that uses all of them up ends its session.
    let _ = watches.map(|watches| std::fs::write(WATCHES, watches.to_string()));
    Ok(())
}

/// Ends this process when its parent has ended, also if that was before the kernel knew of the wish.
fn die_with_parent(lifeline: &OwnedFd) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("binding its life to the process outside: {error}"))?;
    match poll(&mut [PollFd::new(&lifeline.as_fd(), PollFlags::IN)], Some(&NOW)) {
        Ok(0) => Ok(()),
        _ => Err("the process outside is gone".to_owned()),
    }
}

/// Waits for `child`, reaps others, and lets the keeper look. Each signal that comes is given to `hand_on`, each byte that
/// comes through `pipe` to `hear`, and the pipe's end too; what that gives is the end. Gives the exit code to end with.
fn attend(
    child: Pid,
    mut keeper: Option<&mut Keeper>,
    pipe: &OwnedFd,
    hear: impl Fn(Option<u8>) -> Option<i32>,
    hand_on: impl Fn(&signalfd_siginfo),
) -> i32 {
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let Ok(signals) = SignalFd::with_flags(&SigSet::all(), flags) else { return 126 };
    let mut open = true;
    loop {
        let mut busy = true;
        for _ in 0..AT_ONCE {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == child => {
                    let killed = || status.terminating_signal().map(|signal| 128 + signal);
                    return status.exit_status().or_else(killed).unwrap_or(126);
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => {
                    busy = false;
                    break;
                }
                Err(_) => return 126,
            }
        }
        // Between all else: what it has to look at.
        busy |= keeper.as_mut().is_some_and(|keeper| keeper.look());
        if keeper.as_mut().is_some_and(|keeper| keeper.must_end()) {
            return 126;
        }
        let watched = keeper.as_ref().and_then(|keeper| keeper.fd());
        let pause = keeper.as_ref().and_then(|keeper| keeper.pause());
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        let mut awaited = vec![PollFd::new(&signals, PollFlags::IN)];
        awaited.extend(open.then(|| PollFd::new(pipe, PollFlags::IN)));
        awaited.extend(watched.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // Interrupted or not, all are looked at.
        let _ = poll(&mut awaited, if busy { Some(&NOW) } else { pause.as_ref() });
        if open && awaited.get(1).is_some_and(|second| !second.revents().is_empty()) {
            let mut byte = [0];
            let heard = rustix::io::read(pipe, &mut byte).is_ok_and(|count| count == 1).then_some(byte[0]);
            open = heard.is_some();
            if let Some(code) = hear(heard) {
                return code;
            }
        }
        for _ in 0..AT_ONCE {
            let Ok(Some(signal)) = signals.read_signal() else { break };
            // A stopped or continued child is none of our business.
            if i32::try_from(signal.ssi_signo) != Ok(Signal::CHILD.as_raw()) {
                hand_on(&signal);
            }
        }
    }
}

/// Lets the program's streams end when the program closes them. Where that does not work they end a little later.
fn let_go_of_streams() {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let _ = null.and_then(|null| {
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)
    });
}

/// Kills and reaps all other processes of this process namespace, whose first process this must be.
fn end_all() {
    use nix::sys::signal::{Signal, kill};
    if rustix::process::getpid() != Pid::INIT {
        return;
    }
    loop {
        // All but this one. Until there are none: what is left behind becomes this one's child.
        let _ = kill(nix::unistd::Pid::from_raw(-1), Signal::SIGKILL);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Returns true if the signal was sent to every process of the tree, including those inside: guardians end trees in
/// this way.
fn from_guardian(signal: &signalfd_siginfo, proc: &OwnedFd) -> bool {
    let to_all = [Signal::HUP, Signal::TERM, Signal::CONT].map(|signal| Ok(signal.as_raw()));
    let comm = format!("{}/comm", signal.ssi_pid);
    let mut name = [0; 16];
    to_all.contains(&i32::try_from(signal.ssi_signo))
        && rustix::fs::openat(proc, comm, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| rustix::io::read(file, &mut name))
            .is_ok_and(|count| name.get(..count) == Some(b"wf-guardian\n"))
}
