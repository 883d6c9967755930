//! The least that a key costs where the agent's output is written down by one program before another one shows it: two programs that only
//! pass bytes on, without a runtime, an emulator or a protocol. `attach` has the same two, and no bench of it can be faster.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::screen::{Effect, Line, Program};
use crate::world::Done;

const SERVER: &str = "be-the-floor's-server";
const GUARDIAN: &str = "be-the-floor's-guardian";

/// Starts the two programs around `cat`, with the record below a folder.
pub(crate) fn begin(folder: &Path) -> Done<Program> {
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(std::env::current_exe()?).arg(SERVER).arg(folder.join("record"));
    let mut program = Program::begin(command, Line::Near)?;
    program.effect = Effect::Left(120);
    program.settle();
    Ok(program)
}

/// Plays the role that the arguments name, if they name one.
pub(crate) fn is_role(args: &[String]) -> Done<bool> {
    match args {
        [role, record] if role == SERVER => serve(record)?,
        [role, record] if role == GUARDIAN => {
            let mut record = File::create(record)?;
            while pass(stdin(), &[record.as_fd(), stdout()])? {}
            std::io::Write::flush(&mut record)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Passes keys to the program's terminal, and what its guardian has written down to the person's.
fn serve(record: &str) -> Done {
    let mut modes = tcgetattr(stdin())?;
    modes.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &modes)?;
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?.to_string_lossy().into_owned();
    let open = || File::options().read(true).write(true).open(&name);
    let mut cat = Command::new("setsid");
    let mut cat = cat.args(["--ctty", "cat"]).stdin(open()?).stdout(open()?).stderr(open()?).spawn()?;
    let (guardian, theirs) = UnixStream::pair()?;
    let mut child = start(GUARDIAN, record, terminal.try_clone()?, OwnedFd::from(theirs).into())?;
    between((stdin(), &[terminal.as_fd()]), (guardian.as_fd(), &[stdout()]))?;
    cat.kill()?;
    cat.wait()?;
    drop((terminal, guardian));
    child.wait()?;
    Ok(())
}

fn start(role: &str, record: &str, input: OwnedFd, output: Stdio) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args([role, record]).stdin(input).stdout(output).spawn()
}

type Way<'a> = (rustix::fd::BorrowedFd<'a>, &'a [rustix::fd::BorrowedFd<'a>]);

/// Passes bytes on in both directions until one of them ends.
fn between(there: Way<'_>, back: Way<'_>) -> Done {
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(there.0, PollFlags::IN),
            PollFd::from_borrowed_fd(back.0, PollFlags::IN),
        ];
        poll(&mut ready, None)?;
        let is_ready = ready.map(|one| !one.revents().is_empty());
        for ((from, to), _) in [there, back].into_iter().zip(is_ready).filter(|(_, is_ready)| *is_ready) {
            if !pass(from, to)? {
                return Ok(());
            }
        }
    }
}

/// Passes on what one read gives. Returns false at its end.
fn pass(from: rustix::fd::BorrowedFd<'_>, to: &[rustix::fd::BorrowedFd<'_>]) -> Done<bool> {
    let mut buffer = [0; 4096];
    // A terminal without its program fails instead of ending.
    let Ok(read @ 1..) = rustix::io::read(from, &mut buffer) else { return Ok(false) };
    for to in to {
        rustix::io::write(to, &buffer[..read])?;
    }
    Ok(true)
}
