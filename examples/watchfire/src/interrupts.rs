//! Handles Ctrl+C, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends the program.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use watchfire_core::{Error, Result};

use crate::failure::Exit;
use crate::terminal;

/// Receiver of requests to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts(Arc<watch::Receiver<Option<SignalKind>>>);

impl Interrupts {
    /// Takes over the signals. The first Ctrl+C, SIGTERM or SIGHUP is reported here, and the second ends the program
    /// at once. Agents end with it, because their guardians notice.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| Error::io("listening for signals", error));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hang_up = listen(SignalKind::hangup())?;
        // A watch channel keeps its value, so a signal that arrives before anyone waits is not lost.
        let (tell, told) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let kind = tokio::select! {
                    _ = interrupt.recv() => SignalKind::interrupt(),
                    _ = terminate.recv() => SignalKind::terminate(),
                    _ = hang_up.recv() => SignalKind::hangup(),
                };
                if tell.send_replace(Some(kind)).is_some() {
                    // `exit` runs no destructors, so the terminal would stay as it is.
                    terminal::restore();
                    std::process::exit(i32::from(Exit::Interrupted.code()));
                }
            }
        });
        Ok(Self(Arc::new(told)))
    }

    /// Waits for the first signal.
    pub(crate) async fn first(&self) {
        let mut told = (*self.0).clone();
        if told.wait_for(Option::is_some).await.is_err() {
            // The listener has ended with the runtime, so no signal can follow.
            std::future::pending::<()>().await;
        }
    }

    /// Returns true if a signal has arrived.
    pub(crate) fn happened(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Returns true if the terminal was closed.
    pub(crate) fn hung_up(&self) -> bool {
        *self.0.borrow() == Some(SignalKind::hangup())
    }
}
