//! A terminal that shows what it is fed on the person's own.

use std::io::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use watchfire_core::session::Session;
use watchfire_core::terminal::{Line, Size, Snapshot, Terminal};
use watchfire_term::Emulator;

/// How much output waits for a terminal that does not take it. Beyond it the screen is painted anew.
const PENDING: usize = 4 << 20;

/// What the agent wrote and the person's terminal has not yet been given.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pending: Mutex<Pending>,
    written: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    lost: bool,
}

impl Screen {
    fn push(&self, bytes: &[u8]) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.bytes.len() + bytes.len() > PENDING {
            pending.bytes.clear();
            pending.lost = true;
        } else if !pending.lost {
            pending.bytes.extend_from_slice(bytes);
        }
        self.written.notify_one();
    }

    /// Waits for output.
    pub(super) async fn written(&self) {
        self.written.notified().await;
    }

    /// Shows what has been written so far.
    pub(super) fn show(&self, session: &Session) {
        let Pending { bytes, lost } =
            std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let mut out = std::io::stdout().lock();
        let shown = if lost {
            let text = session.snapshot().text().replace('\n', "\r\n");
            out.write_all(format!("\x1b[!p\x1b[2J\x1b[H{text}").as_bytes())
        } else {
            out.write_all(&bytes)
        };
        // A terminal that is gone ends the chat by its hang-up.
        let _ = shown.and_then(|()| out.flush());
    }
}

/// A terminal that passes on every byte, in order, from the first. It answers no queries: the person's terminal does,
/// and two answers would be one too many.
#[derive(Debug)]
pub(super) struct Mirror {
    emulator: Emulator,
    screen: Arc<Screen>,
}

impl Mirror {
    pub(super) fn new(size: Size, screen: Arc<Screen>) -> Self {
        Self { emulator: Emulator::new(size), screen }
    }
}

impl Terminal for Mirror {
    fn feed(&mut self, bytes: &[u8]) {
        self.emulator.feed(bytes);
        let _ = self.emulator.take_replies();
        self.screen.push(bytes);
    }

    fn resize(&mut self, size: Size) {
        self.emulator.resize(size);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.emulator.snapshot()
    }

    fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        Terminal::scrollback(&self.emulator, range)
    }

    fn is_synchronizing(&self) -> bool {
        self.emulator.is_synchronizing()
    }
}
