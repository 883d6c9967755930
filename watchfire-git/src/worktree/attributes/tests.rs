use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 5] = ["merge", "filter", "ident", "working-tree-encoding", "eol"];
const PATHS: [&str; 12] =
    ["a", "b.x", "ab", "A", "d/a", "d/b.x", "d/e/a", "d/e/ab.x", "d/e/f/a", "e/a b", "e/[a]", "d/d"];

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "d", "e", "*", "**", "?", "[ab]", "[!a]", "/", "/", ".x", "\\a", " ", "A", "\"",
    ])
}

fn line() -> impl Strategy<Value = String> {
    let pattern = prop::collection::vec(piece(), 1..5).prop_map(|pieces| pieces.concat());
    let pattern = prop_oneof![
        6 => pattern,
        1 => Just("[attr]mine".to_owned()),
        1 => Just("[attr]binary".to_owned()),
        1 => Just("!a".to_owned()),
        1 => Just("\"e/a\\040b\"".to_owned()),
        1 => Just("# a".to_owned()),
        1 => Just("d/".to_owned()),
        1 => Just("*".to_owned()),
    ];
    let given = prop::sample::select(vec![
        "merge",
        "-merge",
        "!merge",
        "merge=union",
        "binary",
        "-binary",
        "mine",
        "eol=crlf",
        "!eol",
        "filter=x",
        "ident",
        "-ident",
        "working-tree-encoding=UTF-16",
        "b@d",
        "builtin_objectmode",
        "text",
    ]);
    let gives = prop::collection::vec(given, 0..4).prop_map(|words| words.join(" "));
    (pattern, gives, prop::sample::select(vec![" ", "\t", " \t "]))
        .prop_map(|(p, g, blank)| format!("{p}{blank}{g}"))
}

fn file() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::collection::vec(line(), 0..6).prop_map(|lines| lines.join("\n") + "\n"))
}

/// What `git check-attr` says, in the order of paths and names.
fn asked_of_git(root: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["check-attr", "--stdin", "-z"]).args(NAMES);
    git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut git = git.spawn().unwrap();
    let paths: String = PATHS.iter().map(|path| format!("{path}\0")).collect();
    git.stdin.take().unwrap().write_all(paths.as_bytes()).unwrap();
    let said = git.wait_with_output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8(said.stdout).unwrap();
    said.split('\0').skip(2).step_by(3).map(str::to_owned).collect()
}

fn asked_of_us(root: &Path) -> Vec<String> {
    let repo = git2::Repository::open(root).unwrap();
    let attributes = Attributes::open(&repo, root, Box::new(|_| None)).unwrap();
    let values = PATHS.iter().flat_map(|path| attributes.of(path.as_bytes(), NAMES).unwrap());
    values
        .map(|value| match value {
            None => "unspecified".to_owned(),
            Some(Value::Set) => "set".to_owned(),
            Some(Value::Unset) => "unset".to_owned(),
            Some(Value::Text(text)) => String::from_utf8(text).unwrap(),
        })
        .collect()
}

fn repository() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let repo = git2::Repository::init(temp.path()).unwrap();
    let global = temp.path().join(".git/global");
    repo.config().unwrap().set_str("core.attributesFile", global.to_str().unwrap()).unwrap();
    fs::create_dir_all(temp.path().join("d/e/f")).unwrap();
    fs::create_dir_all(temp.path().join(".git/info")).unwrap();
    temp
}

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 5000 } else { 150 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn they_are_those_of_git(files in [file(), file(), file(), file(), file()], fold in any::<bool>()) {
        let temp = repository();
        let root = temp.path();
        git2::Repository::open(root).unwrap().config().unwrap().set_bool("core.ignorecase", fold).unwrap();
        let places =
            [".gitattributes", "d/.gitattributes", "d/e/.gitattributes", ".git/info/attributes", ".git/global"];
        for (place, text) in places.into_iter().zip(&files) {
            if let Some(text) = text {
                fs::write(root.join(place), text).unwrap();
            }
        }
        let (theirs, ours) = (asked_of_git(root), asked_of_us(root));
        let mut questions = PATHS.iter().flat_map(|path| NAMES.map(|name| format!("{path}: {name}")));
        let wrong: Vec<_> = theirs.iter().zip(&ours).map(|(a, b)| (questions.next(), a, b)).filter(|(_, a, b)| a != b).collect();
        prop_assert!(wrong.is_empty(), "{:?}", wrong);
    }
}

#[test]
fn what_is_no_file_gives_nothing() {
    let temp = repository();
    let root = temp.path();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join(".gitattributes"), rustix::fs::Mode::RUSR).unwrap();
    fs::write(root.join("real"), "* merge=union\n").unwrap();
    std::os::unix::fs::symlink("../real", root.join("d/.gitattributes")).unwrap();
    assert!(asked_of_us(root).iter().all(|value| value == "unspecified"));
}

#[test]
fn no_pattern_keeps_us_busy() {
    let temp = repository();
    let root = temp.path();
    let began = Instant::now();
    // The backtracking of git and libgit2 would not come to an end.
    fs::write(root.join(".gitattributes"), format!("{}b merge=union\n", "*a".repeat(60))).unwrap();
    let repo = git2::Repository::open(root).unwrap();
    let attributes = Attributes::open(&repo, root, Box::new(|_| None)).unwrap();
    let path = "a".repeat(255);
    for _ in 0..1000 {
        assert_eq!(attributes.of(path.as_bytes(), ["merge"]).unwrap(), [None]);
    }
    assert!(began.elapsed() < LIMIT);
    // Thousands of the longest lines end at the limit, by name.
    let line = format!("d/{}b merge=union\n", "*a".repeat(900));
    fs::write(root.join(".gitattributes"), line.repeat(2000)).unwrap();
    let attributes = Attributes::open(&repo, root, Box::new(|_| None)).unwrap();
    attributes.spent.set(LIMIT - Duration::from_millis(50));
    let path = format!("d/{}", "a".repeat(4000));
    let error = loop {
        if let Err(error) = attributes.of(path.as_bytes(), ["merge"]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.report().contains(".gitattributes"), "{}", error.report());
}
