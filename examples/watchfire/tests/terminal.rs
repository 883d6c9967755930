//! On a terminal: drawn in place, without colour where that is asked for, and left as it was found.

mod support;

use std::io::Write as _;
use std::sync::Arc;

use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::{World, until};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;

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

/// Mistakes in the command line break at words, and have colours only where those are wanted.
#[test]
fn mistakes_fit_a_terminal() {
    let world = World::new();
    let root = world.project("project", "");
    for (variables, colours) in
        [(&[][..], true), (&[("NO_COLOR", "1")][..], false), (&[("TERM", "dumb")][..], false)]
    {
        let (painted, code) = OnTerminal::start(&world, &root, &["run", "foo"], variables).end();
        assert_eq!((code, painted.contains("\x1b[")), (Some(2), colours), "{painted}");
        let mut screen = Emulator::new(Size::new(80, 24));
        screen.process(painted.as_bytes());
        let text = screen.snapshot().text();
        assert!(text.contains("expected 1,\n0001 or #0001"), "{text}");
    }
}

/// Warnings of a run break at words, drawn in place or not.
#[test]
fn warnings_of_a_run_fit_a_terminal() {
    let world = World::new();
    let root = world.project("project", "stall_aftr: 10m");
    world.task(&root, "Good", "done");
    std::fs::write(root.join(".watchfire/tasks/0002.yaml"), "task_number: 2\nstatus: redy\n").unwrap();
    for term in ["xterm", "dumb"] {
        let run = ["run", "all", "--no-sandbox"];
        let (painted, _) = OnTerminal::start(&world, &root, &run, &[("NO_COLOR", "1"), ("TERM", term)]).end();
        let told = watchfire_term::plain::strip(painted.as_bytes());
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["`stall_aftr` is no key", "did you mean `stall_after`", "0002.yaml"] {
            assert!(words.contains(part), "{part}: {painted}");
        }
        // The terminal itself gets no line to break, which it would do inside a word.
        let long: Vec<_> = told.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{term}: {long:#?}");
    }
}

/// The vendor's program has the terminal, and says whether it went well.
#[test]
fn a_sign_in_is_the_agents_own() {
    let world = World::new();
    let at = world.empty("x");
    let program = world.path("claude");
    let script = "#!/bin/sh\necho \"asked: $*\"\nread word\n[ \"$word\" = good ]\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.run(&at, ["doctor"]);
    let settings = format!("agents: {{claude-code: {{path: {}, transport: pty}}}}\n", program.display());
    std::fs::write(world.path("watchfire-home/settings.yaml"), settings).unwrap();
    for (word, said, code) in [("good\n", "signed in to claude-code", 0), ("bad\n", "ended with", 1)] {
        let mut run = OnTerminal::start(&world, &at, &["login", "claude"], &[("NO_COLOR", "1")]);
        run.wait_for("asked: auth login");
        run.keys.write_all(word.as_bytes()).unwrap();
        let (painted, ended) = run.end();
        assert!(ended == Some(code) && painted.contains(said), "{ended:?}: {painted}");
    }
    let (painted, code) = OnTerminal::start(&world, &at, &["login", "aider"], &[]).end();
    assert!(code == Some(2) && painted.contains("no sign-in of its own"), "{painted}");
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
fn init_offers_the_branch_of_the_settings() {
    let world = World::new();
    let root = world.repo("project");
    std::fs::create_dir_all(world.path("watchfire-home")).unwrap();
    let settings = "version: 1\ndefaults:\n  default_branch: trunk\n";
    std::fs::write(world.path("watchfire-home/settings.yaml"), settings).unwrap();
    let mut run = OnTerminal::start(&world, &root, &["init", "--name", "p", "--definition", "d"], &[]);
    // Agent, verify command, and three times yes.
    for _ in 0..5 {
        run.keys.write_all(b"\n").unwrap();
    }
    run.wait_for("that is checked out) [trunk]:");
    run.keys.write_all(b"\n").unwrap();
    let (painted, code) = run.end();
    assert_eq!(code, Some(0), "{painted}");
    let project = std::fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    assert!(project.contains("default_branch: \"trunk\""), "{project}");
    // Only what the project says counts, and `doctor` says the same.
    std::fs::write(root.join(".watchfire/project.yaml"), project.replace("trunk", "")).unwrap();
    let doctor = world.run(&root, ["doctor", "--json"]).stdout;
    assert!(!doctor.contains("trunk"), "{doctor}");
}

#[test]
fn two_interrupts_leave_the_terminal_as_it_was() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Stubborn", "ignore INT TERM HUP\nsay here I stay\nhang");
    let run = OnTerminal::start(&world, &root, &["run", "all", "--no-sandbox"], &[]);
    run.wait_for("here I stay");
    run.signal(Signal::INT);
    run.wait_for("stopping");
    run.signal(Signal::INT);
    assert_eq!(run.end().1, Some(130));
}

#[test]
fn a_chat_that_a_signal_ends_says_so_by_its_code() {
    let world = World::new();
    let root = world.project("project", "");
    for signal in [Signal::TERM, Signal::HUP] {
        let chat = OnTerminal::start(&world, &root, &["chat", "--agent", "scripted", "--no-sandbox"], &[]);
        chat.wait_for("> ");
        chat.signal(signal);
        let (painted, code) = chat.end();
        assert_eq!(code, Some(130), "{painted}");
        assert!(painted.ends_with("chat ended\r\n"), "{painted:?}");
    }
}

/// A chat whose agent fails says so, by its code too.
#[test]
fn a_chat_whose_agent_fails_says_so_by_its_code() {
    let world = World::new();
    let home = world.empty("watchfire-home");
    let settings = "version: 1\nagents:\n  failing: {path: sh, args: ['-c', 'exit 7'], prompt_mode: none}\n";
    std::fs::write(home.join("settings.yaml"), settings).unwrap();
    let root = world.project("project", "");
    let chat = OnTerminal::start(&world, &root, &["chat", "--agent", "failing", "--no-sandbox"], &[]);
    let (painted, code) = chat.end();
    assert_eq!(code, Some(7), "{painted}");
    assert!(painted.ends_with("chat ended: the agent ended with exit code 7\r\n"), "{painted:?}");
    let logs = world.run(&root, ["logs", "--json"]).good().stdout;
    assert!(logs.contains("failed"), "{logs}");
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
    // It is on disk by then, and perhaps not read yet.
    let session = world.run(&root, ["sessions", "--json"]).good().json()["sessions"][0]["id"].clone();
    until("the chat has read it", || {
        let seen = world.run(&root, ["watch", session.as_str().unwrap(), "--json"]).good().json();
        seen["output"]["text"].as_str().unwrap().contains("the end")
    });
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
        ("Prompt", "line one\n\nline two\n\n\n"),
        ("Acceptance criteria", "\n"),
        ("Ready to run?", "y\n"),
    ] {
        add.wait_for(question);
        add.keys.write_all(answer.as_bytes()).unwrap();
    }
    assert_eq!(add.end().1, Some(0));
    let task = world.run(&root, ["task", "show", "1", "--json"]).good().json()["task"].clone();
    assert_eq!((&task["prompt"], &task["status"]), (&"line one\n\nline two".into(), &"ready".into()));

    for args in [&["add", "--title", "x", "--agent", "nobody"][..], &["edit", "1", "--agent", "nobody"]] {
        let error = world.run(&root, [&["task", "--json"][..], args].concat()).code(1).json_error();
        assert_eq!(error["code"], "unknown_backend", "{error}");
    }

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
    let (painted, _) = OnTerminal::start(&world, &root, &["task", "edit", "1"], &[("EDITOR", "true")]).end();
    assert!(painted.contains("unchanged"), "{painted}");

    // What cannot be read back is kept.
    let kept = world.path("kept");
    std::fs::create_dir(&kept).unwrap();
    let edits = [("EDITOR", "sed -i -e '/^%% prompt/d' -e 's/^A better one/Work of an hour/'")];
    let variables = [edits[0], ("TMPDIR", kept.to_str().unwrap())];
    let (painted, code) = OnTerminal::start(&world, &root, &["task", "edit", "1"], &variables).end();
    assert_eq!(code, Some(1), "{painted}");
    let files: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert!(std::fs::read_to_string(file).unwrap().contains("Work of an hour"), "{painted}");
    assert!(painted.contains(file.file_name().unwrap().to_str().unwrap()), "{painted}");
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Work", "work 0.2 working\nwrite x x\ncommit x\ndone\nexit 0");
    for args in [&["run", "all", "--no-sandbox"][..], &["task", "list"], &["doctor"], &["sandbox", "probe"]] {
        let (painted, _) = OnTerminal::start(&world, &root, args, &[("LC_ALL", "C")]).end();
        assert!(painted.is_ascii(), "{args:?}: {painted}");
    }
    // A name that is cut has three dots, and its line still fits.
    world.task(&root, "word ".repeat(30).trim(), "work 0.5 working\ndone\nexit 0");
    let run = &["run", "2", "--no-sandbox"];
    let (painted, _) = OnTerminal::start(&world, &root, run, &[("LC_ALL", "C")]).end();
    assert!(painted.contains("..."), "{painted}");
    // What programs read has every character.
    world.run(&root, ["task", "add", "--title", "Grüße"]).good();
    let listed = world.start_with(&root, ["task", "list", "--json"], &[("LC_ALL", "C")]).end().stdout;
    assert!(listed.contains("Grüße"), "{listed}");
}
