//! Links, resolved as far as there is something.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Follows the links of as much of `path` as exists.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// The same for many paths in few folders, each of which is looked at once.
#[derive(Debug, Default)]
pub(crate) struct Resolver(HashMap<PathBuf, PathBuf>);

impl Resolver {
    /// As [`resolve`], with what is there.
    pub(crate) fn resolve(&mut self, path: &Path) -> (PathBuf, Option<fs::Metadata>) {
        let there = |path: PathBuf| {
            let found = fs::symlink_metadata(&path).ok();
            (path, found)
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return there(resolve(path));
        };
        let folder = match self.0.get(folder) {
            Some(known) => known.clone(),
            None => {
                let (real, _) = self.resolve(folder);
                self.0.insert(folder.to_owned(), real.clone());
                real
            }
        };
        // Only a link needs more than its folder.
        match there(folder.join(name)) {
            (link, Some(found)) if found.is_symlink() => there(resolve(&link)),
            place => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn one_by_one_or_many_is_the_same() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        symlink("a", root.join("to-a")).unwrap();
        symlink(root.join("to-a/b"), root.join("a/to-b")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let mut many = Resolver::default();
        for name in [
            "",
            "a",
            "to-a",
            "to-a/b",
            "to-a/to-b/x/y",
            "a/to-b",
            "broken",
            "broken/x",
            "circle",
            "circle/x",
            "none/x",
            "a/file",
            "a/file/x",
            "to-a/file/x",
        ] {
            let path = root.join(name);
            for _ in 0..2 {
                let (real, found) = many.resolve(&path);
                assert_eq!(real, resolve(&path), "{name}");
                assert_eq!(found.is_some(), fs::symlink_metadata(&real).is_ok(), "{name}");
            }
        }
        assert_eq!(many.resolve(Path::new("/")).0, Path::new("/"));
    }
}
