//! Agents ask each other, from inside the sandbox too, and a second terminal asks, listens and answers.

mod support;

use std::path::Path;

use libtest_mimic::Arguments;
use serde_json::Value;
use support::{World, trial, until};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("agents_ask_each_other_in_a_sandbox", no_sandbox(), agents_ask_each_other_in_a_sandbox),
        trial("a_second_terminal_asks_and_answers", None, a_second_terminal_asks_and_answers),
        trial(
            "the_person_answers_in_the_place_of_an_agent",
            None,
            the_person_answers_in_the_place_of_an_agent,
        ),
        trial("where_nothing_runs_nobody_is_asked", None, where_nothing_runs_nobody_is_asked),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn no_sandbox() -> Option<String> {
    let world = World::new();
    let code = world.run(world.folder.path(), ["sandbox", "probe"]).code;
    (code != Some(0)).then(|| "no sandbox works: not available here".to_owned())
}

/// An action that answers the oldest question.
fn answer(text: &str) -> String {
    format!(
        "run watchfire-agent listen > heard; watchfire-agent answer \"$(sed 's/.*\"conversationId\":\"\\([^\"]*\\)\".*/\\1/' heard)\" '{text}'"
    )
}

/// An action that asks another task, once that runs, and keeps the answer in a file.
fn ask(task: u32, text: &str) -> String {
    format!(
        "run until watchfire-agent list | grep -q 'task {task}:'; do sleep 0.05; done; watchfire-agent ask {task} '{text}' > answer.txt"
    )
}

fn agents_ask_each_other_in_a_sandbox() {
    let world = World::for_sandboxes();
    let root = world.project("project", "max_parallel: 2");
    let sessions = "\"$(dirname \"$(dirname \"$WATCHFIRE_SESSION_DIR\")\")\"";
    let first = [
        &ask(2, "which port?"),
        // Its own session is all that it sees, and its command is not its to write.
        &format!("run ls {sessions} | wc -l > seen.txt"),
        "run if echo x 2> /dev/null >> \"$(command -v watchfire-agent)\"; then echo yes; else echo no; fi > writes.txt",
        // The spool is out of order for a moment, and calls go by the socket.
        "run rm -rf \"$WATCHFIRE_OUTBOX\"; touch \"$WATCHFIRE_OUTBOX\"; watchfire-agent list > by_socket.txt 2>&1; \
         rm -f \"$WATCHFIRE_OUTBOX\"; mkdir -p \"$WATCHFIRE_OUTBOX\"",
        "run git add answer.txt seen.txt writes.txt by_socket.txt",
        "commit asked",
        "run watchfire-agent finish",
        "exit 0",
    ];
    world.task(&root, "Asks", &first.join("\n"));
    let second = [&*answer("port 80"), "run rm heard", "run watchfire-agent finish 'all said'", "exit 0"];
    world.task(&root, "Is asked", &second.join("\n"));
    world.run(&root, ["run", "all", "--no-wait"]).good();
    let show = |name: &str| world.git(&root, &["show", &format!("main:{name}")]);
    assert!(show("answer.txt").ends_with("> port 80\n"), "{}", show("answer.txt"));
    let by_socket = show("by_socket.txt");
    assert!(by_socket.contains("other agent") || by_socket.contains("task 2"), "{by_socket}");
    assert_eq!((show("seen.txt").trim(), show("writes.txt").trim()), ("1", "no"));
}

fn listening(world: &World, root: &Path) -> Value {
    let mut heard = Value::Null;
    until("somebody asks", || {
        let said = world.run(root, ["listen", "--peers", "--json"]);
        let Some(0) = said.code else { return false };
        heard = said.json()["pending"].clone();
        !heard.is_null()
    });
    heard
}

fn a_second_terminal_asks_and_answers() {
    let world = World::new();
    let root = world.project("shop", "max_parallel: 2");
    let script = [
        &*answer("half way"),
        "run rm heard; watchfire-agent ask person 'Which port?' > answer.txt; git add answer.txt",
        "commit asked",
        "run watchfire-agent finish",
        "exit 0",
    ];
    world.task(&root, "Talks", &script.join("\n"));
    // A run in which all wait for a person would end.
    world.task(&root, "Is busy", "wait ../../go\ndone\nexit 0");
    let run = world.start(&root, ["run", "all", "--no-sandbox", "--no-wait"]);
    until("it runs", || world.run(&root, ["sessions", "--json"]).code == Some(0));
    until("both have a session", || {
        world.run(&root, ["sessions", "--json"]).json()["sessions"].as_array().unwrap().len() == 2
    });
    let nobody = world.run(&root, ["listen", "--timeout", "0s", "--json"]).good().json();
    assert_eq!(nobody["pending"], Value::Null);
    let asked = world.run(&root, ["ask", "1", "how far are you?", "--json"]).good().json();
    assert_eq!(
        (&asked["schema"], &asked["ok"], &asked["answer"]),
        (&1.into(), &true.into(), &"half way".into())
    );
    let heard = world.run(&root, ["listen", "--json"]).good().json();
    assert_eq!(
        (&heard["pending"]["question"], &heard["pending"]["taskId"]),
        (&"Which port?".into(), &1.into())
    );
    let error = world.run(&root, ["answer", "7", "x", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    let answered = world.run(&root, ["answer", "1", "8080", "--json"]).good().json();
    assert_eq!(answered["status"], "answered");
    std::fs::write(root.join(".watchfire/go"), "").unwrap();
    run.end().good();
    assert_eq!(world.git(&root, &["show", "main:answer.txt"]), "8080\n");
}

fn the_person_answers_in_the_place_of_an_agent() {
    let world = World::new();
    let root = world.project("shop", "max_parallel: 2");
    let script = [
        &*ask(2, "which port?"),
        "run git add answer.txt",
        "commit asked",
        "run watchfire-agent finish",
        "exit 0",
    ];
    world.task(&root, "Asks", &script.join("\n"));
    world.task(&root, "Is busy", "wait ../../go\ndone\nexit 0");
    let run = world.start(&root, ["run", "all", "--no-sandbox", "--no-wait"]);
    let heard = listening(&world, &root);
    assert_eq!((&heard["question"], &heard["taskId"]), (&"which port?".into(), &1.into()));
    let id = heard["conversationId"].as_str().unwrap();
    world.run(&root, ["answer", id, "port 80"]).good();
    let error = world.run(&root, ["answer", id, "port 81", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "already_answered");
    let error = world.run(&root, ["answer", "q9-dead", "x", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    let error = world.run(&root, ["ask", "2", "?", "--timeout", "100ms", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "expired");
    std::fs::write(root.join(".watchfire/go"), "").unwrap();
    run.end().good();
    let answer = world.git(&root, &["show", "main:answer.txt"]);
    assert!(
        answer.starts_with("The person answered your question") && answer.ends_with("> port 80\n"),
        "{answer}"
    );
}

fn where_nothing_runs_nobody_is_asked() {
    let world = World::new();
    let root = world.project("shop", "");
    for args in [&["ask", "1", "x"][..], &["listen"], &["answer", "q1-0000", "x"]] {
        let error = world.run(&root, [args, &["--json"]].concat()).code(1).json_error();
        assert_eq!(error["code"], "app_not_running", "{args:?}");
    }
    // A task that waits is brought on by the command itself, as before.
    world.task(&root, "Asks", "question db Which database?\nanswer db said\ndone\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox", "--no-wait"]).code(3);
    // Its question waits, although nothing runs.
    let said = world.run(&root, ["listen", "--timeout", "0s"]).good().stdout;
    assert!(said.starts_with("#0001: Which database?\n") && said.contains("watchfire answer 1 "), "{said}");
    world.run(&root, ["answer", "1", "sqlite"]).good();
}
