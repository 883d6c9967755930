//! The terminal interface on a real terminal, with the real daemon and the scripted agent. What is compared is what a person sees: all
//! bytes go through our own emulator.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::{World, until};
use watchfire_core::terminal::{Modes, Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;

/// A home whose agents need no sandbox; the daemon ends with the test.
struct Home(World);

impl Home {
    fn new() -> Self {
        let world = World::new();
        let home = world.empty("watchfire-home");
        let settings = "version: 1\ndefaults:\n  default_sandbox: none\n  default_agent: scripted\n  auto_start_tasks: false\n";
        fs::write(home.join("settings.yaml"), settings).unwrap();
        Self(world)
    }

    fn shop(&self) -> PathBuf {
        let root = self.0.repo("shop");
        self.0.run(&root, ["init", "--yes", "--no-auto-start"]).good();
        root
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Agents outlive a daemon that was killed: the next one takes them over, and ends them.
        let start = self.0.command(self.0.folder.path(), ["daemon", "start"]).output();
        drop(start);
        let stop = self.0.command(self.0.folder.path(), ["daemon", "stop", "--agents"]).output();
        drop(stop);
    }
}

/// The program, and what it shows.
struct Shown(OnTerminal);

impl Shown {
    fn start(home: &Home, at: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let shown = Self(OnTerminal::answering(&home.0, at, args, variables));
        shown.size(100, 30);
        shown
    }

    fn size(&self, cols: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.0.terminal, size).unwrap();
        let pid = Pid::from_child(&self.0.child);
        // The kernel tells only who has it as its terminal.
        kill_process(pid, Signal::WINCH).unwrap();
    }

    fn picture(&self, cols: u16, rows: u16) -> std::sync::Arc<Snapshot> {
        let mut terminal = Emulator::new(Size::new(cols, rows));
        terminal.process(self.0.painted().as_bytes());
        terminal.snapshot()
    }

    fn text(&self) -> String {
        self.picture(100, 30).text()
    }

    #[track_caller]
    fn wait(&self, words: &str) {
        let mut last = String::new();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(words, || {
                last = self.text();
                last.contains(words)
            });
        }));
        assert!(seen.is_ok(), "never {words:?} in:\n{last}");
    }

    fn keys(&mut self, bytes: &str) {
        self.0.keys.write_all(bytes.as_bytes()).unwrap();
    }

    /// Leaves, and checks that the terminal is as it was.
    #[track_caller]
    fn leave(mut self) {
        self.keys("\x11");
        let (painted, code) = self.0.end();
        assert_eq!(code, Some(0));
        assert_clean(&painted);
    }
}

#[track_caller]
fn assert_clean(painted: &str) {
    let mut terminal = Emulator::new(Size::new(100, 30));
    terminal.process(painted.as_bytes());
    let left = terminal.snapshot();
    assert_eq!(left.modes, Modes::default(), "modes are left on");
    assert!(!left.cursor.hidden, "the cursor is hidden");
}

/// C1: it starts the daemon, draws, and where nothing runs starts a chat that takes what is typed.
#[test]
fn it_starts_with_a_chat() {
    let home = Home::new();
    let root = home.shop();
    let mut shown = Shown::start(&home, &root, &[], &[]);
    shown.wait("● Chat");
    shown.wait("No tasks yet. Press a to add one.");
    // What is typed before the agent has its terminal goes nowhere.
    shown.wait("size: ");
    shown.keys("\t");
    shown.keys("good morning\r");
    shown.wait("you said: good morning");
    // Leaving asks, and the agent goes on.
    shown.keys("\x11");
    shown.wait("Agent running. Quit?");
    shown.keys("y");
    let (painted, code) = shown.0.end();
    assert_eq!(code, Some(0));
    assert_clean(&painted);
    let status = home.0.run(&root, ["agent", "status", "--json"]).good().json();
    assert_eq!(status["agents"][0]["mode"], "chat");
}

/// `C` goes on with the chat that ended last, in the agent's own conversation.
#[test]
fn a_chat_is_gone_on_with() {
    let home = Home::new();
    let root = home.shop();
    let agent = home.0.path("agent");
    let script =
        "#!/bin/sh\necho \"began with $*.\"\nread -r line\necho \"working on $line\"\nread -r line\n";
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (key, value) in [
        ("agents.mine.path", agent.to_str().unwrap()),
        ("agents.mine.args", r#"["new", "{session_id}"]"#),
        ("agents.mine.resume_args", r#"["again", "{session_id}"]"#),
        ("agents.mine.busy", r#"["working on"]"#),
        ("defaults.default_agent", "mine"),
    ] {
        home.0.run(&root, ["settings", "--global", key, value]).good();
    }
    let mut shown = Shown::start(&home, &root, &[], &[]);
    shown.wait("began with new ");
    let text = shown.text();
    let id = text.split_once("began with new ").unwrap().1.split('.').next().unwrap().to_owned();
    let talk = |shown: &mut Shown| {
        shown.keys("hello\r");
        shown.wait("working on hello");
        let status = || home.0.run(&root, ["sessions", "--json"]).good().stdout;
        until("its work is seen", || status().contains("processing"));
        shown.keys("bye\r");
        shown.wait("● Idle");
    };
    shown.keys("\t");
    talk(&mut shown);
    shown.keys("C");
    // The line is longer than the terminal.
    shown.wait(&format!("{id} again"));
    shown.wait(&format!("│{id}."));
    talk(&mut shown);
    shown.leave();
}

/// A chain turns into a chat where a screen is attached, once it is over and nothing waits for the person.
#[test]
fn a_chat_follows_a_chain() {
    let home = Home::new();
    let root = home.shop();
    home.0.task(&root, "One", "write a a\ncommit a\ndone\nexit 0");
    home.0.task(&root, "Two", "write b b\ncommit b\ndone\nexit 0");
    let agents = || home.0.run(&root, ["agent", "status", "--json"]).good().json()["agents"].clone();
    // Without a chat of its own it starts none later.
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("Ready (2)");
    shown.keys("S");
    shown.wait("Done (2)");
    shown.wait("● Idle");
    shown.leave();
    assert_eq!(agents(), serde_json::json!([]));
    let mut shown = Shown::start(&home, &root, &[], &[]);
    shown.wait("● Chat");
    // A chain takes the place of the chat, and another chat that of the chain.
    home.0.task(&root, "Three", "write c c\ncommit c\ndone\nexit 0");
    home.0.task(&root, "Four", "write d d\ncommit d\ndone\nexit 0");
    shown.wait("Ready (2)");
    let first = agents()[0]["session"].clone();
    shown.keys("S");
    shown.wait("Done (4)");
    until("another chat is open", || {
        let now = agents();
        now[0]["mode"] == "chat" && now[0]["session"] != first && now[0]["running"] == true
    });
    assert_eq!(agents().as_array().unwrap().len(), 1);
    shown.wait("● Chat");
    // A chain that the person stops is followed by none.
    home.0.task(&root, "Five", "hang");
    shown.wait("Ready (1)");
    shown.keys("S");
    shown.wait("● Task #0005");
    home.0.run(&root, ["agent", "stop"]).good();
    shown.wait("● Idle");
    shown.leave();
    assert_eq!(agents(), serde_json::json!([]));
}

/// C2: where there is no project, its questions come first.
#[test]
fn a_folder_becomes_a_project_in_place() {
    let home = Home::new();
    let root = home.0.repo("fresh");
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.0.wait_for("is no Watchfire project yet");
    shown.keys("y\r");
    shown.0.wait_for("Project name");
    for answer in ["Fresh\r", "A definition.\r", "\r", "\r", "y\r", "y\r", "n\r", "\r"] {
        shown.keys(answer);
    }
    shown.wait("● Fresh");
    shown.keys("2");
    shown.wait("A definition.");
    shown.leave();
    let refused = OnTerminal::start(&home.0, &home.0.empty("plain"), &[], &[]);
    let mut refused = Shown(refused);
    refused.0.wait_for("(y/n)");
    refused.keys("n\r");
    let (painted, code) = refused.0.end();
    assert_eq!(code, Some(1));
    assert!(painted.contains("Not a Watchfire project. Run `watchfire init` first."), "{painted}");
}

/// C3: a task is added, changed, made ready, done and deleted, and its file says the same.
#[test]
fn tasks_are_written_and_changed() {
    let home = Home::new();
    let root = home.shop();
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("No tasks yet");
    shown.keys("a");
    shown.wait("Add Task");
    shown.keys("A login page\r");
    // A paste of several lines is one text.
    shown.keys("\x1b[200~Follow the plan.\nAll of it.\x1b[201~");
    shown.wait("All of it.");
    shown.keys("\x13");
    shown.wait("#0001 A login page");
    shown.wait("Draft (1)");
    let file = root.join(".watchfire/tasks/0001.yaml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("Follow the plan.") && text.contains("All of it."), "{text}");
    shown.keys("r");
    shown.wait("Ready (1)");
    // Another program's change shows by itself.
    home.0.run(&root, ["task", "add", "--title", "From elsewhere"]).good();
    shown.wait("#0002 From elsewhere");
    shown.keys("d");
    shown.wait("Done (1)");
    shown.keys("x");
    shown.wait("Delete task #0001? (y/n)");
    shown.keys("n");
    shown.wait("Done (1)");
    shown.keys("xy");
    until("it is gone", || !shown.text().contains("A login page"));
    shown.keys("/else\r");
    shown.wait("#0002 From elsewhere");
    shown.leave();
}

/// C6: a task is started and watched, its agent is answered, its work merged, its log read.
#[test]
fn a_task_is_run_and_watched() {
    let home = Home::new();
    let root = home.shop();
    let script = "run printf '\\033[1;31mred\\033[m 漢字\\n'\nline\nquestion port Which port?\nwrite n 1\ncommit n\ndone";
    home.0.task(&root, "Work", script);
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("[▶]");
    shown.keys("s");
    shown.wait("● Task #0001");
    shown.wait("red 漢字");
    // The cells have the agent's looks.
    let picture = shown.picture(100, 30);
    let cell = picture
        .lines
        .iter()
        .flat_map(|line| line.cells())
        .find(|cell| cell.text == "r" && cell.style != Default::default());
    assert!(cell.is_some(), "red is not red");
    shown.keys("\thello\r");
    shown.keys("\t");
    shown.wait("#0001 asks (A answers): Which port?");
    // kitty knows both spellings, and would show two.
    let painted = shown.0.painted();
    let told = painted.matches("\x1b]9;").count() + painted.matches("\x1b]777;").count();
    assert_eq!(told, 1, "an episode is told once");
    shown.keys("A8080\r");
    shown.wait("Done (1)");
    shown.wait("● Idle");
    // Done is what the agent says; the merge comes after it.
    until("it is merged", || {
        home.0.git(&root, &["log", "-1", "--format=%s"]).trim() == "Merge watchfire/0001: Work"
    });
    shown.keys("\t");
    shown.wait("Agent stopped.");
    shown.keys("l");
    shown.wait("Task #0001 — Session 1");
    shown.keys("\r");
    shown.wait("question port: Which port?");
    shown.leave();
}

/// Of several agents the terminal of the selected task's is shown, and gets the keys.
#[test]
fn each_task_shows_its_own_agent() {
    let home = Home::new();
    let root = home.shop();
    home.0.run(&root, ["init", "--yes", "--max-parallel", "2"]).good();
    home.0.task(&root, "One", "say I am the first\nchat");
    home.0.task(&root, "Two", "say I am the second\nchat");
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("Ready (2)");
    shown.keys("S");
    shown.wait("+1");
    shown.keys("g");
    shown.wait("I am the first");
    shown.keys("j");
    shown.wait("I am the second");
    shown.keys("\tto two\r");
    shown.wait("you said: to two");
    shown.keys("\tk");
    shown.wait("I am the first");
    assert!(!shown.text().contains("to two"));
    shown.keys("\tto one\r");
    shown.wait("you said: to one");
    shown.keys("\tXy");
    shown.wait("● Idle");
    shown.leave();
}

/// What a task changes, its branch and the trash are seen and changed in place.
#[test]
fn work_is_looked_at_and_merged() {
    let home = Home::new();
    let root = home.shop();
    home.0.run(&root, ["init", "--yes"]).good();
    for key in ["auto_merge", "auto_delete_branch"] {
        home.0.run(&root, ["settings", key, "false"]).good();
    }
    home.0.task(&root, "One", "write new.txt hello\ncommit new\ndone");
    home.0.task(&root, "Two", "fail no way");
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("Ready (2)");
    shown.keys("s");
    shown.wait("Done (1)");
    shown.keys("GD");
    shown.wait("added new.txt (+1 -0)");
    shown.wait("+hello");
    shown.keys("b");
    shown.wait("watchfire/0001  unmerged");
    shown.keys("m");
    shown.wait("watchfire/0001  merged");
    shown.keys("x");
    shown.wait("Nothing here.");
    shown.keys("q");
    // The first task is the one that is left to do.
    shown.keys("gxy");
    until("it is gone", || !shown.text().contains("#0002 Two"));
    shown.keys("T");
    shown.wait("#0002 Two");
    shown.keys("\r");
    shown.wait("Nothing here.");
    shown.keys("\x1b");
    shown.wait("Ready (1)");
    shown.keys(":all about\r");
    shown.wait("Prompt");
    shown.keys("q");
    shown.leave();
}

/// Work that meets another change of the same line goes back to its agent, who is talked to in that worktree, and is merged then.
#[test]
fn a_conflict_is_resolved_with_the_agent() {
    let home = Home::new();
    let root = home.shop();
    // The second attempt finds the work of the first.
    let script = "run test -e mine || { touch mine; printf 'mine\\ntwo\\nthree\\n' > a.txt; git add -A; git commit -qm mine; }
run git merge -q main || { printf 'ours and theirs\\ntwo\\nthree\\n' > a.txt; git commit -qam resolved; }
say What now?
line
done";
    home.0.task(&root, "Work", script);
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("[▶]");
    shown.keys("s");
    shown.wait("What now?");
    fs::write(root.join("a.txt"), "theirs\ntwo\nthree\n").unwrap();
    home.0.git(&root, &["commit", "-qam", "theirs"]);
    shown.keys("\tgo on\r\t");
    shown.wait("Work  conflict");
    shown.0.wait_for("#0001 has failed");
    shown.wait("● Idle");
    shown.keys("B");
    shown.wait("resolve the conflict.");
    shown.keys("\r");
    shown.wait("● Task #0001");
    until("a new terminal asks", || {
        let text = shown.text();
        text.contains("What now?") && !text.contains("line: go on")
    });
    shown.keys("\tkeep both\r");
    until("it is merged", || home.0.states(&root) == [(1, "merged".to_owned())]);
    shown.wait("● Idle");
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "ours and theirs\ntwo\nthree\n");
    shown.keys("\t");
    shown.leave();
}

/// A limit is shown, and `R` lets its agent go on; two questions are answered one after the other.
#[test]
fn a_limit_is_resumed_and_questions_are_answered() {
    let home = Home::new();
    let root = home.shop();
    let script = "issue rate_limited slow down\nwait ../../go\ncleared rate_limited\n\
                  question port Which port?\nquestion host Which host?\nanswer port port.txt\nanswer host host.txt\n\
                  commit answers\ndone";
    home.0.task(&root, "Work", script);
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("[▶]");
    shown.keys("s");
    shown.wait("R resumes");
    let state = || {
        let status = home.0.run(&root, ["agent", "status", "--json"]).good().json();
        status["agents"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(state(), "limited");
    shown.keys("R");
    until("it goes on", || state() == "running");
    fs::write(root.join(".watchfire/go"), "").unwrap();
    shown.wait("(and 1 more)");
    shown.keys("A");
    shown.wait("Answer #0001");
    shown.keys("8080\r");
    until("the other one is asked", || !shown.text().contains("(and 1 more)"));
    shown.keys("A");
    shown.wait("Answer #0001");
    shown.keys("here\r");
    until("it is merged", || home.0.states(&root) == [(1, "merged".to_owned())]);
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert!(read("port.txt").contains("8080") && read("host.txt").contains("here"));
    shown.wait("● Idle");
    shown.leave();
}

/// Without its agent's program it says so and ends, as without git; without a chat it opens.
#[test]
fn without_its_agent_it_says_so_and_ends() {
    let home = Home::new();
    let root = home.shop();
    home.0.run(&root, ["settings", "default_agent", "claude-code"]).good();
    let settings = home.0.path("watchfire-home/settings.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(settings, format!("{text}agents:\n  claude-code:\n    path: /nowhere\n")).unwrap();
    let (painted, code) = Shown::start(&home, &root, &[], &[]).0.end();
    assert_eq!(code, Some(1));
    assert_clean(&painted);
    // On the person's own screen, below what was there.
    let (_, said) = painted.rsplit_once("\x1b[?1049l").unwrap();
    assert!(said.contains("Claude Code not found. Configure path in settings."), "{said}");
    assert!(said.contains("watchfire tui --no-chat"), "{said}");
    let shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("No tasks yet");
    shown.leave();
    let (painted, code) = OnTerminal::start(&home.0, &root, &[], &[("PATH", "/nowhere")]).end();
    assert_eq!(code, Some(1));
    assert!(painted.contains("Git is required. Install git and try again."), "{painted}");
}

/// Lines that have left the agent's screen are found, and text is copied with the mouse.
#[test]
fn lines_are_found_and_copied() {
    let home = Home::new();
    let root = home.shop();
    home.0.run(&root, ["init", "--yes"]).good();
    let script = home.0.path("long.script");
    fs::write(&script, "run seq 1000; echo the needle; seq 2000 3500\nsay at last\nchat").unwrap();
    let mut shown = Shown::start(&home, &root, &[], &[("WATCHFIRE_SCRIPT", script.to_str().unwrap())]);
    shown.wait("at last");
    // A resize numbers lines anew, and a search of before begins again.
    until("the terminal is as high as its panel", || {
        let text = shown.text();
        let rows = text.lines().filter_map(|row| row.split_once("││"));
        rows.filter(|(_, row)| !row.trim_matches(['│', ' ']).is_empty()).count() > 24
    });
    shown.keys("\t\x1b/NEEDLE\r");
    shown.wait("the needle");
    shown.keys("\r");
    shown.wait("not found");
    shown.keys("\x1b");
    shown.wait("(input goes to agent)");
    // The button goes down on the first row of the terminal, and is let go on the next one.
    shown.keys("\x1b[<0;42;3M\x1b[<32;45;4M\x1b[<0;45;4m");
    shown.wait("Copied");
    let painted = shown.0.painted();
    let copied = painted.rsplit_once("\x1b]52;c;").and_then(|(_, rest)| rest.split_once('\x1b'));
    // Two lines, in base64: more than the four bytes of the second one.
    assert!(copied.is_some_and(|(text, _)| text.len() > 8), "{:?}", shown.text());
    shown.keys("hello\r");
    shown.wait("you said: hello");
    shown.keys("\tXy");
    shown.wait("● Idle");
    shown.leave();
}

/// Settings are saved at once, and the definition by the person's editor, which has the terminal for itself.
#[test]
fn settings_and_definition_are_changed() {
    let home = Home::new();
    let root = home.shop();
    let editor = home.0.path("editor");
    fs::write(&editor, "#!/bin/sh\nprintf 'IN THE EDITOR'\nprintf '# Written\\n' > \"$1\"\n").unwrap();
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let variables = [("EDITOR", editor.to_str().unwrap())];
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &variables);
    shown.wait("No tasks yet");
    shown.keys("2e");
    shown.0.wait_for("IN THE EDITOR");
    shown.wait("# Written");
    shown.keys("3jjj ");
    shown.wait("Saved");
    let file = root.join(".watchfire/project.yaml");
    until("both are in the file", || {
        let text = fs::read_to_string(&file).unwrap();
        text.contains("# Written") && text.contains("auto_merge: false")
    });
    shown.keys("kkk\r x\r");
    shown.wait("● shop x");
    shown.leave();
}

/// It says when the daemon is killed, starts it anew, and goes on with the agent that is still at work; and it says when the daemon
/// was told to end.
#[test]
fn it_outlives_the_daemon() {
    let home = Home::new();
    let root = home.shop();
    home.0.task(&root, "Talks", "say hello\nchat");
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("[▶]");
    shown.keys("s");
    shown.wait("hello");
    let status = home.0.run(&root, ["daemon", "status", "--json"]).good().json();
    let pid = Pid::from_raw(i32::try_from(status["pid"].as_i64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    shown.wait("⚠ Disconnected");
    shown.wait("Connected");
    shown.keys("\tagain\r");
    shown.wait("you said: again");
    home.0.run(&root, ["daemon", "stop"]).good();
    shown.wait("Daemon shut down. Press any key to exit.");
    // A key at the same moment was meant for something else.
    until("a key ends it", || {
        shown.keys("x");
        shown.0.child.try_wait().unwrap().is_some()
    });
    let (painted, code) = shown.0.end();
    assert_eq!(code, Some(0));
    assert_clean(&painted);
    // The agent went on without a daemon. The next one takes it over, and ends it with the test.
    home.0.run(&root, ["daemon", "start"]).good();
}

/// Sizes, signals, and terminals that it cannot use.
#[test]
fn terminals_are_fitted_and_left_clean() {
    let home = Home::new();
    let root = home.shop();
    let shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("No tasks yet");
    shown.size(60, 20);
    until("it says so", || shown.picture(60, 20).text().contains("Terminal too small"));
    shown.size(120, 40);
    until("it fits again", || shown.picture(120, 40).text().contains("No tasks yet"));
    kill_process(Pid::from_child(&shown.0.child), Signal::TERM).unwrap();
    let (painted, code) = shown.0.end();
    assert_eq!(code, Some(0));
    assert_clean(&painted);

    let dumb = OnTerminal::start(&home.0, &root, &[], &[("TERM", "dumb")]);
    let (painted, code) = dumb.end();
    assert_eq!(code, Some(2), "{painted}");
    assert!(painted.contains("this terminal cannot place a cursor"), "{painted}");
    let piped = home.0.run(&root, [] as [&str; 0]).code(2);
    assert!(piped.stderr.contains("needs a terminal"), "{}", piped.stderr);
    let plain = Shown::start(&home, &root, &["tui", "--no-chat"], &[("NO_COLOR", "1")]);
    plain.wait("No tasks yet");
    assert!(!plain.0.painted().contains("38;5;"), "colours in spite of NO_COLOR");
    plain.leave();
}

/// What waits in another project is gone to, and there is its project.
#[test]
fn another_project_is_gone_to() {
    let home = Home::new();
    let (root, other) = (home.shop(), home.0.repo("bakery"));
    home.0.run(&other, ["init", "--yes", "--no-auto-start"]).good();
    home.0.task(&other, "Bakes", "question oven Which oven?\nwait never 60\ndone");
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[]);
    shown.wait("No tasks yet");
    // It waits for the person.
    home.0.run(&other, ["task", "start", "1"]).code(3);
    until("it asks", || {
        let status = home.0.run(&other, ["agent", "status", "--json"]).stdout;
        status.contains("Which oven?")
    });
    shown.keys("I");
    shown.wait("bakery #0001 Bakes: asks: Which oven?");
    shown.keys("\r");
    shown.wait("● bakery");
    shown.wait("? #0001 asks (A answers): Which oven?");
    shown.keys("P");
    shown.wait("▸ bakery");
    shown.keys("k\r");
    shown.wait("● shop");
    shown.leave();
}

/// What a person sees of an agent's terminal is what the session has, cell by cell, at many moments.
#[test]
fn what_is_shown_is_the_sessions_screen() {
    use watchfire_client::daemon_proto as proto;
    let home = Home::new();
    let root = home.shop();
    home.0.task(
        &root,
        "Talks",
        "raw \\e[4:3;58;5;9mcurly\\e[m \\e[38;2;9;8;7mcolour\\e[m 漢字\nsay hello\nchat",
    );
    let mut shown = Shown::start(&home, &root, &["tui", "--no-chat"], &[("COLORTERM", "truecolor")]);
    shown.wait("[▶]");
    shown.keys("s");
    shown.wait("hello");
    shown.keys("\t");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let daemon = runtime.block_on(watchfire_client::Daemon::connect(&home.0.path("watchfire-home"))).unwrap();
    let projects = runtime.block_on(daemon.projects().list_projects(())).unwrap().into_inner().projects;
    let screen = || {
        let request = proto::SubscribeScreenRequest {
            project_id: projects[0].project_id.clone(),
            format: proto::ScreenFormat::Changes.into(),
            ..Default::default()
        };
        let first = runtime.block_on(async {
            daemon.agents().subscribe_screen(request).await.unwrap().into_inner().message().await
        });
        watchfire_term::wire::decode(&first.unwrap().unwrap().cells).unwrap()
    };
    let times = if std::env::var_os("WATCHFIRE_LONG").is_some() { 1_000 } else { 20 };
    for time in 0..times {
        shown.keys(&format!("word {time}\r"));
        shown.wait(&format!("you said: word {time}"));
        // Once both have come to rest.
        until("both are the same", || {
            let (session, seen) = (screen(), shown.picture(100, 30));
            (0..session.size.rows()).all(|row| {
                let cells = |line: &watchfire_core::terminal::Line, from: u16| {
                    let mut at = 0;
                    let cells = line.cells().filter_map(move |cell| {
                        at += cell.width;
                        (at > from).then(|| (cell.text.to_owned(), cell.width, cell.style))
                    });
                    cells.take_while(|(text, ..)| text != "│").collect::<Vec<_>>()
                };
                // The panel begins behind the left one and its border.
                let mut want = cells(&session.lines[usize::from(row)], 0);
                let mut got = cells(&seen.lines[usize::from(row) + 2], 41);
                let blank = (" ".to_owned(), 1, watchfire_core::terminal::Style::default());
                for cells in [&mut want, &mut got] {
                    while cells.last() == Some(&blank) {
                        cells.pop();
                    }
                }
                want == got
            })
        });
    }
    shown.keys("\x11y");
    let (painted, code) = shown.0.end();
    assert_eq!(code, Some(0));
    assert_clean(&painted);
}

/// Random keys, mice, pastes, sizes, and daemons that are killed or told to end. `WATCHFIRE_LONG` goes on for ten minutes.
#[test]
fn whatever_happens_the_terminal_is_left_clean() {
    let (seed, time) = match std::env::var_os("WATCHFIRE_LONG") {
        None => (7, Duration::from_secs(5)),
        Some(_) => (u64::from(std::process::id()), Duration::from_secs(600)),
    };
    println!("seed {seed}");
    let mut state = seed;
    let mut next = |below: u64| {
        // Knuth's MMIX; the high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let home = Home::new();
    let root = home.shop();
    for number in 1..=3 {
        home.0.task(&root, &format!("Talks {number}"), "say hello\nchat");
    }
    let start = || Shown::start(&home, &root, &["tui"], &[("EDITOR", "true")]);
    let mut shown = start();
    let begun = Instant::now();
    let keys = [
        "\x1b",
        "\t",
        "\r",
        " ",
        "\x08",
        "\x13",
        "\x1b[A",
        "\x1b[B",
        "\x1b[5~",
        "\x1b[6~",
        "\x1bz",
        "\x1b/",
        "\x1bn",
        "\x11",
        "\x1b[Z",
        "\x7f",
        "\x1b[200~pasted\nwords\x1b[201~",
        "y",
        "n",
        "w",
        "F",
        "]",
        "D",
        "v",
        ":",
        "?",
        "é",
        "漢",
    ];
    while begun.elapsed() < time {
        match next(100) {
            0 => {
                let (cols, rows) = (next(200) + 1, next(60) + 1);
                shown.size(u16::try_from(cols).unwrap(), u16::try_from(rows).unwrap());
            }
            1 => {
                // There may be none.
                let said = home.0.run(&root, ["daemon", "status", "--json"]).stdout;
                let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
                let pid = status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
                if let Some(pid) = pid.and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            2 if next(4) == 0 => drop(home.0.run(&root, ["daemon", "stop"])),
            3..10 => {
                let (button, col, row) =
                    ([0, 2, 32, 64, 65][usize::try_from(next(5)).unwrap()], next(100), next(30));
                let end = if next(2) == 0 { 'M' } else { 'm' };
                shown.keys(&format!("\x1b[<{button};{};{}{end}", col + 1, row + 1));
            }
            10..50 => {
                let letter = char::from(b' ' + u8::try_from(next(95)).unwrap());
                shown.keys(&letter.to_string());
            }
            _ => shown.keys(keys[usize::try_from(next(keys.len() as u64)).unwrap()]),
        }
        std::thread::sleep(Duration::from_millis(next(20)));
        // It may be told to leave, and does with the daemon.
        if shown.0.child.try_wait().unwrap().is_some() {
            let (painted, code) = shown.0.end();
            assert_eq!(code, Some(0), "seed {seed}:\n{painted}");
            assert_clean(&painted);
            shown = start();
        }
    }
    kill_process(Pid::from_child(&shown.0.child), Signal::TERM).unwrap();
    let (painted, code) = shown.0.end();
    assert_eq!(code, Some(0), "seed {seed}");
    assert_clean(&painted);
    assert!(!painted.contains("panicked"), "seed {seed}");
}
