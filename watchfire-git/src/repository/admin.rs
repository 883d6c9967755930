//! Recognises which of git's administration folders (`.git/worktrees/*`) belong to agents.
//!
//! The name alone proves nothing: `git worktree add ../watchfire-fix` makes an administration folder of that
//! name. Only a folder whose `gitdir` leads to the folder that Watchfire would have made under its name is
//! Watchfire's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::Result;
use watchfire_core::workspace::WorkspaceKey;

use crate::error::broken;
use crate::files;
use crate::names;
use crate::repository::layout::TOGETHER;

/// Content of the file that keeps git from pruning an agent's worktree.
pub(crate) const LOCKED: &[u8] = b"a Watchfire agent works here\n";

/// Upper bound for a file of the administration, in bytes. git writes no longer ones there.
const SMALL: u64 = 64 << 10;

/// Owner of a worktree.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    /// The agent that works under this key.
    Agent(WorkspaceKey),
    /// A verification in the scratch folder of this name.
    Scratch(String),
    /// Some other owner: a person.
    Person,
}

/// Returns the content of the `.git` that leads to an administration folder.
pub(crate) fn pointer(admin: &Path) -> Vec<u8> {
    [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat()
}

/// Returns the owner of the administration folder `admin`.
pub(crate) fn owner(admin: &Path) -> Result<Owner> {
    let name = admin.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some(rest) = name.strip_prefix(names::ADMIN) else { return Ok(Owner::Person) };
    let (owner, folder) = match names::parse_key(rest) {
        Some(key) => (Owner::Agent(key), "worktrees"),
        None if rest.starts_with(names::SCRATCH) => (Owner::Scratch(rest.to_owned()), "scratch"),
        None => return Ok(Owner::Person),
    };
    let is_ours = match checkout(admin)? {
        Some(checkout) => leads_to(&checkout, folder, &owner, rest),
        // Killed while it was made: without a `gitdir`, git takes it for no worktree. The lock may be there
        // and not yet written.
        None => lock(admin)?.is_none_or(|lock| LOCKED.starts_with(&lock)),
    };
    Ok(if is_ours { owner } else { Owner::Person })
}

/// Returns true if `checkout` is where the folder of `owner` lies.
fn leads_to(checkout: &Path, folder: &str, owner: &Owner, name: &str) -> bool {
    let ours = Path::new(".watchfire");
    if checkout.ends_with(ours.join(folder).join(name)) {
        return true;
    }
    // With others of the same work, it lies below a folder that has the name of the work.
    let (folder, name) = match owner {
        Owner::Agent(WorkspaceKey::Part { key, .. }) => (TOGETHER, key.to_string()),
        Owner::Agent(key) => (TOGETHER, key.to_string()),
        _ => (folder, name.to_owned()),
    };
    checkout.ancestors().skip(1).any(|above| above.ends_with(ours.join(folder).join(&name)))
}

/// Returns the checkout that `admin` administers, whether or not it is there; `None` if no `gitdir` names
/// one.
pub(crate) fn checkout(admin: &Path) -> Result<Option<PathBuf>> {
    let Some(pointer) = files::read_plain(&admin.join("gitdir"), SMALL)? else { return Ok(None) };
    let pointer = pointer.trim_ascii_end();
    if pointer.is_empty() {
        return Ok(None);
    }
    // Relative in repositories with `worktree.useRelativePaths`; `join` keeps an absolute path as it is.
    let pointer = admin.join(OsStr::from_bytes(pointer));
    Ok(pointer.parent().map(Path::to_path_buf))
}

/// Returns the reason that `git worktree lock` was given, if the worktree is locked.
pub(crate) fn lock(admin: &Path) -> Result<Option<Vec<u8>>> {
    files::read_plain(&admin.join("locked"), SMALL)
}

/// Returns the reason of a person's `git worktree lock`, in words, if there is one. A worktree that a person has locked
/// is never removed.
pub(crate) fn lock_of_person(admin: &Path) -> Result<Option<String>> {
    let Some(reason) = lock(admin)?.filter(|lock| lock != LOCKED) else { return Ok(None) };
    // Ours, of which a kill left a part. A person's lock may be empty, but its worktree is whole.
    if LOCKED.starts_with(&reason) && checkout(admin)?.is_none() {
        return Ok(None);
    }
    let reason = match String::from_utf8_lossy(&reason).trim() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    Ok(Some(format!("its worktree is locked{reason}: `git worktree unlock` lets it go")))
}

/// Rejects an administration folder that a person has locked.
pub(crate) fn refuse_locked(admin: &Path) -> Result<()> {
    match lock_of_person(admin)? {
        Some(reason) => Err(broken(reason).with_path(admin)),
        None => Ok(()),
    }
}

/// Rejects an administration folder that a person's worktree has under the name of an agent's.
pub(crate) fn refuse_foreign(admin: &Path) -> Result<()> {
    if admin.is_dir() && owner(admin)? == Owner::Person {
        let checkout = checkout(admin)?.unwrap_or_default();
        return Err(broken(
            "a worktree that is not an agent's has the name of this task's: remove it, or add it again under \
             another folder name",
        )
        .with_path(admin)
        .with("worktree", checkout.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_killed_while_it_was_made_is_an_agents() {
        let temp = tempfile::tempdir().unwrap();
        let admin = temp.path().join("watchfire-0001");
        fs::create_dir(&admin).unwrap();
        let is_ours = || matches!(owner(&admin).unwrap(), Owner::Agent(_));
        assert!(is_ours(), "nothing was written");
        for part in [&b""[..], &LOCKED[..9], LOCKED] {
            fs::write(admin.join("locked"), part).unwrap();
            assert!(is_ours(), "{part:?}");
        }
        fs::write(admin.join("gitdir"), "").unwrap();
        assert!(is_ours(), "its pointer was made, and not written");
        fs::write(admin.join("locked"), "a person works here").unwrap();
        assert!(!is_ours());
    }
}
