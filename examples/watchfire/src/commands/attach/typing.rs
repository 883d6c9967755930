//! The way of keys to an agent: one call for as long as its terminal is attached, so that a key is a message and no call of its own.

use std::pin::Pin;

use tokio::sync::mpsc::{self, OwnedPermit, Sender};
use tokio_stream::wrappers::ReceiverStream;
use watchfire_client::Daemon;
use watchfire_client::work_proto::SendKeysRequest;

/// The call, if one is under way. It begins with the first key and ends with the session, whose end is seen on its screen.
#[derive(Default)]
pub(super) struct Typing(Option<Call>);

struct Call {
    keys: Sender<SendKeysRequest>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Typing {
    /// Waits for room for a message to the agent. It never comes while the agent reads nothing.
    pub(super) async fn room(&mut self, daemon: &Daemon) -> OwnedPermit<SendKeysRequest> {
        loop {
            let call = self.0.get_or_insert_with(|| Call::begin(daemon));
            tokio::select! {
                () = &mut call.ended => self.0 = None,
                room = call.keys.clone().reserve_owned() => match room {
                    Ok(room) => return room,
                    Err(_) => self.0 = None,
                },
            }
        }
    }

    /// Goes on with the call while there is nothing to send. Never returns.
    pub(super) async fn wait(&mut self) {
        if let Some(call) = &mut self.0 {
            (&mut call.ended).await;
            self.0 = None;
        }
        std::future::pending().await
    }

    /// Waits until the agent has taken what was sent.
    pub(super) async fn finish(&mut self) {
        if let Some(Call { keys, ended }) = self.0.take() {
            drop(keys);
            ended.await;
        }
    }
}

impl Call {
    fn begin(daemon: &Daemon) -> Self {
        // One message waits, so that the daemon's pace is ours.
        let (keys, sent) = mpsc::channel(1);
        let mut work = daemon.work();
        let ended = async move {
            let _ = work.send_keys(ReceiverStream::new(sent)).await;
        };
        Self { keys, ended: Box::pin(ended) }
    }
}
