//! What `sandbox exec` runs is held as the agent is, and leaves what an agent leaves.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::sandboxed::world;

/// The variables by name; what differs from session to session is left out.
fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs =
        pairs.filter(|(name, _)| !matches!(*name, "_" | "OLDPWD" | "SHLVL" | "PWD" | "WATCHFIRE_SESSION"));
    pairs.map(|(name, value)| (name.to_owned(), without_session(value))).collect()
}

fn without_session(value: &str) -> String {
    match value.split_once("/sessions/").and_then(|(_, rest)| rest.split_once('/')) {
        Some((_, rest)) => format!("…/{rest}"),
        None => value.to_owned(),
    }
}

/// The same policy, variables and folder, for the agent and for what is tried in its place.
pub(crate) fn exec_is_held_as_the_agent_is() {
    let look = "env > env.txt; pwd > pwd.txt; cat ~/.ssh/id_x > key.txt 2>&1; touch ~/planted 2> refused.txt; ls -a ~ > home.txt";
    let (world, root) = world(&format!("run {look}\ncommit looked\ndone\nexit 0"));
    let args = ["sandbox", "exec", "--task", "1", "--report", "--json", "--", "sh", "-c", look];
    let mut command = world.command(&root, args);
    command.env("MY_SECRET_TOKEN", "secret");
    let tried = command.output().unwrap();
    assert!(!world.home.join("planted").exists());
    let worktree = root.join(".watchfire/worktrees/0001");
    let read = |name: &str| fs::read_to_string(worktree.join(name)).unwrap();
    let mine = (variables(&read("env.txt")), read("pwd.txt"), read("home.txt"));
    assert!(
        !read("key.txt").contains("secret") && !read("env.txt").contains("secret"),
        "{}",
        read("env.txt")
    );
    let told: Value = serde_json::from_slice(&tried.stderr).unwrap();
    assert_eq!(told["denials"], "unknown");

    let mut command = world.command(&root, ["run", "all"]);
    command.env("MY_SECRET_TOKEN", "secret");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let show = |name: &str| world.git(&root, &["show", &format!("HEAD:{name}")]);
    assert_eq!((variables(&show("env.txt")), show("pwd.txt"), show("home.txt")), mine);
    let last = world.run(&root, ["sandbox", "report", "--task", "1", "--last", "--json"]).good().json();
    assert_eq!(last["ended"], true);
    assert_eq!(last["report"]["controls"], told["report"]["controls"]);
}

/// Its commits and notes stay, and its words about the task do not count.
pub(crate) fn exec_keeps_work() {
    let (world, root) = world("done\nexit 0");
    let script = "echo x > f && git add f && git commit -qm work && echo noted >> \"$WATCHFIRE_SESSION_DIR/memory.md\" && \
                  sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
    world.run(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]).good();
    assert_eq!(world.git(&root, &["log", "-1", "--format=%s", "watchfire/0001"]), "work\n");
    let memory = fs::read_to_string(root.join(".watchfire/memory.md")).unwrap();
    assert!(memory.contains("noted"), "{memory}");
    assert_eq!(world.states(&root)[0].1, "ready");
    world.git(&root, &["fsck"]);
    let sessions = fs::read_dir(world.path("watchfire-home/state")).unwrap();
    let left =
        sessions.flatten().filter_map(|state| fs::read_dir(state.path().join("sessions")).ok()).flatten();
    assert_eq!(left.count(), 0, "a session's folder is left");
    // Of a chat in a folder of its own, the person is told where it is.
    let said = world.run(&root, ["sandbox", "exec", "--worktree", "--", "sh", "-c", "echo x > y"]).good();
    assert!(said.stderr.contains("the chat's work is on watchfire/chat (1 commit)"), "{}", said.stderr);
    assert_eq!(world.git(&root, &["show", "watchfire/chat:y"]), "x\n");
}

/// The next program looks at what a killed one left in the root.
pub(crate) fn a_killed_exec_leaves_nothing_that_runs() {
    let (world, root) = world("done\nexit 0");
    let script =
        "git init -q planted && git -C planted config core.fsmonitor 'touch /tmp/ran' && echo made && cat";
    let mut command = world.command(&root, ["sandbox", "exec", "--", "sh", "-c", script]);
    let (input, output) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let mut child = command.stdin(input).stdout(output).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "made\n");
    let planted = root.join("planted/.git");
    assert!(planted.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    world.run(&root, ["run", "all"]).good();
    assert!(!planted.exists(), "a repository that names a command stays");
}

/// A tracked file that the agent cannot see is none that it deletes; the person's own git works meanwhile.
pub(crate) fn a_hidden_file_that_is_tracked_stays() {
    let (world, root) = world("done\nexit 0");
    fs::write(root.join(".env"), "TOKEN=secret\n").unwrap();
    world.git(&root, &["add", "-f", ".env"]);
    world.git(&root, &["commit", "-q", "-m", "a secret"]);
    let script = "cat .env; echo x > n && git add -A && git commit -qm work && echo ready && cat && \
                  echo y > m && git add m && git commit -qm more && git log --oneline | grep -q work";
    let mut command = world.command(&root, ["sandbox", "exec", "--task", "1", "--", "sh", "-c", script]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert!(line == "ready\n" || line.contains("secret"), "{line}");
    world.git(&root, &["fsck"]);
    world.git(&root, &["log", "--all"]);
    world.git(&root, &["gc", "-q", "--prune=now"]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    world.git(&root, &["fsck"]);
    assert_eq!(world.git(&root, &["show", "watchfire/0001:.env"]), "TOKEN=secret\n");
    let changed = world.git(&root, &["diff", "--name-only", "main", "watchfire/0001"]);
    assert_eq!(changed, "m\nn\n");
}
