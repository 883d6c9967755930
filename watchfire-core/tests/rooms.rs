//! The rooms of the middle, whose arrows point one way (`docs/architecture.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rooms from the bottom to the top. A room uses only rooms before it.
const SESSION: [&str; 8] = ["recording", "process", "host", "screen", "state", "handle", "watch", "talk"];
const EFFECTS: [&str; 9] =
    ["claims", "mirror", "outcome", "capture", "publication", "release", "attempts", "merges", "recovery"];
const ORCHESTRATOR: [&str; 6] = ["shared", "compose", "desk", "effects", "dispatch", "api"];

#[test]
fn sessions_rooms_use_only_those_below() {
    check("session", &SESSION);
}

#[test]
fn orchestrators_rooms_use_only_those_below() {
    check("orchestrator", &ORCHESTRATOR);
}

#[test]
fn effects_rooms_use_only_those_below() {
    check("orchestrator::effects", &EFFECTS);
}

fn check(folder: &str, rooms: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder.replace("::", "/"));
    let mut wrong = Vec::new();
    for (place, room) in rooms.iter().enumerate() {
        let mut used = BTreeSet::new();
        let (path, file) = (root.join(room), root.join(format!("{room}.rs")));
        assert!(path.is_dir() || file.is_file(), "no room {room} in {folder}");
        read(&path, &mut |text| collect(text, folder, &mut used));
        if let Ok(text) = fs::read_to_string(file) {
            collect(&text, folder, &mut used);
        }
        wrong.extend(
            used.iter()
                .filter(|used| rooms[place + 1..].contains(&used.as_str()))
                .map(|used| format!("{room} -> {used}")),
        );
    }
    assert!(wrong.is_empty(), "{folder}: {wrong:?}");
}

/// Collects the names that follow the path of the folder in code.
fn collect(text: &str, folder: &str, used: &mut BTreeSet<String>) {
    let path = format!("crate::{folder}::");
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for rest in line.split(&path).skip(1) {
            let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            used.extend(rest.trim_start_matches('{').split(end).next().map(str::to_owned));
        }
    }
}

fn read(folder: &Path, each: &mut impl FnMut(&str)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            read(&path, each);
        } else if path.extension().is_some_and(|it| it == "rs")
            && path.file_stem().is_some_and(|it| it != "tests")
        {
            each(&fs::read_to_string(&path).unwrap());
        }
    }
}
