//! Lists to choose from, and questions that are answered by y or n.

mod support;

use support::{at_work, model, press, task, type_in};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::OtherBranch;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::Overlay;
use watchfire_tui::update::update;

#[test]
fn a_selected_task_is_on_the_screen_however_long_the_list_is() {
    let mut model = model(100, 30);
    let tasks: Vec<_> = (1..=300).map(|number| task(number, &format!("Task {number}"), "ready")).collect();
    update(&mut model, Message::Tasks(tasks));
    for _ in 0..300 {
        press(&mut model, &["j"]);
        let selected = format!("#{:04}", model.selected);
        assert!(support::text(&model).contains(&selected), "{selected} is not seen");
    }
    assert_eq!(model.selected, 300);
    update(&mut model, Message::Resize(100, 24));
    assert!(support::text(&model).contains("#0300"));
}

#[test]
fn branches_and_the_trash_are_lists() {
    let mut model = model(100, 30);
    let branch = |number: i32| proto::Branch {
        name: format!("watchfire/{number:04}"),
        task_number: number,
        ..Default::default()
    };
    assert_eq!(press(&mut model, &["b"]), [Command::ListBranches]);
    assert!(press(&mut model, &["m", "x"]).is_empty(), "nothing is there yet");
    update(&mut model, Message::Branches(vec![branch(3), branch(6), branch(0)], Vec::new()));
    assert_eq!(press(&mut model, &["j", "m"]), [Command::MergeBranch(6)]);
    assert_eq!(press(&mut model, &["x"]), [Command::DeleteBranch { task: 6, discard: false }]);
    assert!(press(&mut model, &["j", "m", "x", "X"]).is_empty(), "it is no task's");
    assert_eq!(press(&mut model, &["P"]), [Command::PruneBranches]);
    assert_eq!(press(&mut model, &["k", "X", "y"]), [Command::DeleteBranch { task: 6, discard: true }]);
    assert!(model.overlay.is_none());

    let part = OtherBranch {
        task_number: 3,
        repository: "../lib".to_owned(),
        name: "watchfire/0003@app-1".to_owned(),
        status: "unmerged".to_owned(),
        target: "main".to_owned(),
        ahead: 2,
        ..Default::default()
    };
    press(&mut model, &["b"]);
    update(&mut model, Message::Branches(vec![branch(3), branch(6)], vec![part]));
    let shown = support::text(&model);
    let at = |text: &str| shown.lines().position(|line| line.contains(text)).unwrap();
    let told = "in ../lib: watchfire/0003@app-1  unmerged of main  +2 -0";
    assert_eq!(at(told), at("watchfire/0006") - 1, "below the branch of its task: {shown}");
    assert_eq!(press(&mut model, &["j", "m"]), [Command::MergeBranch(3)], "all parts are merged together");
    press(&mut model, &["esc"]);

    assert_eq!(press(&mut model, &["T"]), [Command::ListTrash]);
    let deleted = proto::Task { deleted_at: "2026-02-03T12:00:00Z".to_owned(), ..task(9, "Old", "draft") };
    update(&mut model, Message::Trash(vec![task(1, "Kept", "draft"), deleted]));
    assert_eq!(press(&mut model, &["enter"]), [Command::RestoreTask(9)]);
    assert_eq!(press(&mut model, &["E", "y"]), [Command::EmptyTrash]);
}

#[test]
fn what_waits_is_listed_oldest_first() {
    let mut model = model(100, 30);
    assert_eq!(press(&mut model, &["I"]), [Command::GetInbox]);
    let agent = |number: i32, started: &str, state: &str| proto::AgentStatus {
        project_id: "p".to_owned(),
        task_number: number,
        started_at: started.to_owned(),
        state: state.to_owned(),
        ..Default::default()
    };
    let asks =
        proto::AgentStatus { questions: vec!["Which?".to_owned()], ..agent(4, "2026-02-03", "asking") };
    // Another project has a task of that number too.
    let other = proto::AgentStatus { project_id: "q".to_owned(), ..agent(7, "2026-02-04", "held") };
    let (running, held) = (agent(7, "2026-02-01", "running"), agent(2, "2026-02-02", "held"));
    update(&mut model, Message::Inbox(vec![other, asks, running, held]));
    let Some(Overlay::List(list)) = &model.overlay else { panic!("a list") };
    let rows: Vec<_> = list.rows.iter().flatten().map(|row| (row.task, row.project.as_str())).collect();
    assert_eq!(rows, [(2, ""), (4, ""), (7, "q")]);
    press(&mut model, &["j", "enter"]);
    assert_eq!((model.selected, model.overlay.is_none()), (4, true));
}

/// Every action can be found by its words, and does what its key does.
#[test]
fn actions_are_found_by_their_words() {
    let mut model = model(100, 30);
    press(&mut model, &[":"]);
    type_in(&mut model, "start all");
    assert_eq!(press(&mut model, &["enter"]), [Command::StartAgent { mode: "start-all", tasks: Vec::new() }]);
    press(&mut model, &[":"]);
    type_in(&mut model, "nothing like it");
    assert!(press(&mut model, &["enter"]).is_empty());
    press(&mut model, &["esc", ":"]);
    type_in(&mut model, "all about");
    press(&mut model, &["enter"]);
    assert!(matches!(model.overlay, Some(Overlay::Info(1, 0))));
    press(&mut model, &["j", "k", "esc"]);
    assert!(model.overlay.is_none());
}

#[test]
fn a_log_is_deleted_after_a_question() {
    let mut model = model(100, 30);
    press(&mut model, &["tab", "l"]);
    let log = proto::Log { log_id: "chat-1".to_owned(), ..Default::default() };
    update(&mut model, Message::Logs(vec![log]));
    assert_eq!(press(&mut model, &["x", "n"]), []);
    assert_eq!(press(&mut model, &["x", "y"]), [Command::DeleteLog("chat-1".to_owned())]);
}

/// `docs/tui.md` lists every action with its key. `WATCHFIRE_BLESS=1` writes the list.
#[test]
fn the_page_lists_every_action() {
    use watchfire_tui::keymap::{ACTIONS, Stroke};
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tui.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let row = |action: &watchfire_tui::keymap::Action| {
        let key = Stroke::parse(action.key).unwrap();
        format!("| `{}` | `{key}` | {} |\n", action.name, action.does)
    };
    let table =
        format!("| action | key | effect |\n|---|---|---|\n{}", ACTIONS.iter().map(row).collect::<String>());
    if std::env::var_os("WATCHFIRE_BLESS").is_some() {
        let begin = page.find("| action |").or(page.find("ACTIONS\n")).unwrap();
        let end = begin + page[begin..].find("## ").unwrap();
        std::fs::write(&path, format!("{}{table}\n{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert!(page.contains(&table), "the page has another list than:\n{table}");
}

#[test]
fn what_a_task_cost_and_was_refused_is_shown() {
    use watchfire_client::work_proto::{Cost, GetCostsResponse, Work};
    let mut model = model(100, 30);
    model.selected = 2;
    assert_eq!(press(&mut model, &["i"]), [Command::GetDetails(2)]);
    let details = watchfire_tui::model::Details {
        cost: "$1.20  3k tokens".to_owned(),
        refused: vec!["reading /etc/shadow".to_owned()],
    };
    update(&mut model, Message::Details(2, details));
    let text = support::text(&model);
    assert!(text.contains("$1.20  3k tokens") && text.contains("reading /etc/shadow"), "{text}");
    assert_eq!(press(&mut model, &["esc", "$"]), [Command::GetCosts]);
    let cost = |of: &str, micros: u64| Cost {
        of: of.to_owned(),
        micros,
        amount: format!("${micros}"),
        ..Cost::default()
    };
    let costs = GetCostsResponse {
        costs: vec![cost("#0007", 1), cost("#0002", 2)],
        all: Some(cost("all", 3)),
        day_budget: Some(5_000_000),
        today: Some(cost("today", 3)),
        ..GetCostsResponse::default()
    };
    update(&mut model, Message::Costs(Box::new(costs)));
    let text = support::text(&model);
    assert!(text.contains("#0002 Implement login flow") && text.contains("of $5.00"), "{text}");
    press(&mut model, &["down", "down", "down", "enter"]);
    assert_eq!(model.selected, 7);
    assert_eq!(press(&mut model, &["H"]), [Command::ListHistory]);
    let work = Work {
        task_number: 3,
        state: "merged".to_owned(),
        since: "2026-02-03T14:30:00Z".to_owned(),
        ..Work::default()
    };
    update(&mut model, Message::History(vec![work]));
    assert!(support::text(&model).contains("2026-02-03 14:30  #0003 Create database schema  merged"));
}

#[test]
fn the_last_log_of_a_task_is_opened() {
    let mut model = model(100, 30);
    model.selected = 2;
    let log = |id: &str, task_number| proto::Log { log_id: id.to_owned(), task_number, ..Default::default() };
    assert_eq!(press(&mut model, &["L"]), [Command::ListLogs]);
    let list = vec![log("a", 7), log("b", 2), log("c", 2)];
    assert_eq!(update(&mut model, Message::Logs(list.clone())), [Command::GetLog("b".to_owned())]);
    assert_eq!(update(&mut model, Message::Logs(list.clone())), []);
    press(&mut model, &["tab"]);
    model.selected = 1;
    press(&mut model, &["L"]);
    assert_eq!(update(&mut model, Message::Logs(list)), []);
    assert!(support::text(&model).contains("no log yet"));
}

#[test]
fn work_that_is_held_is_merged_after_a_question() {
    use watchfire_tui::model::Accepted;
    let mut model = model(100, 30);
    for (held_by, accepted) in [
        ("protected_paths", Some(Accepted::Protected)),
        ("unfinished_merge", Some(Accepted::Marks)),
        ("git_wiring", Some(Accepted::Commands)),
        ("tool_files", Some(Accepted::Commands)),
        ("local_edits", None),
    ] {
        model.selected = model.tasks[0].task_number;
        model.tasks[0].held_by = held_by.to_owned();
        let number = model.selected;
        match accepted {
            Some(accepted) => {
                assert_eq!(press(&mut model, &["m", "n"]), []);
                assert_eq!(press(&mut model, &["m", "y"]), [Command::MergeTask(number, accepted)]);
            }
            // What no word of a person changes is tried again.
            None => assert_eq!(press(&mut model, &["m"]), [Command::MergeBranch(number)]),
        }
    }
    model.tasks[0].status = "done".to_owned();
    model.tasks[0].state = "conflict".to_owned();
    press(&mut model, &["B"]);
    let [Command::SendBack { text, .. }] = &press(&mut model, &["enter"])[..] else {
        panic!("nothing is sent")
    };
    assert!(text.contains("resolve the conflict"), "{text}");
}

#[test]
fn another_project_is_gone_to() {
    let mut model = model(100, 30);
    assert_eq!(press(&mut model, &["P"]), [Command::ListProjects]);
    let project =
        |id: &str| proto::Project { project_id: id.to_owned(), name: id.to_owned(), ..Default::default() };
    update(&mut model, Message::Projects(vec![project("p"), project("q")]));
    assert_eq!(
        press(&mut model, &["j", "enter"]),
        [Command::OpenProject { project: "q".to_owned(), task: 0 }]
    );
    assert!(model.overlay.is_none());
    // What waits elsewhere is gone to there.
    press(&mut model, &["I"]);
    let mut agent = at_work(3, "task");
    agent.project_id = "q".to_owned();
    agent.questions = vec!["Which?".to_owned()];
    update(&mut model, Message::Inbox(vec![agent]));
    assert_eq!(press(&mut model, &["enter"]), [Command::OpenProject { project: "q".to_owned(), task: 3 }]);
}

#[test]
fn actions_of_the_terminal_are_found_too() {
    let mut model = model(100, 30);
    press(&mut model, &[":"]);
    type_in(&mut model, "whole screen");
    press(&mut model, &["enter"]);
    assert!(model.zoomed);
}
