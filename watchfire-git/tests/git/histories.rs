//! Random histories of agents, a person and us: nothing that was reachable or in a folder is ever lost by us, and what
//! is the person's stays the person's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ObjectType, Oid};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    CaptureRequest, Isolation, Merge, MergeRequest, OpenRequest, PublishRequest, RemoveRequest, Workspace,
};
use watchfire_git::GitWorkspace;

use crate::support::steps::key;
use crate::support::{Repo, run, run_inside};

#[derive(Clone, Copy, Debug)]
enum Agent {
    Write(u8, u8),
    Delete(u8),
    Rename(u8, u8),
    Link(u8),
    Executable(u8),
    Stage,
    Commit,
    Amend,
    Reset,
    Merge,
    Rebase,
    Stash,
    Detach,
    OtherBranch,
    OwnRepository,
    NestedRepository,
    BreakIndex,
    ReplacePointer,
    /// A branch of any name.
    Feature,
    Tag(u8),
    Note,
    Special(u8),
    SelfLink,
    Pattern(u8),
    ManyFiles(u8),
}

#[derive(Clone, Copy, Debug)]
enum Person {
    Write(u8, u8),
    Delete(u8),
    Stage(u8),
    Commit,
    Switch(bool),
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Ours {
    Open { fresh: bool, isolation: Isolation },
    Capture,
    Publish,
    Rescue,
    Remove { discard: bool },
    Prune,
    Recover,
    KeepReady,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Agent(u32, Agent),
    Person(Person),
    Ours(u32, Ours),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use prop::sample::select;
    let (name, value) = (0..5u8, any::<u8>);
    let agent = prop_oneof![
        6 => (name.clone(), any::<u8>()).prop_map(|(n, v)| Agent::Write(n, v)),
        1 => name.clone().prop_map(Agent::Delete),
        1 => (name.clone(), name.clone()).prop_map(|(a, b)| Agent::Rename(a, b)),
        1 => name.clone().prop_map(Agent::Link),
        1 => name.clone().prop_map(Agent::Executable),
        4 => Just(Agent::Commit),
        4 => select(vec![
            Agent::Stage, Agent::Detach, Agent::OtherBranch, Agent::OwnRepository, Agent::NestedRepository,
            Agent::BreakIndex, Agent::ReplacePointer, Agent::Feature, Agent::Note,
        ]),
        3 => prop_oneof![
            value().prop_map(Agent::Special),
            value().prop_map(Agent::Pattern),
            value().prop_map(Agent::ManyFiles),
            value().prop_map(Agent::Tag),
            Just(Agent::SelfLink),
        ],
        4 => select(vec![Agent::Amend, Agent::Reset, Agent::Merge, Agent::Rebase, Agent::Stash]),
    ];
    let person = prop_oneof![
        3 => (name.clone(), any::<u8>()).prop_map(|(n, v)| Person::Write(n, v)),
        1 => name.clone().prop_map(Person::Delete),
        1 => name.prop_map(Person::Stage),
        2 => select(vec![Person::Commit, Person::Switch(true), Person::Switch(false), Person::Reset]),
    ];
    let ours = prop_oneof![
        3 => select(vec![
            Ours::Open { fresh: false, isolation: Isolation::None }, Ours::Open { fresh: false, isolation: Isolation::Bound },
            Ours::Open { fresh: false, isolation: Isolation::Linked }, Ours::Capture,
        ]),
        6 => Just(Ours::Publish),
        2 => select(vec![
            Ours::Open { fresh: true, isolation: Isolation::Bound }, Ours::Rescue, Ours::Remove { discard: false }, Ours::Remove { discard: true },
            Ours::Prune, Ours::Recover, Ours::KeepReady,
        ]),
    ];
    let step = prop_oneof![
        5 => (1..3u32, agent).prop_map(|(n, a)| Step::Agent(n, a)),
        2 => person.prop_map(Step::Person),
        4 => (1..3u32, ours).prop_map(|(n, o)| Step::Ours(n, o)),
    ];
    prop::collection::vec(step, 5..40)
}

fn name(n: u8) -> &'static str {
    ["a file.txt", "folder/one", "folder/two", "new", "deep/er/file"][usize::from(n) % 5]
}

fn text(n: u8, value: u8) -> String {
    (0..6)
        .map(|line| format!("{n} line {line} {}\n", if line == usize::from(value) % 6 { value } else { 0 }))
        .collect()
}

fn write(root: &Path, n: u8, value: u8) {
    let path = root.join(name(n));
    _ = fs::create_dir_all(path.parent().unwrap());
    // Whoever opens a pipe waits for somebody who reads it, as this test would.
    if !fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        _ = fs::write(path, text(n, value));
    }
}

const WHO: [&str; 6] = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgSign=false"];

fn try_git(folder: &Path, args: &[&str]) {
    // Whether it works depends on what came before; either is fine.
    _ = run(folder, WHO.iter().chain(args));
}

fn agent(repo: &Repo, n: u32, act: Agent) {
    let folder = repo.root.join(format!(".watchfire/worktrees/000{n}"));
    if !folder.is_dir() {
        return;
    }
    let admin = match repo.private(n) {
        private if private.is_dir() => private.join("admin"),
        _ => repo.root.join(format!(".git/worktrees/watchfire-000{n}")),
    };
    // An agent whose pointer is gone finds the person's repository: its sandbox would not let it write there.
    let has_git = folder.join(".git").exists();
    // Git itself waits for ever at a pipe in the place of one of its files: such an agent is done with git.
    let waits = ["folder/.gitignore", "folder/.gitattributes", ".gitmodules"]
        .iter()
        .any(|place| fs::symlink_metadata(folder.join(place)).is_ok_and(|meta| meta.file_type().is_fifo()));
    let git = |args: &[&str]| {
        if has_git && !waits {
            _ = run_inside(&repo.root, n, WHO.iter().chain(args));
        }
    };
    match act {
        Agent::Write(n, value) => write(&folder, n, value),
        Agent::Delete(n) => _ = fs::remove_file(folder.join(name(n))),
        Agent::Rename(a, b) => _ = fs::rename(folder.join(name(a)), folder.join(name(b))),
        Agent::Link(n) => {
            _ = fs::remove_file(folder.join(name(n)));
            // Below the test's own folder: a later write of this test goes through the link, as whoever runs it.
            _ = symlink(repo.beside("outside"), folder.join(name(n)));
        }
        Agent::Executable(n) => {
            _ = fs::set_permissions(folder.join(name(n)), PermissionsExt::from_mode(0o755))
        }
        Agent::Stage => git(&["add", "-A"]),
        Agent::Commit => {
            git(&["add", "-A"]);
            git(&["commit", "-qm", "agent"]);
        }
        Agent::Amend => git(&["commit", "-q", "--amend", "-m", "amended"]),
        Agent::Reset => git(&["reset", "-q", "--hard", "HEAD~1"]),
        // Both stop in the midst where files differ.
        Agent::Merge => git(&["merge", "-q", "--autostash", "-m", "merge", "main"]),
        Agent::Rebase => git(&["rebase", "-q", "--autostash", "main"]),
        Agent::Stash => git(&["stash"]),
        Agent::Detach => git(&["checkout", "-q", "--detach"]),
        Agent::OtherBranch => git(&["checkout", "-q", "-B", &format!("watchfire/other-{n}")]),
        Agent::OwnRepository => {
            _ = fs::remove_file(folder.join(".git"));
            try_git(&folder, &["init", "-q", "."]);
        }
        Agent::NestedRepository => {
            _ = fs::create_dir_all(folder.join("nested"));
            try_git(&folder.join("nested"), &["init", "-q", "."]);
            _ = fs::write(folder.join("nested/inside"), "nested\n");
        }
        Agent::BreakIndex => _ = fs::write(admin.join("index"), "broken"),
        Agent::Feature => git(&["checkout", "-q", "-B", &format!("feature-{n}")]),
        Agent::Tag(value) => git(&["tag", "-f", &format!("tag-{n}-{}", value % 3)]),
        Agent::Note => git(&["notes", "add", "-f", "-m", "a note"]),
        Agent::Special(value) => special(&folder, value),
        Agent::SelfLink => {
            _ = fs::create_dir_all(folder.join("folder"));
            _ = symlink("..", folder.join("folder/up"));
        }
        Agent::Pattern(value) => {
            // Matches nothing here, in time that grows exponentially where a matcher is careless.
            let name = if value % 2 == 0 { ".gitignore" } else { ".gitattributes" };
            let pattern = format!("{}zz{}", "*a".repeat(40), if value % 2 == 0 { "" } else { " -merge" });
            _ = fs::create_dir_all(folder.join("deep"));
            _ = fs::write(folder.join("deep").join(name), pattern);
            _ = fs::write(folder.join("deep").join("a".repeat(200)), "a");
        }
        Agent::ManyFiles(value) => {
            _ = fs::create_dir_all(folder.join("many"));
            (0..250).for_each(|n| _ = fs::write(folder.join(format!("many/{n}")), text(n, value)));
        }
        Agent::ReplacePointer => _ = fs::write(folder.join(".git"), "gitdir: /nowhere\n"),
    }
}

/// Makes a file that would block whoever opens it, also where git looks for its own files.
fn special(folder: &Path, value: u8) {
    let places = ["folder/pipe", "folder/.gitignore", "folder/.gitattributes", ".gitmodules", "new"];
    let path = folder.join(places[usize::from(value) % places.len()]);
    _ = fs::create_dir_all(folder.join("folder"));
    _ = fs::remove_file(&path);
    if value.is_multiple_of(3) {
        _ = std::os::unix::net::UnixListener::bind(&path);
    } else {
        _ = rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU);
    }
}

fn person(repo: &Repo, act: Person) {
    match act {
        Person::Write(n, value) => write(&repo.root, n, value),
        Person::Delete(n) => _ = fs::remove_file(repo.root.join(name(n))),
        Person::Stage(n) => try_git(&repo.root, &["add", name(n)]),
        Person::Commit => try_git(&repo.root, &["commit", "-qam", "person"]),
        Person::Switch(true) => try_git(&repo.root, &["checkout", "-q", "-B", "elsewhere"]),
        Person::Switch(false) => try_git(&repo.root, &["checkout", "-q", "main"]),
        Person::Reset => try_git(&repo.root, &["reset", "-q", "HEAD"]),
    }
}

/// Does one step of ours, which must end in time whatever an agent left.
async fn ours(workspace: &GitWorkspace, n: u32, act: Ours, attempt: u32) {
    let step = step(workspace, n, act, attempt);
    tokio::time::timeout(Duration::from_secs(120), step).await.expect("it hangs");
}

async fn step(workspace: &GitWorkspace, n: u32, act: Ours, attempt: u32) {
    let key = key(n);
    // Any of these may refuse; what counts is what is left then.
    match act {
        Ours::Open { fresh, isolation } => {
            let request = OpenRequest::new(key, Attempt(attempt)).with_target("main").with_fresh(fresh);
            _ = workspace.open(&request.with_isolation(isolation)).await;
        }
        Ours::Capture => _ = workspace.capture(&CaptureRequest::new(key, "captured")).await,
        Ours::Publish => {
            _ = workspace.capture(&CaptureRequest::new(key.clone(), "captured")).await;
            if let Ok(Merge::Ready(candidate)) =
                workspace.prepare_merge(&MergeRequest::new(key, "main", "merge")).await
            {
                _ = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
            }
        }
        Ours::Rescue => _ = workspace.rescue(&key, Attempt(attempt)).await.unwrap(),
        Ours::Remove { discard } => {
            _ = workspace.remove(&RemoveRequest::new(key).with_discard(discard)).await.unwrap()
        }
        Ours::Prune => _ = workspace.prune().await.unwrap(),
        Ours::Recover => _ = workspace.recover().await.unwrap(),
        Ours::KeepReady => workspace.keep_ready(1).await.unwrap(),
    }
}

/// What there is.
#[derive(Debug)]
struct World {
    /// All that is reachable from references, from the HEADs of agents, and from the logs of both.
    objects: BTreeSet<String>,
    /// References of the person, with HEAD.
    refs: BTreeMap<String, String>,
    main: String,
    /// The person's files.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The person's index.
    index: BTreeMap<String, String>,
    /// The contents in the folders of agents, as objects.
    work: BTreeSet<String>,
}

fn walk(folder: &Path, skip: &[&str], found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if skip.iter().any(|skip| entry.file_name() == *skip) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(&path, skip, found);
        } else if kind.is_symlink() {
            let link = fs::read_link(&path).unwrap();
            found.insert(path, link.into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
}

fn look(repo: &Repo) -> World {
    // Merges that wait can be made again.
    let mut tips: Vec<_> = ["rev-list", "--objects", "--exclude=refs/watchfire/queue/*", "--all", "--reflog"]
        .map(str::to_owned)
        .into();
    for admin in fs::read_dir(repo.root.join(".git/worktrees")).into_iter().flatten().flatten() {
        let head = fs::read_to_string(admin.path().join("HEAD")).unwrap_or_default();
        if head.trim().len() == 40 {
            tips.push(head.trim().to_owned());
        }
    }
    let mut listed = repo.git(tips);
    for n in (1..3).filter(|n| repo.private(*n).is_dir()) {
        let branches =
            ["rev-list", "--objects", "--exclude=refs/watchfire/queue/*", "--all", "HEAD", "--reflog"];
        listed += &String::from_utf8_lossy(&run_inside(&repo.root, n, branches).stdout);
    }
    let objects = listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let mut refs: BTreeMap<_, _> = repo
        .git(["for-each-ref", "--format=%(refname) %(objectname)"])
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| {
            !name.starts_with("refs/heads/watchfire/") && !name.starts_with("refs/watchfire/")
        })
        .map(|(name, id)| (name.to_owned(), id.to_owned()))
        .collect();
    let main = refs.remove("refs/heads/main").unwrap();
    refs.insert("HEAD".to_owned(), fs::read_to_string(repo.root.join(".git/HEAD")).unwrap());
    let mut files = BTreeMap::new();
    walk(&repo.root, &[".git", ".watchfire"], &mut files);
    let index = repo.git(["ls-files", "-s", "-v"]);
    let index = index
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(e, p)| (p.to_owned(), e.to_owned()))
        .collect();
    let mut work = BTreeMap::new();
    walk(&repo.root.join(".watchfire/worktrees"), &[".git", "aside"], &mut work);
    let hash = |content: Vec<u8>| Oid::hash_object(ObjectType::Blob, &content).unwrap().to_string();
    World { objects, refs, main, files, index, work: work.into_values().map(hash).collect() }
}

/// What our step may have changed, checked.
fn compare(repo: &Repo, before: &World, after: &World) -> Result<(), String> {
    let lost: Vec<_> = before.objects.difference(&after.objects).collect();
    if !lost.is_empty() {
        return Err(format!("no longer reachable: {lost:?}"));
    }
    let mut aside = BTreeMap::new();
    walk(&repo.root.join(".watchfire/worktrees/aside"), &[], &mut aside);
    let aside: BTreeSet<_> =
        aside.into_values().map(|c| Oid::hash_object(ObjectType::Blob, &c).unwrap().to_string()).collect();
    let lost: Vec<_> = before
        .work
        .iter()
        .filter(|id| !after.work.contains(*id) && !after.objects.contains(*id) && !aside.contains(*id))
        .collect();
    if !lost.is_empty() {
        return Err(format!("gone from the folders: {lost:?}"));
    }
    if before.refs != after.refs {
        return Err(format!("references changed: {:?} to {:?}", before.refs, after.refs));
    }
    let changed = repo.git(["diff", "--name-only", "--no-renames", "-z", &before.main, &after.main]);
    let changed: BTreeSet<&str> = changed.split('\0').filter(|name| !name.is_empty()).collect();
    let on_main = after.refs.get("HEAD").is_some_and(|head| head.trim() == "ref: refs/heads/main");
    let may = |path: &str| on_main && changed.contains(path);
    let paths: BTreeSet<_> = before.files.keys().chain(after.files.keys()).collect();
    for path in paths {
        let shown = path.strip_prefix(&repo.root).unwrap().to_str().unwrap();
        let (old, new) = (before.files.get(path), after.files.get(path));
        if old == new {
            continue;
        }
        let blob = |commit: &str| {
            let output = run(&repo.root, ["cat-file", "blob", &format!("{commit}:{shown}")]);
            output.status.success().then_some(output.stdout)
        };
        if !may(shown) || old != blob(&before.main).as_ref() || new != blob(&after.main).as_ref() {
            return Err(format!("a file of the person changed: {shown}"));
        }
    }
    let entries: BTreeSet<_> = before.index.keys().chain(after.index.keys()).collect();
    match entries.into_iter().find(|path| before.index.get(*path) != after.index.get(*path) && !may(path)) {
        Some(path) => Err(format!("the person's index changed: {path}")),
        None => Ok(()),
    }
}

#[test]
fn nothing_is_lost_and_the_person_is_not_disturbed() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let config = Config {
        cases: if long { 300 } else { 6 },
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let published = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config).run(&steps(), |steps| {
        let repo = Repo::new();
        repo.write("folder/one", text(1, 0));
        repo.commit("more");
        let workspace = repo.workspace();
        runtime.block_on(ours(&workspace, 1, Ours::Open { fresh: false, isolation: Isolation::Bound }, 1));
        for (at, step) in steps.iter().enumerate() {
            match *step {
                Step::Agent(n, act) => agent(&repo, n, act),
                Step::Person(act) => person(&repo, act),
                Step::Ours(n, act) => {
                    let before = look(&repo);
                    runtime.block_on(ours(&workspace, n, act, u32::try_from(at).unwrap() + 1));
                    let after = look(&repo);
                    published.set(published.get() + usize::from(before.main != after.main));
                    compare(&repo, &before, &after)
                        .map_err(|e| TestCaseError::fail(format!("step {at}: {e}")))?;
                }
            }
        }
        // An agent's broken index is mended by the next capture.
        for n in 1..3 {
            runtime.block_on(ours(&workspace, n, Ours::Capture, 99));
        }
        repo.fsck();
        Ok(())
    });
    eprintln!("{} publications", published.get());
    outcome.unwrap();
}
