//! The server: finds what a request is about, asks the library, and answers.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{StreamExt as _, StreamMap};
use tonic::{Request, Response, Status};
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::model::{Project, ProjectId};
use watchfire_core::observe::{Candidate, Cursor, FollowOptions, Include, RecordKind, Target, WatchRequest};
use watchfire_core::orchestrator::{FollowSessions, ProjectHandle};
use watchfire_core::store::Versioned;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::status;
use crate::proto::observe_service_server::{ObserveService, ObserveServiceServer};
use crate::talk_proto::talk_service_server::TalkServiceServer;
use crate::{convert, proto};

/// Silence on a connection after which the other side is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Time limit for `Send` to wait for a turn, where the request has none.
const TURN: Duration = Duration::from_secs(600);
/// Time limit for a text to be typed, where nothing is waited for. A text that is not stays in line.
const TYPED: Duration = Duration::from_secs(5);
/// Upper bound for the requests under way on one connection.
const AT_ONCE: u32 = 256;

type Projects = dyn Fn() -> Vec<ProjectHandle> + Send + Sync;

/// Answers for the projects that a program has open. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Projects>);

impl Server {
    /// Returns a server for what `projects` returns at each request.
    pub fn new(projects: impl Fn() -> Vec<ProjectHandle> + Send + Sync + 'static) -> Self {
        Self(Arc::new(projects))
    }

    /// Serves the connections of `listener` until `stop` is ready. Requests under way go on, and end with their project at
    /// the latest; it returns when the last of them has ended.
    ///
    /// # Errors
    /// Errors of the listener.
    pub async fn serve(
        self,
        listener: UnixListener,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        let connections = UnixListenerStream::new(listener).filter(move |connection| {
            let peer = connection.as_ref().ok().and_then(|it| it.peer_cred().ok());
            peer.is_some_and(|peer| peer.uid() == own)
        });
        tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .max_concurrent_streams(AT_ONCE)
            .add_service(self.observe_service())
            .add_service(self.talk_service())
            .serve_with_incoming_shutdown(connections, stop)
            .await
            .map_err(io::Error::other)
    }

    /// Returns the service that watches sessions, for a server with other services.
    #[must_use]
    pub fn observe_service(&self) -> ObserveServiceServer<Self> {
        ObserveServiceServer::new(self.clone())
    }

    /// Returns the service of questions, for a server with other services.
    #[must_use]
    pub fn talk_service(&self) -> TalkServiceServer<Self> {
        TalkServiceServer::new(self.clone())
    }

    /// Returns all sessions of all projects that run, and if `ended` is set those that were.
    async fn known(&self, ended: bool) -> Result<Vec<Candidate>> {
        let mut known = Vec::new();
        for project in (self.0)() {
            known.extend(project.candidates(ended).await?);
        }
        Ok(known)
    }

    /// Returns the one session that is meant: one that runs, or else one that was.
    pub(crate) async fn one(&self, target: &Target, here: Option<&ProjectId>) -> Result<Candidate> {
        match target.resolve_one(&self.known(false).await?, here) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                target.resolve_one(&self.known(true).await?, here).cloned()
            }
            found => found.cloned(),
        }
    }

    /// Waits for the session of a task that is about to start.
    async fn started(&self, target: &Target, here: Option<&ProjectId>) -> Result<()> {
        let Target::Task { project: named, task, .. } = target else { return Ok(()) };
        for project in self.all() {
            let is_meant = match named {
                Some(name) => {
                    let is_called = |it: &Versioned<Project>| it.value.name == *name;
                    project.id().as_str() == name
                        || project.store().project().await.is_ok_and(|it| is_called(&it))
                }
                None => here.is_none_or(|here| here == project.id()),
            };
            if is_meant {
                project.started(*task).await?;
            }
        }
        Ok(())
    }

    /// Returns all projects that the program has open.
    pub(crate) fn all(&self) -> Vec<ProjectHandle> {
        (self.0)()
    }

    pub(crate) fn project(&self, id: &ProjectId) -> Result<ProjectHandle> {
        let found = (self.0)().into_iter().find(|project| project.id() == id);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "the project is closed").with("project", id))
    }

    async fn watch_one(&self, request: proto::WatchRequest) -> Result<proto::WatchResponse> {
        let here = here(&request.project_id)?;
        let session = self.one(&request.target.parse()?, here.as_ref()).await?;
        let log = self.project(&session.project)?.log_of(&session.session).await?;
        Ok(convert::watch(log.watch(&asked(&request)?).await?))
    }

    async fn send_to(&self, request: proto::SendRequest) -> Result<proto::SendResponse> {
        let (here, target) = (here(&request.project_id)?, request.target.parse::<Target>()?);
        if !request.wait_until.is_empty() && !target.is_single() {
            return Err(Error::new(ErrorKind::NotSupported, "only one session can be waited for")
                .with("target", target)
                .with("hint", "name a task, an alias or an id of a session"));
        }
        let mut sent = proto::SendResponse::default();
        let mut sending = Vec::new();
        let meant = if target.is_single() {
            vec![self.one(&target, here.as_ref()).await?]
        } else {
            target.resolve(&self.known(false).await?, here.as_ref())?.into_iter().cloned().collect()
        };
        for candidate in &meant {
            let Some(session) = self.project(&candidate.project)?.session(&candidate.session) else {
                let off = Error::new(ErrorKind::TargetOff, "the session has ended");
                return Err(off.with("session", candidate));
            };
            if request.wait_until.is_empty() {
                let text = request.text.clone();
                let limit = request.timeout_ms.map_or(TYPED, Duration::from_millis);
                // At the same time: one that is busy must not keep the others from getting the text.
                sending.push(tokio::spawn(async move { session.deliver(text, limit).await }));
                continue;
            }
            let limit = request.timeout_ms.map_or(TURN, Duration::from_millis);
            let until = format!("status:{}", request.wait_until);
            let wanted = WatchRequest::default().with_until(until).with_timeout(limit);
            let (detail, watched) = session.send_and_watch(request.text.clone(), wanted).await;
            sent.delivery.push(convert::delivery(detail));
            match watched {
                Ok(response) => sent.watch = Some(convert::watch(response)),
                Err(error) => {
                    let (code, message) = (error.code().to_owned(), error.message().to_owned());
                    sent.watch_error = Some(proto::DeliveryError { code, message });
                }
            }
        }
        for sending in sending {
            let failed = |error| Error::new(ErrorKind::Internal, "sending a text").with_source(error);
            sent.delivery.push(convert::delivery(sending.await.map_err(failed)?));
        }
        Ok(sent)
    }

    async fn follow_all(&self, request: proto::FollowRequest) -> Result<Followers> {
        let here = here(&request.project_id)?;
        let targets: Vec<Target> = request.targets.iter().map(|it| it.parse()).collect::<Result<_>>()?;
        let since: Vec<Cursor> = request.since.iter().map(|it| it.parse()).collect::<Result<_>>()?;
        let mut options = FollowOptions::default();
        if !request.kinds.is_empty() {
            options = options.with_kinds(kinds(&request.kinds)?);
        }
        if let Some(heartbeat) = request.heartbeat_ms {
            options = options.with_heartbeat(Duration::from_millis(heartbeat.max(100)));
        }
        if !since.is_empty() {
            // Of all projects: the reader was there when the newest of them began, and away after that.
            let known = self.known(true).await?;
            let is_named = |it: &&Candidate| {
                since.iter().any(|cursor| cursor.to_string().starts_with(&format!("{}:", it.session)))
            };
            if let Some(newest) = known.iter().filter(is_named).max_by_key(|it| it.started_at.unix_millis()) {
                options = options.with_begun_since(newest.started_at.clone());
            }
        }
        // Who is meant by a name is looked for in all projects at once.
        let mut single = Vec::new();
        for target in targets.iter().filter(|target| target.is_single()) {
            single.push(self.one(target, here.as_ref()).await?);
        }
        let mut followers = StreamMap::new();
        for project in (self.0)() {
            let own = single.iter().filter(|session| session.project == *project.id());
            let named = own.map(|session| Target::Named(session.session.to_string()));
            let open = targets.iter().filter(|target| !target.is_single()).cloned();
            let targets: Vec<_> = named.chain(open).collect();
            if !targets.is_empty() {
                let stream = project.follow(targets, options.clone(), &since).await?;
                followers.insert(project.id().to_string(), stream);
            }
        }
        Ok(Followers(followers))
    }
}

/// Returns the project at hand, if the request names one.
pub(crate) fn here(project: &str) -> Result<Option<ProjectId>> {
    (!project.is_empty()).then(|| project.parse()).transpose()
}

/// Returns the request that a log takes.
fn asked(request: &proto::WatchRequest) -> Result<WatchRequest> {
    let mut asked = WatchRequest::default().with_accept_current(request.accept_current);
    if !request.since.is_empty() {
        asked = asked.with_since(&request.since);
    }
    if !request.until.is_empty() {
        asked = asked.with_until(&request.until);
    }
    if !request.include.is_empty() {
        let classes = request.include.iter().map(|name| Include::from_str(name));
        asked = asked.with_include(classes.collect::<Result<Vec<_>>>()?);
    }
    if let Some(bytes) = request.tail_bytes {
        asked = asked.with_tail_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(limit) = request.timeout_ms {
        asked = asked.with_timeout(Duration::from_millis(limit));
    }
    Ok(asked)
}

fn kinds(names: &[String]) -> Result<Vec<RecordKind>> {
    let kind = |name: &String| {
        serde_json::from_value(name.as_str().into()).map_err(|_| {
            let message = "not a kind of record, expected delivery, event, issue, lifecycle, output, status or transcript";
            Error::new(ErrorKind::InvalidInput, message).with("kind", format_args!("{name:?}"))
        })
    };
    names.iter().map(kind).collect()
}

/// The records of all sessions that a request is about, as messages.
pub struct Followers(StreamMap<String, FollowSessions>);

impl Stream for Followers {
    type Item = Result<proto::FollowResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context).map(|item| {
            let (project, followed) = item?;
            Some(Ok(convert::followed(&project, followed, &SystemClock.now())))
        })
    }
}

impl fmt::Debug for Followers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Followers").field(&self.0.len()).finish()
    }
}

#[tonic::async_trait]
impl ObserveService for Server {
    type FollowStream = Followers;

    async fn list_sessions(
        &self,
        request: Request<proto::ListSessionsRequest>,
    ) -> Result<Response<proto::ListSessionsResponse>, Status> {
        let request = request.into_inner();
        let list = async {
            let here = here(&request.project_id)?;
            if !request.starting.is_empty() {
                self.started(&request.starting.parse()?, here.as_ref()).await?;
            }
            let known = self.known(request.ended).await?;
            let meant = match request.target.as_str() {
                "" => known.iter().collect(),
                target => target.parse::<Target>()?.resolve(&known, here.as_ref())?,
            };
            let wanted = meant.into_iter().filter(|it| request.ended || it.is_running);
            let running = |it: &Candidate| self.project(&it.project).ok()?.session(&it.session);
            let sessions =
                wanted.map(|it| convert::session(it, running(it).filter(|_| it.is_running).as_ref()));
            Ok(proto::ListSessionsResponse { sessions: sessions.collect() })
        };
        list.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<proto::WatchResponse>, Status> {
        let response = self.watch_one(request.into_inner()).await;
        response.map(Response::new).map_err(|error| status(&error))
    }

    async fn follow(&self, request: Request<proto::FollowRequest>) -> Result<Response<Followers>, Status> {
        let stream = self.follow_all(request.into_inner()).await;
        stream.map(Response::new).map_err(|error| status(&error))
    }

    async fn send(
        &self,
        request: Request<proto::SendRequest>,
    ) -> Result<Response<proto::SendResponse>, Status> {
        let response = self.send_to(request.into_inner()).await;
        response.map(Response::new).map_err(|error| status(&error))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
