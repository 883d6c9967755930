//! Limits of a project's logs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::files::remove_tree;
use crate::model::LogSettings;
use crate::orchestrator::shared::{LOG_FILES, RECORDING};
use crate::{Error, Result};

const KEEP_DAYS: u32 = 30;
const MAX_MB: u64 = 1024;

/// The files of one session that grow: its log, its recording, its transcript and the record of its sandbox. The
/// record of its spending is one line and stays, for the sums.
#[derive(Debug)]
struct SessionFiles {
    paths: Vec<PathBuf>,
    size: u64,
    /// The recording and its size, which is also in `size`.
    recording: Option<(PathBuf, u64)>,
    changed: SystemTime,
}

/// Number of sessions of which something was removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RemovedLogs {
    /// Sessions whose files are gone.
    pub(crate) whole: usize,
    /// Sessions whose recording is gone, and whose text and transcript stay.
    pub(crate) recordings: usize,
}

/// Returns the time before which what ended is removed, or `None` if nothing is too old.
pub(crate) fn oldest(limits: &LogSettings, now: SystemTime) -> Option<SystemTime> {
    let days = limits.keep_days.unwrap_or(KEEP_DAYS);
    now.checked_sub(Duration::from_secs(u64::from(days) * 24 * 60 * 60)).filter(|_| days > 0)
}

/// Removes files of the oldest sessions from a folder of logs until the limits hold: all files of a session that is too
/// old; beyond the size first recordings, which are by far the largest, then all. Sessions that changed at or after
/// `in_use` stay.
///
/// # Errors
/// I/O errors.
pub(crate) fn remove_old(
    logs: &Path,
    limits: &LogSettings,
    now: SystemTime,
    in_use: Option<SystemTime>,
) -> Result<RemovedLogs> {
    let mut sessions = list(logs).map_err(|e| Error::io("listing the logs", e).with_path(logs))?;
    let mut size: u64 = sessions.iter().map(|session| session.size).sum();
    // A running session must not lose the files that it writes.
    sessions.retain(|session| in_use.is_none_or(|since| session.changed < since));
    sessions.sort_by_key(|session| session.changed);
    let oldest = oldest(limits, now);
    let most = match limits.max_mb.unwrap_or(MAX_MB) {
        0 => u64::MAX,
        mb => mb.saturating_mul(1 << 20),
    };
    let is_old = |session: &SessionFiles| oldest.is_some_and(|oldest| session.changed < oldest);
    let mut removed = RemovedLogs::default();
    let remove =
        |path: &Path| remove_tree(path).map_err(|e| Error::io("removing an old log", e).with_path(path));
    let mut whole = |session: &SessionFiles, size: &mut u64| -> Result<()> {
        session.paths.iter().try_for_each(|path| remove(path))?;
        *size -= session.size;
        removed.whole += 1;
        Ok(())
    };
    let (old, mut sessions): (Vec<_>, Vec<_>) = sessions.into_iter().partition(is_old);
    old.iter().try_for_each(|session| whole(session, &mut size))?;
    let mut without = 0;
    for session in &mut sessions {
        if size <= most {
            break;
        }
        if let Some((path, its)) = session.recording.take() {
            remove(&path)?;
            session.size -= its;
            size -= its;
            without += 1;
        }
    }
    for session in &sessions {
        if size <= most {
            break;
        }
        whole(session, &mut size)?;
    }
    removed.recordings = without;
    Ok(removed)
}

/// Lists the sessions of a folder of logs. Their files differ only in what follows the time in the name.
fn list(logs: &Path) -> io::Result<Vec<SessionFiles>> {
    let entries = match fs::read_dir(logs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut sessions = BTreeMap::<String, SessionFiles>::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // Anything else is not ours.
        let stem = |name: &str| {
            LOG_FILES.iter().find_map(|it| Some(name.strip_suffix(it)?.strip_suffix('.')?.to_owned()))
        };
        let Some(stem) = name.to_str().and_then(stem) else { continue };
        let Some((size, changed)) = measure(&entry.path())? else { continue };
        let session = sessions.entry(stem).or_insert_with(|| SessionFiles {
            paths: Vec::new(),
            size: 0,
            recording: None,
            changed,
        });
        if name.to_str().is_some_and(|name| name.ends_with(RECORDING)) {
            session.recording = Some((entry.path(), size));
        }
        session.paths.push(entry.path());
        session.size += size;
        // The newest file counts: only the log is written until the end.
        session.changed = session.changed.max(changed);
    }
    Ok(sessions.into_values().collect())
}

/// Returns the size of a file, or of all files in a folder, and the time of the last change.
fn measure(path: &Path) -> io::Result<Option<(u64, SystemTime)>> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() {
        return Ok(Some((found.len(), found.modified()?)));
    }
    if !found.is_dir() {
        return Ok(None);
    }
    let mut folder = (0, found.modified()?);
    for entry in fs::read_dir(path)? {
        let found = entry?.metadata()?;
        folder = (folder.0 + found.len(), folder.1.max(found.modified()?));
    }
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Makes a folder of logs with a session of about 1 MiB for each age in days, mostly in its recording if it has
    /// one.
    fn logs(ages: &[u32], now: SystemTime) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for age in ages {
            for (ending, size) in [("log", 1 << 20), ("jsonl", 10), ("sandbox.json", 10), ("spent.json", 0)] {
                let path = dir.path().join(format!("0001-1-2026-01-02T03-04-{age:02}.{ending}"));
                fs::write(&path, vec![b'x'; size]).unwrap();
                // Only the log changes to the end.
                let older = if ending == "log" { 0 } else { 40 };
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_modified(now - DAY * (age + older)).unwrap();
            }
            if *age % 2 == 0 {
                let folder = dir.path().join(format!("0001-1-2026-01-02T03-04-{age:02}.recording"));
                let segment = folder.join("0000000000000000.out");
                fs::create_dir(&folder).unwrap();
                fs::write(&segment, vec![b'x'; 3 << 20]).unwrap();
                for path in [&segment, &folder] {
                    fs::File::open(path).unwrap().set_modified(now - DAY * (age + 40)).unwrap();
                }
            }
        }
        fs::write(dir.path().join("notes.txt"), "a person's").unwrap();
        dir
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        names.iter().map(|name| name[24..26].to_owned()).collect()
    }

    #[test]
    fn sessions_go_whole_by_age() {
        let now = SystemTime::now();
        let dir = logs(&[1, 29, 31, 32], now);
        let removed = remove_old(dir.path(), &LogSettings::default(), now, None).unwrap();
        assert_eq!(removed, RemovedLogs { whole: 2, recordings: 0 });
        assert_eq!(names(&dir), ["01", "29"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2 * 3 + 4 + 1, "what was spent stays");
        let limits = LogSettings { keep_days: Some(0), ..LogSettings::default() };
        let removed = remove_old(dir.path(), &limits, now + DAY * 1000, None).unwrap();
        assert_eq!(removed, RemovedLogs::default());
    }

    #[test]
    fn the_oldest_go_by_size() {
        let now = SystemTime::now();
        let dir = logs(&[1, 2, 3, 4], now);
        let remove = |mb| {
            let limits = LogSettings { max_mb: Some(mb), ..LogSettings::default() };
            remove_old(dir.path(), &limits, now, None).unwrap()
        };
        let recordings = || {
            let names = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().ends_with(".recording")).count()
        };
        assert_eq!((remove(11), recordings()), (RemovedLogs::default(), 2));
        // 10 MiB and a few bytes.
        assert_eq!((remove(10), recordings()), (RemovedLogs { whole: 0, recordings: 1 }, 1));
        assert_eq!(names(&dir), ["01", "02", "03", "04"], "recordings go first");
        assert_eq!((remove(3), recordings()), (RemovedLogs { whole: 2, recordings: 1 }, 0));
        assert_eq!(names(&dir), ["01", "02"], "three are a few bytes too large");
    }

    #[test]
    fn what_may_be_in_use_stays() {
        let now = SystemTime::now();
        let dir = logs(&[1, 31, 40], now);
        let limits = LogSettings { max_mb: Some(1), ..LogSettings::default() };
        assert_eq!(remove_old(dir.path(), &limits, now, Some(now - DAY * 35)).unwrap().whole, 1);
        assert_eq!(names(&dir), ["01", "31"]);
        assert_eq!(remove_old(&dir.path().join("none"), &limits, now, None).unwrap().whole, 0);
    }
}
