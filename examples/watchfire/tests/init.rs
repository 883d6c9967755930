//! What `init` asks, says and refuses.

mod support;

use std::fs;
use std::io::Write as _;

use support::World;
use support::on_terminal::OnTerminal;

#[test]
fn the_home_folder_is_no_project_by_accident() {
    let world = World::new();
    for (at, what) in
        [(world.home.as_path(), "your home folder"), ("/".as_ref(), "the root of the file system")]
    {
        let error = world.run(at, ["init", "--yes", "--json"]).code(1).json_error();
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("--force"), "{error}");
    }
    assert!(!world.home.join(".git").exists() && !world.home.join(".watchfire").exists());
    world.run(&world.home, ["init", "--yes", "--force"]).good();
    assert!(world.home.join(".watchfire/project.yaml").exists());
}

#[test]
fn what_will_surprise_is_said() {
    let world = World::new();
    let root = world.repo("project");
    fs::write(root.join("a.txt"), "changed\n").unwrap();
    fs::write(root.join("new.txt"), "new\n").unwrap();
    world.git(&root, &["checkout", "-q", "--detach"]);
    fs::create_dir_all(world.path("watchfire-home")).unwrap();
    fs::write(world.path("watchfire-home/settings.yaml"), "version: 1\nagnts: {}\n").unwrap();
    let said = world.run(&root, ["init", "--yes", "--agent", "codex"]).good().stdout;
    for part in [
        "not committed, so not seen by agents: a.txt, new.txt",
        "HEAD is detached",
        "did you mean `agents`?",
        "agent: program not found: npm install -g @openai/codex",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let root = world.repo("elsewhere");
    let said = world.run(&root, ["init", "--yes", "--default-branch", "nope"]).good().stdout;
    assert!(said.contains("default branch: there is no such branch to work on: nope\n"), "{said}");
    let root = world.repo("quiet");
    fs::write(world.path("watchfire-home/settings.yaml"), "version: 1\n").unwrap();
    let report = world.run(&root, ["init", "--yes", "--agent", "scripted", "--json"]).good().json();
    assert_eq!(report["cautions"], serde_json::json!([]), "{report}");
}

#[test]
fn the_folder_of_an_agent_is_no_project() {
    let world = World::new();
    let root = world.project("project", "");
    world.git(&root, &["worktree", "add", "-q", ".watchfire/worktrees/0002", "-b", "watchfire/0002"]);
    let folder = root.join(".watchfire/worktrees/0002");
    let error = world.run(&folder, ["init", "--yes", "--json"]).code(1).json_error();
    assert!(error["message"].as_str().unwrap().contains("the folder of an agent"), "{error}");
    assert!(!folder.join(".watchfire").exists());
}

#[test]
fn an_existing_project_changes_only_by_name() {
    let world = World::new();
    let root = world.project("project", "");
    let file = || fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    let before = file();
    let said = world.run(&root, ["init", "--yes"]).good().stdout;
    assert!(said.contains("left its settings as they are"), "{said}");
    assert_eq!(file(), before);
    let said = world.run(&root, ["init", "--yes", "--verify", "make test", "--no-auto-merge"]).good().stdout;
    assert!(said.contains("changed verify, auto_merge"), "{said}");
    let more = ["--verify", "make test", "--no-auto-merge", "--max-parallel", "3", "--agent", "scripted"];
    let again = || world.run(&root, ["init", "--yes"].iter().chain(&more)).good().stdout;
    assert!(again().contains("changed default_agent, max_parallel\n"));
    let before = file();
    let said = again();
    assert!(said.contains("left its settings as they are") && file() == before, "{said}");
    let said = world.run(&root, ["init", "--yes", "--share", "target", "--copy", ".env.test"]).good().stdout;
    for args in [["--share", "../x"], ["--copy", "/etc/passwd"]] {
        let error = world.run(&root, ["init", "--yes", "--json"].iter().chain(&args)).code(1).json_error();
        assert_eq!(
            (&error["code"], &error["details"]["field"]),
            (&"invalid_input".into(), &args[0][2..].into())
        );
        let fresh = world.repo(&args[0][2..]);
        world.run(&fresh, ["init", "--yes"].iter().chain(&args)).code(1);
        assert!(!fresh.join(".watchfire/project.yaml").exists());
    }
    assert!(said.contains("changed share, copy") && file().contains(".env.test"), "{said}{}", file());
    assert!(file().contains("make test") && file().contains("auto_merge: false"), "{}", file());
    let before = file();
    let error = world.run(&root, ["init", "--yes", "--agent", "nonsense", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "unknown_backend");
    world.run(&root, ["init", "--yes", "--max-parallel", "0"]).code(2);
    assert_eq!(file(), before);
}

#[test]
fn what_matters_is_asked() {
    let world = World::new();
    let root = world.repo("shop");
    fs::write(root.join("Cargo.toml"), "[package]\n").unwrap();
    let mut asked = OnTerminal::start(&world, &root, &["init"], &[]);
    for (question, answer) in [
        ("Project name [shop]: ", ""),
        ("Project definition", ""),
        ("Agent (here: ", "nonsense"),
        ("error:\x1b[0m unknown agent", "scripted"),
        ("Command that merged work must pass (optional, or - for none) [cargo test]: ", ""),
        ("Auto-merge", ""),
        ("Auto-delete", ""),
        ("Auto-start", ""),
        ("Default branch", ""),
    ] {
        asked.wait_for(question);
        asked.keys.write_all(format!("{answer}\r").as_bytes()).unwrap();
    }
    let (painted, code) = asked.end();
    assert_eq!(code, Some(0), "{painted}");
    let file = fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    assert!(file.contains("cargo test") && file.contains("default_agent: \"scripted\""), "{file}");
}

/// `doctor` names in advance what `run` would refuse.
#[test]
fn doctor_fails_where_no_task_could_run() {
    let world = World::new();
    let root = world.project("project", "default_agent: scripted");
    let report = world.run(&root, ["doctor", "--json"]).json();
    let good = report["good"] == true;
    let fails = |line: &str, part: &str| {
        let path = root.join(".watchfire/project.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let key = line.split(':').next().unwrap();
        let rest: String =
            text.lines().filter(|it| !it.starts_with(key)).map(|it| format!("{it}\n")).collect();
        fs::write(&path, format!("{rest}{line}\n")).unwrap();
        let said = world.run(&root, ["doctor"]).code(3).stdout;
        assert!(said.contains(part), "{part}: {said}");
        fs::write(&path, text).unwrap();
    };
    fails("default_agent: codex", "✗ agent");
    fails("default_agent: nonsense", "unknown agent");
    fails("default_branch: nope", "there is no such branch");
    fails("max_parallel: 0", "max_parallel: expected a whole number from 1 on, found 0");
    fails("verify: ['# later']", "verify: a command that does nothing, found \"# later\"");
    fails("share: [../up]", "not a path below the project's root, found \"../up\"");
    fails("sandbox_rules: {deny: [secrets]}", "expected a path from / or ~");
    fails("wildfire: {refine: {agent: nonsense}}", "✗ wildfire");
    fails("max_parallel: many", "✗ project.yaml");
    fails("time_limit: forever", "✗ project.yaml  time_limit: invalid duration");
    fails("verify: ['no-such-program --all']", "not installed: no-such-program");
    fails("setup: ['no-such-program']", "✗ setup");
    let last = fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap().lines().count() + 1;
    fails("verfy: ['false']", &format!("did you mean `verify`? (line {last})"));
    world.run(&root, ["task", "add", "--title", "Other", "--ready", "--agent", "codex"]).good();
    let said = world.run(&root, ["doctor"]).code(3).stdout;
    assert!(said.contains("wanted by #0001"), "{said}");
    world.run(&root, ["task", "rm", "1"]).good();
    // No run takes a draft, but its person may have misspelt the name.
    world.run(&root, ["task", "add", "--title", "Later"]).good();
    let file = root.join(".watchfire/tasks/0002.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}agent: codxe\n")).unwrap();
    let said = world.run(&root, ["doctor"]).stdout;
    assert!(said.contains("· codxe") && said.contains("wanted by #0002 (a draft)"), "{said}");
    let listed = world.run(&root, ["task", "list"]).good().stdout;
    assert!(listed.contains("there is no agent codxe"), "{listed}");
    world.run(&root, ["task", "rm", "2"]).good();
    // Only where the machine itself is sound.
    assert_eq!(world.run(&root, ["doctor"]).code, Some(if good { 0 } else { 3 }));
}

#[test]
fn editors_get_a_schema() {
    let world = World::new();
    let at = world.empty("x");
    for (file, key) in [("settings", "agents"), ("project", "verify"), ("task", "depends_on")] {
        let schema = world.run(&at, ["schema", file]).good().json();
        assert!(schema["properties"][key]["description"].is_string(), "{schema}");
    }
    let wrapped = world.run(&at, ["schema", "task", "--json"]).good().json();
    assert_eq!(wrapped["json_schema"]["properties"]["status"]["enum"][0], "draft");

    // What somebody's repository has put at its place is not followed.
    let (root, trap) = (world.repo("project"), world.path("trap"));
    fs::write(&trap, "mine").unwrap();
    fs::create_dir(root.join(".watchfire")).unwrap();
    let beside = root.join(".watchfire/project.schema.json");
    std::os::unix::fs::symlink(&trap, &beside).unwrap();
    world.run(&root, ["init", "--yes"]).good();
    let yaml = fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    assert!(yaml.starts_with("# yaml-language-server: $schema=project.schema.json\nversion: 1\n"), "{yaml}");
    assert_eq!(fs::read_to_string(&beside).unwrap(), world.run(&at, ["schema", "project"]).good().stdout);
    assert_eq!(fs::read_to_string(&trap).unwrap(), "mine");
    // A project that does not name it gets none.
    fs::remove_file(&beside).unwrap();
    fs::write(root.join(".watchfire/project.yaml"), yaml.split_once('\n').unwrap().1).unwrap();
    world.run(&root, ["init", "--yes"]).good();
    assert!(!beside.exists());
}

#[test]
fn without_git_nothing_is_asked() {
    let world = World::new();
    let at = world.empty("x");
    let said = world.start_with(&at, ["init"], &[("PATH", world.home.to_str().unwrap())]).end().code(1);
    assert!(said.stderr.contains("Git is required. Install git and try again."), "{}", said.stderr);
    assert!(fs::read_dir(&at).unwrap().next().is_none());
}

/// After `git clean -fdx`, the branches of the tasks are still there. A new task must not go on with one of them.
#[test]
fn a_project_whose_files_are_gone_is_restored_or_begun_anew() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Kept back", "write a 1\ncommit a\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-merge", "--no-sandbox"]).good();
    let kept = world.git(&root, &["rev-parse", "watchfire/0001"]);
    world.run(&root, ["backup"]).good();
    world.git(&root, &["clean", "-fdxq"]);
    fs::remove_dir_all(root.join(".watchfire")).unwrap_or_default();

    let refused = world.run(&root, ["init", "--yes", "--json"]).code(1).json_error();
    assert_eq!(refused["code"], "already_exists", "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("watchfire restore"), "{refused}");
    assert!(!root.join(".watchfire/project.yaml").exists());
    world.run(&root, ["restore"]).good();
    assert_eq!(world.states(&root).len(), 1);

    fs::remove_dir_all(root.join(".watchfire")).unwrap();
    world.run(&root, ["init", "--yes", "--fresh"]).good();
    world.task(&root, "Other", "write b 1\ncommit b\ndone\nexit 0");
    assert_eq!(world.states(&root)[0].0, 2);
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert!(root.join("b").exists() && !root.join("a").exists(), "only its own work is merged");
    assert_eq!(world.git(&root, &["rev-parse", "watchfire/0001"]), kept);
}
