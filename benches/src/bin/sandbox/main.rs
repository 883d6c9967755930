//! What a sandbox costs, beside none, beside bwrap with the same namespaces and places, and beside birdcage, in one run.
//!
//! `cargo run --release -p watchfire-benches --bin sandbox [-- --json] [start] [files] [caches] [rounds=100]`
//!
//! - `start`: from the request to the first byte and to the end of a program that prints one byte. Each round starts it
//!   once in each way, in turn. bwrap by itself is told beforehand what to show, from the same policy: it has no search
//!   for names and no rules to make, and filters no system calls.
//! - `files`: the same work outside and inside, in turn: making, looking at, renaming and removing many small files,
//!   reading a few thousand, and `git status`.
//! - `caches`: builds and installations of package managers from warm caches, outside and inside, in turn.
//!
//! Times on a busy machine are noise; the ratios are taken pair by pair in one run.

#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod caches;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod world;

#[cfg(target_os = "linux")]
fn main() {
    use watchfire_benches::Report;
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plain = |arg: &&String| !arg.starts_with("--") && !arg.contains('=');
    let wanted = |name: &str| args.iter().filter(plain).count() == 0 || args.iter().any(|arg| arg == name);
    let rounds = args.iter().find_map(|arg| arg.strip_prefix("rounds=")?.parse().ok()).unwrap_or(100);
    let mut report = Report::default();
    let measured = world::World::new().and_then(|world| {
        if wanted("start") {
            start::measure(&world, rounds, &mut report)?;
        }
        if wanted("files") {
            files::measure(&world, (rounds / 5).max(1), &mut report)?;
        }
        if wanted("caches") {
            caches::measure(&world, (rounds / 10).max(1), &mut report)?;
        }
        Ok(())
    });
    if let Err(error) = measured {
        eprintln!("error: {}", error.report());
        std::process::exit(1);
    }
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: there is nothing to compare on this platform");
}
