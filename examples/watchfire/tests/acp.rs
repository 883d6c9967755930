//! An agent that speaks the Agent Client Protocol, from its task to the merge.

mod support;

use std::fs;

use support::World;

fn world() -> World {
    let world = World::new();
    let home = world.empty("watchfire-home");
    fs::write(home.join("settings.yaml"), "version: 1\nagents:\n  scripted:\n    transport: acp\n").unwrap();
    world
}

#[test]
fn from_task_to_merged() {
    let world = world();
    let root = world.project("project", "");
    world
        .run(
            &root,
            ["task", "add", "--title", "Add a file", "--prompt", "x", "--agent", "scripted", "--ready"],
        )
        .good();
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert!(said.stdout.contains("#0001 Add a file: merged into main"), "{}", said.stdout);
    assert!(world.git(&root, &["show", "--format=", "--name-only", "HEAD^2"]).contains("task-0001.md"));
    let log = world.run(&root, ["logs", "1", "--text"]).good().stdout;
    assert!(log.contains("\"method\":\"session/update\"") && log.contains("task-0001.md"), "{log}");
}

/// What an agent asks for, it gets an answer to and nothing else; what it writes beside the protocol harms nobody.
#[test]
fn a_hostile_agent_gets_errors() {
    let world = world();
    let root = world.project("project", "");
    let ask = |id: &str, method: &str, params: &str| {
        format!(
            "raw {{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"{method}\",\"params\":{params}}}\nline\n"
        )
    };
    let permit = "{\"sessionId\":\"scripted-session\",\"toolCall\":{\"toolCallId\":\"t\",\"title\":\"rm\"},\
                  \"options\":[{\"optionId\":\"yes\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}";
    let script = [
        "raw not json at all\nraw [1,2]\nraw {}\nraw {\"id\":1,\"result\":{}}\nflood 6_000_000\nraw and that is the end of it\n".to_owned(),
        ask("read", "fs/read_text_file", "{\"sessionId\":\"scripted-session\",\"path\":\"/etc/hostname\"}"),
        ask("run", "terminal/create", "{\"sessionId\":\"scripted-session\",\"command\":\"touch pwned\"}"),
        ask("permit", "session/request_permission", permit),
        ask("broken", "session/request_permission", "[]"),
        "write new.txt hello\ncommit new\ndone".to_owned(),
    ];
    world.task(&root, "Hostile", &script.concat());
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert_eq!(world.git(&root, &["show", "HEAD:new.txt"]), "hello");
    let log = world.run(&root, ["logs", "1", "--text"]).good().stdout;
    let answered = |id: &str| {
        let line = log
            .lines()
            .find(|line| line.contains("line: ") && line.contains(&format!("\\\"id\\\":\\\"{id}\\\"")));
        line.unwrap_or_else(|| panic!("no answer to {id}")).replace("\\\"", "\"")
    };
    assert!(answered("read").contains("-32601") && answered("run").contains("-32601"));
    assert!(answered("permit").contains("\"optionId\":\"yes\""), "{}", answered("permit"));
    assert!(answered("broken").contains("-32602"));
}

/// It never opens a session, or ends in the middle of a turn.
#[test]
fn an_agent_that_breaks_off_is_a_crash() {
    let world = world();
    let root = world.project("project", "");
    world.task(&root, "Breaks off", "write x x\ncommit x\nexit 0");
    world.task(&root, "Crashes", "say half\ncrash");
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    let silent = "ended without saying so".to_owned();
    assert_eq!(world.states(&root), [(1, silent), (2, "crashed".to_owned())]);
}
