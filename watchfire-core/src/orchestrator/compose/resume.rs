//! The files that a later attempt needs to resume a session: the vendor's id and the vendor's own files, out of every
//! agent's reach. They are saved when a session has ended, and copied into the home of the one that resumes it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, SessionContext};
use crate::files::{make_private, open_untrusted, read_untrusted, replace};
use crate::model::{BackendName, SessionId, TaskNumber, Timestamp};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::{Error, ErrorKind, Result};

/// Upper bounds for a saved session, in bytes and in files.
const BYTES: u64 = 256 << 20;
const FILES: usize = 20_000;
/// Numbers of sessions that are saved for a task, and for chats.
const SESSIONS: (usize, usize) = (3, 20);
/// Longest words of an agent that are saved with its session, in characters.
const WORDS: usize = 200;
const RECORD: &str = "record.json";
const HOME: &str = "home";

/// A session that can be resumed.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
    record: Record,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    /// The version of the format: 1.
    schema: u32,
    session: SessionId,
    backend: BackendName,
    /// The vendor's id of the session.
    vendor_session: String,
    /// Its working directory, in which vendors look for their sessions.
    cwd: PathBuf,
    at: Timestamp,
    /// A line of what its agent said last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    last_words: String,
    /// True if a resume was tried and the agent did not begin to work.
    #[serde(default)]
    failed: bool,
}

/// Saves the files by which `backend` can resume the session of `context`, which has ended: a session of `task`, or a chat.
/// Does nothing for backends that cannot.
///
/// # Errors
/// I/O errors; `malformed` when the agent's files exceed the bounds.
pub(crate) fn save(
    state: &Path,
    task: Option<TaskNumber>,
    backend: &dyn Backend,
    context: &SessionContext,
    vendor_session: &str,
    last_words: &str,
    at: Timestamp,
) -> Result<()> {
    if !backend.capabilities().resume {
        return Ok(());
    }
    let folder = folder(state, task).join(context.session.as_str());
    let home = folder.join(HOME);
    make_private(&home)?;
    let mut left = Left { bytes: BYTES, files: FILES };
    for part in &backend.resumable() {
        copy_part(&context.home, &home, part, &mut left)
            // Half a session would be resumed into an agent that does not know what it did.
            .inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
    }
    let record = Record {
        schema: 1,
        session: context.session.clone(),
        backend: context.backend.clone(),
        vendor_session: vendor_session.to_owned(),
        cwd: context.cwd.clone(),
        at,
        last_words: last_words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(WORDS).collect(),
        failed: false,
    };
    let most = if task.is_some() { SESSIONS.0 } else { SESSIONS.1 };
    let kept = Kept { folder, record };
    // The record comes last: a folder without one is ignored.
    kept.write()?;
    for old in all(state, task).into_iter().rev().enumerate() {
        let (age, old) = old;
        // The vendor continues a resumed session under the same id, so the older copy is outdated.
        let same = old.record.vendor_session == vendor_session && old.record.backend == kept.record.backend;
        if age >= most || same && old.folder != kept.folder {
            old.remove()?;
        }
    }
    Ok(())
}

/// Returns the last session of `task` that `backend` can resume in `cwd`.
pub(crate) fn latest(state: &Path, task: TaskNumber, backend: &dyn Backend, cwd: &Path) -> Option<Kept> {
    let fits = |kept: &Kept| {
        let Record { backend: by, cwd: at, failed, .. } = &kept.record;
        // Vendors look for their sessions by the working directory.
        by.as_str() == backend.name() && at == cwd && !failed
    };
    all(state, Some(task)).into_iter().rev().find(fits).filter(|_| backend.capabilities().resume)
}

/// Returns the saved chats of a project, the last one first.
pub(crate) async fn chats(shared: &ProjectShared) -> Result<Vec<Kept>> {
    let state = shared.state_dir.clone();
    let mut chats = blocking("looking for chats", move || Ok(all(&state, None))).await?;
    chats.reverse();
    Ok(chats)
}

/// Returns a saved chat by its session.
///
/// # Errors
/// `not_found` if it is not kept.
pub(crate) async fn chat(shared: &ProjectShared, session: &SessionId) -> Result<Kept> {
    let found = chats(shared).await?.into_iter().find(|kept| kept.record.session == *session);
    found.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "the chat cannot be resumed: it is not kept").with("session", session)
    })
}

/// Removes all saved sessions of a task whose work is merged.
pub(crate) fn forget(state: &Path, task: TaskNumber) {
    // Leftovers are a few files that are never looked at.
    let _ = fs::remove_dir_all(folder(state, Some(task)));
}

impl Kept {
    pub(crate) fn session(&self) -> &SessionId {
        &self.record.session
    }

    pub(crate) fn backend(&self) -> &BackendName {
        &self.record.backend
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.record.cwd
    }

    pub(crate) fn at(&self) -> &Timestamp {
        &self.record.at
    }

    pub(crate) fn last_words(&self) -> &str {
        &self.record.last_words
    }

    pub(crate) fn vendor_session(&self) -> &str {
        &self.record.vendor_session
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies the vendor's files into a fresh home.
    pub(crate) fn restore(&self, home: &Path) -> Result<()> {
        copy_tree(&self.folder.join(HOME), home, &mut Left { bytes: BYTES, files: FILES })
    }

    /// Returns the files in `home` with their lengths.
    pub(crate) fn restored(home: &Path) -> BTreeMap<PathBuf, u64> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![home.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(about) if about.is_dir() => folders.push(entry.path()),
                    Ok(about) if about.is_file() => drop(found.insert(entry.path(), about.len())),
                    _ => {}
                }
            }
        }
        found
    }

    /// Notes that it could not be resumed. It is kept, but not tried again.
    pub(crate) fn set_failed(&mut self) -> Result<()> {
        self.record.failed = true;
        self.write()
    }

    fn write(&self) -> Result<()> {
        let failed = |error| Error::new(ErrorKind::InvalidInput, "a path is not text").with_source(error);
        let text = serde_json::to_vec_pretty(&self.record).map_err(failed)?;
        replace(&self.folder.join(RECORD), &text)
    }

    fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder)
            .map_err(|error| Error::io("removing an old session", error).with_path(&self.folder))
    }
}

fn folder(state: &Path, task: Option<TaskNumber>) -> PathBuf {
    state.join("resume").join(task.map_or_else(|| "chat".to_owned(), |task| task.to_string()))
}

/// Returns the saved sessions, oldest first. A folder without a record is incomplete and ignored.
fn all(state: &Path, task: Option<TaskNumber>) -> Vec<Kept> {
    let read = |folder: PathBuf| {
        let bytes = read_untrusted(&folder.join(RECORD), 1 << 20).ok()??;
        Some(Kept { record: serde_json::from_slice(&bytes).ok()?, folder })
    };
    let entries = fs::read_dir(folder(state, task)).into_iter().flatten().flatten();
    let mut kept: Vec<Kept> = entries.filter_map(|entry| read(entry.path())).collect();
    kept.sort_by_key(|kept| kept.record.at.unix_millis());
    kept
}

/// Remaining allowance of a copy.
struct Left {
    bytes: u64,
    files: usize,
}

/// Copies one part of a home, if it exists and no folder on the way is a link.
fn copy_part(from: &Path, to: &Path, part: &Path, left: &mut Left) -> Result<()> {
    if !part.components().all(|component| matches!(component, Component::Normal(_))) {
        return Err(Error::new(ErrorKind::InvalidInput, "a part of a home lies below it").with_path(part));
    }
    let real = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let above = part.parent().unwrap_or(Path::new(""));
    // The agent owns its home. A link in the path would make us copy files of the person.
    if !above.ancestors().all(|folder| real(&from.join(folder))) {
        return Ok(());
    }
    make_private(&to.join(above))?;
    copy(&from.join(part), &to.join(part), left)
}

/// Copies a file, or a folder with everything below it. Links and special files that the agent left are skipped.
fn copy(from: &Path, to: &Path, left: &mut Left) -> Result<()> {
    let failed = |error| Error::io("keeping an agent's session", error).with_path(from);
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    left.files = left.files.checked_sub(1).ok_or_else(too_much)?;
    if meta.is_dir() {
        fs::DirBuilder::new().mode(0o700).recursive(true).create(to).map_err(failed)?;
        return copy_tree(from, to, left);
    }
    // A link could lead to any file of the person, and a FIFO would block the copy.
    if !meta.is_file() {
        return Ok(());
    }
    // A file that still grows cannot exceed the bound by much: its writer has ended.
    left.bytes = left.bytes.checked_sub(meta.len()).ok_or_else(too_much)?;
    let Some(mut source) = open_untrusted(from)? else { return Ok(()) };
    let mut copy =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed)?;
    std::io::copy(&mut source, &mut copy).map(drop).map_err(failed)
}

fn copy_tree(from: &Path, to: &Path, left: &mut Left) -> Result<()> {
    let failed = |error| Error::io("keeping an agent's session", error).with_path(from);
    for entry in fs::read_dir(from).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        copy(&from.join(&name), &to.join(&name), left)?;
    }
    Ok(())
}

fn too_much() -> Error {
    Error::new(ErrorKind::Malformed, "the agent's session is too large to be kept")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Capabilities, Launch, LocatedProgram, ProgramSearch};
    use crate::model::Mode;

    /// With its parts in its home, if it has any there.
    #[derive(Debug)]
    struct Agent(&'static [&'static str]);

    const AGENT: Agent = Agent(&["sessions", "a/b", "none"]);

    impl Backend for Agent {
        fn name(&self) -> &str {
            "agent"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { resume: true, ..Capabilities::default() }
        }

        fn locate(&self, _: &ProgramSearch) -> Result<LocatedProgram> {
            Ok(LocatedProgram::new("/bin/true"))
        }

        fn prepare(&self, context: &SessionContext) -> Result<Launch> {
            Ok(Launch::new(&context.program))
        }

        fn resumable(&self) -> Vec<PathBuf> {
            self.0.iter().map(PathBuf::from).collect()
        }
    }

    fn context(home: &Path, session: &str) -> SessionContext {
        let id = session.to_owned().try_into().unwrap();
        SessionContext::new(id, "agent".parse().unwrap(), Mode::Task, "/bin/true", home, "/work")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1000)
    }

    #[test]
    fn a_session_is_kept_and_restored_without_what_an_agent_hid_in_it() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (home, state, outside) = (root.join("home"), root.join("state"), root.join("outside"));
        fs::create_dir_all(home.join("sessions/deep")).unwrap();
        fs::create_dir_all(outside.join("b")).unwrap();
        fs::write(outside.join("b/secret"), "secret").unwrap();
        fs::write(home.join("sessions/deep/one.jsonl"), "one").unwrap();
        fs::write(home.join("config"), "mine").unwrap();
        std::os::unix::fs::symlink(outside.join("b/secret"), home.join("sessions/link")).unwrap();
        std::os::unix::fs::symlink(&outside, home.join("a")).unwrap();
        let task = TaskNumber::new(7).unwrap();
        save(&state, Some(task), &AGENT, &context(&home, "s1"), "vendor-1", "", at(1)).unwrap();

        let mut kept = latest(&state, task, &AGENT, Path::new("/work")).unwrap();
        assert_eq!(kept.vendor_session(), "vendor-1");
        assert!(latest(&state, task, &AGENT, Path::new("/elsewhere")).is_none());
        let fresh = root.join("fresh");
        fs::create_dir(&fresh).unwrap();
        kept.restore(&fresh).unwrap();
        assert_eq!(fs::read(fresh.join("sessions/deep/one.jsonl")).unwrap(), b"one");
        let names = |path: &Path| fs::read_dir(path).unwrap().count();
        assert_eq!((names(&fresh), names(&fresh.join("sessions"))), (1, 1));

        kept.set_failed().unwrap();
        assert!(latest(&state, task, &AGENT, Path::new("/work")).is_none(), "it is not tried again");
        assert_eq!(all(&state, Some(task)).len(), 1, "and not lost");
        forget(&state, task);
        assert!(all(&state, Some(task)).is_empty());
    }

    /// The files of a program that is not ours may lie anywhere.
    #[test]
    fn a_session_is_kept_also_without_files_in_its_home() {
        let temp = tempfile::tempdir().unwrap();
        let (home, state) = (temp.path().join("home"), temp.path().join("state"));
        fs::create_dir(&home).unwrap();
        save(&state, None, &Agent(&[]), &context(&home, "s1"), "vendor-1", "bye", at(1)).unwrap();
        let kept = all(&state, None);
        assert_eq!((kept[0].vendor_session(), kept[0].last_words()), ("vendor-1", "bye"));
        kept[0].restore(&home).unwrap();
    }

    #[test]
    fn the_last_few_are_kept_and_of_one_the_last() {
        let temp = tempfile::tempdir().unwrap();
        let (home, state) = (temp.path().join("home"), temp.path().join("state"));
        fs::create_dir(&home).unwrap();
        let task = TaskNumber::new(1).unwrap();
        for (second, vendor) in [(1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "d")] {
            let context = context(&home, &format!("s{second}"));
            save(&state, Some(task), &AGENT, &context, vendor, "", at(second)).unwrap();
        }
        let left: Vec<_> =
            all(&state, Some(task)).into_iter().map(|kept| kept.record.session.to_string()).collect();
        assert_eq!(left, ["s3", "s4", "s5"]);
    }
}
