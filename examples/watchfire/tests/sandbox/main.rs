//! `watchfire sandbox`: what it tells, and that what it runs is held as an agent is.

mod exec;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Arguments;
use serde_json::Value;
use support::sandboxed::{no_sandbox, world};
use support::{World, files, trial};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("steps_have_titles_of_their_own", None, steps_have_titles_of_their_own),
        trial("setup_says_what_is_to_be_done", None, setup_says_what_is_to_be_done),
        trial("unsandboxed_is_said_each_time", None, unsandboxed_is_said_each_time),
        trial("codes_tell_who_failed", None, codes_tell_who_failed),
        trial("a_rule_is_named", no_sandbox(), a_rule_is_named),
        trial("asking_changes_nothing", None, asking_changes_nothing),
        trial(
            "a_setting_is_named_that_opens_what_is_denied",
            no_sandbox(),
            a_setting_is_named_that_opens_what_is_denied,
        ),
        trial("exec_is_held_as_the_agent_is", no_sandbox(), exec::exec_is_held_as_the_agent_is),
        trial("exec_keeps_work", no_sandbox(), exec::exec_keeps_work),
        trial(
            "a_killed_exec_leaves_nothing_that_runs",
            no_sandbox(),
            exec::a_killed_exec_leaves_nothing_that_runs,
        ),
        trial("a_hidden_file_that_is_tracked_stays", no_sandbox(), exec::a_hidden_file_that_is_tracked_stays),
        trial("settings_reach_the_agent", no_sandbox(), settings_reach_the_agent),
        trial("what_nobody_knows_stops_a_run", no_sandbox(), what_nobody_knows_stops_a_run),
        trial("a_task_gets_what_the_project_shares", no_sandbox(), a_task_gets_what_the_project_shares),
        trial("init_proposes_what_tasks_need", None, init_proposes_what_tasks_need),
        trial("tools_have_caches_at_their_first_use", no_sandbox(), tools_have_caches_at_their_first_use),
        trial("tests_see_no_cache_of_an_agent", no_sandbox(), tests_see_no_cache_of_an_agent),
        trial("a_mode_writes_what_it_is_for", no_sandbox(), a_mode_writes_what_it_is_for),
        trial("setup_is_held_as_the_agent_is", no_sandbox(), setup_is_held_as_the_agent_is),
        trial("a_planted_link_opens_nothing", no_sandbox(), a_planted_link_opens_nothing),
        trial("the_agents_own_files_show_in_place", no_sandbox(), the_agents_own_files_show_in_place),
        trial("the_last_session_is_remembered", no_sandbox(), the_last_session_is_remembered),
        trial("the_limit_of_open_files_is_raised", None, the_limit_of_open_files_is_raised),
        trial("what_a_tool_was_refused_is_told", no_sandbox(), what_a_tool_was_refused_is_told),
        trial("learn_shows_what_to_open", no_sandbox().or_else(no_strace), learn_shows_what_to_open),
        trial("an_agent_does_not_reach_the_socket", no_sandbox(), an_agent_does_not_reach_the_socket),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn steps_have_titles_of_their_own() {
    let world = World::new();
    let said = world.run(world.folder.path(), ["sandbox", "probe", "--json"]);
    let report = said.json();
    let steps = report["sandboxes"].as_array().unwrap();
    let title = |step: &Value| format!("{} {}", step["sandbox"], step["step"]);
    let titles: std::collections::BTreeSet<_> = steps.iter().map(title).collect();
    assert_eq!(titles.len(), steps.len(), "{report}");
    for step in steps {
        let uses = |name: &str| step["mechanisms"].as_array().unwrap().iter().any(|it| it["name"] == name);
        assert!(!(step["step"] == "without namespaces" && uses("namespaces")), "{step}");
    }
}

/// Where namespaces work, nothing is; where they do not, here because a sandbox allows none inside, each way is shown.
fn setup_says_what_is_to_be_done() {
    let (world, root) = world("done\nexit 0");
    let profile = world.run(&root, ["sandbox", "setup", "--profile"]).good().stdout;
    assert!(profile.contains("userns,") && profile.contains("/watchfire\" flags=(unconfined)"), "{profile}");
    let said = world.run(&root, ["sandbox", "setup", "--json"]);
    let works = said.json()["namespaces"] == true;
    assert_eq!(said.code, Some(if works { 0 } else { 3 }), "{}", said.stdout);
    let doctor = world.run(&root, ["doctor"]).stdout;
    assert_eq!(doctor.contains("watchfire sandbox setup"), !works, "{doctor}");
    let program = support::program();
    let inside =
        format!("HOME=$TMPDIR WATCHFIRE_HOME=$TMPDIR '{}' sandbox setup; echo code $?", program.display());
    fs::write(
        world.path("watchfire-home/settings.yaml"),
        format!("version: 1\nsandbox:\n  read: ['{}']\n", program.display()),
    )
    .unwrap();
    if works {
        let said =
            world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", &inside]).good().stdout;
        for part in ["needs namespaces", "step_down: allow", "code 3"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

fn unsandboxed_is_said_each_time() {
    let (world, root) = world("done\nexit 0");
    let script = "setsid sleep 600 & echo out; exit 7";
    for _ in 0..2 {
        let args = ["sandbox", "exec", "--no-sandbox", "--task", "1", "--", "sh", "-c", script];
        // It returns although something was left running: that is ended.
        let said = world.run(&root, args).code(7);
        assert_eq!(said.stdout, "out\n");
        assert!(said.stderr.contains("no sandbox, asked for by flag"), "{}", said.stderr);
    }
}

fn codes_tell_who_failed() {
    let (world, root) = world("done\nexit 0");
    let exec = |more: &[&str]| {
        let args = ["sandbox", "exec", "--no-sandbox"].iter().chain(more);
        world.run(&root, args)
    };
    exec(&["--task", "1", "--", "no-such-program"]).code(127);
    exec(&["--task", "9", "--", "true"]).code(125);
    exec(&["--task", "1", "--", "sh", "-c", "kill -TERM $$"]).code(143);
    exec(&["--project", "no-such-project", "--", "true"]).code(125);
    exec(&["--project", "project", "--task", "1", "true"]).code(0);
    exec(&["--task", "1"]).code(2);
    let said = world.run(&root, ["sandbox", "exec", "--sandbox", "seatbelt", "--json", "true"]).code(126);
    assert_eq!(said.json_error()["code"], "sandbox_unavailable");
    world.run(&root, ["sandbox", "report", "--last"]).code(1);
}

fn a_rule_is_named() {
    let (world, root) = world("done\nexit 0");
    let args = ["sandbox", "explain", "--task", "1", "--json", "~/.ssh/id_x", "a.txt", ".git", "/etc/passwd"];
    let said = world.run(&root, args).good().json();
    let answers = said["answers"].as_array().unwrap();
    let verdicts: Vec<_> =
        answers.iter().map(|it| (it["read"]["verdict"].clone(), it["write"]["verdict"].clone())).collect();
    let is = |read: &str, write: &str| (Value::from(read), Value::from(write));
    assert_eq!(
        verdicts,
        [is("denied", "denied"), is("allowed", "allowed"), is("allowed", "denied"), is("allowed", "denied")]
    );
    assert!(answers[0]["read"]["rule"].as_str().unwrap().contains(".ssh (base policy"), "{said}");
    assert!(answers[1]["path"].as_str().unwrap().ends_with("worktrees/0001/a.txt"), "{said}");
    let text = world.run(&root, ["sandbox", "explain", "--task", "1", ".git"]).good().stdout;
    assert!(text.contains("write  denied   ") && text.contains("pointer to the repository"), "{text}");
}

/// A worktree that is made for an answer goes with it; one that was there stays, with the work in it.
fn asking_changes_nothing() {
    let (world, root) = world("done\nexit 0");
    let explain = ["sandbox", "explain", "--no-sandbox", "--task", "1", "a.txt"];
    let report = ["sandbox", "report", "--no-sandbox", "--task", "1"];
    let folder = root.join(".watchfire/worktrees/0001");
    for asks in [&explain[..], &report[..]] {
        world.run(&root, asks).good();
        assert_eq!(world.git(&root, &["branch", "--list", "watchfire/*"]), "", "{asks:?}");
        assert!(!folder.exists(), "{asks:?}");
    }
    world.run(&root, ["sandbox", "exec", "--no-sandbox", "--task", "1", "--", "true"]).good();
    let branch = world.git(&root, &["branch", "--list", "watchfire/0001"]);
    assert!(!branch.is_empty() && folder.exists(), "{branch}");
    for asks in [&explain[..], &report[..]] {
        world.run(&root, asks).good();
        assert_eq!(world.git(&root, &["branch", "--list", "watchfire/0001"]), branch, "{asks:?}");
        assert!(folder.exists(), "{asks:?}");
    }
}

/// The line that is said to open a path opens it; where no setting can, none is said.
fn a_setting_is_named_that_opens_what_is_denied() {
    let (world, root) = world("done\nexit 0");
    let explain = |path: &str| {
        let said = world.run(&root, ["sandbox", "explain", "--task", "1", "--json", path]).good().json();
        said["answers"][0].clone()
    };
    let settings = world.path("watchfire-home").join("settings.yaml");
    let before = fs::read_to_string(&settings).unwrap_or_else(|_| "version: 1\n".to_owned());
    let checkout = root.join("a.txt").display().to_string();
    let denied =
        [("~/.ssh/id_x", "read"), ("~/unheard/of", "read"), ("/etc/passwd", "write"), (&checkout, "read")];
    for (path, access) in denied {
        let denied = explain(path);
        assert_eq!(denied[access]["verdict"], "denied", "{denied}");
        let line = denied["setting"].as_str().unwrap_or_else(|| panic!("{denied}"));
        let text = world.run(&root, ["sandbox", "explain", "--task", "1", path]).good().stdout;
        assert!(text.contains(&format!("in settings.yaml:  {line}\n")), "{text}");
        fs::write(&settings, format!("{before}\n{line}\n")).unwrap();
        assert_eq!(explain(path)[access]["verdict"], "allowed", "{line}");
        fs::write(&settings, &before).unwrap();
    }
    for path in [".git", "a.txt"] {
        assert!(explain(path)["setting"].is_null(), "{path}");
    }
}

/// What settings.yaml and project.yaml say about the sandbox holds, and is in the report.
fn settings_reach_the_agent() {
    let (world, root) = world("done\nexit 0");
    for folder in [".cache", "notes", "data"] {
        fs::create_dir(world.home.join(folder)).unwrap();
    }
    fs::write(world.home.join("notes/n"), "secret").unwrap();
    fs::write(
        world.path("watchfire-home/settings.yaml"),
        "version: 1\nsandbox:\n  write: [~/data]\n  env: {GREETING: hello}\n  limits: {open_files: 64}\n",
    )
    .unwrap();
    let project = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&project).unwrap();
    let more = "sandbox_rules:\n  deny: [~/notes]\n  caches: private\n  network: closed\n  limits: {open_files: 999}\n";
    fs::write(&project, format!("{text}{more}")).unwrap();

    let report = world.run(&root, ["sandbox", "report", "--task", "1", "--json"]).good().json();
    let controls = report["report"]["controls"].as_array().unwrap();
    let state = |name: &str| controls.iter().find(|it| it["name"] == name).map(|it| it["state"].clone());
    assert_eq!(state("the network is closed"), Some("enforced".into()), "{report}");
    assert_eq!(
        state("processes, open files and file sizes are limited"),
        Some("enforced".into()),
        "{report}"
    );
    let script = "echo $GREETING; ulimit -n; cat ~/notes/n || echo denied; echo x > ~/data/x && echo written; \
                  cat ~/.cache/mine 2>/dev/null; echo kept > ~/.cache/mine";
    let exec =
        || world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]).good().stdout;
    assert_eq!(exec(), "hello\n64\ndenied\nwritten\n");
    assert!(!world.home.join(".cache/mine").exists(), "the person's cache is theirs");
    let in_place = state("private copies show at their usual places") == Some("enforced".into());
    assert_eq!(exec().ends_with("kept\n"), in_place, "the project's cache stays");
    let answer = world.run(&root, ["sandbox", "explain", "--task", "1", "~/notes/n"]).good().stdout;
    assert!(answer.contains("project.yaml: sandbox_rules.deny"), "{answer}");

    fs::write(&project, format!("{text}sandbox_rules:\n  network: sometimes\n")).unwrap();
    world.run(&root, ["sandbox", "report", "--json"]).code(1).json_error();
}

/// A field that nobody knows could not be kept: nothing starts.
fn what_nobody_knows_stops_a_run() {
    let (world, root) = world("done\nexit 0");
    let (settings, project) =
        (world.path("watchfire-home/settings.yaml"), root.join(".watchfire/project.yaml"));
    let text = fs::read_to_string(&project).unwrap();
    for (file, key, place) in [
        (&settings, "sandbox", "settings.yaml: sandbox"),
        (&project, "sandbox_rules", "project.yaml: sandbox_rules"),
    ] {
        for (field, inside, known) in [("dney", "", "deny_ports"), ("procs", ".limits", "open_files")] {
            let said = if inside.is_empty() { "dney: [/etc]" } else { "limits: {procs: 3}" };
            fs::write(&settings, "version: 1\n").unwrap();
            fs::write(&project, &text).unwrap();
            fs::write(file, format!("{}{key}:\n  {said}\n", fs::read_to_string(file).unwrap())).unwrap();
            for command in [&["sandbox", "exec", "--task", "1", "--", "true"][..], &["run", "1"]] {
                let ran = world.run(&root, command);
                let told = format!("{}{}", ran.stdout, ran.stderr);
                assert!(ran.code != Some(0) && told.contains(field), "{command:?}: {told}");
                assert!(told.contains(&format!("{place}{inside}")), "{command:?}: {told}");
                assert!(told.contains(known), "{command:?}: {told}");
            }
        }
    }
}

/// Ignored folders show copy-on-write and named files are copied, to the agent and to the verify commands; nothing of it is
/// committed or written back.
fn a_task_gets_what_the_project_shares() {
    let look = "cat node_modules/dep/index.js web/target/made .env.test local.conf > seen.txt 2>&1; \
                cat node_modules/out vendor/dep/.env > leak.txt 2>&1; cat .env.prod > hidden.txt 2>&1; \
                echo changed > node_modules/dep/index.js; echo new > node_modules/new; rm -r web/target/made; \
                cat node_modules/dep/index.js node_modules/new > after.txt; ls -a linked tracked > else.txt 2>&1; \
                echo x >> local.conf";
    let (world, root) = world(&format!("run {look}\ncommit looked\ndone\nexit 0"));
    for folder in ["node_modules/dep", "vendor/dep", "web/target", "tracked", "plain"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let ignored = "node_modules\nvendor\ntarget/\n.env.*\nlocal.conf\nlinked\n/tracked/*\n!/tracked/kept\n";
    let before = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    for (file, text) in [
        (".gitignore", format!("{before}{ignored}").as_str()),
        ("node_modules/dep/index.js", "dep\n"),
        ("vendor/dep/.env", "secret\n"),
        ("web/target/made", "made\n"),
        ("web/a.txt", "a\n"),
        (".env.test", "TEST=1\n"),
        (".env.prod", "secret\n"),
        ("local.conf", "conf\n"),
        ("tracked/kept", "kept\n"),
        ("plain/file", "not ignored\n"),
    ] {
        fs::write(root.join(file), text).unwrap();
    }
    std::os::unix::fs::symlink(world.home.join(".ssh/id_x"), root.join("node_modules/out")).unwrap();
    std::os::unix::fs::symlink(world.home.join(".ssh"), root.join("linked")).unwrap();
    world.git(&root, &["add", "-A", "--", ".gitignore", "web", "tracked"]);
    world.git(&root, &["commit", "-q", "-m", "what is tracked"]);
    let shared = files(&root.join("node_modules"));
    let settings = format!("version: 1\nsandbox:\n  read: [{}]\n", root.join(".env.test").display());
    fs::write(world.path("watchfire-home/settings.yaml"), settings).unwrap();
    let project = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&project).unwrap();
    let more = "share: [node_modules, vendor, web/target, linked, tracked, plain]\ncopy: [.env.test, .env.prod, local.conf]\n\
                verify: [\"cat node_modules/dep/index.js web/target/made .env.test local.conf\", \"echo x > node_modules/v\"]\n";
    fs::write(&project, format!("{text}{more}")).unwrap();

    let ran = world.run(&root, ["run", "all"]);
    let show = |name: &str| world.git(&root, &["show", &format!("main:{name}")]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(show("seen.txt"), "dep\nmade\nTEST=1\nconf\n", "{}", ran.stderr);
    assert_eq!(show("after.txt"), "changed\nnew\n");
    assert!(!show("leak.txt").contains("secret"), "{}", show("leak.txt"));
    assert!(!show("hidden.txt").contains("secret"), "{}", show("hidden.txt"));
    assert!(show("else.txt").contains("kept") && !show("else.txt").contains("id_x"), "{}", show("else.txt"));
    let committed = world.git(&root, &["ls-tree", "-r", "--name-only", "main"]);
    for name in ["node_modules", "target/", ".env", "local.conf", "plain"] {
        assert!(!committed.contains(name), "{committed}");
    }
    assert_eq!(files(&root.join("node_modules")), shared, "nothing is written back");
    assert_eq!(fs::read_to_string(root.join("local.conf")).unwrap(), "conf\n");
    assert!(root.join("web/target/made").exists());
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for part in ["plain: git does not ignore it", "linked: a link leads to it", "sandbox: {read: ["] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Ignored folders that are there are shared; what is tracked or a link is not, and a file that may hold secrets only on request.
fn init_proposes_what_tasks_need() {
    let world = World::new();
    let root = world.repo("project");
    for folder in ["node_modules", "vendor", "elsewhere"] {
        fs::create_dir(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("x"), "").unwrap();
    }
    std::os::unix::fs::symlink("elsewhere", root.join("target")).unwrap();
    fs::write(root.join(".env.test"), "").unwrap();
    fs::write(root.join(".gitignore"), "node_modules\n/target\n.env.test\n").unwrap();
    let keys = |more: &[&str]| {
        let _ = fs::remove_dir_all(root.join(".watchfire"));
        let said = world.run(&root, ["init", "--yes", "--fresh", "--json"].iter().chain(more)).good().json();
        (said["share"].to_string(), said["copy"].to_string())
    };
    assert_eq!(keys(&[]), (r#"["node_modules"]"#.to_owned(), "[]".to_owned()));
    let asked = keys(&["--share", "web/node_modules", "--copy", ".env.test"]);
    assert_eq!(asked, (r#"["web/node_modules"]"#.to_owned(), r#"[".env.test"]"#.to_owned()));
    fs::write(root.join("package-lock.json"), "{}").unwrap();
    let proposed = || {
        let _ = fs::remove_dir_all(root.join(".watchfire"));
        world.run(&root, ["init", "--yes", "--fresh", "--json"]).good().json()["setup_proposed"].clone()
    };
    assert_eq!(proposed(), Value::Null, "tasks see the folder");
    fs::remove_dir_all(root.join("node_modules")).unwrap();
    assert_eq!(proposed(), "npm ci");
}

/// What prepares a task's folder writes there and nowhere else, and its failure costs no turn.
fn setup_is_held_as_the_agent_is() {
    let (world, root) = world("run cat prepared > seen.txt\ncommit seen\ndone\nexit 0");
    let outside = root.join("written");
    let secret = world.home.join(".ssh/id_x");
    // Below a private `/tmp` the last write succeeds, and is gone with it.
    let (secret, written) = (secret.display(), outside.display());
    let line = format!("echo ran > prepared; cat '{secret}'; echo out > '{written}'; false");
    world.run(&root, ["init", "--setup", &line]).good();
    let said = world.run(&root, ["run", "1"]).code(3);
    assert!(said.stdout.contains("setup failed") && !said.stdout.contains("secret\n"), "{}", said.stdout);
    assert!(!outside.exists());
    world.run(&root, ["init", "--setup", "echo ran > prepared"]).good();
    world.run(&root, ["run", "1"]).good();
    assert_eq!(world.git(&root, &["show", "main:seen.txt"]), "ran\n");
}

/// Rules are followed where they lead, but not by a link that an agent could have made in a session before.
fn a_planted_link_opens_nothing() {
    let (world, root) = world("done\nexit 0");
    let link = |name: &str, to: &Path| {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, root.join(name)).unwrap();
    };
    link(".git/modules", &world.home.join(".ssh/id_x"));
    let read = ["sandbox", "exec", "--", "sh", "-c", "! grep -q secret ~/.ssh/id_x"];
    world.run(&root, read).good();
    link(".git/refs/heads/watchfire", &world.home);
    let said = world.run(&root, ["sandbox", "exec", "--task", "1", "--json", "true"]).code(125);
    assert_eq!(said.json_error()["code"], "workspace_broken");
}

/// Tools find a place for their caches, and what they put there does not reach the user's home.
fn tools_have_caches_at_their_first_use() {
    let (world, root) = world("done\nexit 0");
    let cache = world.home.join(".cache");
    world.run(&root, ["sandbox", "report", "--task", "1"]).good();
    world.run(&root, ["sandbox", "exec", "--mode", "generate-tasks", "--", "true"]).good();
    assert!(!cache.exists());
    fs::create_dir(world.home.join(".npm")).unwrap();
    let home = || {
        let names = fs::read_dir(&world.home).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = home();
    let script = "test -d ~/.cache && touch ~/.cache/x && rm ~/.cache/x";
    world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]).good();
    world.run(&root, ["run", "1"]).good();
    assert_eq!(home(), before);
    let script = "mkdir ~/.cache/tool && echo x > ~/.cache/tool/x && cat ~/.cache/tool/x";
    let args = ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script];
    assert_eq!(world.run(&root, args).good().stdout, "x\n");
    assert!(!cache.exists(), "a shell or an editor could run what is there");
    // A cache that is there is written in a layer.
    let registry = world.home.join(".cargo/registry/src/itoa-1.0.0");
    fs::create_dir_all(&registry).unwrap();
    fs::write(registry.join("build.rs"), "fn main() {}\n").unwrap();
    let script =
        "cd ~/.cargo/registry/src/itoa-1.0.0 && echo evil >> build.rs && grep -q evil build.rs && touch new";
    world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]).good();
    assert_eq!(fs::read_to_string(registry.join("build.rs")).unwrap(), "fn main() {}\n");
    assert!(!registry.join("new").exists(), "the user's next build would find it");
    let layers = fs::read_dir(world.path("watchfire-home/state")).unwrap().flatten();
    let layers = layers.filter_map(|state| fs::read_dir(state.path().join("caches/layers")).ok()).flatten();
    assert_eq!(layers.count(), 0, "layers are left");
}

/// What one agent adds to a cache is there for the next. The commands of `verify` neither see it nor add to it, or an edited
/// dependency would make its own test pass.
fn tests_see_no_cache_of_an_agent() {
    let keep =
        "run mkdir -p ~/.npm/_cacache && echo a > ~/.npm/_cacache/a\nwrite 1.txt x\ncommit one\ndone\nexit 0";
    let (world, root) = world(keep);
    let on = Command::new("stat").args(["-f", "-c", "%T"]).arg(&world.home).output().unwrap();
    if String::from_utf8_lossy(&on.stdout).contains("overlay") {
        return println!("SKIPPED: no layers on a disk: not available here");
    }
    world.task(&root, "Next", "run test -e ~/.npm/_cacache/a && ! test -e ~/.npm/_cacache/v\nwrite 2.txt x\ncommit two\ndone\nexit 0");
    let project = root.join(".watchfire/project.yaml");
    let verify =
        "verify: ['! test -e ~/.npm/_cacache/a', 'mkdir -p ~/.npm/_cacache && touch ~/.npm/_cacache/v']\n";
    let text = fs::read_to_string(&project).unwrap().replace("verify: []\n", "");
    fs::write(&project, format!("{text}{verify}")).unwrap();
    world.run(&root, ["run", "1"]).good();
    world.run(&root, ["run", "2"]).good();
    assert_eq!(world.states(&root), [(1, "merged".to_owned()), (2, "merged".to_owned())]);
    assert!(!world.home.join(".npm").exists());
}

/// Where a sandbox can show it, `.watchfire` is the session's own.
fn the_agents_own_files_show_in_place() {
    let (world, root) = world("done\nexit 0");
    world.run(&root, ["task", "add", "--title", "Other", "--ready"]).good();
    let report = world.run(&root, ["sandbox", "report", "--task", "1", "--json"]).good().json();
    let controls = report["report"]["controls"].as_array().unwrap();
    let binds = controls.iter().find(|it| it["name"] == "private copies show at their usual places").unwrap();
    if binds["state"] != "enforced" {
        return println!("SKIPPED the_agents_own_files_show_in_place: no mount namespace");
    }
    let script = "cd ../..; ls | grep -v outbox | tr '\\n' ' '; ls tasks worktrees | tr '\\n' ' '; echo noted >> memory.md; \
                  cp tasks/0001.yaml t && mv t tasks/0001.yaml && echo moved; \
                  echo x > inbox/x || echo refused; echo x > worktrees/0001/new; echo '# evil' >> tasks/0002.yaml; \
                  echo evil > worktrees/0001/.git";
    let said = world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]);
    let listing = said.stdout.lines().next().unwrap_or_default();
    // The other task is there to be read, as the prompt says: a copy, of which nothing is taken over.
    assert!(listing.starts_with("inbox memory.md tasks worktrees tasks: 0001.yaml 0002.yaml"), "{said:?}");
    assert!(said.stdout.ends_with("moved\nrefused\n"), "{said:?}");
    let read = |path: &str| fs::read_to_string(root.join(".watchfire").join(path)).unwrap();
    assert!(read("memory.md").contains("noted") && read("worktrees/0001/new") == "x\n");
    assert!(!read("tasks/0002.yaml").contains("evil"));
    assert!(read("worktrees/0001/.git").starts_with("gitdir: "), "the pointer is as it was");
}

/// A chat works in the root, on a repository of its own; who generates writes nothing there.
fn a_mode_writes_what_it_is_for() {
    let (world, root) = world("done\nexit 0");
    let hooks = root.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let script = "echo x > new 2>/dev/null && echo wrote; mv .git .git2; \
                  git add new && git commit -qm new && echo committed; \
                  echo x > .git/hooks/post-merge; git config core.fsmonitor 'touch PWNED; false'; echo evil > .git/commondir; \
                  mkdir -p .git/rebase-merge; echo 'exec touch PWNED' > .git/rebase-merge/git-rebase-todo; \
                  ls .git/watchfire/private/*; ls .git/objects/??/* > /dev/null && echo objects";
    let say = |mode: &str| {
        let args = ["sandbox", "exec", "--mode", mode, "--", "sh", "-c", script];
        world.run(&root, args).stdout
    };
    assert!(!say("generate-tasks").contains("wrote"));
    assert!(!root.join("new").exists());
    let in_place = world.run(&root, ["sandbox", "report", "--json"]).json();
    let control = |name: &str| {
        let controls = in_place["report"]["controls"].as_array().unwrap();
        controls.iter().find(|it| it["name"] == name).map(|it| it["state"].clone())
    };
    let before = (fs::read(root.join(".git/config")).unwrap(), world.git(&root, &["rev-parse", "HEAD"]));
    assert_eq!(say("chat"), "wrote\ncommitted\nshared\nobjects\n");
    if control("read-only places inside of writable folders") == Some("open".into()) {
        return println!("SKIPPED a_mode_writes_what_it_is_for: no mount namespace");
    }
    assert_eq!(fs::read(root.join(".git/config")).unwrap(), before.0);
    for gone in [".git2", "PWNED", ".git/commondir", ".git/rebase-merge", ".git/hooks/post-merge"] {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    // What it committed is the person's now, and nothing else has changed.
    assert_eq!(world.git(&root, &["rev-parse", "HEAD~1"]), before.1);
    assert_eq!(world.git(&root, &["log", "-1", "--format=%s"]).trim(), "new");
    assert!(!world.git(&root, &["status", "--porcelain"]).contains("new"));
    let kept: Vec<_> =
        fs::read_dir(root.join(".git/watchfire/private")).into_iter().flatten().flatten().collect();
    assert!(kept.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with("guest-")), "{kept:?}");
    let said = world.run(&root, ["sandbox", "exec", "--mode", "refine", "--", "true"]).code(125);
    assert!(said.stderr.contains("needs a task"), "{said:?}");
}

/// While a project is being run, and after, its last session's policy answers.
fn the_last_session_is_remembered() {
    let (world, root) = world("run echo y > y\nhang");
    let mut run = world.start(&root, ["run", "all"]);
    run.wait_for("#0001 Look: running");
    let explain = |more: &[&str]| {
        let args = ["sandbox", "explain", "--task", "1", "--json"].iter().chain(more);
        world.run(&root, args)
    };
    support::until("the session is recorded", || explain(&["~/.ssh/id_x"]).code == Some(0));
    let answer = explain(&["~/.ssh/id_x"]).good().json();
    assert_eq!(answer["answers"][0]["read"]["verdict"], "denied");
    let refused = world.run(&root, ["sandbox", "exec", "--task", "1", "--json", "true"]).code(125);
    assert_eq!(refused.json_error()["code"], "locked");
    let now = world.run(&root, ["sandbox", "report", "--task", "1", "--last", "--json"]).good().json();
    assert_eq!((&now["ended"], &now["denials"]), (&Value::from(false), &Value::from("unknown")));
    run.signal("INT");
    run.end();
    let then = world.run(&root, ["sandbox", "report", "--task", "1", "--last"]).good().stdout;
    assert!(then.contains("which has ended") && then.contains("refused: unknown"), "{then}");
    assert!(Path::new(&root).join("a.txt").exists());
    explain(&["--last", "a.txt"]).good();
}

/// An agent whose tools meet the sandbox, the modes of files, and words about both.
fn what_a_tool_was_refused_is_told() {
    let world = World::for_sandboxes();
    fs::create_dir_all(world.home.join(".ssh")).unwrap();
    fs::write(world.home.join(".ssh/id_x"), "secret\n").unwrap();
    fs::write(world.home.join(".netrc"), "secret\n").unwrap();
    // The home inside is the agent's own, so a refused write lies in what is opened for reading.
    let shared = world.empty("shared");
    let settings = |sandbox: &str| {
        fs::create_dir_all(world.path("watchfire-home")).unwrap();
        let text = format!("version: 1\nsandbox: {sandbox}\n").replace("SHARED", shared.to_str().unwrap());
        fs::write(world.path("watchfire-home/settings.yaml"), text).unwrap();
    };
    settings("{read: [SHARED]}");
    // A tool that fails is written down as real agents do; one that does not, too.
    let tool = |command: &str| {
        format!(
            r#"run said=$({command} 2>&1) && failed=false || failed=true; printf '{{"role":"tool","parts":[{{"type":"tool_result","text":"%s","failed":%s}}]}}\n' "$said" $failed >> "$WATCHFIRE_SCRIPTED_TRANSCRIPT""#
        )
    };
    let script = [
        tool("cat ~/.netrc"),
        tool("cat ~/.ssh/id_x"),
        tool(&format!("touch '{}'", shared.join("x").display())),
        // Nothing is there, and nothing would be; a mode; the text of an error in a tool that did not fail, and in a failed one
        // that only repeats it.
        tool("cat ~/.pgpass"),
        tool("sh -c 'touch shut && chmod 000 shut && ./shut'"),
        tool("echo cat: ~/.ssh/known: Permission denied"),
        tool("sh -c 'echo tests/a.sh:3: cat: /etc/shadow: Permission denied; false'"),
        tool("cat no-such-file"),
        tool("sh -c 'echo Host key verification failed.; false'"),
        "run rm -f shut".to_owned(),
        "say cat: /etc/shadow: Permission denied".to_owned(),
        "done\nexit 0".to_owned(),
    ];
    let root = world.project("project", "");
    world.task(&root, "Look", &script.join("\n"));
    let home = world.home.display();
    let expected = [
        ("read", format!("{home}/.netrc")),
        ("read", format!("{home}/.ssh/id_x")),
        ("write", shared.join("x").display().to_string()),
    ];

    let run = world.run(&root, ["run", "1", "--json"]).good();
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<&str> = events
        .iter()
        .filter(|it| it["change"] == "notice" && it["code"] == "sandbox_denied")
        .filter_map(|it| it["message"].as_str())
        .collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[3].contains("neither your ssh keys"), "{told:?}");
    for ((access, path), said) in expected.iter().zip(&told) {
        let setting = format!("in settings.yaml: sandbox: {{{access}: [\"{path}\"]}}");
        assert!(said.contains(path) && said.contains(&setting), "{said}");
    }
    assert!(
        told[0].starts_with("cat: ")
            && told[0].contains(&format!("{home}/.netrc"))
            && told[0].contains("base policy: credentials"),
        "{told:?}"
    );

    let record = world.run(&root, ["sandbox", "report", "--task", "1", "--last", "--json"]).good().json();
    let kept: Vec<_> = record["refused"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| Some((it["access"].as_str()?, it["path"].as_str()?.to_owned())))
        .collect();
    assert_eq!(kept, expected);
    for args in [&["sandbox", "report", "--task", "1", "--last"][..], &["task", "show", "1"]] {
        let text = world.run(&root, args).good().stdout;
        assert!(told.iter().all(|said| text.contains(said)), "{text}");
    }

    // What a person then allows is told no more.
    settings("{read: [~/.netrc, ~/.ssh/id_x], write: [SHARED]}");
    world.run(&root, ["task", "ready", "1"]).good();
    let run = world.run(&root, ["run", "1", "--json"]);
    assert!(!run.stdout.contains("denies"), "{}", run.stdout);
}

fn no_strace() -> Option<String> {
    let traces = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let works = traces.is_ok_and(|output| output.status.success());
    (!works).then(|| "strace is not installed, or may not trace: not available here".to_owned())
}

/// Finds what a command was refused, although it complained about nothing. With that opened it succeeds.
fn learn_shows_what_to_open() {
    let (world, root) = world("done\nexit 0");
    fs::write(world.home.join(".netrc"), "secret\n").unwrap();
    fs::create_dir_all(world.home.join(".tool/state")).unwrap();
    let script = "test -r ~/.netrc; test -r ~/.pgpass; echo x 2> /dev/null > ~/.tool/state/new; cat ~/.netrc > /dev/null";
    let learn = |more: &[&str]| {
        let args = [&["sandbox", "learn", "--task", "1"], more, &["--", "sh", "-c", script]].concat();
        world.run(&root, args)
    };
    let said = learn(&[]).code(1);
    let home = world.home.display();
    for part in [
        "read   ~/.netrc: a file of 7 bytes (base policy: ".to_owned(),
        format!("write  ~/.tool/state: a folder with 0 items by {home} (base policy: "),
        "sandbox:\n  read:\n    - \"~/.netrc\"\n  write:\n    - \"~/.tool/state\"\n".to_owned(),
    ] {
        assert!(said.stderr.contains(&part), "{part}\n{}", said.stderr);
    }
    assert!(!said.stderr.contains(".pgpass"), "{}", said.stderr);
    let json = learn(&["--json"]).code(1).stderr;
    let json: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(json["settings"]["sandbox"]["write"][0], format!("{home}/.tool/state"));
    let settings = world.path("watchfire-home/settings.yaml");
    let lines = said.stderr.split_once("\nsandbox:\n").unwrap().1;
    fs::write(&settings, format!("version: 1\nsandbox:\n{lines}")).unwrap();
    let said = learn(&[]).code(0);
    assert!(said.stderr.contains("The sandbox refused the command no file."), "{}", said.stderr);
    let exec = world.run(&root, ["sandbox", "exec", "--task", "1", "--", "false"]).code(1);
    assert!(exec.stderr.contains("watchfire sandbox learn --task 0001 -- …"), "{}", exec.stderr);
}

/// With the usual limit of open files an orchestrator would start no more than some dozens of sessions.
fn the_limit_of_open_files_is_raised() {
    let (world, root) = world("run ulimit -S -n > limit\ncommit limit\ndone\nexit 0");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 256 && exec \"$@\"", "sh"]).arg(support::program());
    command.args(["run", "all", "--no-sandbox"]).current_dir(&root);
    world.isolate(&mut command);
    assert!(command.output().unwrap().status.success());
    let limit: u64 = world.git(&root, &["show", "HEAD:limit"]).trim().parse().unwrap();
    assert!(limit > 256, "{limit}");
}

/// It has the client, and knows where the socket is.
fn an_agent_does_not_reach_the_socket() {
    let (program, world) = (support::program(), World::for_sandboxes());
    let root = world.project("project", "");
    let home = world.path("watchfire-home");
    let api = home.join("api");
    let ask = |args: &str| {
        format!("WATCHFIRE_HOME='{}' '{}' -C / {args} >> seen 2>&1", home.display(), program.display())
    };
    let script = format!(
        "run {}; {}; cat '{}' >> seen 2>&1; ls '{}' >> seen 2>&1; true\nwait go 30\ndone\nexit 0",
        ask("sessions"),
        ask("send all mine"),
        home.join("daemon.yaml").display(),
        api.display()
    );
    world.task(&root, "Look", &script);
    let settings = format!("version: 1\nsandbox:\n  read: ['{}']\n", program.display());
    fs::write(home.join("settings.yaml"), settings).unwrap();
    // The port of a daemon is open to it, and useless without this.
    fs::write(home.join("daemon.yaml"), "token: SECRET\n").unwrap();
    let run = world.start(&root, ["run", "all", "--embedded"]);
    let seen = root.join(".watchfire/worktrees/0001/seen");
    support::until("the agent has tried", || fs::read_to_string(&seen).is_ok_and(|it| it.contains("ls:")));
    // All the while it is there for the person.
    let listed = world.run(&root, ["sessions", "--json"]).good().json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    fs::write(root.join(".watchfire/worktrees/0001/go"), "").unwrap();
    run.end().good();
    let seen = fs::read_to_string(root.join("seen")).unwrap();
    assert!(!seen.contains("submitted") && !seen.contains(".sock") && !seen.contains("SECRET"), "{seen}");
    assert!(!seen.contains(listed["sessions"][0]["alias"].as_str().unwrap()), "{seen}");
    // The client came as far as looking for sockets, each time.
    assert_eq!(seen.matches("no agents are run with this home now").count(), 2, "{seen}");
}
