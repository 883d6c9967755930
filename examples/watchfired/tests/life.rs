//! One daemon for a home, whatever ends it; and agents that go on without it.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use support::{World, id, start, until, until_task};
use watchfire_api::{DaemonFile, daemon_proto as proto};
use watchfire_client::Daemon;
use watchfire_core::process::CommandSpec;

fn signal(child: &std::process::Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[tokio::test]
async fn there_is_one_and_its_file_is_the_persons() {
    let world = World::new();
    let mut running = world.start(&[]);
    let second = world.command(&[]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("a daemon runs for this home already"), "{said}");
    assert!(said.contains(&running.file.pid.to_string()), "{said}");
    for private in ["daemon.yaml", "daemon.lock", "api/daemon.sock"] {
        let mode = fs::metadata(world.home.join(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{private}: {mode:o}");
    }
    let status = world.connect().await.service().get_status(()).await.unwrap().into_inner();
    assert_eq!((status.port, status.pid), (running.file.port.into(), running.file.pid));

    signal(&running.child, Signal::TERM);
    assert!(running.child.wait().unwrap().success());
    assert_eq!(DaemonFile::read(&world.home).unwrap(), None);
    assert!(Daemon::connect(&world.home).await.is_err());
}

/// What a killed one leaves behind is no daemon, even if another process has its number now.
#[tokio::test]
async fn what_a_killed_daemon_left_keeps_nobody_from_starting() {
    let world = World::new();
    let mut running = world.start(&[]);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let left = DaemonFile::read(&world.home).unwrap().unwrap();
    assert!(Daemon::connect(&world.home).await.is_err());
    let path = world.home.join("daemon.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let alive = std::process::id();
    fs::write(&path, text.replace(&format!("pid: {}", left.pid), &format!("pid: {alive}"))).unwrap();

    // Two clients at once: one daemon.
    let command = world.spec();
    let (one, two) = tokio::join!(
        Daemon::find_or_start(&world.home, &command),
        Daemon::find_or_start(&world.home, &command)
    );
    let pid = |daemon: Daemon| async move { daemon.service().get_status(()).await.unwrap().into_inner().pid };
    let one = one.unwrap();
    assert_eq!(pid(one.clone()).await, pid(two.unwrap()).await);
    assert_ne!(DaemonFile::read(&world.home).unwrap().unwrap().token, left.token);
    one.service().shutdown(()).await.unwrap();
    until("it has ended", || async { DaemonFile::read(&world.home).unwrap().is_none() }).await;
}

/// A daemon that cannot start says why, in words that its client gets to read.
#[tokio::test]
async fn one_that_cannot_start_is_an_error_at_once() {
    let world = World::new();
    let error = Daemon::find_or_start(&world.home, &CommandSpec::new("false")).await.unwrap_err();
    assert_eq!(error.code, "app_not_running");
    assert!(error.hint.unwrap().contains("daemon.log"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let blocked = world.command(&["--port", &port]).output().unwrap();
    let said = String::from_utf8_lossy(&blocked.stderr).into_owned();
    assert!(said.contains(&port) && said.contains("in use"), "{said}");
}

/// Agents go on while no daemon runs, whether it ended in order or was killed; the next one has them again, and what they did
/// is merged once.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_that_is_lost_is_made_again() {
    let world = World::new();
    let _running = world.start(&[]);
    let first = world.connect().await;
    fs::remove_file(watchfire_api::daemon_socket(&world.home)).unwrap();
    until("it is found again", || async { Daemon::connect(&world.home).await.is_ok() }).await;
    first.service().ping(()).await.unwrap();
}

#[tokio::test]
async fn agents_outlive_the_daemon() {
    let world = World::new();
    let mut running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    world.task(&daemon, &project, "Long", &format!("say begun\n{waits}\nwrite n 1\ncommit n\ndone")).await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&daemon, &project, 1, "running").await;
    let session = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner().session_id;

    daemon.service().shutdown(()).await.unwrap();
    assert!(running.child.wait().unwrap().success());
    let mut running = world.start(&[]);
    let again = world.connect().await;
    // Its first answer knows the agents that went on.
    let first = again.service().get_status(()).await.unwrap().into_inner();
    assert_eq!((first.projects, first.active_agents.len()), (1, 1), "{first:?}");
    until_task(&again, &project, 1, "running").await;
    let now = again.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
    assert_eq!((now.session_id.as_str(), now.is_running), (session.as_str(), true));

    running.child.kill().unwrap();
    running.child.wait().unwrap();
    // It finishes alone.
    fs::write(&go, "").unwrap();
    let mut running = world.start(&[]);
    let last = world.connect().await;
    until_task(&last, &project, 1, "merged").await;
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let _running = world.start(&[]);
    // A client that the killed one told nothing gets the end from the next one.
    let request = proto::SubscribeScreenRequest {
        project_id: project.clone(),
        session_id: session,
        ..Default::default()
    };
    let daemon = world.connect().await;
    // Its guardian may still have the record of its output in hand.
    until("the end is known", || async { daemon.agents().subscribe_screen(request.clone()).await.is_ok() })
        .await;
    let mut screen = daemon.agents().subscribe_screen(request).await.unwrap().into_inner();
    let end = screen.message().await.unwrap().and_then(|last| last.end).expect("the end");
    assert_eq!((end.exit_code, end.outcome.as_str()), (0, "completed"));
    assert!(screen.message().await.unwrap().is_none());
    let log = world.git(&world.path("shop"), &["log", "--format=%s"]);
    assert_eq!(log.lines().filter(|line| line.starts_with("Merge")).count(), 1, "{log}");
}

/// What these tests start ends with them, also an agent whose daemon was killed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_test_leaves_no_process() {
    let world = World::new();
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Long", "hang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&daemon, &project, 1, "running").await;
    let home = world.home.display().to_string();
    let left = || -> Vec<String> {
        let of = |entry: fs::DirEntry| {
            let about = [fs::read(entry.path().join("environ")), fs::read(entry.path().join("cmdline"))];
            let about = about.into_iter().flatten().flatten().collect();
            String::from_utf8(about).ok().filter(|about| about.contains(&home))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    };
    assert!(!left().is_empty());
    drop(running);
    assert!(!left().is_empty(), "its agent goes on");
    drop(world);
    until("none is left", || async { left().is_empty() }).await;
}

/// With `--end-agents` nothing is left at work, and nothing is lost.
#[tokio::test]
async fn agents_end_with_it_where_that_is_asked_for() {
    let world = World::new();
    let mut running = world.start(&["--end-agents"]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Long", "write n 1\nsay begun\nhang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until("its work is there", || async { world.path("shop/.watchfire/worktrees/0001/n").exists() }).await;
    signal(&running.child, Signal::TERM);
    assert!(running.child.wait().unwrap().success());
    assert_eq!(world.git(&world.path("shop"), &["show", "watchfire/0001:n"]), "1");
}

/// What runs stands in a file, for programs that read nothing else.
#[tokio::test]
async fn what_runs_stands_in_a_file() {
    let world = World::new();
    let mut running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let file = world.home.join("agents.yaml");
    let says = |words: &str| fs::read_to_string(&file).is_ok_and(|text| text.contains(words));
    until("nothing runs", || async { says("agents: []") }).await;
    world.task(&daemon, &project, "Add auth", "hang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until("a task runs", || async { says("task_title: Add auth") }).await;
    let root = format!("project_path: {}", world.path("shop").display());
    assert!(says("version: 1") && says("mode: task") && says("task_number: 1") && says(&root));
    daemon.agents().stop_agent(id(&project)).await.unwrap();
    until("nothing runs again", || async { says("agents: []") }).await;
    signal(&running.child, Signal::TERM);
    running.child.wait().unwrap();
    assert!(!file.exists());
}

/// A task that becomes ready by any hand starts, where the project says so.
#[tokio::test]
async fn ready_tasks_start_by_themselves() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let on = watchfire_api::daemon_proto::UpdateProjectRequest {
        project_id: project.clone(),
        auto_start_tasks: Some(true),
        ..Default::default()
    };
    daemon.projects().update_project(on).await.unwrap();
    world.task(&daemon, &project, "Work", "write n 1\ncommit n\ndone").await;
    until_task(&daemon, &project, 1, "merged").await;
}

/// What a person stops stays stopped, also for the next daemon, until they start something.
#[tokio::test]
async fn after_a_stop_nothing_starts_by_itself() {
    let world = World::new();
    let mut running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "First", "hang").await;
    world.task(&daemon, &project, "Second", "write n 1\ncommit n\ndone").await;
    let on = watchfire_api::daemon_proto::UpdateProjectRequest {
        project_id: project.clone(),
        auto_start_tasks: Some(true),
        ..Default::default()
    };
    daemon.projects().update_project(on).await.unwrap();
    until_task(&daemon, &project, 1, "running").await;
    let stopped = daemon.agents().stop_agent(id(&project)).await.unwrap().into_inner();
    assert!(stopped.halted && stopped.all.iter().all(|agent| agent.task_number == 1), "{stopped:?}");
    until_task(&daemon, &project, 1, "stopped").await;
    let state = |daemon: Daemon, project: String| async move {
        let task = watchfire_api::daemon_proto::TaskId { project_id: project, task_number: 2, meta: None };
        daemon.tasks().get_task(task).await.unwrap().into_inner().state
    };
    assert_eq!(state(daemon.clone(), project.clone()).await, "ready");

    signal(&running.child, Signal::TERM);
    assert!(running.child.wait().unwrap().success());
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let status = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
    assert!(status.halted && status.all.is_empty(), "{status:?}");
    assert_eq!(state(daemon.clone(), project.clone()).await, "ready");
    daemon.agents().resume_agent(id(&project)).await.unwrap();
    until_task(&daemon, &project, 2, "merged").await;
}

/// Stops agents once the last client has gone, if the settings ask for it, and not before.
#[tokio::test]
async fn agents_end_with_the_last_client_where_asked() {
    let world = World::new();
    let running = world.start(&[]);
    let (first, second) = (world.connect().await, world.connect().await);
    let project = world.project(&first, "shop").await.project_id;
    world.task(&first, &project, "Work", "hang").await;
    first.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&first, &project, 1, "running").await;

    let settings = world.home.join("settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("{text}  stop_without_clients: 300ms\n")).unwrap();
    drop(first);
    tokio::time::sleep(std::time::Duration::from_millis(900)).await;
    until_task(&second, &project, 1, "running").await;
    drop(second);
    // Nobody may look meanwhile: who looks is a client.
    let agents = world.home.join("agents.yaml");
    until("it is stopped", || async { std::fs::read_to_string(&agents).unwrap().contains("agents: []") })
        .await;
    let third = world.connect().await;
    until_task(&third, &project, 1, "stopped").await;
    drop(running);
}

/// The client whose call opens the first project is a client of it, though it follows nothing.
#[tokio::test]
async fn the_first_client_is_one_too() {
    let world = World::new();
    let settings = world.home.join("settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("{text}  stop_without_clients: 300ms\n")).unwrap();
    let _running = world.start(&[]);
    let client = world.connect().await;
    let project = world.project(&client, "shop").await.project_id;
    world.task(&client, &project, "Work", "hang").await;
    client.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    until_task(&client, &project, 1, "running").await;
    drop(client);
    let agents = world.home.join("agents.yaml");
    until("it is stopped", || async { std::fs::read_to_string(&agents).unwrap().contains("agents: []") })
        .await;
}

/// A client that follows one project is none of another's.
#[tokio::test]
async fn agents_of_a_project_end_with_its_last_client() {
    let world = World::new();
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let settings = world.home.join("settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("{text}  stop_without_clients: 300ms\n")).unwrap();
    let mut projects = Vec::new();
    for name in ["shop", "blog", "page"] {
        let project = world.project(&daemon, name).await.project_id;
        world.task(&daemon, &project, "Work", "hang").await;
        daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
        until_task(&daemon, &project, 1, "running").await;
        projects.push(project);
    }
    let [shop, blog, page] = &projects[..] else { unreachable!() };
    let subscribe = |project: &String| watchfire_api::daemon_proto::SubscribeRequest {
        project_id: project.clone(),
        ..Default::default()
    };
    let interface = daemon.projects().subscribe(subscribe(shop)).await.unwrap().into_inner();
    let _other = daemon.projects().subscribe(subscribe(page)).await.unwrap().into_inner();
    // As `run` does.
    let run = daemon.follow(blog, None, false).await.unwrap();
    drop(interface);
    until_task(&daemon, shop, 1, "stopped").await;
    until_task(&daemon, blog, 1, "running").await;
    drop(run);
    until_task(&daemon, blog, 1, "stopped").await;
    until_task(&daemon, page, 1, "running").await;
    drop(running);
}

/// Archiving a project closes it in a running daemon, and reactivating it opens it again, whoever changed the file.
#[tokio::test]
async fn an_archived_project_rests_until_it_is_active() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    world.task(&daemon, &project, "Long", &format!("{waits}\nwrite n 1\ncommit n\ndone")).await;
    daemon.agents().start_agent(start(&project, "start-all", 0)).await.unwrap();
    until_task(&daemon, &project, 1, "running").await;

    let file = world.path("shop/.watchfire/project.yaml");
    let set = |from: &str, to: &str| {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
    };
    set("status: \"active\"", "status: \"archived\"");
    until("it is closed", || async {
        let status = daemon.service().get_status(()).await.unwrap().into_inner();
        status.projects == 0 && status.active_agents.is_empty()
    })
    .await;
    let refused = daemon.agents().get_agent_status(id(&project)).await.unwrap_err();
    assert_eq!(refused.message(), "the project is archived");
    // Its files can be changed, and nothing comes of that.
    world.task(&daemon, &project, "Next", "write m 1\ncommit m\ndone").await;
    fs::write(&go, "").unwrap();
    assert_eq!(daemon.service().get_status(()).await.unwrap().into_inner().projects, 0);

    set("status: \"archived\"", "status: \"active\"");
    until("it is open", || async {
        daemon.service().get_status(()).await.unwrap().into_inner().projects == 1
    })
    .await;
    until_task(&daemon, &project, 1, "merged").await;
    until_task(&daemon, &project, 2, "merged").await;
}

/// An archived project that is removed leaves no watch on its folder, nor anything else that would wait for it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_archived_project_that_is_removed_is_waited_for_no_more() {
    let world = World::new();
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let watches = || {
        let infos = fs::read_dir(format!("/proc/{}/fdinfo", running.file.pid)).unwrap();
        let infos = infos.flatten().filter_map(|info| fs::read_to_string(info.path()).ok());
        infos.map(|info| info.matches("inotify wd:").count()).sum::<usize>()
    };
    let before = watches();
    for name in ["one", "two"] {
        let project_id = world.project(&daemon, name).await.project_id;
        let status = Some("archived".to_owned());
        let archive =
            proto::UpdateProjectRequest { project_id: project_id.clone(), status, ..Default::default() };
        daemon.projects().update_project(archive).await.unwrap();
        until("its files are watched", || async { watches() > before }).await;
        daemon.projects().delete_project(id(&project_id)).await.unwrap();
        until("nothing of it is watched", || async { watches() == before }).await;
    }
}

/// What a person writes into the settings holds for the next start, without a restart of the daemon, and though no task changes.
#[tokio::test]
async fn settings_that_change_hold_at_once() {
    let world = World::new();
    let settings = world.home.join("settings.yaml");
    let good = fs::read_to_string(&settings).unwrap();
    let bad = |agent: &str| good.replace("default_agent: scripted", &format!("default_agent: {agent}"));
    // From the beginning, so that nothing starts meanwhile.
    fs::write(&settings, bad("nobody")).unwrap();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Work", "write n 1\ncommit n\ndone").await;
    for agent in ["nothing", "none-of-them"] {
        fs::write(&settings, bad(agent)).unwrap();
        until("the error names the new agent", || async {
            let refused = daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap_err();
            watchfire_api::ApiError::from(refused).details.values().any(|value| value.contains(agent))
        })
        .await;
    }
    fs::write(&settings, &good).unwrap();
    until("the good one is taken", || async {
        daemon.agents().start_agent(start(&project, "task", 1)).await.is_ok()
    })
    .await;
    until_task(&daemon, &project, 1, "merged").await;
}

/// An index that is deleted takes no agent with it: the projects that are open are registered again.
#[tokio::test]
async fn a_deleted_index_is_made_again() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Hangs", "hang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    let runs = || async {
        let asked = daemon.agents().get_agent_status(id(&project)).await;
        asked.is_ok_and(|status| status.into_inner().is_running)
    };
    until("it runs", runs).await;
    let index = world.path("home/wf/projects.yaml");
    fs::remove_file(&index).unwrap();
    until("it is there again", || async { index.exists() }).await;
    let listed = daemon.projects().list_projects(()).await.unwrap().into_inner().projects;
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "shop"));
    assert!(runs().await, "it goes on");
    daemon.agents().stop_agent(id(&project)).await.unwrap();
}
