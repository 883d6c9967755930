//! Our readers of git's files beside those of the gix crates and of libgit2.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use gix_ignore::Search;
use gix_ignore::glob::pattern::Case;
use gix_ignore::search::Ignore;
use watchfire_benches::{Report, millis};
use watchfire_git::bench;

use crate::repository::{Done, Repository};

const ROUNDS: usize = 15;
/// Files that are asked about.
const PATHS: usize = 50_000;
/// Rules as people write them, five of each kind.
const KINDS: usize = 25;
/// Stars of a pattern that makes a matcher try everything.
const STARS: usize = 6;

pub(crate) fn measure(at: &Repository, section: &str, report: &mut Report) -> Done {
    let index = at.root.join(".git/index");
    let ours = times(|| bench::entries(&index).unwrap_or_default());
    let gix = times(|| gix_entries(&index));
    let git2 = times(|| git2::Index::open(&index).map_or(0, |index| index.len()));
    report.add(section, "an index, gix-index", "ms", gix.clone());
    report.compare(section, "an index, ours", "ms", ours.clone(), "gix-index", &gix);
    report.compare(section, "  ours", "ms", ours, "libgit2", &git2);
    Ok(())
}

/// Measures ignore files, usual and hostile ones.
pub(crate) fn measure_rules(report: &mut Report) {
    let section = "ignore files";
    let mut rules = String::new();
    for n in 0..KINDS {
        let _ = write!(rules, "*.ext{n}\nfolder{n}/\n/root{n}\na{n}/**/b{n}\n!keep{n}.*\n");
    }
    let paths: Vec<_> = (0..PATHS)
        .map(|n| format!("src/module{}/part{}/file{n}.ext{}", n % 90, n % 7, n % (2 * KINDS)))
        .collect();
    row(report, section, "50,000 paths, 125 rules", &rules, &paths);
    let hostile = format!("{}b\n", "*a".repeat(STARS));
    row(report, section, "a pattern that tries everything", &hostile, &["a".repeat(60) + "c"]);
}

fn row(report: &mut Report, section: &str, name: &str, rules: &str, paths: &[String]) {
    assert_eq!(bench::ignored(rules.as_bytes(), paths), gix_ignored(rules, paths), "{name}");
    let ours = times(|| bench::ignored(rules.as_bytes(), paths));
    let gix = times(|| gix_ignored(rules, paths));
    report.add(section, format!("{name}, gix-ignore"), "ms", gix.clone());
    report.compare(section, format!("{name}, ours"), "ms", ours, "gix-ignore", &gix);
}

fn gix_entries(path: &Path) -> usize {
    let read = gix_index::File::at(path, gix_hash::Kind::Sha1, false, gix_index::decode::Options::default());
    read.map_or(0, |index| index.entries().len())
}

fn gix_ignored(rules: &str, paths: &[String]) -> usize {
    let mut search = Search::default();
    let _ =
        search.add_patterns_buffer(rules.as_bytes(), ".gitignore", None, Ignore { support_precious: false });
    let covers = |path: &&String| {
        let found =
            search.pattern_matching_relative_path(path.as_bytes().into(), Some(false), Case::Sensitive);
        found.is_some_and(|found| !found.pattern.is_negative())
    };
    paths.iter().filter(covers).count()
}

fn times<T>(mut work: impl FnMut() -> T) -> Vec<f64> {
    let mut time = || {
        let began = Instant::now();
        black_box(work());
        millis(began)
    };
    time();
    (0..ROUNDS).map(|_| time()).collect()
}
