//! What folders held when they were listed, so that the next search lists only those that changed since.
//!
//! The kernel sets a folder's time of change whenever a name in it comes, goes or is another's, and nobody else can set it.
//! But two changes may share one time, so a folder that was listed right after a change is listed again.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use watchfire_core::model::Timestamp;
use watchfire_core::sandbox::NamePattern;

/// Age of a folder's last change from which its listing is reused. File systems keep times to the second, or finer.
const SETTLED: Duration = Duration::from_secs(2);

/// Upper bound for remembered folders for one set of names, and for the number of sets.
const FOLDERS: usize = 20_000;
const SETS: usize = 4;

/// Upper bound for entries that are looked at, in one folder and below one root.
pub(in crate::linux) const ENTRIES: usize = 50_000;

/// The listings of all searches, apart for each set of names that was searched for.
#[derive(Debug, Default)]
pub(in crate::linux) struct Listings(Mutex<HashMap<Names, Arc<Folders>>>);

/// Patterns that hide a name, and patterns that show it all the same.
type Names = Vec<(Vec<String>, Vec<String>)>;

/// Folders as they were, by where they are.
#[derive(Debug)]
pub(in crate::linux) struct Folders {
    patterns: Vec<NamePattern>,
    known: Mutex<HashMap<PathBuf, Arc<Listing>>>,
}

/// The entries of one folder that a search needs.
#[derive(Debug)]
pub(in crate::linux) struct Listing {
    /// Which folder it was, and when it had changed.
    identity: Identity,
    /// Number of all entries.
    pub(in crate::linux) entries: usize,
    /// There were more than are looked at.
    pub(in crate::linux) incomplete: bool,
    /// The folders in it, and what has one of the names; but no links.
    pub(in crate::linux) children: Vec<Child>,
}

#[derive(Debug)]
pub(in crate::linux) struct Child {
    pub(in crate::linux) name: OsString,
    pub(in crate::linux) is_dir: bool,
}

/// Device, inode, and the time of change in seconds and nanoseconds.
type Identity = (u64, u64, i64, i64);

impl Listings {
    /// Returns the folders that are remembered for a search for `patterns`.
    pub(in crate::linux) fn of(&self, patterns: &[NamePattern]) -> Arc<Folders> {
        let names = patterns.iter().map(|pattern| (pattern.names.clone(), pattern.except.clone())).collect();
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.len() >= SETS && !sets.contains_key(&names) {
            sets.clear();
        }
        let new = || Arc::new(Folders { patterns: NamePattern::distinct(patterns), known: Mutex::default() });
        Arc::clone(sets.entry(names).or_insert_with(new))
    }
}

impl Folders {
    /// Lists `folder`, or returns `None` if that is impossible. `now` is a time before the call.
    pub(in crate::linux) fn list(&self, folder: &Path, now: &Timestamp) -> Option<Arc<Listing>> {
        // Before it is listed, so that a change meanwhile makes it another one.
        let found = fs::metadata(folder).ok()?;
        let identity = identity(&found);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listing) = known().get(folder).filter(|listing| listing.identity == identity) {
            return Some(Arc::clone(listing));
        }
        let listing = Arc::new(self.read(folder, identity)?);
        let mut known = known();
        if known.len() >= FOLDERS {
            known.clear();
        }
        match settled(&found, now) {
            true => known.insert(folder.to_owned(), Arc::clone(&listing)),
            false => known.remove(folder),
        };
        Some(listing)
    }

    fn read(&self, folder: &Path, identity: Identity) -> Option<Listing> {
        let mut listing = Listing { identity, entries: 0, incomplete: false, children: Vec::new() };
        for entry in fs::read_dir(folder).ok()?.flatten() {
            if listing.entries == ENTRIES {
                listing.incomplete = true;
                break;
            }
            listing.entries += 1;
            // A link is judged where it leads.
            let Ok(kind) = entry.file_type() else { continue };
            let (name, is_dir) = (entry.file_name(), kind.is_dir());
            let named = || self.patterns.iter().any(|pattern| pattern.matches_name(&name));
            if !kind.is_symlink() && (is_dir || named()) {
                listing.children.push(Child { name, is_dir });
            }
        }
        Some(listing)
    }
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}

/// Returns true if the last change is so long ago that another one would have another time.
fn settled(found: &Metadata, now: &Timestamp) -> bool {
    let changed = found.ctime().checked_mul(1000).map(Timestamp::from_unix_millis);
    changed.is_some_and(|changed| now.since(&changed) > SETTLED)
}

#[cfg(test)]
mod tests {
    use watchfire_core::clock::{Clock as _, SystemClock};

    use super::*;

    fn pattern(name: &str) -> Vec<NamePattern> {
        let names = vec![name.to_owned()];
        vec![NamePattern { root: "/".into(), names, except: Vec::new(), origin: "test".to_owned() }]
    }

    fn later() -> Timestamp {
        SystemClock.now().plus(Duration::from_secs(60))
    }

    fn names(listing: &Listing) -> Vec<String> {
        let mut names: Vec<_> =
            listing.children.iter().map(|child| child.name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_listed_again_when_it_changed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/.env"), "").unwrap();
        fs::write(root.join("a/other"), "").unwrap();
        std::os::unix::fs::symlink("b", root.join("a/.env.link")).unwrap();
        let folders = Listings::default().of(&pattern(".env*"));
        let list = || folders.list(&root.join("a"), &later()).unwrap();
        let first = list();
        assert_eq!((names(&first), first.entries), (vec![".env".to_owned(), "b".to_owned()], 4));
        assert!(Arc::ptr_eq(&first, &list()));
        // What changes in files changes nothing here.
        fs::write(root.join("a/other"), "more").unwrap();
        assert!(Arc::ptr_eq(&first, &list()));
        fs::write(root.join("a/.env.new"), "").unwrap();
        assert_eq!(names(&list()), [".env", ".env.new", "b"]);
        fs::rename(root.join("a/.env.new"), root.join("a/plain")).unwrap();
        fs::remove_file(root.join("a/.env")).unwrap();
        assert_eq!(names(&list()), ["b"]);
        // Another one in its place.
        fs::create_dir_all(root.join("new/.env")).unwrap();
        fs::rename(root.join("a"), root.join("old")).unwrap();
        fs::rename(root.join("new"), root.join("a")).unwrap();
        assert_eq!(names(&list()), [".env"]);
        fs::remove_dir_all(root.join("a")).unwrap();
        assert!(folders.list(&root.join("a"), &later()).is_none());
    }

    #[test]
    fn what_changed_just_now_is_not_believed() {
        let temp = tempfile::tempdir().unwrap();
        let folders = Listings::default().of(&pattern(".env"));
        let now = SystemClock.now();
        let first = folders.list(temp.path(), &now).unwrap();
        assert!(!Arc::ptr_eq(&first, &folders.list(temp.path(), &now).unwrap()));
    }

    #[test]
    fn other_names_are_another_search() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(".env"), "").unwrap();
        let listings = Listings::default();
        let names = |of: &str| names(&listings.of(&pattern(of)).list(temp.path(), &later()).unwrap());
        assert_eq!((names("*.pem"), names(".env")), (vec![], vec![".env".to_owned()]));
        for n in 0..10 {
            assert!(names(&format!("none{n}")).is_empty());
        }
        assert!(listings.0.lock().unwrap().len() <= SETS);
    }
}
