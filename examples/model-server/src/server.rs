//! The HTTP server: reads requests, looks up the answer in the script, and streams it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::api::{Api, Body, Reply};
use crate::{Ask, Fault, Login, Script, tool};

/// Largest number of requests that are remembered.
const REMEMBERED: usize = 10_000;

/// A running server. It ends when this value is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// An answer that was given.
#[derive(Clone, Debug)]
pub struct Said {
    /// Place of the request among [all](ModelServer::asks).
    pub ask: usize,
    /// Number of requests that had come by then: an answer that waits is given later than those to requests after its own.
    pub after: usize,
    /// Text of the answer.
    pub text: String,
    /// Name and input of the tool that it calls.
    pub call: Option<(String, Value)>,
}

#[derive(Debug)]
pub(crate) struct State {
    script: Script,
    /// Notified of every request.
    asked: tokio::sync::Notify,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    asks: Vec<Ask>,
    said: Vec<Said>,
    answers: usize,
    /// Number of failures of each turn so far, by rule and turn.
    faults: HashMap<(usize, usize), u32>,
    /// The last login. If it is set, only its access token is accepted.
    login: Option<Login>,
}

type Answer = Response<BoxBody<Bytes, io::Error>>;

impl ModelServer {
    /// Starts a server on a loopback port; 0 takes any free one. Needs a tokio runtime with io and time.
    ///
    /// # Errors
    /// If the port cannot be bound.
    pub async fn start(script: Script, port: u16) -> io::Result<Self> {
        // Loopback only: nothing outside of this machine can reach it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { script, asked: tokio::sync::Notify::new(), memory: Mutex::default() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let state = Arc::clone(&shared);
                tokio::spawn(serve_connection(TokioIo::new(stream), state));
            }
        });
        Ok(Self { address, state, task })
    }

    /// Returns the address of the server, such as `http://127.0.0.1:4242`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    #[cfg(feature = "tls")]
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Requires a login: from now on only the access token of the last login is accepted, and every renewal (a
    /// request to `/oauth/token` or `/token`) issues a new one. Returns the first login, which has to be renewed.
    pub fn require_login(&self) -> Login {
        *self.state.memory().login.insert(Login::EXPIRED)
    }

    /// Returns the last login, if one is required.
    #[must_use]
    pub fn login(&self) -> Option<Login> {
        self.state.memory().login
    }

    /// Returns the requests to a model so far, in order.
    #[must_use]
    pub fn asks(&self) -> Vec<Ask> {
        self.asks_from(0)
    }

    /// Returns the answers so far, in order. Errors are not among them.
    #[must_use]
    pub fn said(&self) -> Vec<Said> {
        self.state.memory().said.clone()
    }

    /// Returns the requests to a model after the first `skip`.
    #[must_use]
    pub fn asks_from(&self, skip: usize) -> Vec<Ask> {
        self.state.memory().asks.get(skip..).unwrap_or_default().to_vec()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers the requests on one connection.
pub(crate) async fn serve_connection<C>(connection: C, state: Arc<State>)
where
    C: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.serve(request).await) }
    });
    // A client that hangs up ends only its own connection.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(connection, service).await;
}

impl State {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let key = key(&request);
        let body = match request.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return whole(StatusCode::BAD_REQUEST, &json!({ "error": error.to_string() })),
        };
        // Before the body is parsed as JSON: a renewal may be a form.
        if path.ends_with("/oauth/token") || path == "/token" {
            return self.renew(&body);
        }
        // Some requests have no body, such as the one for the list of models.
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match Api::at(&path) {
            Some(api) => {
                let mut ask = api.read(&path, &body);
                ask.key = key;
                self.answer(api, ask).await
            }
            None => whole(StatusCode::OK, &aside(&path)),
        }
    }

    fn renew(&self, body: &[u8]) -> Answer {
        let mut memory = self.memory();
        let renewed = memory.login.and_then(|login| login.renewed(body));
        let Some((next, answer)) = renewed else {
            let error =
                json!({ "code": "refresh_token_reused", "message": "this refresh token was used already" });
            return whole(StatusCode::UNAUTHORIZED, &json!({ "error": error }));
        };
        // From here on the access token before it is rejected.
        memory.login = Some(next);
        whole(StatusCode::OK, &answer)
    }

    async fn answer(&self, api: Api, ask: Ask) -> Answer {
        let (number, place_of_ask) = {
            let mut memory = self.memory();
            // Remembered even if it is rejected below: tests look at every request.
            if memory.asks.len() < REMEMBERED {
                memory.asks.push(ask.clone());
            }
            self.asked.notify_waiters();
            memory.answers += 1;
            if memory.login.is_some_and(|login| login.access() != ask.key) {
                // In the format of the API: the agent must recognize that its token is no longer good.
                return failure(Fault::Unauthorized, api);
            }
            (memory.answers, memory.asks.len().saturating_sub(1))
        };
        let Some((rule, place, turn)) = self.script.turn(&ask) else {
            // A request without tools is one for the title of a conversation.
            let text = if ask.tools.is_empty() { "A title" } else { "Nothing is left to do." };
            return stream(api.write(&ask, &Reply { text: text.into(), call: None, number }), false);
        };
        if let Some(words) = &turn.awaits {
            self.told(words).await;
        }
        // The lock is not held here: other agents are answered meanwhile.
        tokio::time::sleep(Duration::from_millis(turn.delay_ms)).await;
        let fails = (turn.fault.is_some() || turn.cut) && {
            let mut memory = self.memory();
            let count = memory.faults.entry((rule, place)).or_default();
            // Counted for all agents together.
            *count = count.saturating_add(1);
            turn.times.is_none_or(|times| *count <= times)
        };
        if let Some(fault) = turn.fault.filter(|_| fails) {
            return failure(fault, api);
        }
        let call = tool::call(turn, &ask);
        let text = match (turn.words(&ask), &call) {
            (Some(text), _) => text,
            (None, Some(_)) => String::new(),
            (None, None) => "There is no tool for that.".into(),
        };
        {
            let call = call.as_ref().map(|call| (call.name.clone(), call.input.clone()));
            let mut memory = self.memory();
            if memory.said.len() < REMEMBERED {
                let after = memory.asks.len();
                memory.said.push(Said { ask: place_of_ask, after, text: text.clone(), call });
            }
        }
        stream(api.write(&ask, &Reply { text, call, number }), fails && turn.cut)
    }

    /// Waits until an agent has been told these words. The client that hangs up meanwhile ends the wait.
    async fn told(&self, words: &str) {
        let is_told = |ask: &Ask| ask.users.iter().chain(&ask.outputs).any(|said| said.contains(words));
        loop {
            // Before the look, so that a request in between is not missed.
            let asked = self.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if self.memory().asks.iter().any(is_told) {
                return;
            }
            asked.await;
        }
    }
}

fn key(request: &Request<Incoming>) -> String {
    // Each provider has its own place for the key.
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let query =
        request.uri().query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("key=")));
    let bearer = header("authorization").map(|value| value.strip_prefix("Bearer ").unwrap_or(value));
    bearer
        .or_else(|| header("x-api-key"))
        .or_else(|| header("x-goog-api-key"))
        .or(query)
        .unwrap_or_default()
        .to_owned()
}

/// Answers requests that are not for a model: the list of models, the number of tokens in a text, the account.
fn aside(path: &str) -> Value {
    match path {
        _ if path.ends_with("/count_tokens") => json!({ "input_tokens": 100 }),
        _ if path.ends_with(":countTokens") => json!({ "totalTokens": 100 }),
        _ if path.ends_with("/models") => {
            json!({ "object": "list", "data": [{ "id": "fake-model", "object": "model", "created": 0, "owned_by": "watchfire" }], "models": [] })
        }
        // OpenAI's answer about an account and the place where it is served.
        _ if path.ends_with("/wham/accounts/check") => {
            let account = json!({
                "id": "account", "structure": "personal", "plan_type": "pro", "is_deactivated": false,
                "is_fedramp_compliant_workspace": false, "can_access_with_session": true,
                "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT",
            });
            json!({ "accounts": [account], "account_ordering": ["account"], "default_account_id": "account" })
        }
        // Google's answer about a login and its purpose.
        "/tokeninfo" => {
            json!({ "expires_in": 3600, "scope": "https://www.googleapis.com/auth/cloud-platform" })
        }
        _ if path.ends_with("/userinfo") => json!({ "email": "agent@example.org" }),
        _ if path.ends_with(":loadCodeAssist") => {
            json!({ "currentTier": { "id": "standard-tier", "name": "Standard" }, "cloudaicompanionProject": "project" })
        }
        _ => json!({}),
    }
}

fn failure(fault: Fault, api: Api) -> Answer {
    let failure = fault.answer(api);
    let mut answer = whole(StatusCode::from_u16(failure.status).unwrap_or_default(), &failure.body);
    for (name, value) in failure.headers {
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn whole(status: StatusCode, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    answer
}

fn stream(body: Body, cut: bool) -> Answer {
    let events = match body {
        Body::Json(value) => return whole(StatusCode::OK, &value),
        Body::Events(events) => events,
    };
    // Bounded: a client that does not read holds up only its own answer.
    let (sender, receiver) = tokio::sync::mpsc::channel::<io::Result<Frame<Bytes>>>(4);
    tokio::spawn(async move {
        let kept = if cut { events.len() / 2 } else { events.len() };
        for event in events.into_iter().take(kept) {
            if sender.send(Ok(Frame::data(event.into()))).await.is_err() {
                return;
            }
        }
        if cut {
            // An error instead of an end: the connection breaks, so the client sees an incomplete answer.
            let _ = sender.send(Err(io::Error::other("cut on purpose"))).await;
        }
    });
    let frames = futures(receiver);
    let mut answer = Response::new(BoxBody::new(StreamBody::new(frames)));
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
    answer
}

/// Returns the receiving end of a channel as a stream.
fn futures<T>(mut receiver: tokio::sync::mpsc::Receiver<T>) -> impl futures_core::Stream<Item = T> {
    struct Received<F>(F);
    impl<T, F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>> + Unpin> futures_core::Stream
        for Received<F>
    {
        type Item = T;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<T>> {
            (self.0)(context)
        }
    }
    Received(move |context: &mut std::task::Context<'_>| receiver.poll_recv(context))
}
