//! Agents of a daemon in their sandboxes, whose repository is a person's meanwhile.

mod support;

use std::fs;
use std::path::Path;

use libtest_mimic::Arguments;
use support::sandboxed::{no_sandbox, world};
use support::{World, trial, until};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let name = "a_killed_daemon_a_second_session_and_gc_cost_nothing";
    libtest_mimic::run(&arguments, vec![trial(name, no_sandbox(), what_happens_before_it_is_taken_over)])
        .exit();
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
