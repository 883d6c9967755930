//! Other terminals' suites and recorded agents, read from where they are; SKIPPED, as ignored tests, where they are not.
//!
//! They are looked for in `$WATCHFIRE_FIXTURES`, or in `../shared/fixtures` beside the workspace; esctest2, which is a
//! program, in `$WATCHFIRE_ESCTEST`.

mod alacritty;
mod esctest;
mod libvterm;
mod recordings;
mod vt100;
mod xterm_js;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // One line for each; they are quick.
    arguments.test_threads.get_or_insert(2);
    let root = std::env::var_os("WATCHFIRE_FIXTURES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures"), PathBuf::from);
    let terminal = root.join("terminal");
    let mut trials = Vec::new();
    trials.extend(suite("alacritty", &terminal.join("alacritty-ref"), alacritty::trials));
    trials.extend(suite("xterm.js", &terminal.join("xterm-js"), xterm_js::trials));
    trials.extend(suite("libvterm", &terminal.join("libvterm"), libvterm::trials));
    trials.extend(suite("vt100", &terminal.join("vt100"), vt100::trials));
    let esctest =
        std::env::var_os("WATCHFIRE_ESCTEST").map_or_else(|| terminal.join("esctest2"), PathBuf::from);
    trials.extend(suite("esctest", &esctest, esctest::trials));
    trials.extend(suite("recordings", &root.join("recordings"), recordings::trials));
    libtest_mimic::run(&arguments, trials).exit();
}

fn suite(name: &str, folder: &Path, trials: fn(&Path) -> Vec<Trial>) -> Vec<Trial> {
    if folder.is_dir() {
        return trials(folder);
    }
    let reason = format!("SKIPPED: no {}", folder.display());
    eprintln!("{name}: {reason}");
    vec![Trial::test(format!("{name}: {reason}"), || Ok(())).with_ignored_flag(true)]
}

/// Why a case is not run, if it is not.
fn known(list: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

fn note(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!(" (SKIPPED: {reason})"))
}

/// The entries of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
