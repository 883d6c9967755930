//! The life of the daemon: its lock, its sockets, its file, and its end.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::service::Routes;
use tonic::transport::Uri;
use tonic::transport::server::Connected;
use tonic_web::GrpcWebLayer;
use watchfire_api::daemon_proto::agent_service_server::AgentServiceServer;
use watchfire_api::daemon_proto::branch_service_server::BranchServiceServer;
use watchfire_api::daemon_proto::daemon_service_server::DaemonServiceServer;
use watchfire_api::daemon_proto::log_service_server::LogServiceServer;
use watchfire_api::daemon_proto::project_service_server::ProjectServiceServer;
use watchfire_api::daemon_proto::settings_service_server::SettingsServiceServer;
use watchfire_api::daemon_proto::task_service_server::TaskServiceServer;
use watchfire_api::work_proto::report_service_server::ReportServiceServer;
use watchfire_api::work_proto::work_service_server::WorkServiceServer;
use watchfire_api::{DESCRIPTORS, DaemonFile, Server};
use watchfire_core::files::FileLock;
use watchfire_core::{Error, ErrorKind, Result};

use crate::connections::{Clients, Entrance, bounded, on_socket};
use crate::deadline::Deadlines;
use crate::identity::Guard;
use crate::{Daemon, agents_file, attach, compose, last_client};

/// Silence on a connection after which the other side is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Upper bound for the requests under way on one connection.
const AT_ONCE: u32 = 256;
/// Upper bound for the connections to the port, and to the socket.
const CONNECTIONS: usize = 256;
/// Time limit for the projects of agents that an earlier daemon left at work, before clients are answered.
const OPENING: Duration = Duration::from_secs(5);
/// Time that clients have to take the end of their streams.
const FAREWELL: Duration = Duration::from_secs(2);

/// Options of the daemon.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The port. 0: a free one.
    pub port: u16,
    /// Origins of pages that may call, for example `http://localhost:8080`.
    pub origins: Vec<String>,
    /// End agents with the daemon, instead of leaving them at work for the next one.
    pub end_agents: bool,
    /// Address of the OpenTelemetry collector. None: that of `OTEL_EXPORTER_OTLP_ENDPOINT`, if it is set.
    #[cfg(feature = "otel")]
    pub otlp_endpoint: Option<String>,
    /// The port for other machines, if there is to be one.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::TlsOptions>,
}

impl Options {
    /// Returns the options that are not the default, as arguments of the program.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let port = (self.port > 0).then(|| ["--port".to_owned(), self.port.to_string()]);
        let origins = self.origins.iter().flat_map(|origin| ["--origin".to_owned(), origin.clone()]);
        let end_agents = self.end_agents.then(|| "--end-agents".to_owned());
        let arguments = port.into_iter().flatten().chain(origins).chain(end_agents);
        #[cfg(feature = "otel")]
        let arguments = arguments
            .chain(self.otlp_endpoint.iter().flat_map(|it| ["--otlp-endpoint".to_owned(), it.clone()]));
        #[cfg(feature = "tls")]
        let arguments = arguments.chain(self.tls.iter().flat_map(crate::TlsOptions::arguments));
        arguments.collect()
    }

    /// Returns an error if the daemon could not start with these options, before anything is started.
    ///
    /// # Errors
    /// `invalid_input` for options that do not fit together, and for an origin that is none; errors of the files that they name.
    pub fn check(&self) -> Result<()> {
        self.origins.iter().try_for_each(|origin| check_origin(origin))?;
        #[cfg(feature = "otel")]
        if let Some(endpoint) = &self.otlp_endpoint {
            crate::otel::check(endpoint)?;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.check()?;
        }
        Ok(())
    }
}

/// Says in an error of the home what would be right.
pub(crate) fn unusable(error: Error) -> Error {
    if error.kind() == ErrorKind::InvalidInput {
        return error.with("hint", "begin it at the root, for example WATCHFIRE_HOME=\"$HOME/.watchfire\"");
    }
    error.with("hint", "make the home a folder of yours, or name another in WATCHFIRE_HOME")
}

/// Returns an error for a text that no browser sends as an origin: its pages would all be refused.
fn check_origin(text: &str) -> Result<()> {
    let uri = text.parse::<Uri>().ok().filter(|_| text == text.to_lowercase());
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?.as_str())));
    match parts {
        Some((scheme, authority)) if text == format!("{scheme}://{authority}") && !text.contains('@') => Ok(()),
        _ => Err(Error::new(ErrorKind::InvalidInput, "not an origin").with("origin", text).with(
            "hint",
            "an origin is a scheme, a host and a port as browsers send them, for example http://localhost:8080",
        )),
    }
}

/// Runs the daemon of the home at `home`, until a signal or a call ends it. Calls `ready` once clients can connect.
///
/// # Errors
/// `locked` if one runs already; errors of the home, the port and the socket.
pub async fn run(home: &Path, options: Options, ready: impl FnOnce(&DaemonFile)) -> Result<()> {
    watchfire_core::files::make_private(home).map_err(unusable)?;
    let lock = home.join("daemon.lock");
    // Who can read it can hold it.
    open_private(&lock).map_err(unusable)?;
    // Before anything of another daemon is looked at or changed.
    let Some(_lock) = FileLock::try_acquire(&lock)? else {
        let mut error = Error::new(ErrorKind::Locked, "a daemon runs for this home already").with_path(home);
        if let Ok(Some(other)) = DaemonFile::read(home) {
            error = error.with("pid", other.pid);
        }
        return Err(error.with("hint", "watchfire daemon status"));
    };
    options.check()?;
    let hosted = cfg!(target_os = "linux");
    let orchestrator =
        compose::orchestrator(home).await?.automation(true).resume(true).hosted(hosted).start().await?;
    let daemon = Daemon::new(orchestrator);
    // Before a project is opened, so that nothing is missing.
    #[cfg(feature = "otel")]
    let telemetry = crate::otel::Telemetry::start(&daemon, options.otlp_endpoint.as_deref());
    let (opened, mut opening) = watch::channel(false);
    let following = tokio::spawn(follow_home(daemon.clone(), opened));
    if agents_file::names_agents(home) {
        // Whoever asks what runs is not told of them before their projects are open.
        let _ = tokio::time::timeout(OPENING, opening.wait_for(|opened| *opened)).await;
    }
    let failed = |error: io::Error| {
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let error = Error::io("listening on the loopback interface", error).with("port", options.port);
        if is_taken {
            error.with("hint", "another program has it: give another --port, or none for a free one")
        } else {
            error
        }
    };
    let port =
        TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))).await.map_err(failed)?;
    let address = port.local_addr().map_err(failed)?;
    daemon.set_address(address);
    let socket = watchfire_api::listen_as_daemon(home)
        .map_err(|error| Error::io("listening on the socket", error).with_path(home))?;
    #[cfg(feature = "tls")]
    let remote = match &options.tls {
        Some(tls) => Some(crate::tls::Remote::listen(tls).await?),
        None => None,
    };
    // Before the first connection: a signal from here on ends it in order.
    let mut signals = Signals::listen()?;
    let mut file = DaemonFile::new(address, daemon.started().clone());
    file.arguments = options.arguments();
    let clients = Clients::default();
    let missing = tokio::spawn(last_client::watch(daemon.clone(), clients.subscribe()));
    let guard = Guard::new(file.token.clone(), options.origins.clone());
    #[cfg(feature = "tls")]
    let remote = remote.map(|remote| {
        file.tls = Some(remote.address());
        let guard = Guard::for_certificate(file.token.clone(), remote.certificate(), options.origins.clone());
        tokio::spawn(serve_network(
            daemon.clone(),
            "port with TLS",
            guard,
            remote.connections(),
            clients.clone(),
        ))
    });
    let serving = tokio::spawn(serve(daemon.clone(), port, socket, guard, clients));
    file.write(home)?;
    ready(&file);
    tracing::info!(port = address.port(), pid = file.pid, "the daemon is ready");
    let writing = tokio::spawn(agents_file::keep(daemon.clone()));
    tokio::select! {
        () = daemon.ended() => {}
        () = signals.first() => daemon.end(),
    }
    tracing::info!("the daemon is ending");
    following.abort();
    missing.abort();
    // New clients do not find it any more.
    DaemonFile::remove(home)?;
    let served = async {
        // Each ends with the daemon.
        let _ = serving.await;
        #[cfg(feature = "tls")]
        if let Some(remote) = remote {
            let _ = remote.await;
        }
    };
    if tokio::time::timeout(FAREWELL, served).await.is_err() {
        tracing::warn!("clients did not close their streams in time");
    }
    // It ends with the daemon.
    let _ = writing.await;
    let ends_agents = options.end_agents || !hosted || daemon.ends_agents();
    agents_file::close(home, !ends_agents);
    let ending = async {
        match ends_agents {
            true => daemon.orchestrator().shutdown().await,
            false => daemon.orchestrator().detach().await,
        }
    };
    tokio::select! {
        () = ending => {}
        // What is not finished is found by the next start.
        () = signals.first() => tracing::warn!("ended at once by a second signal"),
    }
    #[cfg(feature = "otel")]
    if let Some(telemetry) = telemetry {
        telemetry.stop().await;
    }
    Ok(())
}

/// Opens the projects, says so in `opened`, and follows the index of the home from then on.
async fn follow_home(daemon: Daemon, opened: watch::Sender<bool>) {
    let mut changes = daemon.home().subscribe();
    loop {
        if let Err(error) = daemon.open_all().await {
            tracing::warn!("the projects cannot be read: {}", error.report());
        }
        opened.send_replace(true);
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// Serves the socket and the port until the daemon ends.
async fn serve(daemon: Daemon, port: TcpListener, socket: UnixListener, guard: Guard, clients: Clients) {
    let own = rustix::process::geteuid().as_raw();
    let connections = on_socket(daemon.home().path().to_owned(), socket).filter(move |connection| {
        let peer = connection.as_ref().ok().and_then(|it| it.peer_cred().ok());
        peer.is_some_and(|peer| peer.uid() == own)
    });
    let on_port = serve_network(daemon.clone(), "port", guard, TcpListenerStream::new(port), clients.clone());
    let connections = bounded(connections, CONNECTIONS, Entrance::Socket, clients);
    let (connections, attached) = attach::serve(daemon.clone(), connections);
    let on_socket = builder()
        .layer(Deadlines)
        .add_routes(routes(&daemon))
        .serve_with_incoming_shutdown(connections, daemon.ended());
    let (on_socket, (), _) = tokio::join!(on_socket, on_port, attached);
    tell_end("socket", on_socket);
}

/// Serves connections that need the token until the daemon ends.
async fn serve_network<C>(
    daemon: Daemon,
    place: &'static str,
    guard: Guard,
    connections: impl Stream<Item = io::Result<C>>,
    clients: Clients,
) where
    C: Connected + AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let served = builder()
        // A browser speaks HTTP/1.1 to a port without TLS.
        .accept_http1(true)
        .layer(guard)
        .layer(GrpcWebLayer::new())
        .layer(Deadlines)
        .add_routes(routes(&daemon))
        .serve_with_incoming_shutdown(
            bounded(connections, CONNECTIONS, Entrance::Port, clients),
            daemon.ended(),
        );
    tell_end(place, served.await);
}

fn tell_end(place: &str, served: std::result::Result<(), tonic::transport::Error>) {
    if let Err(error) = served {
        tracing::error!("the {place} is not served any more: {error}");
    }
}

pub(crate) fn builder() -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .max_concurrent_streams(AT_ONCE)
}

/// Returns all services.
pub(crate) fn routes(daemon: &Daemon) -> Routes {
    let observing = daemon.clone();
    let observing = Server::new(move || observing.projects());
    let (health, healthy) = tonic_health::server::health_reporter();
    drop(health);
    let mut routes = Routes::builder();
    routes
        .add_service(ProjectServiceServer::new(daemon.clone()))
        .add_service(TaskServiceServer::new(daemon.clone()))
        .add_service(AgentServiceServer::new(daemon.clone()))
        .add_service(BranchServiceServer::new(daemon.clone()))
        .add_service(LogServiceServer::new(daemon.clone()))
        .add_service(DaemonServiceServer::new(daemon.clone()))
        .add_service(SettingsServiceServer::new(daemon.clone()))
        .add_service(WorkServiceServer::new(daemon.clone()))
        .add_service(ReportServiceServer::new(daemon.clone()))
        .add_service(observing.observe_service())
        .add_service(observing.talk_service())
        .add_service(healthy);
    // grpcurl asks for `v1`, Python's grpcio-reflection for `v1alpha` alone.
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (reflection().build_v1(), reflection().build_v1alpha()) {
        (Ok(new), Ok(old)) => drop(routes.add_service(new).add_service(old)),
        (Err(error), _) | (_, Err(error)) => tracing::error!("no reflection: {error}"),
    }
    routes.routes()
}

/// The signals that end the daemon.
struct Signals(Vec<tokio::signal::unix::Signal>);

impl Signals {
    fn listen() -> Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let failed = |error| Error::io("listening for signals", error);
        Ok(Self(kinds.into_iter().map(signal).collect::<std::io::Result<_>>().map_err(failed)?))
    }

    /// Waits for the next of these signals.
    async fn first(&mut self) {
        std::future::poll_fn(|context| {
            match self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

/// Opens a file for writing at its end, and makes it for its person alone if it is not there.
fn open_private(path: &Path) -> Result<fs::File> {
    let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map_err(|error| Error::io("opening the file", error).with_path(path))
}
