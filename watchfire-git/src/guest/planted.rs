//! Files that a guest leaves below the root and that somebody else would run.
//!
//! Git of the person, and every prompt and editor that asks it, takes commands from the nearest repository. So one
//! that could name commands is set aside when the session ends; a plain clone stays. Files that other tools run are
//! the work itself, and are named.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use watchfire_core::Result;

use crate::error::During;
use crate::files;
use crate::merge::{guard::RepositoryParts, tools};
use crate::private::copies as private;
use crate::repository::project::Project;

/// Upper bound for a configuration, in bytes.
const CONFIG: u64 = 64 << 10;
/// Depth to which folders are searched.
const DEEPEST: usize = 100;

/// Folders that package managers fill.
const INSTALLED: &[&str] = &["node_modules", "target", ".venv", "vendor"];
/// Number of files that are named.
const TOLD: usize = 20;

/// Keys of a configuration that neither name a command nor lead elsewhere.
const HARMLESS: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "gc.auto",
];

/// Beginnings of addresses that name no helper program.
const ADDRESSES: &[&str] =
    &["https://", "http://", "ssh://git@", "git@", "git://", "file:///", "/", "./", "../"];

/// Sets aside the repositories below the root that were made or changed after `began` and could run something. Returns
/// remarks for the person.
pub(super) fn set_aside(project: &Project, began: &Path) -> Result<Vec<String>> {
    let began = fs::symlink_metadata(began).during("reading when a session began")?;
    let since = (began.ctime(), began.ctime_nsec());
    let mut found = Found::default();
    search(project, &project.root, 0, &mut found);
    let mut told = Vec::new();
    let tools: Vec<_> = found.tools.into_iter().filter(|path| is_changed(path, since)).collect();
    told.extend(tell_tools(project, &tools));
    for part in found.repositories.iter().filter(|part| is_new(part, since) && !is_plain(project, part)) {
        told.push(put(project, part));
    }
    Ok(told)
}

/// Returns the parts that make folders below the root repositories: `.git`, or the `HEAD` of one without a checkout.
pub(super) fn repositories(project: &Project) -> Vec<PathBuf> {
    let mut found = Found::default();
    search(project, &project.root, 0, &mut found);
    found.repositories
}

/// The things below the root to look at.
#[derive(Debug, Default)]
struct Found {
    /// The parts that make a folder a repository: `.git`, or the `HEAD` of one without a checkout.
    repositories: Vec<PathBuf>,
    /// Files that tools run by themselves.
    tools: Vec<PathBuf>,
}

/// Returns a remark about changed files that tools run by themselves, if there are any.
fn tell_tools(project: &Project, changed: &[PathBuf]) -> Option<String> {
    let names =
        changed.iter().take(TOLD).map(|path| path.strip_prefix(&project.root).unwrap_or(path).display());
    let names: Vec<_> = names.map(|name| name.to_string()).collect();
    let more = match changed.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty())
        .then(|| format!("changed during a chat, and run by tools on their own: {}{more}", names.join(", ")))
}

fn search(project: &Project, folder: &Path, depth: usize, found: &mut Found) {
    let mut folders = Vec::new();
    let mut parts = RepositoryParts::default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        parts.note(name.as_bytes());
        if name.eq_ignore_ascii_case(OsStr::new(".git")) {
            // The project's own is the person's.
            found.repositories.extend(Some(path).filter(|path| *path != project.git && depth > 0));
        } else if is_folder && path != project.root.join(".watchfire") {
            folders.push(path);
        } else if !is_folder
            && let Ok(below) = path.strip_prefix(&project.root)
            && tools::runs_by_itself(below.as_os_str().as_bytes())
            && !below.iter().any(|part| INSTALLED.iter().any(|name| part == *name))
        {
            found.tools.push(path);
        }
    }
    if parts.make_one() {
        found.repositories.push(folder.join("HEAD"));
    }
    if depth < DEEPEST {
        folders.iter().for_each(|folder| search(project, folder, depth + 1, found));
    }
}

/// Returns true if a repository was made after `since`, or what git obeys in it was changed. No program can set back
/// the time of such a change.
fn is_new(part: &Path, since: (i64, i64)) -> bool {
    let folder = if part.is_dir() { part } else { part.parent().unwrap_or(part) };
    let hooks = files::entries(&folder.join("hooks")).unwrap_or_default().into_iter().map(|(_, path)| path);
    let obeyed = ["config", "config.worktree", "commondir", "info/attributes"].map(|name| folder.join(name));
    let is_file = fs::symlink_metadata(part).is_ok_and(|found| !found.is_dir());
    let changed = |path: &Path| is_changed(path, since);
    made(part).is_none_or(|made| made >= since)
        || (is_file && part.ends_with(".git") && changed(part))
        || obeyed.into_iter().chain(hooks).any(|path| changed(&path))
}

fn is_changed(path: &Path, since: (i64, i64)) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| (found.ctime(), found.ctime_nsec()) >= since)
}

/// Returns when the file or folder was made, or `None` if the file system does not know.
fn made(path: &Path) -> Option<(i64, i64)> {
    let made = fs::symlink_metadata(path).and_then(|found| found.created()).ok()?;
    let made = made.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((i64::try_from(made.as_secs()).ok()?, i64::from(made.subsec_nanos())))
}

/// Sets aside the repositories at `places`, which git takes for submodules, that were made or changed after `began` and could run
/// something. Returns remarks for the person.
pub(super) fn set_aside_at(project: &Project, began: &Path, places: &[PathBuf]) -> Result<Vec<String>> {
    let began = fs::symlink_metadata(began).during("reading when a session began")?;
    let since = (began.ctime(), began.ctime_nsec());
    let parts = places.iter().map(|place| place.join(".git"));
    let parts = parts.filter(|part| part.symlink_metadata().is_ok());
    Ok(parts
        .filter(|part| is_new(part, since) && !is_plain(project, part))
        .map(|part| put(project, &part))
        .collect())
}

/// Moves a repository away, and returns what is said about that.
fn put(project: &Project, part: &Path) -> String {
    let at = part.display();
    match files::set_aside(part, &private::aside(project), "repository") {
        Ok(place) => format!(
            "a chat left the repository {at}, which could run commands: it was moved to {}",
            place.display()
        ),
        Err(error) => {
            format!("a chat left the repository {at}, which could run commands ({})", error.report())
        }
    }
}

/// Returns the repository that a `.git` is, or the one of the project's own submodules that it leads to.
pub(super) fn led_to(project: &Project, part: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(part).ok()?.is_dir() {
        return Some(part.to_path_buf());
    }
    pointed(project, part)
}

/// Returns the repository of a submodule or a worktree of the project that a pointer leads to.
fn pointed(project: &Project, part: &Path) -> Option<PathBuf> {
    let text = files::read_plain(part, CONFIG).ok().flatten().unwrap_or_default();
    let target = text.strip_prefix(b"gitdir:").and_then(|target| str::from_utf8(target).ok())?.trim();
    let target = part.parent()?.join(target).canonicalize().ok()?;
    let is_own = |own: &&str| target.starts_with(project.common.join(own));
    ["modules", "worktrees"].iter().any(is_own).then_some(target)
}

/// Returns true if a repository can run nothing: as `git init` and `git clone` make it.
fn is_plain(project: &Project, part: &Path) -> bool {
    let Ok(kind) = fs::symlink_metadata(part) else { return true };
    if part.file_name() == Some(OsStr::new("HEAD")) {
        return part.parent().is_some_and(is_plain_folder);
    }
    if kind.is_dir() {
        return is_plain_folder(part);
    }
    // A pointer, as in the checkout of a submodule whose repository lies where no guest writes.
    pointed(project, part).is_some()
}

fn is_plain_folder(git: &Path) -> bool {
    let lacks = |name: &str| fs::symlink_metadata(git.join(name)).is_err();
    let hooks = git.join("hooks");
    let samples = |entries: fs::ReadDir| {
        entries.flatten().all(|entry| entry.path().extension() == Some(OsStr::new("sample")))
    };
    let leads_nowhere = [
        "commondir",
        "config.worktree",
        "info/attributes",
        "info/grafts",
        "objects/info/alternates",
        "modules",
        "worktrees",
        // What `git rebase --continue` and its like would run.
        "rebase-merge",
        "rebase-apply",
        "sequencer",
    ]
    .into_iter()
    .all(lacks);
    let has_no_hooks = !hooks.is_symlink() && fs::read_dir(&hooks).map_or(true, samples);
    leads_nowhere && has_no_hooks && is_plain_config(&git.join("config"))
}

fn is_plain_config(path: &Path) -> bool {
    let Ok(Some(text)) = files::read_plain(path, CONFIG) else { return path.symlink_metadata().is_err() };
    // libgit2 reads from a path, so what it reads is compared with what was bounded above.
    let Ok(config) = git2::Config::open(path) else { return false };
    let Ok(entries) = config.entries(None) else { return false };
    let mut is_plain = true;
    let walked = entries.for_each(|entry| {
        let (name, value) =
            (entry.name().unwrap_or_default().to_ascii_lowercase(), entry.value().unwrap_or_default());
        is_plain &= is_harmless(&name, value);
    });
    walked.is_ok()
        && is_plain
        && files::read_plain(path, CONFIG).is_ok_and(|again| again.is_some_and(|it| it == text))
}

fn is_harmless(name: &str, value: &str) -> bool {
    let of = |section: &str, key: &str| name.starts_with(section) && name.ends_with(key);
    HARMLESS.contains(&name)
        || of("branch.", ".remote")
        || of("branch.", ".merge")
        || of("remote.", ".fetch")
        || (of("remote.", ".url") && ADDRESSES.iter().any(|address| value.starts_with(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_clone_has_is_harmless() {
        for (name, value) in [
            ("core.bare", "false"),
            ("remote.origin.url", "https://example.org/x.git"),
            ("remote.origin.url", "git@example.org:x.git"),
            ("remote.a.b.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            ("branch.main.merge", "refs/heads/main"),
        ] {
            assert!(is_harmless(name, value), "{name}");
        }
        for (name, value) in [
            ("core.fsmonitor", "touch x"),
            ("core.worktree", "/"),
            ("core.hookspath", "x"),
            ("remote.origin.url", "ext::sh -c x"),
            ("remote.origin.url", "-u./x"),
            ("remote.origin.uploadpack", "x"),
            ("include.path", "x"),
            ("filter.x.clean", "x"),
            ("alias.st", "!x"),
            ("branch.main.mergeoptions", "x"),
        ] {
            assert!(!is_harmless(name, value), "{name}");
        }
    }
}
