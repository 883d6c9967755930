//! What comes from the daemon: anew after a lost connection, what failed, what has gone; and what a person does meanwhile.

mod support;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use support::{at_work, model, press, screen, show, task, text, type_in};
use watchfire_client::daemon_proto as proto;
use watchfire_core::model::Question;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::{Model, Overlay, RightTab};
use watchfire_tui::update::update;

fn tasks(model: &mut Model, tasks: Vec<proto::Task>) -> Vec<Command> {
    update(model, Message::Tasks(tasks))
}

fn mouse(model: &mut Model, kind: MouseEventKind, column: u16, row: u16) -> Vec<Command> {
    update(model, Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

#[test]
fn work_that_came_to_nothing_is_told() {
    for state in ["crashed", "conflict", "verify failed", "gave up", "timed out"] {
        let mut model = model(100, 30);
        let told = ends(&mut model, state);
        assert!(matches!(&told[..], [Command::Alert(words)] if words == "#0002 has failed"), "{told:?}");
        // Once, also when it comes back from the trash.
        let list = model.tasks.clone();
        tasks(&mut model, Vec::new());
        assert!(tasks(&mut model, list).is_empty());
    }
    // A stop is the person's own.
    assert!(ends(&mut model(100, 30), "stopped").is_empty());
}

/// Work on a task that ends so.
fn ends(model: &mut Model, state: &str) -> Vec<Command> {
    update(model, Message::Status(Box::new(at_work(2, "task"))));
    let mut list = model.tasks.clone();
    list[2].state = state.to_owned();
    list[2].failed = state != "stopped";
    let mut told = tasks(model, list);
    told.extend(update(model, Message::Status(Box::default())));
    told
}

#[test]
fn a_form_that_was_sent_waits_for_its_own_answer() {
    let mut model = model(100, 30);
    press(&mut model, &["a"]);
    type_in(&mut model, "New");
    assert_eq!(press(&mut model, &["ctrl+s"]).len(), 1);
    update(&mut model, Message::Failed("the logs cannot be read".to_owned()));
    assert!(press(&mut model, &["ctrl+s"]).is_empty(), "it is not sent twice");
    update(&mut model, Message::Created(9));
    assert!(model.overlay.is_none());
}

#[test]
fn the_selected_log_stays_selected() {
    let mut model = model(100, 30);
    let log = |id: &str| proto::Log { log_id: id.to_owned(), ..Default::default() };
    model.right = RightTab::Logs;
    update(&mut model, Message::Logs(vec![log("b"), log("a")]));
    press(&mut model, &["tab", "j"]);
    update(&mut model, Message::Logs(vec![log("c"), log("b"), log("a")]));
    assert_eq!(model.logs.selected, 2);
    update(&mut model, Message::Logs(vec![log("c"), log("b")]));
    assert_eq!(model.logs.selected, 1);
}

#[test]
fn what_was_lost_with_the_connection_is_asked_for_again() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    let sized = show(&mut model, screen(58, 26, ""));
    press(&mut model, &["D", "b"]);
    update(&mut model, Message::Disconnected);
    let asked = update(&mut model, Message::Connected);
    assert!(asked.contains(&Command::ListBranches), "{asked:?}");
    assert!(asked.contains(&Command::GetDiff(model.selected)), "{asked:?}");
    press(&mut model, &["q", "D"]);
    model.right = RightTab::Chat;
    update(&mut model, Message::Disconnected);
    assert_eq!(update(&mut model, Message::Connected), sized, "the size may have got lost");
    model.right = RightTab::Logs;
    assert!(update(&mut model, Message::Connected).contains(&Command::ListLogs));
    // A session has ended, and its log is complete.
    let asked = update(&mut model, Message::Status(Box::default()));
    assert!(asked.contains(&Command::ListLogs), "{asked:?}");
}

#[test]
fn a_session_that_ended_unseen_has_ended() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    show(&mut model, screen(58, 26, "hello"));
    assert!(!model.terminal.ended);
    update(&mut model, Message::Status(Box::default()));
    assert!(model.terminal.ended && text(&model).contains("Agent stopped."));
}

#[test]
fn the_selection_stays_where_a_task_was() {
    let mut model = model(100, 30);
    press(&mut model, &["G"]);
    assert_eq!(model.selected, 6);
    let mut list = model.tasks.clone();
    list.retain(|task| task.task_number != 6);
    tasks(&mut model, list.clone());
    assert_eq!(model.selected, 3);
    press(&mut model, &["g", "j"]);
    list.retain(|task| task.task_number != 4);
    tasks(&mut model, list.clone());
    assert_eq!(model.selected, 2, "the one that is in its place");
    // The highest number of all, which no other one follows.
    press(&mut model, &["j"]);
    assert_eq!(model.selected, 7);
    list.retain(|task| task.task_number != 7);
    tasks(&mut model, list.clone());
    assert_eq!(model.selected, 3);
    // A new one comes with the next list.
    update(&mut model, Message::Created(8));
    tasks(&mut model, list.clone());
    list.push(task(8, "New", "draft"));
    tasks(&mut model, list);
    assert_eq!(model.selected, 8);
}

#[test]
fn a_list_does_not_move_under_the_mouse() {
    let mut model = model(80, 24);
    let list: Vec<_> = (1..=80).map(|n| task(n, &format!("Task {n}"), "draft")).collect();
    tasks(&mut model, list);
    press(&mut model, &["G"]);
    let area = model.areas().list;
    let before = text(&model);
    mouse(&mut model, MouseEventKind::Down(MouseButton::Left), area.x + 3, area.y + 3);
    let picked = model.selected;
    assert!(picked < 70, "{picked}");
    assert_eq!(text(&model).replace('▸', " "), before.replace('▸', " "), "only the cursor is elsewhere");
    mouse(&mut model, MouseEventKind::Drag(MouseButton::Left), area.x + 3, area.y + 4);
    // What the daemon says meanwhile does not take it back.
    let list: Vec<_> = (1..=80).map(|n| task(n, &format!("Task {n}"), "draft")).collect();
    tasks(&mut model, list.clone());
    let sent = mouse(&mut model, MouseEventKind::Up(MouseButton::Left), area.x + 3, area.y + 4);
    let [Command::ReorderTasks(order)] = &sent[..] else { panic!("{sent:?}") };
    let at = order.iter().position(|number| *number == picked).unwrap();
    assert_eq!(order[at - 1], picked + 1, "by one place");
    tasks(&mut model, list);
    assert_eq!(model.tasks[0].task_number, 1);
}

#[test]
fn a_task_moves_with_each_key() {
    let mut model = model(100, 30);
    let list: Vec<_> = (1..=4).map(|n| task(n, "T", "draft")).collect();
    tasks(&mut model, list);
    press(&mut model, &["g"]);
    let sent = press(&mut model, &["J", "J"]);
    assert_eq!(sent, [Command::ReorderTasks(vec![2, 1, 3, 4]), Command::ReorderTasks(vec![2, 3, 1, 4])]);
}

#[test]
fn what_is_typed_is_seen() {
    let mut model = model(100, 30);
    let mut asking = at_work(2, "task");
    asking.questions = vec!["Which port?".to_owned()];
    asking.question_ids = vec!["port".to_owned()];
    update(&mut model, Message::Status(Box::new(proto::AgentStatus { all: vec![asking.clone()], ..asking })));
    press(&mut model, &["A"]);
    update(&mut model, Message::Failed("something else".to_owned()));
    type_in(&mut model, "80");
    assert!(text(&model).contains("Answer #0002: 80"), "{}", text(&model));
    // Who gives up does not wait, and the next words are not closed by the last ones.
    press(&mut model, &["enter", "esc", "A"]);
    type_in(&mut model, "81");
    update(&mut model, Message::Saved);
    assert!(matches!(model.overlay, Some(Overlay::Words(..))));
    let sent = press(&mut model, &["enter"]);
    let question = Question::new("port", "Which port?");
    let answer = Command::Answer { task: 2, question, text: "81".to_owned() };
    assert_eq!(sent, [answer]);
}

#[test]
fn files_that_are_no_tasks_are_seen() {
    let mut model = model(100, 30);
    let file = proto::MalformedTask { path: "/p/0009.yaml".to_owned(), reason: "title: missing".to_owned() };
    update(&mut model, Message::Malformed(vec![file]));
    let shown = text(&model);
    assert!(shown.contains("Malformed (1)") && shown.contains("0009.yaml: title: missing"), "{shown}");
    press(&mut model, &["G"]);
    assert_eq!(model.selected, 6, "it is no task");
    // Also below more tasks than fit.
    tasks(&mut model, (1..=80).map(|n| task(n, "T", "draft")).collect());
    press(&mut model, &["G"]);
    assert!(text(&model).contains("0009.yaml"), "{}", text(&model));
    update(&mut model, Message::Failed("an error".to_owned()));
    update(&mut model, Message::Notice("a notice".to_owned()));
    assert!(text(&model).contains("an error"), "it is read first");
    update(&mut model, Message::Tick(10_000));
    update(&mut model, Message::Notice("the budget of the day is spent".to_owned()));
    assert!(text(&model).contains("the budget of the day is spent"));
}

#[test]
fn a_long_log_is_read_to_its_end() {
    let mut model = model(80, 24);
    model.right = RightTab::Logs;
    press(&mut model, &["tab"]);
    let content: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
    let log = proto::Log { log_id: "1".to_owned(), content, truncated: true, ..Default::default() };
    update(&mut model, Message::Log(Box::new(log)));
    press(&mut model, &["G"]);
    let shown = text(&model);
    assert!(shown.contains("line 99999") && shown.contains("It goes on"), "{shown}");
    update(&mut model, Message::Resize(60 + 40, 40));
    assert!(text(&model).contains("line 99999"), "in another width");
}

#[test]
fn a_field_has_no_rest_of_its_old_value() {
    let mut model = model(80, 24);
    press(&mut model, &["3", "enter", "backspace", "backspace", "backspace"]);
    let shown = text(&model);
    let row = shown.lines().find(|row| row.contains("Name")).unwrap();
    assert!(row.contains("my-proj") && !row.contains("ect"), "{row}");
}

#[test]
fn a_question_is_read_to_its_end() {
    let mut model = model(80, 24);
    let mut list = model.tasks.clone();
    list[4].held_by = "git_wiring".to_owned();
    list[4].detail = "it changes .gitattributes, which the person's own git would obey".to_owned();
    list[4].state = "held".to_owned();
    tasks(&mut model, list);
    model.selected = 3;
    press(&mut model, &["m"]);
    let shown = text(&model);
    assert!(shown.contains("(y/n)") && shown.contains("would obey"), "{shown}");
}
