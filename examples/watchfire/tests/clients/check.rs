//! What must hold once everything has come to rest.

use std::collections::BTreeSet;
use std::fs;

use crate::client::{Client, Kind};
use crate::service::within;
use crate::support::{PATIENCE, World};
use crate::{LINES, Shop, took};

/// Times that a slow client looks at an agent in a second. A fast one gets 60 screens.
const LOOKS: u32 = 4;
/// Seconds between an agent's last line and the end of its session, and some for a machine that is busy.
const AFTER: u32 = 6;

/// Returns everything that is wrong.
pub(crate) fn problems(world: &World, shops: &[Shop; 2], clients: &mut [Client]) -> Vec<String> {
    let mut wrong = Vec::new();
    for shop in shops {
        merges(world, shop, &mut wrong);
        log(world, shop, &mut wrong);
    }
    bytes(world, &shops[0], &mut wrong);
    slow(world, &shops[1], &mut wrong);
    for client in clients {
        client.kill();
        let errors = client.errors();
        if !errors.is_empty() {
            wrong.push(errors);
        }
    }
    wrong
}

/// Every task is merged, once.
fn merges(world: &World, shop: &Shop, wrong: &mut Vec<String>) {
    let log = world.git(&shop.root, &["log", "--first-parent", "--format=%s", "main"]);
    let merges = log.lines().filter(|line| line.starts_with("Merge")).count();
    if merges != shop.tasks {
        wrong.push(format!("{merges} merges of {} tasks: {log}", shop.tasks));
    }
    for n in 1..=shop.tasks {
        if fs::read_to_string(shop.root.join(format!("n-{n}"))).unwrap_or_default().trim() != n.to_string() {
            wrong.push(format!("the work of task {n} is not there"));
        }
    }
}

/// The log has every record once, until the last task is merged.
fn log(world: &World, shop: &Shop, wrong: &mut Vec<String>) {
    let file = Kind::Log.folder(world.folder.path(), &shop.id).join("log");
    let ends = |text: &str| text.lines().filter(|line| line.contains(": merged")).count();
    let read = || fs::read_to_string(&file).unwrap_or_default();
    if !within(PATIENCE, || ends(&read()) >= shop.tasks) {
        wrong.push(format!("{}: {} of {} tasks end", file.display(), ends(&read()), shop.tasks));
    }
    let text = read();
    let number = |line: &str| line.split(' ').next()?.rsplit(':').next()?.parse::<u64>().ok();
    let numbers: Vec<_> = text.lines().map(|line| number(line).unwrap_or_default()).collect();
    for pair in numbers.windows(2) {
        if pair[1] != pair[0] + 1 {
            wrong.push(format!("{}: {} comes after {}", file.display(), pair[1], pair[0]));
        }
    }
}

/// No line of an agent's output came twice, and none was left out.
fn bytes(world: &World, shop: &Shop, wrong: &mut Vec<String>) {
    let folder = Kind::Bytes.folder(world.folder.path(), &shop.id);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> = names.collect();
    let mut whole = 0;
    for session in names.iter().filter(|name| !name.contains('.') && *name != "errors") {
        let text = fs::read(folder.join(session)).unwrap();
        let text = String::from_utf8_lossy(&text);
        let line = |line: &str| line.strip_prefix("line ")?.strip_suffix('.')?.parse::<u32>().ok();
        // The first and the last one may have been cut where it was attached, or left.
        let lines: Vec<_> = text.lines().filter_map(|it| line(it.trim())).collect();
        for pair in lines.windows(2) {
            if pair[1] != pair[0] + 1 {
                wrong.push(format!("{session}: line {} comes after {}", pair[1], pair[0]));
            }
        }
        if names.contains(&format!("{session}.end")) {
            whole += 1;
            // A client that came after the last line has none.
            let came_late = text.is_empty()
                && fs::read_to_string(folder.join(format!("{session}.from")))
                    .is_ok_and(|at| at.trim() != "0");
            if lines.last() != Some(&LINES) && !came_late {
                wrong.push(format!("{session} has ended after line {:?}", lines.last()));
            }
        }
    }
    if whole == 0 {
        wrong.push("no output was followed to its end".to_owned());
    }
    eprintln!("{whole} sessions were followed to their ends");
}

/// A slow client sees the last screen of each agent, and soon: of those before, it gets only the newest.
fn slow(world: &World, shop: &Shop, wrong: &mut Vec<String>) {
    let file = Kind::Slow.folder(world.folder.path(), &shop.id).join("seen");
    let seen = || fs::read_to_string(&file).unwrap_or_default();
    if !within(PATIENCE, || !seen().is_empty()) {
        wrong.push("the slow client saw no end".to_owned());
    }
    for line in seen().lines() {
        let mut words = line.split(' ');
        let took = words.next().map(|session| took(world.folder.path()).join(session));
        let took = took.and_then(|file| fs::read_to_string(file).ok());
        let took = took.and_then(|took| took.trim().parse::<u32>().ok());
        let looks = words.next().and_then(|looks| looks.parse::<u32>().ok());
        let is_newest =
            looks.zip(took).is_some_and(|(looks, took)| looks <= LOOKS * (took.saturating_add(AFTER)));
        if !is_newest || !line.ends_with("completed true") {
            wrong.push(format!("slow: {line}, counted in {took:?} s"));
        }
    }
    eprintln!("the slow client: {}", seen().lines().collect::<Vec<_>>().join(", "));
}
