//! Finds the only file that matches a pattern.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the only existing file that matches an absolute pattern, in which `*` stands for any part of one name.
/// Returns `None` if no file or several match: a guess could show another session's words.
pub(crate) fn only(pattern: &Path) -> Option<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.components().skip_while(|part| *part == Component::RootDir) {
        let Component::Normal(name) = part else { return None };
        let name = name.to_str()?;
        found = match name.split_once('*') {
            None => found.iter().map(|dir| dir.join(name)).filter(|path| path.exists()).collect(),
            Some(ends) => found.iter().flat_map(|dir| children(dir, ends)).collect(),
        };
    }
    found.retain(|path| path.is_file());
    match found.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

fn children(dir: &Path, (start, end): (&str, &str)) -> Vec<PathBuf> {
    let matches =
        // The two ends must not overlap: `ab*bc` does not match `abc`.
        |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(matches))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_match_counts() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/rollout-1-x.jsonl", "b/rollout-2-y.jsonl", "b/other-x.txt"] {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), "").unwrap();
        }
        let one = |pattern: &str| only(&dir.path().join(pattern));
        assert_eq!(one("a/rollout-*-x.jsonl"), Some(dir.path().join("a/rollout-1-x.jsonl")));
        assert_eq!(one("*/*-x.jsonl"), Some(dir.path().join("a/rollout-1-x.jsonl")));
        assert_eq!(one("*/rollout-*"), None, "two match");
        assert_eq!(one("none/*"), None);
    }
}
