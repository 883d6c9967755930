//! The pages of this repository, tried: every command line is run and its output compared, every file that is shown is
//! read by the program.
//!
//! Each page is a test. Its blocks run in order, in a fresh home and a fresh repository, as an ordinary user where this
//! machine allows it. `WATCHFIRE_SOURCE` names a folder whose content the repository begins with. `WATCHFIRE_BLESS=1`
//! writes what was printed in place of what was expected; put `…` where a time, an id or a path stands.
//! [CONTRIBUTING.md](../../../../CONTRIBUTING.md) says how a block is written.

mod blocks;
mod machine;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use blocks::{Block, blocks, fits};
use libtest_mimic::{Arguments, Trial};
use machine::Machine;
use support::sandboxed::no_sandbox;
use support::trial;

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let no_user = machine::no_ordinary_user();
    let is_root = rustix::process::geteuid().is_root();
    let drops = is_root && no_user.is_none();
    let mut trials = vec![
        trial("a_page_is_read_as_people_read_it", None, blocks::a_page_is_read_as_people_read_it),
        trial("every_block_is_proved", None, every_block_is_proved),
        trial("pages_run_as_an_ordinary_user", no_user, pages_run_as_an_ordinary_user),
    ];
    let no_sandbox = no_sandbox();
    for (name, path) in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let runs = |block: &Block| is_run(block) && block.language != "setup";
        if !blocks(&text).iter().any(runs) {
            continue;
        }
        if let Some(reason) = &no_sandbox {
            eprintln!("SKIPPED {name}: {reason}");
        }
        let page = Trial::test(name, move || Ok(try_page(&path, &text, drops)?));
        trials.push(page.with_ignored_flag(no_sandbox.is_some()));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn pages_run_as_an_ordinary_user() {
    let mut machine = Machine::new(rustix::process::geteuid().is_root());
    let (said, code) = machine.run("id -u; ls -A ~; git log --format=%s; command -v watchfire");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(code, Some(0), "{said}");
    assert_ne!(lines[0], "0");
    assert_eq!(lines[1..3], [".gitconfig", "Begin"], "the home and the repository are fresh: {said}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that people read, by name.
fn pages() -> Vec<(String, PathBuf)> {
    let mut found = vec![("README".to_owned(), root().join("README.md"))];
    for folder in ["docs", "watchfire-backends/docs"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                found.push((path.file_stem().unwrap().to_string_lossy().into_owned(), path));
            }
        }
    }
    for crate_ in
        ["watchfire-backends", "watchfire-sandbox", "watchfire-git", "watchfire-term", "watchfire-core"]
    {
        found.push((crate_.to_owned(), root().join(crate_).join("README.md")));
    }
    found.push(("command-line".to_owned(), root().join("examples/watchfire/README.md")));
    found.sort();
    found
}

/// Returns true if the block is part of what happens on a page.
fn is_run(block: &Block) -> bool {
    let is_file = block.attributes.contains_key("file");
    (block.language == "console" || block.language == "setup" || is_file)
        && !block.attributes.contains_key("skip")
}

/// Runs a page from its first block to its last. Returns what does not hold.
fn try_page(path: &Path, text: &str, drops: bool) -> Result<(), String> {
    let blesses = std::env::var_os("WATCHFIRE_BLESS").is_some();
    let mut machine = Machine::new(drops);
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Lines by which the page has grown above the current one.
    let mut shift = 0_isize;
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    for block in blocks(text).iter().filter(|block| is_run(block)) {
        let first = block.first;
        if block.language == "setup" {
            let (said, code) = machine.run(&format!("set -e\n{}", block.lines.join("\n")));
            if code != Some(0) {
                return Err(format!("{name}:{first}: the set-up ended with {code:?}: {said}"));
            }
            continue;
        }
        if let Some(file) = block.attributes.get("file") {
            machine.write(file, &block.lines);
            wrong.extend(unread(&mut machine, file).map(|why| format!("{name}:{first}: {file}: {why}\n")));
            continue;
        }
        let mut steps = block.steps();
        let last = steps.pop();
        let expected_code = block.attributes.get("exit").map_or(0, |code| code.parse().unwrap());
        let codes = steps.iter().map(|_| 0).chain([expected_code]).collect::<Vec<_>>();
        for (step, expected_code) in steps.into_iter().chain(last).zip(codes) {
            let (said, code) = machine.run(&step.command);
            let at = step.at;
            if code != Some(expected_code) {
                wrong.push(format!("{name}:{at}: `{}` ended with {code:?}:\n{said}\n", step.command));
            }
            let actual: Vec<_> = said.lines().map(|line| line.trim_end().to_owned()).collect();
            if fits(&step.expected, &actual) {
                continue;
            }
            if blesses {
                let from = (at - 1 + step.height).checked_add_signed(shift).unwrap();
                shift += actual.len() as isize - step.expected.len() as isize;
                lines.splice(from..from + step.expected.len(), actual);
            } else {
                let expected = step.expected.join("\n");
                wrong.push(format!(
                    "{name}:{at}: `{}`\nexpected:\n{expected}\nprinted:\n{said}\n",
                    step.command
                ));
            }
        }
    }
    if blesses {
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.concat()) }
}

/// Returns what the program has against a file that was just written.
fn unread(machine: &mut Machine, file: &str) -> Option<String> {
    if !file.ends_with(".yaml") {
        return None;
    }
    // What this machine lacks is not the file's fault.
    let of_files = ["unknown key", "settings.yaml", "project.yaml", "tasks/", "malformed"];
    let found = machine.run("watchfire doctor").0 + &machine.run("watchfire task list").0;
    let is_about = |line: &&str| line.contains('✗') && of_files.iter().any(|word| line.contains(word));
    let told: Vec<_> = found.lines().filter(is_about).collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

/// Every block is run, read, compiled, or says why it is none of these.
fn every_block_is_proved() {
    let mut sources = Vec::new();
    rust_files(&root(), &mut sources);
    let doctested = |page: &Path| {
        sources.iter().any(|(source, text)| {
            let calls = text.match_indices("include_str!(\"").map(|(at, start)| &text[at + start.len()..]);
            let files = calls.filter_map(|rest| rest.split('"').next()).filter(|file| file.ends_with(".md"));
            let mut files = files.filter_map(|file| source.parent()?.join(file).canonicalize().ok());
            files.any(|file| file == page)
        })
    };
    let mut unproved = Vec::new();
    for (_, path) in pages() {
        let text = fs::read_to_string(&path).unwrap();
        for block in blocks(&text).into_iter().filter(|block| !is_run(block)) {
            let body = block.lines.join("\n");
            let is_rust = block.language == "rust";
            let is_ignored = block.flags.iter().any(|flag| flag == "ignore");
            let is_part = || sources.iter().any(|(_, source)| source.contains(&body));
            let is_proved = match is_rust {
                true if is_ignored => is_part(),
                true => doctested(&path),
                // Pictures of words, which no program reads.
                false => {
                    ["", "text"].contains(&block.language.as_str()) || block.attributes.contains_key("skip")
                }
            };
            if !is_proved {
                unproved.push(format!("{}:{}: {}", path.display(), block.first, block.language));
            }
        }
    }
    assert!(unproved.is_empty(), "neither run nor compiled, and without `skip=\"why\"`: {unproved:#?}");
}

fn rust_files(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            rust_files(&path, found);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}
