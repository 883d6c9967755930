//! Sessions and helpers with real processes. This program is its own helper, so it has a `main` of its own.

#[cfg(target_os = "linux")]
mod detached;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod pty;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(target_os = "linux")]
fn main() {
    watchfire_core::process::helper::run_if_asked();
    let args = libtest_mimic::Arguments::from_args();
    let _ = std::fs::remove_dir_all(support::recordings());
    std::fs::create_dir_all(support::recordings()).unwrap();
    let mut trials = Vec::new();
    for flavour in support::Flavour::ALL {
        trials.extend(pty::trials(flavour));
        trials.extend(tree::trials(flavour));
        trials.extend(lines::trials(flavour));
        trials.extend(helper::trials(flavour));
        trials.extend(host::trials(flavour));
        trials.extend(detached::trials(flavour));
    }
    trials.push(measure::trial());
    let before = support::process_wide_state();
    let conclusion = libtest_mimic::run(&args, trials);
    support::assert_no_children();
    assert_eq!(support::process_wide_state(), before, "sessions change nothing of their embedder");
    conclusion.exit();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: these tests look at /proc");
}
