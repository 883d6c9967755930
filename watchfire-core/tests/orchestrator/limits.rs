//! Many tasks, a second user or home, and machines that run out of something.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::process::helper::RoleArgs;
use watchfire_core::schedule::{Change, Ending, Life, LifeState, Wait};

use super::support::{DONE, World, builder, child, fake, make_project, within};
use super::trial;

/// Any user that is not root.
const NOBODY: u32 = 65534;

pub(crate) fn trials() -> Vec<Trial> {
    let no_mounts = mounted(&Command::new("true")).err().map(|_| "no mount namespaces here");
    let no_root = (!geteuid().is_root()).then_some("not root");
    let mut trials = vec![
        trial("a_second_home_is_refused_until_the_first_is_done", a_second_home_is_refused),
        trial("sixty_tasks_live_at_once", sixty_tasks_live_at_once),
    ];
    let ways = [
        ("a_second_user_is_refused_until_the_first_is_done", no_root, a_second_user_is_refused as fn() -> _),
        ("tasks_wait_for_descriptors", None, tasks_wait_for_descriptors),
        ("a_last_claim_waits_for_descriptors", None, a_last_claim_waits_for_descriptors),
        ("tasks_wait_for_room_on_the_disk", no_mounts, tasks_wait_for_room),
        ("a_claim_waits_for_room_on_the_disk", no_mounts, a_claim_waits_for_room),
    ];
    for (name, missing, test) in ways {
        missing.inspect(|why| eprintln!("SKIPPED {name}: {why}"));
        trials.push(Trial::test(name, test).with_ignored_flag(missing.is_some()));
    }
    trials
}

fn run(child: &mut Command) -> Result<(), Failed> {
    let Output { status, stdout, stderr } = child.output()?;
    let words = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if status.success() { Ok(()) } else { Err(format!("{status}\n{}", words.concat()).into()) }
}

fn in_runtime(test: impl Future<Output = ()>) -> i32 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
    0
}

async fn a_second_home_is_refused() {
    let shared = |temp: &Path| std::fs::create_dir(temp.join("my project/shared")).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().to_owned();
    let world = World::built(temp, |builder| {
        shared(&path);
        builder
    })
    .await;
    let go = world.temp.path().join("go");
    let script =
        format!("echo once >> '{0}.log'; until [ -e '{0}' ]; do sleep 0.01; done; {DONE}", go.display());
    let task = world.task("t", &script).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let second = builder(world.temp.path(), &fake(world.temp.path())).home(world.temp.path().join("second"));
    let second = second.start().await.unwrap();
    let error = second.open(world.root()).await.unwrap_err();
    assert_eq!(error.code(), "locked");
    assert!(error.report().contains("another orchestrator works on this project"), "{}", error.report());
    std::fs::write(&go, "").unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    // The handles of the first stay where they are.
    within(world.orchestrator.shutdown()).await;
    let project = second.open(world.root()).await.unwrap();
    within(project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
    assert_eq!(std::fs::read_to_string(go.with_extension("log")).unwrap(), "once\n");
    assert!(matches!(project.tasks(&Default::default()).await.unwrap()[0].task.task_number, n if n == task));
}

watchfire_core::register_helper_role!("test-second", second);

/// Opens the project below the first argument from a home below the second one.
fn second(args: RoleArgs) -> i32 {
    let [temp, own] = [0, 1].map(|at| PathBuf::from(&args.args()[at]));
    in_runtime(async {
        let home = own.join("home");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("settings.yaml"), "version: 1\ndefaults:\n  default_sandbox: none\n")
            .unwrap();
        let other = builder(&own, &fake(&temp)).start().await.unwrap();
        match other.open(temp.join("my project")).await {
            Ok(_) => print!("open"),
            Err(error) => print!("{}", error.report()),
        }
    })
}

/// The project belongs to the user, and root opened it first.
fn a_second_user_is_refused() -> Result<(), Failed> {
    fn give(path: &Path) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            give(&entry.path());
        }
    }
    let (temp, own) = (tempfile::tempdir()?, tempfile::tempdir()?);
    std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755))?;
    give(own.path());
    let asked = || {
        let mut child = child("test-second");
        let output = child.arg(temp.path()).arg(own.path()).uid(NOBODY).gid(NOBODY).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    };
    in_runtime(async {
        let root = make_project(temp.path()).await;
        std::fs::create_dir(root.join("shared")).unwrap();
        give(&root);
        let orchestrator = builder(temp.path(), &fake(temp.path())).start().await.unwrap();
        let project = orchestrator.open(&root).await.unwrap();
        let said = asked();
        assert!(said.contains("another orchestrator works on this project"), "{said}");
        within(orchestrator.shutdown()).await;
        drop(project);
        assert_eq!(asked(), "open");
    });
    Ok(())
}

async fn sixty_tasks_live_at_once() {
    let world = World::new().await;
    world.configure("max_parallel: 60\n");
    let mut tasks = Vec::new();
    let here = world.temp.path().join("here");
    std::fs::create_dir(&here).unwrap();
    // Each waits for all others.
    let here = here.display();
    let script = format!("cd '{here}'; touch $$; until [ $(ls | wc -l) -ge 60 ]; do sleep 0.2; done; {DONE}");
    for n in 1..=60 {
        tasks.push(world.task(&n.to_string(), &script).await);
    }
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = tokio::time::timeout(Duration::from_secs(180), run.wait()).await.unwrap().unwrap();
    for task in tasks {
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    }
}

watchfire_core::register_helper_role!("test-descriptors", descriptors);

/// Descriptors to leave once the first session is prepared.
static LATE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Uses up all descriptors but for `left`, until the limit is set anew.
fn leave(left: u64) {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + left), ..before }).unwrap();
}

/// Uses up the descriptors where a test wants it, in the middle of a start.
pub(crate) fn squeeze() {
    let left = LATE.swap(u64::MAX, Ordering::SeqCst);
    if left != u64::MAX {
        leave(left);
    }
}

/// Uses up all descriptors for a while, but for as many as the first argument says: before any session starts, or with a second
/// argument while they do.
fn descriptors(args: RoleArgs) -> i32 {
    let left: u64 = args.args()[0].to_str().unwrap().parse().unwrap();
    let late = args.args().len() > 1;
    in_runtime(async {
        let mut world = World::hasty().await;
        world.configure("max_parallel: 8\n");
        for n in 1..=8 {
            world.task(&n.to_string(), DONE).await;
        }
        let before = getrlimit(Resource::Nofile);
        match late {
            true => LATE.store(left, Ordering::SeqCst),
            false => leave(left),
        }
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        let mut more = 0;
        let run = loop {
            match world.project.run(RunRequest::all()).await {
                Ok(run) => break run,
                // None is left for the request itself, which says so.
                Err(error) => {
                    assert!(error.report().contains("Too many open files"), "{}", error.report());
                    more += 1;
                    let current = Some(limit + more);
                    setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
                }
            }
        };
        let life = waits_for_the_machine(&mut world).await;
        if !late {
            let said = life.state.to_string();
            assert!(said.contains("too few file descriptors"), "{said}");
            assert!(life.session.is_none() && life.alias.is_none(), "nothing was started: {life:?}");
        }
        setrlimit(Resource::Nofile, before).unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(summary.is_good() && summary.endings.len() == 8, "{summary:?}");
    })
}

watchfire_core::register_helper_role!("test-last-claim", last_claim);

/// Uses up all descriptors while an agent says that it is done, and until it is gone.
fn last_claim(_: RoleArgs) -> i32 {
    in_runtime(async {
        let mut world = World::new().await;
        let (go, gone) = (world.temp.path().join("go"), world.temp.path().join("gone"));
        let mut going = std::fs::File::create(&go).unwrap();
        let script =
            format!("until [ -s '{}' ]; do sleep 0.02; done; {DONE}; : > '{}'", go.display(), gone.display());
        let task = world.task("t", &script).await;
        let run = world.project.run(RunRequest::all()).await.unwrap();
        world.life(|life| life.state == LifeState::Running).await;
        let before = getrlimit(Resource::Nofile);
        // It bounds the numbers of descriptors: none is free, also where others are closed.
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
        going.write_all(b"go").unwrap();
        while std::fs::symlink_metadata(&gone).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The bug's chance: by now the claim would have been given up.
        tokio::time::sleep(Duration::from_secs(3)).await;
        setrlimit(Resource::Nofile, before).unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    })
}

fn a_last_claim_waits_for_descriptors() -> Result<(), Failed> {
    run(&mut child("test-last-claim"))
}

/// Waits until a task waits and says why. None may have ended by then.
async fn waits_for_the_machine(world: &mut World) -> Life {
    let life = world
        .life(|life| {
            assert!(!life.ending().is_some_and(|ending| matches!(ending, Ending::Error { .. })), "{life:?}");
            matches!(life.state, LifeState::Waiting { on: Wait::Trouble { .. }, .. })
        })
        .await;
    let said = life.state.to_string();
    assert!(
        said.contains("Too many open files")
            || said.contains("No space left")
            || said.contains("disk is full"),
        "{said}"
    );
    life
}

fn tasks_wait_for_descriptors() -> Result<(), Failed> {
    // Not up to the last one: what is open only for a moment counts as used when the limit is set.
    ["0", "4", "10", "20"].into_iter().try_for_each(|left| run(child("test-descriptors").arg(left)))?;
    // They may run short although there was room for a session.
    ["0", "4", "10", "20"]
        .into_iter()
        .try_for_each(|left| run(child("test-descriptors").args([left, "late"])))
}

/// Runs a command whose temporary files lie on a disk of 3 MB.
fn mounted(command: &Command) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let script = "mount -t tmpfs -o size=3m tmpfs \"$0\" && TMPDIR=\"$0\" exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(dir.path());
    run(unshare.arg(command.get_program()).args(command.get_args()))
}

watchfire_core::register_helper_role!("test-disk", disk);

/// Fills the disk for a while: all of it, or all but the first argument's bytes.
fn disk(args: RoleArgs) -> i32 {
    let left: u64 = args.args()[0].to_str().unwrap().parse().unwrap();
    in_runtime(async {
        let mut world = World::hasty().await;
        for n in 1..=4 {
            world.task(&n.to_string(), DONE).await;
        }
        let mut file = std::fs::File::create(world.temp.path().join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        file.set_len(file.metadata().unwrap().len() - left).unwrap();
        let run = within(world.project.run(RunRequest::all())).await.unwrap();
        waits_for_the_machine(&mut world).await;
        file.set_len(0).unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(summary.is_good() && summary.endings.len() == 4, "{summary:?}");
    })
}

watchfire_core::register_helper_role!("test-claim", claim);

/// Fills the disk before an agent says that it is done: its turn is paid for.
fn claim(_: RoleArgs) -> i32 {
    in_runtime(async {
        let mut world = World::new().await;
        let filler = world.temp.path().join("filler");
        // Silent: a recording that cannot be written is given up, which would make room again.
        let fill = format!("cat /dev/zero 2>/dev/null > '{}'", filler.display());
        // Written before, and the old text kept: what it says at the end takes no room and gives none.
        let written =
            r#"f=$WATCHFIRE_TASK_FILE; sed 's/^status: .*/status: done/' "$f" > "$f.new"; ln "$f" "$f.old""#;
        let task = world.task("t", &format!(r#"{written}; {fill}; mv "$f.new" "$f""#)).await;
        let run = world.project.run(RunRequest::all()).await.unwrap();
        let told =
            |change: &Change| matches!(change, Change::Notice(it) if it.message.contains("claim waits"));
        world.change(told).await;
        std::fs::remove_file(filler).unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
        assert_eq!(world.fake.calls().iter().filter(|call| call.starts_with("open")).count(), 1);
    })
}

fn tasks_wait_for_room() -> Result<(), Failed> {
    ["0", "12288", "65536"].into_iter().try_for_each(|left| mounted(child("test-disk").arg(left)))
}

fn a_claim_waits_for_room() -> Result<(), Failed> {
    mounted(&child("test-claim"))
}
