//! Links, resolved as far as there is something.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use watchfire_core::sandbox::follow_links as resolve;
use watchfire_core::sandbox::{RuleAccess, SandboxPolicy};

/// [`resolve`] for many paths in few folders, each of which is looked at once.
#[derive(Debug, Default)]
pub(crate) struct Resolver(HashMap<PathBuf, Folder>);

/// The resolved path of a folder, and whether it exists.
#[derive(Clone, Debug)]
struct Folder {
    real: PathBuf,
    there: bool,
}

impl Resolver {
    /// Resolves `path` as [`resolve`] does, and returns the metadata of the file there.
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
                let (real, found) = self.resolve(folder);
                let known = Folder { real, there: found.is_some_and(|found| found.is_dir()) };
                self.0.insert(folder.to_owned(), known.clone());
                known
            }
        };
        let path = folder.real.join(name);
        if !folder.there {
            return (path, None);
        }
        // Only a link needs more than its folder.
        match there(path) {
            (link, Some(found)) if found.is_symlink() => there(resolve(&link)),
            place => place,
        }
    }
}

/// Returns true if the path of a rule or a bind, which resolves to `real`, leads out of the granted folder around it.
/// An agent that wrote in that folder may have made the link, so the rule must not open what it leads to.
///
/// What lies in a denied folder was made by no agent.
pub(crate) fn leads_out(policy: &SandboxPolicy, path: &Path, real: &Path) -> bool {
    for above in path.ancestors() {
        let Ok(found) = policy.rules.binary_search_by(|rule| rule.path.as_path().cmp(above)) else {
            continue;
        };
        let denied = policy.rules.get(found).is_some_and(|rule| rule.access == RuleAccess::Deny);
        if denied {
            return false;
        }
        if above != path {
            let around = resolve(above);
            return !real.starts_with(&around) || leads_out(policy, above, &around);
        }
    }
    false
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

    #[test]
    fn a_link_that_an_agent_can_make_opens_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["work/in", "elsewhere", "hidden", "project/work"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink("../elsewhere", root.join("work/out")).unwrap();
        symlink("in", root.join("work/inside")).unwrap();
        symlink("../elsewhere", root.join("hidden/out")).unwrap();
        symlink("elsewhere", root.join("alias")).unwrap();
        let mut policy = SandboxPolicy::builder().deny(root.join("hidden"), "");
        for path in ["work", "work/out", "work/out/below", "work/inside", "hidden/out", "alias", "alias/x"] {
            policy = policy.read(root.join(path), "");
        }
        let policy = policy.build().unwrap();
        let out = |path: &str| leads_out(&policy, &root.join(path), &resolve(&root.join(path)));
        assert!(out("work/out") && out("work/out/below"));
        for path in ["work", "work/inside", "hidden/out", "alias", "alias/x"] {
            assert!(!out(path), "{path}");
        }
    }
}
