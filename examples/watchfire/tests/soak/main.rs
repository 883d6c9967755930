//! A project in use: agents of every kind, a person who edits, commits, writes tasks, answers and stops, and an orchestrator
//! that is killed, detached and shut down at random times, with agents that outlive it and without. At the end the person
//! rests, the last orchestrator finishes what is left, and everything that is promised must hold.
//!
//! The short form is in use for 10 seconds, with `WATCHFIRE_LONG=1` for ten minutes; `SOAK_SECONDS` sets another time.
//! `WATCHFIRE_SEED` repeats the choices of an earlier run; what meets what is still up to the machine. What failed is kept.

#[path = "../support/aftermath.rs"]
mod aftermath;
mod check;
mod drive;
#[path = "../support/driver.rs"]
mod driver;
mod kind;
mod person;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use person::Person;
use random::Random;
use support::World;
use watchfire_core::process::helper::Helper;

/// The longest that an orchestrator may take to leave.
const LEAVING: Duration = Duration::from_secs(60);
/// The longest that the last one may take to finish what is left.
const REST: Duration = Duration::from_secs(120);

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let soak = || {
        soak();
        Ok(())
    };
    let trials = vec![Trial::test("whatever_happens_what_is_promised_holds", soak)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The end of one start of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Killed,
    Detaches,
    ShutsDown,
}

fn soak() {
    let is_long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let seconds = std::env::var("SOAK_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds.unwrap_or(if is_long { 600 } else { 10 }));
    let mut random = Random::from_environment();
    let mut world = World::new();
    // Kept, unless all is well.
    world.folder.disable_cleanup(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(live(&world, time, &mut random));
    assert!(wrong.is_empty(), "in {}: {wrong:#?}", world.folder.path().display());
    world.folder.disable_cleanup(false);
}

/// Uses a project for `time`, lets it come to rest, and returns what is wrong then.
async fn live(world: &World, time: Duration, random: &mut Random) -> Vec<String> {
    let began = Instant::now();
    let mut person = Person::begin(world).await;
    let mut starts = 0;
    while began.elapsed() < time {
        starts += 1;
        if let Err(said) = use_for_a_while(world, starts, &mut person, random).await {
            return vec![format!("start {starts}: {said}")];
        }
    }
    let used = began.elapsed();
    let last = Start::new(world, starts + 1, random);
    // Only now: a kill in the midst of a merge leaves git's lock until the next start.
    person.rest();
    fs::write(world.path("rest"), "").unwrap();
    match last.end(REST).await {
        Ok(status) if status.success() => {}
        Ok(status) => return vec![format!("the last start: {status}: {}", last_words(world, starts + 1))],
        Err(said) => return [vec![format!("the last start: {said}")], check::open(world).await].concat(),
    }
    let rested = began.elapsed() - used;
    let wrong = check::problems(world, &person).await;
    let (tasks, commits) = (person.kinds.len(), person.commits.len());
    eprintln!("{starts} starts, {tasks} tasks, {commits} commits in {used:.1?}; at rest after {rested:.1?}");
    wrong
}

/// Lets an orchestrator work for a while, and the person with it and for a moment without.
async fn use_for_a_while(
    world: &World,
    number: u32,
    person: &mut Person<'_>,
    random: &mut Random,
) -> Result<(), String> {
    let mut start = Start::new(world, number, random);
    let leave = match random.below(10) {
        0..=5 => Leave::Killed,
        6 | 7 => Leave::Detaches,
        _ => Leave::ShutsDown,
    };
    let time = Duration::from_millis(100 + random.below(5_000));
    let began = Instant::now();
    while began.elapsed() < time {
        person.act(random).await;
        if let Some(status) = start.child.try_wait().unwrap() {
            return Err(format!("{status}: {}", last_words(world, number)));
        }
        tokio::time::sleep(Duration::from_millis(20 + random.below(200))).await;
    }
    let file = match leave {
        Leave::Killed => {
            start.child.kill().unwrap();
            None
        }
        Leave::Detaches => Some(world.path("detach")),
        Leave::ShutsDown => Some(world.path("leave")),
    };
    file.iter().for_each(|file| fs::write(file, "").unwrap());
    let leaving = Instant::now();
    let status = start.end(LEAVING).await?;
    if leaving.elapsed() > LEAVING / 6 {
        eprintln!("start {number} took {:.1?} until it was gone: {leave:?}", leaving.elapsed());
    }
    file.iter().for_each(|file| fs::remove_file(file).unwrap());
    let is_right = if leave == Leave::Killed { status.signal() == Some(9) } else { status.success() };
    if !is_right {
        return Err(format!("{leave:?}, {status}: {}", last_words(world, number)));
    }
    for _ in 0..random.below(4) {
        person.act(random).await;
    }
    Ok(())
}

/// A running orchestrator.
struct Start {
    child: Child,
    words: String,
}

impl Start {
    fn new(world: &World, number: u32, random: &mut Random) -> Self {
        let line = Helper::current().unwrap().command_line_inside();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg("test-soak").arg(world.folder.path());
        command.arg(random.below(u64::from(u32::MAX)).to_string());
        let mut words = String::new();
        for (word, times) in [("hosted", 4), ("resume", 4)] {
            if !random.once_in(times) {
                command.arg(word);
                words = words + " " + word;
            }
        }
        world.isolate(&mut command);
        let errors = fs::File::create(world.path(&format!("errors-{number}"))).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        Self { child, words }
    }

    /// Waits for its end.
    async fn end(mut self, patience: Duration) -> Result<ExitStatus, String> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ok(status);
            }
            if began.elapsed() > patience {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!("it takes too long ({}); what is left is kept", self.words.trim()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns the end of what a start wrote to its error output.
fn last_words(world: &World, number: u32) -> String {
    let text = fs::read_to_string(world.path(&format!("errors-{number}"))).unwrap_or_default();
    text.chars().skip(text.chars().count().saturating_sub(2_000)).collect()
}
