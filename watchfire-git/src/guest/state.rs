//! HEAD and the references of one side of an exchange.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::Oid;
use watchfire_core::Result;

use crate::error::broken;
use crate::files;
use crate::objects::id::hex;
use crate::private::agent_refs;
use crate::private::copies::small;
use crate::repository::left::References;
use crate::repository::project::Project;

/// Upper bound for the folders of references that are looked at.
const MOST: usize = 20_000;

/// The target of HEAD.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Head {
    /// A branch, by its full name. It may have no commit yet.
    Branch(String),
    /// A commit.
    Commit(Oid),
}

impl Head {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        if let Some(id) = hex(text) {
            return Some(Self::Commit(id));
        }
        let name = str::from_utf8(text.strip_prefix(b"ref:")?).ok()?.trim();
        let is_branch = name.starts_with("refs/heads/") && git2::Reference::is_valid_name(name);
        is_branch.then(|| Self::Branch(name.to_owned()))
    }

    /// Returns the content of a file `HEAD`.
    pub(crate) fn to_line(&self) -> String {
        match self {
            Self::Branch(name) => format!("ref: {name}\n"),
            Self::Commit(id) => format!("{id}\n"),
        }
    }
}

/// HEAD and the references of a repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) head: Head,
    pub(crate) refs: References,
}

impl State {
    /// Reads the person's repository, without references that are only ours.
    pub(crate) fn of_person(project: &Project) -> Result<Self> {
        let mut state = Self::read(&project.git)?;
        state.refs.retain(|name, _| !is_ours(name) && name != crate::private::copies::STASH);
        Ok(state)
    }

    /// Reads a git directory, which an agent may have written.
    pub(crate) fn read(top: &Path) -> Result<Self> {
        let head =
            || Ok::<_, watchfire_core::Error>(small(&top.join("HEAD"))?.and_then(|text| Head::parse(&text)));
        // A git at work may move HEAD while the references are read.
        for _ in 0..3 {
            let (before, refs) = (head()?, agent_refs::all(top)?);
            match (before, head()?) {
                (Some(before), after) if after.as_ref() == Some(&before) => {
                    return Ok(Self { head: before, refs });
                }
                (None, None) => break,
                _ => {}
            }
        }
        Err(broken("HEAD names neither a branch nor a commit").with_path(top.join("HEAD")))
    }

    /// Returns the commit that HEAD names, or `None` for a branch without one.
    pub(crate) fn commit(&self) -> Option<Oid> {
        match &self.head {
            Head::Branch(name) => self.refs.get(name).copied(),
            Head::Commit(id) => Some(*id),
        }
    }

    /// Returns the references as a guest sees them at first.
    pub(crate) fn packed(&self) -> Vec<u8> {
        agent_refs::to_packed(&self.refs)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = self.head.to_line();
        for (name, id) in &self.refs {
            _ = writeln!(text, "{id} {name}");
        }
        text.into_bytes()
    }

    /// Parses what [`to_bytes`](Self::to_bytes) wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let text = str::from_utf8(bytes).unwrap_or_default();
        let (head, rest) = text.split_once('\n').unwrap_or_default();
        let head = Head::parse(head.as_bytes())
            .ok_or_else(|| broken("the record of a session's copies is damaged"))?;
        let line = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.to_owned(), hex(id.as_bytes())?))
        };
        Ok(Self { head, refs: rest.lines().filter_map(line).collect() })
    }
}

/// Returns true for references that an exchange carries over: branches, tags and notes. Branches of remotes stay out,
/// because the guest could give any commit that name.
pub(crate) fn is_carried(name: &str) -> bool {
    let prefixes = ["refs/heads/", "refs/tags/", "refs/notes/"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && !is_agents(name)
}

/// Returns true for the branches of tasks. A guest sees them, and cannot change them.
fn is_agents(name: &str) -> bool {
    name.starts_with("refs/heads/watchfire/")
}

fn is_ours(name: &str) -> bool {
    name.starts_with("refs/watchfire/") && !name.starts_with("refs/watchfire/left/chat/")
}

/// Returns a fingerprint of the repository `top`, made of file metadata. Every change by git to HEAD, index, references
/// or stash changes it: git replaces files, and that changes the time of their folder.
pub(crate) fn look(top: &Path) -> Result<Vec<u8>> {
    let mut seen = String::new();
    let mut note = |path: &Path| {
        if let Ok(found) = fs::symlink_metadata(path) {
            let (inode, size) = (found.ino(), if found.is_dir() { 0 } else { found.size() });
            _ = write!(seen, "{inode} {size} {}.{} ", found.mtime(), found.mtime_nsec());
        }
        seen.push('\n');
    };
    for name in ["HEAD", "index", "packed-refs", "refs/stash", "logs/refs/stash", "logs/HEAD"] {
        note(&top.join(name));
    }
    let mut pending: Vec<PathBuf> = ["heads", "tags", "notes"].map(|name| top.join("refs").join(name)).into();
    let mut count = 0;
    while let Some(folder) = pending.pop() {
        count += 1;
        if count > MOST {
            return Err(broken("the references lie in too many folders").with_path(top));
        }
        note(&folder);
        for (_, path) in files::entries(&folder)? {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            if is_folder && !path.ends_with("refs/heads/watchfire") {
                pending.push(path);
            }
        }
    }
    Ok(seen.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_are_written() {
        let id = Oid::from_str(&"7".repeat(40)).unwrap();
        let refs: References = [("refs/heads/a".to_owned(), id), ("refs/tags/b c".to_owned(), id)].into();
        for head in [Head::Branch("refs/heads/a".to_owned()), Head::Commit(id)] {
            let state = State { head, refs: refs.clone() };
            assert_eq!(State::from_bytes(&state.to_bytes()).unwrap(), state);
            assert_eq!(state.commit(), Some(id));
        }
        for odd in ["", "ref: refs/tags/x\n", "ref: refs/heads/../x\n", "123\n"] {
            assert!(State::from_bytes(odd.as_bytes()).is_err(), "{odd}");
        }
    }

    #[test]
    fn only_what_is_the_persons_is_carried() {
        for name in ["refs/heads/main", "refs/tags/v1", "refs/notes/commits", "refs/heads/watchfire-x"] {
            assert!(is_carried(name), "{name}");
        }
        for name in
            ["refs/heads/watchfire/0001", "refs/remotes/origin/main", "refs/replace/x", "refs/stash", "HEAD"]
        {
            assert!(!is_carried(name), "{name}");
        }
    }
}
