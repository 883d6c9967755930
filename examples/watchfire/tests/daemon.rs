//! The command line with the daemon: it is started, shown and ended, and its agents are started, attached to and stopped.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::termios::{Winsize, tcsetwinsize};
use support::on_terminal::OnTerminal;
use support::with_daemon::WithDaemon;
use support::{World, until};

#[test]
fn it_is_started_shown_and_ended() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let none = world.run(&root, ["daemon", "status", "--json"]).code(1).json_error();
    assert_eq!((&none["code"], none["hint"].is_string()), (&"app_not_running".into(), true));
    let started = with.started(&root);
    assert_eq!((&started["running"], &started["host"]), (&true.into(), &"127.0.0.1".into()));
    // A second start changes nothing.
    assert_eq!(with.started(&root)["pid"], started["pid"]);
    let shown = world.run(&root, ["daemon", "status"]).good().stdout;
    assert!(shown.starts_with("the daemon runs: 127.0.0.1:"), "{shown}");
    assert!(shown.ends_with("no agents at work\n"), "{shown}");

    // The project is the daemon's: another program that would run it says so, and what to do.
    world.task(&root, "Work", "write n 1\ncommit n\ndone");
    until("the daemon has the project", || {
        world.run(&root, ["daemon", "status", "--json"]).json()["projects"] == 1
    });
    let locked = world.run(&root, ["run", "1", "--embedded", "--json"]).code(1).json_error();
    assert_eq!(locked["code"], "locked");
    assert!(locked["hint"].as_str().unwrap().contains("without --embedded"), "{locked}");

    let stopped = world.run(&root, ["daemon", "stop", "--json"]).good().json();
    assert_eq!((stopped["stopped"].as_bool(), stopped["agents_left"].as_u64()), (Some(true), Some(0)));
    world.run(&root, ["daemon", "stop"]).code(1);
    world.run(&root, ["run", "1", "--no-wait"]).good();
}

#[cfg(target_os = "linux")]
#[test]
fn a_unit_is_written_for_this_home() {
    let world = World::new();
    let (at, config) = (world.empty("x"), world.empty("con fig"));
    let config = ("XDG_CONFIG_HOME", config.to_str().unwrap());
    let said = world.start_with(&at, ["daemon", "install"], &[config]).end().good().stdout;
    assert!(said.contains("systemctl --user enable --now watchfire"), "{said}");
    let unit = fs::read_to_string(world.path("con fig/systemd/user/watchfire.service")).unwrap();
    let home = format!("Environment=\"WATCHFIRE_HOME={}\"", world.path("watchfire-home").display());
    assert!(unit.contains(&home) && unit.contains("KillMode=process"), "{unit}");
    assert_eq!(world.run(&at, ["daemon", "install", "--print"]).good().stdout, unit);
    assert_eq!(world.run(&at, ["daemon", "install", "--print", "--json"]).good().json()["text"], *unit);
    // A text for another program has every character in any locale.
    let other = [("LC_ALL", "C"), ("WATCHFIRE_HOME", "/grüße")];
    let printed = world.start_with(&at, ["daemon", "install", "--print"], &other).end().good().stdout;
    assert!(printed.contains("WATCHFIRE_HOME=/grüße\""), "{printed}");
    world.start_with(&at, ["daemon", "install", "--remove"], &[config]).end().good();
    assert!(!world.path("con fig/systemd/user/watchfire.service").exists());
}

/// `run` and its like go to the daemon where one runs, and are the same from the outside.
#[test]
fn runs_go_to_the_daemon() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "Works", "write n 1\ncommit n\ndone");
    world.task(&root, "Fails", "fail no way");
    world.task(&root, "Asks", "question port Which port?\nanswer port p\ncommit p\ndone");
    world.task(&root, "Elsewhere", "write m 1\ncommit m\ndone");
    with.started(&root);
    let pid = with.started(&root)["pid"].clone();
    let said = world.run(&root, ["run", "1"]).good().stdout;
    assert!(said.contains("#0001 Works: merged into") && said.ends_with("1 merged\n"), "{said}");
    let failed = world.run(&root, ["run", "2", "--json"]).code(3).stdout;
    let summary: serde_json::Value = serde_json::from_str(failed.lines().last().unwrap()).unwrap();
    assert_eq!(summary["endings"][0]["reason"], "no way", "{failed}");
    // Only what it is about: the first task's life is in the same log.
    assert!(failed.lines().all(|line| !line.contains("\"task\":1,")), "{failed}");
    let asked = world.run(&root, ["run", "3"]).code(3).stdout;
    assert!(asked.contains("asks: Which port?"), "{asked}");
    world.run(&root, ["answer", "3", "8080"]).good();
    until("it is merged", || world.states(&root)[2].1 == "merged");
    // What no call of the API may do, a person may in a program of their own.
    let way = "watchfire daemon stop --agents, then watchfire";
    let commands = ["run 4", "wildfire", "generate tasks"].map(|words| (words, words));
    for (command, typed) in commands.into_iter().chain([("send-back 4 again", "send-back 4 TEXT")]) {
        let args = command.split(' ').chain(["--no-sandbox", "--json"]);
        let refused = world.run(&root, args).code(1).json_error();
        assert_eq!(refused["code"], "permission_denied");
        assert_eq!(refused["hint"], format!("{way} {typed} --embedded --no-sandbox"), "{command:?}");
    }
    world.run(&root, ["run", "4", "--no-merge"]).good();
    let merged = world.run(&root, ["branches", "merge", "4"]).good().stdout;
    assert!(merged.contains("#0004 merged"), "{merged}");
    // Once more, when its branch is gone.
    let merged = world.run(&root, ["branches", "merge", "4"]).good().stdout;
    assert!(merged.contains("#0004 merged"), "{merged}");
    world.run(&root, ["branches", "delete", "2", "--discard"]).good();
    world.run(&root, ["branches", "prune"]).good();
    assert_eq!(with.started(&root)["pid"], pid);
}

/// A run outlives the daemon that carries it, and its terminal shows the rest.
#[test]
fn a_run_goes_on_with_the_next_daemon() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    world.task(&root, "Waits", &format!("{waits}\nwrite n 1\ncommit n\ndone"));
    with.started(&root);
    let run = world.command(&root, ["run", "1"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("it runs", || with.is_running(&root, 1));
    with.kill(&root);
    until("another one runs", || world.run(&root, ["daemon", "start"]).code == Some(0));
    fs::write(go, "").unwrap();
    let ended = run.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && said.contains("#0001 Waits: merged into"), "{said}");
}

/// A task whose turn is not yet says so: other terminals may have agents at work.
#[test]
fn a_run_that_waits_for_its_turn_says_so() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "Long", "hang");
    world.task(&root, "Short", "write n 1\ncommit n\ndone");
    with.started(&root);
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let mut run = world.command(&root, ["run", "2"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(run.stdout.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "#0002 waits for its turn: other agents work on this project");
    world.run(&root, ["agent", "stop"]).good();
    assert_eq!(run.wait().unwrap().code(), Some(3));
}

/// It was taken over with its session, and goes on.
#[test]
fn a_task_that_is_resumed_does_not_wait_for_itself() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    world.task(&root, "Long", &format!("issue usage_limit \"limit\"\n{waits}\nwrite n 1\ncommit n\ndone"));
    with.started(&root);
    world.run(&root, ["agent", "start", "1"]).good();
    until("it waits for its limit", || world.states(&root)[0].1 == "limited");
    let agents = world.path("watchfire-home/agents.yaml");
    until("its file says so", || fs::read_to_string(&agents).is_ok_and(|text| text.contains("Long")));
    with.kill(&root);
    let left = world.run(&root, ["daemon", "status", "--json"]).code(1).json_error();
    assert_eq!(
        (&left["code"], &left["details"]["left"]),
        (&"app_not_running".into(), &"shop #0001 Long".into())
    );
    until("another one runs", || world.run(&root, ["daemon", "start"]).code == Some(0));
    let run = world.command(&root, ["resume", "1"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("it goes on", || world.states(&root)[0].1 == "running");
    // Longer than a run keeps silent about its turn.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    fs::write(go, "").unwrap();
    let said = String::from_utf8(run.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("merged") && !said.contains("waits for its turn"), "{said}");
}

/// An agent gets what its own terminal has, and not what the daemon's had; no file of the home gets any of it.
#[test]
fn an_agent_gets_the_variables_of_its_terminal() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let home = world.path("watchfire-home");
    let settings = fs::read_to_string(home.join("settings.yaml")).unwrap()
        + "sandbox:\n  pass_env: [SHOP_KEY]\nagents:\n  ours:\n    path: our-agent\n";
    fs::write(home.join("settings.yaml"), settings).unwrap();
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    let shows = "run printenv SHOP_KEY HOME OTHER_KEY > got; true\ncommit got\ndone";
    world.task(&root, "Shows", shows);
    world.task(&root, "Waits", &format!("{waits}\ndone"));
    world.task(&root, "Later", shows);
    let start = |key| world.start_with(&root, ["daemon", "start"], &[("SHOP_KEY", key)]).end().good();
    start("of the daemon");
    let key = ("SHOP_KEY", "secret-4711");
    world.start_with(&root, ["run", "1"], &[key, ("OTHER_KEY", "x"), ("HOME", "/elsewhere")]).end().good();
    let got = world.git(&root, &["show", "main:got"]);
    assert_eq!(got, format!("secret-4711\n{}\n", world.path("home").display()));

    // Its program is found where this terminal has it.
    let tools = world.empty("tools");
    let program = tools.join("our-agent");
    fs::write(&program, "#!/bin/sh\necho \"$SHOP_KEY\" > got\nsed -i 's/^status:.*/status: done/' \"$WATCHFIRE_TASK_FILE\"\necho 'success: true' >> \"$WATCHFIRE_TASK_FILE\"\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    world.task(&root, "Ours", "anything");
    let missing = world.run(&root, ["run", "4", "--agent", "ours", "--json"]).code(1).json_error();
    assert_eq!(missing["code"], "program_missing", "{missing}");
    let found = world.start_with(&root, ["run", "4", "--agent", "ours"], &[("PATH", &path), key]).end();
    assert!(found.stdout.contains("#0004 Ours: merged"), "{}{}", found.stdout, found.stderr);
    let mut secrets = Vec::new();
    finds(&home, b"secret-4711", &mut secrets);
    assert_eq!(secrets, Vec::<PathBuf>::new());

    // They go with the daemon that they were given to, and that is told: the third task begins after it.
    let run = world.start_with(&root, ["run", "all"], &[key]);
    until("it runs", || with.is_running(&root, 2));
    with.kill(&root);
    start("of the next daemon");
    fs::write(go, "").unwrap();
    let said = run.end().stdout;
    assert!(said.contains("#0003 the variables of the program that asked for it are gone"), "{said}");
    assert!(world.git(&root, &["show", "main:got"]).starts_with("of the next daemon\n"));

    // Who answers brings them again.
    world.task(&root, "Asks", "run printenv SHOP_KEY >> asked\ncommit asked\nquestions Which port?\nexit 0");
    world.start_with(&root, ["run", "5"], &[key]).end().code(3);
    world.start_with(&root, ["answer", "5", "8080"], &[("SHOP_KEY", "another")]).end().good();
    until("the next attempt has them", || {
        let shown = world.command(&root, ["diff", "5"]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().contains("+secret-4711\n+another\n")
    });
}

/// Work whose secrets went with a daemon does not start without them, and says which: a resume from where they are set goes on.
#[test]
fn secrets_that_went_with_a_daemon_are_missed() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let settings = world.path("watchfire-home").join("settings.yaml");
    let text = fs::read_to_string(&settings).unwrap() + "sandbox:\n  pass_env: [SHOP_KEY]\n";
    fs::write(&settings, text).unwrap();
    let go = world.path("go");
    world.task(
        &root,
        "Waits",
        &format!("run until test -e '{}'; do sleep 0.02; done\nwrite a a\ncommit a\ndone", go.display()),
    );
    world.task(&root, "Later", "run printenv SHOP_KEY > got\ncommit got\ndone");
    world.task(&root, "Third", "run printenv SHOP_KEY > third\ncommit third\ndone");
    world.task(&root, "Last", "run printenv SHOP_KEY > last\ncommit last\ndone");
    let keys = [("SHOP_KEY", "secret-4711"), ("OTHER_KEY", "x")];
    world.run(&root, ["daemon", "start"]).good();
    let run = world.start_with(&root, ["run", "all"], &keys);
    until("it runs", || with.is_running(&root, 1));
    with.kill(&root);
    until("another one runs", || world.run(&root, ["daemon", "start"]).code == Some(0));
    fs::write(go, "").unwrap();
    let said = run.end().code(3).stdout;
    assert!(
        said.contains("#0001 Waits: merged") && said.contains("gone with a restart: SHOP_KEY;"),
        "{said}"
    );
    assert_eq!(world.states(&root)[1].1, "limited");
    let shown = world.run(&root, ["doctor"]).stdout;
    assert!(shown.contains("from a shell that has them: watchfire resume 2"), "{shown}");
    world.start_with(&root, ["resume", "2"], &keys).end().good();
    assert_eq!(world.states(&root)[2].1, "limited");
    world.start_with(&root, ["run", "3"], &keys).end().good();
    assert_eq!(world.git(&root, &["show", "main:third"]), "secret-4711\n");
    assert_eq!(world.states(&root)[3].1, "limited");
    world.start_with(&root, ["agent", "resume"], &keys).end().good();
    until("the last one is merged", || world.states(&root)[3].1 == "merged");
    assert_eq!(world.git(&root, &["show", "main:last"]), "secret-4711\n");
    assert_eq!(world.git(&root, &["show", "main:got"]), "secret-4711\n");
}

/// Collects the files below `folder` that contain `text`, but for what an agent itself wrote.
fn finds(folder: &Path, text: &[u8], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            finds(&path, text, found);
        } else if fs::read(&path).is_ok_and(|held| held.windows(text.len()).any(|it| it == text)) {
            found.push(path);
        }
    }
}

/// Ctrl+C stops the run that was started here, and no other.
#[test]
fn an_interrupt_stops_the_own_run() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "One", "hang");
    world.task(&root, "Two", "hang");
    let settings = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&settings).unwrap() + "\nmax_parallel: 2\n";
    fs::write(&settings, text).unwrap();
    with.started(&root);
    let mut runs = ["1", "2"].map(|task| {
        world.command(&root, ["run", task]).stdout(std::process::Stdio::piped()).spawn().unwrap()
    });
    until("both run", || with.is_running(&root, 1) && with.is_running(&root, 2));
    let pid = rustix::process::Pid::from_child(&runs[0]);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(runs[0].wait().unwrap().code(), Some(130));
    until("it is stopped", || world.states(&root)[0].1 == "stopped");
    assert!(with.is_running(&root, 2));
    world.run(&root, ["agent", "stop"]).good();
    assert_eq!(runs[1].wait().unwrap().code(), Some(3));
}

/// Closing the terminal does not stop the run.
#[test]
fn a_closed_terminal_leaves_the_run() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "One", "hang");
    with.started(&root);
    let run = world.start(&root, ["run", "1"]);
    until("it runs", || with.is_running(&root, 1));
    run.signal("HUP");
    let said = run.end().code(1);
    assert!(said.stderr.contains("the run goes on in the daemon"), "{}", said.stderr);
    assert!(with.is_running(&root, 1));
}

/// Agents that a stopped daemon left running belong to the daemon: other commands start it again and never end them.
#[test]
fn what_the_daemon_left_is_ended_by_nobody() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "One", "hang");
    world.task(&root, "Two", "done");
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let left = world.run(&root, ["daemon", "stop", "--json"]).good().json();
    assert_eq!(left["agents_left"], 1);
    let status = world.run(&root, ["daemon", "status", "--json"]).code(1).json_error();
    assert_eq!(status["details"]["left"], "shop #0001 One");
    let refused = world.run(&root, ["run", "2", "--embedded", "--json"]).code(1).json_error();
    assert_eq!(refused["code"], "busy");
    world.run(&root, ["history"]).good();
    with.started(&root);
    assert!(with.is_running(&root, 1), "it goes on");
}

/// With the automation on, no other task starts in the place of an agent that is stopped. `daemon stop --agents` leaves none of them running.
#[test]
fn with_its_agents_the_daemon_leaves_nothing() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let settings = world.path("watchfire-home/settings.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("auto_start_tasks: false", "auto_start_tasks: true")).unwrap();
    for title in ["One", "Two", "Three"] {
        world.task(&root, title, "hang");
    }
    with.started(&root);
    until("the first runs", || with.is_running(&root, 1));
    let stopped = world.run(&root, ["daemon", "stop", "--agents", "--json"]).good().json();
    assert_eq!(stopped["agents_left"], 0);
    let left = fs::read_dir(world.path("watchfire-home/hosts")).unwrap().count();
    assert_eq!(left, 0, "an agent goes on");
}

/// An agent that the automation does not find costs no task an attempt, and is not missing for those who have it.
#[test]
fn the_automation_waits_for_a_missing_agent() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let settings =
        "defaults: {default_sandbox: none, default_agent: ours}\nagents: {ours: {path: our-agent}}\n";
    fs::write(world.path("watchfire-home/settings.yaml"), settings).unwrap();
    for title in ["One", "Two"] {
        world.run(&root, ["task", "add", "--title", title, "--prompt", "x", "--ready"]).good();
    }
    with.started(&root);
    let missing = "limited  program not found";
    until("it was looked for", || world.run(&root, ["queue"]).good().stdout.contains(missing));
    assert_eq!(world.states(&root), [(1, "limited".to_owned()), (2, "ready".to_owned())]);
    for task in ["1", "2"] {
        let task = world.run(&root, ["task", "show", task, "--json"]).good().json()["task"].clone();
        assert_eq!((&task["agent_sessions"], &task["failure_reason"]), (&0.into(), &().into()), "{task:#}");
    }
    let tools = world.empty("tools");
    let program = tools.join("our-agent");
    let work = "#!/bin/sh\necho > made-by-$$\nsed -i 's/^status:.*/status: done/' \"$WATCHFIRE_TASK_FILE\"\necho 'success: true' >> \"$WATCHFIRE_TASK_FILE\"\n";
    fs::write(&program, work).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    for which in ["2", "all"] {
        world.start_with(&root, ["run", which], &[("PATH", &path)]).end().good();
    }
    let merged = || "merged".to_owned();
    assert_eq!(world.states(&root), [(1, merged()), (2, merged())]);
}

/// Where the daemon's variables are not those of the terminal, `doctor` says which, and shows no value.
#[cfg(target_os = "linux")]
#[test]
fn doctor_tells_the_daemons_variables_from_ours() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let doctor = |variables: &[(&str, &str)]| {
        world.start_with(&root, ["doctor", "--json"], variables).end().json()["daemon"].clone()
    };
    assert_eq!(doctor(&[])["running"], false);
    let key = [("SHOP_API_KEY", "of-the-daemon")];
    world.start_with(&root, ["daemon", "start"], &key).end().good();
    assert_eq!(doctor(&key)["variables"], serde_json::json!({}));
    let ours = [("SHOP_API_KEY", "of-the-terminal"), ("LANG", "de_DE.UTF-8"), ("UNRELATED", "x")];
    let differs = serde_json::json!({ "LANG": "missing there", "SHOP_API_KEY": "another value" });
    assert_eq!(doctor(&ours)["variables"], differs);
    assert_eq!(doctor(&[])["variables"], serde_json::json!({ "SHOP_API_KEY": "only there" }));
    let said = world.start_with(&root, ["doctor"], &ours).end();
    assert!(said.stdout.contains("SHOP_API_KEY (another value)"), "{}", said.stdout);
    assert!(!said.stdout.contains("of-the-"), "{}", said.stdout);
}

/// The daemon has the project open, and answers for it.
#[test]
fn the_daemon_is_asked_about_the_sandbox() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "Waits", "hang");
    with.started(&root);
    until("it has the project", || {
        world.run(&root, ["daemon", "status", "--json"]).good().json()["projects"] == 1
    });
    let report = |more: &[&str]| world.run(&root, [&["sandbox", "report", "--json"], more].concat());
    assert_eq!(report(&["--task", "1"]).good().json()["report"]["sandbox"], "none");
    assert_eq!(report(&["--mode", "generate-tasks"]).good().json()["report"]["sandbox"], "none");
    assert_eq!(report(&["--task", "1", "--sandbox", "moon"]).code(1).json_error()["code"], "unknown_sandbox");
    let explain = || world.run(&root, ["sandbox", "explain", "a.txt", "--task", "1", "--json"]).good().json();
    assert_eq!(explain()["answers"][0]["write"]["verdict"], "allowed");
    let worktree = explain()["cwd"].as_str().unwrap().to_owned();
    assert!(!Path::new(&worktree).exists(), "{worktree} stays");
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    assert_eq!(explain()["cwd"], worktree.as_str());
    assert!(with.is_running(&root, 1) && Path::new(&worktree).exists());
}

/// A daemon of another release is restarted on request, with its options, and its agents do not notice.
#[cfg(target_os = "linux")]
#[test]
fn a_daemon_of_another_release_is_restarted_on_request() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let file = world.path("watchfire-home/daemon.yaml");
    let ages = || {
        let text = fs::read_to_string(&file).unwrap();
        let ours = concat!("program_version: ", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(ours), "{text}");
        fs::write(&file, text.replace(ours, "program_version: 0.0.9")).unwrap();
    };
    let origin = ["daemon", "start", "--origin", "http://localhost:8080", "--json"];
    let first = world.run(&root, origin).good().json()["pid"].clone();
    world.task(&root, "Long", "hang");
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let session = || {
        let status = world.run(&root, ["agent", "status", "--json"]).good().json();
        (status["agents"][0]["session"].clone(), status["agents"][0]["running"].clone())
    };
    let before = session();

    ages();
    for args in [&["agent", "status"][..], &["run", "1"], &["agent", "start", "1"]] {
        let refused = world.run(&root, [args, &["--json"]].concat()).json_error();
        assert_eq!(refused["code"], "not_supported", "{args:?}");
        assert!(refused["hint"].as_str().unwrap().starts_with("run watchfire daemon restart"), "{refused}");
    }
    let asked = OnTerminal::start(world, &root, &["agent", "status"], &[]);
    asked.wait_for("restart it now? [y/N]");
    (&asked.keys).write_all(b"n\r").unwrap();
    let (said, code) = asked.end();
    assert!(code == Some(0) && said.contains("#0001 Long"), "{said}");
    assert_eq!(world.run(&root, ["daemon", "status", "--json"]).good().json()["pid"], first);
    let asked = OnTerminal::start(world, &root, &["agent", "status"], &[]);
    asked.wait_for("restart it now? [y/N]");
    (&asked.keys).write_all(b"y\r").unwrap();
    let (said, code) = asked.end();
    assert!(code == Some(0) && said.contains("#0001 Long"), "{said}");
    let second = world.run(&root, ["daemon", "status", "--json"]).good().json()["pid"].clone();
    assert_ne!(second, first);
    until("it has the agent", || session() == before);

    let third = world.run(&root, ["daemon", "restart", "--json"]).good().json()["pid"].clone();
    assert_ne!(third, second);
    assert!(fs::read_to_string(&file).unwrap().contains("http://localhost:8080"), "its options stay");
    until("it has the agent again", || session() == before);
}

/// A daemon that does not answer is said to, and one whose project was moved away still ends.
#[test]
fn trouble_with_the_daemon_is_said() {
    use rustix::process::{Pid, Signal, kill_process};
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let pid = Pid::from_raw(i32::try_from(with.started(&root)["pid"].as_u64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let silent = world.run(&root, ["daemon", "status", "--json"]).code(1).json_error();
    kill_process(pid, Signal::CONT).unwrap();
    let named = pid.as_raw_nonzero().to_string();
    assert_eq!((&silent["code"], &silent["details"]["pid"]), (&"timeout".into(), &named.into()));
    world.task(&root, "One", "hang");
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    fs::rename(&root, world.path("elsewhere")).unwrap();
    let home = world.path("home");
    let status = world.run(&home, ["daemon", "status", "--json"]).good().json();
    assert_eq!(status["agents"][0]["task"], 1);
    world.run(&home, ["daemon", "stop", "--agents"]).good();
}

/// A project whose folder was moved is run at its new place.
#[test]
fn a_project_that_was_moved_goes_on_at_its_new_place() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "One", "write n 1\ncommit n\ndone");
    world.task(&root, "Two", "write m 1\ncommit m\ndone");
    with.started(&root);
    world.run(&root, ["run", "1"]).good();
    let moved = world.path("elsewhere");
    fs::rename(&root, &moved).unwrap();
    world.run(&moved, ["run", "2"]).good();
    assert_eq!(world.states(&moved)[1].1, "merged");
}

/// Who runs through the daemon learns what hinders or means nothing as in a program of their own.
#[test]
fn a_run_through_the_daemon_says_what_is_odd() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let file = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}verfy: [false]\n")).unwrap();
    world.task(&root, "Long", "hang");
    world.task(&root, "Next", "write n 1\ncommit n\ndone");
    world.run(&root, ["task", "edit", "2", "--depends-on", "1"]).good();
    for name in ["m", "k"] {
        world.task(&root, "Short", &format!("write {name} 1\ncommit {name}\ndone"));
    }
    with.started(&root);
    for task in ["3", "4"] {
        let said = world.run(&root, ["run", task]).good().stdout;
        assert!(said.contains("! ") && said.contains("verfy") && said.contains("verify"), "{said}");
    }
    // What a task waits for is said before anybody asks.
    world.run(&root, ["agent", "start", "1"]).good();
    let mut next = world.command(&root, ["run", "2", "--no-wait"]);
    let mut next = next.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(next.stdout.take().unwrap()));
    let waits = lines.find_map(|line| line.ok().filter(|line| line.contains("#0002 waits"))).unwrap();
    assert!(waits.contains("depends on #0001"), "{waits}");
    let queue = world.run(&root, ["queue", "--json"]).good().json();
    let queue = queue["queue"].as_array().unwrap();
    assert!(queue.iter().any(|work| work["task"] == 2 && work["state"] == "waiting"), "{queue:?}");
    next.kill().unwrap();
    next.wait().unwrap();
}

/// The reason why a daemon did not start is said where it was started.
#[test]
fn a_port_that_is_taken_is_named() {
    let with = WithDaemon::new();
    let root = with.shop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = with.0.run(&root, ["daemon", "start", "--port", &port, "--json"]).code(1).json_error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("listening on the loopback interface") && message.contains(&port), "{error}");
    assert!(message.contains("another --port"), "{error}");
}

/// The error for a bad option or home says what would be right, and an option without effect is named.
#[test]
fn options_and_homes_that_do_not_fit_are_told() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    for origin in
        ["foo", "localhost:8080", "http://localhost:8080/", "HTTP://localhost", "http://me@localhost"]
    {
        let error = world.run(&root, ["daemon", "start", "--origin", origin, "--json"]).code(1).json_error();
        assert_eq!(error["code"], "invalid_input", "{error}");
        assert!(error["hint"].as_str().unwrap().contains("http://localhost:8080"), "{error}");
    }
    assert_eq!(world.run(&root, ["version", "--json"]).good().json()["daemon"], serde_json::Value::Null);
    let origin = ["--origin", "tauri://localhost"];
    let started = world.run(&root, [&["daemon", "start", "--json"], &origin[..]].concat()).good().json();
    assert_eq!(world.run(&root, ["version", "--json"]).good().json()["daemon"], started["version"]);
    assert_eq!(world.run(&root, ["version"]).good().stdout.lines().count(), 2);
    let port = started["port"].to_string();
    let same = world.run(&root, [&["daemon", "start", "--port", &port], &origin[..]].concat()).good();
    assert_eq!(same.stderr, "");
    let other = world.run(&root, ["daemon", "start", "--port", "1", "--end-agents"]).good();
    assert!(other.stdout.starts_with("the daemon runs already"), "{}", other.stdout);
    assert!(
        other.stderr.contains("it runs without --port 1 --end-agents; watchfire daemon stop"),
        "{}",
        other.stderr
    );

    let file = world.path("file");
    fs::write(&file, "").unwrap();
    for (home, told) in [(file.to_str().unwrap(), "a folder of yours"), ("here", "begin it at the root")] {
        for args in [&["daemon", "start", "--foreground"][..], &["daemon", "start"], &["ps"]] {
            let said = world.start_with(&root, args, &[("WATCHFIRE_HOME", home)]).end();
            assert_ne!(said.code, Some(0), "{home} {args:?}");
            let is_told = said.stderr.contains("hint: ") && said.stderr.contains(told);
            assert!(is_told || (args == ["ps"] && home != "here"), "{args:?}: {}", said.stderr);
        }
    }
}

/// A daemon that cannot read its settings does not start, and the reason is told as by any other command.
#[test]
fn a_daemon_that_cannot_read_its_settings() {
    let world = World::new();
    let home = world.empty("watchfire-home");
    let settings = home.join("settings.yaml");
    fs::write(&settings, "version: 1\nnotify: {events: [foo]}\n").unwrap();
    for command in ["start", "restart"] {
        let error = world.run(&home, ["daemon", command, "--json"]).code(1).json_error();
        assert_eq!(error["code"], "malformed", "{error}");
        assert!(error["message"].as_str().unwrap().starts_with("notify.events: unknown word"), "{error}");
        assert_eq!(error["details"]["path"], settings.to_str().unwrap());
        assert_eq!(error["details"]["line"], "2");
        assert!(error["hint"].as_str().unwrap().contains("mend the file"), "{error}");
    }
}

/// A chat goes on when its terminal leaves it, and ends when the person ends it.
#[test]
fn a_chat_is_left_and_ended() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    with.started(&root);
    let mut chat = OnTerminal::start(world, &root, &["chat", "--agent", "scripted"], &[]);
    chat.wait_for("> ");
    chat.keys.write_all(b"hello\r").unwrap();
    chat.wait_for("you said: hello");
    chat.keys.write_all(b"\x1d").unwrap();
    let (painted, code) = chat.end();
    assert_eq!(code, Some(0));
    assert!(painted.ends_with("the chat goes on: watchfire attach\r\n"), "{painted:?}");
    let mut again = OnTerminal::start(world, &root, &["attach"], &[]);
    again.wait_for("you said: hello");
    again.keys.write_all(b"\x03\x03").unwrap();
    let (painted, code) = again.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.ends_with("chat ended\r\n"), "{painted:?}");
    // Proposals come from the daemon too.
    let proposed = world.run(&root, ["generate", "tasks", "--agent", "scripted", "--json"]).code(3).stdout;
    assert!(proposed.contains("Look around"), "{proposed}");
}

#[test]
fn agents_are_started_watched_and_stopped() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    world.task(&root, "Talks", "say hello\nchat");
    world.task(&root, "Works", "write n 1\ncommit n\ndone");
    // The daemon starts with the first agent.
    let begun = world.run(&root, ["agent", "start", "1", "--json"]).good().json();
    assert_eq!((&begun["agents"][0]["task"], &begun["agents"][0]["title"]), (&1.into(), &"Talks".into()));
    until("it talks", || {
        let seen = world.run(&root, ["watch", "1", "--json"]);
        seen.code == Some(0) && seen.json()["transcript"]["latest_text"] == "hello"
    });
    world.run(&root, ["send", "1", "--wait-until", "idle", "one"]).good();
    let seen = world.run(&root, ["watch", "1", "--json"]).good().json();
    assert_eq!(seen["transcript"]["latest_text"], "you said: one");
    let line = world.run(&root, ["agent", "status"]).good().stdout;
    assert!(line.starts_with("shop  task #0001 Talks  running  "), "{line}");
    let named = world.run(&root, ["agent", "start", "1", "--sandbox", "none", "--json"]).code(1).json_error();
    assert_eq!(named["code"], "permission_denied");

    world.run(&root, ["agent", "stop"]).good();
    until("it is stopped", || world.states(&root)[0].1 == "stopped");
    world.run(&root, ["agent", "start", "2"]).good();
    until("the other is merged", || world.states(&root)[1].1 == "merged");
    for bad in [&["agent", "start", "zero"][..], &["agent", "start", "9"], &["agent", "resume", "x"]] {
        assert_ne!(world.run(&root, bad).code, Some(0), "{bad:?}");
    }
}

/// The newest viewer has the size of the agent's terminal, and then the one that types.
/// A command that is typed right after the start finds the session, also while its folder is being prepared.
#[test]
fn an_agent_that_is_starting_is_waited_for() {
    let with = WithDaemon::new();
    let world = &with.0;
    let broken = world.path("broken");
    let setup = format!("sleep 1; ! test -e {}", broken.display());
    let root = world.project("shop", &format!("max_parallel: 9\nsetup: ['{setup}']"));
    for number in 1..=4 {
        world.task(&root, &format!("Talks {number}"), "say hello\nchat");
    }
    let start = |number: &str| world.run(&root, ["agent", "start", number]).good();
    start("1");
    world.run(&root, ["wait", "1"]).good();
    start("2");
    world.run(&root, ["send", "2", "--wait-until", "idle", "one"]).good();
    start("3");
    let mut attached = OnTerminal::start(world, &root, &["attach", "3"], &[]);
    attached.wait_for("hello");
    attached.keys.write_all(b"\x1d").unwrap();
    assert_eq!(attached.end().1, Some(0));
    // Nothing is waited for where nothing starts.
    world.task(&root, "Rests", "done");
    let none = world.run(&root, ["wait", "5", "--json"]).code(1).json_error();
    assert_eq!(none["code"], "not_found", "{none}");
    // A start that comes to nothing is told with its reason.
    fs::write(broken, "").unwrap();
    start("4");
    let failed = world.run(&root, ["wait", "4", "--json"]).code(1).json_error();
    assert!(failed.to_string().contains("setup"), "{failed}");
}

#[test]
fn who_types_has_the_size() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let tells = "line\nrun stty size < /dev/tty\n";
    world.task(&root, "Talks", &format!("say ready\n{tells}{tells}{tells}done\nexit 0"));
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let mut first = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    first.wait_for("ready");
    let mut second = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    second.wait_for("ready");
    tcsetwinsize(&second.terminal, Winsize { ws_row: 12, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    second.keys.write_all(b"a\r").unwrap();
    second.wait_for("12 50");
    first.keys.write_all(b"b\r").unwrap();
    first.wait_for("24 80");
    second.keys.write_all(b"c\r").unwrap();
    assert_eq!(first.end().1, Some(0));
    assert_eq!(second.end().1, Some(0));
}

#[test]
fn a_terminal_is_attached_and_detached() {
    let with = WithDaemon::new();
    let (world, root) = (&with.0, with.shop());
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    world.task(&root, "Talks", &format!("run printf '\\033[6n'\nsay ready\nline\n{waits}\ndone\nexit 0"));
    let nothing = OnTerminal::start(world, &root, &["attach"], &[]).end();
    assert_eq!(nothing.1, Some(255), "no daemon: {}", nothing.0);
    world.run(&root, ["agent", "start", "1"]).good();
    until("it runs", || with.is_running(&root, 1));
    let other = OnTerminal::start(world, &root, &["attach", "7"], &[]).end();
    assert_eq!(other.1, Some(255), "{}", other.0);
    assert!(other.0.contains("watchfire agent status"), "{}", other.0);

    let mut first = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    first.wait_for("ready");
    // What the agent asks its terminal, we answer. Asked twice, the agent would take the second answer for keys.
    assert!(!first.painted().contains("\x1b[6n"));
    tcsetwinsize(&first.terminal, Winsize { ws_row: 12, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    // A second one only looks, and its keys go nowhere.
    let mut looking = OnTerminal::start(world, &root, &["attach", "--read-only"], &[]);
    looking.wait_for("ready");
    looking.keys.write_all(b"not for you\r").unwrap();
    looking.keys.write_all(b"\x1d").unwrap();
    let (_, code) = looking.end();
    assert_eq!(code, Some(0));
    first.keys.write_all(b"\x1d").unwrap();
    let (painted, code) = first.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.ends_with("detached; the agent goes on\r\n"), "{painted:?}");
    assert!(with.is_running(&root, 1));
    // Ctrl+C goes to the agent. The second one at once is ours.
    let mut hasty = OnTerminal::start(world, &root, &["attach", "--read-only"], &[]);
    hasty.wait_for("ready");
    hasty.keys.write_all(b"\x03\x03").unwrap();
    assert_eq!(hasty.end().1, Some(0));
    // A signal detaches too, and leaves the terminal as it was.
    let ended = OnTerminal::start(world, &root, &["attach", "1"], &[]);
    ended.wait_for("ready");
    ended.signal(rustix::process::Signal::TERM);
    assert_eq!(ended.end().1, Some(0));
    assert!(with.is_running(&root, 1));

    // The daemon may be another one meanwhile.
    let mut again = OnTerminal::start(world, &root, &["attach"], &[]);
    again.wait_for("ready");
    world.run(&root, ["daemon", "stop"]).good();
    with.started(&root);
    until("it has the agent again", || with.is_running(&root, 1));
    again.keys.write_all(b"hello\r").unwrap();
    again.wait_for("hello");
    fs::write(go, "").unwrap();
    let (painted, code) = again.end();
    assert_eq!(code, Some(0), "{painted}");
    assert!(painted.contains("the agent has ended: completed"), "{painted:?}");
}
