//! The example, as a program on a repository.

use std::path::Path;
use std::process::Command;

fn git(root: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(root).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

const LINES: usize = 200;

fn line(task: usize, line: usize) -> String {
    format!("task {task} says line {line:03}.")
}

/// A task whose agent prints numbered lines, half of them before a pause in which the restart falls.
fn task(number: usize) -> String {
    let says = |from: usize, to: usize| -> String {
        (from..to).map(|it| format!("  say {}\n", line(number, it))).collect()
    };
    format!(
        "version: 1\ntask_id: \"aaaaaaa{number}\"\ntask_number: {number}\ntitle: Task {number}\nprompt: |\n  \
         ```watchfire-script\n{}  write x{number} {number}\n  sleep 1\n{}  done\n  exit 0\n  ```\n\
         agent: scripted\nstatus: ready\nposition: {number}\n",
        says(0, LINES / 2),
        says(LINES / 2, LINES),
    )
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
    for number in [1, 2] {
        std::fs::write(root.join(format!(".watchfire/tasks/000{number}.yaml")), task(number)).unwrap();
    }
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
    // The restart ends the first agent, and its task is begun again in another session.
    let seen = |task, number| error.matches(&line(task, number)).count();
    for number in 0..LINES {
        assert_eq!(seen(2, number), 1, "line {number} of the second task: {error}");
        let times = seen(1, number);
        assert!((1..=2).contains(&times), "line {number} of the first task, {times} times: {error}");
    }
    for number in [1, 2] {
        let shown = format!("main:x{number}");
        let file = Command::new("git").arg("-C").arg(&root).args(["show", &shown]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&file.stdout).trim(), number.to_string(), "{out}{error}");
    }
}
