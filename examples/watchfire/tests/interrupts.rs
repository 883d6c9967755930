//! Ctrl+C, SIGTERM, SIGKILL, and two at once.

mod support;

use std::fs;
use std::path::Path;

use support::{World, until};

/// A task whose agent leaves its pid and works until it is ended.
const ENDLESS: &str = "write x x\ncommit x\nwrite y uncommitted\nrun echo $PPID > ../../agent.pid\nhang";

fn agent(root: &Path) -> u32 {
    let path = root.join(".watchfire/agent.pid");
    until("the agent tells its pid", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn ctrl_c_ends_the_agent_and_keeps_its_work() {
    for signal in ["INT", "TERM"] {
        let world = World::new();
        let root = world.project("project", "");
        world.task(&root, "Endless", ENDLESS);
        let mut run = world.start(&root, ["run", "all", "--no-sandbox"]);
        run.wait_for("#0001 Endless: running");
        let agent = agent(&root);
        run.signal(signal);
        let said = run.end().code(130);
        assert!(said.stdout.contains("stopping"), "{}", said.stdout);
        assert!(!is_alive(agent), "no process of a stopped session survives");
        assert_eq!(
            world.git(&root, &["show", "watchfire/0001:y"]),
            "uncommitted",
            "uncommitted work is captured"
        );
        assert_eq!(world.states(&root), [(1, "stopped".to_owned())]);
        assert_eq!(world.git(&root, &["log", "--format=%s", "main", "--", "x"]), "");
    }
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Stubborn", "ignore TERM INT HUP\nrun echo $PPID > ../../agent.pid\nhang");
    let mut run = world.start(&root, ["run", "1", "--no-sandbox"]);
    let agent = agent(&root);
    run.signal("INT");
    run.wait_for("stopping");
    run.signal("INT");
    run.end().code(130);
    until("the guardian ends the agent of a program that is gone", || !is_alive(agent));
    world.run(&root, ["task", "list"]).good();
}

#[test]
fn ctrl_c_while_verifying() {
    let world = World::new();
    let root = world.project("project", "verify: ['touch \"$PROBE\"; sleep 3']");
    world.task(&root, "Work", "write x x\ncommit x\ndone\nexit 0");
    let mut run = world.start(&root, ["run", "all", "--no-sandbox"]);
    run.wait_for("verifying");
    run.signal("INT");
    let said = run.end().code(130);
    assert!(said.stdout.contains("watchfire branches merge 1"), "{}", said.stdout);
    // Nothing of a stopped life merges until a person asks.
    assert_eq!(world.states(&root), [(1, "stopped".to_owned())], "{}", said.stdout);
    assert_eq!(world.git(&root, &["ls-tree", "--name-only", "main", "x"]), "");
    assert_eq!(world.git(&root, &["show", "watchfire/0001:x"]), "x");
}

/// Finished work that waits for the person's checkout is not what a person stops with a run.
#[test]
fn ctrl_c_leaves_held_work_held() {
    let world = World::new();
    let root = world.project("project", "");
    fs::write(root.join("a.txt"), "mine\n").unwrap();
    world.task(&root, "Finished", "replace a.txt one uno\ncommit uno\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    world.task(&root, "Endless", ENDLESS);
    let mut run = world.start(&root, ["run", "all", "--no-sandbox"]);
    run.wait_for("#0002 Endless: running");
    agent(&root);
    run.signal("INT");
    let said = run.end().code(130).stdout;
    assert!(said.contains("#0001 Finished: held"), "{said}");
    assert_eq!(world.states(&root), [(1, "held".to_owned()), (2, "stopped".to_owned())], "{said}");
    world.git(&root, &["checkout", "a.txt"]);
    // Tried again by whatever opens the project.
    world.run(&root, ["branches", "merge", "1"]).good();
    assert_eq!(world.states(&root)[0], (1, "merged".to_owned()));
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "uno\ntwo\nthree\n");
}

#[test]
fn a_killed_run_is_settled_by_the_next() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Endless", ENDLESS);
    let run = world.start(&root, ["run", "all", "--no-sandbox"]);
    let agent = agent(&root);
    run.signal("KILL");
    run.end().code(128 + 9);
    until("the guardian ends the agent", || !is_alive(agent));
    until("nobody is said to run it any more", || world.states(&root)[0].1 != "running");
    world.run(&root, ["task", "draft", "1"]).good();
    world.run(&root, ["run", "all", "--no-sandbox"]);
    assert_eq!(world.git(&root, &["show", "watchfire/0001:y"]), "uncommitted", "what it left is captured");
}

#[test]
fn two_runs_on_one_project() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Endless", ENDLESS);
    let mut first = world.start(&root, ["run", "all", "--no-sandbox"]);
    first.wait_for("#0001 Endless: running");
    agent(&root);
    let error = world.run(&root, ["run", "all", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "locked");
    assert_eq!(error["details"]["pid"], first.pid().to_string());
    let said = world.run(&root, ["undo", "1"]).code(1).stderr;
    let holder = format!("error: another watchfire works on this project (pid {})\n", first.pid());
    assert!(said.starts_with(&holder) && said.contains("hint: `watchfire sessions`"), "{said}");
    // Tasks can be looked at and changed meanwhile.
    assert_eq!(world.states(&root), [(1, "running".to_owned())]);
    world.run(&root, ["task", "add", "--title", "Later"]).good();
    first.signal("INT");
    first.end().code(130);
}

/// A task that is set back to draft, deleted or marked done while its agent works.
#[test]
fn a_task_changes_under_its_agent() {
    let world = World::new();
    for (how, code, state) in [("draft", 3, "stopped"), ("delete", 3, ""), ("done", 0, "merged")] {
        let root = world.project(how, "");
        world.task(&root, "Endless", ENDLESS);
        let run = world.start(&root, ["run", "all", "--no-sandbox"]);
        let agent = agent(&root);
        let told = world.run(&root, ["task", how, "1"]).good().stdout;
        assert!(told.contains("its agent will be stopped"), "{told}");
        let said = run.end();
        assert!(!is_alive(agent), "{how}");
        assert_eq!(said.code, Some(code), "{how}: {}", said.stdout);
        if how == "delete" {
            assert!(said.stdout.contains("#0001 Endless: stopped"), "{}", said.stdout);
            assert!(world.states(&root).is_empty());
        } else {
            assert_eq!(world.states(&root), [(1, state.to_owned())], "{how}");
        }
        let kept = world.git(&root, &["log", "--all", "--format=%s", "--", "y"]);
        assert!(!kept.is_empty(), "{how}: its work is kept");
    }
}

#[test]
fn ctrl_c_ends_the_merge_of_a_branch() {
    let world = World::new();
    // Found by its name: it can write nothing here that shows that it runs.
    let sleeps = format!("123.{}", std::process::id());
    let root = world.project("project", &format!("auto_merge: false\nverify: ['sleep {sleeps}']"));
    let verifies = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let line = format!("sleep\0{sleeps}\0");
        all.filter_map(|it| fs::read(it.path().join("cmdline")).ok()).any(|it| it == line.as_bytes())
    };
    world.task(&root, "Writes", "write x x\ncommit x\ndone\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox", "--no-wait"]);
    let merge = world.start(&root, ["branches", "merge", "1"]);
    until("it verifies", verifies);
    merge.signal("INT");
    merge.end().code(130);
    until("it verifies no more", || !verifies());
    assert_eq!(world.git(&root, &["log", "--format=%s", "main", "--", "x"]), "");
}
