//! From a repository to merged work, and every way in which work is not merged.

mod support;

use std::fs;

use support::{World, files};

#[test]
fn from_init_to_merged() {
    let world = World::new();
    let root = world.repo("project");
    let init = world.run(&root, ["init", "--yes", "--json"]).good().json();
    assert_eq!(init["existed"], false);
    assert!(init["commit"].is_string());
    world.run(&root, ["task", "add", "--title", "Add a file", "--prompt", "x", "--ready"]).good();
    let said = world.run(&root, ["run", "all", "--agent", "scripted", "--no-sandbox"]).good();
    assert!(said.stdout.contains("#0001 Add a file: merged into main"), "{}", said.stdout);
    assert!(said.stdout.ends_with("1 merged\n"), "{}", said.stdout);
    assert!(!said.stdout.contains('\x1b'));
    assert_eq!(
        world.git(&root, &["show", "--format=%s", "--name-only", "HEAD^2"]),
        "Task #0001: Add a file\n\ntask-0001.md\n"
    );
    assert!(root.join("task-0001.md").is_file(), "the checkout follows where nothing is in the way");
    assert_eq!(world.git(&root, &["status", "--porcelain"]), "");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    assert_eq!(
        world.git(&root, &["branch", "--list", "watchfire/*"]),
        "",
        "the branch is gone after the merge"
    );

    let logs = world.run(&root, ["logs", "--json"]).good().json();
    assert_eq!(logs["logs"].as_array().unwrap().len(), 1);
    assert_eq!(logs["logs"][0]["agent"], "scripted");
    let log = world.run(&root, ["logs", "1"]).good();
    assert!(log.stdout.contains("task-0001.md") && !log.stdout.contains('\x1b'), "{}", log.stdout);
    world.run(&root, ["run", "all"]).good();
    let again = world.run(&root, ["run", "1", "--json"]).code(1).json_error();
    assert_eq!(again["code"], "invalid_input");
}

#[test]
fn wildfire_refines_and_ends() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Ready", "write a-ready.txt x\ncommit x\ndone\nexit 0");
    world.run(&root, ["task", "add", "--title", "Vague", "--prompt", "hm"]).good();
    let said = world.run(&root, ["wildfire", "--agent", "scripted", "--no-sandbox"]).good();
    for line in [
        "Execute #0001 Ready: merged",
        "Refine #0002 Vague: refined",
        "Execute #0002 Vague: merged",
        "Generate: nothing is left",
    ] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
    assert!(said.stdout.ends_with("2 merged\n"), "{}", said.stdout);
    let logs = world.run(&root, ["logs"]).good().stdout;
    for phase in ["Execute #0001", "Refine #0002", "Execute #0002", "Generate"] {
        assert!(logs.contains(phase), "{phase}: {logs}");
    }
    assert_eq!(world.states(&root), [(1, "merged".to_owned()), (2, "merged".to_owned())]);
    let lines = world.run(&root, ["wildfire", "--agent", "scripted", "--no-sandbox", "--json"]).good();
    let summary: serde_json::Value = serde_json::from_str(lines.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["good"], &summary["course"]["rounds"]), (&true.into(), &1.into()), "{summary}");
}

/// An agent that starts us leaves marks in the environment, by which another agent would take itself for a part of it.
#[test]
fn no_agent_is_told_that_an_agent_started_us() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Looks", "run env > ../../env\ndone\nexit 0");
    let marks = [("CLAUDECODE", "1"), ("CLAUDE_CODE_ENTRYPOINT", "cli"), ("CODEX_SANDBOX", "seatbelt")];
    world.start_with(&root, ["run", "1", "--no-sandbox"], &marks).end().good();
    let seen = std::fs::read_to_string(root.join(".watchfire/env")).unwrap();
    assert!(seen.contains("PATH="), "{seen}");
    assert!(marks.iter().all(|(name, _)| !seen.contains(name)), "{seen}");
}

#[test]
fn what_is_generated_is_shown_before_it_counts() {
    let world = World::new();
    let root = world.project("project", "");
    let generate = |more: &[&str]| {
        world.run(&root, ["generate", "tasks", "--agent", "scripted", "--no-sandbox"].iter().chain(more))
    };
    assert_eq!(generate(&["--json"]).code(3).stdout.matches("Look around").count(), 1);
    assert_eq!(world.states(&root), []);
    assert!(generate(&[]).code(2).stderr.contains("--yes"));
    let said = generate(&["--yes"]).good().stdout;
    assert!(said.contains("Look around") && said.ends_with("1 task added as a draft\n"), "{said}");
    assert_eq!(world.states(&root), [(1, "draft".to_owned())]);
    let args = ["generate", "definition", "--yes", "--agent", "scripted", "--no-sandbox"];
    assert!(world.run(&root, args).good().stdout.contains("a.txt"));
    assert!(fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap().contains("a.txt"));
}

/// What is staged, changed and untracked in the person's checkout is the same afterwards, byte for byte.
#[test]
fn a_dirty_checkout_stays_as_it_is() {
    let world = World::new();
    let root = world.project("project", "");
    fs::write(root.join("b.txt"), "staged\n").unwrap();
    world.git(&root, &["add", "b.txt"]);
    fs::write(root.join("b.txt"), "staged, and changed again\n").unwrap();
    fs::write(root.join("untracked.txt"), "mine\n").unwrap();
    let (before, index) = (files(&root), world.git(&root, &["diff", "--cached"]));
    world.task(&root, "Elsewhere", "write new.txt hello\ncommit new\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    let mut after = files(&root);
    after.retain(|(path, _)| !path.ends_with("new.txt"));
    assert_eq!(before, after);
    assert_eq!(index, world.git(&root, &["diff", "--cached"]));
    assert_eq!(world.git(&root, &["show", "HEAD:new.txt"]), "hello");
}

/// Work that touches what the person is editing is held, not merged over it.
#[test]
fn local_edits_hold_the_work() {
    let world = World::new();
    let root = world.project("project", "");
    fs::write(root.join("a.txt"), "mine\n").unwrap();
    world.task(&root, "Same file", "replace a.txt one uno\ncommit uno\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("held"), "{}", said.stdout);
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "mine\n");
    assert_eq!(world.states(&root), [(1, "held".to_owned())]);
    let doctor = world.run(&root, ["doctor", "--json"]);
    let waiting = &doctor.json()["work"]["waiting"][0];
    assert_eq!((&waiting["task"], &waiting["state"]), (&1.into(), &"held".into()), "{waiting}");
    assert!(waiting["cure"].as_str().unwrap().contains("git stash"), "{waiting}");
    world.git(&root, &["checkout", "a.txt"]);
    // Tried again by whatever opens the project, and told.
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).good().stdout;
    assert!(said.contains("1 merged"), "{said}");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "uno\ntwo\nthree\n");
    world.task(&root, "Again", "replace a.txt uno one\ncommit one\ndone\nexit 0");
    fs::write(root.join("a.txt"), "mine\n").unwrap();
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(world.run(&root, ["branches", "merge", "2"]).code(3).stdout.contains("held"), "it still is");
    world.git(&root, &["checkout", "a.txt"]);
    let said = world.run(&root, ["branches", "merge", "2"]).good().stdout;
    assert!(said.contains("merged"), "{said}");
}

/// Work that a person takes back while it is held is not published with the next task, and neither is work that only
/// went on top of it. What is kept of it can be merged by name.
#[test]
fn withdrawn_work_is_not_published_with_other_work() {
    for way in ["delete", "draft", "ready", "file"] {
        let world = World::new();
        let root = world.project("project", "");
        fs::write(root.join("a.txt"), "mine\n").unwrap();
        let unwanted = "replace a.txt one uno\nwrite unwanted.txt x\ncommit unwanted\ndone\nexit 0";
        world.task(&root, "Unwanted", unwanted);
        world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
        // Merged onto what waits.
        world.task(&root, "Stacked", "write stacked.txt x\ncommit stacked\ndone\nexit 0");
        let said = world.run(&root, ["run", "2", "--no-sandbox"]).code(3).stdout;
        assert!(said.contains("#0002 Stacked: held"), "{way}: {said}");
        let queue = ["rev-parse", "-q", "--verify", "refs/watchfire/queue/main"];
        assert_ne!(world.git(&root, &queue), "");
        match way {
            "file" => fs::remove_file(root.join(".watchfire/tasks/0001.yaml")).unwrap(),
            _ => drop(world.run(&root, ["task", way, "1"]).good()),
        }
        world.git(&root, &["checkout", "a.txt"]);
        world.task(&root, "Next", "write next.txt x\ncommit next\ndone\nexit 0");
        // Work that is set back to ready would be done again. All others are over, or held.
        let all = way != "ready";
        let said = world.run(&root, ["run", if all { "all" } else { "3" }, "--no-sandbox"]).stdout;
        let log = world.git(&root, &["log", "--format=%s", "main"]);
        assert!(!log.contains("Unwanted") && !root.join("unwanted.txt").exists(), "{way}: {log}\n{said}");
        assert!(root.join("next.txt").exists(), "{way}: {said}");
        assert!(!all || root.join("stacked.txt").exists(), "{way}: {said}");
        assert_eq!(world.git(&root, &["for-each-ref", "refs/watchfire/queue"]), "");
        assert_eq!(world.git(&root, &["show", "watchfire/0001:unwanted.txt"]), "x", "{way}");
    }
}

/// What an earlier program left to be published, and no work of this home waits for.
#[test]
fn what_nobody_waits_for_is_not_published_with_other_work() {
    let world = World::new();
    let root = world.project("project", "");
    fs::write(root.join("a.txt"), "mine\n").unwrap();
    world.task(&root, "Forgotten", "replace a.txt one uno\ncommit uno\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    fs::remove_dir_all(world.path("watchfire-home").join("state")).unwrap();
    world.git(&root, &["checkout", "a.txt"]);
    world.task(&root, "Next", "write next.txt x\ncommit next\ndone\nexit 0");
    world.run(&root, ["run", "2", "--no-sandbox"]).good();
    assert_eq!(world.git(&root, &["log", "--format=%s", "main", "--", "a.txt"]), "first\n");
    // Its work is kept, and is merged by name.
    world.run(&root, ["branches", "merge", "1"]).good();
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "uno\ntwo\nthree\n");
}

/// Each way to fail has its own state, merges nothing, and keeps the work.
#[test]
fn every_failure_is_a_state_of_its_own() {
    let world = World::new();
    let root = world.project("project", "verify: ['test ! -e broken']\nmax_parallel: 2\ntime_limit: 20s");
    let work = |name: &str, end: &str| format!("write {name} x\ncommit {name}\n{end}");
    world.task(
        &root,
        "First of two",
        "work 0.1 w\nreplace a.txt one uno\ncommit uno\nwait ../../go 30\ndone\nexit 0",
    );
    world.task(
        &root,
        "Second of two",
        "work 0.1 w\nreplace a.txt one eins\ncommit eins\nwait ../../go 30\ndone\nexit 0",
    );
    let mut run = world.start(&root, ["run", "all", "--no-sandbox"]);
    run.wait_for("#0001 First of two: running");
    run.wait_for("#0002 Second of two: running");
    fs::write(root.join(".watchfire/go"), "").unwrap();
    let said = run.end().code(3);
    assert!(said.stdout.contains("1 merged, 1 not merged"), "{}", said.stdout);

    world.task(&root, "Gives up", &work("c", "fail no way"));
    world.task(&root, "Crashes", &work("d", "crash"));
    world.task(&root, "Breaks it", &work("broken", "done\nexit 0"));
    world.task(&root, "Says nothing", &work("e", "exit 0"));
    world.task(&root, "Garbles its file", &work("f", "malformed\nexit 0"));
    world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    let states = world.states(&root);
    let states: Vec<_> = states.iter().map(|(_, state)| state.as_str()).collect();
    let conflict_last = ["merged", "conflict"];
    assert!(states[..2] == conflict_last || states[..2] == ["conflict", "merged"], "{states:?}");
    let silent = "ended without saying so";
    assert_eq!(states[2..], ["failed", "crashed", "verify failed", silent, silent]);
    for branch in ["0003", "0004", "0005", "0006", "0007"] {
        world.git(&root, &["rev-parse", "--verify", &format!("watchfire/{branch}")]);
    }
    assert_eq!(world.git(&root, &["ls-tree", "--name-only", "HEAD"]), ".gitignore\na.txt\nb.txt\n");

    let list = world.run(&root, ["task", "list"]).good();
    assert!(list.stdout.contains("[✗] #0003 Gives up  failed: no way"), "{}", list.stdout);
    let branches = world.run(&root, ["branches", "--json"]).good().json();
    assert_eq!(branches["branches"].as_array().unwrap().len(), 6);
    // What runs next is not what failed.
    assert!(world.run(&root, ["task", "ready", "3"]).good().stdout.contains("[R] #0003"));
}

#[test]
fn a_task_that_takes_too_long_is_ended() {
    let world = World::new();
    let root = world.project("project", "time_limit: 1s");
    world.task(&root, "Hangs", "write x x\ncommit x\nignore TERM HUP INT\nhang");
    let said = world.run(&root, ["run", "1", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("timed out"), "{}", said.stdout);
    assert_eq!(world.states(&root), [(1, "timed out".to_owned())]);
}

#[test]
fn work_can_be_kept_unmerged() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Keep", "write x x\ncommit x\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--no-merge"]).good();
    assert!(said.stdout.contains("1 done and kept on a branch"), "{}", said.stdout);
    assert_eq!(world.states(&root), [(1, "unmerged".to_owned())]);
    assert_eq!(world.git(&root, &["show", "watchfire/0001:x"]), "x");
}

/// Several commits that were put onto the target one by one are shown as one change.
#[test]
fn what_was_merged_is_shown_whole() {
    for strategy in ["merge", "squash", "rebase"] {
        let world = World::new();
        let root = world.project("project", "");
        let file = root.join(".watchfire/project.yaml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}merge: {{strategy: {strategy}}}\n")).unwrap();
        world.task(&root, "Two", "write one 1\ncommit one\nwrite two 2\ncommit two\ndone\nexit 0");
        world.run(&root, ["run", "1", "--no-sandbox"]).good();
        let shown = world.run(&root, ["diff", "1"]).good().stdout;
        assert!(shown.contains("one") && shown.contains("two"), "{strategy}: {shown}");
    }
}

/// Several tasks are one run, chosen by number or by label. A task that cannot run changes none of them.
#[test]
fn some_tasks_are_run_together() {
    let world = World::new();
    let root = world.project("project", "");
    for n in 1..=5 {
        world.task(&root, &format!("Task {n}"), &format!("write {n}.txt x\ncommit {n}\ndone\nexit 0"));
    }
    world.run(&root, ["task", "draft", "3"]).good();
    world.run(&root, ["task", "edit", "4", "--labels", "ui"]).good();
    let states = |numbers: &[u64]| -> Vec<String> {
        let states = world.states(&root);
        numbers.iter().map(|n| states.iter().find(|(number, _)| number == n).unwrap().1.clone()).collect()
    };
    let refused = world.run(&root, ["run", "3", "9", "--no-sandbox"]).code(1).stderr;
    assert!(refused.contains("no such task"), "{refused}");
    assert_eq!(states(&[3]), ["draft"]);
    world.run(&root, ["run", "3", "1", "--no-sandbox"]).good();
    assert_eq!(states(&[1, 2, 3, 4]), ["merged", "ready", "merged", "ready"]);
    world.run(&root, ["run", "--label", "ui", "--no-sandbox"]).good();
    assert_eq!(states(&[2, 4, 5]), ["ready", "merged", "ready"]);
    let none = world.run(&root, ["run", "--label", "ui,db"]).code(1).stderr;
    assert!(none.contains("no ready task has the label") && none.contains("ui, db"), "{none}");
    world.run(&root, ["run", "2", "--label", "ui"]).code(2);
    assert_eq!(states(&[2]), ["ready"]);
}

/// What was merged is taken back through the same gate, and what came after it stays. So is the taking back.
#[test]
fn what_was_merged_is_undone() {
    let world = World::new();
    let root = world.project("project", "verify: ['! test -e bad']");
    let write = |title: &str, name: &str, text: &str| {
        world.task(&root, title, &format!("write {name} {text}\ncommit {title}\ndone\nexit 0"));
    };
    write("first", "one.txt", "one");
    write("second", "two.txt", "two");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    let refused = world.run(&root, ["undo", "9"]).code(1).stderr;
    assert!(refused.contains("no such task"), "{refused}");
    let before = world.git(&root, &["rev-parse", "main"]);
    // What is refused uses up no number.
    world.git(&root, &["branch", "elsewhere", "main~2"]);
    let refused = world.run(&root, ["undo", "1", "--into", "elsewhere"]).code(1).stderr;
    assert!(refused.contains("the branch does not contain the merge"), "{refused}");
    world.git(&root, &["branch", "-D", "elsewhere"]);
    world.git(&root, &["branch", "-m", "main", "trunk"]);
    let refused = world.run(&root, ["undo", "1"]).code(1).stderr;
    assert!(refused.contains("if it was renamed, watchfire undo 1 --into BRANCH"), "{refused}");
    world.git(&root, &["branch", "-m", "trunk", "main"]);
    let said = world.run(&root, ["undo", "1"]).good().stdout;
    assert!(said.contains("the last merge of #0001 is taken back by #0003"), "{said}");
    assert!(!root.join("one.txt").exists() && root.join("two.txt").exists());
    assert_eq!(world.git(&root, &["status", "--porcelain"]), "");
    assert_eq!(world.git(&root, &["rev-parse", "main^1"]), before, "the history stays");
    let shown = world.run(&root, ["task", "show", "3"]).good().stdout;
    assert!(shown.contains("Undo #0001: first") && shown.contains("merged"), "{shown}");
    let told = || {
        let list = world.run(&root, ["task", "list", "--status", "done"]).good().stdout;
        let said = ["1", "2", "3"].map(|task| world.run(&root, ["task", "show", task]).good().stdout);
        said.map(|shown| shown.lines().nth(1).unwrap_or_default().to_owned()).join(";") + &list
    };
    let by = told();
    assert_eq!(by.matches("merged, taken back by #0003").count(), 2, "{by}");
    let again = world.run(&root, ["branches", "merge", "1"]).code(3).stdout;
    assert!(again.contains("taken back by #0003; watchfire undo 3 brings it back"), "{again}");
    // Asked again it says the same, and makes no task.
    assert_eq!(world.run(&root, ["undo", "1"]).good().stdout, said);
    assert_eq!(world.states(&root).len(), 3);
    let said = world.run(&root, ["undo", "3", "--json"]).good().json();
    assert!(root.join("one.txt").exists() && said["good"] == true, "{said}");
    let by = told();
    assert!(!by.contains("by #0003") && by.matches("taken back by #0004").count() == 2, "{by}");
    // Whatever became of the task after its merge.
    world.run(&root, ["task", "edit", "2", "--prompt", "```watchfire-script\nfail not today\n```"]).good();
    world.run(&root, ["send-back", "2", "more", "--no-sandbox"]).code(3);
    let shown = world.run(&root, ["task", "show", "2"]).good().stdout;
    assert!(shown.contains("failed") && shown.contains("merged as"), "{shown}");
    let shown = world.run(&root, ["diff", "2"]).good().stdout;
    assert!(shown.contains("+two"), "{shown}");
    // A task that was not merged, and a gate that does not let it through.
    write("third", "three.txt", "three");
    let refused = world.run(&root, ["undo", "5"]).code(1).stderr;
    assert!(refused.contains("only what was merged"), "{refused}");
    std::fs::write(root.join("bad"), "").unwrap();
    world.git(&root, &["add", "bad"]);
    world.git(&root, &["commit", "-qm", "bad"]);
    for _ in 0..2 {
        let said = world.run(&root, ["undo", "2"]).code(3).stdout;
        assert!(said.contains("#0002 is not yet taken back by #0006: verify failed"), "{said}");
        assert!(said.contains("watchfire branches merge 6 tries again"), "{said}");
    }
    assert!(root.join("two.txt").exists());
    assert_eq!(world.states(&root).len(), 6, "it went on with the same task");
    // Also when its branch was deleted.
    world.git(&root, &["branch", "-qD", "watchfire/0006"]);
    let gone = world.run(&root, ["diff", "6"]).code(1).stderr;
    assert!(gone.contains("the branch of the work is gone"), "{gone}");
    world.git(&root, &["rm", "-q", "bad"]);
    world.git(&root, &["commit", "-qm", "good"]);
    let said = world.run(&root, ["undo", "2"]).good().stdout;
    assert!(said.contains("the last merge of #0002 is taken back by #0006"), "{said}");
    assert!(!root.join("two.txt").exists());
}

/// It is settled by whoever opens the project next, and by the same question.
#[test]
fn an_undo_that_was_held_is_completed() {
    let world = World::new();
    let root = world.project("project", "auto_merge: false");
    world.task(&root, "first", "write one.txt one\ncommit first\ndone\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox"]).good();
    world.run(&root, ["branches", "merge", "1"]).good();
    fs::write(root.join("one.txt"), "edited\n").unwrap();
    for _ in 0..2 {
        let said = world.run(&root, ["undo", "1"]).code(3).stdout;
        assert!(said.contains("#0001 is not yet taken back by #0002: held"), "{said}");
    }
    world.git(&root, &["checkout", "-q", "one.txt"]);
    let said = world.run(&root, ["undo", "1"]).good().stdout;
    assert!(said.contains("the last merge of #0001 is taken back by #0002"), "{said}");
    // A later attempt leaves that to be read.
    world.run(&root, ["send-back", "1", "more", "--no-sandbox"]).good();
    let shown = world.run(&root, ["task", "show", "1"]).good().stdout;
    let merged = shown.lines().find(|line| line.contains("merged as")).unwrap();
    assert!(shown.contains("unmerged") && merged.ends_with(" (taken back by #0002)"), "{shown}");
}

/// Later work in the same place is not lost: an agent gets the task.
#[test]
fn what_later_work_builds_on_is_left_to_an_agent() {
    let world = World::new();
    let root = world.project("project", "");
    for text in ["one", "two"] {
        world.task(&root, text, &format!("write a.txt {text}\ncommit it\ndone\nexit 0"));
        world.run(&root, ["run", "all", "--no-sandbox"]).good();
    }
    let said = world.run(&root, ["undo", "1"]).code(3).stdout;
    assert!(said.contains("  a.txt\n") && said.contains("watchfire run 3"), "{said}");
    let text = std::fs::read_to_string(root.join("a.txt")).unwrap();
    assert!(text.contains("two"), "{text}");
    assert_eq!(world.states(&root)[2], (3, "draft".to_owned()));
    assert_eq!(world.run(&root, ["undo", "1"]).code(3).stdout, said);
    assert_eq!(world.states(&root).len(), 3);
    let shown = world.run(&root, ["task", "show", "3"]).good().stdout;
    assert!(shown.contains("same places of:\n") && shown.contains("- a.txt"), "{shown}");
    assert_eq!(world.git(&root, &["branch", "--list", "watchfire/0003"]), "");
}

/// A used-up limit keeps the work until the person goes on with it, on the same branch.
#[test]
fn work_goes_on_after_a_limit() {
    let world = World::new();
    let root = world.project("project", "");
    world
        .run(
            &root,
            ["task", "add", "--title", "Two parts", "--prompt", "Do it", "--agent", "scripted", "--ready"],
        )
        .good();
    let run = |args: &[&str], script: &str| {
        let path = world.path("script");
        std::fs::write(&path, script).unwrap();
        world.start_with(&root, args, &[("WATCHFIRE_SCRIPT", path.to_str().unwrap())]).end()
    };
    let nothing = run(&["resume", "1"], "").code(1).stderr;
    assert!(nothing.contains("does not wait for a person"), "{nothing}");
    let first = "write first.txt x\ncommit first\nissue usage_limit \"You've hit your limit\"\nhang";
    let said = run(&["run", "1", "--no-sandbox"], first).code(3).stdout;
    assert!(said.contains("limit"), "{said}");
    assert_eq!(world.states(&root), [(1, "limited".to_owned())]);
    let said = world.run(&root, ["answer", "1", "Go on"]).code(1).stderr;
    assert!(said.contains("it waits for a limit") && said.contains("watchfire resume 1"), "{said}");
    let said = world.run(&root, ["answer", "1", ""]).code(2).stderr;
    assert!(said.contains("the answer is empty"), "{said}");
    let said =
        run(&["resume", "1"], "run test -e first.txt\nwrite second.txt x\ncommit second\ndone\nexit 0")
            .good()
            .stdout;
    assert!(said.contains("merged"), "{said}");
    assert!(root.join("first.txt").exists() && root.join("second.txt").exists());
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
}

#[test]
fn a_run_as_json_is_one_object_a_line() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "One", "write x x\ncommit x\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).good();
    let events: Vec<serde_json::Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        events.iter().all(|event| event["schema"] == 1 && event["change"].is_string()),
        "{}",
        said.stdout
    );
    assert!(
        events.iter().any(|event| event["change"] == "life" && event["session"]["backend"] == "scripted")
    );
    let summary = events.last().unwrap();
    assert_eq!((&summary["change"], &summary["good"]), (&"summary".into(), &true.into()));
    assert_eq!(summary["endings"][0]["state"], "merged");
}

#[test]
fn a_renamed_target_says_how_to_go_on() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Work", "write x x\ncommit x\nrun git -C ../../.. branch -m main trunk\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("watchfire branches merge N --into BRANCH"), "{}", said.stdout);
    world.run(&root, ["branches", "merge", "1", "--into", "trunk"]).good();
    assert_eq!(world.git(&root, &["show", "trunk:x"]), "x");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    world.run(&root, ["branches", "prune"]).good();
    assert_eq!(world.git(&root, &["branch", "--list", "watchfire/*"]), "");
}

#[test]
fn what_git_clean_deletes_is_restored() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Keep me", "done");
    let doctor = world.run(&root, ["doctor"]).stdout;
    assert!(doctor.contains("git clean -fdx deletes .watchfire/"), "{doctor}");
    assert!(world.run(&root, ["backup"]).good().stdout.contains("refs/watchfire/backup"));
    world.git(&root, &["clean", "-ffdxq"]);
    let gone = world.run(&root, ["task", "list", "--json"]).code(1).json_error();
    assert!(gone.to_string().contains("watchfire restore"), "{gone}");
    let said = world.run(&root, ["restore"]).good();
    assert!(said.stdout.contains("restored .watchfire/tasks/0001.yaml"), "{}", said.stdout);
    assert_eq!(world.states(&root), [(1, "ready".to_owned())]);
    assert!(world.run(&root, ["restore"]).good().stdout.contains("nothing is missing"));
}

/// An agent that says it is done in the midst of a merge is not, and what depends on it does not start.
#[test]
fn conflict_marks_are_merged_only_if_they_are_accepted() {
    let world = World::new();
    let root = world.project("project", "");
    fs::write(root.join("text"), "one\n").unwrap();
    world.git(&root, &["add", "text"]);
    world.git(&root, &["commit", "-qm", "text"]);
    world.git(&root, &["checkout", "-q", "-b", "side"]);
    fs::write(root.join("text"), "side\n").unwrap();
    world.git(&root, &["commit", "-qam", "side"]);
    world.git(&root, &["checkout", "-q", "main"]);
    let script = "write text mine\ncommit mine\nrun git merge side; true\ndone\nexit 0";
    world.task(&root, "Half a merge", script);
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("conflict: the agent left a merge unfinished: text"), "{}", said.stdout);
    assert!(said.stdout.contains("branches merge N --accept-marks"), "{}", said.stdout);
    assert_eq!(world.states(&root), [(1, "conflict".to_owned())]);
    assert_eq!(world.git(&root, &["show", "main:text"]), "one\n");
    let held = world.run(&root, ["branches", "merge", "1"]).code(3);
    assert!(held.stdout.contains("held"), "{}", held.stdout);
    world.run(&root, ["branches", "merge", "1", "--accept-marks"]).good();
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    assert!(world.git(&root, &["show", "main:text"]).contains("<<<<<<<"));
}

/// Branches that were kept are merged, deleted or kept on, each by itself; discarded work can be had again.
#[test]
fn branches_are_put_in_order() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Good", "write good.txt x\ncommit good\ndone\nexit 0");
    world.task(&root, "Given up", "write bad.txt x\ncommit bad\nfail no way");
    world.run(&root, ["run", "all", "--no-merge", "--no-sandbox"]).code(3);
    let said = world.run(&root, ["branches", "delete", "1", "2", "7"]).code(3);
    assert_eq!(said.stdout.matches("kept").count(), 2, "{}", said.stdout);
    assert!(said.stdout.contains("#0007 no such branch"), "{}", said.stdout);

    let merged = world.run(&root, ["branches", "merge", "2", "1", "--json"]).code(3).json();
    assert_eq!(
        (&merged["branches"][0]["good"], &merged["branches"][1]["good"]),
        (&false.into(), &true.into())
    );
    assert_eq!(world.states(&root)[0], (1, "merged".to_owned()));
    assert!(root.join("good.txt").is_file());

    let said = world.run(&root, ["branches", "delete", "2", "--discard"]).good();
    assert!(said.stdout.contains("kept as refs/watchfire/rescue/0002/1"), "{}", said.stdout);
    assert_eq!(world.git(&root, &["branch", "--list", "watchfire/*"]), "");
    world.run(&root, ["branches", "restore", "refs/watchfire/rescue/0002/1", "again"]).good();
    assert_eq!(world.git(&root, &["show", "--format=%s", "--name-only", "again"]), "bad\n\nbad.txt\n");
    let error =
        world.run(&root, ["branches", "restore", "refs/heads/main", "x", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    for bad in ["again", "main", "watchfire/0009", "-x", "a..b"] {
        world.run(&root, ["branches", "restore", "--", "refs/watchfire/rescue/0002/1", bad]).code(1);
    }
    let pruned = world.run(&root, ["branches", "prune"]).good();
    assert!(pruned.stdout.contains("nothing to clean up"), "{}", pruned.stdout);
    world.git(&root, &["fsck", "--no-dangling"]);
}

/// What a task changes can be seen before it is merged, by people and by programs.
#[test]
fn a_task_shows_what_it_changes() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(
        &root,
        "Edit",
        "replace a.txt one uno\nwrite new.txt x\ncommit edit\nwrite later.txt y\ndone\nexit 0",
    );
    world.run(&root, ["run", "all", "--no-merge", "--no-sandbox"]).good();
    let report = world.run(&root, ["diff", "1", "--json"]).good().json();
    let files = report["diff"]["files"].as_array().unwrap();
    let seen: Vec<_> =
        files.iter().map(|f| (f["path"].as_str().unwrap(), f["change"].as_str().unwrap())).collect();
    assert_eq!(seen, [("a.txt", "modified"), ("later.txt", "added"), ("new.txt", "added")]);
    let lines = files[0]["hunks"][0]["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["kind"] == "added" && line["text"] == "uno"), "{report:#}");
    let shown = world.run(&root, ["diff", "1"]).good().stdout;
    assert!(shown.contains("modified a.txt (+1 -1)") && shown.contains("-one\n+uno\n"), "{shown}");
    let little = world.run(&root, ["diff", "1", "--stat", "--files", "1"]).good().stdout;
    assert_eq!(little, "modified a.txt (+1 -1)\n… and 2 more files\n");
    assert_eq!(world.run(&root, ["diff", "9", "--json"]).code(1).json_error()["code"], "not_found");
    let listed = world.run(&root, ["branches"]).good().stdout;
    assert!(listed.contains("3 files ("), "{listed}");
    // Merged, and with its branch gone, it still shows what was merged, and nothing of what others did.
    world.git(&root, &["commit", "-q", "--allow-empty", "-m", "another"]);
    world.run(&root, ["branches", "merge", "1"]).good();
    world.task(&root, "Other", "write other.txt z\ncommit other\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    let report = world.run(&root, ["diff", "1", "--json"]).good().json();
    let files = report["diff"]["files"].as_array().unwrap();
    let seen: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(seen, ["a.txt", "later.txt", "new.txt"]);
}

/// What a silent agent said last can be read while it runs.
#[test]
fn the_log_of_a_silent_agent_is_up_to_date() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Waits", "say its last words\nwait go 60\nwrite x.txt x\ncommit x\ndone\nexit 0");
    let run = world.start(&root, ["run", "all", "--no-sandbox"]);
    let log = || world.run(&root, ["logs", "1"]).stdout;
    support::until("its last words are in the log", || log().contains("its last words"));
    let branches = || world.run(&root, ["branches", "--json"]).good().json();
    assert_eq!(branches()["branches"][0]["in_use"], true);
    let refused = world.run(&root, ["branches", "delete", "1", "--discard", "--json"]).code(1).json_error();
    assert_eq!(refused["code"], "locked");
    fs::write(root.join(".watchfire/worktrees/0001/go"), "").unwrap();
    run.end().good();
}

/// A run that ends while a task waits for its next attempt: the task's file says done, and it is not.
#[test]
fn a_task_that_was_not_verified_does_not_look_done() {
    let world = World::new();
    let root = world.project("shop", "verify: ['false']");
    let prompt = "Do it.\n\n```watchfire-script\nwrite v v\ncommit v\ndone\nexit 0\n```\n";
    let add = ["task", "add", "--title", "V", "--prompt", prompt, "--agent", "scripted", "--ready"];
    world.run(&root, add.into_iter().chain(["--retries", "5"])).good();
    world.task(&root, "Login", "issue auth_required please log in\nhang");
    world.run(&root, ["run", "all", "--no-sandbox", "--no-wait"]).code(3);
    let listed = world.run(&root, ["task", "list", "--json"]).good().json();
    let task = &listed["tasks"][0];
    assert!(task["state"] != "done" && task["reason"].as_str().unwrap().contains("false"), "{task}");
    let shown = world.run(&root, ["task", "list"]).good().stdout;
    assert!(shown.contains("[✗] #0001 V"), "{shown}");
}
