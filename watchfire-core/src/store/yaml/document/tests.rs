//! Edits change the lines of their fields and no other byte.

use proptest::prelude::*;

use super::{compose, decode, edit};
use crate::model::{Project, ProjectIndex, Settings, Task, TaskNumber, TaskStatus, Timestamp};
use crate::store::{ProjectPatch, TaskPatch};

const TASK: &str = r#"# by hand
version: 1
task_id: "k7xm2nq9"                   # 8-char alphanumeric, internal only
task_number: 1                        # Sequential within project, user-facing
title: 'Create HTML structure'
# the long one
prompt: |
  Detailed instruction for the agent...

  # not a comment
  - nor: a list

# between
acceptance_criteria: |-   # why
  - index.html exists
x-owner: {name: "me", since: 2020}    # unknown
status: draft                         # draft | ready | done
success: true                         # Only when status=done
failure_reason: "..."
position:   1                         # Display/work ordering
agent_sessions: 2
labels:   # words
- a   # first
- b
created_at: 2026-02-03T13:05:00.123456789Z
started_at: ""
deleted_at: null                      # Soft delete timestamp
x_list:
  - 1
  # inside
  - two
"#;

fn patched(text: &str, patch: &TaskPatch) -> (String, Task) {
    let before: Task = decode(text.as_bytes()).unwrap();
    let mut after = before.clone();
    patch.apply(&mut after, &Timestamp::from_unix_millis(1_770_123_900_000));
    let (edited, _) =
        edit(text.as_bytes(), &before, &after).unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
    assert_eq!(decode::<Task>(edited.as_bytes()).unwrap(), after);
    (edited, after)
}

/// The lines that are in only one of the two.
fn difference(before: &str, after: &str) -> Vec<String> {
    let (a, b): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let gone = a.iter().filter(|line| !b.contains(line)).map(|line| format!("-{line}"));
    gone.chain(b.iter().filter(|line| !a.contains(line)).map(|line| format!("+{line}"))).collect()
}

#[test]
fn only_the_lines_of_changed_fields_change() {
    let (edited, _) =
        patched(TASK, &TaskPatch::new().with_status(TaskStatus::Done).with_success(Some(false)));
    assert_eq!(
        difference(TASK, &edited),
        [
            "-status: draft                         # draft | ready | done",
            "-success: true                         # Only when status=done",
            "+status: done                         # draft | ready | done",
            "+success: false                         # Only when status=done",
            "+completed_at: \"2026-02-03T13:05:00Z\"",
            "+updated_at: \"2026-02-03T13:05:00Z\"",
        ]
    );
    let patch = TaskPatch::new()
        .with_prompt("one line")
        .with_acceptance_criteria("a\n  b\n")
        .with_failure_reason(None)
        .with_success(None)
        .with_labels(vec!["c".to_owned()])
        .with_deleted(true);
    let (edited, _) = patched(TASK, &patch);
    for kept in [
        "# the long one\n",
        "\n# between\nacceptance_criteria: |   # why\n  a\n    b\nx-owner",
        "labels:   # words\n",
    ] {
        assert!(edited.contains(kept), "{kept}\n{edited}");
    }
    assert!(edited.contains("prompt: \"one line\"\n\n# between"), "{edited}");
    assert!(edited.contains("success: null                         # Only"), "{edited}");
    assert!(!edited.contains("failure_reason"), "{edited}");
    assert!(edited.contains("deleted_at: \"2026-02-03T13:05:00Z\"                      # Soft"), "{edited}");
    let (edited, _) = patched(&edited, &TaskPatch::new().with_prompt("two\nlines").with_deleted(false));
    assert!(edited.contains("prompt: |-\n  two\n  lines\n\n# between"), "{edited}");
}

#[test]
fn line_ends_and_byte_order_mark_stay() {
    let text = format!("\u{feff}{}", TASK.replace('\n', "\r\n"));
    let (edited, _) = patched(&text, &TaskPatch::new().with_prompt("two\nlines").with_retries(Some(2)));
    assert!(edited.starts_with('\u{feff}'));
    assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count());
    let without = TASK.trim_end();
    let (edited, _) = patched(without, &TaskPatch::new().with_title("x: y"));
    assert!(edited.ends_with("- two"), "{edited}");
}

#[test]
fn other_shapes_are_edited_or_refused() {
    let flow = "{version: 1, task_id: k7xm2nq9, \"task_number\": 1,\n # c\n title: t, status: draft}\n";
    let (edited, _) = patched(flow, &TaskPatch::new().with_status(TaskStatus::Done).with_prompt("a\nb"));
    assert!(edited.contains(",\n # c\n title: t, status: \"done\", "), "{edited}");
    let marked = "---\nversion: 1\ntask_id: k7xm2nq9\ntask_number: 1\ntitle: this is\n  long\nstatus: \"draft\"\n...\n";
    let (edited, _) = patched(marked, &TaskPatch::new().with_title("short").with_prompt("a\nb\n"));
    assert!(edited.starts_with("---\nversion: 1\n") && edited.ends_with("...\n"), "{edited}");
    let anchored = "version: 1\ntask_id: k7xm2nq9\ntask_number: 1\ntitle: &t x\nx: *t\nstatus: draft\n";
    let before: Task = decode(anchored.as_bytes()).unwrap();
    let mut after = before.clone();
    after.title = "y".to_owned();
    assert!(edit(anchored.as_bytes(), &before, &after).unwrap_err().reason.contains("anchor"));
    let keep =
        "version: 1\ntask_id: k7xm2nq9\ntask_number: 1\ntitle: t\nprompt: |+\n  x\n\n\nstatus: draft\n";
    let (edited, task) = patched(keep, &TaskPatch::new().with_acceptance_criteria("y"));
    assert_eq!((task.prompt.as_str(), edited.contains("  x\n\n\nacceptance")), ("x\n\n\n", true), "{edited}");
}

#[test]
fn nested_fields_are_edited_in_place() {
    let text = "# mine\nversion: 1\nagents:\n  claude-code:\n    path: null   # from PATH\ndefaults:\n  # careful\n  \
                auto_merge: true   # yes\n  default_sandbox: \"sandbox-exec\"\n  terminal_shell: \"\"\n";
    let before: Settings = decode(text.as_bytes()).unwrap();
    let mut after = before.clone();
    after.defaults.auto_merge = false;
    after.defaults.default_agent = "codex".to_owned();
    after.agents.entry("claude-code".to_owned()).or_default().path = Some("/bin/claude".into());
    after.sandbox.deny = vec!["~/private".into()];
    let (edited, _) = edit(text.as_bytes(), &before, &after).unwrap();
    assert!(edited.contains("    path: \"/bin/claude\"   # from PATH\n"), "{edited}");
    assert!(edited.contains("  # careful\n  auto_merge: false   # yes\n"), "{edited}");
    assert!(edited.contains("\n  default_agent: \"codex\"\n"), "{edited}");
    assert!(edited.contains("sandbox:\n  deny:\n    - \"~/private\"\n"), "{edited}");
    let mut fresh = Settings::default();
    let (text, _) = compose(&fresh).unwrap();
    let before = fresh.clone();
    fresh.defaults.auto_start_tasks = false;
    assert!(edit(text.as_bytes(), &before, &fresh).is_ok());
    assert_eq!(
        edit(b"# only\nversion: 1\n", &before, &fresh).unwrap().0,
        "# only\nversion: 1\ndefaults:\n  auto_start_tasks: false\n"
    );
}

#[test]
fn list_items_are_edited_in_place() {
    let item = |id: &str| {
        format!("  # about {id}\n  - project_id: \"{id}\"\n    name: {id}   # n\n    path: /{id}\n    x: 1\n")
    };
    let text = format!("version: 1\nprojects:\n{}{}{}# end\n", item("a"), item("b"), item("c"));
    for newline in ["\n", "\r\n"] {
        let text = text.replace('\n', newline);
        let before: ProjectIndex = decode(text.as_bytes()).unwrap();
        let mut after = before.clone();
        after.projects.remove(1);
        after.projects[1].path = "/moved".into();
        after.projects[1].position = 3;
        after.projects.push(crate::model::ProjectEntry::new("d".parse().unwrap(), "d", "/d", 4));
        let (edited, _) = edit(text.as_bytes(), &before, &after).unwrap();
        assert_eq!(decode::<ProjectIndex>(edited.as_bytes()).unwrap(), after);
        let plain = edited.replace("\r\n", "\n");
        assert!(plain.contains(&item("a")) && !plain.contains("project_id: \"b\""), "{plain}");
        assert!(plain.contains("    path: \"/moved\"\n    position: 3\n    x: 1\n"), "{plain}");
        assert!(
            plain.ends_with(
                "  - project_id: \"d\"\n    name: \"d\"\n    path: \"/d\"\n    position: 4\n# end\n"
            ),
            "{plain}"
        );
        let mut none = after.clone();
        none.projects.clear();
        let (edited, _) = edit(edited.as_bytes(), &after, &none).unwrap();
        assert_eq!(decode::<ProjectIndex>(edited.as_bytes()).unwrap(), none);
    }
    let empty = "version: 1\nprojects: []\n";
    let before: ProjectIndex = decode(empty.as_bytes()).unwrap();
    let mut after = before.clone();
    after.projects.push(crate::model::ProjectEntry::new("d".parse().unwrap(), "d", "/d", 4));
    assert!(
        edit(empty.as_bytes(), &before, &after).unwrap().0.contains("projects:\n  - project_id: \"d\"\n")
    );
}

#[test]
fn a_new_file_reads_as_in_the_spec() {
    let mut task = Task::new("12345678".parse().unwrap(), TaskNumber::new(1).unwrap(), "A: b");
    task.prompt = "x\ny\n".to_owned();
    task.labels = vec!["ui".to_owned()];
    task.depends_on = vec![TaskNumber::new(2).unwrap()];
    let (text, _) = compose(&task).unwrap();
    assert_eq!(
        text,
        "version: 1\ntask_id: \"12345678\"\ntask_number: 1\ntitle: \"A: b\"\nprompt: |\n  x\n  y\nstatus: \"draft\"\n\
         position: 0\nagent_sessions: 0\ndepends_on: [2]\nlabels:\n  - \"ui\"\n"
    );
}

fn words() -> impl Strategy<Value = String> {
    "([a-z]{1,5}[ :#\n'\"-]{0,2}){1,5}"
}

fn patch() -> impl Strategy<Value = TaskPatch> {
    let optional = || proptest::option::of(words());
    (
        (optional(), optional(), optional(), proptest::option::of(optional())),
        (proptest::option::of(0_usize..3), proptest::option::of(any::<Option<bool>>()), any::<Option<i64>>()),
        (any::<Option<bool>>(), proptest::option::of(proptest::collection::vec(words(), 0..3))),
        proptest::option::of(proptest::collection::vec(1_u32..50, 0..3)),
    )
        .prop_map(
            |((title, prompt, criteria, reason), (status, success, position), (deleted, labels), depends)| {
                let mut patch = TaskPatch::new();
                patch.title = title;
                patch.prompt = prompt;
                patch.acceptance_criteria = criteria;
                patch.failure_reason = reason.map_or_else(Default::default, Into::into);
                patch.status = status.map(|s| [TaskStatus::Draft, TaskStatus::Ready, TaskStatus::Done][s]);
                patch.success = success.map_or_else(Default::default, Into::into);
                patch.position = position;
                patch.deleted = deleted;
                patch.labels = labels;
                patch.depends_on = depends.map(|all| all.into_iter().filter_map(TaskNumber::new).collect());
                patch
            },
        )
}

/// A document of the known lines in any order, with comments and unknown fields between them.
fn document() -> impl Strategy<Value = String> {
    let filler = prop_oneof![
        Just(String::new()),
        Just("\n".to_owned()),
        "# [a-z: -]{0,9}\n",
        "x_[a-h]{6}: [0-9]{1,3}  # c[0-9]{6}\n",
        "x_[a-h]{6}: \\|\n  [a-z]{8}: y\n\n   # [a-z]{8}\n",
        "x_[a-h]{6}:\n  - [a-z]{8}\n  # [a-z]{8}\n  - \\{a: [a-z]{8}\\}\n",
    ];
    let fields = Just(vec![
        "version: 1\n",
        "task_id: \"k7xm2nq9\"  # id\n",
        "task_number: 1\n",
        "title: some words\n",
        "prompt: |\n  one\n\n  two # no comment\n",
        "acceptance_criteria: >-\n  folded\n  text\n",
        "status: ready\n",
        "success: null\n",
        "failure_reason: 'it''s'  # why\n",
        "position: 3\n",
        "labels: [a, b]\n",
        "depends_on:\n- 1\n- 2\n",
        "deleted_at:\n",
        "updated_at: \"\"\n",
    ])
    .prop_shuffle();
    (fields, proptest::collection::vec(filler, 14), any::<bool>(), any::<bool>()).prop_map(
        |(fields, fillers, crlf, cut)| {
            let mut text: String =
                fields.iter().zip(&fillers).map(|(field, filler)| format!("{filler}{field}")).collect();
            if cut {
                text.truncate(text.trim_end().len());
            }
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn any_patch_on_any_document(text in document(), first in patch(), second in patch()) {
        prop_assume!(decode::<Task>(text.as_bytes()).is_ok());
        let (once, _) = patched(&text, &first);
        let (twice, _) = patched(&once, &second);
        // Every line of a comment or of an unknown field, in the same order, byte for byte.
        let marked = |text: &str| -> Vec<String> {
            let foreign = |line: &&str| line.starts_with('#') || line.starts_with("x_") || line.contains("   # ");
            text.split('\n').filter(foreign).map(|line| line.trim_end_matches('\r').to_owned()).collect()
        };
        prop_assert_eq!(marked(&text), marked(&twice));
    }
}

#[test]
fn a_project_is_edited_too() {
    let text = "version: 1\nproject_id: p\nname: n  # c\nauto_merge: true\ndefinition: |\n  # Title\n\n  text\nmerge: {strategy: squash, x: 1}\n";
    let before: Project = decode(text.as_bytes()).unwrap();
    let mut after = before.clone();
    let patch = ProjectPatch::new()
        .with_auto_merge(None)
        .with_verify(vec!["cargo test".to_owned(), "a\nb".to_owned()]);
    patch.apply(&mut after, &Timestamp::from_unix_millis(0));
    after.merge.strategy = crate::model::MergeStrategy::Rebase;
    let (edited, _) = edit(text.as_bytes(), &before, &after).unwrap();
    assert!(edited.contains("merge: {strategy: \"rebase\", x: 1}"), "{edited}");
    assert!(edited.contains("verify:\n  - \"cargo test\"\n  - \"a\\nb\"\n"), "{edited}");
}
