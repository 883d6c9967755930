//! Changes of agents that are not merged before a person has accepted them.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::World;

/// The task's obstacle: its code and its files.
#[track_caller]
fn obstacle(world: &World, root: &Path, task: &str) -> (String, Value) {
    let shown = world.run(root, ["task", "show", task, "--json"]).good().json();
    let by = &shown["task"]["obstacle"];
    (by["kind"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned(), by["files"].clone())
}

/// The verify command runs only once a person has accepted the change.
#[test]
fn protected_paths_hold_the_merge() {
    let world = World::new();
    let ran = world.path("verified");
    let verify =
        format!("protected: [ci/Deploy.sh, 'docs/**/*.md']\nverify: ['echo x >> {}']", ran.display());
    let root = world.project("project", &verify);
    world.task(&root, "Deploy", "write ci/deploy.SH evil\nwrite free.txt x\ncommit it\ndone\nexit 0");
    world.task(&root, "Free", "write other.txt x\ncommit it\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("held: changes protected paths: ci/deploy.SH"), "{}", said.stdout);
    assert!(said.stdout.contains("branches merge N --accept-protected"), "{}", said.stdout);
    assert_eq!(world.states(&root), [(1, "held".to_owned()), (2, "merged".to_owned())]);
    let held = ("protected_paths".to_owned(), serde_json::json!(["ci/deploy.SH"]));
    assert_eq!(obstacle(&world, &root, "1"), held);
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n", "verified was the free task alone");
    let still = world.run(&root, ["branches", "merge", "1", "--accept", "--accept-marks"]).code(3).stdout;
    assert!(still.contains("\n    look at the changes with `watchfire diff N`"), "{still}");
    assert_eq!(obstacle(&world, &root, "1"), held);
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n");
    world.run(&root, ["branches", "merge", "1", "--accept-protected"]).good();
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\nx\n", "accepting verifies");
    assert_eq!(world.states(&root), [(1, "merged".to_owned()), (2, "merged".to_owned())]);
}

/// The folder of a task whose work waits for its merge goes when the person says so, and not by mistake.
#[test]
fn held_work_is_given_up() {
    let world = World::new();
    let root = world.project("project", "protected: [a.txt]");
    world.task(&root, "Held", "write a.txt x\ncommit it\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    let refused = world.run(&root, ["branches", "delete", "1"]).code(3).stdout;
    assert!(refused.contains("waits to be merged"), "{refused}");
    assert!(refused.contains("watchfire branches delete 0001 --discard"), "{refused}");
    world.run(&root, ["branches", "delete", "1", "--discard"]).good();
    assert_eq!(world.git(&root, &["branch", "--list", "watchfire/*"]), "");
    assert_ne!(world.git(&root, &["for-each-ref", "refs/watchfire/rescue/0001"]), "");
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
}

/// A merge of work that is not there, or not any more, is refused and marks nothing as failed.
#[test]
fn a_merge_without_work_changes_nothing() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Merged", "write new.txt x\ncommit it\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    world.git(&root, &["branch", "release", "HEAD~1"]);
    let refused = world.run(&root, ["branches", "merge", "1", "--into", "release"]).code(3).stdout;
    assert!(refused.contains("there is no work to merge"), "{refused}");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    // By a program of another home.
    let mut elsewhere = world.command(&root, ["branches", "merge", "1"]);
    elsewhere.env("WATCHFIRE_HOME", world.path("second home"));
    let refused = elsewhere.output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("there is no work to merge"), "{refused:?}");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
}

/// Work that waits for one branch goes to the one that the person names, and to that alone.
#[test]
fn held_work_is_merged_elsewhere() {
    let world = World::new();
    let root = world.project("project", "");
    world.git(&root, &["branch", "release"]);
    let before = world.git(&root, &["rev-parse", "main"]);
    world.task(&root, "Held", "write b.txt theirs\ncommit it\ndone\nexit 0");
    fs::write(root.join("b.txt"), "mine\n").unwrap();
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    world.run(&root, ["branches", "merge", "1", "--into", "release"]).good();
    assert_eq!(world.git(&root, &["show", "release:b.txt"]), "theirs");
    assert_eq!(world.git(&root, &["rev-parse", "main"]), before);
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
}

/// A filter that hangs is not waited for in silence.
#[test]
fn a_long_publication_is_told() {
    let world = World::new();
    let root = world.project("project", "");
    let go = world.path("go");
    let smudge = format!("until test -e '{}'; do sleep 0.1; done; cat", go.display());
    for (name, command) in [("smudge", smudge.as_str()), ("clean", "cat")] {
        world.git(&root, &["config", &format!("filter.slow.{name}"), command]);
    }
    fs::write(root.join(".gitattributes"), "*.slow filter=slow\n").unwrap();
    world.git(&root, &["add", ".gitattributes"]);
    world.git(&root, &["commit", "-qm", "Attributes"]);
    fs::write(world.path("watchfire-home/settings.yaml"), "version: 1\ngit: {filters: [slow]}\n").unwrap();
    world.task(&root, "Slow", "write new.slow x\ncommit it\ndone\nexit 0");
    let mut running = world.start(&root, ["run", "all", "--no-sandbox"]);
    running.wait_for("publishing its work has taken");
    fs::write(&go, "").unwrap();
    running.end().good();
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
}

/// What was accepted is the work that was there: another attempt is held again.
#[test]
fn an_accepted_change_that_fails_to_verify_is_asked_about_again() {
    let world = World::new();
    let root = world.project("project", "protected: [a.txt]\nverify: ['test -e ok']");
    world.task(&root, "Twice", "write a.txt x\ncommit it\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    world.run(&root, ["branches", "merge", "1", "--accept-protected"]).code(3);
    assert_eq!(world.states(&root), [(1, "verify failed".to_owned())]);
    world.run(&root, ["branches", "merge", "1"]).code(3);
    assert_eq!(obstacle(&world, &root, "1").0, "protected_paths");
}

/// Each way to change what git runs or obeys is held, by itself; the person's settings allow them.
#[test]
fn what_git_runs_holds_the_merge() {
    let world = World::new();
    let root = world.project("project", "");
    fs::create_dir(root.join("hooks")).unwrap();
    fs::write(root.join("hooks/pre-push"), "#!/bin/sh\n").unwrap();
    world.git(&root, &["add", "hooks"]);
    world.git(&root, &["commit", "-qm", "hooks"]);
    world.git(&root, &["config", "core.hooksPath", "hooks"]);
    let wiring = [
        ("run mkdir -p sub; echo '*.x filter=lfs' > sub/.gitattributes", "sub/.gitattributes"),
        ("run printf '[submodule \"a\"]\\n\\tpath = a\\n\\turl = ../a.git\\n' > .gitmodules", ".gitmodules"),
        ("run echo 'touch x' >> hooks/post-commit", "hooks/post-commit"),
    ];
    for (change, _) in wiring {
        world.task(&root, "Wire", &format!("{change}\ncommit it\ndone\nexit 0"));
    }
    world.task(&root, "Text", "write .gitattributes *.txt text\ncommit it\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("held: changes what your git runs: hooks/post-commit"), "{}", said.stdout);
    let word = |state: &str| state.to_owned();
    let held = [(1, word("held")), (2, word("held")), (3, word("held")), (4, word("merged"))];
    assert_eq!(world.states(&root), held);
    for (at, (_, file)) in wiring.iter().enumerate() {
        let task = (at + 1).to_string();
        assert_eq!(obstacle(&world, &root, &task), (word("git_wiring"), serde_json::json!([file])));
    }
    world.run(&root, ["branches", "merge", "1", "--accept"]).good();
    world.run(&root, ["branches", "merge", "2", "--accept-protected"]).code(3);
    let settings = world.path("watchfire-home").join("settings.yaml");
    let text = fs::read_to_string(&settings).unwrap_or_else(|_| "version: 1\n".to_owned());
    fs::write(&settings, format!("{text}\ngit: {{allow_git_wiring: true}}\n")).unwrap();
    world.run(&root, ["branches", "merge", "2", "3"]).good();
    assert!(world.states(&root).iter().all(|(_, state)| state == "merged"));
}

/// Files that tools run by themselves are told before the merge and in its message, and held where the project says so.
#[test]
fn what_tools_run_by_themselves_is_marked() {
    let world = World::new();
    let root = world.project("project", "");
    let script =
        "write package.json {}\nwrite sub/.vscode/tasks.json {}\nwrite plain.txt x\ncommit it\ndone\nexit 0";
    world.task(&root, "Tools", script);
    world.run(&root, ["run", "all", "--no-sandbox", "--no-merge"]).good();
    let diff = world.run(&root, ["diff", "1", "--stat"]).good();
    assert!(diff.stdout.contains("package.json (+1 -0), run by tools on their own"), "{}", diff.stdout);
    assert!(diff.stdout.contains("plain.txt (+1 -0)\n"), "{}", diff.stdout);
    let shown = world.run(&root, ["task", "show", "1"]).good();
    assert!(shown.stdout.contains("run by tools on their own\n  package.json\n"), "{}", shown.stdout);
    let shown = world.run(&root, ["task", "show", "1", "--json"]).good().json();
    assert_eq!(shown["task"]["tool_files"], serde_json::json!(["package.json", "sub/.vscode/tasks.json"]));

    let project = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&project).unwrap();
    fs::write(&project, format!("{text}review: tools\n")).unwrap();
    world.run(&root, ["branches", "merge", "1"]).code(3);
    assert_eq!(obstacle(&world, &root, "1").0, "tool_files");
    world.run(&root, ["branches", "merge", "1", "--accept"]).good();
    let message = world.git(&root, &["log", "-1", "--format=%B", "main"]);
    assert!(
        message.contains("\n\nRun by tools on their own: package.json, sub/.vscode/tasks.json\n"),
        "{message}"
    );

    fs::write(&project, text).unwrap();
    world.task(&root, "Again", "write package.json {2}\ncommit it\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).good();
    let notice = said.stdout.lines().find(|line| line.contains("\"tool_files\""));
    assert!(notice.is_some_and(|line| line.contains("package.json")), "{}", said.stdout);
}
