//! Homes written by commit 2994216 and left by a kill. The README of the fixtures says how each was made.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use support::World;

/// Unpacks the home `name` into a world of its own and returns it with the project's root.
fn unpack(name: &str) -> (World, PathBuf) {
    let world = World::new();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/homes-2994216")
        .join(name)
        .with_extension("tar.gz");
    let unpacked = Command::new("tar")
        .args(["--strip-components=1", "--no-same-owner", "-xzf"])
        .arg(archive)
        .current_dir(world.folder.path())
        .status()
        .unwrap();
    assert!(unpacked.success());
    let old = fs::read_to_string(world.path("place")).unwrap();
    let new = world.folder.path().to_str().unwrap();
    move_files(world.folder.path(), old.trim_end(), new);
    let root = world.path("project");
    (world, root)
}

/// Replaces the path `old` in every file below `folder`, and lets leases end a day from now.
fn move_files(folder: &Path, old: &str, new: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let parent = folder.file_name().unwrap();
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            move_files(&path, old, new);
        } else if parent == "journal" && path.extension().is_some_and(|kind| kind == "log") {
            fs::write(&path, move_journal(&fs::read(&path).unwrap(), old, new)).unwrap();
        } else if let Ok(text) = fs::read_to_string(&path)
            && (text.contains(old) || parent == "leases")
        {
            let mut text = text.replace(old, new);
            if parent == "leases" {
                text = renewed(&text);
            }
            // In place: a lock of git's index is recognised by its second name.
            fs::write(&path, text).unwrap();
        }
    }
}

/// The records of a journal segment with another path in them.
fn move_journal(segment: &[u8], old: &str, new: &str) -> Vec<u8> {
    // A header of 8 bytes; then for each record a mark, its length, a checksum, its number and its payload.
    let (header, mut rest) = segment.split_at(8);
    let mut moved = header.to_vec();
    while let Some((head, after)) = rest.split_first_chunk::<20>() {
        let length = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
        let payload = str::from_utf8(&after[..length]).unwrap().replace(old, new);
        let length_now = u32::try_from(payload.len()).unwrap().to_le_bytes();
        let mut checksum = crc32fast::Hasher::new();
        for part in [&length_now, &head[12..], payload.as_bytes()] {
            checksum.update(part);
        }
        moved.extend_from_slice(&head[..4]);
        moved.extend_from_slice(&length_now);
        moved.extend_from_slice(&checksum.finalize().to_le_bytes());
        moved.extend_from_slice(&head[12..]);
        moved.extend_from_slice(payload.as_bytes());
        rest = &after[length..];
    }
    moved
}

/// A lease that lasts as long as it did when the home was written.
fn renewed(lease: &str) -> String {
    let mut lease: Value = serde_json::from_str(lease).unwrap();
    if !lease["holder"].is_null() {
        let until = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
        let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        lease["until"] = u64::try_from(until).unwrap().into();
    }
    lease.to_string()
}

/// Opens the project and closes it again, without a run.
#[track_caller]
fn open(world: &World, root: &Path) {
    world.run(root, ["branches", "prune"]).good();
}

/// The subjects of what was merged into main, oldest first.
fn merges(world: &World, root: &Path) -> Vec<String> {
    let subjects =
        world.git(root, &["log", "--first-parent", "--merges", "--reverse", "--format=%s", "main"]);
    subjects.lines().map(str::to_owned).collect()
}

/// Nothing of a killed publication or session is left, and the repository is whole.
#[track_caller]
fn assert_whole(world: &World, root: &Path) {
    world.git(root, &["fsck", "--strict", "--no-dangling"]);
    let left: Vec<_> = fs::read_dir(root.join(".git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("lock"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    let notes = fs::read_dir(root.join(".git/watchfire/publish")).unwrap().count();
    assert_eq!(notes, 0, "notes of open publications");
}

#[test]
fn work_that_was_not_imported_is_imported() {
    let (world, root) = unpack("working");
    open(&world, &root);
    assert_eq!(world.git(&root, &["show", "watchfire/0001:y"]), "one");
    assert_eq!(world.git(&root, &["show", "watchfire/0001:z"]), "two", "uncommitted work is captured");
    let memory = fs::read_to_string(root.join(".watchfire/memory.md")).unwrap();
    assert_eq!(memory, "- learned by task 1\n");

    fs::write(root.join(".watchfire/worktrees/0001/go"), "").unwrap();
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert_eq!(world.states(&root), [(1, "merged".to_owned()), (2, "merged".to_owned())]);
    let mut merged = merges(&world, &root);
    merged.sort();
    assert_eq!(merged, ["Merge watchfire/0001: Works", "Merge watchfire/0002: Claims"]);
    assert_eq!(world.git(&root, &["show", "main:w"]), "one", "the claim that nobody had read counts");
    assert_whole(&world, &root);
}

#[test]
fn claims_go_through_the_gate_again() {
    let (world, root) = unpack("verifying");
    let project = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&project).unwrap();
    // The command that the old orchestrator was killed in takes an hour.
    fs::write(&project, text.replace("test -e y && sleep 3600", "test -e y -o -e z")).unwrap();
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert_eq!(world.states(&root), [(1, "merged".to_owned()), (2, "merged".to_owned())]);
    let mut merged = merges(&world, &root);
    merged.sort();
    assert_eq!(merged, ["Merge watchfire/0001: First", "Merge watchfire/0002: Second"]);
    assert_eq!(world.git(&root, &["show", "main:uncommitted"]), "x");
    assert_eq!(world.git(&root, &["status", "--porcelain"]), "");
    assert_whole(&world, &root);
}

#[test]
fn open_publications_are_completed() {
    for name in ["intent", "moved"] {
        let (world, root) = unpack(name);
        world.run(&root, ["run", "all", "--no-sandbox"]).good();
        assert_eq!(world.states(&root), [(1, "merged".to_owned())], "{name}");
        assert_eq!(merges(&world, &root), ["Merge watchfire/0001: Adds"], "{name}");
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\nzwei\nthree\n", "{name}");
        assert_eq!(fs::read_to_string(root.join("y")).unwrap(), "one", "{name}");
        assert_eq!(world.git(&root, &["status", "--porcelain"]), "", "{name}");
        assert_whole(&world, &root);
    }
}

#[test]
fn held_work_is_held_until_the_edit_is_gone() {
    let (world, root) = unpack("held");
    let edited = fs::read_to_string(root.join("a.txt")).unwrap();
    open(&world, &root);
    assert_eq!(world.states(&root)[0], (1, "held".to_owned()));
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), edited);
    assert_eq!(merges(&world, &root), Vec::<String>::new());

    world.git(&root, &["checkout", "a.txt"]);
    fs::write(root.join(".watchfire/worktrees/0002/go"), "").unwrap();
    // Task 3 has failed, and still needs a person.
    world.run(&root, ["run", "all", "--no-sandbox"]);
    assert_eq!(
        world.states(&root),
        [(1, "merged".to_owned()), (2, "merged".to_owned()), (3, "failed".to_owned())]
    );
    let mut merged = merges(&world, &root);
    merged.sort();
    assert_eq!(merged, ["Merge watchfire/0001: Changes", "Merge watchfire/0002: Runs"]);
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\nzwei\nthree\n");
    assert_eq!(fs::read_to_string(root.join("y")).unwrap(), "one");
    assert_whole(&world, &root);
}

/// The agent of task 2 was killed under a lease that lasts for a day.
#[test]
fn the_lease_of_an_attempt_is_void() {
    let (world, root) = unpack("held");
    world.git(&root, &["checkout", "a.txt"]);
    fs::write(root.join(".watchfire/worktrees/0002/go"), "").unwrap();
    world.run(&root, ["run", "2", "--no-sandbox"]).good();
}

/// `branches delete 3` was killed under a lease that lasts for a day.
#[test]
fn the_lease_of_a_command_is_void() {
    let (world, root) = unpack("held");
    world.git(&root, &["checkout", "a.txt"]);
    world
        .run(
            &root,
            ["task", "edit", "3", "--prompt", "```watchfire-script\nwrite f x\ncommit f\ndone\nexit 0\n```"],
        )
        .good();
    world.run(&root, ["task", "ready", "3"]).good();
    world.run(&root, ["run", "3", "--no-sandbox"]).good();
    assert_eq!(world.git(&root, &["show", "main:f"]), "x");
}
