//! A panic anywhere ends the program, and the terminal is as it was.

use std::fs::File;
use std::io::Read as _;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use watchfire_core::terminal::{Modes, Size, Terminal as _};
use watchfire_term::Emulator;
use watchfire_tui::{Options, run};

#[test]
#[ignore = "started by the other test, on a terminal"]
fn child() {
    let mut options = Options::new("p".to_owned(), std::sync::Arc::new(|| panic!("on purpose")));
    // What is asked of the terminal nobody answers here.
    options.dark = Some(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(run(options));
    println!("ended: {}", ended.unwrap_err());
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let open = || File::options().read(true).write(true).open(&name).unwrap();
    let terminal = open();
    tcsetwinsize(&terminal, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "child"]);
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
    drop(command);
    let mut output = File::from(ours);
    let reader = std::thread::spawn(move || {
        let mut painted = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            painted.extend_from_slice(&buffer[..read]);
        }
        painted
    });
    assert!(child.wait().unwrap().success());
    assert!(tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON));
    drop(terminal);
    let painted = reader.join().unwrap();
    let mut shown = Emulator::new(Size::new(100, 30));
    shown.process(&painted);
    let left = shown.snapshot();
    assert_eq!((left.modes, left.cursor.hidden), (Modes::default(), false));
    for words in ["on purpose", "ended: a part of the program failed"] {
        assert!(left.text().contains(words), "{}", left.text());
    }
}
