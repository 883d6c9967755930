//! Names of branches, references and folders.

use std::fmt::Display;

use watchfire_core::model::{Attempt, SessionId};
use watchfire_core::workspace::WorkspaceKey;

/// Prefix of agents' branches, without `refs/heads/`.
pub(crate) const BRANCHES: &str = "watchfire/";
/// Prefix of references to rescued work.
pub(crate) const RESCUE: &str = "refs/watchfire/rescue/";
/// Prefix of references to tips that an agent left behind when it moved its branch or its HEAD.
pub(crate) const LEFT: &str = "refs/watchfire/left/";
/// The reference to the backup of the project's settings and tasks, for `restore`.
pub(crate) const BACKUP: &str = "refs/watchfire/backup";
/// Prefix of references to merges that wait for a held target.
pub(crate) const QUEUE: &str = "refs/watchfire/queue/";
/// Prefix of references to the commits that work starts from.
pub(crate) const BASE: &str = "refs/watchfire/base/";
/// Prefix of our administration folders in `.git/worktrees`.
pub(crate) const ADMIN: &str = "watchfire-";

/// Prefix of the names of scratch folders.
pub(crate) const SCRATCH: &str = "wf-scratch-";

/// Returns the name of the branch of `key`, without `refs/heads/`.
pub(crate) fn branch(key: &WorkspaceKey) -> String {
    format!("{BRANCHES}{key}")
}

/// Returns the full name of a branch.
pub(crate) fn head(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns the reference to the base of `key`.
pub(crate) fn base(key: &WorkspaceKey) -> String {
    format!("{BASE}{key}")
}

/// Returns the rescue reference of one attempt.
pub(crate) fn rescue(key: &WorkspaceKey, attempt: Attempt) -> String {
    format!("{RESCUE}{key}/{attempt}")
}

/// Returns the reference that keeps a tip which a branch no longer has, left behind by `who`: the key of the work,
/// or a session in the root.
pub(crate) fn left(who: &dyn Display, tip: git2::Oid) -> String {
    format!("{LEFT}{who}/{tip}")
}

/// Returns the reference that keeps the tip of a reference `name`, given in full, that `who` left behind.
pub(crate) fn left_named(who: &dyn Display, name: &str) -> String {
    format!("{LEFT}{who}/{}", name.strip_prefix("refs/").unwrap_or(name))
}

/// Returns the name under which a session in the root leaves commits behind.
pub(crate) fn guest(session: &SessionId) -> String {
    format!("chat/{session}")
}

/// Returns true if a reference with the full name `name` would lie at or below a name that [`left`] returns.
pub(crate) fn is_object_name(name: &str) -> bool {
    let first = name.strip_prefix("refs/").unwrap_or(name).split('/').next().unwrap_or_default();
    first.len() >= 40 && first.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of the administration folder of `key` in `.git/worktrees`.
pub(crate) fn admin(key: &WorkspaceKey) -> String {
    format!("{ADMIN}{key}")
}

/// Returns true if `name` may stand after the `@` of a key.
pub(crate) fn is_project_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(plain)
}

/// Parses a key such as `0001`, `0001.2`, `chat` or `0001@shop`. Accepts only the spelling that we write.
pub(crate) fn parse_key(text: &str) -> Option<WorkspaceKey> {
    if let Some((key, of)) = text.split_once('@') {
        return is_project_name(of).then_some(parse_key(key)?.part(of));
    }
    if text == WorkspaceKey::Chat.to_string() {
        return Some(WorkspaceKey::Chat);
    }
    let (task, parallel) = match text.split_once('.') {
        Some((task, parallel)) => (task, Some(parallel.parse().ok()?)),
        None => (text, None),
    };
    let key = WorkspaceKey::one_of(task.parse().ok()?, parallel);
    // `1` and `0001.02` are numbers too, but no name of ours is spelled so.
    (key.to_string() == text).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for text in ["0001", "0001.2", "12345", "chat", "0001@shop-1a", "chat@shop"] {
            assert_eq!(parse_key(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "1",
            "Chat",
            "chat.2",
            "0001.",
            "0001.lock",
            "-x",
            "0001.02",
            "#0001",
            "0000",
            "0001@",
            "1@shop",
            "0001@a@b",
            "0001@Shop",
        ] {
            assert!(parse_key(text).is_none(), "{text}");
        }
    }
}
