//! Readers of git's files, for `benches/`, which puts them beside those of other crates. No part of the API.

use std::path::Path;

use watchfire_core::Result;

use crate::index::file::IndexFile;
use crate::worktree::ignore::Ignore;

/// Returns the number of entries in the index at `path`.
///
/// # Errors
/// `workspace_broken` if it is damaged.
pub fn entries(path: &Path) -> Result<usize> {
    Ok(IndexFile::read(path)?.entries().len())
}

/// Returns how many of the files at `paths` the rules of an ignore file cover.
#[must_use]
pub fn ignored(rules: &[u8], paths: &[String]) -> usize {
    let ignore = Ignore::of_rules(rules);
    paths.iter().filter(|path| ignore.matches(&[], path.as_bytes(), false)).count()
}
