//! The person: writes tasks, edits and commits in the checkout while agents work in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::store::{NewTask, TaskPatch, TaskQuery, TaskStore as _, YamlStore};

use crate::aftermath;
use crate::driver::{append, home, store};
use crate::kind::{self, Kind};
use crate::random::Random;
use crate::support::{World, until};

/// The file that the person edits.
pub(super) const EDITED: &str = "edited.txt";
/// Number of tasks that may lie ahead.
const AHEAD: usize = 10;
/// Number of tasks that stay ready whatever happens.
const STAY: usize = 4;

/// The person, and what must be there at the end.
pub(super) struct Person<'a> {
    world: &'a World,
    root: PathBuf,
    store: YamlStore,
    pub(super) kinds: Vec<Kind>,
    pub(super) titles: BTreeMap<u32, String>,
    /// Lines of the edited file.
    pub(super) edits: Vec<String>,
    /// Files that git does not know, with their texts.
    pub(super) notes: Vec<(PathBuf, String)>,
    /// Subjects of commits.
    pub(super) commits: Vec<String>,
}

impl<'a> Person<'a> {
    /// Makes the project.
    pub(super) async fn begin(world: &'a World) -> Self {
        let root = world.repo("project");
        let folder = world.folder.path();
        kind::write_functions(folder);
        let lines: String = (1..20).map(|line| format!("line {line}\n")).collect();
        for (name, text) in [("rivals.txt", "base\n"), (EDITED, &*lines), (".gitignore", ".watchfire/\n")] {
            fs::write(root.join(name), text).unwrap();
        }
        world.git(&root, &["add", "."]);
        world.git(&root, &["commit", "-qm", "more"]);
        let home = home(folder).await;
        let settings = "version: 1\ndefaults:\n  default_sandbox: none\n";
        fs::write(home.path().join("settings.yaml"), settings).unwrap();
        home.init_project(&root, Default::default()).await.unwrap();
        let yaml = root.join(".watchfire/project.yaml");
        let more = format!(
            "max_parallel: 4\non_limit: wait\nauto_merge: true\nauto_delete_branch: true\nmerge:\n  batch: 2\nverify:\n- |\n  \
             test ! -e broken.txt && {}\n",
            aftermath::verify(folder)
        );
        fs::write(&yaml, fs::read_to_string(&yaml).unwrap() + &more).unwrap();
        let store = store(folder).await;
        let (kinds, titles, edits) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { world, root, store, kinds, titles, edits, notes: Vec::new(), commits: Vec::new() }
    }

    /// Does something.
    pub(super) async fn act(&mut self, random: &mut Random) {
        match random.below(10) {
            0..=2 => self.add_task(random).await,
            3 => self.rename(random).await,
            4 => self.make_ready().await,
            5 => {
                let path = self.root.join(format!("note-{}", self.notes.len()));
                let text = format!("a note, {}\n", random.below(1_000_000));
                fs::write(&path, &text).unwrap();
                self.notes.push((path, text));
            }
            6 => drop(self.commit(random.once_in(2))),
            _ => {
                let line = format!("edit {}", self.edits.len());
                append(&self.root.join(EDITED), &line);
                self.edits.push(line);
            }
        }
    }

    async fn add_task(&mut self, random: &mut Random) {
        let tasks = self.store.list(&TaskQuery::new()).await.unwrap().tasks;
        if tasks.iter().filter(|task| task.value.status != TaskStatus::Done).count() > AHEAD {
            return;
        }
        let number = u32::try_from(self.kinds.len()).unwrap() + 1;
        let is_full = self.kinds.iter().filter(|kind| kind.stays_ready()).count() >= STAY;
        let kind = Some(Kind::random(random)).filter(|kind| !(is_full && kind.stays_ready()));
        let kind = kind.unwrap_or(Kind::Works);
        let prompt = kind.prompt(self.world.folder.path(), number, random);
        let title = format!("task {number}");
        let mut task = NewTask::new(&title).with_prompt(prompt).with_ready(!random.once_in(6));
        task.labels = vec![kind.word().to_owned()];
        let before = random.below(u64::from(number)) as usize;
        if random.once_in(6) && self.kinds.get(before).is_some_and(|kind| kind.merges()) {
            task.depends_on = vec![TaskNumber::new(u32::try_from(before).unwrap() + 1).unwrap()];
        }
        let made = self.store.create(task, None).await.unwrap().value.task_number;
        assert_eq!(made.value(), number);
        self.kinds.push(kind);
        self.titles.insert(number, title);
    }

    async fn rename(&mut self, random: &mut Random) {
        let Ok(count @ 1..) = u64::try_from(self.kinds.len()) else { return };
        let number = u32::try_from(random.below(count)).unwrap() + 1;
        let title = format!("task {number}, called {}", random.below(1000));
        let patch = TaskPatch::new().with_title(title.clone());
        self.store.update(TaskNumber::new(number).unwrap(), patch, None, None).await.unwrap();
        self.titles.insert(number, title);
    }

    /// Returns true if this person has changed the title of a task.
    pub(super) fn has_renamed(&self, number: u32) -> bool {
        self.titles.get(&number).is_some_and(|title| title.contains(", called "))
    }

    /// Makes the first draft ready.
    async fn make_ready(&mut self) {
        let drafts = self.store.list(&TaskQuery::new().with_status(TaskStatus::Draft)).await.unwrap().tasks;
        if let Some(draft) = drafts.first() {
            let patch = TaskPatch::new().with_status(TaskStatus::Ready);
            // Unless wildfire was first.
            let revision = Some(&draft.revision);
            let _ = self.store.update(draft.value.task_number, patch, revision, None).await;
        }
    }

    /// Commits the edits so far: all that is changed, or only the one file. Returns false if git refuses, as it does while
    /// a merge moves the branch.
    fn commit(&mut self, all: bool) -> bool {
        let subject = format!("edits up to {}", self.edits.len());
        let what: &[&str] = if all { &["-a"] } else { &["--", EDITED] };
        let mut git = Command::new("git");
        self.world.isolate(&mut git);
        git.current_dir(&self.root).args(["commit", "-q", "-m", &subject]).args(what);
        let is_done = git.output().unwrap().status.success();
        if is_done {
            self.commits.push(subject);
        }
        is_done
    }

    /// Commits what is left, so that nothing of the person's is in the way any more.
    pub(super) fn rest(&mut self) {
        until("all edits are committed", || {
            let is_clean = self.world.git(&self.root, &["status", "--porcelain", "--", EDITED]).is_empty();
            is_clean || self.commit(false)
        });
    }
}
