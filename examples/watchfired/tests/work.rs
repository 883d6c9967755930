//! The log of a project, and what a person says to work in it.

mod support;

use std::fs;

use support::{PATIENCE, World, id, start, until};
use tonic::Code;
use watchfire_api::work_proto::follow_response::What;
use watchfire_api::work_proto::{AcceptProposalRequest, FollowRequest, ProposeRequest, StopRunRequest};
use watchfire_client::{Daemon, Followed, ProjectLog};
use watchfire_core::orchestrator::Record;
use watchfire_core::schedule::{Change, RunId};

async fn next(log: &mut ProjectLog) -> Followed {
    let item = tokio::time::timeout(PATIENCE, log.next()).await.expect("an item in time");
    item.unwrap().expect("the log goes on")
}

/// Returns the changes up to the one that is looked for.
async fn until_change(log: &mut ProjectLog, wanted: impl Fn(&Change) -> bool) -> Vec<Record> {
    let mut records = Vec::new();
    loop {
        if let Followed::Record(record) = next(log).await {
            let found = wanted(&record.change);
            records.push(*record);
            if found {
                return records;
            }
        }
    }
}

async fn follow(daemon: &Daemon, project: &str, since: Option<&str>) -> ProjectLog {
    daemon.follow(project, since, false).await.unwrap().1
}

/// A client that lost its connection, or its daemon, goes on where it was: nothing is missing, and nothing comes twice.
#[tokio::test]
async fn a_log_goes_on_after_a_cursor() {
    let world = World::new();
    let mut running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    for number in ["One", "Two"] {
        world.task(&daemon, &project, number, &format!("write {number}.txt 1\ncommit n\ndone")).await;
    }
    let (state, mut log) = daemon.follow(&project, None, false).await.unwrap();
    assert!(state.runs.is_empty() && state.lives.is_empty());
    let begun = daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap().into_inner();
    assert_ne!(begun.run_id, 0);
    let of = |run: u64| move |change: &Change| matches!(change, Change::Run(it) if it.id == RunId(run) && it.ended.is_some());
    let first = until_change(&mut log, of(begun.run_id)).await;

    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let gone = loop {
        match log.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a log ends only with its project"),
            Err(error) => break error,
        }
    };
    assert_eq!(gone.code, "app_not_running");

    let _running = world.start(&[]);
    let daemon = world.connect().await;
    // From the middle of what was told already.
    let at = first.len() / 2;
    let mut log = follow(&daemon, &project, Some(&first[at].cursor.to_string())).await;
    let begun = daemon.agents().start_agent(start(&project, "task", 2)).await.unwrap().into_inner();
    let second = until_change(&mut log, of(begun.run_id)).await;
    let again: Vec<_> = second.iter().take(first.len() - at - 1).map(|record| &record.change).collect();
    assert_eq!(again, first[at + 1..].iter().map(|record| &record.change).collect::<Vec<_>>());
    let place =
        |record: &Record| record.cursor.to_string().rsplit_once(':').unwrap().1.parse::<u64>().unwrap();
    let places: Vec<_> = second.iter().map(place).collect();
    assert!(places.windows(2).all(|pair| pair[1] == pair[0] + 1), "{places:?}");
    // The state has the end of the run too, for a client that missed it.
    let (state, _) = daemon.follow(&project, None, false).await.unwrap();
    let summary = state.runs.iter().find(|run| run.id == RunId(begun.run_id)).and_then(|run| run.summary());
    assert!(summary.is_some_and(|it| it.is_good()));

    for (project_id, cursor, code) in
        [(project.as_str(), "nonsense", Code::InvalidArgument), ("nobody", "", Code::NotFound)]
    {
        let (project_id, cursor) = (project_id.to_owned(), cursor.to_owned());
        let refused = daemon.work().follow(FollowRequest { project_id, cursor, ..Default::default() }).await;
        assert_eq!(refused.unwrap_err().code(), code);
    }
}

/// All projects are followed by one stream, each from its own place, also those that come later.
#[tokio::test]
async fn all_projects_are_followed_at_once() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let first = world.project(&daemon, "shop").await.project_id;
    let (state, _) = daemon.follow(&first, None, false).await.unwrap();
    world.task(&daemon, &first, "One", "write n 1\ncommit n\ndone").await;
    let run = daemon.agents().start_agent(start(&first, "task", 1)).await.unwrap().into_inner().run_id;
    let (_, mut log) = daemon.follow(&first, Some(&state.cursor), false).await.unwrap();
    let alone = until_change(
        &mut log,
        |change| matches!(change, Change::Run(it) if it.id == RunId(run) && it.ended.is_some()),
    )
    .await;
    let cursors = [(first.clone(), state.cursor)].into();
    let all = FollowRequest { cursors, ..Default::default() };
    let mut all = daemon.work().follow(all).await.unwrap().into_inner();
    let second = world.project(&daemon, "bakery").await.project_id;
    let (mut told, mut begun) = (Vec::new(), std::collections::BTreeSet::new());
    while told.len() < alone.len() || begun.len() < 2 {
        let item = tokio::time::timeout(PATIENCE, all.message()).await.unwrap().unwrap().unwrap();
        match item.what.unwrap() {
            What::State(_) => drop(begun.insert(item.project_id)),
            What::Record(record) if item.project_id == first => told.push(record.cursor),
            _ => {}
        }
    }
    assert_eq!(told[..alone.len()], alone.iter().map(|it| it.cursor.to_string()).collect::<Vec<_>>());
    assert_eq!(begun, [first, second].into());
}

/// What agents do is told beside the changes, and a run is stopped by its number.
#[tokio::test]
async fn activity_is_told_and_a_run_stopped() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    world.task(&daemon, &project, "Talks", "say counting the stock\nhang").await;
    let (_, mut log) = daemon.follow(&project, None, true).await.unwrap();
    let run_id = daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap().into_inner().run_id;
    loop {
        if let Followed::Activity(doing) = next(&mut log).await
            && doing.values().any(|line| line.contains("counting the stock"))
        {
            break;
        }
    }
    daemon.work().stop_run(StopRunRequest { project_id: project.clone(), run_id }).await.unwrap();
    let ended =
        until_change(&mut log, |change| matches!(change, Change::Run(run) if run.ended.is_some())).await;
    let Some(Change::Run(run)) = ended.last().map(|record| &record.change) else { panic!("a run") };
    assert!(run.stopped);
}

/// A proposal counts once it is accepted, and ends with the client that asked for it.
#[tokio::test]
async fn a_proposal_is_accepted_or_given_up() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let asked =
        ProposeRequest { project_id: project.clone(), what: "tasks".to_owned(), ..Default::default() };
    let wrong = ProposeRequest { what: "money".to_owned(), ..asked.clone() };
    assert_eq!(daemon.work().propose(wrong).await.unwrap_err().code(), Code::InvalidArgument);

    let script = |text: &str| format!("# About\n```watchfire-script\n{text}\n```\n");
    let define = |text: String| {
        let request = watchfire_api::daemon_proto::UpdateProjectRequest {
            project_id: project.clone(),
            definition: Some(text),
            ..Default::default()
        };
        let daemon = daemon.clone();
        async move { daemon.projects().update_project(request).await.unwrap() }
    };
    define(script("hang")).await;
    let mut work = daemon.work();
    let proposing = tokio::spawn(async move { work.propose(asked).await });
    let lives = || async {
        let status = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner();
        status.all.len()
    };
    until("it is at work", || async { lives().await == 1 }).await;
    proposing.abort();
    until("nobody waits for it, so it ends", || async { lives().await == 0 }).await;

    let json = r##"{"definition": "# Other", "tasks": []}"##.to_owned();
    let accept = AcceptProposalRequest { project_id: project.clone(), json };
    let accepted = daemon.work().accept_proposal(accept).await.unwrap().into_inner();
    assert!(accepted.task_numbers.is_empty());
    let file = fs::read_to_string(world.path("shop/.watchfire/project.yaml")).unwrap();
    assert!(file.contains("# Other"), "{file}");
    let bad = AcceptProposalRequest { project_id: project.clone(), json: "{".to_owned() };
    assert_eq!(daemon.work().accept_proposal(bad).await.unwrap_err().code(), Code::InvalidArgument);
}
