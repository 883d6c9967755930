//! Limits of a project's logs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::model::LogSettings;
use crate::orchestrator::shared::LOG_FILES;
use crate::{Error, Result};

const KEEP_DAYS: u32 = 30;
const MAX_MB: u64 = 1024;

/// The files of one session that grow: its log, its transcript and the record of its sandbox. The record of
/// its spending is one line and stays, for the sums.
#[derive(Debug)]
struct SessionFiles {
    paths: Vec<PathBuf>,
    size: u64,
    changed: SystemTime,
}

/// Removes the files of the oldest sessions from a folder of logs until the limits hold, and returns the number of
/// sessions. Sessions that changed at or after `in_use` stay.
///
/// # Errors
/// Those of the disk.
pub(crate) fn remove_old(
    logs: &Path,
    limits: &LogSettings,
    now: SystemTime,
    in_use: Option<SystemTime>,
) -> Result<usize> {
    let mut sessions = list(logs).map_err(|e| Error::io("listing the logs", e).with_path(logs))?;
    sessions.sort_by_key(|session| session.changed);
    let days = limits.keep_days.unwrap_or(KEEP_DAYS);
    // 0 days: no log is too old.
    let oldest = now.checked_sub(Duration::from_secs(u64::from(days) * 24 * 60 * 60)).filter(|_| days > 0);
    let most = match limits.max_mb.unwrap_or(MAX_MB) {
        0 => u64::MAX,
        mb => mb.saturating_mul(1 << 20),
    };
    let mut size: u64 = sessions.iter().map(|session| session.size).sum();
    let mut removed = 0;
    for session in sessions {
        let is_old = oldest.is_some_and(|oldest| session.changed < oldest);
        // A running session must not lose the file that it writes.
        if in_use.is_some_and(|since| session.changed >= since) || (!is_old && size <= most) {
            continue;
        }
        for path in &session.paths {
            fs::remove_file(path).map_err(|e| Error::io("removing an old log", e).with_path(path))?;
        }
        size -= session.size;
        removed += 1;
    }
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
        let found = entry.metadata()?;
        if !found.is_file() {
            continue;
        }
        let changed = found.modified()?;
        let session =
            sessions.entry(stem).or_insert_with(|| SessionFiles { paths: Vec::new(), size: 0, changed });
        session.paths.push(entry.path());
        session.size += found.len();
        // The newest file counts: only the log is written until the end.
        session.changed = session.changed.max(changed);
    }
    Ok(sessions.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Makes a folder of logs with a session of about 1 MiB for each age in days.
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
        assert_eq!(remove_old(dir.path(), &LogSettings::default(), now, None).unwrap(), 2);
        assert_eq!(names(&dir), ["01", "29"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2 * 3 + 4 + 1, "what was spent stays");
        let limits = LogSettings { keep_days: Some(0), ..LogSettings::default() };
        assert_eq!(remove_old(dir.path(), &limits, now + DAY * 1000, None).unwrap(), 0);
    }

    #[test]
    fn the_oldest_go_by_size() {
        let now = SystemTime::now();
        let dir = logs(&[1, 2, 3, 4], now);
        let limits = LogSettings { max_mb: Some(3), ..LogSettings::default() };
        assert_eq!(remove_old(dir.path(), &limits, now, None).unwrap(), 2, "three are a few bytes too large");
        assert_eq!(names(&dir), ["01", "02"]);
    }

    #[test]
    fn what_may_be_in_use_stays() {
        let now = SystemTime::now();
        let dir = logs(&[1, 31, 40], now);
        let limits = LogSettings { max_mb: Some(1), ..LogSettings::default() };
        assert_eq!(remove_old(dir.path(), &limits, now, Some(now - DAY * 35)).unwrap(), 1);
        assert_eq!(names(&dir), ["01", "31"]);
        assert_eq!(remove_old(&dir.path().join("none"), &limits, now, None).unwrap(), 0);
    }
}
