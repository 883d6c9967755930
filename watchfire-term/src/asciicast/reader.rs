//! Reading.

use std::io::{BufRead, Read as _};
use std::time::Duration;

use serde_json::Value;
use watchfire_core::terminal::Size;

use super::{CastError, Event, EventKind, Header, Version};

/// Longer lines are an error, not memory.
const LONGEST_LINE: u64 = 64 << 20;

/// Reads a recording: its header at once, its events as an iterator.
#[derive(Debug)]
pub struct Reader<R: BufRead> {
    reader: R,
    header: Header,
    line: usize,
    at: Duration,
    /// It could not be read to its end.
    broken: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not that of version 2 or 3.
    pub fn new(mut reader: R) -> Result<Self, CastError> {
        let mut line = 0;
        let text = next_line(&mut reader, &mut line)?.unwrap_or_default();
        let header = header(&text).map_err(|problem| CastError::Line { line: 1, problem })?;
        Ok(Self { reader, header, line, at: Duration::ZERO, broken: false })
    }

    /// Returns the header of the recording.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn event(&mut self) -> Result<Option<Event>, CastError> {
        let Some(text) = next_line(&mut self.reader, &mut self.line)? else { return Ok(None) };
        let problem = |problem: String| CastError::Line { line: self.line, problem };
        let value: Value = serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
        let fields = value.as_array().map(Vec::as_slice);
        let Some([time, code, data, ..]) = fields else {
            return Err(problem("an event is a list of time, code and data".into()));
        };
        let time = time.as_f64().and_then(|time| Duration::try_from_secs_f64(time).ok());
        let time = time.ok_or_else(|| problem("the time must be a number of seconds from 0".into()))?;
        // Version 3 writes the time since the event before, so that events can be inserted.
        self.at = match self.header.version {
            Version::V2 => time,
            Version::V3 => self.at.saturating_add(time),
        };
        let (Some(code), Some(data)) = (code.as_str().and_then(|code| code.chars().next()), data.as_str())
        else {
            return Err(problem("code and data must be strings".into()));
        };
        let kind = match code {
            'o' => EventKind::Output(data.into()),
            'i' => EventKind::Input(data.into()),
            'm' => EventKind::Marker(data.into()),
            'r' => EventKind::Resize(size(data).ok_or_else(|| problem("a size is like 80x24".into()))?),
            'x' => EventKind::Exit(data.parse().map_err(|_| problem("a status is a whole number".into()))?),
            other => EventKind::Other(other, data.into()),
        };
        Ok(Some(Event { at: self.at, kind }))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, CastError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let next = self.event().transpose();
        // Behind a malformed line the next one may be good. A file that cannot be read would fail for ever.
        self.broken = matches!(next, Some(Err(CastError::Io(_))));
        next
    }
}

/// Reads the next line that is neither empty nor a comment.
fn next_line(reader: &mut impl BufRead, number: &mut usize) -> Result<Option<String>, CastError> {
    loop {
        let mut bytes = Vec::new();
        *number += 1;
        // A bound, because a file from elsewhere may have one line of any length.
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        let fail = |problem: &str| CastError::Line { line: *number, problem: problem.into() };
        if bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            return Err(fail("a line may have 64 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| fail("the text must be UTF-8"))?;
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            return Ok(Some(text.to_owned()));
        }
    }
}

fn header(text: &str) -> Result<Header, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let term = &value["term"];
    let (version, cols, rows) = match value["version"].as_u64() {
        Some(2) => (Version::V2, &value["width"], &value["height"]),
        // Version 3 moved the size to where the kind of terminal is.
        Some(3) => (Version::V3, &term["cols"], &term["rows"]),
        _ => return Err("the version must be 2 or 3".into()),
    };
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let (Some(cols), Some(rows)) = (number(cols), number(rows)) else {
        return Err("the size must be two whole numbers up to 65535".into());
    };
    let string = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let mut header = Header::new(Size::new(cols, rows)).with_version(version);
    header.timestamp = value["timestamp"].as_u64();
    (header.title, header.command) = (string(&value["title"]), string(&value["command"]));
    header.term = string(&term["type"]).or_else(|| string(&value["env"]["TERM"]));
    let limit = value["idle_time_limit"].as_f64();
    header.idle_time_limit = limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(header)
}

fn size(text: &str) -> Option<Size> {
    let (cols, rows) = text.split_once('x')?;
    Some(Size::new(cols.parse().ok()?, rows.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asciicast::Recorder;

    fn round_trip(version: Version) -> Vec<Event> {
        let header =
            Header::new(Size::new(80, 24)).with_version(version).with_term("xterm").with_title("a \"b\"");
        let mut recorder = Recorder::new(Vec::new(), &header).unwrap().with_input(true);
        let ms = Duration::from_millis;
        recorder.output(ms(100), "é▐".as_bytes().split_at(3).0).unwrap();
        recorder.output(ms(250), "é▐".as_bytes().split_at(3).1).unwrap();
        recorder.input(ms(300), b"\x03").unwrap();
        recorder.resize(ms(400), Size::new(10, 5)).unwrap();
        recorder.marker(ms(400), "here").unwrap();
        recorder.output(ms(350), b"\xff\x1b[m\xe2").unwrap();
        recorder.exit(ms(500), 3).unwrap();
        let file = recorder.finish().unwrap();
        let reader = Reader::new(&file[..]).unwrap();
        assert_eq!(reader.header(), &header);
        reader.map(Result::unwrap).collect()
    }

    #[test]
    fn a_file_that_cannot_be_read_on_ends() {
        struct Broken;
        impl std::io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let header = &b"{\"version\":2,\"width\":80,\"height\":24}\n"[..];
        let reader = Reader::new(std::io::BufReader::new(header.chain(Broken))).unwrap();
        assert_eq!(reader.map(|event| event.is_err()).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn what_is_written_is_read_in_both_versions() {
        let ms = Duration::from_millis;
        let event = |at, kind| Event { at: ms(at), kind };
        let mut want = vec![
            event(100, EventKind::Output("é".into())),
            event(250, EventKind::Output("▐".into())),
            event(300, EventKind::Input("\x03".into())),
            event(400, EventKind::Resize(Size::new(10, 5))),
            event(400, EventKind::Marker("here".into())),
            event(400, EventKind::Output("\u{fffd}\x1b[m".into())),
        ];
        let mut v2 = want.clone();
        v2.push(event(400, EventKind::Output("\u{fffd}".into())));
        assert_eq!(round_trip(Version::V2), v2);
        want.extend([event(500, EventKind::Exit(3)), event(500, EventKind::Output("\u{fffd}".into()))]);
        assert_eq!(round_trip(Version::V3), want);
    }

    #[test]
    fn input_is_off_by_default() {
        let mut recorder = Recorder::new(Vec::new(), &Header::new(Size::default())).unwrap();
        recorder.input(Duration::ZERO, b"secret").unwrap();
        assert!(!String::from_utf8(recorder.finish().unwrap()).unwrap().contains("secret"));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, want) in [
            ("{\"version\":1}", "line 1 of the recording: the version must be 2 or 3"),
            (
                "{\"version\":2,\"width\":80,\"height\":24}\n\n[1]",
                "line 3 of the recording: an event is a list",
            ),
            (
                "{\"version\":2,\"width\":80,\"height\":24}\n[-1,\"o\",\"\"]",
                "line 2 of the recording: the time must",
            ),
        ] {
            let error = match Reader::new(text.as_bytes()) {
                Ok(mut reader) => reader.next().unwrap().unwrap_err(),
                Err(error) => error,
            };
            assert!(error.to_string().starts_with(want), "{error}");
        }
    }
}
