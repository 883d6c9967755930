//! Asks a person on the terminal, and reads texts from files and from standard input.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use watchfire_core::{Error, ErrorKind};

use crate::failure::{Failure, Result};

/// Largest text that is accepted, in bytes: more than any agent reads, but bounded, in case the wrong file was named.
const LIMIT: u64 = 16 << 20;

/// Asks for one line. An empty answer means `default`.
pub(crate) fn line(question: &str, default: &str) -> Result<String> {
    let shown =
        if default.is_empty() { format!("{question}: ") } else { format!("{question} [{default}]: ") };
    let mut out = stdout().lock();
    let _ = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer).map_err(|e| Error::io("reading the answer", e))?;
    // Not an empty answer: the person pressed Ctrl+D.
    if read == 0 {
        // The question stands on a line without an end.
        let _ = out.write_all(b"\n");
        let error = Error::new(ErrorKind::Cancelled, "the input has ended before the answer");
        return Err(error.with("hint", "--help shows the options that answer instead").into());
    }
    let answer = answer.trim();
    Ok(if answer.is_empty() { default.to_owned() } else { answer.to_owned() })
}

/// Asks for lines, up to two empty ones.
pub(crate) fn lines(question: &str) -> Result<String> {
    let mut out = stdout().lock();
    let _ = out
        .write_all(format!("{question} (two empty lines end it):\n").as_bytes())
        .and_then(|()| out.flush());
    let mut text = String::new();
    for line in stdin().lock().lines() {
        let line = line.map_err(|e| Error::io("reading the answer", e))?;
        // Empty lines instead of the end of the input: more questions follow.
        let line = line.trim_end();
        if line.is_empty() && (text.is_empty() || text.ends_with("\n\n")) {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    Ok(text.trim_end().to_owned())
}

/// Asks until the answer is yes or no.
pub(crate) fn yes(question: &str, default: bool) -> Result<bool> {
    loop {
        match line(&format!("{question} (y/n)"), if default { "y" } else { "n" })?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// Returns a text from the command line: the text itself, standard input for `-`, or a file.
pub(crate) fn given(text: Option<String>, file: Option<&Path>) -> Result<Option<String>> {
    match (text.as_deref(), file) {
        (Some("-"), _) => {
            // Otherwise the command would wait without a word for typed input.
            if stdin().is_terminal() {
                return Err(Failure::usage(
                    "`-` reads from a pipe, and there is none",
                    "watchfire task add … --prompt - < FILE",
                ));
            }
            read(stdin().lock(), None).map(Some)
        }
        (Some(_), _) => Ok(text),
        (None, Some(path)) => {
            let file =
                std::fs::File::open(path).map_err(|e| Error::io("opening the file", e).with_path(path))?;
            read(file, Some(path.to_path_buf())).map(Some)
        }
        (None, None) => Ok(None),
    }
}

fn read(from: impl std::io::Read, path: Option<PathBuf>) -> Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is too much, without reading all of it.
    from.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|e| Error::io("reading the text", e))?;
    let at = |error: Error| match &path {
        Some(path) => error.with_path(path),
        None => error.with("path", "standard input"),
    };
    if bytes.len() as u64 > LIMIT {
        return Err(at(Error::new(ErrorKind::InvalidInput, "the text is longer than 16 MiB")).into());
    }
    let not_text = |e| at(Error::new(ErrorKind::InvalidInput, "the text is not UTF-8").with_source(e));
    Ok(String::from_utf8(bytes).map_err(not_text)?)
}
