//! A terminal that is gone ends the program, which reads nothing from it for ever otherwise.

use std::fs::File;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use watchfire_tui::{Options, run};

#[test]
#[ignore = "started by the other test, on a terminal"]
fn child() {
    let connect = || Box::pin(std::future::pending()) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>;
    let mut options = Options::new("p".to_owned(), std::sync::Arc::new(connect));
    options.dark = Some(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Writing to a terminal that is gone fails, too.
    drop(runtime.block_on(run(options)));
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let open = || File::options().read(true).write(true).open(&name).unwrap();
    let terminal = open();
    tcsetwinsize(&terminal, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "child"]);
    let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
    drop((command, terminal));
    // It has the terminal once it has drawn.
    let (mut screen, mut painted) = (File::from(ours), Vec::new());
    while !String::from_utf8_lossy(&painted).contains("Starting daemon") {
        let mut buffer = [0; 4096];
        let read = screen.read(&mut buffer).unwrap();
        painted.extend_from_slice(&buffer[..read]);
    }
    drop(screen);
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}
