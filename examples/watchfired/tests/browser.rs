//! A page in a browser: it works by gRPC-Web from an origin that is allowed, with the token, and gets nothing otherwise.
//!
//! Takes a Chromium, which `WATCHFIRE_TEST_CHROMIUM` may name; SKIPPED where there is none. The pages come from a server of the test.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use libtest_mimic::Arguments;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use support::{PATIENCE, World, calls};

const PAGE: &str = include_str!("languages/page.js");

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![support::trial(
        "pages_work_with_token_and_origin_only",
        no_chromium(),
        pages_work_with_token_and_origin_only,
    )];
    libtest_mimic::run(&arguments, trials).exit();
}

fn chromium() -> Option<String> {
    let named = std::env::var("WATCHFIRE_TEST_CHROMIUM").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let works =
        |name: &String| Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    named.into_iter().chain(usual).find(works)
}

fn no_chromium() -> Option<String> {
    chromium().is_none().then(|| "no Chromium".to_owned())
}

/// A server with one page, which reports its results back here.
struct Server {
    port: u16,
    said: Receiver<Value>,
}

impl Server {
    /// Serves the page on all names that lead here. `given` is what the page has to know, but for its deed, which its address tells.
    fn start(listener: TcpListener, given: Value) -> Self {
        let port = listener.local_addr().unwrap().port();
        let (say, said) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (given, say) = (given.clone(), say.clone());
                // A browser opens connections in advance.
                std::thread::spawn(move || answer(stream, given, &say));
            }
        });
        Self { port, said }
    }
}

/// Answers one request. A connection that says nothing is closed by the browser.
fn answer(stream: TcpStream, mut given: Value, say: &Sender<Value>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut lines = stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let first = lines.next()?;
    let length =
        lines.filter_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).last();
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (status, page) = match (words.next()?, words.next()?) {
        ("GET", path @ ("/friend" | "/rebound" | "/stranger")) => {
            given["deed"] = path[1..].into();
            let script = format!("const GIVEN = {given};\n{PAGE}");
            ("200 OK", format!("<!doctype html><meta charset=utf-8><script type=module>{script}</script>"))
        }
        ("POST", "/said") => {
            // The test may be over.
            let _ = say.send(serde_json::from_slice(&body).ok()?);
            ("200 OK", String::new())
        }
        _ => ("404 Not Found", String::new()),
    };
    let head = format!("content-type: text/html\r\nconnection: close\r\ncontent-length: {}", page.len());
    write!(stream.get_mut(), "HTTP/1.1 {status}\r\n{head}\r\n\r\n{page}").ok()
}

/// A browser without a window, and all its processes.
struct Browser(Child);

impl Browser {
    fn open(world: &World, address: &str) -> Self {
        let data = world.path("browser");
        let mut command = Command::new(chromium().unwrap());
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--no-proxy-server",
        ]);
        command.args(["--disable-breakpad", "--disable-dev-shm-usage", "--disable-background-networking"]);
        // The name of an attacker, who lets it lead here.
        command.arg("--host-resolver-rules=MAP evil.test 127.0.0.1");
        command.arg(format!("--user-data-dir={}", data.display())).arg(address);
        command
            .env_clear()
            .env("HOME", world.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Not reaped yet, so the group is still ours.
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn pages_work_with_token_and_origin_only() {
    let world = World::new();
    // Also the pages' names must be known to the daemon before it starts.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let origins = [format!("http://localhost:{port}"), format!("http://evil.test:{port}")];
    let mut running = world.start(&["--origin", &origins[0], "--origin", &origins[1]]);
    let paths = calls();
    let given = json!({ "port": running.file.port, "token": running.file.token, "paths": paths });
    let server = Server::start(listener, given);
    support::block_on(async {
        world.project(&world.connect().await, "shop").await;
    });
    let said = |host: &str, deed: &str| {
        let _browser = Browser::open(&world, &format!("http://{host}:{}/{deed}", server.port));
        let said = server.said.recv_timeout(PATIENCE).expect("the page says something in time");
        assert_eq!(said["error"], Value::Null, "{deed}");
        said
    };
    let all = |result: &str| json!({ result: paths.len() });

    // Strangers first: what they send must have no effect on what follows.
    let before = state(&world);
    let stranger = said("127.0.0.1", "stranger");
    for (way, result) in
        [("asked", "nothing"), ("simple", "opaque"), ("fetched", "opaque"), ("renamed", "opaque")]
    {
        assert_eq!(stranger[way], all(result), "{way}");
    }
    assert_eq!(stranger["socket"], "nothing");
    let rebound = said("evil.test", "rebound");
    assert_eq!(rebound["control"], true, "by the right name it gets in");
    assert_eq!(rebound["renamed"], all("nothing"));
    assert_eq!(state(&world), before);

    let friend = said("localhost", "friend");
    let work = &friend["work"];
    assert_eq!(work["projects"], json!(["shop"]));
    assert!(work["shown"].as_str().unwrap().contains("hello from a page"), "{work}");
    assert_eq!((&work["outcome"], &work["status"]), (&"completed".into(), &"completed".into()), "{work}");
    assert!(work["log"].as_str().unwrap().contains("hello from a page"), "{work}");
    for way in ["bare", "wrong", "renamed"] {
        assert_eq!(friend[way], all("nothing"), "{way}");
    }
    assert_eq!(running.child.try_wait().unwrap(), None, "it has ended");
}

/// The state that a call could have changed.
fn state(world: &World) -> String {
    support::block_on(async {
        let daemon = world.connect().await;
        let projects = daemon.projects().list_projects(()).await.unwrap().into_inner().projects;
        let settings = std::fs::read_to_string(world.home.join("settings.yaml")).unwrap();
        let status = daemon.service().get_status(()).await.unwrap().into_inner();
        format!("{projects:?} {settings} {:?}", status.active_agents)
    })
}
