//! What is typed and read: forms, questions, settings, long texts.

mod support;

use crossterm::event::KeyModifiers;
use support::{at_work, model, press, type_in};
use watchfire_client::daemon_proto as proto;
use watchfire_core::model::Question;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::{Confirm, Model, Overlay};
use watchfire_tui::update::update;

#[test]
fn a_task_is_written_in_a_form() {
    let mut model = model(100, 30);
    press(&mut model, &["a", "ctrl+s"]);
    let Some(Overlay::Task(form)) = &model.overlay else { panic!("the form stays") };
    assert_eq!(form.problem.as_deref(), Some("a task needs a title"));
    type_in(&mut model, "New page\nFirst line\nSecond line");
    update(&mut model, Message::Paste("\npasted".to_owned()));
    // In a text, tab is a character, and a letter no action.
    press(&mut model, &["tab", "q", "backtab", "backtab", " "]);
    let Some(Overlay::Task(form)) = &model.overlay else { panic!("the form stays") };
    assert!(form.ready);
    let commands = press(&mut model, &["ctrl+s"]);
    let [Command::CreateTask(request)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((request.title.as_str(), request.status.as_str()), ("New page", "ready"));
    assert_eq!(request.prompt, "First line\nSecond line\npasted\tq");
    update(&mut model, Message::Created(1));
    assert!(model.overlay.is_none());

    // Only what was changed is sent.
    press(&mut model, &["e"]);
    assert!(press(&mut model, &["ctrl+s"]).is_empty(), "nothing was changed");
    press(&mut model, &["enter", "!"]);
    let commands = press(&mut model, &["ctrl+s"]);
    let [Command::UpdateTask(request)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((request.title.as_deref(), request.task_number), (Some("Setup project structure!"), 1));
    assert_eq!((&request.prompt, &request.status), (&None, &None));
    // Escape throws away what was typed; nothing else does.
    press(&mut model, &["e", "z", "ctrl+h", "tab"]);
    assert!(matches!(model.overlay, Some(Overlay::Task(_))));
    press(&mut model, &["esc"]);
    assert!(model.overlay.is_none());
}

#[test]
fn a_question_is_answered_in_place() {
    let mut model = model(100, 30);
    press(&mut model, &["A"]);
    assert_eq!(model.flash.as_ref().unwrap().text, "nobody asks");
    let mut asking = at_work(2, "task");
    asking.state = "asking".to_owned();
    asking.questions = vec!["Which port?".to_owned(), "Which host?".to_owned()];
    asking.question_ids = vec!["port".to_owned(), "host".to_owned()];
    let status = proto::AgentStatus { all: vec![asking.clone()], ..asking };
    update(&mut model, Message::Status(Box::new(status)));
    assert!(support::text(&model).contains("Which port? (and 1 more)"), "{}", support::text(&model));
    press(&mut model, &["A"]);
    // Letters are text, and nothing is no answer.
    assert!(press(&mut model, &["enter"]).is_empty());
    type_in(&mut model, "8080 x");
    let sent = press(&mut model, &["enter"]);
    let question = Question::new("port", "Which port?");
    assert_eq!(sent, [Command::Answer { task: 2, question, text: "8080 x".to_owned() }]);
    update(&mut model, Message::Saved);
    assert!(model.overlay.is_none());
}

/// Work that is done goes back with what is wrong with it.
#[test]
fn work_is_sent_back_in_place() {
    let mut model = model(100, 30);
    press(&mut model, &["B"]);
    assert_eq!(model.flash.as_ref().unwrap().text, "only work that is done can be sent back");
    let mut done = model.tasks.clone();
    done.iter_mut().for_each(|task| task.status = "done".to_owned());
    update(&mut model, Message::Tasks(done));
    press(&mut model, &["G", "B"]);
    let task = model.selected;
    type_in(&mut model, "use UTC");
    assert_eq!(press(&mut model, &["enter"]), [Command::SendBack { task, text: "use UTC".to_owned() }]);
    update(&mut model, Message::Started(None));
    assert!(model.overlay.is_none());
}

#[test]
fn settings_are_checked_and_saved_at_once() {
    let mut model = model(100, 30);
    press(&mut model, &["3", "enter"]);
    assert!(model.settings.editing.is_some());
    // Digits and letters are text here.
    type_in(&mut model, "2q");
    let commands = press(&mut model, &["enter"]);
    let [Command::UpdateProject(request)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(request.name.as_deref(), Some("my-project2q"));
    press(&mut model, &["j", "enter"]);
    type_in(&mut model, "zz");
    assert!(press(&mut model, &["enter"]).is_empty());
    assert_eq!(model.flash.as_ref().unwrap().text, "a colour is #rrggbb");
    press(&mut model, &["esc"]);
    assert!(model.settings.editing.is_none());
    let commands = press(&mut model, &["j", "j", " "]);
    let [Command::UpdateProject(request)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(request.auto_merge, Some(false));
}

#[test]
fn a_task_has_an_agent_and_others_before_it() {
    let mut model = model(100, 30);
    press(&mut model, &["a"]);
    type_in(&mut model, "New\n");
    press(&mut model, &["backtab"; 5]);
    type_in(&mut model, "codex\n#0004, 2\nui, needs review\n");
    let [Command::CreateTask(request)] = &press(&mut model, &["ctrl+s"])[..] else { panic!("no task") };
    assert_eq!((request.title.as_str(), request.agent.as_str()), ("New", "codex"));
    assert_eq!(
        (&request.depends_on[..], &request.labels[..]),
        (&[4, 2][..], &["ui".to_owned(), "needs review".to_owned()][..])
    );
    update(&mut model, Message::Created(8));
    // Only what has changed is sent, and what is wrong is said.
    model.tasks[0].depends_on = vec![4];
    model.tasks[0].labels = vec!["ui".to_owned()];
    model.selected = model.tasks[0].task_number;
    press(&mut model, &["e", "down", "ctrl+down", "ctrl+down", "down"]);
    type_in(&mut model, " x");
    assert_eq!(press(&mut model, &["ctrl+s"]), []);
    let Some(Overlay::Task(form)) = &model.overlay else { panic!("no form") };
    assert_eq!(form.problem.as_deref(), Some("after: the numbers of tasks"));
    press(&mut model, &["backspace"]);
    type_in(&mut model, "2");
    let [Command::UpdateTask(request)] = &press(&mut model, &["ctrl+s"])[..] else { panic!("no change") };
    assert_eq!(request.depends_on.as_ref().unwrap().task_numbers, [4, 2]);
    assert_eq!((&request.labels, &request.agent, &request.title), (&None, &None, &None));
}

#[test]
fn what_is_pasted_keeps_its_lines() {
    let mut model = model(100, 30);
    press(&mut model, &["a"]);
    type_in(&mut model, "Title\n");
    // As terminals send it.
    update(&mut model, Message::Paste("one\rtwo\r\nthree".to_owned()));
    let [Command::CreateTask(request)] = &press(&mut model, &["ctrl+s"])[..] else { panic!("no task") };
    assert_eq!(request.prompt, "one\ntwo\nthree");
}

#[test]
fn a_form_stays_until_it_is_saved() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    press(&mut model, &["a"]);
    type_in(&mut model, "Title");
    // The question about leaving gives it back.
    press(&mut model, &["ctrl+q", "n"]);
    let problem = |model: &Model| match &model.overlay {
        Some(Overlay::Task(form)) => form.problem.clone(),
        other => panic!("no form: {other:?}"),
    };
    assert_eq!(problem(&model), None);
    assert_eq!(press(&mut model, &["ctrl+s", "ctrl+s"]).len(), 1, "it is sent once");
    update(&mut model, Message::NotSaved("depends on a task that does not exist".to_owned()));
    assert_eq!(problem(&model).as_deref(), Some("depends on a task that does not exist"));
    assert_eq!(press(&mut model, &["ctrl+s"]).len(), 1);
    update(&mut model, Message::Created(9));
    assert!(model.overlay.is_none());
    // Words to an agent stay as well.
    model.selected = 3;
    press(&mut model, &["B"]);
    type_in(&mut model, "wrong\n");
    update(&mut model, Message::NotStarted("it is at work".to_owned()));
    assert!(
        matches!(model.overlay, Some(Overlay::Words(..))) && support::text(&model).contains("it is at work")
    );
    press(&mut model, &["enter"]);
    update(&mut model, Message::Started(None));
    assert!(model.overlay.is_none());
}

#[test]
fn long_texts_are_read_to_their_end() {
    let mut model = model(80, 24);
    let words: Vec<_> = (0..600).map(|at| format!("w{at:04}")).collect();
    model.tasks[0].prompt = words.join(" ");
    model.project.definition = words.join(" ");
    press(&mut model, &["i"]);
    press(&mut model, &["j"; 200]);
    assert!(support::text(&model).contains("w0599"), "{}", support::text(&model));
    press(&mut model, &["esc", "2", "end"]);
    assert!(support::text(&model).contains("w0599"), "{}", support::text(&model));
}

#[test]
fn texts_of_others_do_not_move_anything() {
    let mut model = model(80, 24);
    let plain = support::text(&model);
    model.tasks[0].title = "Setup\u{2028}project\u{202e}structure".to_owned();
    assert_eq!(support::text(&model), plain);
    model.project.name = "日本語プロジェクト名前".to_owned();
    let text = support::text(&model);
    assert!(text.contains("Tasks | Definition | Settings"), "{text}");
}

#[test]
fn what_is_typed_is_seen_around_its_cursor() {
    let mut model = model(80, 24);
    model.selected = 3;
    press(&mut model, &["B"]);
    type_in(&mut model, &format!("begin {} the end", "long ".repeat(20)));
    let last = |model: &Model| support::text(model).lines().last().unwrap().to_owned();
    assert!(last(&model).contains("the end▏  Enter send"), "{}", last(&model));
    let home = crossterm::event::KeyEvent::new(crossterm::event::KeyCode::Home, KeyModifiers::NONE);
    update(&mut model, Message::Key(home));
    assert!(last(&model).contains("▏begin long"), "{}", last(&model));
}

#[test]
fn a_definition_that_was_not_saved_is_gone_on_with() {
    let mut model = model(100, 30);
    model.unsaved = Some("new words".to_owned());
    press(&mut model, &["2"]);
    update(&mut model, Message::Failed("the daemon does not answer".to_owned()));
    assert_eq!(press(&mut model, &["e"]), [Command::Edit("new words".to_owned())]);
    let project = proto::Project { definition: "new words\n".to_owned(), ..model.project.clone() };
    update(&mut model, Message::Project(Box::new(project)));
    assert_eq!(press(&mut model, &["e"]), [Command::Edit("new words\n".to_owned())]);
}

#[test]
fn the_question_about_leaving_is_answered_first() {
    let mut model = model(100, 30);
    update(&mut model, Message::Status(Box::new(at_work(2, "task"))));
    press(&mut model, &["a", "x", "ctrl+q", "ctrl+h"]);
    assert!(matches!(model.overlay, Some(Overlay::Confirm(Confirm::Quit))));
    press(&mut model, &["n"]);
    assert!(matches!(model.overlay, Some(Overlay::Task(_))));
}
