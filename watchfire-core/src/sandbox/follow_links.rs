//! Resolution of symbolic links in paths that may not exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Resolves the symbolic links in the existing part of `path`.
#[must_use]
pub fn follow_links(path: &Path) -> PathBuf {
    // From the longest part on. A dangling link cannot be resolved and counts as a missing name.
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}
