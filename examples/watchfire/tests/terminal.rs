//! On a terminal: drawn in place, without colour where that is asked for, and left as it was found.

mod support;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use support::{World, until};

/// The program on a terminal of its own.
struct OnTerminal {
    child: Child,
    keys: File,
    /// Our own handle of the terminal, to look at its modes.
    terminal: OwnedFd,
    painted: Arc<Mutex<Vec<u8>>>,
    /// While this is locked, the terminal takes no output beyond what the kernel buffers.
    stalled: Arc<Mutex<()>>,
}

impl OnTerminal {
    fn start(world: &World, at: &std::path::Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let open = || {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let terminal = open();
        tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = world.command(at, args);
        command.envs(variables.iter().copied()).stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().unwrap();
        let mut screen = File::from(ours);
        let keys = screen.try_clone().unwrap();
        let painted = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&painted);
        let stalled = Arc::new(Mutex::new(()));
        let stall = Arc::clone(&stalled);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
                drop(stall.lock().unwrap());
            }
        });
        Self { child, keys, terminal, painted, stalled }
    }

    fn painted(&self) -> String {
        String::from_utf8_lossy(&self.painted.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, part: &str) {
        until(part, || self.painted().contains(part));
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits for the end: everything that was painted, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(self.echoes(), "the terminal is as it was");
        // What it wrote before its end is on its way.
        let mut before = usize::MAX;
        until("all is read", || std::mem::replace(&mut before, self.painted().len()) == self.painted().len());
        (self.painted(), status.and_then(|status| status.code()))
    }
}

#[test]
fn a_run_is_drawn_in_place() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(
        &root,
        "Paint",
        "say last words of the agent\nwait ../../go\nwrite x x\ncommit x\ndone\nexit 0",
    );
    let run = OnTerminal::start(&world, &root, &["run", "all", "--no-sandbox"], &[("NO_COLOR", "1")]);
    run.wait_for("last words of the agent");
    run.wait_for("1 under way, 0 ended");
    assert!(!run.echoes(), "what is typed does not spoil the picture");
    std::fs::write(root.join(".watchfire/go"), "").unwrap();
    let (painted, code) = run.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.contains("✓ #0001 Paint: merged into main"), "{painted}");
    let colours = painted.split("\x1b[").filter_map(|part| part.split_once('m')).map(|(codes, _)| codes);
    let colours: Vec<_> = colours.filter(|codes| codes.parse().is_ok_and(|code: u32| code != 0)).collect();
    assert!(colours.is_empty(), "{colours:?}: {painted:?}");
    let (hidden, shown) = (painted.rfind("\x1b[?25l").unwrap(), painted.rfind("\x1b[?25h").unwrap());
    assert!(hidden < shown, "the cursor is back");
}

#[test]
fn questions_are_answered_in_place() {
    let world = World::new();
    let root = world.project("project", "");
    let script = "question db Which database?\nanswer db said.txt\ncommit said\ndone\nexit 0";
    world.task(&root, "Ask", script);
    world.task(&root, "Ask again", script);
    let mut run = OnTerminal::start(&world, &root, &["run", "1", "--no-sandbox"], &[("NO_COLOR", "1")]);
    run.wait_for("#0001 Ask asks: Which database?");
    run.wait_for("your answer");
    assert!(run.echoes(), "a person sees what they type");
    run.keys.write_all(b"SQLite\n").unwrap();
    let (painted, code) = run.end();
    assert_eq!(code, Some(0), "{painted}");
    assert_eq!(world.git(&root, &["show", "main:said.txt"]).trim(), "SQLite");
    // Left for later, it is as if nobody had been there.
    let mut run = OnTerminal::start(&world, &root, &["run", "2", "--no-sandbox"], &[]);
    run.wait_for("your answer");
    run.keys.write_all(b"\n").unwrap();
    let (painted, code) = run.end();
    assert_eq!(code, Some(3), "{painted}");
    assert!(painted.contains("watchfire answer 2"), "{painted}");
    let run = OnTerminal::start(&world, &root, &["run", "2", "--no-sandbox", "--no-wait"], &[]);
    let (painted, code) = run.end();
    assert!(code == Some(3) && !painted.contains("your answer"), "{painted}");
    let said = world.run(&root, ["run", "2", "--no-sandbox", "--json"]).code(3).stdout;
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["waiting_for"][0]["questions"][0]["question"], "Which database?", "{last}");
    world.run(&root, ["answer", "2", "Postgres"]).good();
    assert_eq!(world.git(&root, &["show", "main:said.txt"]).trim(), "Postgres");
}

#[test]
fn two_interrupts_leave_the_terminal_as_it_was() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Stubborn", "ignore INT TERM HUP\nsay here I stay\nhang");
    let run = OnTerminal::start(&world, &root, &["run", "all", "--no-sandbox"], &[]);
    run.wait_for("here I stay");
    let interrupt = || {
        let pid = rustix::process::Pid::from_child(&run.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    };
    interrupt();
    run.wait_for("stopping");
    interrupt();
    assert_eq!(run.end().1, Some(130));
}

#[test]
fn a_chat_goes_both_ways() {
    let world = World::new();
    let root = world.project("project", "");
    let args = ["chat", "--agent", "scripted", "--no-sandbox"];
    let mut chat = OnTerminal::start(&world, &root, &args, &[]);
    until("keys go through as they are", || !chat.echoes());
    chat.keys.write_all(b"hello agent\r").unwrap();
    chat.wait_for("you said: hello agent");
    tcsetwinsize(&chat.terminal, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let pid = rustix::process::Pid::from_child(&chat.child);
    rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
    chat.wait_for("size: 100x30");
    // Once it is the agent's, which goes on.
    chat.keys.write_all(b"\x03").unwrap();
    chat.keys.write_all(b"still here\r").unwrap();
    chat.wait_for("you said: still here");
    chat.keys.write_all(b"\x03\x03").unwrap();
    let (painted, code) = chat.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.ends_with("chat ended\r\n"), "{painted:?}");
    assert!(world.git(&root, &["status", "--porcelain"]).is_empty());
}

#[test]
fn a_terminal_that_lags_is_painted_anew_with_its_colours() {
    let world = World::new();
    let root = world.project("project", "");
    let script = world.home.join("script");
    let words = "say begin\nwait go\nflood 3000000\npaint the end\nwrite painted x\nhang";
    std::fs::write(&script, words).unwrap();
    let args = ["chat", "--agent", "scripted", "--no-sandbox"];
    let variables = [("WATCHFIRE_SCRIPT", script.to_str().unwrap())];
    let mut chat = OnTerminal::start(&world, &root, &args, &variables);
    chat.wait_for("begin");
    let stalled = Arc::clone(&chat.stalled);
    let stall = stalled.lock().unwrap();
    std::fs::write(root.join("go"), "").unwrap();
    until("the agent has painted", || root.join("painted").exists());
    drop(stall);
    chat.wait_for("the end");
    chat.keys.write_all(b"\x03\x03").unwrap();
    let (painted, code) = chat.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.len() < 1_000_000, "{} bytes were shown", painted.len());
    let anew = painted.rsplit_once("\x1bc").map(|(_, anew)| anew).unwrap_or_default();
    assert!(anew.contains("38;5;208m") && anew.contains("the end"), "{anew:?}");
}

#[test]
fn a_task_is_asked_for() {
    let world = World::new();
    let root = world.project("project", "");
    let mut add = OnTerminal::start(&world, &root, &["task", "add"], &[]);
    for (question, answer) in [
        ("Title", "A title\n"),
        ("Prompt", "line one\nline two\n\n"),
        ("Acceptance criteria", "\n"),
        ("Ready to run?", "y\n"),
    ] {
        add.wait_for(question);
        add.keys.write_all(answer.as_bytes()).unwrap();
    }
    assert_eq!(add.end().1, Some(0));
    let task = world.run(&root, ["task", "show", "1", "--json"]).good().json()["task"].clone();
    assert_eq!((&task["prompt"], &task["status"]), (&"line one\nline two".into(), &"ready".into()));

    // An editor of the person's choice changes it.
    let edit = OnTerminal::start(
        &world,
        &root,
        &["task", "edit", "1"],
        &[("EDITOR", "sed -i 's/^A title/A better one/'")],
    );
    assert_eq!(edit.end().1, Some(0));
    let task = world.run(&root, ["task", "show", "1", "--json"]).good().json()["task"].clone();
    assert_eq!(task["title"], "A better one");
}
