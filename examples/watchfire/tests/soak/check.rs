//! What must hold once everything has come to rest. The numbers are those of docs/guarantees.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use watchfire_core::journal::Journal;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::schedule::{Change, Ending, Life, LifeId, Subject};
use watchfire_core::store::{TaskQuery, TaskStore as _};

use crate::aftermath::{self, names};
use crate::driver;
use crate::kind::{Kind, is_stop};
use crate::person::{EDITED, Person};
use crate::support::World;

/// The longest that processes may take to be gone after the orchestrator.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns everything that is wrong.
pub(super) async fn problems(world: &World, person: &Person<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = world.folder.path();
    let root = folder.join("project");
    let store = driver::store(folder).await;
    let state_dir = state_dir(world).await;
    let lives = lives(folder, &mut wrong);
    ends(folder, person, &lives, &mut wrong);
    let merged = merged(&lives);
    wrong.extend(open(world).await);
    // 1
    aftermath::work(world, &root, &mut wrong);
    // 2
    checkout(world, &root, person, &mut wrong);
    // 3
    merges(world, &root, person, &merged, &mut wrong);
    aftermath::verified(world, &root, &mut wrong);
    // 6
    let count = u32::try_from(person.kinds.len()).unwrap();
    let tasks: Vec<_> = (1..=count).map(|task| TaskNumber::new(task).unwrap()).collect();
    aftermath::claims(folder, &tasks, &mut wrong).await;
    aftermath::outcomes(folder, &mut wrong);
    // 7
    processes(folder, &mut wrong);
    // 8
    files(&store, person, &merged, &mut wrong).await;
    // 13
    aftermath::log(folder, &mut wrong);
    let unmerged: Vec<u32> = (1..=count).filter(|task| !merged.contains(task)).collect();
    aftermath::leftovers(&root, &state_dir, &unmerged, &mut wrong);
    leftovers(world, &root, &merged, &mut wrong);
    wrong
}

async fn state_dir(world: &World) -> PathBuf {
    let folder = world.folder.path();
    let id = driver::store(folder).await.project().await.unwrap().value.project_id;
    driver::home(folder).await.state_dir(&id)
}

/// Returns what the journal says is under way, and what is wrong with the journal.
pub(super) async fn open(world: &World) -> Vec<String> {
    let (state, warnings) = match Journal::read(state_dir(world).await.join("journal")) {
        Ok(read) => read,
        Err(error) => return vec![error.report()],
    };
    let damage = warnings.iter().map(|warning| format!("journal: {warning}"));
    let lives = state.ledger.lives.values();
    let lives = lives.map(|life| format!("life {} of {} is {}", life.id, life.subject, life.state));
    let runs = state.ledger.runs.values().filter(|run| run.ended.is_none());
    let runs = runs.map(|run| format!("run {} has not ended", run.id));
    damage.chain(lives).chain(runs).collect()
}

/// Returns the lives that have ended, as the log has them.
fn lives(folder: &Path, wrong: &mut Vec<String>) -> BTreeMap<LifeId, Life> {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let mut lives = BTreeMap::new();
    for (_, change) in text.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(Change::Life(life)) = serde_json::from_str::<Change>(change) else { continue };
        let (id, has_ended) = (life.id, life.has_ended());
        if has_ended && lives.insert(id, *life).is_some() {
            wrong.push(format!("life {id} ended twice"));
        }
    }
    lives
}

/// Returns true for a refinement that left a draft to the words of its person.
fn is_outrun(ending: &Ending) -> bool {
    matches!(ending, Ending::Failed { reason, .. } if reason == "a person changed the draft meanwhile")
}

/// Every life ended in a way that its script or a stop explains, and every task in a way that its script explains.
fn ends(folder: &Path, person: &Person<'_>, lives: &BTreeMap<LifeId, Life>, wrong: &mut Vec<String>) {
    let stops = fs::read_to_string(folder.join("stops")).unwrap_or_default();
    let stops: HashSet<&str> = stops.lines().collect();
    let mut last = BTreeMap::new();
    for life in lives.values() {
        let Some(ending) = life.ending() else { continue };
        let was_stopped = is_stop(ending) && stops.contains(&*life.id.to_string());
        let is_right = match life.subject {
            Subject::Chat | Subject::Refine { .. } | Subject::Generate if *ending == Ending::Closed => true,
            Subject::Refine { draft, .. } => {
                *ending == Ending::Refined || is_outrun(ending) && person.has_renamed(draft.value())
            }
            Subject::Generate => *ending == Ending::generated(Vec::new()),
            Subject::Task { task, .. } => {
                last.insert(task.value(), ending);
                person.kinds[task.value() as usize - 1].is_final(ending)
            }
            _ => false,
        };
        if !is_right && !was_stopped {
            wrong.push(format!("life {} of {} ended: {ending}", life.id, life.subject));
        }
    }
    for (at, kind) in person.kinds.iter().enumerate() {
        let number = u32::try_from(at).unwrap() + 1;
        match last.get(&number) {
            Some(ending) if kind.is_final(ending) || *kind == Kind::Fails && is_stop(ending) => {}
            ending => wrong.push(format!("task {number}, which {}, ended at last: {ending:?}", kind.word())),
        }
    }
}

/// Returns the tasks that were merged.
fn merged(lives: &BTreeMap<LifeId, Life>) -> BTreeSet<u32> {
    let merged = lives.values().filter(|life| matches!(life.ending(), Some(Ending::Merged { .. })));
    merged.filter_map(|life| life.subject.task()).map(TaskNumber::value).collect()
}

/// The person's edits, files and commits are there, and the checkout is as the branch is.
fn checkout(world: &World, root: &Path, person: &Person<'_>, wrong: &mut Vec<String>) {
    let mut text = fs::read_to_string(root.join(EDITED)).unwrap();
    let aside = root.join(".watchfire/worktrees/aside");
    for name in names(&aside) {
        // Displaced by a merge, because the file was saved once more meanwhile.
        text += &fs::read_to_string(aside.join(name)).unwrap();
    }
    let lines: HashSet<&str> = text.lines().collect();
    let edits = person.edits.iter().filter(|edit| !lines.contains(&***edit));
    wrong.extend(edits.map(|edit| format!("{edit:?} of the person is lost")));
    for (path, text) in &person.notes {
        if fs::read_to_string(path).ok().as_ref() != Some(text) {
            wrong.push(format!("{} is not as the person left it", path.display()));
        }
    }
    let subjects = world.git(root, &["log", "--format=%s", "main"]);
    let subjects: HashSet<&str> = subjects.lines().collect();
    let commits = person.commits.iter().filter(|commit| !subjects.contains(&***commit));
    wrong.extend(commits.map(|commit| format!("the person's commit {commit:?} is not on the branch")));
    let status = world.git(root, &["status", "--porcelain"]);
    let changed = status.lines().filter(|line| !line.starts_with("?? note-"));
    wrong.extend(changed.map(|line| format!("the checkout differs from the branch: {line}")));
}

/// The work of a task is in the target once if its life says so, else not at all.
fn merges(world: &World, root: &Path, person: &Person<'_>, merged: &BTreeSet<u32>, wrong: &mut Vec<String>) {
    let subjects = world.git(root, &["log", "--format=%s", "main"]);
    let files = world.git(root, &["ls-tree", "--name-only", "main"]);
    let files: HashSet<&str> = files.lines().collect();
    for task in 1..=u32::try_from(person.kinds.len()).unwrap() {
        let (is_merged, kind) = (merged.contains(&task), person.kinds[task as usize - 1]);
        let count = aftermath::merges(&subjects, TaskNumber::new(task).unwrap());
        if count != usize::from(is_merged) {
            wrong.push(format!("task {task} was merged {count} times, and its lives say {is_merged}"));
        }
        let name = format!("work-{task}.txt");
        if files.contains(&*name) != is_merged {
            wrong.push(format!("{name} is on the branch: {}", !is_merged));
        }
        if is_merged {
            let text = fs::read_to_string(root.join(&name)).unwrap_or_default();
            if !text.lines().any(|line| line.starts_with(&format!("{task} last "))) {
                wrong.push(format!("{name} is not whole: {text:?}"));
            }
            let answer = fs::read_to_string(world.path(&format!("answered-{task}"))).unwrap_or_default();
            if kind == Kind::Asks && answer != "8080" {
                wrong.push(format!("task {task} was answered {answer:?}"));
            }
        }
    }
}

/// No process of this world is left.
fn processes(folder: &Path, wrong: &mut Vec<String>) {
    let began = Instant::now();
    let left = loop {
        let left = running(folder);
        if left.is_empty() || began.elapsed() > PATIENCE {
            break left;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    wrong.extend(left.into_iter().map(|process| format!("still running: {process}")));
}

/// Returns the processes that name the folder in their arguments or variables.
fn running(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let names_it = |pid: &String| {
        ["cmdline", "environ"].iter().any(|file| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(&*folder)
        })
    };
    let pids =
        names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|it| it.is_ascii_digit()));
    pids.filter(names_it)
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// Checks that the task files hold everything that the person and the agents wrote.
async fn files(
    store: &impl watchfire_core::store::TaskStore,
    person: &Person<'_>,
    merged: &BTreeSet<u32>,
    wrong: &mut Vec<String>,
) {
    let list = store.list(&TaskQuery::new()).await.unwrap();
    wrong.extend(list.malformed.iter().map(|file| format!("{}: {}", file.path.display(), file.reason)));
    if list.tasks.len() != person.kinds.len() {
        wrong.push(format!("there are {} tasks of {}", list.tasks.len(), person.kinds.len()));
    }
    for task in list.tasks.into_iter().map(|task| task.value) {
        let number = task.task_number.value();
        if person.titles.get(&number) != Some(&task.title) {
            wrong.push(format!("task {number} is called {:?}", task.title));
        }
        if merged.contains(&number) && (task.status != TaskStatus::Done || task.success == Some(false)) {
            wrong.push(format!("task {number} is merged, and its file says {}", task.status));
        }
    }
}

/// Neither hosts nor branches and worktrees of merged work are left.
fn leftovers(world: &World, root: &Path, merged: &BTreeSet<u32>, wrong: &mut Vec<String>) {
    for host in names(&world.path("watchfire-home/hosts")) {
        wrong.push(format!("the folder of host {host} is left"));
    }
    let branches = world.git(root, &["for-each-ref", "--format=%(refname:short)", "refs/heads/watchfire"]);
    for branch in branches.lines() {
        let number = branch.rsplit('/').next().and_then(|key| key.get(..4)?.parse::<u32>().ok());
        if number.is_none_or(|number| merged.contains(&number)) {
            wrong.push(format!("the branch {branch} is left"));
        }
    }
    let worktrees = world.git(root, &["worktree", "list", "--porcelain"]);
    wrong.extend(
        worktrees.lines().filter(|line| line.starts_with("prunable")).map(|line| format!("git: {line}")),
    );
}
