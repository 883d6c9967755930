//! The way to the dispatcher.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::{ProjectShared, Subscribed};
use crate::Result;
use crate::failpoint::reached;
use crate::journal::{Cursor, State};
use crate::model::{ProjectId, SessionId};
use crate::schedule::{
    Accepted, Card, CommandId, Fact, Life, LifeId, Limits, Request, RunId, RunSummary, Schedule, StopReason,
};
use crate::session::Session;

/// The sending end of the dispatcher's inbox. Sending never waits. A message to a dispatcher that has ended is
/// dropped together with its reply channel, which the caller sees.
#[derive(Clone, Debug)]
pub(crate) struct Reports(mpsc::UnboundedSender<Message>);

impl Reports {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(crate) fn send(&self, message: Message) {
        // A caller that needs an answer sees that its reply channel is closed.
        let _ = self.0.send(message);
    }

    /// Reports a fact.
    pub(crate) fn fact(&self, project: &ProjectId, fact: Fact) {
        reached(|| format!("report {}", fact.word()));
        self.send(Message::Fact { project: project.clone(), fact: Box::new(fact), permit: None });
    }

    /// Reports a fact, and waits until its change is durable. Returns true if the effect may continue.
    pub(crate) async fn permit(&self, project: &ProjectId, fact: Fact) -> bool {
        reached(|| format!("ask {}", fact.word()));
        let (permit, permitted) = oneshot::channel();
        self.send(Message::Fact { project: project.clone(), fact: Box::new(fact), permit: Some(permit) });
        // A dropped reply means that the project is closed or its journal lost, so nothing may begin.
        permitted.await.unwrap_or(false)
    }
}

/// A message to the dispatcher.
pub(crate) enum Message {
    Open(Box<Opening>),
    Fact {
        project: ProjectId,
        fact: Box<Fact>,
        permit: Option<oneshot::Sender<bool>>,
    },
    Board {
        project: ProjectId,
        read: BoardRead,
        cards: Vec<Card>,
        limits: Limits,
        /// Receives true if the board was current.
        reply: oneshot::Sender<bool>,
    },
    Request {
        project: ProjectId,
        command: Option<CommandId>,
        request: Request,
        reply: oneshot::Sender<Result<Accepted>>,
    },
    /// Waits for the end of a run.
    AwaitRun {
        project: ProjectId,
        run: RunId,
        reply: oneshot::Sender<Arc<RunSummary>>,
    },
    /// Waits until a life has ended or waits for a person.
    AwaitLife {
        project: ProjectId,
        life: LifeId,
        reply: oneshot::Sender<Life>,
    },
    /// Waits until the session of a life runs.
    AwaitSession {
        project: ProjectId,
        life: LifeId,
        reply: oneshot::Sender<Result<Session>>,
    },
    /// Reads the schedule.
    Read {
        project: ProjectId,
        read: Box<dyn FnOnce(&Schedule) + Send>,
    },
    Subscribe {
        project: ProjectId,
        since: Option<Cursor>,
        reply: SubscribeReply,
    },
    /// Closes one project, or all. With `detach`, agents whose hosts outlive this program go on.
    Close {
        project: Option<ProjectId>,
        detach: bool,
        reply: oneshot::Sender<()>,
    },
}

pub(crate) type SubscribeReply = oneshot::Sender<Result<Subscribed>>;

/// A project that was entered and is handed to the dispatcher.
pub(crate) struct Opening {
    pub(crate) project: Arc<ProjectShared>,
    pub(crate) state: State,
    pub(crate) journal_id: String,
    pub(crate) recent: Vec<crate::journal::Entry>,
    pub(crate) reply: oneshot::Sender<Vec<(Life, Control)>>,
}

/// The moment at which a board was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoardRead {
    /// Grows with every read.
    pub(crate) number: u64,
    /// The last change of an effect by then.
    pub(crate) changes: u64,
}

/// Handle by which the dispatcher reaches the effect of a life. It stores a stop, so that one between two sessions of
/// an attempt is not lost.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    stop: Arc<watch::Sender<Option<StopReason>>>,
    session: Arc<watch::Sender<Option<Session>>>,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self { stop: Arc::new(watch::Sender::new(None)), session: Arc::new(watch::Sender::new(None)) }
    }

    /// Asks the effect to end. The latest reason holds.
    pub(crate) fn stop(&self, reason: StopReason) {
        // Stored first: a session that is set in between finds it there.
        self.stop.send_replace(Some(reason));
        if let Some(session) = self.session() {
            session.stop_because(reason);
        }
    }

    pub(crate) fn stopped(&self) -> Option<StopReason> {
        *self.stop.borrow()
    }

    /// Waits until the effect is asked to end.
    pub(crate) async fn wait_stopped(&self) -> StopReason {
        let mut stop = self.stop.subscribe();
        let reason = stop.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        // This handle owns the sender, so the wait ends with a reason.
        reason.unwrap_or(StopReason::Requested)
    }

    /// Sets the session that the effect runs now. A stop that came before is passed on to it.
    pub(crate) fn set_session(&self, session: Session) {
        // In this order: a stop that arrives between the two lines is seen by at least one side.
        self.session.send_replace(Some(session.clone()));
        if let Some(reason) = self.stopped() {
            session.stop_because(reason);
        }
    }

    /// Returns true if it runs a session that another program could take over.
    pub(crate) fn can_be_left(&self) -> bool {
        self.stopped().is_none() && self.session().is_some_and(|session| session.can_be_left())
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.session.borrow().clone()
    }

    /// Waits for this session, which the effect may still be taking over. Returns `None` once it runs another, or is over.
    pub(crate) fn awaited(&self, id: &SessionId) -> impl Future<Output = Option<Session>> + use<> {
        // Without the control itself, so that the wait ends when the effect and its owner drop theirs.
        let (mut session, id) = (self.session.subscribe(), id.clone());
        async move {
            let found = session.wait_for(Option::is_some).await.ok()?;
            found.as_ref().filter(|found| found.info().id == id).cloned()
        }
    }
}
