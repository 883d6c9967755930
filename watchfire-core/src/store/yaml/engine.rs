//! The work of the store. All functions block.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::RenameFlags;

use super::atomic::{self, unreadable};
use super::claims::Claims;
use super::follow::Watched;
use super::scan::{Cache, Now, file_name, number_of, own_number};
use super::{Queue, Watching, YamlOptions};
use crate::clock::Clock;
use crate::files::{Dir, FileLock, failure, make_private};
use crate::model::{Project, Task, TaskId, TaskNumber};
use crate::store::changes::{Feed, lock};
use crate::store::ledger::Ledger;
use crate::store::plan::{self, no_such_task};
use crate::store::{
    Change, Claim, Fence, Holder, NewTask, ProjectPatch, Revision, TaskList, TaskPatch, TaskQuery, Versioned,
};
use crate::{Error, ErrorKind, Result};

/// Time limit for a writer of another process. Writers hold the lock for one change, which takes milliseconds; one
/// that holds it longer is stopped, or hangs on its disk.
pub(in crate::store) const PATIENCE: Duration = Duration::from_secs(30);

const PROJECT: &str = "project.yaml";

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) root: PathBuf,
    lock_file: PathBuf,
    /// Queue of this process's writers in front of the lock.
    pub(super) queue: Queue,
    pub(super) claims: Claims,
    pub(super) clock: Arc<dyn Clock>,
    cache: Mutex<Cache>,
    pub(super) feed: Feed<Change>,
    watching: Mutex<Watching>,
}

impl Engine {
    pub(super) fn open(root: &Path, clock: Arc<dyn Clock>, options: &YamlOptions) -> Result<Self> {
        let root = root
            .canonicalize()
            .map_err(|error| Error::io("opening the project folder", error).with_path(root))?;
        make_private(&options.state_dir)?;
        let lock_file = options.state_dir.join("store.lock");
        let engine = Self {
            root,
            queue: Queue::of(&lock_file),
            lock_file,
            claims: Claims::new(options.shared_dir.as_deref(), &options.state_dir),
            clock,
            cache: Mutex::default(),
            feed: Feed::new(Change::Everything),
            watching: Mutex::default(),
        };
        let dir = engine.watchfire()?;
        {
            // Under the lock, because the staged file of a writer that is at work looks like a leftover.
            let _lock = engine.lock()?;
            // A folder that cannot be written holds no leftovers of ours, and can still be read.
            for dir in [Some(&dir), dir.child("tasks")?.as_ref()].into_iter().flatten() {
                let _ = atomic::recover(dir);
            }
        }
        engine.scan()?;
        Ok(engine)
    }

    /// Scans all files and announces changes.
    pub(super) fn scan(&self) -> Result<()> {
        // The cache stays locked while the files are read. Otherwise an older result could overwrite a newer
        // one.
        let changes = lock(&self.cache).scan(&Dir::open(&self.root)?, self.now())?;
        self.feed.send_all(&changes);
        Ok(())
    }

    pub(super) fn project(&self) -> Result<Versioned<Project>> {
        let root = Dir::open(&self.root)?;
        let mut cache = lock(&self.cache);
        let folder = self.root.join(".watchfire");
        let change = cache.scan_project(root.child(".watchfire")?.as_ref(), &folder, self.now());
        self.feed.send_all(change.as_slice());
        match (&cache.project.good, &cache.project.bad) {
            (Some(good), _) => Ok(good.clone()),
            (None, Some(bad)) => Err(bad.clone().into()),
            (None, None) => Err(self.no_project()),
        }
    }

    pub(super) fn update_project(
        &self,
        patch: &ProjectPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Project>> {
        plan::check_project(patch)?;
        let _lock = self.lock()?;
        let _fenced = self.claims.guard(fence, Ledger::check)?;
        let now = self.clock.now();
        self.change_project(expected, |project| patch.apply(project, &now))
    }

    pub(super) fn list(&self, query: &TaskQuery) -> Result<TaskList> {
        // Scanned first, so that the caller sees the edits of other programs before any event reports them.
        self.scan()?;
        let cache = lock(&self.cache);
        let good = cache.tasks.values().filter_map(|slot| slot.good.clone());
        let mut malformed: Vec<_> = cache.tasks.values().filter_map(|slot| slot.bad.clone()).collect();
        malformed.extend(cache.strays.values().cloned());
        malformed.extend(cache.project.bad.clone());
        Ok(TaskList::new(good.filter(|task| query.matches(&task.value)).collect(), malformed))
    }

    pub(super) fn get(&self, number: TaskNumber) -> Result<Versioned<Task>> {
        match self.find(number) {
            Ok((dir, name)) => {
                let changed = lock(&self.cache).refresh(&dir, number, &name, self.now()) != Some(false);
                if changed {
                    self.feed.send(&Change::Task(number));
                }
            }
            // The folder is missing, and every file with it. The last good state may still hold.
            Err(error) if error.kind() == ErrorKind::NotFound => self.scan()?,
            Err(error) => return Err(error),
        }
        let found = lock(&self.cache).tasks.get(&number).map(|slot| (slot.good.clone(), slot.bad.clone()));
        match found {
            Some((Some(good), _)) => Ok(good),
            Some((None, Some(bad))) => Err(bad.into()),
            _ => Err(no_such_task(number)),
        }
    }

    pub(super) fn create(&self, new: &NewTask, fence: Option<Fence>) -> Result<Versioned<Task>> {
        let _lock = self.lock()?;
        let _fenced = self.claims.guard(fence, Ledger::check)?;
        let tasks = self.watchfire()?.make_child("tasks", 0o755)?;
        self.scan()?;
        // Under the lock: of two requests at once, the second finds the task of the first.
        let known =
            plan::created(new, lock(&self.cache).tasks.values().filter_map(|slot| slot.good.as_ref()));
        if let Some(known) = known {
            return Ok(known);
        }
        plan::check_new(new, |number| lock(&self.cache).tasks.contains_key(&number))?;
        loop {
            // The number is reserved before it is used: a crash in between leaves a gap, never a number given
            // twice.
            // People and older releases create files without raising the counter.
            let highest = tasks.names()?.iter().filter_map(|name| number_of(name)).max();
            let mut number = 0;
            self.change_project(None, |project| {
                number = project.next_task_number.max(highest.map_or(1, |n| n.value().saturating_add(1)));
                let next = number.saturating_add(1);
                // Beyond the highest number nothing is reserved, or the counter would stay there.
                TaskNumber::new(number).is_some()
                    && std::mem::replace(&mut project.next_task_number, next) != next
            })?;
            let number = TaskNumber::try_from(number)?;
            let task = {
                let cache = lock(&self.cache);
                let others =
                    cache.tasks.values().filter_map(|slot| slot.good.as_ref()).map(|good| &good.value);
                plan::new_task(new.clone(), TaskId::random(), number, others, &self.clock.now())
            };
            let name = file_name(number);
            match atomic::create(&tasks, &name, &task, 0o644) {
                Ok(stored) => {
                    // Noted at once, so that the next scan does not announce our own write once more.
                    let mut cache = lock(&self.cache);
                    let slot = cache.tasks.entry(number).or_default();
                    slot.name = name;
                    let created =
                        Versioned { value: stored.value.clone(), revision: stored.revision.clone() };
                    slot.set(stored, self.now());
                    drop(cache);
                    self.feed.send(&Change::Task(number));
                    return Ok(created);
                }
                // Another program has just created a file with that number, and keeps it.
                Err(error) if already_exists(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn update(
        &self,
        number: TaskNumber,
        patch: &TaskPatch,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<Task>> {
        let _lock = self.lock()?;
        let _fenced = self.claims.guard(fence, |ledger, fence| ledger.check_task(number, fence))?;
        if patch.depends_on.is_some() {
            self.scan()?;
        }
        let depends_on = |task: &Versioned<Task>| task.value.depends_on.clone();
        plan::check_patch(number, patch, |number| {
            let cache = lock(&self.cache);
            let slot = cache.tasks.get(&number)?;
            Some(slot.good.as_ref().map(depends_on).unwrap_or_default())
        })?;
        self.update_locked(number, patch, expected)
    }

    pub(super) fn reorder(&self, order: &[TaskNumber], fence: Option<Fence>) -> Result<()> {
        let _lock = self.lock()?;
        let _fenced = self.claims.guard(fence, Ledger::check)?;
        self.scan()?;
        let tasks: Vec<Task> = {
            // Rejected before the first write, since the positions are written one after the other.
            let cache = lock(&self.cache);
            for number in order {
                if let Some(bad) = cache.tasks.get(number).and_then(|slot| slot.bad.clone()) {
                    return Err(bad.into());
                }
            }
            // A file that cannot be read cannot be written either.
            let well = cache.tasks.values().filter(|slot| slot.bad.is_none());
            well.filter_map(|slot| slot.good.as_ref()).map(|good| good.value.clone()).collect()
        };
        for (number, position) in plan::reorder(&tasks, order)? {
            self.update_locked(number, &TaskPatch::new().with_position(position), None)?;
        }
        Ok(())
    }

    pub(super) fn purge(&self, number: TaskNumber) -> Result<()> {
        let _lock = self.lock()?;
        let (dir, name) = self.find(number)?;
        let stored = atomic::load::<Task>(&dir, &name).map_err(|unread| unreadable(&dir, &name, unread))?;
        if !stored.value.is_deleted() {
            return Err(plan::not_in_trash(number));
        }
        // The counter first: without its file, nothing else would keep the number from being given again.
        let after = number.value().saturating_add(1);
        self.change_project(None, |project| {
            let behind = project.next_task_number < after;
            if behind {
                project.next_task_number = after;
            }
            behind
        })?;
        // Renamed first and checked again afterwards: an edit that another program made in between must not
        // be deleted.
        let hidden = atomic::hidden_name(&name, &stored);
        dir.rename(&name, &hidden, RenameFlags::empty())
            .map_err(|error| failure("removing the task file", dir.path().join(&name), error))?;
        let still = atomic::load::<Task>(&dir, &hidden).is_ok_and(|now| now.revision == stored.revision);
        if !still {
            dir.rename_new(&hidden, &name)
                .map_err(|error| failure("putting the file back", dir.path().join(&hidden), error))?;
            return Err(
                Error::new(ErrorKind::Conflict, "the task changed while it was removed").with("task", number)
            );
        }
        dir.remove(&hidden)?;
        // Watchfire 10 keeps it beside the task.
        dir.remove(&format!("{number}.metrics.yaml"))?;
        // A kill before this leaves the lease of a task that is gone. It is never asked for again, because
        // numbers are not given twice.
        let mut claims = self.claims.lock()?;
        claims.ledger.forget(number);
        claims.save()?;
        lock(&self.cache).tasks.remove(&number);
        self.feed.send(&Change::Task(number));
        Ok(())
    }

    pub(super) fn claim(&self, number: TaskNumber, holder: &Holder, lease: Duration) -> Result<Claim> {
        self.find(number)?;
        // The claims' lock is enough, because no file of a task changes. Where both locks are taken, this one
        // is the second.
        let mut claims = self.claims.lock()?;
        let claim = claims.ledger.claim(number, holder, lease, &self.clock.now())?;
        claims.save()?;
        Ok(claim)
    }

    pub(super) fn renew(&self, renewed: &[Claim], lease: Duration) -> Result<Vec<Claim>> {
        let mut claims = self.claims.lock()?;
        let lost = claims.ledger.renew(renewed, lease, &self.clock.now());
        claims.save()?;
        Ok(lost)
    }

    pub(super) fn release(&self, claim: &Claim) -> Result<()> {
        let mut claims = self.claims.lock()?;
        claims.ledger.release(claim);
        claims.save()
    }

    fn update_locked(
        &self,
        number: TaskNumber,
        patch: &TaskPatch,
        expected: Option<&Revision>,
    ) -> Result<Versioned<Task>> {
        let (dir, name) = self.find(number)?;
        let now = self.clock.now();
        let (stored, changed) = atomic::update::<Task>(&dir, &name, expected, |task| {
            // A file that was copied by hand still carries the number of its original.
            own_number(task, number).map_err(|fault| atomic::malformed(&dir, &name, fault))?;
            Ok(patch.apply(task, &now))
        })?;
        let versioned = Versioned { value: stored.value.clone(), revision: stored.revision.clone() };
        if changed {
            let mut cache = lock(&self.cache);
            let slot = cache.tasks.entry(number).or_default();
            slot.name = name;
            slot.set(stored, self.now());
            drop(cache);
            self.feed.send(&Change::Task(number));
        }
        Ok(versioned)
    }

    fn change_project(
        &self,
        expected: Option<&Revision>,
        change: impl FnOnce(&mut Project) -> bool,
    ) -> Result<Versioned<Project>> {
        let dir = self.watchfire()?;
        let (stored, changed) =
            atomic::update::<Project>(&dir, PROJECT, expected, |project| Ok(change(project)))?;
        let versioned = Versioned { value: stored.value.clone(), revision: stored.revision.clone() };
        if changed {
            let mut cache = lock(&self.cache);
            PROJECT.clone_into(&mut cache.project.name);
            cache.project.set(stored, self.now());
            drop(cache);
            self.feed.send(&Change::Project);
        }
        Ok(versioned)
    }

    /// Returns the folder and file name of an existing task, readable or not.
    fn find(&self, number: TaskNumber) -> Result<(Dir, String)> {
        let dir = self.watchfire()?.child("tasks")?.ok_or_else(|| no_such_task(number))?;
        let known = || lock(&self.cache).tasks.get(&number).map(|slot| slot.name.clone());
        let name = known().unwrap_or_else(|| file_name(number));
        if dir.stamp(&name).is_some() {
            return Ok((dir, name));
        }
        // The file may have another name for the same number, such as `7.yaml`.
        self.scan()?;
        known().map(|name| (dir, name)).ok_or_else(|| no_such_task(number))
    }

    pub(super) fn watchfire(&self) -> Result<Dir> {
        Dir::open(&self.root)?.child(".watchfire")?.ok_or_else(|| self.no_project())
    }

    fn no_project(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            "not a Watchfire project: no .watchfire/project.yaml, initialise it first",
        )
        .with_path(&self.root)
    }

    pub(super) fn lock(&self) -> Result<FileLock> {
        FileLock::acquire(&self.lock_file, PATIENCE)
    }

    /// Returns true if the last scan found the task, readable or not.
    pub(super) fn knows(&self, number: TaskNumber) -> bool {
        lock(&self.cache).tasks.contains_key(&number)
    }

    fn now(&self) -> Now {
        // The system's clock, not the injected one: stamps of files are compared with it.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let unix = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Now { unix, boot: self.clock.boot_time() }
    }
}

impl Watched for Engine {
    fn folders(&self) -> Vec<Dir> {
        let Ok(root) = Dir::open(&self.root) else { return Vec::new() };
        match root.child(".watchfire") {
            Ok(Some(watchfire)) => {
                let tasks = watchfire.child("tasks").ok().flatten();
                std::iter::once(watchfire).chain(tasks).collect()
            }
            // Only until `.watchfire` exists: the root of a project changes often.
            _ => vec![root],
        }
    }

    fn look(&self) -> Result<Option<Duration>> {
        self.scan()?;
        Ok(lock(&self.cache).next_look())
    }

    fn watching(&self) -> &Mutex<Watching> {
        &self.watching
    }
}

pub(in crate::store) fn already_exists(error: &Error) -> bool {
    use std::error::Error as _;
    let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::AlreadyExists)
}
