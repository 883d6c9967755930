//! The terminal interface: the time from a key to the screen, and its rest, beside tmux, lazygit, gitui and tig.
//!
//! `cargo build --release -p watchfire; cargo run --release -p watchfire-benches --bin tui [-- --json] [echo] [quiet] [busy]`
//!
//! All run on a terminal of 120 by 40 that our emulator plays, and a key counts until the picture shows its effect:
//!
//! - with nothing at work: ours with 5,000 tasks, lazygit, gitui and tig with 5,000 commits (the selection moves), tmux with `cat` (the key is seen);
//! - with 20 programs that print at full speed: ours beside tmux with as many windows;
//! - with `watchfire attach` to `cat` (the key is seen): with nothing else at work in turns with tmux and `cat`, and with two programs that only
//!   pass bytes on; and beside the 20 programs;
//! - over a line of 50 KB a second and 200 ms there and back, while what is on the screen prints at full speed;
//! - at rest: CPU and bytes.

mod floor;
mod screen;
mod world;

use std::time::Duration;

use screen::{Line, Program};
use watchfire_benches::{Report, median};
use world::{Done, World};

/// Keys of one row.
const KEYS: usize = 200;
/// Turns of the programs that take turns.
const TURNS: usize = 5;
/// Down and up.
const MOVE: [&str; 2] = ["\x1b[B", "\x1b[A"];
/// Programs that print.
const PRINTING: usize = 20;
/// Time over which the rest is looked at.
const REST: Duration = Duration::from_secs(10);

fn main() -> Done {
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if world::is_role(&args)? || floor::is_role(&args)? {
        return Ok(());
    }
    let wanted =
        |name: &str| args.iter().all(|arg| arg.starts_with("--")) || args.iter().any(|arg| arg == name);
    let mut report = Report::default();
    if wanted("echo") {
        echo(&mut report)?;
    }
    if wanted("quiet") {
        quiet(&mut report)?;
    }
    if wanted("busy") {
        busy(&mut report)?;
    }
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(())
}

/// Adds the middle and the 99th of 100 keys.
fn add(report: &mut Report, section: &str, name: &str, mut samples: Vec<f64>) {
    samples.sort_by(f64::total_cmp);
    let late = samples.get(samples.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    report.add(section, name, "ms", vec![median(&samples)]);
    report.add(section, format!("{name}, 99 of 100"), "ms", vec![late]);
}

/// Presses two keys in turn, and returns the times until the picture is another one.
fn press(program: &mut Program, keys: [&str; 2], count: usize) -> Done<Vec<f64>> {
    (0..count).map(|at| program.press(keys[at % 2])).collect()
}

/// In turns, so that what the machine does meanwhile meets all of them.
fn echo(report: &mut Report) -> Done {
    let world = World::new(0, 0)?;
    let mut tmux = world.tmux(0, Line::Near);
    let mut ours = world.attached()?;
    let programs = [
        ("tmux, cat", tmux.as_mut().map(|tmux| &mut tmux.program)),
        ("two programs that pass bytes on, cat", Some(&mut world.floor()?)),
        ("watchfire attach, cat", ours.as_mut()),
    ];
    let mut taken: Vec<_> = programs.into_iter().map(|(name, program)| (name, program, Vec::new())).collect();
    for _ in 0..TURNS {
        for (_, program, times) in &mut taken {
            if let Some(program) = program {
                times.append(&mut press(program, ["x", "y"], KEYS)?);
            }
        }
    }
    for (name, program, times) in taken {
        match program {
            Some(_) => add(report, "a key to an agent and back, nothing else at work", name, times),
            None => report.skip(name, "not installed, or not built: cargo build --release -p watchfire"),
        }
    }
    Ok(())
}

fn quiet(report: &mut Report) -> Done {
    let section = "a key to the screen, nothing at work";
    let world = World::new(5_000, 0)?;
    let mut ours = world.interface(Line::Near)?;
    add(report, section, "ours, 5,000 tasks", press(&mut ours, MOVE, KEYS)?);
    let repository = world.commits(5_000)?;
    let mut others = Vec::new();
    for (name, argv) in [("lazygit", &["lazygit"][..]), ("gitui", &["gitui"]), ("tig", &["tig"])] {
        let Some(mut program) = Program::start(argv, &repository, Line::Near) else {
            report.skip(name, "not installed");
            continue;
        };
        // They begin at their status; these are their logs. lazygit may greet first.
        match name {
            "gitui" => program.send("2"),
            "lazygit" => {
                program.settle();
                program.send("\x1b");
                program.settle();
                program.send("4");
            }
            _ => {}
        }
        program.settle();
        add(report, section, &format!("{name}, 5,000 commits"), press(&mut program, MOVE, KEYS)?);
        others.push((name, program));
    }
    let tmux = world.tmux(0, Line::Near);
    rest(report, "ours, 5,000 tasks", &ours);
    others.iter().for_each(|(name, program)| rest(report, name, program));
    tmux.iter().for_each(|tmux| rest(report, "tmux", &tmux.program));
    Ok(())
}

fn attached(report: &mut Report, section: &str, world: &World) -> Done {
    match world.attached()? {
        Some(mut ours) => add(report, section, "watchfire attach, cat", press(&mut ours, ["x", "y"], KEYS)?),
        None => report.skip("watchfire attach", "cargo build --release -p watchfire"),
    }
    Ok(())
}

fn rest(report: &mut Report, name: &str, program: &Program) {
    program.settle();
    let (cpu, bytes) = program.rest(REST);
    report.add("at rest", format!("{name}: CPU of one core"), "%", vec![cpu]);
    report.add("at rest", format!("{name}: bytes a second"), "", vec![bytes]);
}

fn busy(report: &mut Report) -> Done {
    let section = format!("a key to the screen, {PRINTING} programs print at full speed");
    let far = "over 50 KB a second and 200 ms, what is shown prints at full speed";
    let mut over_the_line = Vec::new();
    {
        let world = World::new(5_000, PRINTING)?;
        let mut ours = world.interface(Line::Near)?;
        ours.wait("line of")?;
        add(report, &section, "ours, 5,000 tasks", press(&mut ours, MOVE, KEYS)?);
        drop(ours);
        let mut ours = world.interface(Line::Far)?;
        ours.wait("line of")?;
        over_the_line.push(("ours", press(&mut ours, MOVE, KEYS / 4)?));
        drop(ours);
        attached(report, &section, &world)?;
    }
    let world = World::new(0, 0)?;
    if let Some(mut tmux) = world.tmux(PRINTING, Line::Near) {
        add(report, &section, "tmux", press(&mut tmux.program, ["x", "y"], KEYS)?);
    }
    if let Some(mut tmux) = world.tmux_split(Line::Far) {
        over_the_line.push(("tmux, the other half prints", press(&mut tmux.program, ["x", "y"], KEYS / 4)?));
    }
    over_the_line.into_iter().for_each(|(name, samples)| add(report, far, name, samples));
    Ok(())
}
