//! Telling an agent something: one sender at a time, only when it is ready, never twice.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::SessionProcess;
use super::actor::Shared;
use crate::backend::Delivery;
use crate::clock::Clock;
use crate::{Error, ErrorKind, Result};

/// How far a text has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// There was nothing to say after normalising.
    Empty,
    /// The text is written, and what submits it. Whether the agent took them in shows in what it does.
    Submitted,
}

#[derive(Debug)]
pub(super) enum Input {
    /// Keystrokes, as they are.
    Keys(Vec<u8>, oneshot::Sender<Result<()>>),
    /// A text to frame and submit when the agent is ready.
    Text(String, oneshot::Sender<Result<Receipt>>),
}

/// How texts reach an agent.
pub(super) enum Manner {
    /// They are typed.
    Typed(Delivery),
    /// They are said in its protocol.
    Said(Arc<Shared>),
}

/// Carries out inputs in order until the session has ended. Texts wait until `ready` is true; keys do not, so that a
/// person can answer a dialog that keeps the agent from being ready.
pub(super) async fn run(
    process: Arc<dyn SessionProcess>,
    manner: Manner,
    clock: Arc<dyn Clock>,
    mut inputs: mpsc::Receiver<Input>,
    mut ready: watch::Receiver<bool>,
) {
    let mut waiting: VecDeque<(String, oneshot::Sender<Result<Receipt>>)> = VecDeque::new();
    loop {
        if *ready.borrow_and_update()
            && let Some((text, reply)) = waiting.pop_front()
        {
            // Whoever asked may be gone; the text is typed all the same.
            let _ = reply.send(submit(&*process, &manner, &*clock, &text).await);
            continue;
        }
        tokio::select! {
            input = inputs.recv() => match input {
                Some(Input::Keys(bytes, reply)) => {
                    let _ = reply.send(process.write(&bytes).await);
                }
                Some(Input::Text(text, reply)) => waiting.push_back((text, reply)),
                None => return,
            },
            changed = ready.changed() => if changed.is_err() { return },
        }
    }
}

async fn submit(
    process: &dyn SessionProcess,
    manner: &Manner,
    clock: &dyn Clock,
    text: &str,
) -> Result<Receipt> {
    let delivery = match manner {
        Manner::Typed(delivery) => delivery,
        Manner::Said(_) if text.trim().is_empty() => return Ok(Receipt::Empty),
        Manner::Said(shared) => {
            let lines = shared.converse(|dialogue| dialogue.say(text));
            return process.write(&lines).await.map(|()| Receipt::Submitted);
        }
    };
    let framed = delivery.frame(text);
    if framed.is_empty() {
        return Ok(Receipt::Empty);
    }
    process.write(&framed).await?;
    let settle = delivery.settle_for(text);
    if !settle.is_zero() {
        clock.sleep_until(clock.boot_time() + settle).await;
    }
    // From here on the text may have been taken in: a failure is never followed by a second try.
    process.write(delivery.submit.bytes()).await.map_err(|error| {
        Error::new(ErrorKind::NoInputChannel, "the text was written but could not be submitted")
            .with_source(error)
    })?;
    Ok(Receipt::Submitted)
}
