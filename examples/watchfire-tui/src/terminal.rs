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

use crate::model::Model;
use crate::selection::Selection;
use crate::view::view;

/// True while the terminal is ours.
static OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while it is ours. It is put back when this is dropped, and before the message of a panic.
#[derive(Debug)]
pub(crate) struct Screen(Terminal<CrosstermBackend<Stdout>>);

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
        made.map(Self)
    }

    /// Draws a model, as one update, so that no half of it is seen.
    pub(crate) fn draw(&mut self, model: &Model) -> std::io::Result<()> {
        queue!(self.0.backend_mut(), BeginSynchronizedUpdate)?;
        let drawn = self.0.draw(|frame| view(model, frame)).map(drop);
        // Also after an error: a terminal shows nothing else before the end.
        execute!(self.0.backend_mut(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Puts the text that a model selects into the clipboard.
    pub(crate) fn copy(&mut self, model: &Model, selected: Selection) -> std::io::Result<()> {
        // Drawn once more: what is on the screen may be older than the selection.
        let drawn = self.0.draw(|frame| view(model, frame))?;
        let text = selected.text(model.areas().terminal, drawn.buffer);
        execute!(self.0.backend_mut(), CopyToClipboard::to_clipboard_from(text))
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
