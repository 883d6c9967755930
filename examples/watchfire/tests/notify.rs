//! The person is told when work needs them.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use support::{World, until};

/// A home whose person is told by a command that writes down what it gets, and by a program like that of a desktop.
fn world(more: &str) -> (World, String) {
    let world = World::new();
    let home = world.empty("watchfire-home");
    let tools = world.empty("tools");
    let told = world.path("told");
    let settings = format!(
        "version: 1\ndefaults: {{default_sandbox: none, auto_start_tasks: false}}\nnotify:\n  command: cat >> '{}'\n  desktop: true\n{more}",
        told.display()
    );
    fs::write(home.join("settings.yaml"), settings).unwrap();
    let shows = tools.join(if cfg!(target_os = "macos") { "osascript" } else { "notify-send" });
    fs::write(&shows, format!("#!/bin/sh\necho \"$@\" >> '{}'\n", world.path("shown").display())).unwrap();
    fs::set_permissions(&shows, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    (world, path)
}

fn told(world: &World) -> Vec<(String, Value)> {
    let text = fs::read_to_string(world.path("told")).unwrap_or_default();
    let each = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    each.map(|it| (it["event"].as_str().unwrap().to_owned(), it)).collect()
}

/// What needs the person is told once, and what is good is not.
#[test]
fn a_run_tells_what_needs_the_person() {
    let (world, path) = world("");
    let root = world.project("shop", "");
    world.task(&root, "Works", "write n 1\ncommit n\ndone");
    world.task(&root, "Fails", "fail the secret word is xyzzy");
    world.task(&root, "Asks sk-4711-0815", "questions Which port, with sk-4711-0815?\nexit 0");
    let variables = [("PATH", path.as_str()), ("SHOP_KEY", "sk-4711-0815")];
    world.start_with(&root, ["run", "all", "--no-wait"], &variables).end().code(3);
    let mut events = told(&world);
    events.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<_> = events.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(names, ["asks", "failed", "over"]);
    let (asks, failed, over) = (&events[0].1, &events[1].1, &events[2].1);
    assert_eq!((&asks["task"], &asks["message"]), (&3.into(), &"Which port, with $SHOP_KEY?".into()));
    assert_eq!((&failed["title"], &failed["project"]["name"]), (&"Fails".into(), &"shop".into()));
    assert_eq!(over["message"], "1 done, 1 not done, 1 waiting");
    // Other users of the machine see arguments.
    let shown = fs::read_to_string(world.path("shown")).unwrap();
    assert!(shown.contains("Watchfire: shop #0003 Asks $SHOP_KEY asks you something"), "{shown}");
    assert!(!shown.contains("xyzzy") && !shown.contains("Which port"), "{shown}");
}

/// The daemon tells too, only what is asked for, and a change of the settings holds at once.
#[test]
fn the_daemon_tells_what_is_asked_for() {
    let (world, path) = world("  events: [failed]\n");
    let root = world.project("shop", "");
    world.start_with(&root, ["daemon", "start"], &[("PATH", &path)]).end().good();
    for title in ["One", "Two"] {
        world.task(&root, title, "fail no way");
    }
    world.run(&root, ["run", "1"]).code(3);
    until("it is told", || told(&world).len() == 1);
    assert_eq!(told(&world)[0].0, "failed");
    world.run(&root, ["settings", "--global", "notify.events", "[\"over\"]"]).good();
    until("it holds", || {
        world.run(&root, ["task", "ready", "2"]);
        world.run(&root, ["run", "2"]).code(3);
        told(&world).last().is_some_and(|(event, _)| event == "over")
    });
    world.run(&root, ["daemon", "stop", "--agents"]).good();
}

/// A daemon that was started anew does not know an agent's secrets, so it passes nothing on that the agent says.
#[test]
fn after_a_restart_no_words_are_passed_on() {
    let (world, path) = world("  events: [asks]\n");
    let root = world.project("shop", "");
    world.start_with(&root, ["daemon", "start"], &[("PATH", &path)]).end().good();
    let go = world.path("go");
    let script = format!(
        "run until test -e '{}'; do sleep 0.02; done\nquestions Which port, with sk-4711-0815?\nexit 0",
        go.display()
    );
    world.task(&root, "Asks sk-4711-0815", &script);
    let variables = [("PATH", path.as_str()), ("SHOP_KEY", "sk-4711-0815")];
    world.start_with(&root, ["agent", "start", "1"], &variables).end().good();
    until("it runs", || world.run(&root, ["ps", "--json"]).stdout.contains("\"task\""));
    world.start_with(&root, ["daemon", "restart"], &[("PATH", &path)]).end().good();
    fs::write(go, "").unwrap();
    until("it is told", || !told(&world).is_empty());
    let (event, asked) = &told(&world)[0];
    assert_eq!((event.as_str(), &asked["task"], &asked["title"]), ("asks", &1.into(), &"".into()));
    assert!(asked["message"].as_str().unwrap().contains("may hold secrets"), "{asked}");
    let shown = fs::read_to_string(world.path("shown")).unwrap();
    assert!(!shown.contains("sk-4711-0815"), "{shown}");
    world.run(&root, ["daemon", "stop", "--agents"]).good();
}

/// A command that hangs or fails keeps nothing from ending.
#[test]
fn a_bad_command_hinders_nothing() {
    let (world, _) = world("");
    let root = world.project("shop", "");
    world.task(&root, "Fails", "fail no way");
    let mark = world.path("mark");
    for bad in ["exit 7", "/nowhere/program", "exec 0<&-; exit 0", "sleep 600"] {
        let command = format!("touch '{}'; {bad}", mark.display());
        world.run(&root, ["settings", "--global", "notify.command", &command]).good();
        world.run(&root, ["task", "ready", "1"]).good();
        assert!(world.run(&root, ["run", "1"]).code(3).stdout.contains("no way"), "{bad}");
        fs::remove_file(&mark).expect("it was run");
    }
}
