//! The scripted agent as a real process on a real terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::Pty;

const DEADLINE: Duration = Duration::from_secs(20);

struct Agent {
    child: Child,
    pty: std::sync::Arc<Pty>,
    output: Receiver<Vec<u8>>,
    seen: String,
    dir: tempfile::TempDir,
}

impl Agent {
    fn start(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        git(&work, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(dir.path().join("0007.yaml"), "task_number: 7\nstatus: ready # go\n").unwrap();
        fs::write(dir.path().join("script"), script).unwrap();
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let child = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_watchfire-scripted-agent"))
            .current_dir(&work)
            .env("WATCHFIRE_TASK_FILE", dir.path().join("0007.yaml"))
            .env("WATCHFIRE_SIGNAL_DIR", dir.path())
            .env("WATCHFIRE_OUTBOX", dir.path().join("outbox"))
            .env("WATCHFIRE_SCRIPT", dir.path().join("script"))
            .env("WATCHFIRE_SCRIPTED_TRANSCRIPT", dir.path().join("transcript.jsonl"))
            .envs(identity())
            .spawn(pts)
            .unwrap();
        let pty = std::sync::Arc::new(pty);
        let (sender, output) = channel();
        let reader = std::sync::Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = (&*reader).read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, pty, output, seen: String::new(), dir }
    }

    fn expect(&mut self, text: &str) {
        let end = Instant::now() + DEADLINE;
        let mut from = 0;
        while !self.seen[from..].contains(text) {
            from = self.seen.len().saturating_sub(text.len() + 4);
            while !self.seen.is_char_boundary(from) {
                from += 1;
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} not seen in:\n{}", self.seen),
            }
        }
    }

    fn send(&self, bytes: &[u8]) {
        (&*self.pty).write_all(bytes).unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "still running:\n{}", self.seen);
            match self.output.recv_timeout(Duration::from_millis(20)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn identity() -> [(&'static str, &'static str); 6] {
    [
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(dir).envs(identity()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn works_commits_and_completes() {
    let mut agent = Agent::start(
        "paint My task\nwork 0.1 thinking\nwrite src/a.txt \"one\\n\"\nappend src/a.txt \"two\\n\"\n\
         replace src/a.txt one ONE\ncommit Add a\ndone\nexit 0",
    );
    agent.expect("My task");
    agent.expect("committed: Add a");
    agent.expect("done");
    assert_eq!(agent.end().code(), Some(0));
    assert_eq!(agent.text("work/src/a.txt"), "ONE\ntwo\n");
    assert_eq!(git(&agent.path("work"), &["log", "--format=%s"]), "Add a\n");
    assert_eq!(agent.text("0007.yaml"), "task_number: 7\nstatus: done\nsuccess: true\n");
    assert!(agent.text("transcript.jsonl").contains("\"tool_call\""));
}

#[test]
fn reads_keys_and_lines_and_sees_its_size() {
    let mut agent = Agent::start("say ready\nkey\nline\nwait go\nexit 3");
    agent.expect("ready");
    agent.expect("scripted: waiting");
    agent.send(b"\x1b[A");
    agent.expect("key: \\x1b[A");
    agent.send("grüße\r".as_bytes());
    agent.expect("line: grüße");
    agent.pty.resize(Size::new(40, 132)).unwrap();
    agent.expect("size: 132x40");
    fs::write(agent.path("work/go"), "").unwrap();
    assert_eq!(agent.end().code(), Some(3));
}

#[test]
fn chats_until_told_to_quit() {
    let mut agent = Agent::start("chat");
    agent.expect("> ");
    agent.send(b"hello\r");
    agent.expect("you said: hello");
    agent.send(b"\x03");
    agent.expect("interrupted");
    agent.send(b"/quit\r");
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn waits_for_input_after_its_script() {
    let mut agent = Agent::start("done");
    agent.expect("scripted: waiting");
    assert_eq!(agent.child.try_wait().unwrap(), None);
    agent.send(b"/quit\r");
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn an_interrupt_ends_an_action_and_two_end_the_agent() {
    let mut agent = Agent::start("say ready\nsleep 3000\nsay after\nhang");
    agent.expect("ready");
    agent.send(b"\x03");
    agent.expect("after");
    agent.send(b"\x03\x03");
    assert_eq!(agent.end().code(), Some(130));
}

/// It may come a moment before the action that it is meant for.
#[test]
fn an_interrupt_between_two_actions_is_not_lost() {
    let mut agent = Agent::start("run kill -INT $PPID\nsay ready\nsleep 3000\nsay after\nsleep 0\nexit 0");
    agent.expect("after");
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn crashes_on_demand() {
    assert_eq!(Agent::start("crash").end().signal(), Some(11));
    assert_eq!(Agent::start("crash KILL").end().signal(), Some(9));
    let mut failed = Agent::start("replace none a b");
    assert_eq!(failed.end().code(), Some(1));
    failed.expect("none: No such file");
}

#[test]
fn ignores_signals_on_demand() {
    use rustix::process::Signal;
    let mut agent = Agent::start("ignore TERM HUP INT\nsay deaf\nwait go\nsay alive\nhang");
    agent.expect("deaf");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        agent.signal(signal);
    }
    fs::write(agent.path("work/go"), "").unwrap();
    agent.expect("alive");
    assert_eq!(agent.child.try_wait().unwrap(), None);
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().signal(), Some(9));
}

#[test]
fn leaves_a_process_behind_on_demand() {
    let mut agent = Agent::start("orphan ../pid 30\nexit 0");
    let agent_pid = agent.child.id().cast_signed();
    assert_eq!(agent.end().code(), Some(0));
    let pid: i32 = agent.text("pid").trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert_eq!(rustix::process::test_kill_process(pid), Ok(()), "the orphan is alive");
    // Field 6 of its line, after the name in parentheses: the session, which is one of its own.
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let session: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().parse().unwrap();
    assert_ne!(session, 0, "a session that began outside of our process namespace");
    assert_ne!(session, agent_pid);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn floods_on_demand() {
    let mut agent = Agent::start("flood 5_000_000\nsay over\nexit 0");
    agent.expect("over");
    assert!(agent.seen.len() >= 5_000_000);
}

#[test]
fn breaks_its_task_file_on_demand() {
    let mut agent = Agent::start("malformed\nexit 0");
    agent.end();
    assert!(agent.text("0007.yaml").contains("\n\tsuccess: yes: no"));
    let mut agent = Agent::start("half\nexit 0");
    agent.end();
    assert_eq!(agent.text("0007.yaml").len(), "task_number: 7\nstatus: ready # go\n".len() / 2);
}

#[test]
fn asks_and_takes_answers() {
    use watchfire_core::endpoint::{Answer, Signal, Spool, SpoolLimits, SpoolMessage};
    use watchfire_core::model::Question;

    let mut agent =
        Agent::start("wait ../inbox\nquestion port Which port?\nanswer port ../port\nsay asked\nhang");
    let spool = Spool::open(agent.dir.path(), SpoolLimits::default()).unwrap();
    agent.expect("question port: Which port?");
    let asked = Signal::Questions(vec![Question::new("port", "Which port?")]);
    assert_eq!(spool.take().unwrap().messages, [SpoolMessage::Signal(asked)]);
    let answer = Answer::new("port", "8080");
    spool.put(&answer.file_name(), answer.to_json().to_string().as_bytes()).unwrap();
    agent.expect("answer port: 8080");
    agent.expect("asked");
    assert_eq!(agent.text("port"), "8080");
    assert!(agent.text("transcript.jsonl").contains("8080"));

    let mut agent = Agent::start("questions <<END\nWhich port?\nWhich host?\nEND\nexit 0");
    assert_eq!(agent.end().code(), Some(0));
    let signal: serde_json::Value = serde_json::from_str(&agent.text("signal.json")).unwrap();
    assert_eq!(signal["questions"][1], serde_json::json!({"id": "2", "question": "Which host?"}));
}

#[test]
fn fails_signals_and_goes_on_when_refused() {
    let mut agent = Agent::start(
        "try write /proc/nothing/x y\ndone\nfail it's \"hard\"\nsignal refine_done\nissue rate_limited wait\nexit 0",
    );
    agent.expect("refused: /proc/nothing");
    agent.expect("blocked rate_limited wait");
    agent.end();
    let task = agent.text("0007.yaml");
    assert!(task.contains("success: false\nfailure_reason: \"it's \\\"hard\\\"\"\n"), "{task}");
    assert_eq!(agent.text("refine_done.yaml"), "");
}
