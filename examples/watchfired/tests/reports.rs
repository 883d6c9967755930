//! What has happened, what it cost, what stands in line, and what was in force.

mod support;

use support::{World, id, start, until};
use tonic::Code;
use watchfire_api::work_proto::{
    CheckStartRequest, GetCostsRequest, GetPolicyRequest, ListHistoryRequest, ListQueueRequest, Work,
};
use watchfire_client::{ApiError, Daemon};

async fn history(daemon: &Daemon, project: &str, before: u64, limit: u32) -> (Vec<Work>, u64) {
    let request = ListHistoryRequest { project_id: project.to_owned(), before, limit };
    let answer = daemon.reports().list_history(request).await.unwrap().into_inner();
    (answer.works, answer.next)
}

async fn queue(daemon: &Daemon, project: &str) -> Vec<Work> {
    let request = ListQueueRequest { project_id: project.to_owned() };
    daemon.reports().list_queue(request).await.unwrap().into_inner().works
}

#[tokio::test]
async fn work_is_in_line_and_then_in_the_history() {
    let world = World::new();
    let _running = world.start(&[]);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let policy =
        |task_number| GetPolicyRequest { project_id: project.clone(), task_number, ..Default::default() };
    let planned = |task_number| GetPolicyRequest { next: true, ..policy(task_number) };
    for asked in [policy(0), planned(1)] {
        let missing = daemon.reports().get_policy(asked).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }
    assert_eq!(history(&daemon, &project, 0, 0).await, (Vec::new(), 0));
    world.task(&daemon, &project, "Good", "write a.txt 1\ncommit a\ndone").await;
    world.task(&daemon, &project, "Bad", "fail it is too hard").await;
    world.task(&daemon, &project, "Waits", "say hello\nchat").await;
    // Before its first session, what one would get; for that nothing stays.
    for asked in [planned(0), planned(1)] {
        let told = daemon.reports().get_policy(asked).await.unwrap().into_inner();
        assert!(told.text.contains("sandbox: none"), "{}", told.text);
    }
    assert_eq!(
        world.git(&world.path("shop"), &["worktree", "list", "--porcelain"]).matches("worktree ").count(),
        1
    );
    assert_eq!(world.git(&world.path("shop"), &["branch", "--list", "watchfire/*"]), "");
    let moon = GetPolicyRequest { mode: "moon".to_owned(), ..planned(1) };
    assert_eq!(daemon.reports().get_policy(moon).await.unwrap_err().code(), Code::InvalidArgument);
    for number in [1, 2] {
        daemon.agents().start_agent(start(&project, "task", number)).await.unwrap();
        until("it has ended", || async {
            history(&daemon, &project, 0, 0).await.0.len() == usize::try_from(number).unwrap()
        })
        .await;
    }
    daemon.agents().start_agent(start(&project, "task", 3)).await.unwrap();
    until("it runs", || async {
        queue(&daemon, &project).await.first().is_some_and(|work| work.state == "running")
    })
    .await;
    let [waiting] = &queue(&daemon, &project).await[..] else { panic!("one is at work") };
    assert_eq!((waiting.task_number, waiting.subject.as_str(), waiting.attempt), (3, "task", 1));
    assert_eq!(waiting.agent, "scripted");
    assert!(waiting.run_id > 0 && !waiting.since.is_empty());

    let (works, next) = history(&daemon, &project, 0, 1).await;
    assert_eq!((works[0].task_number, works[0].state.as_str()), (2, "failed"));
    assert!(works[0].detail.contains("too hard"), "{works:?}");
    let (older, end) = history(&daemon, &project, next, 10).await;
    assert_eq!((older.len(), older[0].task_number, older[0].state.as_str(), end), (1, 1, "merged", 0));
    assert_eq!(older[0].target, "main");

    let costs = |by: &str| GetCostsRequest { project_id: project.clone(), by: by.to_owned() };
    let answer = daemon.reports().get_costs(costs("")).await.unwrap().into_inner();
    let all = answer.all.unwrap();
    assert!(all.is_lower_bound && all.sessions >= 2, "{all:?}");
    assert!(answer.costs.iter().any(|cost| cost.of == "#0001"), "{:?}", answer.costs);
    let wrong = daemon.reports().get_costs(costs("moon")).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let told = daemon.reports().get_policy(policy(1)).await.unwrap().into_inner();
    assert!(told.text.contains("sandbox: none") && told.json.starts_with('{'), "{}", told.text);
    // Of work under way, what its session has, and the agent does not notice.
    let running = daemon.reports().get_policy(planned(3)).await.unwrap();
    let record: serde_json::Value = serde_json::from_str(&running.into_inner().json).unwrap();
    let session = daemon.agents().get_agent_status(id(&project)).await.unwrap().into_inner().session_id;
    assert_eq!(record["session"], session);
    assert_eq!(queue(&daemon, &project).await[0].state, "running");
    // The next one has to wait, and says for what.
    world.task(&daemon, &project, "Later", "write b.txt 1\ncommit b\ndone").await;
    daemon.agents().start_agent(start(&project, "task", 4)).await.unwrap();
    until("it is in line", || async { queue(&daemon, &project).await.len() == 2 }).await;
    let later = queue(&daemon, &project).await.pop().unwrap();
    assert_eq!((later.life_id, later.task_number, later.state.as_str()), (0, 4, "waiting"));
    assert!(later.detail.starts_with("for a free slot"), "{later:?}");
}

/// A client learns at its start what would keep every task from running.
#[tokio::test]
async fn what_is_missing_is_told_at_the_start() {
    let world = World::new();
    let file = world.home.join("settings.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("default_agent: scripted", "default_agent: codex")).unwrap();
    let mut command = world.command(&[]);
    command.env("PATH", world.path("none"));
    let _running = world.start_by(command);
    let daemon = world.connect().await;
    let answer = daemon.reports().check_start(CheckStartRequest {}).await.unwrap().into_inner();
    let codes: Vec<_> = answer.problems.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(codes, ["program_missing", "program_missing"], "{answer:?}");
    assert!(answer.problems[0].message.starts_with("Git is required."), "{answer:?}");
    assert!(answer.problems.iter().all(|problem| !problem.hint.is_empty()), "{answer:?}");
    let refused = ApiError::from(daemon.agents().start_agent(start("any", "task", 1)).await.unwrap_err());
    assert_eq!((refused.code.as_str(), refused.hint.is_some()), ("program_missing", true), "{refused:?}");
}
