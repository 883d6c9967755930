//! Settings and the definition, shown and changed.

mod support;

use std::fs;
use std::io::Write as _;

use support::World;
use support::on_terminal::OnTerminal;

#[test]
fn settings_of_the_project_are_changed_one_by_one() {
    let world = World::new();
    let root = world.project("shop", "");
    let file = || fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    world.run(&root, ["settings", "auto_merge", "false"]).good();
    assert!(file().contains("auto_merge: false"), "{}", file());
    world.run(&root, ["settings", "max_parallel", "3"]).good();
    assert_eq!(world.run(&root, ["settings", "max_parallel"]).good().stdout, "3\n");
    let listed = world.run(&root, ["settings", "--list", "--json"]).good().json();
    assert_eq!(
        (&listed["settings"]["auto_merge"], &listed["settings"]["name"]),
        (&false.into(), &"shop".into())
    );
    world.run(&root, ["settings", "auto_merge", ""]).good();
    assert!(!file().contains("auto_merge"), "{}", file());
    for (key, value, expected) in [
        ("auto_merge", "perhaps", "true or false"),
        ("max_parallel", "0", "a number from 1 on"),
        ("color", "nothex", "#"),
        ("status", "asleep", "active or archived"),
        ("default_agent", "no spaces", ""),
        ("default_agent", "nosuch", "unknown_backend"),
        ("sandbox", "nosuch", "unknown_sandbox"),
        ("sandbox", "none", "a project cannot turn the sandbox off"),
        ("default_branch", "nosuch", "default_branch"),
        ("time_limit", "forever", "45m"),
        ("verify", "no-such-program --all", "not installed"),
        ("verify", "[1]", "a command, or several"),
        ("on_limit", "never", "ask, wait or stop"),
        ("merge.strategy", "octopus", "fast-forward-only"),
        ("merge.batch", "0", "a number from 1 on"),
        ("verfy", "x", "not a setting that can be changed here"),
        ("quux", "x", "all others are in .watchfire/project.yaml"),
        ("git.repositories", "[~/lib]", "watchfire settings --global git.repositories VALUE"),
        ("repositories", "[../lib]", "it is changed in .watchfire/project.yaml"),
    ] {
        let before = file();
        let error = world.run(&root, ["settings", key, value, "--json"]).code(1).json_error();
        assert!(error.to_string().contains(expected), "{error}");
        // Where the answer is known, the list of all keys would hide it.
        assert!(!key.ends_with("repositories") || error["details"]["expected"].is_null(), "{error}");
        assert_eq!(file(), before);
    }
    for (key, code) in [("default_agent", "unknown_backend"), ("default_sandbox", "unknown_sandbox")] {
        let key = format!("defaults.{key}");
        let error = world.run(&root, ["settings", "--global", &key, "nosuch", "--json"]).code(1).json_error();
        assert_eq!((&error["code"], &error["details"]["field"]), (&code.into(), &key.into()), "{error}");
    }
    for (key, value) in [("verify", "nosuchprog"), ("default_agent", "nosuch")] {
        let said = world.run(&root, ["settings", key, value]).code(1).stderr;
        let times = |part: &str| said.matches(part).count();
        assert_eq!((times("file: "), times(&format!("field: {key}"))), (1, 1), "{said}");
    }
    world.run(&root, ["settings", "verify", r#"["true", "test -e a.txt"]"#]).good();
    let commands = world.run(&root, ["settings", "verify", "--json"]).good().json();
    assert!(commands.to_string().contains(r#"["true","test -e a.txt"]"#), "{commands}");
    world.run(&root, ["settings", "verify", ""]).good();
    world.run(&root, ["settings", "on_limit", "wait"]).good();
    assert!(file().contains(r#"on_limit: "wait""#), "{}", file());
    world.run(&root, ["settings", "merge.strategy", "squash"]).good();
    world.run(&root, ["settings", "merge.batch", "4"]).good();
    assert_eq!(world.run(&root, ["settings", "merge.strategy"]).good().stdout, "squash\n", "{}", file());
    world.run(&root, ["settings", "merge.strategy", ""]).good();
    assert_eq!(world.run(&root, ["settings", "merge.batch"]).good().stdout, "4\n", "{}", file());
    let error = world.run(&root, ["settings", "verfy"]).code(1).stderr;
    assert!(error.contains("did you mean `verify`?"), "{error}");
    assert_eq!(world.run(&root, ["settings", "time_limit"]).good().stdout.trim(), "", "it has no value");
}

#[test]
fn a_persons_own_settings_are_checked_before_they_are_written() {
    let world = World::new();
    let root = world.project("shop", "");
    let home = world.path("watchfire-home");
    fs::write(home.join("settings.yaml"), "version: 1\n# mine\nmine: kept\n").unwrap();
    let file = || fs::read_to_string(home.join("settings.yaml")).unwrap();
    let set = |key: &str, value: &str| world.run(&root, ["settings", "--global", key, value, "--json"]);
    set("defaults.auto_merge", "false").good();
    set("budget.day", "20").good();
    set("agents.claude-code.model", "opus").good();
    let got = world.run(&root, ["settings", "--global", "budget.day"]).good().stdout;
    assert_eq!(got.trim().trim_end_matches(".0"), "20");
    assert!(file().contains("mine: kept") && file().contains("auto_merge: false"), "{}", file());
    for (key, value) in [
        ("defaults.auto_merge", "perhaps"),
        ("tui.keys.nosuch", "ctrl+s"),
        ("defaults.auto_mrge", "true"),
        ("version.x", "1"),
    ] {
        let before = file();
        let error = set(key, value).code(1).json_error();
        assert_eq!(error["details"]["file"], "settings.yaml", "{error}");
        assert_eq!(file(), before);
    }
    set("budget.day", "").good();
    assert!(!file().contains("budget"), "{}", file());
    for value in [r#"[""]"#, "# later"] {
        let error =
            world.run(&root, ["settings", "verify", value, "--json"]).code(1).json_error().to_string();
        assert!(error.contains("a command that does nothing"), "{error}");
    }
    // Nothing reads these.
    set("agents.claude-code.nonsense", "x").code(1);
    set("agents.claude-code.settle_ms", "5").code(1);
    let more = "agents:\n  codex: {modle: x, nonsense: 1}\nnotify:\n  events: [asks, foo]\n";
    fs::write(home.join("settings.yaml"), format!("version: 1\n{more}")).unwrap();
    let error =
        world.run(&root, ["settings", "--global", "--list", "--json"]).code(1).json_error().to_string();
    assert!(error.contains("notify.events: unknown word") && error.contains("\"line\":\"5\""), "{error}");
    fs::write(home.join("settings.yaml"), format!("version: 1\n{}", more.replace(", foo", ""))).unwrap();
    for said in
        [world.run(&root, ["doctor"]).code(3).stdout, world.run(&root, ["init", "--yes"]).good().stdout]
    {
        assert!(said.contains("`agents.codex.nonsense` is no key of settings.yaml"), "{said}");
        assert!(said.contains("did you mean `agents.codex.model`?"), "{said}");
    }
    // A program of the person's own goes on with what it does not read, and is no trouble to others.
    let own = "agents:\n  mine: {path: sh, busi: [x], x-mine: 1}\n";
    fs::write(home.join("settings.yaml"), format!("version: 1\n{own}")).unwrap();
    let said = world.run(&root, ["doctor"]).stdout;
    assert!(said.contains("did you mean `agents.mine.busy`?") && !said.contains("x-mine"), "{said}");
    assert!(said.contains("✓ mine"), "{said}");
    // What it does read has its form.
    fs::write(
        home.join("settings.yaml"),
        format!("version: 1\n{}", own.replace("busi: [x]", "prompt_mode: 7")),
    )
    .unwrap();
    let error =
        world.run(&root, ["settings", "--global", "--list", "--json"]).code(1).json_error().to_string();
    assert!(error.contains("agents.mine.prompt_mode: expected one of arg, file"), "{error}");
    assert!(error.contains("\"line\":\"3\""), "{error}");
    // A script that is not there is found before anything is claimed.
    fs::write(home.join("settings.yaml"), "version: 1\nagents: {scripted: {script: /nonexistent}}\n")
        .unwrap();
    world.run(&root, ["task", "add", "Work", "--ready"]).good();
    let said = world.run(&root, ["run", "all", "--agent", "scripted", "--no-sandbox"]).code(1).stderr;
    assert!(said.contains("/nonexistent") && said.matches("/nonexistent").count() == 1, "{said}");
    assert_eq!(world.states(&root), [(1, "ready".to_owned())]);
}

/// A filter with a typo never runs. A filter that git knows is not spoken of.
#[test]
fn a_filter_that_git_does_not_have_is_named() {
    let world = World::new();
    let root = world.project("shop", "default_agent: scripted");
    world.git(&root, &["config", "filter.my.lfs.smudge", "cat"]);
    let settings = world.path("watchfire-home/settings.yaml");
    fs::write(settings, "version: 1\ngit: {filters: [my.lfs, lsf]}\n").unwrap();
    world.task(&root, "Work", "done");
    let line = "`git.filters` names `lsf`, which git's configuration does not have: it changes nothing";
    for said in [
        world.run(&root, ["doctor"]).good().stdout,
        world.run(&root, ["run", "all", "--no-sandbox"]).good().stdout,
    ] {
        assert!(said.contains(line) && !said.contains("my.lfs"), "{said}");
    }
}

#[test]
fn a_terminal_is_asked_for_each_setting() {
    let world = World::new();
    let root = world.project("shop", "");
    let mut asked = OnTerminal::start(&world, &root, &["settings"], &[]);
    asked.wait_for("Project name [shop]: ");
    asked.keys.write_all(b"Corner shop\r").unwrap();
    // A wrong answer is refused at once, and asked for again.
    for (question, wrong, refusal) in [
        ("Colour", "nothex", "not a colour"),
        ("Default branch", "nosuch", "there is no such branch"),
        ("Agent", "nosuch", "unknown agent"),
        ("Auto-merge", "perhaps", "expected true or false"),
    ] {
        asked.wait_for(question);
        asked.keys.write_all(format!("{wrong}\r").as_bytes()).unwrap();
        asked.wait_for(&format!("error:\x1b[0m {refusal}"));
        asked.keys.write_all(b"\r").unwrap();
    }
    for question in ["Auto-delete", "Auto-start"] {
        asked.wait_for(question);
        asked.keys.write_all(b"\r").unwrap();
    }
    asked.wait_for("Tasks at the same time");
    asked.keys.write_all(b"2\r").unwrap();
    asked.wait_for("Time limit");
    asked.keys.write_all(b"forever\r").unwrap();
    asked.wait_for("45m");
    asked.keys.write_all(b"\r\r\r\r").unwrap();
    let (painted, code) = asked.end();
    assert_eq!(code, Some(0), "{painted}");
    let listed = world.run(&root, ["settings", "--list", "--json"]).good().json();
    assert_eq!(
        (&listed["settings"]["name"], &listed["settings"]["max_parallel"]),
        (&"Corner shop".into(), &2.into())
    );
}

/// The spellings of the specification, beside ours.
#[test]
fn every_spelling_works() {
    let world = World::new();
    let root = world.project("shop", "");
    for title in ["One", "Two", "Three"] {
        world.task(&root, title, "done");
    }
    world.run(&root, ["task", "rm", "2"]).good();
    for words in [&["task", "list-deleted"][..], &["task", "ls-deleted"], &["task", "list", "--deleted"]] {
        let listed = world.run(&root, words).good().stdout;
        assert!(listed.contains("Two") && !listed.contains("One"), "{listed}");
    }
    world.run(&root, ["task", "reorder", "3", "1"]).good();
    let listed = world.run(&root, ["task", "ls"]).good().stdout;
    assert!(listed.find("Three") < listed.find("One"), "{listed}");
    let edits = &[("EDITOR", "sed -i s/One/First/")];
    assert_eq!(OnTerminal::start(&world, &root, &["task", "1"], edits).end().1, Some(0));
    assert!(world.run(&root, ["task", "ls"]).good().stdout.contains("First"));
    for (bad, told) in
        [(&["task", "one"][..], "unrecognized subcommand 'one'"), (&["task", "1", "2"], "no such command")]
    {
        assert!(world.run(&root, bad).code(2).stderr.contains(told), "{bad:?}");
    }
    let version = world.run(&root, ["version"]).good().stdout;
    for words in [&["-v"][..], &["--version"], &["v"]] {
        assert!(world.run(&root, words).good().stdout.starts_with("watchfire "), "{version}");
    }
    for words in [&["gen", "def", "--help"][..], &["agent", "gen", "tasks", "--help"]] {
        world.run(&root, words).good();
    }
}

#[test]
fn the_definition_is_printed_replaced_and_edited() {
    let world = World::new();
    let root = world.project("shop", "");
    let printed = || world.run(&root, ["def"]).good().stdout;
    world.run(&root, ["definition", "--set", "- a web shop"]).good();
    assert_eq!(printed(), "- a web shop\n");
    fs::write(root.join("about.md"), "# Shop\n").unwrap();
    world.run(&root, ["definition", "--file", "about.md"]).good();
    assert_eq!(printed(), "# Shop\n");
    let edits = &[("EDITOR", "sed -i s/Shop/Market/")];
    let (painted, code) = OnTerminal::start(&world, &root, &["def"], edits).end();
    assert_eq!((code, printed().as_str()), (Some(0), "# Market\n"), "{painted}");
    let (painted, _) = OnTerminal::start(&world, &root, &["def"], &[("EDITOR", "true")]).end();
    assert!(painted.contains("nothing is changed"), "{painted}");
    let (_, code) = OnTerminal::start(&world, &root, &["def"], &[("EDITOR", "false")]).end();
    assert_eq!((code, printed().as_str()), (Some(1), "# Market\n"));
}

#[test]
fn what_no_task_could_run_with_is_one_error_before_anything_is_claimed() {
    let world = World::new();
    let root = world.project("project", "default_agent: scripted");
    for title in ["one", "two"] {
        world.run(&root, ["task", "add", "--title", title, "--prompt", "done", "--ready"]).good();
    }
    let project = root.join(".watchfire/project.yaml");
    let plain = fs::read_to_string(&project).unwrap();
    let settings = world.path("watchfire-home/settings.yaml");
    let last = u64::try_from(plain.lines().count()).unwrap() + 1;
    for (project_line, own_lines, code, part, line) in [
        ("verify: ['no-such-program --all']", "", "program_missing", "no-such-program", last),
        ("setup: ['no-such-program']", "", "program_missing", "setup", last),
        ("", "agents: {scripted: {transport: pigeon}}\n", "invalid_input", "agents.scripted.transport", 2),
        (
            "",
            "agents:\n  scripted:\n    model: m\n    script: /nonexistent\n",
            "not_found",
            "agents.scripted.script",
            5,
        ),
    ] {
        fs::write(&project, format!("{plain}{project_line}\n")).unwrap();
        fs::write(&settings, format!("version: 1\n{own_lines}")).unwrap();
        let error = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).code(1).json_error();
        assert_eq!(error["code"], code, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error["details"]["line"], line.to_string(), "{error}");
        assert!(error["details"]["file"].is_string(), "{error}");
        assert!(world.run(&root, ["logs", "--json"]).good().json()["logs"].as_array().unwrap().is_empty());
    }
    let states = world.states(&root);
    assert!(states.iter().all(|(_, state)| state == "ready"), "{states:?}");
}
