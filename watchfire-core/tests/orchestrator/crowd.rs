//! Many agents that print while their orchestrator is killed again and again.
//!
//! The short form has 6 agents and 3 kills; with `WATCHFIRE_LONG=1` it is 200 and 20, and takes minutes in a release build.
//! `WATCHFIRE_SEED` repeats the times of the kills of an earlier run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::Trial;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{ProjectHandle, RunRequest, SessionLog};
use watchfire_core::process::helper::RoleArgs;
use watchfire_core::schedule::{Ending, LifeState, ResumeTarget};
use watchfire_core::session::Recorded;

use super::support::{DONE, World, child, fake, gone, helper, make_project, orchestrator};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("no_kill_costs_a_byte_of_a_recording", no_kill_costs_a_byte)]
}

/// The longest that all agents together may take to one step: they share the machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The line of the agent of task `number` that has this index, counted from 0.
///
/// Lines differ in length and hold sequences and characters of several bytes, so that reads end within them.
fn line(number: u32, index: u64) -> String {
    let mixed = (u64::from(number) << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let colour = mixed >> 61;
    let rest = "x".repeat(usize::try_from(mixed >> 32 & 63).unwrap());
    format!("{number} {index} {mixed:016x} \x1b[3{colour}mé≠\x1b[0m {rest}\n")
}

watchfire_core::register_helper_role!("test-print", print);

/// Prints lines until there is a file `go` in the folder of the first argument, then writes down how many there were. The
/// second argument is the number of the task.
fn print(args: RoleArgs) -> i32 {
    let temp = PathBuf::from(&args.args()[0]);
    let number: u32 = args.args()[1].to_str().unwrap().parse().unwrap();
    // Some print enough for several segments. Not all: whoever takes a session over reads all of it.
    let burst = if number % 40 == 1 { 100 } else { 1 };
    let (mut out, mut count) = (std::io::stdout(), 0);
    let began = Instant::now();
    // Nobody says it where a test has failed.
    while !temp.join("go").exists() && began.elapsed() < 10 * PATIENCE {
        let lines: String = (count..count + burst).map(|index| line(number, index)).collect();
        out.write_all(lines.as_bytes()).unwrap();
        count += burst;
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::write(temp.join(format!("printed-{number}")), count.to_string()).unwrap();
    0
}

/// Returns true for every fourth task.
fn is_on_pipes(number: usize) -> bool {
    number.is_multiple_of(4)
}

watchfire_core::register_helper_role!("test-crowd", crowd);

/// Works on all tasks of the project in the folder of the first argument. Makes the file of the second one once it has all
/// the sessions that the third one counts.
fn crowd(args: RoleArgs) -> i32 {
    let (temp, file) = (PathBuf::from(&args.args()[0]), PathBuf::from(&args.args()[1]));
    let count: usize = args.args()[2].to_str().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let root = make_project(&temp).await;
        let orchestrator = orchestrator(&temp, &fake(&temp)).await.unwrap();
        let project = orchestrator.open(root).await.unwrap();
        let _run = project.run(RunRequest::all()).await.unwrap();
        all_run(&project, count).await;
        // Nobody takes over a session whose prompt may be typed in part.
        let sessions = temp.join("home/state").join(project.id().as_str()).join("sessions");
        for session in project.sessions() {
            let info = session.info();
            if info.task.is_some_and(|task| is_on_pipes(usize::try_from(task.value()).unwrap())) {
                appears(&sessions.join(info.id.as_str()).join("prompted")).await;
            }
        }
        std::fs::write(file, "").unwrap();
        std::future::pending().await
    })
}

/// Waits until all agents work, and the journal says so.
async fn all_run(project: &ProjectHandle, count: usize) {
    loop {
        if project.sessions().len() == count {
            let lives = project.ledger().await.unwrap().lives;
            if lives.values().filter(|life| life.state == LifeState::Running).count() == count {
                // Answered after everything before it is in the journal. There is nothing to resume.
                project.resume(ResumeTarget::All).await.unwrap();
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An orchestrator in a process of its own. Killed when dropped.
struct Orchestrating(Child);

impl Orchestrating {
    /// Starts one that makes `file` once it has all sessions.
    fn start(temp: &Path, file: &Path, count: usize) -> Self {
        let mut command = child("test-crowd");
        Self(command.arg(temp).arg(file).arg(count.to_string()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Orchestrating {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn appears(path: &Path) {
    let is_there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_there).await.unwrap_or_else(|_| panic!("no {}", path.display()));
}

/// Returns a function that gives numbers below its argument. They follow from the seed.
fn random() -> impl FnMut(u64) -> u64 {
    let now = || u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap();
    let mut seed = std::env::var("WATCHFIRE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    eprintln!("WATCHFIRE_SEED={seed}");
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

async fn no_kill_costs_a_byte() {
    let (agents, kills) = if std::env::var_os("WATCHFIRE_LONG").is_some() { (200, 20) } else { (6, 3) };
    let mut random = random();
    let world = World::new().await;
    world.configure(&format!("max_parallel: {agents}\n"));
    let printer = helper().command_line_inside();
    let printer: Vec<_> = printer.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut tasks = Vec::new();
    for number in 1..=agents {
        let first = if is_on_pipes(number) { "# stream\n" } else { "stty -opost -echo; " };
        let script = format!(
            "{first}cd ../../../..; echo $$ >> pids; {} test-print . {number} || exit; {DONE}",
            printer.join(" ")
        );
        tasks.push(world.task(&format!("print {number}"), &script).await);
    }
    let World { mut temp, orchestrator, project, .. } = world;
    // Kept, unless all is well.
    temp.disable_cleanup(true);
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    std::fs::write(temp.path().join("hosted"), "").unwrap();

    let began = Instant::now();
    let said = temp.path().join("all-0");
    let mut orchestrator = Orchestrating::start(temp.path(), &said, agents);
    appears(&said).await;
    for number in 1..=kills {
        // Every other one is killed at once, in the midst of taking the sessions over.
        let said = temp.path().join(format!("all-{number}"));
        drop(orchestrator);
        orchestrator = Orchestrating::start(temp.path(), &said, agents);
        if number % 2 == 0 {
            appears(&said).await;
        }
        tokio::time::sleep(Duration::from_millis(random(10 * u64::try_from(agents).unwrap() + 100))).await;
    }
    drop(orchestrator);
    let mut world = World::in_folder(temp).await;
    tokio::time::timeout(PATIENCE, all_run(&world.project, agents)).await.expect("all are taken over");
    let killed = began.elapsed();
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let mut left = tasks.len();
    let all_end = async {
        while left > 0 {
            let life = world.life(|life| life.has_ended()).await;
            let ending = life.ending().unwrap();
            assert!(matches!(ending, Ending::Merged { .. }), "{:?}: {ending}", life.subject);
            left -= 1;
        }
    };
    tokio::time::timeout(PATIENCE, all_end).await.expect("all end");

    // Each began once.
    let pids = std::fs::read_to_string(world.temp.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), agents, "in {}", world.temp.path().display());
    for pid in pids.lines() {
        gone(pid.parse().unwrap()).await;
    }
    let logs = SessionLog::list(world.project.logs_dir()).unwrap();
    assert_eq!(logs.len(), agents);
    let logs: BTreeMap<TaskNumber, SessionLog> =
        logs.into_iter().map(|log| (log.task.unwrap(), log)).collect();
    let mut total = 0;
    for task in &tasks {
        total += compare(world.temp.path(), task.value(), &logs[task]);
    }
    eprintln!("{agents} agents printed {total} bytes during {kills} kills in {killed:.1?}");
    world.temp.disable_cleanup(false);
    assert_eq!(std::fs::read_dir(world.temp.path().join("home/hosts")).unwrap().count(), 0);
}

/// Compares the recording with what was printed, and returns its length.
fn compare(temp: &Path, number: u32, log: &SessionLog) -> usize {
    let printed: u64 =
        std::fs::read_to_string(temp.join(format!("printed-{number}"))).unwrap().parse().unwrap();
    let expected: String = (0..printed).map(|index| line(number, index)).collect();
    let (mut recorded, mut ends) = (Vec::new(), Vec::new());
    for part in log.recording().unwrap().expect("a recording").read() {
        match part.unwrap() {
            Recorded::Output { offset, bytes, .. } => {
                assert_eq!(offset, recorded.len() as u64, "of agent {number}");
                recorded.extend(bytes);
            }
            Recorded::End { code, .. } => ends.push(code),
            Recorded::Missing { offset, length, .. } => panic!("agent {number}: {length} bytes at {offset}"),
            _ => {}
        }
    }
    let same = recorded.iter().zip(expected.as_bytes()).take_while(|(left, right)| left == right).count();
    let around = |bytes: &[u8]| {
        let bytes: Vec<u8> = bytes.iter().skip(same.saturating_sub(40)).take(80).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    assert!(
        recorded == expected.as_bytes(),
        "agent {number}: {} bytes recorded, {} printed; they differ at {same}: {:?}, {:?}",
        recorded.len(),
        expected.len(),
        around(&recorded),
        around(expected.as_bytes())
    );
    assert_eq!(ends, [Some(0)], "agent {number}");
    recorded.len()
}
