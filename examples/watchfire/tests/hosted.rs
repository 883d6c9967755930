//! Agents of a daemon in their sandboxes, whose repository is a person's meanwhile.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Arguments;
use support::sandboxed::{no_sandbox, world};
use support::{World, trial, until};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let killed = "a_killed_daemon_a_second_session_and_gc_cost_nothing";
    let trials = vec![
        trial(killed, no_sandbox(), what_happens_before_it_is_taken_over),
        trial("a_unit_that_is_restarted_leaves_its_agents_alone", no_units().or_else(no_sandbox), a_restart),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// The reason why no unit of a user can be run here, if it is so.
fn no_units() -> Option<String> {
    let runs = systemctl(&["show-environment"]).is_ok_and(|done| done.status.success());
    (!runs).then(|| "no systemd for users: not available here".to_owned())
}

fn systemctl(words: &[&str]) -> std::io::Result<std::process::Output> {
    std::process::Command::new("systemctl").arg("--user").args(words).output()
}

/// Ends the daemon with the test.
struct Ending<'a>(&'a World, &'a Path);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        drop(self.0.command(self.1, ["daemon", "stop", "--agents"]).output());
    }
}

fn pid_of_daemon(world: &World, at: &Path) -> i32 {
    let pid = world.run(at, ["daemon", "start", "--json"]).good().json()["pid"].as_i64().unwrap();
    i32::try_from(pid).unwrap()
}

/// Objects of a commit that no reference of the person names, a session of another project that cleans up behind itself,
/// and only then the next daemon.
fn what_happens_before_it_is_taken_over() {
    let script = "write a 1\ncommit a\nwrite b 1\nrun until test -e go; do sleep 0.02; done\nrun rm go\ncommit b\ndone";
    let (world, root) = world(script);
    let other = world.project("other", "");
    let _ending = Ending(&world, &root);
    let daemon = pid_of_daemon(&world, &root);
    world.run(&root, ["agent", "start", "1"]).good();
    let worktree = root.join(".watchfire/worktrees/0001");
    until("it has committed", || worktree.join("b").exists());

    let killed = rustix::process::Pid::from_raw(daemon).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    until("it is gone", || rustix::process::test_kill_process(killed).is_err());
    world.run(&other, ["sandbox", "exec", "--", "true"]).good();
    world.run(&other, ["branches", "prune"]).good();
    world.git(&root, &["worktree", "prune", "--expire=now"]);
    world.git(&root, &["reflog", "expire", "--expire=now", "--all"]);
    world.git(&root, &["gc", "-q", "--prune=now"]);
    world.git(&root, &["fsck"]);

    assert_ne!(pid_of_daemon(&world, &root), daemon);
    fs::write(worktree.join("go"), "").unwrap();
    until("it is merged", || world.states(&root)[0].1 == "merged");
    assert_eq!(world.git(&root, &["show", "main:a", "main:b"]), "11");
    let task = fs::read_to_string(root.join(".watchfire/tasks/0001.yaml")).unwrap();
    assert!(task.contains("agent_sessions: 1\n"), "{task}");
    world.git(&root, &["fsck"]);
}

/// A unit of systemd, which ends and is gone with the test.
struct Unit(PathBuf);

impl Unit {
    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    fn good(&self, verb: &str) {
        let done = systemctl(&[verb, self.name()]).unwrap();
        assert!(done.status.success(), "{verb}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn main_pid(&self) -> i32 {
        let shown = systemctl(&["show", "--property=MainPID", "--value", self.name()]).unwrap();
        String::from_utf8(shown.stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        drop(systemctl(&["stop", self.name()]));
        drop(fs::remove_file(&self.0));
        drop(systemctl(&["daemon-reload"]));
    }
}

/// All that is in the unit's control group is killed, unless the unit says otherwise, as ours does.
fn a_restart() {
    let script = "write b 1\nrun until test -e go; do sleep 0.02; done\nrun rm go\ncommit b\ndone";
    let (world, root) = world(script);
    let text = world.run(&root, ["daemon", "install", "--print"]).good().stdout;
    // Its home is not that of the person.
    let home = format!("[Service]\nEnvironment=\"HOME={}\"\n", world.home.display());
    let folder = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("systemd/user");
    fs::create_dir_all(&folder).unwrap();
    let unit = Unit(folder.join(format!("watchfire-test-{}.service", std::process::id())));
    fs::write(&unit.0, text.replace("[Service]\n", &home)).unwrap();
    assert!(systemctl(&["daemon-reload"]).unwrap().status.success());
    unit.good("start");
    let first = unit.main_pid();
    let _ending = Ending(&world, &root);
    // Asked for its state, and not to start: another one would be in the unit's way.
    let answers = |pid: i32| {
        let said = world.run(&root, ["daemon", "status", "--json"]);
        said.code == Some(0) && said.json()["pid"] == pid
    };
    until("it answers", || answers(first));
    world.run(&root, ["agent", "start", "1"]).good();
    let worktree = root.join(".watchfire/worktrees/0001");
    until("it works", || worktree.join("b").exists());

    unit.good("restart");
    let second = unit.main_pid();
    assert!(second != first && second != 0, "{second}");
    until("the next one answers", || answers(second));
    fs::write(worktree.join("go"), "").unwrap();
    until("it is merged", || world.states(&root)[0].1 == "merged");
    let task = fs::read_to_string(root.join(".watchfire/tasks/0001.yaml")).unwrap();
    assert!(task.contains("agent_sessions: 1\n"), "{task}");
}
