//! The table of `docs/sandbox.md`: what came of the questions, for each sandbox, as root and as an ordinary user.
//!
//! `WATCHFIRE_TABLE=write cargo test -p watchfire-sandbox --test confined probe_`, as root and with all sandboxes there,
//! writes it. What it says about gaps is what every run asserts, and a test compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libtest_mimic::{Completion, Failed};

use crate::file_systems;
use crate::probes::Probe;
use crate::questions::GROUPS;

/// The sandboxes, as the tests and as the document call them.
const COLUMNS: &[(&str, &str)] = &[
    ("landlock", "`landlock`"),
    ("bwrap", "`bwrap`"),
    ("landlock_alone", "Landlock alone"),
    ("birdcage", "`birdcage`"),
];

const BEGIN: &str = "<!-- probes -->\n";
const END: &str = "<!-- /probes -->\n";

/// Around the table of file systems. Every run asserts the rows that it can make.
const FILE_SYSTEMS: (&str, &str) = ("<!-- file systems -->\n", "<!-- /file systems -->\n");

/// Whether a question meant something, by the name of its test.
static OUTCOMES: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Remembers what became of a test. One that failed has no place in a table.
pub(crate) fn record(name: &str, outcome: &Result<Completion, Failed>) {
    if let (Ok(mut outcomes), Ok(completion)) = (OUTCOMES.lock(), outcome) {
        outcomes.insert(name.to_owned(), matches!(completion, Completion::Completed));
    }
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sandbox.md")
}

/// Writes the table, if that is asked for.
pub(crate) fn write() {
    if std::env::var_os("WATCHFIRE_TABLE").is_none() {
        return;
    }
    let written = || -> Result<(), String> {
        let outcomes = OUTCOMES.lock().map_err(|error| error.to_string())?;
        let rows = GROUPS.iter().map(|group| row(group, &outcomes)).collect::<Result<String, _>>()?;
        let text = std::fs::read_to_string(document()).map_err(|error| error.to_string())?;
        let (begin, end) = FILE_SYSTEMS;
        let (before, rest) = text.split_once(begin).ok_or("the document has no place for file systems")?;
        let (_, after) = rest.split_once(end).ok_or("the document has no place for file systems")?;
        let text = format!("{before}{begin}{}{end}{after}", file_systems::table());
        let (before, rest) = text.split_once(BEGIN).ok_or("the document has no place for it")?;
        let (_, after) = rest.split_once(END).ok_or("the document has no place for it")?;
        let text = format!("{before}{BEGIN}{}{rows}\n{}{END}{after}", head(), gaps());
        std::fs::write(document(), text).map_err(|error| error.to_string())
    };
    match written() {
        Ok(()) => println!("the table is written"),
        Err(why) => println!("the table is not written: {why}"),
    }
}

fn head() -> String {
    let names: Vec<_> = COLUMNS.iter().map(|(_, name)| *name).collect();
    format!("| | asked | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(COLUMNS.len()))
}

fn row((name, probes): &(&str, &[Probe]), outcomes: &BTreeMap<String, bool>) -> Result<String, String> {
    let mut row = format!("| {name} | {} |", probes.len());
    for (variant, _) in COLUMNS {
        let mut cells = Vec::new();
        for (prefix, root) in [("", true), ("user::", false)] {
            let (mut held, mut asked) = (0, 0);
            for probe in *probes {
                let test = format!("{prefix}{variant}::probe_{}", probe.name);
                if *outcomes.get(&test).ok_or(format!("{test} was not passed"))? {
                    asked += 1;
                    held += usize::from(!probe.is_gap(variant, root));
                }
            }
            cells.push(format!("{held}/{asked}"));
        }
        // Writing to a string does not fail.
        let _ = write!(row, " {} |", cells.join(" · "));
    }
    Ok(row + "\n")
}

/// What each is known to get wrong.
fn gaps() -> String {
    let mut text = String::new();
    for (works, what) in [(false, "These get through"), (true, "These do not work, although they should")] {
        let _ = writeln!(text, "{what}, as every run of the probes asserts:\n");
        for (variant, name) in COLUMNS {
            let all = GROUPS.iter().flat_map(|(_, probes)| *probes).filter(|probe| probe.works == works);
            let named = all.filter_map(|probe| {
                let words = probe.name.replace('_', " ");
                match (probe.is_gap(variant, true), probe.is_gap(variant, false)) {
                    (true, true) => Some(words),
                    (true, false) => Some(format!("{words} (as root)")),
                    (false, true) => Some(format!("{words} (as a user)")),
                    (false, false) => None,
                }
            });
            let named: Vec<_> = named.collect();
            let named = if named.is_empty() { "nothing".to_owned() } else { named.join("; ") };
            let _ = writeln!(text, "- {name}: {named}");
        }
        text.push('\n');
    }
    text
}

/// The document's rows and gaps are those of this suite.
pub(crate) fn is_of_this_suite() -> Result<(), Failed> {
    let mut names = BTreeSet::new();
    if let Some(twice) = GROUPS.iter().flat_map(|(_, probes)| *probes).find(|probe| !names.insert(probe.name))
    {
        // What came of a question is remembered by its name.
        return Err(format!("two questions have the name {}", twice.name).into());
    }
    let text = std::fs::read_to_string(document())?;
    let missing = || Failed::from("the document has no table of the probes");
    let (_, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (table, _) = rest.split_once(END).ok_or_else(missing)?;
    let rows = GROUPS.iter().map(|(name, probes)| format!("| {name} | {} |", probes.len()));
    let mut shown = table.lines().skip(head().lines().count());
    for row in rows {
        if !shown.next().is_some_and(|line| line.starts_with(&row)) {
            return Err(format!("stale: no row {row}; write the table anew, see confined/table.rs").into());
        }
    }
    let (begin, end) = FILE_SYSTEMS;
    let (_, rest) = text.split_once(begin).ok_or("the document has no table of file systems")?;
    let shown = rest.split_once(end).map(|(shown, _)| shown);
    if shown != Some(&file_systems::table()) {
        return Err(format!("stale table of file systems:\n{}", file_systems::table()).into());
    }
    match table.ends_with(&gaps()) {
        true => Ok(()),
        false => Err(format!("stale gaps; write the table anew, see confined/table.rs:\n{}", gaps()).into()),
    }
}
