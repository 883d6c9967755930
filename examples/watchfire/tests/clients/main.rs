//! Two projects and five clients of the daemon, in processes of their own, while everything happens to them: daemon and clients are
//! killed, the daemon is replaced by another copy of the program, the clock jumps, one client is slow, another opens a thousand
//! streams. At the end every task is merged once, and every client has everything once.
//!
//! The short form takes 6 seconds and then the time that the agents need; with `WATCHFIRE_LONG=1` it is five minutes, or
//! `CLIENTS_SECONDS`. `WATCHFIRE_SEED` repeats the choices of an earlier run. What failed is kept.

mod attached;
mod check;
mod client;
mod clock;
#[path = "../support/random.rs"]
mod random;
mod service;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use attached::Attached;
use client::{Client, Kind};
use libtest_mimic::Arguments;
use random::Random;
use service::Service;
use support::{World, trial};

/// Lines that each agent prints.
const LINES: u32 = 300;
/// Tasks of a project that may lie ahead.
const AHEAD: usize = 6;
/// Streams that one client opens.
const STREAMS: u64 = 1_000;
/// Bound for the memory of the daemon with them, in MiB.
const MEMORY: u64 = 256;
/// The longest that the agents may take to finish what is left.
const REST: Duration = Duration::from_secs(180);

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let reason = (!cfg!(target_os = "linux")).then(|| "agents outlive a daemon on Linux only".to_owned());
    let trials = vec![trial("every_client_has_everything_once", reason, clients)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A project, and the number of its tasks.
pub(crate) struct Shop {
    root: PathBuf,
    id: String,
    tasks: usize,
}

impl Shop {
    fn new(world: &World, name: &str) -> Self {
        let root = world.project(name, "max_parallel: 2");
        let text = fs::read_to_string(root.join(".watchfire/project.yaml")).unwrap();
        let id = text.lines().find_map(|line| line.strip_prefix("project_id: ")).unwrap().trim_matches('"');
        Self { id: id.to_owned(), root, tasks: 0 }
    }

    fn add(&mut self, world: &World) {
        self.tasks += 1;
        let n = self.tasks;
        let counts = format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i.; sleep 0.01; done");
        // By a clock that does not jump.
        let clock = "$(cut -d. -f1 /proc/uptime)";
        let took = took(world.folder.path()).join("$WATCHFIRE_SESSION");
        let timed = format!("began={clock}; {counts}; echo $(({clock} - began)) > \"{}\"", took.display());
        world.task(
            &self.root,
            &format!("Count {n}"),
            &format!("run {timed}\nwrite n-{n} {n}\ncommit n-{n}\ndone"),
        );
    }

    fn open(&self, world: &World) -> usize {
        world.states(&self.root).iter().filter(|(_, state)| state != "merged").count()
    }
}

/// Returns the folder in which each agent writes how many seconds it took to count.
fn took(world: &Path) -> PathBuf {
    world.join("took")
}

fn clients() {
    let is_long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let seconds = std::env::var("CLIENTS_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds.unwrap_or(if is_long { 300 } else { 6 }));
    let mut random = Random::from_environment();
    let mut world = World::new();
    // Kept, unless all is well.
    world.folder.disable_cleanup(true);
    let settings = "version: 1\ndefaults:\n  default_sandbox: none\n  auto_start_tasks: true\n";
    fs::write(world.empty("watchfire-home").join("settings.yaml"), settings).unwrap();
    world.empty("took");
    let shops = ["first", "second"].map(|name| Shop::new(&world, name));
    let wrong = meet(&world, shops, time, &mut random);
    assert!(wrong.is_empty(), "in {}: {wrong:#?}", world.folder.path().display());
    world.folder.disable_cleanup(false);
}

/// Lets everything happen for `time`, lets the agents finish, and returns what is wrong then.
fn meet(world: &World, mut shops: [Shop; 2], time: Duration, random: &mut Random) -> Vec<String> {
    let mut service = Service::start(world);
    let mut clients: Vec<_> = [(Kind::Log, 0), (Kind::Log, 1), (Kind::Bytes, 0), (Kind::Slow, 1)]
        .map(|(kind, shop)| Client::start(world, kind, &shops[shop].id))
        .into();
    let mut attached = Attached::default();
    shops.iter_mut().for_each(|shop| shop.add(world));
    let (mut memory, mut events) = (0, [0; 7]);
    let began = Instant::now();
    while began.elapsed() < time {
        let event = random.below(7) as usize;
        events[event] += 1;
        match event {
            0 => service.kill(),
            1 => service.upgrade(),
            2 => service.clock().jump(random),
            3 | 4 => {
                let one = random.below(clients.len() as u64) as usize;
                clients[one].kill_and_start_again(world);
            }
            5 => {
                let shop = &mut shops[random.below(2) as usize];
                if shop.open(world) < AHEAD {
                    shop.add(world);
                }
            }
            _ => attached.turn(world, &shops[1].root, &service, random),
        }
        std::thread::sleep(Duration::from_millis(random.below(400)));
        // Once at least, and in the long form now and then.
        if memory == 0 || random.once_in(100) {
            shops.iter_mut().for_each(|shop| shop.add(world));
            let mut many = Client::start(world, Kind::Many, &shops[0].id);
            let served = many.wait_for("served");
            memory = service.memory().max(memory);
            many.kill();
            if !served {
                return vec![format!("not all of {STREAMS} streams were served")];
            }
        }
    }
    service.clock().stop();
    attached.leave();
    // Once more in peace.
    shops.iter_mut().for_each(|shop| shop.add(world));
    let used = began.elapsed();
    let is_over = || shops.iter().all(|shop| shop.open(world) == 0);
    let mut wrong = Vec::new();
    if !service::within(REST, is_over) {
        wrong.extend(shops.iter().map(|shop| format!("not all merged: {:?}", world.states(&shop.root))));
    }
    let rested = began.elapsed() - used;
    wrong.extend(check::problems(world, &shops, &mut clients));
    if memory > MEMORY {
        wrong.push(format!("{memory} MiB with {STREAMS} streams"));
    }
    let end = service.memory();
    eprintln!(
        "{} tasks in {used:.1?}, at rest after {rested:.1?}; {} kills and {} upgrades of the daemon, {} jumps of the clock, {} kills of \
         clients, {} of a terminal's turns; {memory} MiB with {STREAMS} streams, {end} at the end",
        shops[0].tasks + shops[1].tasks,
        events[0],
        events[1],
        events[2],
        events[3] + events[4],
        events[6],
    );
    wrong
}
