//! Draws the screen of the scripted agent and reads its keys.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::termios::{self, OptionalActions};

/// Prints a line.
pub(super) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in text.lines() {
        // `\r` too: in raw mode a line feed alone does not return to the first column.
        write!(out, "{line}\r\n")?;
    }
    out.flush()
}

/// Sets the window title.
pub(super) fn title(text: &str) -> io::Result<()> {
    // A control character would end the sequence, and the rest would be printed.
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    let mut out = io::stdout().lock();
    write!(out, "\x1b]0;{clean}\x07")?;
    out.flush()
}

/// Clears the screen and paints `text` in a frame.
pub(super) fn paint(text: &str) -> io::Result<()> {
    let (cols, _) = size().unwrap_or((80, 24));
    let inner = usize::from(cols).saturating_sub(4).max(1);
    let bar = "─".repeat(inner + 2);
    let mut out = io::stdout().lock();
    write!(out, "\x1b[2J\x1b[H\x1b[38;5;208m╭{bar}╮\x1b[0m\r\n")?;
    for line in text.lines() {
        let shown: String = line.chars().take(inner).collect();
        write!(out, "\x1b[38;5;208m│\x1b[0m \x1b[1m{shown:<inner$}\x1b[0m \x1b[38;5;208m│\x1b[0m\r\n")?;
    }
    write!(out, "\x1b[38;5;208m╰{bar}╯\x1b[0m\r\n")?;
    out.flush()
}

/// Shows progress for `time`, or until `stop` returns true. Returns true if it was not stopped.
pub(super) fn progress(time: Duration, label: &str, stop: impl Fn() -> bool) -> io::Result<bool> {
    const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠼", "⠴", "⠦", "⠇", "⠏"];
    const STEP: Duration = Duration::from_millis(60);
    const WIDTH: u128 = 20;
    let start = Instant::now();
    let mut ended = false;
    let mut frames = SPINNER.iter().cycle();
    while !ended && start.elapsed() < time && !stop() {
        let filled = (start.elapsed().as_millis() * WIDTH / time.as_millis().max(1)).min(WIDTH);
        let bar: String = (0..WIDTH).map(|i| if i < filled { '█' } else { '░' }).collect();
        let frame = frames.next().copied().unwrap_or_default();
        let mut out = io::stdout().lock();
        write!(out, "\r\x1b[2K\x1b[36m{frame}\x1b[0m {bar} {label}")?;
        out.flush()?;
        // The lock of stdout is given back while it sleeps: the thread for signals prints too.
        drop(out);
        std::thread::sleep(STEP.min(time.saturating_sub(start.elapsed())));
        ended = start.elapsed() >= time;
    }
    let done = !stop();
    let mark = if done { "\x1b[32m✔\x1b[0m" } else { "\x1b[33m◌\x1b[0m" };
    let mut out = io::stdout().lock();
    write!(out, "\r\x1b[2K{mark} {label}\r\n")?;
    out.flush()?;
    Ok(done)
}

/// Returns the columns and rows of the terminal, if there is one.
pub(super) fn size() -> Option<(u16, u16)> {
    termios::tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_col, size.ws_row))
}

/// Reads one key press, as the bytes that arrive together. Empty at the end of the input.
pub(super) fn key() -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let saved = termios::tcgetattr(&stdin).ok();
    if let Some(saved) = &saved {
        let mut raw = saved.clone();
        raw.make_raw();
        termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
    }
    let mut bytes = [0; 32];
    // An error is returned only after the terminal has its old mode again.
    let read = stdin.lock().read(&mut bytes);
    if let Some(saved) = &saved {
        termios::tcsetattr(&stdin, OptionalActions::Now, saved)?;
    }
    Ok(bytes.get(..read?).unwrap_or_default().to_vec())
}

/// Reads one line without its end. Returns `None` at the end of the input.
pub(super) fn line() -> io::Result<Option<String>> {
    let mut text = Vec::new();
    let mut byte = [0];
    let mut stdin = io::stdin().lock();
    // Byte by byte, so that everything behind the line stays for the next reader.
    loop {
        if stdin.read(&mut byte)? == 0 {
            return Ok((!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned()));
        }
        match byte {
            [b'\n' | b'\r'] => return Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            [other] => text.push(other),
        }
    }
}
