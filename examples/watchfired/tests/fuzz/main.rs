//! Whatever is sent to the port and the socket, the daemon goes on, answers, and does not grow.
//!
//! The short form takes 5 seconds. With `WATCHFIRE_LONG=1` it is an hour, or `FUZZ_SECONDS`. `WATCHFIRE_SEED` repeats the choices of
//! an earlier run; what meets what is still up to the machine. With a valid token, or on the socket, some calls are not made as
//! they come, because they would do what they say outside of the test's folder, or end it:
//! - `Shutdown`;
//! - `UpdateSettings`, which can name any program as that of an agent;
//! - `CreateProject` and `DeleteProject` are about folders of the test only.

mod messages;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod terminals;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use messages::{Call, Schema, put};
use random::Random;
use support::{PATIENCE, World, id, start};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use watchfire_api::DaemonFile;
use watchfire_api::daemon_proto as proto;
use watchfire_client::Daemon;

/// Clients at a time.
const CLIENTS: u64 = 4;
/// Bound for the growth of the daemon's memory after it has warmed up, in KiB.
const GROWTH: u64 = 8 << 10;

/// More lives than the daemon keeps of a project once they have ended.
const KEPT: usize = 220;

/// The daemon under test, and the ids that its clients have learned.
struct Target {
    file: DaemonFile,
    world: World,
    schema: Schema,
    /// Ids that the daemon knows, that of the project first.
    known: Mutex<Vec<String>>,
    /// Ids of projects that may be unregistered.
    others: Mutex<Vec<String>>,
    /// Results of all calls, and how often they came.
    results: Mutex<BTreeMap<String, u64>>,
}

/// Memory and descriptors of a process. Of its memory, what it asked for: pages of its program come in with the code that runs.
#[derive(Clone, Copy, Debug)]
struct Look {
    kib: u64,
    files: usize,
}

impl Look {
    fn at(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default();
        let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        Self { kib, files }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_sent_ends_it_or_makes_it_grow() {
    let seed = random::seed();
    let named = std::env::var("FUZZ_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let is_long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let (seconds, round) = match is_long {
        true => (named.unwrap_or(3_600), Duration::from_secs(10)),
        false => (5, Duration::from_secs(1)),
    };
    let world = World::new();
    let log = world.path("log");
    let mut command = world.command(&["--origin", "http://localhost:3000"]);
    // As a client that starts it does.
    command.envs(watchfire_client::ALLOCATOR).stderr(fs::File::create(&log).unwrap());
    let mut running = world.start_by(command);
    let daemon = world.connect().await;
    let project = world.project(&daemon, "shop").await.project_id;
    let target = Arc::new(Target {
        file: running.file.clone(),
        world,
        schema: Schema::new(),
        known: Mutex::new(vec![project.clone()]),
        others: Mutex::default(),
        results: Mutex::default(),
    });

    // The daemon keeps the last lives of a project, and of some the sessions with their terminals: from here on their number stays.
    for _ in 0..if is_long { KEPT } else { 0 } {
        daemon.agents().start_agent(start(&project, "chat", 0)).await.unwrap();
        daemon.agents().stop_agent(id(&project)).await.unwrap();
    }
    let began = Instant::now();
    let mut looks = Vec::new();
    tidy(&target, &daemon, &project).await;
    for part in 0.. {
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let until = Instant::now() + round;
        let clients = (0..CLIENTS).map(|n| {
            let random = Random::new(seed, part * CLIENTS + n);
            tokio::spawn(client(Arc::clone(&target), random, until))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        tidy(&target, &daemon, &project).await;
        assert_eq!(running.child.try_wait().unwrap(), None, "it has ended");
        let said = fs::read_to_string(&log).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        looks.push(Look::at(running.file.pid));
        if is_long && looks.len() % 6 == 0 {
            eprintln!("{:?} after {} s", looks[looks.len() - 1], began.elapsed().as_secs());
        }
    }
    let results = target.results.lock().unwrap().clone();
    // The first third warms it up.
    let (warm, last) = (looks[looks.len() / 3], looks[looks.len() - 1]);
    let most = looks[looks.len() / 3..].iter().map(|look| look.kib).max().unwrap();
    eprintln!(
        "{} attempts in {} s, seed {seed}: {} KiB and {} descriptors after the first round, {} and {} warm, {} and {} at the end, at most {most} KiB",
        results.values().sum::<u64>(),
        began.elapsed().as_secs(),
        looks[0].kib,
        looks[0].files,
        warm.kib,
        warm.files,
        last.kib,
        last.files,
    );
    eprintln!("{results:#?}");
    assert!(most <= warm.kib + GROWTH, "{looks:?}");
    // Those of projects that are open at this moment; now and then a client has removed them all.
    let files = looks[..=looks.len() / 3].iter().map(|look| look.files).max().unwrap();
    assert!(last.files <= files + 64, "{looks:?}");
    for result in ["noise", "web", "terminal", "stranger: Unauthenticated", "friend: Ok", "friend: NotFound"]
    {
        assert!(results.contains_key(result), "{result}: {results:?}");
    }
    let internal: Vec<_> = results.keys().filter(|result| result.contains("internal: ")).collect();
    assert!(internal.is_empty(), "{internal:#?}");
    let odd = daemon.agents().start_agent(start(&project, "task", i32::MAX)).await.unwrap_err();
    assert_eq!(odd.code(), Code::InvalidArgument);
}

/// Sends things until the time is over.
async fn client(target: Arc<Target>, mut random: Random, until: Instant) {
    let (mut port, mut socket) = (target.port().await, target.socket().await);
    while Instant::now() < until {
        // Calls that are under way on it are cut.
        if random.once_in(50) {
            port = target.port().await;
        }
        if random.once_in(50) {
            socket = target.socket().await;
        }
        let call = random.one(&target.schema.calls);
        let known = target.known.lock().unwrap().clone();
        let message = target.schema.message(call, &mut random, &known);
        match random.below(11) {
            10 => {
                terminals::lend(&target.world.home, &mut random, &known).await;
                target.count("terminal");
            }
            0 => target.noise(&mut random).await,
            1 | 2 => target.web(call, message, &mut random).await,
            3 | 4 => {
                let wrong = ["", "x", &target.file.token[1..]];
                let token = *random.one(&wrong);
                let result = target.call(&port, call, message, token, &mut random).await;
                assert_ne!(result, "Ok", "{}", call.path);
                target.count(format!("stranger: {result}"));
            }
            kind => {
                let Some(message) = target.harmless(call, message, &mut random) else { continue };
                let (channel, token) =
                    if kind < 8 { (&port, target.file.token.as_str()) } else { (&socket, "") };
                let result = target.call(channel, call, message, token, &mut random).await;
                target.count(format!("friend: {result}"));
            }
        }
    }
}

impl Target {
    fn count(&self, result: impl Into<String>) {
        *self.results.lock().unwrap().entry(result.into()).or_default() += 1;
    }

    async fn port(&self) -> Channel {
        let address = format!("http://{}:{}", self.file.host, self.file.port);
        tokio::time::timeout(PATIENCE, Endpoint::from_shared(address).unwrap().connect())
            .await
            .unwrap()
            .unwrap()
    }

    async fn socket(&self) -> Channel {
        tokio::time::timeout(PATIENCE, watchfire_client::raw_channel(&self.world.home))
            .await
            .unwrap()
            .unwrap()
    }

    /// Returns the message for a client that gets in, or `None` for a call that is left out.
    fn harmless(&self, call: &Call, mut message: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
        let folder = self.world.path(&format!("p{}", random.below(3)));
        match call.path.rsplit('/').next().unwrap() {
            "Shutdown" | "UpdateSettings" => return None,
            "CreateProject" => put(&mut message, 2, folder.to_str().unwrap().as_bytes()),
            "DeleteProject" => put(&mut message, 2, self.others.lock().unwrap().pop()?.as_bytes()),
            // Each starts a process, which takes longer than a hundred other calls.
            "StartAgent" | "Propose" if !random.once_in(4) => return None,
            _ => {}
        }
        Some(message)
    }

    /// Makes a call, and gives it up after a while. Returns its code, or "given up".
    async fn call(
        &self,
        channel: &Channel,
        call: &Call,
        message: Vec<u8>,
        token: &str,
        random: &mut Random,
    ) -> String {
        let patience = Duration::from_millis(*random.one(&[0, 5, 50, 200]));
        let calling = support::raw(channel.clone(), &call.path, message, token);
        match tokio::time::timeout(patience, calling).await {
            Ok(Ok(())) => "Ok".to_owned(),
            Ok(Err(status)) if status.code() == Code::Internal => {
                // Both are the library's words: a message that is none, and a connection on which too many calls were given up.
                let usual = ["failed to decode", "h2 protocol error"];
                match usual.into_iter().find(|words| status.message().contains(words)) {
                    Some(words) => words.to_owned(),
                    None => format!("internal: {}: {}", call.path, status.message()),
                }
            }
            Ok(Err(status)) => format!("{:?}", status.code()),
            Err(_) => "given up".to_owned(),
        }
    }

    /// Sends noise to the port or the socket.
    async fn noise(&self, random: &mut Random) {
        let bytes = wire::noise(random);
        if random.once_in(2) {
            self.exchange(TcpStream::connect((self.file.host.as_str(), self.file.port)).await, &bytes).await;
        } else {
            self.exchange(UnixStream::connect(watchfire_api::daemon_socket(&self.world.home)).await, &bytes)
                .await;
        }
        self.count("noise");
    }

    /// Sends a request of gRPC-Web to the port.
    async fn web(&self, call: &Call, message: Vec<u8>, random: &mut Random) {
        let message = if random.once_in(2) {
            Some((message, ""))
        } else {
            self.harmless(call, message, random).map(|message| (message, self.file.token.as_str()))
        };
        let Some((message, token)) = message else { return };
        let bytes = wire::web(call, &message, self.file.port, token, random);
        self.exchange(TcpStream::connect((self.file.host.as_str(), self.file.port)).await, &bytes).await;
        self.count("web");
    }

    /// Sends bytes, and takes a part of what is answered.
    async fn exchange<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
        &self,
        stream: std::io::Result<S>,
        bytes: &[u8],
    ) {
        let mut stream = stream.expect("it takes connections");
        let talk = async {
            // It may refuse in the middle.
            let _ = stream.write_all(bytes).await;
            let _ = stream.read(&mut [0; 4096]).await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(20), talk).await;
    }
}

/// Learns the ids of what the clients have made, and removes it, so that what the daemon holds after each round is its own. Each
/// call is answered in time.
async fn tidy(target: &Target, daemon: &Daemon, project: &str) {
    let tidying = async {
        daemon.service().ping(()).await.unwrap();
        let active = proto::UpdateProjectRequest {
            project_id: project.to_owned(),
            name: Some("shop".to_owned()),
            status: Some("active".to_owned()),
            default_branch: Some("main".to_owned()),
            default_agent: Some("scripted".to_owned()),
            definition: Some("# About\n".to_owned()),
            ..Default::default()
        };
        daemon.projects().update_project(active).await.unwrap();
        let agents = daemon.agents().stop_agent(id(project)).await.unwrap().into_inner();
        let list = proto::ListTasksRequest {
            project_id: project.to_owned(),
            include_deleted: true,
            ..Default::default()
        };
        let tasks = daemon.tasks().list_tasks(list).await.unwrap().into_inner().tasks;
        let task_numbers: Vec<_> = tasks.iter().map(|task| task.task_number).collect();
        let all = proto::ListLogsRequest { project_id: project.to_owned(), ..Default::default() };
        let logs = daemon.logs().list_logs(all).await.unwrap().into_inner().logs;
        let branches = daemon.branches().list_branches(id(project)).await.unwrap().into_inner().branches;
        let names: Vec<_> = branches.into_iter().map(|branch| branch.name).collect();
        let projects = daemon.projects().list_projects(()).await.unwrap().into_inner().projects;
        let others = projects.into_iter().map(|other| other.project_id).filter(|other| other != project);
        *target.others.lock().unwrap() = others.collect();
        // Those of before, too: it must not fall over what is gone.
        let ids = agents.all.into_iter().map(|agent| agent.session_id);
        let ids = ids.chain(logs.into_iter().flat_map(|log| [log.log_id, log.alias])).chain(names.clone());
        {
            let mut known = target.known.lock().unwrap();
            known.extend(ids);
            let surplus = known.len().saturating_sub(200);
            known.drain(1..1 + surplus);
        }
        // Some may refuse, for example where the work of a task is under way.
        let bulk = proto::BulkDeleteRequest { project_id: project.to_owned(), task_numbers, meta: None };
        let _ = daemon.tasks().bulk_delete(bulk).await;
        let _ = daemon.tasks().empty_trash(id(project)).await;
        let _ = daemon.logs().delete_all_for_project(id(project)).await;
        let bulk =
            proto::BulkBranchRequest { project_id: project.to_owned(), names, discard: true, meta: None };
        let _ = daemon.branches().bulk_delete(bulk).await;
        for title in ["One", "Two"] {
            target.world.task(daemon, project, title, "say hello\nwrite n 1\ncommit n\ndone").await;
        }
    };
    tokio::time::timeout(PATIENCE, tidying).await.expect("it answers in time");
}
