//! The example, as a program on a repository.

use std::path::Path;
use std::process::Command;

fn git(root: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(root).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_run_is_followed_through_a_restart() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("project");
    std::fs::create_dir_all(root.join(".watchfire/tasks")).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    for (name, value) in [("user.name", "T"), ("user.email", "t@example.invalid")] {
        git(&root, &["config", name, value]);
    }
    std::fs::write(root.join(".watchfire/project.yaml"), "version: 1\nproject_id: p1\nname: p\n").unwrap();
    let script = "say hello\nwrite x 1\nsleep 1\ndone\nexit 0";
    let prompt: String =
        format!("```watchfire-script\n{script}\n```").lines().map(|line| format!("  {line}\n")).collect();
    let task = format!(
        "version: 1\ntask_id: \"aaaaaaaa\"\ntask_number: 1\ntitle: One\nprompt: |\n{prompt}agent: scripted\nstatus: ready\nposition: 1\n"
    );
    std::fs::write(root.join(".watchfire/tasks/0001.yaml"), task).unwrap();
    std::fs::write(root.join(".gitignore"), ".watchfire/\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "first"]);
    let ran = Command::new(env!("CARGO_BIN_EXE_follow"))
        .arg(&root)
        .env("WATCHFIRE_HOME", temp.path().join("home"))
        .env("HOME", temp.path())
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{error}");
    let numbers: Vec<u64> = out
        .lines()
        .filter(|line| line.contains(" new ") || line.contains(" replayed "))
        .filter_map(|line| line.split_once(' ')?.0.rsplit_once(':')?.1.parse().ok())
        .collect();
    let expected: Vec<u64> = (numbers[0]..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "no record is missing or doubled: {out}");
    assert!(out.contains("replayed"), "records of the time before the restart are marked: {out}");
    assert!(error.contains("hello"), "the screen is followed: {error}");
    let log = Command::new("git").arg("-C").arg(&root).args(["show", "main:x"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout).trim(), "1", "{out}{error}");
}
