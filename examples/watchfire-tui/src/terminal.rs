//! The person's terminal: taken over, and put back as it was, whatever ends the program.

use std::io::{Stdout, Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::model::Model;
use crate::selection::Selection;
use crate::view::view;

/// True while the terminal is ours.
static OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while it is ours. It is put back when this is dropped, and before the message of a panic.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// What was drawn last.
    shown: Buffer,
}

impl Screen {
    pub(crate) fn take() -> std::io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        OURS.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        let taken =
            execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, cursor::Hide);
        let made = taken.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        if made.is_err() {
            restore();
        }
        Ok(Self { terminal: made?, shown: Buffer::default() })
    }

    /// Draws a model, as one update, so that no half of it is seen.
    pub(crate) fn draw(&mut self, model: &Model) -> std::io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let drawn = self.terminal.draw(|frame| view(model, frame)).map(|drawn| drawn.buffer.clone());
        // Also after an error: a terminal shows nothing else before the end.
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.shown = drawn?;
        Ok(())
    }

    /// Puts text that is shown into the clipboard.
    pub(crate) fn copy(&mut self, selected: Selection, area: Rect) -> std::io::Result<()> {
        let text = selected.text(area, &self.shown);
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back. Does nothing if it is not ours.
pub(crate) fn restore() {
    if !OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    // Failures are ignored: they mean that the terminal is gone.
    let _ = execute!(
        stdout(),
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}
