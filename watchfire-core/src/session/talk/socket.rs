//! Calls that an agent makes by its session's socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::desk::{AT_ONCE, Calls};
use crate::endpoint::{CallSocket, LONGEST_CALL};
use crate::session::Session;
use crate::session::state::Shared;

/// Time within which a connection must have made its call, and within which it must take the reply.
const PROMPT: Duration = Duration::from_secs(5);
/// Upper bound for open connections: more than calls, so that one too many is told that it is.
const CONNECTIONS: usize = AT_ONCE + 8;

/// Serves the socket until the session is `over`.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    calls: Arc<Calls>,
    folder: PathBuf,
    mut over: watch::Receiver<bool>,
) {
    let made = tokio::task::spawn_blocking(move || CallSocket::listen(&folder)).await;
    let listening = match made {
        Ok(Ok(mut socket)) => socket.take().map(|listener| (Arc::new(socket), listener)),
        Ok(Err(error)) => return tracing::debug!("calls go by the spool: {}", error.report()),
        Err(_) => return,
    };
    let Some((socket, Ok(listener))) = listening.map(|(socket, it)| (socket, UnixListener::from_std(it)))
    else {
        return;
    };
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropped with the session, and with it all connections.
    let mut open = JoinSet::new();
    loop {
        // Before accepting, so that a flood waits in the kernel.
        let place = tokio::select! {
            Ok(place) = Arc::clone(&room).acquire_owned() => place,
            _ = over.wait_for(|over| *over) => return,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = over.wait_for(|over| *over) => return,
        };
        while open.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let (session, socket, calls) =
                    (Session(Arc::clone(&shared)), Arc::clone(&socket), Arc::clone(&calls));
                open.spawn(async move {
                    // Whoever made it reads the reply, or goes by the spool.
                    let _ = serve(stream, &session, &socket, &calls).await;
                    drop(place);
                });
            }
            // Such as too many open files.
            Err(_) => tokio::time::sleep(PROMPT).await,
        }
    }
}

async fn serve(mut stream: UnixStream, session: &Session, socket: &CallSocket, calls: &Calls) -> Option<()> {
    let (reading, mut writing) = stream.split();
    let mut reading = BufReader::new(reading.take(LONGEST_CALL));
    let mut line = Vec::new();
    timeout(PROMPT, reading.read_until(b'\n', &mut line)).await.ok()?.ok()?;
    let call = socket.parse(&line)?;
    let (reply, after) = tokio::select! {
        reply = calls.answer(session, &call) => reply?,
        // An agent that was interrupted: nothing must be given to nobody.
        _ = reading.read_u8() => return None,
    };
    timeout(PROMPT, writing.write_all(format!("{reply}\n").as_bytes())).await.ok()?.ok()?;
    if let Some(after) = after {
        after.await;
    }
    Some(())
}
