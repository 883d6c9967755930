//! What each screen looks like. The pictures are in `tests/screens`; `WATCHFIRE_BLESS=1` writes them anew, to be looked at.

mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use support::{at_work, model, press, screen, show, task};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{DiffLine, DiffPart};
use watchfire_tui::message::Message;
use watchfire_tui::model::Model;
use watchfire_tui::theme::Depth;
use watchfire_tui::update::update;
use watchfire_tui::view::view;

fn drawn(model: &Model) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| view(model, frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|col| buffer[(col, row)].symbol()).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The looks of a screen: for each row the columns that have another than the default.
fn looks(buffer: &Buffer) -> String {
    let name = |color: Color| match color {
        Color::Reset => "-".to_owned(),
        Color::Indexed(n) => n.to_string(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => format!("{other:?}"),
    };
    let mut text = String::new();
    for row in 0..buffer.area.height {
        let look = |col: u16| {
            let cell = &buffer[(col, row)];
            let modifiers = match cell.modifier {
                none if none == Modifier::empty() => String::new(),
                some => format!(" {some:?}"),
            };
            format!("{} on {}{modifiers}", name(cell.fg), name(cell.bg))
        };
        let mut from = 0;
        for col in 1..=buffer.area.width {
            if col < buffer.area.width && look(col) == look(from) {
                continue;
            }
            if look(from) != "- on -" {
                let _ = writeln!(text, "{row}:{from}-{} {}", col - 1, look(from));
            }
            from = col;
        }
    }
    text
}

#[track_caller]
fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(format!("{name}.txt"));
    if std::env::var_os("WATCHFIRE_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(expected == found, "{name} looks otherwise now:\n{found}\nbefore:\n{expected}");
}

/// The agent's screen, as a real one may look.
const AGENT: &str = "\x1b[1mClaude Code\x1b[m v2.1.31\r\n\x1b[2m~/source/my-project\x1b[m\r\n\r\n\x1b[38;5;208m✻\x1b[m Working on task…\r\n\r\n> ";

fn working(cols: u16, rows: u16) -> Model {
    let mut model = model(cols, rows);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    let area = model.areas().terminal;
    show(&mut model, screen(area.width, area.height, AGENT));
    model
}

fn show_diff(model: &mut Model) {
    press(model, &["D"]);
    let lines = [
        (DiffPart::File, "modified src/login.rs (+2 -1)"),
        (DiffPart::Hunk, "@@ -1,3 +1,4 @@"),
        (DiffPart::Unspecified, " fn login() {"),
        (DiffPart::Deleted, "-\ttodo!()"),
        (DiffPart::Added, "+\tlet user = ask();"),
        (DiffPart::Added, "+\tuser.check()\x1b[2J"),
        (DiffPart::Note, "… and 3 more files"),
    ];
    let lines = lines.map(|(part, text)| DiffLine { part: part.into(), text: text.to_owned() });
    let number = model.selected;
    let inks = watchfire_tui::syntax::inks(&lines);
    update(model, Message::Diff(number, lines.into()));
    update(model, Message::Inked(number, inks));
}

/// The sizes at which everything is looked at.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Draws a state at every size: its text, and its looks on a dark and on a light background.
fn pictures(prepare: &dyn Fn(&mut Model)) -> String {
    let mut all = String::new();
    for (cols, rows) in SIZES {
        let mut model = working(cols, rows);
        prepare(&mut model);
        let _ = writeln!(all, "== {cols}x{rows}\n{}", text(&drawn(&model)));
        for (name, dark) in [("dark", true), ("light", false)] {
            model.dark = dark;
            let _ = writeln!(all, "-- {name}\n{}", looks(&drawn(&model)));
        }
    }
    all
}

#[test]
fn without_colours_nothing_has_one() {
    let mut model = working(80, 24);
    show_diff(&mut model);
    for (depth, most) in [(Depth::Plain, None), (Depth::Sixteen, Some(15)), (Depth::Indexed, Some(255))] {
        model.depth = depth;
        for cell in &drawn(&model).content {
            for color in [cell.fg, cell.bg] {
                let fits = match color {
                    Color::Reset => true,
                    Color::Indexed(index) => most.is_some_and(|most| index <= most),
                    _ => false,
                };
                assert!(fits, "{depth:?} {color:?}");
            }
        }
    }
    // What is selected is seen all the same.
    model.depth = Depth::Plain;
    assert!(drawn(&model).content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
}

#[test]
fn a_terminal_of_ascii_alone_gets_nothing_else() {
    let mut model = working(80, 24);
    show_diff(&mut model);
    let shown =
        |model: &Model| drawn(model).content.iter().map(|cell| cell.symbol().to_owned()).collect::<Vec<_>>();
    let all = shown(&model);
    model.ascii = true;
    let plain = shown(&model);
    assert!(!all.concat().is_ascii() && plain.concat().is_ascii(), "{}", plain.concat());
    // What was ASCII is where it was, but for the three dots of an ellipsis.
    assert!(all.iter().zip(&plain).all(|(all, plain)| !all.is_ascii() || all == plain || plain == "."));
}

/// Brings a model into a state.
type Prepare = Box<dyn Fn(&mut Model)>;

#[test]
fn every_screen() {
    let issue = |kind: &str, seconds: Option<i64>| proto::AgentIssue {
        issue_type: kind.to_owned(),
        message: "You've hit your limit".to_owned(),
        reset_at: seconds.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
        ..Default::default()
    };
    let log = |task_number: i32, status: &str| proto::Log {
        log_id: "a.log".to_owned(),
        task_number,
        session_number: 2,
        started_at: "2026-02-03T14:30:00Z".to_owned(),
        status: status.to_owned(),
        mode: if task_number == 0 { "chat" } else { "task" }.to_owned(),
        content: "## User\n\nImplement it.\n\n## Assistant\n\nDone.\n\n[Tool: Bash]\n".to_owned(),
        ..Default::default()
    };
    let states: Vec<(&str, Prepare)> = vec![
        ("main", Box::new(|_| {})),
        ("idle", Box::new(|model| *model = support::model(model.size.0, model.size.1))),
        ("definition", Box::new(|model| drop(press(model, &["2"])))),
        ("settings", Box::new(|model| drop(press(model, &["3", "j", "enter"])))),
        ("help", Box::new(|model| drop(press(model, &["ctrl+h"])))),
        ("add", Box::new(|model| drop(press(model, &["a"])))),
        ("edit", Box::new(|model| drop(press(model, &["j", "e", "enter"])))),
        ("delete", Box::new(|model| drop(press(model, &["x"])))),
        ("quit", Box::new(|model| drop(press(model, &["ctrl+q"])))),
        ("filter", Box::new(|model| drop(press(model, &["/", "a", "u", "t"])))),
        ("terminal", Box::new(|model| drop(press(model, &["tab"])))),
        ("zoomed", Box::new(|model| drop(press(model, &["tab", "alt+z"])))),
        ("stopped", Box::new(|model| drop(update(model, Message::ScreenEnded(false))))),
        ("crashed", Box::new(|model| drop(update(model, Message::ScreenEnded(true))))),
        (
            "not-started",
            Box::new(|model| {
                *model = support::model(model.size.0, model.size.1);
                let words = "the program of the agent is not there: claude (npm install -g @anthropic-ai/claude-code)";
                update(model, Message::NotStarted(words.to_owned()));
            }),
        ),
        (
            "projects",
            Box::new(|model| {
                press(model, &["P"]);
                let project = |id: &str, name: &str| proto::Project {
                    project_id: id.to_owned(),
                    name: name.to_owned(),
                    path: format!("/home/me/{name}"),
                    ..Default::default()
                };
                update(model, Message::Projects(vec![project("p", "my-project"), project("q", "shop")]));
            }),
        ),
        ("saved", Box::new(|model| drop(update(model, Message::Saved)))),
        ("failed", Box::new(|model| drop(update(model, Message::Failed("no such task\x1b[2J".to_owned()))))),
        ("disconnected", Box::new(|model| drop(update(model, Message::Disconnected)))),
        ("shut-down", Box::new(|model| drop(update(model, Message::ShutDown)))),
        ("starting", Box::new(|model| *model = Model::new(model.size))),
        ("too-small", Box::new(|model| drop(update(model, Message::Resize(79, model.size.1))))),
        (
            "auth",
            Box::new(move |model| {
                model.status.issue = Some(issue("auth_required", None));
            }),
        ),
        (
            "limited",
            Box::new(move |model| {
                model.status.issue = Some(issue("rate_limited", None));
            }),
        ),
        (
            "asks",
            Box::new(|model| {
                let mut agent = at_work(2, "task");
                agent.state = "asking".to_owned();
                agent.questions = vec!["Which port should it listen on?".to_owned()];
                let status = proto::AgentStatus { all: vec![agent.clone()], ..agent };
                update(model, Message::Status(Box::new(status)));
                press(model, &["A", "8", "0"]);
            }),
        ),
        (
            "wildfire",
            Box::new(|model| {
                let status =
                    proto::AgentStatus { wildfire_phase: "refine".to_owned(), ..at_work(4, "wildfire") };
                update(model, Message::Status(Box::new(status)));
            }),
        ),
        (
            "tiles",
            Box::new(|model| {
                let mut status = support::several(&[2, 7, 4]);
                status.all[1].questions.push("Which port?".to_owned());
                update(model, Message::Status(Box::new(status)));
                press(model, &["w", "l"]);
                for session in ["session-2", "session-7"] {
                    let snapshot = screen(80, 24, AGENT);
                    update(model, Message::Tile { session: session.to_owned(), snapshot });
                }
            }),
        ),
        (
            "several",
            Box::new(|model| {
                let mut status = support::several(&[2, 7, 4]);
                status.all[0].session_id = support::SESSION.to_owned();
                status.all[1].questions.push("Which port?".to_owned());
                update(model, Message::Status(Box::new(status)));
                press(model, &["F"]);
            }),
        ),
        ("diff", Box::new(show_diff)),
        (
            "diff-beside",
            Box::new(|model| {
                show_diff(model);
                press(model, &["tab", "v"]);
            }),
        ),
        (
            "branches",
            Box::new(|model| {
                press(model, &["b"]);
                let branch = |number: i32, status: &str| proto::Branch {
                    name: format!("watchfire/{number:04}"),
                    task_number: number,
                    status: status.to_owned(),
                    target: "main".to_owned(),
                    ahead: 2,
                    subject: "Create the schema".to_owned(),
                    ..Default::default()
                };
                update(
                    model,
                    Message::Branches(vec![branch(3, "merged"), branch(6, "unmerged")], Vec::new()),
                );
                press(model, &["j"]);
            }),
        ),
        ("trash", Box::new(|model| drop((press(model, &["T"]), update(model, Message::Trash(Vec::new())))))),
        ("palette", Box::new(|model| drop(press(model, &[":", "t", "a", "s", "k"])))),
        (
            "inbox",
            Box::new(|model| {
                press(model, &["I"]);
                let mut agent = at_work(2, "task");
                (agent.project_name, agent.task_title) =
                    ("shop".to_owned(), "Implement login flow".to_owned());
                agent.questions = vec!["Which port?".to_owned()];
                update(model, Message::Inbox(vec![agent]));
            }),
        ),
        (
            "info",
            Box::new(|model| {
                let mut task = task(6, "Fix bug in auth", "done");
                task.success = Some(false);
                task.detail = "the tests fail".to_owned();
                task.failure_reason = "Two tests fail:\n  login\n  logout".to_owned();
                task.depends_on = vec![3];
                task.labels = vec!["auth".to_owned(), "bug".to_owned()];
                update(model, Message::Tasks(vec![task]));
                press(model, &["i"]);
            }),
        ),
        (
            "logs",
            Box::new(move |model| {
                press(model, &["tab"]);
                update(model, Message::ScreenEnded(false));
                press(model, &["right"]);
                let list =
                    vec![log(1, "completed"), log(0, "interrupted"), log(6, "failed"), log(2, "running")];
                update(model, Message::Logs(list));
            }),
        ),
        (
            "log",
            Box::new(move |model| {
                press(model, &["tab"]);
                update(model, Message::ScreenEnded(false));
                press(model, &["right"]);
                update(model, Message::Log(Box::new(log(1, "completed"))));
            }),
        ),
        (
            "empty",
            Box::new(|model| {
                *model = support::model(model.size.0, model.size.1);
                update(model, Message::Tasks(Vec::new()));
            }),
        ),
    ];
    for (name, prepare) in states {
        compare(name, &pictures(&prepare));
    }
}

/// The agent's cells arrive as they are: every look, wide characters, and nothing beside the panel.
#[test]
fn the_agents_cells_are_drawn_as_they_are() {
    let mut model = model(100, 30);
    let area = model.areas().terminal;
    let bytes =
        "\x1b[1;3;4;9;38;2;1;2;3;48;5;200mall\x1b[m漢字e\u{301}\x1b[7minv\x1b[m\r\n\x1b[31;44mred\x1b[m";
    show(&mut model, screen(area.width, area.height, bytes));
    let buffer = drawn(&model);
    let cell = |col: u16, row: u16| &buffer[(area.x + col, area.y + row)];
    assert_eq!(cell(0, 0).symbol(), "a");
    assert_eq!((cell(0, 0).fg, cell(0, 0).bg), (Color::Rgb(1, 2, 3), Color::Indexed(200)));
    let all = Modifier::BOLD | Modifier::ITALIC | Modifier::UNDERLINED | Modifier::CROSSED_OUT;
    assert_eq!(cell(0, 0).modifier, all);
    assert_eq!((cell(3, 0).symbol(), cell(5, 0).symbol(), cell(7, 0).symbol()), ("漢", "字", "e\u{301}"));
    assert_eq!(cell(8, 0).modifier, Modifier::REVERSED);
    assert_eq!((cell(0, 1).fg, cell(0, 1).bg), (Color::Indexed(1), Color::Indexed(4)));
    // A screen that is larger than the panel is cut at its border.
    let wide = "x".repeat(300);
    show(&mut model, screen(300, 60, &wide));
    let buffer = drawn(&model);
    assert_eq!(buffer[(99, 2)].symbol(), "│");
}
