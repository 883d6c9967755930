//! Parses scripts, one action per line.

use std::path::PathBuf;
use std::time::Duration;

use signal_hook::consts::signal as sig;
use watchfire_core::{Error, ErrorKind, Result};

/// Longest wait of a single action.
const LONGEST: Duration = Duration::from_secs(3600);

/// A script: its actions, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Script(pub(super) Vec<Action>);

/// One action of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Answer { question: String, path: Option<PathBuf> },
    Append { path: PathBuf, text: String },
    Chat,
    Cleared { kind: String },
    Commit { message: String },
    Crash { signal: i32 },
    Delete { path: PathBuf },
    Done,
    Exit { code: u8 },
    Fail { reason: String },
    Flood { bytes: u64 },
    Git { args: Vec<String> },
    Half,
    Hang,
    Ignore { signals: Vec<i32> },
    Issue { kind: String, text: String },
    Key,
    Line,
    Malformed,
    Orphan { path: PathBuf, lives: Duration },
    Paint { text: String },
    Question { id: String, text: String },
    Questions { text: String },
    Raw { text: String },
    Replace { path: PathBuf, old: String, new: String },
    Run { command: String },
    Say { text: String },
    Signal { name: String },
    Sleep { time: Duration },
    Title { text: String },
    Try(Box<Self>),
    Wait { path: PathBuf, within: Duration },
    Work { time: Duration, label: String },
    Write { path: PathBuf, text: String },
}

impl Action {
    /// Returns true if the action may take long and is ended by an interrupt.
    pub(super) fn waits(&self) -> bool {
        match self {
            Self::Answer { .. }
            | Self::Key
            | Self::Line
            | Self::Sleep { .. }
            | Self::Wait { .. }
            | Self::Work { .. } => true,
            Self::Try(action) => action.waits(),
            _ => false,
        }
    }
}

impl Script {
    /// Parses a script. See `docs/scripted.md` for the format.
    ///
    /// # Errors
    /// `malformed`, with the line and what was expected there.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate();
        let mut actions = Vec::new();
        while let Some((index, line)) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut heredoc = |end: &str| -> Option<String> {
                let mut body = String::new();
                for (_, line) in lines.by_ref() {
                    if line.trim() == end {
                        return Some(body);
                    }
                    body.push_str(line);
                    body.push('\n');
                }
                None
            };
            let action = Reader { rest: line, heredoc: &mut heredoc }.action().map_err(|expected| {
                Error::new(ErrorKind::Malformed, "invalid action in a script of the scripted agent")
                    .with("line", index + 1)
                    .with("action", line)
                    .with("expected", expected)
            })?;
            actions.push(action);
        }
        Ok(Self(actions))
    }

    /// Returns the text of the first fenced `watchfire-script` block in a task's prompt.
    pub(super) fn fenced(prompt: &str) -> Option<&str> {
        let start = prompt.find("```watchfire-script")?;
        let (_, body) = prompt.get(start..)?.split_once('\n')?;
        let end = body.split_inclusive('\n').take_while(|line| line.trim() != "```").map(str::len).sum();
        body.get(..end)
    }
}

/// Parser of one line.
struct Reader<'a, 'b> {
    rest: &'a str,
    heredoc: &'b mut dyn FnMut(&str) -> Option<String>,
}

type Parsed<T> = Result<T, &'static str>;

impl Reader<'_, '_> {
    fn action(mut self) -> Parsed<Action> {
        let verb = self.word().unwrap_or_default();
        let action = match verb.as_str() {
            "answer" => Action::Answer {
                question: self.word().ok_or("answer ID [PATH]")?,
                path: self.word().map(PathBuf::from),
            },
            "append" => Action::Append { path: self.path()?, text: self.text()? },
            "chat" => Action::Chat,
            "cleared" => Action::Cleared { kind: self.word().ok_or("cleared KIND")? },
            "commit" => Action::Commit { message: self.text()? },
            "crash" => {
                Action::Crash { signal: self.word().map_or(Ok(sig::SIGSEGV), |name| signal_number(&name))? }
            }
            "delete" => Action::Delete { path: self.path()? },
            "done" => Action::Done,
            "exit" => Action::Exit { code: self.number("exit CODE, from 0 to 255")? },
            "fail" => Action::Fail { reason: self.text()? },
            "flood" => Action::Flood { bytes: self.number("flood BYTES")? },
            "git" => Action::Git { args: std::iter::from_fn(|| self.word()).collect() },
            "half" => Action::Half,
            "hang" => Action::Hang,
            "ignore" => Action::Ignore {
                signals: std::iter::from_fn(|| self.word())
                    .map(|name| signal_number(&name))
                    .collect::<Parsed<_>>()?,
            },
            "issue" => Action::Issue { kind: self.word().ok_or("issue KIND TEXT")?, text: self.text()? },
            "key" => Action::Key,
            "line" => Action::Line,
            "malformed" => Action::Malformed,
            "orphan" => Action::Orphan { path: self.path()?, lives: self.seconds(Some(600.0))? },
            "paint" => Action::Paint { text: self.text()? },
            "question" => Action::Question { id: self.word().ok_or("question ID TEXT")?, text: self.text()? },
            "questions" => Action::Questions { text: self.text()? },
            "raw" => Action::Raw { text: self.text()? },
            "replace" => Action::Replace {
                path: self.path()?,
                old: self.word().ok_or("replace PATH OLD NEW")?,
                new: self.text()?,
            },
            "run" => Action::Run { command: self.text()? },
            "say" => Action::Say { text: self.text()? },
            "signal" => Action::Signal { name: self.word().ok_or("signal NAME, such as refine_done")? },
            "sleep" => Action::Sleep { time: self.seconds(None)? },
            "title" => Action::Title { text: self.text()? },
            "try" => return self.action().map(|action| Action::Try(Box::new(action))),
            "wait" => Action::Wait { path: self.path()?, within: self.seconds(Some(60.0))? },
            "work" => Action::Work { time: self.seconds(None)?, label: self.text()? },
            "write" => Action::Write { path: self.path()?, text: self.text()? },
            _ => return Err("a verb of docs/scripted.md"),
        };
        // Left-over words mean that the line was meant to do something else.
        if self.rest.trim().is_empty() { Ok(action) } else { Err("nothing after the action") }
    }

    /// Returns the next word: bare, or in double quotes with `\n`, `\t`, `\r`, `\e`, `\"` and `\\`.
    fn word(&mut self) -> Option<String> {
        let rest = self.rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, tail) = unquote(quoted)?;
            self.rest = tail;
            return Some(text);
        }
        let (word, tail) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        self.rest = tail;
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Parses the rest: a quoted text, the lines up to END after `<<END`, or the rest of the line as it is.
    fn text(&mut self) -> Parsed<String> {
        let rest = self.rest.trim_start();
        if rest.starts_with('"') {
            return self.word().ok_or("a closing quote");
        }
        self.rest = "";
        match rest.strip_prefix("<<") {
            Some(end) if !end.trim().is_empty() => {
                (self.heredoc)(end.trim()).ok_or("a line that holds only the word after <<")
            }
            _ => Ok(rest.to_owned()),
        }
    }

    fn path(&mut self) -> Parsed<PathBuf> {
        self.word().map(PathBuf::from).ok_or("a path")
    }

    fn number<T: std::str::FromStr>(&mut self, expected: &'static str) -> Parsed<T> {
        // `_` groups digits, as in `flood 1_000_000`.
        self.word().and_then(|word| word.replace('_', "").parse().ok()).ok_or(expected)
    }

    fn seconds(&mut self, default: Option<f64>) -> Parsed<Duration> {
        let seconds = match (self.word(), default) {
            (Some(word), _) => word.parse().map_err(|_| "a number of seconds")?,
            (None, Some(default)) => default,
            (None, None) => return Err("a number of seconds"),
        };
        // It rejects negative numbers and NaN, which `parse` accepts.
        Duration::try_from_secs_f64(seconds)
            .map(|time| time.min(LONGEST))
            .map_err(|_| "a number of seconds, zero or more")
    }
}

fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((text, chars.as_str())),
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'e' => '\x1b',
                other => other,
            }),
            other => text.push(other),
        }
    }
}

fn signal_number(name: &str) -> Parsed<i32> {
    Ok(match name.to_ascii_uppercase().trim_start_matches("SIG") {
        "ABRT" => sig::SIGABRT,
        "HUP" => sig::SIGHUP,
        "INT" => sig::SIGINT,
        "KILL" => sig::SIGKILL,
        "PIPE" => sig::SIGPIPE,
        "SEGV" => sig::SIGSEGV,
        "TERM" => sig::SIGTERM,
        _ => return Err("ABRT, HUP, INT, KILL, PIPE, SEGV or TERM"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Action {
        Script::parse(line).unwrap().0.remove(0)
    }

    #[test]
    fn reads_words_quotes_and_heredocs() {
        let script = Script::parse(
            "# a comment\n\nwrite \"a b.txt\" <<END\n  one\ntwo\nEND\nsay hello  world\ntry delete x\n",
        )
        .unwrap();
        assert_eq!(
            script.0,
            [
                Action::Write { path: "a b.txt".into(), text: "  one\ntwo\n".into() },
                Action::Say { text: "hello  world".into() },
                Action::Try(Box::new(Action::Delete { path: "x".into() })),
            ]
        );
        assert_eq!(
            one(r#"replace f "a \"b\"" "c\n""#),
            Action::Replace { path: "f".into(), old: "a \"b\"".into(), new: "c\n".into() }
        );
        assert_eq!(one("sleep 0.25"), Action::Sleep { time: Duration::from_millis(250) });
        assert_eq!(one("ignore TERM sigint"), Action::Ignore { signals: vec![sig::SIGTERM, sig::SIGINT] });
        assert_eq!(one("flood 1_000"), Action::Flood { bytes: 1000 });
    }

    #[test]
    fn refuses_with_line_and_expectation() {
        for (text, line, expected) in [
            ("say a\nfly", "2", "a verb"),
            ("exit 300", "1", "from 0 to 255"),
            ("sleep -1", "1", "zero or more"),
            ("sleep", "1", "seconds"),
            ("sleep NaN", "1", "zero or more"),
            ("done now", "1", "nothing after"),
            ("write f <<END\nx", "1", "a line that holds only"),
            ("say \"open", "1", "closing quote"),
            ("ignore USR9", "1", "TERM"),
            ("write", "1", "a path"),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert_eq!(error.detail("line"), Some(line), "{text}");
            assert!(error.detail("expected").unwrap().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn finds_the_block_in_a_prompt() {
        let prompt = "Do it.\n```watchfire-script\nsay hi\ndone\n```\nThanks.\n";
        assert_eq!(Script::fenced(prompt), Some("say hi\ndone\n"));
        assert_eq!(Script::fenced("```watchfire-script\nsay hi"), Some("say hi"));
        assert_eq!(Script::fenced("```sh\nsay hi\n```"), None);
    }
}
