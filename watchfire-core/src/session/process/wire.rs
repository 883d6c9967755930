//! The protocol between a session and its guardian.
//!
//! A message is a length, a tag and fields. The encoding is made by hand, because it carries bytes that are
//! not text and the guardian has to stay small. The guardian's first report carries the version of the
//! protocol: a helper of another release is refused before it gets an order.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::process::CommandSpec;
use crate::terminal::Size;

/// Version of the protocol. Changes with every change of a message.
pub(super) const VERSION: u64 = 4;
/// Oldest version whose sessions can be adopted.
pub(super) const OLDEST: u64 = 4;
/// Upper bound for a message. The kernel bounds a command line to a few megabytes.
const LONGEST: usize = 16 << 20;

/// An order to a guardian.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// The first order, once: the command, and which of the guardian's descriptors go on to it.
    Start {
        command: CommandSpec,
        ties: Ties,
        descriptors: Vec<i32>,
        recording: Option<RecordIn>,
        host: Option<Box<HostIn>>,
    },
    /// Send a signal to the agent's process group.
    Signal(i32),
    /// End the tree, asking first and killing after `grace`.
    Terminate { grace: Duration },
    /// Change the size of the terminal.
    Resize(Size),
    /// The orchestrator has read the output up to this offset.
    Taken(u64),
    /// The orchestrator goes and leaves the tree to its guardian.
    Leave,
    /// Close the copy of the agent's input.
    CloseInput,
    /// The queries in the output before this offset are answered.
    Answered(u64),
    /// End the tree after this time unless an orchestrator is attached, replacing an earlier limit.
    EndIn(Option<Duration>),
}

/// Place and descriptors of a session that can outlive its orchestrator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct HostIn {
    /// Private folder for the socket.
    pub(super) folder: PathBuf,
    /// True if a copy of the agent's input is passed on.
    pub(super) input: bool,
    /// The guardian's descriptors that only have to stay open.
    pub(super) kept: Vec<i32>,
    /// Time without an orchestrator after which the tree is ended.
    pub(super) alone: Duration,
    /// The first limit, as [`Order::EndIn`] gives others.
    pub(super) limit: Option<Duration>,
}

/// Place of the recording. The guardian reads the output from a descriptor of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RecordIn {
    /// Folder of the recording, which does not exist yet.
    pub(super) folder: PathBuf,
    /// Size of the terminal. A pipe has none, and beside it the other end of stderr is passed on.
    pub(super) size: Option<Size>,
}

/// The kind of an agent's streams, and the session it belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ties {
    /// Three streams, in a session of its own without a terminal.
    Streams,
    /// One stream, the terminal of a session of its own.
    Terminal,
    /// Three streams of the guardian's caller, in whose session and group it stays.
    Caller,
}

impl Ties {
    fn number(self) -> u64 {
        match self {
            Self::Streams => 0,
            Self::Terminal => 1,
            Self::Caller => 2,
        }
    }

    fn of(number: u64) -> Option<Self> {
        [Self::Streams, Self::Terminal, Self::Caller].into_iter().find(|ties| ties.number() == number)
    }
}

/// A report of a guardian.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Report {
    /// The first report: a guardian that speaks this version, or 0 for one that does not say so.
    Hello { version: u64 },
    /// The agent runs.
    Started { pid: u32, start_time: u64 },
    /// The agent could not be started; the system's error number.
    Failed { errno: i32 },
    /// The agent exited.
    Exited { code: i32 },
    /// The agent was ended by a signal.
    Signalled { signal: i32 },
    /// The output cannot be recorded, so the agent was not started; the system's error number.
    Unrecorded { errno: i32 },
    /// There can be no socket, so the agent was not started; the system's error number.
    Unhosted { errno: i32 },
    /// The agent wrote this to stderr.
    Complaint(Vec<u8>),
    /// Everything that happened before this connection was reported. The queries in the output before `answered` are
    /// answered; `input` is true as long as the agent's input is open.
    Attached { answered: u64, input: bool },
    /// The output has this length now, and is recorded up to it.
    Output { end: u64 },
    /// No process of the session is left; the last report.
    Ended,
}

impl Order {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            // The numbers of the messages are the protocol. A guardian of an earlier release may be at the other end, so
            // none is ever given another meaning.
            Self::Start { command, ties, descriptors, recording, host } => {
                out.number(1);
                out.number(ties.number());
                out.bytes(command.program().as_os_str());
                // A flag beside the bytes, because no folder and an empty path are two things.
                out.number(u64::from(command.cwd().is_some()));
                out.bytes(command.cwd().map_or(OsStr::new(""), |cwd| cwd.as_os_str()));
                out.number(command.args().len() as u64);
                for arg in command.args() {
                    out.bytes(arg);
                }
                out.number(command.env().count() as u64);
                for (name, value) in command.env() {
                    out.bytes(name);
                    out.bytes(value);
                }
                out.all_signed(descriptors);
                out.number(u64::from(recording.is_some()));
                if let Some(RecordIn { folder, size }) = recording {
                    out.bytes(folder.as_os_str());
                    out.number(u64::from(size.is_some()));
                    size.iter().for_each(|size| out.size(*size));
                }
                out.number(u64::from(host.is_some()));
                if let Some(host) = host {
                    let HostIn { folder, input, kept, alone, limit } = &**host;
                    out.bytes(folder.as_os_str());
                    out.number(u64::from(*input));
                    out.all_signed(kept);
                    out.duration(*alone);
                    out.limit(*limit);
                }
            }
            Self::Signal(signal) => {
                out.number(2);
                out.signed(*signal);
            }
            Self::Terminate { grace } => {
                out.number(3);
                out.duration(*grace);
            }
            Self::Resize(size) => {
                out.number(4);
                out.size(*size);
            }
            Self::Taken(offset) => {
                out.number(5);
                out.number(*offset);
            }
            Self::Leave => out.number(6),
            Self::CloseInput => out.number(7),
            Self::Answered(offset) => {
                out.number(8);
                out.number(*offset);
            }
            Self::EndIn(left) => {
                out.number(9);
                out.limit(*left);
            }
        }
        out.finish()
    }

    /// Decodes an order, or returns `None` for an unknown or malformed one.
    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = Reader(body);
        let order = match fields.number()? {
            1 => {
                let ties = Ties::of(fields.number()?)?;
                let mut command = CommandSpec::new(PathBuf::from(fields.bytes()?));
                let (has_cwd, cwd) = (fields.number()? != 0, fields.bytes()?);
                if has_cwd {
                    command = command.with_cwd(cwd);
                }
                for _ in 0..fields.number()? {
                    command = command.with_arg(fields.bytes()?);
                }
                for _ in 0..fields.number()? {
                    // All secret here: the guardian never shows them to a person, and does not know which
                    // are.
                    command = command.with_secret(fields.bytes()?, fields.bytes()?);
                }
                let descriptors = fields.all_signed()?;
                let mut recording = None;
                if fields.number()? != 0 {
                    let folder = PathBuf::from(fields.bytes()?);
                    let size = if fields.number()? != 0 { Some(fields.size()?) } else { None };
                    recording = Some(RecordIn { folder, size });
                }
                let mut host = None;
                if fields.number()? != 0 {
                    host = Some(Box::new(HostIn {
                        folder: fields.bytes()?.into(),
                        input: fields.number()? != 0,
                        kept: fields.all_signed()?,
                        alone: fields.duration()?,
                        limit: fields.limit()?,
                    }));
                }
                Self::Start { command, ties, descriptors, recording, host }
            }
            2 => Self::Signal(fields.signed()?),
            3 => Self::Terminate { grace: fields.duration()? },
            4 => Self::Resize(fields.size()?),
            5 => Self::Taken(fields.number()?),
            6 => Self::Leave,
            7 => Self::CloseInput,
            8 => Self::Answered(fields.number()?),
            9 => Self::EndIn(fields.limit()?),
            _ => return None,
        };
        // Bytes left over are those of another release, and mean something that would be ignored.
        fields.0.is_empty().then_some(order)
    }
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Hello { version } => {
                out.number(1);
                out.number(*version);
            }
            Self::Started { pid, start_time } => {
                out.number(2);
                out.number(u64::from(*pid));
                out.number(*start_time);
            }
            Self::Failed { errno } => {
                out.number(3);
                out.signed(*errno);
            }
            Self::Exited { code } => {
                out.number(4);
                out.signed(*code);
            }
            Self::Signalled { signal } => {
                out.number(5);
                out.signed(*signal);
            }
            Self::Ended => out.number(6),
            Self::Output { end } => {
                out.number(7);
                out.number(*end);
            }
            Self::Unrecorded { errno } => {
                out.number(8);
                out.signed(*errno);
            }
            Self::Unhosted { errno } => {
                out.number(9);
                out.signed(*errno);
            }
            Self::Complaint(bytes) => {
                out.number(10);
                out.bytes(OsStr::from_bytes(bytes));
            }
            Self::Attached { answered, input } => {
                out.number(11);
                out.number(*answered);
                out.number(u64::from(*input));
            }
        }
        out.finish()
    }

    /// Decodes a report, or returns `None` for an unknown or malformed one.
    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = Reader(body);
        let report = match fields.number()? {
            // The first release sent no version.
            1 => Self::Hello { version: fields.number().unwrap_or_default() },
            2 => Self::Started { pid: u32::try_from(fields.number()?).ok()?, start_time: fields.number()? },
            3 => Self::Failed { errno: fields.signed()? },
            4 => Self::Exited { code: fields.signed()? },
            5 => Self::Signalled { signal: fields.signed()? },
            6 => Self::Ended,
            7 => Self::Output { end: fields.number()? },
            8 => Self::Unrecorded { errno: fields.signed()? },
            9 => Self::Unhosted { errno: fields.signed()? },
            10 => Self::Complaint(fields.bytes()?.into_vec()),
            11 => Self::Attached { answered: fields.number()?, input: fields.number()? != 0 },
            _ => return None,
        };
        fields.0.is_empty().then_some(report)
    }
}

/// Buffer that cuts arriving bytes into the bodies of messages.
#[derive(Debug, Default)]
pub(super) struct Frames(VecDeque<u8>);

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Returns the next complete body, or an error if the bytes are no message.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, NotAMessage> {
        const HEADER: usize = size_of::<u32>();
        let mut header = [0; HEADER];
        if self.0.len() < HEADER {
            return Ok(None);
        }
        // Byte by byte, because a deque may wrap around within the header.
        for (to, from) in header.iter_mut().zip(&self.0) {
            *to = *from;
        }
        let length = u32::from_le_bytes(header) as usize;
        // Checked before the body is awaited: a garbled length would make the buffer grow without bound.
        if length > LONGEST {
            return Err(NotAMessage);
        }
        if self.0.len() < HEADER + length {
            return Ok(None);
        }
        let body = self.0.drain(..HEADER + length).skip(HEADER).collect();
        // A start order may hold megabytes, and no later message does.
        if self.0.is_empty() && self.0.capacity() > 4096 {
            self.0.shrink_to_fit();
        }
        Ok(Some(body))
    }
}

/// Bytes that are no message of this protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NotAMessage;

struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        // Room for the length, which is known last.
        Self(vec![0; size_of::<u32>()])
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn signed(&mut self, number: i32) {
        // Widened, so that every number on the wire is eight bytes long.
        self.0.extend_from_slice(&i64::from(number).to_le_bytes());
    }

    fn all_signed(&mut self, numbers: &[i32]) {
        self.number(numbers.len() as u64);
        numbers.iter().for_each(|number| self.signed(*number));
    }

    fn duration(&mut self, time: Duration) {
        self.number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    fn limit(&mut self, limit: Option<Duration>) {
        self.number(u64::from(limit.is_some()));
        limit.iter().for_each(|limit| self.duration(*limit));
    }

    fn size(&mut self, size: Size) {
        self.number(size.cols().into());
        self.number(size.rows().into());
    }

    fn bytes(&mut self, bytes: &OsStr) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes.as_bytes());
    }

    /// Fills in the length. The receiver refuses a message that is longer than the length can say.
    fn finish(mut self) -> Vec<u8> {
        // The header does not count itself.
        let length = self.0.len().saturating_sub(size_of::<u32>());
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        for (to, from) in self.0.iter_mut().zip(length) {
            *to = from;
        }
        self.0
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn signed(&mut self) -> Option<i32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        // A number out of range is no message of ours.
        i32::try_from(i64::from_le_bytes(*number)).ok()
    }

    fn all_signed(&mut self) -> Option<Vec<i32>> {
        (0..self.number()?).map(|_| self.signed()).collect()
    }

    fn duration(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_millis)
    }

    fn limit(&mut self) -> Option<Option<Duration>> {
        if self.number()? == 0 { Some(None) } else { self.duration().map(Some) }
    }

    fn size(&mut self) -> Option<Size> {
        let (cols, rows) = (self.number()?, self.number()?);
        Some(Size::new(u16::try_from(cols).ok()?, u16::try_from(rows).ok()?))
    }

    fn bytes(&mut self) -> Option<OsString> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> CommandSpec {
        CommandSpec::new("/bin/a b")
            .with_args([OsString::from("-x"), OsString::from_vec(vec![0xff, b'\n']), OsString::new()])
            .with_secret("KEY", "v=1")
            .with_cwd("/w")
    }

    fn start(ties: Ties, recording: Option<RecordIn>) -> Order {
        let host = recording.as_ref().map(|it| {
            Box::new(HostIn {
                folder: "/h".into(),
                input: it.size.is_none(),
                kept: vec![41],
                alone: Duration::from_secs(86_400),
                limit: it.size.map(|_| Duration::from_secs(5)),
            })
        });
        Order::Start { command: command(), ties, descriptors: vec![9, 12], recording, host }
    }

    #[test]
    fn messages_come_back_in_any_chunks() {
        let orders = [
            start(Ties::Terminal, Some(RecordIn { folder: "/r".into(), size: Some(Size::new(80, 24)) })),
            start(Ties::Streams, Some(RecordIn { folder: "/r".into(), size: None })),
            start(Ties::Caller, None),
            Order::Signal(2),
            Order::Resize(Size::new(120, 40)),
            Order::Taken(u64::MAX),
            Order::Leave,
            Order::CloseInput,
            Order::Answered(7),
            Order::EndIn(None),
            Order::EndIn(Some(Duration::from_secs(3))),
            Order::Terminate { grace: Duration::from_millis(1500) },
        ];
        let stream: Vec<u8> = orders.iter().flat_map(Order::encode).collect();
        for size in [1, 3, 64, stream.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for chunk in stream.chunks(size) {
                frames.push(chunk);
                while let Some(body) = frames.next().unwrap() {
                    seen.push(Order::decode(&body).unwrap());
                }
            }
            assert_eq!(seen, orders);
        }
    }

    #[test]
    fn reports_come_back() {
        for report in [
            Report::Hello { version: VERSION },
            Report::Started { pid: 7, start_time: u64::MAX },
            Report::Failed { errno: 2 },
            Report::Exited { code: -1 },
            Report::Signalled { signal: 9 },
            Report::Output { end: 1 << 40 },
            Report::Unrecorded { errno: 28 },
            Report::Unhosted { errno: 98 },
            Report::Complaint(vec![0, 0xff]),
            Report::Attached { answered: 9, input: true },
            Report::Ended,
        ] {
            let bytes = report.encode();
            assert_eq!(Report::decode(bytes.get(4..).unwrap()), Some(report));
        }
    }

    #[test]
    fn a_guardian_without_a_version_is_recognised() {
        assert_eq!(Report::decode(&1_u64.to_le_bytes()), Some(Report::Hello { version: 0 }));
    }

    #[test]
    fn garbage_is_refused() {
        let mut frames = Frames::default();
        frames.push(b"Usage: program [options]");
        assert_eq!(frames.next(), Err(NotAMessage));
        let whole = start(Ties::Streams, Some(RecordIn { folder: "/r".into(), size: None })).encode();
        for end in 4..whole.len() {
            assert_eq!(Order::decode(whole.get(4..end).unwrap()), None, "cut at {end}");
        }
    }
}
