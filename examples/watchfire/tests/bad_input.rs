//! What people and disks get wrong.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use support::World;

#[test]
fn a_folder_that_is_no_project() {
    let world = World::new();
    let root = world.empty("nothing");
    let said = world.run(&root, ["task", "list"]).code(1);
    assert!(said.stderr.starts_with("error: no Watchfire project here or above\n"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: watchfire init"), "{}", said.stderr);
    let error = world.run(&root, ["run", "all", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    assert!(error["details"]["path"].as_str().unwrap().ends_with("nothing"));
    let error = world.run(&root, ["-C", "missing", "task", "list", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    for command in [&["init", "--yes"][..], &["task", "list"], &["doctor"], &["sessions"]] {
        let words = [&["-C", "/etc/passwd", "--json"], command].concat();
        let error = world.run(&root, words).code(1).json_error();
        let said = (&error["code"], &error["message"], &error["details"]["path"]);
        assert_eq!(said, (&"invalid_input".into(), &"not a folder".into(), &"/etc/passwd".into()));
    }
}

#[test]
fn usage_errors() {
    let world = World::new();
    let root = world.project("project", "");
    world.run(&root, ["fly"]).code(2);
    assert_eq!(world.run(&root, ["fly", "--json"]).code(2).json_error()["code"], "usage");
    world.run(&root, ["run", "most"]).code(2);
    world.run(&root, ["task", "list", "--status", "open"]).code(2);
    world.run(&root, ["run", "1", "--sandbox", "auto", "--no-sandbox"]).code(2);
    assert!(
        world.run(&root, ["run"]).code(2).stderr.contains("watchfire run all"),
        "never more than is named"
    );
    assert_eq!(world.run(&root, ["task", "add", "--json"]).code(2).json_error()["code"], "usage");
    world.run(&root, ["chat"]).code(2);
    assert!(world.run(&root, ["task", "edit", "9"]).code(1).stderr.contains("no such task"));
    world.run(&root, ["task", "show", "9"]).code(1);
    let error = world.run(&root, ["undo", "--json"]).code(2).json_error();
    assert_eq!(error["message"], "the following required arguments were not provided: <N>");
    assert_eq!(error["hint"], "watchfire undo --help");
    let error = world.run(&root, ["task", "show", "x", "--json"]).code(2).json_error();
    assert_eq!(error["hint"], "watchfire task show --help");
    let error = world.run(&root, ["task", "lst"]).code(2).stderr;
    assert!(error.contains("unrecognized subcommand 'lst'") && error.contains("'list'"), "{error}");
    assert!(world.run(&root, ["task", "9", "9"]).code(2).stderr.contains("no such command: task 9 9"));
    fs::write(world.path("watchfire-home/settings.yaml"), "version: 1\nagents: {mine: {path: sh}}\n")
        .unwrap();
    world.task(&root, "Whose", "done");
    assert!(world.run(&root, ["task", "edit", "1"]).code(2).stderr.contains("nothing to change"));
    let error = world.run(&root, ["run", "all", "--agent", "nobody", "--json"]).code(1).json_error();
    assert!(error["details"]["known"].as_str().unwrap().contains("mine"), "{error}");
    world.run(&root, ["task", "done", "1"]).good();
    let error = world.run(&root, ["run", "1"]).code(1).stderr;
    assert!(error.contains("hint: watchfire task ready 1; or"), "{error}");
    world.run(&root, ["task", "delete", "1"]).good();
    let error = world.run(&root, ["run", "all", "3", "--json"]).code(2).json_error();
    assert_eq!(error["message"], "all and single tasks are named at once");
    let error = world.run(&root, ["run", "--nope", "--json"]).code(2).json_error();
    assert_eq!(error["message"], "unexpected argument '--nope' found");
    assert_eq!(world.run(&root, ["diff", "9", "--json"]).code(1).json_error()["message"], "no such task");
    world.run(&root, ["task", "add", "--title", "  "]).code(1);
    fs::write(root.join("long.txt"), "x".repeat(300_000)).unwrap();
    let said = world.run(&root, ["task", "add", "--title", "Long", "--prompt-file", "long.txt"]).good();
    assert!(said.stderr.contains("the prompt has 300000 bytes"), "{}", said.stderr);
    assert_eq!(
        world.run(&root, ["run", "all", "--sandbox", "off", "--json"]).code(1).json_error()["code"],
        "unknown_sandbox"
    );
}

/// A folder without a repository gets one; then everything works, though it began without a commit.
#[test]
fn a_folder_without_a_repository() {
    let world = World::new();
    let root = world.empty("fresh");
    let init = world.run(&root, ["init", "--yes", "--json"]).good().json();
    assert_eq!(init["repository_created"], true);
    world.task(&root, "Begin", "write x x\ncommit x\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert_eq!(world.git(&root, &["show", "HEAD:x"]), "x");
}

#[test]
fn a_repository_without_a_commit_and_without_an_identity() {
    let world = World::new();
    fs::remove_file(world.home.join(".gitconfig")).unwrap();
    let root = world.empty("unborn");
    world.git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("mine.txt"), "mine\n").unwrap();
    world.git(&root, &["add", "mine.txt"]);
    let hook = root.join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    world.run(&root, ["init", "--yes"]).good();
    assert_eq!(
        world.git(&root, &["ls-tree", "--name-only", "HEAD"]),
        ".gitignore\n",
        "only our line is committed"
    );
    assert_eq!(
        world.git(&root, &["diff", "--cached", "--name-only"]),
        "mine.txt\n",
        "what was staged still is"
    );
}

#[test]
fn an_existing_project_is_registered_again() {
    let world = World::new();
    let root = world.project("project", "");
    fs::remove_dir_all(world.path("watchfire-home")).unwrap();
    let init = world.run(&root, ["init", "--yes", "--json"]).good().json();
    assert_eq!((&init["existed"], &init["gitignore_changed"]), (&true.into(), &false.into()));
    fs::remove_dir_all(world.path("watchfire-home")).unwrap();
    world.run(&root, ["task", "list"]).good();
    let index = fs::read_to_string(world.path("watchfire-home/projects.yaml")).unwrap();
    assert!(index.contains("project"), "every command heals the index: {index}");
}

#[test]
fn a_path_with_spaces_quotes_and_other_letters() {
    let world = World::new();
    let root = world.project("a 'quoted\" päth 漢字 $(x)", "verify: ['test -f x']");
    world.task(&root, "Say \"hi\": it's 漢字", "write x x\ncommit x\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert!(said.stdout.contains("Say \"hi\": it's 漢字: merged"), "{}", said.stdout);
}

#[test]
fn a_detached_head() {
    let world = World::new();
    let root = world.project("project", "");
    world.git(&root, &["checkout", "-q", "--detach"]);
    let head = world.git(&root, &["rev-parse", "HEAD"]);
    world.task(&root, "Work", "write x x\ncommit x\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]);
    // One error before anything is claimed, and no branch moves behind the person's back.
    assert_eq!(world.git(&root, &["rev-parse", "main"]), head, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.code, Some(1), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("HEAD is detached"), "{}", said.stderr);
    assert_eq!(world.states(&root), [(1, "ready".to_owned())]);
}

#[test]
fn what_no_task_could_start_with_is_one_error() {
    let world = World::new();
    let root = world.project("project", "");
    for title in ["one", "two"] {
        world.run(&root, ["task", "add", "--title", title, "--prompt", "x", "--ready"]).good();
    }
    let file = root.join(".watchfire/project.yaml");
    let good = fs::read_to_string(&file).unwrap();
    for (line, field) in [
        ("default_branch: nowhere", "default_branch"),
        ("share: [../up]", "share"),
        ("sandbox_rules: {dney: [secrets]}", "dney"),
        ("verify: ['']", "verify"),
        ("max_parallel: 0", "max_parallel"),
        ("merge: {batch: 0}", "merge.batch"),
    ] {
        let others = good.lines().filter(|it| !it.starts_with(field)).map(|it| format!("{it}\n"));
        fs::write(&file, others.collect::<String>() + line + "\n").unwrap();
        let said = world.run(&root, ["run", "all", "--agent", "scripted", "--no-sandbox"]).code(1).stderr;
        assert!(said.contains("project.yaml") && said.contains(field), "{said}");
        let ready = || "ready".to_owned();
        fs::write(&file, &good).unwrap();
        assert_eq!(world.states(&root), [(1, ready()), (2, ready())], "{line}");
    }
}

#[test]
fn a_missing_agent() {
    let world = World::new();
    let root = world.project("project", "");
    world.run(&root, ["task", "add", "--title", "Work", "--ready"]).good();
    let mut command = world.command(&root, ["run", "all", "--agent", "claude-code", "--no-sandbox"]);
    command.env("PATH", "/usr/bin:/bin");
    let done = command.output().unwrap();
    // Before anything is claimed: one error, and the task is as it was.
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.lines().all(|line| line.matches("npm install").count() < 2), "one hint is enough: {said}");
    assert!(said.contains("claude"), "{said}");
    assert_eq!(world.states(&root), [(1, "ready".to_owned())]);
    let said = world.run(&root, ["run", "all", "--agent", "nobody", "--no-sandbox"]).code(1);
    assert!(said.stderr.contains("nobody"), "{}", said.stderr);
    // Also beside tasks that could run, each is left as it is, and the error is one.
    world.run(&root, ["settings", "default_agent", "scripted"]).good();
    for title in ["Two", "Three"] {
        world.run(&root, ["task", "add", "--title", title, "--ready", "--agent", "claude-code"]).good();
    }
    let mut command = world.command(&root, ["run", "all", "--no-sandbox"]);
    let done = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("tasks: #0002, #0003"), "{said}");
    world.run(&root, ["task", "rm", "2"]).good();
    world.run(&root, ["task", "rm", "3"]).good();
    world.run(&root, ["run", "all", "--agent", "scripted", "--no-sandbox"]).good();
    let task = world.run(&root, ["task", "show", "1", "--json"]).good().json()["task"].clone();
    assert_eq!(
        (&task["state"], &task["failure_reason"]),
        (&"merged".into(), &serde_json::Value::Null),
        "{task:#}"
    );
    // Also where nothing is ready.
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    let said = world.run(&root, ["run", "all", "--agent", "nobody", "--no-sandbox"]).code(1);
    assert!(said.stderr.contains("nobody") && !said.stderr.contains("tasks:"), "{}", said.stderr);
}

#[test]
fn an_unknown_agent_is_told_by_file_and_line() {
    let world = World::new();
    let (plain, named) = (world.project("plain", ""), world.project("named", "default_agent: nobody"));
    let settings = world.path("watchfire-home").join("settings.yaml");
    fs::write(settings, "defaults:\n  default_agent: nobody\n").unwrap();
    let last = fs::read_to_string(named.join(".watchfire/project.yaml")).unwrap().lines().count();
    for (root, file, field, line) in [
        (plain, "settings.yaml", "defaults.default_agent", 2),
        (named, "project.yaml", "default_agent", last),
    ] {
        world.run(&root, ["task", "add", "--title", "Work", "--ready"]).good();
        let error = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).code(1).json_error();
        assert_eq!(error["code"], "unknown_backend", "{error}");
        let told = ["file", "field", "line"].map(|key| error["details"][key].as_str().unwrap_or_default());
        assert_eq!(told, [file, field, &line.to_string()], "{error}");
        assert_eq!(world.states(&root), [(1, "ready".to_owned())]);
    }
}

/// A value that means nothing is no setting that is obeyed in silence.
#[test]
fn values_of_project_yaml_that_mean_nothing() {
    let world = World::new();
    let root = world.project("project", "");
    let file = root.join(".watchfire/project.yaml");
    let good = fs::read_to_string(&file).unwrap();
    let others = good.lines().filter(|line| !line.starts_with("color:"));
    let good: String = others.map(|line| format!("{line}\n")).collect();
    let line = good.lines().count() + 1;
    for (wrong, expected) in [
        ("color: nothex", "#rrggbb"),
        ("color: 12", "#rrggbb"),
        ("stall_after: -1", "45m"),
        ("time_limit: 2 weeks", "45m"),
        ("stall_after: soon", "45m"),
        ("max_parallel: many", "a whole number"),
    ] {
        fs::write(&file, format!("{good}{wrong}\n")).unwrap();
        let error = world.run(&root, ["task", "list", "--json"]).code(1).json_error();
        let told = error.to_string();
        assert!(told.contains(expected) && told.contains("project.yaml"), "{told}");
        assert!(told.contains(&format!("\"line\":\"{line}\"")), "{told}");
        assert!(told.contains(wrong.split_once(':').unwrap().0), "{told}");
    }
}

/// A line that begins at the wrong place is said to in our words, and in those of the parser behind them.
#[test]
fn a_line_that_begins_at_the_wrong_place() {
    let world = World::new();
    let root = world.project("project", "merge:\n  batch: 2\n strategy: merge");
    let line = fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap().lines().count();
    let error = world.run(&root, ["task", "list", "--json"]).code(1).json_error();
    assert!(error["message"].as_str().unwrap().starts_with("wrong indentation"), "{error}");
    assert_eq!(
        (&error["details"]["line"], &error["details"]["column"]),
        (&line.to_string().into(), &"2".into())
    );
    assert!(error["details"]["because"][0].as_str().unwrap().contains("expected key"), "{error}");
}

/// No run starts a task that waits for one that is not there, so `doctor` names it.
#[test]
fn a_task_that_waits_for_one_that_is_not_there() {
    let world = World::new();
    let root = world.project("project", "");
    world.run(&root, ["settings", "default_agent", "scripted"]).good();
    for title in ["First", "Second", "Third"] {
        world.task(&root, title, "done");
    }
    world.run(&root, ["task", "edit", "2", "--depends-on", "1"]).good();
    world.run(&root, ["task", "edit", "3", "--depends-on", "1"]).good();
    world.run(&root, ["doctor"]).good();
    world.run(&root, ["task", "delete", "1"]).good();
    let said = world.run(&root, ["doctor"]).code(3).stdout;
    for number in ["#0002", "#0003"] {
        assert!(said.contains(&format!("✗ {number}  depends on #0001, which is")), "{said}");
    }
    let run = world.run(&root, ["run", "all", "--no-sandbox"]).stdout;
    assert!(run.contains("#0002 Second: depends on #0001, which is not there or in the trash"), "{run}");
    world.run(&root, ["task", "edit", "2", "--depends-on", ""]).good();
    world.run(&root, ["task", "edit", "3", "--depends-on", ""]).good();
    world.run(&root, ["doctor"]).good();
    // A ring, which only an editor can make.
    world.run(&root, ["task", "edit", "3", "--depends-on", "2"]).good();
    for (of, refused) in [("42", "depends on a task that does not exist"), ("3", "2 -> 3 -> 2")] {
        let said = world.run(&root, ["task", "edit", "2", "--depends-on", of]).code(1).stderr;
        assert!(said.contains(refused), "{said}");
    }
    let file = root.join(".watchfire/tasks/0002.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{}\ndepends_on: [3]\n", text.replace("depends_on: []\n", ""))).unwrap();
    for said in [
        world.run(&root, ["doctor"]).code(3).stdout,
        world.run(&root, ["run", "all", "--no-sandbox"]).code(3).stdout,
    ] {
        assert!(said.contains("depends on itself (#0002 -> #0003 -> #0002): it never starts"), "{said}");
    }
    world.run(&root, ["task", "edit", "3", "--depends-on", ""]).good();
    world.run(&root, ["doctor"]).good();
    // A key with a typo waits for nothing.
    let file = root.join(".watchfire/tasks/0003.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}depnds_on: [2]\n")).unwrap();
    let said = world.run(&root, ["doctor"]).code(3).stdout;
    assert!(
        said.contains("✗ #0003  `depnds_on` is no key") && said.contains("did you mean `depends_on`?"),
        "{said}"
    );
}

/// Broken task files are told with file and line, and the others go on.
#[test]
fn malformed_task_files() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Good", "write x x\ncommit x\ndone\nexit 0");
    let tasks = root.join(".watchfire/tasks");
    let good = fs::read_to_string(tasks.join("0001.yaml")).unwrap();
    fs::write(tasks.join("0002.yaml"), "").unwrap();
    fs::write(tasks.join("0003.yaml"), &good[..good.len() / 3]).unwrap();
    fs::write(tasks.join("0004.yaml"), "version: 1\n\ttitle: tabs\n").unwrap();
    fs::write(tasks.join("0005.yaml"), good.replace("status: ready", "status: [ready]")).unwrap();
    fs::write(tasks.join("0006.yaml"), format!("{good}---\n{good}")).unwrap();
    fs::write(tasks.join("0007.yaml"), &good).unwrap();
    let list = world.run(&root, ["task", "list", "--json"]).good().json();
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1);
    let malformed = list["malformed"].as_array().unwrap();
    assert_eq!(malformed.len(), 6, "{malformed:#?}");
    assert!(malformed.iter().any(|file| file["line"].is_number()));
    let doctor = world.run(&root, ["doctor", "--json"]).code(3).json();
    assert_eq!(doctor["work"]["malformed"].as_array().unwrap().len(), 6, "{doctor}");
    // What nobody could run is no success.
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(said.stdout.contains("1 merged"), "{}", said.stdout);
    assert!(said.stdout.contains("0004.yaml"), "{}", said.stdout);
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).code(3).stdout;
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (last["good"].as_bool(), last["malformed"].as_array().map(Vec::len)),
        (Some(false), Some(6)),
        "{last}"
    );
    let text = world.run(&root, ["task", "list"]).good().stdout;
    assert!(text.contains("Malformed (6)"), "{text}");
}

/// A file that no program takes for a task is no lost task: it is named.
#[test]
fn files_that_are_no_task_files() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Good", "done");
    let tasks = root.join(".watchfire/tasks");
    for name in [
        "foo.yaml",
        "0003.yml",
        "0.yaml",
        "0001.metrics.yaml",
        ".0001.yaml.swp",
        "0001.yaml~",
        "new.tmp",
        "2.yaml",
    ] {
        fs::write(tasks.join(name), "x").unwrap();
    }
    let said = world.run(&root, ["doctor", "--json"]).json();
    assert_eq!(said["work"]["strays"], serde_json::json!(["0.yaml", "0003.yml", "foo.yaml"]), "{said}");
    let said = world.run(&root, ["doctor"]).stdout;
    assert!(said.contains("tasks/0003.yml is no task: its name is not NNNN.yaml"), "{said}");
}

#[test]
fn a_long_prompt_and_a_prompt_from_a_pipe() {
    let world = World::new();
    let root = world.project("project", "");
    let long = "word ".repeat(2 << 20);
    let file = world.path("long.md");
    fs::write(&file, &long).unwrap();
    world.run(&root, ["task", "add", "--title", "Long", "--prompt-file", file.to_str().unwrap()]).good();
    let shown = world.run(&root, ["task", "show", "1", "--json"]).good().json();
    assert_eq!(shown["task"]["prompt"].as_str().unwrap().trim_end(), long.trim_end());
    let root = world.project("other", "");
    let mut command = world.command(&root, ["task", "add", "--title", "Piped", "--prompt", "-"]);
    let pipe = fs::File::open(world.home.join(".gitconfig")).unwrap();
    assert!(command.stdin(pipe).status().unwrap().success());
    let shown = world.run(&root, ["task", "show", "1", "--json"]).good().json();
    assert!(shown["task"]["prompt"].as_str().unwrap().contains("name = Test"));
}

#[test]
fn tasks_are_changed_in_every_way() {
    let world = World::new();
    let root = world.project("project", "");
    let task = |args: &[&str]| world.run(&root, [&["task"], args].concat());
    task(&["add", "--title", "One", "--label", "ui,fast", "--retries", "2"]).good();
    task(&["add", "--title", "Two", "--depends-on", "1", "--ready"]).good();
    task(&["add", "--title", "Three", "--depends-on", "7"]).code(1);
    task(&["edit", "1", "--title", "Uno", "--status", "ready", "--labels", "slow"]).good();
    task(&["draft", "1"]).good();
    task(&["ready", "1", "2"]).good();
    task(&["done", "2", "--failed", "no time"]).good();
    let states: Vec<_> = world.states(&root).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["ready", "failed"]);
    task(&["delete", "1"]).good();
    assert_eq!(task(&["list", "--deleted", "--json"]).good().json()["tasks"][0]["title"], "Uno");
    task(&["purge", "2"]).code(1);
    task(&["restore", "1"]).good();
    assert_eq!(
        task(&["list", "--label", "slow", "--json"]).good().json()["tasks"].as_array().unwrap().len(),
        1
    );
    for (filter, none) in [
        (&["--label", "zzz"][..], "no task has the label zzz\n"),
        (&["--status", "draft"], "no task has the status draft\n"),
        (&["--status", "done", "--label", "ui"], "no task has the status done and the label ui\n"),
        (&["--deleted", "--label", "ui"], "no task in the trash has the label ui\n"),
        (&["--deleted"], "the trash is empty\n"),
    ] {
        assert_eq!(task(&[&["list"], filter].concat()).good().stdout, none);
    }
    task(&["rm", "1"]).good();
    assert_eq!(task(&["purge", "--all", "--json"]).good().json()["purged"], serde_json::json!([1]));
    let partly = task(&["ready", "2", "9"]).code(1);
    assert!(partly.stdout.contains("#0002"), "what can be done is done: {}", partly.stdout);
}
