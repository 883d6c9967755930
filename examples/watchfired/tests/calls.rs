//! Every call does what the API says, against the built daemon.

mod support;

use std::fs;
use std::path::Path;

use support::{World, id, start, task_id, until, until_task};
use tonic::Code;
use watchfire_api::ApiError;
use watchfire_api::daemon_proto as proto;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::SessionLog;

#[tokio::test]
async fn projects_are_made_changed_and_left() {
    let world = World::new();
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let mut projects = daemon.projects();

    let made = world.project(&daemon, "shop").await;
    assert_eq!((made.name.as_str(), made.status.as_str(), made.next_task_number), ("shop", "active", 1));
    assert!(made.auto_merge && !made.auto_start_tasks, "from the settings: {made:?}");
    let again = proto::CreateProjectRequest { path: made.path.clone(), ..Default::default() };
    let error = ApiError::from(projects.create_project(again).await.unwrap_err());
    assert_eq!(error.code, "already_exists");
    let relative = proto::CreateProjectRequest { path: "shop".to_owned(), ..Default::default() };
    assert_eq!(projects.create_project(relative).await.unwrap_err().code(), Code::InvalidArgument);
    // Neither everything that the person has, nor what is ours.
    for path in ["/".into(), world.path("home"), world.home.clone(), world.home.join("new/project")] {
        let request = proto::CreateProjectRequest { path: path.display().to_string(), ..Default::default() };
        let refused = projects.create_project(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{}: {refused:?}", path.display());
        assert!(path.as_path() == Path::new("/") || !path.join(".git").exists());
    }
    assert!(!world.home.join("new").exists());
    let title = "one\ntwo".to_owned();
    let project_id = made.project_id.clone();
    let request = proto::CreateTaskRequest { project_id, title, ..Default::default() };
    let refused = ApiError::from(daemon.tasks().create_task(request).await.unwrap_err());
    assert_eq!((refused.code.as_str(), refused.details["field"].as_str()), ("invalid_input", "title"));

    // A folder that is not there is made, with a repository in it.
    let fresh = proto::CreateProjectRequest {
        path: world.path("fresh").display().to_string(),
        name: "Fresh".to_owned(),
        auto_merge: Some(false),
        ..Default::default()
    };
    let fresh = projects.create_project(fresh).await.unwrap().into_inner();
    assert_eq!((fresh.name.as_str(), fresh.auto_merge, fresh.color.len()), ("Fresh", false, 7));
    assert!(world.path("fresh/.git").is_dir());

    let change = proto::UpdateProjectRequest {
        project_id: made.project_id.clone(),
        name: Some("Shop".to_owned()),
        definition: Some("# Shop\n".to_owned()),
        auto_merge: Some(false),
        ..Default::default()
    };
    let changed = projects.update_project(change).await.unwrap().into_inner();
    assert_eq!((changed.name.as_str(), changed.definition.as_str()), ("Shop", "# Shop\n"));
    assert!(!changed.auto_merge);
    assert_eq!(projects.get_project(id(&made.project_id)).await.unwrap().into_inner(), changed);

    let archive = |status: &str| proto::UpdateProjectRequest {
        project_id: fresh.project_id.clone(),
        status: Some(status.to_owned()),
        ..Default::default()
    };
    assert_eq!(projects.update_project(archive("archived")).await.unwrap().into_inner().status, "archived");
    let error = daemon.agents().start_agent(start(&fresh.project_id, "chat", 0)).await.unwrap_err();
    assert_eq!(ApiError::from(error).message, "the project is archived");
    assert_eq!(projects.update_project(archive("active")).await.unwrap().into_inner().status, "active");
    let bad = ApiError::from(projects.update_project(archive("gone")).await.unwrap_err());
    assert!(bad.message.contains("expected active or archived"), "{bad:?}");

    // One whose file is broken is listed with the reason. One that is open goes on with what it knows.
    projects.update_project(archive("archived")).await.unwrap();
    fs::write(world.path("fresh/.watchfire/project.yaml"), "version: [").unwrap();
    let listed = projects.list_projects(()).await.unwrap().into_inner().projects;
    assert_eq!(listed.len(), 2);
    assert!(listed[1].problem.contains("project.yaml"), "{:?}", listed[1]);
    projects.delete_project(id(&fresh.project_id)).await.unwrap();
    assert_eq!(projects.list_projects(()).await.unwrap().into_inner().projects.len(), 1);
    assert!(world.path("fresh/.watchfire/project.yaml").is_file());
    let gone = projects.get_project(id(&fresh.project_id)).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    drop(running);
}

#[tokio::test]
async fn tasks_are_made_changed_ordered_and_thrown_away() {
    let world = World::new();
    let mut running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let mut tasks = daemon.tasks();

    let new = |title: &str, key: &str| proto::CreateTaskRequest {
        project_id: project.clone(),
        title: title.to_owned(),
        labels: vec!["ui".to_owned()],
        idempotency_key: key.to_owned(),
        ..Default::default()
    };
    let one = tasks.create_task(new("One", "a")).await.unwrap().into_inner();
    assert_eq!((one.task_number, one.status.as_str(), one.labels.len()), (1, "draft", 1));
    assert_eq!(tasks.create_task(new("One", "a")).await.unwrap().into_inner().task_number, 1);
    assert_eq!(tasks.create_task(new("Two", "b")).await.unwrap().into_inner().task_number, 2);
    assert_eq!(tasks.create_task(new("Three", "")).await.unwrap().into_inner().task_number, 3);
    // A client that repeats a call whose answer a kill has lost.
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let mut tasks = daemon.tasks();
    assert_eq!(tasks.create_task(new("One", "a")).await.unwrap().into_inner().task_number, 1);

    let change = proto::UpdateTaskRequest {
        project_id: project.clone(),
        task_number: 2,
        title: Some("Second".to_owned()),
        prompt: Some("Do it.".to_owned()),
        depends_on: Some(proto::TaskNumbers { task_numbers: vec![1] }),
        agent: Some("scripted".to_owned()),
        ..Default::default()
    };
    let two = tasks.update_task(change).await.unwrap().into_inner();
    assert_eq!(
        (two.title.as_str(), two.prompt.as_str(), two.agent.as_str()),
        ("Second", "Do it.", "scripted")
    );
    assert_eq!((two.depends_on.as_slice(), two.labels.len()), (&[1][..], 1));
    assert_eq!(tasks.get_task(task_id(&project, 2)).await.unwrap().into_inner(), two);

    let list = |status: &str, include_deleted| proto::ListTasksRequest {
        project_id: project.clone(),
        status: status.to_owned(),
        include_deleted,
        ..Default::default()
    };
    let numbers = |list: proto::TaskList| list.tasks.iter().map(|it| it.task_number).collect::<Vec<_>>();
    let ready = proto::BulkUpdateStatusRequest {
        project_id: project.clone(),
        task_numbers: vec![2, 3, 9],
        new_status: "ready".to_owned(),
        ..Default::default()
    };
    // What can be changed is.
    assert_eq!(numbers(tasks.bulk_update_status(ready).await.unwrap().into_inner()), [2, 3]);
    assert_eq!(tasks.get_task(task_id(&project, 2)).await.unwrap().into_inner().state, "ready");
    assert_eq!(numbers(tasks.list_tasks(list("ready", false)).await.unwrap().into_inner()), [2, 3]);
    let order = proto::ReorderTasksRequest {
        project_id: project.clone(),
        task_numbers: vec![3, 1, 2],
        ..Default::default()
    };
    assert_eq!(numbers(tasks.reorder_tasks(order).await.unwrap().into_inner()), [3, 1, 2]);
    assert_eq!(numbers(tasks.list_tasks(list("", false)).await.unwrap().into_inner()), [3, 1, 2]);

    let gone = tasks.delete_task(task_id(&project, 3)).await.unwrap().into_inner();
    assert!(!gone.deleted_at.is_empty());
    assert_eq!(numbers(tasks.list_tasks(list("", false)).await.unwrap().into_inner()), [1, 2]);
    assert_eq!(numbers(tasks.list_tasks(list("", true)).await.unwrap().into_inner()), [3, 1, 2]);
    assert_eq!(tasks.restore_task(task_id(&project, 3)).await.unwrap().into_inner().deleted_at, "");
    let several = vec![1, 3];
    let delete =
        proto::BulkDeleteRequest { project_id: project.clone(), task_numbers: several.clone(), meta: None };
    assert_eq!(numbers(tasks.bulk_delete(delete.clone()).await.unwrap().into_inner()), [1, 3]);
    let restore =
        proto::BulkRestoreRequest { project_id: project.clone(), task_numbers: several, meta: None };
    assert_eq!(numbers(tasks.bulk_restore(restore).await.unwrap().into_inner()), [1, 3]);
    tasks.bulk_delete(delete).await.unwrap();
    tasks.empty_trash(id(&project)).await.unwrap();
    assert_eq!(numbers(tasks.list_tasks(list("", true)).await.unwrap().into_inner()), [2]);

    // A file that is no task is named with its reason.
    fs::write(world.path("shop/.watchfire/tasks/0007.yaml"), "title: [").unwrap();
    let listed = tasks.list_tasks(list("", false)).await.unwrap().into_inner();
    assert!(listed.malformed[0].path.ends_with("0007.yaml"), "{listed:?}");
    for (bad, code) in [(0, Code::InvalidArgument), (-1, Code::InvalidArgument), (99, Code::NotFound)] {
        assert_eq!(tasks.get_task(task_id(&project, bad)).await.unwrap_err().code(), code, "{bad}");
    }
    let status = tasks.list_tasks(list("nothing", false)).await.unwrap_err();
    assert!(status.message().contains("expected draft, ready or done"), "{status}");
}

#[tokio::test]
async fn a_task_is_run_to_its_merge_and_leaves_its_log_and_branch() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let update = proto::UpdateProjectRequest {
        project_id: project.clone(),
        auto_merge: Some(false),
        ..Default::default()
    };
    daemon.projects().update_project(update).await.unwrap();
    world.task(&daemon, &project, "Work", "say hello\nwrite n 1\ncommit n\ndone").await;

    let begun = daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap().into_inner();
    assert_eq!((begun.project_name.as_str(), begun.all.len()), ("shop", 1));
    assert_eq!((begun.mode.as_str(), begun.task_number, begun.task_title.as_str()), ("task", 1, "Work"));
    until("it has ended", || async {
        daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner().state == "idle"
    })
    .await;

    let branches = daemon.branches().list_branches(id(&project)).await.unwrap().into_inner().branches;
    assert_eq!(branches.len(), 1, "{branches:?}");
    assert_eq!((branches[0].name.as_str(), branches[0].status.as_str()), ("watchfire/0001", "unmerged"));
    assert_eq!((branches[0].task_number, branches[0].ahead), (1, 1));
    assert!(branches[0].committed_at.starts_with("20"), "{:?}", branches[0].committed_at);
    let branch = |discard| proto::BranchId {
        project_id: project.clone(),
        name: "watchfire/0001".to_owned(),
        discard,
        meta: None,
    };
    let kept = ApiError::from(daemon.branches().delete_branch(branch(false)).await.unwrap_err());
    assert!(kept.hint.is_some() && kept.details.contains_key("reason"), "{kept:?}");
    let merge = proto::MergeBranchRequest {
        project_id: project.clone(),
        name: "watchfire/0001".to_owned(),
        ..Default::default()
    };
    let merged = daemon.branches().merge_branch(merge).await.unwrap().into_inner();
    assert_eq!((merged.status.as_str(), merged.problem.as_str()), ("merged", ""));
    assert_eq!(world.git(&world.path("shop"), &["log", "-1", "--format=%s"]), "Merge watchfire/0001: Work\n");
    let several = proto::BulkBranchRequest {
        project_id: project.clone(),
        names: vec!["watchfire/0009".to_owned(), "main".to_owned()],
        ..Default::default()
    };
    let refused = daemon.branches().bulk_merge(several).await.unwrap().into_inner().branches;
    assert!(refused.iter().all(|branch| !branch.problem.is_empty()) && refused.len() == 2, "{refused:?}");
    daemon.branches().prune_branches(id(&project)).await.unwrap();

    let of = |task_number| proto::ListLogsRequest { project_id: project.clone(), task_number, meta: None };
    let logs = daemon.logs().list_logs(of(1)).await.unwrap().into_inner().logs;
    assert_eq!((logs.len(), logs[0].status.as_str(), logs[0].session_number), (1, "completed", 1));
    assert!(daemon.logs().list_logs(of(2)).await.unwrap().into_inner().logs.is_empty());
    let log =
        |log_id: &str| proto::LogId { project_id: project.clone(), log_id: log_id.to_owned(), meta: None };
    let read = daemon.logs().get_log(log(&logs[0].log_id)).await.unwrap().into_inner();
    assert!(read.content.contains("hello") && !read.truncated, "{:?}", read.content);
    assert_eq!(daemon.logs().read_log(log(&logs[0].log_id)).await.unwrap().into_inner(), read);
    for bad in ["", "../../settings.yaml", "/etc/passwd", "nothing.log"] {
        assert_eq!(daemon.logs().get_log(log(bad)).await.unwrap_err().code(), Code::NotFound, "{bad}");
    }
    // The record of a session's end comes after the end. Until then, the session itself says how it ended.
    let record = world.home.join("logs").join(&project).join(&logs[0].log_id).with_extension("spent.json");
    until("its end is recorded", || async { record.exists() }).await;
    std::fs::remove_file(&record).unwrap();
    let early = daemon.logs().get_log(log(&logs[0].log_id)).await.unwrap().into_inner();
    assert_eq!(early.status, "completed");
    daemon.logs().delete_log(log(&logs[0].log_id)).await.unwrap();
    assert!(daemon.logs().list_logs(of(0)).await.unwrap().into_inner().logs.is_empty());
    daemon.logs().delete_all_for_task(task_id(&project, 1)).await.unwrap();
    daemon.logs().delete_all_for_project(id(&project)).await.unwrap();
    let none = proto::BulkLogRequest { project_id: project.clone(), ..Default::default() };
    daemon.logs().bulk_delete(none).await.unwrap();
}

#[tokio::test]
async fn a_task_takes_the_place_of_a_chat_and_stop_ends_all() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let mut agents = daemon.agents();
    let chat = agents.start_agent(start(&project, "chat", 0)).await.unwrap().into_inner();
    assert_eq!((chat.mode.as_str(), chat.is_running), ("chat", true));
    world.task(&daemon, &project, "Waits", "say here\nhang").await;
    agents.start_agent(start(&project, "start-all", 0)).await.unwrap();
    until("the task runs alone", || async {
        let now = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
        now.is_running && now.mode == "start-all" && now.all.len() == 1
    })
    .await;
    let status = daemon.service().get_status(()).await.unwrap().into_inner();
    assert_eq!((status.active_agents.len(), status.projects), (1, 1));
    // Its log is written, and stays; that of the chat goes.
    let logs = || SessionLog::list(&world.home.join("logs").join(&project)).unwrap();
    let running = || logs().iter().filter(|log| log.is_running()).map(|log| log.task).collect::<Vec<_>>();
    until("it alone is recorded", || async { running() == [TaskNumber::new(1)] }).await;
    let log_id = logs().iter().find(|log| log.task.is_some()).unwrap().name();
    let one = proto::LogId { project_id: project.clone(), log_id: log_id.clone(), meta: None };
    let all = logs().iter().map(SessionLog::name).collect();
    let bulk = proto::BulkLogRequest { project_id: project.clone(), log_ids: all, ..Default::default() };
    for refused in [
        daemon.logs().delete_log(one).await,
        daemon.logs().bulk_delete(bulk).await,
        daemon.logs().delete_all_for_task(task_id(&project, 1)).await,
    ] {
        assert_eq!(ApiError::from(refused.unwrap_err()).code, "busy");
    }
    assert_eq!(logs().len(), 2);
    daemon.logs().delete_all_for_project(id(&project)).await.unwrap();
    assert_eq!(logs().iter().map(SessionLog::name).collect::<Vec<_>>(), [log_id]);
    let stopped = agents.stop_agent(id(&project)).await.unwrap().into_inner();
    assert!(!stopped.is_running, "{stopped:?}");
    // A task that cannot be started takes no chat's place.
    agents.start_agent(start(&project, "chat", 0)).await.unwrap();
    let missing = agents.start_agent(start(&project, "task", 9)).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let still = agents.get_agent_status(id(&project)).await.unwrap().into_inner();
    assert_eq!((still.mode.as_str(), still.is_running), ("chat", true));
    // One session is stopped alone, and once more without harm.
    let one = proto::ProjectId { session_id: still.session_id.clone(), ..id(&project) };
    assert!(!agents.stop_agent(one.clone()).await.unwrap().into_inner().is_running);
    assert!(!agents.stop_agent(one).await.unwrap().into_inner().is_running);
    until_task(&daemon, &project, 1, "stopped").await;

    for (mode, words) in [("", "expected chat, task, start-all or wildfire"), ("task", "begin at 1")] {
        let error = agents.start_agent(start(&project, mode, 0)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(words), "{error}");
    }
    let none = proto::SendInputRequest { project_id: project.clone(), ..Default::default() };
    assert_eq!(ApiError::from(agents.send_input(none).await.unwrap_err()).code, "target_off");
}

#[tokio::test]
async fn who_follows_a_project_is_known_while_it_does() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let watchers = || async {
        let status = daemon.service().get_status(()).await.unwrap().into_inner();
        let who = |it: proto::Watcher| (it.project_id, it.meta.unwrap_or_default().client_id);
        status.watchers.into_iter().map(who).collect::<Vec<_>>()
    };
    assert_eq!(watchers().await, []);
    let meta = watchfire_client::meta("tui");
    let request = proto::SubscribeRequest { meta: Some(meta.clone()), project_id: project.clone() };
    let events = daemon.projects().subscribe(request).await.unwrap();
    let request = proto::SubscribeAgentIssuesRequest { meta: Some(meta.clone()), ..Default::default() };
    let refused = daemon.agents().subscribe_agent_issues(request).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument, "and it counts for nothing");
    assert_eq!(watchers().await, [(project, meta.client_id)]);
    drop(events);
    until("nobody follows it", || async { watchers().await.is_empty() }).await;
}

#[tokio::test]
async fn no_call_loosens_what_the_settings_say() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let open = proto::StartAgentRequest { sandbox: "none".to_owned(), ..start(&project, "chat", 0) };
    let refused = daemon.agents().start_agent(open).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(ApiError::from(refused).hint.is_some());

    let mut settings = daemon.settings().get_settings(()).await.unwrap().into_inner();
    let scripted = &settings.agents["scripted"];
    assert!(!scripted.found_at.is_empty() || !scripted.display_name.is_empty(), "{scripted:?}");
    let mut defaults = settings.defaults.take().unwrap();
    assert_eq!(defaults.default_sandbox.as_deref(), Some("none"));
    let with = |defaults| proto::Settings { defaults: Some(defaults), ..Default::default() };
    defaults.default_sandbox = Some("auto".to_owned());
    let refused = daemon.settings().update_settings(with(defaults)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let before = fs::read_to_string(world.home.join("settings.yaml")).unwrap();
    assert!(before.contains("default_sandbox: none"));

    let change = proto::Defaults { auto_merge: Some(false), ..Default::default() };
    let changed = daemon.settings().update_settings(with(change)).await.unwrap().into_inner();
    let defaults = changed.defaults.unwrap();
    assert_eq!((defaults.auto_merge, defaults.default_agent.as_deref()), (Some(false), Some("scripted")));
    let mut agents = std::collections::HashMap::new();
    agents.insert(
        "codex".to_owned(),
        proto::AgentSettings { path: "relative".to_owned(), ..Default::default() },
    );
    let bad = proto::Settings { agents, ..Default::default() };
    let bad = ApiError::from(daemon.settings().update_settings(bad).await.unwrap_err());
    assert_eq!(bad.details["field"], "agents.codex.path");
}

/// Found out when the name is given, not by the next run.
#[tokio::test]
async fn an_agent_that_is_not_known_is_refused() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "One", "done").await;
    let nobody = || Some("nobody".to_owned());
    let defaults = proto::Defaults { default_agent: nobody(), ..Default::default() };
    let settings = proto::Settings { defaults: Some(defaults), ..Default::default() };
    let change = proto::UpdateProjectRequest {
        project_id: project.clone(),
        default_agent: nobody(),
        ..Default::default()
    };
    let task = proto::UpdateTaskRequest {
        project_id: project.clone(),
        task_number: 1,
        agent: nobody(),
        ..Default::default()
    };
    let new = proto::CreateTaskRequest {
        project_id: project.clone(),
        title: "Two".to_owned(),
        agent: "nobody".to_owned(),
        ..Default::default()
    };
    let refused = [
        ("defaults.default_agent", daemon.settings().update_settings(settings).await.unwrap_err()),
        ("default_agent", daemon.projects().update_project(change).await.unwrap_err()),
        ("agent", daemon.tasks().update_task(task).await.unwrap_err()),
        ("agent", daemon.tasks().create_task(new).await.unwrap_err()),
    ];
    for (field, refused) in refused {
        let error = ApiError::from(refused);
        assert_eq!(error.details["field"], field, "{error:?}");
        assert!(error.hint.is_some(), "{error:?}");
    }
    let clear = proto::UpdateProjectRequest {
        project_id: project.clone(),
        default_agent: Some(String::new()),
        ..Default::default()
    };
    daemon.projects().update_project(clear).await.unwrap();
}

/// A call that is repeated because its answer was lost does nothing anew.
#[tokio::test]
async fn a_repeated_start_ends_no_chat_that_came_after_it() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "One", "write one 1\ncommit one\ndone").await;
    let mut agents = daemon.agents();
    let once = proto::StartAgentRequest { idempotency_key: "a".to_owned(), ..start(&project, "task", 1) };
    let run = agents.start_agent(once.clone()).await.unwrap().into_inner().run_id;
    until_task(&daemon, &project, 1, "merged").await;
    agents.start_agent(start(&project, "chat", 0)).await.unwrap();
    let status = || async {
        let status = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
        (status.is_running, status.mode)
    };
    let chats = || async { status().await == (true, "chat".to_owned()) };
    until("a chat", chats).await;
    assert_eq!(agents.start_agent(once).await.unwrap().into_inner().run_id, run);
    assert!(chats().await, "it goes on");
    // Nor does a run of all tasks end it while none is ready.
    agents.start_agent(start(&project, "start-all", 0)).await.unwrap();
    assert!(chats().await, "it goes on");
    // A start that is new takes its place.
    world.task(&daemon, &project, "Two", "hang").await;
    agents.start_agent(start(&project, "task", 2)).await.unwrap();
    until("a task", || async { status().await == (true, "task".to_owned()) }).await;
    agents.stop_agent(id(&project)).await.unwrap();
}
