//! What commands say and do when the daemon goes while they need it, and until the next one has its agents.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::with_daemon::WithDaemon;
use support::{Running, World, until};

/// A project whose task 1 talks, and waits for input.
fn talking() -> (WithDaemon, PathBuf) {
    let with = WithDaemon::new();
    let root = with.shop();
    with.0.task(&root, "Talks", "say hello\nchat");
    talks(&with, &root);
    (with, root)
}

fn talks(with: &WithDaemon, root: &Path) {
    with.0.run(root, ["agent", "start", "1"]).good();
    until("it talks", || {
        let seen = with.0.run(root, ["watch", "1", "--json"]);
        seen.code == Some(0) && seen.json()["transcript"]["latest_text"] == "hello"
    });
    // Written a moment after the agent has begun.
    let agents = with.0.path("watchfire-home/agents.yaml");
    until("its file says so", || fs::read_to_string(&agents).is_ok_and(|text| text.contains("Talks")));
}

/// Starts to follow, and returns once it sees what the agent says: what was said before is not shown.
fn following(world: &World, root: &Path, target: &str) -> Running {
    let mut follow = world.start(root, ["follow", target]);
    until("it follows", || {
        world.run(root, ["send", "1", "--wait-until", "idle", "again"]).good();
        follow.has("you said: again")
    });
    follow
}

/// Commands that wait go on with the next daemon, whether the last one was killed or ended in order.
#[test]
fn who_watches_goes_on_with_the_next_daemon() {
    let (with, root) = talking();
    let world = &with.0;
    // First, so that it waits by the time that the other has seen several turns.
    let waits = world.start(&root, ["wait", "1", "--until", "off"]);
    let mut follow = following(world, &root, "1");
    for end in ["kill", "stop"] {
        match end {
            "kill" => with.kill(&root),
            _ => drop(world.run(&root, ["daemon", "stop"]).good()),
        }
        until("another one runs", || world.run(&root, ["daemon", "start"]).code == Some(0));
        until("it has the agent", || with.is_running(&root, 1));
        world.run(&root, ["send", "1", "--wait-until", "idle", end]).good();
        follow.wait_for(&format!("you said: {end}"));
    }
    // The answer may not come any more: the session is over with it.
    world.run(&root, ["send", "1", "/quit"]);
    follow.end().good();
    assert!(waits.end().good().stdout.contains("off"));
}

/// If nobody starts another daemon, each command says so in plain words and says what to do. None denies that the agent runs.
#[test]
fn a_daemon_that_does_not_come_back_is_missed_in_plain_words() {
    let (with, root) = talking();
    let world = &with.0;
    // First, so that they wait by the time that the other has seen several turns.
    let wait = world.start(&root, ["wait", "1", "--until", "off"]);
    let run = world.start(&root, ["run", "1"]);
    let mut follow = following(world, &root, "all");
    let ask = world.start(&root, ["ask", "1", "which port?"]);
    follow.wait_for("inquiry");
    with.kill(&root);
    for args in [
        &["ps"][..],
        &["watch", "1"],
        &["send", "1", "x"],
        &["agent", "stop"],
        &["daemon", "stop", "--agents"],
    ] {
        let error = world.run(&root, [args, &["--json"]].concat()).code(1).json_error();
        assert_eq!(error["message"], "no daemon runs for this home", "{args:?}");
        assert_eq!(error["details"]["left"], "shop #0001 Talks", "{args:?}");
        assert_eq!(error["hint"], "watchfire daemon start goes on with them", "{args:?}");
    }
    for command in [follow, wait, ask, run] {
        let said = command.end().code(1).stderr;
        assert!(said.contains("error: the daemon has gone\n"), "{said}");
        let hint = said.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
        assert!(hint.contains("watchfire daemon start"), "{said}");
    }
    with.started(&root);
}

/// A terminal says that the daemon has gone, and what it waits for. Nothing is started against the person's will.
#[test]
fn a_terminal_waits_for_a_daemon_that_was_stopped() {
    let (with, root) = talking();
    let world = &with.0;
    let viewer = || OnTerminal::start(world, &root, &["attach", "1"], &[]);
    let (waits, mut leaves) = (viewer(), viewer());
    waits.wait_for("hello");
    leaves.wait_for("hello");
    world.run(&root, ["daemon", "stop"]).good();
    let stopped = Instant::now();
    leaves.wait_for("the daemon has gone; waiting for it");
    assert!(stopped.elapsed() < Duration::from_secs(3), "{:?}", stopped.elapsed());
    leaves.keys.write_all(b"\x1d").unwrap();
    assert_eq!(leaves.end().1, Some(0));
    let (painted, code) = waits.end();
    assert_eq!(code, Some(254), "{painted}");
    assert!(painted.contains("the daemon has ended\r\n"), "{painted}");
    assert!(painted.contains("its agents go on without it; watchfire daemon start"), "{painted}");
    world.run(&root, ["daemon", "status"]).code(1);
    with.started(&root);
}

/// A terminal starts the daemon again after a crash, with its options.
#[test]
fn a_terminal_starts_a_daemon_that_was_killed() {
    let (with, root) = talking();
    let world = &with.0;
    world.run(&root, ["daemon", "stop"]).good();
    world.run(&root, ["daemon", "start", "--origin", "http://localhost:8080"]).good();
    until("it has the agent", || with.is_running(&root, 1));
    let mut attached = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    attached.wait_for("hello");
    let mut chat = OnTerminal::start(world, &root, &["chat", "--agent", "scripted"], &[]);
    chat.wait_for("> ");
    let killed = with.started(&root)["pid"].clone();
    with.kill(&root);
    attached.wait_for("the daemon has gone; starting it");
    chat.wait_for("the daemon has gone; starting it");
    // What is typed meanwhile is for the agents.
    attached.keys.write_all(b"one\r").unwrap();
    chat.keys.write_all(b"two\r").unwrap();
    attached.wait_for("you said: one");
    chat.wait_for("you said: two");
    let status = world.run(&root, ["daemon", "status", "--json"]).good().json();
    assert_ne!(status["pid"], killed);
    let file = fs::read_to_string(world.path("watchfire-home/daemon.yaml")).unwrap();
    assert!(file.contains("http://localhost:8080"), "{file}");
    for mut terminal in [attached, chat] {
        terminal.keys.write_all(b"\x1d").unwrap();
        assert_eq!(terminal.end().1, Some(0));
    }
}

/// A daemon that has stopped reads no keys, and its terminals can be left all the same. It does not touch them when it goes on.
#[test]
fn a_daemon_that_does_not_answer_holds_no_terminal() {
    let (with, root) = talking();
    let world = &with.0;
    let mut attached = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    attached.wait_for("hello");
    let daemon = with.pid(&root);
    kill_process(daemon, Signal::STOP).unwrap();
    let goes_on = Defer(daemon);
    attached.keys.write_all(b"\x1d").unwrap();
    attached.wait_for("detached; the agent goes on");
    attached.keys.write_all(b"for the shell").unwrap();
    drop(goes_on);
    let (painted, code) = attached.end();
    assert_eq!(code, Some(0));
    // Echoed by the terminal itself.
    assert!(painted.ends_with("detached; the agent goes on\r\nfor the shell"), "{painted:?}");
    // Nor has it read a key for the agent.
    until("it answers", || with.is_running(&root, 1));
    world.run(&root, ["send", "1", "--wait-until", "idle", "one"]).good();
    let log = world.run(&root, ["logs", "1"]).good().stdout;
    assert!(!log.contains("for the shell"), "{log}");
}

/// Lets a program go on that was stopped.
struct Defer(Pid);

impl Drop for Defer {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// No end before the first screen can be taken for one of the agent, or of the session.
#[test]
fn what_keeps_from_attaching_has_a_code_of_its_own() {
    let (with, root) = talking();
    let (world, elsewhere) = (&with.0, with.0.empty("elsewhere"));
    let outside = OnTerminal::start(world, &elsewhere, &["attach"], &[]).end();
    assert_eq!(outside.1, Some(255), "{}", outside.0);
    assert!(outside.0.contains("watchfire init"), "{}", outside.0);
    let piped = world.run(&root, ["attach", "1"]).code(255);
    assert!(piped.stderr.contains("hint: "), "{}", piped.stderr);
    // An option that is none is still a wrong use.
    world.run(&root, ["attach", "--nothing"]).code(2);
}

/// A window that is resized does not take the size from the viewer that typed last.
#[test]
fn a_resized_window_takes_the_size_only_of_its_own_viewer() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let tells = "line\nrun stty size < /dev/tty\n".repeat(3);
    world.task(&root, "Talks", &format!("say ready\n{tells}done\nexit 0"));
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let viewer = |cols, rows| {
        let viewer = OnTerminal::start(world, &root, &["attach", "1"], &[]);
        viewer.wait_for("ready");
        resize(&viewer, cols, rows);
        viewer
    };
    let mut first = viewer(100, 30);
    first.keys.write_all(b"a\r").unwrap();
    first.wait_for("30 100");
    let mut second = viewer(70, 30);
    second.keys.write_all(b"b\r").unwrap();
    first.wait_for("30 70");
    let whole = |viewer: &OnTerminal| viewer.painted().matches("\x1b[2J").count();
    let before = whole(&first);
    resize(&first, 90, 20);
    until("it has seen that", || whole(&first) > before);
    let before = second.painted().matches("30 70").count();
    second.keys.write_all(b"c\r").unwrap();
    until("the size is told again", || {
        second.painted().matches("30 70").count() > before || second.painted().contains("20 90")
    });
    assert!(!second.painted().contains("20 90"), "{}", second.painted());
    assert_eq!(first.end().1, Some(0));
    assert_eq!(second.end().1, Some(0));
}

fn resize(viewer: &OnTerminal, cols: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&viewer.terminal, size).unwrap();
    // The kernel tells only those whose controlling terminal it is.
    viewer.signal(rustix::process::Signal::WINCH);
}
