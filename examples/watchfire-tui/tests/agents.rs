//! Several agents: their tabs, all of them side by side, and being told which one needs the person.

mod support;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use support::{model, press, screen, several, task, text};
use watchfire_client::daemon_proto as proto;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::{Focus, Model, RightTab};
use watchfire_tui::update::update;

fn told(model: &mut Model, status: &proto::AgentStatus) -> Vec<Command> {
    update(model, Message::Status(Box::new(status.clone())))
}

fn click(model: &mut Model, column: u16, row: u16) -> Vec<Command> {
    let kind = MouseEventKind::Down(MouseButton::Left);
    update(model, Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

fn follow(session: &str) -> Command {
    Command::Follow(session.to_owned())
}

#[test]
fn agents_are_gone_through_by_keys_and_tabs() {
    let mut model = model(120, 30);
    press(&mut model, &["]"]);
    let _ = told(&mut model, &several(&[2, 7, 4]));
    assert_eq!(press(&mut model, &["]"]), [follow("session-2")]);
    assert_eq!(press(&mut model, &["]"]), [follow("session-7")]);
    assert_eq!(model.selected, 7);
    assert_eq!(press(&mut model, &["[", "["]), [follow("session-2"), follow("session-4")]);
    // In the terminal, where the other keys are the agent's.
    press(&mut model, &["tab"]);
    assert_eq!(press(&mut model, &["alt+n"]), [follow("session-2")]);
    assert_eq!(press(&mut model, &["alt+p"]), [follow("session-4")]);
    let picture = text(&model);
    let last = picture.lines().nth(28).unwrap();
    assert!(last.contains(" #0002 ─ #0007 ─ #0004 "), "{picture}");
    let column = last.chars().position(|c| c == '7').unwrap();
    assert_eq!(click(&mut model, u16::try_from(column).unwrap(), 28), [follow("session-7")]);
    assert_eq!((model.selected, model.focus), (7, Focus::Right));
    // With one alone there is nothing to choose, and the keys are the agent's.
    let _ = told(&mut model, &several(&[7]));
    assert!(!text(&model).contains(" #0007 ─"));
}

#[test]
fn a_chat_is_chosen_beside_the_agent_of_the_selected_task() {
    let mut model = model(120, 30);
    model.selected = 2;
    let mut status = several(&[2]);
    let chat = proto::AgentStatus {
        task_number: 0,
        mode: "chat".to_owned(),
        session_id: "chat".to_owned(),
        ..status.all[0].clone()
    };
    status.all.push(chat);
    assert_eq!(told(&mut model, &status), [follow("session-2")]);
    assert_eq!(press(&mut model, &["]"]), [follow("chat")]);
    // It stays until another task is selected.
    assert_eq!(told(&mut model, &status), []);
    assert_eq!(press(&mut model, &["down", "up"]), [follow(""), follow("chat")]);
    status.all.pop();
    assert_eq!(told(&mut model, &status), [follow("session-2")]);
}

#[test]
fn all_agents_are_watched_side_by_side() {
    let mut model = model(120, 30);
    assert_eq!(press(&mut model, &["w"]), []);
    assert!(model.tiles.is_none() && text(&model).contains("nothing runs"));
    let _ = told(&mut model, &several(&[2, 7, 4]));
    let sessions = ["session-2", "session-7", "session-4"].map(str::to_owned).to_vec();
    assert_eq!(press(&mut model, &["w"]), [Command::Watch(sessions)]);
    for (session, words) in [("session-2", "two\r\n"), ("session-4", &"\r\n".repeat(39)), ("other", "no")] {
        let snapshot = screen(80, 40, &format!("{words}end of {session}"));
        update(&mut model, Message::Tile { session: session.to_owned(), snapshot });
    }
    let picture = text(&model);
    for words in ["#0002 Task 2", "#0007 Task 7", "end of session-2", "end of session-4", "running"] {
        assert!(picture.contains(words), "{words}:\n{picture}");
    }
    assert!(!picture.contains("end of other"));
    // Where an agent waits, it is seen.
    let mut waiting = several(&[2, 7, 4]);
    waiting.all[1].questions.push("a or b?".to_owned());
    let _ = told(&mut model, &waiting);
    assert!(text(&model).contains("asks you"));
    press(&mut model, &["l", "j", "h", "k", "l"]);
    let chosen = model.tiles.as_ref().unwrap().selected.clone();
    assert_ne!(chosen, "session-2");
    let commands = press(&mut model, &["enter"]);
    assert!(
        commands.contains(&follow(&chosen)) && commands.contains(&Command::Watch(Vec::new())),
        "{commands:?}"
    );
    assert_eq!((model.focus, model.right), (Focus::Right, RightTab::Chat));
    // A click chooses, a second one goes there.
    press(&mut model, &["tab", "w"]);
    click(&mut model, 2, 28);
    assert!(model.tiles.is_some());
    click(&mut model, 2, 28);
    assert!(model.tiles.is_none());
    press(&mut model, &["tab", "w", "esc"]);
    assert!(model.tiles.is_none());
}

#[test]
fn many_agents_have_pages() {
    let mut model = model(80, 24);
    let numbers: Vec<_> = (1..=20).collect();
    let _ = told(&mut model, &several(&numbers));
    press(&mut model, &["w"]);
    let first = model.watched.clone();
    assert_eq!(first.len(), 4, "{}", text(&model));
    press(&mut model, &["j", "j", "j"]);
    assert!(!model.watched.is_empty() && model.watched != first);
    // Every one can be reached, and nothing lies over another one.
    let mut seen = std::collections::BTreeSet::new();
    press(&mut model, &["h"; 25]);
    for _ in 0..20 {
        seen.extend(model.watched.iter().cloned());
        press(&mut model, &["l"]);
    }
    assert_eq!(seen.len(), 20);
}

#[test]
fn what_begins_to_need_the_person_is_told_once() {
    let mut model = model(100, 30);
    let at_work = several(&[2, 7]);
    let _ = told(&mut model, &at_work);
    let mut asking = at_work.clone();
    asking.all[1].questions.push("which \x1b]0;evil\x07 one?".to_owned());
    let alert = |words: &str| Command::Alert(words.to_owned());
    assert_eq!(told(&mut model, &asking), [alert("#0007 asks you")]);
    assert_eq!(told(&mut model, &asking), []);
    assert!(text(&model).contains("#0007 asks you"));
    // Another episode is told again; of several at once the first, and how many more there are.
    let _ = told(&mut model, &at_work);
    asking.all[0].issue =
        Some(proto::AgentIssue { issue_type: "rate_limited".to_owned(), ..Default::default() });
    assert_eq!(told(&mut model, &asking), [alert("#0002 is at a limit, and 1 more")]);
    // A task that fails; one that had failed before is no news.
    let mut tasks = model.tasks.clone();
    let mut failed = task(7, "Add search feature", "done");
    failed.success = Some(false);
    tasks.retain(|task| task.task_number != 7);
    tasks.push(failed);
    assert_eq!(update(&mut model, Message::Tasks(tasks)), [alert("#0007 has failed")]);
}

#[test]
fn the_agent_that_needs_the_person_is_gone_to() {
    let mut model = model(100, 30);
    model.selected = 2;
    let at_work = several(&[2, 7]);
    let _ = told(&mut model, &at_work);
    press(&mut model, &["F"]);
    assert!(text(&model).contains("Follows"));
    let mut asking = at_work.clone();
    asking.all[1].state = "asking".to_owned();
    let commands = told(&mut model, &asking);
    assert!(commands.contains(&follow("session-7")), "{commands:?}");
    assert_eq!(model.selected, 7);
    // Not while one types into the terminal of another one.
    let _ = told(&mut model, &at_work);
    model.selected = 2;
    press(&mut model, &["tab"]);
    let _ = told(&mut model, &asking);
    assert_eq!(model.selected, 2);
    press(&mut model, &["tab", "F"]);
    let _ = told(&mut model, &at_work);
    let _ = told(&mut model, &asking);
    assert_eq!(model.selected, 2);
}
