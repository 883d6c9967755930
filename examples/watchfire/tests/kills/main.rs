//! Kills the orchestrator wherever it changes something, and looks what the next one makes of it.
//!
//! The scenario is wildfire over parallel tasks with a conflict, a failure, an obstacle that holds a merge, an issue, a
//! limit with a reset, a question, a failing verification and a stop, and beside it a chat. In every other world the
//! agents outlive their orchestrator, and of these some are killed once more while they take the agents over.
//!
//! The short form kills at some of the places; `WATCHFIRE_LONG=1` at every one, and 500 times at random. `KILLS_AT` names
//! places, with commas between them; `one > another` is a place of the first start and one of the second.

#[path = "../support/aftermath.rs"]
mod aftermath;
mod agent;
mod check;
mod drive;
#[path = "../support/driver.rs"]
mod driver;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use support::World;

/// Number of worlds at a time. They wait more than they work.
const WIDE: usize = 4;

/// The longest that an orchestrator may take to its end.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let is_long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let mut trials = vec![
        trial("a_kill_at_a_place", move || at_places(is_long)),
        trial("a_panic_of_the_dispatcher_keeps_nobody_waiting", a_panic),
    ];
    if is_long {
        trials.push(trial("a_kill_at_any_time", || at_random(500)));
    }
    let mut arguments = Arguments::from_args();
    // Each is wide by itself.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, || {
        test();
        Ok(())
    })
}

/// When an orchestrator is killed.
#[derive(Clone, Debug)]
enum Kill {
    Never,
    At(String),
    /// Not killed: the dispatcher panics there.
    Panic(&'static str),
    After(Duration),
}

/// Kills at each place of a first start, and at each of a start that takes agents over.
fn at_places(is_long: bool) {
    let chosen = match std::env::var("KILLS_AT") {
        Ok(named) => named.split(',').map(str::to_owned).collect(),
        Err(_) => places(is_long),
    };
    eprintln!("{} places", chosen.len());
    let cases = chosen.into_iter().enumerate().map(|(number, place)| {
        let how = if number % 2 == 0 { "resume" } else { "by hand" };
        let mut plan: Vec<_> = place.split(" > ").map(|at| (Kill::At(at.to_owned()), how)).collect();
        let hosted = plan.len() > 1 || is_hosted(number / 2);
        plan.push((Kill::Never, how));
        (place, Case { plan, hosted })
    });
    judge(cases.collect());
}

/// Returns the places to kill at, from worlds that reach all of them.
fn places(is_long: bool) -> Vec<String> {
    let (first, second) = std::thread::scope(|scope| {
        let adoptions = scope.spawn(adoptions);
        let worlds = ["resume", "by hand"].map(|how| scope.spawn(move || without_kill(how)));
        let mut first = BTreeSet::new();
        worlds.into_iter().for_each(|world| first.extend(world.join().unwrap()));
        (first.into_iter().collect(), adoptions.join().unwrap())
    });
    match is_long {
        true => [first, second].concat(),
        false => [few(first, 8), few(second, 20)].concat(),
    }
}

/// Returns the places of a start that is not killed, which goes by every state.
fn without_kill(how: &'static str) -> Vec<String> {
    let mut world = World::new();
    let mut wrong = live(&world, &[(Kill::Never, how)]);
    let log = fs::read_to_string(world.path("log")).unwrap();
    let states =
        ["asking", "limited", "held", "verifying", "publishing"].map(|it| format!(r#""state":"{it}""#));
    let more = [
        r#""subject":"refine""#,
        r#""subject":"generate""#,
        r#""subject":"chat""#,
        r#""kind":"usage_limit""#,
    ];
    let missing = states.into_iter().chain(more.map(str::to_owned)).filter(|it| !log.contains(it));
    wrong.extend(missing.map(|it| format!("no life came by {it}")));
    world.folder.disable_cleanup(!wrong.is_empty());
    assert!(wrong.is_empty(), "without a kill, in {}: {wrong:#?}", world.folder.path().display());
    reached(&world, 0)
}

/// The first time of each place, and of these every few.
fn few(mut places: Vec<String>, every: usize) -> Vec<String> {
    places.retain(|place| place.ends_with("#1"));
    places.into_iter().step_by(every).collect()
}

/// Returns the places of a start that takes agents over, behind the place at which the start before it was killed: while
/// tasks, a question and a limit are under way.
fn adoptions() -> Vec<String> {
    let mut world = World::new();
    fs::write(world.path("hosted"), "").unwrap();
    let first = "delivering#1";
    let wrong = live(&world, &[(Kill::At(first.to_owned()), "resume"), (Kill::Never, "resume")]);
    world.folder.disable_cleanup(!wrong.is_empty());
    assert!(wrong.is_empty(), "killed at {first}, in {}: {wrong:#?}", world.folder.path().display());
    let places: BTreeSet<_> = reached(&world, 1).into_iter().collect();
    places.into_iter().map(|place| format!("{first} > {place}")).collect()
}

/// Returns the places that a start reached, counted from 0.
fn reached(world: &World, start: usize) -> Vec<String> {
    let text = fs::read_to_string(world.path(&format!("places-{start}"))).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Kills `count` times at random times, four times in each world. `WATCHFIRE_SEED` repeats the times of an earlier run.
fn at_random(count: u64) {
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let mut seed = std::env::var("WATCHFIRE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    eprintln!("WATCHFIRE_SEED={seed}");
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let cases = (0..count.div_ceil(4)).map(|number| {
        let kills = (0..4).map(|_| Kill::After(Duration::from_millis(50 + random() % 3_000)));
        let mut plan: Vec<_> = kills.map(|kill| (kill, "resume")).collect();
        plan.iter_mut().skip(1).step_by(2).for_each(|(_, how)| *how = "by hand");
        plan.push((Kill::Never, "by hand"));
        let hosted = is_hosted(usize::try_from(number).unwrap());
        (format!("{plan:?}, hosted: {hosted}"), Case { plan, hosted })
    });
    judge(cases.collect());
}

/// Panics in the midst of a step; the next orchestrator goes on.
fn a_panic() {
    let world = World::new();
    let wrong = live(&world, &[(Kill::Panic("do end#1"), "panic"), (Kill::Never, "resume")]);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The starts in one world.
struct Case {
    plan: Vec<(Kill, &'static str)>,
    /// True if its agents outlive their orchestrator.
    hosted: bool,
}

/// Returns true for every other world. `KILLS_HOSTED` (`1` or `0`) decides for all.
fn is_hosted(number: usize) -> bool {
    match std::env::var("KILLS_HOSTED") {
        Ok(all) => all == "1",
        Err(_) => number % 2 == 1,
    }
}

fn judge(cases: Vec<(String, Case)>) {
    let (cases, failed) = (Mutex::new(cases.into_iter()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..WIDE {
            scope.spawn(|| {
                loop {
                    let Some((name, Case { plan, hosted })) = cases.lock().unwrap().next() else { return };
                    let mut world = World::new();
                    if hosted {
                        fs::write(world.path("hosted"), "").unwrap();
                    }
                    let wrong =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(&world, &plan)));
                    let wrong = wrong.unwrap_or_else(|_| vec!["the check panicked".to_owned()]);
                    if !wrong.is_empty() {
                        world.folder.disable_cleanup(true);
                        eprintln!("{name} in {}: {wrong:#?}", world.folder.path().display());
                        failed.lock().unwrap().insert(name, wrong);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

/// Carries a plan out in a world, and returns what is wrong at the end.
fn live(world: &World, plan: &[(Kill, &'static str)]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(world::make(world));
    for (number, (kill, how)) in plan.iter().enumerate() {
        if let Err(said) = start(world, number, kill, how) {
            return vec![said];
        }
    }
    if !world.path("finished").exists() {
        return vec!["it did not come to its end".to_owned()];
    }
    runtime.block_on(check::problems(world))
}

/// Starts an orchestrator, and waits until it has ended or was killed.
fn start(world: &World, number: usize, kill: &Kill, how: &str) -> Result<(), String> {
    if world.path("finished").exists() {
        return Ok(());
    }
    let helper = watchfire_core::process::helper::Helper::current().unwrap();
    let line = helper.command_line_inside();
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).arg("test-kills").arg(world.folder.path()).arg(how);
    world.isolate(&mut command);
    command.env("WATCHFIRE_PLACES", world.path(&format!("places-{number}")));
    if let Kill::At(place) = kill {
        command.env("WATCHFIRE_KILL_PLACE", place);
    }
    if let Kill::Panic(place) = kill {
        command.env("WATCHFIRE_PANIC_PLACE", place);
    }
    let errors = fs::File::create(world.path("errors")).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let (began, mut killed) = (Instant::now(), matches!(kill, Kill::At(_)));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if let Kill::After(after) = kill
            && began.elapsed() >= *after
        {
            child.kill().unwrap();
            killed = true;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("it takes too long ({kill:?}): {}", tail(world)));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    match status.signal() == Some(9) && killed || status.success() {
        true => Ok(()),
        false => Err(format!("{status} ({kill:?}): {}", tail(world))),
    }
}

fn tail(world: &World) -> String {
    let text = fs::read_to_string(world.path("errors")).unwrap_or_default();
    text.chars().skip(text.chars().count().saturating_sub(2_000)).collect()
}
