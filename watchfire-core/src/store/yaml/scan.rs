//! The last known state of all files, and the search for changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::atomic::{Stored, Unread, load};
use super::document::{Fault, Record};
use crate::Result;
use crate::files::{Dir, Stamp, is_hidden};
use crate::model::{Project, Task, TaskNumber};
use crate::store::{Change, Malformed, Versioned};

/// Time for which a task whose file has vanished stays in its last good state. Editors that save by renaming, and
/// `git stash`, remove a file for a moment.
pub(super) const ABSENCE: Duration = Duration::from_secs(5);

/// Time after which a file that was read right after its change is read once more. Longer than the steps in which file
/// systems count time.
const SETTLED: Duration = Duration::from_secs(3);

/// The current time, by the two clocks that are needed here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Seconds since 1970 by the file system's clock, for comparison with stamps of files.
    pub(super) unix: i64,
    /// Time since boot by the injected clock.
    pub(super) boot: Duration,
}

/// The result of the last scan.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) project: Slot<Project>,
    pub(super) tasks: BTreeMap<TaskNumber, Slot<Task>>,
    /// Files that are no tasks, because another file has their number.
    pub(super) strays: BTreeMap<PathBuf, Malformed>,
}

/// One file: its last good state, and its current fault.
#[derive(Debug)]
pub(super) struct Slot<T> {
    pub(super) name: String,
    pub(super) good: Option<Versioned<T>>,
    pub(super) bad: Option<Malformed>,
    /// Its stamp when it was last read. If it was read so soon after its change that another change could carry
    /// the same stamp, also the time since boot at which it is read once more.
    read: Option<(Stamp, Option<Duration>)>,
    /// Time since boot at which the file was first missed.
    missing: Option<Duration>,
}

/// Returns the time since boot at which a file with this stamp, read now, is to be read once more.
fn again(stamp: Stamp, now: Now) -> Option<Duration> {
    stamp.is_fresh(now.unix).then_some(now.boot + SETTLED)
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { name: String::new(), good: None, bad: None, read: None, missing: None }
    }
}

impl<T: Record> Slot<T> {
    /// Sets a new state that we wrote ourselves.
    pub(super) fn set(&mut self, stored: Stored<T>, now: Now) {
        self.read = stored.stamp.map(|stamp| (stamp, again(stamp, now)));
        self.missing = None;
        self.good = Some(Versioned { value: stored.value, revision: stored.revision });
        self.bad = None;
    }

    /// Reads the file if it may have changed. Returns whether it has, or `None` if it is gone.
    pub(super) fn refresh(
        &mut self,
        dir: &Dir,
        name: &str,
        now: Now,
        check: impl Fn(&T) -> Result<(), Fault>,
    ) -> Option<bool> {
        let stamp = dir.stamp(name)?;
        // Where stamps are fine, the second reading waits: otherwise each look would read all files that a command
        // rewrites.
        let is_known = |again: Option<Duration>| again.is_none_or(|at| stamp.is_fine() && now.boot < at);
        if self.name == name && self.read.is_some_and(|(read, again)| read == stamp && is_known(again)) {
            return Some(false);
        }
        name.clone_into(&mut self.name);
        let fault = match load::<T>(dir, name)
            .and_then(|stored| check(&stored.value).map(|()| stored).map_err(Into::into))
        {
            Ok(stored) => {
                let same = self.good.as_ref().is_some_and(|good| good.revision == stored.revision);
                let changed = !same || self.bad.is_some();
                self.set(stored, now);
                return Some(changed);
            }
            Err(Unread::Missing) => return None,
            Err(Unread::Fault(fault)) => fault,
            Err(Unread::Error(error)) => Fault::new(error.report()),
        };
        self.read = Some((stamp, again(stamp, now)));
        self.missing = None;
        let mut bad = Malformed::new(dir.path().join(name), fault.reason);
        bad.line = fault.line;
        bad.last_good_kept = self.good.is_some();
        // A file that stays broken in the same way is announced once, not at every look.
        let changed = self.bad.as_ref().is_none_or(|old| old.reason != bad.reason || old.line != bad.line);
        self.bad = Some(bad);
        Some(changed)
    }

    fn next_look(&self) -> Option<Duration> {
        let gone = self.missing.map(|since| since + ABSENCE);
        gone.into_iter().chain(self.read.and_then(|(_, again)| again)).min()
    }

    /// Notes that the file is missing. Returns whether the state of the slot has changed, or `None` if the file has
    /// been missing for too long or there is no good state to keep.
    pub(super) fn miss(&mut self, path: PathBuf, now: Now) -> Option<bool> {
        self.good.as_ref()?;
        let since = *self.missing.get_or_insert(now.boot);
        if now.boot.saturating_sub(since) >= ABSENCE {
            return None;
        }
        // Forgets the stamp, since the same file can come back with it.
        let first = self.read.take().is_some();
        let mut bad = Malformed::new(path, "the file is missing");
        bad.last_good_kept = true;
        self.bad = Some(bad);
        Some(first)
    }
}

impl Slot<Task> {
    /// As [`miss`](Self::miss). A task in the trash is gone at once: purging removes its file.
    fn miss_task(&mut self, number: TaskNumber, path: PathBuf, now: Now) -> Option<bool> {
        self.good.as_ref().filter(|good| !good.value.is_deleted())?;
        let missed = self.miss(path, now);
        if let Some(bad) = &mut self.bad {
            bad.number = Some(number);
        }
        missed
    }
}

impl Cache {
    /// Looks at all files and returns the changes.
    pub(super) fn scan(&mut self, root: &Dir, now: Now) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let watchfire = root.child(".watchfire")?;
        let folder = root.path().join(".watchfire");
        changes.extend(self.scan_project(watchfire.as_ref(), &folder, now));
        let tasks = watchfire.map(|dir| dir.child("tasks")).transpose()?.flatten();
        // Before the tasks are read: it decides which of two files with one number is the task.
        let names = self.assign(tasks.as_ref(), &mut changes)?;
        let folder = folder.join("tasks");
        self.tasks.retain(|number, slot| {
            if names.contains_key(number) {
                return true;
            }
            let missed = slot.miss_task(*number, folder.join(&slot.name), now);
            // Announced when the file is first missed, and again when the task counts as gone.
            if missed != Some(false) {
                changes.push(Change::Task(*number));
            }
            missed.is_some()
        });
        for (number, name) in names {
            if tasks.as_ref().and_then(|dir| self.refresh(dir, number, &name, now)).unwrap_or(false) {
                changes.push(Change::Task(number));
            }
        }
        Ok(changes)
    }

    /// Looks at `project.yaml` alone and returns its change.
    pub(super) fn scan_project(
        &mut self,
        watchfire: Option<&Dir>,
        folder: &Path,
        now: Now,
    ) -> Option<Change> {
        let seen = watchfire
            .and_then(|dir| self.project.refresh(dir, "project.yaml", now, |_| Ok(())))
            .or_else(|| self.project.miss(folder.join("project.yaml"), now));
        let gone = seen.is_none() && (self.project.good.is_some() || self.project.bad.is_some());
        if gone {
            // Forgotten, so that a new project in this folder does not start with the state of the old one.
            self.project = Slot::default();
        }
        (gone || seen == Some(true)).then_some(Change::Project)
    }

    /// Returns the time since boot at which a missing file counts as gone or a file is to be read once more.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let tasks = self.tasks.values().filter_map(Slot::next_look);
        tasks.chain(self.project.next_look()).min()
    }

    /// Looks at one file. Returns whether it has changed, or `None` if it is gone.
    pub(super) fn refresh(&mut self, dir: &Dir, number: TaskNumber, name: &str, now: Now) -> Option<bool> {
        let slot = self.tasks.entry(number).or_default();
        let seen = slot
            .refresh(dir, name, now, |task| own_number(task, number))
            .or_else(|| slot.miss_task(number, dir.path().join(name), now));
        if let Some(bad) = &mut slot.bad {
            bad.number = Some(number);
        }
        if seen.is_none() {
            self.tasks.remove(&number);
        }
        seen
    }

    /// Assigns files to tasks. `0007.yaml` goes before `7.yaml`; any further file with that number is a stray.
    fn assign(
        &mut self,
        dir: Option<&Dir>,
        changes: &mut Vec<Change>,
    ) -> Result<BTreeMap<TaskNumber, String>> {
        let (mut names, mut strays) = (BTreeMap::new(), BTreeMap::new());
        let Some(dir) = dir else {
            self.strays.clear();
            return Ok(names);
        };
        let ranked = |name: String| {
            let number = number_of(&name)?;
            Some((number, name != file_name(number), name))
        };
        let mut all: Vec<_> = dir.names()?.into_iter().filter_map(ranked).collect();
        all.sort_unstable();
        for (number, _, name) in all {
            if let Some(taken) = names.get(&number) {
                let reason = format!(
                    "number {} is taken by {taken}: rename the file and its task_number to a free number, or remove it",
                    number.value()
                );
                let mut stray = Malformed::new(dir.path().join(&name), reason);
                stray.number = Some(number);
                if !self.strays.contains_key(&stray.path) {
                    changes.push(Change::Task(number));
                }
                strays.insert(stray.path.clone(), stray);
            } else {
                names.insert(number, name);
            }
        }
        // A stray that is gone may have been in the way of nothing, but its fault has to disappear from
        // lists.
        for (path, stray) in &self.strays {
            if !strays.contains_key(path) {
                changes.extend(stray.number.map(Change::Task));
            }
        }
        self.strays = strays;
        Ok(names)
    }
}

/// Returns the name of a task's file.
pub(super) fn file_name(number: TaskNumber) -> String {
    format!("{number}.yaml")
}

/// Returns the number in a file name of up to eight digits and `.yaml`. Others, such as `0001.metrics.yaml`, are no tasks.
pub(super) fn number_of(name: &str) -> Option<TaskNumber> {
    let digits = name.strip_suffix(".yaml").filter(|digits| !is_hidden(name) && digits.len() <= 8)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Rejects a task whose number differs from its file name.
pub(super) fn own_number(task: &Task, number: TaskNumber) -> Result<(), Fault> {
    if task.task_number == number {
        return Ok(());
    }
    Err(Fault::new(format!(
        "task_number: {} does not match the file name, expected {}",
        task.task_number.value(),
        number.value()
    )))
}
