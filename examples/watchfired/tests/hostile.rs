//! An agent that tries to become its daemon's client: every call on the port with all the tokens that it has, the socket, the files,
//! and what the kernel tells of the daemon. SKIPPED where there is no sandbox.
//!
//! The agent runs this very program as `attack`. A control does so without a sandbox: there everything must succeed, or the refusals
//! would prove nothing.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Arguments;
use support::{World, calls, start, until_task};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::test_homes;

/// An attempt of the agent: the call, the credential and the result.
type Row = (String, String, String);

fn main() {
    let words: Vec<_> = std::env::args().collect();
    if let [_, attack, home, port, pid] = &words[..]
        && attack == "attack"
    {
        return self::attack(Path::new(home), port.parse().unwrap(), pid);
    }
    let trials = vec![support::trial(
        "an_agent_in_its_sandbox_is_no_client",
        no_sandbox(),
        an_agent_in_its_sandbox_is_no_client,
    )];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn no_sandbox() -> Option<String> {
    let sandboxes = watchfire_sandbox::sandboxes(Helper::at(env!("CARGO_BIN_EXE_watchfired")).unwrap());
    let works =
        sandboxes.iter().map(|sandbox| sandbox.probe()).any(|it| it.available && it.sandbox != "none");
    (!works).then(|| "no sandbox works: not available here".to_owned())
}

/// Tries everything, and prints a line for each attempt.
fn attack(home: &Path, port: u16, pid: &str) {
    let say = |what: &str, with: &str, result: &str| println!("{what}\t{with}\t{result}");
    let session = std::env::var("WATCHFIRE_SESSION_DIR").unwrap_or_default();
    let own = fs::read_to_string(Path::new(&session).join("token")).unwrap_or_default();
    say("own token", "", if own.is_empty() { "none" } else { "has one" });
    for path in calls() {
        for (with, token) in [("no token", ""), ("own token", own.trim()), ("a guess", "0")] {
            say(&path, with, &call(port, &path, token, None));
        }
        // As if it were a page of an origin that is allowed.
        say(&path, "own token, origin", &call(port, &path, own.trim(), Some("http://localhost:3000")));
    }
    for name in ["daemon.yaml", "agents.yaml", "daemon.lock", "settings.yaml"] {
        let result = if fs::read(home.join(name)).is_ok() { "read" } else { "refused" };
        say(name, "", result);
    }
    say("api", "", if fs::read_dir(home.join("api")).is_ok() { "listed" } else { "refused" });
    let socket = UnixStream::connect(home.join("api/daemon.sock"));
    say("api/daemon.sock", "", if socket.is_ok() { "connected" } else { "refused" });
    // The files of the daemon by way of the daemon itself.
    let through = PathBuf::from(format!("/proc/{pid}/root")).join(home.strip_prefix("/").unwrap());
    let text =
        [home.to_owned(), through].iter().find_map(|home| fs::read_to_string(home.join("daemon.yaml")).ok());
    let found = text.as_deref().and_then(|text| text.split("token: ").nth(1)).unwrap_or_default();
    say("daemon.yaml", "by the kernel", if found.is_empty() { "refused" } else { "read" });
    say(
        "/watchfire.DaemonService/Ping",
        "what it found",
        &call(port, "/watchfire.DaemonService/Ping", found.trim(), None),
    );
}

/// Calls by gRPC-Web, which takes no library. Returns the status, or what came of the connection.
fn call(port: u16, path: &str, token: &str, origin: Option<&str>) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return "no connection".to_owned() };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    if !token.is_empty() {
        request.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    if let Some(origin) = origin {
        request.push_str(&format!("origin: {origin}\r\n"));
    }
    request.push_str("content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0");
    let mut answer = Vec::new();
    // It may refuse in the middle.
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    let status =
        answer.split("grpc-status:").nth(1).and_then(|rest| rest.trim_start().split(['\r', '\n']).next());
    format!("status {}", status.unwrap_or("missing"))
}

/// Reads the lines of an attack.
fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    };
    text.lines().map(row).collect()
}

fn an_agent_in_its_sandbox_is_no_client() {
    let world = World::below(&test_homes(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let attacker = std::env::current_exe().unwrap();
    fs::write(
        world.home.join("settings.yaml"),
        format!(
            "version: 1\ndefaults:\n  default_sandbox: auto\n  default_agent: scripted\n  auto_start_tasks: false\n\
             sandbox:\n  read: ['{}']\n",
            attacker.display()
        ),
    )
    .unwrap();
    let mut running = world.start(&["--origin", "http://localhost:3000"]);
    let (home, port, pid) = (&world.home, running.file.port, running.file.pid);
    support::block_on(async {
        let daemon = world.connect().await;
        let project = world.project(&daemon, "shop").await.project_id;
        let script = format!(
            "run '{}' attack '{}' {port} {pid} > attempts\ncommit attempts\ndone",
            attacker.display(),
            home.display()
        );
        world.task(&daemon, &project, "Attack", &script).await;
        daemon.agents().start_agent(start(&project, "task", 1)).await.unwrap();
        until_task(&daemon, &project, 1, "merged").await;
        // Nothing of it had an effect.
        assert_eq!(daemon.projects().list_projects(()).await.unwrap().into_inner().projects.len(), 1);
        assert_eq!(running.child.try_wait().unwrap(), None, "it has ended");
    });
    let tried = rows(&world.git(&world.path("shop"), &["show", "main:attempts"]));
    let mut table = BTreeMap::<_, usize>::new();
    for (what, with, result) in &tried {
        let what = if what.starts_with('/') && with != "what it found" { "every call" } else { what };
        *table.entry((what, with.as_str(), result.as_str())).or_default() += 1;
    }
    let all = calls().len();
    let expected = [
        (("/watchfire.DaemonService/Ping", "what it found", "status 16"), 1),
        (("agents.yaml", "", "refused"), 1),
        (("api", "", "refused"), 1),
        (("api/daemon.sock", "", "refused"), 1),
        (("daemon.lock", "", "refused"), 1),
        (("daemon.yaml", "", "refused"), 1),
        (("daemon.yaml", "by the kernel", "refused"), 1),
        (("every call", "a guess", "status 16"), all),
        (("every call", "no token", "status 16"), all),
        (("every call", "own token", "status 16"), all),
        (("every call", "own token, origin", "status 16"), all),
        (("own token", "", "has one"), 1),
        (("settings.yaml", "", "refused"), 1),
    ];
    assert_eq!(table, BTreeMap::from(expected));

    let control =
        Command::new(&attacker).arg("attack").arg(home).args([port.to_string(), pid.to_string()]).output();
    let control = rows(&String::from_utf8(control.unwrap().stdout).unwrap());
    for (what, with, result) in [
        ("/watchfire.DaemonService/Ping", "what it found", "status 0"),
        ("agents.yaml", "", "read"),
        ("api", "", "listed"),
        ("api/daemon.sock", "", "connected"),
        ("daemon.lock", "", "read"),
        ("daemon.yaml", "", "read"),
        ("settings.yaml", "", "read"),
    ] {
        let row = (what.to_owned(), with.to_owned(), result.to_owned());
        assert!(control.contains(&row), "{row:?} without a sandbox: {control:?}");
    }
}
