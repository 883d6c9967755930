//! What it costs to start a command confined, side by side in one run: `cargo bench -p watchfire-sandbox --bench start`.
//!
//! Each round starts `/bin/true` once in each way, so that a busy moment hits all of them. `bwrap, plain` is bubblewrap
//! by itself with the same namespaces and places, as the floor of those who use it.

#[cfg(target_os = "linux")]
#[path = "start/linux.rs"]
mod linux;

fn main() {
    watchfire_core::process::helper::run_if_asked();
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::measure() {
        eprintln!("{}", error.report());
        std::process::exit(1);
    }
    #[cfg(not(target_os = "linux"))]
    println!("nothing to compare on this platform");
}
