//! The client.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;
use watchfire_api::proto::observe_service_client::ObserveServiceClient;
use watchfire_api::{ApiError, connect, proto, sockets};
use watchfire_core::ErrorKind;
use watchfire_core::model::{BackendName, Mode, ProjectId, TaskNumber};
use watchfire_core::observe::{Candidate, DeliveryState, RuntimeState, Target, WatchRequest};

use crate::follow::FollowAll;

/// Upper bound for an answer: a list of many thousand sessions.
pub(crate) const LARGEST: usize = 64 << 20;
/// Bytes of a stream that may be on their way: on a slow connection a screen is late by these at most. The library's own bound is 2 MiB.
pub(crate) const WINDOW: u32 = 64 << 10;
/// Time limit for a program to take a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for a program to list its sessions. The kernel takes connections for one that is suspended.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Name of the daemon's socket, in place of a project's.
const DAEMON: &str = "daemon";

/// Time limit for the session of a task to begin, where nothing else is waited for.
const BEGIN: Duration = Duration::from_secs(10);

/// The connections to all running programs of a home.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Vec<ObserveServiceClient<Channel>>,
    /// The connections of the servers, each with the project that its socket is for.
    channels: Vec<(String, Channel)>,
    /// Errors of the programs that did not answer.
    silent: Vec<ApiError>,
    here: Option<ProjectId>,
}

/// Options of [`Client::send`].
#[derive(Clone, Debug, Default)]
pub struct SendOptions {
    /// The status to wait for in the turn that the text begins.
    pub wait_until: Option<String>,
    /// Maximum time for it.
    pub timeout: Option<Duration>,
}

/// The sessions that a target means, and all sessions, each with the index of its server.
struct Meant {
    listed: Vec<(usize, proto::Session)>,
    sessions: Vec<Candidate>,
}

/// Connects to one socket.
#[derive(Clone, Debug)]
struct Connector(PathBuf);

impl Service<Uri> for Connector {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let socket = self.0.clone();
        Box::pin(async move { connect(&socket).await.map(TokioIo::new) })
    }
}

/// Connects to a socket.
pub(crate) async fn channel(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    // The name is part of every request and means nothing on a socket.
    let endpoint = Endpoint::from_static("http://watchfire.invalid");
    let endpoint = endpoint.connect_timeout(CONNECT).initial_stream_window_size(WINDOW);
    endpoint.connect_with_connector(Connector(socket.to_owned())).await
}

/// Connector that hands out one open connection.
struct Given(Option<DuplexStream>);

impl Service<Uri> for Given {
    type Response = TokioIo<DuplexStream>;
    type Error = std::io::Error;
    type Future = std::future::Ready<std::io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let given = self.0.take().map(TokioIo::new);
        std::future::ready(given.ok_or_else(|| std::io::Error::other("the connection was closed")))
    }
}

/// Speaks over a connection within this process.
pub(crate) async fn channel_over(connection: DuplexStream) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_static("http://watchfire.invalid").connect_with_connector(Given(Some(connection))).await
}

/// Connects to a socket and waits for a first answer. Returns the project that the socket is for, or `None` if nobody listens on
/// it: its program was killed, or has just ended.
async fn reach(socket: PathBuf) -> Result<Option<(String, Channel)>, ApiError> {
    let Ok(channel) = channel(&socket).await else { return Ok(None) };
    let mut server = ObserveServiceClient::new(channel.clone()).max_decoding_message_size(LARGEST);
    let asked = server.list_sessions(proto::ListSessionsRequest::default());
    match tokio::time::timeout(ANSWER, asked).await {
        Err(_) => Err(no_answer(&socket).await),
        Ok(Err(error)) if error.code() == tonic::Code::Unavailable => Ok(None),
        // Also an error is an answer, which the next call gets again.
        Ok(_) => {
            let project = socket.file_stem().map(|name| name.to_string_lossy().into_owned());
            Ok(Some((project.unwrap_or_default(), channel)))
        }
    }
}

/// Returns the error of a program that takes connections and does not answer.
pub(crate) async fn no_answer(socket: &Path) -> ApiError {
    // The kernel knows who listens, also while that program cannot say so.
    let pid = match connect(socket).await.map(|connection| connection.peer_cred()) {
        Ok(Ok(peer)) => peer.pid(),
        _ => None,
    };
    let who = pid.map_or_else(|| "a program".to_owned(), |pid| format!("the program {pid}"));
    let mut error = ApiError::new("timeout", format!("{who} does not answer on its socket"));
    error.details.insert("socket".to_owned(), socket.display().to_string());
    match pid {
        Some(pid) => {
            error.details.insert("pid".to_owned(), pid.to_string());
            error.with_hint(format!(
                "if it is suspended, `fg` in its terminal or `kill -CONT {pid}` lets it go on"
            ))
        }
        None => error.with_hint("is it suspended? `fg` in its terminal lets it go on"),
    }
}

impl Client {
    /// Connects to all programs that run with this home. `here` is the project at hand, which targets that name a task
    /// alone are about.
    ///
    /// # Errors
    /// `app_not_running` if none runs; `timeout` if none of those that run answers.
    pub async fn connect(home: &Path, here: Option<ProjectId>) -> Result<Self, ApiError> {
        let failed = |error: std::io::Error| ApiError::new("io", format!("looking for sockets: {error}"));
        let sockets = sockets(home).map_err(failed)?;
        // At the same time: several that are suspended take no longer than one.
        let reaching: Vec<_> = sockets.into_iter().map(|socket| tokio::spawn(reach(socket))).collect();
        let (mut servers, mut channels, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        for reached in reaching {
            let failed = |error| ApiError::new("internal", format!("connecting: {error}"));
            match reached.await.map_err(failed)? {
                Ok(Some((project, channel))) => {
                    channels.push((project, channel.clone()));
                    servers.push(ObserveServiceClient::new(channel).max_decoding_message_size(LARGEST));
                }
                Ok(None) => {}
                Err(error) => silent.push(error),
            }
        }
        match (servers.is_empty(), silent.first()) {
            (false, _) => Ok(Self { servers, channels, silent, here }),
            (true, Some(silent)) => Err(silent.clone()),
            (true, None) => Err(ApiError::new("app_not_running", "no agents are run with this home now")
                .with_hint("watchfire run starts them; watchfire logs shows what was")),
        }
    }

    /// Returns the project at hand.
    #[must_use]
    pub fn here(&self) -> Option<&ProjectId> {
        self.here.as_ref()
    }

    /// Returns what is wrong with the programs that took no part, because they do not answer.
    #[must_use]
    pub fn silent(&self) -> &[ApiError] {
        &self.silent
    }

    /// Returns the sessions that `target` means, or all, newest first. The session of a task that is about to begin is waited for
    /// for a while, here and below.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target`; errors of the servers.
    pub async fn sessions(
        &self,
        target: Option<&Target>,
        ended: bool,
    ) -> Result<Vec<proto::Session>, ApiError> {
        let Some(target) = target else {
            return Ok(self.listed(ended).await?.into_iter().map(|(_, it)| it).collect());
        };
        let Meant { listed, sessions } = self.meant(target, BEGIN).await?;
        let is_meant = |it: &proto::Session| sessions.iter().any(|meant| meant.session.as_str() == it.id);
        Ok(listed.into_iter().map(|(_, it)| it).filter(is_meant).collect())
    }

    /// Watches one session, and returns at once or when a condition comes true.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target`; errors of `observe::Log::watch`.
    pub async fn watch(
        &self,
        target: &Target,
        asked: WatchRequest,
    ) -> Result<proto::WatchResponse, ApiError> {
        let (now, limit) = (Instant::now(), Duration::from_millis(asked.timeout_ms));
        let begin = if asked.until.is_some() { limit } else { BEGIN };
        let (at, session) = self.one_within(target, begin).await?;
        let request = proto::WatchRequest {
            target: session,
            since: asked.since.unwrap_or_default(),
            until: asked.until.unwrap_or_default(),
            include: asked.include.iter().map(|class| class.as_str().to_owned()).collect(),
            tail_bytes: Some(u32::try_from(asked.tail_bytes).unwrap_or(u32::MAX)),
            timeout_ms: Some(millis(limit.saturating_sub(now.elapsed()))),
            accept_current: asked.accept_current,
            ..proto::WatchRequest::default()
        };
        Ok(self.server(at).watch(request).await.map_err(|status| self.failed(at, status))?.into_inner())
    }

    /// Sends a text to all sessions that `target` means.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target`; errors of the servers. That a session did not get the text is no error: its detail
    /// says so.
    pub async fn send(
        &self,
        target: &Target,
        text: &str,
        options: SendOptions,
    ) -> Result<proto::SendResponse, ApiError> {
        let wait_until = options.wait_until.unwrap_or_default();
        let timeout_ms = options.timeout.map(millis);
        if !wait_until.is_empty() && !target.is_single() {
            // The error of a target that cannot be waited for.
            target.resolve_one(&[], None)?;
        }
        let begin = options.timeout.unwrap_or(BEGIN);
        let Meant { listed, sessions } = self.meant(target, begin).await?;
        let mut sending = Vec::new();
        for session in sessions {
            let owner = listed.iter().find(|(_, it)| it.id == session.session.as_str());
            let Some((at, _)) = owner else { continue };
            let (mut server, wait_until, client) = (self.server(*at), wait_until.clone(), self.clone());
            let at = *at;
            let (target, text) = (session.session.to_string(), text.to_owned());
            let request = proto::SendRequest { target, text, wait_until, timeout_ms, ..Default::default() };
            // At the same time: one that is busy must not keep the others from getting the text.
            sending.push(tokio::spawn(async move {
                let sent = server.send(request).await.map(tonic::Response::into_inner);
                // Of several, one that has ended in between is told beside those that got the text.
                sent.unwrap_or_else(|error| proto::SendResponse {
                    delivery: vec![not_sent(&session, client.failed(at, error))],
                    ..Default::default()
                })
            }));
        }
        let mut all = proto::SendResponse::default();
        for sending in sending {
            let failed = |error| ApiError::new("internal", format!("sending a text: {error}"));
            let sent = sending.await.map_err(failed)?;
            all.delivery.extend(sent.delivery);
            (all.watch, all.watch_error) = (sent.watch, sent.watch_error);
        }
        Ok(all)
    }

    /// Follows all sessions that `targets` mean. A session goes on after its cursor in `since`.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target`; errors of `ProjectHandle::follow`.
    pub async fn follow(
        &self,
        targets: &[Target],
        since: &[String],
        kinds: &[String],
        heartbeat: Option<Duration>,
    ) -> Result<FollowAll, ApiError> {
        let open: Vec<_> = targets.iter().filter(|it| !it.is_single()).map(ToString::to_string).collect();
        let mut wanted = vec![open; self.servers.len()];
        for target in targets.iter().filter(|it| it.is_single()) {
            let (at, session) = self.one(target).await?;
            if let Some(wanted) = wanted.get_mut(at) {
                wanted.push(session);
            }
        }
        let mut streams = Vec::new();
        for (at, targets) in wanted.into_iter().enumerate().filter(|(_, targets)| !targets.is_empty()) {
            let request = proto::FollowRequest {
                targets,
                since: since.to_vec(),
                kinds: kinds.to_vec(),
                heartbeat_ms: heartbeat.map(millis),
                ..proto::FollowRequest::default()
            };
            let stream = self.server(at).follow(request).await.map_err(|status| self.failed(at, status))?;
            streams.push((at, stream.into_inner()));
        }
        Ok(FollowAll::new(self.clone(), streams))
    }

    /// Returns the index of the server of the one session that `target` means, and the session's id.
    pub(crate) async fn one(&self, target: &Target) -> Result<(usize, String), ApiError> {
        self.one_within(target, BEGIN).await
    }

    async fn one_within(&self, target: &Target, begin: Duration) -> Result<(usize, String), ApiError> {
        if !target.is_single() {
            // The error of a target that names several.
            target.resolve_one(&[], None)?;
        }
        let Meant { listed, sessions } = self.meant(target, begin).await?;
        let session = sessions.first().map(|it| it.session.to_string()).unwrap_or_default();
        let at = listed.iter().find(|(_, it)| it.id == session).map_or(0, |(at, _)| *at);
        Ok((at, session))
    }

    /// Returns the sessions that `target` means: those that run, or else, for a target for one, the one that begins within
    /// `begin`, or the last that was.
    async fn meant(&self, target: &Target, begin: Duration) -> Result<Meant, ApiError> {
        let (mut ended, mut awaited) = (false, !matches!(target, Target::Task { .. }));
        loop {
            let listed = self.listed(ended).await?;
            let known: Vec<_> = listed.iter().filter_map(|(_, it)| candidate(it)).collect();
            match target.resolve(&known, self.here.as_ref()) {
                Ok(sessions) => {
                    let sessions = sessions.into_iter().cloned().collect();
                    return Ok(Meant { listed, sessions });
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !awaited => {
                    self.started(target, begin).await?;
                    awaited = true;
                }
                Err(error) if error.kind() == ErrorKind::NotFound && target.is_single() && !ended => {
                    ended = true
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the session of a task that is about to begin.
    async fn started(&self, target: &Target, limit: Duration) -> Result<(), ApiError> {
        let project_id = self.here.as_ref().map(ToString::to_string).unwrap_or_default();
        let request =
            proto::ListSessionsRequest { starting: target.to_string(), project_id, ..Default::default() };
        let asking = async {
            for server in &self.servers {
                match server.clone().list_sessions(request.clone()).await {
                    // It ended since it took the connection.
                    Err(error) if error.code() != tonic::Code::Unavailable => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(())
        };
        let late = |_| {
            let hint = "watchfire queue shows what it waits for; watchfire wait takes a longer --timeout";
            ApiError::new("timeout", "the session of the task has not begun yet").with_hint(hint)
        };
        tokio::time::timeout(limit, asking).await.map_err(late)?
    }

    /// Returns all sessions, each with the index of its server.
    async fn listed(&self, ended: bool) -> Result<Vec<(usize, proto::Session)>, ApiError> {
        let mut listed = Vec::new();
        for (at, server) in self.servers.iter().enumerate() {
            let request = proto::ListSessionsRequest { ended, ..proto::ListSessionsRequest::default() };
            let mut server = server.clone();
            let asked = tokio::time::timeout(ANSWER, server.list_sessions(request)).await;
            let silent =
                || tonic::Status::deadline_exceeded("a program with agents does not answer any more");
            match asked.unwrap_or_else(|_| Err(silent())) {
                Ok(list) => listed.extend(list.into_inner().sessions.into_iter().map(|it| (at, it))),
                // It ended since it took the connection.
                Err(error) if error.code() == tonic::Code::Unavailable && self.servers.len() > 1 => {}
                Err(error) => return Err(self.failed(at, error)),
            }
        }
        listed.sort_by(|(_, a), (_, b)| (&b.started_at, &b.id).cmp(&(&a.started_at, &a.id)));
        Ok(listed)
    }

    /// Returns the number of servers.
    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Returns the index of the server of a project. The daemon has all that no other program has.
    pub(crate) fn serving(&self, project: &ProjectId) -> Option<usize> {
        let of = |name: &str| self.channels.iter().position(|(of, _)| of == name);
        of(project.as_str()).or_else(|| of(DAEMON))
    }

    pub(crate) fn channel(&self, at: usize) -> Channel {
        self.channels[at].1.clone()
    }

    fn server(&self, at: usize) -> ObserveServiceClient<Channel> {
        self.servers[at].clone()
    }

    /// Returns true if a server is the daemon, whose agents go on without it.
    pub(crate) fn is_daemon(&self, at: usize) -> bool {
        self.channels[at].0 == DAEMON
    }

    /// Returns the error of a call to a server.
    pub(crate) fn failed(&self, at: usize, status: tonic::Status) -> ApiError {
        let mut error = ApiError::from(status);
        if !error.is_gone() || self.is_daemon(at) {
            return error;
        }
        error.message = "the program that ran the agents has gone".to_owned();
        error.with_hint("its agents have ended with it; watchfire logs shows what they did")
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a session as targets see it, or `None` for one of a release whose words are not known.
fn candidate(session: &proto::Session) -> Option<Candidate> {
    let project = (session.project_id.parse().ok()?, session.project_name.clone());
    let mode: Mode = serde_json::from_value(session.mode.as_str().into()).ok()?;
    let backend: BackendName = session.backend.parse().ok()?;
    let (alias, started_at) = (session.alias.parse().ok(), session.started_at.parse().ok()?);
    let task = TaskNumber::new(session.task_number);
    let known = Candidate::new(session.id.parse().ok()?, alias, project, mode, backend, started_at);
    let phase = serde_json::from_value(session.phase.as_str().into()).ok();
    let known = known.with_task(task, session.labels.clone()).with_phase(phase);
    Some(known.with_running(session.running))
}

fn not_sent(session: &Candidate, error: ApiError) -> proto::DeliveryDetail {
    proto::DeliveryDetail {
        uuid: session.session.to_string(),
        name: session.alias.as_ref().map(ToString::to_string).unwrap_or_default(),
        provider: session.backend.to_string(),
        runtime_state: RuntimeState::TargetOff.as_str().to_owned(),
        delivery_state: DeliveryState::Failed.as_str().to_owned(),
        error: Some(proto::DeliveryError { code: error.code, message: error.message }),
    }
}
