//! A second terminal watches what a run does, and sends text to its agents.

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use support::{Running, World, until};
use watchfire_client::Client;
use watchfire_core::observe::{Target, WatchRequest};

const RUN: [&str; 4] = ["run", "all", "--no-sandbox", "--no-wait"];

/// A run of one task whose agent repeats what it is told, once that waits for input.
fn talking(world: &World) -> (PathBuf, Running) {
    let root = world.project("shop", "");
    world.task(&root, "Talks", "say hello\nchat");
    let run = world.start(&root, RUN);
    until("the agent is idle", || {
        let listed = world.run(&root, ["sessions", "--json"]);
        listed.code == Some(0) && listed.json()["sessions"][0]["status"] == "idle"
    });
    // Its title says so before its transcript is read again.
    until("the agent is heard", || {
        let seen = world.run(&root, ["watch", "1", "--json"]);
        seen.code == Some(0) && seen.json()["transcript"]["latest_text"] == "hello"
    });
    (root, run)
}

fn quit(world: &World, root: &Path, run: Running) {
    // The answer may not come any more: the session is over with it.
    world.run(root, ["send", "1", "/quit"]);
    run.end();
    let gone = world.run(root, ["watch", "1", "--json"]).code(1).json_error();
    assert_eq!(gone["code"], "app_not_running");
}

#[test]
fn where_nothing_runs_there_is_a_code_for_it() {
    let world = World::new();
    let root = world.project("shop", "");
    for args in [&["sessions"][..], &["watch", "1"], &["wait", "1"], &["follow"], &["send", "1", "x"]] {
        let said = world.run(&root, [args, &["--json"]].concat()).code(1);
        let error = said.json_error();
        assert_eq!(error["code"], "app_not_running", "{args:?}");
        assert!(error["hint"].is_string());
        let envelope: Value = serde_json::from_str(&said.stderr).unwrap();
        assert_eq!((&envelope["schema"], &envelope["ok"]), (&1.into(), &false.into()));
    }
}

/// What is under way and what has ended is read beside the program that has the project.
#[test]
fn queue_and_history_need_no_lock() {
    let world = World::new();
    let (root, run) = talking(&world);
    let queue = world.run(&root, ["queue", "--json"]).good().json();
    assert_eq!((&queue["queue"][0]["task"], &queue["queue"][0]["state"]), (&1.into(), &"running".into()));
    let history = world.run(&root, ["history", "--json"]).good().json();
    assert_eq!(history["history"].as_array().unwrap().len(), 0);
    quit(&world, &root, run);
    let queue = world.run(&root, ["queue", "--json"]).good().json();
    let history = world.run(&root, ["history", "--json"]).good().json();
    assert_eq!(queue["queue"].as_array().unwrap().len(), 0);
    // Of what was not started, another command tells.
    let none = world.run(&root, ["queue"]).good().stdout;
    assert!(none.contains("nothing that was started") && none.contains("watchfire task list"), "{none}");
    assert_eq!(history["history"][0]["task"], 1);
}

/// A run leaves a project that is archived meanwhile, and its work is kept.
#[test]
fn an_archived_project_is_left_by_its_run() {
    let world = World::new();
    let (root, run) = talking(&world);
    world.task(&root, "Next", "write n 1\ncommit n\ndone");
    world.run(&root, ["settings", "status", "archived"]).good();
    let said = run.end().code(1);
    assert!(said.stderr.contains("archived"), "{}", said.stderr);
    // A command in its folder makes it active again.
    let said = world.run(&root, ["run", "2", "--no-sandbox", "--no-wait"]).good().stderr;
    assert!(said.contains("this project was archived"), "{said}");
    let said = world.run(&root, ["task", "list"]).good().stderr;
    assert!(!said.contains("archived"), "{said}");
    let queue = world.run(&root, ["queue", "--json"]).good().json();
    assert_eq!((&queue["queue"][0]["task"], &queue["queue"][0]["state"]), (&1.into(), &"waiting".into()));
}

/// A program that is suspended is named, and keeps no other from being listed.
#[test]
fn a_suspended_program_keeps_nobody_waiting() {
    let world = World::new();
    let (shop, run) = talking(&world);
    run.signal("STOP");
    let silent = world.run(&shop, ["sessions", "--json"]).code(1).json_error();
    assert_eq!(
        (&silent["code"], &silent["details"]["pid"]),
        (&"timeout".into(), &run.pid().to_string().into())
    );
    assert!(silent["details"]["socket"].as_str().unwrap().ends_with(".sock"), "{silent}");
    assert!(silent["hint"].as_str().unwrap().contains(&format!("kill -CONT {}", run.pid())), "{silent}");

    let other = world.project("other", "");
    world.task(&other, "Talks too", "say hello\nchat");
    let second = world.start(&other, RUN);
    until("the other one is listed", || {
        let listed = world.run(&other, ["sessions", "--json"]);
        listed.code == Some(0)
            && listed.json()["sessions"].as_array().unwrap().len() == 1
            && listed.stderr.contains(&format!("the program {} does not answer", run.pid()))
    });
    // It hears.
    world.run(&other, ["send", "1", "/quit"]);
    second.end();
    run.signal("CONT");
    quit(&world, &shop, run);
}

#[test]
fn a_second_terminal_watches_and_sends() {
    let world = World::new();
    let (root, run) = talking(&world);
    let listed = world.run(&root, ["ps", "--json"]).good().json();
    let session = &listed["sessions"][0];
    assert_eq!((&session["task"], &session["backend"]), (&1.into(), &"scripted".into()));
    assert_eq!(session["runtime_state"], "live_pty_available");
    let alias = session["alias"].as_str().unwrap().to_owned();
    assert_eq!(session["usage"]["input_tokens"], 0, "it uses no model");
    let line = world.run(&root, ["ps"]).good().stdout;
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!((words[0], words[4]), (alias.as_str(), "idle"), "{line}");
    // For how long it has run.
    assert!(words[5].ends_with('s') && words[5].starts_with(|c: char| c.is_ascii_digit()), "{line}");

    // From another folder only the task's number means nothing.
    let elsewhere = world.empty("elsewhere");
    for name in [alias.as_str(), "shop:1", session["id"].as_str().unwrap()] {
        let seen = world.run(&elsewhere, ["watch", name, "--json"]).good().json();
        assert_eq!((&seen["schema"], &seen["agent"]["name"]), (&1.into(), &alias.as_str().into()));
        assert_eq!(seen["transcript"]["latest_text"], "hello");
    }
    let seen = world.run(&root, ["watch", "1"]).good();
    assert_eq!(seen.stdout, format!("{alias} (#0001), scripted: idle\nhello\n"));

    let sent = world.run(&root, ["send", "1", "--wait-until", "idle", "one", "--json"]).good().json();
    assert_eq!((&sent["ok"], &sent["delivery"][0]["delivery_state"]), (&true.into(), &"submitted".into()));
    assert_eq!(sent["watch"]["transcript"]["latest_text"], "you said: one");
    // What was printed before does not count; what is said after the cursor does.
    let cursor = sent["watch"]["cursor"].as_str().unwrap();
    let late = world
        .run(&root, ["watch", "1", "--until", "output:you said: one", "--timeout", "300ms", "--json"])
        .code(1);
    assert_eq!(late.json_error()["code"], "watch_timeout");
    world.run(&elsewhere, ["send", "backend:scripted", "two"]).good();
    let seen = ["watch", "1", "--since", cursor, "--until", "transcript:you said: two", "--raw", "--json"];
    let seen = world.run(&root, seen).good().json();
    assert!(seen["matched"].is_string() && seen["output"]["text"].as_str().unwrap().contains("two"));
    assert!(seen["raw_output"]["text"].as_str().unwrap().contains('\u{1b}'), "{seen}");
    world.run(&root, ["wait", "1"]).good();
    // It is idle: only what comes from now on counts.
    let next = world.run(&root, ["wait", "1", "--next", "--timeout", "300ms", "--json"]).code(1);
    assert_eq!(next.json_error()["code"], "watch_timeout");
    let tail = world.run(&root, ["watch", "1", "--tail", "4", "--json"]).good().json();
    assert_eq!(tail["warnings"][0], "output_truncated", "{tail}");
    quit(&world, &root, run);
}

#[test]
fn a_connection_that_is_cut_frees_its_places() {
    let world = World::new();
    let (root, run) = talking(&world);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let target: Target = "shop:1".parse().unwrap();
    let at = (world.path("watchfire-home"), target);
    let watch = move |timeout: Duration| {
        let (home, target) = at.clone();
        async move {
            let asked = WatchRequest::default().with_until("output:never").with_timeout(timeout);
            match Client::connect(&home, None).await {
                Ok(client) => client.watch(&target, asked).await.unwrap_err().code,
                // Many at once may be too much for the time that a connection has.
                Err(error) => error.code,
            }
        }
    };
    // Each on a connection of its own, and again where another look had the place for a moment.
    let hold = || {
        let watch = watch.clone();
        async move {
            loop {
                watch(Duration::from_secs(600)).await;
            }
        }
    };
    let waiting: Vec<_> = (0..32).map(|_| runtime.spawn(hold())).collect();
    let short = Duration::from_millis(50);
    until("all places are taken", || runtime.block_on(watch(short)) == "too_many_watchers");
    waiting[0].abort();
    until("one is free", || runtime.block_on(watch(short)) == "watch_timeout");
    // As a program that is killed: nothing more is said on its connections.
    runtime.shutdown_background();
    let again = tokio::runtime::Runtime::new().unwrap();
    until("all are free", || {
        let all: Vec<_> = (0..32).map(|_| again.spawn(watch(Duration::from_secs(2)))).collect();
        // All are waited for: those of this look must not take the places of the next.
        let codes: Vec<_> = all.into_iter().map(|one| again.block_on(one).unwrap()).collect();
        codes.iter().all(|code| code == "watch_timeout")
    });
    quit(&world, &root, run);
}

#[test]
fn a_name_that_is_wrong_is_told_with_what_there_is() {
    let world = World::new();
    let (root, run) = talking(&world);
    let error = world.run(&root, ["watch", "7", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found");
    assert!(error["details"]["there_are"].as_str().unwrap().contains("(shop:1)"), "{error}");
    let error = world.run(&root, ["watch", "all", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_supported");
    let error = world.run(&root, ["send", "all", "x", "--wait-until", "idle", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_supported");
    let error = world.run(&root, ["watch", "1", "--since", "nonsense", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "invalid_cursor");
    let error = world.run(&root, ["watch", "1", "--until", "weather:sunny", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "unsupported_watch_condition");
    let error = world.run(&root, ["wait", "1", "--until", "bored", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "unsupported_watch_condition");
    world.run(&root, ["watch", "1", "--include", "everything"]).code(2);
    let error = world.run(&root, ["watch", "1", "--timeout", "soon", "--json"]).code(1).json_error();
    assert_eq!((&error["code"], &error["details"]["option"]), (&"invalid_input".into(), &"--timeout".into()));
    quit(&world, &root, run);
}

#[test]
fn a_text_that_does_not_arrive_is_an_error_with_its_details() {
    let world = World::new();
    let root = world.project("shop", "max_parallel: 2");
    // The first agent ends when it is told so, and is then a session that has ended in a run that goes on.
    world.task(&root, "Ends", "line\nexit 1");
    world.task(&root, "Works", "sleep 60");
    let run = world.start(&root, RUN);
    until("both run, and the first waits for input", || {
        let listed = world.run(&root, ["sessions", "--json"]);
        let Some(0) = listed.code else { return false };
        let listed = listed.json();
        let sessions = listed["sessions"].as_array().unwrap();
        let is_ready = |it: &Value| it["task"] == 1 && it["runtime_state"] == "live_pty_available";
        sessions.len() == 2 && sessions.iter().any(is_ready)
    });
    world.run(&root, ["send", "1", "bye"]);
    until("the first has ended", || {
        world.run(&root, ["sessions", "--json"]).json()["sessions"].as_array().unwrap().len() == 1
    });
    let error = world.run(&root, ["send", "1", "too late", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "target_off");
    let detail = &error["details"]["delivery"][0];
    assert_eq!(
        (&detail["runtime_state"], &detail["delivery_state"]),
        (&"target_off".into(), &"failed".into())
    );
    // It can still be read.
    let seen = world.run(&root, ["watch", "1", "--json"]).good().json();
    assert_eq!(seen["agent"]["status"], "off");
    run.signal("INT");
    run.end();
}

#[test]
fn a_stream_follows_what_runs_and_goes_on_from_a_cursor() {
    let world = World::new();
    let (root, run) = talking(&world);
    let mut follow =
        world.start(&root, ["follow", "--json", "--kinds", "transcript,status", "--heartbeat", "200ms"]);
    follow.wait_for("heartbeat");
    world.run(&root, ["send", "1", "--wait-until", "idle", "one"]).good();
    follow.wait_for("you said: one");
    world.run(&root, ["send", "1", "--wait-until", "idle", "two"]).good();
    quit(&world, &root, run);
    let lines = follow.end().stdout;
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: Vec<_> = records.iter().filter(|it| it["kind"] != "heartbeat").collect();
    assert!(records.iter().all(|it| it["task"] == 1 && it["alias"].is_string() && it["cursor"].is_string()));
    let texts: Vec<_> = records.iter().filter(|it| it["role"] == "assistant").map(|it| &it["text"]).collect();
    // The first words may still come when the stream is open already.
    assert!(texts.ends_with(&[&"you said: one".into(), &"you said: two".into()]), "{texts:?}");
    assert!(records.iter().any(|it| it["status"] == "off"), "the end of the session is not told: {lines}");
}

#[test]
fn an_interrupt_ends_a_stream() {
    let world = World::new();
    let root = world.project("shop", "");
    // Not one that is idle: the run would end once that was asked how its task ended, and its stream with it.
    world.task(&root, "Works", "hang");
    let run = world.start(&root, RUN);
    until("the agent works", || world.run(&root, ["watch", "1", "--json"]).code == Some(0));
    let mut follow = world.start(&root, ["follow", "--json", "--heartbeat", "200ms"]);
    follow.wait_for("heartbeat");
    follow.signal("INT");
    let ended = follow.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    // As the spec writes it.
    let mut follow = world.start(&root, ["watch", "1", "--follow", "--json"]);
    follow.wait_for("heartbeat");
    // Of one that has its time, the end is good.
    for args in [&["watch", "1", "--follow"][..], &["follow"]] {
        let timed = [args, &["--timeout", "300ms", "--json"]].concat();
        assert!(world.run(&root, timed).good().stdout.contains("heartbeat"));
    }
    run.signal("INT");
    run.end();
    follow.end();
}

#[test]
fn runs_of_two_projects_are_seen_as_one() {
    let world = World::new();
    let (shop, run) = talking(&world);
    let blog = world.project("blog", "");
    world.task(&blog, "Talks", "chat");
    let other = world.start(&blog, RUN);
    until("two sessions", || {
        world.run(&shop, ["sessions", "--json"]).json()["sessions"].as_array().unwrap().len() == 2
    });
    // A number is a task of the project at hand, and elsewhere it is not clear which.
    let seen = world.run(&blog, ["watch", "1", "--json"]).good().json();
    let listed = world.run(&blog, ["sessions", "project:blog", "--json"]).good().json();
    assert_eq!(seen["agent"]["uuid"], listed["sessions"][0]["id"]);
    let error = world.run(&world.empty("elsewhere"), ["watch", "1", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "ambiguous_target");
    world.run(&shop, ["wait", "blog:1"]).good();
    // One that is killed is no end for who follows both.
    let mut followed = world.start(&shop, ["follow", "all", "--json"]);
    let both = world.run(&shop, ["sessions", "--json"]).json();
    for session in both["sessions"].as_array().unwrap() {
        followed.wait_for(session["alias"].as_str().unwrap());
    }
    other.signal("KILL");
    followed.wait_for("program_lost");
    other.end();
    quit(&world, &shop, run);
    followed.wait_for("off");
    followed.end();
    assert_eq!(world.run(&shop, ["sessions", "--json"]).code(1).json_error()["code"], "app_not_running");
}
