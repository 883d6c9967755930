//! What is printed where.

mod support;

use std::process::Stdio;

use support::{World, until};

#[test]
fn help_is_shown() {
    let world = World::new();
    let at = world.empty("x");
    world.run(&at, ["task", "add", "--help"]).good().stdout.find("Examples:").unwrap();
    let of_agents = world.run(&at, ["agent", "generate", "--help"]).good().stdout;
    assert!(of_agents.contains("  watchfire agent generate tasks "), "{of_agents}");
    // Without a command it is the terminal interface, which says what to do where there is no terminal.
    let said = world.run(&at, [] as [&str; 0]).code(2).stderr;
    assert!(said.contains("needs a terminal") && said.contains("watchfire --help"), "{said}");
}

/// In a pipe, too: a terminal is likely to be at its other end.
#[test]
fn help_is_as_wide_as_it_is_told() {
    let world = World::new();
    let at = world.empty("x");
    let widest = |columns: &str| {
        let output = world.command(&at, ["run", "--help"]).env("COLUMNS", columns).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        help.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!((61..=80).contains(&widest("80")) && (81..=100).contains(&widest("300")));
}

/// A shell asks by a variable. It gets tasks with their titles, and nothing is made meanwhile.
#[test]
fn shells_complete_tasks_and_agents() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Sign in", "done");
    world.task(&root, "Sign out", "done");
    let asked = |words: &[&str]| {
        let words = [&["--", "watchfire"][..], words].concat();
        let output = world.command(&root, words).env("WATCHFIRE_COMPLETE", "fish").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for words in [
        &["run", ""][..],
        &["task", "show", ""],
        &["send-back", ""],
        &["branches", "merge", ""],
        &["watch", ""],
        &["wait", ""],
    ] {
        assert!(asked(words).contains("1\tSign in\n2\tSign out\n"), "{words:?}: {}", asked(words));
    }
    world.run(&root, ["task", "edit", "1", "--labels", "shop,urgent"]).good();
    world.run(&root, ["task", "edit", "2", "--labels", "shop"]).good();
    for words in [
        &["run", "--label", ""][..],
        &["task", "list", "--label", ""],
        &["task", "edit", "1", "--labels", ""],
    ] {
        assert_eq!(asked(words), "shop\nurgent\n", "{words:?}");
    }
    let shells = asked(&["completions", ""]);
    assert!(shells.contains("bash\n") && shells.contains("nushell\n"), "{shells}");
    assert!(asked(&["prompts", ""]).contains("scope_rules\n"));
    let sandboxes = asked(&["run", "1", "--sandbox", ""]);
    let own = if cfg!(target_os = "macos") { "seatbelt" } else { "landlock" };
    assert!(["auto", "none", own].iter().all(|name| sandboxes.lines().any(|it| it == *name)));
    assert!(asked(&["run", ""]).contains("\nall\tAll ready tasks\n"));
    // Of a command and its aliases the name is offered.
    let commands = asked(&[""]);
    for (name, alias) in [("sessions", "ps"), ("definition", "def"), ("generate", "gen"), ("version", "v")] {
        let begins = |name: &str| commands.lines().any(|line| line.starts_with(&format!("{name}\t")));
        assert!(begins(name) && !begins(alias), "{commands}");
    }
    assert!(asked(&["gen", ""]).contains("tasks\n") && asked(&["ps"]).starts_with("ps\t"));
    world.run(&root, ["task", "delete", "2"]).good();
    for words in [&["task", "restore", ""][..], &["task", "purge", ""]] {
        assert!(asked(words).starts_with("2\tSign out\n"), "{words:?}: {}", asked(words));
    }
    assert!(!asked(&["run", ""]).contains("Sign out"));
    world.run(&root, ["task", "restore", "2"]).good();
    assert!(asked(&["settings", ""]).lines().any(|line| line == "merge.strategy"));
    assert!(asked(&["settings", "--global", ""]).contains("defaults.auto_merge\t"));
    for (words, expected) in [
        (&["default_agent", ""][..], "scripted"),
        (&["--global", "defaults.default_agent", ""], "codex"),
        (&["default_branch", ""], "main"),
        (&["sandbox", ""], "auto"),
        (&["auto_merge", ""], "false"),
        (&["on_limit", ""], "wait"),
        (&["merge.strategy", ""], "squash"),
    ] {
        let values = asked(&[&["settings"], words].concat());
        assert!(values.lines().any(|it| it == expected), "{words:?}: {values}");
    }
    assert!(!asked(&["settings", "name", ""]).contains("scripted"));
    assert!(asked(&["task", "list", "--status", ""]).contains("draft\nready\ndone\n"));
    assert!(asked(&["run", "--agent", ""]).lines().any(|line| line == "scripted"));
    assert!(asked(&["branches", "merge", "1", "--into", ""]).lines().any(|line| line == "main"));
    let other = world.project("other", "");
    let other = other.to_str().unwrap();
    assert!(!asked(&["-C", other, "run", ""]).contains("Sign"), "another project has other tasks");
    // A home that nobody has used stays empty.
    let unused = world.empty("unused");
    let mut command = world.command(&root, ["--", "watchfire", "run", "--agent", ""]);
    let output = command.env("WATCHFIRE_COMPLETE", "fish").env("WATCHFIRE_HOME", &unused).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().lines().any(|line| line == "scripted"));
    assert_eq!(std::fs::read_dir(unused).unwrap().count(), 0);
    assert!(asked(&["send"]).contains("send-back\t"));
    let mut command = world.command(&root, ["--", "watchfire", "run", ""]);
    let output = command.env("WATCHFIRE_COMPLETE", "nushell").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("1\tSign in\n"));
    world.git(&root, &["branch", "watchfire/0009"]);
    let into = asked(&["undo", "--into", ""]);
    assert!(into.contains("main") && !into.contains("watchfire/0009"), "{into}");
    for shell in ["bash", "zsh", "fish", "elvish", "nushell"] {
        let script = world.run(&root, ["completions", shell]).good().stdout;
        assert!(script.contains("WATCHFIRE_COMPLETE"), "{shell}: {script}");
        // The function that zsh calls at the first Tab is the one that the script defines.
        let calls = script.matches("_clap_dynamic_completer_watchfire").count();
        assert!(shell != "zsh" || calls == 3, "{script}");
        let value = world.run(&root, ["completions", shell, "--json"]).good().json();
        assert_eq!(value["script"], *script);
    }
    let unknown = world.run(&root, ["completions", "tcsh"]).code(2).stderr;
    assert!(unknown.contains("bash") && unknown.contains("nushell"), "{unknown}");
    world.run(&root, ["manual", "man"]).good();
    let page = std::fs::read_to_string(root.join("man/watchfire-send-back.1")).unwrap();
    assert!(page.contains("the dates must be UTC"), "{page}");
}

#[test]
fn costs_are_added_up() {
    let world = World::new();
    let root = world.project("project", "");
    assert_eq!(world.run(&root, ["costs"]).good().stdout, "no sessions yet\n");
    assert_eq!(world.run(&root, ["costs", "--json"]).good().json()["all"]["sessions"], 0);
    let project = std::fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    let id = project.lines().find_map(|line| line.strip_prefix("project_id: ")).unwrap().trim_matches('"');
    let logs = world.path("watchfire-home/logs").join(id);
    std::fs::create_dir_all(&logs).unwrap();
    let session = |name: &str, rest: &str| {
        let usage = r#""usage":{"input_tokens":900,"output_tokens":20}"#;
        let text = format!("{{\"schema\":1,{usage},{rest}}}");
        std::fs::write(logs.join(format!("{name}.spent.json")), text).unwrap();
    };
    let day = r#""at":"2026-02-03T12:00:00Z""#;
    session("0001-1-a", &format!(r#""task":1,"agent":"claude-code","cost":1234567,{day}"#));
    session("0001-2-b", &format!(r#""task":1,"agent":"codex","cost":2000000,{day}"#));
    session("0002-1-c", r#""task":2,"cost":null"#);
    std::fs::write(world.path("watchfire-home/settings.yaml"), "budget: {task: 5, day: 20.5}\n").unwrap();
    let said = world.run(&root, ["costs"]).good().stdout;
    assert_eq!(
        said,
        "#0001                $3.23 of $5.00      2 sessions, 1800 tokens in, 40 out\n\
         #0002                not known of $5.00  1 session, 900 tokens in, 20 out\n\
         this project         at least $3.23      3 sessions, 1 not known, 2700 tokens in, 60 out\n\
         today, all projects  $0.00 of $20.50     0 sessions\n"
    );
    let by_agent = world.run(&root, ["costs", "--by", "agent"]).good().stdout;
    assert!(by_agent.starts_with("claude-code          $1.23 "), "{by_agent}");
    let value = world.run(&root, ["costs", "--by", "day", "--json"]).good().json();
    assert_eq!(
        (&value["costs"][0]["of"], &value["costs"][0]["dollars"]),
        (&"2026-02-03".into(), &3.234567.into())
    );
    std::fs::write(world.path("watchfire-home/settings.yaml"), "budget: {task: -5}\n").unwrap();
    let said = world.run(&root, ["costs"]).code(1).stderr;
    assert!(said.contains("expected an amount of US dollars") && said.contains("settings.yaml"), "{said}");
}

#[test]
fn a_running_session_is_followed_by_another_process() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Talk", "say hello there\nwait ../../go\nsay and good bye\ndone\nexit 0");
    let mut run = world.start(&root, ["run", "1", "--no-sandbox"]);
    run.wait_for("#0001 Talk: running");
    let mut text = world.start(&root, ["logs", "1", "--follow"]);
    let mut lines = world.start(&root, ["logs", "1", "--follow", "--json"]);
    let mut cast = world.start(&root, ["logs", "1", "--follow", "--raw=3"]);
    for follower in [&mut text, &mut lines, &mut cast] {
        follower.wait_for("hello there");
    }
    let screen = world.run(&root, ["logs", "1", "--screen"]).good().stdout;
    assert_eq!(screen, "hello there\n", "the screen of an agent at work");
    std::fs::write(root.join(".watchfire/go"), "").unwrap();
    run.end().good();
    for follower in [text, lines] {
        assert!(follower.end().good().stdout.contains("and good bye"));
    }
    let cast = cast.end().good().stdout;
    let last: serde_json::Value = serde_json::from_str(cast.lines().last().unwrap()).unwrap();
    assert_eq!((&last[1], &last[2]), (&"x".into(), &"0".into()), "{cast}");
    // It has ended, so nothing is waited for.
    assert!(world.run(&root, ["logs", "1", "-f"]).good().stdout.starts_with("hello there\n"));
}

/// Also of one that has printed nothing yet.
#[test]
fn the_log_of_a_running_session_is_not_removed() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Ended", "done\nexit 0");
    world.task(&root, "Talk", "wait ../../go\ndone\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox"]).good();
    let mut run = world.start(&root, ["run", "2", "--no-sandbox"]);
    run.wait_for("#0002 Talk: running");
    for name in ["2", "0002-1"] {
        let refused = world.run(&root, ["logs", "delete", name]).code(1).stderr;
        assert!(refused.contains("the session of this log runs") && refused.contains("stop it"), "{refused}");
    }
    let said = world.run(&root, ["logs", "delete", "--all"]).good().stdout;
    assert_eq!(said, "removed 1 log, kept 1 log of running sessions\n");
    std::fs::write(root.join(".watchfire/go"), "").unwrap();
    run.end().good();
    assert_eq!(world.run(&root, ["logs", "delete", "2"]).good().stdout, "removed 1 log\n");
}

#[test]
fn what_an_agent_said_outlives_a_kill() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Talk", "say hello there\nhang");
    let run = world.start(&root, ["run", "1", "--no-sandbox"]);
    until("its log is there", || {
        world.run(&root, ["logs", "--json"]).json()["logs"].as_array().unwrap().len() == 1
    });
    let mut text = world.start(&root, ["logs", "1", "--follow"]);
    text.wait_for("hello there");
    run.signal("KILL");
    run.end().code(128 + 9);
    // The guardian ends the agent, and then the recording.
    text.end().good();
    let cast = world.run(&root, ["logs", "1", "--raw=3"]).good().stdout;
    assert!(cast.contains("hello there"), "{cast}");
    let last: serde_json::Value = serde_json::from_str(cast.lines().last().unwrap()).unwrap();
    assert_eq!(last[1], "x", "{cast}");
}

#[test]
fn logs_are_shown_and_removed() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Talk", "say hello there\ndone\nexit 0");
    world.run(&root, ["run", "1", "--no-sandbox"]).good();
    let listed = world.run(&root, ["logs", "--json"]).good().json();
    let log = &listed["logs"][0];
    assert_eq!(
        (&log["task"], &log["number"], &log["agent"]),
        (&1.into(), &1.into(), &"scripted".into()),
        "{log}"
    );
    assert!(log["ended_at"].is_string() && log["exit"].is_string(), "{log}");
    let shown = world.run(&root, ["logs", "1", "--text"]).good().stdout;
    assert!(shown.starts_with("task #0001, session 1\nscripted in none\nstarted 2"), "{shown}");
    assert!(shown.contains("hello there"), "{shown}");
    let said = world.run(&root, ["logs", "1"]).good().stdout;
    assert!(said.contains("\n\nAssistant\nhello there\n"), "{said}");
    for (flag, version) in [("--raw", 2), ("--raw=3", 3)] {
        let cast = world.run(&root, ["logs", "1", flag]).good().stdout;
        let lines: Vec<serde_json::Value> =
            cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["version"], version, "{cast}");
        let output: String = lines[1..].iter().map(|event| event[2].as_str().unwrap()).collect();
        assert!(output.contains("hello there\r"), "{cast}");
    }
    assert!(world.run(&root, ["logs", "delete"]).code(2).stderr.contains("N|NAME"));
    // By the beginning of a log's name, as the list shows it.
    assert_eq!(world.run(&root, ["logs", "0001-1"]).good().stdout, said);
    let path = std::path::Path::new(log["path"].as_str().unwrap());
    for number in [1, 2] {
        let chat =
            format!("---\nmode: chat\nstarted_at: 2026-02-03T14:3{number}:00Z\n---\n\nchat {number}\n");
        std::fs::write(path.with_file_name(format!("chat-{number}-x.log")), chat).unwrap();
    }
    // Nothing says how they ended; the first had, when the second began.
    let listed = world.run(&root, ["logs", "--json"]).good().json();
    let outcomes = listed["logs"].as_array().unwrap().iter().map(|log| log["outcome"].as_str());
    assert_eq!(outcomes.collect::<Vec<_>>(), [Some("completed"), None, Some("interrupted")]);
    let shown = world.run(&root, ["logs", "chat-1"]).good().stdout;
    assert!(shown.starts_with("chat, session 1\n") && shown.ends_with("\nchat 1\n"), "{shown}");
    assert!(world.run(&root, ["logs", "chat-3"]).code(1).stderr.contains("there is no such log"));
    for name in ["chat-1", "chat-2"] {
        assert_eq!(world.run(&root, ["logs", "delete", name]).good().stdout, "removed 1 log\n");
    }
    let task = || world.run(&root, ["task", "show", "1"]).good().stdout;
    assert!(task().contains("its log     watchfire logs 1\n"), "{}", task());
    assert_eq!(world.run(&root, ["logs", "delete", "1"]).good().stdout, "removed 1 log\n");
    assert!(!task().contains("its log"), "{}", task());
    assert_eq!(world.run(&root, ["logs"]).good().stdout, "no sessions yet\n");
    assert!(world.run(&root, ["logs", "delete", "1"]).code(1).stderr.contains("there is no such log"));
    assert!(world.run(&root, ["costs"]).good().stdout.contains("1 session"), "the sums stay");
    assert_eq!(world.run(&root, ["logs", "delete", "--all"]).good().stdout, "removed 0 logs\n");
}

/// The time between two sessions does not count.
#[test]
fn a_task_took_as_long_as_its_sessions() {
    let world = World::new();
    let root = world.project("project", "");
    world.task(&root, "Talk", "done");
    let file = root.join(".watchfire/tasks/0001.yaml");
    let text = std::fs::read_to_string(&file).unwrap().replace("status: \"ready\"", "status: \"done\"");
    let times = "started_at: \"2026-02-03T10:00:00Z\"\ncompleted_at: \"2026-02-03T15:00:00Z\"\n";
    std::fs::write(&file, format!("{text}{times}")).unwrap();
    let took = |time: &str| {
        let shown = world.run(&root, ["task", "show", "1"]).good().stdout;
        assert!(shown.contains(&format!("  took        {time}\n")), "{shown}");
    };
    took("5h 00m");
    let project = std::fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
    let id = project.lines().find_map(|line| line.strip_prefix("project_id: ")).unwrap().trim_matches('"');
    let logs = world.path("watchfire-home/logs").join(id);
    std::fs::create_dir_all(&logs).unwrap();
    for (number, from, to) in [(1, "10:00", "10:02"), (2, "14:59", "15:00")] {
        let log = format!("---\ntask_number: 1\nstarted_at: 2026-02-03T{from}:00Z\n---\n");
        std::fs::write(logs.join(format!("0001-{number}-x.log")), log).unwrap();
        let usage = r#""usage":{"input_tokens":1,"output_tokens":1}"#;
        let end = format!(r#""at":"2026-02-03T{to}:00Z","exit":"exit code 0""#);
        let spent = format!(r#"{{"schema":1,"task":1,{usage},{end}}}"#);
        std::fs::write(logs.join(format!("0001-{number}-x.spent.json")), spent).unwrap();
    }
    took("3m 00s");
}

#[test]
fn prompts_are_listed_and_replaced() {
    let world = World::new();
    let root = world.project("project", "");
    let shown = world.run(&root, ["prompts", "scope_rules"]).good().stdout;
    assert!(shown.contains("- The scope is what"), "{shown}");
    let folder = root.join(".watchfire/prompts");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("scope_rules.md"), "Only the board.\n").unwrap();
    std::fs::write(folder.join("anti_patterns.md"), "").unwrap();
    std::fs::write(folder.join("tests.md"), "x").unwrap();
    assert_eq!(world.run(&root, ["prompts", "scope_rules"]).good().stdout, "Only the board.\n");
    let listed = world.run(&root, ["prompts"]).good().stdout;
    for line in [
        "scope_rules           .watchfire/prompts/scope_rules.md\n",
        "anti_patterns         left out by .watchfire/prompts/anti_patterns.md\n",
        "test_integrity        built in\n",
        ".watchfire/prompts/tests.md changes nothing: there is no section of that name\n",
    ] {
        assert!(listed.contains(line), "{line}{listed}");
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.join("test_integrity.md")).unwrap();
    let listed = world.run(&root, ["prompts"]).good().stdout;
    assert!(
        listed.contains(".watchfire/prompts/test_integrity.md is ignored: ") && !listed.contains("root:"),
        "{listed}"
    );
    let looked = world.run(&root, ["doctor"]).stdout;
    assert!(looked.contains("prompts/test_integrity.md  ignored: "), "{looked}");
    let said = world.run(&root, ["prompts", "tests"]).code(2).stderr;
    assert!(said.contains("there is no such section"), "{said}");
}

#[test]
fn doctor_says_what_there_is() {
    let world = World::new();
    let at = world.empty("x");
    let said = world.run(&at, ["doctor", "--json"]);
    let report = said.json();
    assert_eq!(report["schema"], 1);
    assert!(report["git"]["version"].as_str().unwrap().starts_with('2'));
    let agents = report["agents"].as_array().unwrap();
    assert!(agents.iter().any(|agent| agent["name"] == "scripted" && agent["available"] == true));
    assert!(report["sandboxes"].as_array().unwrap().iter().any(|sandbox| sandbox["sandbox"] == "none"));
    assert!(report["disk"]["fdatasync_ms"].as_f64().unwrap() > 0.0);
    let text = world.run(&at, ["doctor"]);
    assert!(text.stdout.contains("auto_merge") && text.stdout.contains("(default)"), "{}", text.stdout);
    assert!(!text.stdout.contains('\x1b'));

    // A program that is never started.
    let config = std::path::Path::new("settings.yaml");
    let program = world.path("claude");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let claude = r#"{"mcpServers":{"github":{"command":"sh","env":{"GITHUB_TOKEN":"abc"}}}}"#;
    std::fs::write(world.path("home/.claude.json"), claude).unwrap();
    let agent = format!("agents: {{claude-code: {{path: {}}}}}\n", program.display());
    std::fs::write(world.path("watchfire-home").join(config), agent).unwrap();
    let text = world.run(&at, ["doctor"]).stdout;
    assert!(text.contains(r#"agents: {claude-code: {carry: ["mcp:github"]}}"#), "{text}");

    let root = world.project("project", "sandbox: landlock\nmax_parallel: 3");
    std::fs::write(world.path("watchfire-home/settings.yaml"), "defaults: {default_agent: scripted}\n")
        .unwrap();
    let text = world.run(&root, ["doctor"]).stdout;
    for setting in ["scripted  (settings.yaml)", "landlock  (project.yaml)", "3  (project.yaml)"] {
        assert!(text.contains(setting), "{setting}: {text}");
    }
    std::fs::write(world.path("watchfire-home/settings.yaml"), "agnts: {}\n").unwrap();
    let text = world.run(&root, ["doctor"]).stdout;
    assert!(text.contains("did you mean `agents`?"), "{text}");
    std::fs::write(world.path("watchfire-home/settings.yaml"), "defaults: [\n").unwrap();
    assert!(world.run(&root, ["doctor"]).code(3).stdout.contains("settings.yaml"));
}

/// A reader that goes away is no error.
#[test]
fn a_closed_pipe() {
    let world = World::new();
    let root = world.project("project", "");
    let mut child = world.command(&root, ["task", "list"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stderr, b"");
}

/// Output that cannot be written is an error; a text may begin with a dash, and a title needs no flag.
#[test]
fn a_full_disk_and_dashes() {
    let world = World::new();
    let root = world.project("project", "");
    world.run(&root, ["task", "add", "T", "--prompt", "- one\n- two", "--criteria", "- it works"]).good();
    world.run(&root, ["task", "add", "--title", "- A"]).good();
    world.run(&root, ["task", "edit", "1", "--title", "- Z"]).good();
    let listed = world.run(&root, ["task", "list"]).good().stdout;
    assert!(listed.contains("- A") && listed.contains("- Z"), "{listed}");
    let texts = ["--definition", "- x", "--setup", "-x", "--verify", "-x"];
    world.run(&world.repo("other"), ["init", "--yes"].iter().chain(&texts)).good();
    let twice = world.run(&root, ["task", "add", "T", "--title", "U"]);
    twice.code(2);
    for words in [&["task", "list"][..], &["--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let child = world.command(&root, words).stdout(full).spawn().unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{words:?}");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(told.contains("writing the output") && told.contains("No space left"), "{told}");
    }
}

/// What is in files cannot paint or move on the terminal.
#[test]
fn titles_are_made_safe() {
    let world = World::new();
    let root = world.project("project", "");
    world
        .run(&root, ["task", "add", "--title", "a\u{1b}[31mb\u{7}\u{202e}c", "--prompt", "x\u{1b}]0;t\u{7}y"])
        .good();
    for command in [&["task", "list"][..], &["task", "show", "1"]] {
        let said = world.run(&root, command).good().stdout;
        assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said:?}");
    }
}
