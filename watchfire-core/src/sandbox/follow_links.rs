//! Where a path leads.

use std::fs;
use std::path::{Path, PathBuf};

/// Follows the links of as much of `path` as exists.
#[must_use]
pub fn follow_links(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}
