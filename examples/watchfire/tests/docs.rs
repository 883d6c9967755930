//! What the documents name exists.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Collects the text of all Rust sources below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, text);
        } else if name.ends_with(".rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn tests_that_the_pages_name_exist() {
    let mut all = String::new();
    sources(&root(), &mut all);
    let page = |name| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let lessons = page("lessons.md");
    // Each bug has one.
    let rows: Vec<_> = lessons.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    let numbers: Vec<_> = rows.iter().map(|row| row.split('|').nth(1).unwrap().trim().to_owned()).collect();
    assert_eq!(numbers, (1..=44).map(|n: u32| n.to_string()).collect::<Vec<_>>());
    let text = page("guarantees.md") + &lessons;
    let named = text.split('`').skip(1).step_by(2).map(|quoted| quoted.rsplit("::").next().unwrap());
    // A name of a test: words, of which there are several.
    let is_name = |word: &&str| {
        word.matches('_').count() > 1
            && word.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let named: Vec<&str> = named.filter(is_name).collect();
    assert!(named.len() > 40, "{named:?}");
    let exists = |name: &&&str| all.contains(&format!("fn {name}(")) || all.contains(&format!("\"{name}\""));
    let missing: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "renamed or gone: {missing:?}");
}

/// The page shows the tests as they are in their files.
#[test]
fn the_page_on_testing_shows_the_tests() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let page = read("docs/embed-and-test.md");
    let shown: Vec<_> = page.split("````").filter_map(|part| part.strip_prefix("rust,ignore\n")).collect();
    let [scripted, fakes] = shown[..] else { panic!("{} blocks", shown.len()) };
    assert!(
        read("examples/embed/tests/scripted.rs").ends_with(scripted),
        "docs/embed-and-test.md: {scripted}"
    );
    assert!(read("examples/embed/tests/fakes.rs").contains(fakes), "docs/embed-and-test.md: {fakes}");
}

/// A registry shows a crate's README without the repository around it.
#[test]
fn readmes_of_crates_link_to_addresses() {
    for name in ["core", "backends", "sandbox", "git", "term"] {
        let folder = root().join(format!("watchfire-{name}"));
        let text = fs::read_to_string(folder.join("README.md")).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(target.starts_with("https://") || target.starts_with('#'), "{name}: {target}");
            let ours = target.strip_prefix("https://github.com/watchfire-io/watchfire-rs/blob/main/");
            let path = ours.map(|path| root().join(path.split('#').next().unwrap()));
            assert!(path.is_none_or(|path| path.exists()), "{name}: {target}");
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = fs::read(folder.join(licence)).unwrap();
            assert_eq!(own, fs::read(root().join(licence)).unwrap(), "{name}: {licence}");
        }
    }
}

/// Links between files of this repository.
#[test]
fn linked_files_exist() {
    let mut missing = Vec::new();
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let top = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(|name| root().join(name));
    for file in docs.chain(top).filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(&file).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            let is_local = !path.is_empty() && !path.contains("://");
            if is_local && !file.parent().unwrap().join(path).exists() {
                missing.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The map of CONTRIBUTING.md leads somewhere.
#[test]
fn the_map_names_what_exists() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, map) = text.split_once("## Where do I add").unwrap();
    let (map, _) = map.split_once("## ").unwrap();
    let rows: Vec<_> = map.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    for subject in ["command", "setting", "sandbox", "agent", "state of an agent", "event", "terminal"] {
        assert!(rows.iter().any(|row| row.split('|').nth(1).unwrap().contains(subject)), "{subject}");
    }
    let mut all = String::new();
    sources(&root(), &mut all);
    let mut missing = Vec::new();
    for quoted in rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2)) {
        let is_path = quoted.contains('/') && !quoted.contains(' ');
        let is_type = quoted.starts_with(char::is_uppercase) && !quoted.contains(['=', ' ']);
        let exists = match (is_path, is_type) {
            (true, _) => root().join(quoted).exists(),
            (_, true) => all.contains(&format!("pub enum {quoted} ")),
            _ => true,
        };
        missing.extend((!exists).then_some(quoted));
    }
    assert!(missing.is_empty(), "{missing:?}");
}
