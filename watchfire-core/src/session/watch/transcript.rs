//! Reading an agent's transcript while it grows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{Backend, Fact, Observation, SessionContext, Source, Transcript, TranscriptFormat};
use crate::clock::Clock;
use crate::files::{open_untrusted, read_untrusted};
use crate::session::process::splitter::Splitter;
use crate::session::state::Shared;
use crate::session::state::reading::Reading;
use crate::{Error, Result};

/// Pause before reading, in which the agent may write more.
const QUIET: Duration = Duration::from_millis(250);
/// Delays of further reads after the agent's last activity: vendors write transcripts late.
const LATE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];
/// Polling interval for a known file once these delays have passed.
const POLL: Duration = Duration::from_secs(10);
/// Upper bound for the bytes of one read.
const PORTION: u64 = 8 << 20;
/// Upper bound for the size of a transcript that is read whole.
const WHOLE: u64 = 64 << 20;

/// Content of interest in a transcript, beside its tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) enum ReadFor {
    /// Its messages, and all facts in them.
    Everything,
    /// Its issues. A conversation has reported the rest already, but some agents write their errors only as words.
    Issues,
    /// Its id. A stream reports everything else.
    Tokens,
}

/// Follows the transcript until the session is `over`, and reads it once more after that.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    context: Arc<SessionContext>,
    read_for: ReadFor,
    restored: BTreeMap<PathBuf, u64>,
    clock: Arc<dyn Clock>,
    over: watch::Receiver<bool>,
) {
    follow(Arc::clone(&shared), backend, context, read_for, restored, clock, over).await;
    shared.reading.send_replace(Reading::Over);
}

async fn follow(
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    mut context: Arc<SessionContext>,
    read_for: ReadFor,
    restored: BTreeMap<PathBuf, u64>,
    clock: Arc<dyn Clock>,
    mut over: watch::Receiver<bool>,
) {
    let sleep = |time| clock.sleep_until(clock.boot_time() + time);
    let mut tail = Tail { restored, at: None };
    let mut reported = None;
    let mut is_behind = shared.is_taken;
    let mut quiet = 0;
    loop {
        // Read before the file, so that the read after the end really comes after it.
        let last = *over.borrow_and_update();
        if !last {
            let late = LATE.get(quiet).copied();
            let mut pause = QUIET;
            tokio::select! {
                () = shared.read_now.notified() => (quiet, pause) = (0, Duration::ZERO),
                () = shared.stirred.notified() => quiet = 0,
                () = sleep(late.unwrap_or(POLL)) => {
                    quiet += 1;
                    // A backend is called on a thread. A quiet session costs one system call instead.
                    if late.is_none() && !tail.has_changed() {
                        continue;
                    }
                }
                // Not a return: the last lines have to be read first.
                _ = over.changed() => continue,
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = over.changed() => continue,
            }
        }
        loop {
            // A session may get its id late, or another one: some vendors open a second session beside the
            // requested one.
            let id = shared.vendor_session();
            if context.vendor_session != id {
                Arc::make_mut(&mut context).vendor_session = id;
            }
            let (read_by, about) = (Arc::clone(&backend), Arc::clone(&context));
            let reading = tokio::task::spawn_blocking(move || {
                let read = tail.read(&*read_by, &about, last);
                (tail, read)
            });
            let (back, read) = match reading.await {
                Ok(done) => done,
                // A foreign backend that panicked is not called again.
                Err(error) => return shared.remark(format!("reading the transcript: {error}")),
            };
            tail = back;
            match read {
                Ok(read) => {
                    take_in_before(&shared, &*backend, &read);
                    take_in(&shared, &*backend, &read.lines, read_for);
                    if !read.more {
                        if tail.at.is_some() {
                            shared.log.caught_up();
                            if std::mem::take(&mut is_behind) {
                                shared.close_turn();
                            }
                        }
                        break;
                    }
                }
                Err(error) => {
                    let problem = error.report();
                    if reported.as_ref() != Some(&problem) {
                        shared.remark(format!("reading the transcript: {problem}"));
                        reported = Some(problem);
                    }
                    break;
                }
            }
        }
        if last {
            return;
        }
        let is_there = read_for == ReadFor::Everything && tail.at.is_some();
        shared.reading.send_replace(if is_there { Reading::Messages } else { Reading::Nothing });
    }
}

/// Takes in the lines that the transcript of a resumed session already held. Only their counts matter: they are not
/// news of this session.
fn take_in_before(shared: &Shared, backend: &dyn Backend, read: &Portion) {
    let messages = read.before.iter().flat_map(|line| backend.normalize(line));
    messages.for_each(|message| shared.tallies().add_before(&message, read.followed));
}

fn take_in(shared: &Shared, backend: &dyn Backend, lines: &[String], read_for: ReadFor) {
    let mut facts = Vec::new();
    for line in lines {
        for message in backend.normalize(line) {
            shared.take_in(&message, Source::Transcript);
            if read_for == ReadFor::Everything {
                shared.say(message, Source::Transcript);
            }
        }
        let counts = |fact: &Fact| match read_for {
            ReadFor::Everything => true,
            ReadFor::Issues => matches!(fact, Fact::Issue(_)),
            ReadFor::Tokens => matches!(fact, Fact::VendorSession(_)),
        };
        facts.extend(backend.interpret(&Observation::Transcript(line)).into_iter().filter(counts));
    }
    shared.log.read_turns(facts.iter().filter(|fact| **fact == Fact::TurnCompleted).count());
    shared.learn(facts, Source::Transcript);
}

/// Position in the file that is being read.
#[derive(Debug, Default)]
struct Tail {
    at: Option<Place>,
    /// Files that were there before the agent started, with their lengths, until its transcript is found.
    restored: BTreeMap<PathBuf, u64>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    inode: u64,
    offset: u64,
    splitter: Splitter,
}

/// Lines from one read.
#[derive(Debug, Default)]
struct Portion {
    /// Lines, or the whole content, from before the agent started.
    before: Vec<String>,
    /// True if what comes later follows in the same file.
    followed: bool,
    lines: Vec<String>,
    more: bool,
}

impl Tail {
    /// Returns true if the file is known and has changed since it was read.
    fn has_changed(&self) -> bool {
        let changed = |place: &Place| {
            let about = std::fs::symlink_metadata(&place.path);
            !about.is_ok_and(|about| about.ino() == place.inode && about.len() == place.offset)
        };
        self.at.as_ref().is_some_and(changed)
    }

    /// Returns the new lines; at the end of the session, the content of a file that does not consist of lines.
    fn read(&mut self, backend: &dyn Backend, context: &SessionContext, last: bool) -> Result<Portion> {
        // Asked each time: a vendor may begin another file during a session.
        let Some(Transcript { path, format }) = backend.transcript(context) else {
            return Ok(Portion::default());
        };
        if format == TranscriptFormat::Whole {
            let read = || -> Result<Vec<String>> {
                let whole = read_untrusted(&path, WHOLE)?;
                Ok(whole.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).into_iter().collect())
            };
            let restored = std::mem::take(&mut self.restored);
            let before = if restored.contains_key(&path) { read()? } else { Vec::new() };
            let lines = if last { read()? } else { Vec::new() };
            return Ok(Portion { before, lines, ..Portion::default() });
        }
        // The agent owns the file. It may be a link to a secret, or a FIFO that blocks for ever.
        let Some(mut file) = open_untrusted(&path)? else { return Ok(Portion::default()) };
        self.read_lines(path, &mut file)
    }

    fn read_lines(&mut self, path: PathBuf, file: &mut File) -> Result<Portion> {
        let failed = |error| Error::io("reading the transcript", error);
        let meta = file.metadata().map_err(failed)?;
        let (inode, length) = (meta.ino(), meta.len());
        // Another file, or the same one that was truncated and begun anew.
        let same = |place: &Place| place.path == path && place.inode == inode && place.offset <= length;
        let mut before = Vec::new();
        if !self.at.as_ref().is_some_and(same) {
            let restored = std::mem::take(&mut self.restored);
            // A file that is shorter than it was restored has been begun anew, so nothing in it is old.
            let known = restored.get(&path).copied().filter(|known| *known <= length);
            let mut place = Place { path, inode, offset: 0, splitter: Splitter::default() };
            place.offset = known.unwrap_or_default();
            // Only the end of a long conversation: counts that a vendor continues stand in its last lines.
            let (start, mut old) = (place.offset.saturating_sub(WHOLE), Vec::new());
            file.seek(SeekFrom::Start(start)).map_err(failed)?;
            file.take(place.offset - start).read_to_end(&mut old).map_err(failed)?;
            // It begins in the midst of a line.
            let cut = if start > 0 {
                old.iter().position(|byte| *byte == b'\n').map_or(old.len(), |at| at + 1)
            } else {
                0
            };
            before = place.splitter.push(old.get(cut..).unwrap_or_default());
            self.at = Some(place);
        }
        let Some(place) = &mut self.at else { return Ok(Portion::default()) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
        file.take(PORTION).read_to_end(&mut bytes).map_err(failed)?;
        place.offset += bytes.len() as u64;
        let more = bytes.len() as u64 == PORTION;
        Ok(Portion { before, followed: true, lines: place.splitter.push(&bytes), more })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(tail: &mut Tail, path: &std::path::Path) -> Vec<String> {
        let mut file = File::open(path).unwrap();
        tail.read_lines(path.to_owned(), &mut file).unwrap().lines
    }

    #[test]
    fn a_growing_file_is_read_once_and_never_half() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut tail = Tail::default();
        assert!(read(&mut tail, &path).is_empty());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(read(&mut tail, &path), ["one"]);
        assert!(read(&mut tail, &path).is_empty());
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(read(&mut tail, &path), ["two", "three"]);
    }

    #[test]
    fn what_was_there_before_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "old\nha").unwrap();
        let mut tail = Tail { restored: [(path.clone(), 6)].into(), at: None };
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"lf\nnew\n").unwrap();
        let read = tail.read_lines(path.clone(), &mut File::open(&path).unwrap()).unwrap();
        assert_eq!(
            (read.before, read.lines),
            (vec!["old".to_owned()], vec!["half".to_owned(), "new".to_owned()])
        );
        let again = tail.read_lines(path.clone(), &mut File::open(&path).unwrap()).unwrap();
        assert!(again.before.is_empty() && again.lines.is_empty());
    }

    #[test]
    fn of_a_long_past_the_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "first\n").unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.set_len(WHOLE + 100).unwrap();
        file.write_all(b"\nold\nha").unwrap();
        let known = file.metadata().unwrap().len();
        let mut tail = Tail { restored: [(path.clone(), known)].into(), at: None };
        file.write_all(b"lf\nnew\n").unwrap();
        let read = tail.read_lines(path.clone(), &mut File::open(&path).unwrap()).unwrap();
        assert_eq!(read.before, ["old"]);
        assert_eq!(read.lines, ["half", "new"]);
    }

    #[test]
    fn a_file_in_its_place_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut tail = Tail::default();
        std::fs::write(&path, "one\nhalf").unwrap();
        assert_eq!(read(&mut tail, &path), ["one"]);
        std::fs::write(folder.path().join("new"), "two\n").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(read(&mut tail, &path), ["two"]);
        std::fs::write(&path, "3\n").unwrap();
        assert_eq!(read(&mut tail, &path), ["3"]);
    }
}
