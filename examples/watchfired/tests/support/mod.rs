//! A home of its own for each test, with projects in it, and the built daemon.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::future::Future;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use prost::Message as _;
use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use watchfire_api::DaemonFile;
use watchfire_api::daemon_proto as proto;
use watchfire_client::Daemon;
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::session::{Detached, SessionHost as _};

/// The longest that anything here may take: a busy machine is slow, a hanging one never ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A trial, ignored where the machine has a reason.
pub(crate) fn trial(name: &str, reason: Option<String>, run: fn()) -> libtest_mimic::Trial {
    if let Some(reason) = &reason {
        eprintln!("SKIPPED {name}: {reason}");
    }
    let trial = libtest_mimic::Trial::test(name, move || {
        run();
        Ok(())
    });
    trial.with_ignored_flag(reason.is_some())
}

/// Waits for a future in a test that is no `tokio::test`.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

pub(crate) struct World {
    folder: TempDir,
    pub(crate) home: PathBuf,
}

/// A daemon that runs. It is killed when dropped; its agents end with the [`World`].
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) file: DaemonFile,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for World {
    /// Ends the agents that go on without a daemon: there is nobody left who would.
    fn drop(&mut self) {
        let hosts = self.home.join("hosts");
        if !cfg!(target_os = "linux") || !hosts.exists() {
            return;
        }
        let end = async move {
            let hosts = Detached::new(Helper::at(env!("CARGO_BIN_EXE_watchfired"))?, hosts)?;
            for session in hosts.list().await? {
                hosts.end(&session.session).await?;
            }
            Ok::<_, watchfire_core::Error>(())
        };
        // A test runs in a runtime, which cannot wait for another one in its own thread.
        let ended = std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(end)).join();
        // A second panic would hide the first.
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

impl World {
    /// A home whose agents run without a sandbox: the sandboxes have tests of their own.
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// The same in a folder, for agents in a sandbox.
    pub(crate) fn below(parent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("watchfired-").tempdir_in(parent).unwrap();
        let home = folder.path().join("home/wf");
        fs::create_dir_all(&home).unwrap();
        fs::write(
            folder.path().join("home/.gitconfig"),
            "[user]\n\tname = Test\n\temail = test@example.invalid\n",
        )
        .unwrap();
        fs::write(
            home.join("settings.yaml"),
            "version: 1\ndefaults:\n  default_sandbox: none\n  default_agent: scripted\n  auto_start_tasks: false\n",
        )
        .unwrap();
        Self { folder, home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The daemon's command line, with an environment in which nothing of the person's is.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchfired"));
        command.args(args).env_clear().current_dir(self.folder.path());
        command.env("HOME", self.path("home")).env("WATCHFIRE_HOME", &self.home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("WATCHFIRE_LOG", "warn");
        command
    }

    /// The same for a client that starts it.
    pub(crate) fn spec(&self) -> CommandSpec {
        CommandSpec::new(env!("CARGO_BIN_EXE_watchfired"))
            .with_env("HOME", self.path("home"))
            .with_env("WATCHFIRE_HOME", &self.home)
            .with_env("PATH", std::env::var_os("PATH").unwrap_or_default())
    }

    /// Starts the daemon, and returns once it is ready.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_by(self.command(args))
    }

    /// Starts the daemon by a command that was made for it.
    pub(crate) fn start_by(&self, mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready on 127.0.0.1:"), "{line:?}");
        let file = DaemonFile::read(&self.home).unwrap().unwrap();
        Running { child, file }
    }

    /// Connects over the socket.
    pub(crate) async fn connect(&self) -> Daemon {
        Daemon::connect(&self.home).await.unwrap()
    }

    /// Makes a repository with one commit a project of the daemon.
    pub(crate) async fn project(&self, daemon: &Daemon, name: &str) -> proto::Project {
        let root = self.path(name);
        fs::create_dir_all(&root).unwrap();
        self.git(&root, &["init", "-q", "-b", "main"]);
        fs::write(root.join("a.txt"), "a\n").unwrap();
        self.git(&root, &["add", "."]);
        self.git(&root, &["commit", "-qm", "first"]);
        let request = proto::CreateProjectRequest {
            path: root.display().to_string(),
            definition: "# About\n".to_owned(),
            ..Default::default()
        };
        daemon.projects().create_project(request).await.unwrap().into_inner()
    }

    /// Adds a ready task whose agent follows a script.
    pub(crate) async fn task(
        &self,
        daemon: &Daemon,
        project: &str,
        title: &str,
        script: &str,
    ) -> proto::Task {
        let request = proto::CreateTaskRequest {
            project_id: project.to_owned(),
            title: title.to_owned(),
            prompt: format!("```watchfire-script\n{script}\n```\n"),
            status: "ready".to_owned(),
            ..Default::default()
        };
        daemon.tasks().create_task(request).await.unwrap().into_inner()
    }

    pub(crate) fn git(&self, root: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(root).env_clear();
        command.env("HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A request to start something.
pub(crate) fn start(project: &str, mode: &str, task_number: i32) -> proto::StartAgentRequest {
    proto::StartAgentRequest {
        project_id: project.to_owned(),
        mode: mode.to_owned(),
        task_number,
        ..Default::default()
    }
}

pub(crate) fn id(project: &str) -> proto::ProjectId {
    proto::ProjectId { meta: None, project_id: project.to_owned(), session_id: String::new() }
}

pub(crate) fn task_id(project: &str, task_number: i32) -> proto::TaskId {
    proto::TaskId { meta: None, project_id: project.to_owned(), task_number }
}

/// Waits until `holds` does.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}

/// Waits until a task has this state.
pub(crate) async fn until_task(daemon: &Daemon, project: &str, number: i32, state: &str) {
    until(&format!("task {number} is {state}"), || async {
        daemon.tasks().get_task(task_id(project, number)).await.unwrap().into_inner().state == state
    })
    .await;
}

/// Returns the paths of all calls, those of health and reflection too.
pub(crate) fn calls() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(watchfire_api::DESCRIPTORS).unwrap();
    let mut paths = vec![
        "/grpc.health.v1.Health/Check".to_owned(),
        "/grpc.health.v1.Health/Watch".to_owned(),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned(),
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo".to_owned(),
    ];
    for file in &set.file {
        for service in &file.service {
            let path = |method: &prost_types::MethodDescriptorProto| {
                format!("/{}.{}/{}", file.package(), service.name(), method.name())
            };
            paths.extend(service.method.iter().map(path));
        }
    }
    paths
}

/// Adds a token to requests.
#[derive(Clone, Debug)]
pub(crate) struct Bearer(pub(crate) String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.0.is_empty() {
            let value: MetadataValue<_> = format!("Bearer {}", self.0).parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Connects to the port of a daemon, with a token.
pub(crate) async fn on_port(file: &DaemonFile, token: &str) -> InterceptedService<Channel, Bearer> {
    let address = format!("http://{}:{}", file.host, file.port);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    InterceptedService::new(channel, Bearer(token.to_owned()))
}

/// Calls a path with bytes as they are, and reads its answers to the end.
pub(crate) async fn raw(channel: Channel, path: &str, bytes: Vec<u8>, token: &str) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let path = path.parse().unwrap();
    let request = Bearer(token.to_owned()).call(Request::new(()))?.map(|()| bytes);
    let mut answers = client.server_streaming(request, path, Bytes).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

/// Messages as bytes.
struct Bytes;

impl tonic::codec::Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut tonic::codec::EncodeBuf<'_>) -> Result<(), Status> {
        use prost::bytes::BufMut as _;
        to.put_slice(&item);
        Ok(())
    }
}

impl tonic::codec::Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut tonic::codec::DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        use prost::bytes::Buf as _;
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}
