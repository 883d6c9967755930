//! Calls of an agent: what it asks its session for, and gets a reply to.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::backend::Source;
use crate::endpoint::{AgentCall, Signal, Spool, SpoolLimits, envelope};
use crate::inquiry::Inquiry;
use crate::model::Question;
use crate::observe::Body;
use crate::session::handle::Session;
use crate::session::state::{Completion, Shared};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the calls of one session that are under way.
pub(in crate::session) const AT_ONCE: usize = 64;

/// The place that carries out the calls of agents. The session that calls is known by its folder.
#[async_trait]
pub(crate) trait Desk: Send + Sync {
    /// Carries out a call and returns its result. Returns `None` if the session ended while the call waited: the
    /// program that takes the session over carries it out again.
    async fn call(&self, session: &Session, call: &AgentCall) -> Result<Option<Reply>>;
}

/// The result of a call.
pub(crate) struct Reply {
    pub(crate) result: Value,
    /// Runs once the agent has the reply. Without one that arrives it is dropped, and nothing counts as given.
    pub(crate) after: Option<After>,
}

type After = Pin<Box<dyn Future<Output = ()> + Send>>;

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Self { result, after: None }
    }
}

/// Carries out the calls of one session, each in a task of its own: some wait for minutes.
pub(in crate::session) struct Calls {
    desk: Option<Arc<dyn Desk>>,
    under_way: Arc<Semaphore>,
}

impl Calls {
    pub(in crate::session) fn new(desk: Option<Arc<dyn Desk>>) -> Self {
        Self { desk, under_way: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Carries out a call, and returns the envelope of its reply, with what follows once it has arrived. Returns `None` if the
    /// session ended while the call waited.
    pub(in crate::session) async fn answer(
        &self,
        session: &Session,
        call: &AgentCall,
    ) -> Option<(Value, Option<After>)> {
        let result = match (Arc::clone(&self.under_way).try_acquire_owned(), &self.desk) {
            (Err(_), _) => {
                let error = Error::new(ErrorKind::Busy, "too many calls are under way");
                Err(error.with("limit", AT_ONCE))
            }
            (Ok(_), None) => Err(Error::new(ErrorKind::NotSupported, "nobody takes calls of this session")),
            (Ok(_permit), Some(desk)) => desk.call(session, call).await,
        };
        result.transpose().map(|reply| match reply {
            Ok(Reply { result, after }) => (envelope(&Ok(result)), after),
            Err(error) => (envelope(&Err(error)), None),
        })
    }

    /// Carries out a call that came by the spool.
    pub(in crate::session) fn take(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        spool: &Arc<Spool>,
        call: AgentCall,
    ) {
        let (session, spool, calls) = (Session(Arc::clone(shared)), Arc::clone(spool), Arc::clone(self));
        tokio::spawn(async move {
            let Some((reply, after)) = calls.answer(&session, &call).await else { return };
            let put = tokio::task::spawn_blocking(move || spool.reply(&call, &reply)).await;
            match (put, after) {
                (Ok(Ok(())), Some(after)) => after.await,
                (Ok(Err(error)), _) if !session.has_ended() => {
                    session.0.remark(format!("replying to the agent: {}", error.report()));
                }
                _ => {}
            }
        });
    }
}

impl Session {
    /// Passes a question to the person, and returns its id, which is the id of the call.
    pub(crate) fn ask_person(&self, call: &str, text: &str) -> Result<String> {
        if text.trim().is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the text is empty"));
        }
        self.0.ask(vec![Question::new(call, text)], Source::Hook);
        Ok(call.to_owned())
    }

    /// Puts a file into the agent's inbox, and returns its path.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) async fn put_in_inbox(&self, name: String, bytes: Vec<u8>) -> Result<PathBuf> {
        let folder = self.0.files.clone();
        let path = folder.join("inbox").join(&name);
        let put = move || Spool::open(&folder, SpoolLimits::default())?.put(&name, &bytes);
        let failed = |error| Error::new(ErrorKind::Internal, "putting a file").with_source(error);
        tokio::task::spawn_blocking(put).await.map_err(failed)??;
        Ok(path)
    }

    /// Makes the agent's claim in its place: done, or failed for a reason.
    ///
    /// # Errors
    /// `not_supported` for a session whose work has no end, such as a chat; I/O errors.
    pub(crate) async fn finish(&self, success: bool, reason: Option<String>) -> Result<()> {
        let shared = &self.0;
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let done = Signal::Done { result: reason.clone().map(Value::String) };
        let mut files = Vec::new();
        match (&shared.completion, success) {
            (Completion::Never, _) => {
                return Err(Error::new(ErrorKind::NotSupported, "a conversation has no end to report"));
            }
            (Completion::SignalFile(path), true) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                files.push((name.unwrap_or_default(), Vec::new()));
            }
            (Completion::TaskFile(_), true) => files.push(("signal.json".to_owned(), self.signal(&done))),
            (_, false) => {
                let error = reason.unwrap_or_else(|| "the agent did not say what".to_owned());
                files.push(("signal.json".to_owned(), self.signal(&Signal::Error { error })));
            }
        }
        let folder = shared.files.clone();
        let put = move || {
            let spool = Spool::open(&folder, SpoolLimits::default())?;
            files.iter().try_for_each(|(name, bytes)| spool.put_own(name, bytes))
        };
        let failed = |error| Error::new(ErrorKind::Internal, "making the claim").with_source(error);
        tokio::task::spawn_blocking(put).await.map_err(failed)?
    }

    /// Returns a signal as its file has it, with the session's name in it.
    fn signal(&self, signal: &Signal) -> Vec<u8> {
        let mut value = signal.to_json();
        if let Some(object) = value.as_object_mut() {
            object.insert("session".to_owned(), self.info().id.as_str().into());
        }
        value.to_string().into_bytes()
    }

    /// Returns true if texts reach the agent while it runs.
    pub(crate) fn takes_texts(&self) -> bool {
        self.0.can_type
    }

    /// Waits until the agent is ready for a text.
    pub(crate) async fn ready(&self) {
        drop(self.0.ready.subscribe().wait_for(|ready| *ready).await);
    }

    /// Records an inquiry of the session, or to it, without its words.
    pub(crate) fn record_inquiry(&self, inquiry: &Inquiry) {
        let Inquiry { id, from, to, state, .. } = inquiry;
        let payload = json!({
            "id": id, "from": from.to_string(), "to": to.to_string(), "state": state.as_str(),
        });
        self.0.log.push(Source::Process, Body::Event { name: "inquiry".to_owned(), payload });
    }

    /// Records a message for the person.
    pub(crate) fn remark(&self, text: impl Into<String>) {
        self.0.remark(text);
    }
}
