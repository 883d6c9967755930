//! What clients follow: screens, output, issues and events.

mod support;

use std::fs;

use support::{PATIENCE, Running, World, id, start, until, until_task};
use tonic::{Code, Streaming};
use watchfire_api::ApiError;
use watchfire_api::daemon_proto as proto;
use watchfire_client::Daemon;
use watchfire_term::wire;

async fn next<T>(stream: &mut Streaming<T>) -> T {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await.expect("a message in time");
    message.unwrap().expect("the stream goes on")
}

async fn shop(world: &World) -> (Running, Daemon, String) {
    let running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    (running, daemon, project)
}

/// Waits until an agent runs, and returns its session.
async fn running_session(daemon: &Daemon, project: &str) -> String {
    until("an agent runs", || async {
        daemon.agents().get_agent_status(id(project)).await.unwrap().into_inner().is_running
    })
    .await;
    daemon.agents().get_agent_status(id(project)).await.unwrap().into_inner().session_id
}

/// Three forms of one screen, and what was typed shows in all of them.
#[tokio::test]
async fn screens_are_lines_cells_or_changes() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    world.task(&daemon, &project, "Talks", "run printf '\\033[31mred\\033[m plain\\n'\nchat").await;
    let mut begin = start(&project, "task", 1);
    (begin.rows, begin.cols) = (10, 40);
    daemon.agents().start_agent(begin).await.unwrap();
    let session = running_session(&daemon, &project).await;
    let screen = |format: proto::ScreenFormat| proto::SubscribeScreenRequest {
        project_id: project.clone(),
        format: format.into(),
        ..Default::default()
    };
    let mut agents = daemon.agents();
    let mut lines =
        agents.subscribe_screen(screen(proto::ScreenFormat::Unspecified)).await.unwrap().into_inner();
    let mut cells = agents.subscribe_screen(screen(proto::ScreenFormat::Cells)).await.unwrap().into_inner();
    let mut changes =
        agents.subscribe_screen(screen(proto::ScreenFormat::Changes)).await.unwrap().into_inner();
    let typed = proto::SendInputRequest {
        project_id: project.clone(),
        data: b"good day\r".to_vec(),
        session_id: session.clone(),
        ..Default::default()
    };
    agents.send_input(typed).await.unwrap();
    let shown = loop {
        let buffer = next(&mut lines).await;
        assert_eq!((buffer.rows, buffer.cols, buffer.session_id.as_str()), (10, 40, session.as_str()));
        assert_eq!(buffer.lines.len(), 10);
        if buffer.lines.iter().any(|line| line.contains("you said: good day")) {
            break buffer;
        }
    };
    assert!(shown.lines.iter().any(|line| line.contains("\x1b[0;31mred\x1b[0m plain")), "{:?}", shown.lines);
    loop {
        let whole = wire::decode(&next(&mut cells).await.cells).unwrap();
        if whole.text().contains("you said: good day") {
            break;
        }
    }
    let mut seen = wire::decode(&next(&mut changes).await.cells).unwrap();
    while !seen.text().contains("you said: good day") {
        seen = wire::decode_change(&seen, &next(&mut changes).await.cells).unwrap();
    }

    let resize =
        proto::ResizeRequest { project_id: project.clone(), rows: 5, cols: 30, ..Default::default() };
    agents.resize(resize.clone()).await.unwrap();
    while next(&mut lines).await.rows != 5 {}
    for (rows, cols) in [(0, 10), (10, 0), (5000, 10), (70_000, 70_000)] {
        let bad = proto::ResizeRequest { rows, cols, ..resize.clone() };
        assert_eq!(agents.resize(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
    // What the smaller screen had no room for.
    let back = proto::ScrollbackRequest { project_id: project.clone(), ..Default::default() };
    let back = agents.get_scrollback(back).await.unwrap().into_inner();
    assert_eq!(back.lines.len() as u64, back.total - back.offset, "{back:?}");

    let gone = proto::SubscribeScreenRequest {
        session_id: "1b4e28ba-2fa1-41d2-883f-0016d3cca427".to_owned(),
        ..screen(proto::ScreenFormat::Unspecified)
    };
    assert_eq!(agents.subscribe_screen(gone).await.unwrap_err().code(), Code::FailedPrecondition);
    agents.stop_agent(id(&project)).await.unwrap();
    let end = loop {
        if let Some(end) = next(&mut changes).await.end {
            break end;
        }
    };
    assert_eq!(end.outcome, "interrupted");
    assert_ne!(end.exit_code, 0);
}

/// A client that reads raw output goes on where it was, and with the next agent of a chain.
#[tokio::test]
async fn output_goes_on_from_an_offset_and_over_a_chain() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    for name in ["one", "two"] {
        world
            .task(
                &daemon,
                &project,
                name,
                &format!("run echo this is {name}\nwrite {name} 1\ncommit {name}\ndone"),
            )
            .await;
    }
    let mut agents = daemon.agents();
    let request = proto::SubscribeRawOutputRequest { project_id: project.clone(), ..Default::default() };
    // Before anything runs.
    let mut output = agents.subscribe_raw_output(request).await.unwrap().into_inner();
    agents.start_agent(start(&project, "start-all", 0)).await.unwrap();
    let (mut text, mut sessions) = (String::new(), Vec::new());
    while !(text.contains("this is one") && text.contains("this is two")) {
        let chunk = next(&mut output).await;
        text.push_str(&String::from_utf8_lossy(&chunk.data));
        if sessions.last() != Some(&chunk.session_id) {
            sessions.push(chunk.session_id);
        }
    }
    assert_eq!(sessions.len(), 2);
    until_task(&daemon, &project, 2, "merged").await;

    let go = world.path("go");
    let waits = format!("run until test -e '{}'; do sleep 0.02; done", go.display());
    let script = format!("run echo first\n{waits}\nrun echo second\nhang");
    world.task(&daemon, &project, "three", &script).await;
    agents.start_agent(start(&project, "task", 3)).await.unwrap();
    let (mut got, mut named) = (0, String::new());
    let request = proto::SubscribeRawOutputRequest { project_id: project.clone(), ..Default::default() };
    let mut output = agents.subscribe_raw_output(request.clone()).await.unwrap().into_inner();
    let mut text = String::new();
    while !text.contains("first") {
        let chunk = next(&mut output).await;
        text.push_str(&String::from_utf8_lossy(&chunk.data));
        (got, named) = (chunk.offset, chunk.session_id);
    }
    drop(output);
    // Of which session would it be?
    let nameless = proto::SubscribeRawOutputRequest { bytes_received: got, ..request.clone() };
    let refused = ApiError::from(agents.subscribe_raw_output(nameless).await.unwrap_err());
    assert_eq!((refused.code.as_str(), refused.hint.is_some()), ("invalid_input", true), "{refused:?}");
    fs::write(go, "").unwrap();
    let later = proto::SubscribeRawOutputRequest { bytes_received: got, session_id: named, ..request };
    let mut output = agents.subscribe_raw_output(later).await.unwrap().into_inner();
    let mut rest = String::new();
    while !rest.contains("second") {
        let chunk = next(&mut output).await;
        assert_eq!((chunk.skipped, chunk.redraw), (0, false));
        rest.push_str(&String::from_utf8_lossy(&chunk.data));
    }
    assert!(!rest.contains("first"), "{rest:?}");
    agents.stop_agent(id(&project)).await.unwrap();
}

/// A reader that takes nothing in until five agents have ended is shown each of them.
#[tokio::test]
async fn a_slow_reader_sees_every_session() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    // More than is on the way to a client that does not read.
    let much = "run head -c 400000 /dev/zero | tr '\\0' x";
    for number in 1..=5 {
        let script = format!(
            "{much}\nrun printf '\\033[2J\\033[Hthis is %s' {number}\nwrite {number} 1\ncommit {number}\ndone"
        );
        world.task(&daemon, &project, &format!("Task {number}"), &script).await;
    }
    let mut agents = daemon.agents();
    let request = proto::SubscribeRawOutputRequest { project_id: project.clone(), ..Default::default() };
    let mut output = agents.subscribe_raw_output(request).await.unwrap().into_inner();
    agents.start_agent(start(&project, "start-all", 0)).await.unwrap();
    for number in 1..=5 {
        until_task(&daemon, &project, number, "merged").await;
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    while !seen.last().is_some_and(|(_, text)| text.contains("this is 5")) {
        let chunk = next(&mut output).await;
        if seen.last().is_none_or(|(session, _)| *session != chunk.session_id) {
            seen.push((chunk.session_id, String::new()));
        }
        seen.last_mut().unwrap().1.push_str(&String::from_utf8_lossy(&chunk.data));
    }
    for (number, (_, text)) in (1..).zip(&seen) {
        assert!(text.contains(&format!("this is {number}")), "{number} of {}", seen.len());
    }
    assert_eq!(seen.len(), 5);
}

/// Streams about a project end when it is archived, and go on where it was closed and opened again.
#[tokio::test]
async fn streams_outlive_the_opening_of_a_project() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    let mut agents = daemon.agents();
    let chat = start(&project, "chat", 0);
    agents.start_agent(chat.clone()).await.unwrap();
    let before = running_session(&daemon, &project).await;
    let follow = || async {
        let mut agents = daemon.agents();
        let screen = proto::SubscribeScreenRequest { project_id: project.clone(), ..Default::default() };
        let output = proto::SubscribeRawOutputRequest { project_id: project.clone(), ..Default::default() };
        let screen = agents.subscribe_screen(screen).await.unwrap().into_inner();
        (screen, agents.subscribe_raw_output(output).await.unwrap().into_inner())
    };
    let (mut screen, mut output) = follow().await;
    let issues = proto::SubscribeAgentIssuesRequest { project_id: project.clone(), ..Default::default() };
    let mut issues = agents.subscribe_agent_issues(issues).await.unwrap().into_inner();
    next(&mut issues).await;
    let events = proto::SubscribeRequest { project_id: project.clone(), ..Default::default() };
    let mut events = daemon.projects().subscribe(events).await.unwrap().into_inner();
    assert_eq!(next(&mut screen).await.session_id, before);

    // A folder that was moved, which a command in it has told the index.
    fs::rename(world.path("shop"), world.path("moved")).unwrap();
    let index = world.path("home/wf/projects.yaml");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("/shop", "/moved")).unwrap();
    agents.start_agent(chat).await.unwrap();
    assert_eq!(end(&mut events).await, "the project was closed");
    while next(&mut screen).await.session_id == before {}
    while next(&mut output).await.session_id == before {}

    let archive = proto::UpdateProjectRequest {
        project_id: project.clone(),
        status: Some("archived".to_owned()),
        ..Default::default()
    };
    daemon.projects().update_project(archive).await.unwrap();
    let archived = "the project is archived";
    assert_eq!([end(&mut screen).await, end(&mut output).await, end(&mut issues).await], [archived; 3]);
}

/// Returns the error that a stream ends with.
async fn end<T>(stream: &mut Streaming<T>) -> String {
    loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.expect("an end in time") {
            Ok(message) => assert!(message.is_some(), "it ended without a word"),
            Err(status) => return ApiError::from(status).message,
        }
    }
}

/// What happens shows as events, whoever did it: a call, an editor, an agent.
#[tokio::test]
async fn events_tell_what_anybody_did() {
    let world = World::new();
    let (running, daemon, project) = shop(&world).await;
    let request = proto::SubscribeRequest { project_id: project.clone(), ..Default::default() };
    let mut events = daemon.projects().subscribe(request).await.unwrap().into_inner();
    let mut all = daemon.projects().subscribe(proto::SubscribeRequest::default()).await.unwrap().into_inner();
    assert_eq!(next(&mut events).await.event_type, "subscribed");
    assert_eq!(next(&mut all).await.event_type, "subscribed");
    world.task(&daemon, &project, "Work", "write n 1\ncommit n\ndone").await;
    let created = loop {
        // The project's next number changes with it.
        match next(&mut events).await {
            event if event.event_type == "project_updated" => {}
            event => break event,
        }
    };
    assert_eq!(
        (created.event_type.as_str(), created.project_id.as_str()),
        ("task_created", project.as_str())
    );
    assert!(matches!(created.payload, Some(proto::event::Payload::Task(task)) if task.title == "Work"));

    let file = world.path("shop/.watchfire/tasks/0001.yaml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("title: \"Work\""), "{text}");
    fs::write(&file, text.replace("title: \"Work\"", "title: Edited")).unwrap();
    let edited = loop {
        let event = next(&mut events).await;
        if let Some(proto::event::Payload::Task(task)) = event.payload
            && task.title == "Edited"
        {
            break event.event_type;
        }
    };
    assert_eq!(edited, "task_updated");

    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    let mut told = Vec::new();
    while !told.iter().any(|name| name == "branch_merged") {
        let event = next(&mut events).await;
        if event.event_type == "agent_started" {
            let Some(proto::event::Payload::Agent(agent)) = event.payload else { panic!("an agent") };
            assert_eq!((agent.task_number, agent.task_title.as_str()), (1, "Edited"));
        }
        told.push(event.event_type);
    }
    let place = |name: &str| told.iter().position(|it| it == name).unwrap_or_else(|| panic!("{told:?}"));
    assert!(place("agent_started") < place("agent_stopped"), "{told:?}");
    while next(&mut all).await.event_type != "branch_merged" {}
    // One that is opened later comes along.
    let other = world.project(&daemon, "other").await.project_id;
    loop {
        let event = next(&mut all).await;
        if event.event_type == "subscribed" {
            assert_eq!(event.project_id, other);
            break;
        }
    }

    // The end of the daemon is said, not only seen.
    daemon.service().shutdown(()).await.unwrap();
    let last = loop {
        match tokio::time::timeout(PATIENCE, events.message()).await.unwrap() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an end without a word"),
            Err(status) => break status,
        }
    };
    assert_eq!((last.code(), last.message()), (Code::Unavailable, "the daemon is shutting down"));
    drop(running);
}

/// An issue is told when it comes and when it is over.
#[tokio::test]
async fn issues_are_told_and_taken_back() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    let request = proto::SubscribeAgentIssuesRequest { project_id: project.clone(), ..Default::default() };
    let mut issues = daemon.agents().subscribe_agent_issues(request).await.unwrap().into_inner();
    assert_eq!(next(&mut issues).await.issue_type, "");
    world.task(&daemon, &project, "Limited", "issue rate_limited slow down\nhang").await;
    daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
    let issue = next(&mut issues).await;
    assert_eq!(issue.issue_type, "rate_limited");
    assert!(!issue.message.is_empty());
    let status = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
    assert_eq!(status.issue.unwrap().issue_type, "rate_limited");
    daemon.agents().stop_agent(id(&project)).await.unwrap();
    // It may be told again before, with what is known of it by then.
    while !next(&mut issues).await.issue_type.is_empty() {}
}

/// A deadline ends a call, and a stream, with its own code.
#[tokio::test]
async fn deadlines_are_heeded() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    let within = |time: u64| {
        let mut request =
            tonic::Request::new(proto::SubscribeRequest { meta: None, project_id: project.clone() });
        // Not `set_timeout`, which ends the call on this side too.
        request.metadata_mut().insert("grpc-timeout", format!("{time}m").parse().unwrap());
        request
    };
    let mut events = daemon.projects().subscribe(within(500)).await.unwrap().into_inner();
    let over = loop {
        match tokio::time::timeout(PATIENCE, events.message()).await.unwrap() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an end without a word"),
            Err(status) => break status,
        }
    };
    assert_eq!(over.code(), Code::DeadlineExceeded);
    assert_eq!(watchfire_client::ApiError::from(over).code, "timeout");
}

/// Agents that print as fast as they can leave the daemon time for its clients. (`a_reader_that_never_waits_lets_others_work` in core
/// counts the turns.)
#[tokio::test]
async fn calls_are_answered_while_agents_print() {
    let world = World::new();
    let (_running, daemon, project) = shop(&world).await;
    let file = world.path("shop/.watchfire/project.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}max_parallel: 10\n")).unwrap();
    for _ in 0..10 {
        world
            .task(&daemon, &project, "Prints", "run yes a line of output as long as those of compilers are")
            .await;
    }
    daemon.agents().start_agent(start(&project, "start-all", 0)).await.unwrap();
    for number in 1..=10 {
        until_task(&daemon, &project, number, "running").await;
    }
    for _ in 0..10 {
        let status = tokio::time::timeout(PATIENCE, daemon.service().get_status(())).await;
        assert_eq!(status.expect("an answer in time").unwrap().into_inner().active_agents.len(), 10);
    }
    daemon.agents().stop_agent(id(&project)).await.unwrap();
}
