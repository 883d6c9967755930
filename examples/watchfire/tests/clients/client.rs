//! Clients, each a process that is killed at any moment and goes on from what it wrote down.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tonic::transport::Endpoint;
use watchfire_client::daemon_proto as proto;
use watchfire_client::daemon_proto::agent_service_client::AgentServiceClient;
use watchfire_client::{ApiError, Daemon, Followed};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_term::wire;

use crate::STREAMS;
use crate::service::within;
use crate::support::{PATIENCE, World};

watchfire_core::register_helper_role!("test-client", role);

/// Pause before the next try to reach the daemon.
const AGAIN: Duration = Duration::from_millis(20);
/// Bytes that wait for the slow client: some screens.
const WINDOW: u32 = 4 << 10;
/// Streams on one connection.
const ON_ONE: u64 = 250;

/// A thing that a client can follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The log of a project.
    Log,
    /// The output of each of its agents.
    Bytes,
    /// The screen of its agents, taking its time.
    Slow,
    /// A thousand streams.
    Many,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Bytes => "bytes",
            Self::Slow => "slow",
            Self::Many => "many",
        }
    }

    /// Returns the folder in which a client of this kind writes down what it got of a project.
    pub(crate) fn folder(self, world: &Path, project: &str) -> PathBuf {
        world.join(format!("{}-{project}", self.word()))
    }
}

pub(crate) struct Client {
    child: Child,
    kind: Kind,
    project: String,
    folder: PathBuf,
}

impl Client {
    pub(crate) fn start(world: &World, kind: Kind, project: &str) -> Self {
        let folder = kind.folder(world.folder.path(), project);
        fs::create_dir_all(&folder).unwrap();
        let line = Helper::current().unwrap().command_line_inside();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(["test-client", kind.word(), project]).arg(&folder);
        world.isolate(&mut command);
        let errors = OpenOptions::new().create(true).append(true).open(folder.join("errors")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        Self { child, kind, project: project.to_owned(), folder }
    }

    pub(crate) fn kill(&mut self) {
        // It runs until it is killed; if it has ended, its errors say why.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn kill_and_start_again(&mut self, world: &World) {
        self.kill();
        *self = Self::start(world, self.kind, &self.project);
    }

    /// Waits until it has made a file of this name.
    pub(crate) fn wait_for(&mut self, name: &str) -> bool {
        within(PATIENCE, || self.folder.join(name).exists())
    }

    /// Returns its error output.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("errors")).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
    }
}

fn role(args: RoleArgs) -> i32 {
    let text = |n: usize| args.args()[n].to_str().unwrap().to_owned();
    let (kind, project, folder) = (text(0), text(1), PathBuf::from(&args.args()[2]));
    let home = PathBuf::from(std::env::var_os("WATCHFIRE_HOME").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let follower = Follower { home, project, folder };
    runtime.block_on(async {
        match &*kind {
            "log" => follower.log().await,
            "bytes" => follower.bytes().await,
            "slow" => follower.slow().await,
            _ => follower.many().await,
        }
    });
    0
}

#[derive(Clone)]
struct Follower {
    home: PathBuf,
    project: String,
    folder: PathBuf,
}

impl Follower {
    /// Connects to the daemon, as soon as there is one.
    async fn daemon(&self) -> Daemon {
        loop {
            match Daemon::connect(&self.home).await {
                Ok(daemon) => return daemon,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    fn append(&self, name: &str, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join(name));
        file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Writes down each record of the log, from the first one that it saw.
    async fn log(&self) {
        loop {
            let _ = self.log_of(self.daemon().await).await;
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn log_of(&self, daemon: Daemon) -> Result<(), ApiError> {
        let text = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        // One write is one line, so none is cut.
        let since = text.lines().last().and_then(|line| line.split(' ').next());
        let (_, mut log) = daemon.follow(&self.project, since, false).await?;
        while let Some(item) = log.next().await? {
            match item {
                Followed::Record(record) => {
                    self.append("log", &format!("{} {}", record.cursor, record.change))
                }
                Followed::Missed(first, last) => self.append("errors", &format!("missed {first} to {last}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes down the output of each session, from the first byte that it saw.
    async fn bytes(&self) {
        let mut followed: HashMap<String, tokio::task::JoinHandle<()>> = HashMap::new();
        loop {
            let daemon = self.daemon().await;
            let project = proto::ProjectId { project_id: self.project.clone(), ..Default::default() };
            if let Ok(status) = daemon.agents().get_agent_status(project).await {
                for agent in status.into_inner().all {
                    let session = agent.session_id;
                    if session.is_empty() || followed.contains_key(&session) {
                        continue;
                    }
                    let follower = self.clone();
                    let task = tokio::spawn({
                        let session = session.clone();
                        async move { follower.bytes_of(&session).await }
                    });
                    followed.insert(session, task);
                }
            }
            tokio::time::sleep(AGAIN * 5).await;
        }
    }

    /// Follows a session to its end, over as many daemons as there are.
    async fn bytes_of(&self, session: &str) {
        let (from_name, over) = (format!("{session}.from"), self.folder.join(format!("{session}.end")));
        if over.exists() {
            return;
        }
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join(session)).unwrap();
        loop {
            let daemon = self.daemon().await;
            let from = fs::read_to_string(self.folder.join(&from_name))
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            // To go on from the beginning cannot be asked for: the offset 0 stands for none.
            let mut at = from.map(|from| from + file.metadata().unwrap().len()).filter(|at| *at > 0);
            let request = proto::SubscribeRawOutputRequest {
                project_id: self.project.clone(),
                session_id: session.to_owned(),
                bytes_received: at.unwrap_or_default(),
                ..Default::default()
            };
            let mut chunks = match daemon.agents().subscribe_raw_output(request).await {
                Ok(chunks) => chunks.into_inner(),
                // It ended while nobody looked, and this daemon never had it.
                Err(error) if error.code() as i32 == NOT_FOUND => return,
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            loop {
                match chunks.message().await {
                    Ok(Some(chunk)) if chunk.redraw && at.is_none() => {
                        let new = self.folder.join(format!("{session}.new"));
                        fs::write(&new, chunk.offset.to_string()).unwrap();
                        fs::rename(new, self.folder.join(&from_name)).unwrap();
                        at = Some(chunk.offset);
                    }
                    Ok(Some(chunk)) if chunk.redraw => {
                        self.append("errors", &format!("{session}: {} bytes are missing", chunk.skipped));
                        return;
                    }
                    // Another size.
                    Ok(Some(chunk)) if chunk.data.is_empty() => {}
                    Ok(Some(chunk)) => {
                        let begins = chunk.offset - chunk.data.len() as u64;
                        if at.is_some_and(|at| at != begins) {
                            self.append("errors", &format!("{session}: {begins} comes after {at:?}"));
                            return;
                        }
                        // In one write: what is in the file is what this client has.
                        (&file).write_all(&chunk.data).unwrap();
                        at = Some(chunk.offset);
                    }
                    Ok(None) => {
                        fs::write(over, "").unwrap();
                        return;
                    }
                    Err(_) => break,
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Looks at the screen of one agent after the other, four times a second. Writes down how each ended, how often it looked, and
    /// whether the last line was there.
    async fn slow(&self) {
        loop {
            let request = proto::SubscribeScreenRequest {
                project_id: self.project.clone(),
                format: proto::ScreenFormat::Cells.into(),
                ..Default::default()
            };
            let socket = format!("unix:{}", self.home.join("api/daemon.sock").display());
            let endpoint = Endpoint::from_shared(socket).unwrap().initial_stream_window_size(WINDOW);
            let Ok(channel) = endpoint.connect().await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            if let Ok(screens) = AgentServiceClient::new(channel).subscribe_screen(request).await {
                let mut screens = screens.into_inner();
                let (mut last, mut looks) = (Vec::new(), 0);
                while let Ok(Some(screen)) = screens.message().await {
                    match screen.end {
                        Some(end) => {
                            let text = wire::decode(&std::mem::take(&mut last))
                                .map(|screen| screen.text())
                                .unwrap_or_default();
                            let is_last = text.contains(&format!("line {}.", crate::LINES));
                            self.append(
                                "seen",
                                &format!("{} {looks} {} {is_last}", screen.session_id, end.outcome),
                            );
                            looks = 0;
                        }
                        None => (last, looks) = (screen.cells, looks + 1),
                    }
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Follows a thousand things at a time, and says so once each has told something.
    async fn many(&self) {
        let daemon = self.daemon().await;
        let project = proto::ProjectId { project_id: self.project.clone(), ..Default::default() };
        let session = loop {
            let status = daemon.agents().get_agent_status(project.clone()).await;
            let session = status.map(|it| it.into_inner().session_id).unwrap_or_default();
            if !session.is_empty() {
                break session;
            }
            tokio::time::sleep(AGAIN).await;
        };
        let served = Arc::new(AtomicU64::new(0));
        for _ in 0..STREAMS / ON_ONE {
            let daemon = self.daemon().await;
            for n in 0..ON_ONE {
                let (follower, daemon) = (self.clone(), daemon.clone());
                let (session, served) = (session.clone(), Arc::clone(&served));
                tokio::spawn(async move { follower.one_of_many(n, daemon, session, served).await });
            }
        }
        while served.load(Ordering::Relaxed) < STREAMS {
            tokio::time::sleep(AGAIN).await;
        }
        // They all go on for a while.
        tokio::time::sleep(Duration::from_secs(2)).await;
        File::create(self.folder.join("served")).unwrap().write_all_at(b"", 0).unwrap();
        std::future::pending().await
    }

    async fn one_of_many(&self, n: u64, daemon: Daemon, session_id: String, served: Arc<AtomicU64>) {
        let project_id = self.project.clone();
        let mut agents = daemon.agents();
        macro_rules! read {
            ($stream:expr) => {{
                let mut stream = $stream.await.unwrap().into_inner();
                let mut first = true;
                while let Ok(Some(_)) = stream.message().await {
                    if std::mem::take(&mut first) {
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }};
        }
        let screen = |format: proto::ScreenFormat| proto::SubscribeScreenRequest {
            project_id: project_id.clone(),
            session_id: session_id.clone(),
            format: format.into(),
            ..Default::default()
        };
        match n % 5 {
            0 => read!(agents.subscribe_screen(screen(proto::ScreenFormat::Unspecified))),
            1 => read!(agents.subscribe_screen(screen(proto::ScreenFormat::Changes))),
            2 => read!(agents.subscribe_screen(screen(proto::ScreenFormat::Cells))),
            3 => read!(agents.subscribe_raw_output(proto::SubscribeRawOutputRequest {
                project_id,
                session_id,
                ..Default::default()
            })),
            _ => {
                let (_, mut log) = daemon.follow(&project_id, None, true).await.unwrap();
                served.fetch_add(1, Ordering::Relaxed);
                while let Ok(Some(_)) = log.next().await {}
            }
        }
    }
}

/// The code of gRPC.
const NOT_FOUND: i32 = 5;
