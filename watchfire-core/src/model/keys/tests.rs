use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::model;

/// The example of a key. What is no JSON is text, as in YAML.
fn sample(key: &Key) -> Value {
    match key.kind {
        Section => json!({}),
        // An id, a version or a name of numbers alone is text all the same.
        Text | Duration | Time | OneOf(_) if !key.example.starts_with('"') => json!(key.example),
        _ => serde_json::from_str(key.example).unwrap_or_else(|error| panic!("{}: {error}", key.path)),
    }
}

#[test]
fn every_example_is_a_value_of_its_kind() {
    for key in KEYS {
        let (path, example) = (key.path, key.example);
        assert_eq!(key.kind == Section, example.is_empty(), "{path}: {example}");
        if key.kind == Section {
            continue;
        }
        assert!(!key.readers.is_empty(), "{path}");
        let is_shown = path == "version" || example != key.default.trim_matches('`');
        assert!(is_shown, "{path}: the example is the default");
        let value = sample(key);
        let fits = match key.kind {
            Flag => value.is_boolean(),
            Number => value.is_u64(),
            Count => value.as_u64() > Some(0),
            Amount => value.is_number(),
            List => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Numbers => value.as_array().is_some_and(|list| list.iter().all(Value::is_u64)),
            Map => value.is_object(),
            OneOf(words) => words.contains(&example),
            _ => value.is_string(),
        };
        assert!(fits, "{path}: {example}");
    }
}

/// A file with every key of the table.
fn full(file: KeyFile) -> Value {
    let mut record = json!({});
    for key in KEYS.iter().filter(|key| key.file == file) {
        let place = format!("/{}", key.path.replace('*', "codex").replace('.', "/"));
        let (section, name) = place.rsplit_once('/').unwrap();
        record.pointer_mut(section).unwrap()[name] = sample(key);
    }
    record
}

fn paths(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    let keys = value.as_object().into_iter().flatten();
    for (name, value) in keys.filter(|_| ![".env", ".keys"].iter().any(|map| path.ends_with(map))) {
        let path = join(path, name);
        paths(&path, value, found);
        found.insert(path);
    }
}

/// Reads a full file, and checks that the types hold every key of it as a field.
fn holds<T: serde::de::DeserializeOwned + std::fmt::Debug>(file: KeyFile) {
    let mut full = full(file);
    // Options of single backends are read through `AgentSettings::option`.
    if let Some(agent) = full.pointer_mut("/agents/codex").and_then(Value::as_object_mut) {
        agent.retain(|name, _| ["path", "args", "model", "env", "pass_env"].contains(&name.as_str()));
    }
    let record: T = serde_json::from_value(full).unwrap();
    // Keys that are no fields would be in an `extra`.
    let shown = format!("{record:?}");
    assert_eq!(shown.matches("extra: {}").count(), shown.matches("extra: ").count(), "{shown}");
}

#[test]
fn every_key_of_the_table_is_read() {
    holds::<model::Settings>(Settings);
    holds::<model::Project>(Project);
    holds::<model::Task>(Task);
}

#[test]
fn every_key_that_is_read_is_in_the_table() {
    let sources = [
        (Settings, "Settings", include_str!("../settings.rs"), ""),
        (Settings, "AgentSettings", include_str!("../settings.rs"), "agents.*."),
        (Settings, "Defaults", include_str!("../settings.rs"), "defaults."),
        (Settings, "GitSettings", include_str!("../settings.rs"), "git."),
        (Settings, "LogSettings", include_str!("../settings.rs"), "logs."),
        (Settings, "NotifySettings", include_str!("../settings.rs"), "notify."),
        (Settings, "TuiSettings", include_str!("../settings.rs"), "tui."),
        (Settings, "SandboxSettings", include_str!("../sandbox.rs"), "sandbox."),
        (Settings, "ResourceLimits", include_str!("../sandbox.rs"), "sandbox.limits."),
        (Project, "Project", include_str!("../project.rs"), ""),
        (Project, "MergeSettings", include_str!("../project.rs"), "merge."),
        (Project, "WildfireSettings", include_str!("../project.rs"), "wildfire."),
        (Project, "PhaseSettings", include_str!("../project.rs"), "wildfire.execute."),
        (Project, "PhaseSettings", include_str!("../project.rs"), "wildfire.refine."),
        (Project, "PhaseSettings", include_str!("../project.rs"), "wildfire.generate."),
        (Project, "AgentsMay", include_str!("../project.rs"), "agents_may."),
        (Project, "ProjectSandbox", include_str!("../sandbox.rs"), "sandbox_rules."),
        (Project, "ResourceLimits", include_str!("../sandbox.rs"), "sandbox_rules.limits."),
        (Task, "Task", include_str!("../task.rs"), ""),
    ];
    for (file, name, source, section) in sources {
        let (_, rest) = source.split_once(&format!("pub struct {name} {{\n")).expect(name);
        let (fields, _) = rest.split_once("\n}").expect(name);
        let fields = fields.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(':'));
        for (field, _) in fields.filter(|(field, _)| *field != "extra") {
            let path = format!("{section}{field}");
            let listed = KEYS.iter().any(|key| key.file == file && key.path == path);
            assert!(listed, "{file}: {path} is read by {name} and is not in the table");
        }
    }
}

#[test]
fn options_of_agents_are_read_by_listed_keys_alone() {
    let read = |value: Value| serde_json::from_value::<model::AgentSettings>(value).unwrap();
    let listed = |name: &str| Key::listed_for_agents(name).unwrap();
    let agent = read(json!({ "transport": "acp", "ready_within": 5, "script": null, "profile": "x" }));
    assert_eq!(agent.option::<String>("a", listed("transport")).unwrap().as_deref(), Some("acp"));
    assert_eq!(agent.option::<String>("a", listed("script")).unwrap(), None);
    let wrong = agent.option::<bool>("a", listed("ready_within")).unwrap_err();
    assert_eq!(wrong.kind(), crate::ErrorKind::InvalidInput);
    let told = wrong.report();
    assert!(told.contains("settings.yaml") && told.contains("agents.a.ready_within"), "{told}");
    assert_eq!(Key::listed_for_agents("profile"), None);
    const PROFILE: Key =
        Key::of_agent("agents.*.profile", KeyKind::Text, "none", "Of a backend of another crate.");
    assert_eq!(agent.option::<String>("a", &PROFILE).unwrap().as_deref(), Some("x"));
    let other = KEYS.iter().find(|key| key.path == "defaults").unwrap();
    assert_eq!(agent.option::<String>("a", other).unwrap_err().kind(), crate::ErrorKind::Internal);

    #[derive(serde::Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Options {
        ready_within: u64,
        quit: String,
    }
    let all = read(json!({ "ready_within": 5, "quit": "q" })).options::<Options>("a").unwrap();
    assert_eq!((all.ready_within, all.quit.as_str()), (5, "q"));
    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Others {
        #[serde(rename = "quit")]
        _quit: u64,
    }
    let told = read(json!({ "quit": "q", "quti": "q" })).options::<Others>("a").unwrap_err().report();
    assert!(told.contains("agents.a.quit"), "{told}");
    // What is listed has its kind, whoever reads it.
    for (name, value, expected) in [
        ("ready_within", json!("soon"), "expected a whole number from 0 on, found \"soon\""),
        ("prompt_mode", json!(7), "expected one of arg, file, none, stdin, typed, found 7"),
        ("prompt_mode", json!("args"), "expected one of arg, file, none, stdin, typed, found \"args\""),
        ("script", json!(["a"]), "expected a text, found [\"a\"]"),
        ("ready", json!("> "), "expected list of texts, found \"> \""),
    ] {
        let error = serde_json::from_value::<model::AgentSettings>(json!({ name: value })).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_full_file_has_no_unknown_key() {
    for file in [Settings, Project, Task] {
        let mut all = BTreeSet::new();
        paths("", &full(file), &mut all);
        assert_eq!(all.len(), KEYS.iter().filter(|key| key.file == file).count(), "no key is named twice");
        assert_eq!(unknown_keys(file, &full(file)), []);
    }
}

#[test]
fn near_misses_name_what_was_meant() {
    let said = |file, record: Value| {
        unknown_keys(file, &record).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        said(Project, json!({ "verfy": ["false"] })),
        "`verfy` is no key of project.yaml and changes nothing; did you mean `verify`?"
    );
    assert!(said(Settings, json!({ "agnts": {} })).contains("did you mean `agents`?"));
    assert!(said(Task, json!({ "label": ["x"] })).contains("did you mean `labels`?"));
    assert!(said(Task, json!({ "depends": [1] })).contains("did you mean `depends_on`?"));
    assert!(said(Project, json!({ "VERIFY": ["x"] })).contains("did you mean `verify`?"));
    let misplaced = said(Settings, json!({ "defaults": { "protected": ["x"] } }));
    assert!(misplaced.contains("did you mean `protected` of project.yaml?"), "{misplaced}");
    assert!(said(Settings, json!({ "auto_merge": true })).contains("`defaults.auto_merge`?"));
    assert_eq!(said(Project, json!({ "team": 1 })), "`team` is no key of project.yaml and changes nothing");
    // Keys of other programs are theirs.
    assert_eq!(said(Project, json!({ "x-team": 1 })), "");
    // Of options of agents, their backends know.
    assert_eq!(said(Settings, json!({ "agents": { "codex": { "profile": "x" } } })), "");
    assert!(said(Project, json!({ "agnts": {} })).contains("did you mean `agents` of settings.yaml?"));
}

/// The tables stand between these lines of the pages, whose other text is written by hand.
const BEGIN: &str = "<!-- keys: written by `WATCHFIRE_BLESS=1 cargo test -p watchfire-core --lib keys` -->\n";
const END: &str = "<!-- end of keys -->\n";

/// With `WATCHFIRE_BLESS=1`, writes the tables anew.
#[test]
fn the_pages_of_keys_are_the_table() {
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let row = |key: &Key| {
        let Key { path, kind, default, readers, meaning, .. } = key;
        let example = code(key.example);
        format!("| `{path}` | {kind} | {default} | {readers} | {example} | {meaning} |\n")
    };
    for (file, name) in [(Settings, "settings.md"), (Project, "project.md"), (Task, "task-file.md")] {
        let rows: String = KEYS.iter().filter(|key| key.file == file).map(row).collect();
        let table = format!(
            "\n| key | value | default | read by | example | meaning |\n|---|---|---|---|---|---|\n{rows}\n"
        );
        let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let Ok(now) = std::fs::read_to_string(&path) else {
            println!("SKIPPED: docs/{name} is not part of a packaged crate");
            continue;
        };
        let (before, rest) = now.split_once(BEGIN).expect(name);
        let (_, after) = rest.split_once(END).expect(name);
        let page = format!("{before}{BEGIN}{table}{END}{after}");
        if std::env::var_os("WATCHFIRE_BLESS").is_some() {
            std::fs::write(&path, &page).unwrap();
            continue;
        }
        assert!(now == page, "docs/{name} is not what the table says: run this test with WATCHFIRE_BLESS=1");
    }
}
