//! What keys do.

mod support;

use std::sync::Arc;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use support::{SESSION, at_work, model, press, screen, show, task, type_in};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{DiffLine, DiffPart};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::{Confirm, Focus, LeftTab, Model, Overlay, RightTab};
use watchfire_tui::update::update;

fn name(command: &Command) -> &'static str {
    match command {
        Command::Quit | Command::GiveUp(_) => "quit",
        Command::CreateTask(_) => "CreateTask",
        Command::UpdateTask(_) => "UpdateTask",
        Command::DeleteTask(_) => "DeleteTask",
        Command::RestoreTask(_) => "RestoreTask",
        Command::ReorderTasks(_) => "ReorderTasks",
        Command::UpdateProject(_) => "UpdateProject",
        Command::StartAgent { .. } | Command::SendBack { .. } => "StartAgent",
        Command::StopAgent => "StopAgent",
        Command::ResumeChat => "ResumeChat",
        Command::ResumeAgent => "ResumeAgent",
        Command::SendInput(_) => "SendInput",
        Command::Resize { .. } => "Resize",
        Command::GetScrollback(_) => "GetScrollback",
        Command::ListLogs => "ListLogs",
        Command::GetLog(_) => "GetLog",
        Command::MergeBranch(_) => "MergeBranch",
        Command::Undo(_) => "UndoTask",
        Command::Find { .. } => "GetScrollback",
        Command::Copy(_) => "clipboard",
        Command::GetDiff(_) => "Diff",
        Command::ListBranches => "ListBranches",
        Command::DeleteBranch { .. } => "DeleteBranch",
        Command::PruneBranches => "PruneBranches",
        Command::ListTrash => "ListTasks",
        Command::EmptyTrash => "EmptyTrash",
        Command::GetInbox => "GetStatus",
        Command::Follow(_) | Command::Watch(_) => "SubscribeScreen",
        Command::DeleteLog(_) => "DeleteLog",
        Command::ListProjects => "ListProjects",
        Command::OpenProject { .. } => "another project",
        Command::MergeTask(..) => "MergeTask",
        Command::GetCosts => "GetCosts",
        Command::GetDetails(_) => "GetPolicy",
        Command::ListHistory => "ListHistory",
        Command::Alert(_) => "bell",
        Command::Answer { .. } => "Answer",
        Command::Edit(_) => "editor",
    }
}

#[test]
fn the_last_chat_is_gone_on_with() {
    let mut model = model(100, 30);
    assert_eq!(press(&mut model, &["C"]), [Command::ResumeChat]);
    assert_eq!(press(&mut model, &["tab", "C"]), [Command::ResumeChat]);
}

/// The specification's table of actions and calls. What is loaded or followed without a key is not among them.
#[test]
fn each_action_makes_the_call_of_the_specification() {
    let rows: &[(&str, &[&str], &str)] = &[
        ("save definition", &["2", "e"], "editor"),
        ("save settings", &["3", "j", "j", "j", "enter"], "UpdateProject"),
        ("add task", &["a", "x", "ctrl+s"], "CreateTask"),
        ("edit task", &["e", "x", "ctrl+s"], "UpdateTask"),
        ("change task status to ready", &["r"], "UpdateTask"),
        ("change task status to draft", &["t"], "UpdateTask"),
        ("change task status to done", &["d"], "UpdateTask"),
        ("delete task", &["x", "y"], "DeleteTask"),
        ("start agent", &["s"], "StartAgent"),
        ("stop agent", &["X", "y"], "StopAgent"),
        ("clear issue", &["R"], "ResumeAgent"),
        ("send keystrokes", &["tab", "x"], "SendInput"),
    ];
    for (action, keys, call) in rows {
        let mut model = model(100, 30);
        update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
        show(&mut model, screen(58, 26, "$ "));
        let commands = press(&mut model, keys);
        assert_eq!(commands.iter().map(name).collect::<Vec<_>>(), [*call], "{action}");
    }
    let mut logs = model(100, 30);
    let listed = press(&mut logs, &["tab", "right"]);
    assert_eq!(listed, [Command::ListLogs]);
    update(&mut logs, Message::Logs(vec![proto::Log { log_id: "a.log".to_owned(), ..Default::default() }]));
    assert_eq!(press(&mut logs, &["enter"]), [Command::GetLog("a.log".to_owned())]);
    let mut sized = model(100, 30);
    assert_eq!(show(&mut sized, screen(80, 24, "")), [Command::Resize { rows: 26, cols: 58 }]);
}

#[test]
fn the_list_is_walked_and_filtered() {
    let mut model = model(100, 30);
    assert_eq!(model.selected, 1);
    press(&mut model, &["j", "j", "j"]);
    // Over the sections.
    assert_eq!(model.selected, 7);
    press(&mut model, &["G", "j"]);
    assert_eq!(model.selected, 6);
    press(&mut model, &["g", "k"]);
    assert_eq!(model.selected, 1);
    press(&mut model, &["/"]);
    type_in(&mut model, "auth");
    assert_eq!((model.filter.0.as_str(), model.selected), ("auth", 4));
    press(&mut model, &["enter", "j"]);
    assert_eq!(model.selected, 6, "only those two are shown");
    press(&mut model, &["esc"]);
    assert_eq!(model.filter.0, "");
    // A key that is text while one types is no action.
    press(&mut model, &["/", "x", "s", "q"]);
    assert!(model.overlay.is_none());
    press(&mut model, &["esc"]);
    // The selected task goes: another one is selected.
    update(&mut model, Message::Tasks(vec![task(3, "Create database schema", "done")]));
    assert_eq!(model.selected, 3);
    update(&mut model, Message::Tasks(Vec::new()));
    for keys in [["e"], ["s"], ["x"], ["J"]] {
        assert!(press(&mut model, &keys).is_empty());
        assert!(model.overlay.is_none());
    }
}

#[test]
fn order_changes_within_a_section() {
    let mut model = model(100, 30);
    assert!(press(&mut model, &["K"]).is_empty(), "it is the first of its section");
    assert_eq!(press(&mut model, &["J"]), [Command::ReorderTasks(vec![4, 1, 2, 7, 3, 6])]);
    assert!(press(&mut model, &["J"]).is_empty(), "it is the last of its section");
}

#[test]
fn leaving_asks_while_agents_work() {
    let mut idle = model(100, 30);
    assert_eq!(press(&mut idle, &["ctrl+q"]), [Command::Quit]);
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    assert!(press(&mut model, &["ctrl+q"]).is_empty());
    assert!(matches!(model.overlay, Some(Overlay::Confirm(Confirm::Quit))));
    assert!(press(&mut model, &["n"]).is_empty());
    assert_eq!(press(&mut model, &["ctrl+q", "y"]), [Command::Quit]);
    assert_eq!(press(&mut model, &["ctrl+q", "ctrl+q"]), [Command::Quit], "twice means it");
}

/// The right panel shows the terminal of the selected task's agent, or of the newest agent.
#[test]
fn the_selected_task_shows_its_agent() {
    let mut model = model(100, 30);
    let (one, two) = (at_work(2, "start-all"), at_work(7, "start-all"));
    let one = proto::AgentStatus { session_id: "first".to_owned(), all: Vec::new(), ..one };
    let two = proto::AgentStatus { session_id: "second".to_owned(), all: Vec::new(), ..two };
    let status = proto::AgentStatus { all: vec![one, two.clone()], ..two };
    assert!(update(&mut model, Message::Status(Box::new(status))).is_empty());
    press(&mut model, &["j"]);
    assert_eq!(press(&mut model, &["j"]), [Command::Follow("first".to_owned())]);
    assert_eq!(press(&mut model, &["j"]), [Command::Follow("second".to_owned())]);
    // It ends: the newest is shown again.
    assert_eq!(update(&mut model, Message::Status(Box::default())), [Command::Follow(String::new())]);
}

/// The diff follows the selection.
#[test]
fn the_diff_is_of_the_selected_task() {
    let mut model = model(100, 30);
    assert_eq!(press(&mut model, &["D"]), [Command::GetDiff(1)]);
    assert_eq!(press(&mut model, &["j"]), [Command::GetDiff(4)]);
    let line = |part: DiffPart, text: &str| DiffLine { part: part.into(), text: text.to_owned() };
    let file = |name: &str| {
        let lines = (0..40).map(|n| line(DiffPart::Added, &format!("+{n}")));
        std::iter::once(line(DiffPart::File, name)).chain(lines).collect::<Vec<_>>()
    };
    // The first task's comes late.
    update(&mut model, Message::Diff(1, file("old")));
    assert!(model.diff.lines.is_none());
    update(&mut model, Message::Diff(4, [file("a"), file("b")].concat()));
    press(&mut model, &["tab", "n"]);
    assert_eq!(model.diff.at, 41);
    press(&mut model, &["p", "j"]);
    assert_eq!(model.diff.at, 1);
    press(&mut model, &["G", "j"]);
    assert_eq!(model.diff.at, 82 - 25, "the end stays at the end");
    // Beside each other the top stays, as far as the end allows.
    let lines = ["-old 1", "-old 2", "+new 1", "+new 2"].map(|text| {
        let part = if text.starts_with('-') { DiffPart::Deleted } else { DiffPart::Added };
        line(part, text)
    });
    update(&mut model, Message::Diff(4, [(0..20).flat_map(|_| lines.clone()).collect(), file("b")].concat()));
    press(&mut model, &["g", "n"]);
    assert_eq!((model.diff.at, model.diff.rows.len()), (80, 121));
    press(&mut model, &["v"]);
    assert_eq!((model.diff.at, model.diff.rows.len()), (40, 81), "the same file is on top");
    press(&mut model, &["v", "g"]);
    assert_eq!(model.diff.rows.len(), 121);
    assert_eq!(press(&mut model, &["r"]), [Command::GetDiff(4)]);
    // A diff of work that goes on: what is read stays until the new one is there.
    update(&mut model, Message::Diff(4, file("a")));
    let mut tasks = model.tasks.clone();
    tasks.iter_mut().filter(|task| task.task_number == 4).for_each(|task| task.state = "merged".to_owned());
    assert_eq!(update(&mut model, Message::Tasks(tasks.clone())), [Command::GetDiff(4)]);
    assert!(model.diff.lines.is_some());
    assert!(update(&mut model, Message::Tasks(tasks)).is_empty(), "nothing has changed");
    let works = proto::AgentStatus { all: vec![at_work(4, "task")], ..at_work(4, "task") };
    let asked = update(&mut model, Message::Status(Box::new(works.clone())));
    assert!(!asked.contains(&Command::GetDiff(4)), "just asked for");
    let later = model.now + 3_000;
    update(&mut model, Message::Tick(later));
    let asked = update(&mut model, Message::Status(Box::new(works)));
    assert!(asked.contains(&Command::GetDiff(4)), "{asked:?}");
    press(&mut model, &["h"]);
    assert_eq!(model.right, RightTab::Logs);
}

/// A search goes upwards from the lines on the screen.
#[test]
fn lines_that_have_gone_are_found() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    let lines: String = (0..100).map(|n| format!("line {n}\r\n")).collect();
    show(&mut model, screen(58, 26, &lines));
    press(&mut model, &["tab", "alt+/"]);
    type_in(&mut model, "line 4");
    let found = |line| Message::Found { session: SESSION.to_owned(), line };
    let find = |before| [Command::Find { text: "line 4".to_owned(), before }];
    assert_eq!(press(&mut model, &["enter"]), find(75));
    assert_eq!(update(&mut model, found(Some(49))), [Command::GetScrollback(0)]);
    assert_eq!(model.terminal.back, 26);
    // Further up.
    assert_eq!(press(&mut model, &["enter"]), find(49));
    update(&mut model, found(None));
    assert_eq!(model.terminal.back, 26, "it stays where it was");
    // The agent prints, and the same lines are shown.
    let more: String = (0..104).map(|n| format!("line {n}\r\n")).collect();
    assert_eq!(show(&mut model, screen(58, 26, &more)), [Command::GetScrollback(0)]);
    assert_eq!(model.terminal.back, 30);
    // A daemon that takes the agent over may number them anew: the view stays where it was.
    let mut taken = Emulator::new(Size::new(58, 26));
    taken.process(more.as_bytes());
    taken.renumber_scrollback(1 << 32);
    assert_eq!(show(&mut model, taken.snapshot()), [Command::GetScrollback((1 << 32) - 330)]);
    assert_eq!(model.terminal.back, 30);
    // A resize gives lines other numbers while one is looked for: it is looked for again.
    let mut resized = Emulator::new(Size::new(58, 26));
    resized.process(more.as_bytes());
    resized.resize(Size::new(50, 26));
    let resized = resized.snapshot();
    assert!(resized.scrollback.start > 49, "{:?}", resized.scrollback);
    show(&mut model, Arc::clone(&resized));
    assert_eq!(update(&mut model, found(Some(49))), find(resized.scrollback.end));
    press(&mut model, &["esc"]);
    assert!(press(&mut model, &["x"]).contains(&Command::SendInput(b"x".to_vec())));
    assert_eq!(model.terminal.back, 0);
}

/// Text is selected with the mouse where the agent does not want it, and copied.
#[test]
fn text_is_selected_and_copied() {
    let mouse =
        |kind, column, row| Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
    let left = MouseButton::Left;
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    show(&mut model, screen(58, 26, "first line\r\n\u{6f22}\u{5b57} second\r\nthird"));
    let area = model.areas().terminal;
    let drag = |model: &mut Model, to: (u16, u16)| {
        update(model, mouse(MouseEventKind::Down(left), area.x + 6, area.y));
        assert!(update(model, mouse(MouseEventKind::Drag(left), to.0, to.1)).is_empty());
        update(model, mouse(MouseEventKind::Up(left), to.0, to.1))
    };
    let commands = drag(&mut model, (area.x + 7, area.y + 1));
    let [Command::Copy(selected)] = commands.as_slice() else { panic!("{commands:?}") };
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(100, 30)).unwrap();
    let drawn = terminal.draw(|frame| watchfire_tui::view::view(&model, frame)).unwrap();
    assert_eq!(selected.text(&model, drawn.buffer), "line\n\u{6f22}\u{5b57} sec");
    // Out of the panel it goes to its edge, and backwards is the same.
    let outside = drag(&mut model, (0, 0));
    let [Command::Copy(selected)] = outside.as_slice() else { panic!("{outside:?}") };
    assert_eq!(selected.text(&model, drawn.buffer), "first l");
    // What was broken by the width is one line again.
    show(&mut model, screen(58, 26, &format!("{}\r\nend", "0123456789".repeat(10))));
    let long = drag(&mut model, (area.x + 2, area.y + 2));
    let [Command::Copy(selected)] = long.as_slice() else { panic!("{long:?}") };
    let drawn = terminal.draw(|frame| watchfire_tui::view::view(&model, frame)).unwrap();
    let whole = format!("6789{}\nend", "0123456789".repeat(9));
    assert_eq!(selected.text(&model, drawn.buffer), whole);
    // A click is no selection, and a key ends one.
    update(&mut model, mouse(MouseEventKind::Down(left), area.x, area.y));
    assert!(update(&mut model, mouse(MouseEventKind::Up(left), area.x, area.y)).is_empty());
    assert!(model.selection.is_none());
    drag(&mut model, (area.x, area.y + 1));
    press(&mut model, &["tab"]);
    assert!(model.selection.is_none());
    // An agent that wants the mouse has it.
    show(&mut model, screen(58, 26, "\x1b[?1002h\x1b[?1006h"));
    let commands = update(&mut model, mouse(MouseEventKind::Down(left), area.x, area.y));
    assert!(matches!(commands.as_slice(), [Command::SendInput(_)]));
    assert!(model.selection.is_none());
}

/// Marked tasks take a key together, in their order.
#[test]
fn several_tasks_take_a_key() {
    let mut model = model(100, 30);
    press(&mut model, &["G", "g", " ", " "]);
    assert_eq!(model.marked.len(), 2);
    let marked: Vec<_> =
        model.tasks.iter().map(|task| task.task_number).filter(|n| model.marked.contains(n)).collect();
    assert_eq!(press(&mut model, &["s"]), [Command::StartAgent { mode: "task", tasks: marked.clone() }]);
    assert!(model.marked.is_empty());
    press(&mut model, &["g", " ", " "]);
    let drafts: Vec<_> = press(&mut model, &["t"]).iter().map(name).collect();
    assert_eq!(drafts, ["UpdateTask", "UpdateTask"]);
    press(&mut model, &["g", " ", " "]);
    assert_eq!(
        press(&mut model, &["x", "y"]),
        marked.into_iter().map(Command::DeleteTask).collect::<Vec<_>>()
    );
    press(&mut model, &["g", " ", " ", "g", " ", "esc"]);
    assert!(model.marked.is_empty());
    // A task that is done cannot be started, and one that is gone is not marked.
    press(&mut model, &["g", " ", "G", " "]);
    assert!(press(&mut model, &["s"]).is_empty());
    assert_eq!(model.flash.as_ref().unwrap().text, "one of them is done; r makes it ready again");
    let first = model.tasks.iter().find(|task| model.marked.contains(&task.task_number)).unwrap().clone();
    update(&mut model, Message::Tasks(vec![first.clone()]));
    assert_eq!(model.marked.iter().copied().collect::<Vec<_>>(), [first.task_number]);
}

/// What was merged is taken back once the person has said so.
#[test]
fn an_undo_is_asked_about() {
    let mut model = model(100, 30);
    press(&mut model, &["U"]);
    assert_eq!(model.flash.as_ref().unwrap().text, "only what was merged can be undone");
    let mut tasks = model.tasks.clone();
    tasks.iter_mut().for_each(|task| task.state = "merged".to_owned());
    update(&mut model, Message::Tasks(tasks));
    press(&mut model, &["G"]);
    let done = model.selected;
    assert!(press(&mut model, &["U", "n"]).is_empty());
    assert_eq!(press(&mut model, &["U", "y"]), [Command::Undo(done)]);
}

/// In the agent's terminal everything is the agent's, but what the specification keeps.
#[test]
fn keys_go_to_the_agent() {
    let mut model = model(100, 30);
    show(&mut model, screen(58, 26, "$ "));
    press(&mut model, &["tab"]);
    assert_eq!(model.focus, Focus::Right);
    for (key, bytes) in [
        ("a", &b"a"[..]),
        ("enter", b"\r"),
        ("esc", b"\x1b"),
        ("up", b"\x1b[A"),
        ("ctrl+c", b"\x03"),
        ("1", b"1"),
        ("?", b"?"),
        ("backtab", b"\x1b[Z"),
    ] {
        assert_eq!(press(&mut model, &[key]), [Command::SendInput(bytes.to_vec())], "{key}");
    }
    assert_eq!(update(&mut model, Message::Paste("a\nb".to_owned())), [Command::SendInput(b"a\rb".to_vec())]);
    press(&mut model, &["ctrl+h"]);
    assert!(matches!(model.overlay, Some(Overlay::Help)));
    assert!(press(&mut model, &["x"]).is_empty());
    press(&mut model, &["ctrl+h", "tab"]);
    assert_eq!((model.focus, model.overlay.is_none()), (Focus::Left, true));
    press(&mut model, &["tab", "alt+z"]);
    assert!(model.zoomed);
    // Nothing has the keys that is not seen.
    press(&mut model, &["tab"]);
    assert!(!model.zoomed);
    // After its end, keys go nowhere.
    update(&mut model, Message::ScreenEnded(false));
    assert!(press(&mut model, &["tab", "a", "enter"]).is_empty());
}

#[test]
fn the_terminal_is_scrolled_back() {
    let mut model = model(100, 30);
    let lines: String = (0..100).map(|n| format!("{n}\r\n")).collect();
    show(&mut model, screen(58, 26, &lines));
    press(&mut model, &["tab"]);
    assert_eq!(press(&mut model, &["pageup"]), [Command::GetScrollback(0)]);
    assert_eq!(model.terminal.back, 26);
    let lines = |session: &str| {
        let (session, lines) = (session.to_owned(), vec![Default::default(); 75]);
        Message::Scrollback { session, from: 0, lines }
    };
    update(&mut model, lines("another"));
    assert!(model.terminal.lines.1.is_empty(), "another agent's");
    update(&mut model, lines(SESSION));
    assert!(press(&mut model, &["pageup", "pageup", "pageup"]).is_empty(), "they are known");
    assert_eq!(model.terminal.back, 75);
    press(&mut model, &["x"]);
    assert_eq!(model.terminal.back, 0, "whoever types wants to see it");
    // A program on the alternate screen scrolls by itself.
    show(&mut model, screen(58, 26, "\x1b[?1049h"));
    assert_eq!(press(&mut model, &["pageup"]), [Command::SendInput(b"\x1b[5~".to_vec())]);
}

fn mouse(model: &mut Model, kind: MouseEventKind, column: u16, row: u16) -> Vec<Command> {
    update(model, Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

#[test]
fn the_mouse_does_what_it_points_at() {
    let down = MouseEventKind::Down(MouseButton::Left);
    let mut model = model(100, 30);
    show(&mut model, screen(58, 26, ""));
    // Row 2 is the first section, then its tasks.
    mouse(&mut model, down, 10, 4);
    assert_eq!(model.selected, 4);
    mouse(&mut model, down, 60, 10);
    assert_eq!(model.focus, Focus::Right);
    mouse(&mut model, MouseEventKind::ScrollDown, 10, 10);
    assert_eq!(model.selected, 2);
    // The border between the panels.
    mouse(&mut model, down, 40, 10);
    mouse(&mut model, MouseEventKind::Drag(MouseButton::Left), 60, 10);
    let fitted = mouse(&mut model, MouseEventKind::Up(MouseButton::Left), 60, 10);
    assert_eq!((model.split, model.dragging), (60, false));
    assert!(fitted.is_empty(), "its size was given while it was dragged");
    assert_eq!(model.given.0, 38);
    // Tabs.
    let places =
        [("Definition", LeftTab::Definition), ("Settings", LeftTab::Settings), ("Tasks", LeftTab::Tasks)];
    for (title, tab) in places {
        let column = support_column(&model, title);
        mouse(&mut model, down, column, 0);
        assert_eq!((model.left, model.focus), (tab, Focus::Left), "{title}");
    }
    let column = support_column(&model, "Logs");
    assert_eq!(mouse(&mut model, down, column, 0), [Command::ListLogs]);
    assert_eq!(model.right, RightTab::Logs);
    // An agent that wants the mouse gets it, at its own place.
    model.right = RightTab::Chat;
    show(&mut model, screen(38, 26, "\x1b[?1000h\x1b[?1006h"));
    assert_eq!(mouse(&mut model, down, 65, 5), [Command::SendInput(b"\x1b[<0;5;4M".to_vec())]);
}

/// The column of a word in the header.
fn support_column(model: &Model, word: &str) -> u16 {
    let backend = ratatui::backend::TestBackend::new(model.size.0, model.size.1);
    let mut terminal = ratatui::Terminal::new(backend).unwrap();
    terminal.draw(|frame| watchfire_tui::view::view(model, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row: String = (0..model.size.0).map(|col| buffer[(col, 0)].symbol().to_owned()).collect();
    let at = row.find(word).unwrap();
    u16::try_from(row[..at].chars().count()).unwrap()
}

#[test]
fn words_in_the_status_bar_go_by_themselves() {
    let mut model = model(100, 30);
    update(&mut model, Message::Saved);
    assert_eq!(model.flash.as_ref().unwrap().text, "Saved");
    update(&mut model, Message::Tick(2_900));
    assert!(model.flash.is_some());
    update(&mut model, Message::Tick(3_000));
    assert!(model.flash.is_none());
    update(&mut model, Message::ShutDown);
    // Who is typing has not read it yet.
    assert_eq!(press(&mut model, &["x"]), []);
    update(&mut model, Message::Tick(4_000));
    assert_eq!(press(&mut model, &["x"]), [Command::Quit]);
}

/// Whatever is pressed, at whatever size, something can be drawn.
#[test]
fn random_keys_draw_something() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let keys = [
        "a",
        "e",
        "s",
        "x",
        "y",
        "n",
        "j",
        "k",
        "J",
        "K",
        "g",
        "G",
        "/",
        "1",
        "2",
        "3",
        "h",
        "l",
        "z",
        "R",
        "X",
        "tab",
        "enter",
        "esc",
        "ctrl+h",
        "ctrl+s",
        "backtab",
        "up",
        "down",
        "pageup",
        "pagedown",
        "backspace",
        "left",
        "right",
        "alt+z",
        " ",
    ];
    let mut model = model(100, 30);
    for step in 0..4_000 {
        match next(12) {
            0 => {
                let (cols, rows) = (u16::try_from(next(200)).unwrap(), u16::try_from(next(60)).unwrap());
                update(&mut model, Message::Resize(cols, rows));
            }
            1 => drop(show(
                &mut model,
                screen(1 + u16::try_from(next(120)).unwrap(), 20, "漢字\r\n\x1b[31mred"),
            )),
            2 => {
                let kinds = [
                    MouseEventKind::Down(MouseButton::Left),
                    MouseEventKind::Drag(MouseButton::Left),
                    MouseEventKind::Up(MouseButton::Left),
                    MouseEventKind::ScrollUp,
                    MouseEventKind::ScrollDown,
                ];
                let at = (u16::try_from(next(210)).unwrap(), u16::try_from(next(70)).unwrap());
                mouse(&mut model, kinds[next(kinds.len())], at.0, at.1);
            }
            3 => drop(update(&mut model, Message::Paste("a\tb\nc\x1b[31m".to_owned()))),
            4 if next(10) == 0 => {
                let log = proto::Log { content: "x\n".repeat(next(90)), ..Default::default() };
                update(&mut model, Message::Logs(vec![log.clone(); next(40)]));
                update(&mut model, Message::Log(Box::new(log)));
            }
            _ => drop(press(&mut model, &[keys[next(keys.len())]])),
        }
        if step % 4 == 0 {
            let (cols, rows) = (model.size.0.max(1), model.size.1.max(1));
            let mut terminal =
                ratatui::Terminal::new(ratatui::backend::TestBackend::new(cols, rows)).unwrap();
            terminal.draw(|frame| watchfire_tui::view::view(&model, frame)).unwrap();
        }
    }
}

#[test]
fn chosen_keys_do_what_they_were_chosen_for() {
    let keys = [("start", "ctrl+s"), ("quit", "f10"), ("help", "f1"), ("delete", "s")];
    let keys = keys.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned())).collect();
    let mut model = model(100, 30);
    model.keymap = watchfire_tui::keymap::Keymap::new(&keys).unwrap();
    model.selected = 2;
    assert_eq!(press(&mut model, &["ctrl+s"]), [Command::StartAgent { mode: "task", tasks: vec![2] }]);
    press(&mut model, &["s"]);
    assert!(matches!(model.overlay, Some(Overlay::Confirm(Confirm::Delete(_)))));
    press(&mut model, &["n", "x"]);
    assert!(model.overlay.is_none(), "the key was given away");
    // While one types, keys are characters.
    press(&mut model, &["/", "s", "x"]);
    assert_eq!(model.filter.0, "sx");
    press(&mut model, &["esc", "ctrl+q"]);
    model.selected = 2;
    assert_eq!(press(&mut model, &["f10"]), [Command::Quit]);
    press(&mut model, &["f1"]);
    assert!(matches!(model.overlay, Some(Overlay::Help)));
    // An action of the palette does not depend on the key that it has.
    press(&mut model, &["esc", ":"]);
    type_in(&mut model, "start the task");
    assert_eq!(press(&mut model, &["enter"]), [Command::StartAgent { mode: "task", tasks: vec![2] }]);
}

#[test]
fn the_divider_is_moved_by_keys() {
    let mut model = model(100, 30);
    press(&mut model, &[">", ">"]);
    assert_eq!(model.split, 50);
    press(&mut model, &["<"; 20]);
    // Both panels can be read all the same.
    assert_eq!((model.split, model.areas().left.width), (20, 30));
}

#[test]
fn a_task_is_carried_to_another_place() {
    let mut model = model(100, 30);
    let order = |model: &Model| model.tasks.iter().map(|task| task.task_number).collect::<Vec<_>>();
    let before = order(&model);
    let left = |model: &mut Model, kind, row| mouse(model, kind, 5, row);
    // The second task of the drafts onto the first.
    left(&mut model, MouseEventKind::Down(MouseButton::Left), 4);
    assert_eq!(model.selected, 4);
    left(&mut model, MouseEventKind::Drag(MouseButton::Left), 3);
    // Another section is no place for it.
    left(&mut model, MouseEventKind::Drag(MouseButton::Left), 7);
    let commands = left(&mut model, MouseEventKind::Up(MouseButton::Left), 7);
    assert_eq!(commands, [Command::ReorderTasks(vec![4, 1, 2, 7, 3, 6])]);
    assert_ne!(before, order(&model));
    // A click alone changes nothing.
    left(&mut model, MouseEventKind::Down(MouseButton::Left), 3);
    assert_eq!(left(&mut model, MouseEventKind::Up(MouseButton::Left), 3), []);
}

#[test]
fn a_key_that_is_let_go_is_told_to_those_who_ask() {
    use crossterm::event::{KeyCode, KeyEvent, KeyEventKind};
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    show(&mut model, screen(20, 5, "\x1b[>3u"));
    let release = KeyEvent::new_with_kind(KeyCode::Up, KeyModifiers::NONE, KeyEventKind::Release);
    assert_eq!(update(&mut model, Message::Key(release)), []);
    press(&mut model, &["tab"]);
    assert_eq!(update(&mut model, Message::Key(release)), [Command::SendInput(b"\x1b[1;1:3A".to_vec())]);
    let shifted = KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT);
    assert_eq!(update(&mut model, Message::Key(shifted)), [Command::SendInput(b"\x1b[13;2u".to_vec())]);
    show(&mut model, screen(20, 5, ""));
    assert_eq!(update(&mut model, Message::Key(release)), []);
}

/// Another viewer may change the size of the agent's terminal. Who types has it again.
#[test]
fn who_types_has_the_size() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    let ours = show(&mut model, screen(20, 5, "one"));
    let [Command::Resize { rows, cols }] = ours[..] else { panic!("{ours:?}") };
    press(&mut model, &["tab"]);
    let typed = Command::SendInput(b"a".to_vec());
    assert_eq!(press(&mut model, &["a"]), std::slice::from_ref(&typed), "our size is still on its way");
    show(&mut model, screen(cols, rows, "two"));
    assert_eq!(show(&mut model, screen(20, 5, "three")), [], "nobody types here");
    assert_eq!(press(&mut model, &["a"]), [typed.clone(), ours[0].clone()]);
    assert_eq!(press(&mut model, &["a"]), [typed], "told once");
}

#[test]
fn what_is_not_seen_takes_no_keys() {
    let mut model = model(100, 30);
    update(&mut model, Message::Resize(40, 10));
    assert_eq!(press(&mut model, &["x", "y", "s", "a"]), []);
    assert!(model.overlay.is_none());
    assert_eq!(press(&mut model, &["ctrl+q"]), [Command::Quit]);
}

#[test]
fn keys_go_where_the_mouse_points() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    show(&mut model, screen(58, 26, ""));
    press(&mut model, &["/", "a"]);
    mouse(&mut model, MouseEventKind::Down(MouseButton::Left), 60, 10);
    assert_eq!((model.filter.1, model.focus), (false, Focus::Right));
    assert_eq!(press(&mut model, &["x"]), [Command::SendInput(b"x".to_vec())]);
    press(&mut model, &["tab"]);
    assert_eq!(model.focus, Focus::Left);
}

#[test]
fn a_key_that_was_given_away_is_the_agents() {
    let keys = [("panel".to_owned(), "f6".to_owned()), ("zoom".to_owned(), "f7".to_owned())].into();
    let mut model = model(100, 30);
    model.keymap = watchfire_tui::keymap::Keymap::new(&keys).unwrap();
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    show(&mut model, screen(58, 26, ""));
    press(&mut model, &["f6"]);
    assert_eq!(model.focus, Focus::Right);
    assert_eq!(press(&mut model, &["tab"]), [Command::SendInput(b"\t".to_vec())]);
    assert_eq!(press(&mut model, &["alt+z"]), [Command::SendInput(b"\x1bz".to_vec())]);
    press(&mut model, &["f7"]);
    assert!(model.zoomed);
    press(&mut model, &["f7", "f6", "a"]);
    // In a form it goes from field to field.
    type_in(&mut model, "T");
    press(&mut model, &["tab"]);
    type_in(&mut model, "more");
    let [Command::CreateTask(request)] = &press(&mut model, &["ctrl+s"])[..] else { panic!("no task") };
    assert_eq!((request.title.as_str(), request.prompt.as_str()), ("T", "more"));
}

#[test]
fn held_work_is_no_work() {
    let mut model = model(100, 30);
    let mut held = at_work(2, "task");
    held.is_running = false;
    held.all[0].is_running = false;
    held.all[0].state = "held".to_owned();
    update(&mut model, Message::Status(Box::new(held)));
    assert_eq!(press(&mut model, &["ctrl+q"]), [Command::Quit]);
}

#[test]
fn a_chat_is_not_started_by_ctrl_c() {
    let mut model = model(100, 30);
    press(&mut model, &["tab"]);
    assert_eq!(press(&mut model, &["ctrl+c", "alt+c"]), []);
    assert_eq!(press(&mut model, &["c"]).len(), 1);
    press(&mut model, &["alt+z"]);
    assert!(model.zoomed);
    press(&mut model, &["alt+z"]);
    assert!(!model.zoomed);
}

#[test]
fn marks_stay_until_the_question_is_answered() {
    let mut model = model(100, 30);
    press(&mut model, &[" ", " ", "x", "n"]);
    assert_eq!(model.marked.len(), 2);
    assert_eq!(press(&mut model, &["x", "y"]).len(), 2);
    assert!(model.marked.is_empty());
}
