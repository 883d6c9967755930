//! Each row of the table "what is run" in `docs/architecture.md`, tried: what it starts, how it ends, what follows, and
//! what Ctrl+C does. The rows here must be the rows there.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use support::on_terminal::OnTerminal;
use support::{World, until};

/// The table. Each row has a test below; the chat after a chain has its own in `tui.rs`.
const ROWS: [[&str; 5]; 5] = [
    [
        "`run N`",
        "the task, a draft becomes ready",
        "its life waits for a person or has ended",
        "its merge",
        "ends the agent, keeps the work",
    ],
    [
        "`run all`",
        "ready tasks in work order, and those that become ready meanwhile",
        "nothing moves or can start",
        "merges; in the terminal interface then a chat",
        "ends the agents, keeps the work",
    ],
    [
        "`wildfire`",
        "as `run all`; then a draft is refined; then tasks are generated",
        "no task was written, the rounds are over, new tasks wait for a look, or only a person can go on",
        "the next task, step or merge; in the terminal interface at last a chat",
        "ends agents and step; drafts stay as they were",
    ],
    [
        "`generate definition`, `generate tasks`",
        "an agent that reads the checkout",
        "it has proposed something, or not",
        "the person accepts it, or nothing counts",
        "ends the agent; nothing is kept",
    ],
    [
        "`chat`",
        "a conversation in the root, or with `--worktree` in a folder of its own",
        "its person or its agent ends it",
        "nothing",
        "goes to the agent; twice ends the conversation",
    ],
];

/// An agent that leaves something uncommitted and never ends.
const ENDLESS: &str = "write y uncommitted\nwrite ../../up x\nhang";

fn states(world: &World, root: &Path) -> Vec<String> {
    world.states(root).into_iter().map(|(_, state)| state).collect()
}

fn draft(world: &World, root: &Path, title: &str, script: &str) {
    let prompt = format!("Do it.\n\n```watchfire-script\n{script}\n```\n");
    world.run(root, ["task", "add", "--title", title, "--prompt", &prompt, "--agent", "scripted"]).good();
}

/// Starts a command whose agent works endlessly on task `number`, and presses Ctrl+C.
fn is_interrupted(world: &World, root: &Path, args: &[&str], number: u32) {
    let up = root.join(".watchfire/up");
    let run = world.start(root, args);
    until("the agent works", || up.exists());
    run.signal("INT");
    run.end().code(130);
    assert_eq!(world.git(root, &["show", &format!("watchfire/{number:04}:y")]), "uncommitted");
    assert_eq!(world.git(root, &["ls-tree", "--name-only", "main", "y"]), "", "nothing of it is merged");
    fs::remove_file(up).unwrap();
}

#[test]
fn the_table_is_the_one_that_is_tried() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let docs = fs::read_to_string(docs).unwrap();
    let table = docs.lines().skip_while(|line| !line.starts_with("| what is run |")).skip(2);
    let rows: Vec<Vec<&str>> = table
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows, ROWS);
}

#[test]
fn run_one() {
    let world = World::new();
    let root = world.project("project", "");
    draft(&world, &root, "Draft", "write a a\ncommit work on it\ndone\nexit 0");
    world.task(&root, "Ready", "done\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox"]).good();
    assert_eq!(states(&world, &root), ["merged", "ready"], "this task alone");
    assert_eq!(world.git(&root, &["show", "main:a"]), "a");
    world.task(&root, "Asks", "question db Which database?\nanswer db said\ndone\nexit 0");
    world.run(&root, ["run", "3", "--no-sandbox", "--no-wait"]).code(3);
    assert_eq!(states(&world, &root)[2], "asking");
    world.task(&root, "Endless", ENDLESS);
    is_interrupted(&world, &root, &["run", "4", "--no-sandbox"], 4);
}

#[test]
fn run_all() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "First", "write ../../up x\nwait ../../go\nwrite a a\ncommit first\ndone\nexit 0");
    draft(&world, &root, "Draft", "done\nexit 0");
    let run = world.start(&root, ["run", "all", "--no-sandbox", "--no-wait"]);
    until("the agent works", || root.join(".watchfire/up").exists());
    world.task(&root, "Late", "write b b\ncommit late\ndone\nexit 0");
    world.task(&root, "Asks", "question db Which database?\nanswer db said\ndone\nexit 0");
    fs::write(root.join(".watchfire/go"), "").unwrap();
    run.end().code(3);
    assert_eq!(states(&world, &root), ["merged", "draft", "merged", "asking"]);
    let log = world.git(&root, &["log", "--reverse", "--format=%s", "--no-merges", "main"]);
    assert!(log.find("first").unwrap() < log.find("late").unwrap(), "{log}");
    fs::remove_file(root.join(".watchfire/up")).unwrap();
    world.task(&root, "Endless", ENDLESS);
    is_interrupted(&world, &root, &["run", "all", "--no-sandbox"], 5);
}

/// Writes a script for agents without a task of their own.
fn script(world: &World, text: &str) -> PathBuf {
    let path = world.home.join("script");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn wildfire() {
    const WILDFIRE: [&str; 4] = ["wildfire", "--agent", "scripted", "--no-sandbox"];
    const GENERATES: &str = "run printf 'title: New\\nprompt: Say.\\n' > \"$WATCHFIRE_SESSION_DIR/tasks/9999.yaml\"\n\
                             signal generate_done\n";
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Ready", "write a a\ncommit a\ndone\nexit 0");
    draft(&world, &root, "Draft", "write b b\ncommit b\ndone\nexit 0");
    let said = world.run(&root, WILDFIRE).good().stdout;
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part:?} in {said}"));
    let order = [
        "Execute #0001 Ready: merged",
        "Refine #0002 Draft: refined",
        "Execute #0002 Draft: merged",
        "Generate: nothing is left",
    ];
    assert!(order.map(at).is_sorted(), "{said}");
    // It generates what waits for a look.
    let project = root.join(".watchfire/project.yaml");
    let plain = fs::read_to_string(&project).unwrap();
    fs::write(&project, format!("{plain}wildfire: {{review: true}}\n")).unwrap();
    let path = script(&world, GENERATES);
    let scripted = [("WATCHFIRE_SCRIPT", path.to_str().unwrap())];
    world.start_with(&root, WILDFIRE, &scripted).end();
    assert_eq!(states(&world, &root), ["merged", "merged", "draft"], "it waits for a look");
    // Only a person can go on.
    fs::write(&project, &plain).unwrap();
    world.run(&root, ["task", "rm", "3"]).good();
    world.task(&root, "Asks", "question db Which database?\nanswer db said\ndone\nexit 0");
    let args = WILDFIRE.iter().chain(&["--no-wait"]);
    world.run(&root, args).code(3);
    let root = world.project("another", "");
    fs::write(&path, "run touch \"$WATCHFIRE_SESSION_DIR/up\"\nhang").unwrap();
    let wildfire = world.start_with(&root, WILDFIRE, &scripted);
    let sessions = world.path("watchfire-home/state");
    until("the step works", || finds(&sessions, "up"));
    wildfire.signal("INT");
    wildfire.end().code(130);
    assert_eq!(world.states(&root), [], "the step has added nothing");
}

/// Returns true if a file of this name is somewhere below `folder`.
fn finds(folder: &Path, name: &str) -> bool {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name() == name || entry.path().is_dir() && finds(&entry.path(), name))
}

#[test]
fn generate() {
    let world = World::new();
    let root = world.project("project", "");
    let args = |what| ["generate", what, "--agent", "scripted", "--no-sandbox", "--json"];
    assert!(world.run(&root, args("tasks")).code(3).stdout.contains("Look around"));
    assert_eq!(world.states(&root), [], "nobody has accepted it");
    world.run(&root, args("tasks").iter().chain(&["--yes"])).good();
    assert_eq!(states(&world, &root), ["draft"]);
    let project = || fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    assert!(world.run(&root, args("definition")).code(3).stdout.contains("a.txt"));
    assert!(!project().contains("a.txt"));
    world.run(&root, args("definition").iter().chain(&["--yes"])).good();
    assert!(project().contains("a.txt"));
    let path = script(&world, "run touch \"$WATCHFIRE_SESSION_DIR/up\"\nhang");
    for what in ["tasks", "definition"] {
        let before = project();
        let run = world.start_with(&root, args(what), &[("WATCHFIRE_SCRIPT", path.to_str().unwrap())]);
        until("the agent works", || finds(&world.path("watchfire-home/state"), "up"));
        run.signal("INT");
        run.end().code(130);
        assert_eq!((states(&world, &root), project()), (vec!["draft".to_owned()], before), "{what}");
    }
}

#[test]
fn chat() {
    let world = World::new();
    let root = world.project("project", "");
    let args = ["chat", "--agent", "scripted", "--no-sandbox"];
    let mut chat = OnTerminal::start(&world, &root, &args, &[]);
    until("keys go through as they are", || !chat.echoes());
    // Before it reads its input, Ctrl+C would end it as it ends any program.
    chat.wait_for("> ");
    // Once it is the agent's, which goes on.
    chat.keys.write_all(b"\x03").unwrap();
    chat.keys.write_all(b"still here\r").unwrap();
    chat.wait_for("you said: still here");
    chat.keys.write_all(b"\x03\x03").unwrap();
    assert_eq!(chat.end().1, Some(0));
    let path = script(&world, "run pwd > where\nsay good bye\nexit 0");
    let chat = OnTerminal::start(&world, &root, &args, &[("WATCHFIRE_SCRIPT", path.to_str().unwrap())]);
    let (painted, code) = chat.end();
    assert!(painted.ends_with("chat ended\r\n"), "{painted:?}");
    assert_eq!(code, Some(0), "its agent has ended it: {painted}");
    let works_in = fs::read_to_string(root.join("where")).unwrap();
    assert_eq!(Path::new(works_in.trim()), root.canonicalize().unwrap());
    assert_eq!(world.states(&root), []);
}
